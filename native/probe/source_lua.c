/* SPDX-License-Identifier: MIT */
/* source_lua.c: the Lua face `lunette.events` (docs/native-api.md): a source as userdata, events as tables made when
 * they are asked for. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "probe/event_lua.h"
#include "probe/program_lua.h"
#include "probe/source.h"

#define SOURCE_TYPE  "lunette.events.source"
#define JOB_TYPE     "lunette.events.job"
#define RECORDS_TYPE "lunette.events.records"
#define GUARD_TYPE   "lunette.events.guard"
#define LOOK_TYPE    "lunette.events.look"
#define RESULT_MAX   ((size_t)128 << 20)
#define OWNED_KEY    "lunette.events.owned"
#define OPEN_MS      10000 /* for the runtime's answer to CollectTracing */
#define STOP_MS      15000
#define NEXT_EVENTS  512 /* events that one next gives */
#define NEXT_BYTES   ((size_t)1 << 20)
#define BUFFER_MB    64
#define EXIT_WAIT_MS 3000 /* for sessions to end when the state closes */

int luaopen_lunette_events(lua_State *L);

/* What Lua and the source's thread share: the loop-side state of one source. Futures are touched on the loop's thread
 * only. */
typedef struct face {
    atomic_uint refs; /* Lua's, the source's (until its last wake), a posted call's */
    atomic_bool posted;
    loop *l;
    source *src;
    future *next_f, *stop_f; /* whoever waits */
} face;

/* Gives n references up. */
static void face_drop(face *f, unsigned n)
{
    if (n == 0 || atomic_fetch_sub(&f->refs, n) != n) return;
    source_unref(f->src);
    free(f);
}

static void finish(future **f)
{
    future *was = *f;
    *f = NULL;
    if (!was) return;
    future_resolve(was, NULL, NULL);
    future_unref(was);
}

/* On the loop's thread: tells the waiters. */
static void on_wake(void *arg)
{
    face *f = arg;
    atomic_store(&f->posted, false);
    if (f->src && f->next_f && source_ready(f->src)) finish(&f->next_f);
    if (f->src && f->stop_f && source_ended(f->src)) finish(&f->stop_f);
    face_drop(f, 1);
}

/* On the source's thread. */
static void wake(void *arg, bool last)
{
    face *f = arg;
    unsigned drop = last; /* the source's reference */
    if (last || !atomic_exchange(&f->posted, true)) {
        atomic_fetch_add(&f->refs, 1);
        if (!loop_post(f->l, on_wake, f)) { /* the loop is ending: nobody waits any more */
            atomic_store(&f->posted, false);
            drop++;
        }
    }
    face_drop(f, drop);
}

/* Lua lets go. */
static void face_close(void *arg)
{
    face *f = arg;
    if (f->src) source_close(f->src);
    finish(&f->next_f);
    finish(&f->stop_f);
    face_drop(f, 1);
}

/* ---- open: on a worker thread ------------------------------------------------------------------------------------ */
typedef struct job {
    pid_t pid;
    const char *path;
    int64_t timeout_ms;
    ipc_collect_cfg collect;
    source_cfg cfg;
    probe_program program;
    arena a; /* all strings and lists of the two above */
    ipc_cancel cancel;
    face *f;
    source *src; /* opened; the face's from job_done on */
    future *future;
    int rc;
    err e;
} job;

static void job_free(job *j)
{
    if (j->f) face_close(j->f);
    source_unref(j->cfg.names_for);
    ipc_cancel_fini(&j->cancel);
    arena_free(&j->a);
    free(j);
}

