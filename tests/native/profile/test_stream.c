/* SPDX-License-Identifier: MIT */
/* test_stream.c: streams made in memory through the tap: what counts as a sample, and what a stack's number means when.
 */
#include "../nettrace/writer.h"
#include "kit.h"

#include "clr/clr.h"

#define SAMPLER "Microsoft-DotNETCore-SampleProfiler"
#define RUNTIME "Microsoft-Windows-DotNETRuntime"

typedef struct hall { /* a stream and who listens */
    tw w;
    uint32_t seq;
    profile_builder *b;
    nt_reader *r;
} hall;

static int on_kind(void *arg, nt_kind *k)
{
    nt_tap *t = profile_builder_tap(((hall *)arg)->b);
    k->user = t->ops->kind(t, k);
    k->muted = !k->user;
    return 0;
}

static int on_event(void *arg, const nt_event *ev)
{
    hall *h = arg;
    nt_tap *t = profile_builder_tap(h->b);
    t->ops->event(t, ev->kind->user, h->r, ev);
    return 0;
}

static void begin(hall *h, bool v6)
{
    *h = (hall){0};
    tw_start(&h->w, v6, true);
    tw_begin(&h->w, TW_METADATA);
    tw_put_kind(&h->w, 1, SAMPLER, 0, "", 0, (slice){0}, (slice){0});
    tw_put_kind(&h->w, 2, RUNTIME, 10, "", 4, (slice){0}, (slice){0});
    tw_put_kind(&h->w, 3, RUNTIME, 303, "", 0, (slice){0}, (slice){0});
    tw_end(&h->w);
    if (!v6) return;
    tw_begin(&h->w, TW_THREADS);
    tw_put_thread(&h->w, 7, 7, 77, "");
    tw_put_thread(&h->w, 8, 8, 77, "");
    tw_put_thread(&h->w, 99, 99, 77, "");
    tw_end(&h->w);
}

static void stacks(hall *h, uint32_t first, uint32_t n, const uint64_t *leaves)
{
    tw_begin(&h->w, TW_STACKS);
    tw_put_stacks(&h->w, first, n, leaves);
    tw_end(&h->w);
}

static void event(hall *h, uint32_t kind, uint64_t thread, uint32_t stack, int64_t ts, slice payload)
{
    tw_begin(&h->w, TW_EVENTS);
    tw_put_event(&h->w, &(tw_event){.kind = kind,
                                    .seq = ++h->seq,
                                    .stack = stack,
                                    .thread = thread,
                                    .capture = 99,
                                    .ts = ts,
                                    .sorted = true,
                                    .payload = payload});
    tw_end(&h->w);
}

static void thread_sample(hall *h, uint64_t thread, uint32_t stack, int64_t ts, uint8_t type)
{
    uint8_t payload[] = {type, 0, 0, 0};
    event(h, 1, thread, stack, ts, slice_of(payload, sizeof payload));
}

static void point(hall *h, int64_t ts)
{
    uint64_t thread = 99;
    tw_begin(&h->w, TW_POINT);
    tw_put_point(&h->w, ts, 0, 1, &thread, &h->seq);
    tw_end(&h->w);
}

static profile *build(hall *h, const profile_cfg *cfg)
{
    err e = {0};
    h->b = kit_builder(cfg);
    nt_options o = nt_options_default();
    o.resolve = clr_resolve;
    h->r = nt_new(&o, &(nt_sink){.kind = on_kind, .event = on_event}, h, &e);
    assert_non_null(h->r);
    tw_finish(&h->w);
    slice bytes = tw_bytes(&h->w);
    assert_int_equal(nt_feed(h->r, bytes.p, bytes.n, &e), 0);
    assert_int_equal(nt_finish(h->r, &e), 0);
    nt_tap *t = profile_builder_tap(h->b);
    t->ops->end(t, h->r);
    nt_free(h->r);
    tw_fini(&h->w);
    return kit_build(h->b);
}

/* A stack of n frames, the only one of its number. */
static void deep_stack(hall *h, uint32_t number, uint32_t n)
{
    tw_begin(&h->w, TW_STACKS);
    assert_true(buf_u32(&h->w.body, number) && buf_u32(&h->w.body, 1) && buf_u32(&h->w.body, 8 * n));
    for (uint32_t i = 0; i < n; i++)
        assert_true(buf_u64(&h->w.body, 0x1000 + i));
    tw_end(&h->w);
}

static void samples_that_are_as_deep_as_the_runtime_tells_are_counted(void **state)
{
    (void)state;
    hall h;
    begin(&h, false);
    for (uint32_t i = 0; i < 3; i++)
        deep_stack(&h, 1 + i, PROFILE_RUNTIME_DEPTH - 1 + i);
    for (uint32_t i = 0; i < 7; i++)
        thread_sample(&h, 7, i < 1 ? 1 : i < 5 ? 2 : 3, 2000 + i, 2);
    profile *p = build(&h, &(profile_cfg){.kind = PROFILE_CPU});
    assert_int_equal(profile_info_of(p)->samples, 7);
    assert_int_equal(profile_info_of(p)->full, 4);
    assert_int_equal(profile_info_of(p)->cut, 0);
    profile_unref(p);
}

