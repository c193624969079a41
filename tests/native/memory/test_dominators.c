/* SPDX-License-Identifier: MIT */
/* test_dominators.c: dominators, retained sizes and ways from roots, of graphs drawn by hand and of thousands of random
 * ones, against what taking an object away and walking again tells. */
#include "check.h"

#include "memory/dominators.h"

#define MAX_NODES 40

static uint64_t state = 88172645463325252u;
static uint32_t draw(uint32_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state % below);
}

static uint64_t at(uint32_t i) { return 0x1000 + UINT64_C(0x100) * i; }

/* Sparse or dense, trees, chains, islands: whatever comes. */
static graph *random_graph(uint32_t *n_out)
{
    err e = {0};
    uint32_t n = 1 + draw(MAX_NODES), types = 1 + draw(6), density = 1 + draw(4);
    graph_builder *b = graph_builder_new(NULL, &e);
    for (uint32_t i = 0; i < n; i++) {
        graph_builder_node(b, at(i), graph_builder_type(b, draw(types)), 8 + draw(100));
        for (uint32_t k = draw(2 * density); k > 0; k--)
            graph_builder_edge(b, draw(4) ? at(draw(n)) : at((i + 1) % n));
    }
    for (uint32_t k = draw(4); k > 0; k--)
        graph_builder_root(b, (graph_root_kind)(1 + draw(GRAPH_ROOT_KIND_COUNT - 1)), 0, 0, at(draw(n)),
                           slice_str(draw(2) ? "S" : ""));
    graph *g = graph_seal(b, &e);
    assert_non_null(g);
    graph_builder_free(b);
    *n_out = n;
    return g;
}

/* Distances from the roots when the nodes marked in `gone` are away. */
static void flood(const graph *g, const bool *gone, uint32_t *distance)
{
    uint32_t n = graph_info_of(g)->nodes, queue[MAX_NODES], count = 0;
    for (uint32_t i = 0; i < n; i++)
        distance[i] = GRAPH_NONE;
    for (uint32_t i = 0; i < graph_info_of(g)->roots; i++) {
        graph_root r;
        graph_root_at(g, i, &r);
        if (gone[r.node] || distance[r.node] != GRAPH_NONE) continue;
        distance[r.node] = 0;
        queue[count++] = r.node;
    }
    for (uint32_t q = 0; q < count; q++) {
        uint32_t k, m;
        const uint32_t *to = graph_targets(g, queue[q], &m);
        for (k = 0; k < m; k++) {
            if (gone[to[k]] || distance[to[k]] != GRAPH_NONE) continue;
            distance[to[k]] = distance[queue[q]] + 1;
            queue[count++] = to[k];
        }
    }
}

/* dominated[a][b]: without a, b is reached no more. */
static void check_nodes(const graph *g, const graph_tree *t, bool dominated[MAX_NODES][MAX_NODES])
{
    uint32_t n = graph_info_of(g)->nodes, all[MAX_NODES], left[MAX_NODES];
    bool gone[MAX_NODES] = {false};
    uint64_t reached = 0;
    flood(g, gone, all);
    for (uint32_t a = 0; a < n; a++) {
        uint64_t bytes = 0;
        uint32_t objects = 0;
        gone[a] = true;
        flood(g, gone, left);
        gone[a] = false;
        for (uint32_t b = 0; b < n; b++) {
            dominated[a][b] = all[b] != GRAPH_NONE && left[b] == GRAPH_NONE;
            if (!dominated[a][b]) continue;
            bytes += graph_size(g, b);
            objects++;
        }
        assert_int_equal(graph_retained(t, a), bytes);
        assert_int_equal(graph_dominated(t, a), objects);
        if (all[a] != GRAPH_NONE) reached += graph_size(g, a);
    }
    assert_int_equal(graph_tree_info_of(t)->reached_bytes, reached);
    for (uint32_t b = 0; b < n; b++) {
        uint32_t d = graph_dominator(t, b), nearest = all[b] == GRAPH_NONE ? GRAPH_NONE : n;
        for (uint32_t a = 0; a < n; a++) /* the nearest is dominated by all others */
            if (a != b && dominated[a][b] && (nearest == n || dominated[nearest][a])) nearest = a;
        assert_int_equal(d, nearest);
    }
}

