/* SPDX-License-Identifier: MIT */
/* regex_lua.c: lunette.regex: regular expressions in linear time, for what an operator configures. */
#include <lauxlib.h>
#include <lua.h>

#include "host/host.h"
#include "text/regex.h"

#define REGEX_TYPE "lunette.regex"

int luaopen_lunette_regex(lua_State *L);

typedef struct regex_ud {
    regex *re;
} regex_ud;

/* regex.compile(pattern) -> expression, or nil, err */
static int l_compile(lua_State *L)
{
    size_t n;
    const char *pattern = luaL_checklstring(L, 1, &n);
    regex_ud *u = lua_newuserdatauv(L, sizeof *u, 0); // u
    u->re = NULL;
    luaL_setmetatable(L, REGEX_TYPE); // u
    err e = {0};
    if (regex_new(slice_of(pattern, n), &u->re, &e) < 0) return host_push_err(L, &e);
    return 1;
}

static regex *check(lua_State *L)
{
    regex_ud *u = luaL_checkudata(L, 1, REGEX_TYPE);
    luaL_argcheck(L, u->re, 1, "is closed");
    return u->re;
}

/* Time goes by the program as well as by the text: a search may take seconds. */
static void look(void *arg) { host_look((lua_State *)arg); }

/* re:find(text, init?) -> first, last (as string.find counts); or nil */
static int l_find(lua_State *L)
{
    regex *re = check(L);
    size_t n, start, end;
    const char *text = luaL_checklstring(L, 2, &n);
    lua_Integer init = luaL_optinteger(L, 3, 1);
    luaL_argcheck(L, init >= 1 && (size_t)init <= n + 1, 3, "out of the text");
    if (!regex_find_watched(re, slice_of(text, n), (size_t)init - 1, &start, &end, look, L)) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushinteger(L, (lua_Integer)start + 1);
    lua_pushinteger(L, (lua_Integer)end);
    return 2;
}

/* re:gsub(text, replacement) -> text, number of matches; the replacement is taken as it is */
static int l_gsub(lua_State *L)
{
    regex *re = check(L);
    size_t n, r_n, from = 0, start, end;
    const char *text = luaL_checklstring(L, 2, &n);
    const char *replacement = luaL_checklstring(L, 3, &r_n);
    lua_Integer count = 0;
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (; regex_find_watched(re, slice_of(text, n), from, &start, &end, look, L); count++) {
        host_look(L);
        luaL_addlstring(&b, text + from, start - from);
        luaL_addlstring(&b, replacement, r_n);
        from = end;
    }
    luaL_addlstring(&b, text + from, n - from);
    luaL_pushresult(&b);
    lua_pushinteger(L, count);
    return 2;
}

static int l_gc(lua_State *L)
{
    regex_ud *u = luaL_checkudata(L, 1, REGEX_TYPE);
    regex_free(u->re);
    u->re = NULL;
    return 0;
}

static const luaL_Reg METHODS[] = {{"find", l_find}, {"gsub", l_gsub}, {NULL, NULL}};
static const luaL_Reg FUNCTIONS[] = {{"compile", l_compile}, {NULL, NULL}};

int luaopen_lunette_regex(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", l_gc}, {NULL, NULL}};
    host_type(L, REGEX_TYPE, meta, METHODS);
    luaL_newlib(L, FUNCTIONS); // lib
    return 1;
}
