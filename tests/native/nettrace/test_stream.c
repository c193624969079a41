/* SPDX-License-Identifier: MIT */
/* test_stream.c: what must hold of every stream, whichever version and however it comes: the same events in the same
 * order, a located error where it is damaged, and all events before the damage. */
#include "nettrace/writer.h"

static const struct form {
    const char *name;
    bool v6, compressed;
} forms[] = {{"V4 plain", false, false},
             {"V4 compressed", false, true},
             {"V6 plain", true, false},
             {"V6 compressed", true, true}};
#define N_FORMS (sizeof forms / sizeof *forms)

static const char want[] = "Shop/Order/Start v3 10000 t11 c11 s1 p0 @1111 Number=110 Text=abc\n"
                           "Shop/Order/Start v3 10050 t12 c12 s1 p1 @1111 Number=120 Text=abc\n"
                           "Shop/Checked v0 10100 t11 c11 s2 p0 @2222\n"
                           "Shop/Checked v0 10150 t12 c12 s2 p1 @2222\n"
                           "Shop/Order/Start v3 10200 t13 c11 s3 p0 @3333 ABCDEFGHIJKLMNOP Number=112 Text=abc\n"
                           "Shop/Order/Start v3 10250 t13 c12 s3 p1 @3333 ABCDEFGHIJKLMNOP Number=122 Text=abc\n"
                           "Shop/Order/Start v3 12000 t11 c11 s4 p0 @4444 Number=110 Text=abc\n"
                           "Shop/Order/Start v3 12050 t12 c12 s4 p1 @4444 Number=120 Text=abc\n"
                           "Shop/Checked v0 11950 t13 c13 s1 p0 @0\n"
                           "Shop/Checked v0 12100 t11 c11 s5 p0 @5555\n"
                           "Shop/Checked v0 12150 t12 c12 s5 p1 @5555\n"
                           "Shop/Order/Start v3 12200 t13 c11 s6 p0 @6666 ABCDEFGHIJKLMNOP Number=112 Text=abc\n"
                           "Shop/Order/Start v3 12250 t13 c12 s6 p1 @6666 ABCDEFGHIJKLMNOP Number=122 Text=abc\n"
                           "Shop/Checked v0 13000 t11 c11 s7 p0 @0\n";

static void every_form_tells_the_same_events_in_order_of_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        tw w;
        heard h;
        nt_stats st;
        err e = {0};
        nt_options o = nt_options_default();
        tw_sample(&w, forms[i].v6, forms[i].compressed);
        heard_init(&h);
        assert_int_equal(hear(&h, &o, tw_bytes(&w), 0, &st, &e), 0);
        assert_slice_str(buf_view(&h.text), want);
        assert_int_equal(h.trace.version, forms[i].v6 ? 6 : 4);
        assert_int_equal(h.trace.pid, 77);
        assert_int_equal(h.trace.processors, 4);
        assert_int_equal(h.trace.pointer_size, 8);
        assert_int_equal(h.trace.frequency, 100000000);
        assert_int_equal(h.trace.sync_unix_ns, INT64_C(1769854830123000000));
        assert_int_equal(st.events, TW_SAMPLE_EVENTS);
        assert_int_equal(st.lost, 0);
        assert_int_equal(st.unknown_kind, 0);
        assert_int_equal(st.out_of_order,
                         1); /* the one at 11950: its thread was silent when 12000 was said to be sorted */
        assert_int_equal(st.sequence_points, 2);
        assert_int_equal(h.points, 2);
        assert_int_equal(st.bytes, tw_bytes(&w).n);
        heard_fini(&h);
        tw_fini(&w);
    }
}

static void pieces_of_any_size_change_nothing(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 7, 16, 61, 100, 333};
    for (size_t i = 0; i < N_FORMS; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            tw w;
            heard h;
            err e = {0};
            nt_options o = nt_options_default();
            tw_sample(&w, forms[i].v6, forms[i].compressed);
            heard_init(&h);
            assert_int_equal(hear(&h, &o, tw_bytes(&w), sizes[k], NULL, &e), 0);
            assert_slice_str(buf_view(&h.text), want);
            heard_fini(&h);
            tw_fini(&w);
        }
}

static size_t lines_in(const buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        n += b->p[i] == '\n';
    return n;
}

