/* SPDX-License-Identifier: MIT */
/* test_future.c: a future ends once, and nothing it carries is lost. */
#include "loop_check.h"

static int freed, told, cancelled;

static void free_payload(void *p)
{
    freed++;
    free(p);
}

static void on_done(void *arg, future *f)
{
    told++;
    assert_true(future_done(f));
    if (arg) *(void **)arg = future_take(f);
}

static void on_cancel(void *owner)
{
    cancelled++;
    if (owner) future_unref(owner); /* the owner lets go */
}

static int reset_counts(void **state)
{
    freed = told = cancelled = 0;
    return loop_setup(state);
}

static char *payload(const char *text) { return strdup(text); }

static void a_waiter_is_told_and_takes_the_value(void **state)
{
    future *f = future_new(loop_in(state), on_cancel, NULL);
    void *got = NULL;
    assert_false(future_done(f));
    assert_null(future_take(f));
    future_on_done(f, on_done, &got);
    future_resolve(f, payload("value"), free_payload);
    assert_int_equal(told, 1);
    assert_string_equal(got, "value");
    assert_null(future_take(f));
    assert_null(future_err(f));
    assert_false(future_cancelled(f));
    future_unref(f);
    assert_int_equal(freed, 0);
    assert_int_equal(cancelled, 0);
    free(got);
}

static void a_late_waiter_is_told_at_once(void **state)
{
    future *f = future_new(loop_in(state), NULL, NULL);
    future_resolve(f, NULL, NULL);
    future_on_done(f, on_done, NULL);
    assert_int_equal(told, 1);
    future_unref(f);
}

static void a_removed_waiter_is_not_told(void **state)
{
    future *f = future_new(loop_in(state), NULL, NULL);
    future_on_done(f, on_done, NULL);
    future_on_done(f, NULL, NULL);
    future_resolve(f, payload("x"), free_payload);
    assert_int_equal(told, 0);
    assert_int_equal(freed, 0);
    future_unref(f);
    assert_int_equal(freed, 1); /* nobody took it */
}

static void only_the_first_ending_counts(void **state)
{
    err e = {0};
    err_set(&e, ERR_TIMEOUT, "too slow");
    future *f = future_new(loop_in(state), on_cancel, NULL);
    future_on_done(f, on_done, NULL);
    future_fail(f, &e);
    future_resolve(f, payload("late"), free_payload);
    assert_int_equal(freed, 1);
    future_cancel(f);
    future_fail(f, &(err){.kind = ERR_IO});
    assert_int_equal(told, 1);
    assert_int_equal(cancelled, 0);
    assert_false(future_cancelled(f));
    assert_int_equal(future_err(f)->kind, ERR_TIMEOUT);
    assert_string_equal(future_err(f)->message, "too slow");
    future_unref(f);
}

static void a_cancel_calls_the_hook_once(void **state)
{
    future *f = future_new(loop_in(state), on_cancel, NULL);
    future_on_done(f, on_done, NULL);
    future_cancel(f);
    future_cancel(f);
    assert_int_equal(cancelled, 1);
    assert_int_equal(told, 1);
    assert_true(future_cancelled(f));
    assert_int_equal(future_err(f)->kind, ERR_CANCELLED);
    future_resolve(f, payload("late"), free_payload); /* the work went on unseen */
    assert_int_equal(freed, 1);
    assert_null(future_take(f));
    future_unref(f);
}

static void the_hook_may_drop_the_owners_reference(void **state)
{
    future *f = future_new(loop_in(state), NULL, NULL);
    future_unref(f);
    f = future_new(loop_in(state), on_cancel, NULL);
    future *g = future_new(loop_in(state), on_cancel, f); /* cancelling g lets f go */
    future_cancel(g);
    assert_int_equal(cancelled, 1);
    future_unref(g);
    future_unref(NULL);
}

static void drop(void *arg, future *f)
{
    (void)arg;
    told++;
    future_unref(f);
}

static void a_waiter_may_drop_the_last_reference(void **state)
{
    future *f = future_new(loop_in(state), NULL, NULL);
    future_on_done(f, drop, NULL);
    future_resolve(f, payload("x"), free_payload);
    assert_int_equal(told, 1);
    assert_int_equal(freed, 1);
}

static void without_memory_a_failure_is_still_one(void **state)
{
    future *f = future_new(loop_in(state), NULL, NULL);
    mem_fail_at(0);
    assert_null(future_new(loop_in(state), NULL, NULL));
    mem_fail_at(0);
    future_fail(f, &(err){.kind = ERR_IO});
    mem_fail_at(-1);
    assert_true(future_done(f));
    assert_int_equal(future_err(f)->kind, ERR_NO_MEMORY);
    future_unref(f);
}

/* As product code uses it: work resolves, on the loop. */
typedef struct task {
    future *f;
    int input;
} task;

static void compute(void *arg) { ((task *)arg)->input *= 2; }

static void computed(void *arg)
{
    task *t = arg;
    future_resolve(t->f, t->input == 42 ? payload("42") : NULL, free_payload);
    future_unref(t->f);
}

static void work_resolves_a_future(void **state)
{
    loop *l = loop_in(state);
    future *f = future_new(l, NULL, NULL);
    task t = {future_ref(f), 21};
    void *got = NULL;
    future_on_done(f, on_done, &got);
    assert_true(loop_work(l, compute, computed, &t));
    run_until(l, &told, 1);
    assert_string_equal(got, "42");
    free(got);
    future_unref(f);
}

#define future_test(fn) cmocka_unit_test_setup_teardown(fn, reset_counts, loop_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        future_test(a_waiter_is_told_and_takes_the_value),
        future_test(a_late_waiter_is_told_at_once),
        future_test(a_removed_waiter_is_not_told),
        future_test(only_the_first_ending_counts),
        future_test(a_cancel_calls_the_hook_once),
        future_test(the_hook_may_drop_the_owners_reference),
        future_test(a_waiter_may_drop_the_last_reference),
        future_test(without_memory_a_failure_is_still_one),
        future_test(work_resolves_a_future),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
