/* SPDX-License-Identifier: MIT */
/* graph_ask_lua.c: what Lua asks of a graph. Rows are bounded by the caller's numbers; addresses are whole numbers. */
#include <stdlib.h>

#include "base/mem.h"
#include "host/host.h"
#include "memory/graph_lua.h"

#define ROWS_MAX  10000
#define DEPTH_MAX 4096

/* A whole number of the table of options at index 2. */
static uint64_t option(lua_State *L, const char *key, uint64_t otherwise, uint64_t max)
{
    lua_getfield(L, 2, key);
    lua_Integer n = luaL_optinteger(L, -1, (lua_Integer)otherwise);
    lua_pop(L, 1);
    if (n < 0) luaL_error(L, "'%s' is negative", key);
    return (uint64_t)n < max ? (uint64_t)n : max;
}

static bool flag(lua_State *L, const char *key)
{
    lua_getfield(L, 2, key);
    bool on = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return on;
}

static void push_slice(lua_State *L, const char *key, slice s)
{
    if (s.n == 0) return;
    lua_pushlstring(L, (const char *)s.p, s.n);
    lua_setfield(L, -2, key);
}

/* Into the table on top: whose type it is. */
static void push_type(lua_State *L, const graph *g, uint32_t type)
{
    graph_type t;
    graph_type_at(g, type, &t);
    host_set_count(L, "type", type);
    push_slice(L, "name", t.name);
    push_slice(L, "module", t.module_name);
    push_slice(L, "module_path", t.module_path);
    if (t.token) host_set_count(L, "token", t.token);
    if (t.mvid) {
        lua_pushlstring(L, (const char *)t.mvid, 16);
        lua_setfield(L, -2, "mvid");
    }
}

static void push_totals(lua_State *L, const graph_box *box, uint32_t type)
{
    graph_type t;
    graph_type_at(box->g, type, &t);
    lua_createtable(L, 0, 8);
    push_type(L, box->g, type);
    host_set_count(L, "count", t.count);
    host_set_count(L, "bytes", t.bytes);
    if (box->t) host_set_count(L, "retained", graph_retained_by_type(box->t, type));
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

typedef struct ranked {
    uint64_t value, then;
    uint32_t type;
} ranked;

static int most_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    if (x->then != y->then) return x->then > y->then ? -1 : 1;
    return (x->type > y->type) - (x->type < y->type);
}

static ranked rank(const graph_box *box, uint32_t type, int by)
{
    graph_type t;
    graph_type_at(box->g, type, &t);
    uint64_t retained = box->t ? graph_retained_by_type(box->t, type) : 0;
    return (ranked){by == 0 ? t.bytes : by == 1 ? t.count : retained, by == 0 ? t.count : t.bytes, type};
}

/* Upper and lower case of ASCII alike. */
static bool contains(slice text, slice part)
{
    for (size_t i = 0; i + part.n <= text.n; i++) {
        size_t k = 0;
        while (k < part.n && (text.p[i + k] | (text.p[i + k] >= 'A' && text.p[i + k] <= 'Z' ? 32 : 0)) ==
                                 (part.p[k] | (part.p[k] >= 'A' && part.p[k] <= 'Z' ? 32 : 0)))
            k++;
        if (k == part.n) return true;
    }
    return part.n == 0;
}

static bool wanted(const graph *g, uint32_t type, slice exact, slice part)
{
    graph_type t;
    graph_type_at(g, type, &t);
    return t.count && (!exact.p || slice_eq(t.name, exact)) && (!part.p || contains(t.name, part));
}

static slice text_option(lua_State *L, const char *key)
{
    size_t n;
    lua_getfield(L, 2, key);
    const char *s = luaL_optlstring(L, -1, NULL, &n);
    lua_pop(L, 1); /* the table keeps it */
    return s ? slice_of(s, n) : (slice){0};
}

