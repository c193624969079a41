/* SPDX-License-Identifier: MIT */
/* test_result.c: stacks of the same frames are one row, sorted by time; calls, wakers, threads and their order. */
#include "check.h"
#include "offcpu/result.h"

#define MS INT64_C(1000000)

typedef struct made {
    oc *spans;
    oc_stacks *stacks;
    naming *names;
} made;

/* Without a space and names all addresses are unknown: each is a frame of its own, by its number. */
static made make(void) { return (made){oc_new(), oc_stacks_new(), naming_new(NULL, 1)}; }

static void drop(made *m)
{
    naming_free(m->names);
    oc_stacks_free(m->stacks);
    oc_free(m->spans);
}

static void span(made *m, int tid, int64_t from, int64_t ms, uint32_t stack, uint16_t call, oc_sync sync)
{
    oc_out(m->spans, tid, from, (oc_place){.stack = stack, .call = call, .state = OC_SLEEP, .sync = (uint8_t)sync});
    oc_in(m->spans, tid, from + ms * MS);
}

static void rows_are_sorted_and_have_their_calls(void **state)
{
    (void)state;
    made m = make();
    oc_result *r = NULL;
    err e = {0};
    uint64_t x[] = {0x1000 | OC_EXACT, 0x2001}, y[] = {0x1000 | OC_EXACT, 0x3001};
    uint32_t a = oc_stacks_put(m.stacks, NULL, 0, x, 2), b = oc_stacks_put(m.stacks, NULL, 0, y, 2);
    oc_name(m.spans, 7, SLICE_LIT("seven"));
    span(&m, 7, 0, 10, a, 202 + 1, OC_SYNC_LOCK);
    span(&m, 8, 0, 30, b, 0 + 1, OC_SYNC_NONE);
    for (int i = 0; i < 10; i++) /* ten different calls at one place: eight are told */
        span(&m, 8, (100 + i) * MS, 1, b, (uint16_t)(300 + i + 1), OC_SYNC_NONE);
    oc_out(m.spans, 7, 200 * MS, (oc_place){.stack = a, .call = 203, .state = OC_DISK, .sync = OC_SYNC_WAIT});
    oc_end(m.spans, 205 * MS);
    assert_int_equal(oc_result_make(m.spans, m.stacks, m.names, &r, &e), 0);
    assert_int_equal(r->n_stacks, 2);
    const oc_stack_row *first = &r->stacks[0], *second = &r->stacks[1];
    assert_true(first->sum.ns == 40 * MS && first->sum.n == 11 && first->threads == 1);
    assert_int_equal(first->n_calls, OC_CALLS_TOP);
    assert_int_equal(first->calls_dropped, 3);
    assert_int_equal(r->calls_dropped, 3);
    assert_true(slice_eq_str(first->calls[0].name, "read") && first->calls[0].ns == 30 * MS);
    assert_true(second->sum.ns == 15 * MS && second->sum.censored == 1 && second->sum.censored_ns == 5 * MS);
    assert_int_equal(second->dominant, OC_SLEEP);
    assert_true(second->sync.spans == 2 && second->sync.locks == 1 && second->sync.censored == 1);
    assert_true(r->sync.spans == 2 && r->sync.ns == 15 * MS);
    assert_true(
        slice_eq_str(r->frames[first->frames[0]].method, "0x3000")); /* root first; of a return address the call */
    assert_true(slice_eq_str(r->frames[first->leaf].method, "0x1000"));
    assert_int_equal(r->n_threads, 2);
    assert_true(r->threads[0].thread.tid == 8 && r->threads[0].top == 0);
    assert_true(r->threads[1].thread.tid == 7 && r->threads[1].top == 1);
    assert_string_equal(r->threads[1].thread.comm, "seven");
    oc_result_free(r);
    drop(&m);
}

static void stacks_of_the_same_frames_are_one(void **state)
{
    (void)state;
    made m = make();
    oc_result *r = NULL;
    err e = {0};
    uint64_t x[] = {0x1001, 0x2001}, y[] = {0x1000 | OC_EXACT, 0x2001}; /* both name 0x1000 */
    span(&m, 1, 0, 10, oc_stacks_put(m.stacks, NULL, 0, x, 2), 0, OC_SYNC_NONE);
    span(&m, 2, 0, 5, oc_stacks_put(m.stacks, NULL, 0, y, 2), 0, OC_SYNC_NONE);
    span(&m, 2, 50 * MS, 1, 0, 0, OC_SYNC_NONE); /* whose stack was lost */
    oc_end(m.spans, 100 * MS);
    assert_int_equal(oc_result_make(m.spans, m.stacks, m.names, &r, &e), 0);
    assert_int_equal(r->n_stacks, 2);
    assert_true(r->stacks[0].sum.ns == 15 * MS && r->stacks[0].threads == 2 && r->stacks[0].n_calls == 0);
    assert_true(slice_eq_str(r->frames[r->stacks[1].leaf].method, "(no stack)"));
    oc_result_free(r);
    drop(&m);
}

static void a_kernel_that_hides_its_names_has_no_frames(void **state)
{
    (void)state;
    made m = make();
    oc_result *r = NULL;
    err e = {0};
    uint64_t kernel[] = {0xffffffff81000010, 0xffffffff81000020}, other[] = {0xffffffff81000030},
             user[] = {0x1001, 0x2001};
    span(&m, 1, 0, 10, oc_stacks_put(m.stacks, kernel, 2, user, 2), 202 + 1, OC_SYNC_LOCK);
    span(&m, 1, 50 * MS, 4, oc_stacks_put(m.stacks, other, 1, user, 2), 202 + 1, OC_SYNC_LOCK);
    span(&m, 2, 0, 1, oc_stacks_put(m.stacks, kernel, 2, NULL, 0), 0, OC_SYNC_NONE);
    oc_end(m.spans, 100 * MS);
    assert_int_equal(oc_result_make(m.spans, m.stacks, m.names, &r, &e), 0);
    assert_int_equal(r->n_stacks, 2);
    assert_true(r->stacks[0].n_frames == 2 && r->stacks[0].sum.ns == 14 * MS);
    assert_true(slice_eq_str(r->frames[r->stacks[0].leaf].method, "0x1000"));
    assert_true(slice_eq_str(r->stacks[0].calls[0].name, "futex") && r->stacks[0].sync.locks == 2);
    assert_true(slice_eq_str(r->frames[r->stacks[1].leaf].module, "[kernel]"));
    oc_result_free(r);
    drop(&m);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t x[] = {0x1001, 0x2001};
    for (long fail = 0, fired = 1; fired; fail++) {
        made m = make();
        oc_result *r = NULL;
        err e = {0};
        span(&m, 1, 0, 10, oc_stacks_put(m.stacks, NULL, 0, x, 2), 203, OC_SYNC_LOCK);
        oc_end(m.spans, 100 * MS);
        mem_fail_at(fail);
        int rc = oc_result_make(m.spans, m.stacks, m.names, &r, &e);
        fired = mem_failed();
        mem_fail_at(-1);
        assert_true(rc == 0 || (rc == -ERR_NO_MEMORY && !r));
        oc_result_free(r);
        drop(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sorted_and_have_their_calls),
        cmocka_unit_test(stacks_of_the_same_frames_are_one),
        cmocka_unit_test(a_kernel_that_hides_its_names_has_no_frames),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
