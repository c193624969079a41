/* SPDX-License-Identifier: MIT */
/* test_tree.c: the merged tree of samples with names, and its parts in both directions. */
#include "kit.h"

static const profile_cfg cpu = {.kind = PROFILE_CPU};

/* Main calls A and B; A calls itself, C and, once, B. 20 samples, one without a stack. */
static profile *example(void)
{
    profile_builder *b = kit_builder(&cpu);
    kit_stack(b, "Main>A>C", 5);
    kit_stack(b, "Main>A", 2);
    kit_stack(b, "Main>B", 3);
    kit_stack(b, "Main>A>A>C", 4);
    kit_stack(b, "Main>A>C", 1);
    kit_stack(b, "Main>A>B", 1);
    kit_stack(b, "Main", 1);
    kit_stack(b, "Other>C", 2);
    kit_stack(b, "", 1);
    return kit_build(b);
}

static void equal_stacks_are_one_and_the_heaviest_child_comes_first(void **state)
{
    (void)state;
    profile *p = example();
    assert_text(kit_tree(p),
                "<root> 20/1 (Main 17/1 (A 13/2 (C 6/6, A 4/0 (C 4/4), B 1/1), B 3/3), Other 2/0 (C 2/2))");
    const profile_info *i = profile_info_of(p);
    assert_int_equal(i->samples, 20);
    assert_int_equal(i->no_stack, 1);
    assert_int_equal(i->running + i->waiting + i->dropped + i->cut + i->unresolved, 0);
    profile_unref(p);
}

static void nodes_are_in_preorder_and_a_subtree_is_a_range(void **state)
{
    (void)state;
    profile *p = example();
    uint32_t n = profile_nodes(p);
    assert_int_equal(n, 10);
    assert_int_equal(profile_node_at(p, 0).size, n);
    for (uint32_t i = 0; i < n; i++) {
        profile_node x = profile_node_at(p, i);
        int64_t sum = x.exclusive, last = INT64_MAX;
        for (uint32_t c = i + 1; c < i + x.size; c += profile_node_at(p, c).size) {
            profile_node y = profile_node_at(p, c);
            assert_int_equal(y.parent, i);
            assert_true(y.inclusive <= last);
            last = y.inclusive;
            sum += y.inclusive;
        }
        assert_int_equal(sum, x.inclusive);
    }
    profile_unref(p);
}

