/* SPDX-License-Identifier: MIT */
/* handle_lua.c: a task as Lua sees it: task:await, task:cancel, task:done, task.data. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "host/host_internal.h"

#define TASK_TYPE "lunette.task"

/* Somebody who awaits a task: on the task's list until the task ends or the wait is given up. */
struct task_waiter {
    task *t;
    future *f;
    task_waiter *next;
};

typedef struct task_ud {
    task *t; /* a reference */
} task_ud;

task *task__check(lua_State *L, int idx) { return ((task_ud *)luaL_checkudata(L, idx, TASK_TYPE))->t; }

void task__push_handle(lua_State *L, task *t)
{
    if (t->ud_ref != LUA_NOREF) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, t->ud_ref); // task
        return;
    }
    task_ud *u = (task_ud *)lua_newuserdatauv(L, sizeof *u, 2); // task
    u->t = NULL;
    luaL_setmetatable(L, TASK_TYPE);
    lua_rawgeti(L, LUA_REGISTRYINDEX, t->co_ref); // task co
    lua_setiuservalue(L, -2, 1);                  // task       the results stay on the coroutine's stack
    lua_pushvalue(L, -1);                         // task task
    t->ud_ref = luaL_ref(L, LUA_REGISTRYINDEX);   // task
    u->t = t;
    t->refs++;
}

static int l_task_gc(lua_State *L)
{
    task_ud *u = (task_ud *)luaL_checkudata(L, 1, TASK_TYPE);
    if (u->t) task__unref(u->t);
    u->t = NULL;
    return 0;
}

/* ---- await ---- */

void task__wake_waiters(task *t)
{
    while (t->waiters) {
        task_waiter *w = t->waiters;
        t->waiters = w->next;
        future_resolve(w->f, NULL, NULL);
        future_unref(w->f);
        free(w);
    }
}

/* The wait was given up. */
static void waiter_cancel(void *owner)
{
    task_waiter *w = (task_waiter *)owner;
    task_waiter **at = &w->t->waiters;
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at != w) return;
    *at = w->next;
    future_unref(w->f);
    free(w);
}

/* Stack: task …; pushes what the task ended with. */
static int push_results(lua_State *L, future *f, void *arg)
{
    (void)f;
    (void)arg;
    task *t = task__check(L, 1);
    luaL_checkstack(L, t->nres + 2, "too many results of a task");
    if (!t->ok) {
        lua_pushnil(L); // nil
        if (!lua_istable(t->co, -1)) {
            err e = {0};
            host_to_err(t->co, -1, &e);
            host_push_err_value(L, &e); // nil err
            return 2;
        }
    }
    if (!lua_checkstack(t->co, t->nres)) return luaL_error(L, "not enough memory");
    int base = lua_gettop(t->co) - t->nres;
    for (int i = 1; i <= t->nres; i++)
        lua_pushvalue(t->co, base + i);
    lua_xmove(t->co, L, t->nres); // (nil) results…
    return t->nres + !t->ok;
}

/* task:await(timeout_ms?) */
static int l_task_await(lua_State *L)
{
    task *t = task__check(L, 1);
    int timeout = (int)luaL_optinteger(L, 2, -1);
    if (t->phase == PHASE_DONE) return push_results(L, NULL, NULL);
    if (t == host_of(L)->running) return luaL_error(L, "a task cannot await itself");
    task_waiter *w = (task_waiter *)mem_calloc(1, sizeof *w);
    if (w) w->f = future_new(host_loop(L), waiter_cancel, w);
    if (!w || !w->f) {
        free(w);
        return luaL_error(L, "not enough memory");
    }
    w->t = t;
    w->next = t->waiters;
    t->waiters = w;
    return host_await(L, future_ref(w->f), timeout, push_results, NULL);
}

/* ---- the rest ---- */

static int l_task_cancel(lua_State *L)
{
    task_cancel(task__check(L, 1), luaL_optstring(L, 2, "task:cancel"));
    return 0;
}

static int l_task_done(lua_State *L)
{
    lua_pushboolean(L, task__check(L, 1)->phase == PHASE_DONE);
    return 1;
}

/* task:usage() -> {cpu_ms=, allocated_bytes=, preempted=} */
static int l_task_usage(lua_State *L)
{
    task_usage use = task_usage_of(task__check(L, 1));
    lua_createtable(L, 0, 3);                             // usage
    lua_pushnumber(L, (lua_Number)use.cpu_ns / 1e6);      // usage ms
    lua_setfield(L, -2, "cpu_ms");                        // usage
    lua_pushinteger(L, (lua_Integer)use.allocated_bytes); // usage bytes
    lua_setfield(L, -2, "allocated_bytes");               // usage
    lua_pushinteger(L, use.preempted);                    // usage n
    lua_setfield(L, -2, "preempted");                     // usage
    return 1;
}

