/* SPDX-License-Identifier: MIT */
/* rows_lua.c: the artifact's lists as Lua tables. */
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/guid.h"
#include "host/host.h"
#include "profile/profile_lua.h"

#define TOP_MAX    100000
#define FRAMES_MAX 65536

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void set_text(lua_State *L, const char *key, slice s)
{
    lua_pushlstring(L, (const char *)s.p, s.n);
    lua_setfield(L, -2, key);
}

static void set_text_if(lua_State *L, const char *key, slice s)
{
    if (s.n) set_text(L, key, s);
}

static void set_hex(lua_State *L, const char *key, uint64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof text, "0x%llx", (unsigned long long)v);
    set_text(L, key, slice_of(text, (size_t)n));
}

void profile_lua__counts(lua_State *L, const profile *p, const profile_counts *c)
{
    host_set_int(L, "inclusive", c->inclusive);
    host_set_int(L, "exclusive", c->exclusive);
    host_set_int(L, "running", c->running);
    host_set_int(L, "waiting", c->waiting);
    host_set_int(L, "unknown", c->exclusive - c->running - c->waiting);
    const profile_info *i = profile_info_of(p);
    if (!i->weighted) return;
    host_set_int(L, i->kind == PROFILE_CPU ? "inclusive_ns" : "inclusive_bytes", c->inclusive_weight);
    host_set_int(L, i->kind == PROFILE_CPU ? "exclusive_ns" : "exclusive_bytes", c->exclusive_weight);
}

static void set_async_name(lua_State *L, const profile *p, uint32_t frame, const char *key)
{
    char text[2048];
    buf b;
    buf_init(&b, sizeof text);
    bool ok = profile_async_name(p, frame, &b) && b.n < sizeof text;
    if (ok) memcpy(text, b.p, b.n);
    size_t n = b.n;
    buf_fini(&b);
    if (ok) set_text(L, key, slice_of(text, n));
}

void profile_lua__method(lua_State *L, const profile *p, uint32_t frame, bool fold_async)
{
    const profile_frame *f = profile_frame_at(p, frame);
    const char *reason = profile_wait_reason(p, f->wait);
    host_set_int(L, "frame", frame);
    set_text(L, "module", f->module);
    set_text(L, "method", f->method);
    host_set_bool(L, "async", f->async);
    if (fold_async && f->async) set_async_name(L, p, frame, "method");
    if (reason) set_text(L, "wait_reason", slice_str(reason));
}

lua_Integer profile_lua__integer(lua_State *L, const char *key, lua_Integer otherwise, lua_Integer min, lua_Integer max)
{
    if (!lua_istable(L, 2)) return otherwise;
    lua_Integer v = otherwise;
    if (lua_getfield(L, 2, key) != LUA_TNIL) {
        int ok;
        v = lua_tointegerx(L, -1, &ok);
        if (!ok || v < min) luaL_error(L, "profile: '%s' must be a number from %I on", key, (LUAI_UACINT)min);
        if (v > max) v = max;
    }
    lua_pop(L, 1);
    return v;
}

bool profile_lua__flag(lua_State *L, const char *key)
{
    if (!lua_istable(L, 2)) return false;
    lua_getfield(L, 2, key);
    bool v = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return v;
}

static profile_rank read_rank(lua_State *L)
{
    static const char *const names[] = {"exclusive",       "inclusive", "running",        "bytes",
                                        "inclusive_bytes", "time",      "inclusive_time", NULL};
    if (!lua_istable(L, 2)) return PROFILE_BY_EXCLUSIVE;
    lua_getfield(L, 2, "rank_by");
    int rank = luaL_checkoption(L, -1, "exclusive", names);
    lua_pop(L, 1);
    return (profile_rank)(rank > PROFILE_BY_INCLUSIVE_WEIGHT ? rank - 2 : rank); /* bytes and time are weights */
}

