/* SPDX-License-Identifier: MIT */
/* program_lua.h: declarations from Lua, results to Lua. All functions may throw. */
#ifndef LUNETTE_PROBE_PROGRAM_LUA_H
#define LUNETTE_PROBE_PROGRAM_LUA_H

#include <lua.h>

#include "probe/probe.h"

/* The program in the table at idx, in the plain form that lua/lunette/probe.lua makes (lists of { name, text }, nodes
 * by `op`); everything it points to is in a. */
void program_lua__read(lua_State *L, int idx, arena *a, probe_program *out);
/* Pushes an empty table that leaves as [] when a script answers it as it is. Throws. */
void program_lua__push_new_list(lua_State *L);
/* Pushes the value that the tlv bytes hold. */
void program_lua__push_tlv(lua_State *L, slice tlv);

#endif
