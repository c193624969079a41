/* SPDX-License-Identifier: MIT */
/* test_rows.c: ranked lists, the hot path, callers and callees, states and waits, and two profiles beside each other.
 */
#include "kit.h"

static const profile_cfg cpu = {.kind = PROFILE_CPU};

/* As in test_tree.c, with modules. */
static profile *example(void)
{
    profile_builder *b = kit_builder(&cpu);
    kit_stack(b, "Main>A>lib!C", 6);
    kit_stack(b, "Main>A", 2);
    kit_stack(b, "Main>B", 3);
    kit_stack(b, "Main>A>A>lib!C", 4);
    kit_stack(b, "Main>A>B", 1);
    kit_stack(b, "Main", 1);
    kit_stack(b, "Other>lib!C", 2);
    kit_stack(b, "", 1);
    return kit_build(b);
}

static char *top(const profile *p, profile_rank rank, uint32_t max)
{
    profile_rows r;
    assert_int_equal(profile_top(p, rank, max, &r, NULL), 0);
    return kit_rows(p, &r);
}

static void a_method_that_is_on_a_stack_twice_counts_once(void **state)
{
    (void)state;
    profile *p = example();
    assert_text(top(p, PROFILE_BY_EXCLUSIVE, 10), "C 12/12, B 4/4, A 13/2, Main 17/1, Other 2/0");
    assert_text(top(p, PROFILE_BY_INCLUSIVE, 10), "Main 17/1, A 13/2, C 12/12, B 4/4, Other 2/0");
    assert_text(top(p, PROFILE_BY_RUNNING, 2), "C 12/12, B 4/4 of 5"); /* no states: by exclusive */
    assert_text(top(p, PROFILE_BY_EXCLUSIVE, 0), " of 5");
    profile_unref(p);
}

static void modules_and_namespaces_are_groups_of_methods(void **state)
{
    (void)state;
    profile *p = example();
    profile_rows r;
    assert_int_equal(profile_by_module(p, PROFILE_BY_EXCLUSIVE, 10, &r, NULL), 0);
    assert_int_equal(r.n, 2);
    assert_slice_str(profile_group_at(p, r.rows[0].key), "lib");
    assert_int_equal(r.rows[0].counts.exclusive, 12);
    assert_int_equal(r.rows[0].counts.inclusive, 12);
    assert_slice_str(profile_group_at(p, r.rows[1].key), "app");
    assert_int_equal(r.rows[1].counts.exclusive, 7);
    assert_int_equal(r.rows[1].counts.inclusive, 19);
    free(r.rows);
    assert_int_equal(profile_by_namespace(p, PROFILE_BY_EXCLUSIVE, 10, &r, NULL), 0);
    assert_int_equal(r.n, 1); /* names of others tell none; the root is in no group */
    assert_slice_str(profile_namespace_at(p, r.rows[0].key), "");
    assert_int_equal(r.rows[0].counts.inclusive, 19);
    free(r.rows);
    profile_unref(p);
}

static char *hot(const profile *p, double threshold)
{
    profile_rows r;
    assert_int_equal(profile_hot_path(p, threshold, &r, NULL), 0);
    for (uint32_t i = 0; i < r.n; i++)
        r.rows[i].key = profile_node_at(p, r.rows[i].key).frame;
    return kit_rows(p, &r);
}

static void the_hot_path_ends_where_the_heaviest_child_is_too_light(void **state)
{
    (void)state;
    profile *p = example();
    /* 17 of 20 is 85 %, 13 of 17 is 76 %, 6 of 13 is 46 % */
    assert_text(hot(p, 100), "");
    assert_text(hot(p, 85), "Main 17/1");
    assert_text(hot(p, 85.1), "");
    assert_text(hot(p, 50), "Main 17/1, A 13/2");
    assert_text(hot(p, 46), "Main 17/1, A 13/2, C 6/6");
    assert_text(hot(p, 0.001), "Main 17/1, A 13/2, C 6/6");
    profile_unref(p);
}

