/* SPDX-License-Identifier: MIT */
/* Jobs of native faces: one owner at a time, whatever throws, fails, is cancelled or ends meanwhile. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "host/job.h"
#include "host_check.h"

/* What the one face of this test, job(how), has lived through. */
static struct {
    atomic_int working;
    int made, freed, stopped, ended;
    bool elsewhere; /* the work ran on another thread */
} seen;

typedef struct job {
    host_job job;
    char how[24];
    pthread_t caller;
    atomic_bool stop;
} job;

static int work(void *p)
{
    job *j = p;
    seen.elsewhere = !pthread_equal(j->caller, pthread_self());
    atomic_fetch_add(&seen.working, 1);
    while (strcmp(j->how, "until stopped") == 0 && !atomic_load(&j->stop))
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 100000}, NULL);
    return strcmp(j->how, "fail") == 0 ? err_set(&j->job.e, ERR_NOT_FOUND, "not there") : 0;
}

static int push(lua_State *L, void *p)
{
    const job *j = p;
    if (strcmp(j->how, "throw") == 0) return luaL_error(L, "thrown");
    lua_pushvalue(L, 1);
    lua_pushliteral(L, "done");
    return 2;
}

static void fini(void *p)
{
    (void)p;
    seen.freed++;
}

static void stop(void *p)
{
    seen.stopped++;
    atomic_store(&((job *)p)->stop, true);
}

static void ended(lua_State *L, void *p)
{
    (void)L;
    (void)p;
    seen.ended++;
}

static const host_job_class FULL = {.work = work, .push = push, .fini = fini, .stop = stop, .ended = ended};

static job *new_job(lua_State *L)
{
    const char *how = luaL_checkstring(L, 1);
    job *j = host_job_new(L, sizeof *j, &FULL);
    seen.made++;
    snprintf(j->how, sizeof j->how, "%s", how); /* Lua may let go of its text while the job works */
    j->caller = pthread_self();
    return j;
}

static int l_job(lua_State *L)
{
    job *j = new_job(L);
    luaL_argcheck(L, strcmp(j->how, "bad") != 0, 1, "bad");
    return host_job_run(L, j);
}

static int l_anywhere(lua_State *L) { return host_job_run_anywhere(L, new_job(L)); }

static int setup(void **state)
{
    static fixture f;
    memset(&seen, 0, sizeof seen);
    fixture_open(&f, &(host_cfg){0});
    lua_register(host_state(f.h), "job", l_job);
    lua_register(host_state(f.h), "anywhere", l_anywhere);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture_close(*state);
    assert_int_equal(seen.freed, seen.made);
    return 0;
}

static void arguments_are_still_there_when_results_are_pushed(void **state)
{
    fixture *f = *state;
    assert_script(f, "local how, done = job('well') return how .. ' ' .. done", "well done");
    assert_true(seen.elsewhere);
    assert_int_equal(seen.freed, 1); /* at once, not when Lua collects */
    assert_int_equal(seen.ended, 1);
    assert_int_equal(seen.stopped, 0);
}

static void a_failure_is_nil_and_what_the_work_said(void **state)
{
    fixture *f = *state;
    assert_script(f, "local v, e = job('fail') return tostring(v) .. ' ' .. e.kind .. ' ' .. e.message",
                  "nil NotFound not there");
    assert_int_equal(seen.freed, 1);
    assert_int_equal(seen.ended, 1);
}

static void what_throws_before_or_after_the_work_leaves_no_job(void **state)
{
    fixture *f = *state;
    assert_script(f, "local ok, e = pcall(job, 'bad') return tostring(ok) .. tostring(e):match('%(bad%)')",
                  "false(bad)");
    assert_int_equal(atomic_load(&seen.working), 0);
    assert_script(f, "local ok, e = pcall(job, 'throw') return tostring(ok) .. ' ' .. e", "false thrown");
    lua_gc(host_state(f->h), LUA_GCCOLLECT);
    assert_int_equal(seen.made, 2);
    assert_int_equal(seen.freed, 2);
}

static void one_that_nobody_waits_for_any_more_is_told_to_stop(void **state)
{
    fixture *f = *state;
    assert_script(f,
                  "local e local t = loop.spawn(function() e = select(2, job('until stopped')) end) "
                  "loop.sleep_ms(1) t:cancel() t:await() return e.kind",
                  "Cancelled");
    assert_int_equal(seen.stopped, 1);
    assert_int_equal(seen.ended, 0); /* nobody waited */
}

static void a_host_that_ends_meanwhile_stops_it_too(void **state)
{
    fixture *f = *state;
    outcome o;
    script_start(f, "return job('until stopped')", &o);
    while (atomic_load(&seen.working) == 0) {
        err e = {0};
        assert_int_equal(loop_run_once(f->l, 10, &e), 0);
    }
    fixture_close(f);
    assert_int_equal(seen.stopped, 1);
    assert_int_equal(seen.freed, 1);
    fixture_open(f, &(host_cfg){0});
}

static void outside_a_task_it_throws_or_works_at_once(void **state)
{
    fixture *f = *state;
    lua_State *L = host_state(f->h);
    assert_int_equal(luaL_dostring(L, "return job('well')"), 1);
    assert_non_null(strstr(lua_tostring(L, -1), "waiting is possible in a task only"));
    lua_settop(L, 0);
    assert_int_equal(luaL_dostring(L, "return select(2, anywhere('well'))"), 0);
    assert_string_equal(lua_tostring(L, -1), "done");
    lua_settop(L, 0);
    assert_script(f, "return select(2, anywhere('well'))", "done");
}

static void each_allocation_may_fail(void **state)
{
    fixture *f = *state;
    long n = 0;
    for (bool fired = true; fired && n < 1000; n++) {
        outcome o;
        script_start(f, "local how, e = job('well') return how or e.kind", &o);
        mem_fail_at(n);
        script_finish(f, &o);
        fired = mem_failed();
        mem_fail_at(-1);
        assert_true(o.ended);
    }
    assert_true(n > 5);
    lua_gc(host_state(f->h), LUA_GCCOLLECT);
    assert_int_equal(seen.freed, seen.made);
}

int main(void)
{
#define JOB_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        JOB_TEST(arguments_are_still_there_when_results_are_pushed),
        JOB_TEST(a_failure_is_nil_and_what_the_work_said),
        JOB_TEST(what_throws_before_or_after_the_work_leaves_no_job),
        JOB_TEST(one_that_nobody_waits_for_any_more_is_told_to_stop),
        JOB_TEST(a_host_that_ends_meanwhile_stops_it_too),
        JOB_TEST(outside_a_task_it_throws_or_works_at_once),
        JOB_TEST(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
