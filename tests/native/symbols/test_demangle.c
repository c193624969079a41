/* SPDX-License-Identifier: MIT */
/* test_demangle.c: names of C++ and Rust symbols, and names that would never end. */
#include <pthread.h>

#include "base/utf.h"
#include "check.h"
#include "symbols/demangle.h"

static void check(const char *name, const char *want, bool mangled)
{
    buf b;
    buf_init(&b, 0);
    assert_int_equal(sym_demangle(name, &b), mangled);
    assert_slice_str(buf_view(&b), want);
    buf_fini(&b);
}

static void names_of_cpp_are_readable(void **state)
{
    (void)state;
    check("_ZN3WKS7gc_heap12mark_object1EPh", "WKS::gc_heap::mark_object1(unsigned char*)", true);
    check("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)", true);
    check("_ZNK5EEJit7GetNameEv", "EEJit::GetName() const", true);
    check("_ZTV9Exception", "vtable for Exception", true);
    check("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const", true);
}

static void names_of_rust_are_readable(void **state)
{
    (void)state;
    check("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE", "core::fmt::Formatter::write_str", true);
    check("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
          "<Test + 'static as foo::Bar<Test>>::bar", true);
    check("_RNvCs1234_7mycrate3foo", "mycrate::foo", true);
    check("_RNvNtCs1234_7mycrate3bar4main", "mycrate::bar::main", true);
}

static void other_names_stay(void **state)
{
    (void)state;
    check("memcpy", "memcpy", false);
    check("S_P_CoreLib_System_String__Concat", "S_P_CoreLib_System_String__Concat", false);
    check("_Z", "_Z", false);
    check("_R", "_R", false);
    check("", "", false);
    check("na\xffme", "na\xef\xbf\xbdme", false);
}

/* Each parameter is a pair of the one before: ten letters more double what is written. */
static void a_name_that_explodes_stays(void **state)
{
    (void)state;
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char name[1024] = "_Z1fSt4pairIiiE";
    for (int i = 0; i < 30; i++) {
        size_t n = strlen(name);
        snprintf(name + n, sizeof name - n, "S_IS%c_S%c_E", digits[i], digits[i]);
    }
    check(name, name, false);
    name[15 + 3 * 10] = '\0'; /* with three of them it is a name like any other */
    buf b;
    buf_init(&b, 0);
    assert_true(sym_demangle(name, &b));
    assert_true(b.n > 100 && b.n < 1000);
    buf_fini(&b);
}

static void a_name_of_any_length_has_an_end(void **state)
{
    (void)state;
    size_t n = 1 << 20;
    char *name = malloc(n + 1);
    buf b;
    memset(name, 'P', n);
    memcpy(name, "_Z1f", 4);
    name[n] = '\0';
    buf_init(&b, 0);
    assert_false(sym_demangle(name, &b));
    assert_int_equal(b.n, SYM_MANGLED_MAX);
    buf_fini(&b);
    free(name);
}

/* As deep as names can be nested, on the stack of a worker thread. */
static void *nest(void *arg)
{
    static const char *const starts[] = {"_Z1f", "_ZN1a", "_R", "_RNv", "_ZZ", "_Z"};
    static const char *const steps[] = {"P",   "I1aI", "N", "Nv",       "L",        "S",    "B",
                                        "FvP", "X",    "R", "INtC1a1b", "St4pairI", "DpT_", "cl"};
    char name[SYM_MANGLED_MAX + 64];
    (void)arg;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
            for (size_t n = 64; n < SYM_MANGLED_MAX; n = n * 2 - 1) {
                buf b;
                buf_init(&b, 0);
                size_t at = (size_t)snprintf(name, sizeof name, "%s", starts[i]);
                while (at + strlen(steps[k]) < n)
                    at += (size_t)snprintf(name + at, sizeof name - at, "%s", steps[k]);
                snprintf(name + at, sizeof name - at, "iE");
                sym_demangle(name, &b);
                assert_true(b.n > 0 && utf8_valid(buf_view(&b)));
                buf_fini(&b);
            }
    return NULL;
}

static void deep_names_fit_on_a_workers_stack(void **state)
{
    (void)state;
    pthread_attr_t attr;
    pthread_t t;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, (size_t)1 << 20);
    assert_int_equal(pthread_create(&t, &attr, nest, NULL), 0);
    pthread_join(t, NULL);
    pthread_attr_destroy(&attr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_cpp_are_readable),
        cmocka_unit_test(names_of_rust_are_readable),
        cmocka_unit_test(other_names_stay),
        cmocka_unit_test(a_name_that_explodes_stays),
        cmocka_unit_test(deep_names_fit_on_a_workers_stack),
        cmocka_unit_test(a_name_of_any_length_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
