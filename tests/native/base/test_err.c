/* SPDX-License-Identifier: MIT */
/* test_err.c: the error record. */
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/utf.h"
#include "check.h"

static void the_first_failure_wins(void **state)
{
    (void)state;
    err e = {0};
    assert_int_equal(err_set(&e, ERR_TIMEOUT, "no answer in %d ms", 2000), -ERR_TIMEOUT);
    assert_int_equal(err_set(&e, ERR_IO, "later"), -ERR_IO);
    assert_int_equal(err_at(&e, ERR_MALFORMED, 3, "later"), -ERR_MALFORMED);
    assert_int_equal(err_sys(&e, ERR_IO, EPIPE, "later"), -ERR_IO);
    assert_int_equal(e.kind, ERR_TIMEOUT);
    assert_string_equal(e.message, "no answer in 2000 ms");
    assert_int_equal(e.sys, 0);
    assert_false(e.has_offset);
    err_clear(&e);
    assert_int_equal(e.kind, ERR_NONE);
    assert_string_equal(e.message, "");
}

static void each_setter_fills_its_part(void **state)
{
    (void)state;
    err e = {0};
    assert_int_equal(err_at(&e, ERR_TRUNCATED, 1234567890123, "block ends"), -ERR_TRUNCATED);
    assert_true(e.has_offset);
    assert_true(e.offset == 1234567890123);
    err_clear(&e);
    err_sys(&e, ERR_PERMISSION_DENIED, EACCES, "open %s", "/proc/1/maps");
    assert_int_equal(e.sys, EACCES);
    assert_string_equal(e.message, "open /proc/1/maps: Permission denied");
    err_where(&e, "process %d", 1);
    assert_string_equal(e.message, "process 1: open /proc/1/maps: Permission denied");
    err_hint(&e, "run as %s", "root");
    err_hint(&e, "second");
    assert_string_equal(e.hint, "run as root");
    err_detail(&e, "pid=%d", 1);
    err_detail(&e, "second");
    assert_string_equal(e.detail, "pid=1");
}

static void an_unset_record_takes_no_extras(void **state)
{
    (void)state;
    err e = {0};
    err_where(&e, "here");
    err_hint(&e, "hint");
    err_detail(&e, "detail");
    assert_string_equal(e.message, "");
    assert_string_equal(e.hint, "");
    assert_string_equal(e.detail, "");
    err_where(NULL, "x");
    err_hint(NULL, "x");
    err_detail(NULL, "x");
    err_clear(NULL);
    assert_int_equal(err_set(NULL, ERR_IO, "x"), -ERR_IO);
}

static void long_text_is_cut_between_characters(void **state)
{
    (void)state;
    for (size_t pad = 0; pad < 4; pad++) {
        char text[1200];
        memset(text, 'x', pad);
        for (size_t i = pad; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4);
        err e = {0};
        err_set(&e, ERR_IO, "%s", text);
        size_t n = strlen(e.message);
        assert_true(n < sizeof e.message && n >= sizeof e.message - 4);
        assert_true(utf8_valid(slice_str(e.message)));
        err_where(&e, "%s", text);
        assert_true(utf8_valid(slice_str(e.message)));
        err_detail(&e, "%s", text);
        assert_true(utf8_valid(slice_str(e.detail)));
        assert_true(strlen(e.detail) >= sizeof e.detail - 4);
    }
}

static void foreign_bytes_become_valid_text(void **state)
{
    (void)state;
    err e = {0};
    err_set(&e, ERR_IO, "file %s\n",
            "a\xff"
            "b\xc3");
    assert_string_equal(e.message, "file a\xef\xbf\xbd"
                                   "b\xef\xbf\xbd");
    err_clear(&e);
    err_set(&e, ERR_IO, "line\n\n");
    assert_string_equal(e.message, "line");
}

static void every_kind_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int k = ERR_NONE + 1; k < ERR_KIND_COUNT; k++) {
        const char *name = err_kind_name((err_kind)k);
        assert_true(strlen(name) > 1);
        assert_int_equal(err_kind_from_name(name), k);
    }
    assert_string_equal(err_kind_name(ERR_NO_DOTNET_PROCESS), "NoDotnetProcessFound");
    assert_string_equal(err_kind_name((err_kind)-5), "Internal");
    assert_string_equal(err_kind_name(ERR_KIND_COUNT), "Internal");
    assert_int_equal(err_kind_from_name("NoSuchKind"), ERR_NONE);
    assert_int_equal(err_kind_from_name(NULL), ERR_NONE);
}

static int works_unless(bool broken, err *e)
{
    BUG_IF(broken, e);
    return 7;
}

/* Our own bugs: a debug build stops dead, a release build answers with an error and goes on. */
static void a_bug_is_caught_where_it_is(void **state)
{
    (void)state;
    err e = {0};
    assert_int_equal(works_unless(false, &e), 7);
    assert_int_equal(e.kind, ERR_NONE);
#ifdef LUNETTE_DEBUG
    pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        works_unless(true, &e);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
#else
    assert_int_equal(works_unless(true, &e), -ERR_INTERNAL);
    assert_int_equal(e.kind, ERR_INTERNAL);
    assert_non_null(strstr(e.message, "test_err.c:"));
    assert_non_null(strstr(e.message, ": broken"));
#endif
}

static void a_file_that_cannot_be_written_names_the_cure(void **state)
{
    (void)state;
    static const struct {
        int sys;
        err_kind kind;
        const char *hint, *detail;
    } cases[] = {
        {EROFS, ERR_PERMISSION_DENIED, "folder that can be written to", ""},
        {EACCES, ERR_PERMISSION_DENIED, "folder that can be written to", ""},
        {ENOSPC, ERR_CONFLICT, "make room", "InsufficientDiskSpace"},
        {EDQUOT, ERR_CONFLICT, "make room", "InsufficientDiskSpace"},
        {EEXIST, ERR_CONFLICT, "", ""},
        {EIO, ERR_IO, "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        assert_int_equal(err_unwritten(&e, cases[i].sys, "cannot write it"), -(int)cases[i].kind);
        assert_non_null(strstr(e.message, "cannot write it: "));
        assert_non_null(strstr(e.hint, cases[i].hint));
        assert_string_equal(e.detail, cases[i].detail);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_cannot_be_written_names_the_cure),
        cmocka_unit_test(the_first_failure_wins),
        cmocka_unit_test(each_setter_fills_its_part),
        cmocka_unit_test(an_unset_record_takes_no_extras),
        cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(foreign_bytes_become_valid_text),
        cmocka_unit_test(every_kind_has_a_name_of_its_own),
        cmocka_unit_test(a_bug_is_caught_where_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
