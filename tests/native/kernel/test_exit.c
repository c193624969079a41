/* SPDX-License-Identifier: MIT */
/* test_exit.c: how a process that need not be our child ended. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures.h"

static pid_t child_that(int code, int signo)
{
    pid_t child = fork();
    if (child != 0) return child;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (signo) {
        signal(signo, SIG_DFL); /* the test runner catches some */
        raise(signo);
    }
    if (code < 0) pause();
    _exit(code);
}

/* A pidfd is readable at the end, so no sleep is needed. */
static void wait_for_end(int fd)
{
    struct pollfd pf = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&pf, 1, 10000), 1);
}

static void a_process_that_runs_has_not_ended(void **state)
{
    (void)state;
    kn_exit x;
    pid_t child = child_that(-1, 0);
    int fd = kn_watch_open(child, NULL);
    assert_true(fd >= 0);
    assert_false(kn_watch_ended(fd, child, &x));
    assert_int_equal(kill(child, SIGKILL), 0);
    wait_for_end(fd);
    assert_true(kn_watch_ended(fd, child, &x));
    assert_true(x.known);
    assert_int_equal(x.signal, SIGKILL);
    assert_false(x.core);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(fd);
}

static void a_zombie_tells_its_code_or_signal(void **state)
{
    (void)state;
    static const struct {
        int code, signo;
    } cases[] = {{0, 0}, {3, 0}, {255, 0}, {0, SIGABRT}, {0, SIGSEGV}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kn_exit x;
        pid_t child = child_that(cases[i].code, cases[i].signo);
        int fd = kn_watch_open(child, NULL);
        assert_true(fd >= 0);
        wait_for_end(fd);
        assert_true(kn_watch_ended(fd, child, &x));
        assert_true(x.known);
        assert_int_equal(x.code, cases[i].code);
        assert_int_equal(x.signal, cases[i].signo);
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(fd);
    }
}

/* Once the parent has taken note only newer kernels know: then it is right, and never made up. */
static void a_reaped_process_tells_the_truth_or_nothing(void **state)
{
    (void)state;
    kn_exit x;
    pid_t child = child_that(7, 0);
    int fd = kn_watch_open(child, NULL);
    assert_true(fd >= 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(kn_watch_ended(fd, child, &x));
    assert_int_equal(x.code, x.known ? 7 : 0);
    assert_int_equal(x.signal, 0);
    close(fd);
}

static void a_process_that_is_not_there_cannot_be_watched(void **state)
{
    (void)state;
    err e = {0};
    pid_t child = child_that(0, 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(kn_watch_open(child, &e), -ERR_PROCESS_NOT_FOUND);
    assert_int_equal(e.sys, ESRCH);
}

#define TO_51                                                                                                          \
    "1 42 42 0 -1 4194304 1 0 1 0 1 1 0 0 20 0 1 0 9 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0"

static void only_a_zombies_stat_has_a_status(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status; /* -1: none */
    } cases[] = {
        {"42 (a) b) Z " TO_51 " 134\n", 134},
        {"42 (a) Z " TO_51 " 256\n", 256},
        {"42 (a) Z " TO_51 " 0\n", 0},
        {"42 (a) S " TO_51 " 134\n", -1},
        {"42 (a) Z " TO_51 "\n", -1},
        {"42 (a) Z " TO_51 " 99999\n", -1},
        {"42 (a) Z " TO_51 " -1\n", -1},
        {"42 (a) Z 1\n", -1},
        {"", -1},
        {"no parenthesis Z 1\n", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = -1;
        assert_int_equal(kn_parse_zombie(slice_str(cases[i].text), &status), cases[i].status >= 0);
        assert_int_equal(status, cases[i].status);
    }
}

static void a_wait_status_is_split(void **state)
{
    (void)state;
    kn_exit x;
    kn_exit_of_status(0x86, &x); /* SIGABRT with a core file */
    assert_int_equal(x.signal, SIGABRT);
    assert_true(x.core);
    kn_exit_of_status(0x0300, &x);
    assert_int_equal(x.code, 3);
    assert_int_equal(x.signal, 0);
}

static void only_the_process_that_began_then_is_signalled(void **state)
{
    (void)state;
    kn_stat s;
    int status = 0;
    pid_t child = child_that(-1, 0);
    assert_int_equal(kn_stat_of("", child, &s, NULL), 0);
    assert_int_equal(kn_signal(child, s.start_time + 1, SIGKILL, NULL), 0);
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    assert_int_equal(kn_signal(child, s.start_time, SIGKILL, NULL), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_int_equal(kn_signal(child, s.start_time, SIGKILL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_runs_has_not_ended),
        cmocka_unit_test(a_zombie_tells_its_code_or_signal),
        cmocka_unit_test(a_reaped_process_tells_the_truth_or_nothing),
        cmocka_unit_test(a_process_that_is_not_there_cannot_be_watched),
        cmocka_unit_test(only_a_zombies_stat_has_a_status),
        cmocka_unit_test(a_wait_status_is_split),
        cmocka_unit_test(only_the_process_that_began_then_is_signalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
