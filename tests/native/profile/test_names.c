/* SPDX-License-Identifier: MIT */
/* test_names.c: addresses become methods, at their time; methods are one whatever their bodies; and what the names of
 * types tell. */
#include "../clr/methods_events.h"
#include "kit.h"
#include "profile/profile_internal.h"

static const profile_cfg cpu = {.kind = PROFILE_CPU};

static void sample(profile_builder *b, bool exact, int64_t time, uint64_t n, uint64_t leaf, uint64_t caller)
{
    uint64_t ips[] = {leaf, caller};
    profile_sample s = {.ips = ips, .n = 2, .leaf_exact = exact, .thread = 1, .time = time, .samples = n};
    assert_true(profile_add(b, &s));
}

static profile_builder *with_methods(clr_methods **m)
{
    profile_builder *b = kit_builder(&cpu);
    *m = profile_builder_methods(b);
    assert_int_equal(module_with_pdb(*m, 1, "/app/Shop.dll", "0123456789abcdef", 2, "/src/Shop.pdb"), 0);
    method(*m, ALIVE, 900, (body){.start = 0x9000, .module = 1, .token = 0x06000001, .name = "Main"});
    return b;
}

static void bodies_of_one_method_are_one_frame(void **state)
{
    (void)state;
    clr_methods *m;
    profile_builder *b = with_methods(&m);
    method(m, ALIVE, 900,
           (body){.start = 0x1000, .id = 7, .module = 1, .token = 0x06000007, .name = "Hot", .flags = 0x188});
    method(m, ALIVE, 900,
           (body){.start = 0x3000, .id = 7, .module = 1, .token = 0x06000007, .name = "Hot", .rejit = 2});
    method(m, ALIVE, 900,
           (body){.start = 0x5000, .id = 8, .module = 1, .token = 0x06000008, .name = "Hot"}); /* another */
    sample(b, true, 100, 2, 0x1010, 0x9010);
    sample(b, true, 200, 5, 0x3020, 0x9020);
    sample(b, true, 200, 1, 0x3024, 0x9020);
    sample(b, true, 200, 1, 0x5020, 0x9020);
    profile *p = kit_build(b);
    assert_text(kit_tree(p), "<root> 9/0 (N.T.Main() 9/0 (N.T.Hot() 8/8, N.T.Hot() 1/1))");
    const profile_frame *f = profile_frame_at(p, profile_node_at(p, 2).frame);
    assert_int_equal(f->kind, PROFILE_FRAME_MANAGED);
    assert_int_equal(f->token, 0x06000007);
    assert_slice_str(f->module, "Shop");
    assert_slice_str(f->type, "N.T");
    assert_slice_str(f->name, "Hot");
    assert_slice_str(f->signature, "void  ()");
    assert_string_equal(f->tier, "OptimizedTier1"); /* the body with most samples */
    const profile_module *mod = profile_module_at(p, f->module_index);
    assert_slice_str(mod->path, "/app/Shop.dll");
    assert_true(mod->has_pdb);
    assert_memory_equal(mod->pdb_guid, "0123456789abcdef", 16);
    assert_int_equal(mod->pdb_age, 2);
    assert_int_equal(profile_modules(p), 1);
    assert_int_equal(f->n_addresses, 3);
    assert_int_equal(f->addresses[0].ip, 0x3020);
    assert_int_equal(f->addresses[0].samples, 5);
    assert_int_equal(f->addresses[0].method_id, 7);
    assert_int_equal(f->addresses[0].rejit_id, 2);
    assert_int_equal(f->addresses[0].start, 0x3000);
    assert_true(f->addresses[0].exact);
    assert_int_equal(f->addresses[1].ip, 0x1010);
    assert_int_equal(f->addresses[2].ip, 0x3024);
    const profile_frame *main_frame = profile_frame_at(p, kit_frame(p, "N.T.Main()"));
    assert_int_equal(main_frame->n_addresses, 2); /* never a leaf: where it called from */
    assert_int_equal(main_frame->addresses[0].ip, 0x9020);
    assert_int_equal(main_frame->addresses[0].samples, 7);
    assert_false(main_frame->addresses[0].exact);
    profile_unref(p);
}

