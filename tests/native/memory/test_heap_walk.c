/* SPDX-License-Identifier: MIT */
/* Objects of made-up method tables are sized, counted and followed; what is broken is passed over and said. */
#include "memory/heap_kit.h"

#include <stdatomic.h>

static heap_types *types_of(kit *k, uint64_t free_mt, uint64_t string_mt)
{
    heap_reader r = kit_reader(k);
    err e = {0};
    heap_types *ty = heap_types_new(&r, free_mt, string_mt, &e);
    assert_non_null(ty);
    return ty;
}

static heap_sum sum_of(heap_types *ty, uint64_t mt)
{
    uint32_t at = heap_types_of(ty, mt);
    assert_int_not_equal(at, GRAPH_NONE);
    return heap_type_sum(heap_type_at(ty, at));
}

static void each_shape_has_its_size_and_counts_for_its_generation(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t plain = kit_type(k, KIT_CLASS, 40, 0, 0, NULL), empty = kit_type(k, KIT_CLASS, 16, 0, 0, NULL);
    uint64_t text = kit_type(k, KIT_STRING, 22, 2, 0, NULL), bytes = kit_type(k, KIT_ARRAY, 24, 1, 0, NULL);
    uint64_t gap = kit_type(k, KIT_ARRAY, 24, 1, 0, NULL);
    for (int i = 0; i < 3; i++)
        kit_object(k, plain, 40, 0, 0);
    kit_object(k, empty, 16, 0, 0);
    kit_object(k, text, 22, 2, 5);
    kit_object(k, gap, 24, 1, 1000);
    kit_object(k, bytes, 24, 1, 3);
    heap_types *ty = types_of(k, gap, text);
    heap_region r = kit_region(k, HEAP_GEN1);
    err e = {0};
    assert_int_equal(heap_walk_stats(ty, &r, 1, NULL, 0, 1, &e), 0);
    assert_int_equal(heap_types_count(ty), 5);
    assert_int_equal(sum_of(ty, plain).count, 3);
    assert_int_equal(sum_of(ty, plain).bytes, 120);
    assert_int_equal(sum_of(ty, empty).bytes, 24); /* the least that there is */
    assert_int_equal(sum_of(ty, text).bytes, 32);
    assert_int_equal(sum_of(ty, bytes).bytes, 27); /* not rounded up */
    const heap_type *t = heap_type_at(ty, heap_types_of(ty, text));
    assert_int_equal(t->by_gen[HEAP_GEN1].count, 1);
    assert_int_equal(t->by_gen[HEAP_GEN0].count, 0);
    assert_true(t->flags & HEAP_TYPE_STRING);
    assert_int_equal(r.objects, 7);
    assert_int_equal(r.free_objects, 1);
    assert_int_equal(r.free_bytes, 1024);
    assert_int_equal(r.largest_free, 1024);
    assert_int_equal(r.corrupt_places, 0);
    heap_types_free(ty);
    kit_free(k);
}

static void mark_bits_in_the_first_word_are_no_part_of_the_type(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t plain = kit_type(k, KIT_CLASS, 24, 0, 0, NULL);
    for (unsigned bits = 0; bits < 8; bits++)
        kit_object(k, plain | bits, 24, 0, 0);
    heap_types *ty = types_of(k, 0, 0);
    heap_region r = kit_region(k, HEAP_GEN2);
    err e = {0};
    assert_int_equal(heap_walk_stats(ty, &r, 1, NULL, 0, 1, &e), 0);
    assert_int_equal(sum_of(ty, plain).count, 8);
    heap_types_free(ty);
    kit_free(k);
}

static void what_a_thread_may_still_allocate_into_is_jumped_over(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t plain = kit_type(k, KIT_CLASS, 32, 0, 0, NULL);
    kit_object(k, plain, 32, 0, 0);
    heap_context c[2];
    c[0].pointer = KIT_HEAP + k->next_object;
    kit_skip(k, 800);
    c[0].limit = KIT_HEAP + k->next_object - 24;
    kit_object(k, plain, 32, 0, 0);
    c[1].pointer = KIT_HEAP + k->next_object; /* at the very end, and empty */
    c[1].limit = c[1].pointer;
    heap_types *ty = types_of(k, 0, 0);
    heap_region r = kit_region(k, HEAP_GEN0);
    err e = {0};
    assert_int_equal(heap_walk_stats(ty, &r, 1, c, 2, 1, &e), 0);
    assert_int_equal(sum_of(ty, plain).count, 2);
    assert_int_equal(r.corrupt_places, 0);
    heap_types_free(ty);
    kit_free(k);
}

