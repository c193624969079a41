/* SPDX-License-Identifier: MIT */
/* string_lua.c: the functions of the string library that can work for long in one call, replaced for the whole state
 * (all scripts share what is behind a string's methods): they look at the budget while they work. To a script they are
 * the stock ones. */
#include <limits.h>
#include <lualib.h>
#include <string.h>

#include "host/match.h"

#define FORMAT_COST     (1 << 20)  /* estimated work, in bytes, that the stock format may do unseen */
#define FORMAT_ITEM     100        /* of one conversion, beside what it copies */
#define SHORT_TEXT      32         /* bytes */
#define SHORT_IN        (1 << 20)  /* … in a text of at most so many */
#define PACK_FORMAT_MAX (64 << 10) /* bytes of a format of pack, packsize and unpack */

/* ---- find, match ---- */

/* The place in a string that a (maybe negative) index names, from 1; past the end when init is. */
static size_t start_of(lua_Integer init, size_t n)
{
    if (init > 0) return (size_t)init;
    if (init == 0 || init < -(lua_Integer)n) return 1;
    return n + (size_t)init + 1;
}

static bool is_plain(const char *p, size_t n)
{
    static const bool SPECIAL[UCHAR_MAX + 1] = {['^'] = true, ['$'] = true, ['*'] = true, ['+'] = true, ['?'] = true,
                                                ['.'] = true, ['('] = true, ['['] = true, ['%'] = true, ['-'] = true};
    for (size_t i = 0; i < n; i++)
        if (SPECIAL[(unsigned char)p[i]]) return false;
    return true;
}

/* Where pat begins in the text, or NULL. A short one is looked for by its first byte; memmem takes time in proportion
 * to the text, whatever is looked for. */
static const char *find_text(const char *s, size_t n, const char *pat, size_t pat_n)
{
    if (pat_n == 0 || pat_n > SHORT_TEXT || n > SHORT_IN) return (const char *)memmem(s, n, pat, pat_n);
    if (pat_n > n) return NULL;
    const char *last = s + (n - pat_n);
    while (s <= last && (s = (const char *)memchr(s, pat[0], (size_t)(last - s) + 1))) {
        if (memcmp(s, pat, pat_n) == 0) return s;
        s++;
    }
    return NULL;
}

static int find_plain(lua_State *L, const char *s, size_t n, size_t from, const char *p, size_t pat_n)
{
    const char *at = find_text(s + from, n - from, p, pat_n);
    if (!at) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushinteger(L, at - s + 1);
    lua_pushinteger(L, at - s + (lua_Integer)pat_n);
    return 2;
}

static int search(lua_State *L, bool find)
{
    size_t n, pat_n;
    const char *s = luaL_checklstring(L, 1, &n), *p = luaL_checklstring(L, 2, &pat_n);
    size_t from = start_of(luaL_optinteger(L, 3, 1), n) - 1;
    if (from > n) {
        lua_pushnil(L);
        return 1;
    }
    if (find && (lua_toboolean(L, 4) || is_plain(p, pat_n))) return find_plain(L, s, n, from, p, pat_n);
    matcher m;
    bool anchored = *p == '^';
    match__init(&m, L, s, n, p, pat_n);
    p += anchored;
    const char *at = s + from;
    do {
        const char *e = match__at(&m, at, p);
        if (!e) continue;
        if (!find) return match__push_all(&m, at, e, true);
        lua_pushinteger(L, at - s + 1);
        lua_pushinteger(L, e - s);
        return match__push_all(&m, at, e, false) + 2;
    } while (at++ < m.text_end && !anchored);
    lua_pushnil(L);
    return 1;
}

static int l_find(lua_State *L) { return search(L, true); }

static int l_match(lua_State *L) { return search(L, false); }

/* ---- gmatch ---- */

/* Kept in a userdata: upvalue 3. Upvalues 1 and 2 hold the strings. */
typedef struct gmatch_state {
    const char *at; /* where the next search begins */
    const char *pat;
    const char *last; /* the end of the last match: an empty one there would be the same again */
    matcher m;
} gmatch_state;

static int l_gmatch_next(lua_State *L)
{
    gmatch_state *g = (gmatch_state *)lua_touserdata(L, lua_upvalueindex(3));
    g->m.L = L;
    for (const char *at = g->at; at <= g->m.text_end; at++) {
        const char *e = match__at(&g->m, at, g->pat);
        if (!e || e == g->last) continue;
        g->at = g->last = e;
        return match__push_all(&g->m, at, e, true);
    }
    return 0;
}

static int l_gmatch(lua_State *L)
{
    size_t n, pat_n;
    const char *s = luaL_checklstring(L, 1, &n), *p = luaL_checklstring(L, 2, &pat_n);
    size_t from = start_of(luaL_optinteger(L, 3, 1), n) - 1;
    if (from > n) from = n + 1;
    lua_settop(L, 2);
    gmatch_state *g = (gmatch_state *)lua_newuserdatauv(L, sizeof *g, 0); // s pattern state
    match__init(&g->m, L, s, n, p, pat_n);
    g->at = s + from;
    g->pat = p;
    g->last = NULL;
    lua_pushcclosure(L, l_gmatch_next, 3); // next
    return 1;
}

