/* SPDX-License-Identifier: MIT */
/* Scripts that misbehave: endless loops, swallowed errors, coroutines, too much memory. Each must end with an error
 * that names its place, and none may keep the others waiting. */
#include <string.h>
#include <unistd.h>

#include "host_check.h"

#define TIMER_MS 3
#ifdef __SANITIZE_ADDRESS__ /* whose checks cost CPU of their own */
#define DELAY_MAX_MS 30
#else
#define DELAY_MAX_MS 10
#endif

/* The most CPU, in milliseconds, that this process used while a 3 ms timer was due, with `source` running in another
 * task. CPU and not wall time: a machine that is busy with other work takes the processor away for as long as it likes.
 */
static long worst_cpu_ms(fixture *f, const char *source)
{
    char script[1024];
    snprintf(
        script, sizeof script,
        "local other = loop.spawn(function() %s end) local worst = 0 "
        "for i = 1, 60 do local t0 = loop.cpu_ms() loop.sleep_ms(3) worst = math.max(worst, loop.cpu_ms() - t0) end "
        "other:cancel('done') return worst",
        source);
    outcome o = script_run(f, script);
    assert_true(o.ok);
    return strtol(o.text, NULL, 10);
}

static void a_runaway_task_does_not_delay_the_others(void **state)
{
    static const char *const SOURCES[] = {
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local co = coroutine.wrap(function() while true do end end) co()",
        "while true do coroutine.wrap(function() local x = 1 end)() end",
        "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
        "for i = 1, 5 do loop.spawn(function() while true do end end) end while true do end",
    };
    for (size_t i = 0; i < sizeof SOURCES / sizeof SOURCES[0]; i++) {
        long ms = worst_cpu_ms(*state, SOURCES[i]);
        if (ms > TIMER_MS + DELAY_MAX_MS) print_message("%ld ms of CPU with: %s\n", ms, SOURCES[i]);
        assert_true(ms <= TIMER_MS + DELAY_MAX_MS);
    }
}

static void a_spent_budget_is_an_error_with_a_place(void **state)
{
    static const char *const BODIES[] = {
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function(m) return m end) end",
        "while true do pcall(error, 'x') end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "while true do local co = coroutine.create(function() end) coroutine.resume(co) coroutine.close(co) end",
        "local function f() return f() end f()",
        "local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end",
    };
    for (size_t i = 0; i < sizeof BODIES / sizeof BODIES[0]; i++) {
        char script[1024];
        snprintf(script, sizeof script,
                 "local t = loop.spawn(function() loop.set_budget(30) %s end) local ok, e = t:await() "
                 "return e.kind .. ' ' .. tostring(e.message:find('test.lua:1: the script used up', 1, true) ~= nil)",
                 BODIES[i]);
        assert_script(*state, script, "BudgetExceeded true");
    }
}

static void a_task_that_mostly_waits_earns_budget(void **state)
{
    /* 2 ms of work in each 100 ms is less than the twentieth that it earns, so that it outlives its 20 ms. */
    assert_script(*state,
                  "local t = loop.spawn(function() loop.set_budget(20) for i = 1, 20 do local t0 = loop.now_ns() "
                  "while loop.now_ns() - t0 < 2e6 do end loop.sleep_ms(100) end return 'alive' end) return t:await()",
                  "alive");
}

static void code_that_cannot_be_suspended_has_a_hard_limit(void **state)
{
    assert_script(*state,
                  "local t = loop.spawn(function() pcall(table.sort, {3, 2, 1}, function() while true do end end) end) "
                  "local ok, e = t:await() "
                  "return e.kind",
                  "BudgetExceeded");
    assert_script(*state,
                  "local t = loop.spawn(function() return (('x'):gsub('x', function() while true do end end)) end) "
                  "local ok, e = t:await() "
                  "return e.kind",
                  "BudgetExceeded");
}

static void an_honest_task_keeps_its_results_through_preemption(void **state)
{
    assert_script(
        *state,
        "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end "
        "local a, b = loop.spawn(fib, 25), loop.spawn(fib, 25) "
        "local s = {} for w in ('a b c d'):gmatch('%a') do s[#s + 1] = w .. select('#', fib(15), fib(16)) end "
        "return a:await() + b:await() .. table.concat(s) .. tostring(a:usage().preempted > 0)",
        "150050a2b2c2d2true");
}