/* Each line of a is in b. */
static bool all_in(const buf *a, const buf *b)
{
    const char *text = (const char *)a->p;
    for (size_t at = 0; at < a->n;) {
        size_t n = (size_t)((const char *)memchr(text + at, '\n', a->n - at) - (text + at)) + 1;
        if (!memmem(b->p, b->n, text + at, n)) return false;
        at += n;
    }
    return true;
}

static void a_stream_cut_anywhere_keeps_all_events_before_the_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++)
        for (int sorted = 0; sorted <= 1; sorted++) {
            tw w;
            heard whole;
            err none = {0};
            nt_options o = nt_options_default();
            o.stream_order = !sorted;
            tw_sample(&w, forms[i].v6, forms[i].compressed);
            heard_init(&whole);
            assert_int_equal(hear(&whole, &o, tw_bytes(&w), 0, NULL, &none), 0);
            size_t before = 0, n = tw_bytes(&w).n;
            for (size_t cut = 0; cut < n; cut++) {
                heard h, bytewise;
                err e = {0}, e2 = {0};
                heard_init(&h);
                heard_init(&bytewise);
                assert_int_equal(hear(&h, &o, slice_of(tw_bytes(&w).p, cut), 0, NULL, &e), -ERR_TRUNCATED);
                assert_true(e.has_offset);
                assert_int_equal(e.offset, cut);
                if (sorted)
                    assert_true(all_in(&h.text, &whole.text));
                else
                    assert_memory_equal(h.text.p ? h.text.p : (uint8_t *)"", whole.text.p, h.text.n);
                assert_true(lines_in(&h.text) >= before);
                before = lines_in(&h.text);
                assert_int_equal(hear(&bytewise, &o, slice_of(tw_bytes(&w).p, cut), 1, NULL, &e2), -ERR_TRUNCATED);
                assert_slice(buf_view(&bytewise.text), buf_view(&h.text));
                assert_string_equal(e2.message, e.message);
                heard_fini(&h);
                heard_fini(&bytewise);
            }
            assert_int_equal(before, TW_SAMPLE_EVENTS);
            heard_fini(&whole);
            tw_fini(&w);
        }
}

static void a_flipped_byte_never_breaks_the_reader_and_its_error_tells_where(void **state)
{
    (void)state;
    static const uint8_t flips[] = {0x01, 0x80, 0xFF};
    for (size_t i = 0; i < N_FORMS; i++) {
        tw w;
        tw_sample(&w, forms[i].v6, forms[i].compressed);
        size_t n = tw_bytes(&w).n, failed = 0;
        for (size_t at = 0; at < n; at++)
            for (size_t k = 0; k < sizeof flips; k++) {
                heard h, bytewise;
                nt_stats st;
                err e = {0}, e2 = {0};
                nt_options o = nt_options_default();
                heard_init(&h);
                heard_init(&bytewise);
                w.out.p[at] ^= flips[k];
                int rc = hear(&h, &o, tw_bytes(&w), 0, &st, &e);
                if (k == 0) { /* in pieces the same happens, to the letter */
                    assert_int_equal(hear(&bytewise, &o, tw_bytes(&w), 1, NULL, &e2), rc);
                    assert_slice(buf_view(&bytewise.text), buf_view(&h.text));
                    assert_string_equal(e2.message, e.message);
                }
                assert_true(st.events <= TW_SAMPLE_EVENTS * 3);
                assert_true(st.memory_peak < (8u << 20));
                if (rc < 0) {
                    failed++;
                    assert_true(e.has_offset && e.offset >= 0 && e.offset <= (int64_t)n);
                    assert_true(e.message[0] != 0);
                }
                w.out.p[at] ^= flips[k];
                heard_fini(&h);
                heard_fini(&bytewise);
            }
        assert_true(failed > n / 4);
        tw_fini(&w);
    }
}

static void bytes_after_the_end_mark_are_not_looked_at(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        tw w;
        heard h;
        err e = {0};
        nt_options o = nt_options_default();
        tw_sample(&w, forms[i].v6, forms[i].compressed);
        buf_str(&w.out, "garbage");
        heard_init(&h);
        assert_int_equal(hear(&h, &o, tw_bytes(&w), 5, NULL, &e), 0);
        assert_int_equal(h.events, TW_SAMPLE_EVENTS);
        heard_fini(&h);
        tw_fini(&w);
    }
}

