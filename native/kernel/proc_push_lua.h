/* SPDX-License-Identifier: MIT */
/* proc_push_lua.h: how the values of native/kernel become Lua values. Each sets a member of the table on the stack's
 * top, or pushes a table; what is unknown is left out. All may throw, and own nothing while they do. */
#ifndef LUNETTE_KERNEL_PROC_PUSH_LUA_H
#define LUNETTE_KERNEL_PROC_PUSH_LUA_H

#include <lua.h>

#include "kernel/kernel.h"

/* Text of the kernel, at most KN_PATH_MAX bytes, as valid UTF-8. set_text leaves out an empty one. */
void pl__push_text(lua_State *L, const char *s);
void pl__set_text(lua_State *L, const char *key, const char *s);
void pl__set_num(lua_State *L, const char *key, kn_num v);
/* "0x…", since a mask can pass 2^53. */
void pl__set_mask(lua_State *L, const char *key, uint64_t v);
/* A number, or "unlimited". */
void pl__set_limit(lua_State *L, const char *key, kn_limit v);
/* The tables of docs/native-api-proc.md. */
void pl__push_rollup(lua_State *L, const kn_rollup *r);
void pl__push_fds(lua_State *L, const kn_fds *f);
void pl__push_threads(lua_State *L, const kn_threads *t);
void pl__push_waits(lua_State *L, const kn_thread_waits *w);
void pl__push_cgroup(lua_State *L, const kn_cgroup *g);

/* proc_watch_lua.c. Makes the type of a watch, once a state; and pushes a watch of a process, or nil, err. */
void pl__watch_type(lua_State *L);
int pl__watch(lua_State *L, int pid);

#endif