static void a_context_that_leads_out_of_the_region_ends_it(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t plain = kit_type(k, KIT_CLASS, 32, 0, 0, NULL);
    kit_object(k, plain, 32, 0, 0);
    heap_context c = {.pointer = KIT_HEAP + k->next_object, .limit = UINT64_MAX - 40};
    kit_object(k, plain, 32, 0, 0);
    heap_types *ty = types_of(k, 0, 0);
    heap_region r = kit_region(k, HEAP_GEN0);
    err e = {0};
    assert_int_equal(heap_walk_stats(ty, &r, 1, &c, 1, 1, &e), 0);
    assert_int_equal(sum_of(ty, plain).count, 1);
    heap_types_free(ty);
    kit_free(k);
}

static void zeros_up_to_the_end_are_no_objects_and_no_damage(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t plain = kit_type(k, KIT_CLASS, 32, 0, 0, NULL);
    kit_object(k, plain, 32, 0, 0);
    kit_skip(k, 4096);
    heap_types *ty = types_of(k, 0, 0);
    heap_region r = kit_region(k, HEAP_GEN0);
    err e = {0};
    assert_int_equal(heap_walk_stats(ty, &r, 1, NULL, 0, 1, &e), 0);
    assert_int_equal(r.objects, 1);
    assert_int_equal(r.corrupt_places, 0);
    heap_types_free(ty);
    kit_free(k);
}

static void damage_is_passed_over_and_said(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t plain = kit_type(k, KIT_CLASS, 32, 0, 0, NULL), bytes = kit_type(k, KIT_ARRAY, 24, 1, 0, NULL);
    for (int i = 0; i < 10; i++)
        kit_object(k, plain, 32, 0, 0);
    uint64_t broken = kit_object(k, plain, 32, 0, 0), longer = 0;
    for (int i = 0; i < 10; i++)
        kit_object(k, plain, 32, 0, 0);
    longer = kit_object(k, bytes, 24, 1, 8);
    for (int i = 0; i < 10; i++)
        kit_object(k, plain, 32, 0, 0);
    kit_word(k, broken, 0xdeadbeefdead0008);
    kit_word(k, longer + 8, 0xffffff00); /* a length past the end of the region */
    heap_types *ty = types_of(k, 0, 0);
    heap_region r = kit_region(k, HEAP_GEN2);
    err e = {0};
    assert_int_equal(heap_walk_stats(ty, &r, 1, NULL, 0, 1, &e), 0);
    assert_int_equal(sum_of(ty, plain).count, 30);
    assert_int_equal(r.corrupt_places, 2);
    assert_int_equal(r.corrupt_bytes, 64);
    assert_int_equal(r.corrupt_at, broken);
    heap_types_free(ty);
    kit_free(k);
}

typedef struct seen {
    uint64_t target[64];
    uint32_t offset[64];
    unsigned n;
} seen;

static void see(void *arg, uint64_t target, uint32_t offset)
{
    seen *s = arg;
    assert_in_range(s->n, 0, 63);
    s->target[s->n] = target;
    s->offset[s->n++] = offset;
}

static seen refs_of(kit *k, heap_types *ty, uint64_t mt, uint64_t object, uint64_t size)
{
    seen s = {0};
    uint32_t at = heap_types_of(ty, mt);
    assert_int_not_equal(at, GRAPH_NONE);
    heap_refs(ty, heap_type_at(ty, at), k->heap + (object - KIT_HEAP), size, see, &s);
    return s;
}

static void a_class_has_its_references_where_its_descriptor_says(void **state)
{
    (void)state;
    kit *k = kit_new();
    /* 48 bytes: two references at 8, one at 32; a number between. seriesSize is less by the base size */
    uint64_t mt = kit_type(k, KIT_POINTERS, 48, 0, 2, (int64_t[]){8 - 48, 32, 16 - 48, 8});
    uint64_t o = kit_object(k, mt, 48, 0, 0);
    kit_word(k, o + 8, 0x1000);
    kit_word(k, o + 16, 0);
    kit_word(k, o + 24, 0x9999);
    kit_word(k, o + 32, 0x2000);
    heap_types *ty = types_of(k, 0, 0);
    seen s = refs_of(k, ty, mt, o, 48);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.target[0] + s.target[1], 0x3000);
    heap_types_free(ty);
    kit_free(k);
}

