/* SPDX-License-Identifier: MIT */
/* loop_lua.c: lunette.loop: time, tasks, timers, signals. Channels and child processes have files of their own. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "host/faces.h"
#include "host/host_internal.h"

#define TIMER_TYPE "lunette.timer"
/* Registry key of the handlers by signal number: an address, so that finding them needs no memory. */
static const char SIGNALS_KEY = 0;

/* ---- time ---- */

static int l_now_ms(lua_State *L)
{
    lua_pushinteger(L, mono_ns() / 1000000);
    return 1;
}

static int l_now_ns(lua_State *L)
{
    lua_pushinteger(L, mono_ns());
    return 1;
}

static int l_unix_ms(lua_State *L)
{
    lua_pushinteger(L, wall_ns() / 1000000);
    return 1;
}

static int l_cpu_ms(lua_State *L)
{
    lua_pushinteger(L, clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1000000);
    return 1;
}

typedef struct sleeper {
    future *f;
    loop_timer *timer;
} sleeper;

static void sleep_over(void *arg)
{
    sleeper *s = (sleeper *)arg;
    future *f = s->f;
    free(s);
    future_resolve(f, NULL, NULL);
    future_unref(f);
}

static void sleep_cancel(void *owner)
{
    sleeper *s = (sleeper *)owner;
    loop_timer_del(s->timer);
    future_unref(s->f);
    free(s);
}

/* loop.sleep_ms(n) */
static int l_sleep_ms(lua_State *L)
{
    lua_Number ms = luaL_checknumber(L, 1);
    luaL_argcheck(L, ms >= 0 && ms <= 1e12, 1, "must be from 0 to 1e12 milliseconds");
    loop *l = host_loop(L);
    sleeper *s = (sleeper *)mem_calloc(1, sizeof *s);
    if (!s) return luaL_error(L, "not enough memory");
    s->f = future_new(l, sleep_cancel, s);
    s->timer = s->f ? loop_timer_at(l, mono_ns() + (int64_t)(ms * 1e6), sleep_over, s) : NULL;
    if (!s->timer) {
        future_unref(s->f);
        free(s);
        return luaL_error(L, "not enough memory");
    }
    return host_await(L, future_ref(s->f), -1, NULL, NULL);
}

/* ---- tasks ---- */

/* Starts a task from the function and its n arguments on top of L; pops them. NULL without memory. */
static task *spawn_from(lua_State *L, int nargs)
{
    host *h = host_of(L);
    lua_State *M = host_state(h);
    if (L != M) {
        if (!lua_checkstack(M, nargs + 8)) return NULL;
        lua_xmove(L, M, nargs + 1);
    }
    return host_spawn(h, nargs, NULL, NULL);
}

/* loop.spawn(fn, ...) */
static int l_spawn(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    host *h = host_of(L);
    task *t = spawn_from(L, lua_gettop(L) - 1);
    if (!t) return luaL_error(L, "cannot start one more task: %d run already, or memory is out", (int)host_tasks(h));
    task__inherit_data(L, t, h->running);
    task__push_handle(L, t); // task
    return 1;
}

static task *check_current(lua_State *L, const char *what)
{
    task *t = task_current(L);
    if (!t) luaL_error(L, "%s is possible in a task only", what);
    return t;
}

static int l_current(lua_State *L)
{
    task *t = task_current(L);
    if (!t) return 0;
    task__push_handle(L, t);
    return 1;
}

static int l_on_cleanup(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    task__on_cleanup(L, check_current(L, "loop.on_cleanup"), 1);
    return 0;
}

static int l_cancelled(lua_State *L)
{
    const task *t = task_current(L);
    lua_pushboolean(L, t && task_cancelled(t));
    return 1;
}

/* loop.set_budget(ms): CPU the running task may use from now on; a negative number: as much as it likes. */
static int l_set_budget(lua_State *L)
{
    lua_Integer ms = luaL_checkinteger(L, 1);
    task_set_budget(check_current(L, "loop.set_budget"), ms);
    return 0;
}

/* loop.stats() -> {tasks=, memory_bytes=} */
static int l_stats(lua_State *L)
{
    host *h = host_of(L);
    lua_createtable(L, 0, 2);                        // stats
    lua_pushinteger(L, (lua_Integer)host_tasks(h));  // stats n
    lua_setfield(L, -2, "tasks");                    // stats
    lua_pushinteger(L, (lua_Integer)host_memory(h)); // stats bytes
    lua_setfield(L, -2, "memory_bytes");             // stats
    return 1;
}

/* ---- timers ---- */

/* The userdata keeps itself alive (self_ref) while the timer is set, and its function as its user value. */
typedef struct timer_ud {
    host *h;
    loop_timer *timer;
    int self_ref;
} timer_ud;

static void timer_let_go(timer_ud *u)
{
    luaL_unref(u->h->L, LUA_REGISTRYINDEX, u->self_ref);
    u->self_ref = LUA_NOREF;
}

static void timer_fired(void *arg)
{
    timer_ud *u = (timer_ud *)arg;
    lua_State *M = u->h->L;
    u->timer = NULL;
    if (lua_checkstack(M, 8)) {
        lua_rawgeti(M, LUA_REGISTRYINDEX, u->self_ref); // timer
        lua_getiuservalue(M, -1, 1);                    // timer fn
        lua_remove(M, -2);                              // fn
        if (!host_spawn(u->h, 0, NULL, NULL)) log_msg(LOG_ERROR, "lua", "no memory for a timer's task");
    }
    timer_let_go(u);
}

