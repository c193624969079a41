/* SPDX-License-Identifier: MIT */
/* test_process.c: stat, status, smaps_rollup, limits, io, cmdline and environ. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures.h"

static void stat_is_split_after_the_last_parenthesis(void **state)
{
    (void)state;
    kn_stat s;
    err e = {0};
    assert_int_equal(kn_stat_of(fixture("v2"), 42, &s, &e), 0);
    assert_int_equal(s.pid, 42);
    assert_string_equal(s.comm, "dot net) (x");
    assert_int_equal(s.state, 'S');
    assert_int_equal(s.ppid, 1);
    assert_int_equal(s.minflt, 5001);
    assert_int_equal(s.majflt, 12);
    assert_int_equal(s.utime, 250);
    assert_int_equal(s.stime, 50);
    assert_int_equal(s.threads, 17);
    assert_int_equal(s.start_time, 98765);
    assert_int_equal(s.vsize, 3133440000);
    assert_int_equal(s.rss_pages, 25600);
}

static void a_broken_stat_is_an_error_and_never_a_guess(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        err_kind kind;
    } cases[] = {
        {"", ERR_MALFORMED},
        {"42 dotnet S 1", ERR_MALFORMED},
        {"42 )x( S 1", ERR_MALFORMED},
        {"x (a) S 1", ERR_MALFORMED},
        {"99999999999 (a) S 1", ERR_MALFORMED},
        {"42 (a) S 1 2 3", ERR_TRUNCATED},
        {"42 (a) SS 1 42 42 0 -1 4194304 1 0 1 0 1 1 0 0 20 0 1 0 1 1 1", ERR_MALFORMED},
        {"42 (a) S -1 42 42 0 -1 4194304 1 0 1 0 1 1 0 0 20 0 1 0 1 1 1", ERR_MALFORMED},
        {"42 (a) S 1 42 42 0 -1 4194304 1 0 1 0 1 1 0 0 20 0 1 0 99999999999999999999 1 1", ERR_MALFORMED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kn_stat s;
        err e = {0};
        assert_int_equal(kn_parse_stat(slice_str(cases[i].text), &s, &e), -(int)cases[i].kind);
        assert_true(e.has_offset);
    }
}

static void status_gives_owner_namespaces_and_memory(void **state)
{
    (void)state;
    kn_status s;
    err e = {0};
    assert_int_equal(kn_status_of(fixture("v2"), 42, &s, &e), 0);
    assert_string_equal(s.name, "dot net) (x");
    assert_int_equal(s.uid, 1000);
    assert_int_equal(s.euid, 1001);
    assert_int_equal(s.gid, 1000);
    assert_int_equal(s.nspid, 7);
    assert_int_equal(s.n_nspid, 2);
    assert_int_equal(s.rss_bytes.v, 102400 * 1024);
    assert_int_equal(s.anon_bytes.v, 81920 * 1024);
    assert_int_equal(s.hwm_bytes.v, 204800 * 1024);
    assert_true(s.swap_bytes.known);
    assert_int_equal(s.swap_bytes.v, 0);
    assert_int_equal(s.threads.v, 17);
    assert_true(s.has_caps);
    assert_int_equal(s.cap_bnd, 0xa80425fb);
    assert_int_equal(s.seccomp.v, 2);
    assert_int_equal(s.no_new_privs.v, 1);
}

static void status_without_optional_lines_leaves_them_unknown(void **state)
{
    (void)state;
    kn_status s;
    err e = {0};
    assert_int_equal(kn_parse_status(slice_str("Name:\tkthreadd\nState:\tS\nUid:\t0\t0\t0\t0\n"), &s, &e), 0);
    assert_false(s.rss_bytes.known);
    assert_false(s.threads.known);
    assert_false(s.has_caps);
    assert_int_equal(s.n_nspid, 0);
    assert_int_equal(kn_parse_status(slice_str("Name:\tx\n"), &s, &e), -ERR_MALFORMED);
    err_clear(&e);
    assert_int_equal(kn_parse_status(slice_str("Uid:\t1\nVmRSS:\t9223372036854775807 kB\n"), &s, &e), 0);
    assert_false(s.rss_bytes.known); /* would not fit: unknown, not wrong */
}

