/* SPDX-License-Identifier: MIT */
/* test_bytes.c: slices, and the cursor that reads outside bytes. */
#include "base/bytes.h"
#include "check.h"

static void slices_compare_by_content(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool eq, starts, ends;
    } cases[] = {
        {"", "", true, true, true},          {"abc", "", false, true, true},    {"abc", "abc", true, true, true},
        {"abc", "ab", false, true, false},   {"abc", "bc", false, false, true}, {"ab", "abc", false, false, false},
        {"abc", "abd", false, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        slice a = slice_str(cases[i].a), b = slice_str(cases[i].b);
        assert_int_equal(slice_eq(a, b), cases[i].eq);
        assert_int_equal(slice_starts(a, b), cases[i].starts);
        assert_int_equal(slice_ends(a, b), cases[i].ends);
        assert_int_equal(slice_eq_str(a, cases[i].b), cases[i].eq);
    }
    assert_true(slice_eq((slice){0}, slice_str("")));
    assert_true(slice_starts((slice){0}, (slice){0}));
    assert_true(slice_ends((slice){0}, (slice){0}));
    assert_int_equal(slice_str(NULL).n, 0);
}

static void a_duplicate_ends_in_nul(void **state)
{
    (void)state;
    char *copy = slice_dup(SLICE_LIT("a\0b"));
    assert_memory_equal(copy, "a\0b\0", 4);
    free(copy);
    char *empty = slice_dup((slice){0});
    assert_string_equal(empty, "");
    free(empty);
    mem_fail_at(0);
    assert_null(slice_dup(SLICE_LIT("x")));
    assert_true(mem_failed());
    mem_fail_at(-1);
}

static void the_cursor_reads_little_endian(void **state)
{
    (void)state;
    static const uint8_t in[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0xfe, 0xff, 0xff, 0xff, 0x08,
                                 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0,    0,    0x80, 0x3f, 0,
                                 0,    0,    0,    0,    0,    0xf0, 0xbf, 'h',  'i',  'x',  0xff, 0xff};
    cursor c = cursor_of(slice_of(in, sizeof in), 100);
    assert_int_equal(cursor_u8(&c), 1);
    assert_int_equal(cursor_u16(&c), 0x0302);
    assert_int_equal(cursor_u32(&c), 0x07060504);
    assert_int_equal(cursor_i32(&c), -2);
    assert_true(cursor_u64(&c) == 0x0102030405060708u);
    assert_true(cursor_f32(&c) == 1.0f);
    assert_true(cursor_f64(&c) == -1.0);
    assert_slice_lit(cursor_bytes(&c, 2), "hi");
    cursor_skip(&c, 1);
    assert_int_equal(cursor_offset(&c), 100 + (int64_t)sizeof in - 2);
    assert_int_equal(cursor_i16(&c), -1);
    assert_int_equal(cursor_left(&c), 0);
    assert_true(cursor_ok(&c));
}

static void the_first_failure_stays(void **state)
{
    (void)state;
    cursor c = cursor_of(SLICE_LIT("abcde"), 1000);
    cursor_u32(&c);
    assert_int_equal(cursor_u32(&c), 0); /* one byte left: this fails, at 1004 */
    assert_false(cursor_ok(&c));
    assert_int_equal(cursor_u8(&c), 0); /* although a byte was there */
    assert_int_equal(cursor_bytes(&c, 0).n, 0);
    assert_true(cursor_i64(&c) == 0);
    assert_int_equal(cursor_offset(&c), 1004);
    assert_int_equal(cursor_left(&c), 0);
}

static void a_cursor_on_nothing_works(void **state)
{
    (void)state;
    cursor c = cursor_of((slice){0}, 0);
    assert_int_equal(cursor_bytes(&c, 0).n, 0);
    assert_true(cursor_ok(&c));
    assert_int_equal(cursor_varu32(&c), 0);
    assert_false(cursor_ok(&c));
    assert_int_equal(cursor_offset(&c), 0);
}

static void varints(void **state)
{
    (void)state;
    static const struct {
        slice in;
        bool ok32, ok64;
        uint64_t v;
    } cases[] = {
        {SLICE_LIT("\x00"), true, true, 0},
        {SLICE_LIT("\x7f"), true, true, 127},
        {SLICE_LIT("\x80\x01"), true, true, 128},
        {SLICE_LIT("\xac\x02"), true, true, 300},
        {SLICE_LIT("\x80\x00"), true, true, 0}, /* padded, as some writers do */
        {SLICE_LIT("\xff\xff\xff\xff\x0f"), true, true, UINT32_MAX},
        {SLICE_LIT("\xff\xff\xff\xff\x1f"), false, true, 0x1ffffffff},
        {SLICE_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), false, true, UINT64_MAX},
        {SLICE_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), false, false, 0},
        {SLICE_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), false, false, 0},
        {SLICE_LIT("\x80"), false, false, 0},
        {SLICE_LIT("\x80\x80\x80\x80"), false, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cursor c = cursor_of(cases[i].in, 7);
        uint32_t v32 = cursor_varu32(&c);
        assert_int_equal(cursor_ok(&c), cases[i].ok32);
        assert_int_equal(v32, cases[i].ok32 ? cases[i].v : 0);
        if (cases[i].ok32) assert_int_equal(cursor_left(&c), 0);
        if (!cases[i].ok32) assert_int_equal(cursor_offset(&c), 7);
        c = cursor_of(cases[i].in, 7);
        uint64_t v64 = cursor_varu64(&c);
        assert_int_equal(cursor_ok(&c), cases[i].ok64);
        assert_true(v64 == (cases[i].ok64 ? cases[i].v : 0));
    }
}

/* Each length up to past two vector widths, with the NUL at its end, and with a unit whose low or high byte alone is 0
 * before it. */
static void utf16_strings_end_at_a_zero_unit(void **state)
{
    (void)state;
    uint8_t in[2 * 40 + 3];
    for (size_t n = 0; n < 40; n++) {
        for (size_t i = 0; i < n; i++) {
            in[2 * i] = i % 2 ? 0 : 'a';
            in[2 * i + 1] = i % 2 ? 1 : 0;
        }
        in[2 * n] = in[2 * n + 1] = 0;
        in[2 * n + 2] = 0x55;
        cursor c = cursor_of(slice_of(in, 2 * n + 3), 0);
        slice s = cursor_utf16z(&c, 40);
        assert_true(cursor_ok(&c));
        assert_int_equal(s.n, 2 * n);
        assert_ptr_equal(s.p, in);
        assert_int_equal(cursor_u8(&c), 0x55);

        c = cursor_of(slice_of(in, 2 * n + 3), 0);
        assert_int_equal(cursor_utf16z(&c, n).n, 2 * n); /* exactly at the cap */
        assert_true(cursor_ok(&c));
        if (n > 0) {
            c = cursor_of(slice_of(in, 2 * n + 3), 5);
            assert_int_equal(cursor_utf16z(&c, n - 1).n, 0);
            assert_int_equal(cursor_offset(&c), 5);
            assert_false(cursor_ok(&c));
        }
        c = cursor_of(slice_of(in, 2 * n + 1), 0); /* half a NUL unit */
        cursor_utf16z(&c, 40);
        assert_false(cursor_ok(&c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_compare_by_content),        cmocka_unit_test(a_duplicate_ends_in_nul),
        cmocka_unit_test(the_cursor_reads_little_endian),   cmocka_unit_test(the_first_failure_stays),
        cmocka_unit_test(a_cursor_on_nothing_works),        cmocka_unit_test(varints),
        cmocka_unit_test(utf16_strings_end_at_a_zero_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
