/* SPDX-License-Identifier: MIT */
/* Calls of boxes, from the native side: what they hold is counted exactly, whoever frees it; they end at their limits
 * with either kind of ticking; a lack of memory at any place, and a host that ends in the middle, leave nothing. */
#include "host/host_internal.h"
#include "host_check.h"

/* Defines `box` and `run(source, …)`: its results, or nil, err. */
#define BOX                                                                                                            \
    "local N = require 'lunette.sandbox.native' local function guards() return select(4, N.guards()) end "             \
    "local box = { N.new(100, 1 << 20, 100, 100000), guards() } "                                                      \
    "local function run(source, ...) return box, assert(N.load(source, '=s', _G)), ... end "

static void collect(fixture *f)
{
    lua_gc(host_state(f->h), LUA_GCCOLLECT);
    lua_gc(host_state(f->h), LUA_GCCOLLECT);
}

static void a_call_ends_at_its_limits(void **state)
{
    static const struct {
        const char *source, *want;
    } CASES[] = {
        {"return 1", "true 1"},
        {"error({message = 'm', kind = 'NotFound'})", "nil NotFound"},
        {"while true do end", "nil BudgetExceeded"},
        {"while true do pcall(function() while true do end end) end", "nil BudgetExceeded"},
        {"local t = {} while true do t[#t + 1] = {} end", "nil OutOfMemory"},
        {"return ('x'):rep(1 << 40)", "nil OutOfMemory"},
        {"return ('a'):rep(40):find(('a?'):rep(40) .. ('a'):rep(40))", "nil BudgetExceeded"},
        {"table.sort({3, 2, 1}, function() while true do end end)", "nil BudgetExceeded"},
        {"table.move(setmetatable({}, {__index = rawlen, __newindex = rawlen}), 1, 1 << 60, 2)", "nil BudgetExceeded"},
        {"local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end",
         "nil BudgetExceeded"},
    };
    for (int ticking = 0; ticking < 2; ticking++) {
        fixture f;
        fixture_open(&f, &(host_cfg){.count_hooks = ticking});
        for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
            char script[2048];
            snprintf(script, sizeof script,
                     BOX
                     "local ok, v = N.call(run([[%s]])) return tostring(ok) .. ' ' .. (v and v.kind or tostring(v))",
                     CASES[i].source);
            if (i == 0)
                snprintf(script, sizeof script,
                         BOX "local ok, v = N.call(run('return 1')) return tostring(ok) .. ' ' .. v");
            assert_script(&f, script, CASES[i].want);
            collect(&f);
            assert_int_equal(f.h->boxes_used, 0);
        }
        fixture_close(&f);
    }
    (void)state;
}

static void what_a_call_holds_goes_off_its_account_whoever_frees_it(void **state)
{
    fixture *f = *state;
    /* Kept beyond the call, grown by others, freed by others. */
    assert_script(f,
                  BOX "local _, kept = N.call(run('local t = {} for i = 1, 1000 do t[i] = {} end return t')) "
                      "local before = N.held(box) for i = 1, 5000 do kept[#kept + 1] = {} end "
                      "local other = { N.new(100, 1 << 20, 3, 100000), guards() } "
                      "N.call(other, function() for i = 1, 5000 do kept[#kept + 1] = i end end) "
                      "collectgarbage() collectgarbage() "
                      "local moved = N.held(box) < before and N.held(other) >= 16 * 11000 "
                      "kept = nil collectgarbage() collectgarbage() "
                      "return tostring(before > 56000) .. tostring(moved) .. N.held(box) + N.held(other)",
                  "truetrue0");
    /* The box is gone before what its call made. */
    assert_script(f,
                  "local kept do " BOX "kept = select(2, N.call(run('return { {}, {} }'))) end "
                  "collectgarbage() collectgarbage() kept = #kept collectgarbage() collectgarbage() return kept",
                  "2");
    collect(f);
    assert_int_equal(f->h->boxes_used, 0);
}

