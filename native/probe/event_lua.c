/* SPDX-License-Identifier: MIT */
/* event_lua.c: an event, and the totals of a source, as Lua tables. */
#include "probe/event_lua.h"

#include <string.h>

#include "base/guid.h"
#include "base/utf.h"
#include "host/host.h"
#include "probe/program_lua.h"

#define NESTING_MAX 32 /* structs and arrays inside each other; deeper ones come out empty */

/* ---- values ------------------------------------------------------------------------------------------------------ */
static void push_slice(lua_State *L, slice s) { lua_pushlstring(L, s.n ? (const char *)s.p : "", s.n); }

static void push_utf16(lua_State *L, slice s)
{
    luaL_Buffer b;
    char *p = luaL_buffinitsize(L, &b, s.n / 2 * 3 + 1);
    luaL_pushresultsize(&b, nt_utf8(s, p, s.n / 2 * 3 + 1));
}

static void push_utf8(lua_State *L, slice s)
{
    if (utf8_valid(s)) {
        push_slice(L, s);
        return;
    }
    buf b = {.p = host_box(L, 3 * s.n + 1), .cap = 3 * s.n, .max = 3 * s.n}; // box
    utf8_sanitize(s, &b);
    lua_pushlstring(L, (const char *)b.p, b.n);
    lua_remove(L, -2);
}

static void push_guid(lua_State *L, const uint8_t *guid)
{
    char text[37];
    guid_text(guid, text);
    lua_pushstring(L, text);
}

static void push_fields(lua_State *L, nt_iter *it, int depth);

static void push_value(lua_State *L, const nt_iter *it, const nt_value *v, int depth)
{
    uint8_t unit[2];
    nt_iter inner;
    switch (v->bad ? NT_NONE : v->type) {
    case NT_NONE: lua_pushnil(L); break;
    case NT_BOOL: lua_pushboolean(L, v->u != 0); break;
    case NT_CHAR:
        unit[0] = (uint8_t)v->u;
        unit[1] = (uint8_t)(v->u >> 8);
        push_utf16(L, slice_of(unit, 2));
        break;
    case NT_INT:
    case NT_FILETIME: lua_pushinteger(L, (lua_Integer)v->i); break;
    case NT_UINT: lua_pushinteger(L, (lua_Integer)v->u); break;
    case NT_FLOAT: lua_pushnumber(L, v->f); break;
    case NT_GUID: push_guid(L, v->raw.p); break;
    case NT_STR16: push_utf16(L, v->raw); break;
    case NT_STR8: push_utf8(L, v->raw); break;
    case NT_DECIMAL:
    case NT_BYTES: push_slice(L, v->raw); break;
    case NT_STRUCT:
    case NT_ARRAY:
        nt_iter_into(&inner, it, v);
        lua_newtable(L);
        if (depth < NESTING_MAX) push_fields(L, &inner, depth + 1);
        break;
    }
}

/* Into the table on top: named fields by name, elements and nameless fields by number; the fields of a nameless struct
 * as if they were not in one. */
static void push_fields(lua_State *L, nt_iter *it, int depth)
{
    nt_value v;
    lua_Integer n = 0;
    luaL_checkstack(L, 8, "too deep a payload");
    while (nt_iter_next(it, &v)) {
        slice name = v.field->name;
        bool element = it->elem != NULL;
        if (!element && name.n == 0 && v.type == NT_STRUCT && depth < NESTING_MAX) {
            nt_iter inner;
            nt_iter_into(&inner, it, &v);
            push_fields(L, &inner, depth + 1);
        } else if (element || name.n == 0) {
            push_value(L, it, &v, depth);
            lua_rawseti(L, -2, ++n);
        } else {
            push_slice(L, name);
            push_value(L, it, &v, depth);
            lua_rawset(L, -3);
        }
    }
}

static bool is_zero(const uint8_t guid[16])
{
    static const uint8_t zero[16];
    return memcmp(guid, zero, sizeof zero) == 0;
}

void event_lua__push(lua_State *L, const source_record *r)
{
    if (!r->kind) {
        lua_createtable(L, 0, 2);
        host_set_int(L, "each", r->each);
        program_lua__push_tlv(L, slice_of(r->payload, r->n));
        lua_setfield(L, -2, "row");
        return;
    }
    lua_createtable(L, 0, 11); // ev
    push_slice(L, r->kind->provider);
    lua_setfield(L, -2, "provider");
    push_slice(L, r->kind->display);
    lua_setfield(L, -2, "name");
    host_set_int(L, "id", r->kind->id);
    host_set_int(L, "version", r->kind->version);
    host_set_int(L, "level", r->kind->level);
    host_set_int(L, "time_ns", r->time_ns);
    host_set_int(L, "unix_ns", r->unix_ns);
    host_set_count(L, "thread", r->thread);
    if (r->has_activity && !is_zero(r->activity)) {
        push_guid(L, r->activity);
        lua_setfield(L, -2, "activity");
    }
    if (r->has_related && !is_zero(r->related)) {
        push_guid(L, r->related);
        lua_setfield(L, -2, "related");
    }
    lua_newtable(L); // ev fields
    if (r->kind->schema) {
        nt_iter it;
        nt_iter_payload(&it, r->kind->schema, slice_of(r->payload, r->n));
        push_fields(L, &it, 0);
    } else if (r->n > 0) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -3, "opaque"); // the payload's layout is not known
    }
    lua_setfield(L, -2, "fields"); // ev
}