/* ---- the capture ------------------------------------------------------------------------------------------------- */

int profile_lua__info(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    const profile_info *i = profile_info_of(p);
    lua_createtable(L, 0, 29);
    set_text(L, "kind", slice_str(i->kind == PROFILE_CPU ? "cpu" : "allocation"));
    host_set_count(L, "samples", i->samples);
    if (i->weighted) host_set_int(L, i->kind == PROFILE_CPU ? "thread_ns" : "bytes", (int64_t)i->weight);
    host_set_count(L, "running", i->running);
    host_set_count(L, "waiting", i->waiting);
    host_set_int(L, "unknown", (int64_t)(i->samples - i->running - i->waiting));
    host_set_int(L, "nodes", profile_nodes(p));
    host_set_int(L, "frames", profile_frames(p));
    host_set_int(L, "threads", profile_threads(p));
    host_set_count(L, "no_stack", i->no_stack);
    host_set_count(L, "dropped", i->dropped);
    host_set_count(L, "cut", i->cut);
    host_set_count(L, "full", i->full);
    host_set_count(L, "unresolved", i->unresolved);
    if (i->kind == PROFILE_CPU && i->managed + i->external > 0) {
        host_set_count(L, "managed", i->managed);
        host_set_count(L, "external", i->external);
    }
    host_set_count(L, "bad", i->bad);
    host_set_count(L, "methods_dropped", i->methods_dropped);
    host_set_int(L, "first_ns", i->first_ns);
    host_set_int(L, "last_ns", i->last_ns);
    lua_pushnumber(L, (double)i->build_ns / 1e6);
    lua_setfield(L, -2, "build_ms");
    lua_pushnumber(L, (double)i->name_ns / 1e6);
    lua_setfield(L, -2, "name_ms");
    host_set_count(L, "memory", i->memory);
    host_set_bool(L, "states", i->states);
    if (!i->causality) return 1;
    host_set_count(L, "joined", i->joined);
    host_set_count(L, "unseen", i->unseen);
    host_set_count(L, "several", i->several);
    return 1;
}

