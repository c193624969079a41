/* SPDX-License-Identifier: MIT */
/* log_lua.c: lunette.log: structured log lines from scripts, to stderr. */
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "host/faces.h"
#include "host/host_internal.h"

#define FIELDS_MAX ((size_t)64 << 10) /* bytes of the extra members of one line */

/* The level of a function is upvalue 1, json.encode upvalue 2. log.LEVEL(area, message, fields?) */
static int l_log(lua_State *L)
{
    log_level level = (log_level)lua_tointeger(L, lua_upvalueindex(1));
    const char *area = luaL_checkstring(L, 1);
    const char *message = luaL_checkstring(L, 2);
    if (level < log_level_min()) return 0;
    if (lua_isnoneornil(L, 3)) {
        log_raw(level, area, message, "");
        return 0;
    }
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_pushvalue(L, lua_upvalueindex(2)); // area message fields … encode
    lua_pushvalue(L, 3);                   // area message fields … encode fields
    lua_call(L, 1, 1);                     // area message fields … json
    size_t n;
    const char *json = lua_tolstring(L, -1, &n);
    if (n < 2 || json[0] != '{' || n > FIELDS_MAX) {
        log_raw(level, area, message, n > FIELDS_MAX ? "\"fields\":\"(too long)\"" : "");
        return 0;
    }
    lua_pushlstring(L, json + 1, n - 2); // area message fields … json members
    log_raw(level, area, message, lua_tostring(L, -1));
    return 0;
}

static const struct {
    const char *name;
    log_level level;
} LEVELS[] = {
    {"debug", LOG_DEBUG}, {"info", LOG_INFO}, {"notice", LOG_NOTICE}, {"warning", LOG_WARNING}, {"error", LOG_ERROR}};

/* log.level(name) sets the least level that is written. */
static int l_level(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    for (size_t i = 0; i < sizeof LEVELS / sizeof LEVELS[0]; i++) {
        if (strcmp(LEVELS[i].name, name) != 0) continue;
        log_setup(LEVELS[i].level, LOG_AUTO);
        return 0;
    }
    return luaL_argerror(L, 1, "must be debug, info, notice, warning or error");
}

int luaopen_lunette_log(lua_State *L)
{
    lua_settop(L, 0);
    lua_newtable(L);                    // log
    lua_getglobal(L, "require");        // log require
    lua_pushliteral(L, "lunette.json"); // log require name
    lua_call(L, 1, 1);                  // log json
    lua_getfield(L, -1, "encode");      // log json encode
    for (size_t i = 0; i < sizeof LEVELS / sizeof LEVELS[0]; i++) {
        lua_pushinteger(L, LEVELS[i].level); // log json encode level
        lua_pushvalue(L, 3);                 // log json encode level encode
        lua_pushcclosure(L, l_log, 2);       // log json encode fn
        lua_setfield(L, 1, LEVELS[i].name);  // log json encode
    }
    lua_pushcfunction(L, l_level); // log json encode fn
    lua_setfield(L, 1, "level");   // log json encode
    lua_settop(L, 1);              // log
    return 1;
}
