/* SPDX-License-Identifier: MIT */
/* test_child.c: child processes: how they end, what they inherit, and that none is left. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop_check.h"

typedef struct ending {
    int count, code, signo;
} ending;

static void on_end(void *arg, int code, int signo)
{
    ending *x = arg;
    *x = (ending){x->count + 1, code, signo};
}

static loop_child *start(loop *l, const char *script, int out_fd, int64_t deadline, ending *x)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    loop_child_cfg cfg = {.argv = argv, .stdin_fd = -1, .stdout_fd = out_fd, .stderr_fd = -1, .deadline_ns = deadline};
    loop_child *c = NULL;
    err e = {0};
    if (loop_child_start(l, &cfg, on_end, x, &c, &e) < 0) fail_msg("%s", e.message);
    assert_true(loop_child_pid(c) > 0);
    return c;
}

/* Runs a script to its end; what it printed. */
static void output_of(loop *l, const char *script, char *to, size_t cap)
{
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    ending x = {0};
    start(l, script, p[1], DEADLINE_NEVER, &x);
    close(p[1]);
    run_until(l, &x.count, 1);
    assert_int_equal(x.code, 0);
    size_t n = 0;
    ssize_t got;
    while ((got = read(p[0], to + n, cap - 1 - n)) > 0)
        n += (size_t)got;
    to[n] = '\0';
    close(p[0]);
}

