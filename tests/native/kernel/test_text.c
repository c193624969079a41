/* SPDX-License-Identifier: MIT */
/* test_text.c: words, numbers and lines; files that are too long, no files at all, or that would hold us up. */
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures.h"
#include "kernel/kn_internal.h"

static void numbers_are_digits_that_fit_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        uint64_t v;
    } cases[] = {
        {"0", true, 0},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"99999999999999999999", false, 0},
        {"", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {"1 ", false, 0},
        {"1x", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t v = 0;
        assert_int_equal(kn__u64(slice_str(cases[i].text), &v), cases[i].ok);
        assert_int_equal(v, cases[i].v);
    }
    int64_t i = 0;
    assert_true(kn__i64(slice_str("-9223372036854775807"), &i) && i == -INT64_MAX);
    assert_false(kn__i64(slice_str("9223372036854775808"), &i));
    assert_false(kn__i64(slice_str("-"), &i));
    uint64_t x = 0;
    assert_true(kn__hex(slice_str("FfffFFFFffffffff"), &x) && x == UINT64_MAX);
    assert_false(kn__hex(slice_str("10000000000000000"), &x));
    assert_false(kn__hex(slice_str("0x1"), &x));
}

static void words_and_lines_come_one_by_one(void **state)
{
    (void)state;
    slice rest = SLICE_LIT("  a\tbc \n d"), line;
    assert_true(kn__line(&rest, &line));
    assert_slice_str(kn__word(&line), "a");
    assert_slice_str(kn__word(&line), "bc");
    assert_int_equal(kn__word(&line).n, 0);
    assert_true(kn__line(&rest, &line));
    assert_slice_str(kn__trim(line), "d");
    assert_false(kn__line(&rest, &line));
    char out[4];
    assert_false(kn__copy(slice_str("abcd"), out, sizeof out));
    assert_string_equal(out, "abc");
}

typedef struct seen {
    size_t lines, bytes, longest;
} seen;
static void see(void *arg, slice line)
{
    seen *s = arg;
    s->lines++;
    s->bytes += line.n;
    if (line.n > s->longest) s->longest = line.n;
}

/* Writes n lines of len bytes each to "/lines" below the fixture's root; the last without its newline. */
static const char *lines_file(size_t n, size_t len)
{
    static char root[128];
    char path[160];
    snprintf(root, sizeof root, "%s", fixture("v2"));
    snprintf(path, sizeof path, "%s/lines", root);
    FILE *f = fopen(path, "w");
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < len; k++)
            fputc('x', f);
        if (i + 1 < n) fputc('\n', f);
    }
    fclose(f);
    return root;
}

static void lines_of_any_length_are_handed_on_whole_or_cut(void **state)
{
    (void)state;
    static const struct {
        size_t n, len, longest;
    } cases[] = {{1, 10, 10}, {70000, 1, 1}, {3, KN_LINE_MAX - 1, KN_LINE_MAX - 1}, {900, 150, 150}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        seen s = {0};
        err e = {0};
        assert_int_equal(kn__each_line(lines_file(cases[i].n, cases[i].len), "/lines", 1 << 30, see, &s, &e), 0);
        assert_int_equal(s.lines, cases[i].n);
        assert_int_equal(s.bytes, cases[i].n * cases[i].len);
        assert_int_equal(s.longest, cases[i].longest);
    }
    /* Two lines of a megabyte: each is handed on once, cut, and its tail is no line of its own. */
    seen s = {0};
    err e = {0};
    assert_int_equal(kn__each_line(lines_file(2, 1 << 20), "/lines", 1 << 30, see, &s, &e), 0);
    assert_int_equal(s.lines, 2);
    assert_true(s.longest >= KN_LINE_MAX && s.longest <= KN_LINE_MAX + 65536);
}

static void a_file_past_the_cap_says_that_there_was_more(void **state)
{
    (void)state;
    seen s = {0};
    err e = {0};
    assert_int_equal(kn__each_line(lines_file(20000, 99), "/lines", 100000, see, &s, &e), 1);
    assert_in_range(s.bytes, 90000, 300000);
    assert_int_equal(kn__each_line(fixture("v2"), "/nothing", 100, see, &s, &e), -ERR_NOT_FOUND);
}

static void what_is_no_regular_file_is_refused_and_never_waited_for(void **state)
{
    (void)state;
    char path[160];
    buf b;
    buf_init(&b, 0);
    snprintf(path, sizeof path, "%s/fifo", fixture("v2"));
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(10); /* an open that waited for a writer would never come back */
    static const char *const rel[] = {"/fifo", "/proc", "/../../../../../../../dev/zero"};
    for (size_t i = 0; i < sizeof rel / sizeof *rel; i++) {
        err e = {0};
        assert_int_equal(kn_read(fixture("v2"), rel[i], 100, &b, &e), -ERR_NOT_SUPPORTED);
        assert_int_equal(b.n, 0);
    }
    alarm(0);
    buf_fini(&b);
}

static void a_path_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    char rel[KN_PATH_MAX + 8];
    memset(rel, 'a', sizeof rel - 1);
    rel[0] = '/';
    rel[sizeof rel - 1] = 0;
    buf b;
    err e = {0};
    buf_init(&b, 0);
    assert_int_equal(kn_read("", rel, 100, &b, &e), -ERR_LIMIT);
    assert_false(kn_exists("", rel));
    buf_fini(&b);
}

static void readers_survive_every_failed_allocation(void **state)
{
    (void)state;
    static kn_cgroup g;
    static kn_fds f;
    for (long n = 0, fired = 1; fired; n++) {
        err e = {0};
        mem_fail_at(n);
        int cg = kn_cgroup_of(fixture("v2"), 42, &g, &e), fd = kn_fds_of(fixture("v2"), 42, &f, NULL);
        fired = mem_failed();
        mem_fail_at(-1);
        assert_true(cg == 0 || cg == -ERR_NO_MEMORY);
        assert_true(fd == 0 || fd == -ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_digits_that_fit_and_nothing_else),
        cmocka_unit_test(words_and_lines_come_one_by_one),
        cmocka_unit_test(lines_of_any_length_are_handed_on_whole_or_cut),
        cmocka_unit_test(a_file_past_the_cap_says_that_there_was_more),
        cmocka_unit_test(what_is_no_regular_file_is_refused_and_never_waited_for),
        cmocka_unit_test(a_path_that_does_not_fit_is_refused),
        cmocka_unit_test(readers_survive_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, fixtures_make, fixtures_remove);
}
