/* SPDX-License-Identifier: MIT */
/* graph_lua.c: the Lua face `lunette.graph` (docs/design/heap.md): heap snapshots of events and of files, and the
 * worker thread for all that takes a while. */
#include "memory/graph_lua.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/tap_lua.h"

#define COLLECTOR_TYPE "lunette.graph.collector"

int luaopen_lunette_graph(lua_State *L);

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

void graph_lua__push(lua_State *L, graph *g)
{
    graph_box *box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = (graph_box){0};
    luaL_setmetatable(L, GRAPH_TYPE);
    box->g = g;
}

graph_box *graph_lua__check(lua_State *L, int idx)
{
    graph_box *box = luaL_checkudata(L, idx, GRAPH_TYPE);
    if (!box->g) luaL_argerror(L, idx, "the graph is closed");
    return box;
}

static int l_close(lua_State *L)
{
    graph_box *box = luaL_checkudata(L, 1, GRAPH_TYPE);
    graph_tree_unref(box->t);
    graph_ways_unref(box->w);
    graph_unref(box->g);
    *box = (graph_box){0};
    return 0;
}

static int l_tostring(lua_State *L)
{
    const graph_box *box = luaL_checkudata(L, 1, GRAPH_TYPE);
    if (box->g)
        lua_pushfstring(L, "graph of %I objects", (LUAI_UACINT)graph_info_of(box->g)->objects);
    else
        lua_pushliteral(L, "graph (closed)");
    return 1;
}