/* Without all objects of a type: at least what their dominators tell, and just what is reached no more. */
static void check_together(const graph *g, uint32_t type, uint64_t at_least)
{
    uint32_t n = graph_info_of(g)->nodes, all[MAX_NODES], left[MAX_NODES], objects = 0;
    bool gone[MAX_NODES] = {false};
    uint64_t bytes = 0;
    err e = {0};
    graph_reach r;
    flood(g, gone, all);
    for (uint32_t i = 0; i < n; i++)
        gone[i] = graph_type_of(g, i) == type;
    flood(g, gone, left);
    for (uint32_t i = 0; i < n; i++) {
        if (all[i] == GRAPH_NONE || left[i] != GRAPH_NONE) continue;
        bytes += graph_size(g, i);
        objects++;
    }
    assert_int_equal(graph_retained_together(g, type, &r, &e), 0);
    assert_int_equal(r.bytes, bytes);
    assert_int_equal(r.objects, objects);
    assert_true(r.bytes >= at_least);
}

static void check_types(const graph *g, const graph_tree *t, bool dominated[MAX_NODES][MAX_NODES])
{
    uint32_t n = graph_info_of(g)->nodes;
    for (uint32_t type = 0; type < graph_info_of(g)->types; type++) {
        uint64_t bytes = 0;
        for (uint32_t b = 0; b < n; b++) {
            bool by_any = false;
            for (uint32_t a = 0; a < n; a++)
                by_any = by_any || (graph_type_of(g, a) == type && dominated[a][b]);
            if (by_any) bytes += graph_size(g, b);
        }
        assert_int_equal(graph_retained_by_type(t, type), bytes);
        check_together(g, type, bytes);
    }
}

static void check_ways(const graph *g, const graph_ways *w)
{
    uint32_t n = graph_info_of(g)->nodes, all[MAX_NODES], way[MAX_NODES], root;
    bool gone[MAX_NODES] = {false};
    flood(g, gone, all);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t length = graph_way(w, i, way, MAX_NODES, &root);
        assert_int_equal(graph_distance(w, i), all[i]);
        assert_int_equal(length, all[i] == GRAPH_NONE ? 0 : all[i] + 1);
        if (length == 0) continue;
        graph_root r;
        graph_root_at(g, root, &r);
        assert_int_equal(r.node, way[0]);
        assert_int_equal(way[length - 1], i);
        for (uint32_t k = 0; k + 1 < length; k++) {
            uint32_t m;
            const uint32_t *to = graph_targets(g, way[k], &m);
            bool linked = false;
            while (m-- > 0)
                linked = linked || to[m] == way[k + 1];
            assert_true(linked);
        }
        uint32_t cut[3];
        assert_int_equal(graph_way(w, i, cut, 3, &root), length);
        assert_int_equal(cut[0], way[0]);
        if (length > 3) {
            assert_int_equal(cut[1], way[length - 2]);
            assert_int_equal(cut[2], i);
        }
    }
}

