/* SPDX-License-Identifier: MIT */
/* offcpu_lua.c: the Lua face `lunette.offcpu`: a capture, and what came of it. Opening, running and naming happen on a
 * worker thread. */
#include <stdlib.h>

#include "base/clock.h"
#include "host/job.h"
#include "kernel/proc_push_lua.h"
#include "offcpu/capture.h"
#include "offcpu/offcpu_lua.h"
#include "profile/profile_lua.h"

#define CAPTURE_TYPE "lunette.offcpu.capture"
enum { WINDOW_MAX_S = 86400 };

/* What the Lua value and its work share; counted on the loop's thread. */
typedef struct shared {
    oc_capture *c;
    int refs;
} shared;

typedef struct job {
    host_job job;
    loop *l;
    shared *s; /* a reference */
    int pid;
    oc_cfg cfg;
    int64_t until_ns;
    profile_builder *builder; /* a reference, or NULL */
    oc_result *result;
    uint32_t unnamed;
} job;

typedef struct capture_ud {
    loop *l;
    shared *s; /* NULL: closed */
    bool busy, ran, finished;
} capture_ud;

static void close_work(void *c) { oc_close(c); }

static void unref(loop *l, shared *s)
{
    if (!s || --s->refs) return;
    if (s->c) loop_do(l, close_work, s->c);
    free(s);
}

static void job_fini(void *p)
{
    job *j = p;
    unref(j->l, j->s);
    profile_builder_unref(j->builder);
    oc_result_free(j->result);
}

/* A job with a reference of what is shared; throws. */
static job *job_new(lua_State *L, const host_job_class *ops, shared *s)
{
    job *j = host_job_new(L, sizeof *j, ops); // … box
    j->l = host_loop(L);
    j->s = s ? s : mem_calloc(1, sizeof *s);
    if (!j->s) {
        luaL_error(L, "not enough memory");
        return NULL;
    }
    j->s->refs++;
    return j;
}

static int open_work(void *p)
{
    job *j = p;
    return oc_open(j->pid, &j->cfg, &j->s->c, &j->job.e);
}

static int push_opened(lua_State *L, void *p)
{
    job *j = p;
    capture_ud *u = lua_newuserdatauv(L, sizeof *u, 0); // capture
    *u = (capture_ud){.l = j->l};
    luaL_setmetatable(L, CAPTURE_TYPE);
    u->s = j->s;
    u->s->refs++;
    return 1;
}

static const host_job_class OPENING = {.work = open_work, .push = push_opened, .fini = job_fini};

/* offcpu.open(pid, { stack_bytes =, syscalls =, builder = }) */
static int l_open(lua_State *L)
{
    lua_Integer pid = luaL_checkinteger(L, 1);
    luaL_argcheck(L, pid > 0 && pid <= INT32_MAX, 1, "no process id");
    oc_cfg cfg = {0};
    profile_builder *b = NULL;
    if (lua_istable(L, 2)) {
        lua_getfield(L, 2, "stack_bytes");
        lua_Integer n = luaL_optinteger(L, -1, 0);
        luaL_argcheck(L, n >= 0 && n <= PERF_STACK_BYTES_MAX, 2, "stack_bytes is out of range");
        cfg.stack_bytes = (uint32_t)n;
        lua_getfield(L, 2, "syscalls");
        cfg.syscalls = lua_toboolean(L, -1);
        lua_getfield(L, 2, "builder");
        if (!lua_isnil(L, -1)) b = profile_lua__builder(L, -1);
    }
    job *j = job_new(L, &OPENING, NULL);
    j->pid = (int)pid;
    j->cfg = cfg;
    if (b) j->builder = j->cfg.builder = profile_builder_ref(b);
    return host_job_run(L, j);
}

static capture_ud *check(lua_State *L)
{
    capture_ud *u = luaL_checkudata(L, 1, CAPTURE_TYPE);
    luaL_argcheck(L, u->s, 1, "the capture is closed");
    luaL_argcheck(L, !u->busy, 1, "the capture is at work");
    return u;
}

