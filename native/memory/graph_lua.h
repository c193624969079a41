/* SPDX-License-Identifier: MIT */
/* graph_lua.h: what the files of the face `lunette.graph` share, and how another face gives a graph to Lua. */
#ifndef LUNETTE_MEMORY_GRAPH_LUA_H
#define LUNETTE_MEMORY_GRAPH_LUA_H

#include <lua.h>

#include "host/job.h"
#include "memory/dominators.h"
#include "memory/gcdump.h"

#define GRAPH_TYPE "lunette.graph"

/* The artifact: the graph, and what has been made of it. */
typedef struct graph_box {
    graph *g; /* NULL: closed */
    graph_tree *t;
    graph_ways *w;
} graph_box;
/* Pushes a graph as an artifact, and takes the reference over once it has returned: when it throws, the reference is
 * still the caller's. */
void graph_lua__push(lua_State *L, graph *g);
graph_box *graph_lua__check(lua_State *L, int idx); /* a Lua error when it is none or closed */

/* One thing that takes a while: its question is filled in by the Lua thread, `work` answers on a worker thread, `push`
 * puts the answer on the stack. */
typedef struct graph_job graph_job;
struct graph_job {
    host_job job;
    void (*work)(graph_job *j);
    int (*push)(lua_State *L, graph_job *j);
    graph *g; /* references, or NULL */
    graph_tree *t;
    graph_ways *w;
    /* the question */
    gcdump *dump;
    char *path;
    int fd; /* -1: none; the job's */
    uint32_t node, type, n;
    unsigned depth;
    uint32_t *types; /* [n] */
    /* the answer */
    gcdump_quality quality;
    gcdump_file_info file;
    graph_row *rows;
    uint32_t n_rows, total;
    uint64_t bytes;
    uint32_t *ways, *lengths, *roots; /* [n][depth], [n] */
    graph_reach reach;
    graph_tiles tiles;
};
/* A job with references on what the box holds, NULL for nothing; host_job_run starts it. Throws without memory. */
graph_job *graph_lua__job(lua_State *L, const graph_box *box);

/* graph_ask_lua.c: the artifact's methods. */
int graph_lua__types(lua_State *L);
int graph_lua__roots(lua_State *L);
int graph_lua__object(lua_State *L);
int graph_lua__diff(lua_State *L);
int graph_lua__top(lua_State *L);
int graph_lua__ways(lua_State *L);
int graph_lua__reach(lua_State *L);
int graph_lua__together(lua_State *L);
int graph_lua__tiles(lua_State *L);

#endif