static void an_array_of_references_is_followed_to_its_end(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t mt = kit_type(k, KIT_ARRAY | KIT_POINTERS, 24, 8, 1, (int64_t[]){-24, 16});
    uint64_t o = kit_object(k, mt, 24, 8, 5);
    for (int i = 0; i < 5; i++)
        kit_word(k, o + 16 + 8 * (unsigned)i, 0x1000u + (unsigned)i);
    kit_word(k, o + 56, 0x7777); /* the next object's header */
    heap_types *ty = types_of(k, 0, 0);
    seen s = refs_of(k, ty, mt, o, 64);
    assert_int_equal(s.n, 5);
    assert_int_equal(s.target[4], 0x1004);
    assert_int_equal(s.offset[4], 48);
    seen none = refs_of(k, ty, mt, kit_object(k, mt, 24, 8, 0), 24);
    assert_int_equal(none.n, 0);
    heap_types_free(ty);
    kit_free(k);
}

static void an_array_of_values_repeats_its_items(void **state)
{
    (void)state;
    kit *k = kit_new();
    /* elements of 32 bytes: two references, 8 bytes, one reference */
    uint64_t mt = kit_type(k, KIT_ARRAY | KIT_POINTERS, 24, 32, -2, (int64_t[]){16, 2, 8, 1, 0});
    uint64_t o = kit_object(k, mt, 24, 32, 3);
    for (unsigned i = 0; i < 12; i++)
        kit_word(k, o + 16 + 8 * i, 0x1000u + i);
    heap_types *ty = types_of(k, 0, 0);
    seen s = refs_of(k, ty, mt, o, 24 + 96);
    assert_int_equal(s.n, 9);
    for (unsigned i = 0; i < s.n; i++)
        assert_int_not_equal((s.target[i] - 0x1000) % 4, 2);
    heap_types_free(ty);
    kit_free(k);
}

static void a_descriptor_that_makes_no_sense_makes_no_type(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t huge = kit_type(k, KIT_POINTERS, 48, 0, 1, (int64_t[]){8 - 48, 1 << 30});
    uint64_t odd = kit_type(k, KIT_POINTERS, 48, 0, 1, (int64_t[]){8 - 48, 12});
    uint64_t small = kit_type(k, KIT_CLASS, 8, 0, 0, NULL), interface = kit_type(k, 0x000C0000, 24, 0, 0, NULL);
    heap_types *ty = types_of(k, 0, 0);
    const uint64_t wrong[] = {huge, odd, small, interface, 0, 8, KIT_TYPES + KIT_SIZE, huge + 4};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(heap_types_of(ty, wrong[i]), GRAPH_NONE);
    unsigned looked = k->looked; /* a verdict is kept */
    assert_int_equal(heap_types_of(ty, huge), GRAPH_NONE);
    assert_int_equal(k->looked, looked);
    heap_types_free(ty);
    kit_free(k);
}

static void a_graph_has_the_objects_and_what_they_refer_to(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t node = kit_type(k, KIT_POINTERS, 32, 0, 1, (int64_t[]){16 - 32, 8}),
             gap = kit_type(k, KIT_ARRAY, 24, 1, 0, NULL);
    uint64_t a = kit_object(k, node, 32, 0, 0), free_room = kit_object(k, gap, 24, 1, 100),
             c = kit_object(k, node, 32, 0, 0);
    kit_word(k, a + 8, c);
    kit_word(k, c + 8, c);
    kit_word(k, c + 16, a);
    heap_types *ty = types_of(k, gap, 0);
    heap_region r = kit_region(k, HEAP_GEN2);
    err e = {0};
    graph_builder *b = graph_builder_new(NULL, &e);
    assert_int_equal(heap_walk_graph(ty, &r, 1, NULL, 0, b, NULL, NULL, &e), 0);
    graph *g = graph_seal(b, &e);
    assert_non_null(g);
    assert_int_equal(graph_info_of(g)->nodes, 2);
    assert_int_equal(graph_info_of(g)->edges, 3);
    assert_int_equal(graph_info_of(g)->bytes, 64);
    assert_int_equal(graph_find(g, free_room, false), GRAPH_NONE);
    uint32_t n = 0;
    const uint32_t *to = graph_targets(g, graph_find(g, a, false), &n);
    assert_int_equal(n, 1);
    assert_int_equal(to[0], graph_find(g, c, false));
    graph_unref(g);
    graph_builder_free(b);
    heap_types_free(ty);
    kit_free(k);
}

