/* SPDX-License-Identifier: MIT */
/* test_host.c: capabilities, sysctls, perf and the probes that ask the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures.h"

static void a_restricted_host_is_described(void **state)
{
    (void)state;
    kn_host h;
    kn_host_of(fixture("v2"), "relative:/usr/local/bin:/usr/bin", &h);
    assert_int_equal(h.uid, 1000);
    assert_true(h.has_caps);
    assert_int_equal(h.cap_eff, 0);
    assert_true(h.user_namespace);
    assert_int_equal(h.seccomp.v, 2);
    assert_true(h.ptrace_scope.known);
    assert_int_equal(h.ptrace_scope.v, 1);
    assert_int_equal(h.perf_event_paranoid.v, 4);
    assert_int_equal(h.kptr_restrict.v, 1);
    assert_string_equal(h.release, "6.1.0-fixture");
    assert_string_equal(h.perf, "/usr/bin/perf");
    assert_string_equal(h.tracefs, "/sys/kernel/tracing");
    assert_true(h.psi);
}

static void a_host_without_the_files_leaves_them_unknown(void **state)
{
    (void)state;
    kn_host h;
    kn_host_of(fixture("none"), NULL, &h);
    assert_false(h.ptrace_scope.known);
    assert_false(h.perf_event_paranoid.known);
    assert_false(h.has_caps);
    assert_false(h.psi);
    assert_string_equal(h.perf, "");
    assert_string_equal(h.tracefs, "");
}

static void this_host_agrees_with_the_files(void **state)
{
    (void)state;
    kn_host h;
    kn_host_of("", getenv("PATH"), &h);
    assert_int_equal(h.uid, geteuid());
    assert_int_equal(h.ptrace_scope.known, access("/proc/sys/kernel/yama/ptrace_scope", R_OK) == 0);
    assert_int_equal(h.perf_event_paranoid.known, access("/proc/sys/kernel/perf_event_paranoid", R_OK) == 0);
    assert_int_equal(h.psi, access("/proc/pressure/cpu", R_OK) == 0);
    if (h.perf[0]) assert_int_equal(access(h.perf, X_OK), 0);
}

static void attaching_to_a_child_of_ours_is_answered_by_the_kernel(void **state)
{
    (void)state;
    int hold[2];
    assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char c;
        close(hold[1]);
        _exit(read(hold[0], &c, 1) == 0 ? 0 : 1);
    }
    close(hold[0]);
    err e = {0};
    assert_int_equal(kn_attach_check("", child, &e), 0); /* a parent may, under yama 0 and 1 alike */
    close(hold[1]);
    waitpid(child, NULL, 0);
    assert_int_equal(kn_attach_check("", child, &e), -ERR_PROCESS_NOT_FOUND);
}

static void another_user_may_not_attach(void **state)
{
    (void)state;
    if (geteuid() != 0) skip(); /* only root can become somebody else */
    pid_t target = getpid();
    pid_t child = fork();
    if (child == 0) {
        err e = {0};
        if (setresuid(65534, 65534, 65534) != 0) _exit(99);
        int rc = kn_attach_check("", target, &e);
        _exit(rc == -ERR_PERMISSION_DENIED && e.hint[0] ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void perf_probes_give_an_errno_or_zero(void **state)
{
    (void)state;
    kn_perf_probe p = {-1, -1, -1, -1};
    kn_perf_probe_of(getpid(), &p);
    assert_in_range(p.cpu_clock, 0, 4095);
    assert_in_range(p.hardware, 0, 4095);
    assert_in_range(p.sched_switch, 0, 4095);
    assert_in_range(p.uprobe, 0, 4095);
    kn_perf_probe_of(INT32_MAX, &p);
    assert_true(p.cpu_clock == ESRCH || p.cpu_clock == EACCES || p.cpu_clock == EPERM || p.cpu_clock == ENOSYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restricted_host_is_described),
        cmocka_unit_test(a_host_without_the_files_leaves_them_unknown),
        cmocka_unit_test(this_host_agrees_with_the_files),
        cmocka_unit_test(attaching_to_a_child_of_ours_is_answered_by_the_kernel),
        cmocka_unit_test(another_user_may_not_attach),
        cmocka_unit_test(perf_probes_give_an_errno_or_zero),
    };
    return cmocka_run_group_tests(tests, fixtures_make, fixtures_remove);
}