/* graph:info() */
static int l_info(lua_State *L)
{
    const graph_box *box = graph_lua__check(L, 1);
    const graph_info *i = graph_info_of(box->g);
    lua_createtable(L, 0, 16);
    host_set_count(L, "objects", i->objects);
    host_set_count(L, "references", i->edges);
    host_set_count(L, "types", i->types);
    host_set_count(L, "roots", i->roots);
    host_set_count(L, "bytes", i->bytes);
    host_set_count(L, "dangling", i->dangling_edges);
    host_set_count(L, "missing", i->missing_edges);
    host_set_count(L, "dangling_roots", i->dangling_roots);
    host_set_count(L, "duplicates", i->duplicate_nodes);
    host_set_count(L, "dropped_objects", i->dropped_nodes);
    host_set_count(L, "dropped_references", i->dropped_edges);
    host_set_count(L, "dropped_roots", i->dropped_roots);
    host_set_count(L, "unnamed_types", i->unnamed_types);
    host_set_count(L, "memory", i->memory + (box->t ? graph_tree_info_of(box->t)->memory : 0));
    if (box->t) {
        const graph_tree_info *t = graph_tree_info_of(box->t);
        host_set_count(L, "reached", t->reached);
        host_set_count(L, "reached_bytes", t->reached_bytes);
        host_set_count(L, "unreached", t->unreached);
        host_set_count(L, "unreached_bytes", t->unreached_bytes);
    }
    return 1;
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

static void job_fini(void *arg)
{
    graph_job *j = arg;
    graph_tree_unref(j->t);
    graph_ways_unref(j->w);
    graph_unref(j->g);
    gcdump_unref(j->dump);
    if (j->fd >= 0) (void)close(j->fd);
    free(j->path);
    free(j->types);
    free(j->rows);
    free(j->ways);
    free(j->lengths);
    free(j->roots);
    free(j->tiles.rows);
}

static int job_work(void *arg)
{
    graph_job *j = arg;
    j->work(j);
    return j->job.e.kind == ERR_NONE ? 0 : -1;
}

static int job_push(lua_State *L, void *arg)
{
    graph_job *j = arg;
    return j->push(L, j);
}

graph_job *graph_lua__job(lua_State *L, const graph_box *box)
{
    static const host_job_class ops = {.work = job_work, .push = job_push, .fini = job_fini};
    graph_job *j = host_job_new(L, sizeof *j, &ops);
    j->fd = -1;
    if (!box) return j;
    j->g = graph_ref(box->g);
    j->t = box->t ? graph_tree_ref(box->t) : NULL;
    j->w = box->w ? graph_ways_ref(box->w) : NULL;
    return j;
}

/* ---- making what is asked of ------------------------------------------------------------------------------------- */

static void work_analyse(graph_job *j)
{
    if (!j->t) j->t = graph_tree_new(j->g, &j->job.e);
    if (j->t && !j->w) j->w = graph_ways_new(j->g, &j->job.e);
}

static int push_analyse(lua_State *L, graph_job *j)
{
    graph_box *box = luaL_checkudata(L, 1, GRAPH_TYPE);
    if (box->g && !box->t) box->t = graph_tree_ref(j->t);
    if (box->g && !box->w) box->w = graph_ways_ref(j->w);
    lua_pushboolean(L, 1);
    return 1;
}

/* graph:analyse(): once; what needs it says so. */
static int l_analyse(lua_State *L)
{
    graph_box *box = graph_lua__check(L, 1);
    if (box->t && box->w) {
        lua_pushboolean(L, 1);
        return 1;
    }
    graph_job *j = graph_lua__job(L, box);
    j->work = work_analyse;
    j->push = push_analyse;
    return host_job_run(L, j);
}

/* ---- collectors -------------------------------------------------------------------------------------------------- */

typedef struct collector_box {
    tap_box tap; /* first: events.open sees only this */
    gcdump *d;
    bool used, built;
} collector_box;

static nt_tap *take(tap_box *box)
{
    collector_box *x = (collector_box *)box;
    if (!x->d || x->used) return NULL;
    x->used = true;
    return gcdump_tap(x->d);
}

static int l_collector_close(lua_State *L)
{
    collector_box *x = luaL_checkudata(L, 1, COLLECTOR_TYPE);
    gcdump_unref(x->d);
    x->d = NULL;
    return 0;
}

static collector_box *check_collector(lua_State *L)
{
    collector_box *x = luaL_checkudata(L, 1, COLLECTOR_TYPE);
    if (!x->d) luaL_argerror(L, 1, "the collector is closed");
    return x;
}

/* collector:progress() */
static int l_progress(lua_State *L)
{
    gcdump_progress p;
    gcdump_progress_of(check_collector(L)->d, &p);
    lua_createtable(L, 0, 5);
    lua_pushboolean(L, p.started);
    lua_setfield(L, -2, "started");
    lua_pushboolean(L, p.stopped);
    lua_setfield(L, -2, "stopped");
    lua_pushboolean(L, p.ended);
    lua_setfield(L, -2, "ended");
    host_set_count(L, "objects", p.objects);
    host_set_count(L, "bytes", p.bytes);
    return 1;
}

static void work_build(graph_job *j) { j->g = gcdump_graph(j->dump, &j->quality, &j->job.e); }

static void push_graph(lua_State *L, graph_job *j)
{
    graph_lua__push(L, NULL);
    graph_box *box = lua_touserdata(L, -1);
    box->g = j->g;
    j->g = NULL;
}

static void push_sizes(lua_State *L, const gcdump_quality *q)
{
    static const char *const names[] = {"gen0", "gen1", "gen2", "large", "pinned"};
    lua_createtable(L, 0, 6);
    for (int i = 0; i < 5; i++)
        host_set_count(L, names[i], q->generation[i]);
    if (q->committed) host_set_count(L, "committed", q->committed);
    lua_setfield(L, -2, "sizes");
}

static int push_built(lua_State *L, graph_job *j)
{
    const gcdump_quality *q = &j->quality;
    push_graph(L, j);
    lua_createtable(L, 0, 8);
    lua_pushboolean(L, q->gc_stopped);
    lua_setfield(L, -2, "gc_stopped");
    host_set_count(L, "gaps", q->gaps);
    host_set_count(L, "bad", q->bad);
    host_set_count(L, "no_name", q->no_name);
    host_set_count(L, "other_gcs", q->other_gcs);
    if (q->gc_ns >= 0) host_set_count(L, "gc_ns", (uint64_t)q->gc_ns);
    if (q->has_sizes) push_sizes(L, q);
    return 2;
}

/* collector:build() */
static int l_build(lua_State *L)
{
    collector_box *x = check_collector(L);
    gcdump_progress p;
    gcdump_progress_of(x->d, &p);
    if (!x->used || !p.ended || x->built) {
        err e = {0};
        (void)err_set(&e, ERR_CONFLICT,
                      x->built  ? "this snapshot has been built already"
                      : x->used ? "the stream has not ended"
                                : "no stream went through this collector");
        err_hint(&e, "open a source with tap=collector, stop it, then build once");
        return host_push_err(L, &e);
    }
    graph_job *j = graph_lua__job(L, NULL);
    x->built = true;
    j->dump = gcdump_ref(x->d);
    j->work = work_build;
    j->push = push_built;
    return host_job_run(L, j);
}

/* graph.collector{max_objects=, max_memory=} */
static int l_collector(lua_State *L)
{
    graph_limits lim = {0};
    if (lua_istable(L, 1)) {
        lua_getfield(L, 1, "max_objects");
        lua_Integer n = luaL_optinteger(L, -1, 0);
        lim.nodes = n > 0 && n < GRAPH_MAX_NODES ? (uint32_t)n : 0;
        lua_getfield(L, 1, "max_memory");
        n = luaL_optinteger(L, -1, 0);
        lim.memory = n > 0 ? (size_t)n : 0;
    }
    collector_box *x = lua_newuserdatauv(L, sizeof *x, 0);
    *x = (collector_box){.tap = {take}};
    luaL_setmetatable(L, COLLECTOR_TYPE);
    err e = {0};
    x->d = gcdump_new(&lim, &e);
    return x->d ? 1 : host_push_err(L, &e);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void work_read(graph_job *j) { j->g = gcdump_read_file(j->path, NULL, &j->file, &j->job.e); }

static int push_read(lua_State *L, graph_job *j)
{
    const gcdump_file_info *f = &j->file;
    push_graph(L, j);
    lua_createtable(L, 0, 8);
    if (f->pid) host_set_count(L, "pid", (uint64_t)f->pid);
    if (f->unix_ms) host_set_count(L, "unix_ms", (uint64_t)f->unix_ms);
    lua_pushstring(L, f->process_name);
    lua_setfield(L, -2, "process_name");
    lua_pushstring(L, f->machine_name);
    lua_setfield(L, -2, "machine_name");
    lua_pushstring(L, f->tool);
    lua_setfield(L, -2, "tool");
    lua_pushboolean(L, f->sampled);
    lua_setfield(L, -2, "sampled");
    host_set_count(L, "undefined", f->undefined);
    host_set_count(L, "nodes", f->nodes);
    return 2;
}

/* graph.read_gcdump(path) */
static int l_read(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    graph_job *j = graph_lua__job(L, NULL);
    j->path = slice_dup(slice_str(path));
    j->work = work_read;
    j->push = push_read;
    return host_job_run(L, j);
}

static void work_open(graph_job *j) { j->g = graph_open(j->fd, &j->job.e); }

static int push_opened(lua_State *L, graph_job *j)
{
    push_graph(L, j);
    return 1;
}

/* graph.open(fd): what a worker wrote; the descriptor stays the caller's. */
static int l_open(lua_State *L)
{
    lua_Integer fd = luaL_checkinteger(L, 1);
    luaL_argcheck(L, fd >= 0 && fd < INT32_MAX, 1, "a descriptor");
    graph_job *j = graph_lua__job(L, NULL);
    j->fd = dup((int)fd);
    j->work = work_open;
    j->push = push_opened;
    return host_job_run(L, j);
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

int luaopen_lunette_graph(lua_State *L)
{
    static const luaL_Reg collector_meta[] = {
        {"__gc", l_collector_close}, {"__close", l_collector_close}, {TAP_FIELD, l_collector_close}, {NULL, NULL}};
    static const luaL_Reg collector_methods[] = {
        {"progress", l_progress}, {"build", l_build}, {"close", l_collector_close}, {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {"__tostring", l_tostring}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"info", l_info},
                                       {"analyse", l_analyse},
                                       {"types", graph_lua__types},
                                       {"roots", graph_lua__roots},
                                       {"object", graph_lua__object},
                                       {"diff", graph_lua__diff},
                                       {"top", graph_lua__top},
                                       {"ways", graph_lua__ways},
                                       {"reach", graph_lua__reach},
                                       {"together", graph_lua__together},
                                       {"tiles", graph_lua__tiles},
                                       {"close", l_close},
                                       {NULL, NULL}};
    static const luaL_Reg functions[] = {
        {"collector", l_collector}, {"read_gcdump", l_read}, {"open", l_open}, {NULL, NULL}};
    host_type(L, COLLECTOR_TYPE, collector_meta, collector_methods);
    host_type(L, GRAPH_TYPE, meta, methods);
    luaL_newlib(L, functions);
    return 1;
}