static void several_threads_count_what_one_counts(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t mt[50];
    for (unsigned i = 0; i < 50; i++)
        mt[i] = kit_type(k, KIT_CLASS, 24 + 8 * i, 0, 0, NULL);
    heap_region r[40];
    for (unsigned i = 0; i < 40; i++) {
        uint64_t from = k->next_object;
        for (unsigned j = 0; j < 80; j++)
            kit_object(k, mt[(i * j) % 50], 24 + 8 * ((i * j) % 50), 0, 0);
        r[i] = (heap_region){.start = KIT_HEAP + from,
                             .end = KIT_HEAP + k->next_object,
                             .gen = (heap_gen)(i % 3),
                             .bytes = k->heap + from,
                             .held = k->next_object - from};
    }
    heap_types *one = types_of(k, 0, 0), *four = types_of(k, 0, 0);
    err e = {0};
    assert_int_equal(heap_walk_stats(one, r, 40, NULL, 0, 1, &e), 0);
    assert_int_equal(heap_walk_stats(four, r, 40, NULL, 0, 4, &e), 0);
    uint64_t all = 0;
    for (unsigned i = 0; i < 50; i++) {
        const heap_type *x = heap_type_at(one, heap_types_of(one, mt[i])),
                        *y = heap_type_at(four, heap_types_of(four, mt[i]));
        for (int g = 0; g < HEAP_GEN_COUNT; g++) {
            assert_int_equal(x->by_gen[g].count, y->by_gen[g].count);
            assert_int_equal(x->by_gen[g].bytes, y->by_gen[g].bytes);
            all += x->by_gen[g].count;
        }
    }
    assert_int_equal(all, 40 * 80);
    heap_types_free(one);
    heap_types_free(four);
    kit_free(k);
}

typedef struct file {
    kit *k;
    uint64_t size; /* bytes that can be fetched */
    atomic_uint fetches;
} file;

static size_t fetch_of_file(void *arg, uint64_t address, void *to, size_t n)
{
    file *f = ((kit *)arg)->file;
    f->fetches++;
    uint64_t at = address - KIT_HEAP, have = at < f->size ? f->size - at : 0;
    if (n > have) n = (size_t)have;
    memcpy(to, f->k->heap + at, n);
    return n;
}

/* Objects of every shape, smaller and larger than what is fetched at once, with damage and room between them. */
static heap_context fill(kit *k)
{
    uint64_t plain = kit_type(k, KIT_CLASS, 40, 0, 0, NULL), text = kit_type(k, KIT_STRING, 22, 2, 0, NULL),
             bytes = kit_type(k, KIT_ARRAY, 24, 1, 0, NULL);
    heap_context c = {0};
    for (uint32_t i = 0; i < 5000; i++) {
        kit_object(k, plain, 40, 0, 0);
        kit_object(k, text, 22, 2, i % 31);
        if (i % 2000 == 1999) kit_object(k, bytes, 24, 1, i * 40); /* 80 and 160 thousand bytes */
        if (i == 2500) kit_word(k, kit_object(k, plain, 40, 0, 0), 0xdeadbeefdead0008);
        if (i != 3000) continue;
        c.pointer = KIT_HEAP + k->next_object;
        kit_skip(k, 8192);
        c.limit = KIT_HEAP + k->next_object - HEAP_MIN_OBJECT;
    }
    kit_skip(k, 12000);
    assert_in_range(k->next_object, 700000, KIT_SIZE);
    return c;
}

