/* SPDX-License-Identifier: MIT */
/* test_ledger.c: calls of an allocator by hand, and what is there after them. */
#include "check.h"
#include "hits/ledger.h"

enum { SP = 0x7000, TID = 7, A = 0x1000, B = 0x2000 };

static hl *made(void **state)
{
    (void)state;
    hl *l = hl_new();
    assert_non_null(l);
    return l;
}

static void take(hl *l, int tid, uint64_t bytes, uint64_t address)
{
    hl_block b = {.bytes = bytes, .stack = (uint32_t)bytes};
    assert_true(hl_enter(l, HL_ALLOC, tid, SP, 0, &b));
    hl_leave(l, tid, SP, address);
}

static void resize(hl *l, uint64_t old, uint64_t bytes, uint64_t address)
{
    hl_block b = {.bytes = bytes, .stack = 99};
    assert_true(hl_enter(l, HL_REALLOC, TID, SP, old, &b));
    hl_leave(l, TID, SP, address);
}

static void drop(hl *l, uint64_t address) { assert_true(hl_enter(l, HL_FREE, TID, SP, address, NULL)); }

static void holds(hl *l, uint64_t blocks, uint64_t bytes, uint64_t freed, uint64_t older)
{
    hl_totals t;
    hl_totals_of(l, &t);
    assert_int_equal(t.blocks, blocks);
    assert_int_equal(t.bytes, bytes);
    assert_int_equal(t.freed, freed);
    assert_int_equal(t.freed_older, older);
    assert_int_equal(t.allocated - t.freed, t.blocks);
    assert_int_equal(t.allocated_bytes - t.freed_bytes, t.bytes);
    hl_free(l);
}

static void what_is_freed_is_not_there(void **state)
{
    hl *l = made(state);
    take(l, TID, 10, A);
    take(l, TID, 20, B);
    drop(l, A);
    drop(l, 0);      /* nothing */
    drop(l, 0x9999); /* of before */
    holds(l, 1, 20, 1, 1);
}

static void a_block_that_grows_is_a_new_one(void **state)
{
    hl *l = made(state);
    take(l, TID, 10, A);
    resize(l, A, 30, B);
    resize(l, 0, 5, A);
    resize(l, 0x9999, 7, 0x3000); /* of before */
    holds(l, 3, 42, 1, 1);
}

static void a_block_that_cannot_grow_stays(void **state)
{
    hl *l = made(state);
    take(l, TID, 10, A);
    resize(l, A, 1u << 30, 0);
    holds(l, 1, 10, 0, 0);
}

static void a_block_that_shrinks_to_nothing_is_freed(void **state)
{
    hl *l = made(state);
    take(l, TID, 10, A);
    resize(l, A, 0, 0);
    holds(l, 0, 0, 1, 0);
}

static void calls_inside_of_a_call_are_a_part_of_it(void **state)
{
    hl *l = made(state);
    hl_block b = {.bytes = 10};
    uint64_t argument = 0;
    assert_true(hl_enter(l, HL_REALLOC, TID, SP, 0, &b));
    assert_true(hl_pending(l, TID, SP, &argument));
    assert_false(hl_enter(l, HL_ALLOC, TID, SP - 64, 0, &b));
    hl_leave(l, TID, SP - 64, A);
    assert_false(hl_enter(l, HL_FREE, TID, SP - 64, B, NULL));
    hl_leave(l, TID, SP, A);
    assert_false(hl_pending(l, TID, SP, &argument));
    holds(l, 1, 10, 0, 0);
}

static void threads_do_not_mix(void **state)
{
    hl *l = made(state);
    hl_block b = {.bytes = 10};
    assert_true(hl_enter(l, HL_ALLOC, 1, SP, 0, &b));
    take(l, 2, 20, B);
    hl_leave(l, 1, SP, A);
    holds(l, 2, 30, 0, 0);
}

/* A return that was lost does not hide the next call; a return alone is counted. */
static void lost_records_harm_one_block(void **state)
{
    hl *l = made(state);
    hl_totals t;
    hl_block b = {.bytes = 10};
    assert_true(hl_enter(l, HL_ALLOC, TID, SP - 64, 0, &b));
    take(l, TID, 20, B);
    hl_leave(l, TID, SP, A);
    hl_totals_of(l, &t);
    assert_int_equal(t.unpaired, 1);
    holds(l, 1, 20, 0, 0);
}

static void count(void *arg, const hl_block *site, uint64_t blocks, uint64_t bytes)
{
    uint64_t *sum = arg;
    sum[0]++;
    sum[1] += blocks;
    sum[2] += bytes;
    assert_int_equal(bytes, blocks * site->bytes);
}

static void sites_sum_up(void **state)
{
    hl *l = made(state);
    uint64_t sum[3] = {0};
    for (uint64_t i = 0; i < 3000; i++)
        take(l, TID, 16 + 16 * (i % 3), 0x10000 + 64 * i);
    assert_true(hl_sites(l, count, sum));
    assert_int_equal(sum[0], 3);
    assert_int_equal(sum[1], 3000);
    assert_int_equal(sum[2], 1000 * (16 + 32 + 48));
    for (uint64_t i = 0; i < 3000; i++)
        drop(l, 0x10000 + 64 * i);
    holds(l, 0, 0, 3000, 0);
}

/* What has no room is counted, and its free is one of an older block. */
static void the_number_of_blocks_has_a_limit(void **state)
{
    hl *l = made(state);
    hl_totals t;
    for (uint64_t i = 0; i < HL_BLOCKS_MAX + 5; i++)
        take(l, TID, 1, 0x10000 + 16 * i);
    hl_totals_of(l, &t);
    assert_int_equal(t.untracked, 5);
    drop(l, 0x10000);
    holds(l, HL_BLOCKS_MAX - 1, HL_BLOCKS_MAX - 1, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_freed_is_not_there),
        cmocka_unit_test(a_block_that_grows_is_a_new_one),
        cmocka_unit_test(a_block_that_cannot_grow_stays),
        cmocka_unit_test(a_block_that_shrinks_to_nothing_is_freed),
        cmocka_unit_test(calls_inside_of_a_call_are_a_part_of_it),
        cmocka_unit_test(threads_do_not_mix),
        cmocka_unit_test(lost_records_harm_one_block),
        cmocka_unit_test(sites_sum_up),
        cmocka_unit_test(the_number_of_blocks_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