static void nothing_makes_a_root_without_samples(void **state)
{
    (void)state;
    profile *p = kit_build(kit_builder(&cpu));
    assert_text(kit_tree(p), "<root> 0/0");
    profile_rows r;
    assert_int_equal(profile_top(p, PROFILE_BY_EXCLUSIVE, 10, &r, NULL), 0);
    assert_text(kit_rows(p, &r), "");
    assert_int_equal(profile_hot_path(p, 50, &r, NULL), 0);
    assert_text(kit_rows(p, &r), "");
    assert_text(kit_part(p, &(profile_tree_query){0}), "<root> 0/0");
    assert_text(kit_part(p, &(profile_tree_query){.callers = true}), "<root> 0/0");
    profile_unref(p);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static void room_goes_to_the_heaviest(void **state)
{
    (void)state;
    profile *p = example();
    assert_text(kit_part(p, &(profile_tree_query){.max_depth = 2}),
                "<root> 20/1 (Main 17/1 (A 13/2 +3, B 3/3), Other 2/0 (C 2/2)) ...");
    assert_text(kit_part(p, &(profile_tree_query){.max_nodes = 5}),
                "<root> 20/1 +1 (Main 17/1 +1 (A 13/2 +1 (C 6/6, A 4/0 +1))) ...");
    assert_text(kit_part(p, &(profile_tree_query){.max_nodes = 1}), "<root> 20/1 +2 ...");
    assert_text(kit_part(p, &(profile_tree_query){.max_nodes = 10}),
                "<root> 20/1 (Main 17/1 (A 13/2 (C 6/6, A 4/0 (C 4/4), B 1/1), B 3/3), Other 2/0 (C 2/2))");
    profile_unref(p);
}

static void all_outermost_calls_of_a_method_are_one_root(void **state)
{
    (void)state;
    profile *p = example();
    assert_text(kit_part(p, &(profile_tree_query){.root_frame = kit_frame(p, "A")}),
                "A 13/2 (C 6/6, A 4/0 (C 4/4), B 1/1)");
    assert_text(kit_part(p, &(profile_tree_query){.root_frame = kit_frame(p, "C")}), "C 12/12");
    assert_text(kit_part(p, &(profile_tree_query){.root_frame = kit_frame(p, "B")}), "B 4/4");
    err e = {0};
    profile_tree t;
    assert_int_equal(profile_tree_of(p, &(profile_tree_query){.root_frame = 99}, &t, &e), -ERR_NOT_FOUND);
    profile_unref(p);
}

static void upside_down_the_callers_hang_below(void **state)
{
    (void)state;
    profile *p = example();
    assert_text(kit_part(p, &(profile_tree_query){.root_frame = kit_frame(p, "C"), .callers = true}),
                "C 12/12 (A 10/0 (Main 6/6, A 4/0 (Main 4/4)), Other 2/2)");
    /* of A only the outermost calls */
    assert_text(kit_part(p, &(profile_tree_query){.root_frame = kit_frame(p, "A"), .callers = true}),
                "A 13/2 (Main 13/13)");
    assert_text(kit_part(p, &(profile_tree_query){.callers = true}),
                "<root> 20/1 (C 12/12 (A 10/0 (Main 6/6, A 4/0 (Main 4/4)), Other 2/2), B 4/4 (Main 3/3, A 1/0 (Main "
                "1/1)), A 2/2 (Main 2/2), Main 1/1)");
    assert_text(kit_part(p, &(profile_tree_query){.callers = true, .max_depth = 1}),
                "<root> 20/1 (C 12/12 +2, B 4/4 +2, A 2/2 +1, Main 1/1) ...");
    profile_unref(p);
}

static void weight_orders_when_it_is_asked_for(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&(profile_cfg){.kind = PROFILE_ALLOCATION});
    assert_true(kit_add(b, "Main>Small", 10, 1, PROFILE_UNKNOWN, 100));
    assert_true(kit_add(b, "Main>Large", 1, 1, PROFILE_UNKNOWN, 5000));
    profile *p = kit_build(b);
    assert_text(kit_part(p, &(profile_tree_query){.max_nodes = 3}), "<root> 11/0 (Main 11/0 +1 (Small 10/10)) ...");
    assert_text(kit_part(p, &(profile_tree_query){.max_nodes = 3, .by_weight = true}),
                "<root> 11/0 (Main 11/0 +1 (Large 1/1)) ...");
    assert_int_equal(profile_info_of(p)->weight, 5100);
    assert_int_equal(profile_node_counts(p, 1).inclusive_weight, 5100);
    assert_int_equal(profile_node_counts(p, 1).exclusive_weight, 0);
    profile_unref(p);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void what_finds_no_room_is_the_roots_and_counted(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&(profile_cfg){.kind = PROFILE_CPU, .max_bytes = 200000});
    uint64_t kept = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t ips[] = {0x1000 + i % 5000 * 16, 0x100};
        kept += profile_add(b, &(profile_sample){.ips = ips, .n = 2, .thread = i % 3, .samples = 1});
    }
    profile_progress g;
    profile_progress_of(b, &g);
    assert_int_equal(g.samples, 20000);
    assert_in_range(g.memory, 100000, 200000);
    profile *p = kit_build(b);
    const profile_info *i = profile_info_of(p);
    assert_int_equal(i->samples, 20000);
    assert_in_range(kept, 400, 19999);
    assert_true(i->dropped > 0);
    assert_int_equal(profile_node_at(p, 0).inclusive, 20000);
    assert_int_equal(profile_node_at(p, 0).exclusive, 20000 - kept);
    profile_unref(p);
}