static void check_tops(const graph *g, const graph_tree *t)
{
    uint32_t n = graph_info_of(g)->nodes, total;
    uint64_t bytes, sum = 0;
    graph_row rows[MAX_NODES], few[3];
    uint32_t m = graph_tree_top(t, GRAPH_NONE, GRAPH_NONE, rows, MAX_NODES, &total, NULL);
    assert_int_equal(m, total);
    assert_int_equal(m, graph_tree_info_of(t)->reached);
    for (uint32_t i = 1; i < m; i++)
        assert_true(rows[i - 1].retained >= rows[i].retained);
    uint32_t k = graph_tree_top(t, GRAPH_NONE, GRAPH_NONE, few, 3, NULL, NULL);
    for (uint32_t i = 0; i < k; i++)
        assert_int_equal(few[i].node, rows[i].node);
    (void)graph_tree_top(t, n, GRAPH_NONE, rows, MAX_NODES, &total, &bytes);
    assert_int_equal(bytes, graph_tree_info_of(t)->reached_bytes);
    err e = {0};
    graph_tiles tiles;
    assert_int_equal(graph_tree_tiles(t, 50, 0, &tiles, &e), 0);
    for (uint32_t i = 1; i < tiles.n; i++)
        sum += tiles.rows[i].own;
    assert_int_equal(sum, graph_tree_info_of(t)->reached_bytes);
    assert_int_equal(tiles.rows[0].retained, sum);
    free(tiles.rows);
}

static void random_graphs_agree_with_taking_each_object_away(void **st)
{
    (void)st;
    static bool dominated[MAX_NODES][MAX_NODES];
    for (int round = 0; round < 4000; round++) {
        err e = {0};
        uint32_t n;
        graph *g = random_graph(&n);
        graph_tree *t = graph_tree_new(g, &e);
        graph_ways *w = graph_ways_new(g, &e);
        assert_non_null(t);
        assert_non_null(w);
        check_nodes(g, t, dominated);
        check_types(g, t, dominated);
        check_ways(g, w);
        check_tops(g, t);
        graph_tree_unref(t);
        graph_ways_unref(w);
        graph_unref(g);
    }
}

/* A million objects in one chain: nothing recurses, and the last one's way is as long. */
static void a_long_chain_is_no_deep_stack(void **st)
{
    (void)st;
    enum { N = 1000000 };
    err e = {0};
    graph_builder *b = graph_builder_new(NULL, &e);
    uint32_t type = graph_builder_type(b, 1), root, cut[4];
    for (uint32_t i = 0; i < N; i++) {
        graph_builder_node(b, at(i), type, 16);
        graph_builder_edge(b, at(i + 1));
        graph_builder_edge(b, at(0));
    }
    graph_builder_root(b, GRAPH_ROOT_STATIC, 0, 0, at(0), slice_str(""));
    graph *g = graph_seal(b, &e);
    graph_tree *t = graph_tree_new(g, &e);
    graph_ways *w = graph_ways_new(g, &e);
    assert_int_equal(graph_retained(t, 0), 16 * N);
    assert_int_equal(graph_retained(t, N - 1), 16);
    assert_int_equal(graph_dominator(t, N - 1), N - 2);
    assert_int_equal(graph_dominated(t, N / 2), N / 2);
    assert_int_equal(graph_retained_by_type(t, 0), 16 * N);
    assert_int_equal(graph_way(w, N - 1, cut, 4, &root), N);
    graph_tree_unref(t);
    graph_ways_unref(w);
    graph_unref(g);
    graph_builder_free(b);
}

static void a_named_static_explains_better_than_a_stack(void **st)
{
    (void)st;
    err e = {0};
    graph_builder *b = graph_builder_new(NULL, &e);
    uint32_t type = graph_builder_type(b, 1), root;
    graph_builder_node(b, at(0), type, 16);
    graph_builder_root(b, GRAPH_ROOT_STACK, 0, 0, at(0), slice_str(""));
    graph_builder_root(b, GRAPH_ROOT_STRONG_HANDLE, 0, 0, at(0), slice_str(""));
    graph_builder_root(b, GRAPH_ROOT_STATIC, 0, 0, at(0), slice_str("App.Cache"));
    graph *g = graph_seal(b, &e);
    graph_ways *w = graph_ways_new(g, &e);
    assert_int_equal(graph_way(w, 0, NULL, 0, &root), 1);
    assert_int_equal(root, 2);
    graph_ways_unref(w);
    graph_unref(g);
    graph_builder_free(b);
}

