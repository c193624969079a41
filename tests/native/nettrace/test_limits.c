/* SPDX-License-Identifier: MIT */
/* test_limits.c: each limit of nt_limits is met, and does what its line in the header says; memory stays bounded; and
 * each allocation fails once. */
#include "nettrace/writer.h"

typedef struct run {
    nt_options o;
    nt_stats st;
    heard h;
    err e;
    int rc;
} run;

static void start(run *r)
{
    *r = (run){.o = nt_options_default()};
    heard_init(&r->h);
}

static void play(run *r, tw *w)
{
    r->rc = hear(&r->h, &r->o, tw_bytes(w), 0, &r->st, &r->e);
    tw_fini(w);
}

static void kind(tw *w, uint32_t id, const char *name, slice fields)
{
    tw_begin(w, TW_METADATA);
    tw_put_kind(w, id, "P", id, name, 0, fields, (slice){0});
    tw_end(w);
}

static void event(tw *w, uint32_t kind, uint32_t seq, int64_t ts, size_t payload)
{
    static const uint8_t bytes[70000];
    tw_begin(w, TW_EVENTS);
    tw_put_event(
        w, &(tw_event){
               .kind = kind, .seq = seq, .thread = 1, .capture = 1, .ts = ts, .payload = slice_of(bytes, payload)});
    tw_end(w);
}

static void a_block_over_the_limit_ends_the_stream(void **state)
{
    (void)state;
    for (int v6 = 0; v6 <= 1; v6++) {
        run r;
        tw w;
        start(&r);
        r.o.limits.block_bytes = 4096;
        r.o.stream_order = true;
        tw_start(&w, v6, true);
        if (v6) {
            tw_begin(&w, TW_THREADS);
            tw_put_thread(&w, 1, 1, 1, "");
            tw_end(&w);
        }
        kind(&w, 1, "E", (slice){0});
        event(&w, 1, 1, 2000, 100);
        event(&w, 1, 2, 2001, 5000);
        play(&r, &w);
        assert_int_equal(r.rc, -ERR_LIMIT);
        assert_int_equal(r.h.events, 1);
        assert_non_null(strstr(r.e.message, "over the limit of 4096"));
        heard_fini(&r.h);
    }
}

static void claims_alone_allocate_nothing(void **state)
{
    (void)state;
    run r;
    tw w;
    start(&r);
    tw_start(&w, false, true);
    event(&w, 1, 1, 1, 10);
    /* the block says 16 MiB and then nothing comes */
    for (size_t i = 0; i + 10 < w.out.n; i++)
        if (memcmp(w.out.p + i, "EventBlock\6", 11) == 0) memcpy(w.out.p + i + 11, "\0\0\0\1", 4);
    play(&r, &w);
    assert_int_equal(r.rc, -ERR_TRUNCATED);
    assert_true(r.st.memory_peak < (512u << 10));
    heard_fini(&r.h);
}

static void names_and_kinds_have_limits(void **state)
{
    (void)state;
    char name[200];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    for (int v6 = 0; v6 <= 1; v6++) {
        run r;
        tw w;
        start(&r);
        r.o.limits.name_bytes = 128;
        tw_start(&w, v6, true);
        kind(&w, 1, name, (slice){0});
        play(&r, &w);
        assert_int_equal(r.rc, v6 ? -ERR_LIMIT : -ERR_MALFORMED);
        heard_fini(&r.h);

        start(&r);
        r.o.limits.kinds = 3;
        tw_start(&w, v6, true);
        for (uint32_t i = 1; i <= 4; i++)
            kind(&w, i, name, (slice){0});
        play(&r, &w);
        assert_int_equal(r.rc, -ERR_LIMIT);
        heard_fini(&r.h);

        start(&r);
        r.o.limits.kind_bytes = 100000;
        tw_start(&w, v6, true);
        for (uint32_t i = 1; i <= 2000; i++)
            kind(&w, i, name, (slice){0});
        play(&r, &w);
        assert_int_equal(r.rc, -ERR_LIMIT);
        assert_true(r.st.memory_peak < 700000);
        heard_fini(&r.h);
    }
}

static void too_many_fields_cost_the_fields_only(void **state)
{
    (void)state;
    tw_field many[12];
    for (int i = 0; i < 12; i++)
        many[i] = (tw_field){"f", 9, 0};
    for (int v6 = 0; v6 <= 1; v6++)
        for (uint32_t n = 10; n <= 11; n++) {
            run r;
            tw w;
            buf fields;
            buf_init(&fields, 0);
            start(&r);
            r.o.limits.fields_per_kind = 10;
            tw_start(&w, v6, true);
            if (v6) {
                tw_begin(&w, TW_THREADS);
                tw_put_thread(&w, 1, 1, 1, "");
                tw_end(&w);
            }
            tw_fields(&w, &fields, many, n);
            kind(&w, 1, "E", buf_view(&fields));
            event(&w, 1, 1, 2000, 48);
            tw_finish(&w);
            play(&r, &w);
            assert_int_equal(r.rc, 0);
            assert_int_equal(r.st.fields_dropped, n > 10);
            assert_int_equal(r.h.events, 1);
            assert_int_equal(strstr((char *)r.h.text.p, "f=0") != NULL, n <= 10);
            heard_fini(&r.h);
            buf_fini(&fields);
        }
}

