/* SPDX-License-Identifier: MIT */
/* test_il_map.c: IL maps from events made here and from a recorded session (tests/data/recordings/README.md). */
#include "check.h"
#include "clr/clr.h"
#include "clr/il_map.h"

#define NONE     UINT32_MAX
#define PROLOGUE (UINT32_MAX - 1)
#define EPILOGUE (UINT32_MAX - 2)

typedef struct pair {
    uint32_t il, native;
} pair;

static int give(clr_il_maps *m, uint64_t method, uint64_t rejit, const pair *pairs, uint16_t n, size_t cut)
{
    buf p;
    buf_init(&p, 0);
    buf_u64(&p, method);
    buf_u64(&p, rejit);
    buf_u8(&p, 0);
    buf_u16(&p, n);
    for (int i = 0; i < n; i++)
        buf_u32(&p, pairs[i].il);
    for (int i = 0; i < n; i++)
        buf_u32(&p, pairs[i].native);
    buf_u16(&p, 9);
    nt_kind k = {.provider = SLICE_LIT("Microsoft-Windows-DotNETRuntime"), .id = 190};
    nt_event ev = {.kind = &k, .payload = slice_of(p.p, p.n - cut)};
    int rc = clr_il_maps_event(m, clr_il_maps_kind(&k), &ev);
    buf_fini(&p);
    return rc;
}

