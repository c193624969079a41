/* SPDX-License-Identifier: MIT */
/* test_recordings.c: profiles of recordings of the test target, whose README says what it did. */
#include "kit.h"

#include "clr/clr.h"

typedef struct reading {
    profile_builder *b;
    nt_reader *r;
} reading;

static int on_kind(void *arg, nt_kind *k)
{
    nt_tap *t = profile_builder_tap(((reading *)arg)->b);
    k->user = t->ops->kind(t, k);
    k->muted = !k->user;
    return 0;
}

static int on_event(void *arg, const nt_event *ev)
{
    reading *x = arg;
    nt_tap *t = profile_builder_tap(x->b);
    t->ops->event(t, ev->kind->user, x->r, ev);
    return 0;
}

static profile *read_profile(const char *name, const profile_cfg *cfg)
{
    reading x = {.b = kit_builder(cfg)};
    char path[512];
    snprintf(path, sizeof path, "%s/tests/data/recordings/%s", LUNETTE_SOURCE_DIR, name);
    err e = {0};
    nt_options o = nt_options_default();
    o.resolve = clr_resolve;
    x.r = nt_new(&o, &(nt_sink){.kind = on_kind, .event = on_event}, &x, &e);
    assert_non_null(x.r);
    if (nt_read_file(x.r, path, NULL, NULL, &e) < 0) fail_msg("%s: %s", path, e.message);
    nt_tap *t = profile_builder_tap(x.b);
    t->ops->end(t, x.r);
    nt_free(x.r);
    return kit_build(x.b);
}

static const profile_frame *frame(const profile *p, const char *method)
{
    return profile_frame_at(p, kit_frame(p, method));
}

/* Of the thread that worked in turns: how long it had in each method by its own clock (README), in ms. */
static const struct {
    const char *method;
    double ms;
} known[] = {
    {"Loop", 484.804},   {"Recursion", 214.711}, {"GenericValue", 72.569}, {"GenericReference", 73.143},
    {"Lambda", 148.206}, {"Async", 173.068},     {"Linq", 180.014},        {"Regexes", 162.069},
    {"Native", 83.380},
};

static void times_of_hot_methods_are_what_the_target_measured(void **state)
{
    (void)state;
    profile *p = read_profile("cpu.zip", &(profile_cfg){.kind = PROFILE_CPU});
    double all = 0, seen = (double)frame(p, "Lunette.Target.Hot.Turn()")->counts.inclusive_weight;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        all += known[i].ms;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char method[64];
        snprintf(method, sizeof method, "Lunette.Target.Hot.%s(int64)", known[i].method);
        double want = 100 * known[i].ms / all, got = 100 * (double)frame(p, method)->counts.inclusive_weight / seen;
        if (got < want - 3 || got > want + 3) fail_msg("%s: %.1f %%, not %.1f %%", method, got, want);
    }
    profile_unref(p);
}

static void a_capture_of_the_sampler(void **state)
{
    (void)state;
    static const profile_wait waits[] = {{"System.Threading.WaitHandle.*", "WaitHandle"},
                                         {"System.Threading.LowLevelLifoSemaphore.*", "idle"}};
    profile *p = read_profile("cpu.zip", &(profile_cfg){.kind = PROFILE_CPU, .waits = waits, .n_waits = 2});
    const profile_info *i = profile_info_of(p);
    assert_int_equal(i->samples, 5427);
    assert_int_equal(i->managed, 1293);
    assert_int_equal(i->external, 4134);
    assert_int_equal(i->unresolved + i->no_stack + i->dropped + i->cut + i->bad + i->methods_dropped, 0);
    assert_int_equal(i->running, 0);
    assert_int_equal(i->waiting, 3293); /* WaitOneNoCheck 825, of the semaphore 2134 + 334 */
    assert_int_equal(profile_node_at(p, 0).inclusive, 5427);
    assert_int_equal(profile_node_at(p, 0).exclusive, 0);
    assert_int_equal(profile_threads(p), 9);
    const profile_frame *f = frame(p, "Lunette.Target.Hot.TightLoop(int32)");
    assert_int_equal(f->counts.exclusive, 187);
    assert_int_equal(f->token >> 24, 6);
    assert_slice_str(f->module, "lunette-target");
    assert_slice_str(profile_module_at(p, f->module_index)->path, "/opt/demo/net10.0/lunette-target.dll");
    assert_true(profile_module_at(p, f->module_index)->has_pdb);
    assert_slice_str(profile_namespace_at(p, f->namespace_index), "Lunette.Target");
    assert_true(f->n_addresses > 0);
    assert_true(f->addresses[0].il_offset < 64); /* the loop's body */
    assert_true(frame(p, "Lunette.Target.Hot+<WorkAsync>d__25.MoveNext()")->async);
    assert_int_equal(frame(p, "Lunette.Target.Hot.Fibonacci(int32)")->counts.exclusive, 118);
    assert_int_equal(frame(p, "Lunette.Target.Hot.Fibonacci(int32)")->counts.inclusive, 136 - 18);
    assert_int_equal(frame(p, "Lunette.Target.Mixer`1[System.Int64].Mix(!0[],int32)")->counts.exclusive, 46);
    assert_int_equal(frame(p, "Lunette.Target.Mixer`1[System.__Canon].Mix(!0[],int32)")->counts.exclusive, 48);
    profile_unref(p);
}