static void job_work(void *arg)
{
    job *j = arg;
    ipc_endpoint ep = {0};
    int64_t deadline = deadline_in_ms(j->timeout_ms);
    atomic_fetch_add(&j->f->refs, 1); /* the source's */
    if (j->path) {
        j->rc = source_open_file(j->path, &j->cfg, &j->src, &j->e);
    } else {
        j->rc = ipc_resolve(j->pid, NULL, &ep, &j->e);
        if (j->rc == 0) j->rc = source_open_live(&ep, &j->collect, &j->cfg, deadline, &j->cancel, &j->src, &j->e);
        ipc_endpoint_fini(&ep);
    }
    if (j->rc < 0) face_drop(j->f, 1);
}

static void job_cancel(void *owner) { ipc_cancel_fire(&((job *)owner)->cancel); }

static void job_done(void *arg)
{
    job *j = arg;
    future *fu = j->future;
    if (j->rc < 0)
        future_fail(fu, &j->e);
    else {
        face *f = j->f;
        f->src = j->src;
        j->f = NULL;
        future_resolve(fu, f, face_close);
    }
    future_unref(fu);
    job_free(j);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */
static int l_job_gc(lua_State *L)
{
    job **box = luaL_checkudata(L, 1, JOB_TYPE);
    if (*box) job_free(*box);
    *box = NULL;
    return 0;
}

static int l_records_gc(lua_State *L)
{
    source_record **box = luaL_checkudata(L, 1, RECORDS_TYPE);
    source_records_free(*box);
    *box = NULL;
    return 0;
}

/* The state closes, and all sources in it are closed by now: their sessions get the moment that stopping takes. */
static int l_guard_gc(lua_State *L)
{
    (void)L;
    (void)sources_wait(deadline_in_ms(EXIT_WAIT_MS));
    return 0;
}

static int l_close(lua_State *L)
{
    face **box = luaL_checkudata(L, 1, SOURCE_TYPE);
    face *f = *box;
    *box = NULL;
    if (f) face_close(f);
    return 0;
}

/* ---- a task owns what it opened ---------------------------------------------------------------------------------- */
/* Upvalue 1: the set of a task's sources. */
static int l_close_owned(lua_State *L)
{
    lua_settop(L, 0);
    lua_pushnil(L);
    while (lua_next(L, lua_upvalueindex(1))) { // source true
        lua_pop(L, 1);                         // source
        lua_pushcfunction(L, l_close);
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
    if (n > max) luaL_error(L, "events.open: '%s' has more than %I entries", key, (LUAI_UACINT)max);
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
}

/* The stack's index 2 is the still closed source. */
static int push_opened(lua_State *L, future *f, void *arg)
{
    (void)arg;
    face **box = luaL_checkudata(L, 2, SOURCE_TYPE);
    push_owned(L); // … set?
    *box = future_take(f);
    if (lua_istable(L, -1)) {
        lua_pushvalue(L, 2);
        lua_pushboolean(L, 1);
        lua_rawset(L, -3);
    }
    lua_pushvalue(L, 2);
    return 1;
}

static int l_open(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    face **src = lua_newuserdatauv(L, sizeof *src, 0); // opts source
    *src = NULL;
    luaL_setmetatable(L, SOURCE_TYPE);
    job **box = lua_newuserdatauv(L, sizeof *box, 0); // opts source box
    *box = NULL;
    luaL_setmetatable(L, JOB_TYPE);
    job *j = *box = mem_calloc(1, sizeof *j);
    if (!j) return luaL_error(L, "not enough memory");
    j->cancel.fd = -1;
    read_options(L, 1, j);
    err e = {0};
    if (ipc_cancel_init(&j->cancel, &e) < 0) return host_push_err(L, &e);
    j->f = mem_calloc(1, sizeof *j->f);
    if (!j->f) return luaL_error(L, "not enough memory");
    atomic_init(&j->f->refs, 1);
    j->f->l = host_loop(L);
    j->cfg.wake = wake;
    j->cfg.arg = j->f;
    j->future = future_new(host_loop(L), job_cancel, j);
    if (!j->future) return luaL_error(L, "not enough memory");
    future *fu = future_ref(j->future);
    if (!loop_work(host_loop(L), job_work, job_done, j)) {
        future_unref(fu);
        future_unref(fu);
        (void)err_set(&e, ERR_NO_MEMORY, "no thread to open a session");
        return host_push_err(L, &e);
    }
    *box = NULL;
    return host_await(L, fu, -1, push_opened, NULL);
}

/* ---- methods ----------------------------------------------------------------------------------------------------- */
static int push_gone(lua_State *L, const char *why)
{
    err e = {0};
    (void)err_set(&e, ERR_NOT_FOUND, "%s", why);
    return host_push_err(L, &e);
}

/* Takes what is there. Index 1 is the source, which may have been closed while the task waited. */
static int push_next(lua_State *L, future *fu, void *arg)
{
    (void)fu;
    (void)arg;
    face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    if (!f) return push_gone(L, "the source is closed");
    source_record **box = lua_newuserdatauv(L, sizeof *box, 0); // box
    *box = NULL;
    luaL_setmetatable(L, RECORDS_TYPE);
    *box = source_take(f->src, NEXT_EVENTS, NEXT_BYTES);
    if (!*box && source_ended(f->src)) return push_gone(L, "the stream has ended");
    lua_newtable(L); // box list
    lua_Integer n = 0;
    for (const source_record *r = *box; r; r = r->next) {
        event_lua__push(L, r);
        lua_rawseti(L, -2, ++n);
    }
    source_records_free(*box);
    *box = NULL;
    return 1;
}

static void forget_next(void *owner)
{
    face *f = owner;
    future_unref(f->next_f);
    f->next_f = NULL;
}

static void forget_stop(void *owner)
{
    face *f = owner;
    future_unref(f->stop_f);
    f->stop_f = NULL;
}

/* source:next(timeout_ms?) */
static int l_next(lua_State *L)
{
    face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    int timeout = (int)luaL_optinteger(L, 2, -1);
    if (!f) return push_gone(L, "the source is closed");
    if (source_ready(f->src)) return push_next(L, NULL, NULL);
    if (timeout == 0) {
        err e = {0};
        (void)err_set(&e, ERR_TIMEOUT, "no event yet");
        return host_push_err(L, &e);
    }
    if (f->next_f) return luaL_error(L, "another task waits for the next event of this source");
    future *fu = future_new(f->l, forget_next, f);
    if (!fu) return luaL_error(L, "not enough memory");
    f->next_f = fu;
    return host_await(L, future_ref(fu), timeout, push_next, NULL);
}

static int push_stopped(lua_State *L, future *fu, void *arg)
{
    (void)fu;
    (void)arg;
    face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    if (!f) return push_gone(L, "the source is closed");
    event_lua__push_summary(L, f->src);
    return 1;
}

/* source:stop(deadline_ms?) */
static int l_stop(lua_State *L)
{
    face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    lua_Integer ms = luaL_optinteger(L, 2, STOP_MS);
    luaL_argcheck(L, ms >= 0 && ms <= 3600000, 2, "a deadline is 0 to 3600000 ms");
    if (!f) return push_gone(L, "the source is closed");
    source_stop(f->src, deadline_in_ms(ms));
    if (source_ended(f->src)) return push_stopped(L, NULL, NULL);
    if (f->stop_f) return luaL_error(L, "another task already stops this source");
    future *fu = future_new(f->l, forget_stop, f);
    if (!fu) return luaL_error(L, "not enough memory");
    f->stop_f = fu;
    return host_await(L, future_ref(fu), -1, push_stopped, NULL);
}

/* ---- results: written on a worker thread, since a large one takes a while
 * ----------------------------------------------- */
typedef struct look {
    face *f; /* one reference */
    future *future;
    buf out;
    bool ok;
} look;

static void look_free(void *arg)
{
    look *k = arg;
    face_drop(k->f, 1);
    buf_fini(&k->out);
    free(k);
}

static void look_work(void *arg)
{
    look *k = arg;
    k->ok = source_result(k->f->src, &k->out);
}

static void look_done(void *arg)
{
    look *k = arg;
    future *fu = k->future;
    future_resolve(fu, k, look_free);
    future_unref(fu);
}

static int push_look(lua_State *L, future *fu, void *arg)
{
    (void)arg;
    look **box = lua_newuserdatauv(L, sizeof *box, 0); // box
    *box = NULL;
    luaL_setmetatable(L, LOOK_TYPE);
    *box = future_take(fu);
    if (!(*box)->ok) {
        err e = {0};
        (void)err_set(&e, ERR_NO_MEMORY, "the source has no reducers, or there is no memory for their result");
        return host_push_err(L, &e);
    }
    program_lua__push_tlv(L, buf_view(&(*box)->out)); // box result
    look_free(*box);
    *box = NULL;
    return 1;
}

static int l_look_gc(lua_State *L)
{
    look **box = luaL_checkudata(L, 1, LOOK_TYPE);
    if (*box) look_free(*box);
    *box = NULL;
    return 0;
}

/* source:result() */
static int l_result(lua_State *L)
{
    face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    if (!f) return push_gone(L, "the source is closed");
    look *k = mem_calloc(1, sizeof *k);
    if (!k) return luaL_error(L, "not enough memory");
    buf_init(&k->out, RESULT_MAX);
    k->f = f;
    atomic_fetch_add(&f->refs, 1);
    k->future = future_new(f->l, NULL, NULL);
    future *fu = k->future ? future_ref(k->future) : NULL;
    if (!fu || !loop_work(f->l, look_work, look_done, k)) {
        if (fu) {
            future_unref(fu);
            future_unref(fu);
        }
        look_free(k);
        return luaL_error(L, "not enough memory");
    }
    return host_await(L, fu, -1, push_look, NULL);
}

/* source:finished() */
static int l_finished(lua_State *L)
{
    face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    lua_pushboolean(L, f && source_finished(f->src));
    return 1;
}

static int l_tostring(lua_State *L)
{
    const face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    lua_pushstring(L, !f ? "events source (closed)" : source_ended(f->src) ? "events source (ended)" : "events source");
    return 1;
}

static void metatable(lua_State *L, const char *name, lua_CFunction gc)
{
    if (luaL_newmetatable(L, name)) {
        lua_pushcfunction(L, gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_pop(L, 1);
}

/* Registry tables: which sources each task opened (weak in both), and the finalizer that waits for sessions at the end.
 */
static void make_registry(lua_State *L)
{
    lua_createtable(L, 0, 1); // weak
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_pushvalue(L, -1); // weak weak
    lua_setfield(L, LUA_REGISTRYINDEX, OWNED_KEY ".weak");
    lua_newtable(L); // weak owned
    lua_insert(L, -2);
    lua_setmetatable(L, -2); // owned
    lua_setfield(L, LUA_REGISTRYINDEX, OWNED_KEY);
    metatable(L, GUARD_TYPE, l_guard_gc);
    (void)lua_newuserdatauv(L, 1, 0); // guard
    luaL_setmetatable(L, GUARD_TYPE);
    lua_setfield(L, LUA_REGISTRYINDEX, GUARD_TYPE ".it");
}

int luaopen_lunette_events(lua_State *L)
{
    static const luaL_Reg functions[] = {{"open", l_open}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"next", l_next},         {"stop", l_stop},   {"result", l_result},
                                       {"finished", l_finished}, {"close", l_close}, {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {"__tostring", l_tostring}, {NULL, NULL}};
    make_registry(L);
    metatable(L, JOB_TYPE, l_job_gc);
    metatable(L, RECORDS_TYPE, l_records_gc);
    metatable(L, LOOK_TYPE, l_look_gc);
    luaL_newmetatable(L, SOURCE_TYPE); // meta
    luaL_setfuncs(L, meta, 0);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_newlib(L, functions);
    return 1;
}