static void of_a_very_deep_stack_the_leaf_stays(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 0);
    buf_str(&b, "Main");
    for (int i = 0; i < 5000; i++)
        buf_str(&b, ">R");
    buf_str(&b, ">Leaf");
    buf_u8(&b, 0);
    profile_builder *x = kit_builder(&cpu);
    kit_stack(x, (const char *)b.p, 3);
    buf_fini(&b);
    profile *p = kit_build(x);
    assert_int_equal(profile_info_of(p)->cut, 1);
    assert_int_equal(profile_nodes(p), PROFILE_DEPTH_MAX + 1);
    assert_int_equal(profile_frame_at(p, kit_frame(p, "Leaf"))->counts.exclusive, 3);
    assert_int_equal(profile_frame_at(p, kit_frame(p, "R"))->counts.inclusive, 3);
    profile_rows r;
    assert_int_equal(profile_hot_path(p, 50, &r, NULL), 0);
    assert_int_equal(r.n, PROFILE_DEPTH_MAX);
    free(r.rows);
    profile_unref(p);
}

static int make_and_ask(void *arg)
{
    (void)arg;
    err e = {0};
    static const profile_wait waits[] = {{"Wait*", "waiting"}};
    profile *p = NULL, *both = NULL;
    profile_rows r = {0};
    profile_edges x = {0};
    profile_tree t = {0};
    profile_pair *pairs = NULL;
    uint32_t n;
    profile_builder *b = profile_builder_new(&(profile_cfg){.kind = PROFILE_CPU, .waits = waits, .n_waits = 1}, &e);
    int rc = b ? 0 : -ERR_NO_MEMORY;
    uint64_t ips[3] = {0x10, 0x20, 0x30};
    if (rc == 0) ips[1] = profile_symbol(b, SLICE_LIT("m"), SLICE_LIT("f"), false);
    if (rc == 0 && ips[1] == UINT64_MAX) rc = -ERR_NO_MEMORY;
    if (rc == 0 && !profile_add(b, &(profile_sample){.ips = ips, .n = 3, .thread = 1, .samples = 2, .weight = 5}))
        rc = -ERR_NO_MEMORY;
    if (rc == 0 && !(p = profile_build(b, &e))) rc = -(int)e.kind;
    if (rc == 0) rc = profile_top(p, PROFILE_BY_EXCLUSIVE, 5, &r, &e);
    free(r.rows);
    if (rc == 0) rc = profile_by_module(p, PROFILE_BY_EXCLUSIVE, 5, &r, &e), free(r.rows);
    if (rc == 0) rc = profile_by_namespace(p, PROFILE_BY_EXCLUSIVE, 5, &r, &e), free(r.rows);
    if (rc == 0) rc = profile_hot_path(p, 50, &r, &e), free(r.rows);
    if (rc == 0) rc = profile_match(p, SLICE_LIT("f"), 5, &r, &e), free(r.rows);
    if (rc == 0) rc = profile_edges_of(p, 1, 5, &x, &e), profile_edges_fini(&x);
    if (rc == 0) rc = profile_tree_of(p, &(profile_tree_query){0}, &t, &e), free(t.nodes);
    if (rc == 0) rc = profile_tree_of(p, &(profile_tree_query){.callers = true}, &t, &e), free(t.nodes);
    if (rc == 0) rc = profile_join(p, p, &pairs, &n, &e), free(pairs);
    if (rc == 0 && !(both = profile_overlay(p, p, &e))) rc = -(int)e.kind;
    profile_unref(both);
    profile_unref(p);
    profile_builder_unref(b);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    long n = 0;
    for (bool fired = true; fired; n++) { /* a name that cannot be kept leaves the address: no failure then */
        mem_fail_at(n);
        int rc = make_and_ask(NULL);
        fired = mem_failed();
        mem_fail_at(-1);
        assert_true(rc == 0 || (fired && rc == -ERR_NO_MEMORY));
    }
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_stacks_are_one_and_the_heaviest_child_comes_first),
        cmocka_unit_test(nodes_are_in_preorder_and_a_subtree_is_a_range),
        cmocka_unit_test(nothing_makes_a_root_without_samples),
        cmocka_unit_test(room_goes_to_the_heaviest),
        cmocka_unit_test(all_outermost_calls_of_a_method_are_one_root),
        cmocka_unit_test(upside_down_the_callers_hang_below),
        cmocka_unit_test(weight_orders_when_it_is_asked_for),
        cmocka_unit_test(what_finds_no_room_is_the_roots_and_counted),
        cmocka_unit_test(of_a_very_deep_stack_the_leaf_stays),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
