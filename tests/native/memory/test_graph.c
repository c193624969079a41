/* SPDX-License-Identifier: MIT */
/* test_graph.c: graphs of objects in memory: sorted, resolved, joined, written and read again; what breaks is said. */
#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/graph.h"

static uint32_t type_of(graph_builder *b, uint64_t id, const char *name)
{
    uint32_t t = graph_builder_type(b, id);
    const graph_type_text text = {.name = slice_str(name), .module_name = slice_str("App.dll"), .token = 0x02000001};
    assert_true(graph_builder_describe(b, t, &text));
    return t;
}

/* 0x1000 Root -> 0x2000 A, 0x3000 B; A -> B; B -> 5 GB array; two roots. In an order that is not that of address. */
static graph *sample(err *e)
{
    graph_builder *b = graph_builder_new(NULL, e);
    if (!b) return NULL;
    uint32_t a = type_of(b, 1, "App.A"), r = type_of(b, 2, "App.Root"), big = graph_builder_type(b, 0x77);
    graph_builder_node(b, 0x2000, a, 24);
    graph_builder_edge(b, 0x3000);
    graph_builder_edge(b, 0);
    graph_builder_node(b, 0x1000, r, 32);
    graph_builder_edge(b, 0x2000);
    graph_builder_edge(b, 0x3000);
    graph_builder_edge(b, 0x2008); /* into an object: no object's beginning */
    graph_builder_node(b, 0x3000, a, 24);
    graph_builder_edge(b, 0x4000);
    graph_builder_node(b, 0x4000, big, UINT64_C(5) << 30);
    graph_builder_node(b, 0x2000, big, 99); /* once more */
    graph_builder_root(b, GRAPH_ROOT_STATIC, 0, 0x9000, 0x1000, slice_str("App.Root.Instance"));
    graph_builder_root(b, GRAPH_ROOT_STACK, GRAPH_INTERIOR | GRAPH_PINNED, 0x9100, 0x4010, slice_str(""));
    graph_builder_root(b, GRAPH_ROOT_STACK, 0, 0x9200, 0x4010, slice_str(""));
    graph *g = graph_seal(b, e);
    graph_builder_free(b);
    return g;
}

static void check_sample(const graph *g)
{
    const graph_info *i = graph_info_of(g);
    graph_type t;
    graph_root r;
    uint32_t n;
    assert_int_equal(i->nodes, 4);
    assert_int_equal(i->edges, 4);
    assert_int_equal(i->types, 3);
    assert_int_equal(i->roots, 2);
    assert_int_equal(i->bytes, 24 + 32 + 24 + (UINT64_C(5) << 30));
    assert_int_equal(i->dangling_edges, 1);
    assert_int_equal(i->dangling_roots, 1);
    assert_int_equal(i->duplicate_nodes, 1);
    assert_int_equal(i->unnamed_types, 1);
    assert_int_equal(graph_address(g, 0), 0x1000);
    assert_int_equal(graph_size(g, 3), UINT64_C(5) << 30);
    const uint32_t *to = graph_targets(g, 0, &n);
    assert_int_equal(n, 2);
    assert_int_equal(to[0], 1);
    assert_int_equal(to[1], 2);
    assert_int_equal(graph_targets(g, 2, &n)[0], 3);
    graph_type_at(g, graph_type_of(g, 1), &t);
    assert_slice_str(t.name, "App.A");
    assert_slice_str(t.module_name, "App.dll");
    assert_int_equal(t.count, 2);
    assert_int_equal(t.bytes, 48);
    graph_type_at(g, graph_type_of(g, 3), &t);
    assert_slice_str(t.name, "UNKNOWN(0x77)");
    assert_int_equal(t.flags, GRAPH_TYPE_UNNAMED);
    graph_root_at(g, 0, &r);
    assert_int_equal(r.kind, GRAPH_ROOT_STATIC);
    assert_slice_str(r.name, "App.Root.Instance");
    graph_root_at(g, 1, &r);
    assert_int_equal(r.node, 3);
    assert_int_equal(r.flags, GRAPH_INTERIOR | GRAPH_PINNED);
    assert_int_equal(r.slot, 0x9100);
    assert_int_equal(graph_find(g, 0x3000, false), 2);
    assert_int_equal(graph_find(g, 0x3008, false), GRAPH_NONE);
    assert_int_equal(graph_find(g, 0x3008, true), 2);
    assert_int_equal(graph_find(g, 0x3018, true), GRAPH_NONE);
    assert_int_equal(graph_find(g, 0x10, true), GRAPH_NONE);
}

