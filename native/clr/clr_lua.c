/* SPDX-License-Identifier: MIT */
/* clr_lua.c: lunette.clr: what scripts ask of what is known of the runtime. */
#include <lauxlib.h>
#include <lua.h>

#include "base/bytes.h"
#include "clr/activity_path.h"

#define GUID_TEXT 36u

int luaopen_lunette_clr(lua_State *L);

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The bytes of a GUID's text, as nt_guid_text writes it: the first three groups are little-endian. */
static bool guid_of(const char *text, size_t n, uint8_t guid[16])
{
    static const uint8_t at[16] = {6, 4, 2, 0, 11, 9, 16, 14, 19, 21, 24, 26, 28, 30, 32, 34};
    if (n != GUID_TEXT || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-') return false;
    for (int i = 0; i < 16; i++) {
        int high = digit(text[at[i]]), low = digit(text[at[i] + 1]);
        if (high < 0 || low < 0) return false;
        guid[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* clr.activity_path(guid) -> path, process id; or nil */
static int l_activity_path(lua_State *L)
{
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n);
    uint8_t guid[16];
    char path[ACTIVITY_PATH_SIZE];
    uint32_t pid = 0;
    size_t length = guid_of(text, n, guid) ? activity_path_text(guid, path, &pid) : 0;
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
