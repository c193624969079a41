/* SPDX-License-Identifier: MIT */
/* memory_lua.h: what other Lua faces of this folder need of the results of workers. */
#ifndef LUNETTE_MEMORY_MEMORY_LUA_H
#define LUNETTE_MEMORY_MEMORY_LUA_H

#include <lua.h>

/* The descriptor of the result at idx, sealed against any change; borrowed until it is closed. Throws for what is no
 * open result. */
int memory_result_fd(lua_State *L, int idx);

#endif