static void what_is_fetched_piece_by_piece_counts_as_what_lies_in_memory(void **state)
{
    (void)state;
    kit *k = kit_new();
    heap_context c = fill(k);
    file f = {.k = k, .size = k->next_object};
    k->file = &f;
    for (uint64_t less = 0; less < 40; less += 4) { /* also where the end is in the middle of something */
        heap_reader with = kit_reader(k), without = kit_reader(k);
        with.fetch = fetch_of_file;
        err e = {0};
        heap_types *one = heap_types_new(&without, 0, 0, &e), *two = heap_types_new(&with, 0, 0, &e);
        heap_region there = kit_region(k, HEAP_GEN2), file_region = there;
        there.held = file_region.held = k->next_object - less * 1000;
        bool is_file = less % 8 == 0;                            /* or a process that stands */
        file_region.bytes = is_file ? (const uint8_t *)1 : NULL; /* never looked at */
        file_region.is_file = is_file;
        assert_int_equal(heap_walk_stats(one, &there, 1, &c, 1, 1, &e), 0);
        assert_int_equal(heap_walk_stats(two, &file_region, 1, &c, 1, 1, &e), 0);
        assert_in_range(there.objects, 9000, 10002);
        assert_in_range(there.corrupt_places, 1, 2); /* the damage, and what the end cuts */
        file_region.bytes = there.bytes;
        file_region.is_file = false;
        assert_memory_equal(&there, &file_region, sizeof there);
        assert_int_equal(heap_types_count(one), heap_types_count(two));
        for (size_t i = 0; i < heap_types_count(one); i++)
            assert_memory_equal(heap_type_at(one, i)->by_gen, heap_type_at(two, i)->by_gen,
                                sizeof heap_type_at(one, i)->by_gen);
        heap_types_free(one);
        heap_types_free(two);
    }
    assert_in_range(f.fetches, 50, 500); /* of 700 KB, ten times */
    kit_free(k);
}

static void a_file_that_became_shorter_ends_the_objects_and_is_said(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t plain = kit_type(k, KIT_CLASS, 32, 0, 0, NULL);
    for (int i = 0; i < 1000; i++)
        kit_object(k, plain, 32, 0, 0);
    file f = {.k = k, .size = 3200};
    k->file = &f;
    heap_reader with = kit_reader(k);
    with.fetch = fetch_of_file;
    err e = {0};
    heap_types *ty = heap_types_new(&with, 0, 0, &e);
    heap_region r = kit_region(k, HEAP_GEN2);
    r.is_file = true;
    assert_int_equal(heap_walk_stats(ty, &r, 1, NULL, 0, 1, &e), 0);
    assert_int_equal(r.objects, 100);
    assert_int_equal(r.unread_bytes, 32000 - 3200);
    assert_int_equal(r.corrupt_places, 0);
    heap_types_free(ty);
    kit_free(k);
}

static int walk_with_faults(void *arg)
{
    kit *k = arg;
    heap_reader reader = kit_reader(k);
    err e = {0};
    heap_types *ty = heap_types_new(&reader, 0, 0, &e);
    int rc = ty ? 0 : -ERR_NO_MEMORY;
    heap_region r = kit_region(k, HEAP_GEN2);
    if (ty) rc = heap_walk_stats(ty, &r, 1, NULL, 0, 1, &e);
    /* a type that could not be kept is no type: then the walk says damage instead */
    if (rc == 0 && mem_failed()) {
        assert_int_not_equal(r.corrupt_places, 0);
        rc = -ERR_NO_MEMORY;
    }
    heap_types_free(ty);
    return rc;
}

static void memory_that_runs_out_is_said(void **state)
{
    (void)state;
    kit *k = kit_new();
    uint64_t node = kit_type(k, KIT_POINTERS, 32, 0, 1, (int64_t[]){16 - 32, 8});
    kit_object(k, node, 32, 0, 0);
    assert_true(each_allocation_fails(walk_with_faults, k) > 4);
    kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_shape_has_its_size_and_counts_for_its_generation),
        cmocka_unit_test(mark_bits_in_the_first_word_are_no_part_of_the_type),
        cmocka_unit_test(what_a_thread_may_still_allocate_into_is_jumped_over),
        cmocka_unit_test(a_context_that_leads_out_of_the_region_ends_it),
        cmocka_unit_test(zeros_up_to_the_end_are_no_objects_and_no_damage),
        cmocka_unit_test(damage_is_passed_over_and_said),
        cmocka_unit_test(a_class_has_its_references_where_its_descriptor_says),
        cmocka_unit_test(an_array_of_references_is_followed_to_its_end),
        cmocka_unit_test(an_array_of_values_repeats_its_items),
        cmocka_unit_test(a_descriptor_that_makes_no_sense_makes_no_type),
        cmocka_unit_test(a_graph_has_the_objects_and_what_they_refer_to),
        cmocka_unit_test(several_threads_count_what_one_counts),
        cmocka_unit_test(what_is_fetched_piece_by_piece_counts_as_what_lies_in_memory),
        cmocka_unit_test(a_file_that_became_shorter_ends_the_objects_and_is_said),
        cmocka_unit_test(memory_that_runs_out_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
