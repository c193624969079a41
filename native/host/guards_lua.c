/* SPDX-License-Identifier: MIT */
/* guards_lua.c: setmetatable, getmetatable and rawset as the scripts of a box have them: for tables of their own only.
 */
#include <string.h>

#include "host/host_internal.h"

/* ---- metatables ---- */

/* Pushes the metatable of the value at idx and tells whether it is one that the box's scripts set (upvalue 1 knows
 * them, weakly). Nothing is pushed when there is none. */
static bool push_metatable(lua_State *L, int idx, bool *own)
{
    if (!lua_getmetatable(L, idx)) return false;
    lua_pushvalue(L, -1);               // mt mt
    lua_rawget(L, lua_upvalueindex(1)); // mt known
    *own = lua_toboolean(L, -1);
    lua_pop(L, 1); // mt
    return true;
}

static void check_own(lua_State *L, int idx, const char *what)
{
    bool own = true;
    if (!push_metatable(L, idx, &own)) return;
    if (!own) luaL_error(L, "%s", what);
    lua_pop(L, 1); //
}

/* A finalizer runs at any time, for any call; a table with weak keys can hold up the collector. */
static void check_metatable(lua_State *L)
{
    lua_pushliteral(L, "__gc"); // t mt "__gc"
    if (lua_rawget(L, 2) != LUA_TNIL) luaL_error(L, "__gc is not available to sandboxed scripts");
    lua_pop(L, 1);                // t mt
    lua_pushliteral(L, "__mode"); // t mt "__mode"
    const char *mode = lua_rawget(L, 2) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (strchr(mode, 'k') && !strchr(mode, 'v'))
        luaL_error(L, "weak keys (__mode \"k\") are not available to sandboxed scripts: use \"kv\" or \"v\"");
    lua_pop(L, 1); // t mt
}

static int l_setmetatable(lua_State *L)
{
    int kind = lua_type(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, kind == LUA_TNIL || kind == LUA_TTABLE, 2, "nil or table");
    lua_settop(L, 2); // t mt
    check_own(L, 1, "cannot change a protected metatable");
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) return luaL_error(L, "cannot change a protected metatable");
    if (kind == LUA_TTABLE) {
        check_metatable(L);
        lua_pushvalue(L, 2);                // t mt mt
        lua_pushboolean(L, 1);              // t mt mt true
        lua_rawset(L, lua_upvalueindex(1)); // t mt
    }
    lua_setmetatable(L, 1); // t
    return 1;
}

static int l_getmetatable(lua_State *L)
{
    bool own = false;
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    if (!push_metatable(L, 1, &own)) {
        lua_pushnil(L);
        return 1;
    }
    if (!own) {
        lua_pushliteral(L, "protected");
        return 1;
    }
    lua_pushliteral(L, "__metatable");               // v mt key
    if (lua_rawget(L, 2) == LUA_TNIL) lua_pop(L, 1); // v mt
    return 1;
}

static int l_rawset(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    luaL_checkany(L, 3);
    lua_settop(L, 3);
    check_own(L, 1, "this table is read-only");
    lua_rawset(L, 1);
    return 1;
}

/* native.guards() -> setmetatable, getmetatable, rawset of one box, and the metatables that they know */
int box__guards(lua_State *L)
{
    lua_settop(L, 0);
    lua_newtable(L);               // known
    lua_createtable(L, 0, 1);      // known mt
    lua_pushliteral(L, "k");       // known mt "k"      the values are booleans
    lua_setfield(L, -2, "__mode"); // known mt
    lua_setmetatable(L, 1);        // known
    static const lua_CFunction FUNCS[] = {l_setmetatable, l_getmetatable, l_rawset};
    for (size_t i = 0; i < sizeof FUNCS / sizeof FUNCS[0]; i++) {
        lua_pushvalue(L, 1);              // known … known
        lua_pushcclosure(L, FUNCS[i], 1); // known … fn
    }
    lua_pushvalue(L, 1); // known … known
    return 4;
}

/* native.json_marks() -> the metatables by which lunette.json tells arrays and raw text */
int box__json_marks(lua_State *L)
{
    lua_createtable(L, 2, 0);                   // list
    luaL_getmetatable(L, "lunette.json.array"); // list mt
    lua_rawseti(L, 1, 1);                       // list
    luaL_getmetatable(L, "lunette.json.raw");   // list mt
    lua_rawseti(L, 1, 2);                       // list
    return 1;
}