/* Copies the entries of the table at from, and of those it inherits from, into the table on top (nearest wins). */
static void flatten(lua_State *L, int from)
{
    int dst = lua_gettop(L);
    lua_pushvalue(L, from); // dst src
    for (;;) {
        lua_pushnil(L);                           // dst src nil
        while (lua_next(L, dst + 1)) {            // dst src key value
            lua_pushvalue(L, -2);                 // dst src key value key
            if (lua_rawget(L, dst) == LUA_TNIL) { // dst src key value old
                lua_pop(L, 1);                    // dst src key value
                lua_pushvalue(L, -2);             // dst src key value key
                lua_insert(L, -2);                // dst src key key value
                lua_rawset(L, dst);               // dst src key
            } else {
                lua_pop(L, 2); // dst src key
            }
        }
        if (luaL_getmetafield(L, dst + 1, "__index") == LUA_TNIL) break; // dst src (next)
        lua_replace(L, dst + 1);                                         // dst next
    }
    lua_settop(L, dst); // dst
}

void task__inherit_data(lua_State *L, task *t, task *parent)
{
    if (!parent || parent->data_ref == LUA_NOREF) return;
    lua_newtable(L);                                     // data
    lua_rawgeti(L, LUA_REGISTRYINDEX, parent->data_ref); // data parent
    t->data_depth = parent->data_depth + 1;
    if (t->data_depth > TASK_DATA_DEPTH) {
        lua_insert(L, -2); // parent data
        flatten(L, lua_gettop(L) - 1);
        lua_remove(L, -2); // data
        t->data_depth = 0;
    } else {
        lua_createtable(L, 0, 1);       // data parent mt
        lua_insert(L, -2);              // data mt parent
        lua_setfield(L, -2, "__index"); // data mt
        lua_setmetatable(L, -2);        // data
    }
    t->data_ref = luaL_ref(L, LUA_REGISTRYINDEX); //
}

/* Stack: task; pushes task.data. It lives in the registry while the task does, and in the handle ever after. */
static void push_data(lua_State *L, task *t)
{
    if (lua_getiuservalue(L, 1, 2) == LUA_TTABLE) return; // data
    lua_pop(L, 1);                                        //
    if (t->data_ref == LUA_NOREF) {
        lua_newtable(L); // data
        if (t->phase != PHASE_DONE) {
            lua_pushvalue(L, -1);                         // data data
            t->data_ref = luaL_ref(L, LUA_REGISTRYINDEX); // data
        }
    } else {
        lua_rawgeti(L, LUA_REGISTRYINDEX, t->data_ref); // data
    }
    lua_pushvalue(L, -1);       // data data
    lua_setiuservalue(L, 1, 2); // data
}

static int l_task_index(lua_State *L)
{
    task *t = task__check(L, 1);
    const char *key = luaL_checkstring(L, 2);
    if (strcmp(key, "data") == 0) {
        lua_settop(L, 2);
        push_data(L, t); // task key data
        return 1;
    }
    lua_pushvalue(L, 2);                // task key key
    lua_rawget(L, lua_upvalueindex(1)); // task key method
    return 1;
}

static int l_task_tostring(lua_State *L)
{
    static const char *const PHASES[] = {"new", "running", "cleaning up", "done"};
    task *t = task__check(L, 1);
    lua_pushfstring(L, "task %p (%s)", (void *)t, PHASES[t->phase]);
    return 1;
}

static const luaL_Reg TASK_METHODS[] = {
    {"await", l_task_await}, {"cancel", l_task_cancel}, {"done", l_task_done}, {"usage", l_task_usage}, {NULL, NULL}};

void task__register(lua_State *L)
{
    luaL_newmetatable(L, TASK_TYPE);       // mt
    luaL_newlib(L, TASK_METHODS);          // mt methods
    lua_pushcclosure(L, l_task_index, 1);  // mt fn
    lua_setfield(L, -2, "__index");        // mt
    lua_pushcfunction(L, l_task_gc);       // mt fn
    lua_setfield(L, -2, "__gc");           // mt
    lua_pushcfunction(L, l_task_tostring); // mt fn
    lua_setfield(L, -2, "__tostring");     // mt
    lua_pop(L, 1);                         //
}