static void an_unlimited_task_may_run_long(void **state)
{
    fixture f;
    (void)state;
    fixture_open(&f, &(host_cfg){.budget_ms = -1, .hard_ms = 50});
    assert_script(&f, "local t0 = loop.now_ms() while loop.now_ms() - t0 < 300 do end return 'ok'", "ok");
    assert_script(
        &f,
        "local s = {1, 2} table.sort(s, function(a, b) local t0 = loop.now_ms() while loop.now_ms() - t0 < 300 do end "
        "return a < b end) return s[1]",
        "1");
    fixture_close(&f);
}

static int nap(lua_State *L)
{
    (void)L;
    usleep(150000);
    return 0;
}

/* What is written to standard error while two steps run, both longer than the hard limit: one stands, one works. */
static void the_log_names_the_step_that_worked_for_long(void **state)
{
    fixture f;
    (void)state;
    fixture_open(&f, &(host_cfg){.budget_ms = -1, .hard_ms = 50});
    lua_pushcfunction(host_state(f.h), nap);
    lua_setglobal(host_state(f.h), "nap");
    char text[4096] = "";
    int ends[2], saved = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
#ifdef __SANITIZE_THREAD__ /* without a timer nobody knows what stood */
    outcome stood = {.ok = true};
#else
    outcome stood = script_run(&f, "nap() return 'ok'");
#endif
    outcome worked = script_run(&f, "local s = {1, 2} table.sort(s, function(a, b) local t0 = loop.cpu_ms() "
                                    "while loop.cpu_ms() - t0 < 150 do end return a < b end) return 'ok'");
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof text - 1) >= 0);
    close(ends[0]);
    assert_true(stood.ok && worked.ok);
    const char *line = strstr(text, "one step of a script held the loop");
    assert_non_null(line);
    assert_null(strstr(line + 1, "one step of a script held the loop"));
    fixture_close(&f);
}

static void the_memory_cap_is_an_error_and_the_host_goes_on(void **state)
{
    fixture f;
    (void)state;
    fixture_open(&f, &(host_cfg){.memory_max = (size_t)8 << 20});
    assert_script(
        &f,
        "local t = loop.spawn(function() local s = {} while true do s[#s + 1] = ('x'):rep(10000) .. #s end end) "
        "local ok, e = t:await() return e.kind .. ': ' .. e.message",
        "OutOfMemory: the scripts' memory is used up (cap: 8 MiB)");
    assert_script(
        &f, "local t = loop.spawn(function() return ('x'):rep(1 << 30) end) local ok, e = t:await() return e.kind",
        "OutOfMemory");
    assert_script(&f, "return #('x'):rep(1000000)", "1000000");
    assert_true(host_memory(f.h) <= (size_t)8 << 20);
    fixture_close(&f);
}

static void usage_is_counted_for_the_task(void **state)
{
    assert_script(*state,
                  "local function burn() local t0 = loop.cpu_ms() while loop.cpu_ms() - t0 < 30 do end return "
                  "('y'):rep(100000) end "
                  "local a, b = loop.spawn(burn), loop.spawn(function() end) a:await() b:await() local ua, ub = "
                  "a:usage(), b:usage() "
                  "return tostring(ua.cpu_ms >= 10 and ua.cpu_ms < 500) .. tostring(ua.allocated_bytes >= 100000) .. "
                  "tostring(ub.cpu_ms < 5) .. tostring(ub.allocated_bytes < 5000)",
                  "truetruetruetrue");
}

static fixture shared;

static int open_timer(void **state)
{
    fixture_open(&shared, &(host_cfg){.grace_ms = 50, .hard_ms = 100});
    *state = &shared;
    return 0;
}

static int open_counting(void **state)
{
    fixture_open(&shared, &(host_cfg){.grace_ms = 50, .hard_ms = 100, .count_hooks = true});
    *state = &shared;
    return 0;
}

static int close_fixture(void **state)
{
    fixture_close(*state);
    return 0;
}

/* Once with the timer, once with count hooks. */
#define BUDGET_TEST(fn)                                                                                                \
    cmocka_unit_test_setup_teardown(fn, open_timer, close_fixture),                                                    \
        cmocka_unit_test_setup_teardown(fn, open_counting, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUDGET_TEST(a_runaway_task_does_not_delay_the_others),
        BUDGET_TEST(a_spent_budget_is_an_error_with_a_place),
        BUDGET_TEST(a_task_that_mostly_waits_earns_budget),
        BUDGET_TEST(code_that_cannot_be_suspended_has_a_hard_limit),
        BUDGET_TEST(an_honest_task_keeps_its_results_through_preemption),
        cmocka_unit_test(an_unlimited_task_may_run_long),
        cmocka_unit_test(the_log_names_the_step_that_worked_for_long),
        cmocka_unit_test(the_memory_cap_is_an_error_and_the_host_goes_on),
        BUDGET_TEST(usage_is_counted_for_the_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
