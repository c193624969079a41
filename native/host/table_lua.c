/* SPDX-License-Identifier: MIT */
/* table_lua.c: the table library for the whole state, but that it looks at the budget while it works: a length or a
 * comparator that comes from a metatable can keep the stock functions busy for ever, without a single instruction of
 * Lua. To a script they are the stock ones. */
#include <limits.h>
#include <lualib.h>

#include "host/match.h"

#define UNPACK_POLL 64 /* elements between two looks at the budget */

enum { NEED_READ = 1, NEED_WRITE = 2, NEED_LEN = 4 };

/* Argument arg is a table, or has the metamethods that make it act as one. */
static void check_table(lua_State *L, int arg, unsigned need)
{
    static const struct {
        unsigned bit;
        const char *name;
    } EVENTS[] = {{NEED_READ, "__index"}, {NEED_WRITE, "__newindex"}, {NEED_LEN, "__len"}};
    if (lua_type(L, arg) == LUA_TTABLE) return;
    for (size_t i = 0; i < sizeof EVENTS / sizeof EVENTS[0]; i++) {
        if (!(need & EVENTS[i].bit)) continue;
        if (luaL_getmetafield(L, arg, EVENTS[i].name) == LUA_TNIL) luaL_checktype(L, arg, LUA_TTABLE);
        lua_pop(L, 1);
    }
}

static inline void poll(lua_State *L) { budget__poll(host_of(L), L); }

/* to[at] = from[key], both arguments of that number. */
static inline void copy_one(lua_State *L, int from, lua_Integer key, int to, lua_Integer at)
{
    poll(L);
    lua_geti(L, from, key);
    lua_seti(L, to, at);
}

static int l_insert(lua_State *L)
{
    check_table(L, 1, NEED_READ | NEED_WRITE | NEED_LEN);
    lua_Integer end = (lua_Integer)((lua_Unsigned)luaL_len(L, 1) + 1), pos = end;
    switch (lua_gettop(L)) {
    case 2: break;
    case 3:
        pos = luaL_checkinteger(L, 2);
        luaL_argcheck(L, (lua_Unsigned)pos - 1U < (lua_Unsigned)end, 2, "position out of bounds");
        for (lua_Integer i = end; i > pos; i--)
            copy_one(L, 1, i - 1, 1, i);
        break;
    default: return luaL_error(L, "wrong number of arguments to 'insert'");
    }
    lua_seti(L, 1, pos);
    return 0;
}

static int l_remove(lua_State *L)
{
    check_table(L, 1, NEED_READ | NEED_WRITE | NEED_LEN);
    lua_Integer n = luaL_len(L, 1), pos = luaL_optinteger(L, 2, n);
    if (pos != n) luaL_argcheck(L, (lua_Unsigned)pos - 1U <= (lua_Unsigned)n, 2, "position out of bounds");
    lua_geti(L, 1, pos); // … removed
    for (; pos < n; pos++)
        copy_one(L, 1, pos + 1, 1, pos);
    lua_pushnil(L);
    lua_seti(L, 1, pos);
    return 1;
}

static int l_move(lua_State *L)
{
    lua_Integer from = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
    int dest = lua_isnoneornil(L, 5) ? 1 : 5;
    check_table(L, 1, NEED_READ);
    check_table(L, dest, NEED_WRITE);
    if (last >= from) {
        luaL_argcheck(L, from > 0 || last < LUA_MAXINTEGER + from, 3, "too many elements to move");
        lua_Integer n = last - from + 1;
        luaL_argcheck(L, to <= LUA_MAXINTEGER - n + 1, 4, "destination wrap around");
        if (to > last || to <= from || (dest != 1 && !lua_compare(L, 1, dest, LUA_OPEQ))) {
            for (lua_Integer i = 0; i < n; i++)
                copy_one(L, 1, from + i, dest, to + i);
        } else {
            for (lua_Integer i = n - 1; i >= 0; i--)
                copy_one(L, 1, from + i, dest, to + i);
        }
    }
    lua_pushvalue(L, dest);
    return 1;
}

static void add_element(lua_State *L, luaL_Buffer *b, lua_Integer i)
{
    poll(L);
    lua_geti(L, 1, i);
    if (!lua_isstring(L, -1))
        luaL_error(L, "invalid value (%s) at index %I in table for 'concat'", luaL_typename(L, -1), (LUAI_UACINT)i);
    luaL_addvalue(b);
}

static int l_concat(lua_State *L)
{
    check_table(L, 1, NEED_READ | NEED_LEN);
    lua_Integer n = luaL_len(L, 1);
    size_t sep_n;
    const char *sep = luaL_optlstring(L, 2, "", &sep_n);
    lua_Integer i = luaL_optinteger(L, 3, 1), last = luaL_optinteger(L, 4, n);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (; i < last; i++) {
        add_element(L, &b, i);
        luaL_addlstring(&b, sep, sep_n);
    }
    if (i == last) add_element(L, &b, i);
    luaL_pushresult(&b);
    return 1;
}

static int l_unpack(lua_State *L)
{
    lua_Integer i = luaL_optinteger(L, 2, 1), last = luaL_opt(L, luaL_checkinteger, 3, luaL_len(L, 1));
    if (i > last) return 0;
    lua_Unsigned n = (lua_Unsigned)last - (lua_Unsigned)i;
    if (n < (unsigned int)INT_MAX && n > MEM_TABLE_MAX / MEM_VALUE) budget__check_room(L, (size_t)n * MEM_VALUE);
    if (n >= (unsigned int)INT_MAX || !lua_checkstack(L, (int)++n)) return luaL_error(L, "too many results to unpack");
    for (; i < last; i++) {
        if (i % UNPACK_POLL == 0) poll(L);
        lua_geti(L, 1, i);
    }
    lua_geti(L, 1, last);
    return (int)n;
}

