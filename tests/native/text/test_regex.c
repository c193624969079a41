/* SPDX-License-Identifier: MIT */
/* test_regex.c: what matches, what is refused, and that no pattern takes long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "text/regex.h"

typedef struct match_case {
    const char *pattern, *text, *want; /* want: the first match; NULL: none */
} match_case;

static void check_match(const match_case *c)
{
    regex *r = NULL;
    err e = {0};
    if (regex_new(slice_str(c->pattern), &r, &e) < 0) fail_msg("%s: %s", c->pattern, e.message);
    size_t start = 0, end = 0;
    bool found = regex_find(r, slice_str(c->text), 0, &start, &end);
    if (found != (c->want != NULL)) fail_msg("%s on \"%s\": found %d", c->pattern, c->text, found);
    if (found && c->want && (end - start != strlen(c->want) || memcmp(c->text + start, c->want, end - start) != 0))
        fail_msg("%s on \"%s\": got \"%.*s\", want \"%s\"", c->pattern, c->text, (int)(end - start), c->text + start,
                 c->want);
    regex_free(r);
}

static void the_leftmost_longest_match_counts(void **state)
{
    (void)state;
    static const match_case CASES[] = {
        {"abc", "xxabcx", "abc"},
        {"a|ab|abc", "zabcd", "abc"},
        {"b+", "abbbab", "bbb"},
        {"a*", "bbb", NULL},
        {"(ab)*c", "ababc", "ababc"},
        {"colou?r", "my color", "color"},
        {"x.y", "x\ny x-y", "x-y"},
        {"^ab", "abab", "ab"},
        {"^b", "ab", NULL},
        {"b$", "abab", "b"},
        {"^$", "", NULL},
        {"[a-c]+", "xxcabz", "cab"},
        {"[^a-c]+", "abxyc", "xy"},
        {"[]x]+", "a]x]", "]x]"},
        {"[a-]+", "b-a-b", "-a-"},
        {"[\\w.-]+@[\\w-]+\\.com", "to: jo.e-x@ex-am.com!", "jo.e-x@ex-am.com"},
        {"\\d{3}-\\d{4}", "555-12345", "555-1234"},
        {"\\d{2,}", "1 23456", "23456"},
        {"\\d{2,3}", "123456", "123"},
        {"a{2}", "aaa", "aa"},
        {"a{,2}", "a{,2}", "a{,2}"},
        {"a{x}", "a{x}", "a{x}"},
        {"\\bcat\\b", "concat cat", "cat"},
        {"\\Bcat", "cat concat", "cat"},
        {"(?i)SeCreT", "a sEcReT", "sEcReT"},
        {"(?i)[^a]+", "aAbA", "b"},
        {"(?:a|b)+c", "abac", "abac"},
        {"\\x41\\x2d", "zA-", "A-"},
        {"\\.\\*\\[", ".*[", ".*["},
        {"a\\tb", "a\tb", "a\tb"},
        {"acct-[0-9]{8}", "acct-1234567 acct-12345678", "acct-12345678"},
        {"(a|b|)c", "c", "c"},
        {"a.*?b", "aXbXb", "aXbXb"},
        {"\\S+\\s\\D", " ab c", "ab c"},
        {"(a*)*b", "aaab", "aaab"},
        {"(a|aa)+$", "aaaa", "aaaa"},
        {"(){1000}a", "a", "a"},
        {"()", "abc", NULL},
        {"x{0}y", "xy", "y"},
        {"\xc3\xa9+", "caf\xc3\xa9", "\xc3\xa9"},
        {"[\\d\\s]+", "a1 2b", "1 2"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        check_match(&CASES[i]);
}

static void a_search_goes_on_behind_a_match(void **state)
{
    (void)state;
    regex *r = NULL;
    err e = {0};
    assert_int_equal(regex_new(slice_str("\\d+"), &r, &e), 0);
    slice text = slice_str("a1b22c333");
    size_t from = 0, start, end, lengths[3];
    for (int i = 0; i < 3; i++) {
        assert_true(regex_find(r, text, from, &start, &end));
        lengths[i] = end - start;
        from = end;
    }
    assert_int_equal(lengths[0] * 100 + lengths[1] * 10 + lengths[2], 123);
    assert_false(regex_find(r, text, from, &start, &end));
    regex_free(r);
}

static void a_malformed_pattern_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        int64_t at;
    } CASES[] = {{"a(b", 3},   {"ab)", 2},     {"[a", 2},    {"*a", 0},      {"a|+", 2},   {"a\\", 2},    {"\\1", 2},
                 {"(?=a)", 2}, {"(?<n>a)", 2}, {"[z-a]", 4}, {"[a-\\d]", 5}, {"\\xZZ", 2}, {"a{3,2}", 6}, {"\\q", 2}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        regex *r = NULL;
        err e = {0};
        assert_int_equal(regex_new(slice_str(CASES[i].pattern), &r, &e), -ERR_INVALID_ARGUMENT);
        if (!e.has_offset || e.offset != CASES[i].at)
            fail_msg("%s: %s (offset %lld)", CASES[i].pattern, e.message, (long long)e.offset);
        assert_null(r);
    }
}

