/* SPDX-License-Identifier: MIT */
/* test_utf.c: UTF-16 and UTF-8, and that what leaves is valid whatever came in. */
#include "base/utf.h"

#include "check.h"

#define BAD "\xef\xbf\xbd"

static void utf16_becomes_utf8(void **state)
{
    (void)state;
    static const struct {
        slice in;
        const char *out;
    } cases[] = {
        {SLICE_LIT(""), ""},
        {SLICE_LIT("a\0"), "a"},
        {SLICE_LIT("a\0b"), "a"}, /* an odd last byte */
        {SLICE_LIT("\x7f\0\x80\0"), "\x7f\xc2\x80"},
        {SLICE_LIT("\xff\x07\x00\x08"), "\xdf\xbf\xe0\xa0\x80"},
        {SLICE_LIT("\xac\x20"), "\xe2\x82\xac"},
        {SLICE_LIT("\xff\xff"), "\xef\xbf\xbf"},
        {SLICE_LIT("\x3d\xd8\x00\xde"), "\xf0\x9f\x98\x80"},
        {SLICE_LIT("\x00\xd8\x00\xdc"), "\xf0\x90\x80\x80"},
        {SLICE_LIT("\xff\xdb\xff\xdf"), "\xf4\x8f\xbf\xbf"},
        {SLICE_LIT("\x3d\xd8"), BAD},     /* high alone at the end */
        {SLICE_LIT("\x3d\xd8\x00"), BAD}, /* and with half a unit */
        {SLICE_LIT("\x3d\xd8"
                   "a\0"),
         BAD "a"}, /* high, then a letter */
        {SLICE_LIT("\x3d\xd8\x3d\xd8\x00\xde"), BAD "\xf0\x9f\x98\x80"},
        {SLICE_LIT("\x00\xde"
                   "a\0"),
         BAD "a"},                                /* low alone */
        {SLICE_LIT("\x00\xde\x3d\xd8"), BAD BAD}, /* the wrong way round */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf out = {0};
        assert_true(utf16le_to_utf8(cases[i].in, &out));
        assert_slice_str(buf_view(&out), cases[i].out);
        buf_fini(&out);
    }
}

/* The vector road and the slow one must agree wherever the first wide unit stands. */
static void every_length_and_position_agrees(void **state)
{
    (void)state;
    buf in = {0}, out = {0}, want = {0}, back = {0};
    for (size_t n = 0; n <= 35; n++) {
        for (size_t wide = 0; wide <= n; wide++) {
            buf_reset(&in), buf_reset(&out), buf_reset(&want), buf_reset(&back);
            for (size_t i = 0; i < n; i++) {
                buf_u16(&in, i == wide ? 0xe9 : (uint16_t)('A' + i));
                if (i == wide)
                    buf_str(&want, "\xc3\xa9");
                else
                    buf_u8(&want, (uint8_t)('A' + i));
            }
            assert_true(utf16le_to_utf8(buf_view(&in), &out));
            assert_slice(buf_view(&out), buf_view(&want));
            assert_true(utf8_to_utf16le(buf_view(&out), &back));
            assert_slice(buf_view(&back), buf_view(&in));
        }
    }
    buf_fini(&in), buf_fini(&out), buf_fini(&want), buf_fini(&back);
}

static void every_code_point_goes_there_and_back(void **state)
{
    (void)state;
    buf utf16 = {0}, utf8 = {0}, again = {0};
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        if (cp >= 0xd800 && cp <= 0xdfff) continue;
        if (cp < 0x10000)
            buf_u16(&utf16, (uint16_t)cp);
        else
            buf_u32(&utf16, (0xdc00 + ((cp - 0x10000) & 0x3ff)) << 16 | (0xd800 + ((cp - 0x10000) >> 10)));
    }
    assert_int_equal(utf16.n, 2 * (0x10000 - 0x800) + 4 * 0x100000);
    assert_true(utf16le_to_utf8(buf_view(&utf16), &utf8));
    assert_int_equal(utf8.n, 0x80 + 2 * (0x800 - 0x80) + 3 * (0x10000 - 0x800 - 0x800) + 4 * 0x100000);
    assert_true(utf8_valid(buf_view(&utf8)));
    assert_true(utf8_to_utf16le(buf_view(&utf8), &again));
    assert_true(slice_eq(buf_view(&again), buf_view(&utf16)));
    buf_fini(&utf16), buf_fini(&utf8), buf_fini(&again);
}

