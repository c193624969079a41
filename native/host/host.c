/* SPDX-License-Identifier: MIT */
/* host.c: the Lua state: made, and closed. */
#include "host/host.h"

#include <lualib.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "host/host_internal.h"
#include "host/match.h"

static int l_panic(lua_State *L)
{
    log_msg(LOG_ERROR, "lua", "unprotected error: %s",
            lua_isstring(L, -1) ? lua_tostring(L, -1) : luaL_typename(L, -1));
    return 0; /* Lua aborts */
}

static bool on_idle(void *arg)
{
    host *h = (host *)arg;
    bool more = task__run_round(h);
    more = collect__round(h) || more;
    collect__when_idle(h);
    return more;
}

/* ---- life ---- */

static int64_t or_default(int64_t v, int64_t d) { return v == 0 ? d : v; }

static void take_cfg(host *h, const host_cfg *cfg)
{
    h->cfg = *cfg;
    h->cfg.slice_us = or_default(cfg->slice_us, HOST_SLICE_US_DEFAULT);
    h->cfg.budget_ms = or_default(cfg->budget_ms, HOST_BUDGET_MS_DEFAULT);
    h->cfg.hard_ms = or_default(cfg->hard_ms, HOST_HARD_MS_DEFAULT);
    h->cfg.grace_ms = or_default(cfg->grace_ms, HOST_GRACE_MS_DEFAULT);
    h->cfg.cleanup_ms = or_default(cfg->cleanup_ms, HOST_CLEANUP_MS_DEFAULT);
    if (cfg->memory_max == 0) h->cfg.memory_max = HOST_MEMORY_MAX_DEFAULT;
}

/* Protected: everything here may run out of memory. Argument: the script folder as a light userdata, or NULL. */
static int l_open(lua_State *L)
{
    host *h = host_of(L);
    collect__install(L);
    lua_pushliteral(L, "not enough memory");           // dir message    as Lua has it: the same string
    h->no_memory_ref = luaL_ref(L, LUA_REGISTRYINDEX); // dir
    luaL_openlibs(L);
    err__register(L);
    task__register(L);
    safe__install(L);
    string__install(L);
    table__install(L);
    box__install(L);
    search__install(L, (const char *)lua_touserdata(L, 1));
    return 0;
}

int host_new(loop *l, const host_cfg *cfg, host **out, err *e)
{
    host *h = (host *)mem_calloc(1, sizeof *h);
    if (!h) return err_set(e, ERR_NO_MEMORY, "no memory for the script host");
    h->l = l;
    take_cfg(h, cfg);
    h->L = lua_newstate(memory__alloc, h);
    if (!h->L) {
        free(h);
        return err_set(e, ERR_NO_MEMORY, "no memory for the Lua state");
    }
    lua_atpanic(h->L, l_panic);
    *(host **)lua_getextraspace(h->L) = h;
    lua_pushcfunction(h->L, l_open);                   // fn
    lua_pushlightuserdata(h->L, (void *)cfg->lua_dir); // fn dir
    int status = lua_pcall(h->L, 1, 0, 0);
    if (status != LUA_OK) {
        err_kind kind = status == LUA_ERRMEM ? ERR_NO_MEMORY : ERR_INTERNAL;
        int rc = err_set(e, kind, "cannot open the Lua libraries: %s", lua_tostring(h->L, -1));
        lua_close(h->L);
        free(h);
        return rc;
    }
    budget__init(h);
    loop_on_idle(l, on_idle, h);
    *out = h;
    return 0;
}

/* Lets the cancelled tasks end by themselves. Those that are ready run before each sleep: the last one's end wakes
 * nobody. */
static void drain(host *h)
{
    int64_t deadline = deadline_in_ms(h->cfg.grace_ms + h->cfg.cleanup_ms);
    err e = {0};
    while (mono_ns() < deadline) {
        bool more = task__run_round(h);
        if (!h->tasks) break;
        if (loop_run_once(h->l, more ? 0 : deadline_poll_ms(deadline), &e) < 0) break;
    }
}

void host_free(host *h)
{
    if (!h) return;
    for (task *t = h->tasks; t; t = t->next)
        task_cancel(t, "lunette was told to end");
    drain(h);
    if (h->n_tasks) log_msg(LOG_WARNING, "lua", "%zu tasks did not end in time", h->n_tasks);
    task__kill_all(h);
    loop_on_idle(h->l, NULL, NULL);
    collect__fini(h);
    lua_close(h->L);
    buf_fini(&h->script);
    budget__fini(h);
    free(h);
}

lua_State *host_state(host *h) { return h->L; }

host *host_of(lua_State *L) { return (host *)(*(uintptr_t *)lua_getextraspace(L) & ~HOST_MARK); }

loop *host_loop(lua_State *L) { return host_of(L)->l; }

size_t host_memory(const host *h) { return h->mem_used; }

size_t host_tasks(const host *h) { return h->n_tasks; }

void host_exit(host *h, int code)
{
    if (h->exiting) return;
    h->exiting = true;
    h->exit_code = code;
    loop_stop(h->l);
}

bool host_exiting(const host *h) { return h->exiting; }

int host_exit_code(const host *h) { return h->exit_code; }

/* Arguments: the name and the function as light userdata. */
static int l_preload(lua_State *L)
{
    const char *name = (const char *)lua_touserdata(L, 1);
    lua_CFunction open_fn = NULL;
    *(void **)&open_fn = lua_touserdata(L, 2);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE); // name fn preload
    lua_pushcfunction(L, open_fn);                             // name fn preload open
    lua_setfield(L, -2, name);                                 // name fn preload
    return 0;
}

bool host_preload(host *h, const char *name, lua_CFunction open_fn)
{
    lua_pushcfunction(h->L, l_preload);
    lua_pushlightuserdata(h->L, (void *)name);
    lua_pushlightuserdata(h->L, *(void **)&open_fn);
    if (lua_pcall(h->L, 2, 0, 0) == LUA_OK) return true;
    lua_pop(h->L, 1);
    return false;
}

void *host_box(lua_State *L, size_t n) { return lua_newuserdatauv(L, n, 0); }

void host_set_int(lua_State *L, const char *key, int64_t v)
{
    lua_pushinteger(L, (lua_Integer)v);
    lua_setfield(L, -2, key);
}

void host_set_count(lua_State *L, const char *key, uint64_t v) { host_set_int(L, key, (int64_t)v); }

void host_set_bool(lua_State *L, const char *key, bool v)
{
    lua_pushboolean(L, v);
    lua_setfield(L, -2, key);
}

void host_type(lua_State *L, const char *name, const luaL_Reg *meta, const luaL_Reg *methods)
{
    luaL_newmetatable(L, name); // meta
    luaL_setfuncs(L, meta, 0);
    if (methods) {
        lua_newtable(L); // meta methods
        luaL_setfuncs(L, methods, 0);
        lua_setfield(L, -2, "__index"); // meta
    }
    lua_pop(L, 1);
}
