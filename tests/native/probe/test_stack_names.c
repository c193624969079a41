/* SPDX-License-Identifier: MIT */
/* test_stack_names.c: stacks of a result get the names of their time, or none; those of the same methods are one. */
#include "../clr/methods_events.h"
#include "kit.h"

/* The shop's clock: ticks of 10 ns, 1000 at the session's start. */
static int64_t at(int64_t ns) { return 1000 + ns / 10; }

static void check(shop *s, const clr_methods *m, const char *want)
{
    const probe_spec keep[] = {
        {.name = "g", .op = PROBE_GROUP, .by = NAMED({"stack", "@stack"}), KEEP({.name = "n", .op = PROBE_COUNT})}};
    probe_program p = shop_program(keep, 1);
    char *got = shop_run(s, &p, m), *rows = strstr(got, "rows="), *end = strstr(got, ", meta=");
    if (end) *end = 0;
    assert_string_equal(rows, want);
    free(got);
}

static int make(void **state)
{
    *state = clr_methods_new(0);
    return 0;
}
static int drop(void **state)
{
    clr_methods_free(*state);
    return 0;
}

static void an_address_used_again_has_the_name_of_its_time_or_none(void **state)
{
    clr_methods *m = *state;
    method(m, LOAD_NAMED, at(0), (body){.start = 0x1000, .id = 1, .flags = 1, .name = "dyn1"});
    method(m, UNLOAD_NAMED, at(1000), (body){.start = 0x1000, .id = 1, .flags = 1, .name = "dyn1"});
    method(m, LOAD_NAMED, at(2000), (body){.start = 0x1000, .id = 1, .flags = 1, .name = "dyn2"});
    method(m, ALIVE, at(9000), (body){.start = 0x2000, .id = 5, .name = "Caller"});
    shop s;
    shop_start(&s);
    shop_stacks(&s, 3, (uint64_t[]){0x1010, 0x1020, 0x2010});
    shop_stack(&s, BEGIN, 500, 1, 1, 1);
    shop_stack(&s, BEGIN, 600, 1, 2, 2); /* dyn1 only */
    shop_stack(&s, BEGIN, 700, 1, 3, 2);
    shop_stack(&s, BEGIN, 2500, 1, 4, 1); /* dyn2, at the address where dyn1 was seen */
    shop_stack(&s, BEGIN, 2600, 1, 5, 1);
    shop_stack(&s, BEGIN, 2700, 1, 6, 3);
    check(&s, m,
          "rows=[{stack=1, n=3}, {stack=2, n=2}, {stack=3, n=1}], keys=3, evicted=0, dropped=0}, "
          "stacks=[{frames=[{address=\"0x1010\"}]}, {frames=[{name=\"N.T.dyn1()\", address=\"0x1020\"}]}, "
          "{frames=[{name=\"N.T.Caller()\", address=\"0x2010\"}]}]");
    shop_fini(&s);
}

static void one_descriptor_of_two_dynamic_methods_is_two(void **state)
{
    clr_methods *m = *state;
    method(m, LOAD_NAMED, at(0), (body){.start = 0x1000, .id = 1, .flags = 1, .name = "dyn1"});
    method(m, UNLOAD_NAMED, at(1000), (body){.start = 0x1000, .id = 1, .flags = 1, .name = "dyn1"});
    method(m, LOAD_NAMED, at(2000), (body){.start = 0x3000, .id = 1, .flags = 1, .name = "dyn2"});
    shop s;
    shop_start(&s);
    shop_stacks(&s, 2, (uint64_t[]){0x1010, 0x3010});
    shop_stack(&s, BEGIN, 500, 1, 1, 1);
    shop_stack(&s, BEGIN, 2500, 1, 2, 2);
    shop_stack(&s, BEGIN, 2600, 1, 3, 2);
    check(&s, m,
          "rows=[{stack=1, n=2}, {stack=2, n=1}], keys=2, evicted=0, dropped=0}, "
          "stacks=[{frames=[{name=\"N.T.dyn2()\", address=\"0x3010\"}]}, "
          "{frames=[{name=\"N.T.dyn1()\", address=\"0x1010\"}]}]");
    shop_fini(&s);
}

static void two_bodies_of_one_method_are_one(void **state)
{
    clr_methods *m = *state;
    method(m, ALIVE, at(9000), (body){.start = 0x1000, .id = 7, .flags = 0x188, .name = "Hot"});
    method(m, ALIVE, at(9000), (body){.start = 0x3000, .id = 7, .flags = 0x208, .name = "Hot"});
    shop s;
    shop_start(&s);
    shop_stacks(&s, 2, (uint64_t[]){0x1010, 0x3100}); /* the second behind its last byte: a return address */
    shop_stack(&s, BEGIN, 500, 1, 1, 1);
    shop_stack(&s, BEGIN, 2500, 1, 2, 2);
    check(&s, m,
          "rows=[{stack=1, n=2}], keys=1, evicted=0, dropped=0}, "
          "stacks=[{frames=[{name=\"N.T.Hot()\", address=\"0x1010\"}]}]");
    shop_fini(&s);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, make, drop)
    const struct CMUnitTest tests[] = {
        T(an_address_used_again_has_the_name_of_its_time_or_none),
        T(one_descriptor_of_two_dynamic_methods_is_two),
        T(two_bodies_of_one_method_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
