/* SPDX-License-Identifier: MIT */
/* heap_lua.c: lunette.heap: what the job `heap` of a worker wrote: a graph, which lunette.graph opens, and behind it
 * the details. */
#include <lauxlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/host_internal.h"
#include "memory/graph.h"
#include "memory/memory_lua.h"

#define DETAILS_MAX ((size_t)64 << 20)

int luaopen_lunette_heap(lua_State *L);

/* heap.fd(result): its descriptor, borrowed, for graph.open. */
static int l_fd(lua_State *L)
{
    lua_pushinteger(L, memory_result_fd(L, 1));
    return 1;
}

/* heap.details(result): the text behind the graph; nil, err. */
static int l_details(lua_State *L)
{
    int fd = memory_result_fd(L, 1);
    struct stat st;
    err e = {0};
    uint64_t from = graph_written(fd);
    if (!from || fstat(fd, &st) < 0 || (uint64_t)st.st_size < from || (uint64_t)st.st_size - from > DETAILS_MAX) {
        (void)err_set(&e, ERR_MALFORMED, "the worker's result is no heap");
        return host_push_err(L, &e);
    }
    size_t n = (size_t)((uint64_t)st.st_size - from), done = 0;
    luaL_Buffer b;
    char *p = luaL_buffinitsize(L, &b, n);
    while (done < n) {
        ssize_t got = pread(fd, p + done, n - done, (off_t)(from + done));
        if (got <= 0) break;
        done += (size_t)got;
    }
    luaL_pushresultsize(&b, done);
    return 1;
}

int luaopen_lunette_heap(lua_State *L)
{
    static const luaL_Reg functions[] = {{"fd", l_fd}, {"details", l_details}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