/* A struct in a struct in a struct …, V4: the count, then type 1 with its own list, then the name. */
static void nest(buf *b, int depth)
{
    buf_u32(b, 1);
    buf_u32(b, depth ? 1 : 9);
    if (depth) nest(b, depth - 1);
    tw_utf16z(b, "s");
}

static void fields_nested_too_deep_cost_the_fields_only(void **state)
{
    (void)state;
    for (int depth = 3; depth <= 4; depth++) {
        run r;
        tw w;
        buf fields;
        buf_init(&fields, 0);
        nest(&fields, depth);
        start(&r);
        r.o.limits.field_depth = 4;
        tw_start(&w, false, true);
        kind(&w, 1, "E", buf_view(&fields));
        event(&w, 1, 1, 2000, 4);
        tw_finish(&w);
        play(&r, &w);
        assert_int_equal(r.rc, 0);
        assert_int_equal(r.st.fields_dropped, depth > 3);
        if (depth == 3) assert_non_null(strstr((char *)r.h.text.p, " s.s.s.s=0"));
        heard_fini(&r.h);
        buf_fini(&fields);
    }
}

static void stacks(tw *w, uint32_t first, uint32_t n)
{
    static const uint64_t leaves[64] = {7, 8, 9, 10, 11, 12, 13, 14};
    tw_begin(w, TW_STACKS);
    tw_put_stacks(w, first, n, leaves);
    tw_end(w);
}

static void stacks_past_their_limits_are_dropped_and_counted(void **state)
{
    (void)state;
    for (int by_bytes = 0; by_bytes <= 1; by_bytes++) {
        run r;
        tw w;
        start(&r);
        if (by_bytes)
            r.o.limits.stacks_bytes = 300;
        else
            r.o.limits.stacks = 10;
        tw_start(&w, false, true);
        kind(&w, 1, "E", (slice){0});
        stacks(&w, 1, 8);
        stacks(&w, 9, 20);
        tw_begin(&w, TW_EVENTS);
        tw_put_event(&w, &(tw_event){.kind = 1, .seq = 1, .stack = 2, .capture = 1, .ts = 1, .sorted = true});
        tw_put_event(&w, &(tw_event){.kind = 1, .seq = 2, .stack = 9, .capture = 1, .ts = 2, .sorted = true});
        tw_end(&w);
        tw_finish(&w);
        play(&r, &w);
        assert_int_equal(r.rc, 0);
        assert_int_equal(r.st.stacks_dropped, 20);
        assert_non_null(strstr((char *)r.h.text.p, "s1 p0 @8\n"));
        assert_non_null(strstr((char *)r.h.text.p, "s2 p0 @0\n"));
        heard_fini(&r.h);
    }
}

static void bad_stacks_are_errors(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, bytes;
        int rc;
    } blocks[] = {{1, 16, 0},
                  {1, 12, -ERR_MALFORMED},
                  {1, 24, -ERR_LIMIT},
                  {2, 16, -ERR_MALFORMED},
                  {1000, 16, -ERR_MALFORMED},
                  {0, 16, -ERR_MALFORMED}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        run r;
        tw w;
        start(&r);
        r.o.limits.stack_bytes = 16;
        tw_start(&w, false, true);
        tw_begin(&w, TW_STACKS);
        buf_u32(&w.body, 1);
        buf_u32(&w.body, blocks[i].count);
        buf_u32(&w.body, blocks[i].bytes);
        for (uint32_t k = 0; k < blocks[i].bytes; k++)
            buf_u8(&w.body, 1);
        tw_end(&w);
        tw_finish(&w);
        play(&r, &w);
        assert_int_equal(r.rc, blocks[i].rc);
        heard_fini(&r.h);
    }
}

static void label_lists_have_a_limit(void **state)
{
    (void)state;
    for (uint32_t n = 5; n <= 6; n++) {
        run r;
        tw w;
        start(&r);
        r.o.limits.label_lists = 5;
        tw_start(&w, true, true);
        tw_begin(&w, TW_LABELS);
        buf_u32(&w.body, 1);
        buf_u32(&w.body, n);
        for (uint32_t i = 0; i < n; i++)
            buf_put(&w.body, "\x89\3", 2);
        tw_end(&w);
        tw_finish(&w);
        play(&r, &w);
        assert_int_equal(r.rc, n > 5 ? -ERR_LIMIT : 0);
        heard_fini(&r.h);
    }
}

static void events_that_wait_are_bounded_and_all_come_out(void **state)
{
    (void)state;
    run r;
    tw w;
    start(&r);
    r.o.limits.queue_bytes = 1u << 20;
    tw_start(&w, false, true);
    kind(&w, 1, "E", (slice){0});
    for (uint32_t i = 0; i < 100; i++)
        event(&w, 1, i + 1, 5000 - (int64_t)(i / 50) * 2000 + i, 60000); /* the second half is older than the first */
    tw_finish(&w);
    play(&r, &w);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.h.events, 100);
    assert_true(r.st.forced_merges > 0);
    assert_true(r.st.memory_peak < (3u << 20));
    heard_fini(&r.h);
}