static void the_receiver_can_stop_the_reading(void **state)
{
    (void)state;
    for (uint64_t stop = 1; stop <= TW_SAMPLE_EVENTS; stop++) {
        tw w;
        heard h;
        err e = {0};
        nt_options o = nt_options_default();
        tw_sample(&w, false, true);
        heard_init(&h);
        h.stop_at = stop;
        assert_int_equal(hear(&h, &o, tw_bytes(&w), 0, NULL, &e), -ERR_CANCELLED);
        assert_int_equal(h.events, stop - 1);
        heard_fini(&h);
        tw_fini(&w);
    }
}

static const struct bad_head {
    const char *why;
    const char *bytes;
    size_t n;
    err_kind kind;
} bad_heads[] = {
    {"no trace at all", "PK\3\4abcdefghijkl", 16, ERR_MALFORMED},
    {"a .netperf file", "\x14\0\0\0!FastSerialization.1\4\4", 26, ERR_NOT_SUPPORTED},
    {"neither 20 nor 0", "Nettrace\x15\0\0\0abcdefgh", 20, ERR_MALFORMED},
    {"another serialization", "Nettrace\x14\0\0\0!FastSerialization.2\5", 33, ERR_MALFORMED},
    {"V7", "Nettrace\0\0\0\0\7\0\0\0\0\0\0\0", 20, ERR_NOT_SUPPORTED},
    {"V6 that does not begin with Trace", "Nettrace\0\0\0\0\6\0\0\0\0\0\0\0\0\0\0\2", 24, ERR_MALFORMED},
    {"an object of version 5", "Nettrace\x14\0\0\0!FastSerialization.1\5\5\1\5\0\0\0\4\0\0\0\5\0\0\0Trace\6", 53,
     ERR_NOT_SUPPORTED},
    {"a block before Trace", "Nettrace\x14\0\0\0!FastSerialization.1\5\5\1\2\0\0\0\2\0\0\0\7\0\0\0SPBlock\6", 55,
     ERR_MALFORMED},
    {"a name of 65 bytes", "Nettrace\x14\0\0\0!FastSerialization.1\5\5\1\2\0\0\0\2\0\0\0\x41\0\0\0SPBlock\6", 55,
     ERR_MALFORMED},
    {"a tag 9", "Nettrace\x14\0\0\0!FastSerialization.1\x9", 33, ERR_MALFORMED},
};

static void heads_that_are_not_ours_are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_heads / sizeof *bad_heads; i++)
        for (size_t chunk = 0; chunk <= 1; chunk++) {
            heard h;
            err e = {0};
            nt_options o = nt_options_default();
            heard_init(&h);
            int rc = hear(&h, &o, slice_of(bad_heads[i].bytes, bad_heads[i].n), chunk, NULL, &e);
            if (rc != -(int)bad_heads[i].kind) print_error("%s: %d %s\n", bad_heads[i].why, rc, e.message);
            assert_int_equal(rc, -(int)bad_heads[i].kind);
            heard_fini(&h);
        }
}

static void a_dead_reader_repeats_its_error(void **state)
{
    (void)state;
    err e = {0}, again = {0}, end = {0};
    nt_reader *r = nt_new(NULL, NULL, NULL, &e);
    assert_int_equal(nt_feed(r, "rubbish!", 8, &e), -ERR_MALFORMED);
    assert_int_equal(nt_feed(r, "more", 4, &again), -ERR_MALFORMED);
    assert_string_equal(again.message, e.message);
    assert_int_equal(nt_finish(r, &end), -ERR_MALFORMED);
    assert_null(nt_trace_info(r));
    nt_free(r);
    nt_free(NULL);
}

static void blocks_of_unknown_sorts_are_stepped_over(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++)
        for (size_t chunk = 0; chunk <= 1; chunk++) {
            tw w, extra;
            heard h;
            nt_stats st;
            err e = {0};
            nt_options o = nt_options_default();
            tw_sample(&w, forms[i].v6, forms[i].compressed);
            tw_start(&extra, forms[i].v6, true);
            tw_begin(&extra, TW_EVENTS);
            tw_end(&extra);
            w.out.n -= forms[i].v6 ? 4 : 1; /* the end mark */
            if (forms[i].v6) {
                buf_u32(&w.out, 5 | 99u << 24);
                buf_str(&w.out, "12345");
                buf_u32(&w.out, 99u << 24); /* and an empty one */
            } else {
                buf_put(&w.out, "\5\5\1\2\0\0\0\2\0\0\0\5\0\0\0Hello\6\5\0\0\0", 25);
                while (w.out.n % 4)
                    buf_u8(&w.out, 0);
                buf_str(&w.out, "12345");
                buf_u8(&w.out, 6);
            }
            tw_finish(&w);
            heard_init(&h);
            assert_int_equal(hear(&h, &o, tw_bytes(&w), chunk, &st, &e), 0);
            assert_int_equal(st.skipped_blocks, forms[i].v6 ? 2 : 1);
            assert_int_equal(h.events, TW_SAMPLE_EVENTS);
            heard_fini(&h);
            tw_fini(&extra);
            tw_fini(&w);
        }
}

