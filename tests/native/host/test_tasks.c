/* SPDX-License-Identifier: MIT */
/* Tasks: results, waiting, cancellation, cleanup, the end of the host. */
#include "base/utf.h"
#include "host_check.h"

static void results_and_errors_come_out_of_await(void **state)
{
    fixture *f = *state;
    assert_script(
        f, "local t = loop.spawn(function(a, b) return a + b, 'x' end, 2, 3) local n, s = t:await() return n .. s",
        "5x");
    assert_script(
        f,
        "local ok, e = loop.spawn(function() error('no luck') end):await() return tostring(ok) .. e.kind .. e.message",
        "nilScriptErrortest.lua:1: no luck");
    assert_script(
        f,
        "local t = loop.spawn(function() return nil, 7 end) t:await() local a, b = t:await() return tostring(a) .. b",
        "nil7");
    assert_script(
        f, "local t = loop.spawn(function() loop.sleep_ms(5000) end) local _, e = t:await(5) t:cancel() return e.kind",
        "Timeout");
}

static void any_error_value_reads_well(void **state)
{
    static const char *const CASES[][2] = {
        {"error('text', 0)", "ScriptError: text"},
        {"error()", "ScriptError: nil"},
        {"error(12.5)", "ScriptError: 12.5"},
        {"error({})", "ScriptError: (error without a message)"},
        {"error({kind = 'NotFound', message = 'gone', hint = 'look elsewhere'})", "NotFound: gone"},
        {"error({kind = 'NoSuchKind', message = 'm'})", "ScriptError: m"},
        {"error(setmetatable({}, {__tostring = function() return 'mine' end}))",
         "ScriptError: (error without a message)"},
        {"error(('\\u{20AC}'):rep(400), 0)", NULL},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        outcome o = script_run(*state, CASES[i][0]);
        char text[640];
        assert_false(o.ok);
        snprintf(text, sizeof text, "%s: %s", err_kind_name(o.e.kind), o.e.message);
        if (CASES[i][1]) assert_string_equal(text, CASES[i][1]);
        assert_true(utf8_valid(slice_str(o.e.message)));
    }
}

static void endless_recursion_is_an_error_with_a_place(void **state)
{
    static const char *const BODIES[] = {
        "local function f() return f() + 1 end f()",
        "local function f() return (('x'):gsub('x', f)) end f()",
        "local function f() return coroutine.wrap(f)() end f()",
        "local t = {} setmetatable(t, {__index = function(_, k) return t[k + 1] end}) return t[1]",
        "local function f() return select(2, pcall(f)) + 1 end f()",
    };
    for (size_t i = 0; i < sizeof BODIES / sizeof BODIES[0]; i++) {
        outcome o = script_run(*state, BODIES[i]);
        assert_false(o.ok);
        assert_int_equal(o.e.kind, ERR_SCRIPT);
        assert_non_null(strstr(o.e.message, "test.lua:1: "));
        assert_script(*state, "return 'alive'", "alive");
    }
}

static void many_tasks_may_await_one(void **state)
{
    assert_script(*state,
                  "local one = loop.spawn(function() loop.sleep_ms(10) return 3 end) local all, sum = {}, 0 "
                  "for i = 1, 20 do all[i] = loop.spawn(function() return one:await() end) end "
                  "for _, t in ipairs(all) do sum = sum + t:await() end return sum",
                  "60");
}

static void sleeps_overlap(void **state)
{
    assert_script(
        *state,
        "local t0, all = loop.now_ms(), {} for i = 1, 50 do all[i] = loop.spawn(loop.sleep_ms, 60) end "
        "for _, t in ipairs(all) do assert(t:await()) end local ms = loop.now_ms() - t0 return ms >= 60 and ms < 1000",
        "true");
}

static void waiting_is_refused_where_it_cannot_work(void **state)
{
    fixture *f = *state;
    assert_script(
        f,
        "local ok, e = pcall(table.sort, {2, 1}, function() loop.sleep_ms(1) end) return (e:gsub('.*: this', 'this'))",
        "this code cannot wait here: it runs under a C function (sort, gsub, require, a finalizer or a close handler)");
    assert_script(
        f,
        "local co = coroutine.create(function() local x <close> = setmetatable({}, {__close = function() "
        "loop.sleep_ms(1) end}) "
        "coroutine.yield() end) coroutine.resume(co) local ok, e = coroutine.close(co) return tostring(ok) .. #e > 'f'",
        "true");
    lua_State *L = host_state(f->h);
    assert_true(luaL_dostring(L, "require('lunette.loop').sleep_ms(1)"));
    assert_non_null(strstr(lua_tostring(L, -1), "in a task only"));
    lua_pop(L, 1);
}

