/* SPDX-License-Identifier: MIT */
/* tree_lua.c: parts of the tree, all its nodes, and the comparison of two profiles as Lua tables. */
#include <lauxlib.h>

#include "host/host.h"
#include "profile/profile_lua.h"

#define NODES_MAX 65536

/* ---- a part of the tree ------------------------------------------------------------------------------------------ */

/* Pushes the nodes, each in its parent's children. */
static void push_nodes(lua_State *L, const profile *p, const profile_tree *t, lua_Integer *kids)
{
    lua_createtable(L, (int)t->n, 0); // list
    for (uint32_t i = 0; i < t->n; i++) {
        const profile_tree_node *n = &t->nodes[i];
        lua_createtable(L, 0, 14); // list node
        profile_lua__method(L, p, n->frame, false);
        profile_lua__counts(L, p, &n->counts);
        if (n->left_out) {
            lua_pushinteger(L, n->left_out);
            lua_setfield(L, -2, "left_out");
        }
        lua_newtable(L); // list node children
        lua_setfield(L, -2, "children");
        if (i > 0) {
            lua_rawgeti(L, -2, (lua_Integer)n->parent + 1); // list node parent
            lua_getfield(L, -1, "children");                // list node parent children
            lua_pushvalue(L, -3);
            lua_rawseti(L, -2, ++kids[n->parent]);
            lua_pop(L, 2); // list node
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1); // list
    }
    lua_rawgeti(L, -1, 1); // list root
    lua_remove(L, -2);     // root
}

/* artifact:call_tree{...} */
int profile_lua__tree(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    profile_tree_query q = {
        .root_frame = (uint32_t)profile_lua__integer(L, "root_frame", 0, 0, UINT32_MAX),
        .callers = profile_lua__flag(L, "callers"),
        .max_depth = (uint32_t)profile_lua__integer(L, "max_depth", 8, 1, PROFILE_TREE_DEPTH),
        .max_nodes = (uint32_t)profile_lua__integer(L, "max_nodes", 200, 1, PROFILE_TREE_NODES),
        .by_weight = profile_lua__flag(L, "by_bytes") || profile_lua__flag(L, "by_time"),
    };
    guard *g = profile_lua__guard(L);
    profile_tree t;
    err e = {0};
    if (profile_tree_of(p, &q, &t, &e) < 0) return host_push_err(L, &e);
    g->p[0] = t.nodes;
    lua_Integer *kids = g->p[1] = mem_calloc(t.n, sizeof *kids);
    if (!kids) return luaL_error(L, "not enough memory");
    lua_createtable(L, 0, 3);
    push_nodes(L, p, &t, kids);
    lua_setfield(L, -2, "root");
    lua_pushinteger(L, t.n);
    lua_setfield(L, -2, "nodes");
    lua_pushboolean(L, t.truncated);
    lua_setfield(L, -2, "truncated");
    profile_lua__release(g);
    return 1;
}

/* ---- all nodes --------------------------------------------------------------------------------------------------- */

/* Columns of artifact:nodes; those of before only when there is one. */
typedef enum column { PARENT, FRAME, INCLUSIVE, EXCLUSIVE, IN_BYTES, OWN_BYTES, IN_BEFORE, OWN_BEFORE, COLUMNS } column;
static const char *const column_names[COLUMNS] = {"parent",           "frame",           "inclusive",
                                                  "exclusive",        "inclusive_bytes", "exclusive_bytes",
                                                  "before_inclusive", "before_exclusive"};

static int64_t value_of(const profile *p, column c, uint32_t i)
{
    profile_node n = profile_node_at(p, i);
    switch (c) {
    case PARENT: return i ? (int64_t)n.parent : -1;
    case FRAME: return n.frame;
    case INCLUSIVE: return n.inclusive;
    case EXCLUSIVE: return n.exclusive;
    case IN_BYTES: return profile_node_counts(p, i).inclusive_weight;
    case OWN_BYTES: return profile_node_counts(p, i).exclusive_weight;
    case IN_BEFORE: return profile_node_before(p, i).inclusive;
    default: return profile_node_before(p, i).exclusive;
    }
}

/* artifact:nodes(first, count) */
int profile_lua__nodes(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    lua_Integer first = luaL_checkinteger(L, 2), count = luaL_checkinteger(L, 3), all = profile_nodes(p);
    luaL_argcheck(L, first >= 0, 2, "nodes are numbered from 0 on");
    luaL_argcheck(L, count >= 0 && count <= NODES_MAX, 3, "at most 65536 nodes at once");
    if (first > all) first = all;
    if (count > all - first) count = all - first;
    bool weighted = profile_info_of(p)->weighted, both = profile_has_before(p);
    lua_createtable(L, 0, COLUMNS);
    for (column c = PARENT; c < COLUMNS; c++) {
        if ((c == IN_BYTES || c == OWN_BYTES) && !weighted) continue;
        if ((c == IN_BEFORE || c == OWN_BEFORE) && !both) continue;
        lua_createtable(L, (int)count, 0);
        for (lua_Integer i = 0; i < count; i++) {
            lua_pushinteger(L, (lua_Integer)value_of(p, c, (uint32_t)(first + i)));
            lua_rawseti(L, -2, i + 1);
        }
        bool time = profile_info_of(p)->kind == PROFILE_CPU;
        lua_setfield(L, -2,
                     c == IN_BYTES && time    ? "inclusive_ns"
                     : c == OWN_BYTES && time ? "exclusive_ns"
                                              : column_names[c]);
    }
    return 1;
}

/* ---- two profiles ------------------------------------------------------------------------------------------------ */

static void set_side(lua_State *L, const profile *p, uint32_t frame, const char *key)
{
    if (frame == UINT32_MAX) return;
    lua_createtable(L, 0, 8);
    lua_pushinteger(L, frame);
    lua_setfield(L, -2, "frame");
    profile_lua__counts(L, p, &profile_frame_at(p, frame)->counts);
    lua_setfield(L, -2, key);
}

/* artifact:diff(before) */
int profile_lua__diff(lua_State *L)
{
    const profile *after = profile_lua__check(L, 1), *before = profile_lua__check(L, 2);
    guard *g = profile_lua__guard(L);
    profile_pair *pairs;
    uint32_t n;
    err e = {0};
    if (profile_join(before, after, &pairs, &n, &e) < 0) return host_push_err(L, &e);
    g->p[0] = pairs;
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0; i < n; i++) {
        const profile_frame *f = pairs[i].after != UINT32_MAX ? profile_frame_at(after, pairs[i].after)
                                                              : profile_frame_at(before, pairs[i].before);
        lua_createtable(L, 0, 4);
        lua_pushlstring(L, (const char *)f->module.p, f->module.n);
        lua_setfield(L, -2, "module");
        lua_pushlstring(L, (const char *)f->method.p, f->method.n);
        lua_setfield(L, -2, "method");
        set_side(L, before, pairs[i].before, "before");
        set_side(L, after, pairs[i].after, "after");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    profile_lua__release(g);
    return 1;
}
