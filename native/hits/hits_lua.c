/* SPDX-License-Identifier: MIT */
/* hits_lua.c: the Lua face `lunette.hits`: calls of native functions into a builder of lunette.profile. Opening and the
 * window run on a worker thread. */
#include <stdlib.h>

#include "base/clock.h"
#include "hits/hits.h"
#include "host/job.h"
#include "kernel/proc_push_lua.h"
#include "profile/profile_lua.h"

enum { STALE_BYTES_MAX = 16384 }; /* of lines that tell what was left behind; more are not told */
#define HITS_TYPE "lunette.hits"
enum { NAME_BYTES = 96 };

typedef struct job {
    host_job job;
    hits *h; /* a reference; opening: NULL until it is open */
    hits_cfg cfg;
    char names[UP_PLACES_MAX][NAME_BYTES], way[NAME_BYTES];
    const char *functions[UP_PLACES_MAX];
    bool opening;
    int64_t until;
} job;

typedef struct session_ud {
    hits *h; /* NULL: closed */
    bool ran, ended;
    char names[UP_PLACES_MAX][NAME_BYTES];
} session_ud;

static void unref_work(void *h) { hits_unref(h); }

static int job_work(void *p)
{
    job *j = p;
    return j->opening ? hits_open(&j->cfg, &j->h, &j->job.e) : hits_run(j->h, j->until, &j->job.e);
}

static void job_fini(void *p)
{
    job *j = p;
    hits_unref(j->h);
    if (j->cfg.builder) profile_builder_unref(j->cfg.builder);
}

static int push_opened(lua_State *L, void *p)
{
    job *j = p;
    session_ud *u = lua_newuserdatauv(L, sizeof *u, 0); // session
    *u = (session_ud){0};
    luaL_setmetatable(L, HITS_TYPE);
    u->h = j->h;
    j->h = NULL;
    memcpy(u->names, j->names, sizeof u->names);
    return 1;
}

static const host_job_class OPENING = {.work = job_work, .push = push_opened, .fini = job_fini};

/* The list of names at index -1 into the job. */
static void read_names(lua_State *L, job *j)
{
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_Integer n = luaL_len(L, -1);
    if (n < 1 || n > (lua_Integer)UP_PLACES_MAX) luaL_error(L, "hits.open: 1 to %d functions", (int)UP_PLACES_MAX);
    for (lua_Integer i = 0; i < n; i++) {
        lua_geti(L, -1, i + 1); // functions name
        size_t len;
        const char *name = luaL_checklstring(L, -1, &len);
        if (len >= NAME_BYTES) luaL_error(L, "hits.open: a name is too long");
        memcpy(j->names[i], name, len + 1);
        lua_pop(L, 1);
    }
    j->cfg.n_functions = (uint32_t)n;
}

/* hits.open{pid=, builder=, functions=, period=, way=, outstanding=} */
static int l_open(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    job *j = host_job_new(L, sizeof *j, &OPENING); // … box
    j->opening = true;
    lua_getfield(L, 1, "pid");
    lua_Integer pid = luaL_checkinteger(L, -1);
    luaL_argcheck(L, pid > 0 && pid <= INT32_MAX, 1, "no process id");
    lua_getfield(L, 1, "period");
    lua_Integer period = luaL_optinteger(L, -1, 1);
    luaL_argcheck(L, period > 0, 1, "period is above 0");
    lua_getfield(L, 1, "way");
    size_t n;
    const char *way = luaL_optlstring(L, -1, "", &n);
    luaL_argcheck(L, n < NAME_BYTES, 1, "way is too long");
    memcpy(j->way, way, n + 1);
    lua_getfield(L, 1, "outstanding");
    j->cfg.outstanding = lua_toboolean(L, -1);
    lua_getfield(L, 1, "functions");
    read_names(L, j);
    for (size_t i = 0; i < UP_PLACES_MAX; i++)
        j->functions[i] = j->names[i];
    lua_getfield(L, 1, "builder");
    j->cfg.builder = profile_builder_ref(profile_lua__builder(L, -1));
    j->cfg.pid = (int)pid;
    j->cfg.period = (uint64_t)period;
    j->cfg.functions = j->functions;
    j->cfg.way = j->way[0] ? j->way : NULL;
    return host_job_run(L, j);
}

static session_ud *check(lua_State *L)
{
    session_ud *u = luaL_checkudata(L, 1, HITS_TYPE);
    if (!u->h) luaL_argerror(L, 1, "the session is closed");
    return u;
}

static void ran(lua_State *L, void *p)
{
    (void)p;
    session_ud *u = luaL_checkudata(L, 1, HITS_TYPE);
    u->ended = true;
}

static int push_ran(lua_State *L, void *p)
{
    (void)p;
    lua_pushboolean(L, true);
    return 1;
}

static void stop_run(void *p) { hits_stop(((job *)p)->h); }

