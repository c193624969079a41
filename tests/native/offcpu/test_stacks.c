/* SPDX-License-Identifier: MIT */
/* test_stacks.c: stacks by number, once each; system calls by number and by function. */
#include "check.h"
#include "offcpu/result.h"
#include "offcpu/stacks.h"

static void a_stack_has_one_number(void **state)
{
    (void)state;
    oc_stacks *s = oc_stacks_new();
    const uint64_t kernel[] = {1, 2}, user[] = {3, 4, 5};
    uint32_t a = oc_stacks_put(s, kernel, 2, user, 3), b = oc_stacks_put(s, kernel, 1, user, 3),
             c = oc_stacks_put(s, NULL, 0, user, 3), k, u;
    assert_true(a && b && c && a != b && b != c);
    assert_int_equal(oc_stacks_put(s, kernel, 2, user, 3), a);
    const uint64_t *ips = oc_stacks_get(s, a, &k, &u);
    assert_true(k == 2 && u == 3 && ips[0] == 1 && ips[4] == 5);
    assert_int_equal(oc_stacks_put(s, NULL, 0, NULL, 0), 0);
    assert_null(oc_stacks_get(s, 0, &k, &u));
    assert_null(oc_stacks_get(s, oc_stacks_count(s) + 1, &k, &u));
    oc_stacks_free(s);
}

static void many_stacks_keep_their_numbers(void **state)
{
    (void)state;
    enum { STACKS = 20000 };
    oc_stacks *s = oc_stacks_new();
    for (int round = 0; round < 2; round++)
        for (uint64_t i = 0; i < STACKS; i++) {
            uint64_t user[3] = {i, i / 7, 42};
            assert_int_equal(oc_stacks_put(s, NULL, 0, user, 3), i + 1);
        }
    assert_int_equal(oc_stacks_count(s), STACKS);
    oc_stacks_free(s);
}

static void what_finds_no_memory_has_no_number(void **state)
{
    (void)state;
    for (long fail = 0, fired = 1; fired; fail++) {
        oc_stacks *s = oc_stacks_new();
        uint64_t user[] = {1, 2, 3};
        mem_fail_at(fail);
        uint32_t id = oc_stacks_put(s, NULL, 0, user, 3);
        fired = mem_failed();
        mem_fail_at(-1);
        oc_stacks_stats st;
        oc_stacks_stats_of(s, &st);
        assert_true(fired ? id == 0 && st.dropped == 1 : id == 1);
        oc_stacks_free(s);
    }
}

static void a_call_is_named_by_the_function_that_enters_it(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"__x64_sys_futex", "futex"},
        {"ksys_read", "read"},
        {"__sys_recvfrom", "recvfrom"},
        {"do_sys_poll", "poll"},
        {"do_syscall_64", ""},
        {"__x64_sys_newfstatat", "fstatat"},
        {"__do_sys_wait4.isra.0", "wait4"},
        {"futex_wait", ""},
        {"__ia32_sys_clone", "clone"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(slice_eq_str(oc_call_of_function(slice_str(cases[i][0])), cases[i][1]));
}

static void a_number_that_is_not_listed_is_told_as_such(void **state)
{
    (void)state;
    char text[24];
    assert_true(slice_eq_str(oc_call_name(0, text), "read"));
    assert_true(slice_eq_str(oc_call_name(202, text), "futex"));
    assert_true(slice_eq_str(oc_call_name(9999, text), "syscall_9999"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_has_one_number),
        cmocka_unit_test(many_stacks_keep_their_numbers),
        cmocka_unit_test(what_finds_no_memory_has_no_number),
        cmocka_unit_test(a_call_is_named_by_the_function_that_enters_it),
        cmocka_unit_test(a_number_that_is_not_listed_is_told_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