static void nodes_are_sorted_and_targets_resolved(void **state)
{
    (void)state;
    err e = {0};
    graph *g = sample(&e);
    assert_non_null(g);
    check_sample(g);
    graph_unref(g);
}

static int seal_one(void *arg)
{
    (void)arg;
    err e = {0};
    graph_builder *b = graph_builder_new(NULL, &e);
    if (!b) return -(int)e.kind;
    (void)graph_builder_node(b, 0x20, graph_builder_type(b, 1), 24);
    (void)graph_builder_edge(b, 0x10);
    (void)graph_builder_node(b, 0x10, graph_builder_type(b, 1), 24);
    (void)graph_builder_root(b, GRAPH_ROOT_STACK, 0, 0, 0x20, slice_str("x"));
    graph *g = graph_seal(b, &e);
    graph_builder_free(b);
    if (!g) return -(int)e.kind;
    graph_unref(g);
    return 0;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        mem_fail_at(n);
        int rc = seal_one(NULL);
        bool fired = mem_failed();
        mem_fail_at(-1);
        assert_true(rc == 0 || rc == -ERR_NO_MEMORY);
        if (!fired) break;
    }
}

static void a_listed_target_belongs_to_its_counted_node(void **state)
{
    (void)state;
    err e = {0};
    graph_builder *b = graph_builder_new(NULL, &e);
    uint32_t t = type_of(b, 1, "T"), n;
    graph_builder_counted_node(b, 0x100, t, 24, 2);
    graph_builder_counted_node(b, 0x80, t, 24, 0);
    graph_builder_counted_node(b, 0x200, t, 24, 3);
    graph_builder_target(b, 0x200);
    graph_builder_target(b, 0); /* counts, leads nowhere */
    graph_builder_target(b, 0x80);
    graph *g = graph_seal(b, &e);
    assert_non_null(g);
    assert_int_equal(graph_info_of(g)->missing_edges, 2);
    (void)graph_targets(g, 0, &n);
    assert_int_equal(n, 0);
    assert_int_equal(graph_targets(g, 1, &n)[0], 2);
    assert_int_equal(n, 1);
    assert_int_equal(graph_targets(g, 2, &n)[0], 0);
    assert_int_equal(n, 1);
    graph_unref(g);
    graph_builder_free(b);
}

static void a_dependent_target_is_its_keys(void **state)
{
    (void)state;
    err e = {0};
    graph_builder *b = graph_builder_new(NULL, &e);
    uint32_t t = type_of(b, 1, "T"), n;
    graph_builder_node(b, 0x100, t, 24);
    graph_builder_edge(b, 0x300);
    graph_builder_node(b, 0x200, t, 24);
    graph_builder_node(b, 0x300, t, 24);
    graph_builder_dependent(b, 0x100, 0x200);
    graph_builder_dependent(b, 0x100, 0x208);
    graph *g = graph_seal(b, &e);
    assert_non_null(g);
    const uint32_t *to = graph_targets(g, 0, &n);
    assert_int_equal(n, 2);
    assert_int_equal(to[0], 2);
    assert_int_equal(to[1], 1);
    assert_int_equal(graph_info_of(g)->dangling_edges, 1);
    graph_unref(g);
    graph_builder_free(b);
}

static void caps_are_counted(void **state)
{
    (void)state;
    err e = {0};
    const graph_limits lim = {.nodes = 2, .edges = 1, .roots = 1};
    graph_builder *b = graph_builder_new(&lim, &e);
    uint32_t t = type_of(b, 1, "T");
    assert_true(graph_builder_node(b, 0x100, t, 24));
    assert_true(graph_builder_node(b, 0x200, t, 24));
    assert_true(graph_builder_edge(b, 0x100));
    assert_false(graph_builder_edge(b, 0x200));
    assert_false(graph_builder_node(b, 0x300, t, 24));
    assert_false(graph_builder_edge(b, 0x200));
    assert_true(graph_builder_root(b, GRAPH_ROOT_STACK, 0, 0, 0x100, slice_str("")));
    assert_false(graph_builder_root(b, GRAPH_ROOT_STACK, 0, 0, 0x200, slice_str("")));
    graph *g = graph_seal(b, &e);
    assert_non_null(g);
    assert_int_equal(graph_info_of(g)->dropped_nodes, 1);
    assert_int_equal(graph_info_of(g)->dropped_edges, 2);
    assert_int_equal(graph_info_of(g)->dropped_roots, 1);
    graph_unref(g);
    graph_builder_free(b);
}