static void check_limit(slice pattern)
{
    regex *r = NULL;
    err e = {0};
    assert_int_equal(regex_new(pattern, &r, &e), -ERR_LIMIT);
    assert_null(r);
}

static void every_cap_is_an_error_of_its_own(void **state)
{
    (void)state;
    char long_one[REGEX_PATTERN_MAX + 1], nested[2 * (REGEX_NESTING_MAX + 1)];
    memset(long_one, 'a', sizeof long_one);
    check_limit(slice_of(long_one, sizeof long_one));
    memset(nested, '(', REGEX_NESTING_MAX + 1);
    memset(nested + REGEX_NESTING_MAX + 1, ')', REGEX_NESTING_MAX + 1);
    check_limit(slice_of(nested, sizeof nested));
    check_limit(slice_str("a{1001}"));
    check_limit(slice_str("a{99999999999999999999}"));
    check_limit(slice_str("((a{100}){100}){100}"));
    check_limit(slice_str("((){1000}){1000}"));
    memset(long_one, '.', 700);
    check_limit(slice_of(long_one, 700));
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void no_pattern_takes_long(void **state)
{
    (void)state;
    static const char *const PATTERNS[] = {"(a*)*b",      "(a|aa)+$",      "(a|a)*c",
                                           "a*a*a*a*a*b", "(.*)(.*)(.*)x", "a{0,50}a{0,50}b"};
    size_t n = 20000;
    char *text = malloc(n);
    memset(text, 'a', n);
    double began = seconds();
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++) {
        regex *r = NULL;
        err e = {0};
        size_t start, end;
        assert_int_equal(regex_new(slice_str(PATTERNS[i]), &r, &e), 0);
        regex_find(r, slice_of(text, n), 0, &start, &end);
        regex_free(r);
    }
    assert_true(seconds() - began < 5.0);
    free(text);
}

static void each_allocation_fails_once_and_none_leaks(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        regex *r = NULL;
        err e = {0};
        mem_fail_at(n);
        int rc = regex_new(slice_str("a(b|c)*d"), &r, &e);
        bool fired = mem_failed();
        mem_fail_at(-1);
        if (!fired) {
            assert_int_equal(rc, 0);
            regex_free(r);
            return;
        }
        assert_int_equal(rc, -ERR_NO_MEMORY);
        assert_null(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_leftmost_longest_match_counts),
        cmocka_unit_test(a_search_goes_on_behind_a_match),
        cmocka_unit_test(a_malformed_pattern_is_refused_with_its_place),
        cmocka_unit_test(every_cap_is_an_error_of_its_own),
        cmocka_unit_test(no_pattern_takes_long),
        cmocka_unit_test(each_allocation_fails_once_and_none_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