static const struct {
    slice in;
    bool valid;
    const char *out;
} utf8_cases[] = {
    {SLICE_LIT(""), true, ""},
    {SLICE_LIT("plain"), true, "plain"},
    {SLICE_LIT("\xc2\x80\xdf\xbf"), true, "\xc2\x80\xdf\xbf"},
    {SLICE_LIT("\xe0\xa0\x80\xef\xbf\xbf"), true, "\xe0\xa0\x80\xef\xbf\xbf"},
    {SLICE_LIT("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), true, "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
    {SLICE_LIT("\xed\x9f\xbf\xee\x80\x80"), true, "\xed\x9f\xbf\xee\x80\x80"},
    {SLICE_LIT("\x80"), false, BAD},
    {SLICE_LIT("\xff"), false, BAD},
    {SLICE_LIT("\xc0\xaf"), false, BAD BAD}, /* overlong */
    {SLICE_LIT("\xc1\xbf"), false, BAD BAD},
    {SLICE_LIT("\xe0\x80\xaf"), false, BAD BAD BAD},
    {SLICE_LIT("\xf0\x80\x80\xaf"), false, BAD BAD BAD BAD},
    {SLICE_LIT("\xed\xa0\x80"), false, BAD BAD BAD},         /* a surrogate */
    {SLICE_LIT("\xf4\x90\x80\x80"), false, BAD BAD BAD BAD}, /* past U+10FFFF */
    {SLICE_LIT("\xf5\x80"), false, BAD BAD},
    {SLICE_LIT("\xe2\x82"), false, BAD}, /* cut short: one mark for the piece */
    {SLICE_LIT("\xe2\x82x"), false, BAD "x"},
    {SLICE_LIT("\xf0\x9f\x98"), false, BAD},
    {SLICE_LIT("12345678\xc3"), false, "12345678" BAD},
    {SLICE_LIT("a\xf0\x9f\x98"
               "b\xc3\xa9"),
     false, "a" BAD "b\xc3\xa9"},
};

static void bad_utf8_is_told_and_mended(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof utf8_cases / sizeof *utf8_cases; i++) {
        buf out = {0}, wide = {0}, back = {0};
        assert_int_equal(utf8_valid(utf8_cases[i].in), utf8_cases[i].valid);
        assert_true(utf8_sanitize(utf8_cases[i].in, &out));
        assert_slice_str(buf_view(&out), utf8_cases[i].out);
        assert_true(utf8_valid(buf_view(&out)));
        assert_true(utf8_to_utf16le(utf8_cases[i].in, &wide)); /* mends in the same way */
        assert_true(utf16le_to_utf8(buf_view(&wide), &back));
        assert_slice(buf_view(&back), buf_view(&out));
        buf_fini(&out), buf_fini(&wide), buf_fini(&back);
    }
}

static void a_cut_splits_no_character(void **state)
{
    (void)state;
    slice s = SLICE_LIT("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
    static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t max = 0; max < sizeof want / sizeof *want; max++)
        assert_int_equal(utf8_cut(s, max), want[max]);
}

static void the_cap_of_the_buffer_holds(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 8);
    assert_true(
        utf16le_to_utf8(SLICE_LIT("a\0b\0c\0d\0e\0f\0g\0h\0"), &out)); /* 8 bytes, though 24 might have been needed */
    assert_slice_lit(buf_view(&out), "abcdefgh");
    assert_false(utf16le_to_utf8(SLICE_LIT("i\0"), &out));
    assert_slice_lit(buf_view(&out), "abcdefgh");
    buf_fini(&out);
    buf_init(&out, 4);
    assert_false(utf8_sanitize(SLICE_LIT("\xff\xff"), &out));
    buf_fini(&out);
    buf_init(&out, 4);
    assert_false(utf8_to_utf16le(SLICE_LIT("abc"), &out));
    buf_fini(&out);
}

static void a_long_text_takes_no_more_than_it_needs(void **state)
{
    (void)state;
    buf in = {0}, out;
    for (int i = 0; i < 100000; i++)
        buf_u16(&in, 'x');
    buf_init(&out, 100000);
    assert_true(utf16le_to_utf8(buf_view(&in), &out));
    assert_int_equal(out.n, 100000);
    assert_int_equal(out.p[99999], 'x');
    buf_fini(&in), buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf16_becomes_utf8),
        cmocka_unit_test(every_length_and_position_agrees),
        cmocka_unit_test(every_code_point_goes_there_and_back),
        cmocka_unit_test(bad_utf8_is_told_and_mended),
        cmocka_unit_test(a_cut_splits_no_character),
        cmocka_unit_test(the_cap_of_the_buffer_holds),
        cmocka_unit_test(a_long_text_takes_no_more_than_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