static int take_one(void *arg, nt_run *run)
{
    assert_true(nt_run_next(run));
    return heard_sink.event(arg, &run->event);
}

static int take_all(void *arg, nt_run *run)
{
    int rc = 0;
    while (rc == 0 && nt_run_next(run))
        rc = heard_sink.event(arg, &run->event);
    return rc;
}

static void runs_tell_the_same_events(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * N_FORMS; i++) {
        tw w;
        heard whole, h;
        nt_stats st;
        err e = {0};
        nt_options o = nt_options_default();
        nt_sink sink = heard_sink;
        sink.run = i % 2 ? take_all : take_one;
        tw_sample(&w, forms[i / 2].v6, forms[i / 2].compressed);
        heard_init(&whole);
        assert_int_equal(hear(&whole, &o, tw_bytes(&w), 0, &st, &e), 0);
        for (uint64_t stop_at = 0; stop_at <= TW_SAMPLE_EVENTS; stop_at++) { /* 0: to the end */
            heard_init(&h);
            h.stop_at = stop_at;
            h.r = nt_new(&o, &sink, &h, &e);
            int rc = nt_feed(h.r, tw_bytes(&w).p, tw_bytes(&w).n, &e);
            if (rc == 0) rc = nt_finish(h.r, &e);
            assert_int_equal(rc, stop_at ? -ERR_CANCELLED : 0);
            assert_int_equal(h.events, stop_at ? stop_at - 1 : TW_SAMPLE_EVENTS);
            assert_true(slice_starts(buf_view(&whole.text), buf_view(&h.text)));
            if (!stop_at) {
                assert_int_equal(h.text.n, whole.text.n);
                assert_int_equal(nt_stats_of(h.r)->out_of_order, st.out_of_order);
            }
            nt_free(h.r);
            heard_fini(&h);
        }
        heard_fini(&whole);
        tw_fini(&w);
    }
}

static int count_event(void *arg, const nt_event *ev)
{
    (void)ev;
    ++*(int *)arg;
    return 0;
}

#define CROWD        4 /* threads */
#define CROWD_EVENTS 1500u

typedef struct crowd {
    uint64_t n, n_late;
    int64_t ts;
    uint32_t seq[CROWD];
    nt_turn turn[CROWD * CROWD_EVENTS]; /* since the last run that was the `last` */
    int64_t turn_ts[CROWD * CROWD_EVENTS];
    uint32_t n_turns;
} crowd;

static int take_crowd(void *arg, nt_run *run)
{
    crowd *c = arg;
    while (nt_run_next(run)) {
        const nt_event *ev = &run->event;
        assert_in_range(ev->thread, 11, 10 + CROWD);
        assert_int_equal(ev->thread, ev->capture_thread);
        assert_int_equal(ev->seq, ++c->seq[ev->thread - 11]);
        c->n_late += ev->ts < c->ts;
        c->ts = ev->ts;
        c->n++;
        c->turn[c->n_turns] = run->at[-1];
        c->turn_ts[c->n_turns++] = ev->ts;
    }
    for (uint32_t i = 0; run->last && i < c->n_turns; i++) {
        nt_event ev;
        nt_run_look(run, &c->turn[i], &ev);
        assert_int_equal(ev.ts, c->turn_ts[i]);
    }
    if (run->last) c->n_turns = 0;
    return 0;
}

/* One thread, two and more, with blocks of their own, whose events come at any time, often at the same one: all are
 * delivered in order of time, each thread's in its own order. */
