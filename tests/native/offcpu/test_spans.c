/* SPDX-License-Identifier: MIT */
/* test_spans.c: blocked time from switches: closed and cut spans, preemption, who woke, what finds no room. */
#include "check.h"
#include "offcpu/spans.h"

#define MS INT64_C(1000000)

static const oc_place futex = {.stack = 7, .call = 3, .state = OC_SLEEP, .sync = OC_SYNC_LOCK};
static const oc_place running = {.stack = 9, .state = OC_RUNNABLE};

static const oc_row *row_of(const oc *o, uint32_t stack)
{
    size_t n;
    const oc_row *rows = oc_rows(o, &n);
    for (size_t i = 0; i < n; i++)
        if (rows[i].at.stack == stack) return &rows[i];
    return NULL;
}

static void states_are_read_as_the_scheduler_writes_them(void **state)
{
    (void)state;
    assert_int_equal(oc_state_of(0), OC_RUNNABLE);
    assert_int_equal(oc_state_of(0x100), OC_RUNNABLE);
    assert_int_equal(oc_state_of(0x1), OC_SLEEP);
    assert_int_equal(oc_state_of(0x2), OC_DISK);
    assert_int_equal(oc_state_of(0x80), OC_IDLE);
    assert_int_equal(oc_state_of(0x10), OC_DEAD);
    assert_int_equal(oc_state_of(0x20), OC_DEAD);
    assert_int_equal(oc_state_of(0x4), OC_STOPPED);
    assert_int_equal(oc_state_letter(OC_DISK), 'D');
}

static void a_span_is_from_leaving_to_coming_back(void **state)
{
    (void)state;
    oc *o = oc_new();
    oc_name(o, 11, SLICE_LIT("worker"));
    oc_out(o, 11, 10 * MS, futex);
    oc_waking(o, 11, 14 * MS, &(oc_waker){.kind = OC_WAKER_THREAD, .tid = 12, .comm = "holder"});
    oc_waking(o, 11, 15 * MS, &(oc_waker){.kind = OC_WAKER_INTERRUPT});
    oc_in(o, 11, 16 * MS);
    oc_out(o, 11, 20 * MS, futex);
    oc_in(o, 11, 21 * MS);
    oc_end(o, 30 * MS);
    const oc_row *r = row_of(o, 7);
    assert_non_null(r);
    assert_true(r->sum.ns == 7 * MS && r->sum.n == 2 && r->sum.censored == 0);
    assert_true(r->sum.delay_ns == 2 * MS && r->sum.longest_ns == 6 * MS);
    size_t n;
    const oc_wake *w = oc_wakes(o, &n);
    assert_int_equal(n, 1);
    assert_true(w[0].stack == 7 && w[0].n == 1 && w[0].ns == 4 * MS); /* until the wake-up; the first counts */
    const oc_waker *who = oc_wakers(o, &n);
    assert_int_equal(n, 1);
    assert_string_equal(who[w[0].waker].comm, "holder");
    const oc_thread *t = oc_threads(o, &n);
    assert_int_equal(n, 1);
    assert_string_equal(t[0].comm, "worker");
    assert_true(t[0].off_ns == 7 * MS && t[0].switches == 2 && t[0].spans == 2);
    oc_free(o);
}

static void the_end_of_the_window_cuts_open_spans(void **state)
{
    (void)state;
    oc *o = oc_new();
    oc_out(o, 1, 5 * MS, futex);
    oc_out(o, 2, 6 * MS, running);
    oc_end(o, 10 * MS);
    const oc_totals *t = oc_totals_of(o);
    assert_true(t->off_ns == 5 * MS && t->spans == 1 && t->censored == 1 && t->censored_ns == 5 * MS);
    assert_true(t->preempted == 1 && t->preempted_ns == 4 * MS && t->switches == 2);
    assert_true(row_of(o, 7)->sum.censored_ns == 5 * MS);
    assert_null(row_of(o, 9));
    oc_free(o);
}

