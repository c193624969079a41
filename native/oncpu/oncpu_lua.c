/* SPDX-License-Identifier: MIT */
/* oncpu_lua.c: the Lua face `lunette.oncpu`: samples of the CPU clock into a builder of lunette.profile. Opening and
 * the window run on a worker thread. */
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
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
    oncpu *c; /* a reference; opening: NULL until it is open */
    oncpu_cfg cfg;
    int64_t until;
    int rc;
    err e;
    future *f;
} job;

static void job_free(void *p)
{
    job *j = p;
    oncpu_unref(j->c);
    if (j->cfg.builder) profile_builder_unref(j->cfg.builder);
    free(j);
}

static void open_work(void *p)
{
    job *j = p;
    j->rc = oncpu_open(&j->cfg, &j->c, &j->e);
}

static void run_work(void *p)
{
    job *j = p;
    j->rc = oncpu_run(j->c, j->until, &j->e);
}

static void job_done(void *p)
{
    job *j = p;
    future *f = j->f;
    j->f = NULL;
    future_resolve(f, j, job_free);
    future_unref(f);
}

static void run_done(void *p)
{
    windows--;
    job_done(p);
}

static void stop_job(void *p)
{
    job *j = p;
    if (j->c) oncpu_stop(j->c);
}

/* Takes the job, also when it throws. */
static int run(lua_State *L, job *j, loop_fn work, host_push_fn push)
{
    future *f = future_new(host_loop(L), work == run_work ? stop_job : NULL, j);
    if (f) j->f = future_ref(f);
    if (!f || !loop_work(host_loop(L), work, work == run_work ? run_done : job_done, j)) {
        future_unref(j->f);
        future_unref(f);
        job_free(j);
        return luaL_error(L, "not enough memory");
    }
    if (work == run_work) windows++;
    return host_await(L, f, -1, push, NULL);
}

static int push_opened(lua_State *L, future *f, void *arg)
{
    (void)arg;
    session_ud *u = lua_newuserdatauv(L, sizeof *u, 0); // session
    *u = (session_ud){0};
    luaL_setmetatable(L, ONCPU_TYPE);
    job *j = future_take(f);
    err e = j->e;
    u->c = j->c;
    j->c = NULL;
    u->b = profile_builder_ref(j->cfg.builder);
    job_free(j);
    return u->c ? 1 : host_push_err(L, &e);
}

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
    job *j = mem_calloc(1, sizeof *j);
    if (!j) return luaL_error(L, "not enough memory");
    j->cfg = cfg;
    j->cfg.builder = profile_builder_ref(b);
    return run(L, j, open_work, push_opened);
}

static session_ud *check(lua_State *L)
{
    session_ud *u = luaL_checkudata(L, 1, ONCPU_TYPE);
    if (!u->c) luaL_argerror(L, 1, "the session is closed");
    return u;
}

static int push_ran(lua_State *L, future *f, void *arg)
{
    (void)arg;
    session_ud *u = luaL_checkudata(L, 1, ONCPU_TYPE);
    job *j = future_take(f);
    err e = j->e;
    int rc = j->rc;
    job_free(j);
    u->ended = true;
    if (rc < 0) return host_push_err(L, &e);
    lua_pushboolean(L, true);
    return 1;
}

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
    job *j = mem_calloc(1, sizeof *j);
    if (!j) return luaL_error(L, "not enough memory");
    u->ran = true;
    j->c = oncpu_ref(u->c);
    j->cfg.builder = profile_builder_ref(u->b);
    j->until = deadline_in_ms(ms);
    return run(L, j, run_work, push_ran);
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

static void set_int(lua_State *L, const char *key, uint64_t v)
{
    lua_pushinteger(L, (lua_Integer)v);
    lua_setfield(L, -2, key);
}

static void set_flag(lua_State *L, const char *key, bool v)
{
    lua_pushboolean(L, v);
    lua_setfield(L, -2, key);
}

/* session:stats() */
static int l_stats(lua_State *L)
{
    oncpu_stats s;
    session_ud *u = check(L);
    if (!u->ended) return 0;
    oncpu_stats_of(u->c, &s);
    lua_createtable(L, 0, 28);
    set_int(L, "samples", s.perf.samples);
    set_int(L, "lost", s.perf.lost);
    set_int(L, "throttled", s.perf.throttled);
    set_int(L, "damaged", s.perf.damaged);
    set_int(L, "late", s.perf.late);
    set_int(L, "cpus", s.perf.cpus);
    set_int(L, "threads", s.perf.threads);
    set_int(L, "threads_missing", s.perf.threads_missing);
    set_int(L, "descriptors", s.perf.fds);
    set_int(L, "ring_bytes", s.perf.ring_bytes);
    set_int(L, "window_ns", (uint64_t)(s.perf.end_ns - s.perf.begin_ns));
    set_int(L, "hz", s.hz);
    set_int(L, "in_kernel", s.in_kernel);
    set_int(L, "no_user", s.no_user);
    set_int(L, "joined", s.joined);
    set_int(L, "broken", s.broken);
    set_int(L, "dropped", s.dropped);
    set_int(L, "unwind_ns", (uint64_t)s.unwind_ns);
    set_int(L, "by_cfi", s.by_cfi);
    set_int(L, "by_frame_pointer", s.by_frame_pointer);
    set_int(L, "by_code", s.by_code);
    set_int(L, "guesses", s.guesses);
    set_int(L, "jit_map", s.jit_map);
    set_flag(L, "no_kernel", s.perf.no_kernel);
    set_flag(L, "kernel_names", s.kernel_names);
    set_flag(L, "target_ended", s.perf.target_ended);
    set_flag(L, "stopped", s.perf.stopped);
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
    luaL_newmetatable(L, ONCPU_TYPE); // meta
    luaL_setfuncs(L, meta, 0);
    luaL_newlib(L, methods); // meta methods
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_newlib(L, functions);
    lua_pushinteger(L, ONCPU_HZ);
    lua_setfield(L, -2, "HZ");
    return 1;
}
