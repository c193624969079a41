/* SPDX-License-Identifier: MIT */
/* test_gcdump.c: graphs out of events and of .gcdump files (tests/data/heap/README.md), whole, cut short and broken. */
#include "check.h"

#include "memory/dominators.h"
#include "memory/gcdump.h"

#define DATA    LUNETTE_SOURCE_DIR "/tests/data/heap/"
#define OBJECTS 708
#define BYTES   117508

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void names_are_those_of_dotnet_gcdump(void **state)
{
    (void)state;
    static const struct {
        const char *told, *shown;
    } cases[] = {
        {"System.String", "System.String"},
        {"System.Collections.Generic.List`1[System.String]", "System.Collections.Generic.List<System.String>"},
        {"System.Collections.Generic.Dictionary`2[System.String,System.Int32[]]",
         "System.Collections.Generic.Dictionary<System.String,System.Int32[]>"},
        {"System.Byte[][]", "System.Byte[][]"},
        {"System.Int32[,]", "System.Int32[,]"},
        {"System.Tuple`2[System.Int32[,,],A`12[B`1[C][]]]", "System.Tuple<System.Int32[,,],A<B<C>[]>>"},
        {"<>c__DisplayClass1_0", "<>c__DisplayClass1_0"},
        {"<>f__AnonymousType0`2[System.String,System.Int32]", "<>f__AnonymousType0<System.String,System.Int32>"},
        {"[", "<"},
        {"]", ">"},
        {"A`", "A"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[256];
        size_t n = gcdump_type_name(slice_str(cases[i].told), out, sizeof out);
        assert_slice_str(slice_of(out, n), cases[i].shown);
    }
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

typedef struct feed {
    nt_tap *tap;
    nt_reader *r;
    uint32_t lose_id, lose_nth; /* the n-th event of this kind never comes */
    uint32_t stop_after;        /* nothing comes behind so many events */
    uint32_t seen, total;
} feed;

static int on_kind(void *arg, nt_kind *k)
{
    feed *f = arg;
    k->user = f->tap->ops->kind(f->tap, k);
    return 0;
}

static int on_event(void *arg, const nt_event *ev)
{
    feed *f = arg;
    f->total++;
    if (f->stop_after && f->total > f->stop_after) return 0;
    if (ev->kind->id == f->lose_id && f->seen++ == f->lose_nth) return 0;
    if (ev->kind->user) f->tap->ops->event(f->tap, ev->kind->user, f->r, ev);
    return 0;
}

/* A recording through a gcdump. */
static graph *read_events(feed *f, const graph_limits *lim, gcdump_quality *q, err *e)
{
    nt_options o = nt_options_default();
    gcdump *d = gcdump_new(lim, e);
    if (!d) return NULL;
    f->tap = gcdump_tap(d);
    f->r = nt_new(&o, &(nt_sink){.kind = on_kind, .event = on_event}, f, e);
    int rc = f->r ? nt_read_file(f->r, DATA "leak.nettrace", NULL, NULL, e) : -1;
    if (rc >= 0) f->tap->ops->end(f->tap, f->r);
    nt_free(f->r);
    graph *g = rc >= 0 ? gcdump_graph(d, q, e) : NULL;
    gcdump_unref(d);
    return g;
}

static void a_recording_is_the_heap(void **state)
{
    (void)state;
    err e = {0};
    feed f = {.lose_id = UINT32_MAX};
    gcdump_quality q;
    graph *g = read_events(&f, NULL, &q, &e);
    assert_non_null(g);
    assert_int_equal(graph_info_of(g)->nodes, OBJECTS);
    assert_int_equal(graph_info_of(g)->bytes, BYTES);
    assert_int_equal(graph_info_of(g)->edges, 712);
    assert_int_equal(graph_info_of(g)->dangling_edges, 0);
    assert_true(q.gc_started && q.gc_stopped && q.has_sizes);
    assert_int_equal(q.gaps, 0);
    assert_int_equal(q.bad, 0);
    assert_int_equal(q.no_name, 0);
    assert_true(q.gc_ns > 100000 && q.gc_ns < 1000000000);
    assert_true(q.committed > BYTES);
    graph_unref(g);
}

static void lost_events_take_the_references_with_them(void **state)
{
    (void)state;
    for (uint32_t id = 18; id <= 19; id++) {
        err e = {0};
        feed f = {.lose_id = id};
        gcdump_quality q;
        graph *g = read_events(&f, NULL, &q, &e);
        if (!g) continue; /* there was one event of objects only */
        assert_true(q.gaps > 0 || graph_info_of(g)->missing_edges > 0);
        if (q.gaps) assert_int_equal(graph_info_of(g)->edges, 0);
        graph_unref(g);
    }
}

static void a_stream_may_end_anywhere(void **state)
{
    (void)state;
    uint32_t total = 0;
    for (uint32_t n = 1; n == 1 || n < total; n++) {
        err e = {0};
        feed f = {.lose_id = UINT32_MAX, .stop_after = n};
        gcdump_quality q;
        graph *g = read_events(&f, NULL, &q, &e);
        total = f.total;
        if (!g) assert_int_equal(e.kind, ERR_NOT_FOUND);
        if (g) assert_true(graph_info_of(g)->nodes <= OBJECTS);
        graph_unref(g);
    }
    assert_true(total > 10);
}

static void more_objects_than_the_cap_are_counted(void **state)
{
    (void)state;
    err e = {0};
    feed f = {.lose_id = UINT32_MAX};
    gcdump_quality q;
    const graph_limits lim = {.nodes = 100};
    graph *g = read_events(&f, &lim, &q, &e);
    assert_non_null(g);
    assert_int_equal(graph_info_of(g)->nodes, 100);
    assert_int_equal(graph_info_of(g)->dropped_nodes, OBJECTS - 100);
    graph_unref(g);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static slice load(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    uint8_t *p = malloc(1 << 20);
    size_t n = fread(p, 1, 1 << 20, f);
    fclose(f);
    return slice_of(p, n);
}

static void a_file_is_the_same_heap(void **state)
{
    (void)state;
    err e = {0};
    gcdump_file_info info;
    graph *g = gcdump_read_file(DATA "leak.gcdump", NULL, &info, &e);
    assert_non_null(g);
    assert_int_equal(graph_info_of(g)->nodes, OBJECTS);
    assert_int_equal(graph_info_of(g)->bytes, BYTES);
    assert_int_equal(graph_info_of(g)->edges, 712);
    assert_int_equal(graph_info_of(g)->roots, 95);
    assert_int_equal(info.bytes, BYTES);
    assert_false(info.sampled);
    graph_tree *t = graph_tree_new(g, &e);
    assert_int_equal(graph_tree_info_of(t)->reached, 621);
    graph_tree_unref(t);
    graph_unref(g);
    assert_null(gcdump_read_file(DATA "nosuch", NULL, &info, &e));
    assert_int_equal(e.kind, ERR_NOT_FOUND);
}

static void a_file_cut_short_says_so(void **state)
{
    (void)state;
    slice whole = load(DATA "leak.gcdump");
    for (size_t n = 0; n + 64 < whole.n; n += n < 2000 ? 1 : 311) {
        err e = {0};
        gcdump_file_info info;
        uint8_t *part = malloc(n ? n : 1); /* of its own, so that the sanitizer sees its end */
        memcpy(part, whole.p, n);
        assert_null(gcdump_read(slice_of(part, n), NULL, &info, &e));
        assert_true(e.kind == ERR_TRUNCATED || e.kind == ERR_MALFORMED);
        free(part);
    }
    free((void *)(uintptr_t)whole.p);
}

static void a_broken_file_is_refused_or_a_graph(void **state)
{
    (void)state;
    slice whole = load(DATA "leak.gcdump");
    uint8_t *p = (uint8_t *)(uintptr_t)whole.p;
    for (size_t at = 0; at < whole.n; at += 13) {
        err e = {0};
        gcdump_file_info info;
        uint8_t was = p[at];
        p[at] ^= 0x81;
        graph *g = gcdump_read(whole, NULL, &info, &e);
        if (!g) assert_true(e.kind != ERR_NONE && e.kind != ERR_INTERNAL);
        graph_unref(g);
        p[at] = was;
    }
    free(p);
}

static int read_file(void *arg)
{
    err e = {0};
    gcdump_file_info info;
    graph *g = gcdump_read(*(slice *)arg, NULL, &info, &e);
    if (!g) return -(int)e.kind;
    graph_unref(g);
    return 0;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    slice whole = load(DATA "leak.gcdump");
    for (long n = 0;; n++) {
        mem_fail_at(n);
        int rc = read_file(&whole);
        bool fired = mem_failed();
        mem_fail_at(-1);
        assert_true(rc == 0 || rc == -ERR_NO_MEMORY);
        if (!fired) break;
    }
    free((void *)(uintptr_t)whole.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_dotnet_gcdump),
        cmocka_unit_test(a_recording_is_the_heap),
        cmocka_unit_test(lost_events_take_the_references_with_them),
        cmocka_unit_test(a_stream_may_end_anywhere),
        cmocka_unit_test(more_objects_than_the_cap_are_counted),
        cmocka_unit_test(a_file_is_the_same_heap),
        cmocka_unit_test(a_file_cut_short_says_so),
        cmocka_unit_test(a_broken_file_is_refused_or_a_graph),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