static void bytes_of_types_and_sites_are_what_the_target_allocated(void **state)
{
    (void)state;
    profile *p = read_profile("sites.zip", &(profile_cfg){.kind = PROFILE_ALLOCATION});
    static const struct {
        const char *type, *site;
        double bytes;
    } wants[] = {{"System.String", "Lunette.Target.Sites.MakeText()", 50022400},
                 {"Order", "Lunette.Target.Sites.MakeOrders()", 25300000},
                 {"System.Int32[]", "Lunette.Target.Sites.MakeNumbers()", 15001600},
                 {"System.Byte[]", "Lunette.Target.Sites.MakeBlob()", 10001200}};
    assert_int_equal(profile_info_of(p)->samples, 904);
    assert_int_equal(profile_info_of(p)->weight, 100987552);
    for (size_t i = 0; i < 4; i++) {
        const profile_type *t = profile_type_at(p, (uint32_t)i); /* most bytes first */
        assert_slice_str(t->name, wants[i].type);
        double of_type = (double)t->bytes / wants[i].bytes,
               of_site = (double)frame(p, wants[i].site)->counts.inclusive_weight / wants[i].bytes;
        if (of_type < 0.93 || of_type > 1.07 || of_site < 0.93 || of_site > 1.07)
            fail_msg("%s: %.2f of its bytes, at its site %.2f", wants[i].type, of_type, of_site);
        assert_int_equal(t->by_kind[i == 3 ? PROFILE_LARGE : PROFILE_SMALL],
                         t->events - (i == 3)); /* one small byte[] */
    }
    profile_unref(p);
}

static void drawn_allocations_stand_for_all(void **state)
{
    (void)state;
    profile *p = read_profile("alloc.nettrace", &(profile_cfg){.kind = PROFILE_ALLOCATION, .sampled = true});
    assert_int_equal(profile_info_of(p)->samples, 481);
    assert_int_equal(frame(p, "Lunette.Target.Allocations.AllocateSmall()")->counts.exclusive, 3);
    assert_int_equal(frame(p, "Lunette.Target.Allocations.AllocateArrays()")->counts.exclusive, 48);
    assert_int_equal(frame(p, "Lunette.Target.Allocations.AllocateLarge()")->counts.exclusive, 426);
    assert_in_range(frame(p, "Lunette.Target.Allocations.AllocateLarge()")->counts.exclusive_weight, 95000000,
                    105000000);
    assert_int_equal(profile_info_of(p)->unresolved, 0);
    profile_unref(p);
}

static void a_recording_without_samples_is_an_empty_tree(void **state)
{
    (void)state;
    profile *p = read_profile("throw.nettrace", &(profile_cfg){.kind = PROFILE_CPU});
    assert_int_equal(profile_info_of(p)->samples, 0);
    assert_int_equal(profile_nodes(p), 1);
    profile_unref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_hot_methods_are_what_the_target_measured),
        cmocka_unit_test(a_capture_of_the_sampler),
        cmocka_unit_test(bytes_of_types_and_sites_are_what_the_target_allocated),
        cmocka_unit_test(drawn_allocations_stand_for_all),
        cmocka_unit_test(a_recording_without_samples_is_an_empty_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
