/* SPDX-License-Identifier: MIT */
/* port_lua.c: the part of `lunette.ipc` about reverse-connect ports (docs/native-api.md). A port is userdata, born
 * closed; what waits runs on a worker thread. */
#include "ipc/port_lua.h"

#include <stdlib.h>

#include "base/guid.h"
#include "host/job.h"
#include "ipc/ipc_internal.h"
#include "ipc/port.h"

#define PORT_TYPE "lunette.ipc.port"

typedef enum ask { ASK_FIRST, ASK_RESUMED } ask;
typedef struct wait_job {
    host_job job;
    ask what;
    ipc_port *port; /* a reference */
    int64_t deadline_ns;
    ipc_cancel cancel;
    ipc_port_runtime runtime;
} wait_job;

static void job_fini(void *arg)
{
    wait_job *j = arg;
    ipc_cancel_fini(&j->cancel);
    ipc__port_unref(j->port);
}

static int job_work(void *arg)
{
    wait_job *j = arg;
    switch (j->what) {
    case ASK_FIRST: return ipc_port_wait(j->port, j->deadline_ns, &j->cancel, &j->runtime, &j->job.e);
    case ASK_RESUMED: return ipc_port_wait_resumed(j->port, j->deadline_ns, &j->cancel, &j->job.e);
    }
    return 0;
}

static void job_stop(void *p) { ipc_cancel_fire(&((wait_job *)p)->cancel); }

static ipc_port **check_port(lua_State *L) { return luaL_checkudata(L, 1, PORT_TYPE); }

static int push_closed(lua_State *L)
{
    err e = {0};
    (void)err_set(&e, ERR_NOT_FOUND, "the port is closed");
    return host_push_err(L, &e);
}

static void push_runtime(lua_State *L, const ipc_port_runtime *r)
{
    char guid[37];
    guid_text(r->cookie, guid);
    lua_createtable(L, 0, 5); // runtime
    lua_pushinteger(L, r->pid);
    lua_setfield(L, -2, "pid");
    lua_pushinteger(L, (lua_Integer)r->nspid);
    lua_setfield(L, -2, "nspid");
    lua_pushstring(L, guid);
    lua_setfield(L, -2, "cookie");
    lua_pushboolean(L, r->resumed);
    lua_setfield(L, -2, "resumed");
    lua_pushboolean(L, r->gone);
    lua_setfield(L, -2, "gone");
}

static int push_waited(lua_State *L, void *p)
{
    const wait_job *j = p;
    if (j->what == ASK_FIRST)
        push_runtime(L, &j->runtime);
    else
        lua_pushboolean(L, 1);
    return 1;
}

static int l_wait_for(lua_State *L, ask what)
{
    ipc_port **box = check_port(L);
    lua_Integer ms = luaL_checkinteger(L, 2);
    luaL_argcheck(L, ms > 0 && ms <= 86400000, 2, "a time-out is 1 to 86400000 ms");
    if (!*box) return push_closed(L);
    static const host_job_class waiting = {.work = job_work, .push = push_waited, .fini = job_fini, .stop = job_stop};
    err e = {0};
    wait_job *j = host_job_new(L, sizeof *j, &waiting);
    j->what = what;
    j->port = ipc__port_ref(*box);
    j->deadline_ns = deadline_in_ms(ms);
    j->cancel.fd = -1;
    return ipc_cancel_init(&j->cancel, &e) < 0 ? host_push_err(L, &e) : host_job_run(L, j);
}

static int l_wait(lua_State *L) { return l_wait_for(L, ASK_FIRST); }

static int l_wait_resumed(lua_State *L) { return l_wait_for(L, ASK_RESUMED); }

static int l_release(lua_State *L)
{
    ipc_port **box = check_port(L);
    if (*box) ipc_port_release(*box);
    return 0;
}

/* port:skip(keep_variable?) */
static int l_skip(lua_State *L)
{
    ipc_port **box = check_port(L);
    if (*box) ipc_port_skip(*box, lua_toboolean(L, 2));
    return 0;
}

static int l_stats(lua_State *L)
{
    ipc_port **box = check_port(L);
    ipc_port_stats s = *box ? ipc_port_stats_of(*box) : (ipc_port_stats){0};
    const struct {
        const char *name;
        unsigned n;
    } all[] = {{"runtimes", s.runtimes}, {"resumed", s.resumed}, {"rejected", s.rejected}, {"dropped", s.dropped}};
    lua_createtable(L, 0, 5); // stats
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lua_pushinteger(L, all[i].n);
        lua_setfield(L, -2, all[i].name);
    }
    lua_pushboolean(L, s.held);
    lua_setfield(L, -2, "held");
    return 1;
}

static int l_close(lua_State *L)
{
    ipc_port **box = check_port(L);
    ipc_port *p = *box;
    *box = NULL;
    ipc_port_close(p);
    return 0;
}

/* port.path, else a method. */
static int l_index(lua_State *L)
{
    ipc_port **box = check_port(L);
    const char *key = luaL_checkstring(L, 2);
    if (strcmp(key, "path") == 0) {
        lua_pushstring(L, *box ? ipc_port_path(*box) : NULL);
        return 1;
    }
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    return 1;
}

/* ipc.listen{dir=?, restore=?} */
static int l_listen(lua_State *L)
{
    ipc_port_cfg cfg = {0};
    lua_settop(L, 1);
    if (!lua_isnil(L, 1)) {
        luaL_checktype(L, 1, LUA_TTABLE);
        lua_getfield(L, 1, "dir"); // opts dir
        cfg.dir = luaL_optstring(L, -1, NULL);
        cfg.restore = lua_getfield(L, 1, "restore") != LUA_TNIL; // opts dir restore
        if (cfg.restore && lua_toboolean(L, -1)) cfg.earlier = luaL_checkstring(L, -1);
    }
    ipc_port **box = lua_newuserdatauv(L, sizeof *box, 0); // … port
    *box = NULL;
    luaL_setmetatable(L, PORT_TYPE);
    err e = {0};
    if (ipc_port_open(&cfg, box, &e) < 0) return host_push_err(L, &e);
    return 1;
}

void port_lua__register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"wait", l_wait},   {"release", l_release}, {"skip", l_skip}, {"wait_resumed", l_wait_resumed},
        {"stats", l_stats}, {"close", l_close},     {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
    luaL_newmetatable(L, PORT_TYPE); // … meta
    luaL_setfuncs(L, meta, 0);
    luaL_newlib(L, methods);         // … meta methods
    lua_pushcclosure(L, l_index, 1); // … meta index
    lua_setfield(L, -2, "__index");  // … meta
    lua_pop(L, 1);                   // …
    lua_pushcfunction(L, l_listen);  // ipc listen
    lua_setfield(L, -2, "listen");   // ipc
}
