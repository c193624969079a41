/* SPDX-License-Identifier: MIT */
/* port_lua.h: the part of `lunette.ipc` about reverse-connect ports. */
#ifndef LUNETTE_IPC_PORT_LUA_H
#define LUNETTE_IPC_PORT_LUA_H

#include <lua.h>

/* Adds its functions to the module's table on top of the stack. */
void port_lua__register(lua_State *L);

#endif
