/* SPDX-License-Identifier: MIT */
/* test_json.c: the JSON writer and the strict reader. */
#include "base/json.h"

#include <math.h>

#include "base/utf.h"
#include "check.h"

/* ---- writer -------------------------------------------------------------------------------------------------------
 */

static void a_document_of_everything(void **state)
{
    (void)state;
    buf out = {0};
    jsonw w;
    jsonw_init(&w, &out);
    jsonw_object(&w);
    jsonw_key_lit(&w, "none");
    jsonw_array(&w);
    jsonw_end_array(&w);
    jsonw_key(&w, SLICE_LIT("a\"b"));
    jsonw_object(&w);
    jsonw_end_object(&w);
    jsonw_key_lit(&w, "list");
    jsonw_array(&w);
    jsonw_int(&w, INT64_MIN);
    jsonw_int(&w, INT64_MAX);
    jsonw_uint(&w, UINT64_MAX);
    jsonw_bool(&w, true);
    jsonw_bool(&w, false);
    jsonw_null(&w);
    jsonw_cstr(&w, NULL);
    jsonw_raw(&w, SLICE_LIT("{\"r\":1}"));
    jsonw_hex(&w, 0xdeadBEEF01);
    jsonw_array(&w);
    jsonw_int(&w, 0);
    jsonw_end_array(&w);
    assert_false(jsonw_done(&w));
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    assert_true(jsonw_done(&w));
    assert_slice_str(buf_view(&out), "{\"none\":[],\"a\\\"b\":{},\"list\":[-9223372036854775808,9223372036854775807,"
                                     "18446744073709551615,true,false,null,null,{\"r\":1},\"0xdeadbeef01\",[0]]}");
    buf_fini(&out);
}

static void check_str(slice in, const char *want)
{
    buf out = {0};
    jsonw w;
    jsonw_init(&w, &out);
    jsonw_str(&w, in);
    assert_true(jsonw_done(&w));
    assert_slice_str(buf_view(&out), want);
    jsonr r; /* and it reads back as what went in, mended */
    jsonr_init(&r, buf_view(&out));
    assert_int_equal(jsonr_next(&r), JSON_STR);
    buf mended = {0};
    utf8_sanitize(in, &mended);
    assert_slice(r.str, buf_view(&mended));
    assert_int_equal(jsonr_next(&r), JSON_END);
    jsonr_fini(&r);
    buf_fini(&mended);
    buf_fini(&out);
}

