/* SPDX-License-Identifier: MIT */
/* offcpu_lua.c: the Lua face `lunette.offcpu`: a capture, and what came of it. Opening, running and naming happen on a
 * worker thread. */
#include <stdlib.h>

#include "base/clock.h"
#include "host/host.h"
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

typedef enum op { OP_OPEN, OP_RUN, OP_FINISH } op;
typedef struct job {
    loop *l;
    op op;
    shared *s; /* a reference */
    int pid;
    oc_cfg cfg;
    int64_t until_ns;
    profile_builder *builder; /* a reference, or NULL */
    oc_result *result;
    int rc;
    err e;
    future *f;
} job;

typedef struct capture_ud {
    loop *l;
    shared *s; /* NULL: closed */
    bool busy, ran, finished;
} capture_ud;

static void close_work(void *c) { oc_close(c); }
static void close_done(void *c) { (void)c; }

static void unref(loop *l, shared *s)
{
    if (!s || --s->refs) return;
    if (s->c && !loop_work(l, close_work, close_done, s->c)) oc_close(s->c);
    free(s);
}

static void job_free(void *p)
{
    job *j = p;
    unref(j->l, j->s);
    profile_builder_unref(j->builder);
    oc_result_free(j->result);
    free(j);
}

static void job_work(void *p)
{
    job *j = p;
    switch (j->op) {
    case OP_OPEN: j->rc = oc_open(j->pid, &j->cfg, &j->s->c, &j->e); break;
    case OP_RUN: j->rc = oc_run(j->s->c, j->until_ns, &j->e); break;
    case OP_FINISH:
        j->rc = oc_finish(j->s->c, j->builder ? profile_builder_methods(j->builder) : NULL, &j->result, &j->e);
        break;
    }
}

static void job_done(void *p)
{
    job *j = p;
    future *f = j->f;
    j->f = NULL;
    if (j->rc < 0) {
        future_fail(f, &j->e);
        job_free(j);
    } else {
        future_resolve(f, j, job_free);
    }
    future_unref(f);
}

static job *job_new(lua_State *L, op what, shared *s)
{
    job *j = s ? mem_calloc(1, sizeof *j) : NULL;
    if (!j) return NULL;
    j->l = host_loop(L);
    j->op = what;
    j->s = s;
    s->refs++;
    return j;
}

/* The one who waits goes away: the window ends. */
static void cancel_run(void *owner)
{
    job *j = owner;
    if (j->op == OP_RUN) oc_stop(j->s->c);
}

/* Takes the job, also when it throws. */
static int run(lua_State *L, job *j, host_push_fn push)
{
    future *f = future_new(j->l, cancel_run, j);
    if (f) j->f = future_ref(f);
    if (!f || !loop_work(j->l, job_work, job_done, j)) {
        future_unref(j->f);
        future_unref(f);
        job_free(j);
        return luaL_error(L, "not enough memory");
    }
    return host_await(L, f, -1, push, NULL);
}

static int push_opened(lua_State *L, future *f, void *arg)
{
    (void)arg;
    capture_ud *u = lua_newuserdatauv(L, sizeof *u, 0); // capture
    *u = (capture_ud){.l = host_loop(L)};
    luaL_setmetatable(L, CAPTURE_TYPE);
    job *j = future_take(f);
    u->s = j->s;
    u->s->refs++;
    job_free(j);
    return 1;
}

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
    shared *s = mem_calloc(1, sizeof *s);
    job *j = job_new(L, OP_OPEN, s);
    if (!j) {
        free(s);
        return luaL_error(L, "not enough memory");
    }
    j->pid = (int)pid;
    j->cfg = cfg;
    if (b) j->builder = j->cfg.builder = profile_builder_ref(b);
    return run(L, j, push_opened);
}

static capture_ud *check(lua_State *L)
{
    capture_ud *u = luaL_checkudata(L, 1, CAPTURE_TYPE);
    luaL_argcheck(L, u->s, 1, "the capture is closed");
    luaL_argcheck(L, !u->busy, 1, "the capture is at work");
    return u;
}

static int push_ran(lua_State *L, future *f, void *arg)
{
    (void)arg;
    capture_ud *u = luaL_checkudata(L, 1, CAPTURE_TYPE);
    u->busy = false;
    u->ran = true;
    job_free(future_take(f));
    lua_pushboolean(L, 1);
    return 1;
}

/* capture:run(ms) */
static int l_run(lua_State *L)
{
    capture_ud *u = check(L);
    lua_Number ms = luaL_checknumber(L, 2);
    luaL_argcheck(L, ms >= 0 && ms <= WINDOW_MAX_S * 1000.0, 2, "out of range");
    luaL_argcheck(L, !u->ran, 1, "the capture has run");
    job *j = job_new(L, OP_RUN, u->s);
    if (!j) return luaL_error(L, "not enough memory");
    j->until_ns = mono_ns() + (int64_t)(ms * 1e6);
    u->busy = true;
    return run(L, j, push_ran);
}

static int push_result(lua_State *L, future *f, void *arg)
{
    (void)arg;
    capture_ud *u = luaL_checkudata(L, 1, CAPTURE_TYPE);
    u->busy = false;
    u->finished = true;
    oc_result **box = offcpu_lua__new(L); // result
    job *j = future_take(f);
    *box = j->result;
    j->result = NULL;
    job_free(j);
    return 1;
}

/* capture:finish(builder) */
static int l_finish(lua_State *L)
{
    capture_ud *u = check(L);
    luaL_argcheck(L, u->ran && !u->finished, 1, "a capture is finished once, after it ran");
    profile_builder *b = lua_isnoneornil(L, 2) ? NULL : profile_lua__builder(L, 2);
    profile_progress g = {.ended = true};
    if (b) profile_progress_of(b, &g);
    luaL_argcheck(L, g.ended, 2, "its stream goes on");
    job *j = job_new(L, OP_FINISH, u->s);
    if (!j) return luaL_error(L, "not enough memory");
    if (b) j->builder = profile_builder_ref(b);
    u->busy = true;
    return run(L, j, push_result);
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
    static const luaL_Reg methods[] = {{"run", l_run}, {"finish", l_finish}, {"close", l_close}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"open", l_open}, {NULL, NULL}};
    luaL_newmetatable(L, CAPTURE_TYPE); // mt
    luaL_setfuncs(L, meta, 0);
    luaL_newlib(L, methods); // mt methods
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    offcpu_lua__types(L);
    luaL_newlib(L, functions);
    return 1;
}