static char *edges(const profile *p, const char *method, bool callers)
{
    profile_edges x;
    assert_int_equal(profile_edges_of(p, kit_frame(p, method), 10, &x, NULL), 0);
    char *text = kit_rows(p, callers ? &x.callers : &x.callees);
    if (callers)
        x.callers.rows = NULL;
    else
        x.callees.rows = NULL;
    profile_edges_fini(&x);
    return text;
}

static void a_sample_counts_once_for_an_edge(void **state)
{
    (void)state;
    profile *p = example();
    assert_text(edges(p, "A", true), "Main 13/2, A 4/0");
    assert_text(edges(p, "A", false), "C 10/10, A 4/0, B 1/1");
    assert_text(edges(p, "Main", true), "<root> 17/1"); /* an entry */
    assert_text(edges(p, "C", true), "A 10/10, Other 2/2");
    assert_text(edges(p, "C", false), "");
    assert_text(edges(p, "B", true), "Main 3/3, A 1/1");
    profile_edges x;
    err e = {0};
    assert_int_equal(profile_edges_of(p, 0, 10, &x, &e), -ERR_NOT_FOUND);
    e = (err){0};
    assert_int_equal(profile_edges_of(p, 99, 10, &x, &e), -ERR_NOT_FOUND);
    profile_unref(p);
}

static void an_edge_inside_itself_counts_once(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&cpu);
    kit_stack(b, "A>B>A>B", 3);
    kit_stack(b, "A>B", 2);
    profile *p = kit_build(b);
    assert_text(edges(p, "A", false), "B 5/5");
    assert_text(edges(p, "B", true), "A 5/5");
    assert_text(edges(p, "A", true), "<root> 5/0, B 3/0");
    profile_unref(p);
}

static char *match(const profile *p, const char *text)
{
    profile_rows r;
    assert_int_equal(profile_match(p, slice_str(text), 10, &r, NULL), 0);
    return kit_rows(p, &r);
}

static void methods_are_found_by_a_part_of_their_name(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&cpu);
    kit_stack(b, "Main>Shop.Cart.Add>Shop.Cart.Total", 3);
    kit_stack(b, "Main>shop.Cart.Drop>lib!Shop.Cart.Total", 1);
    profile *p = kit_build(b);
    assert_text(match(p, "Shop.Cart"), "Shop.Cart.Total 3/3, Shop.Cart.Add 3/0, Shop.Cart.Total 1/1");
    assert_text(match(p, "DROP"), "shop.Cart.Drop 1/0"); /* nothing fits as written: case does not matter */
    assert_text(match(p, "lib!Shop.Cart.Total"), "Shop.Cart.Total 1/1");
    assert_text(match(p, "LIB!shop"), "Shop.Cart.Total 1/1");
    assert_text(match(p, "Nothing"), "");
    assert_text(match(p, ""), "");
    assert_text(match(p, "root"), "");
    profile_unref(p);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void told_states_come_out_as_told(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&cpu);
    assert_true(kit_add(b, "Main>Work", 8, 1, PROFILE_RUNNING, 0));
    assert_true(kit_add(b, "Main>Work", 2, 2, PROFILE_WAITING, 0));
    assert_true(kit_add(b, "Main>Idle>(kernel)futex", 5, 2, PROFILE_WAITING, 0));
    assert_true(kit_add(b, "Main>Other", 9, 2, PROFILE_UNKNOWN, 0));
    profile *p = kit_build(b);
    const profile_info *i = profile_info_of(p);
    assert_true(i->states);
    assert_int_equal(i->running, 8);
    assert_int_equal(i->waiting, 7);
    profile_counts c = profile_frame_at(p, kit_frame(p, "Work"))->counts;
    assert_int_equal(c.exclusive, 10);
    assert_int_equal(c.running, 8);
    assert_int_equal(c.waiting, 2);
    assert_int_equal(profile_frame_at(p, kit_frame(p, "futex"))->kind, PROFILE_FRAME_KERNEL);
    assert_int_equal(profile_frame_at(p, kit_frame(p, "Work"))->kind, PROFILE_FRAME_NATIVE);
    assert_text(top(p, PROFILE_BY_RUNNING, 2), "Work 10/10, Main 24/0 of 5");
    assert_int_equal(profile_threads(p), 2);
    assert_int_equal(profile_thread_at(p, 0)->thread, 2);
    assert_int_equal(profile_thread_at(p, 0)->counts.inclusive, 16);
    assert_int_equal(profile_thread_at(p, 0)->counts.waiting, 7);
    assert_int_equal(profile_thread_at(p, 1)->counts.running, 8);
    profile_unref(p);
}

