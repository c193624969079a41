/* SPDX-License-Identifier: MIT */
/* sys_lua.c: lunette.sys: this process, its environment, its output, and UTF-8. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf.h"
#include "host/bundle.h"
#include "host/faces.h"
#include "host/host_internal.h"

static sys_info info;

void sys_lua_setup(const sys_info *given) { info = *given; }

/* sys.getenv(name) -> text, or nil */
static int l_getenv(lua_State *L)
{
    lua_pushstring(L, getenv(luaL_checkstring(L, 1))); // text     NULL becomes nil
    return 1;
}

/* sys.environ() -> {NAME = value} */
static int l_environ(lua_State *L)
{
    lua_newtable(L); // env
    for (char **p = environ; p && *p; p++) {
        const char *eq = strchr(*p, '=');
        if (!eq) continue;
        lua_pushlstring(L, *p, (size_t)(eq - *p)); // env name
        lua_pushstring(L, eq + 1);                 // env name value
        lua_rawset(L, -3);                         // env
    }
    return 1;
}

/* sys.isatty(fd) */
static int l_isatty(lua_State *L)
{
    lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
    return 1;
}

static int stdout_errno; /* of the first write to stdout that failed */

/* sys.stdout_error() -> nil, or the err of the first write that failed; a reader that went away is no failure */
static int l_stdout_error(lua_State *L)
{
    err e = {0};
    if (!stdout_errno || stdout_errno == EPIPE) return 0;
    err_sys(&e, ERR_IO, stdout_errno, "cannot write to standard output");
    host_push_err_value(L, &e);
    return 1;
}

/* sys.write(text) -> true, or nil, err: all of it, to stdout, at once */
static int l_write(lua_State *L)
{
    size_t n;
    const char *p = luaL_checklstring(L, 1, &n);
    while (n) {
        ssize_t put = write(STDOUT_FILENO, p, n);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            err e = {0};
            if (!stdout_errno) stdout_errno = errno;
            err_sys(&e, ERR_IO, errno, "cannot write to stdout");
            return host_push_err(L, &e);
        }
        p += put;
        n -= (size_t)put;
    }
    lua_pushboolean(L, 1);
    return 1;
}

/* sys.utf8_cut(s, max) -> the longest prefix of valid UTF-8 s of at most max bytes that splits no character */
static int l_utf8_cut(lua_State *L)
{
    size_t n;
    const char *s = luaL_checklstring(L, 1, &n);
    lua_Integer max = luaL_checkinteger(L, 2);
    luaL_argcheck(L, max >= 0, 2, "must not be negative");
    lua_pushlstring(L, s, utf8_cut(slice_of(s, n), (size_t)max));
    return 1;
}

static int l_buf_gc(lua_State *L)
{
    buf_fini((buf *)lua_touserdata(L, 1));
    return 0;
}

/* sys.utf8_sanitize(s) -> s with every invalid sequence replaced by U+FFFD */
static int l_utf8_sanitize(lua_State *L)
{
    size_t n;
    const char *s = luaL_checklstring(L, 1, &n);
    lua_settop(L, 1); // s
    if (utf8_valid(slice_of(s, n))) return 1;
    buf *b = (buf *)lua_newuserdatauv(L, sizeof *b, 0); // s box
    buf_init(b, 0);
    lua_newtable(L);                // s box mt
    lua_pushcfunction(L, l_buf_gc); // s box mt fn
    lua_setfield(L, -2, "__gc");    // s box mt
    lua_setmetatable(L, -2);        // s box
    if (!utf8_sanitize(slice_of(s, n), b)) return luaL_error(L, "not enough memory");
    lua_pushlstring(L, (const char *)b->p, b->n); // s box text
    buf_fini(b);
    return 1;
}

/* sys.load(text, chunkname) -> function, or nil, message. As load for text, but for our own unchanged scripts, which
 * come compiled with the program. */
static int l_load(lua_State *L)
{
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n);
    const char *chunkname = luaL_checkstring(L, 2);
    if (bundle_load(L, slice_of(text, n), chunkname) == LUA_OK) return 1;
    lua_pushnil(L); // … message nil
    lua_insert(L, -2);
    return 2;
}

static const luaL_Reg SYS_FUNCS[] = {{"getenv", l_getenv},
                                     {"environ", l_environ},
                                     {"isatty", l_isatty},
                                     {"load", l_load},
                                     {"write", l_write},
                                     {"stdout_error", l_stdout_error},
                                     {"utf8_cut", l_utf8_cut},
                                     {"utf8_sanitize", l_utf8_sanitize},
                                     {NULL, NULL}};

int luaopen_lunette_sys(lua_State *L)
{
    luaL_newlib(L, SYS_FUNCS);           // sys
    lua_pushinteger(L, getpid());        // sys pid
    lua_setfield(L, -2, "pid");          // sys
    lua_pushliteral(L, LUNETTE_VERSION); // sys version
    lua_setfield(L, -2, "version");      // sys
    lua_pushstring(L, info.home);        // sys home
    lua_setfield(L, -2, "home");         // sys
    lua_newtable(L);                     // sys args
    for (lua_Integer i = 0; info.args && info.args[i]; i++) {
        lua_pushstring(L, info.args[i]); // sys args arg
        lua_rawseti(L, -2, i + 1);       // sys args
    }
    lua_setfield(L, -2, "args"); // sys
    return 1;
}
