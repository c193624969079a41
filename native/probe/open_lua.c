/* SPDX-License-Identifier: MIT */
/* open_lua.c: events.open: reads the options, opens on a worker thread, and gives the source to the task that asked. */
#include <stdlib.h>
#include <string.h>

#include "probe/face_lua.h"
#include "probe/program_lua.h"
#include "probe/tap_lua.h"

#define OPEN_MS   10000 /* for the runtime's answer to CollectTracing */
#define BUFFER_MB 64

/* ---- open: on a worker thread ------------------------------------------------------------------------------------ */
typedef struct job {
    host_job job;
    pid_t pid;
    const char *path;
    int64_t timeout_ms;
    ipc_collect_cfg collect;
    source_cfg cfg;
    probe_program program;
    arena a; /* all strings and lists of the two above */
    ipc_cancel cancel;
    face *f;
    source *src; /* opened */
} job;

static void job_fini(void *arg)
{
    job *j = arg;
    if (j->f) {
        j->f->src = j->src;
        face__close(j->f);
    }
    source_unref(j->cfg.names_for);
    if (j->cfg.tap) j->cfg.tap->ops->unref(j->cfg.tap);
    ipc_cancel_fini(&j->cancel);
    arena_free(&j->a);
}

static int open_live(job *j)
{
    ipc_endpoint ep = {0};
    int64_t deadline = deadline_in_ms(j->timeout_ms);
    int rc = ipc_resolve(j->pid, NULL, &ep, &j->job.e);
    if (rc == 0) rc = source_open_live(&ep, &j->collect, &j->cfg, deadline, &j->cancel, &j->src, &j->job.e);
    ipc_endpoint_fini(&ep);
    return rc;
}

static int job_work(void *arg)
{
    job *j = arg;
    atomic_fetch_add(&j->f->refs, 1); /* the source's */
    int rc = j->path ? source_open_file(j->path, &j->cfg, &j->src, &j->job.e) : open_live(j);
    if (rc < 0) face__drop(j->f, 1);
    return rc;
}

static void job_stop(void *arg) { ipc_cancel_fire(&((job *)arg)->cancel); }

/* ---- a task owns what it opened ---------------------------------------------------------------------------------- */
/* Upvalue 1: the set of a task's sources. */
static int l_close_owned(lua_State *L)
{
    lua_settop(L, 0);
    lua_pushnil(L);
    while (lua_next(L, lua_upvalueindex(1))) { // source true
        lua_pop(L, 1);                         // source
        lua_pushcfunction(L, face__l_close);
        lua_pushvalue(L, 1);
        lua_call(L, 1, 0); // source
    }
    return 0;
}

/* The set of sources of the running task, made (and its cleanup registered) the first time. Pushes nil outside a task.
 */
static void push_owned(lua_State *L)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "lunette.loop");
    lua_call(L, 1, 1); // loop
    lua_getfield(L, -1, "current");
    lua_call(L, 0, 1); // loop task
    if (lua_isnil(L, -1)) {
        lua_remove(L, -2); // nil
        return;
    }
    lua_getfield(L, LUA_REGISTRYINDEX, OWNED_KEY); // loop task owned
    lua_pushvalue(L, -2);
    if (lua_rawget(L, -2) == LUA_TNIL) { // loop task owned nil
        lua_pop(L, 1);
        lua_newtable(L); // loop task owned set
        lua_getfield(L, LUA_REGISTRYINDEX, OWNED_KEY ".weak");
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -3);
        lua_pushvalue(L, -2); // loop task owned set task set
        lua_rawset(L, -4);    // loop task owned set
        lua_getfield(L, -4, "on_cleanup");
        lua_pushvalue(L, -2);
        lua_pushcclosure(L, l_close_owned, 1);
        lua_call(L, 1, 0); // loop task owned set
    }
    lua_replace(L, -4); // set task owned
    lua_pop(L, 2);      // set
}

/* ---- open: arguments --------------------------------------------------------------------------------------------- */
static const char *l_dup(lua_State *L, job *j, int idx)
{
    size_t n;
    const char *s = lua_tolstring(L, idx, &n);
    char *copy = arena_str(&j->a, slice_of(s, n));
    if (!copy) luaL_error(L, "not enough memory");
    return copy;
}