/* graph:types{by="bytes"|"instances"|"retained", top=, name=, contains=}: rows, and how many types there are. */
int graph_lua__types(lua_State *L)
{
    static const char *const bys[] = {"bytes", "instances", "retained", NULL};
    const graph_box *box = graph_lua__check(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_getfield(L, 2, "by");
    int by = luaL_checkoption(L, -1, "bytes", bys);
    uint64_t top = option(L, "top", 50, GRAPH_MAX_TYPES);
    slice exact = text_option(L, "name"), part = text_option(L, "contains");
    if (by == 2 && !box->t) return luaL_error(L, "graph:types: analyse() first");
    uint32_t n = graph_info_of(box->g)->types, k = 0;
    ranked *list = lua_newuserdatauv(L, (n + UINT64_C(1)) * sizeof *list, 0);
    for (uint32_t i = 0; i < n; i++)
        if (wanted(box->g, i, exact, part)) list[k++] = rank(box, i, by);
    qsort(list, k, sizeof *list, most_first);
    lua_createtable(L, (int)(k < top ? k : top), 0);
    for (uint32_t i = 0; i < k && i < top; i++) {
        push_totals(L, box, list[i].type);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushinteger(L, k);
    return 2;
}

/* Types of one name and module are one, whatever graph they are of. */
static void push_key(lua_State *L, const graph_type *t)
{
    lua_pushlstring(L, (const char *)t->name.p, t->name.n);
    if (t->module_name.n == 0) return;
    lua_pushliteral(L, "\n");
    lua_pushlstring(L, (const char *)t->module_name.p, t->module_name.n);
    lua_concat(L, 3);
}

/* Adds to a number of the table on top. */
static void bump(lua_State *L, const char *key, uint64_t n)
{
    lua_getfield(L, -1, key);
    n += (uint64_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
    host_set_count(L, key, n);
}

static void add_side(lua_State *L, const graph *g, int rows, const char *count, const char *bytes)
{
    graph_type t;
    for (uint32_t i = 0; i < graph_info_of(g)->types; i++) {
        graph_type_at(g, i, &t);
        if (!t.count) continue;
        push_key(L, &t);                         // key
        lua_pushvalue(L, -1);                    // key key
        if (lua_rawget(L, rows) != LUA_TTABLE) { // key row?
            lua_pop(L, 1);                       // key
            lua_createtable(L, 0, 8);            // key row
            push_type(L, g, i);
            lua_pushvalue(L, -2); // key row key
            lua_pushvalue(L, -2); // key row key row
            lua_rawset(L, rows);  // key row
        }
        bump(L, count, t.count);
        bump(L, bytes, t.bytes);
        lua_pop(L, 2); //
    }
}

/* graph:diff(before): by key {name=, module=, count=, bytes=, count_before=, bytes_before=} of all types that one of
 * them has; what is absent was none. */
int graph_lua__diff(lua_State *L)
{
    const graph_box *after = graph_lua__check(L, 1), *before = graph_lua__check(L, 2);
    lua_newtable(L);
    int rows = lua_gettop(L);
    add_side(L, after->g, rows, "count", "bytes");
    add_side(L, before->g, rows, "count_before", "bytes_before");
    return 1;
}

/* ---- roots, objects ---------------------------------------------------------------------------------------------- */

/* graph:roots(): by kind {kind=, count=, objects=, bytes=, pinned=, interior=}; objects and bytes are of what they
 * refer to, each once a kind. */
int graph_lua__roots(lua_State *L)
{
    const graph *g = graph_lua__check(L, 1)->g;
    uint32_t n = graph_info_of(g)->nodes, k = 0;
    uint16_t *seen = lua_newuserdatauv(L, (n + UINT64_C(1)) * sizeof *seen, 0);
    struct {
        uint64_t count, objects, bytes, pinned, interior;
    } sum[GRAPH_ROOT_KIND_COUNT] = {0};
    _Static_assert(GRAPH_ROOT_KIND_COUNT <= 16, "a bit each");
    memset(seen, 0, n * sizeof *seen);
    for (uint32_t i = 0; i < graph_info_of(g)->roots; i++) {
        graph_root r;
        graph_root_at(g, i, &r);
        sum[r.kind].count++;
        sum[r.kind].pinned += (r.flags & GRAPH_PINNED) != 0;
        sum[r.kind].interior += (r.flags & GRAPH_INTERIOR) != 0;
        if (seen[r.node] >> r.kind & 1) continue;
        seen[r.node] |= (uint16_t)(1u << r.kind);
        sum[r.kind].objects++;
        sum[r.kind].bytes += graph_size(g, r.node);
    }
    lua_newtable(L);
    for (int i = 0; i < GRAPH_ROOT_KIND_COUNT; i++) {
        if (!sum[i].count) continue;
        lua_createtable(L, 0, 6);
        lua_pushstring(L, graph_root_kind_name((graph_root_kind)i));
        lua_setfield(L, -2, "kind");
        host_set_count(L, "count", sum[i].count);
        host_set_count(L, "objects", sum[i].objects);
        host_set_count(L, "bytes", sum[i].bytes);
        host_set_count(L, "pinned", sum[i].pinned);
        host_set_count(L, "interior", sum[i].interior);
        lua_rawseti(L, -2, (lua_Integer)++k);
    }
    return 1;
}

/* Into the table on top: one object. */
static void push_object(lua_State *L, const graph *g, uint32_t node)
{
    host_set_count(L, "address", graph_address(g, node));
    host_set_count(L, "size", graph_size(g, node));
    push_type(L, g, graph_type_of(g, node));
}

static uint32_t node_at(lua_State *L, const graph *g, int idx)
{
    return graph_find(g, (uint64_t)luaL_checkinteger(L, idx), false);
}

/* graph:object(address): {address=, size=, name=, …, references=, retained=?, dominator=?, distance=?}, or nil. */
int graph_lua__object(lua_State *L)
{
    const graph_box *box = graph_lua__check(L, 1);
    uint32_t node = node_at(L, box->g, 2), n;
    if (node == GRAPH_NONE) return 0;
    (void)graph_targets(box->g, node, &n);
    lua_createtable(L, 0, 12);
    push_object(L, box->g, node);
    host_set_count(L, "references", n);
    if (box->t && graph_dominator(box->t, node) != GRAPH_NONE) {
        uint32_t d = graph_dominator(box->t, node);
        host_set_count(L, "retained", graph_retained(box->t, node));
        host_set_count(L, "objects", graph_dominated(box->t, node));
        if (d < graph_info_of(box->g)->nodes) host_set_count(L, "dominator", graph_address(box->g, d));
    }
    if (box->w && graph_distance(box->w, node) != GRAPH_NONE)
        host_set_count(L, "distance", graph_distance(box->w, node));
    return 1;
}

/* ---- by retained size -------------------------------------------------------------------------------------------- */

static void work_top(graph_job *j)
{
    j->rows = mem_calloc(j->n + UINT64_C(1), sizeof *j->rows);
    if (!j->rows) {
        (void)err_set(&j->job.e, ERR_NO_MEMORY, "no memory for %u rows", j->n);
        return;
    }
    j->n_rows = graph_tree_top(j->t, j->node, j->type, j->rows, j->n, &j->total, &j->bytes);
}

static int push_top(lua_State *L, graph_job *j)
{
    lua_createtable(L, (int)j->n_rows, 0);
    for (uint32_t i = 0; i < j->n_rows; i++) {
        lua_createtable(L, 0, 8);
        push_object(L, j->g, j->rows[i].node);
        host_set_count(L, "retained", j->rows[i].retained);
        host_set_count(L, "objects", j->rows[i].objects);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushinteger(L, j->total);
    lua_pushinteger(L, (lua_Integer)j->bytes);
    return 3;
}

/* graph:top{top=, type=?, under=? (an address), roots=? (what only the roots keep)}: rows, how many there are, and
 * their bytes. */
int graph_lua__top(lua_State *L)
{
    const graph_box *box = graph_lua__check(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    if (!box->t) return luaL_error(L, "graph:top: analyse() first");
    uint32_t n = (uint32_t)option(L, "top", 50, ROWS_MAX), type = (uint32_t)option(L, "type", GRAPH_NONE, GRAPH_NONE);
    uint32_t under = flag(L, "roots") ? graph_info_of(box->g)->nodes : GRAPH_NONE;
    if (lua_getfield(L, 2, "under") != LUA_TNIL && (under = node_at(L, box->g, -1)) == GRAPH_NONE) return 0;
    graph_job *j = graph_lua__job(L, box);
    j->n = n;
    j->type = type;
    j->node = under;
    j->work = work_top;
    j->push = push_top;
    return host_job_run(L, j);
}

/* ---- ways -------------------------------------------------------------------------------------------------------- */

/* An example of each type, or the one node, and the ways to them. */
static void work_ways(graph_job *j)
{
    j->ways = mem_alloc((j->n * (uint64_t)j->depth + 1) * sizeof *j->ways);
    j->lengths = mem_calloc(j->n + UINT64_C(1), sizeof *j->lengths);
    j->roots = mem_calloc(j->n + UINT64_C(1), sizeof *j->roots);
    if (!j->ways || !j->lengths || !j->roots) {
        (void)err_set(&j->job.e, ERR_NO_MEMORY, "no memory for %u ways", j->n);
        return;
    }
    for (uint32_t i = 0; i < j->n; i++) {
        uint32_t node = j->types ? graph_example(j->w, j->t, j->types[i]) : j->node;
        if (node != GRAPH_NONE)
            j->lengths[i] = graph_way(j->w, node, j->ways + i * (size_t)j->depth, j->depth, &j->roots[i]);
    }
}

static void push_way(lua_State *L, const graph_job *j, uint32_t i)
{
    uint32_t length = j->lengths[i], n = length < j->depth ? length : j->depth;
    graph_root r;
    lua_createtable(L, (int)n, 4);
    if (length == 0) return;
    graph_root_at(j->g, j->roots[i], &r);
    lua_pushstring(L, graph_root_kind_name(r.kind));
    lua_setfield(L, -2, "kind");
    push_slice(L, "root", r.name);
    if (r.slot) host_set_count(L, "slot", r.slot);
    host_set_count(L, "length", length);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t node = j->ways[i * (size_t)j->depth + k];
        lua_createtable(L, 0, 8);
        push_object(L, j->g, node);
        if (j->t) host_set_count(L, "retained", graph_retained(j->t, node));
        lua_rawseti(L, -2, k + 1);
    }
}

static int push_ways(lua_State *L, graph_job *j)
{
    lua_createtable(L, (int)j->n, 0);
    for (uint32_t i = 0; i < j->n; i++) {
        push_way(L, j, i);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* The list of types at index 3 into the job. */
static void read_types(lua_State *L, graph_job *j, uint32_t known)
{
    for (uint32_t i = 0; i < j->n; i++) {
        lua_rawgeti(L, 3, i + 1);
        lua_Integer type = lua_tointeger(L, -1);
        lua_pop(L, 1);
        j->types[i] = type >= 0 && type < known ? (uint32_t)type : GRAPH_NONE;
    }
}

/* graph:ways{types={…} or address=, depth=}: of each the shortest way {kind=, root=?, length=, objects from the root's
 * on}, without objects where no root keeps one. Longer ones than depth keep their first object and the last ones. nil:
 * no object has the address. */
int graph_lua__ways(lua_State *L)
{
    const graph_box *box = graph_lua__check(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    if (!box->w) return luaL_error(L, "graph:ways: analyse() first");
    uint32_t depth = (uint32_t)option(L, "depth", 8, DEPTH_MAX), node = GRAPH_NONE, n = 1;
    bool by_type = lua_getfield(L, 2, "types") == LUA_TTABLE;
    if (by_type) {
        lua_Integer len = luaL_len(L, -1);
        n = len > ROWS_MAX ? ROWS_MAX : (uint32_t)len;
    } else {
        lua_getfield(L, 2, "address");
        node = node_at(L, box->g, -1);
        if (node == GRAPH_NONE) return 0;
    }
    graph_job *j = graph_lua__job(L, box);
    j->n = n;
    j->depth = depth ? depth : 1;
    j->node = node;
    j->work = work_ways;
    j->push = push_ways;
    if (by_type && !(j->types = mem_calloc(n + UINT64_C(1), sizeof *j->types)))
        (void)err_set(&j->job.e, ERR_NO_MEMORY, "no memory for %u ways", n);
    else if (by_type)
        read_types(L, j, graph_info_of(box->g)->types);
    return host_job_run(L, j);
}

/* ---- what can be reached ----------------------------------------------------------------------------------------- */

static void work_reach(graph_job *j) { (void)graph_reachable(j->g, j->node, j->n, &j->reach, &j->job.e); }

static int push_reach(lua_State *L, graph_job *j)
{
    lua_createtable(L, 0, 3);
    host_set_count(L, "bytes", j->reach.bytes);
    host_set_count(L, "objects", j->reach.objects);
    lua_pushboolean(L, j->reach.truncated);
    lua_setfield(L, -2, "truncated");
    return 1;
}

/* graph:reach(address, max): nil: no object has the address. */
int graph_lua__reach(lua_State *L)
{
    const graph_box *box = graph_lua__check(L, 1);
    uint32_t node = node_at(L, box->g, 2);
    lua_Integer max = luaL_checkinteger(L, 3);
    if (node == GRAPH_NONE) return 0;
    graph_job *j = graph_lua__job(L, box);
    j->node = node;
    j->n = max < 1 ? 1 : max > GRAPH_MAX_NODES ? GRAPH_MAX_NODES : (uint32_t)max;
    j->work = work_reach;
    j->push = push_reach;
    return host_job_run(L, j);
}

static void work_together(graph_job *j) { (void)graph_retained_together(j->g, j->type, &j->reach, &j->job.e); }

/* graph:together(type): what would go with all objects of a type, as of graph:types(). */
int graph_lua__together(lua_State *L)
{
    const graph_box *box = graph_lua__check(L, 1);
    lua_Integer type = luaL_checkinteger(L, 2);
    luaL_argcheck(L, type >= 0 && type < graph_info_of(box->g)->types, 2, "a type of this graph");
    graph_job *j = graph_lua__job(L, box);
    j->type = (uint32_t)type;
    j->work = work_together;
    j->push = push_reach;
    return host_job_run(L, j);
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

static void work_tiles(graph_job *j) { (void)graph_tree_tiles(j->t, j->depth, j->n, &j->tiles, &j->job.e); }

static int push_tiles(lua_State *L, graph_job *j)
{
    lua_createtable(L, (int)j->tiles.n, 0);
    for (uint32_t i = 0; i < j->tiles.n; i++) {
        const graph_tile *t = &j->tiles.rows[i];
        lua_createtable(L, 0, 8);
        host_set_count(L, "parent", t->parent + 1);
        host_set_count(L, "count", t->count);
        host_set_count(L, "retained", t->retained);
        host_set_count(L, "own", t->own);
        if (t->type != GRAPH_NONE) push_type(L, j->g, t->type);
        if (t->node != GRAPH_NONE) host_set_count(L, "address", graph_address(j->g, t->node));
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* graph:tiles{depth=, least=}: the dominator tree by type from the roots down; parent is a row's number. */
int graph_lua__tiles(lua_State *L)
{
    const graph_box *box = graph_lua__check(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    if (!box->t) return luaL_error(L, "graph:tiles: analyse() first");
    unsigned depth = (unsigned)option(L, "depth", 8, 64);
    uint32_t least = (uint32_t)option(L, "least", 1000, UINT32_MAX);
    graph_job *j = graph_lua__job(L, box);
    j->depth = depth;
    j->n = least;
    j->work = work_tiles;
    j->push = push_tiles;
    return host_job_run(L, j);
}