static void a_cancelled_wait_returns_an_error(void **state)
{
    fixture *f = *state;
    outcome o;
    task *t = script_start(
        f, "local ok, e = loop.sleep_ms(60000) return e.kind .. ': ' .. e.message .. tostring(loop.cancelled())", &o);
    err e = {0};
    assert_int_equal(loop_run_once(f->l, 0, &e), 0);
    assert_false(o.ended);
    task_cancel(t, "client went away");
    task_cancel(t, "twice");
    script_finish(f, &o);
    assert_true(o.ok);
    assert_string_equal(o.text, "Cancelled: the task was cancelled: client went awaytrue");
}

static void a_task_cancelled_before_it_ran_never_runs(void **state)
{
    assert_script(
        *state,
        "local ran = false local t = loop.spawn(function() ran = true end) t:cancel('early') local _, e = t:await() "
        "return e.kind .. tostring(ran)",
        "Cancelledfalse");
}

static void a_cancelled_task_that_goes_on_is_stopped_after_the_grace(void **state)
{
    assert_script(*state,
                  "local closed, cleaned local t = loop.spawn(function() loop.on_cleanup(function() cleaned = "
                  "loop.sleep_ms(1) end) "
                  "local x <close> = setmetatable({}, {__close = function() closed = true end}) "
                  "while true do pcall(loop.sleep_ms, 10) end end) loop.sleep_ms(5) t:cancel('enough') "
                  "local _, e = t:await(5000) return e.kind .. tostring(closed) .. tostring(cleaned)",
                  "Cancelledtruetrue");
}

static void cleanup_runs_last_first_however_the_task_ends(void **state)
{
    static const char *const ENDS[] = {"", "error('x')", "error({kind = 'NotFound', message = 'm'})",
                                       "local a = nil + 1"};
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++) {
        char script[512];
        snprintf(script, sizeof script,
                 "local log = {} local function note(s) return function() log[#log + 1] = s end end "
                 "loop.spawn(function() loop.on_cleanup(note('a')) loop.on_cleanup(function() error('in between') end) "
                 "loop.on_cleanup(note('b')) %s end):await() return table.concat(log)",
                 ENDS[i]);
        assert_script(*state, script, "ba");
    }
}

static void the_host_s_end_cleans_up_after_its_tasks(void **state)
{
    fixture f;
    outcome o[3];
    (void)state;
    fixture_open(&f, &(host_cfg){.grace_ms = 50, .cleanup_ms = 300});
    script_start(&f, "done = 0 loop.on_cleanup(function() loop.sleep_ms(2) done = done + 1 end) loop.sleep_ms(1e6)",
                 &o[0]);
    script_start(&f, "loop.on_cleanup(function() done = done + 1 end) while true do end", &o[1]);
    script_start(&f, "loop.on_cleanup(function() loop.sleep_ms(1e6) end) loop.sleep_ms(1e6)", &o[2]);
    err e = {0};
    for (int i = 0; i < 5; i++)
        assert_int_equal(loop_run_once(f.l, 0, &e), 0);
    assert_int_equal(host_tasks(f.h), 3);
    int64_t t0 = mono_ns();
    fixture_close(&f);
    assert_true(mono_ns() - t0 < 2000000000);
    for (int i = 0; i < 3; i++)
        assert_true(o[i].ended);
    assert_false(o[1].ok);
    assert_int_equal(o[1].e.kind, ERR_CANCELLED);
}

static void a_close_handler_may_wait_unless_the_task_is_cancelled(void **state)
{
    static const char SCRIPT[] =
        "local slept, begun local function closer() return setmetatable({}, {__close = function() slept = "
        "loop.sleep_ms(1) end}) end "
        "local t = loop.spawn(function() local x <close> = closer() begun = true %s end) "
        "while not begun do loop.sleep_ms(1) end %s t:await() return tostring(slept)";
    static const char *const CASES[][3] = {
        {"", "", "true"}, {"error('x')", "", "true"}, {"loop.sleep_ms(60000)", "t:cancel()", "nil"}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char script[512];
        snprintf(script, sizeof script, SCRIPT, CASES[i][0], CASES[i][1]);
        assert_script(*state, script, CASES[i][2]);
    }
}

