/* SPDX-License-Identifier: MIT */
/* test_timer.c: order, deletion and precision of timers. */
#include "loop_check.h"

typedef struct note {
    int id;
    int64_t due, fired_at;
} note;

static int order[4096];
static int n_fired;

static void on_timer(void *arg)
{
    note *n = arg;
    n->fired_at = mono_ns();
    order[n_fired++] = n->id;
}

static void timers_fire_in_order_and_not_early(void **state)
{
    loop *l = loop_in(state);
    static const int delay_ms[] = {30, 5, 20, 5, 0, 10, -5};
    static const int want[] = {6, 4, 1, 3, 5, 2, 0}; /* 1 before 3: same deadline, set first */
    enum { N = 7 };
    note notes[N];
    n_fired = 0;
    int64_t now = mono_ns();
    for (int i = 0; i < N; i++) {
        notes[i] = (note){.id = i, .due = now + (int64_t)delay_ms[i] * 1000000};
        assert_non_null(loop_timer_at(l, notes[i].due, on_timer, &notes[i]));
    }
    run_until(l, &n_fired, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(order[i], want[i]);
        assert_true(notes[i].fired_at >= notes[i].due);
    }
}

/* Random deadlines and deletions against a sorted list. */
static void a_thousand_timers_with_deletions(void **state)
{
    loop *l = loop_in(state);
    enum { N = 1000 };
    static note notes[N];
    static loop_timer *timers[N];
    uint64_t seed = 42;
    int64_t now = mono_ns();
    n_fired = 0;
    for (int i = 0; i < N; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        notes[i] = (note){.id = i, .due = now + (int64_t)((seed >> 33) % 100) * 1000000};
        timers[i] = loop_timer_at(l, notes[i].due, on_timer, &notes[i]);
        assert_non_null(timers[i]);
    }
    for (int i = 0; i < N; i += 3)
        loop_timer_del(timers[i]);
    int left = N - (N + 2) / 3;
    run_until(l, &n_fired, left);
    err e = {0};
    assert_int_equal(loop_run_once(l, 0, &e), 0);
    assert_int_equal(n_fired, left);
    for (int i = 0; i < left; i++) {
        assert_true(order[i] % 3 != 0);
        if (i == 0) continue;
        const note *a = &notes[order[i - 1]], *b = &notes[order[i]];
        assert_true(a->due < b->due || (a->due == b->due && a->id < b->id));
    }
}

static int burst;

static void set_another(void *arg)
{
    if (++burst < 10) assert_non_null(loop_timer_at(arg, 0, set_another, arg));
}

static void a_timer_set_for_at_once_waits_for_the_next_round(void **state)
{
    loop *l = loop_in(state);
    err e = {0};
    burst = 0;
    assert_non_null(loop_timer_at(l, 0, set_another, l));
    for (int round = 1; round <= 10; round++) {
        assert_int_equal(loop_run_once(l, 1000, &e), 0);
        assert_int_equal(burst, round);
    }
}

static loop_timer *victim;

static void delete_victim(void *arg)
{
    (void)arg;
    n_fired++;
    loop_timer_del(victim);
    victim = NULL;
}

static void a_timer_may_delete_one_that_is_due_too(void **state)
{
    loop *l = loop_in(state);
    int wrong = 0;
    n_fired = 0;
    int64_t now = mono_ns();
    assert_non_null(loop_timer_at(l, now, delete_victim, NULL));
    victim = loop_timer_at(l, now, count_up, &wrong);
    run_until(l, &n_fired, 1);
    err e = {0};
    assert_int_equal(loop_run_once(l, 0, &e), 0);
    assert_int_equal(wrong, 0);
    loop_timer_del(NULL);
}

static void the_sleep_is_the_shorter_of_both(void **state)
{
    loop *l = loop_in(state);
    err e = {0};
    int fired = 0;
    int64_t start = mono_ns();
    assert_non_null(loop_timer_at(l, deadline_in_ms(500), count_up, &fired));
    assert_non_null(loop_timer_at(l, DEADLINE_NEVER, count_up, &fired));
    assert_int_equal(loop_run_once(l, 1, &e), 0); /* the round's own timeout comes first */
    assert_int_equal(fired, 0);
    while (!fired)
        assert_int_equal(loop_run_once(l, -1, &e), 0);
    int64_t took_ms = (mono_ns() - start) / 1000000;
    assert_in_range(took_ms, 500, 60000);
}

static int use_timers(void *arg)
{
    for (int i = 0; i < 20; i++) { /* the heap grows once on the way */
        int unused = 0;
        if (!loop_timer_at(arg, DEADLINE_NEVER, count_up, &unused)) return -ERR_NO_MEMORY;
    }
    return 0;
}

static int use_timers_of_a_new_loop(void *arg)
{
    (void)arg;
    loop *l = NULL;
    err e = {0};
    int rc = loop_new(&l, &e);
    if (rc == 0) rc = use_timers(l);
    loop_free(l);
    return rc;
}

static void each_failed_allocation_is_reported(void **state)
{
    (void)state;
    assert_int_equal(each_allocation_fails(use_timers_of_a_new_loop, NULL), 2 + 20 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        loop_test(timers_fire_in_order_and_not_early),
        loop_test(a_thousand_timers_with_deletions),
        loop_test(a_timer_set_for_at_once_waits_for_the_next_round),
        loop_test(a_timer_may_delete_one_that_is_due_too),
        loop_test(the_sleep_is_the_shorter_of_both),
        cmocka_unit_test(each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