/* A text member of the table at idx, copied; NULL when it is not there and need not be. */
static const char *l_text(lua_State *L, job *j, int idx, const char *key, bool needed)
{
    const char *s = NULL;
    int type = lua_getfield(L, idx, key);
    if (type == LUA_TSTRING)
        s = l_dup(L, j, -1);
    else if (type != LUA_TNIL || needed)
        luaL_error(L, "events.open: '%s' must be text", key);
    lua_pop(L, 1);
    return s;
}

/* A number, or text as tostring or "0x…" writes it: masks may not fit other languages' integers. */
static uint64_t l_mask(lua_State *L, int idx, const char *key, uint64_t otherwise)
{
    uint64_t v = otherwise;
    int type = lua_getfield(L, idx, key);
    if (type == LUA_TBOOLEAN)
        v = lua_toboolean(L, -1) ? IPC_RUNDOWN_DEFAULT : 0;
    else if (type == LUA_TSTRING) {
        const char *s = lua_tostring(L, -1);
        char *end;
        v = strtoull(s, &end, 0);
        if (*s == 0 || *end) luaL_error(L, "events.open: '%s' is no number", key);
    } else if (type != LUA_TNIL) {
        int ok;
        v = (uint64_t)lua_tointegerx(L, -1, &ok);
        if (!ok) luaL_error(L, "events.open: '%s' must be a number", key);
    }
    lua_pop(L, 1);
    return v;
}

static lua_Integer l_integer(lua_State *L, int idx, const char *key, lua_Integer otherwise, lua_Integer min,
                             lua_Integer max)
{
    lua_Integer v = otherwise;
    if (lua_getfield(L, idx, key) != LUA_TNIL) {
        int ok;
        v = lua_tointegerx(L, -1, &ok);
        if (!ok || v < min || v > max)
            luaL_error(L, "events.open: '%s' must be %I to %I", key, (LUAI_UACINT)min, (LUAI_UACINT)max);
    }
    lua_pop(L, 1);
    return v;
}

/* The list at key: pushes it and returns its length, 0 and a nil when it is not there. */
static size_t l_list(lua_State *L, int idx, const char *key, lua_Integer max)
{
    int type = lua_getfield(L, idx, key);
    if (type == LUA_TNIL) return 0;
    if (type != LUA_TTABLE) luaL_error(L, "events.open: '%s' must be a list", key);
    lua_Integer n = luaL_len(L, -1);
    if (n < 0 || n > max) luaL_error(L, "events.open: '%s' has more than %I entries", key, (LUAI_UACINT)max);
    return (size_t)n;
}

static void *l_array(lua_State *L, job *j, size_t n, size_t size)
{
    void *p = arena_alloc(&j->a, (n ? n : 1) * size);
    if (!p) luaL_error(L, "not enough memory");
    return p;
}

static void read_providers(lua_State *L, int idx, job *j)
{
    size_t n = l_list(L, idx, "providers", IPC_PROVIDERS_MAX); // list
    ipc_provider *p = l_array(L, j, n, sizeof *p);
    for (size_t i = 0; i < n; i++) {
        lua_geti(L, -1, (lua_Integer)i + 1); // list entry
        if (!lua_istable(L, -1)) luaL_error(L, "events.open: a provider must be a table");
        int at = lua_gettop(L);
        p[i].name = l_text(L, j, at, "name", true);
        p[i].args = l_text(L, j, at, "args", false);
        p[i].keywords = l_mask(L, at, "keywords", 0);
        p[i].level = (uint32_t)l_integer(L, at, "level", 4, 0, IPC_LEVEL_MAX);
        lua_pop(L, 1); // list
    }
    lua_pop(L, 1);
    j->collect.providers = p;
    j->collect.n_providers = n;
}

static void read_wants(lua_State *L, int idx, job *j)
{
    size_t n = l_list(L, idx, "want", SOURCE_WANTS_MAX); // list
    source_want *w = l_array(L, j, n, sizeof *w);
    for (size_t i = 0; i < n; i++) {
        lua_geti(L, -1, (lua_Integer)i + 1); // list entry
        if (!lua_istable(L, -1)) luaL_error(L, "events.open: an entry of 'want' must be a table");
        int at = lua_gettop(L);
        w[i].provider = l_text(L, j, at, "provider", true);
        w[i].event = l_text(L, j, at, "event", false);
        lua_pop(L, 1); // list
    }
    lua_pop(L, 1);
    j->cfg.want = w;
    j->cfg.n_want = n;
}

