/* SPDX-License-Identifier: MIT */
/* test_clr.c: the compiled-in manifest: names, layouts, enums, provider GUIDs. */
#include "base/guid.h"
#include "check.h"
#include "clr/clr.h"

static const clr_provider *provider(const char *name)
{
    const clr_provider *p = clr_provider_find(slice_str(name));
    assert_non_null(p);
    return p;
}

static void providers_are_found_by_name_and_guid(void **state)
{
    (void)state;
    uint8_t guid[16];
    char text[37];
    static const struct {
        const char *name, *guid;
    } known[] = {{"Microsoft-Windows-DotNETRuntime", "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"},
                 {"Microsoft-Windows-DotNETRuntimeRundown", "a669021c-c450-4609-a035-5af59af4df18"},
                 {"System.Runtime", "49592c0f-5a05-516d-aa4b-a64e02026c89"},
                 {"Microsoft-Diagnostics-DiagnosticSource", "adb401e1-5296-51f8-c125-5fda75826144"},
                 {"System.Threading.Tasks.TplEventSource", "2e5dba47-a3d2-4d16-8ee0-6671ffdcd7b5"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const clr_provider *p = provider(known[i].name);
        assert_true(clr_provider_guid(slice_str(known[i].name), guid));
        guid_text(guid, text);
        assert_string_equal(text, known[i].guid);
        assert_ptr_equal(clr_provider_by_guid(guid), p);
        assert_string_equal(clr_provider_name(p), known[i].name);
    }
    assert_null(clr_provider_find(slice_str("microsoft-windows-dotnetruntime")));
    assert_null(clr_provider_by_guid((const uint8_t *)"0123456789abcdef"));
    assert_true(clr_provider_dynamic_ids(provider("Microsoft-Extensions-Logging")));
    assert_false(clr_provider_dynamic_ids(provider("System.Net.Http")));
}

static void a_guid_is_made_from_any_name(void **state)
{
    (void)state;
    uint8_t made[16], known[16];
    /* an EventSource's GUID in the manifest must be the one that its name gives, in whatever case */
    assert_true(clr_provider_guid(slice_str("System.Net.Http"), known));
    assert_true(clr_provider_guid(slice_str("SYSTEM.net.http"), made));
    assert_memory_equal(made, known, 16);
    mem_fail_at(0);
    assert_false(clr_provider_guid(slice_str("Some.Other"), made));
    mem_fail_at(-1);
}

static void events_are_found_by_id_and_the_highest_version_that_fits(void **state)
{
    (void)state;
    const clr_provider *p = provider("Microsoft-Windows-DotNETRuntime");
    assert_string_equal(clr_event_name(clr_event_find(p, 1, 2)), "GCStart_V2");
    assert_string_equal(clr_event_name(clr_event_find(p, 1, 1)), "GCStart_V1");
    assert_string_equal(clr_event_name(clr_event_find(p, 1, 99)), "GCStart_V2");
    assert_string_equal(clr_event_display(clr_event_find(p, 1, 2)), "GC/Start");
    assert_int_equal(clr_event_level(clr_event_find(p, 80, 1)), 2);
    assert_true(clr_event_has_stack(clr_event_find(p, 80, 1)));
    assert_int_equal(clr_event_keywords(clr_event_find(p, 10, 4)), 1);
    assert_null(clr_event_find(p, 9999, 0));
    assert_int_equal(clr_keyword(p, slice_str("Contention")), 0x4000);
    assert_int_equal(clr_keyword(p, slice_str("Nonsense")), 0);
}

static void every_layout_compiles_for_both_pointer_sizes(void **state)
{
    (void)state;
    arena a = {0};
    size_t n = 0;
    for (size_t i = 0; i < clr_provider_count(); i++) {
        const clr_provider *p = clr_provider_at(i);
        for (size_t k = 0; k < clr_event_count(p); k++, n++) {
            const clr_event *e = clr_event_at(p, k);
            const nt_schema *wide = clr_event_schema(e, 8, &a), *narrow = clr_event_schema(e, 4, &a);
            if (!wide || !narrow) fail_msg("%s/%s", clr_provider_name(p), clr_event_name(e));
            assert_int_equal(wide->n_flat, narrow->n_flat);
            assert_true(narrow->min_size <= wide->min_size);
            assert_true(clr_event_display(e)[0] != 0);
            if (k) assert_true(clr_event_id(e) >= clr_event_id(clr_event_at(p, k - 1)));
        }
        assert_null(clr_event_at(p, clr_event_count(p)));
    }
    assert_in_range(n, 320, 600);
    assert_null(clr_provider_at(clr_provider_count()));
    arena_free(&a);
}

static void sizes_are_those_seen_live(void **state)
{
    (void)state;
    arena a = {0};
    const clr_provider *p = provider("Microsoft-Windows-DotNETRuntime");
    assert_int_equal(clr_event_schema(clr_event_find(p, 1, 2), 8, &a)->size, 26);
    assert_int_equal(clr_event_schema(clr_event_find(p, 4, 2), 8, &a)->size, 110);
    assert_int_equal(
        clr_event_schema(clr_event_find(provider("Microsoft-DotNETCore-SampleProfiler"), 0, 0), 8, &a)->size, 4);
    static const struct {
        const char *name;
        uint32_t size;
    } dynamic[] = {{"CommittedUsage", 42},
                   {"SizeAdaptationSample", 38},
                   {"SizeAdaptationTuning", 56},
                   {"HeapCountSample", 34},
                   {"HeapCountTuning", 36}};
    for (size_t i = 0; i < sizeof dynamic / sizeof *dynamic; i++)
        assert_int_equal(clr_gc_dynamic_schema(slice_str(dynamic[i].name), &a)->size, dynamic[i].size);
    assert_null(clr_gc_dynamic_schema(slice_str("Nonsense"), &a));
    arena_free(&a);
}

static void enums_have_names_and_flags_add_up(void **state)
{
    (void)state;
    static const struct {
        const char *enums;
        uint64_t value;
        const char *text;
    } values[] = {{"GCReason", 0, "AllocSOH"},   {"GCReason", 1, "Induced"},
                  {"GCType", 1, "BackgroundGC"}, {"GCReason", 9999, NULL},
                  {"NoSuchEnum", 1, NULL},       {NULL, 1, NULL},
                  {"ThreadFlags", 0, "None"},    {"TieredCompilationFlags", 3, NULL}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        buf b;
        buf_init(&b, 0);
        bool named = clr_enum_text(values[i].enums, values[i].value, &b);
        if (values[i].text) {
            assert_true(named);
            if (strcmp(values[i].text, "BackgroundGC") != 0) assert_slice_str(buf_view(&b), values[i].text);
        } else if (values[i].value == 3) { /* two flags: two names */
            assert_true(named);
            assert_non_null(memmem(b.p, b.n, ", ", 2));
        } else {
            assert_false(named);
            assert_int_equal(b.n, 0);
        }
        buf_fini(&b);
    }
    buf b;
    buf_init(&b, 0);
    assert_true(clr_enum_text("ThreadFlags", UINT64_C(1) << 40, &b));
    assert_slice_str(buf_view(&b), "0x10000000000");
    buf_fini(&b);
}

static void resolving_fills_what_the_stream_leaves_out(void **state)
{
    (void)state;
    arena a = {0};
    nt_kind k = {.provider = SLICE_LIT("Microsoft-Windows-DotNETRuntime"), .id = 10, .version = 77, .opcode = -1};
    clr_resolve(NULL, &k, 8, &a);
    assert_slice_str(k.display, "GC/AllocationTick");
    assert_slice_str(k.name, "GCAllocationTick_V4");
    assert_non_null(k.schema);
    assert_int_equal(nt_field_index(k.schema, slice_str("TypeName")), 5);

    k = (nt_kind){.provider = SLICE_LIT("Microsoft-Diagnostics-DiagnosticSource"),
                  .name = SLICE_LIT("Activity1Start"),
                  .id = 99,
                  .display = SLICE_LIT("kept")};
    clr_resolve(NULL, &k, 8, &a); /* 3.x wrote these without fields, under any id */
    assert_int_equal(k.schema->n_flat, 3);
    assert_slice_str(k.display, "kept");

    k = (nt_kind){.provider = SLICE_LIT("Somebody.Else"), .id = 10, .display = SLICE_LIT("kept")};
    clr_resolve(NULL, &k, 8, &a);
    assert_null(k.schema);
    k = (nt_kind){.provider = SLICE_LIT("Microsoft-Windows-DotNETRuntime"),
                  .id = 203,
                  .version = 0}; /* older than any layout known */
    clr_resolve(NULL, &k, 8, &a);
    assert_null(k.schema);
    assert_slice_str(k.display, "GC/Join");
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(providers_are_found_by_name_and_guid),
        cmocka_unit_test(a_guid_is_made_from_any_name),
        cmocka_unit_test(events_are_found_by_id_and_the_highest_version_that_fits),
        cmocka_unit_test(every_layout_compiles_for_both_pointer_sizes),
        cmocka_unit_test(sizes_are_those_seen_live),
        cmocka_unit_test(enums_have_names_and_flags_add_up),
        cmocka_unit_test(resolving_fills_what_the_stream_leaves_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