static void strings_are_escaped(void **state)
{
    (void)state;
    check_str(SLICE_LIT(""), "\"\"");
    check_str((slice){0}, "\"\"");
    check_str(SLICE_LIT("\b\t\n\f\r\"\\/"), "\"\\b\\t\\n\\f\\r\\\"\\\\/\"");
    check_str(SLICE_LIT("\0\x01\x1f\x7f"), "\"\\u0000\\u0001\\u001f\\u007f\"");
    check_str(SLICE_LIT("caf\xc3\xa9 \xf0\x9f\x98\x80"), "\"caf\xc3\xa9 \xf0\x9f\x98\x80\"");
    check_str(SLICE_LIT("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa"),
              "\"\xe2\x80\xa7\\u2028\\u2029\xe2\x80\xaa\"");
    check_str(SLICE_LIT("a\xff\xc0\xaf"
                        "b\xe2\x82"),
              "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
              "b\xef\xbf\xbd\"");
    check_str(SLICE_LIT("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    for (int b = 0; b < 256; b++) { /* every byte alone, in front and behind */
        buf out = {0};
        jsonw w;
        jsonw_init(&w, &out);
        uint8_t text[3] = {'x', (uint8_t)b, 'y'};
        jsonw_str(&w, slice_of(text, 3));
        assert_true(jsonw_done(&w));
        assert_true(utf8_valid(buf_view(&out)));
        jsonr r;
        jsonr_init(&r, buf_view(&out));
        assert_int_equal(jsonr_next(&r), JSON_STR);
        if (b < 128) assert_slice(r.str, slice_of(text, 3));
        if (b >= 128) assert_slice_lit(r.str, "x\xef\xbf\xbdy");
        jsonr_fini(&r);
        buf_fini(&out);
    }
}

static void numbers_are_shortest(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *want;
    } cases[] = {
        {0, "0"},
        {-0.0, "0"},
        {1, "1"},
        {-17, "-17"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {100, "100"},
        {1e15, "1000000000000000"},
        {9007199254740992.0, "9007199254740992"},
        {1e22, "1e+22"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {5e-324, "4.94065645841247e-324"},
        {2.5, "2.5"},
        {123456789.125, "123456789.125"},
        {NAN, "null"},
        {INFINITY, "null"},
        {-INFINITY, "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf out = {0};
        jsonw w;
        jsonw_init(&w, &out);
        jsonw_num(&w, cases[i].v);
        assert_true(jsonw_done(&w));
        assert_slice_str(buf_view(&out), cases[i].want);
        buf_u8(&out, 0);
        if (isfinite(cases[i].v)) assert_true(strtod((char *)out.p, NULL) == cases[i].v);
        buf_fini(&out);
    }
}

static void misuse_is_caught(void **state)
{
    (void)state;
    static const struct {
        const char *calls; /* { } [ ] as they read; k: a key; v: a value; r: raw nothing */
        bool ok;
    } cases[] = {
        {"v", true},     {"{}", true},    {"[]", true},  {"{kv}", true}, {"{kvkv}", true}, {"[vv[v]]", true},
        {"", false},     {"{", false},    {"[", false},  {"{v", false},  {"{kk", false},   {"{k}", false},
        {"[kv]", false}, {"[}", false},   {"{]", false}, {"}", false},   {"]", false},     {"vv", false},
        {"{}v", false},  {"{}{}", false}, {"k", false},  {"r", false},   {"{kvv}", false}, {"[]]", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf out = {0};
        jsonw w;
        jsonw_init(&w, &out);
        for (const char *c = cases[i].calls; *c; c++) {
            switch (*c) {
            case '{': jsonw_object(&w); break;
            case '}': jsonw_end_object(&w); break;
            case '[': jsonw_array(&w); break;
            case ']': jsonw_end_array(&w); break;
            case 'k': jsonw_key_lit(&w, "k"); break;
            case 'v': jsonw_int(&w, 1); break;
            case 'r': jsonw_raw(&w, (slice){0}); break;
            }
        }
        if (jsonw_done(&w) != cases[i].ok) fail_msg("%s", cases[i].calls);
        buf_fini(&out);
    }
}

static void the_writer_goes_so_deep_and_no_deeper(void **state)
{
    (void)state;
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        buf out = {0};
        jsonw w;
        jsonw_init(&w, &out);
        for (int i = 0; i < depth; i++)
            jsonw_array(&w);
        for (int i = 0; i < depth; i++)
            jsonw_end_array(&w);
        assert_int_equal(jsonw_done(&w), depth <= JSON_DEPTH_MAX);
        buf_fini(&out);
    }
}

typedef struct sink {
    buf all;
    size_t biggest;
    int calls, fail_at;
} sink;

static int to_sink(void *arg, buf *out)
{
    sink *s = arg;
    if (++s->calls == s->fail_at) return -1;
    if (out->n > s->biggest) s->biggest = out->n;
    buf_slice(&s->all, buf_view(out));
    return 0;
}

static bool write_numbers(buf *out, sink *s, size_t flush_at)
{
    jsonw w;
    jsonw_init(&w, out);
    if (s) w.flush = to_sink, w.flush_arg = s, w.flush_at = flush_at;
    jsonw_array(&w);
    for (int i = 0; i < 1000; i++)
        jsonw_int(&w, i);
    jsonw_end_array(&w);
    return jsonw_done(&w);
}

static void a_long_document_flows_through_a_small_buffer(void **state)
{
    (void)state;
    buf whole = {0}, small;
    assert_true(write_numbers(&whole, NULL, 0));
    buf_init(&small, 64);
    sink s = {0};
    assert_true(write_numbers(&small, &s, 50));
    buf_slice(&s.all, buf_view(&small)); /* the rest is the caller's to hand on */
    assert_slice(buf_view(&s.all), buf_view(&whole));
    assert_true(s.biggest >= 50 && s.biggest <= 64);
    buf_fini(&s.all);
    buf_reset(&small);
    s = (sink){.fail_at = 3};
    assert_false(write_numbers(&small, &s, 50));
    assert_int_equal(s.calls, 3); /* a writer that was stopped asks no more */
    buf_fini(&s.all);
    buf_reset(&small);
    assert_false(write_numbers(&small, NULL, 0)); /* does not fit, and says so */
    buf_fini(&small);
    buf_fini(&whole);
}

/* ---- reader -------------------------------------------------------------------------------------------------------
 */

/* One letter a token: { } [ ] K S I N T F 0, $ the end, ! an error. */
static void tokens_of(slice text, char *to, size_t cap, err *e)
{
    static const char letters[] = "${}[]KSINTF0";
    jsonr r;
    jsonr_init(&r, text);
    size_t n = 0;
    json_tok t;
    do {
        t = jsonr_next(&r);
        to[n++] = t == JSON_ERROR ? '!' : letters[t];
    } while (t > JSON_END && n + 1 < cap);
    to[n] = '\0';
    if (t == JSON_ERROR) {
        *e = r.e;
        assert_int_equal(jsonr_next(&r), JSON_ERROR); /* and it stays one */
    }
    jsonr_fini(&r);
}

static void valid_texts_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *in, *tokens;
    } cases[] = {
        {"null", "0$"},
        {" \t\r\n true \t\r\n", "T$"},
        {"false", "F$"},
        {"\"\"", "S$"},
        {"[]", "[]$"},
        {"{}", "{}$"},
        {"[ ]", "[]$"},
        {"{ }", "{}$"},
        {"[1,2.5,\"x\",null,true,false,[],{}]", "[INS0TF[]{}]$"},
        {"{\"a\":1,\"a\":{\"b\":[]}}", "{KIK{K[]}}$"},
        {"0", "I$"},
        {"-0", "I$"},
        {"-1", "I$"},
        {"0.0", "N$"},
        {"1e5", "N$"},
        {"1E+5", "N$"},
        {"1.5e-5", "N$"},
        {"9223372036854775807", "I$"},
        {"-9223372036854775808", "I$"},
        {"9223372036854775808", "N$"},
        {"18446744073709551616", "N$"},
        {"1e-400", "N$"},
        {"\"\\u0000\\ud83d\\ude00\\/\\b\"", "S$"},
        {"\"\x7f\"", "S$"},
        {"{\"\":0}", "{KI}$"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[64];
        err e = {0};
        tokens_of(slice_str(cases[i].in), got, sizeof got, &e);
        if (strcmp(got, cases[i].tokens) != 0) fail_msg("%s: %s, want %s", cases[i].in, got, cases[i].tokens);
    }
}

static void invalid_texts_are_refused_where_they_fail(void **state)
{
    (void)state;
    static const struct {
        slice in;
        int64_t at;
    } cases[] = {
        {SLICE_LIT(""), 0},
        {SLICE_LIT("  "), 2},
        {SLICE_LIT("[1,]"), 3},
        {SLICE_LIT("[,1]"), 1},
        {SLICE_LIT("[1 2]"), 3},
        {SLICE_LIT("[1"), 2},
        {SLICE_LIT("[1,"), 3},
        {SLICE_LIT("[1}"), 2},
        {SLICE_LIT("{\"a\"}"), 4},
        {SLICE_LIT("{\"a\":}"), 5},
        {SLICE_LIT("{\"a\":1,}"), 7},
        {SLICE_LIT("{\"a\" 1}"), 5},
        {SLICE_LIT("{\"a\""), 4},
        {SLICE_LIT("{\"a\":"), 5},
        {SLICE_LIT("{a:1}"), 1},
        {SLICE_LIT("{1:1}"), 1},
        {SLICE_LIT("{]"), 1},
        {SLICE_LIT("'a'"), 0},
        {SLICE_LIT("1 2"), 2},
        {SLICE_LIT("{}x"), 2},
        {SLICE_LIT("// c\n1"), 0},
        {SLICE_LIT("[1/**/]"), 2},
        {SLICE_LIT("nul"), 0},
        {SLICE_LIT("nulL"), 0},
        {SLICE_LIT("True"), 0},
        {SLICE_LIT("truex"), 4},
        {SLICE_LIT("NaN"), 0},
        {SLICE_LIT("Infinity"), 0},
        {SLICE_LIT("-Infinity"), 1},
        {SLICE_LIT("01"), 1},
        {SLICE_LIT("-01"), 2},
        {SLICE_LIT("+1"), 0},
        {SLICE_LIT("-"), 1},
        {SLICE_LIT("1."), 2},
        {SLICE_LIT(".5"), 0},
        {SLICE_LIT("1e"), 2},
        {SLICE_LIT("1e+"), 3},
        {SLICE_LIT("1.e5"), 2},
        {SLICE_LIT("0x10"), 1},
        {SLICE_LIT("1e400"), 0},
        {SLICE_LIT("-1e400"), 0},
        {SLICE_LIT("\"a"), 2},
        {SLICE_LIT("\"a\\"), 3},
        {SLICE_LIT("\"\\x41\""), 2},
        {SLICE_LIT("\"\\\0\""), 2},
        {SLICE_LIT("\"\\u12g4\""), 3},
        {SLICE_LIT("\"\\u12\""), 3},
        {SLICE_LIT("\"a\nb\""), 2},
        {SLICE_LIT("\"a\0b\""), 2},
        {SLICE_LIT("\"a\x1f\""), 2},
        {SLICE_LIT("\"a\xff\""), 2},
        {SLICE_LIT("\"\xc0\xaf\""), 1},
        {SLICE_LIT("\"\xed\xa0\x80\""), 1},
        {SLICE_LIT("\"\\n\xe2\x82\""), 3},
        {SLICE_LIT("\xef\xbb\xbf{}"), 0},
        {SLICE_LIT("\0"), 0},
        {SLICE_LIT("1\0"), 1},
        {SLICE_LIT("[\xa0]"), 1},
        {SLICE_LIT("]"), 0},
        {SLICE_LIT("}"), 0},
        {SLICE_LIT(","), 0},
        {SLICE_LIT(":"), 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[64];
        err e = {0};
        tokens_of(cases[i].in, got, sizeof got, &e);
        if (e.kind != ERR_MALFORMED || !e.has_offset || e.offset != cases[i].at) {
            fail_msg("%.*s: %s, %s at %lld, want %lld", (int)cases[i].in.n, (const char *)cases[i].in.p, got, e.message,
                     (long long)e.offset, (long long)cases[i].at);
        }
    }
}

static void strings_are_unescaped(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        slice want;
    } cases[] = {
        {"\"plain\"", SLICE_LIT("plain")},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", SLICE_LIT("\"\\/\b\f\n\r\t")},
        {"\"a\\u0000b\"", SLICE_LIT("a\0b")},
        {"\"\\u00e9\\u20AC\\uFFFF\"", SLICE_LIT("\xc3\xa9\xe2\x82\xac\xef\xbf\xbf")},
        {"\"\\ud83d\\ude00\"", SLICE_LIT("\xf0\x9f\x98\x80")},
        {"\"\\ud800\"", SLICE_LIT("\xef\xbf\xbd")},
        {"\"\\udc00x\"", SLICE_LIT("\xef\xbf\xbdx")},
        {"\"\\ud83d\\n\"", SLICE_LIT("\xef\xbf\xbd\n")},
        {"\"\\ud83d\\ud83d\\ude00\"", SLICE_LIT("\xef\xbf\xbd\xf0\x9f\x98\x80")},
        {"\"\\ud83dx\"", SLICE_LIT("\xef\xbf\xbdx")},
        {"\"a\\tb\xc3\xa9\\tc\"", SLICE_LIT("a\tb\xc3\xa9\tc")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        jsonr r;
        jsonr_init(&r, slice_str(cases[i].in));
        assert_int_equal(jsonr_next(&r), JSON_STR);
        assert_slice(r.str, cases[i].want);
        assert_int_equal(jsonr_next(&r), JSON_END);
        jsonr_fini(&r);
    }
}

static void numbers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        json_tok tok;
        int64_t i;
        double num;
    } cases[] = {
        {"0", JSON_INT, 0, 0},
        {"-0", JSON_INT, 0, 0},
        {"42", JSON_INT, 42, 42},
        {"9223372036854775807", JSON_INT, INT64_MAX, 9223372036854775807.0},
        {"-9223372036854775808", JSON_INT, INT64_MIN, -9223372036854775808.0},
        {"-9223372036854775809", JSON_NUM, 0, -9223372036854775809.0},
        {"9223372036854775808", JSON_NUM, 0, 9223372036854775808.0},
        {"9007199254740993", JSON_INT, 9007199254740993, 9007199254740992.0},
        {"1.0", JSON_NUM, 0, 1},
        {"1e3", JSON_NUM, 0, 1000},
        {"0.30000000000000004", JSON_NUM, 0, 0.1 + 0.2},
        {"1e-400", JSON_NUM, 0, 0},
        {"1.7976931348623157e308", JSON_NUM, 0, 1.7976931348623157e308},
        {"100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000", JSON_NUM,
         0, 1e95},
        {"0.0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001", JSON_NUM,
         0, 1e-94},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        jsonr r;
        jsonr_init(&r, slice_str(cases[i].in));
        assert_int_equal(jsonr_next(&r), cases[i].tok);
        if (cases[i].tok == JSON_INT) assert_true(r.i == cases[i].i);
        assert_true(r.num == cases[i].num);
        assert_int_equal(jsonr_next(&r), JSON_END);
        jsonr_fini(&r);
    }
    jsonr r;
    jsonr_init(&r, SLICE_LIT("-0"));
    jsonr_next(&r);
    assert_true(signbit(r.num));
    jsonr_fini(&r);
}

