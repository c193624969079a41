/* SPDX-License-Identifier: MIT */
/* proc_watch_lua.c: proc.watch of `lunette.proc`: a process whose end is wanted (docs/native-api-proc.md). */
#include <unistd.h>

#include "host/host.h"
#include "kernel/proc_push_lua.h"

#define WATCH_TYPE "lunette.proc.watch"
typedef struct watch_ud {
    int fd, pid; /* fd -1: closed */
} watch_ud;

/* watch:ended() -> nil while it runs, or what is known of its end */
static int l_ended(lua_State *L)
{
    const watch_ud *w = luaL_checkudata(L, 1, WATCH_TYPE);
    kn_exit x;
    luaL_argcheck(L, w->fd >= 0, 1, "the watch is closed");
    if (!kn_watch_ended(w->fd, w->pid, &x)) return 0;
    lua_createtable(L, 0, 2); // t
    if (!x.known) return 1;
    if (x.signal == 0) {
        host_set_int(L, "code", x.code);
        return 1;
    }
    host_set_int(L, "signal", x.signal);
    host_set_bool(L, "core", x.core);
    return 1;
}

static int l_close(lua_State *L)
{
    watch_ud *w = luaL_checkudata(L, 1, WATCH_TYPE);
    if (w->fd >= 0) close(w->fd);
    w->fd = -1;
    return 0;
}

int pl__watch(lua_State *L, int pid)
{
    err e = {0};
    watch_ud *w = lua_newuserdatauv(L, sizeof *w, 0); // watch
    *w = (watch_ud){.fd = -1, .pid = pid};
    luaL_setmetatable(L, WATCH_TYPE);
    w->fd = kn_watch_open(pid, &e);
    return w->fd < 0 ? host_push_err(L, &e) : 1;
}

void pl__watch_type(lua_State *L)
{
    static const luaL_Reg methods[] = {{"ended", l_ended}, {"close", l_close}, {NULL, NULL}};
    luaL_newmetatable(L, WATCH_TYPE); // mt
    luaL_newlib(L, methods);          // mt methods
    lua_setfield(L, -2, "__index");   // mt
    lua_pushcfunction(L, l_close);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, l_close);
    lua_setfield(L, -2, "__close");
    lua_pushliteral(L, "watch");
    lua_setfield(L, -2, "__name");
    lua_pop(L, 1);
}