static void threads_are_merged(void **state)
{
    (void)state;
    static crowd c;
    for (size_t i = 0; i < N_FORMS * CROWD; i++) {
        const uint32_t n_threads = 1 + (uint32_t)(i % CROWD);
        tw w;
        err e = {0};
        uint32_t seq[CROWD] = {0}, random = 1 + (uint32_t)i;
        int64_t ts[CROWD] = {0};
        nt_options o = nt_options_default();
        nt_sink sink = {.event = count_event, .run = take_crowd}; /* all of them wait */
        buf none;
        buf_init(&none, 0);
        tw_start(&w, forms[i / CROWD].v6, forms[i / CROWD].compressed);
        tw_fields(&w, &none, NULL, 0);
        tw_begin(&w, TW_METADATA);
        tw_put_kind(&w, 1, "P", 1, "Wanted", 0, buf_view(&none), (slice){0});
        tw_end(&w);
        for (uint32_t t = 0; w.v6 && t < n_threads; t++) {
            tw_begin(&w, TW_THREADS);
            tw_put_thread(&w, 11 + t, 11 + t, 77, "");
            tw_end(&w);
        }
        for (uint32_t block = 0; block < 3 * n_threads; block++) {
            const uint32_t t = block % n_threads;
            tw_begin(&w, TW_EVENTS);
            for (uint32_t k = 0; k < CROWD_EVENTS / 3; k++) {
                random = random * 1664525 + 1013904223;
                ts[t] += random >> 28 > 9 ? 0 : random >> 28;
                tw_put_event(
                    &w,
                    &(tw_event){.kind = 1, .seq = ++seq[t], .thread = 11 + t, .capture = 11 + t, .ts = 2000 + ts[t]});
            }
            tw_end(&w);
        }
        tw_finish(&w);
        c = (crowd){0};
        nt_reader *r = nt_new(&o, &sink, &c, &e);
        assert_int_equal(nt_feed(r, tw_bytes(&w).p, tw_bytes(&w).n, &e), 0);
        assert_int_equal(nt_finish(r, &e), 0);
        assert_int_equal(c.n, n_threads * CROWD_EVENTS);
        assert_int_equal(c.n_late, 0);
        assert_int_equal(c.n_turns, 0);
        assert_int_equal(nt_stats_of(r)->out_of_order, 0);
        nt_free(r);
        buf_fini(&none);
        tw_fini(&w);
    }
}

static int mute_second(void *arg, nt_kind *k)
{
    (void)arg;
    k->muted = k->id == 2;
    return 0;
}

/* A live stream may stay silent for long: what is known to be in order is delivered, not kept until more comes. */
static void a_muted_event_lets_go_of_those_that_wait(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        tw w;
        err e = {0};
        int delivered = 0;
        nt_options o = nt_options_default();
        nt_sink sink = {.kind = mute_second, .event = count_event};
        tw_start(&w, forms[i].v6, forms[i].compressed);
        buf none;
        buf_init(&none, 0);
        tw_fields(&w, &none, NULL, 0);
        tw_begin(&w, TW_METADATA);
        tw_put_kind(&w, 1, "P", 1, "Wanted", 0, buf_view(&none), (slice){0});
        tw_put_kind(&w, 2, "P", 2, "Muted", 0, buf_view(&none), (slice){0});
        tw_end(&w);
        if (w.v6) {
            tw_begin(&w, TW_THREADS);
            tw_put_thread(&w, 11, 11, 77, "");
            tw_end(&w);
        }
        tw_begin(&w, TW_EVENTS);
        tw_put_event(&w, &(tw_event){.kind = 1, .seq = 1, .thread = 11, .capture = 11, .ts = 2000});
        tw_put_event(&w, &(tw_event){.kind = 1, .seq = 2, .thread = 11, .capture = 11, .ts = 2100});
        tw_put_event(&w, &(tw_event){.kind = 2, .seq = 3, .thread = 11, .capture = 11, .ts = 2200, .sorted = true});
        tw_end(&w);
        nt_reader *r = nt_new(&o, &sink, &delivered, &e);
        assert_int_equal(nt_feed(r, tw_bytes(&w).p, tw_bytes(&w).n, &e), 0);
        assert_int_equal(delivered, 2);
        nt_free(r);
        buf_fini(&none);
        tw_fini(&w);
    }
}

