/* SPDX-License-Identifier: MIT */
/* test_methods_bounds.c: what the method map keeps when only some addresses are wanted, its cap, damaged events, memory
 * that runs out, and a whole stream through the reader. */
#include "../nettrace/writer.h"
#include "methods_events.h"

static int new_map(void **state)
{
    *state = clr_methods_new(0);
    return *state ? 0 : -1;
}
static int free_map(void **state)
{
    clr_methods_free(*state);
    return 0;
}

/* ---- what is wanted ---------------------------------------------------------------------------------------------- */

static void only_what_is_hit_is_kept(void **state)
{
    clr_methods *m = *state;
    for (uint64_t i = 0; i < 1000; i++)
        method(m, ALIVE, 5, (body){.start = 0x10000 + i * 0x100, .name = "Before"});
    assert_int_equal(clr_methods_count(m), 1000);
    const uint64_t ips[] = {0x10205, 0x200010, 0x10205, 0x100ff, 1};
    assert_true(clr_methods_want(m, ips, sizeof ips / sizeof *ips));
    assert_int_equal(clr_methods_count(m), 2);
    for (uint64_t i = 0; i < 1000; i++)
        method(m, ALIVE, 6, (body){.start = 0x200000 + i * 0x100, .name = "After"});
    assert_int_equal(clr_methods_count(m), 3);
    assert_name(m, 0x10205, 5, "Before");
    assert_name(m, 0x100ff, 5, "Before");
    assert_name(m, 0x200010, 5, "After");
    assert_name(m, 0x200110, 5, UNKNOWN);
    /* more addresses: for what comes; what was dropped is gone */
    const uint64_t more[] = {0x300000, 0x10305};
    assert_true(clr_methods_want(m, more, 2));
    method(m, ALIVE, 7, (body){.start = 0x300000, .name = "More"});
    method(m, ALIVE, 7, (body){.start = 0x300100, .name = "Not"});
    assert_int_equal(clr_methods_count(m), 4);
    assert_name(m, 0x300000, 7, "More");
    assert_name(m, 0x10205, 5, "Before");
    assert_name(m, 0x10305, 5, UNKNOWN);
    assert_true(clr_methods_want(m, NULL, 0));
    method(m, ALIVE, 8, (body){.start = 0x300100, .name = "All"});
    assert_name(m, 0x300100, 8, "All");
    assert_int_equal(clr_methods_dropped(m), 0);
}

static void no_address_wanted_keeps_nothing(void **state)
{
    clr_methods *m = *state;
    method(m, ALIVE, 5, (body){.start = 0x1000, .name = "M"});
    assert_true(clr_methods_want(m, (const uint64_t[]){0}, 0));
    method(m, ALIVE, 5, (body){.start = 0x2000, .name = "M"});
    assert_int_equal(clr_methods_count(m), 0);
    assert_name(m, 0x1000, 5, UNKNOWN);
}

static void who_names_a_wanted_method_is_kept_for_that(void **state)
{
    clr_methods *m = *state;
    method(m, LOAD, 5, (body){.start = 0x1000, .id = 7});
    method(m, LOAD, 5, (body){.start = 0x2000, .id = 8});
    method(m, ALIVE, 5,
           (body){.start = 0x7000, .id = 9, .name = "Nine"}); /* not hit, names a wanted one that is there */
    method(m, LOAD, 5, (body){.start = 0x3000, .id = 9});
    assert_true(clr_methods_want(m, (const uint64_t[]){0x1010, 0x3010}, 2));
    assert_int_equal(clr_methods_count(m), 3); /* 1000, 3000 and the name of 9 */
    for (uint64_t i = 0; i < 3; i++) {         /* later tiers, at other addresses: one name is enough */
        method(m, ALIVE, 99, (body){.start = 0x8000 + i * 0x100, .id = 7, .name = "Seven"});
        method(m, ALIVE, 99, (body){.start = 0x9000 + i * 0x100, .id = 8, .name = "Eight"});
    }
    assert_int_equal(clr_methods_count(m), 4);
    assert_true(clr_methods_want(m, (const uint64_t[]){0x5000}, 1)); /* asking again keeps the names */
    assert_int_equal(clr_methods_count(m), 4);
    assert_name(m, 0x1010, 5, "Seven");
    assert_name(m, 0x3010, 5, "Nine");
    assert_name(m, 0x2010, 5, UNKNOWN);
    assert_name(m, 0x8000, 99, UNKNOWN);                    /* a name, no body */
    method(m, LOAD, 100, (body){.start = 0x5000, .id = 7}); /* another tier, after the names were given out */
    assert_name(m, 0x5000, 100, "Seven");
}

