/* SPDX-License-Identifier: MIT */
/* clr_lua.c: lunette.clr: what scripts ask of what is known of the runtime. */
#include <lauxlib.h>
#include <lua.h>

#include "base/guid.h"
#include "clr/activity_path.h"

int luaopen_lunette_clr(lua_State *L);

/* clr.activity_path(guid) -> path, process id; or nil */
static int l_activity_path(lua_State *L)
{
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n);
    uint8_t guid[16];
    char path[ACTIVITY_PATH_SIZE];
    uint32_t pid = 0;
    size_t length = guid_parse(slice_of(text, n), guid) ? activity_path_text(guid, path, &pid) : 0;
    if (!length) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushlstring(L, path, length); // path
    lua_pushinteger(L, pid);          // path pid
    return 2;
}

static const luaL_Reg FUNCTIONS[] = {{"activity_path", l_activity_path}, {NULL, NULL}};

int luaopen_lunette_clr(lua_State *L)
{
    luaL_newlib(L, FUNCTIONS); // clr
    return 1;
}