static void task_data_is_inherited(void **state)
{
    fixture *f = *state;
    assert_script(
        f,
        "loop.current().data.who = 'root' local t = loop.spawn(function() local d = loop.current().data d.own = 1 "
        "return loop.spawn(function() return loop.current().data.who .. tostring(loop.current().data.own) end):await() "
        "end) "
        "return t:await() .. tostring(loop.current().data.own)",
        "root1nil");
    assert_script(
        f,
        "loop.current().data.who = 'root' local function dive(n) loop.current().data.depth = n "
        "if n == 0 then return loop.current().data.who end return loop.spawn(dive, n - 1):await() end return dive(40)",
        "root");
}

static void channels_pass_values_in_order(void **state)
{
    fixture *f = *state;
    assert_script(
        f,
        "local ch = loop.channel(2) local got = {} local t = loop.spawn(function() while true do local v, e = "
        "ch:recv() "
        "if not v then got[#got + 1] = e.kind break end got[#got + 1] = v end end) loop.sleep_ms(1) "
        "for i = 1, 4 do if not ch:send(i) then got[#got + 1] = 'full' end end loop.sleep_ms(1) ch:close() t:await() "
        "return table.concat(got, ' ')",
        "full 1 2 3 NotFound");
    assert_script(f, "local ch = loop.channel(1) ch:send('a') ch:close() return ch:recv() .. tostring(ch:send('b'))",
                  "afalse");
    assert_script(f, "local v, e = loop.channel(1):recv(3) return e.kind", "Timeout");
}

static void exec_gives_output_and_code(void **state)
{
    fixture *f = *state;
    assert_script(f,
                  "local r = assert(loop.exec{argv = {'sh', '-c', 'cat; echo err >&2; exit 3'}, stdin = 'hello'}) "
                  "return r.stdout .. r.stderr .. r.code",
                  "helloerr\n3");
    assert_script(f,
                  "local r = assert(loop.exec{argv = {'/bin/sleep', '60'}, timeout_ms = 20}) return r.signal .. "
                  "tostring(r.timed_out)",
                  "9true");
    assert_script(f,
                  "local r = assert(loop.exec{argv = {'head', '-c', '100000', '/dev/zero'}, max_output = 10}) return "
                  "#r.stdout .. ' ' .. r.dropped_bytes",
                  "10 99990");
    assert_script(f, "local r, e = loop.exec{argv = {'no-such-program-here'}} return e.kind", "NotFound");
    assert_script(f,
                  "local t = loop.spawn(loop.exec, {argv = {'/bin/sleep', '60'}}) loop.sleep_ms(20) t:cancel() local "
                  "r, e = t:await() return e.kind",
                  "Cancelled");
}

static void a_timer_fires_once_in_a_task_of_its_own(void **state)
{
    assert_script(*state,
                  "local n, task = 0 loop.timer(5, function() n = n + 1 loop.sleep_ms(1) task = loop.current() end) "
                  "local off = loop.timer(5, function() n = n + 100 end) off:cancel() off:cancel() loop.sleep_ms(30) "
                  "while not task do loop.sleep_ms(1) end "
                  "return n .. tostring(task ~= nil and task ~= loop.current())",
                  "1true");
}

static int open_fixture(void **state)
{
    static fixture f;
    fixture_open(&f, &(host_cfg){.grace_ms = 60});
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture_close(*state);
    return 0;
}

#define TASK_TEST(fn) cmocka_unit_test_setup_teardown(fn, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TASK_TEST(results_and_errors_come_out_of_await),
        TASK_TEST(any_error_value_reads_well),
        TASK_TEST(endless_recursion_is_an_error_with_a_place),
        TASK_TEST(many_tasks_may_await_one),
        TASK_TEST(sleeps_overlap),
        TASK_TEST(waiting_is_refused_where_it_cannot_work),
        TASK_TEST(a_cancelled_wait_returns_an_error),
        TASK_TEST(a_task_cancelled_before_it_ran_never_runs),
        TASK_TEST(a_cancelled_task_that_goes_on_is_stopped_after_the_grace),
        TASK_TEST(cleanup_runs_last_first_however_the_task_ends),
        cmocka_unit_test(the_host_s_end_cleans_up_after_its_tasks),
        TASK_TEST(a_close_handler_may_wait_unless_the_task_is_cancelled),
        TASK_TEST(task_data_is_inherited),
        TASK_TEST(channels_pass_values_in_order),
        TASK_TEST(exec_gives_output_and_code),
        TASK_TEST(a_timer_fires_once_in_a_task_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