/* loop.timer(ms, fn) -> timer */
static int l_timer(lua_State *L)
{
    lua_Number ms = luaL_checknumber(L, 1);
    luaL_argcheck(L, ms >= 0 && ms <= 1e12, 1, "must be from 0 to 1e12 milliseconds");
    luaL_checktype(L, 2, LUA_TFUNCTION);
    timer_ud *u = (timer_ud *)lua_newuserdatauv(L, sizeof *u, 1); // ms fn … timer
    *u = (timer_ud){.h = host_of(L), .self_ref = LUA_NOREF};
    luaL_setmetatable(L, TIMER_TYPE);
    lua_pushvalue(L, 2);                          // ms fn … timer fn
    lua_setiuservalue(L, -2, 1);                  // ms fn … timer
    lua_pushvalue(L, -1);                         // ms fn … timer timer
    u->self_ref = luaL_ref(L, LUA_REGISTRYINDEX); // ms fn … timer
    u->timer = loop_timer_at(u->h->l, mono_ns() + (int64_t)(ms * 1e6), timer_fired, u);
    if (u->timer) return 1;
    timer_let_go(u);
    return luaL_error(L, "not enough memory");
}

/* timer:cancel(): it does not fire any more. Also its __gc, which happens to a set timer only when the state closes. */
static int l_timer_cancel(lua_State *L)
{
    timer_ud *u = (timer_ud *)luaL_checkudata(L, 1, TIMER_TYPE);
    if (!u->timer) return 0;
    loop_timer_del(u->timer);
    u->timer = NULL;
    timer_let_go(u);
    return 0;
}

/* ---- signals and the end ---- */

static const struct {
    const char *name;
    int signo;
} SIGNALS[] = {{"HUP", SIGHUP},   {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"WINCH", SIGWINCH},
               {"QUIT", SIGQUIT}, {"INT", SIGINT},   {"TERM", SIGTERM}};

static void signal_came(void *arg, int signo)
{
    host *h = (host *)arg;
    lua_State *M = h->L;
    if (!lua_checkstack(M, 8)) return;
    lua_rawgetp(M, LUA_REGISTRYINDEX, &SIGNALS_KEY); // handlers
    lua_rawgeti(M, -1, signo);                       // handlers fn
    lua_remove(M, -2);                               // fn
    lua_pushboolean(M, loop_signal_by_kernel(h->l)); // fn by_terminal
    if (!host_spawn(h, 1, NULL, NULL)) log_msg(LOG_ERROR, "lua", "no memory for the task of signal %d", signo);
}

/* loop.on_signal(name, fn): fn(by_terminal) runs at each. INT and TERM, which end the process in good order, do not any
 * more once they are taken: for a command that hands them on. */
static int l_on_signal(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    int signo = 0;
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++)
        if (strcmp(SIGNALS[i].name, name) == 0) signo = SIGNALS[i].signo;
    luaL_argcheck(L, signo, 1, "must be HUP, INT, QUIT, TERM, USR1, USR2 or WINCH");
    lua_settop(L, 2);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &SIGNALS_KEY) == LUA_TNIL) {
        lua_newtable(L);                                 // name fn nil handlers
        lua_replace(L, -2);                              // name fn handlers
        lua_pushvalue(L, -1);                            // name fn handlers handlers
        lua_rawsetp(L, LUA_REGISTRYINDEX, &SIGNALS_KEY); // name fn handlers
    }
    err e = {0};
    bool is_new = lua_rawgeti(L, 3, signo) == LUA_TNIL; // name fn handlers old
    if (is_new && loop_signal(host_loop(L), signo, signal_came, host_of(L), &e) < 0) return host_push_err(L, &e);
    lua_pushvalue(L, 2);      // name fn handlers old fn
    lua_rawseti(L, 3, signo); // name fn handlers old
    lua_pushboolean(L, 1);
    return 1;
}

/* loop.exit(code): os.exit, under the name of this module. */
static int l_exit(lua_State *L)
{
    lua_settop(L, 1);            // code
    lua_getglobal(L, "os");      // code os
    lua_getfield(L, -1, "exit"); // code os exit
    lua_pushvalue(L, 1);         // code os exit code
    lua_call(L, 1, 0);
    return 0;
}

static const luaL_Reg LOOP_FUNCS[] = {{"now_ms", l_now_ms},       {"now_ns", l_now_ns},
                                      {"unix_ms", l_unix_ms},     {"cpu_ms", l_cpu_ms},
                                      {"sleep_ms", l_sleep_ms},   {"spawn", l_spawn},
                                      {"current", l_current},     {"on_cleanup", l_on_cleanup},
                                      {"cancelled", l_cancelled}, {"set_budget", l_set_budget},
                                      {"stats", l_stats},         {"channel", loop_lua__channel},
                                      {"timer", l_timer},         {"exec", loop_lua__exec},
                                      {"child", loop_lua__child}, {"exit", l_exit},
                                      {"on_signal", l_on_signal}, {NULL, NULL}};

int luaopen_lunette_loop(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", l_timer_cancel}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"cancel", l_timer_cancel}, {NULL, NULL}};
    host_type(L, TIMER_TYPE, meta, methods);
    loop_lua__channels(L);
    loop_lua__children(L);
    luaL_newlib(L, LOOP_FUNCS); // loop
    return 1;
}
