/* SPDX-License-Identifier: MIT */
/* analyzer.h: told to clang-tidy before each file: what Lua's headers leave out. These never return. */
#if __has_include(<lauxlib.h>)
#include <lauxlib.h>
#include <lua.h>
__attribute__((noreturn)) int lua_error(lua_State *L);
__attribute__((noreturn)) int luaL_error(lua_State *L, const char *fmt, ...);
__attribute__((noreturn)) int luaL_argerror(lua_State *L, int arg, const char *extramsg);
__attribute__((noreturn)) int luaL_typeerror(lua_State *L, int arg, const char *tname);
#endif
