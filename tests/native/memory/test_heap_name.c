/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "memory/heap_name.h"

static void check_name(const char *raw, const char *want)
{
    buf b;
    buf_init(&b, 4096);
    assert_true(heap_name_of(slice_str(raw), &b));
    assert_slice_str(buf_view(&b), want);
    buf_fini(&b);
}

static void names_are_written_as_clrmd_writes_them(void **state)
{
    (void)state;
    check_name("System.String", "System.String");
    check_name("System.Byte[]", "System.Byte[]");
    check_name("System.Object[,]", "System.Object[,]");
    check_name("System.Int32[][]", "System.Int32[][]");
    check_name("Outer+Inner", "Outer+Inner");
    check_name("System.Collections.Generic.List`1[[System.String, System.Private.CoreLib]]",
               "System.Collections.Generic.List<System.String>");
    check_name("Dictionary`2[[A, m],[B, m]]", "Dictionary<A, B>");
    check_name("Dictionary`2+Entry[[A, m],[B, m]][]", "Dictionary<A, B>+Entry[]");
    check_name("Builder`1+Box`1[[System.Int32, m],[Lunette.Odd+<Inner>d__17, n]]",
               "Builder<System.Int32>+Box<Lunette.Odd+<Inner>d__17>");
    check_name("List`1[[Dictionary`2[[A, m],[B[], m]], m]]", "List<Dictionary<A, B[]>>");
    check_name("<>f__AnonymousType0`2[[A, m],[B, m]]", "<>f__AnonymousType0<A, B>");
    check_name("A`10[[a, m],[b, m],[c, m],[d, m],[e, m],[f, m],[g, m],[h, m],[i, m],[j, m]]",
               "A<a, b, c, d, e, f, g, h, i, j>");
    check_name("System.Void*", "System.Void*");
}

static void what_is_no_such_name_stays_as_it_is(void **state)
{
    (void)state;
    static const char *const odd[] = {"",
                                      "List`1[[A, m]",
                                      "List`1[[A, m],[B, m]]",
                                      "List`2[[A, m]]",
                                      "A[[",
                                      "[[[[[[",
                                      "A]",
                                      "List`1",
                                      "A`99999999999[[B, m]]",
                                      "A[",
                                      "]"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        check_name(odd[i], odd[i]);
    char deep[800] = "";
    for (int i = 0; i < 100; i++)
        strcat(deep, "A`1[[");
    check_name(deep, deep);
}

static void a_full_buffer_is_said(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 8);
    assert_false(heap_name_of(SLICE_LIT("List`1[[System.String, m]]"), &b));
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_written_as_clrmd_writes_them),
        cmocka_unit_test(what_is_no_such_name_stays_as_it_is),
        cmocka_unit_test(a_full_buffer_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