static void a_leaf_with_the_name_of_a_wait_waits(void **state)
{
    (void)state;
    static const profile_wait waits[] = {{"T.Monitor.Wait", "Monitor.Wait"},
                                         {"T.Monitor.*", "Monitor"},
                                         {"T.WaitHandle.WaitOne", "WaitHandle"},
                                         {"T.WaitHandle.WaitAny", "WaitHandle"}};
    profile_builder *b = kit_builder(&(profile_cfg){.kind = PROFILE_CPU, .waits = waits, .n_waits = 4});
    kit_stack(b, "Main>T.Monitor.Wait(object,int32)", 5);
    kit_stack(b, "Main>T.Monitor.Enter(object)", 4);
    kit_stack(b, "Main>T.WaitHandle.WaitOne()", 3);
    kit_stack(b, "Main>T.WaitHandle.WaitAny()", 2);
    kit_stack(b, "Main>T.WaitHandle.WaitOneMore()", 7);
    kit_stack(b, "Main>T.Monitor.Wait(object,int32)>Inside", 6);                       /* only as a leaf */
    assert_true(kit_add(b, "Main>T.Monitor.Enter(object)", 1, 1, PROFILE_RUNNING, 0)); /* what is told counts */
    profile *p = kit_build(b);
    const profile_info *i = profile_info_of(p);
    assert_int_equal(i->samples, 28);
    assert_int_equal(i->waiting, 14);
    assert_int_equal(i->running, 1);
    const profile_frame *wait = profile_frame_at(p, kit_frame(p, "T.Monitor.Wait(object,int32)"));
    assert_string_equal(profile_wait_reason(p, wait->wait), "Monitor.Wait");
    assert_int_equal(wait->counts.waiting, 5);
    assert_int_equal(wait->counts.inclusive, 11);
    const profile_frame *enter = profile_frame_at(p, kit_frame(p, "T.Monitor.Enter(object)"));
    assert_string_equal(profile_wait_reason(p, enter->wait), "Monitor");
    assert_int_equal(enter->counts.waiting, 4);
    assert_int_equal(enter->counts.running, 1);
    int32_t one = profile_frame_at(p, kit_frame(p, "T.WaitHandle.WaitOne()"))->wait;
    assert_int_equal(one, profile_frame_at(p, kit_frame(p, "T.WaitHandle.WaitAny()"))->wait); /* one reason */
    assert_int_equal(profile_frame_at(p, kit_frame(p, "T.WaitHandle.WaitOneMore()"))->wait, -1);
    assert_null(profile_wait_reason(p, -1));
    profile_unref(p);
    err e = {0};
    assert_null(profile_builder_new(&(profile_cfg){.waits = waits, .n_waits = PROFILE_WAITS_MAX + 1}, &e));
    assert_int_equal(e.kind, ERR_LIMIT);
}

/* ---- two profiles ------------------------------------------------------------------------------------------------ */