static const host_job_class RUNNING = {
    .work = job_work, .push = push_ran, .fini = job_fini, .stop = stop_run, .ended = ran};

/* session:run(ms) */
static int l_run(lua_State *L)
{
    session_ud *u = check(L);
    lua_Integer ms = luaL_checkinteger(L, 2);
    luaL_argcheck(L, !u->ran, 1, "it has run");
    job *j = host_job_new(L, sizeof *j, &RUNNING);
    u->ran = true;
    j->h = hits_ref(u->h);
    j->until = deadline_in_ms(ms);
    return host_job_run(L, j);
}

static int l_close(lua_State *L)
{
    session_ud *u = luaL_checkudata(L, 1, HITS_TYPE);
    hits *h = u->h;
    u->h = NULL;
    if (h && u->ran && !u->ended) hits_stop(h);
    if (h) loop_do(host_loop(L), unref_work, h); /* closing probes can take a while */
    return 0;
}

static void push_function(lua_State *L, const session_ud *u, const hits_function *f)
{
    lua_createtable(L, 0, 4); // function
    pl__set_text(L, "name", u->names[f->function]);
    pl__set_text(L, "library", f->library);
    host_set_count(L, "calls", f->calls);
    host_set_count(L, "samples", f->samples);
}

static void push_ledger(lua_State *L, const hl_totals *t)
{
    lua_createtable(L, 0, 9); // stats outstanding
    host_set_count(L, "blocks", t->blocks);
    host_set_count(L, "bytes", t->bytes);
    host_set_count(L, "allocated", t->allocated);
    host_set_count(L, "allocated_bytes", t->allocated_bytes);
    host_set_count(L, "freed", t->freed);
    host_set_count(L, "freed_bytes", t->freed_bytes);
    host_set_count(L, "freed_older", t->freed_older);
    host_set_count(L, "untracked", t->untracked);
    host_set_count(L, "unpaired", t->unpaired);
    lua_setfield(L, -2, "outstanding"); // stats
}

/* session:stats() */
static int l_stats(lua_State *L)
{
    hits_stats s;
    session_ud *u = check(L);
    if (!u->ended) return 0;
    hits_stats_of(u->h, &s);
    lua_createtable(L, 0, 16);                 // stats
    lua_createtable(L, (int)s.n_functions, 0); // stats functions
    for (uint32_t i = 0; i < s.n_functions; i++) {
        push_function(L, u, &s.functions[i]); // stats functions function
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "functions");
    pl__set_text(L, "way", up_way_name(s.way));
    host_set_bool(L, "crowded", s.crowded);
    host_set_int(L, "left_out", s.left_out);
    host_set_count(L, "calls", s.calls);
    host_set_count(L, "samples", s.samples);
    host_set_count(L, "broken", s.broken);
    host_set_count(L, "dropped", s.dropped);
    host_set_count(L, "lost", s.perf.lost);
    host_set_int(L, "threads_missing", s.perf.threads_missing);
    host_set_count(L, "throttled", s.perf.throttled);
    host_set_int(L, "descriptors", s.perf.fds);
    host_set_bool(L, "target_ended", s.perf.target_ended);
    if (s.has_ledger) push_ledger(L, &s.ledger);
    lua_pushnumber(L, (double)(s.perf.end_ns - s.perf.begin_ns) / 1e6);
    lua_setfield(L, -2, "elapsed_ms");
    lua_pushnumber(L, (double)s.open_ns / 1e6);
    lua_setfield(L, -2, "open_ms");
    lua_pushnumber(L, (double)s.close_ns / 1e6);
    lua_setfield(L, -2, "close_ms");
    return 1;
}

/* hits.sweep() */
static int l_sweep(lua_State *L)
{
    lua_pushinteger(L, up_sweep(""));
    return 1;
}

/* hits.stale() */
static int l_stale(lua_State *L)
{
    char names[STALE_BYTES_MAX]; /* nothing to free when Lua throws */
    buf told;
    buf_init(&told, sizeof names);
    (void)up_stale("", &told);
    size_t n = told.n < sizeof names ? told.n : sizeof names;
    if (n) memcpy(names, told.p, n);
    buf_fini(&told);
    lua_newtable(L); // list
    lua_Integer i = 1;
    for (const char *p = names, *end; (end = memchr(p, '\n', n - (size_t)(p - names))); p = end + 1) {
        lua_pushlstring(L, p, (size_t)(end - p)); // list line
        lua_rawseti(L, -2, i++);
    }
    return 1;
}

int luaopen_lunette_hits(lua_State *L);
int luaopen_lunette_hits(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"run", l_run}, {"stats", l_stats}, {"close", l_close}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"open", l_open}, {"sweep", l_sweep}, {"stale", l_stale}, {NULL, NULL}};
    host_type(L, HITS_TYPE, meta, methods);
    luaL_newlib(L, functions);
    return 1;
}
