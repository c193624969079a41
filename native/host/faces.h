/* SPDX-License-Identifier: MIT */
/* faces.h: the open functions of the host's own Lua modules, for host_preload. */
#ifndef LUNETTE_HOST_FACES_H
#define LUNETTE_HOST_FACES_H

#include <lua.h>

int luaopen_lunette_json(lua_State *L);   /* lunette.json */
int luaopen_lunette_loop(lua_State *L);   /* lunette.loop */
int luaopen_lunette_crypto(lua_State *L); /* lunette.crypto */
int luaopen_lunette_fs(lua_State *L);     /* lunette.fs */
int luaopen_lunette_log(lua_State *L);    /* lunette.log */
int luaopen_lunette_sys(lua_State *L);    /* lunette.sys */
int luaopen_lunette_watch(lua_State *L);  /* lunette.watch */

/* Parts of lunette.loop that have a file of their own. */
void loop_lua__channels(lua_State *L); /* registers the channel's metatable */
int loop_lua__channel(lua_State *L);   /* loop.channel */
int loop_lua__exec(lua_State *L);      /* loop.exec */
void loop_lua__children(lua_State *L); /* registers the child's metatable */
int loop_lua__child(lua_State *L);     /* loop.child */
/* Pushes the path of a program, looked for in PATH when its name has no slash; NULL when it is nowhere. */
const char *loop_lua__push_program(lua_State *L, const char *name);

/* What lunette.sys tells of this process; set once, before it is opened. The strings must outlive the state. */
typedef struct sys_info {
    const char *home;        /* the folder that holds lua/, playbooks/ and schemas/ */
    const char *const *args; /* NULL-terminated: the arguments after the subcommand */
} sys_info;
void sys_lua_setup(const sys_info *info);

#endif