static void methods_of_two_profiles_are_joined_by_name(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&cpu), *a = kit_builder(&cpu);
    kit_stack(b, "Main>Old", 3);
    kit_stack(b, "Main>Both", 4);
    kit_stack(b, "Main>x!Both", 1);
    kit_stack(a, "Main>New", 2);
    kit_stack(a, "Main>Both", 6);
    profile *before = kit_build(b), *after = kit_build(a);
    profile_pair *pairs;
    uint32_t n;
    assert_int_equal(profile_join(before, after, &pairs, &n, NULL), 0);
    assert_int_equal(n, 5);
    unsigned met = 0;
    for (uint32_t i = 0; i < n; i++) {
        const profile_frame *was = pairs[i].before != UINT32_MAX ? profile_frame_at(before, pairs[i].before) : NULL;
        const profile_frame *is = pairs[i].after != UINT32_MAX ? profile_frame_at(after, pairs[i].after) : NULL;
        slice name = (is ? is : was)->method, module = (is ? is : was)->module;
        if (slice_eq_str(name, "Main") && was->counts.inclusive == 8 && is->counts.inclusive == 8) met |= 1;
        if (slice_eq_str(name, "Old") && !is && was->counts.exclusive == 3) met |= 2;
        if (slice_eq_str(name, "New") && !was && is->counts.exclusive == 2) met |= 4;
        if (slice_eq_str(module, "app") && was && is && was->counts.exclusive == 4 && is->counts.exclusive == 6)
            met |= 8;
        if (slice_eq_str(module, "x") && !is && was->counts.exclusive == 1) met |= 16;
    }
    assert_int_equal(met, 31);
    free(pairs);
    profile_unref(before);
    profile_unref(after);
}

static void both_trees_lie_over_each_other(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&cpu), *a = kit_builder(&cpu);
    kit_stack(b, "Main>Old>Leaf", 9);
    kit_stack(b, "Main>Both", 4);
    kit_stack(a, "Main>Both", 6);
    kit_stack(a, "Main>Both>New", 2);
    profile *before = kit_build(b), *after = kit_build(a);
    profile *p = profile_overlay(before, after, NULL);
    profile_unref(before); /* it needs neither */
    profile_unref(after);
    assert_true(profile_has_before(p));
    assert_text(kit_tree(p), "<root> 8/0 (Main 8/0 (Both 8/6 (New 2/2), Old 0/0 (Leaf 0/0)))");
    static const struct {
        const char *method;
        int64_t inclusive, exclusive;
    } was[] = {{"<root>", 13, 0}, {"Main", 13, 0}, {"Both", 4, 4}, {"New", 0, 0}, {"Old", 9, 0}, {"Leaf", 9, 9}};
    assert_int_equal(profile_nodes(p), 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_slice_str(profile_frame_at(p, profile_node_at(p, i).frame)->method, was[i].method);
        assert_int_equal(profile_node_before(p, i).inclusive, was[i].inclusive);
        assert_int_equal(profile_node_before(p, i).exclusive, was[i].exclusive);
    }
    assert_text(top(p, PROFILE_BY_EXCLUSIVE, 10), "Both 8/6, New 2/2, Main 8/0");
    profile_rows r;
    assert_int_equal(profile_by_module(p, PROFILE_BY_EXCLUSIVE, 10, &r, NULL), 0);
    assert_int_equal(r.n, 1);
    free(r.rows);
    profile_unref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_method_that_is_on_a_stack_twice_counts_once),
        cmocka_unit_test(modules_and_namespaces_are_groups_of_methods),
        cmocka_unit_test(the_hot_path_ends_where_the_heaviest_child_is_too_light),
        cmocka_unit_test(a_sample_counts_once_for_an_edge),
        cmocka_unit_test(an_edge_inside_itself_counts_once),
        cmocka_unit_test(methods_are_found_by_a_part_of_their_name),
        cmocka_unit_test(told_states_come_out_as_told),
        cmocka_unit_test(a_leaf_with_the_name_of_a_wait_waits),
        cmocka_unit_test(methods_of_two_profiles_are_joined_by_name),
        cmocka_unit_test(both_trees_lie_over_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
