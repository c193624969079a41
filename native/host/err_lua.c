/* SPDX-License-Identifier: MIT */
/* err_lua.c: the error record as a Lua value, and the message handler that names a failing script's place and logs its
 * traceback. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/utf.h"
#include "host/host_internal.h"

#define ERR_TYPE         "lunette.err"
#define TRACEBACK_LEVELS 24
#define TRACEBACK_BYTES  (16 << 10)

/* Copies a string field of the table at idx into dst; an absent one gives "". */
static void field_text(lua_State *L, int idx, const char *name, char *dst, size_t cap)
{
    lua_pushstring(L, name); // name
    lua_rawget(L, idx);      // value
    const char *s = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    snprintf(dst, cap, "%s", s);
    dst[utf8_cut(slice_str(dst), cap)] = '\0';
    lua_pop(L, 1); //
}

static int64_t field_int(lua_State *L, int idx, const char *name, bool *has)
{
    lua_pushstring(L, name); // name
    lua_rawget(L, idx);      // value
    int is_int = 0;
    int64_t v = lua_tointegerx(L, -1, &is_int);
    if (has) *has = is_int;
    lua_pop(L, 1); //
    return v;
}

/* err:at(where): the same error with "where: " before its message. */
static int l_err_at(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkstring(L, 2);
    lua_settop(L, 2);              // err where
    lua_pushliteral(L, ": ");      // err where ": "
    lua_getfield(L, 1, "message"); // err where ": " message
    if (!lua_isstring(L, -1)) {
        lua_pop(L, 1);          // err where ": "
        lua_pushliteral(L, ""); // err where ": " ""
    }
    lua_concat(L, 3);              // err text
    lua_setfield(L, 1, "message"); // err
    return 1;
}

static int l_err_tostring(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    err e = {0};
    host_to_err(L, 1, &e);
    lua_pushfstring(L, "%s: %s", err_kind_name(e.kind), e.message);
    if (e.detail[0]) {
        lua_pushfstring(L, " [%s]", e.detail);
        lua_concat(L, 2);
    }
    if (e.hint[0]) {
        lua_pushfstring(L, " (%s)", e.hint);
        lua_concat(L, 2);
    }
    return 1;
}

static const luaL_Reg ERR_METHODS[] = {{"at", l_err_at}, {NULL, NULL}};

void err__register(lua_State *L)
{
    luaL_newmetatable(L, ERR_TYPE);       // mt
    lua_pushcfunction(L, l_err_tostring); // mt fn
    lua_setfield(L, -2, "__tostring");    // mt
    luaL_newlib(L, ERR_METHODS);          // mt methods
    lua_setfield(L, -2, "__index");       // mt
    lua_pop(L, 1);                        //
}

static void set_text(lua_State *L, const char *name, const char *value)
{
    if (!value[0]) return;
    lua_pushstring(L, value);  // err value
    lua_setfield(L, -2, name); // err
}

void host_push_err_value(lua_State *L, const err *e)
{
    luaL_checkstack(L, 4, NULL);
    lua_createtable(L, 0, 4); // err
    set_text(L, "kind", err_kind_name(e->kind));
    set_text(L, "message", e->message[0] ? e->message : err_kind_name(e->kind));
    set_text(L, "detail", e->detail);
    set_text(L, "hint", e->hint);
    if (e->has_offset) {
        lua_pushinteger(L, e->offset); // err offset
        lua_setfield(L, -2, "offset"); // err
    }
    if (e->sys) {
        lua_pushinteger(L, e->sys); // err errno
        lua_setfield(L, -2, "sys"); // err
    }
    if (e->hresult) {
        lua_pushinteger(L, e->hresult); // err hresult
        lua_setfield(L, -2, "hresult"); // err
    }
    luaL_setmetatable(L, ERR_TYPE);
}

int host_push_err(lua_State *L, const err *e)
{
    lua_pushnil(L);            // nil
    host_push_err_value(L, e); // nil err
    return 2;
}

void host_to_err(lua_State *L, int idx, err *e)
{
    idx = lua_absindex(L, idx);
    if (lua_type(L, idx) == LUA_TSTRING) {
        err_set(e, ERR_SCRIPT, "%s", lua_tostring(L, idx));
        return;
    }
    if (lua_type(L, idx) != LUA_TTABLE) {
        err_set(e, ERR_SCRIPT, "(error value of type %s)", luaL_typename(L, idx));
        return;
    }
    luaL_checkstack(L, 4, NULL);
    char kind[64], text[sizeof e->message];
    field_text(L, idx, "kind", kind, sizeof kind);
    field_text(L, idx, "message", text, sizeof text);
    err_kind k = err_kind_from_name(kind);
    err_set(e, k == ERR_NONE ? ERR_SCRIPT : k, "%s", text[0] ? text : "(error without a message)");
    field_text(L, idx, "detail", text, sizeof e->detail);
    if (text[0]) err_detail(e, "%s", text);
    field_text(L, idx, "hint", text, sizeof e->hint);
    if (text[0]) err_hint(e, "%s", text);
    bool has = false;
    int64_t v = field_int(L, idx, "offset", &has);
    e->has_offset = has;
    if (has) e->offset = v;
    e->sys = (int)field_int(L, idx, "sys", NULL);
    e->hresult = (uint32_t)field_int(L, idx, "hresult", NULL);
}