static void at_the_first_byte_stands_the_method_behind_the_last_the_caller(void **state)
{
    (void)state;
    clr_methods *m;
    profile_builder *b = with_methods(&m);
    method(m, ALIVE, 900, (body){.start = 0x1000, .module = 1, .token = 1, .name = "First"});
    method(m, ALIVE, 900, (body){.start = 0x1100, .module = 1, .token = 2, .name = "Second"});
    sample(b, true, 1, 1, 0x1100, 0x9010);  /* stands at the first byte of Second */
    sample(b, false, 1, 2, 0x1100, 0x9010); /* returns to behind the end of First */
    sample(b, false, 1, 4, 0x1200, 0x9010); /* behind the end of Second, and no other follows */
    profile *p = kit_build(b);
    assert_int_equal(profile_frame_at(p, kit_frame(p, "N.T.First()"))->counts.exclusive, 2);
    assert_int_equal(profile_frame_at(p, kit_frame(p, "N.T.Second()"))->counts.exclusive, 5);
    profile_unref(p);
}

static void an_address_used_again_has_the_name_of_its_time_or_none(void **state)
{
    (void)state;
    clr_methods *m;
    profile_builder *b = with_methods(&m);
    method(m, LOAD_NAMED, 0, (body){.start = 0x1000, .id = 1, .flags = 1, .name = "dyn1"});
    method(m, UNLOAD_NAMED, 100, (body){.start = 0x1000, .id = 1, .flags = 1, .name = "dyn1"});
    method(m, LOAD_NAMED, 200, (body){.start = 0x1000, .id = 1, .flags = 1, .name = "dyn2"});
    sample(b, true, 50, 1, 0x1010, 0x9010);
    sample(b, true, 60, 2, 0x1010, 0x9010);
    sample(b, true, 250, 3, 0x1020, 0x9010);
    sample(b, true, 50, 4, 0x1030, 0x9010); /* by its last sample another method stood there */
    sample(b, true, 250, 1, 0x1030, 0x9010);
    sample(b, true, 1, 7, 0x7777, 0x9010); /* nobody was ever there */
    profile *p = kit_build(b);
    assert_text(kit_tree(p), "<root> 18/0 (N.T.Main() 18/0 (0x7777 7/7, 0x1030 5/5, N.T.dyn1() 3/3, N.T.dyn2() 3/3))");
    assert_int_equal(profile_info_of(p)->unresolved, 12);
    const profile_frame *f = profile_frame_at(p, kit_frame(p, "0x7777"));
    assert_slice_str(f->module, "?");
    assert_int_equal(f->kind, PROFILE_FRAME_UNRESOLVED);
    assert_int_equal(f->token, 0);
    assert_int_equal(profile_frame_at(p, kit_frame(p, "N.T.dyn1()"))->kind, PROFILE_FRAME_DYNAMIC);
    profile_unref(p);
}

static bool resolve(void *arg, uint64_t ip, int64_t time, profile_name *out)
{
    (void)time;
    ++*(int *)arg;
    if (ip == 0x7fff0000) *out = (profile_name){SLICE_LIT("libc.so.6"), SLICE_LIT("memset"), false};
    if (ip == 0x7fff0010) *out = (profile_name){SLICE_LIT("libc.so.6"), SLICE_LIT("memset"), false};
    if (ip == 0xffffffff81000000) *out = (profile_name){SLICE_LIT("[kernel]"), SLICE_LIT("do_futex"), true};
    return ip != 0x8888;
}