static void exit_codes_and_signals_are_told(void **state)
{
    loop *l = loop_in(state);
    static const struct {
        const char *script;
        int code, signo;
    } cases[] = {{"exit 0", 0, 0},
                 {"exit 3", 3, 0},
                 {"exit 255", 255, 0},
                 {"kill -TERM $$", -1, SIGTERM},
                 {"kill -KILL $$", -1, SIGKILL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ending x = {0};
        start(l, cases[i].script, -1, DEADLINE_NEVER, &x);
        run_until(l, &x.count, 1);
        assert_int_equal(x.code, cases[i].code);
        assert_int_equal(x.signo, cases[i].signo);
    }
}

static void many_children_at_once(void **state)
{
    loop *l = loop_in(state);
    enum { N = 20 };
    ending x[N] = {0};
    char script[32];
    for (int i = 0; i < N; i++) {
        snprintf(script, sizeof script, "exit %d", i);
        start(l, script, -1, DEADLINE_NEVER, &x[i]);
    }
    for (int i = 0; i < N; i++) {
        run_until(l, &x[i].count, 1);
        assert_int_equal(x[i].code, i);
    }
}

static void a_deadline_kills(void **state)
{
    loop *l = loop_in(state);
    ending x = {0}, y = {0};
    start(l, "trap '' TERM; exec sleep 60", -1, deadline_in_ms(50), &x);
    start(l, "exit 4", -1, deadline_in_ms(60000), &y); /* ends in time: its timer goes with it */
    run_until(l, &x.count, 1);
    assert_int_equal(x.code, -1);
    assert_int_equal(x.signo, SIGKILL);
    run_until(l, &y.count, 1);
    assert_int_equal(y.code, 4);
}

static void a_child_can_be_signalled(void **state)
{
    loop *l = loop_in(state);
    ending x = {0};
    loop_child *c = start(l, "exec sleep 60", -1, DEADLINE_NEVER, &x);
    loop_child_kill(c, SIGINT);
    run_until(l, &x.count, 1);
    assert_int_equal(x.signo, SIGINT);
    loop_child_kill(NULL, SIGINT);
}

static void a_child_inherits_three_descriptors_only(void **state)
{
    loop *l = loop_in(state);
    char text[256];
    int leak = open("/dev/null", O_RDONLY); /* as a careless library would: without O_CLOEXEC */
    assert_true(leak > 2);
    output_of(l, "for fd in /proc/self/fd/*; do echo -n \"${fd##*/} \"; done", text, sizeof text);
    close(leak);
    /* The shell itself opens the directory while it expands the pattern. */
    assert_memory_equal(text, "0 1 2 ", 6);
    assert_true(strlen(text) <= strlen("0 1 2 3 "));
    output_of(l, "cat; readlink /proc/self/fd/0", text, sizeof text);
    assert_string_equal(text, "/dev/null\n");
}

static void a_child_starts_with_ordinary_signals(void **state)
{
    loop *l = loop_in(state);
    char text[256];
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    output_of(l, "grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\t\\n'", text, sizeof text);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    signal(SIGPIPE, SIG_DFL);
    unsigned long long blocked = 1, ignored = 1;
    assert_int_equal(sscanf(text, "SigBlk:%llxSigIgn:%llx", &blocked, &ignored), 2);
    assert_int_equal(blocked, 0);
    assert_int_equal(ignored & ~(3ull << 31), 0); /* 32 and 33 belong to the C library, which lets nobody change them */
}

static void the_environment_is_as_given(void **state)
{
    loop *l = loop_in(state);
    int p[2];
    char text[256] = "";
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    const char *argv[] = {"/usr/bin/env", NULL}, *envp[] = {"ONLY=this", NULL};
    loop_child_cfg cfg = {argv, envp, -1, p[1], -1, DEADLINE_NEVER};
    err e = {0};
    ending x = {0};
    assert_int_equal(loop_child_start(l, &cfg, on_end, &x, NULL, &e), 0);
    close(p[1]);
    run_until(l, &x.count, 1);
    assert_int_equal(read(p[0], text, sizeof text - 1), strlen("ONLY=this\n"));
    assert_string_equal(text, "ONLY=this\n");
    close(p[0]);
}

/* 0 and 1 of the child are our 1 and 0: neither dup2 may overwrite what the other needs. */
static void standard_descriptors_may_be_swapped(void **state)
{
    loop *l = loop_in(state);
    int p[2], saved[2] = {dup(0), dup(1)};
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    fflush(stdout);
    int in = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    dup2(in, 1);   /* our 1 is what the child reads */
    dup2(p[1], 0); /* our 0 is what it writes to */
    const char *argv[] = {"/bin/cat", NULL};
    loop_child_cfg cfg = {argv, NULL, 1, 0, -1, DEADLINE_NEVER};
    err e = {0};
    ending x = {0};
    int rc = loop_child_start(l, &cfg, on_end, &x, NULL, &e);
    dup2(saved[0], 0);
    dup2(saved[1], 1);
    assert_int_equal(rc, 0);
    close(p[1]), close(in), close(saved[0]), close(saved[1]);
    run_until(l, &x.count, 1);
    char text[64] = "";
    assert_true(read(p[0], text, sizeof text - 1) > 0);
    assert_string_equal(text, "test_loop_child\n");
    close(p[0]);
}

static void what_cannot_start_is_an_error(void **state)
{
    loop *l = loop_in(state);
    static const struct {
        const char *path;
        err_kind kind;
        int sys;
    } cases[] = {{"/no/such/program", ERR_NOT_FOUND, ENOENT}, {"/etc", ERR_PERMISSION_DENIED, EACCES}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *argv[] = {cases[i].path, NULL};
        loop_child_cfg cfg = {argv, NULL, -1, -1, -1, DEADLINE_NEVER};
        err e = {0};
        ending x = {0};
        loop_child *c = NULL;
        assert_int_equal(loop_child_start(l, &cfg, on_end, &x, &c, &e), -(int)cases[i].kind);
        assert_int_equal(e.sys, cases[i].sys);
        assert_non_null(strstr(e.message, cases[i].path));
        assert_null(c);
        assert_int_equal(x.count, 0);
    }
}

static void loop_free_kills_and_reaps(void **state)
{
    loop_fixture *f = *state;
    ending x = {0};
    pid_t pid = loop_child_pid(start(f->l, "exec sleep 60", -1, DEADLINE_NEVER, &x));
    loop_free(f->l);
    f->l = NULL;
    assert_int_equal(x.count, 1);
    assert_int_equal(x.signo, SIGKILL);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void other_children_are_left_alone(void **state)
{
    loop *l = loop_in(state);
    pid_t other = fork();
    if (other == 0) _exit(9);
    assert_true(other > 0);
    ending x = {0};
    start(l, "exit 1", -1, DEADLINE_NEVER, &x);
    run_until(l, &x.count, 1);
    int status = 0;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(WEXITSTATUS(status), 9);
}

/* ---- a program that is ours to end --------------------------------------------------------------------------------
 */
static loop_child *start_owned(loop *l, const char *script, int out_fd, ending *x)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    loop_child_cfg cfg = {.argv = argv,
                          .stdin_fd = -1,
                          .stdout_fd = out_fd,
                          .stderr_fd = -1,
                          .deadline_ns = DEADLINE_NEVER,
                          .cwd = "/proc/self",
                          .own_group = true,
                          .dies_with_us = true};
    loop_child *c = NULL;
    err e = {0};
    if (loop_child_start(l, &cfg, on_end, x, &c, &e) < 0) fail_msg("%s", e.message);
    return c;
}

/* A line that the child printed. */
static void read_line(int fd, char *to, size_t cap)
{
    size_t n = 0;
    while (n + 1 < cap && read(fd, to + n, 1) == 1 && to[n] != '\n')
        n++;
    to[n] = '\0';
}

static pid_t number(const char *text) { return (pid_t)strtol(text, NULL, 10); }

/* Whether the process is no more, or only waits to be reaped by whoever adopted it. */
static bool ends(pid_t pid)
{
    char path[64], state = 0;
    for (int i = 0; i < 2000; i++) {
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *f = fopen(path, "r");
        if (!f) return true;
        int n = fscanf(f, "%*d (%*[^)]) %c", &state);
        fclose(f);
        if (n == 1 && state == 'Z') return true;
        usleep(5000);
    }
    return false;
}

static void an_owned_child_starts_as_asked(void **state)
{
    loop *l = loop_in(state);
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    int kept = open("/proc/version", O_RDONLY); /* not close-on-exec */
    assert_int_equal(signal(SIGUSR1, SIG_IGN) == SIG_ERR, 0);
    ending x = {0};
    loop_child *c = start_owned(l,
                                "cat comm; ls -l /proc/$$/fd | grep -c /proc/version; cut -d' ' -f5 /proc/$$/stat; "
                                "exec grep -E 'SigBlk|SigIgn' /proc/self/status",
                                p[1], &x);
    pid_t pid = loop_child_pid(c);
    close(p[1]);
    char line[256];
    read_line(p[0], line, sizeof line);
    assert_string_equal(line, "sh"); /* /proc/self of the child when it changed there, not ours */
    read_line(p[0], line, sizeof line);
    assert_string_equal(line, "0");
    read_line(p[0], line, sizeof line);
    assert_int_equal(number(line), pid); /* its own process group */
    read_line(p[0], line, sizeof line);
    assert_string_equal(line, "SigBlk:\t0000000000000000");
    read_line(p[0], line, sizeof line);
    unsigned long long ignored = 1;
    assert_int_equal(sscanf(line, "SigIgn:%llx", &ignored), 1);
    assert_int_equal(ignored & ~(3ull << 31), 0); /* 32 and 33 belong to the C library, which lets nobody change them */
    run_until(l, &x.count, 1);
    assert_int_equal(x.code, 0);
    (void)signal(SIGUSR1, SIG_DFL);
    close(kept);
    close(p[0]);
}

static void what_is_left_of_a_group_ends_with_its_leader(void **state)
{
    loop *l = loop_in(state);
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    ending x = {0};
    start_owned(l, "trap '' HUP; sleep 60 & echo $!; exit 3", p[1], &x);
    close(p[1]);
    char line[32];
    read_line(p[0], line, sizeof line);
    run_until(l, &x.count, 1);
    assert_int_equal(x.code, 3);
    assert_true(number(line) > 0 && ends(number(line)));
    close(p[0]);
}

static void a_signal_reaches_the_whole_group(void **state)
{
    loop *l = loop_in(state);
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    ending x = {0};
    loop_child *c = start_owned(
        l,
        "trap 'wait; exit 4' USR1; sh -c 'trap \"echo told; exit\" USR1; echo up; while :; do sleep 0.01; done' & wait",
        p[1], &x);
    close(p[1]);
    char line[32];
    read_line(p[0], line, sizeof line);
    assert_string_equal(line, "up");
    loop_child_kill(c, SIGUSR1);
    read_line(p[0], line, sizeof line);
    assert_string_equal(line, "told"); /* the grandchild */
    run_until(l, &x.count, 1);
    assert_int_equal(x.code, 4);
    close(p[0]);
}

static void an_owned_child_dies_with_us(void **state)
{
    (void)state;
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    pid_t we = fork();
    if (we == 0) {
        loop *l = NULL;
        ending x = {0};
        if (loop_new(&l, NULL) < 0) _exit(1);
        start_owned(l, "echo $$; exec sleep 60", p[1], &x);
        for (;;)
            pause();
    }
    close(p[1]);
    char line[32];
    read_line(p[0], line, sizeof line);
    assert_true(number(line) > 0);
    assert_int_equal(kill(we, SIGKILL), 0);
    assert_int_equal(waitpid(we, NULL, 0), we);
    assert_true(ends(number(line)));
    close(p[0]);
}

static void what_cannot_be_owned_is_an_error(void **state)
{
    loop *l = loop_in(state);
    static const struct {
        const char *path, *cwd;
        int sys;
    } cases[] = {{"/no/such/program", "/", ENOENT}, {"/etc", "/", EACCES}, {"/bin/true", "/no/such/folder", ENOENT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *argv[] = {cases[i].path, NULL};
        loop_child_cfg cfg = {argv, NULL, -1, -1, -1, DEADLINE_NEVER, cases[i].cwd, true, true};
        err e = {0};
        ending x = {0};
        assert_true(loop_child_start(l, &cfg, on_end, &x, NULL, &e) < 0);
        assert_int_equal(e.sys, cases[i].sys);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
    }
}

static int use_child(void *arg)
{
    (void)arg;
    loop *l = NULL;
    err e = {0};
    ending x = {0};
    const char *argv[] = {"/bin/true", NULL};
    loop_child_cfg cfg = {argv, NULL, -1, -1, -1, deadline_in_ms(60000)};
    int rc = loop_new(&l, &e);
    if (rc == 0) rc = loop_child_start(l, &cfg, on_end, &x, NULL, &e);
    if (rc == 0) run_until(l, &x.count, 1);
    assert_int_equal(-(int)e.kind, rc);
    loop_free(l);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left, whatever failed */
    assert_int_equal(errno, ECHILD);
    return rc;
}

static void each_failed_allocation_is_reported(void **state)
{
    (void)state;
    unsigned before = entries_of("/proc/self/fd");
    assert_int_equal(each_allocation_fails(use_child, NULL), 2 + 4);
    assert_int_equal(entries_of("/proc/self/fd"), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        loop_test(exit_codes_and_signals_are_told),
        loop_test(many_children_at_once),
        loop_test(a_deadline_kills),
        loop_test(a_child_can_be_signalled),
        loop_test(a_child_inherits_three_descriptors_only),
        loop_test(a_child_starts_with_ordinary_signals),
        loop_test(the_environment_is_as_given),
        loop_test(standard_descriptors_may_be_swapped),
        loop_test(what_cannot_start_is_an_error),
        loop_test(loop_free_kills_and_reaps),
        loop_test(other_children_are_left_alone),
        loop_test(an_owned_child_starts_as_asked),
        loop_test(what_is_left_of_a_group_ends_with_its_leader),
        loop_test(a_signal_reaches_the_whole_group),
        cmocka_unit_test(an_owned_child_dies_with_us),
        loop_test(what_cannot_be_owned_is_an_error),
        cmocka_unit_test(each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