/* ---- the cap ----------------------------------------------------------------------------------------------------- */

static void the_cap_is_told_once_and_what_it_cost_is_counted(void **state)
{
    (void)state;
    enum { CAP = 100000, ROWS = 5000 };
    clr_methods *m = clr_methods_new(CAP);
    char name[32];
    int told = 0;
    for (uint64_t i = 0; i < ROWS; i++) {
        snprintf(name, sizeof name, "Method%u", (unsigned)i);
        int rc = method(m, LOAD_NAMED, 5, (body){.start = 0x10000 + i * 0x100, .name = name});
        assert_true(rc == 0 || rc == -ERR_LIMIT);
        if (rc) told++;
        if (rc) assert_int_equal(clr_methods_dropped(m), 1);
        assert_true(clr_methods_memory(m) <= CAP);
    }
    assert_int_equal(told, 1);
    assert_in_range(clr_methods_count(m), 300, 1000);
    assert_int_equal(clr_methods_dropped(m), ROWS - clr_methods_count(m));
    assert_name(m, 0x10000, 5, "Method0");
    assert_true(clr_methods_memory(m) <= CAP);
    /* modules, assemblies and wanted addresses count as well */
    assert_true(module(m, 152, 1, 1, "/a/SomeModuleWithALongNameThatDoesNotFit.dll") == 0);
    assert_int_equal(clr_methods_dropped(m), ROWS - clr_methods_count(m) + 1);
    uint64_t *ips = calloc(CAP, sizeof *ips);
    assert_false(clr_methods_want(m, ips, CAP));
    assert_name(m, 0x10000, 5, "Method0"); /* as before */
    free(ips);
    clr_methods_free(m);
}

static void a_map_that_is_full_has_room_again_when_only_some_are_wanted(void **state)
{
    (void)state;
    enum { CAP = 200000 };
    clr_methods *m = clr_methods_new(CAP);
    char name[32];
    uint64_t i = 0;
    for (int rc = 0; rc == 0; i++) {
        snprintf(name, sizeof name, "Method%u", (unsigned)i);
        rc = method(m, ALIVE, 5, (body){.start = 0x10000 + i * 0x100, .name = name});
        if (rc == 0 && i == 3) assert_name(m, 0x10010, 5, "Method0"); /* sorted once */
    }
    assert_true(clr_methods_memory(m) > CAP / 2);
    const uint64_t ips[] = {0x10010, 0x10000 + (i + 10) * 0x100};
    assert_true(clr_methods_want(m, ips, 2));
    assert_true(clr_methods_memory(m) < CAP * 2 / 3);
    method(m, ALIVE, 5, (body){.start = ips[1], .name = "AfterAll"});
    assert_name(m, ips[1], 5, "AfterAll");
    assert_name(m, ips[0], 5, "Method0");
    assert_int_equal(clr_methods_dropped(m), 1);
    clr_methods_free(m);
}

