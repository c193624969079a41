/* SPDX-License-Identifier: MIT */
/* offcpu_lua.h: the value that holds a result, for the files of the face. */
#ifndef LUNETTE_OFFCPU_LUA_H
#define LUNETTE_OFFCPU_LUA_H

#include <lua.h>

#include "offcpu/result.h"

/* Pushes an empty result; what is put into it is its own. */
oc_result **offcpu_lua__new(lua_State *L);
/* Makes the type, once a state. */
void offcpu_lua__types(lua_State *L);

#endif