/* ---- gsub ---- */

static void add_capture(matcher *m, luaL_Buffer *b, int i, const char *s, const char *e)
{
    const char *at;
    ptrdiff_t n = match__get(m, i, s, e, &at);
    if (n != MATCH_POSITION) {
        luaL_addlstring(b, at, (size_t)n);
        return;
    }
    lua_pushinteger(m->L, at - m->text + 1); // … position
    luaL_addvalue(b);                        // …
}

/* Adds the replacement text (argument 3) with its %0 to %9. */
static void add_text(matcher *m, luaL_Buffer *b, const char *s, const char *e)
{
    size_t n;
    const char *text = lua_tolstring(m->L, 3, &n), *end = text + n, *at;
    while ((at = (const char *)memchr(text, MATCH_ESC, (size_t)(end - text)))) {
        luaL_addlstring(b, text, (size_t)(at - text));
        char what = at[1];
        if (what == MATCH_ESC) {
            luaL_addchar(b, what);
        } else if (what == '0') {
            luaL_addlstring(b, s, (size_t)(e - s));
        } else if (what >= '1' && what <= '9') {
            add_capture(m, b, what - '1', s, e);
        } else {
            luaL_error(m->L, "invalid use of '%c' in replacement string", MATCH_ESC);
        }
        text = at + 2;
    }
    luaL_addlstring(b, text, (size_t)(end - text));
}

/* Adds what stands for the match from s to e; false when it stays as it is. */
static bool add_replacement(matcher *m, luaL_Buffer *b, const char *s, const char *e, int kind)
{
    lua_State *L = m->L;
    if (kind == LUA_TFUNCTION) {
        lua_pushvalue(L, 3);                            // … fn
        lua_call(L, match__push_all(m, s, e, true), 1); // … value
    } else if (kind == LUA_TTABLE) {
        match__push(m, 0, s, e); // … key
        lua_gettable(L, 3);      // … value
    } else {
        add_text(m, b, s, e);
        return true;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1); // …
        luaL_addlstring(b, s, (size_t)(e - s));
        return false;
    }
    if (!lua_isstring(L, -1)) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    luaL_addvalue(b); // …
    return true;
}

static int l_gsub(lua_State *L)
{
    size_t n, pat_n;
    const char *s = luaL_checklstring(L, 1, &n), *p = luaL_checklstring(L, 2, &pat_n);
    int kind = lua_type(L, 3);
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)n + 1), count = 0;
    luaL_argexpected(L, kind == LUA_TNUMBER || kind == LUA_TSTRING || kind == LUA_TFUNCTION || kind == LUA_TTABLE, 3,
                     "string/function/table");
    bool anchored = *p == '^', changed = false;
    const char *last = NULL;
    matcher m;
    luaL_Buffer b;
    match__init(&m, L, s, n, p, pat_n);
    p += anchored;
    luaL_buffinit(L, &b);
    while (count < most) {
        const char *e = match__at(&m, s, p);
        if (e && e != last) {
            count++;
            if (add_replacement(&m, &b, s, e, kind)) changed = true;
            s = last = e;
        } else if (s < m.text_end) {
            luaL_addchar(&b, *s++);
        } else {
            break;
        }
        if (anchored) break;
    }
    if (changed) {
        luaL_addlstring(&b, s, (size_t)(m.text_end - s));
        luaL_pushresult(&b);
    } else {
        lua_pushvalue(L, 1);
    }
    lua_pushinteger(L, count);
    return 2;
}

/* ---- byte, rep, format, pack ---- */

static lua_CFunction stock_byte, stock_format, stock_pack, stock_packsize, stock_unpack;

/* Each byte is a place on the stack: too many for a call of a box in one piece end it before the work and not after. */
static int l_byte(lua_State *L)
{
    size_t n;
    luaL_checklstring(L, 1, &n);
    if (n <= MEM_TABLE_MAX / MEM_VALUE) return stock_byte(L);
    lua_Integer first = luaL_optinteger(L, 2, 1), last = luaL_optinteger(L, 3, first);
    size_t from = start_of(first, n);
    size_t to = last > (lua_Integer)n    ? n
                : last >= 0              ? (size_t)last
                : last < -(lua_Integer)n ? 0
                                         : n + (size_t)last + 1;
    if (from <= to) budget__check_room(L, (to - from + 1) * MEM_VALUE);
    return stock_byte(L);
}