static void one_block_of_very_many_events_is_bounded_too(void **state)
{
    (void)state;
    size_t forced = 0;
    for (int pieces = 0; pieces <= 1; pieces++) {
        run r;
        tw w;
        start(&r);
        r.o.limits.queue_bytes = 1u << 20;
        tw_start(&w, false, true);
        kind(&w, 1, "E", (slice){0});
        tw_begin(&w, TW_EVENTS);
        for (uint32_t i = 0; i < 50000; i++) /* two or three bytes each */
            tw_put_event(&w, &(tw_event){.kind = 1, .seq = i + 1, .thread = 1, .capture = 1, .ts = 2000 + i});
        tw_end(&w);
        tw_finish(&w);
        r.rc = hear(&r.h, &r.o, tw_bytes(&w), pieces ? 1000 : 0, &r.st, &r.e);
        tw_fini(&w);
        assert_int_equal(r.rc, 0);
        assert_int_equal(r.h.events, 50000);
        assert_int_equal(r.st.out_of_order, 0);
        assert_in_range(r.st.forced_merges, 5, 50);
        if (pieces) assert_int_equal(r.st.forced_merges, forced); /* however it comes */
        forced = r.st.forced_merges;
        assert_true(r.st.memory_peak < (2u << 20));
        heard_fini(&r.h);
    }
}

static void a_long_stream_needs_no_more_memory_than_a_short_one(void **state)
{
    (void)state;
    size_t peak[2];
    for (int longer = 0; longer <= 1; longer++) {
        run r;
        tw w;
        start(&r);
        tw_start(&w, false, true);
        kind(&w, 1, "E", (slice){0});
        for (uint32_t i = 0; i < (longer ? 4000u : 40u); i++) {
            stacks(&w, 1, 8);
            event(&w, 1, i + 1, 5000 + i, 1000);
            if (i % 10 == 9) {
                tw_begin(&w, TW_POINT);
                tw_put_point(&w, 5000 + i, 0, 1, (uint64_t[]){1}, (uint32_t[]){i + 1});
                tw_end(&w);
            }
        }
        tw_finish(&w);
        r.h.text.max = 1u << 20;
        play(&r, &w);
        assert_int_equal(r.rc, 0);
        assert_int_equal(r.h.events, longer ? 4000 : 40);
        peak[longer] = r.st.memory_peak;
        heard_fini(&r.h);
    }
    assert_in_range(peak[1], 1, peak[0] + 16); /* its numbers have a byte more */
}

typedef struct fault {
    slice bytes;
    size_t chunk;
} fault;

static int count_event(void *arg, const nt_event *ev)
{
    (void)ev;
    ++*(uint64_t *)arg;
    return 0;
}

static int read_counting(void *arg)
{
    fault *f = arg;
    err e = {0};
    uint64_t n = 0;
    nt_reader *r = nt_new(NULL, &(nt_sink){.event = count_event}, &n, &e);
    if (!r) return -(int)e.kind;
    int rc = 0;
    for (size_t at = 0; at < f->bytes.n && rc >= 0; at += f->chunk)
        rc = nt_feed(r, f->bytes.p + at, f->chunk < f->bytes.n - at ? f->chunk : f->bytes.n - at, &e);
    if (rc >= 0) rc = nt_finish(r, &e);
    if (rc == 0) assert_int_equal(n, TW_SAMPLE_EVENTS);
    if (rc == 0) assert_int_equal(nt_stats_of(r)->fields_dropped, 0);
    nt_free(r);
    return rc;
}

static void each_allocation_that_fails_is_told_and_leaks_nothing(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++)
        for (size_t chunk = 11; chunk <= 100000; chunk *= 100) {
            tw w;
            tw_sample(&w, form & 2, form & 1);
            fault f = {tw_bytes(&w), chunk};
            assert_true(each_allocation_fails(read_counting, &f) > 10);
            tw_fini(&w);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_over_the_limit_ends_the_stream),
        cmocka_unit_test(claims_alone_allocate_nothing),
        cmocka_unit_test(names_and_kinds_have_limits),
        cmocka_unit_test(too_many_fields_cost_the_fields_only),
        cmocka_unit_test(fields_nested_too_deep_cost_the_fields_only),
        cmocka_unit_test(stacks_past_their_limits_are_dropped_and_counted),
        cmocka_unit_test(bad_stacks_are_errors),
        cmocka_unit_test(label_lists_have_a_limit),
        cmocka_unit_test(events_that_wait_are_bounded_and_all_come_out),
        cmocka_unit_test(one_block_of_very_many_events_is_bounded_too),
        cmocka_unit_test(a_long_stream_needs_no_more_memory_than_a_short_one),
        cmocka_unit_test(each_allocation_that_fails_is_told_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