static void rollup_limits_and_io_give_their_numbers(void **state)
{
    (void)state;
    buf b;
    kn_rollup r;
    kn_limits l;
    kn_io io;
    err e = {0};
    buf_init(&b, 0);
    assert_int_equal(kn_read_pid(fixture("v2"), 42, "smaps_rollup", KN_SMALL_MAX, &b, &e), 0);
    assert_int_equal(kn_parse_rollup(buf_view(&b), &r, &e), 0);
    assert_int_equal(r.rss.v, 102400 * 1024);
    assert_int_equal(r.pss.v, 51200 * 1024);
    assert_int_equal(r.anonymous.v, 81920 * 1024);
    assert_int_equal(r.private_dirty.v, 78000 * 1024);
    buf_reset(&b);
    assert_int_equal(kn_read_pid(fixture("v2"), 42, "limits", KN_SMALL_MAX, &b, &e), 0);
    assert_int_equal(kn_parse_limits(buf_view(&b), &l, &e), 0);
    assert_int_equal(l.nofile_soft.v, 64);
    assert_true(l.nofile_hard.unlimited);
    assert_true(l.core_soft.known);
    assert_int_equal(l.core_soft.v, 0);
    buf_reset(&b);
    assert_int_equal(kn_read_pid(fixture("v2"), 42, "io", KN_SMALL_MAX, &b, &e), 0);
    assert_int_equal(kn_parse_io(buf_view(&b), &io, &e), 0);
    assert_int_equal(io.rchar.v, 1000);
    assert_int_equal(io.write_bytes.v, 8192);
    buf_fini(&b);
    assert_int_equal(kn_parse_rollup(slice_str("Pss: 1 kB\n"), &r, &e), -ERR_MALFORMED);
    assert_int_equal(kn_parse_limits(slice_str("Max processes 1 1 x\n"), &l, NULL), -ERR_MALFORMED);
    assert_int_equal(kn_parse_io(slice_str("wchar: 1\n"), &io, NULL), -ERR_MALFORMED);
}

static void maps_are_summed_and_name_their_files(void **state)
{
    (void)state;
    static const char text[] = "1000-3000 r-xp 00000000 08:01 12      /app/my app.dll\n"
                               "3000-4000 rw-p 00002000 08:01 12      /app/my app.dll\n"
                               "4000-8000 ---p 00000000 00:00 0 \n"
                               "8000-a000 rw-p 00000000 00:00 0       [heap]\n"
                               "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n"
                               "a000-b000 r--s 00000000 08:01 13      /lib/x.so (deleted)";
    kn_maps m;
    buf files;
    err e = {0};
    buf_init(&files, 0);
    assert_int_equal(kn_parse_maps(slice_str(text), &m, &files, &e), 0);
    assert_int_equal(m.readable_bytes, 0x6000);
    assert_int_equal(m.writable_bytes, 0x3000);
    assert_slice_lit(buf_view(&files), "/app/my app.dll\0/lib/x.so (deleted)\0");
    buf_fini(&files);
    assert_int_equal(kn_parse_maps(slice_str("1000-2000 r"), &m, NULL, &e), 0);
    assert_int_equal(kn_parse_maps(slice_str("2000-1000 r--p\n"), &m, NULL, &e), -ERR_MALFORMED);
    err_clear(&e);
    assert_int_equal(kn_parse_maps(slice_str("no range\n"), &m, NULL, &e), -ERR_MALFORMED);
}

