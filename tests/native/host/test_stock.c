/* SPDX-License-Identifier: MIT */
/* The functions of the string and table libraries that the host replaces give what those of stock Lua give, errors
 * included: the same made-up calls run in a state of each kind. */
#include <lualib.h>

#include "host_check.h"

#define ROUNDS        200 /* of CASES_A_ROUND calls each, for each kind */
#define CASES_A_ROUND 50

/* Defines `run(seed, n)` -> a text about n made-up calls; `make(rnd)` -> name, function, arguments… of one. */
static const char COMMON[] =
    "local function generator(seed) return function(n) seed = (seed * 1103515245 + 12345) & 0x7fffffff "
    "  return (seed >> 8) % n + 1 end end "
    "local function pick(rnd, list) return list[rnd(#list)] end "
    "local function show(v) if type(v) == 'string' then return ('%q'):format(v) end "
    "  if type(v) == 'table' then local s = {} for i = 1, 12 do s[i] = show and tostring(v[i]) or '' end "
    "    return '{' .. table.concat(s, ',') .. '}' end "
    "  return type(v) == 'function' and 'fn' or tostring(v) end "
    "local function note(...) local out = {} for i = 1, select('#', ...) do out[i] = show((select(i, ...))) end "
    "  return table.concat(out, ' ') end ";

static const char PATTERNS[] =
    "local CHARS = { 'a', 'b', 'c', 'x', '1', ' ', '(', ')', '.', '\\0', '\\xff', '\\n', '-', ']', '^' } "
    "local ITEMS = { 'a', 'b', 'c', 'x', '1', '.', '%a', '%d', '%s', '%w', '%A', '%S', '%p', '%z', '%x', '%u', '%L', "
    "'%g', '%c', "
    "  '[abc]', '[^a]', '[a-c]', '[%d_]', '[]x]', '[^]]', '[a-]', '[%a-z]', '[^%s]', '%(', '%)', '%%', '%.', '\\0', "
    "'\\xff', '[\\0-a]' } "
    "local ODD = { '%b()', '%bxy', '%f[%a]', '%f[^a]', '%f[%z]', '%1', '%2', '()', '(', ')', '^', '$', '%', '[', '[a', "
    "'%b', '%f', '%bx', "
    "  '[^', '%f[', '*', '-', '[%', '(()', '%0' } "
    "local REPLACE = { '', 'z', '%0', '%1', '%2', '<%0>', '%%', '%', '%x', '%1%0', 'ab%', '%9' } "
    "local function text(rnd) local t = {} for i = 1, rnd(24) - 1 do t[i] = pick(rnd, CHARS) end return "
    "table.concat(t) end "
    "local function pattern(rnd) local t, open = {}, 0 if rnd(4) == 1 then t[1] = '^' end "
    "  for _ = 1, rnd(6) do local k = rnd(12) "
    "    if k == 1 then t[#t + 1] = pick(rnd, ODD) elseif k == 2 then t[#t + 1] = '(' open = open + 1 "
    "    elseif k == 3 and open > 0 then t[#t + 1] = ')' open = open - 1 "
    "    else t[#t + 1] = pick(rnd, ITEMS) .. pick(rnd, { '', '', '', '*', '+', '-', '?' }) end end "
    "  if rnd(8) > 1 then t[#t + 1] = (')'):rep(open) end if rnd(5) == 1 then t[#t + 1] = '$' end return "
    "table.concat(t) end "
    "local function replacement(rnd) local k = rnd(8) if k == 1 then return { a = 'A', b = 2, c = false, [1] = 'one' } "
    "end "
    "  if k == 2 then return function(...) return (select('#', ...)) % 3 > 0 and note(...) or nil end end "
    "  if k == 3 then return function() return {} end end if k == 4 then return 42 end return pick(rnd, REPLACE) end "
    "local function all(s, p, init) local out = {} for a, b, c in s:gmatch(p, init) do out[#out + 1] = note(a, b, c) "
    "  if #out > 30 then break end end return table.concat(out, ';') end "
    "local function make(rnd) local s, p, k = text(rnd), pattern(rnd), rnd(5) "
    "  local init = rnd(3) == 1 and rnd(60) - 30 or nil "
    "  if k == 1 then return 'find', string.find, s, p, init, rnd(6) == 1 end "
    "  if k == 2 then return 'match', string.match, s, p, init end "
    "  if k == 3 then return 'gmatch', all, s, p, init end "
    "  return 'gsub', string.gsub, s, p, replacement(rnd), rnd(4) == 1 and rnd(5) - 2 or nil end ";