static int l_rep(lua_State *L)
{
    size_t n, sep_n;
    const char *s = luaL_checklstring(L, 1, &n);
    lua_Integer times = luaL_checkinteger(L, 2);
    const char *sep = luaL_optlstring(L, 3, "", &sep_n);
    if (times <= 0 || n + sep_n == 0) { /* stock Lua counts through the repetitions of nothing */
        lua_pushliteral(L, "");
        return 1;
    }
    if (n + sep_n < n || n + sep_n > (size_t)LUA_MAXINTEGER / (size_t)times)
        return luaL_error(L, "resulting string too large");
    size_t unit = n + sep_n, total = unit * (size_t)times - sep_n, done = n;
    budget__check_room(L, total);
    luaL_Buffer b;
    char *out = luaL_buffinitsize(L, &b, total);
    memcpy(out, s, n);
    /* The first unit, then what is there doubles. */
    if (times > 1) {
        memcpy(out + n, sep, sep_n);
        done = unit;
    }
    while (done < total) {
        budget__poll(host_of(L), L);
        size_t more = done < total - done ? done : total - done;
        memcpy(out + done, out, more);
        done += more;
    }
    luaL_pushresultsize(&b, total);
    return 1;
}

/* The work that a format is, in bytes, from above: each argument may be read whole. */
static size_t format_cost(lua_State *L, size_t fmt_n)
{
    size_t cost = fmt_n;
    int top = lua_gettop(L);
    for (int i = 2; i <= top; i++)
        cost += FORMAT_ITEM + (lua_type(L, i) == LUA_TSTRING ? lua_rawlen(L, i) : 0);
    return cost;
}

/* The end of the piece of a format that has one conversion and what stands before it. *uses: it takes an argument. */
static const char *piece_end(const char *p, const char *end, bool *uses)
{
    *uses = false;
    const char *at = (const char *)memchr(p, MATCH_ESC, (size_t)(end - p));
    if (!at || at + 1 >= end) return end;
    if (at[1] == MATCH_ESC) return at + 2;
    *uses = true;
    at++;
    while (at < end && strchr("-+ #0123456789.", *at))
        at++;
    return at < end ? at + 1 : end;
}

/* A long one: the stock function does each conversion for itself. */
static int format_in_pieces(lua_State *L, const char *p, size_t n)
{
    const char *end = p + n;
    int top = lua_gettop(L), arg = 1;
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    while (p < end) {
        bool uses;
        const char *stop = piece_end(p, end, &uses);
        budget__poll(host_of(L), L);
        luaL_checkstack(L, 4, NULL);
        lua_pushcfunction(L, stock_format);        // … format
        lua_pushlstring(L, p, (size_t)(stop - p)); // … format piece
        if (uses && ++arg > top) return luaL_argerror(L, arg, "no value");
        if (uses) lua_pushvalue(L, arg); // … format piece value
        lua_call(L, uses ? 2 : 1, 1);    // … text
        luaL_addvalue(&b);               // …
        p = stop;
    }
    luaL_pushresult(&b);
    return 1;
}

static int l_format(lua_State *L)
{
    size_t n;
    const char *p = luaL_checklstring(L, 1, &n);
    if (format_cost(L, n) <= FORMAT_COST) return stock_format(L);
    return format_in_pieces(L, p, n);
}

/* Packing walks its format unseen, and some of its options cost no memory. */
static void check_pack(lua_State *L)
{
    size_t n;
    luaL_checklstring(L, 1, &n);
    luaL_argcheck(L, n <= PACK_FORMAT_MAX, 1, "format too long");
}

/* What a text of fixed length (c12) is padded to is written byte by byte. The most of it that a format asks for. */
static size_t padding(const char *p, const char *end)
{
    size_t total = 0;
    while (p < end) {
        if (*p++ != 'c') continue;
        size_t n = 0;
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            if (n < INT_MAX) n = n * 10 + (size_t)(*p - '0');
        total += n; /* at most PACK_FORMAT_MAX of them */
    }
    return total;
}

static int l_pack(lua_State *L)
{
    size_t n;
    check_pack(L);
    const char *p = lua_tolstring(L, 1, &n);
    budget__check_room(L, padding(p, p + n));
    return stock_pack(L);
}

static int l_packsize(lua_State *L)
{
    check_pack(L);
    return stock_packsize(L);
}

static int l_unpack(lua_State *L)
{
    check_pack(L);
    return stock_unpack(L);
}

static const luaL_Reg STRING_FUNCS[] = {{"find", l_find},     {"match", l_match}, {"gmatch", l_gmatch},
                                        {"gsub", l_gsub},     {"byte", l_byte},   {"rep", l_rep},
                                        {"format", l_format}, {"pack", l_pack},   {"packsize", l_packsize},
                                        {"unpack", l_unpack}, {NULL, NULL}};

static lua_CFunction stock(lua_State *L, const char *name)
{
    lua_getfield(L, -1, name); // string fn
    lua_CFunction fn = lua_tocfunction(L, -1);
    lua_pop(L, 1); // string
    return fn;
}

void string__install(lua_State *L)
{
    lua_getglobal(L, LUA_STRLIBNAME); // string
    stock_byte = stock(L, "byte");
    stock_format = stock(L, "format");
    stock_pack = stock(L, "pack");
    stock_packsize = stock(L, "packsize");
    stock_unpack = stock(L, "unpack");
    luaL_setfuncs(L, STRING_FUNCS, 0);
    lua_pop(L, 1); //
}
