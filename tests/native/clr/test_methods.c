/* SPDX-License-Identifier: MIT */
/* test_methods.c: the method map: what it reads, names, modules, lives of reused addresses. */
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

static void it_knows_the_kinds_that_it_reads(void **state)
{
    (void)state;
    static const struct {
        const char *provider;
        uint32_t ids[16];
    } read[] = {{RUNTIME, {137, 138, 139, 140, 141, 142, 143, 144, 149, 150, 152, 153, 154, 159}},
                {RUNDOWN, {141, 142, 143, 144, 153, 154, 155, 156}}},
      others[] = {{RUNTIME, {1, 9, 80, 81, 145, 146, 147, 148, 151, 155, 190, 300}},
                  {RUNDOWN, {10, 144 + 256, 145, 147, 149, 150, 151, 152, 157, 159, 187}},
                  {"System.Runtime", {141, 143, 144}},
                  {"microsoft-windows-dotnetruntime", {143}}};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        for (size_t k = 0; read[i].ids[k]; k++) {
            nt_kind kind = {.provider = slice_str(read[i].provider), .id = read[i].ids[k], .version = 1};
            if (clr_methods_kind(&kind) <= 0) fail_msg("%s %u is not read", read[i].provider, read[i].ids[k]);
        }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (size_t k = 0; others[i].ids[k]; k++) {
            nt_kind kind = {.provider = slice_str(others[i].provider), .id = others[i].ids[k], .version = 1};
            if (clr_methods_kind(&kind) != 0) fail_msg("%s %u is read", others[i].provider, others[i].ids[k]);
        }
}

static void a_body_is_found_from_its_first_byte_to_its_last(void **state)
{
    clr_methods *m = *state;
    assert_name(m, 0x1000, 5, UNKNOWN);
    assert_int_equal(method(m, LOAD_NAMED, 5,
                            (body){.start = 0x1000,
                                   .size = 0x20,
                                   .name = "Go",
                                   .id = 77,
                                   .module = 0x99,
                                   .token = 0x06000012,
                                   .signature = "instance void  (int32)"}),
                     0);
    assert_name(m, 0xfff, 6, UNKNOWN);
    assert_name(m, 0x1000, 6, "Go");
    assert_name(m, 0x101f, 6, "Go");
    assert_name(m, 0x1020, 6, UNKNOWN);
    clr_method f;
    assert_true(clr_methods_find(m, 0x1008, INT64_MAX, &f));
    assert_slice_str(f.namespace_, "N.T");
    assert_slice_str(f.name, "Go");
    assert_slice_str(f.signature, "instance void  (int32)");
    assert_slice_str(f.module, "");
    assert_int_equal(f.start, 0x1000);
    assert_int_equal(f.size, 0x20);
    assert_int_equal(f.method_id, 77);
    assert_int_equal(f.module_id, 0x99);
    assert_int_equal(f.token, 0x06000012);
    assert_false(f.dynamic);
    assert_false(f.cold);
    assert_int_equal(clr_methods_count(m), 1);
    assert_int_equal(clr_methods_dropped(m), 0);
}