static const char *incomplete_reason(const source_summary *s)
{
    return s->incomplete.message[0] ? s->incomplete.message : "the event stream stopped before its end mark";
}

/* list of {provider, event, count}; kinds of one name in one entry. */
static void push_counts(lua_State *L, source *s)
{
    program_lua__push_new_list(L); // counts
    lua_newtable(L);               // counts seen
    uint32_t n = source_kinds(s);
    for (uint32_t i = 0; i < n; i++) {
        const nt_kind *k = source_kind(s, i);
        if (k->count == 0) continue;
        push_slice(L, k->provider);
        lua_pushliteral(L, "/");
        push_slice(L, k->display);
        lua_concat(L, 3); // counts seen key
        lua_pushvalue(L, -1);
        if (lua_rawget(L, -3) == LUA_TNIL) { // counts seen key nil
            lua_pop(L, 1);
            lua_createtable(L, 0, 3); // counts seen key entry
            push_slice(L, k->provider);
            lua_setfield(L, -2, "provider");
            push_slice(L, k->display);
            lua_setfield(L, -2, "event");
            host_set_int(L, "count", 0);
            lua_pushvalue(L, -1);
            lua_rawseti(L, -5, (lua_Integer)lua_rawlen(L, -5) + 1);
            lua_pushvalue(L, -2);
            lua_pushvalue(L, -2); // counts seen key entry key entry
            lua_rawset(L, -5);    // counts seen key entry
        }
        lua_getfield(L, -1, "count"); // counts seen key entry old
        lua_Integer old = lua_tointeger(L, -1);
        lua_pop(L, 1);
        host_set_count(L, "count", k->count + old);
        lua_pop(L, 2); // counts seen
    }
    lua_pop(L, 1); // counts
}

void event_lua__push_summary(lua_State *L, source *s)
{
    source_summary sum = {0};
    (void)source_summary_of(s, &sum);
    lua_createtable(L, 0, 16); // sum
    lua_pushboolean(L, sum.complete);
    lua_setfield(L, -2, "complete");
    if (!sum.complete) {
        lua_pushstring(L, incomplete_reason(&sum));
        lua_setfield(L, -2, "incomplete_reason");
        lua_pushstring(L, err_kind_name(sum.incomplete.kind));
        lua_setfield(L, -2, "incomplete_kind");
        if (sum.incomplete.hint[0]) {
            lua_pushstring(L, sum.incomplete.hint);
            lua_setfield(L, -2, "incomplete_hint");
        }
    }
    host_set_count(L, "events", sum.events);
    host_set_count(L, "bytes", sum.bytes);
    host_set_count(L, "lost", sum.lost);
    program_lua__push_new_list(L); // sum losses
    for (uint32_t i = 0; i < sum.n_loss; i++) {
        lua_createtable(L, 0, 2);
        host_set_count(L, "thread", sum.loss[i].thread);
        host_set_count(L, "events", sum.loss[i].events);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "lost_by_thread");
    host_set_count(L, "dropped", sum.dropped);
    host_set_int(L, "duration_ns", sum.duration_ns);
    if (sum.pid >= 0) host_set_int(L, "pid", sum.pid);
    if (sum.pointer_size) host_set_int(L, "pointer_size", sum.pointer_size);
    if (sum.start_unix_ns) host_set_int(L, "start_unix_ns", sum.start_unix_ns);
    if (sum.start_mono_ns) host_set_int(L, "start_mono_ns", sum.start_mono_ns);
    if (sum.processors >= 0) host_set_int(L, "processors", sum.processors);
    if (sum.collect_version) host_set_int(L, "collect_version", sum.collect_version);
    if (sum.saved_bytes) host_set_count(L, "saved_bytes", sum.saved_bytes);
    if (sum.save_truncated || sum.save_error.kind != ERR_NONE) {
        lua_pushstring(L, sum.save_truncated ? "the saved file met its size limit" : sum.save_error.message);
        lua_setfield(L, -2, "save_problem");
    }
    push_counts(L, s);
    lua_setfield(L, -2, "counts");
}