/* One line of a traceback: where, and in what. */
static void add_level(lua_State *L, buf *b, lua_Debug *ar)
{
    lua_getinfo(L, "Sln", ar);
    buf_printf(b, "\n\t%s:", ar->short_src);
    if (ar->currentline > 0) buf_printf(b, "%d:", ar->currentline);
    if (ar->name)
        buf_printf(b, " in %s '%s'", *ar->namewhat ? ar->namewhat : "function", ar->name);
    else if (*ar->what == 'm')
        buf_str(b, " in main chunk");
    else if (*ar->what != 'C')
        buf_printf(b, " in function <%s:%d>", ar->short_src, ar->linedefined);
    else
        buf_str(b, " in ?");
}

/* Is it a level that only the host put there? */
static bool is_ours(lua_State *L, lua_Debug *ar)
{
    lua_getinfo(L, "f", ar); // fn
    bool ours = lua_tocfunction(L, -1) == safe__handle;
    lua_pop(L, 1); //
    return ours;
}

/* The innermost levels only: the library's luaL_traceback walks the whole stack some forty times to find its other end,
 * and beneath a recursion of a hundred thousand levels nobody else would run meanwhile. */
static void put_traceback(lua_State *L, int level, buf *b)
{
    lua_Debug ar;
    int end = level + TRACEBACK_LEVELS;
    buf_str(b, "stack traceback:");
    for (; level < end && lua_getstack(L, level, &ar); level++)
        if (!is_ours(L, &ar)) add_level(L, b, &ar);
    if (level == end && lua_getstack(L, level, &ar)) buf_str(b, "\n\t...");
}

/* debug.traceback([thread,] [message [, level]]) as the manual has it, but of the innermost levels only. */
int err__traceback(lua_State *L)
{
    int at = lua_isthread(L, 1) ? 1 : 0;
    lua_State *of = at ? lua_tothread(L, 1) : L;
    char out[TRACEBACK_BYTES];
    if (!lua_isnoneornil(L, at + 1) && !lua_isstring(L, at + 1)) {
        lua_pushvalue(L, at + 1);
        return 1;
    }
    const char *message = luaL_optstring(L, at + 1, NULL);
    lua_Integer level = luaL_optinteger(L, at + 2, of == L ? 1 : 0);
    buf text;
    buf_init(&text, sizeof out);
    if (level >= 0 && level < INT_MAX - TRACEBACK_LEVELS) put_traceback(of, (int)level, &text);
    size_t n = text.n;
    if (n) memcpy(out, text.p, n);
    buf_fini(&text);
    if (message) lua_pushfstring(L, "%s\n", message);
    lua_pushlstring(L, out, n);
    if (message) lua_concat(L, 2);
    return 1;
}

/* The log line of an error that nobody expected: the message names script and line, the traceback says how it came
 * there. */
static void log_traceback(lua_State *L, const char *message)
{
    buf text, members;
    jsonw w;
    buf_init(&text, 16 << 10);
    buf_init(&members, 64 << 10);
    put_traceback(L, 1, &text);
    buf_str(&members, "\"traceback\":");
    jsonw_init(&w, &members);
    jsonw_str(&w, buf_view(&text));
    buf_u8(&members, 0);
    log_raw(LOG_ERROR, "lua", message, members.failed ? "" : (const char *)members.p);
    buf_fini(&text);
    buf_fini(&members);
}

/* Is an error of this kind worth a traceback: a bug or a runaway, not a failure that some code handed on with assert?
 */
static bool is_bug(err_kind k) { return k == ERR_SCRIPT || k == ERR_BUDGET || k == ERR_INTERNAL; }

/* Lua gives no place to an overflow that a C function met: puts that of the innermost Lua function before it. */
static void place_overflow(lua_State *L)
{
    if (strcmp(lua_tostring(L, 1), "C stack overflow") != 0) return;
    lua_Debug ar;
    for (int level = 1; lua_getstack(L, level, &ar); level++) {
        luaL_where(L, level); // text where
        if (*lua_tostring(L, -1)) {
            lua_insert(L, 1);
            lua_concat(L, 2); // where .. text
            return;
        }
        lua_pop(L, 1); // text
    }
}

int err__handler(lua_State *L)
{
    err e = {0};
    bool is_table = lua_istable(L, 1);
    if (!is_table && lua_type(L, 1) != LUA_TSTRING) {
        luaL_tolstring(L, 1, NULL); // value text
        lua_replace(L, 1);          // text
    }
    if (!is_table) place_overflow(L);
    host_to_err(L, 1, &e);
    if (is_bug(e.kind)) log_traceback(L, e.message);
    if (!is_table) host_push_err_value(L, &e); // value err
    return 1;
}