static void a_name_is_put_together_as_traceevent_does(void **state)
{
    (void)state;
    static const struct {
        const char *namespace_, *name, *signature, *whole;
    } names[] = {
        {"My.Space.Program", "Try", "void  (class System.Action)", "My.Space.Program.Try(class System.Action)"},
        {"My.Space.Box`2[System.Int32,System.__Canon]", "Do", "instance !!0  (!0,!1)",
         "My.Space.Box`2[System.Int32,System.__Canon].Do(!0,!1)"},
        {"dynamicClass", "lambda_method1", "int32  (pMT: 0x7f8a880ff930)",
         "dynamicClass.lambda_method1(pMT: 0x7f8a880ff930)"},
        {"", "Main", "void  ()", "Main()"},
        {"A.B", ".ctor", "", "A.B..ctor"},
        {"A.B", "M", "no parenthesis", "A.B.M"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        clr_method f = {.namespace_ = slice_str(names[i].namespace_),
                        .name = slice_str(names[i].name),
                        .signature = slice_str(names[i].signature)};
        buf b;
        buf_init(&b, 0);
        assert_true(clr_method_name(&f, &b));
        assert_slice_str(buf_view(&b), names[i].whole);
        buf_fini(&b);
        buf_init(&b, 3);
        assert_false(clr_method_name(&f, &b));
        buf_fini(&b);
    }
}

static void a_rundown_row_names_what_came_before_it(void **state)
{
    clr_methods *m = *state;
    method(m, ALIVE, 9000, (body){.start = 0x2000, .name = "Wait"});
    assert_name(m, 0x2010, 1, "Wait");
    assert_name(m, 0x2010, 9999, "Wait");
}

static void tiers_and_the_cold_part_are_told(void **state)
{
    clr_methods *m = *state;
    static const struct {
        uint32_t flags;
        const char *tier;
        bool dynamic, cold;
    } rows[] = {{0x8 | 0 << 7, "Unknown", false, false},
                {0x8 | 1 << 7, "MinOptJitted", false, false},
                {0x8 | 2 << 7, "Optimized", false, false},
                {0x8 | 3 << 7, "QuickJitted", false, false},
                {0x8 | 4 << 7, "OptimizedTier1", false, false},
                {0x8 | 5 << 7, "OptimizedTier1OSR", false, false},
                {0x8 | 6 << 7, "QuickJittedInstrumented", false, false},
                {0x8 | 7 << 7, "OptimizedTier1Instrumented", false, false},
                {2 << 7, "ReadyToRun", false, false},
                {0x9 | 2 << 7, "Unknown", true, false},
                {0x8 | 4 << 7 | 1u << 28, "OptimizedTier1", false, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) /* several bodies of one method, side by side */
        method(m, ALIVE, 5, (body){.start = 0x1000 + i * 0x100, .id = 7, .name = "M", .flags = rows[i].flags});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clr_method f;
        assert_true(clr_methods_find(m, 0x1000 + i * 0x100, 5, &f));
        assert_string_equal(f.tier, rows[i].tier);
        assert_int_equal(f.dynamic, rows[i].dynamic);
        assert_int_equal(f.cold, rows[i].cold);
        assert_int_equal(f.start, 0x1000 + i * 0x100);
    }
}

/* ---- addresses used again ---------------------------------------------------------------------------------------- */

static void an_address_used_again_has_the_name_of_its_time(void **state)
{
    clr_methods *m = *state;
    /* given in no order: times decide */
    method(m, LOAD_NAMED, 300, (body){.start = 0x1000, .id = 2, .name = "Second"});
    method(m, UNLOAD_NAMED, 200, (body){.start = 0x1000, .id = 1, .name = "First"});
    method(m, LOAD_NAMED, 100, (body){.start = 0x1000, .id = 1, .name = "First"});
    method(m, UNLOAD_NAMED, 50, (body){.start = 0x1000, .id = 3, .name = "Zeroth", .size = 0x80});
    assert_name(m, 0x1010, 10, "Zeroth"); /* its load was before the session */
    assert_name(m, 0x1010, 50, "Zeroth");
    assert_name(m, 0x1010, 100, "First");
    assert_name(m, 0x1010, 150, "First");
    assert_name(m, 0x1010, 200, "First");
    assert_name(m, 0x1010, 300, "Second");
    assert_name(m, 0x1010, 1000, "Second");
    assert_name(m, 0x1010, INT64_MAX, "Second");
    /* a stack is written a moment before the load event at times: nobody else can have been there */
    assert_name(m, 0x1010, 290, "Second");
    assert_name(m, 0x1010, 99, "First");
    assert_name(m, 0x10c0, 60, "First"); /* beyond the end of the one before */
    assert_true(clr_methods_reused(m, 0x1010));
    method(m, LOAD_NAMED, 100, (body){.start = 0x9000, .id = 9, .name = "Again"});
    method(m, UNLOAD_NAMED, 200, (body){.start = 0x9000, .id = 9, .name = "Again"});
    method(m, LOAD_NAMED, 300, (body){.start = 0x9000, .id = 9, .name = "Again"});
    assert_false(clr_methods_reused(m, 0x9000)); /* by the same method */
    assert_false(clr_methods_reused(m, 0x5000)); /* nobody */
}

static void the_latest_is_found_also_when_it_is_gone(void **state)
{
    clr_methods *m = *state;
    method(m, LOAD_NAMED, 100, (body){.start = 0x1000, .name = "Gone"});
    method(m, UNLOAD_NAMED, 200, (body){.start = 0x1000, .name = "Gone"});
    assert_name(m, 0x1000, INT64_MAX, "Gone");
    assert_name(m, 0x1000, 201, UNKNOWN);
}

static void a_load_ends_the_one_whose_unload_was_not_seen(void **state)
{
    clr_methods *m = *state;
    method(m, LOAD_NAMED, 100, (body){.start = 0x1000, .id = 1, .name = "A"});
    method(m, LOAD_NAMED, 200, (body){.start = 0x1000, .id = 2, .name = "B"});
    assert_name(m, 0x1000, 199, "A");
    assert_name(m, 0x1000, 200, "B");
}

static void a_change_that_nobody_saw_leaves_the_time_between_unknown(void **state)
{
    clr_methods *m = *state;
    method(m, LOAD_NAMED, 100, (body){.start = 0x1000, .id = 1, .name = "A"});
    method(m, ALIVE, 900, (body){.start = 0x1000, .id = 2, .name = "B"});
    assert_name(m, 0x1000, 100, "A");
    assert_name(m, 0x1000, 101, UNKNOWN);
    assert_name(m, 0x1000, 899, UNKNOWN);
    assert_name(m, 0x1000, 900, "B");
    assert_name(m, 0x1000, 901, "B");
    /* an unload of another one than was loaded */
    method(m, LOAD_NAMED, 100, (body){.start = 0x5000, .id = 1, .name = "A"});
    method(m, UNLOAD_NAMED, 500, (body){.start = 0x5000, .id = 2, .name = "B"});
    assert_name(m, 0x5000, 100, "A");
    assert_name(m, 0x5000, 300, UNKNOWN);
    assert_name(m, 0x5000, 500, "B");
    assert_name(m, 0x5000, 501, UNKNOWN);
    /* one descriptor used for two dynamic methods */
    method(m, LOAD_NAMED, 100, (body){.start = 0x9000, .id = 1, .name = "dyn1"});
    method(m, ALIVE, 500, (body){.start = 0x9000, .id = 1, .name = "dyn2"});
    assert_name(m, 0x9000, 300, UNKNOWN);
    assert_name(m, 0x9000, 500, "dyn2");
}

static void ranges_that_overlap_are_told_apart_by_time_or_not_at_all(void **state)
{
    clr_methods *m = *state;
    method(m, LOAD_NAMED, 100, (body){.start = 0x1000, .size = 0x1000, .name = "Big"});
    method(m, UNLOAD_NAMED, 200, (body){.start = 0x1000, .size = 0x1000, .name = "Big"});
    method(m, LOAD_NAMED, 300, (body){.start = 0x1800, .size = 0x100, .name = "Small"});
    assert_name(m, 0x1810, 150, "Big");
    assert_name(m, 0x1810, 300, "Small");
    assert_name(m, 0x1010, 150, "Big");
    assert_name(m, 0x1010, 300, UNKNOWN);
    assert_name(m, 0x1900, 150, "Big"); /* behind the small one's end */
    /* two that were seen alive at overlapping addresses: one row is wrong, which is not known */
    method(m, ALIVE, 900, (body){.start = 0x8000, .size = 0x1000, .name = "P"});
    method(m, ALIVE, 900, (body){.start = 0x8800, .size = 0x1000, .name = "Q"});
    assert_name(m, 0x8810, 500, UNKNOWN);
    assert_name(m, 0x8810, INT64_MAX, UNKNOWN);
    assert_name(m, 0x8010, 500, "P");
    assert_name(m, 0x9010, 500, "Q");
    /* loaded and never unloaded, then another over it: the later one has it */
    method(m, LOAD_NAMED, 100, (body){.start = 0xa000, .size = 0x1000, .name = "Old"});
    method(m, LOAD_NAMED, 200, (body){.start = 0xa800, .size = 0x1000, .name = "New"});
    assert_name(m, 0xa810, 150, "Old");
    assert_name(m, 0xa810, 250, "New");
    /* the first was last seen at 100, the second first seen at 900 by the rundown: since when is not known */
    method(m, LOAD_NAMED, 100, (body){.start = 0xc000, .size = 0x1000, .name = "Old"});
    method(m, ALIVE, 900, (body){.start = 0xc800, .size = 0x1000, .name = "New"});
    assert_name(m, 0xc810, 500, UNKNOWN);
    assert_name(m, 0xc810, 950, "New");
    assert_name(m, 0xc010, 500, "Old");
}

static void an_address_used_too_often_has_no_name(void **state)
{
    clr_methods *m = *state;
    for (int64_t i = 0; i < CLR_METHOD_LIVES_MAX; i++) {
        method(m, LOAD_NAMED, 10 * i, (body){.start = 0x1000, .id = (uint64_t)i + 1, .name = i % 2 ? "odd" : "even"});
        method(m, UNLOAD_NAMED, 10 * i + 5,
               (body){.start = 0x1000, .id = (uint64_t)i + 1, .name = i % 2 ? "odd" : "even"});
    }
    assert_name(m, 0x1000, 42, "even");
    assert_name(m, 0x1000, 52, "odd");
    method(m, LOAD_NAMED, 999999, (body){.start = 0x1000, .id = 9, .name = "last"});
    assert_true(clr_methods_reused(m, 0x1000));
    assert_name(m, 0x1000, 42, UNKNOWN);
}

/* Bodies come and go at random in a small room; whoever is there at a time, the map must say so. */
static void it_agrees_with_a_simulation(void **state)
{
    clr_methods *m = *state;
    enum { ROOM = 64, STEPS = 3000, PROBES = 4000, BASE = 0x10000, UNIT = 16 };
    static int owner[STEPS][ROOM]; /* who holds each unit after each step; 0: nobody */
    static char names[STEPS + 1][16];
    struct {
        int at, size;
    } live[STEPS + 1] = {{0}};
    uint32_t seed = 12345;
#define RANDOM(n) ((int)((seed = seed * 1664525 + 1013904223) >> 8) % (n))
    for (int t = 0; t < STEPS; t++) {
        if (t) memcpy(owner[t], owner[t - 1], sizeof owner[t]);
        int at = RANDOM(ROOM), size = 1 + RANDOM(8), who = t + 1;
        bool free_room = at + size <= ROOM;
        for (int u = at; free_room && u < at + size; u++)
            free_room = owner[t][u] == 0;
        if (free_room) {
            snprintf(names[who], sizeof names[who], "m%d", who);
            live[who].at = at;
            live[who].size = size;
            for (int u = at; u < at + size; u++)
                owner[t][u] = who;
            method(m, LOAD_NAMED, t * INT64_C(10),
                   (body){.start = (uint64_t)(BASE + at * UNIT),
                          .size = (uint32_t)(size * UNIT),
                          .id = (uint64_t)who,
                          .name = names[who]});
        } else if (owner[t][at % ROOM]) {
            int gone = owner[t][at % ROOM];
            for (int u = live[gone].at; u < live[gone].at + live[gone].size; u++)
                owner[t][u] = 0;
            method(m, UNLOAD_NAMED, t * INT64_C(10),
                   (body){.start = (uint64_t)(BASE + live[gone].at * UNIT),
                          .size = (uint32_t)(live[gone].size * UNIT),
                          .id = (uint64_t)gone,
                          .name = names[gone]});
        }
    }
    for (int i = 0, held = 0; i < PROBES || held < 100; i++) {
        int t = RANDOM(STEPS), u = RANDOM(ROOM);
        if (!owner[t][u]) continue;
        held++;
        assert_name(m, (uint64_t)(BASE + u * UNIT + RANDOM(UNIT)), t * INT64_C(10) + 3, names[owner[t][u]]);
    }
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static void modules_are_named_by_file_or_assembly(void **state)
{
    clr_methods *m = *state;
    static const struct {
        const char *path, *name;
    } paths[] = {{"/usr/share/dotnet/shared/System.Private.CoreLib.dll", "System.Private.CoreLib"},
                 {"C:\\App\\My.Api.EXE", "My.Api"},
                 {"plain", "plain"},
                 {"/a.b/noext", "noext"},
                 {"/x/.dll", ".dll"},
                 {"", "Emitted"},
                 {"/d/\xc3\xa4\xe2\x82\xac.dll", "\xc3\xa4\xe2\x82\xac"}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        uint64_t id = 0x100 + i;
        method(m, ALIVE, 5, (body){.start = 0x1000 + i * 0x100, .module = id, .name = "M"}); /* before its module */
        assert_int_equal(module(m, i % 2 ? 152 : -154, id, 0x77, paths[i].path), 0);
    }
    assert_int_equal(assembly(m, -156, 1, 0x77, "Emitted, Version=0.0.0.0, Culture=neutral, PublicKeyToken=null"), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        clr_method f;
        assert_true(clr_methods_find(m, 0x1000 + i * 0x100, 5, &f));
        assert_slice_str(f.module, paths[i].name);
        assert_int_equal(f.module_id, 0x100 + i);
    }
}

static void a_module_tells_its_file_and_its_pdb(void **state)
{
    clr_methods *m = *state;
    clr_method f;
    method(m, ALIVE, 5, (body){.start = 0x1000, .module = 1, .name = "M", .rejit = 7});
    method(m, LOAD, 5, (body){.start = 0x2000, .id = 0x3000, .module = 2, .rejit = 9});
    assert_int_equal(module_with_pdb(m, 1, "/app/Shop.dll", "0123456789abcdef", 3, "/src/obj/Shop.pdb"), 0);
    assert_int_equal(module(m, -154, 2, 1, "/app/Plain.dll"), 0); /* ends before the PDB */
    assert_true(clr_methods_find(m, 0x1000, 5, &f));
    assert_slice_str(f.module_path, "/app/Shop.dll");
    assert_int_equal(f.rejit_id, 7);
    clr_module shop = clr_methods_module(m, f.module_index);
    assert_slice_str(shop.name, "Shop");
    assert_slice_str(shop.path, "/app/Shop.dll");
    assert_true(shop.has_pdb);
    assert_memory_equal(shop.pdb_guid, "0123456789abcdef", 16);
    assert_int_equal(shop.pdb_age, 3);
    assert_slice_str(shop.pdb_path, "/src/obj/Shop.pdb");
    method(m, ALIVE, 6, (body){.start = 0x2000, .id = 0x3000, .module = 2, .name = "N", .rejit = 9});
    assert_true(clr_methods_find(m, 0x2000, 5, &f));
    assert_int_equal(f.rejit_id, 9);
    clr_module plain = clr_methods_module(m, f.module_index);
    assert_slice_str(plain.path, "/app/Plain.dll");
    assert_false(plain.has_pdb);
    assert_slice_str(clr_methods_module(m, 99).name, "");
}

static void an_assembly_of_the_first_version_has_no_binding(void **state)
{
    clr_methods *m = *state;
    method(m, ALIVE, 5, (body){.start = 0x1000, .module = 1, .name = "M"});
    module(m, 152, 1, 0x55, "");
    assembly(m, 154, 0, 0x55, "Old");
    clr_method f;
    assert_true(clr_methods_find(m, 0x1000, 5, &f));
    assert_slice_str(f.module, "Old");
}

static void a_module_id_used_again_is_another_module(void **state)
{
    clr_methods *m = *state;
    clr_method f;
    module(m, 152, 1, 0, "/a/First.dll");
    method(m, LOAD_NAMED, 5, (body){.start = 0x1000, .module = 1, .name = "M"});
    module(m, 153, 1, 0, "/a/First.dll");
    method(m, LOAD_NAMED, 6, (body){.start = 0x2000, .module = 1, .name = "M"});
    module(m, 152, 1, 0, "/a/Second.dll");
    module(m, 152, 1, 0, "/a/Third.dll"); /* no unload seen */
    method(m, LOAD_NAMED, 7, (body){.start = 0x3000, .module = 1, .name = "M"});
    static const char *const names[] = {"First", "Second", "Third"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(clr_methods_find(m, 0x1000 * (i + 1), 8, &f));
        assert_slice_str(f.module, names[i]);
    }
}

/* ---- names that come apart from the body --------------------------------------------------------------------------
 */

static void a_load_without_names_has_those_of_its_method(void **state)
{
    clr_methods *m = *state;
    method(m, LOAD, 5, (body){.start = 0x1000, .id = 7});
    assert_name(m, 0x1000, 6, UNKNOWN);
    method(m, LOAD, 6, (body){.start = 0x2000, .id = 7});                    /* its next tier */
    method(m, ALIVE, 99, (body){.start = 0x2000, .id = 7, .name = "Seven"}); /* only that was still there */
    assert_name(m, 0x1000, 6, "Seven");
    assert_name(m, 0x2000, 6, "Seven");
    method(m, LOAD, 100, (body){.start = 0x3000, .id = 7});
    assert_name(m, 0x3000, 100, "Seven");
    /* what is unloaded tells its name at last */
    method(m, LOAD, 5, (body){.start = 0x6000, .id = 8});
    method(m, UNLOAD_NAMED, 50, (body){.start = 0x6000, .id = 8, .name = "Eight"});
    assert_name(m, 0x6000, 20, "Eight");
    /* two names of one descriptor: no telling which was loaded */
    method(m, LOAD, 5, (body){.start = 0x7000, .id = 9});
    method(m, ALIVE, 50, (body){.start = 0x7100, .id = 9, .name = "NineA"});
    method(m, ALIVE, 60, (body){.start = 0x7200, .id = 9, .name = "NineB"});
    assert_name(m, 0x7000, 20, UNKNOWN);
}

static int entry_point(clr_methods *m, uint64_t id, const char *name, uint64_t entry)
{
    buf p;
    buf_init(&p, 0);
    buf_u64(&p, id);
    put_utf16z(&p, "N.T");
    put_utf16z(&p, name);
    put_utf16z(&p, "void  ()");
    buf_u64(&p, entry);
    buf_u16(&p, 0);
    int rc = give(m, 159, 0, 1, buf_view(&p));
    buf_fini(&p);
    return rc;
}

static void an_entry_point_names_a_precompiled_method(void **state)
{
    clr_methods *m = *state;
    assert_int_equal(entry_point(m, 7, "Pre", 0x4444), 0);
    method(m, LOAD, 5, (body){.start = 0x1000, .id = 7});
    assert_name(m, 0x1000, 6, "Pre");
}

static void assert_begun(const clr_methods *m, uint64_t ip, const char *name)
{
    clr_method f;
    if (!name) {
        assert_false(clr_methods_entry(m, ip, &f));
        return;
    }
    assert_true(clr_methods_entry(m, ip, &f));
    assert_slice_str(f.name, name);
    assert_int_equal(f.module_index, UINT32_MAX);
    assert_int_equal(f.token, 0);
    assert_string_equal(f.tier, "ReadyToRun");
}

static void code_behind_an_entry_point_is_that_methods_unless_a_body_is_nearer(void **state)
{
    clr_methods *m = *state;
    assert_begun(m, 0x20000, NULL);
    assert_int_equal(entry_point(m, 1, "First", 0x20000), 0);
    assert_int_equal(entry_point(m, 2, "Second", 0x20100), 0);
    assert_int_equal(entry_point(m, 2, "Second", 0x20100), 0); /* told again */
    assert_begun(m, 0x1FFFF, NULL);
    assert_begun(m, 0x20000, "First");
    assert_begun(m, 0x200FF, "First");
    assert_begun(m, 0x20100, "Second");
    assert_begun(m, 0x20100 + CLR_ENTRY_REACH - 1, "Second");
    assert_begun(m, 0x20100 + CLR_ENTRY_REACH, NULL);
    assert_name(m, 0x20100, 5, UNKNOWN); /* where it ends is not told */
    /* a body between: what is behind it belongs to neither */
    method(m, ALIVE, 50, (body){.start = 0x20200, .id = 3, .size = 0x10, .name = "Third"});
    assert_begun(m, 0x201FF, "Second");
    assert_begun(m, 0x20208, NULL);
    assert_begun(m, 0x20300, NULL);
    assert_name(m, 0x20208, 50, "Third");
    /* the rundown tells the body: it has its name there, and is no guess any more */
    method(m, ALIVE, 60, (body){.start = 0x20000, .id = 1, .size = 0x80, .name = "First"});
    assert_begun(m, 0x20040, NULL);
    assert_name(m, 0x20040, 60, "First");
    /* two methods at one entry: no telling which */
    assert_int_equal(entry_point(m, 4, "Fourth", 0x90000), 0);
    assert_int_equal(entry_point(m, 5, "Fifth", 0x90000), 0);
    assert_begun(m, 0x90000, NULL);
}

static void only_entry_points_near_what_is_wanted_are_kept(void **state)
{
    clr_methods *m = *state;
    assert_int_equal(entry_point(m, 1, "Near", 0x20000), 0);
    assert_int_equal(entry_point(m, 2, "Far", 0x80000), 0);
    uint64_t ip = 0x20010;
    assert_true(clr_methods_want(m, &ip, 1));
    assert_int_equal(clr_methods_count(m), 1);
    assert_int_equal(entry_point(m, 3, "Later", 0x90000), 0);
    assert_int_equal(entry_point(m, 4, "Nearer", 0x20008), 0);
    assert_int_equal(clr_methods_count(m), 2);
    assert_begun(m, 0x20010, "Nearer");
    assert_begun(m, 0x80010, NULL);
}

int main(void)
{
#define WITH_MAP(test) cmocka_unit_test_setup_teardown(test, new_map, free_map)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_knows_the_kinds_that_it_reads),
        WITH_MAP(a_body_is_found_from_its_first_byte_to_its_last),
        cmocka_unit_test(a_name_is_put_together_as_traceevent_does),
        WITH_MAP(a_rundown_row_names_what_came_before_it),
        WITH_MAP(tiers_and_the_cold_part_are_told),
        WITH_MAP(an_address_used_again_has_the_name_of_its_time),
        WITH_MAP(the_latest_is_found_also_when_it_is_gone),
        WITH_MAP(a_load_ends_the_one_whose_unload_was_not_seen),
        WITH_MAP(a_change_that_nobody_saw_leaves_the_time_between_unknown),
        WITH_MAP(ranges_that_overlap_are_told_apart_by_time_or_not_at_all),
        WITH_MAP(an_address_used_too_often_has_no_name),
        WITH_MAP(it_agrees_with_a_simulation),
        WITH_MAP(modules_are_named_by_file_or_assembly),
        WITH_MAP(a_module_tells_its_file_and_its_pdb),
        WITH_MAP(an_assembly_of_the_first_version_has_no_binding),
        WITH_MAP(a_module_id_used_again_is_another_module),
        WITH_MAP(a_load_without_names_has_those_of_its_method),
        WITH_MAP(an_entry_point_names_a_precompiled_method),
        WITH_MAP(code_behind_an_entry_point_is_that_methods_unless_a_body_is_nearer),
        WITH_MAP(only_entry_points_near_what_is_wanted_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