/* The last events of a burst wait for something that comes after them: a pause of the stream says that nothing will. */
static void a_flush_delivers_what_waits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORMS; i++) {
        tw w;
        err e = {0};
        int delivered = 0;
        nt_options o = nt_options_default();
        nt_sink sink = {.event = count_event};
        buf none;
        buf_init(&none, 0);
        tw_start(&w, forms[i].v6, forms[i].compressed);
        tw_fields(&w, &none, NULL, 0);
        tw_begin(&w, TW_METADATA);
        tw_put_kind(&w, 1, "P", 1, "Wanted", 0, buf_view(&none), (slice){0});
        tw_end(&w);
        if (w.v6) {
            tw_begin(&w, TW_THREADS);
            tw_put_thread(&w, 11, 11, 77, "");
            tw_end(&w);
        }
        size_t ends[2];
        for (uint32_t burst = 0; burst < 2; burst++) {
            tw_begin(&w, TW_EVENTS);
            for (uint32_t k = 0; k < 3; k++)
                tw_put_event(&w, &(tw_event){.kind = 1,
                                             .seq = 3 * burst + k + 1,
                                             .thread = 11,
                                             .capture = 11,
                                             .ts = 2000 + 100 * burst + k,
                                             .sorted = k == 0});
            tw_end(&w);
            ends[burst] = tw_bytes(&w).n;
        }
        nt_reader *r = nt_new(&o, &sink, &delivered, &e);
        const uint8_t *bytes = tw_bytes(&w).p;
        size_t half = (ends[1] - ends[0]) / 2;
        assert_int_equal(nt_flush(r, &e), 0); /* nothing came yet */
        assert_int_equal(nt_feed(r, bytes, ends[0], &e), 0);
        assert_int_equal(delivered, 1);
        assert_int_equal(nt_flush(r, &e), 0);
        assert_int_equal(delivered, 3);
        assert_int_equal(nt_feed(r, bytes + ends[0], half, &e), 0); /* in the middle of a block */
        assert_int_equal(nt_flush(r, &e), 0);
        assert_int_equal(delivered, 3);
        assert_int_equal(nt_feed(r, bytes + ends[0] + half, ends[1] - ends[0] - half, &e), 0);
        assert_int_equal(nt_flush(r, &e), 0);
        assert_int_equal(delivered, 6);
        assert_int_equal(nt_stats_of(r)->out_of_order, 0);
        assert_int_equal(nt_stats_of(r)->lost, 0);
        nt_free(r);
        r = nt_new(&o, &sink, &delivered, &e);
        assert_true(nt_feed(r, "this is no stream of events, it is damage", 40, &e) < 0);
        err again = {0};
        assert_int_equal(nt_flush(r, &again), -(int)e.kind); /* a dead reader stays dead */
        nt_free(r);
        buf_fini(&none);
        tw_fini(&w);
    }
}

static void times_are_exact_for_any_clock(void **state)
{
    (void)state;
    nt_trace t = {.sync_ticks = 1000, .frequency = 3124099, .sync_unix_ns = 5};
    assert_int_equal(nt_ns(&t, 1000), 0);
    assert_int_equal(nt_ns(&t, 1000 + 3124099), 1000000000);
    assert_int_equal(nt_ns(&t, 1000 - 3124099), -1000000000);
    assert_int_equal(nt_ns(&t, 1000 + INT64_C(3124099) * 1000000), INT64_C(1000000) * 1000000000);
    assert_int_equal(nt_unix_ns(&t, 1000), 5);
    t.frequency = 1;
    assert_int_equal(nt_ns(&t, INT64_MAX), INT64_MAX); /* what does not fit stays at the end of the range */
    assert_int_equal(nt_ns(&t, INT64_MIN), INT64_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_tells_the_same_events_in_order_of_time),
        cmocka_unit_test(pieces_of_any_size_change_nothing),
        cmocka_unit_test(a_stream_cut_anywhere_keeps_all_events_before_the_cut),
        cmocka_unit_test(a_flipped_byte_never_breaks_the_reader_and_its_error_tells_where),
        cmocka_unit_test(bytes_after_the_end_mark_are_not_looked_at),
        cmocka_unit_test(the_receiver_can_stop_the_reading),
        cmocka_unit_test(heads_that_are_not_ours_are_refused_with_the_reason),
        cmocka_unit_test(a_dead_reader_repeats_its_error),
        cmocka_unit_test(blocks_of_unknown_sorts_are_stepped_over),
        cmocka_unit_test(runs_tell_the_same_events),
        cmocka_unit_test(threads_are_merged),
        cmocka_unit_test(a_muted_event_lets_go_of_those_that_wait),
        cmocka_unit_test(a_flush_delivers_what_waits),
        cmocka_unit_test(times_are_exact_for_any_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