static int run_work(void *p)
{
    job *j = p;
    return oc_run(j->s->c, j->until_ns, &j->job.e);
}

/* The one who waits goes away: the window ends. */
static void stop_run(void *p) { oc_stop(((job *)p)->s->c); }

static int push_ran(lua_State *L, void *p)
{
    (void)p;
    capture_ud *u = luaL_checkudata(L, 1, CAPTURE_TYPE);
    u->busy = false;
    u->ran = true;
    lua_pushboolean(L, 1);
    return 1;
}

static const host_job_class RUNNING = {.work = run_work, .push = push_ran, .fini = job_fini, .stop = stop_run};

/* capture:run(ms) */
static int l_run(lua_State *L)
{
    capture_ud *u = check(L);
    lua_Number ms = luaL_checknumber(L, 2);
    luaL_argcheck(L, ms >= 0 && ms <= WINDOW_MAX_S * 1000.0, 2, "out of range");
    luaL_argcheck(L, !u->ran, 1, "the capture has run");
    job *j = job_new(L, &RUNNING, u->s);
    j->until_ns = mono_ns() + (int64_t)(ms * 1e6);
    u->busy = true;
    return host_job_run(L, j);
}

static int unnamed_work(void *p)
{
    job *j = p;
    j->unnamed = oc_unnamed(j->s->c, profile_builder_methods(j->builder));
    return 0;
}

static int push_unnamed(lua_State *L, void *p)
{
    capture_ud *u = luaL_checkudata(L, 1, CAPTURE_TYPE);
    u->busy = false;
    lua_pushinteger(L, ((job *)p)->unnamed);
    return 1;
}

static const host_job_class ASKING = {.work = unnamed_work, .push = push_unnamed, .fini = job_fini};

/* capture:unnamed(builder) */
static int l_unnamed(lua_State *L)
{
    capture_ud *u = check(L);
    luaL_argcheck(L, u->ran && !u->finished, 1, "a capture is asked after it ran, before it is finished");
    profile_builder *b = profile_lua__builder(L, 2);
    job *j = job_new(L, &ASKING, u->s);
    j->builder = profile_builder_ref(b);
    u->busy = true;
    return host_job_run(L, j);
}

static int finish_work(void *p)
{
    job *j = p;
    return oc_finish(j->s->c, j->builder ? profile_builder_methods(j->builder) : NULL, &j->result, &j->job.e);
}

static int push_result(lua_State *L, void *p)
{
    job *j = p;
    capture_ud *u = luaL_checkudata(L, 1, CAPTURE_TYPE);
    u->busy = false;
    u->finished = true;
    oc_result **box = offcpu_lua__new(L); // result
    *box = j->result;
    j->result = NULL;
    return 1;
}

static const host_job_class FINISHING = {.work = finish_work, .push = push_result, .fini = job_fini};

/* capture:finish(builder) */
static int l_finish(lua_State *L)
{
    capture_ud *u = check(L);
    luaL_argcheck(L, u->ran && !u->finished, 1, "a capture is finished once, after it ran");
    profile_builder *b = lua_isnoneornil(L, 2) ? NULL : profile_lua__builder(L, 2);
    profile_progress g = {.ended = true};
    if (b) profile_progress_of(b, &g);
    luaL_argcheck(L, g.ended, 2, "its stream goes on");
    job *j = job_new(L, &FINISHING, u->s);
    if (b) j->builder = profile_builder_ref(b);
    u->busy = true;
    return host_job_run(L, j);
}

static int l_close(lua_State *L)
{
    capture_ud *u = luaL_checkudata(L, 1, CAPTURE_TYPE);
    shared *s = u->s;
    u->s = NULL;
    unref(u->l, s);
    return 0;
}

int luaopen_lunette_offcpu(lua_State *L);
int luaopen_lunette_offcpu(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"run", l_run}, {"unnamed", l_unnamed}, {"finish", l_finish}, {"close", l_close}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"open", l_open}, {NULL, NULL}};
    host_type(L, CAPTURE_TYPE, meta, methods);
    offcpu_lua__types(L);
    luaL_newlib(L, functions);
    return 1;
}