static void samples_are_counted_by_stack_and_thread(void **state)
{
    (void)state;
    for (int v6 = 0; v6 < 2; v6++) {
        hall h;
        begin(&h, v6);
        stacks(&h, 1, 2, (uint64_t[]){0x1010, 0x2020});
        thread_sample(&h, 7, 1, 2000, 2);
        thread_sample(&h, 8, 1, 2000, 2);
        thread_sample(&h, 7, 1, 3000, 2);
        thread_sample(&h, 7, 2, 4000, 1);
        thread_sample(&h, 7, 1, 5000, 1); /* the same stack, waiting or in native code now */
        thread_sample(&h, 8, 0, 6000, 1); /* no stack */
        profile *p = build(&h, &(profile_cfg){.kind = PROFILE_CPU});
        assert_text(kit_tree(p), "<root> 6/1 (0x1010 4/4, 0x2020 1/1)");
        const profile_info *i = profile_info_of(p);
        assert_int_equal(i->samples, 6);
        assert_int_equal(i->managed, 3);
        assert_int_equal(i->external, 3);
        assert_int_equal(i->no_stack, 1);
        assert_int_equal(i->unresolved, 5);
        assert_int_equal(i->bad, 0);
        assert_int_equal(i->first_ns, 10000); /* ticks of 10 ns, from 1000 */
        assert_int_equal(i->last_ns, 50000);
        assert_int_equal(profile_threads(p), 2);
        assert_int_equal(profile_thread_at(p, 0)->thread, 7);
        assert_int_equal(profile_thread_at(p, 0)->counts.inclusive, 4);
        assert_int_equal(profile_thread_at(p, 1)->counts.inclusive, 2);
        profile_unref(p);
    }
}

static void after_a_sequence_point_numbers_mean_other_stacks(void **state)
{
    (void)state;
    for (int v6 = 0; v6 < 2; v6++) {
        hall h;
        begin(&h, v6);
        stacks(&h, 1, 2, (uint64_t[]){0xA0, 0xB0});
        thread_sample(&h, 7, 1, 2000, 2);
        thread_sample(&h, 7, 1, 2100, 2);
        thread_sample(&h, 7, 2, 2200, 2);
        point(&h, 2500);
        stacks(&h, 1, 2, (uint64_t[]){0xC0, 0xA0});
        thread_sample(&h, 7, 1, 3000, 2);
        thread_sample(&h, 7, 2, 3100, 2);
        thread_sample(&h, 7, 2, 3200, 2);
        profile *p = build(&h, &(profile_cfg){.kind = PROFILE_CPU});
        assert_text(kit_tree(p), "<root> 6/0 (0xa0 4/4, 0xb0 1/1, 0xc0 1/1)");
        profile_unref(p);
    }
}

static void numbers_that_go_back_mean_other_stacks(void **state)
{
    (void)state;
    hall h;
    begin(&h, false);
    stacks(&h, 1, 1, (uint64_t[]){0xA0});
    thread_sample(&h, 7, 1, 2000, 2);
    stacks(&h, 1, 1, (uint64_t[]){0xB0});
    thread_sample(&h, 7, 1, 3000, 2);
    thread_sample(&h, 7, 9, 3100, 2); /* a number that never came */
    profile *p = build(&h, &(profile_cfg){.kind = PROFILE_CPU});
    assert_text(kit_tree(p), "<root> 3/1 (0xa0 1/1, 0xb0 1/1)");
    profile_unref(p);
}

static void samples_that_cannot_be_read_are_counted_apart(void **state)
{
    (void)state;
    hall h;
    begin(&h, false);
    stacks(&h, 1, 1, (uint64_t[]){0xA0});
    thread_sample(&h, 7, 1, 2000, 0);
    thread_sample(&h, 7, 1, 2000, 3);
    event(&h, 1, 7, 1, 2100, SLICE_LIT("\1\0"));
    profile *p = build(&h, &(profile_cfg){.kind = PROFILE_CPU});
    assert_int_equal(profile_info_of(p)->samples, 1);
    assert_int_equal(profile_info_of(p)->bad, 2);
    profile_unref(p);
}

/* ---- allocations ------------------------------------------------------------------------------------------------- */

static void tick(hall *h, uint32_t stack, uint64_t amount, uint32_t heap, const char *type)
{
    buf b;
    buf_init(&b, 0);
    buf_u32(&b, (uint32_t)amount);
    buf_u32(&b, heap);
    buf_u16(&b, 9);
    buf_u64(&b, amount);
    buf_u64(&b, 0x7f00);
    tw_utf16z(&b, type);
    buf_u32(&b, 0);
    buf_u64(&b, 0x7f10);
    buf_u64(&b, 24);
    event(h, 2, 7, stack, 2000, buf_view(&b));
    buf_fini(&b);
}