static const char TABLES[] =
    "local function list(rnd) local t = {} for i = 1, rnd(12) - 1 do t[i] = rnd(6) end return t end "
    "local function hole(rnd) return rnd(30) - 10 end "
    "local SPECS = { '%d', '%5d', '%-5d|', '%05.1f', '%s', '%10s', '%.2s', '%q', '%x', '%g', '%%', '%i', '%c', '%a', "
    "'%99d', '%100d', '%', "
    "  '%y', '%5', '%+d', '%#x', '%.3', '%.20s', '%-8s' } "
    "local function sorted(t, fn) table.sort(t, fn) return t end "
    "local function then_list(f, t, ...) local r = table.pack(f(t, ...)) return show(t), table.unpack(r, 1, r.n) end "
    "local function make(rnd) local k = rnd(9) local t = list(rnd) "
    "  if k == 1 then return 'concat', table.concat, t, pick(rnd, { nil, '', ',', '--' }), rnd(3) == 1 and hole(rnd) "
    "or nil, rnd(3) == 1 and hole(rnd) or nil end "
    "  if k == 2 then return 'insert', then_list, table.insert, t, hole(rnd), rnd(9) end "
    "  if k == 3 then return 'remove', then_list, table.remove, t, rnd(2) == 1 and hole(rnd) or nil end "
    "  if k == 4 then return 'move', then_list, table.move, t, hole(rnd), hole(rnd), hole(rnd) end "
    "  if k == 5 then return 'unpack', table.unpack, t, hole(rnd), hole(rnd) end "
    /* Equal elements must come out in the same order: pairs that compare by their first half only. */
    "  if k == 6 then local p = {} for i = 1, rnd(300) do p[i] = rnd(9) * 1000 + i end "
    "    local r = {} for i, v in ipairs(sorted(p, function(a, b) return a // 1000 < b // 1000 end)) do r[i] = v end "
    "    return 'sort', table.concat, r, ' ' end "
    "  if k == 7 then local p = {} for i = 1, rnd(40) do p[i] = rnd(50) end "
    "    return 'sort badly', then_list, table.sort, p, pick(rnd, { function() return true end, function(a, b) return "
    "a <= b end, "
    "      function(a, b) return a > b end, 7, function(a, b) return a .. '' < b .. '' end }) end "
    "  if k == 8 then return 'rep', string.rep, pick(rnd, { '', 'a', 'xyz' }), hole(rnd), pick(rnd, { nil, '', ',', "
    "'ab' }) end "
    "  return 'format', string.format, pick(rnd, SPECS) .. pick(rnd, SPECS), pick(rnd, { 1, 'x', 2.5, 'a\\0b', nil, "
    "300, ('y'):rep(120) }), "
    "    pick(rnd, { 7, 'long text', 0.1 }) end ";

static const char TAIL[] =
    "local seed, n = %d, %d local rnd, out = generator(seed), {} "
    "for i = 1, n do local call = table.pack(make(rnd)) "
    "  local r = table.pack(pcall(table.unpack(call, 2, call.n))) "
    /* Versions of Lua differ in which argument of remove they blame. */
    "  if call[1] == 'remove' and not r[1] then r[2] = r[2]:gsub('#[12]', '#n') end "
    "  out[i] = call[1] .. ' (' .. note(table.unpack(call, 3, call.n)) .. ') -> ' .. note(table.unpack(r, 1, r.n)) end "
    "local text = table.concat(out, '\\n') if n == 1 then return text end "
    "local h = 5381 for i = 1, #text do h = (h * 33 + text:byte(i)) & 0xffffffffffff end return h";

static void stock_run(lua_State *L, const char *script, char *out, size_t cap)
{
    if (luaL_loadbuffer(L, script, strlen(script), "@test.lua") != LUA_OK || lua_pcall(L, 0, 1, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    snprintf(out, cap, "%s", luaL_tolstring(L, -1, NULL));
    lua_settop(L, 0);
}

static void script_for(char *out, size_t cap, const char *kind, int seed, int n)
{
    int at = snprintf(out, cap, "%s%s", COMMON, kind);
    snprintf(out + at, cap - (size_t)at, TAIL, seed, n);
}

static void same_as_stock(fixture *f, const char *kind)
{
    static char script[16384];
    lua_State *stock = luaL_newstate();
    assert_non_null(stock);
    luaL_openlibs(stock);
    for (int round = 0; round < ROUNDS; round++) {
        char want[512];
        script_for(script, sizeof script, kind, round * 7919 + 1, CASES_A_ROUND);
        stock_run(stock, script, want, sizeof want);
        outcome o = script_run(f, script);
        if (!o.ok) fail_msg("%s", o.text);
        if (strcmp(o.text, want) == 0) continue;
        for (int seed = 1; seed < 20000; seed++) { /* something is different: a single call that shows it */
            script_for(script, sizeof script, kind, seed, 1);
            stock_run(stock, script, want, sizeof want);
            o = script_run(f, script);
            if (strcmp(o.text, want) != 0) fail_msg("stock: %s\nours:  %s", want, o.text);
        }
        fail_msg("round %d differs, and no single call does", round);
    }
    lua_close(stock);
}

static void patterns_match_as_in_stock_lua(void **state) { same_as_stock(*state, PATTERNS); }

static void tables_and_formats_work_as_in_stock_lua(void **state) { same_as_stock(*state, TABLES); }

static int setup(void **state)
{
    static fixture f;
    fixture_open(&f, &(host_cfg){.budget_ms = -1});
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_in_stock_lua),
        cmocka_unit_test(tables_and_formats_work_as_in_stock_lua),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
