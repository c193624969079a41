/* SPDX-License-Identifier: MIT */
/* profile_lua.h: what the files of the face `lunette.profile` share, and how another face gives a profile to Lua. */
#ifndef LUNETTE_PROFILE_PROFILE_LUA_H
#define LUNETTE_PROFILE_PROFILE_LUA_H

#include <lua.h>

#include "profile/profile.h"

#define PROFILE_TYPE "lunette.profile.artifact"

/* Pushes a profile as an artifact, and takes the reference over once it has returned: when it throws, the reference is
 * still the caller's. */
void profile_lua__push(lua_State *L, profile *p);
/* The profile at an index; a Lua error when it is none or closed. */
profile *profile_lua__check(lua_State *L, int idx);

/* The builder at an index, borrowed; a Lua error when it is none, or closed. */
profile_builder *profile_lua__builder(lua_State *L, int idx);

/* A userdata that frees what is put into it, so that a throwing table leaks nothing. */
#define GUARD_SLOTS 3
typedef struct guard {
    void *p[GUARD_SLOTS];
} guard;
guard *profile_lua__guard(lua_State *L);
void profile_lua__release(guard *g); /* frees at once */

/* rows_lua.c, tree_lua.c: the artifact's methods. */
int profile_lua__frame(lua_State *L);
int profile_lua__frames(lua_State *L);
int profile_lua__modules(lua_State *L);
int profile_lua__threads(lua_State *L);
int profile_lua__types(lua_State *L);
int profile_lua__info(lua_State *L);
int profile_lua__top(lua_State *L);
int profile_lua__by_module(lua_State *L);
int profile_lua__by_namespace(lua_State *L);
int profile_lua__hot_path(lua_State *L);
int profile_lua__match(lua_State *L);
int profile_lua__edges(lua_State *L);
int profile_lua__tree(lua_State *L);
int profile_lua__diff(lua_State *L);
int profile_lua__nodes(lua_State *L);
/* export_lua.c */
int profile_lua__export(lua_State *L);

/* Into the table on top: the counts of a row, and which method it is. */
void profile_lua__counts(lua_State *L, const profile *p, const profile_counts *c);
void profile_lua__method(lua_State *L, const profile *p, uint32_t frame, bool fold_async);
/* A whole number of the table of options at index 2, if there is one. */
lua_Integer profile_lua__integer(lua_State *L, const char *key, lua_Integer otherwise, lua_Integer min,
                                 lua_Integer max);
bool profile_lua__flag(lua_State *L, const char *key);

#endif