static void allocations_are_counted_by_type_and_by_site(void **state)
{
    (void)state;
    hall h;
    begin(&h, false);
    stacks(&h, 1, 2, (uint64_t[]){0xA0, 0xB0});
    tick(&h, 1, 106000, 0, "System.String");
    tick(&h, 1, 104000, 0, "System.String");
    tick(&h, 2, 5000000000, 1, "System.Byte[]"); /* more than 32 bits of it */
    tick(&h, 2, 100, 2, "System.Byte[]");
    tick(&h, 2, 100, 1, "System.Byte[]");
    tick(&h, 1, 300, 0, "NULL"); /* as NativeAOT writes it */
    event(&h, 2, 7, 1, 2000, SLICE_LIT("\1\0\0"));
    thread_sample(&h, 7, 1, 2000, 2); /* no allocation */
    profile *p = build(&h, &(profile_cfg){.kind = PROFILE_ALLOCATION});
    const profile_info *i = profile_info_of(p);
    assert_int_equal(i->samples, 6);
    assert_int_equal(i->weight, 5000210500);
    assert_int_equal(i->bad, 1);
    assert_true(i->weighted);
    assert_text(kit_tree(p), "<root> 6/0 (0xb0 3/3, 0xa0 3/3)"); /* as many: the heavier first */
    assert_int_equal(profile_node_counts(p, 1).exclusive_weight, 5000000200);
    assert_int_equal(profile_types(p), 3);
    const profile_type *t = profile_type_at(p, 0);
    assert_slice_str(t->name, "System.Byte[]");
    assert_int_equal(t->events, 3);
    assert_int_equal(t->bytes, 5000000200);
    assert_int_equal(t->by_kind[PROFILE_LARGE], 2);
    assert_int_equal(t->by_kind[PROFILE_PINNED], 1);
    t = profile_type_at(p, 1);
    assert_slice_str(t->name, "System.String");
    assert_int_equal(t->bytes, 210000);
    assert_int_equal(t->by_kind[PROFILE_SMALL], 2);
    assert_slice_str(profile_type_at(p, 2)->name, "<unknown>");
    profile_rows r;
    assert_int_equal(profile_top(p, PROFILE_BY_WEIGHT, 1, &r, NULL), 0);
    assert_text(kit_rows(p, &r), "0xb0 3/3 of 2");
    profile_unref(p);
}

static void amounts_that_cannot_be_are_counted_as_unreadable(void **state)
{
    (void)state;
    hall h;
    begin(&h, false);
    stacks(&h, 1, 1, (uint64_t[]){0xA0});
    tick(&h, 1, UINT64_C(1) << 47, 0, "System.String");
    tick(&h, 1, (UINT64_C(1) << 47) + 1, 0, "System.String");
    tick(&h, 1, INT64_MAX, 0, "System.String");
    tick(&h, 1, UINT64_MAX, 0, "System.String");
    profile *p = build(&h, &(profile_cfg){.kind = PROFILE_ALLOCATION});
    const profile_info *i = profile_info_of(p);
    assert_int_equal(i->samples, 1);
    assert_int_equal(i->bad, 3);
    assert_int_equal(i->weight, INT64_C(1) << 47);
    profile_unref(p);
}

static void drawn(hall *h, uint64_t size)
{
    buf b;
    buf_init(&b, 0);
    buf_u32(&b, 0);
    buf_u16(&b, 9);
    buf_u64(&b, 0x7f00);
    tw_utf16z(&b, "T");
    buf_u64(&b, 0x7f10);
    buf_u64(&b, size);
    buf_u64(&b, 3);
    event(h, 3, 7, 1, 2000, buf_view(&b));
    buf_fini(&b);
}

static void a_drawn_object_stands_for_those_that_were_not(void **state)
{
    (void)state;
    hall h;
    begin(&h, false);
    stacks(&h, 1, 1, (uint64_t[]){0xA0});
    tick(&h, 1, 106000, 0, "System.String"); /* not asked for */
    drawn(&h, 40);
    drawn(&h, 200024);
    profile *p = build(&h, &(profile_cfg){.kind = PROFILE_ALLOCATION, .sampled = true});
    const profile_type *t = profile_type_at(p, 0);
    assert_int_equal(profile_types(p), 1);
    assert_int_equal(t->events, 2);
    /* 1 / (1 - (1 - 1/102400)^40) = 2560.49 objects of 40 bytes, 1.16522 of 200,024 */
    assert_in_range((long)(t->objects * 100), 256165, 256166);
    assert_int_equal(t->bytes, 102420 + 233073);
    profile_unref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_counted_by_stack_and_thread),
        cmocka_unit_test(samples_that_are_as_deep_as_the_runtime_tells_are_counted),
        cmocka_unit_test(after_a_sequence_point_numbers_mean_other_stacks),
        cmocka_unit_test(numbers_that_go_back_mean_other_stacks),
        cmocka_unit_test(samples_that_cannot_be_read_are_counted_apart),
        cmocka_unit_test(allocations_are_counted_by_type_and_by_site),
        cmocka_unit_test(amounts_that_cannot_be_are_counted_as_unreadable),
        cmocka_unit_test(a_drawn_object_stands_for_those_that_were_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