static void a_builder_past_its_memory_says_the_figures(void **state)
{
    (void)state;
    err e = {0};
    const graph_limits lim = {.memory = 64 << 10};
    graph_builder *b = graph_builder_new(&lim, &e);
    uint32_t t = type_of(b, 1, "T");
    for (uint32_t i = 0; i < 5000; i++)
        (void)graph_builder_node(b, 0x100 + i * 24, t, 24);
    assert_null(graph_seal(b, &e));
    assert_int_equal(e.kind, ERR_LIMIT);
    graph_builder_free(b);
}

static void joined_builders_share_types(void **state)
{
    (void)state;
    err e = {0};
    graph_builder *a = graph_builder_new(NULL, &e), *b = graph_builder_new(NULL, &e);
    uint32_t n;
    graph_builder_node(a, 0x100, graph_builder_type(a, 5), 24);
    graph_builder_edge(a, 0x200);
    (void)type_of(b, 9, "Other");
    graph_builder_node(b, 0x200, type_of(b, 5, "T"), UINT64_C(6) << 30);
    graph_builder_root(b, GRAPH_ROOT_STACK, 0, 0, 0x200, slice_str("here"));
    assert_true(graph_builder_append(a, b, &e));
    graph *g = graph_seal(a, &e);
    assert_non_null(g);
    assert_int_equal(graph_targets(g, 0, &n)[0], 1);
    assert_int_equal(graph_type_of(g, 0), graph_type_of(g, 1));
    assert_int_equal(graph_size(g, 1), UINT64_C(6) << 30);
    graph_type t;
    graph_type_at(g, graph_type_of(g, 0), &t);
    assert_slice_str(t.name, "T");
    graph_root r;
    graph_root_at(g, 0, &r);
    assert_slice_str(r.name, "here");
    graph_unref(g);
    graph_builder_free(a);
    graph_builder_free(b);
}

/* Many objects in many places, in a random order: every one is found again with its own target. */
static void a_shuffled_heap_is_the_same_heap(void **state)
{
    (void)state;
    enum { N = 20000 };
    err e = {0};
    static uint64_t at[N];
    uint64_t x = 88172645463325252u, address = 0x7f0000000000u;
    graph_builder *b = graph_builder_new(NULL, &e);
    uint32_t t = type_of(b, 1, "T"), n;
    for (int i = 0; i < N; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        address += x % 1000 == 0 ? UINT64_C(1) << 33 : x % 50 == 0 ? 1 << 19 : 24 + x % 64 * 8;
        at[i] = address;
    }
    for (int i = N - 1; i > 0; i--) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint64_t j = x % (uint64_t)i, swap = at[i];
        at[i] = at[j], at[j] = swap;
    }
    for (int i = 0; i < N; i++) {
        graph_builder_node(b, at[i], t, 24);
        graph_builder_edge(b, at[(i + 1) % N]);
    }
    graph *g = graph_seal(b, &e);
    assert_non_null(g);
    assert_int_equal(graph_info_of(g)->edges, N);
    for (int i = 0; i < N; i++) {
        uint32_t node = graph_find(g, at[i], false);
        assert_int_equal(graph_address(g, node), at[i]);
        assert_int_equal(graph_address(g, graph_targets(g, node, &n)[0]), at[(i + 1) % N]);
    }
    graph_unref(g);
    graph_builder_free(b);
}

