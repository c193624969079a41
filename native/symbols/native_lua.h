/* SPDX-License-Identifier: MIT */
/* native_lua.h: the part of `lunette.symbols` that names native code. */
#ifndef LUNETTE_SYMBOLS_NATIVE_LUA_H
#define LUNETTE_SYMBOLS_NATIVE_LUA_H

#include <lua.h>

int native_lua__native(lua_State *L); /* symbols.native */

#endif
