/* SPDX-License-Identifier: MIT */
/* oncpu_lua.c: the Lua face `lunette.oncpu`: samples of the CPU clock into a builder of lunette.profile. Opening and
 * the window run on a worker thread. */
#include <stdlib.h>
#include <string.h>

#include "host/job.h"
#include "oncpu/oncpu.h"
#include "profile/profile_lua.h"

#define ONCPU_TYPE "lunette.oncpu"

int luaopen_lunette_oncpu(lua_State *L);

/* Windows at a time: each keeps one of the loop's worker threads. Loop thread only. */
enum { WINDOWS_MAX = 6 };
static int windows;

typedef struct session_ud {
    oncpu *c;           /* NULL: closed */
    profile_builder *b; /* a reference: a window that was given up adds to it until it has ended */
    bool ran, ended;
} session_ud;

typedef struct job {
    host_job job;
    oncpu *c; /* a reference; opening: NULL until it is open */
    oncpu_cfg cfg;
    int64_t until;
    bool window; /* one of those that count */
} job;

static void job_fini(void *p)
{
    job *j = p;
    oncpu_unref(j->c);
    if (j->cfg.builder) profile_builder_unref(j->cfg.builder);
    if (j->window) windows--;
}

static int open_work(void *p)
{
    job *j = p;
    return oncpu_open(&j->cfg, &j->c, &j->job.e);
}

static int push_opened(lua_State *L, void *p)
{
    job *j = p;
    session_ud *u = lua_newuserdatauv(L, sizeof *u, 0); // session
    *u = (session_ud){0};
    luaL_setmetatable(L, ONCPU_TYPE);
    u->c = j->c;
    j->c = NULL;
    u->b = profile_builder_ref(j->cfg.builder);
    return 1;
}

static const host_job_class OPENING = {.work = open_work, .push = push_opened, .fini = job_fini};

static lua_Integer option(lua_State *L, const char *key, lua_Integer max)
{
    lua_getfield(L, 1, key);
    lua_Integer v = luaL_optinteger(L, -1, 0);
    if (v < 0 || v > max) luaL_error(L, "oncpu.open: %s is out of range", key);
    lua_pop(L, 1);
    return v;
}

/* oncpu.open{pid=, builder=, hz=, stack_bytes=} */
static int l_open(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    oncpu_cfg cfg = {.pid = (int)option(L, "pid", INT32_MAX),
                     .hz = (uint32_t)option(L, "hz", ONCPU_HZ_MAX),
                     .stack_bytes = (uint32_t)option(L, "stack_bytes", PERF_STACK_BYTES_MAX)};
    luaL_argcheck(L, cfg.pid > 0, 1, "no process id");
    lua_getfield(L, 1, "builder");
    profile_builder *b = profile_lua__builder(L, -1);
    job *j = host_job_new(L, sizeof *j, &OPENING);
    j->cfg = cfg;
    j->cfg.builder = profile_builder_ref(b);
    return host_job_run(L, j);
}

static session_ud *check(lua_State *L)
{
    session_ud *u = luaL_checkudata(L, 1, ONCPU_TYPE);
    if (!u->c) luaL_argerror(L, 1, "the session is closed");
    return u;
}

static int run_work(void *p)
{
    job *j = p;
    return oncpu_run(j->c, j->until, &j->job.e);
}

static void ran(lua_State *L, void *p)
{
    (void)p;
    session_ud *u = luaL_checkudata(L, 1, ONCPU_TYPE);
    u->ended = true;
}

static int push_ran(lua_State *L, void *p)
{
    (void)p;
    lua_pushboolean(L, true);
    return 1;
}

static void stop_run(void *p) { oncpu_stop(((job *)p)->c); }

static const host_job_class RUNNING = {
    .work = run_work, .push = push_ran, .fini = job_fini, .stop = stop_run, .ended = ran};

/* session:run(ms) */
static int l_run(lua_State *L)
{
    session_ud *u = check(L);
    lua_Integer ms = luaL_optinteger(L, 2, -1);
    err e = {0};
    if (u->ran) {
        (void)err_set(&e, ERR_CONFLICT, "this session has run already");
        return host_push_err(L, &e);
    }
    if (windows >= WINDOWS_MAX) {
        (void)err_set(&e, ERR_BUSY, "%d windows of on-CPU samples run already", windows);
        err_hint(&e, "wait for one of them to end");
        return host_push_err(L, &e);
    }
    job *j = host_job_new(L, sizeof *j, &RUNNING);
    u->ran = true;
    j->window = true;
    windows++;
    j->c = oncpu_ref(u->c);
    j->cfg.builder = profile_builder_ref(u->b);
    j->until = deadline_in_ms(ms);
    return host_job_run(L, j);
}

static int l_stop(lua_State *L)
{
    oncpu_stop(check(L)->c);
    return 0;
}

static int l_close(lua_State *L)
{
    session_ud *u = luaL_checkudata(L, 1, ONCPU_TYPE);
    if (u->c && u->ran && !u->ended) oncpu_stop(u->c);
    oncpu_unref(u->c);
    u->c = NULL;
    profile_builder_unref(u->b);
    u->b = NULL;
    return 0;
}

/* session:stats() */
static int l_stats(lua_State *L)
{
    oncpu_stats s;
    session_ud *u = check(L);
    if (!u->ended) return 0;
    oncpu_stats_of(u->c, &s);
    lua_createtable(L, 0, 28);
    host_set_count(L, "samples", s.perf.samples);
    host_set_count(L, "lost", s.perf.lost);
    host_set_count(L, "throttled", s.perf.throttled);
    host_set_count(L, "damaged", s.perf.damaged);
    host_set_count(L, "late", s.perf.late);
    host_set_count(L, "cpus", s.perf.cpus);
    host_set_count(L, "threads", s.perf.threads);
    host_set_count(L, "threads_missing", s.perf.threads_missing);
    host_set_count(L, "descriptors", s.perf.fds);
    host_set_count(L, "ring_bytes", s.perf.ring_bytes);
    host_set_count(L, "window_ns", (uint64_t)(s.perf.end_ns - s.perf.begin_ns));
    host_set_count(L, "hz", s.hz);
    host_set_count(L, "in_kernel", s.in_kernel);
    host_set_count(L, "no_user", s.no_user);
    host_set_count(L, "joined", s.joined);
    host_set_count(L, "broken", s.broken);
    host_set_count(L, "dropped", s.dropped);
    host_set_count(L, "unwind_ns", (uint64_t)s.unwind_ns);
    host_set_count(L, "by_cfi", s.by_cfi);
    host_set_count(L, "by_frame_pointer", s.by_frame_pointer);
    host_set_count(L, "by_code", s.by_code);
    host_set_count(L, "guesses", s.guesses);
    host_set_count(L, "jit_map", s.jit_map);
    host_set_bool(L, "no_kernel", s.perf.no_kernel);
    host_set_bool(L, "kernel_names", s.kernel_names);
    host_set_bool(L, "target_ended", s.perf.target_ended);
    host_set_bool(L, "stopped", s.perf.stopped);
    if (s.kernel_why[0]) {
        lua_pushstring(L, s.kernel_why);
        lua_setfield(L, -2, "kernel_why");
    }
    return 1;
}

int luaopen_lunette_oncpu(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"run", l_run}, {"stop", l_stop}, {"stats", l_stats}, {"close", l_close}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"open", l_open}, {NULL, NULL}};
    host_type(L, ONCPU_TYPE, meta, methods);
    luaL_newlib(L, functions);
    lua_pushinteger(L, ONCPU_HZ);
    lua_setfield(L, -2, "HZ");
    return 1;
}
