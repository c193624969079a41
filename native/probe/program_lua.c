/* SPDX-License-Identifier: MIT */
/* program_lua.c: declarations from Lua, results to Lua. */
#include "probe/program_lua.h"

#include <lauxlib.h>

#include "probe/tlv.h"

#define NESTING_MAX 24
#define LIST_MAX    4096

/* ---- declarations ------------------------------------------------------------------------------------------------ */
static void *take(lua_State *L, arena *a, size_t n)
{
    void *p = arena_alloc(a, n ? n : 1);
    if (!p) luaL_error(L, "the declaration is too large");
    return p;
}

static const char *copy_text(lua_State *L, arena *a, int idx, const char *what)
{
    size_t n = 0;
    const char *s = lua_type(L, idx) == LUA_TSTRING ? lua_tolstring(L, idx, &n) : NULL;
    if (!s || strlen(s) != n) luaL_error(L, "program: %s must be text", what);
    char *copy = arena_str(a, slice_of(s, n));
    if (!copy) luaL_error(L, "the declaration is too large");
    return copy;
}

static const char *text(lua_State *L, arena *a, int idx, const char *key)
{
    const char *s = lua_getfield(L, idx, key) == LUA_TNIL ? NULL : copy_text(L, a, -1, key);
    lua_pop(L, 1);
    return s;
}

static lua_Integer integer(lua_State *L, int idx, const char *key, lua_Integer max)
{
    lua_Integer v = 0;
    if (lua_getfield(L, idx, key) != LUA_TNIL) {
        int ok;
        v = lua_tointegerx(L, -1, &ok);
        if (!ok || v < 0 || v > max) luaL_error(L, "program: %s must be a number up to %I", key, (LUAI_UACINT)max);
    }
    lua_pop(L, 1);
    return v;
}

static bool boolean(lua_State *L, int idx, const char *key)
{
    lua_getfield(L, idx, key);
    bool v = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return v;
}

/* Pushes the list at key (or nil) and gives its length. */
static size_t list(lua_State *L, int idx, const char *key)
{
    int type = lua_getfield(L, idx, key);
    if (type == LUA_TNIL) return 0;
    if (type != LUA_TTABLE) luaL_error(L, "program: %s must be a list", key);
    lua_Integer n = luaL_len(L, -1);
    if (n < 0 || n > LIST_MAX) luaL_error(L, "program: %s is too long", key); /* below 0: a __len of the script's own */
    return (size_t)n;
}