static void depth_has_a_limit(void **state)
{
    (void)state;
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        buf in = {0};
        for (int i = 0; i < depth; i++)
            buf_str(&in, i % 2 ? "{\"k\":" : "[");
        buf_str(&in, "1");
        for (int i = depth - 1; i >= 0; i--)
            buf_str(&in, i % 2 ? "}" : "]");
        jsonr r;
        jsonr_init(&r, buf_view(&in));
        bool ok = jsonr_skip(&r);
        assert_int_equal(ok, depth <= JSON_DEPTH_MAX);
        assert_int_equal(jsonr_next(&r), ok ? JSON_END : JSON_ERROR);
        if (!ok) assert_int_equal(r.e.kind, ERR_MALFORMED);
        jsonr_fini(&r);
        buf_fini(&in);
    }
}

static void a_value_can_be_skipped(void **state)
{
    (void)state;
    jsonr r;
    jsonr_init(&r, SLICE_LIT("{\"a\":{\"x\":[1,{\"y\":2}]},\"b\":7,\"c\":\"s\",\"d\":[3,4]}"));
    assert_int_equal(jsonr_next(&r), JSON_OBJECT);
    assert_int_equal(jsonr_next(&r), JSON_KEY);
    assert_true(jsonr_skip(&r));
    assert_int_equal(jsonr_next(&r), JSON_KEY);
    assert_slice_lit(r.str, "b");
    assert_true(jsonr_skip(&r));
    assert_int_equal(jsonr_next(&r), JSON_KEY);
    assert_slice_lit(r.str, "c");
    assert_true(jsonr_skip(&r));
    assert_int_equal(jsonr_next(&r), JSON_KEY);
    assert_int_equal(jsonr_next(&r), JSON_ARRAY);
    assert_true(jsonr_skip(&r));
    assert_true(jsonr_skip(&r));
    assert_false(jsonr_skip(&r)); /* the end of the array is no value */
    jsonr_fini(&r);
    jsonr_init(&r, SLICE_LIT("[[1,2"));
    assert_false(jsonr_skip(&r));
    jsonr_fini(&r);
}