static void all_boxes_together_leave_half_of_the_memory_to_the_host(void **state)
{
    fixture f;
    (void)state;
    fixture_open(&f, &(host_cfg){.memory_max = (size_t)8 << 20});
    assert_script(&f,
                  "local N, kept, ended = require 'lunette.sandbox.native', {}, 0 for i = 1, 20 do "
                  "local box = { N.new(1000, 1 << 20, 3, 100000), {} } "
                  "local ok, v = N.call(box, function() return ('x'):rep(400000) end) "
                  "if ok then kept[i] = v else ended = ended + 1 end end "
                  "return #kept .. ' ' .. ended .. ' ' .. #('y'):rep(1000000)",
                  "9 11 1000000");
    fixture_close(&f);
}

static void a_host_that_ends_while_a_call_waits_leaves_nothing(void **state)
{
    fixture f;
    outcome o;
    (void)state;
    fixture_open(&f, &(host_cfg){.cleanup_ms = 10, .grace_ms = 1});
    script_start(
        &f,
        BOX
        "local inner = { N.new(100, 1 << 20, 3, 100000), guards() } "
        "N.call(box, function() N.call(inner, function() local t = {('x'):rep(5000)} loop.sleep_ms(60000) end) end)",
        &o);
    err e = {0};
    assert_int_equal(loop_run_once(f.l, 0, &e) < 0, 0);
    assert_int_equal(host_tasks(f.h), 1);
    fixture_close(&f);
    assert_true(o.ended);
}

static void each_allocation_may_fail(void **state)
{
    static const char *const SOURCES[] = {
        BOX "N.call(run('local t = {} for i = 1, 50 do t[i] = {} end return t')) return 1",
        BOX "N.call(run('error({message = [[m]]})')) N.data(run('return { { 1, 2 }, 3 }')) return 1",
        BOX "N.clean(run('return { {} }')) N.call(box, function() return pcall(coroutine.wrap(function() error(2) "
            "end)) end) return 1",
        BOX
        "N.call(box, function() loop.sleep_ms(0) return ('abc'):gsub('b', '%0%0'), table.concat({1, 2}) end) return 1",
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof SOURCES / sizeof SOURCES[0]; i++) {
        long n = 0;
        for (bool fired = true; fired && n < 3000; n++) {
            outcome o;
            script_start(f, SOURCES[i], &o);
            mem_fail_at(n);
            script_finish(f, &o);
            fired = mem_failed();
            mem_fail_at(-1);
            assert_true(o.ended);
        }
        assert_true(n > 10);
        assert_script(f, SOURCES[i], "1");
        collect(f);
        assert_int_equal(f->h->boxes_used, 0);
    }
}

/* A coroutine of a task is the scheduler's: a script that got hold of it can neither resume nor close it. */
static void the_coroutine_of_a_task_is_out_of_reach(void **state)
{
    assert_script(
        *state,
        "local co local t = loop.spawn(function() co = coroutine.running() loop.sleep_ms(1) return 'well' end) "
        "loop.sleep_ms(0) local a, why = coroutine.resume(co) local b = pcall(coroutine.close, co) "
        "return tostring(a) .. tostring(b) .. t:await()",
        "falsefalsewell");
}

static int open_fixture(void **state)
{
    static fixture f;
    fixture_open(&f, &(host_cfg){0});
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_ends_at_its_limits),
        cmocka_unit_test_setup_teardown(what_a_call_holds_goes_off_its_account_whoever_frees_it, open_fixture,
                                        close_fixture),
        cmocka_unit_test(all_boxes_together_leave_half_of_the_memory_to_the_host),
        cmocka_unit_test(a_host_that_ends_while_a_call_waits_leaves_nothing),
        cmocka_unit_test_setup_teardown(each_allocation_may_fail, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(the_coroutine_of_a_task_is_out_of_reach, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