static probe_texts texts(lua_State *L, arena *a, int idx, const char *key)
{
    size_t n = list(L, idx, key);
    const char **p = take(L, a, n * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        lua_geti(L, -1, (lua_Integer)i + 1);
        p[i] = copy_text(L, a, -1, key);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return (probe_texts){p, n};
}

/* A list of { name, text }. */
static probe_row named(lua_State *L, arena *a, int idx, const char *key)
{
    size_t n = list(L, idx, key);
    probe_named *p = take(L, a, n * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        if (lua_geti(L, -1, (lua_Integer)i + 1) != LUA_TTABLE) luaL_error(L, "program: %s holds pairs", key);
        lua_geti(L, -1, 1);
        p[i].name = copy_text(L, a, -1, key);
        lua_geti(L, -2, 2);
        p[i].text = copy_text(L, a, -1, key);
        lua_pop(L, 3);
    }
    lua_pop(L, 1);
    return (probe_row){p, n};
}

static const double *numbers(lua_State *L, arena *a, int idx, const char *key, size_t *count)
{
    size_t n = list(L, idx, key);
    double *p = take(L, a, n * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        lua_geti(L, -1, (lua_Integer)i + 1);
        p[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    *count = n;
    return p;
}

static const char *const OPS[PROBE_OP_COUNT] = {
    [PROBE_COUNT] = "count", [PROBE_SUM] = "sum",           [PROBE_MIN] = "min",
    [PROBE_MAX] = "max",     [PROBE_STATS] = "stats",       [PROBE_QUANTILES] = "quantiles",
    [PROBE_VALUE] = "value", [PROBE_DISTINCT] = "distinct", [PROBE_FIRST] = "first",
    [PROBE_LAST] = "last",   [PROBE_TOP] = "top",           [PROBE_GROUP] = "group",
    [PROBE_PAIR] = "pair",   [PROBE_TIMELINE] = "timeline", [PROBE_FILTER] = "filter",
    [PROBE_EACH] = "each",
};

static probe_op op_of(lua_State *L, const char *name)
{
    for (int i = 0; name && i < PROBE_OP_COUNT; i++)
        if (strcmp(OPS[i], name) == 0) return (probe_op)i;
    return (probe_op)luaL_error(L, "program: there is no reducer '%s'", name ? name : "nil");
}

static const probe_spec *specs(lua_State *L, arena *a, int idx, const char *key, size_t *count, int depth);

static void read_spec(lua_State *L, arena *a, int idx, probe_spec *s, int depth)
{
    luaL_checkstack(L, 12, "the declaration is nested too deep");
    s->name = text(L, a, idx, "name");
    s->op = op_of(L, text(L, a, idx, "op"));
    s->on = texts(L, a, idx, "on");
    s->where = text(L, a, idx, "where");
    s->expr = text(L, a, idx, "expr");
    s->weight = text(L, a, idx, "weight");
    s->row = named(L, a, idx, "row");
    s->by = named(L, a, idx, "by");
    s->by_stop = named(L, a, idx, "by_stop");
    s->start = texts(L, a, idx, "start");
    s->stop = texts(L, a, idx, "stop");
    s->quantiles = numbers(L, a, idx, "quantiles", &s->n_quantiles);
    s->n = (uint32_t)integer(L, idx, "n", PROBE_ROWS_MAX);
    s->max = (uint32_t)integer(L, idx, "max", UINT32_MAX);
    s->top = (uint32_t)integer(L, idx, "top", UINT32_MAX);
    s->every_ns = integer(L, idx, "every_ns", INT64_MAX);
    s->nested = boolean(L, idx, "nested");
    s->open = boolean(L, idx, "open");
    s->skip = texts(L, a, idx, "skip");
    s->depth = (uint32_t)integer(L, idx, "depth", UINT32_MAX);
    s->each = (uint32_t)integer(L, idx, "each", UINT32_MAX);
    s->keep = specs(L, a, idx, "keep", &s->n_keep, depth + 1);
}

static const probe_spec *specs(lua_State *L, arena *a, int idx, const char *key, size_t *count, int depth)
{
    if (depth > NESTING_MAX) luaL_error(L, "program: reducers are nested too deep");
    size_t n = list(L, idx, key);
    if (n > PROBE_NODES_MAX) luaL_error(L, "program: more than %d reducers", PROBE_NODES_MAX);
    probe_spec *p = take(L, a, n * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        if (lua_geti(L, -1, (lua_Integer)i + 1) != LUA_TTABLE) luaL_error(L, "program: a reducer must be a table");
        read_spec(L, a, lua_gettop(L), &p[i], depth);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    *count = n;
    return p;
}

void program_lua__read(lua_State *L, int idx, arena *a, probe_program *out)
{
    idx = lua_absindex(L, idx);
    luaL_checktype(L, idx, LUA_TTABLE);
    *out = (probe_program){0};
    probe_row events = named(L, a, idx, "events");
    out->events = events.p;
    out->n_events = events.n;
    out->let = named(L, a, idx, "let");
    out->keep = specs(L, a, idx, "keep", &out->n_keep, 0);
    out->finish_on = texts(L, a, idx, "finish_on");
    out->finish_where = text(L, a, idx, "finish_where");
    out->finish_count = (uint64_t)integer(L, idx, "finish_count", INT64_MAX);
    out->addresses = boolean(L, idx, "addresses");
    out->memory_max = (size_t)integer(L, idx, "memory_max", INT64_MAX);
    out->text_max = (uint32_t)integer(L, idx, "text_max", PROBE_ROW_TEXT_MAX);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
static bool push(lua_State *L, cursor *c, int depth);

void program_lua__push_new_list(lua_State *L)
{
    lua_newtable(L);
    luaL_newmetatable(L, "lunette.json.array"); // what lunette.json marks an array with
    lua_setmetatable(L, -2);
}

static void push_list(lua_State *L, cursor *c, int depth)
{
    lua_Integer n = 0;
    program_lua__push_new_list(L);
    while (push(L, c, depth + 1))
        lua_rawseti(L, -2, ++n);
}

static void push_table(lua_State *L, cursor *c, int depth)
{
    lua_newtable(L);
    while (push(L, c, depth + 1)) { // table key
        if (!push(L, c, depth + 1)) luaL_error(L, "a result has a key without a value");
        lua_rawset(L, -3); // table
    }
}

/* False: an end mark, or nothing is left. */
static bool push(lua_State *L, cursor *c, int depth)
{
    if (depth > 4 * NESTING_MAX) luaL_error(L, "a result is nested too deep");
    luaL_checkstack(L, 4, "a result is nested too deep");
    slice s;
    switch (cursor_u8(c)) {
    case TLV_NIL: lua_pushnil(L); return true;
    case TLV_FALSE: lua_pushboolean(L, 0); return true;
    case TLV_TRUE: lua_pushboolean(L, 1); return true;
    case TLV_INT: lua_pushinteger(L, (lua_Integer)cursor_i64(c)); return true;
    case TLV_FLOAT: lua_pushnumber(L, cursor_f64(c)); return true;
    case TLV_TEXT:
        s = cursor_bytes(c, cursor_u32(c));
        lua_pushlstring(L, s.n ? (const char *)s.p : "", s.n);
        return true;
    case TLV_LIST: push_list(L, c, depth); return true;
    case TLV_TABLE: push_table(L, c, depth); return true;
    default: return false;
    }
}

void program_lua__push_tlv(lua_State *L, slice tlv)
{
    cursor c = cursor_of(tlv, 0);
    if (!push(L, &c, 0)) lua_pushnil(L);
}