static int use_json(void *arg)
{
    (void)arg;
    buf out = {0};
    jsonw w;
    jsonw_init(&w, &out);
    jsonw_array(&w);
    for (int i = 0; i < 50; i++)
        jsonw_str(&w, SLICE_LIT("some text\nwith an escape"));
    jsonw_end_array(&w);
    int rc = jsonw_done(&w) ? 0 : -ERR_NO_MEMORY;
    buf_fini(&out);
    jsonr r;
    jsonr_init(&r, SLICE_LIT("[\"\\t0123456789012345678901234567890123456789012345678901234567890123456789\"]"));
    json_tok t;
    while ((t = jsonr_next(&r)) > JSON_END)
        ;
    if (t == JSON_ERROR) {
        assert_int_equal(r.e.kind, ERR_NO_MEMORY);
        rc = -ERR_NO_MEMORY;
    }
    jsonr_fini(&r);
    return rc;
}

static void each_failed_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(each_allocation_fails(use_json, NULL) >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_of_everything),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(numbers_are_shortest),
        cmocka_unit_test(misuse_is_caught),
        cmocka_unit_test(the_writer_goes_so_deep_and_no_deeper),
        cmocka_unit_test(a_long_document_flows_through_a_small_buffer),
        cmocka_unit_test(valid_texts_are_read),
        cmocka_unit_test(invalid_texts_are_refused_where_they_fail),
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(depth_has_a_limit),
        cmocka_unit_test(a_value_can_be_skipped),
        cmocka_unit_test(each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
