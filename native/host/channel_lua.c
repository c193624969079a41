/* SPDX-License-Identifier: MIT */
/* channel_lua.c: loop.channel: a bounded queue of Lua values between tasks. A value that is sent while somebody waits
 * goes to the one who waits longest; a sender never waits. */
#include <stdlib.h>

#include "base/mem.h"
#include "host/faces.h"
#include "host/host_internal.h"

#define CHANNEL_TYPE         "lunette.channel"
#define CHANNEL_CAPACITY_MAX 1000000

typedef struct chan chan;
typedef struct receiver {
    chan *c;
    host *h;
    future *f;
    int value_ref; /* registry: what was handed to it */
    struct receiver *next;
} receiver;

/* The queued values are in the table that is the userdata's user value, at head … head + count - 1. */
struct chan {
    lua_Integer capacity, head, count;
    bool closed;
    receiver *waiting; /* longest first */
};

static chan *check_chan(lua_State *L) { return (chan *)luaL_checkudata(L, 1, CHANNEL_TYPE); }

static void receiver_free(void *p)
{
    receiver *r = (receiver *)p;
    luaL_unref(r->h->L, LUA_REGISTRYINDEX, r->value_ref);
    free(r);
}

static receiver *take_first(chan *c)
{
    receiver *r = c->waiting;
    if (r) c->waiting = r->next;
    return r;
}

static void receiver_cancel(void *owner)
{
    receiver *r = (receiver *)owner;
    receiver **at = &r->c->waiting;
    while (*at && *at != r)
        at = &(*at)->next;
    if (*at != r) return;
    *at = r->next;
    future_unref(r->f);
    receiver_free(r);
}

/* loop.channel(capacity) */
int loop_lua__channel(lua_State *L)
{
    lua_Integer capacity = luaL_checkinteger(L, 1);
    luaL_argcheck(L, capacity >= 0 && capacity <= CHANNEL_CAPACITY_MAX, 1, "must be from 0 to 1000000");
    chan *c = (chan *)lua_newuserdatauv(L, sizeof *c, 1); // … ch
    *c = (chan){.capacity = capacity, .head = 1};
    luaL_setmetatable(L, CHANNEL_TYPE);
    lua_newtable(L);             // … ch queue
    lua_setiuservalue(L, -2, 1); // … ch
    return 1;
}

/* ch:send(v) -> true, or false when it is full or closed */
static int l_send(lua_State *L)
{
    chan *c = check_chan(L);
    luaL_checkany(L, 2);
    luaL_argcheck(L, !lua_isnil(L, 2), 2, "nil cannot be sent");
    lua_settop(L, 2); // ch v
    bool sent = !c->closed && (c->waiting || c->count < c->capacity);
    if (sent && c->waiting) {
        int ref = luaL_ref(L, LUA_REGISTRYINDEX); // ch          may throw: nothing has changed yet
        receiver *r = take_first(c);
        r->value_ref = ref;
        future *f = r->f;
        future_resolve(f, r, receiver_free);
        future_unref(f);
    } else if (sent) {
        lua_getiuservalue(L, 1, 1);             // ch v queue
        lua_insert(L, -2);                      // ch queue v
        lua_rawseti(L, -2, c->head + c->count); // ch queue
        c->count++;
    }
    lua_pushboolean(L, sent);
    return 1;
}

static int push_received(lua_State *L, future *f, void *arg)
{
    (void)arg;
    receiver *r = (receiver *)future_take(f);
    lua_rawgeti(L, LUA_REGISTRYINDEX, r->value_ref); // … v
    receiver_free(r);
    return 1;
}

static int pop_value(lua_State *L, chan *c)
{
    lua_getiuservalue(L, 1, 1);  // ch … queue
    lua_rawgeti(L, -1, c->head); // ch … queue v
    lua_pushnil(L);              // ch … queue v nil
    lua_rawseti(L, -3, c->head); // ch … queue v
    c->count--;
    c->head = c->count ? c->head + 1 : 1;
    return 1;
}

static void closed_err(err *e) { err_set(e, ERR_NOT_FOUND, "the channel is closed and empty"); }

/* ch:recv(timeout_ms?) */
static int l_recv(lua_State *L)
{
    chan *c = check_chan(L);
    int timeout = (int)luaL_optinteger(L, 2, -1);
    if (c->count) return pop_value(L, c);
    if (c->closed) {
        err e = {0};
        closed_err(&e);
        return host_push_err(L, &e);
    }
    receiver *r = (receiver *)mem_calloc(1, sizeof *r);
    if (r) r->f = future_new(host_loop(L), receiver_cancel, r);
    if (!r || !r->f) {
        free(r);
        return luaL_error(L, "not enough memory");
    }
    r->c = c;
    r->h = host_of(L);
    r->value_ref = LUA_NOREF;
    receiver **last = &c->waiting;
    while (*last)
        last = &(*last)->next;
    *last = r;
    return host_await(L, future_ref(r->f), timeout, push_received, NULL);
}

/* ch:close(): what is queued can still be received. Idempotent. */
static int l_close(lua_State *L)
{
    chan *c = check_chan(L);
    err e = {0};
    closed_err(&e);
    c->closed = true;
    for (receiver *r; (r = take_first(c));) {
        future *f = r->f;
        receiver_free(r);
        future_fail(f, &e);
        future_unref(f);
    }
    return 0;
}

static int l_len(lua_State *L)
{
    lua_pushinteger(L, check_chan(L)->count);
    return 1;
}

static const luaL_Reg CHANNEL_METHODS[] = {{"send", l_send}, {"recv", l_recv}, {"close", l_close}, {NULL, NULL}};

void loop_lua__channels(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__len", l_len}, {"__close", l_close}, {NULL, NULL}};
    host_type(L, CHANNEL_TYPE, meta, CHANNEL_METHODS);
}
