/* SPDX-License-Identifier: MIT */
/* counting_lua.c: the Lua face `lunette.counting`: what is counted of a process within a window. Opening, reading and
 * closing run on a worker thread. */
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "kernel/counting.h"
#include "kernel/proc_push_lua.h"

#define COUNTING_TYPE "lunette.counting"

/* What a Lua value and a reading share; loop thread only, but for c inside a job's work. */
typedef struct shared {
    kn_counting *c;
    int refs;
} shared;

typedef struct job {
    loop *l;
    int pid;   /* opening; 0: reading */
    shared *s; /* a reference */
    kn_counts counts;
    int rc;
    err e;
    future *f;
} job;

typedef struct counting_ud {
    loop *l;
    shared *s; /* NULL: closed */
    bool busy;
} counting_ud;

static void close_work(void *c) { kn_counting_close(c); }
static void close_done(void *c) { (void)c; }

static void unref(loop *l, shared *s)
{
    if (!s || --s->refs) return;
    if (s->c && !loop_work(l, close_work, close_done, s->c)) kn_counting_close(s->c);
    free(s);
}

static void job_free(void *p)
{
    job *j = p;
    unref(j->l, j->s);
    free(j);
}

static void job_work(void *p)
{
    job *j = p;
    j->rc = j->pid ? kn_counting_open(j->pid, &j->s->c, &j->e) : kn_counting_read(j->s->c, &j->counts, &j->e);
}

static void job_done(void *p)
{
    job *j = p;
    future *f = j->f;
    j->f = NULL;
    future_resolve(f, j, job_free);
    future_unref(f);
}

/* A job with a reference of what is shared; NULL: no memory. */
static job *job_new(lua_State *L, shared *s)
{
    job *j = s ? mem_calloc(1, sizeof *j) : NULL;
    if (!j) return NULL;
    j->l = host_loop(L);
    j->s = s;
    s->refs++;
    return j;
}

/* Takes the job, also when it throws. */
static int run(lua_State *L, job *j, host_push_fn push)
{
    future *f = future_new(j->l, NULL, NULL);
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
    counting_ud *u = lua_newuserdatauv(L, sizeof *u, 0); // counting
    *u = (counting_ud){.l = host_loop(L)};
    luaL_setmetatable(L, COUNTING_TYPE);
    job *j = future_take(f);
    err e = j->e;
    int rc = j->rc;
    u->s = j->s;
    u->s->refs++;
    job_free(j);
    return rc < 0 ? host_push_err(L, &e) : 1;
}

/* counting.open(pid) */
static int l_open(lua_State *L)
{
    lua_Integer pid = luaL_checkinteger(L, 1);
    luaL_argcheck(L, pid > 0 && pid <= INT32_MAX, 1, "no process id");
    shared *s = mem_calloc(1, sizeof *s);
    job *j = job_new(L, s);
    if (!j) {
        free(s);
        return luaL_error(L, "not enough memory");
    }
    j->pid = (int)pid;
    return run(L, j, push_opened);
}

static void push_count(lua_State *L, const kn_count *n)
{
    lua_createtable(L, 0, 5); // t name count
    if (n->source != KN_COUNT_NONE) {
        lua_pushnumber(L, n->value);
        lua_setfield(L, -2, "value");
        lua_pushnumber(L, n->share);
        lua_setfield(L, -2, "share");
        lua_pushstring(L, n->source == KN_COUNT_PERF ? "perf" : "proc");
        lua_setfield(L, -2, "source");
        pl__set_bool(L, "user_only", n->user_only);
        pl__set_bool(L, "at_least", n->at_least);
    }
    if (n->sys) {
        pl__set_int(L, "errno", n->sys);
        pl__set_text(L, "message", strerror(n->sys));
    }
}

static int push_counts(lua_State *L, future *f, void *arg)
{
    (void)arg;
    counting_ud *u = luaL_checkudata(L, 1, COUNTING_TYPE);
    job *j = future_take(f);
    kn_counts counts = j->counts;
    err e = j->e;
    int rc = j->rc;
    job_free(j);
    u->busy = false;
    if (rc < 0) return host_push_err(L, &e);
    lua_createtable(L, 0, KN_METRIC_COUNT); // metrics
    for (int m = 0; m < KN_METRIC_COUNT; m++) {
        push_count(L, &counts.by[m]);                      // metrics count
        lua_setfield(L, -2, kn_metric_name((kn_metric)m)); // metrics
    }
    lua_createtable(L, 0, 6); // metrics t
    lua_insert(L, -2);        // t metrics
    lua_setfield(L, -2, "metrics");
    lua_pushnumber(L, (double)counts.elapsed_ns / 1e6);
    lua_setfield(L, -2, "elapsed_ms");
    pl__set_int(L, "threads", counts.threads);
    pl__set_int(L, "uncounted", counts.uncounted);
    pl__set_int(L, "raced", counts.raced);
    pl__set_int(L, "ended", counts.ended);
    return 1;
}

/* counting:read() */
static int l_read(lua_State *L)
{
    counting_ud *u = luaL_checkudata(L, 1, COUNTING_TYPE);
    luaL_argcheck(L, u->s, 1, "it is closed");
    luaL_argcheck(L, !u->busy, 1, "it is being read");
    job *j = job_new(L, u->s);
    if (!j) return luaL_error(L, "not enough memory");
    u->busy = true;
    return run(L, j, push_counts);
}

static int l_close(lua_State *L)
{
    counting_ud *u = luaL_checkudata(L, 1, COUNTING_TYPE);
    shared *s = u->s;
    u->s = NULL;
    unref(u->l, s);
    return 0;
}

int luaopen_lunette_counting(lua_State *L);
int luaopen_lunette_counting(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"read", l_read}, {"close", l_close}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"open", l_open}, {NULL, NULL}};
    luaL_newmetatable(L, COUNTING_TYPE); // mt
    luaL_setfuncs(L, meta, 0);
    luaL_newlib(L, methods); // mt methods
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_newlib(L, functions);
    return 1;
}
