/* SPDX-License-Identifier: MIT */
/* test_expr.c: DWARF expressions. */
#include "check.h"
#include "unwind/uw_internal.h"

static bool read_numbers(void *arg, uint64_t address, void *out, size_t n)
{
    (void)arg;
    if (address < 0x1000 || address >= 0x2000) return false;
    uint64_t v = address * 3;
    memcpy(out, &v, n);
    return true;
}

typedef struct expr_case {
    const char *what;
    uint8_t p[16];
    size_t n;
    bool ok;
    uint64_t value;
} expr_case;

static void operations_give_what_the_standard_says(void **state)
{
    (void)state;
    static const expr_case cases[] = {
        /* the expression of a PLT: rsp + 8 + ((rip & 15) >= 11) * 8 */
        {"a PLT", {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}, 11, true, 0x7010},
        {"swap, minus", {0x35, 0x32, 0x16, 0x1c}, 4, true, (uint64_t)-3},
        {"rot", {0x31, 0x32, 0x33, 0x17, 0x13, 0x13}, 6, true, 3},
        {"over, pick", {0x31, 0x32, 0x14, 0x15, 1, 0x22}, 6, true, 3},
        {"a branch is taken", {0x35, 0x31, 0x28, 1, 0, 0x36, 0x12, 0x22}, 8, true, 10},
        {"memory", {0x0a, 0x00, 0x10, 0x06}, 4, true, 0x3000},
        {"memory that is not there", {0x31, 0x06}, 2, false, 0},
        {"two bytes of it", {0x0a, 0x00, 0x10, 0x94, 2}, 5, true, 0x3000},
        {"sleb", {0x11, 0x7e}, 2, true, (uint64_t)-2},
        {"uleb, plus_uconst", {0x10, 0xac, 0x02, 0x23, 1}, 5, true, 301},
        {"neg, abs", {0x35, 0x1f, 0x19}, 3, true, 5},
        {"division by zero", {0x35, 0x30, 0x1b}, 3, false, 0},
        {"nothing on the stack", {0x22}, 1, false, 0},
        {"no operation", {0xff}, 1, false, 0},
        {"a jump out of it", {0x2f, 0x00, 0x01}, 3, false, 0},
        {"a loop without end", {0x2f, 0xfd, 0xff}, 3, false, 0},
        {"cut short", {0x0c, 1, 2}, 3, false, 0},
    };
    uw_regs r = {.known = 1u << UW_RSP | 1u << UW_RIP};
    r.r[UW_RSP] = 0x7000;
    r.r[UW_RIP] = 0x40100b;
    uw_memory m = {read_numbers, NULL};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t v = 0;
        bool ok = uw__expr(slice_of(cases[i].p, cases[i].n), &r, &m, NULL, &v);
        if (ok != cases[i].ok || (ok && v != cases[i].value))
            fail_msg("%s: %d %llx", cases[i].what, ok, (unsigned long long)v);
    }
    uint64_t v, initial = 5;
    static const uint8_t add[] = {0x23, 3}, rbx[] = {0x73, 0};
    assert_true(uw__expr(slice_of(add, 2), &r, &m, &initial, &v));
    assert_int_equal(v, 8);
    assert_false(uw__expr(slice_of(rbx, 2), &r, &m, NULL, &v)); /* a register that is not known */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations_give_what_the_standard_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