static void another_resolver_names_what_is_not_managed(void **state)
{
    (void)state;
    clr_methods *m;
    int asked = 0;
    profile_builder *b = with_methods(&m);
    profile_set_resolver(b, resolve, &asked);
    sample(b, true, 1, 1, 0x7fff0000, 0x9010);
    sample(b, true, 1, 2, 0x7fff0010, 0x9010);
    sample(b, true, 1, 3, 0xffffffff81000000, 0x9010);
    sample(b, true, 1, 4, 0x8888, 0x9010);
    sample(b, true, 1, 5, 0x8889, 0x9010); /* known to be nowhere: by its address */
    profile *p = kit_build(b);
    assert_text(kit_tree(p), "<root> 15/0 (N.T.Main() 15/0 (0x8889 5/5, 0x8888 4/4, memset 3/3, do_futex 3/3))");
    assert_int_equal(asked, 5);
    const profile_frame *f = profile_frame_at(p, kit_frame(p, "memset"));
    assert_slice_str(f->module, "libc.so.6");
    assert_int_equal(f->kind, PROFILE_FRAME_NATIVE);
    assert_int_equal(f->n_addresses, 2);
    assert_int_equal(profile_frame_at(p, kit_frame(p, "do_futex"))->kind, PROFILE_FRAME_KERNEL);
    profile_unref(p);
}

static void managed_waits_are_found_without_generic_arguments(void **state)
{
    (void)state;
    static const profile_wait waits[] = {{"System.Task.Wait", "Task.Wait"}, {"System.Channel.Read*", "Channel"}};
    profile_builder *b = kit_builder(&(profile_cfg){.kind = PROFILE_CPU, .waits = waits, .n_waits = 2});
    clr_methods *m = profile_builder_methods(b);
    method(m, ALIVE, 9, (body){.start = 0x1000, .namespace_ = "System.Task`1[System.List`1[A]]", .name = "Wait"});
    method(m, ALIVE, 9,
           (body){.start = 0x2000, .namespace_ = "System.Channel`1[B]", .name = "ReadAll[System.__Canon]"});
    method(m, ALIVE, 9, (body){.start = 0x3000, .namespace_ = "System.Task+Inner", .name = "Wait"});
    sample(b, true, 1, 1, 0x1010, 0x5000);
    sample(b, true, 1, 2, 0x2010, 0x5000);
    sample(b, true, 1, 4, 0x3010, 0x5000);
    profile *p = kit_build(b);
    assert_int_equal(profile_info_of(p)->waiting, 3);
    assert_int_equal(profile_frame_at(p, kit_frame(p, "System.Task+Inner.Wait()"))->wait, -1);
    profile_rows r;
    assert_int_equal(profile_by_namespace(p, PROFILE_BY_EXCLUSIVE, 9, &r, NULL), 0);
    assert_slice_str(profile_namespace_at(p, r.rows[0].key), "System");
    assert_int_equal(r.rows[0].counts.exclusive, 7);
    free(r.rows);
    profile_unref(p);
}

static void a_profile_is_built_once(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&cpu);
    kit_stack(b, "Main", 1);
    err e = {0};
    profile *p = profile_build(b, &e);
    assert_non_null(p);
    assert_null(profile_build(b, &e));
    assert_int_equal(e.kind, ERR_CONFLICT);
    profile_unref(p);
    profile_builder_unref(b);
}

/* An event of a method through the tap that takes names of another session. */
static void tell(profile_builder *b, int id, body x)
{
    nt_tap *t = profile_builder_names(b);
    nt_kind k = {.provider = slice_str(id < 0 ? RUNDOWN : RUNTIME), .id = (uint32_t)abs(id), .version = 2};
    void *use = t->ops->kind(t, &k);
    assert_non_null(use);
    buf p;
    buf_init(&p, 0);
    method_payload(&p, id, x);
    nt_event ev = {.kind = &k, .payload = buf_view(&p), .ts = 900};
    t->ops->event(t, use, NULL, &ev);
    buf_fini(&p);
}