static void the_map_before_the_address_counts(void **state)
{
    (void)state;
    const pair pairs[] = {{PROLOGUE, 0}, {0, 4}, {7, 16}, {NONE, 24}, {9, 32}, {EPILOGUE, 40}};
    clr_il_maps *m = clr_il_maps_new(0);
    assert_int_equal(give(m, 0x1000, 1, pairs, 6, 0), 0);
    const pair want[] = {{0, 0}, {0, 4}, {0, 15}, {7, 16}, {7, 24}, {7, 31}, {9, 32}, {9, 40}, {9, 4000}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(clr_il_maps_find(m, 0x1000, 1, want[i].native), want[i].il);
    assert_int_equal(clr_il_maps_find(m, 0x1000, 2, 4), CLR_IL_NONE);
    assert_int_equal(clr_il_maps_find(m, 0x1001, 1, 4), CLR_IL_NONE);
    clr_il_maps_free(m);
}

static void entries_may_come_in_any_order(void **state)
{
    (void)state;
    const pair pairs[] = {{9, 32}, {0, 4}, {7, 16}};
    clr_il_maps *m = clr_il_maps_new(0);
    assert_int_equal(give(m, 1, 0, pairs, 3, 0), 0);
    assert_int_equal(clr_il_maps_find(m, 1, 0, 17), 7);
    assert_int_equal(clr_il_maps_find(m, 1, 0, 3), 0);
    clr_il_maps_free(m);
}

static void a_map_that_comes_again_is_kept_once_and_another_one_replaces_it(void **state)
{
    (void)state;
    const pair first[] = {{1, 0}}, second[] = {{2, 0}};
    clr_il_maps *m = clr_il_maps_new(0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(give(m, 1, 0, first, 1, 0), 0);
    assert_int_equal(clr_il_maps_find(m, 1, 0, 0), 1);
    assert_int_equal(give(m, 1, 0, second, 1, 0), 0);
    assert_int_equal(clr_il_maps_find(m, 1, 0, 0), 2);
    assert_int_equal(clr_il_maps_count(m), 1);
    clr_il_maps_free(m);
}

static void a_map_of_code_without_a_source_has_no_offset(void **state)
{
    (void)state;
    const pair pairs[] = {{PROLOGUE, 0}, {NONE, 8}};
    clr_il_maps *m = clr_il_maps_new(0);
    assert_int_equal(give(m, 1, 0, pairs, 2, 0), 0);
    assert_int_equal(give(m, 2, 0, NULL, 0, 0), 0);
    assert_int_equal(clr_il_maps_find(m, 1, 0, 9), CLR_IL_NONE);
    assert_int_equal(clr_il_maps_find(m, 2, 0, 0), CLR_IL_NONE);
    clr_il_maps_free(m);
}

static void an_event_cut_short_is_counted(void **state)
{
    (void)state;
    const pair pairs[] = {{1, 0}, {2, 8}};
    clr_il_maps *m = clr_il_maps_new(0);
    assert_int_equal(give(m, 1, 0, pairs, 2, 3), 0);
    assert_int_equal(clr_il_maps_dropped(m), 1);
    assert_int_equal(clr_il_maps_count(m), 0);
    clr_il_maps_free(m);
}

static void the_cap_is_told_once_and_what_is_there_stays(void **state)
{
    (void)state;
    const pair pairs[] = {{1, 0}, {2, 8}};
    clr_il_maps *m = clr_il_maps_new((size_t)600 << 10);
    int told = 0;
    for (uint64_t i = 0; i < 20000; i++)
        told += give(m, i, 0, pairs, 2, 0) == -ERR_LIMIT;
    assert_int_equal(told, 1);
    assert_true(clr_il_maps_dropped(m) > 0 && clr_il_maps_count(m) > 100);
    assert_int_equal(clr_il_maps_count(m) + clr_il_maps_dropped(m), 20000);
    assert_int_equal(clr_il_maps_find(m, 0, 0, 9), 2);
    clr_il_maps_free(m);
}

/* ---- a session: HotMethod was compiled more than once, under ids of its own ---- */

typedef struct recorded {
    clr_il_maps *maps;
    int codes[1024], load[1024];
    uint64_t seen; /* maps */
    struct body {
        uint64_t method, rejit;
        uint32_t size;
        bool hot;
    } bodies[4096];
    size_t n;
} recorded;

static int on_kind(void *arg, nt_kind *k)
{
    recorded *r = arg;
    assert_true(k->index < 1024);
    r->codes[k->index] = clr_il_maps_kind(k);
    r->load[k->index] = slice_eq_str(k->provider, "Microsoft-Windows-DotNETRuntime") && k->id == 143;
    return 0;
}

static int on_event(void *arg, const nt_event *ev)
{
    recorded *r = arg;
    if (r->codes[ev->kind->index]) {
        r->seen++;
        assert_int_equal(clr_il_maps_event(r->maps, r->codes[ev->kind->index], ev), 0);
    }
    if (!r->load[ev->kind->index]) return 0;
    cursor c = cursor_of(ev->payload, 0);
    struct body b = {.method = cursor_u64(&c)};
    cursor_skip(&c, 16);
    b.size = cursor_u32(&c);
    cursor_skip(&c, 8);
    cursor_utf16z(&c, SIZE_MAX);
    slice name = cursor_utf16z(&c, SIZE_MAX);
    cursor_utf16z(&c, SIZE_MAX);
    cursor_skip(&c, 2);
    assert_true(cursor_ok(&c) && r->n < 4096);
    b.rejit = cursor_u64(&c); /* version 1, that of a first body, ends before it */
    b.hot = name.n == 18 && memcmp(name.p, "H\0o\0t\0M\0e\0t\0h\0o\0d", 17) == 0;
    r->bodies[r->n++] = b;
    return 0;
}

static void each_map_of_a_session_belongs_to_a_body(void **state)
{
    (void)state;
    static recorded r;
    r = (recorded){.maps = clr_il_maps_new(0)};
    err e = {0};
    nt_options o = nt_options_default();
    o.resolve = clr_resolve;
    nt_sink sink = {.kind = on_kind, .event = on_event};
    nt_reader *reader = nt_new(&o, &sink, &r, &e);
    assert_int_equal(
        nt_read_file(reader, LUNETTE_SOURCE_DIR "/tests/data/recordings/net8-jit.nettrace", NULL, NULL, &e), 0);
    size_t with = 0, hot = 0, osr = 0;
    for (size_t i = 0; i < r.n; i++) {
        const struct body *b = &r.bodies[i];
        bool has = clr_il_maps_find(r.maps, b->method, b->rejit, 0) != CLR_IL_NONE;
        with += has;
        hot += has && b->hot;
        osr += has && clr_il_maps_find(r.maps, b->method, b->rejit, 0) != 0; /* begins inside a loop */
    }
    assert_int_equal(r.seen, 15);
    assert_int_equal(clr_il_maps_count(r.maps), 15);
    assert_int_equal(with, 15);
    assert_int_equal(hot, 3);
    assert_int_equal(osr, 2); /* HotLoop and Do */
    nt_free(reader);
    clr_il_maps_free(r.maps);
}

static void memory_that_is_out_is_told_and_leaves_what_was_there(void **state)
{
    (void)state;
    const pair pairs[] = {{1, 0}, {2, 8}};
    for (long n = 0, fired = 1; fired; n++) {
        mem_fail_at(n);
        clr_il_maps *m = clr_il_maps_new(0);
        uint64_t kept = 0;
        for (uint64_t i = 0; m && i < 200; i++)
            kept += give(m, i, 0, pairs, 2, 0) == 0;
        fired = mem_failed();
        mem_fail_at(-1);
        assert_true(m || fired);
        if (m) assert_int_equal(clr_il_maps_count(m) + clr_il_maps_dropped(m), 200);
        for (uint64_t i = 0; m && i < 200; i++) {
            uint32_t il = clr_il_maps_find(m, i, 0, 9);
            assert_true(il == 2 || il == CLR_IL_NONE);
        }
        assert_true(!m || fired || kept == 200);
        clr_il_maps_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_before_the_address_counts),
        cmocka_unit_test(entries_may_come_in_any_order),
        cmocka_unit_test(a_map_that_comes_again_is_kept_once_and_another_one_replaces_it),
        cmocka_unit_test(a_map_of_code_without_a_source_has_no_offset),
        cmocka_unit_test(an_event_cut_short_is_counted),
        cmocka_unit_test(the_cap_is_told_once_and_what_is_there_stays),
        cmocka_unit_test(memory_that_is_out_is_told_and_leaves_what_was_there),
        cmocka_unit_test(each_map_of_a_session_belongs_to_a_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