static void who_waits_at_the_beginning_is_censored_however_it_ends(void **state)
{
    (void)state;
    oc *o = oc_new();
    oc_stand(o, 1, 10 * MS, 11 * MS, futex); /* ends within the window */
    oc_stand(o, 2, 10 * MS, 11 * MS, futex); /* does not */
    oc_stand(o, 3, 10 * MS, 12 * MS, futex); /* ended before its place was looked at */
    oc_stand(o, 4, 10 * MS, 12 * MS, futex); /* ran at the beginning, and left before it was looked at */
    oc_waking(o, 1, 14 * MS, &(oc_waker){.kind = OC_WAKER_INTERRUPT});
    oc_in(o, 3, 11 * MS);
    oc_out(o, 4, 11 * MS, running);
    assert_false(oc_seen(o, 1));
    assert_true(oc_stands(o, 1) && oc_stands(o, 2) && !oc_stands(o, 3) && !oc_stands(o, 9));
    oc_in(o, 1, 15 * MS);
    oc_in(o, 4, 16 * MS);
    assert_true(oc_seen(o, 1) && !oc_seen(o, 2));
    oc_out(o, 1, 16 * MS, futex); /* a span like any other */
    oc_in(o, 1, 18 * MS);
    oc_end(o, 20 * MS);
    const oc_row *r = row_of(o, 7), *lost = row_of(o, 0);
    assert_true(r->sum.n == 2 && r->sum.ns == 7 * MS && r->sum.censored == 1 && r->sum.censored_ns == 5 * MS);
    assert_non_null(lost);
    assert_true(lost->sum.n == 1 && lost->sum.ns == 1 * MS && lost->sum.censored == 1);
    const oc_totals *t = oc_totals_of(o);
    assert_true(t->spans == 4 && t->censored == 3 && t->before == 2 && t->unpaired == 0);
    assert_int_equal(t->unwoken, 1);
    assert_true(t->censored_ns == 5 * MS + 10 * MS + 1 * MS && t->delay_ns == 1 * MS && t->preempted == 1);
    oc_free(o);
}

static void waiting_for_a_processor_is_no_blocking(void **state)
{
    (void)state;
    oc *o = oc_new();
    oc_in(o, 1, 1 * MS); /* it left before the window */
    oc_out(o, 1, 2 * MS, running);
    oc_in(o, 1, 5 * MS);
    oc_end(o, 9 * MS);
    const oc_totals *t = oc_totals_of(o);
    assert_true(t->off_ns == 0 && t->spans == 0 && t->preempted_ns == 3 * MS && t->unpaired == 1);
    oc_free(o);
}

static void a_number_that_is_used_again_is_another_thread(void **state)
{
    (void)state;
    size_t n;
    oc *o = oc_new();
    oc_out(o, 1, 1 * MS, futex);
    oc_in(o, 1, 2 * MS);
    oc_out(o, 1, 3 * MS, (oc_place){.state = OC_DEAD});
    oc_exit(o, 1);
    oc_out(o, 1, 5 * MS, futex);
    oc_in(o, 1, 8 * MS);
    oc_end(o, 9 * MS);
    const oc_thread *t = oc_threads(o, &n);
    assert_int_equal(n, 2);
    assert_true(t[0].off_ns == 1 * MS && t[0].ended && t[1].off_ns == 3 * MS && !t[1].ended);
    oc_free(o);
}

static void every_place_has_sums_of_its_own(void **state)
{
    (void)state;
    enum { PLACES = 5000 };
    size_t n;
    oc *o = oc_new();
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < PLACES; i++) {
            oc_out(o, 1 + (int)(i % 7), i * MS, (oc_place){.stack = i, .call = (uint16_t)(i % 5), .state = OC_SLEEP});
            oc_in(o, 1 + (int)(i % 7), i * MS + i);
        }
    oc_end(o, PLACES * MS);
    const oc_row *rows = oc_rows(o, &n);
    assert_int_equal(n, PLACES);
    for (size_t i = 0; i < n; i++)
        assert_true(rows[i].sum.n == 2 && rows[i].sum.ns == 2 * (int64_t)rows[i].at.stack);
    oc_free(o);
}

static void what_finds_no_memory_is_counted(void **state)
{
    (void)state;
    for (long fail = 0, fired = 1; fired; fail++) {
        oc *o = oc_new();
        mem_fail_at(fail);
        oc_out(o, 1, 1 * MS, futex);
        oc_waking(o, 1, 2 * MS, &(oc_waker){.kind = OC_WAKER_THREAD, .tid = 2});
        oc_in(o, 1, 3 * MS);
        oc_end(o, 4 * MS);
        fired = mem_failed();
        mem_fail_at(-1);
        const oc_totals *t = oc_totals_of(o);
        size_t n;
        (void)oc_rows(o, &n);
        assert_true(n == 1 || t->places_dropped == 1 || t->threads_dropped > 0);
        oc_free(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_read_as_the_scheduler_writes_them),
        cmocka_unit_test(a_span_is_from_leaving_to_coming_back),
        cmocka_unit_test(the_end_of_the_window_cuts_open_spans),
        cmocka_unit_test(who_waits_at_the_beginning_is_censored_however_it_ends),
        cmocka_unit_test(waiting_for_a_processor_is_no_blocking),
        cmocka_unit_test(a_number_that_is_used_again_is_another_thread),
        cmocka_unit_test(every_place_has_sums_of_its_own),
        cmocka_unit_test(what_finds_no_memory_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