static void a_hundred_thousand_rows_cost_little_when_a_few_are_wanted(void **state)
{
    clr_methods *m = *state;
    uint64_t ips[100];
    for (uint64_t i = 0; i < 100; i++)
        ips[i] = 0x100000 + i * 1000 * 0x100;
    assert_true(clr_methods_want(m, ips, 100));
    for (uint64_t i = 0; i < 100000; i++)
        method(m, ALIVE, 5, (body){.start = 0x100000 + i * 0x100, .name = "M"});
    assert_int_equal(clr_methods_count(m), 100);
    assert_true(clr_methods_memory(m) < 64 << 10);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void damaged_events_are_counted_and_do_no_harm(void **state)
{
    clr_methods *m = *state;
    buf p;
    buf_init(&p, 0);
    method_payload(&p, LOAD_NAMED, (body){.start = 0x1000, .name = "Whole"});
    size_t names_end = p.n - 10; /* ClrInstanceID and ReJITID are not looked at */
    for (size_t n = 0; n < names_end; n++)
        assert_int_equal(give(m, LOAD_NAMED, 2, 5, slice_of(p.p, n)), 0);
    assert_int_equal(clr_methods_dropped(m), names_end);
    assert_int_equal(clr_methods_count(m), 0);
    assert_int_equal(give(m, LOAD_NAMED, 2, 5, slice_of(p.p, names_end)), 0);
    assert_int_equal(clr_methods_count(m), 1);
    buf_fini(&p);
    method(m, LOAD_NAMED, 5, (body){.start = 0x1000, .size = CLR_METHOD_SIZE_MAX + 1, .name = "TooLong"});
    method(m, LOAD_NAMED, 5, (body){.start = UINT64_MAX - 5, .size = 16, .name = "PastTheEnd"});
    assert_int_equal(clr_methods_dropped(m), names_end + 2);
    assert_name(m, 0x1000, 5, "Whole");
    assert_name(m, UINT64_MAX - 2, 5, UNKNOWN);
    static const int ids[] = {152, 154, 159, LOAD, -154, -156};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_int_equal(give(m, ids[i], 1, 5, SLICE_LIT("1234567")), 0);
    assert_int_equal(clr_methods_dropped(m), names_end + 2 + sizeof ids / sizeof *ids);
}

static void a_very_long_name_is_cut_between_characters(void **state)
{
    clr_methods *m = *state;
    enum { UNITS = 20000 };
    char *name = calloc(UNITS * 2 + 1, 1);
    for (size_t i = 0; i + 1 < UNITS; i++) { /* two bytes a character */
        name[1 + 2 * i] = '\xc3';
        name[2 + 2 * i] = '\xa4';
    }
    name[0] = 'x';
    method(m, LOAD_NAMED, 5, (body){.start = 0x1000, .name = name});
    clr_method f;
    assert_true(clr_methods_find(m, 0x1000, 5, &f));
    assert_int_equal(f.name.n, CLR_METHOD_NAME_MAX - 1); /* one byte, then pairs */
    assert_memory_equal(f.name.p, name, f.name.n);
    free(name);
}

/* ---- memory that runs out ---------------------------------------------------------------------------------------- */

static int use_a_map(void *arg)
{
    (void)arg;
    int rc = -ERR_NO_MEMORY;
    clr_methods *m = clr_methods_new(0);
    if (!m) return rc;
    nt_kind load = {.provider = SLICE_LIT(RUNTIME), .id = 143}, bare = {.provider = SLICE_LIT(RUNTIME), .id = 141};
    static const uint8_t named[] = "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0"
                                   "n\0\0\0m\0\0\0(\0)\0\0\0";
    static const uint8_t nameless[] = "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0";
    nt_event ev = {.kind = &load, .payload = slice_of(named, sizeof named - 1), .ts = 5};
    nt_event ev2 = {.kind = &bare, .payload = slice_of(nameless, sizeof nameless - 1), .ts = 6};
    clr_method f;
    const uint64_t ips[] = {0x100, 0x200};
    if (clr_methods_event(m, clr_methods_kind(&load), &ev) < 0 ||
        clr_methods_event(m, clr_methods_kind(&bare), &ev2) < 0)
        goto out;
    if (!clr_methods_want(m, ips, 2) || !clr_methods_find(m, 0x100, 7, &f) || !clr_methods_find(m, 0x200, 7, &f))
        goto out;
    rc = 0;
out:
    clr_methods_free(m);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(each_allocation_fails(use_a_map, NULL) >= 8);
}

/* ---- a whole stream ---------------------------------------------------------------------------------------------- */

typedef struct stream {
    nt_reader *r;
    clr_methods *m;
    int codes[8];
    uint64_t ip;
    int64_t ts;
} stream;

static int on_kind(void *arg, nt_kind *k)
{
    ((stream *)arg)->codes[k->index] = clr_methods_kind(k);
    return 0;
}
static int on_event(void *arg, const nt_event *ev)
{
    stream *s = arg;
    slice st = nt_stack(s->r, ev);
    if (st.n == 8 && !s->codes[ev->kind->index]) {
        memcpy(&s->ip, st.p, 8);
        s->ts = ev->ts;
    }
    return s->codes[ev->kind->index] ? clr_methods_event(s->m, s->codes[ev->kind->index], ev) : 0;
}

static void a_stack_of_a_stream_is_named_by_its_rundown(void **state)
{
    stream s = {.m = *state};
    for (int v6 = 0; v6 < 2; v6++) {
        tw w;
        buf p;
        err e = {0};
        buf_init(&p, 0);
        method_payload(&p, ALIVE, (body){.start = 0x7000, .name = "HoldGate"});
        tw_start(&w, v6, v6);
        if (v6) {
            tw_begin(&w, TW_THREADS);
            tw_put_thread(&w, 5, 5, 77, "");
            tw_end(&w);
        }
        tw_begin(&w, TW_METADATA);
        tw_put_kind(&w, 1, RUNTIME, 81, "", 2, (slice){0}, (slice){0});
        tw_put_kind(&w, 2, RUNDOWN, 144, "", 2, (slice){0}, (slice){0});
        tw_end(&w);
        tw_begin(&w, TW_STACKS);
        tw_put_stacks(&w, 1, 1, (const uint64_t[]){0x7042});
        tw_end(&w);
        tw_begin(&w, TW_EVENTS);
        tw_put_event(
            &w, &(tw_event){.kind = 1, .seq = 1, .stack = 1, .thread = 5, .capture = 5, .ts = 2000, .sorted = true});
        tw_put_event(
            &w,
            &(tw_event){
                .kind = 2, .seq = 2, .thread = 5, .capture = 5, .ts = 9000, .sorted = true, .payload = buf_view(&p)});
        tw_end(&w);
        tw_finish(&w);
        nt_options o = nt_options_default();
        static const nt_sink sink = {.kind = on_kind, .event = on_event};
        s.r = nt_new(&o, &sink, &s, &e);
        assert_non_null(s.r);
        if (nt_feed(s.r, tw_bytes(&w).p, tw_bytes(&w).n, &e) < 0) fail_msg("%s", e.message);
        assert_int_equal(nt_finish(s.r, &e), 0);
        assert_int_equal(s.ip, 0x7042);
        assert_name(s.m, s.ip, s.ts, "HoldGate");
        nt_free(s.r);
        buf_fini(&p);
        tw_fini(&w);
    }
    assert_int_equal(clr_methods_count(s.m), 2);
}

int main(void)
{
#define WITH_MAP(test) cmocka_unit_test_setup_teardown(test, new_map, free_map)
    const struct CMUnitTest tests[] = {
        WITH_MAP(only_what_is_hit_is_kept),
        WITH_MAP(no_address_wanted_keeps_nothing),
        WITH_MAP(who_names_a_wanted_method_is_kept_for_that),
        cmocka_unit_test(the_cap_is_told_once_and_what_it_cost_is_counted),
        cmocka_unit_test(a_map_that_is_full_has_room_again_when_only_some_are_wanted),
        WITH_MAP(a_hundred_thousand_rows_cost_little_when_a_few_are_wanted),
        WITH_MAP(damaged_events_are_counted_and_do_no_harm),
        WITH_MAP(a_very_long_name_is_cut_between_characters),
        cmocka_unit_test(each_allocation_may_fail),
        WITH_MAP(a_stack_of_a_stream_is_named_by_its_rundown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