static void tell_entry(profile_builder *b, uint64_t entry, const char *name)
{
    nt_tap *t = profile_builder_names(b);
    nt_kind k = {.provider = SLICE_LIT(RUNTIME), .id = 159};
    void *use = t->ops->kind(t, &k);
    assert_non_null(use);
    buf p;
    buf_init(&p, 0);
    buf_u64(&p, entry * 3);
    put_utf16z(&p, "N.T");
    put_utf16z(&p, name);
    put_utf16z(&p, "void  ()");
    buf_u64(&p, entry);
    buf_u16(&p, 0);
    nt_event ev = {.kind = &k, .payload = buf_view(&p), .ts = 900};
    t->ops->event(t, use, NULL, &ev);
    buf_fini(&p);
}

static void another_session_tells_the_names_before_the_stacks_come_and_after(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&cpu);
    nt_tap *t = profile_builder_names(b);
    nt_kind other = {.provider = SLICE_LIT("Microsoft-DotNETCore-SampleProfiler"), .id = 0};
    assert_null(t->ops->kind(t, &other)); /* its samples are not this one's */
    t->ops->ref(t);
    tell(b, ALIVE, (body){.start = 0x9000, .token = 0x06000001, .name = "Main"});
    sample(b, true, 100, 2, 0x1010, 0x9010);
    sample(b, true, 100, 3, 0x20010, 0x9010);
    sample(b, true, 100, 5, 0x777777, 0x9010);
    tell_entry(b, 0x20000, "Begun");
    profile_unnamed u;
    profile_unnamed_of(b, &u);
    assert_int_equal(u.unknown, 3);
    assert_int_equal(u.begun, 1);
    tell(b, ALIVE, (body){.start = 0x1000, .token = 0x06000007, .name = "Late"});
    profile_unnamed_of(b, &u);
    assert_int_equal(u.unknown, 2);
    profile_names_told(b);
    profile *p = kit_build(b);
    assert_text(kit_tree(p), "<root> 10/0 (N.T.Main() 10/0 (0x777777 5/5, N.T.Begun() 3/3, N.T.Late() 2/2))");
    const profile_frame *begun = profile_frame_at(p, kit_frame(p, "N.T.Begun()"));
    assert_int_equal(begun->kind, PROFILE_FRAME_MANAGED);
    assert_int_equal(begun->module_index, UINT32_MAX);
    assert_slice_str(begun->module, "?");
    assert_int_equal(profile_info_of(p)->unresolved, 5);
    tell(b, ALIVE, (body){.start = 0x777000, .size = 0x1000, .name = "TooLate"}); /* built: it changes nothing */
    t->ops->unref(t);
    profile_unref(p);
}

/* A rundown that broke off: what lies behind the code that began to be used may be a method that was not told. */
static void without_all_names_code_is_not_known_by_where_it_begins(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&cpu);
    tell(b, ALIVE, (body){.start = 0x9000, .token = 0x06000001, .name = "Main"});
    tell_entry(b, 0x20000, "Begun");
    sample(b, true, 100, 3, 0x28010, 0x9010);
    profile *p = kit_build(b);
    assert_text(kit_tree(p), "<root> 3/0 (N.T.Main() 3/0 (0x28010 3/3))");
    assert_int_equal(profile_info_of(p)->unresolved, 3);
    profile_unref(p);
}

/* ---- what names tell --------------------------------------------------------------------------------------------- */