static void read_options(lua_State *L, int idx, job *j)
{
    j->pid = (pid_t)l_integer(L, idx, "pid", 0, 1, INT32_MAX);
    j->path = l_text(L, j, idx, "path", false);
    if ((j->pid != 0) == (j->path != NULL)) luaL_error(L, "events.open: give either 'pid' or 'path'");
    j->timeout_ms = l_integer(L, idx, "timeout_ms", OPEN_MS, 1, 3600000);
    j->collect.buffer_mb = (uint32_t)l_integer(L, idx, "buffer_mb", BUFFER_MB, 1, IPC_BUFFER_MB_MAX);
    j->collect.format = 1;
    lua_getfield(L, idx, "rundown");
    j->cfg.no_rundown = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
    lua_pop(L, 1);
    j->collect.rundown_keywords = l_mask(L, idx, "rundown", 0);
    lua_getfield(L, idx, "stacks");
    j->collect.stacks = lua_toboolean(L, -1);
    lua_pop(L, 1);
    j->cfg.queue_events = (size_t)l_integer(L, idx, "queue", SOURCE_QUEUE_EVENTS, 1, 1 << 24);
    j->cfg.save_to = l_text(L, j, idx, "save_to", false);
    j->cfg.save_max = (uint64_t)l_integer(L, idx, "save_max", (lua_Integer)SOURCE_SAVE_MAX, 1, INT64_MAX);
    read_wants(L, idx, j);
    if (lua_getfield(L, idx, "program") != LUA_TNIL) {
        program_lua__read(L, -1, &j->a, &j->program);
        j->cfg.program = &j->program;
    }
    lua_pop(L, 1);
    if (lua_getfield(L, idx, "names_for") != LUA_TNIL) {
        const face *named = *(face **)luaL_checkudata(L, -1, SOURCE_TYPE);
        if (named && !j->path)
            j->cfg.names_for = source_ref(named->src);
        else
            luaL_error(L, "events.open: 'names_for' is an open source, of a live session");
    }
    lua_pop(L, 1);
    if (!j->path) read_providers(L, idx, j);
    if (lua_getfield(L, idx, "tap") != LUA_TNIL) { /* last: what follows a taken one must not throw */
        if (lua_type(L, -1) != LUA_TUSERDATA || luaL_getmetafield(L, -1, TAP_FIELD) == LUA_TNIL)
            luaL_error(L, "events.open: 'tap' is none");
        lua_pop(L, 1); // tap
        tap_box *box = lua_touserdata(L, -1);
        nt_tap *tap = box->take(box);
        if (!tap) luaL_error(L, "events.open: 'tap' is closed, or has had its stream");
        tap->ops->ref(tap);
        j->cfg.tap = tap;
    }
    lua_pop(L, 1);
}

/* The stack's index 2 is the still closed source. */
static int push_opened(lua_State *L, void *p)
{
    job *j = p;
    face **box = luaL_checkudata(L, 2, SOURCE_TYPE);
    push_owned(L); // … set?
    *box = j->f;
    (*box)->src = j->src;
    j->f = NULL;
    if (lua_istable(L, -1)) {
        lua_pushvalue(L, 2);
        lua_pushboolean(L, 1);
        lua_rawset(L, -3);
    }
    lua_pushvalue(L, 2);
    return 1;
}

int face__l_open(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    face **src = lua_newuserdatauv(L, sizeof *src, 0); // opts source
    *src = NULL;
    luaL_setmetatable(L, SOURCE_TYPE);
    static const host_job_class opening = {.work = job_work, .push = push_opened, .fini = job_fini, .stop = job_stop};
    job *j = host_job_new(L, sizeof *j, &opening); // opts source box
    j->cancel.fd = -1;
    read_options(L, 1, j);
    err e = {0};
    if (ipc_cancel_init(&j->cancel, &e) < 0) return host_push_err(L, &e);
    j->f = mem_calloc(1, sizeof *j->f);
    if (!j->f) return luaL_error(L, "not enough memory");
    atomic_init(&j->f->refs, 1);
    j->f->l = host_loop(L);
    j->cfg.wake = face__wake;
    j->cfg.arg = j->f;
    return host_job_run(L, j);
}