/* 20 small arrays of customers and a large one that a stack holds: the customers' explain the type. And of a list of
 * one type the head, not what hangs on it. */
static void an_example_stands_for_most_of_its_type(void **st)
{
    (void)st;
    err e = {0};
    graph_builder *b = graph_builder_new(NULL, &e);
    uint32_t array = graph_builder_type(b, 1), customer = graph_builder_type(b, 2), node = graph_builder_type(b, 3);
    for (uint32_t i = 0; i < 20; i++) {
        graph_builder_node(b, at(i), customer, 32);
        graph_builder_edge(b, at(20 + i));
        graph_builder_root(b, GRAPH_ROOT_STRONG_HANDLE, 0, 0, at(i), slice_str(""));
    }
    for (uint32_t i = 20; i < 40; i++)
        graph_builder_node(b, at(i), array, i == 33 ? 101 : 100);
    graph_builder_node(b, at(40), array, 1500);
    graph_builder_root(b, GRAPH_ROOT_STACK, 0, 0, at(40), slice_str(""));
    for (uint32_t i = 41; i < 50; i++) {
        graph_builder_node(b, at(i), node, 16);
        graph_builder_edge(b, at(i + 1));
    }
    graph_builder_node(b, at(50), node, 160);
    graph_builder_root(b, GRAPH_ROOT_STATIC, 0, 0, at(41), slice_str("App.List"));
    graph *g = graph_seal(b, &e);
    graph_tree *t = graph_tree_new(g, &e);
    graph_ways *w = graph_ways_new(g, &e);
    assert_int_equal(graph_example(w, t, graph_type_of(g, 33)), 33);
    assert_int_equal(graph_example(w, NULL, graph_type_of(g, 33)), 33);
    assert_int_equal(graph_example(w, t, graph_type_of(g, 45)), 41);
    graph_tree_unref(t);
    graph_ways_unref(w);
    graph_unref(g);
    graph_builder_free(b);
}

static void what_can_be_reached_stops_at_its_cap(void **st)
{
    (void)st;
    err e = {0};
    graph_builder *b = graph_builder_new(NULL, &e);
    uint32_t type = graph_builder_type(b, 1);
    for (uint32_t i = 0; i < 10; i++) {
        graph_builder_node(b, at(i), type, 16);
        graph_builder_edge(b, at(i + 1));
        graph_builder_edge(b, at(i ? i - 1 : 0));
    }
    graph *g = graph_seal(b, &e);
    graph_reach r;
    assert_int_equal(graph_reachable(g, 3, 100, &r, &e), 0);
    assert_int_equal(r.objects, 10);
    assert_int_equal(r.bytes, 160);
    assert_false(r.truncated);
    assert_int_equal(graph_reachable(g, 3, 4, &r, &e), 0);
    assert_int_equal(r.objects, 4);
    assert_true(r.truncated);
    graph_unref(g);
    graph_builder_free(b);
}

static int make_all(void *arg)
{
    graph *g = arg;
    err e = {0};
    graph_tiles tiles = {0};
    graph_tree *t = graph_tree_new(g, &e);
    graph_ways *w = t ? graph_ways_new(g, &e) : NULL;
    int rc = !t || !w ? -(int)e.kind : graph_tree_tiles(t, 3, 100, &tiles, &e);
    free(tiles.rows);
    graph_tree_unref(t);
    graph_ways_unref(w);
    return rc;
}

static void each_allocation_may_fail(void **st)
{
    (void)st;
    uint32_t n;
    graph *g = random_graph(&n);
    assert_true(each_allocation_fails(make_all, g) > 10);
    graph_unref(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_agree_with_taking_each_object_away),
        cmocka_unit_test(a_long_chain_is_no_deep_stack),
        cmocka_unit_test(a_named_static_explains_better_than_a_stack),
        cmocka_unit_test(an_example_stands_for_most_of_its_type),
        cmocka_unit_test(what_can_be_reached_stops_at_its_cap),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
