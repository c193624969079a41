/* SPDX-License-Identifier: MIT */
/* counting_lua.c: the Lua face `lunette.counting`: what is counted of a process within a window. Opening, reading and
 * closing run on a worker thread. */
#include <stdlib.h>
#include <string.h>

#include "host/job.h"
#include "kernel/counting.h"
#include "kernel/proc_push_lua.h"

#define COUNTING_TYPE "lunette.counting"

/* What a Lua value and a reading share; loop thread only, but for c inside a job's work. */
typedef struct shared {
    kn_counting *c;
    int refs;
} shared;

typedef struct job {
    host_job job;
    loop *l;
    int pid;   /* to open */
    shared *s; /* a reference */
    kn_counts counts;
} job;

typedef struct counting_ud {
    loop *l;
    shared *s; /* NULL: closed */
    bool busy;
} counting_ud;

static void close_work(void *c) { kn_counting_close(c); }

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
    return kn_counting_open(j->pid, &j->s->c, &j->job.e);
}

static int push_opened(lua_State *L, void *p)
{
    job *j = p;
    counting_ud *u = lua_newuserdatauv(L, sizeof *u, 0); // counting
    *u = (counting_ud){.l = j->l};
    luaL_setmetatable(L, COUNTING_TYPE);
    u->s = j->s;
    u->s->refs++;
    return 1;
}

static const host_job_class OPENING = {.work = open_work, .push = push_opened, .fini = job_fini};

/* counting.open(pid) */
static int l_open(lua_State *L)
{
    lua_Integer pid = luaL_checkinteger(L, 1);
    luaL_argcheck(L, pid > 0 && pid <= INT32_MAX, 1, "no process id");
    job *j = job_new(L, &OPENING, NULL);
    j->pid = (int)pid;
    return host_job_run(L, j);
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
        host_set_bool(L, "user_only", n->user_only);
        host_set_bool(L, "at_least", n->at_least);
    }
    if (n->sys) {
        host_set_int(L, "errno", n->sys);
        pl__set_text(L, "message", strerror(n->sys));
    }
}

static int read_work(void *p)
{
    job *j = p;
    return kn_counting_read(j->s->c, &j->counts, &j->job.e);
}

static void was_read(lua_State *L, void *p)
{
    (void)p;
    counting_ud *u = luaL_checkudata(L, 1, COUNTING_TYPE);
    u->busy = false;
}

static int push_counts(lua_State *L, void *p)
{
    const kn_counts *counts = &((const job *)p)->counts;
    lua_createtable(L, 0, KN_METRIC_COUNT); // metrics
    for (int m = 0; m < KN_METRIC_COUNT; m++) {
        push_count(L, &counts->by[m]);                     // metrics count
        lua_setfield(L, -2, kn_metric_name((kn_metric)m)); // metrics
    }
    lua_createtable(L, 0, 6); // metrics t
    lua_insert(L, -2);        // t metrics
    lua_setfield(L, -2, "metrics");
    lua_pushnumber(L, (double)counts->elapsed_ns / 1e6);
    lua_setfield(L, -2, "elapsed_ms");
    host_set_int(L, "threads", counts->threads);
    host_set_int(L, "uncounted", counts->uncounted);
    host_set_int(L, "raced", counts->raced);
    host_set_int(L, "ended", counts->ended);
    return 1;
}

static const host_job_class READING = {.work = read_work, .push = push_counts, .fini = job_fini, .ended = was_read};

/* counting:read() */
static int l_read(lua_State *L)
{
    counting_ud *u = luaL_checkudata(L, 1, COUNTING_TYPE);
    luaL_argcheck(L, u->s, 1, "it is closed");
    luaL_argcheck(L, !u->busy, 1, "it is being read");
    job *j = job_new(L, &READING, u->s);
    u->busy = true;
    return host_job_run(L, j);
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
    host_type(L, COUNTING_TYPE, meta, methods);
    luaL_newlib(L, functions);
    return 1;
}
