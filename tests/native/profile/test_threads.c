/* SPDX-License-Identifier: MIT */
/* test_threads.c: a builder at the tap of an event source: the source's thread fills it while another looks, and many
 * ask the profile at once. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "kit.h"
#include "probe/source.h"

static void wake(void *arg, bool last)
{
    if (last) atomic_store((atomic_bool *)arg, true);
}

static profile *read_with_source(const profile_cfg *cfg)
{
    profile_builder *b = kit_builder(cfg);
    atomic_bool ended = false;
    source *s = NULL;
    err e = {0};
    source_cfg sc = {.tap = profile_builder_tap(b), .wake = wake, .arg = &ended};
    assert_int_equal(source_open_file(LUNETTE_SOURCE_DIR "/tests/data/recordings/cpu.zip", &sc, &s, &e), 0);
    profile_progress g = {0}, last = {0};
    while (!atomic_load(&ended)) {
        profile_progress_of(b, &g);
        assert_true(g.samples >= last.samples && g.stacks >= last.stacks);
        last = g;
        (void)sched_yield();
    }
    assert_null(source_take(s, 10, 1000)); /* without wants nothing is queued */
    profile_progress_of(b, &g);
    assert_true(g.ended);
    assert_int_equal(g.samples, 5427);
    source_unref(s);
    return kit_build(b);
}

static void *ask(void *arg)
{
    profile *p = profile_ref(arg);
    profile_rows r;
    profile_edges x;
    profile_tree t;
    bool ok = true;
    for (uint32_t i = 1; i < profile_frames(p); i += 5) {
        ok = ok && profile_top(p, PROFILE_BY_EXCLUSIVE, 10, &r, NULL) == 0 && r.rows[0].counts.exclusive == 2134;
        free(r.rows);
        ok = ok && profile_edges_of(p, i, 10, &x, NULL) == 0;
        profile_edges_fini(&x);
        ok = ok && profile_tree_of(p, &(profile_tree_query){.root_frame = i, .callers = i % 2}, &t, NULL) == 0;
        free(t.nodes);
    }
    profile *both = profile_overlay(p, p, NULL);
    ok = ok && both && profile_nodes(both) == profile_nodes(p);
    profile_unref(both);
    profile_unref(p);
    return ok ? p : NULL;
}

static void one_fills_one_looks_and_many_ask(void **state)
{
    (void)state;
    profile *p = read_with_source(&(profile_cfg){.kind = PROFILE_CPU});
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, p), 0);
    for (int i = 0; i < 4; i++) {
        void *ok = NULL;
        pthread_join(threads[i], &ok);
        assert_non_null(ok);
    }
    profile_unref(p);
    assert_true(sources_wait(deadline_in_ms(10000)));
}

/* Another stream of the same process gives its names while the first is read, while the stacks are looked through, and
 * while the tree is built; they are the names that are there already. */
static void names_of_another_stream_come_at_any_time(void **state)
{
    (void)state;
    static const char file[] = LUNETTE_SOURCE_DIR "/tests/data/recordings/cpu.zip";
    profile *alone = read_with_source(&(profile_cfg){.kind = PROFILE_CPU});
    profile_builder *b = kit_builder(&(profile_cfg){.kind = PROFILE_CPU});
    atomic_bool ended[3] = {false};
    source *s[3];
    for (int i = 0; i < 3; i++) {
        source_cfg sc = {.tap = i ? profile_builder_names(b) : profile_builder_tap(b), .wake = wake, .arg = &ended[i]};
        assert_int_equal(source_open_file(file, &sc, &s[i], NULL), 0);
    }
    while (!atomic_load(&ended[0]))
        (void)sched_yield();
    profile_unnamed u;
    profile_unnamed_of(b, &u);
    assert_int_equal(u.begun, 0);
    profile *p = kit_build(b);
    assert_int_equal(profile_info_of(p)->samples, 5427);
    assert_int_equal(profile_frames(p), profile_frames(alone));
    assert_int_equal(profile_nodes(p), profile_nodes(alone));
    assert_int_equal(profile_info_of(p)->unresolved, profile_info_of(alone)->unresolved);
    for (int i = 0; i < 3; i++) {
        while (!atomic_load(&ended[i]))
            (void)sched_yield();
        source_unref(s[i]);
    }
    profile_unref(p);
    profile_unref(alone);
    assert_true(sources_wait(deadline_in_ms(10000)));
}

static void a_source_that_is_closed_lets_the_builder_go(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&(profile_cfg){.kind = PROFILE_CPU});
    atomic_bool ended = false;
    source *s = NULL;
    source_cfg sc = {.tap = profile_builder_tap(b), .wake = wake, .arg = &ended};
    assert_int_equal(source_open_file(LUNETTE_SOURCE_DIR "/tests/data/recordings/cpu.zip", &sc, &s, NULL), 0);
    profile_builder_unref(b); /* the source holds it */
    source_close(s);
    while (!atomic_load(&ended))
        (void)sched_yield();
    source_unref(s);
    assert_true(sources_wait(deadline_in_ms(10000)));
    b = kit_builder(&(profile_cfg){.kind = PROFILE_CPU});
    sc.tap = profile_builder_tap(b);
    assert_int_equal(source_open_file("/nonexistent", &sc, &s, NULL), -ERR_NOT_FOUND);
    profile_builder_unref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_fills_one_looks_and_many_ask),
        cmocka_unit_test(names_of_another_stream_come_at_any_time),
        cmocka_unit_test(a_source_that_is_closed_lets_the_builder_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
