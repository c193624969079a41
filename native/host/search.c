/* SPDX-License-Identifier: MIT */
/* search.c: require. Modules come from the preload table and from the script folder, and are named
 * "lua/NAME.lua" in messages, so that an error's place is short and the same on every machine. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/bundle.h"
#include "host/host_internal.h"

#define SCRIPT_MAX  ((size_t)4 << 20)
#define SCRIPT_KEEP ((size_t)64 << 10) /* a buffer of no more stays for the next script */

/* Reads the whole of path into the state's buffer: at start there are hundreds, so it is read at one go and the buffer
 * is kept. False: it cannot be read, or is longer than SCRIPT_MAX. */
static bool read_script(buf *text, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0) return false;
    buf_reset(text);
    bool whole = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size <= SCRIPT_MAX;
    size_t room = whole ? (size_t)st.st_size : 0; /* one that grows meanwhile is read as long as it was */
    uint8_t *p = whole ? buf_reserve(text, room + 1) : NULL;
    while (p && text->n < room) {
        ssize_t n = read(fd, p + text->n, room - text->n);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) p = NULL;
        if (n <= 0) break;
        text->n += (size_t)n;
    }
    close(fd);
    return p != NULL;
}

/* Loads a script from path under the name chunkname. LUA_ERRFILE, and nothing pushed, when it cannot be read. */
static int load_script(lua_State *L, const char *path, const char *chunkname)
{
    buf *text = &host_of(L)->script;
    int status = LUA_ERRFILE;
    if (read_script(text, path)) status = bundle_load(L, buf_view(text), chunkname); /* protected: does not throw */
    if (text->cap > SCRIPT_KEEP) buf_fini(text);
    return status;
}

/* require's searcher for the script folder. Upvalue 1: the folder. Pushes the loader and the path, or nothing. */
static int l_search(lua_State *L)
{
    static const char *const FORMS[] = {"%s.lua", "%s/init.lua"};
    const char *name = luaL_checkstring(L, 1);
    const char *dir = lua_tostring(L, lua_upvalueindex(1));
    lua_settop(L, 1);
    const char *rel = luaL_gsub(L, name, ".", "/"); // name rel
    for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
        lua_settop(L, 2);
        const char *file = lua_pushfstring(L, FORMS[i], rel);        // name rel file
        const char *path = lua_pushfstring(L, "%s/%s", dir, file);   // name rel file path
        const char *chunkname = lua_pushfstring(L, "@lua/%s", file); // name rel file path chunkname
        int status = load_script(L, path, chunkname);                // name rel file path chunkname (loader)
        if (status == LUA_ERRFILE) continue;
        if (status != LUA_OK) return luaL_error(L, "error loading module '%s': %s", name, lua_tostring(L, -1));
        lua_pushstring(L, path); // … loader path
        return 2;
    }
    return 0; /* the standard searcher comes next and says where it looked: package.path names the same folder */
}

void search__install(lua_State *L, const char *lua_dir)
{
    lua_getglobal(L, "package"); // package
    if (lua_dir)
        lua_pushfstring(L, "%s/?.lua;%s/?/init.lua", lua_dir, lua_dir); // package path
    else
        lua_pushliteral(L, "");   // package path
    lua_setfield(L, -2, "path");  // package
    lua_pushliteral(L, "");       // package cpath
    lua_setfield(L, -2, "cpath"); // package
    if (lua_dir) {
        lua_getfield(L, -1, "searchers"); // package searchers
        lua_Integer n = luaL_len(L, -1);
        for (lua_Integer i = n; i >= 2; i--) {
            lua_rawgeti(L, -1, i);     // package searchers searcher
            lua_rawseti(L, -2, i + 1); // package searchers
        }
        lua_pushstring(L, lua_dir);       // package searchers dir
        lua_pushcclosure(L, l_search, 1); // package searchers fn
        lua_rawseti(L, -2, 2);            // package searchers
        lua_pop(L, 1);                    // package
    }
    lua_pop(L, 1); //
}
