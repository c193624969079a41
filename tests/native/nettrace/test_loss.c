/* SPDX-License-Identifier: MIT */
/* test_loss.c: what sequence numbers say about lost events, by format version, and threads that come and go. */
#include "nettrace/writer.h"

typedef struct step {
    char what; /* e: event, p: sequence point, r: V6 removal, a: V6 announcement, f: V6 point that forgets threads */
    uint64_t thread;
    uint32_t seq;
} step;

typedef struct loss_case {
    const char *name;
    step steps[8];
    uint64_t lost_v4, lost_v6, breaks_v4, breaks_v6;
} loss_case;

static const loss_case cases[] = {
    {"nothing", {{'e', 1, 1}, {'e', 1, 2}, {'p', 1, 2}}, 0, 0, 0, 0},
    {"a gap", {{'e', 1, 1}, {'e', 1, 5}}, 3, 3, 0, 0},
    {"a gap of one thread is not another's", {{'e', 1, 1}, {'e', 2, 1}, {'e', 1, 2}, {'e', 2, 4}}, 2, 2, 0, 0},
    {"what a thread lost before its first event shows in V6 only", {{'e', 1, 4}}, 0, 3, 0, 0},
    {"a point's bound above the last", {{'e', 1, 1}, {'p', 1, 3}, {'e', 1, 4}}, 2, 2, 0, 0},
    {"a point's bound below the last says nothing", {{'e', 1, 5}, {'p', 1, 3}, {'e', 1, 6}}, 0, 4, 0, 0},
    {"a thread that lost everything", {{'p', 1, 5}, {'p', 1, 8}}, 3, 8, 0, 0},
    {"numbers wrap", {{'e', 1, UINT32_MAX}, {'e', 1, 0}, {'e', 1, 1}}, 0, 0, 0, 1},
    {"number 1 on a known V4 thread: the system reused its id", {{'e', 1, 9}, {'e', 1, 1}, {'e', 1, 2}}, 0, 8, 0, 1},
    {"numbers that go back are no loss", {{'e', 1, 9}, {'e', 1, 5}, {'e', 1, 6}}, 0, 8, 1, 1},
};

static void put_steps(tw *w, const step *steps)
{
    for (const step *s = steps; s->what; s++) {
        tw_begin(w, s->what == 'e' ? TW_EVENTS : s->what == 'r' ? TW_REMOVED : s->what == 'a' ? TW_THREADS : TW_POINT);
        if (s->what == 'e')
            tw_put_event(
                w,
                &(tw_event){
                    .kind = 1, .seq = s->seq, .thread = s->thread, .capture = s->thread, .ts = 2000 + s->seq % 1000});
        else if (s->what == 'a')
            tw_put_thread(w, s->thread, s->thread + 100, 77, "x");
        else if (s->what == 'r') {
            tw_varint(&w->body, s->thread);
            tw_varint(&w->body, s->seq);
        } else
            tw_put_point(w, 3000, s->what == 'f', 1, &s->thread, &s->seq);
        tw_end(w);
    }
}

static int play(const step *steps, bool v6, bool announce, const nt_options *o, heard *h, nt_stats *st, err *e)
{
    tw w;
    tw_start(&w, v6, true);
    if (v6 && announce) put_steps(&w, (step[]){{'a', 1, 0}, {'a', 2, 0}, {0}});
    tw_begin(&w, TW_METADATA);
    tw_put_kind(&w, 1, "P", 1, "E", 0, (slice){0}, (slice){0});
    tw_end(&w);
    put_steps(&w, steps);
    tw_finish(&w);
    int rc = hear(h, o, tw_bytes(&w), 0, st, e);
    tw_fini(&w);
    return rc;
}

static void gaps_are_counted_per_thread(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int v6 = 0; v6 <= 1; v6++) {
            heard h;
            nt_stats st;
            err e = {0};
            nt_options o = nt_options_default();
            const loss_case *c = &cases[i];
            heard_init(&h);
            assert_int_equal(play(c->steps, v6, true, &o, &h, &st, &e), 0);
            uint64_t lost = v6 ? c->lost_v6 : c->lost_v4, breaks = v6 ? c->breaks_v6 : c->breaks_v4;
            bool huge = v6 && c->steps[0].seq == UINT32_MAX; /* the first number is below 0: it went back */
            if (!huge && (st.lost != lost || st.sequence_breaks != breaks))
                print_error("%s, V%d\n", c->name, v6 ? 6 : 4);
            assert_int_equal(st.lost, lost);
            assert_int_equal(st.sequence_breaks, breaks);
            assert_int_equal(h.lost, lost);
            heard_fini(&h);
        }
}

