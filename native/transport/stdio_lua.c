/* SPDX-License-Identifier: MIT */
/* The Lua face of standard input and output: lunette.stdio. One link a process. */
#include "base/log.h"
#include "host/host.h"
#include "transport/stdio.h"

#define LINK_TYPE "lunette.stdio.link" /* metatable */
#define LINK_KEY  "lunette.stdio.open" /* the one link, in the registry */

typedef struct link_ud {
    stdio_link *link;
    host *h;
    int on_line, on_eof;
} link_ud;

static void spawn(link_ud *u, int nargs)
{
    if (!host_spawn(u->h, nargs, NULL, NULL)) log_msg(LOG_ERROR, "stdio", "no memory to handle a message");
}

static int l_push_line(lua_State *L)
{
    const slice *s = lua_touserdata(L, 1);
    lua_pushlstring(L, s->n ? (const char *)s->p : "", s->n);
    return 1;
}

static void on_line(void *arg, slice line, bool too_long)
{
    link_ud *u = arg;
    lua_State *L = host_state(u->h);
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->on_line); // fn
    if (too_long) {
        lua_pushnil(L); // fn nil
    } else {
        lua_pushcfunction(L, l_push_line);
        lua_pushlightuserdata(L, &line);
        if (lua_pcall(L, 1, 1, 0) != LUA_OK) { // fn line
            lua_pop(L, 2);
            log_msg(LOG_ERROR, "stdio", "no memory for a message of %zu bytes", line.n);
            return;
        }
    }
    spawn(u, 1);
}

static void on_eof(void *arg)
{
    link_ud *u = arg;
    lua_State *L = host_state(u->h);
    if (u->on_eof == LUA_NOREF) return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, u->on_eof);
    spawn(u, 0);
}

static int ref_field(lua_State *L, const char *key, bool needed)
{
    int type = lua_getfield(L, 1, key);
    if (type == LUA_TFUNCTION) return luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pop(L, 1);
    if (needed || type != LUA_TNIL) luaL_error(L, "serve: '%s' must be a function", key);
    return LUA_NOREF;
}

/* stdio.serve{on_line=fn(line | nil when it was too long), on_eof=fn()?, max_line=bytes?} -> true, or nil, err */
static int l_serve(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    if (lua_getfield(L, LUA_REGISTRYINDEX, LINK_KEY) != LUA_TNIL)
        return luaL_error(L, "serve: standard input is being served already");
    link_ud *u = lua_newuserdatauv(L, sizeof *u, 0); // cfg nil link
    *u = (link_ud){.link = NULL, .h = host_of(L), .on_line = LUA_NOREF, .on_eof = LUA_NOREF};
    luaL_setmetatable(L, LINK_TYPE);
    u->on_line = ref_field(L, "on_line", true);
    u->on_eof = ref_field(L, "on_eof", false);
    lua_getfield(L, 1, "max_line");
    lua_Integer max = luaL_optinteger(L, -1, 0);
    luaL_argcheck(L, max >= 0 && max <= (1 << 30), 1, "max_line must be from 0 to 1 GiB");
    stdio_cfg cfg = {.line_max = (size_t)max, .on_line = on_line, .on_eof = on_eof, .arg = u};
    err e = {0};
    if (stdio_start(host_loop(L), &cfg, &u->link, &e) < 0) return host_push_err(L, &e);
    lua_pushvalue(L, 3);
    lua_setfield(L, LUA_REGISTRYINDEX, LINK_KEY);
    lua_pushboolean(L, 1);
    return 1;
}

static link_ud *the_link(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, LINK_KEY);
    link_ud *u = luaL_testudata(L, -1, LINK_TYPE);
    if (!u || !u->link) luaL_error(L, "standard input and output are not being served");
    return u;
}

/* stdio.write(line) -> true, or nil, err */
static int l_write(lua_State *L)
{
    size_t n = 0;
    const char *line = luaL_checklstring(L, 1, &n);
    err e = {0};
    luaL_argcheck(L, !memchr(line, '\n', n), 1, "a message must be one line");
    if (stdio_write(the_link(L)->link, slice_of(line, n), &e) < 0) return host_push_err(L, &e);
    lua_pushboolean(L, 1);
    return 1;
}

/* stdio.flush(ms) -> did all queued output go out in that time. Blocks: for the end of the process only. */
static int l_flush(lua_State *L)
{
    lua_Integer ms = luaL_checkinteger(L, 1);
    lua_pushboolean(L, stdio_flush(the_link(L)->link, ms < 0 ? 0 : (int)ms));
    return 1;
}

static int l_gc(lua_State *L)
{
    link_ud *u = luaL_checkudata(L, 1, LINK_TYPE);
    stdio_link *link = u->link;
    u->link = NULL;
    if (link) stdio_flush(link, 200);
    stdio_free(link);
    return 0;
}

static const luaL_Reg functions[] = {{"serve", l_serve}, {"write", l_write}, {"flush", l_flush}, {NULL, NULL}};

int luaopen_lunette_stdio(lua_State *L);
int luaopen_lunette_stdio(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", l_gc}, {NULL, NULL}};
    host_type(L, LINK_TYPE, meta, NULL);
    luaL_newlib(L, functions);
    return 1;
}