static void lists_are_split_at_nuls(void **state)
{
    (void)state;
    static const struct {
        slice text;
        const char *items[4];
    } cases[] = {
        {SLICE_LIT("a\0bc\0"), {"a", "bc"}},
        {SLICE_LIT("a\0bc"), {"a", "bc"}}, /* setproctitle leaves no last NUL */
        {SLICE_LIT("\0x\0"), {"", "x"}},
        {SLICE_LIT(""), {NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        slice rest = cases[i].text, item;
        size_t n = 0;
        while (kn_next_z(&rest, &item)) {
            assert_non_null(cases[i].items[n]);
            assert_true(slice_eq_str(item, cases[i].items[n++]));
        }
        assert_null(cases[i].items[n]);
    }
}

static void a_missing_process_is_not_a_missing_file(void **state)
{
    (void)state;
    buf b;
    err e = {0};
    buf_init(&b, 0);
    assert_int_equal(kn_read_pid(fixture("v2"), 4242, "stat", 100, &b, &e), -ERR_PROCESS_NOT_FOUND);
    assert_string_equal(e.message, "there is no process 4242");
    err_clear(&e);
    assert_int_equal(kn_read_pid(fixture("v2"), 42, "nothing", 100, &b, &e), -ERR_NOT_FOUND);
    err_clear(&e);
    assert_int_equal(kn_read_pid(fixture("v2"), 42, "fd", 100, &b, &e), -ERR_NOT_SUPPORTED); /* a folder */
    buf_fini(&b);
}

static void a_file_over_the_cap_is_cut_and_told(void **state)
{
    (void)state;
    buf b;
    err e = {0};
    buf_init(&b, 0);
    assert_int_equal(kn_read_pid(fixture("v2"), 42, "status", 10, &b, &e), 1);
    assert_int_equal(b.n, 10);
    assert_memory_equal(b.p, "Name:\tdot ", 10);
    buf_fini(&b);
}

static void each_allocation_failure_is_reported(void **state)
{
    (void)state;
    buf b;
    err e = {0};
    buf_init(&b, 0);
    mem_fail_at(0);
    assert_int_equal(kn_read_pid(fixture("v2"), 42, "status", 100, &b, &e), -ERR_NO_MEMORY);
    assert_true(mem_failed());
    mem_fail_at(-1);
    buf_fini(&b);
}

static void pids_are_sorted_and_the_cap_counts_what_it_drops(void **state)
{
    (void)state;
    int pids[8];
    size_t n, dropped;
    err e = {0};
    assert_int_equal(kn_pids(fixture("v2"), pids, 8, &n, &dropped, &e), 0);
    assert_int_equal(n, 3);
    assert_int_equal(pids[0], 1);
    assert_int_equal(pids[1], 7);
    assert_int_equal(pids[2], 42);
    assert_int_equal(dropped, 0);
    assert_int_equal(kn_pids(fixture("v2"), pids, 2, &n, &dropped, &e), 0);
    assert_int_equal(n, 2);
    assert_int_equal(dropped, 1);
    assert_int_equal(kn_pids("/nowhere", pids, 2, &n, &dropped, &e), -ERR_NOT_FOUND);
}

static void our_own_process_agrees_with_the_system_calls(void **state)
{
    (void)state;
    kn_stat s;
    kn_status st;
    char exe[KN_PATH_MAX];
    err e = {0};
    assert_int_equal(kn_stat_of("", getpid(), &s, &e), 0);
    assert_int_equal(s.pid, getpid());
    assert_int_equal(s.ppid, getppid());
    assert_int_equal(s.state, 'R');
    assert_int_equal(kn_status_of("", getpid(), &st, &e), 0);
    assert_int_equal(st.euid, geteuid());
    assert_int_equal(st.threads.v, 1);
    assert_int_equal(kn_link("", getpid(), "exe", exe, sizeof exe, &e), 0);
    assert_non_null(strstr(exe, "test_kernel_process"));
}

static void a_process_that_ended_is_not_found(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    kn_stat s;
    err e = {0};
    assert_int_equal(kn_stat_of("", child, &s, &e), -ERR_PROCESS_NOT_FOUND);
    assert_int_equal(kn_attach_check("", child, NULL), -ERR_PROCESS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_is_split_after_the_last_parenthesis),
        cmocka_unit_test(a_broken_stat_is_an_error_and_never_a_guess),
        cmocka_unit_test(status_gives_owner_namespaces_and_memory),
        cmocka_unit_test(status_without_optional_lines_leaves_them_unknown),
        cmocka_unit_test(rollup_limits_and_io_give_their_numbers),
        cmocka_unit_test(maps_are_summed_and_name_their_files),
        cmocka_unit_test(lists_are_split_at_nuls),
        cmocka_unit_test(a_missing_process_is_not_a_missing_file),
        cmocka_unit_test(a_file_over_the_cap_is_cut_and_told),
        cmocka_unit_test(each_allocation_failure_is_reported),
        cmocka_unit_test(pids_are_sorted_and_the_cap_counts_what_it_drops),
        cmocka_unit_test(our_own_process_agrees_with_the_system_calls),
        cmocka_unit_test(a_process_that_ended_is_not_found),
    };
    return cmocka_run_group_tests(tests, fixtures_make, fixtures_remove);
}