/* ---- sort ---- */

/* Quicksort by the median of three, in the order of comparisons of the stock one: elements that are equal come out in
 * the same order. Elements are numbered from 1, argument 1 is the table, argument 2 the comparator or nil. */

#define PIVOT_RANDOM_FROM 100 /* parts from this size may take a random pivot, once the parts became lopsided */

static bool is_less(lua_State *L, int a, int b)
{
    poll(L);
    if (lua_isnil(L, 2)) return lua_compare(L, a, b, LUA_OPLT);
    lua_pushvalue(L, 2);     // … fn
    lua_pushvalue(L, a - 1); // … fn a
    lua_pushvalue(L, b - 2); // … fn a b
    lua_call(L, 2, 1);       // … answer
    bool less = lua_toboolean(L, -1);
    lua_pop(L, 1); // …
    return less;
}

/* t[i] = top, t[j] = the one beneath; pops both. */
static void set_both(lua_State *L, lua_Integer i, lua_Integer j)
{
    lua_seti(L, 1, i);
    lua_seti(L, 1, j);
}

/* Puts t[i] and t[j] in order, i before j. */
static void order_two(lua_State *L, lua_Integer i, lua_Integer j)
{
    lua_geti(L, 1, i); // … a
    lua_geti(L, 1, j); // … a b
    if (is_less(L, -1, -2))
        set_both(L, i, j);
    else
        lua_pop(L, 2);
}

/* Splits what is between lo and up by the pivot, which is on top and at up - 1; pops it. Where it came to stand. */
static lua_Integer split(lua_State *L, lua_Integer lo, lua_Integer up)
{
    lua_Integer i = lo, j = up - 1;
    for (;;) {
        while (lua_geti(L, 1, ++i), is_less(L, -1, -2)) { // pivot a
            if (i == up - 1) luaL_error(L, "invalid order function for sorting");
            lua_pop(L, 1); // pivot
        }
        while (lua_geti(L, 1, --j), is_less(L, -3, -1)) { // pivot a b
            if (j < i) luaL_error(L, "invalid order function for sorting");
            lua_pop(L, 1); // pivot a
        }
        if (j < i) break;
        set_both(L, i, j); // pivot
    }
    lua_pop(L, 1);          // pivot a
    set_both(L, up - 1, i); //       what stood at i goes to where the pivot waited
    return i;
}

static lua_Integer choose(lua_Integer lo, lua_Integer up, unsigned random)
{
    if (up - lo < PIVOT_RANDOM_FROM || random == 0) return lo + (up - lo) / 2;
    lua_Integer quarter = (up - lo) / 4;
    return lo + quarter + (lua_Integer)(random % (lua_Unsigned)(quarter * 2));
}

// NOLINTNEXTLINE(misc-no-recursion): into the smaller part only
static void sort_part(lua_State *L, lua_Integer lo, lua_Integer up, unsigned random)
{
    while (lo < up) {
        order_two(L, lo, up);
        if (up - lo == 1) return;
        lua_Integer p = choose(lo, up, random);
        lua_geti(L, 1, p);  // mid
        lua_geti(L, 1, lo); // mid low
        if (is_less(L, -2, -1)) {
            set_both(L, p, lo); //
        } else {
            lua_pop(L, 1);      // mid
            lua_geti(L, 1, up); // mid high
            if (is_less(L, -1, -2))
                set_both(L, p, up);
            else
                lua_pop(L, 2);
        }
        if (up - lo == 2) return;
        lua_geti(L, 1, p);      // pivot
        lua_pushvalue(L, -1);   // pivot pivot
        lua_geti(L, 1, up - 1); // pivot pivot next
        set_both(L, p, up - 1); // pivot
        p = split(L, lo, up);
        lua_Integer smaller;
        if (p - lo < up - p) {
            sort_part(L, lo, p - 1, random);
            smaller = p - lo;
            lo = p + 1;
        } else {
            sort_part(L, p + 1, up, random);
            smaller = up - p;
            up = p - 1;
        }
        if ((up - lo) / 128 > smaller) random = (unsigned)mono_ns() | 1U;
    }
}

static int l_sort(lua_State *L)
{
    check_table(L, 1, NEED_READ | NEED_WRITE | NEED_LEN);
    lua_Integer n = luaL_len(L, 1);
    if (n > 1) {
        luaL_argcheck(L, n < INT_MAX, 1, "array too big");
        if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
        luaL_checkstack(L, 40, "");
        lua_settop(L, 2);
        sort_part(L, 1, n, 0);
    }
    return 0;
}

static const luaL_Reg TABLE_FUNCS[] = {{"insert", l_insert}, {"remove", l_remove}, {"move", l_move},
                                       {"concat", l_concat}, {"unpack", l_unpack}, {"sort", l_sort},
                                       {NULL, NULL}};

void table__install(lua_State *L)
{
    lua_getglobal(L, LUA_TABLIBNAME); // table
    luaL_setfuncs(L, TABLE_FUNCS, 0);
    lua_pop(L, 1); //
}