static void push_addresses(lua_State *L, const profile_frame *f)
{
    lua_createtable(L, (int)f->n_addresses, 0);
    for (uint32_t i = 0; i < f->n_addresses; i++) {
        const profile_address *a = &f->addresses[i];
        lua_createtable(L, 0, 6);
        set_hex(L, "address", a->ip);
        host_set_count(L, "samples", a->samples);
        if (a->method_id) set_hex(L, "method_id", a->method_id);
        if (a->il_offset != UINT32_MAX) host_set_int(L, "il_offset", a->il_offset);
        host_set_bool(L, "exact", a->exact);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_frame(lua_State *L, const profile *p, uint32_t n)
{
    static const char *const kinds[] = {"root", "managed", "dynamic", "native", "kernel", "unresolved"};
    const profile_frame *f = profile_frame_at(p, n);
    lua_createtable(L, 0, 24);
    profile_lua__method(L, p, n, false);
    set_text(L, "kind", slice_str(kinds[f->kind]));
    set_text_if(L, "type", f->type);
    set_text_if(L, "name", f->name);
    set_text_if(L, "signature", f->signature);
    if (f->token) host_set_int(L, "token", f->token);
    if (f->module_index != UINT32_MAX) host_set_count(L, "module_index", f->module_index + 1);
    set_text(L, "namespace", profile_namespace_at(p, f->namespace_index));
    set_async_name(L, p, n, "async_name");
    if (f->tier) set_text(L, "tier", slice_str(f->tier));
    push_addresses(L, f);
    lua_setfield(L, -2, "addresses");
    profile_lua__counts(L, p, &f->counts);
}

int profile_lua__frame(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    lua_Integer n = luaL_checkinteger(L, 2);
    if (n < 0 || n >= profile_frames(p)) {
        err e = {0};
        (void)err_set(&e, ERR_NOT_FOUND, "there is no method number %lld in this profile", (long long)n);
        return host_push_err(L, &e);
    }
    push_frame(L, p, (uint32_t)n);
    return 1;
}

int profile_lua__frames(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    lua_Integer first = profile_lua__integer(L, "first", 1, 1, UINT32_MAX);
    lua_Integer count = profile_lua__integer(L, "count", FRAMES_MAX, 0, FRAMES_MAX);
    lua_newtable(L);
    for (lua_Integer i = 0; i < count && first + i < profile_frames(p); i++) {
        push_frame(L, p, (uint32_t)(first + i));
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static void set_guid(lua_State *L, const char *key, const uint8_t *guid)
{
    char text[37];
    guid_text(guid, text);
    lua_pushstring(L, text);
    lua_setfield(L, -2, key);
}

int profile_lua__modules(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    lua_createtable(L, (int)profile_modules(p), 0);
    for (uint32_t i = 0; i < profile_modules(p); i++) {
        const profile_module *m = profile_module_at(p, i);
        lua_createtable(L, 0, 5);
        set_text(L, "name", m->name);
        set_text_if(L, "path", m->path);
        if (m->has_pdb) {
            set_guid(L, "pdb_guid", m->pdb_guid);
            host_set_int(L, "pdb_age", m->pdb_age);
            set_text_if(L, "pdb_path", m->pdb_path);
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

int profile_lua__threads(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    lua_createtable(L, (int)profile_threads(p), 0);
    for (uint32_t i = 0; i < profile_threads(p); i++) {
        const profile_thread *t = profile_thread_at(p, i);
        char text[24];
        int n = snprintf(text, sizeof text, "%llu", (unsigned long long)t->thread);
        lua_createtable(L, 0, 8);
        set_text(L, "thread", slice_of(text, (size_t)n));
        profile_lua__counts(L, p, &t->counts);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

int profile_lua__types(lua_State *L)
{
    static const char *const kinds[PROFILE_HEAPS] = {"Small", "Large", "Pinned"};
    const profile *p = profile_lua__check(L, 1);
    lua_createtable(L, (int)profile_types(p), 0);
    for (uint32_t i = 0; i < profile_types(p); i++) {
        const profile_type *t = profile_type_at(p, i);
        int most = 0;
        lua_createtable(L, 0, 6);
        set_text(L, "type", t->name);
        host_set_count(L, "events", t->events);
        host_set_count(L, "bytes", t->bytes);
        if (t->objects > 0) {
            lua_pushnumber(L, t->objects);
            lua_setfield(L, -2, "objects");
        }
        lua_createtable(L, 0, PROFILE_HEAPS);
        for (int k = 0; k < PROFILE_HEAPS; k++) {
            host_set_int(L, kinds[k], (int64_t)t->by_kind[k]);
            if (t->by_kind[k] > t->by_kind[most]) most = k;
        }
        lua_setfield(L, -2, "kinds");
        set_text(L, "kind", slice_str(kinds[most]));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Pushes a list of methods. */
static void push_methods(lua_State *L, const profile *p, const profile_rows *r, bool fold_async)
{
    lua_createtable(L, (int)r->n, 1);
    for (uint32_t i = 0; i < r->n; i++) {
        lua_createtable(L, 0, 12);
        profile_lua__method(L, p, r->rows[i].key, fold_async);
        profile_lua__counts(L, p, &r->rows[i].counts);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    host_set_int(L, "all", r->all);
}

int profile_lua__top(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    uint32_t max = (uint32_t)profile_lua__integer(L, "top", 20, 0, TOP_MAX);
    profile_rank rank = read_rank(L);
    bool fold = profile_lua__flag(L, "fold_async");
    guard *g = profile_lua__guard(L);
    profile_rows r;
    err e = {0};
    if (profile_top(p, rank, max, &r, &e) < 0) return host_push_err(L, &e);
    g->p[0] = r.rows;
    push_methods(L, p, &r, fold);
    profile_lua__release(g);
    return 1;
}

typedef int group_fn(const profile *, profile_rank, uint32_t, profile_rows *, err *);

static int push_groups(lua_State *L, group_fn *fn, slice (*name)(const profile *, uint32_t))
{
    const profile *p = profile_lua__check(L, 1);
    uint32_t max = (uint32_t)profile_lua__integer(L, "top", 20, 0, TOP_MAX);
    profile_rank rank = read_rank(L);
    guard *g = profile_lua__guard(L);
    profile_rows r;
    err e = {0};
    if (fn(p, rank, max, &r, &e) < 0) return host_push_err(L, &e);
    g->p[0] = r.rows;
    lua_createtable(L, (int)r.n, 1);
    for (uint32_t i = 0; i < r.n; i++) {
        lua_createtable(L, 0, 8);
        set_text(L, "key", name(p, r.rows[i].key));
        profile_lua__counts(L, p, &r.rows[i].counts);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    host_set_int(L, "all", r.all);
    profile_lua__release(g);
    return 1;
}

int profile_lua__by_module(lua_State *L) { return push_groups(L, profile_by_module, profile_group_at); }
int profile_lua__by_namespace(lua_State *L) { return push_groups(L, profile_by_namespace, profile_namespace_at); }

int profile_lua__hot_path(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    double threshold = 50;
    if (lua_istable(L, 2)) {
        lua_getfield(L, 2, "threshold");
        threshold = luaL_optnumber(L, -1, threshold);
        lua_pop(L, 1);
    }
    guard *g = profile_lua__guard(L);
    profile_rows r;
    err e = {0};
    if (profile_hot_path(p, threshold, &r, &e) < 0) return host_push_err(L, &e);
    g->p[0] = r.rows;
    lua_createtable(L, (int)r.n, 0);
    for (uint32_t i = 0; i < r.n; i++) {
        lua_createtable(L, 0, 12);
        profile_lua__method(L, p, profile_node_at(p, r.rows[i].key).frame, false);
        host_set_int(L, "node", r.rows[i].key);
        profile_lua__counts(L, p, &r.rows[i].counts);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    profile_lua__release(g);
    return 1;
}

int profile_lua__match(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    size_t n;
    const char *text = luaL_checklstring(L, 2, &n);
    lua_Integer max = luaL_optinteger(L, 3, 20);
    luaL_argcheck(L, max >= 0 && max <= TOP_MAX, 3, "out of range");
    guard *g = profile_lua__guard(L);
    profile_rows r;
    err e = {0};
    if (profile_match(p, slice_of(text, n), (uint32_t)max, &r, &e) < 0) return host_push_err(L, &e);
    g->p[0] = r.rows;
    push_methods(L, p, &r, false);
    profile_lua__release(g);
    return 1;
}

int profile_lua__edges(lua_State *L)
{
    const profile *p = profile_lua__check(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    uint32_t frame = (uint32_t)profile_lua__integer(L, "frame", 0, 0, UINT32_MAX);
    uint32_t max = (uint32_t)profile_lua__integer(L, "top", 20, 0, TOP_MAX);
    guard *g = profile_lua__guard(L);
    profile_edges x;
    err e = {0};
    if (profile_edges_of(p, frame, max, &x, &e) < 0) return host_push_err(L, &e);
    g->p[0] = x.callers.rows;
    g->p[1] = x.callees.rows;
    lua_createtable(L, 0, 3);
    lua_createtable(L, 0, 12);
    profile_lua__method(L, p, frame, false);
    profile_lua__counts(L, p, &x.focus);
    lua_setfield(L, -2, "focus");
    push_methods(L, p, &x.callers, false);
    lua_setfield(L, -2, "callers");
    push_methods(L, p, &x.callees, false);
    lua_setfield(L, -2, "callees");
    profile_lua__release(g);
    return 1;
}
