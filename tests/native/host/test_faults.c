/* SPDX-License-Identifier: MIT */
/* Memory that is out: each allocation of the state, of the loop and of the faces fails once. Nothing leaks (the
 * sanitizer looks), nothing crashes, and the host still works afterwards. */
#include <signal.h>

#include "host_check.h"

static void host_new_survives_each_failing_allocation(void **state)
{
    (void)state;
    long failed = 0, n = 0;
    for (bool fired = true; fired; n++) {
        loop *l = NULL;
        host *h = NULL;
        err e = {0};
        assert_int_equal(loop_new(&l, &e), 0);
        mem_fail_at(n);
        int rc = host_new(l, &(host_cfg){.lua_dir = "/nowhere"}, &h, &e);
        fired = mem_failed();
        mem_fail_at(-1);
        /* Lua tries again after a collection, so one failure is often survived; if not, the record says what it was. */
        if (rc < 0) {
            assert_int_equal(e.kind, ERR_NO_MEMORY);
            assert_null(h);
            failed++;
        }
        host_free(h);
        loop_free(l);
    }
    assert_true(n > 100);
    assert_true(failed > 0);
}

/* Runs the script with the n-th allocation failing, for each n, as long as one fails. */
static void each_fails(fixture *f, const char *source)
{
    static const char SANE[] = "local t = loop.spawn(function() loop.sleep_ms(0) return "
                               "json.encode(json.decode('[1,{\"a\":2}]')) end) return t:await()";
    long n = 0;
    for (bool fired = true; fired && n < 3000; n++) {
        outcome o;
        script_start(f, source, &o);
        mem_fail_at(n);
        script_finish(f, &o);
        fired = mem_failed();
        mem_fail_at(-1);
        assert_true(o.ended);
        assert_script(f, SANE, "[1,{\"a\":2}]");
    }
    assert_true(n > 10);
}

static void scripts_survive_each_failing_allocation(void **state)
{
    each_fails(*state, "local t = loop.spawn(function(a) loop.on_cleanup(function() end) loop.sleep_ms(0) return a, {} "
                       "end, {}) return t:await(1000)");
    each_fails(*state, "local ch = loop.channel(2) local t = loop.spawn(function() return ch:recv() end) "
                       "loop.sleep_ms(0) ch:send({}) ch:send({}) ch:recv() "
                       "return t:await()");
    each_fails(*state, "return json.encode(json.decode('{\"a\":[1,2.5,\"\\\\u00e9\",null],\"b\":{\"c\":{}}}'))");
    each_fails(*state, "return loop.exec{argv = {'/bin/echo', 'x'}, stdin = 'y'}");
    each_fails(
        *state,
        "return require('lunette.crypto').hex(require('lunette.crypto').sha256('x')), require('lunette.fs').list('/')");
    each_fails(*state, "loop.timer(0, function() end) loop.sleep_ms(1) return coroutine.wrap(function() "
                       "loop.sleep_ms(0) coroutine.yield(1) end)()");
}

/* The same errors again and again must not make the state grow. */
static void error_paths_keep_nothing(void **state)
{
    fixture *f = *state;
    static const char SCRIPT[] =
        "local function round() "
        "pcall(json.encode, {f = print}) json.decode('{\"a\":') pcall(loop.sleep_ms, 'x') loop.exec{argv = "
        "{'no-such-program'}} "
        "loop.spawn(error, 'x'):await() loop.spawn(function() error({kind = 'NotFound', message = 'm'}) end):await() "
        "local t = loop.spawn(loop.sleep_ms, 1e6) loop.sleep_ms(0) t:cancel() t:await() "
        "local ch = loop.channel(0) ch:recv(0) ch:close() ch:recv() "
        "pcall(table.sort, {2, 1}, function() loop.sleep_ms(1) end) require('lunette.fs').read('/nowhere', 1) end "
        "for _ = 1, 20 do round() end collectgarbage() collectgarbage() local before = loop.stats().memory_bytes "
        "for _ = 1, 200 do round() end collectgarbage() collectgarbage() return loop.stats().memory_bytes - before < "
        "4096";
    assert_script(f, SCRIPT, "true");
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
    signal(SIGPIPE, SIG_IGN); /* as the program does: loop.exec writes to children that do not read */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_new_survives_each_failing_allocation),
        cmocka_unit_test_setup_teardown(scripts_survive_each_failing_allocation, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(error_paths_keep_nothing, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