static void the_namespace_of_a_type(void **state)
{
    (void)state;
    static const struct {
        const char *type, *want;
    } cases[] = {{"System.Collections.Generic.List`1[System.Int32]", "System.Collections.Generic"},
                 {"Lunette.Target.Hot+<>c__DisplayClass15_0", "Lunette.Target"},
                 {"Interop+Sys", ""},
                 {"A.B[C.D]", "A"},
                 {"Top", ""},
                 {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_slice_str(pf_namespace_of(slice_str(cases[i].type)), cases[i].want);
}

static void state_machines_are_known_by_their_shape(void **state)
{
    (void)state;
    static const struct {
        const char *type, *method, *owner, *name;
    } cases[] = {
        {"Shop.Owner+<WriteLoopAsync>d__22", "MoveNext", "Shop.Owner", "WriteLoopAsync"},
        {"Owner`1+<Run>d__3[System.__Canon]", "MoveNext", "Owner`1", "Run"},
        {"Owner+<Run>d__3`1[System.__Canon]", "MoveNext", "Owner", "Run"},
        {"Owner+Nested+<Run>d__0", "MoveNext", "Owner+Nested", "Run"},
        {"Owner+<Run>d__22", "Reset", NULL, NULL},
        {"Program+<>c+<<Main>b__0_3>d", "MoveNext", NULL, NULL}, /* an async lambda */
        {"Program+<<Main>g__Local|0_0>d", "MoveNext", NULL, NULL},
        {"Owner+<Run>d__", "MoveNext", NULL, NULL},
        {"Owner+<Run>d__x", "MoveNext", NULL, NULL},
        {"Owner+<Run>d__2x", "MoveNext", NULL, NULL},
        {"Owner+<>d__2", "MoveNext", NULL, NULL},
        {"+<Run>d__2", "MoveNext", NULL, NULL},
        {"Owner", "MoveNext", NULL, NULL},
        {"", "MoveNext", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        slice owner, name;
        bool is = pf_async_parts(slice_str(cases[i].type), slice_str(cases[i].method), &owner, &name);
        assert_int_equal(is, cases[i].owner != NULL);
        if (!is) continue;
        assert_slice_str(owner, cases[i].owner);
        assert_slice_str(name, cases[i].name);
    }
}

static void an_async_method_has_the_name_of_its_author(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&cpu);
    clr_methods *m = profile_builder_methods(b);
    method(m, ALIVE, 9, (body){.start = 0x1000, .namespace_ = "Shop.Cart+<PayAsync>d__4", .name = "MoveNext"});
    method(m, ALIVE, 9, (body){.start = 0x2000, .namespace_ = "Shop.Cart+<>c+<<Pay>b__1>d", .name = "MoveNext"});
    sample(b, true, 1, 1, 0x1010, 0x2010);
    profile *p = kit_build(b);
    uint32_t folded = kit_frame(p, "Shop.Cart+<PayAsync>d__4.MoveNext()"),
             bare = kit_frame(p, "Shop.Cart+<>c+<<Pay>b__1>d.MoveNext()");
    assert_true(profile_frame_at(p, folded)->async);
    assert_false(profile_frame_at(p, bare)->async);
    buf t;
    buf_init(&t, 0);
    assert_true(profile_async_name(p, folded, &t));
    assert_slice_str(buf_view(&t), "Shop.Cart.PayAsync() [async]");
    assert_false(profile_async_name(p, bare, &t));
    buf_fini(&t);
    profile_unref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_of_one_method_are_one_frame),
        cmocka_unit_test(at_the_first_byte_stands_the_method_behind_the_last_the_caller),
        cmocka_unit_test(an_address_used_again_has_the_name_of_its_time_or_none),
        cmocka_unit_test(another_resolver_names_what_is_not_managed),
        cmocka_unit_test(managed_waits_are_found_without_generic_arguments),
        cmocka_unit_test(a_profile_is_built_once),
        cmocka_unit_test(another_session_tells_the_names_before_the_stacks_come_and_after),
        cmocka_unit_test(without_all_names_code_is_not_known_by_where_it_begins),
        cmocka_unit_test(the_namespace_of_a_type),
        cmocka_unit_test(state_machines_are_known_by_their_shape),
        cmocka_unit_test(an_async_method_has_the_name_of_its_author),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