static void the_thread_that_lost_is_named(void **state)
{
    (void)state;
    heard h;
    nt_stats st;
    err e = {0};
    nt_options o = nt_options_default();
    o.stream_order = true;
    heard_init(&h);
    assert_int_equal(play((step[]){{'e', 1, 1}, {'e', 2, 1}, {'e', 2, 7}, {0}}, true, true, &o, &h, &st, &e), 0);
    assert_slice_str(buf_view(&h.text), "P/E v0 10010 t101 c101 s1 p0 @0\nP/E v0 10010 t102 c102 s1 p0 @0\nlost 5 on "
                                        "102\nP/E v0 10070 t102 c102 s7 p0 @0\n");
    heard_fini(&h);
}

static void v6_threads_must_be_announced_once_and_may_come_again(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        step steps[8];
        int rc;
        uint64_t events, lost;
    } lives[] = {
        {"unknown writer", {{'e', 1, 1}}, -ERR_MALFORMED, 0, 0},
        {"unknown in a point", {{'p', 1, 1}}, -ERR_MALFORMED, 0, 0},
        {"unknown removed", {{'r', 1, 1}}, -ERR_MALFORMED, 0, 0},
        {"announced twice", {{'a', 1, 0}, {'e', 1, 1}, {'a', 1, 0}}, -ERR_MALFORMED, 1, 0},
        {"removed, then used", {{'a', 1, 0}, {'e', 1, 1}, {'r', 1, 1}, {'e', 1, 2}}, -ERR_MALFORMED, 1, 0},
        {"removed and announced again", {{'a', 1, 0}, {'e', 1, 1}, {'r', 1, 1}, {'a', 1, 0}, {'e', 1, 1}}, 0, 2, 0},
        {"a removal tells what was lost", {{'a', 1, 0}, {'e', 1, 1}, {'r', 1, 4}}, 0, 1, 3},
        {"a point that forgets all threads",
         {{'a', 1, 0}, {'e', 1, 1}, {'f', 1, 2}, {'a', 1, 0}, {'e', 1, 1}},
         0,
         2,
         1},
    };
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++) {
        heard h;
        nt_stats st;
        err e = {0};
        nt_options o = nt_options_default();
        heard_init(&h);
        int rc = play(lives[i].steps, true, false, &o, &h, &st, &e);
        if (rc != lives[i].rc) print_error("%s: %s\n", lives[i].name, e.message);
        assert_int_equal(rc, lives[i].rc);
        assert_int_equal(h.events, lives[i].events);
        assert_int_equal(st.lost, lives[i].lost);
        heard_fini(&h);
    }
}

static void a_full_v4_table_lets_the_silent_thread_go(void **state)
{
    (void)state;
    heard h;
    nt_stats st;
    err e = {0};
    nt_options o = nt_options_default();
    o.limits.threads = 2;
    heard_init(&h);
    /* 1 is silent longest when 3 comes: its gap is not seen; that of 2 is */
    step steps[] = {{'e', 1, 1}, {'e', 2, 1}, {'e', 3, 1}, {'e', 2, 4}, {'e', 1, 9}, {0}};
    assert_int_equal(play(steps, false, false, &o, &h, &st, &e), 0);
    assert_int_equal(st.threads_evicted, 2);
    assert_int_equal(st.lost, 2);
    assert_int_equal(h.events, 5);
    heard_fini(&h);
}

static void too_many_v6_threads_are_an_error(void **state)
{
    (void)state;
    heard h;
    nt_stats st;
    err e = {0};
    nt_options o = nt_options_default();
    o.limits.indexed_threads = 2;
    heard_init(&h);
    assert_int_equal(
        play((step[]){{'a', 1, 0}, {'a', 2, 0}, {'e', 1, 1}, {'a', 3, 0}, {0}}, true, false, &o, &h, &st, &e),
        -ERR_LIMIT);
    assert_int_equal(h.events, 1);
    heard_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_counted_per_thread),
        cmocka_unit_test(the_thread_that_lost_is_named),
        cmocka_unit_test(v6_threads_must_be_announced_once_and_may_come_again),
        cmocka_unit_test(a_full_v4_table_lets_the_silent_thread_go),
        cmocka_unit_test(too_many_v6_threads_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