static int memfd_with(const graph *g)
{
    err e = {0};
    int fd = memfd_create("graph", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(graph_write(g, fd, &e), 0);
    return fd;
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    err e = {0};
    graph *g = sample(&e);
    int fd = memfd_with(g);
    graph *copied = graph_open(fd, &e); /* not sealed: read into memory */
    assert_non_null(copied);
    check_sample(copied);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
    graph *mapped = graph_open(fd, &e);
    assert_non_null(mapped);
    close(fd);
    check_sample(mapped);
    graph_unref(mapped);
    graph_unref(copied);
    graph_unref(g);
}

/* Any byte may be anything: the graph is refused, or it is one that can be walked. */
static graph *counted(err *e)
{
    graph_builder *b = graph_builder_new(NULL, e);
    uint32_t a = type_of(b, 1, "App.A"), big = type_of(b, 2, "App.Big");
    assert_true(graph_builder_totals(b, a, 40, 960));
    assert_true(graph_builder_totals(b, big, UINT64_C(5000000000), UINT64_C(120000000000)));
    assert_true(graph_builder_totals(b, a, 2, 48)); /* once more adds */
    assert_false(graph_builder_totals(b, a, 1, GRAPH_MAX_BYTES));
    assert_false(graph_builder_totals(b, a, 9, 8));     /* an object has a byte at least */
    assert_false(graph_builder_totals(b, 7, 1, 24));    /* no such type */
    assert_false(graph_builder_node(b, 0x1000, a, 24)); /* one or the other */
    graph *g = graph_seal(b, e);
    graph_builder_free(b);
    return g;
}

static void check_counted(const graph *g)
{
    const graph_info *i = graph_info_of(g);
    graph_type t;
    assert_int_equal(i->totals_only, 1);
    assert_int_equal(i->nodes, 0);
    assert_int_equal(i->edges + i->roots, 0);
    assert_int_equal(i->objects, UINT64_C(5000000042));
    assert_int_equal(i->bytes, UINT64_C(120000001008));
    graph_type_at(g, 0, &t);
    assert_int_equal(t.count, 42);
    assert_int_equal(t.bytes, 1008);
    assert_string_equal((const char *)t.name.p, "App.A");
}

static void counted_objects_are_no_nodes(void **state)
{
    (void)state;
    err e = {0};
    graph *g = counted(&e);
    assert_non_null(g);
    check_counted(g);
    int fd = memfd_with(g);
    graph_unref(g);
    g = graph_open(fd, &e);
    close(fd);
    assert_non_null(g);
    check_counted(g);
    assert_int_equal(graph_find(g, 0x1000, true), GRAPH_NONE);
    graph_unref(g);
}

/* A writer that lies about sums, or tells of objects beside them. */
static void counted_types_must_add_up(void **state)
{
    (void)state;
    err e = {0};
    graph *g = counted(&e);
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(graph_write(g, fileno(f), &e), 0);
    uint64_t n = graph_written(fileno(f)), words = 0;
    for (uint64_t at = 0; at + 8 <= n; at += 8) {
        uint64_t was, lie;
        assert_int_equal(pread(fileno(f), &was, 8, (off_t)at), 8);
        if (was != UINT64_C(5000000000) && was != 42 && was != 1008) continue;
        lie = was + 1;
        assert_int_equal(pwrite(fileno(f), &lie, 8, (off_t)at), 8);
        assert_null(graph_open(fileno(f), &e));
        assert_int_equal(e.kind, ERR_MALFORMED);
        e = (err){0};
        assert_int_equal(pwrite(fileno(f), &was, 8, (off_t)at), 8);
        words++;
    }
    assert_int_equal(words, 3);
    graph_unref(g);
    fclose(f);
}

static void a_broken_file_is_refused_or_walkable(void **state)
{
    (void)state;
    err e = {0};
    graph *g = sample(&e);
    int fd = memfd_with(g);
    off_t size = lseek(fd, 0, SEEK_END);
    int refused = 0;
    for (off_t at = 0; at < size; at++) {
        uint8_t was, now;
        assert_int_equal(pread(fd, &was, 1, at), 1);
        now = (uint8_t)(was ^ 0x81);
        assert_int_equal(pwrite(fd, &now, 1, at), 1);
        err_clear(&e);
        graph *h = graph_open(fd, &e);
        refused += h == NULL;
        for (uint32_t i = 0; h && i < graph_info_of(h)->nodes; i++) {
            uint32_t n;
            const uint32_t *to = graph_targets(h, i, &n);
            graph_type t;
            graph_type_at(h, graph_type_of(h, i), &t);
            for (uint32_t k = 0; k < n; k++)
                assert_true(to[k] < graph_info_of(h)->nodes);
        }
        graph_unref(h);
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
    }
    assert_true(refused > 40);
    for (off_t cut = 0; cut < size; cut += 7) {
        assert_int_equal(ftruncate(fd, cut), 0);
        err_clear(&e);
        assert_null(graph_open(fd, &e));
    }
    close(fd);
    graph_unref(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_sorted_and_targets_resolved),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(a_listed_target_belongs_to_its_counted_node),
        cmocka_unit_test(a_dependent_target_is_its_keys),
        cmocka_unit_test(caps_are_counted),
        cmocka_unit_test(a_builder_past_its_memory_says_the_figures),
        cmocka_unit_test(joined_builders_share_types),
        cmocka_unit_test(a_shuffled_heap_is_the_same_heap),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(counted_objects_are_no_nodes),
        cmocka_unit_test(counted_types_must_add_up),
        cmocka_unit_test(a_broken_file_is_refused_or_walkable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
