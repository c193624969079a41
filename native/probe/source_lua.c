/* SPDX-License-Identifier: MIT */
/* source_lua.c: the Lua face `lunette.events` (docs/native-api.md): a source as userdata, events as tables made when
 * they are asked for. */
#include <stdlib.h>
#include <string.h>

#include "probe/engine.h"
#include "probe/event_lua.h"
#include "probe/face_lua.h"
#include "probe/program_lua.h"

#define RECORDS_TYPE "lunette.events.records"
#define GUARD_TYPE   "lunette.events.guard"
#define RESULT_MAX   ((size_t)128 << 20)
#define STOP_MS      15000
#define NEXT_EVENTS  512 /* events that one next gives */
#define NEXT_BYTES   ((size_t)1 << 20)
#define SQL_BYTES    4000u
#define EXIT_WAIT_MS 3000 /* for sessions to end when the state closes */

int luaopen_lunette_events(lua_State *L);

/* Gives n references up. */
void face__drop(face *f, unsigned n)
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
    face__drop(f, 1);
}

/* On the source's thread. */
void face__wake(void *arg, bool last)
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
    face__drop(f, drop);
}

/* Lua lets go. */
void face__close(void *arg)
{
    face *f = arg;
    if (f->src) source_close(f->src);
    finish(&f->next_f);
    finish(&f->stop_f);
    face__drop(f, 1);
}

int face__l_close(lua_State *L)
{
    face **box = luaL_checkudata(L, 1, SOURCE_TYPE);
    face *f = *box;
    *box = NULL;
    if (f) face__close(f);
    return 0;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */
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

/* ---- results: written on a worker thread, since a large one takes a while ---------------------------------------- */
typedef struct look {
    host_job job;
    face *f; /* one reference */
    buf out;
} look;

static void look_fini(void *arg)
{
    look *k = arg;
    face__drop(k->f, 1);
    buf_fini(&k->out);
}

static int look_work(void *arg)
{
    look *k = arg;
    if (source_result(k->f->src, &k->out)) return 0;
    return err_set(&k->job.e, ERR_NO_MEMORY, "the source has no reducers, or there is no memory for their result");
}

static int push_look(lua_State *L, void *arg)
{
    program_lua__push_tlv(L, buf_view(&((look *)arg)->out)); // result
    return 1;
}

/* source:result() */
static int l_result(lua_State *L)
{
    static const host_job_class looking = {.work = look_work, .push = push_look, .fini = look_fini};
    face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    if (!f) return push_gone(L, "the source is closed");
    look *k = host_job_new(L, sizeof *k, &looking);
    buf_init(&k->out, RESULT_MAX);
    k->f = f;
    atomic_fetch_add(&f->refs, 1);
    return host_job_run(L, k);
}

/* source:finished() */
static int l_finished(lua_State *L)
{
    face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    lua_pushboolean(L, f && source_finished(f->src));
    return 1;
}

/* source:arrived_ns() */
static int l_arrived(lua_State *L)
{
    face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    int64_t ns = f ? source_bytes_ns(f->src) : 0;
    if (ns == 0) return 0;
    lua_pushinteger(L, ns);
    return 1;
}

static int l_tostring(lua_State *L)
{
    const face *f = *(face **)luaL_checkudata(L, 1, SOURCE_TYPE);
    lua_pushstring(L, !f ? "events source (closed)" : source_ended(f->src) ? "events source (ended)" : "events source");
    return 1;
}

/* Registry tables: which sources each task opened (weak in both), and the finalizer that waits for sessions at the end.
 */
static void make_registry(lua_State *L)
{
    static const luaL_Reg guard[] = {{"__gc", l_guard_gc}, {NULL, NULL}};
    lua_createtable(L, 0, 1); // weak
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_pushvalue(L, -1); // weak weak
    lua_setfield(L, LUA_REGISTRYINDEX, OWNED_KEY ".weak");
    lua_newtable(L); // weak owned
    lua_insert(L, -2);
    lua_setmetatable(L, -2); // owned
    lua_setfield(L, LUA_REGISTRYINDEX, OWNED_KEY);
    host_type(L, GUARD_TYPE, guard, NULL);
    (void)lua_newuserdatauv(L, 1, 0); // guard
    luaL_setmetatable(L, GUARD_TYPE);
    lua_setfield(L, LUA_REGISTRYINDEX, GUARD_TYPE ".it");
}

/* sql(text): an SQL statement, valid UTF-8, without its values and comments, of at most SQL_BYTES; as the function of
 * expressions. */
static int l_sql(lua_State *L)
{
    size_t n = 0;
    const char *text = luaL_checklstring(L, 1, &n);
    luaL_Buffer out;
    uint8_t *to = (uint8_t *)luaL_buffinitsize(L, &out, SQL_BYTES);
    luaL_pushresultsize(&out, probe__sql_plain(slice_of((const uint8_t *)text, n), to, SQL_BYTES));
    return 1;
}

int luaopen_lunette_events(lua_State *L)
{
    static const luaL_Reg functions[] = {{"open", face__l_open}, {"sql", l_sql}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"next", l_next},          {"stop", l_stop},         {"result", l_result}, {"finished", l_finished},
        {"arrived_ns", l_arrived}, {"close", face__l_close}, {NULL, NULL}};
    static const luaL_Reg meta[] = {
        {"__gc", face__l_close}, {"__close", face__l_close}, {"__tostring", l_tostring}, {NULL, NULL}};
    static const luaL_Reg records[] = {{"__gc", l_records_gc}, {NULL, NULL}};
    make_registry(L);
    host_type(L, RECORDS_TYPE, records, NULL);
    host_type(L, SOURCE_TYPE, meta, methods);
    luaL_newlib(L, functions);
    return 1;
}
