/* SPDX-License-Identifier: MIT */
/* test_fork.c: a child of ours is forked by an injected clone: its image stays what it was, the child goes on, and
 * nothing is left of it, also when whoever does it is killed at any moment. */
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/fork_own.h"

#define AREA   ((size_t)1 << 20)
#define HEAVY  ((size_t)200 << 20)
#define WAIT_S 30

static size_t area_size = AREA;
static uint8_t *area; /* private: the image has its own */
static volatile uint64_t *turns;
static int to_child[2], from_child[2];

/* ---- the target ---- */

/* read(2) with known values in registers that it must not touch. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the kernel and the assembler write */
static long held_read(int fd, uint64_t *to, const uint8_t in[64], uint8_t out[64], uint64_t *r12)
{
    long rc;
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vmovdqu (%[in]), %%ymm5\n\tvmovdqu 32(%[in]), %%ymm12\n\t"
                         "movabs $0x1122334455667788, %%r12\n\t"
                         "syscall\n\t"
                         "vmovdqu %%ymm5, (%[out])\n\tvmovdqu %%ymm12, 32(%[out])\n\tmov %%r12, (%[r12])\n\tvzeroupper"
                         : "=a"(rc)
                         : "a"(0L), "D"((long)fd), "S"(to),
                           "d"(sizeof *to), [in] "r"(in), [out] "r"(out), [r12] "r"(r12)
                         : "rcx", "r11", "r12", "xmm5", "xmm12", "memory");
    else
        __asm__ volatile("movdqu (%[in]), %%xmm5\n\tmovdqu 32(%[in]), %%xmm12\n\t"
                         "movabs $0x1122334455667788, %%r12\n\t"
                         "syscall\n\t"
                         "movdqu %%xmm5, (%[out])\n\tmovdqu %%xmm12, 32(%[out])\n\tmov %%r12, (%[r12])\n\t"
                         : "=a"(rc)
                         : "a"(0L), "D"((long)fd), "S"(to),
                           "d"(sizeof *to), [in] "r"(in), [out] "r"(out), [r12] "r"(r12)
                         : "rcx", "r11", "r12", "xmm5", "xmm12", "memory");
    return rc;
}

static void on_signal(int n) { (void)n; }

/* Answers each number with 0, or with what was wrong. */
static void obey(void)
{
    static uint8_t signal_stack[65536];
    stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack}, now;
    sigset_t mask, mask_now;
    sigaltstack(&stack, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    uint8_t in[64], out[64] = {0};
    bool avx = __builtin_cpu_supports("avx");
    for (uint64_t expected = 1;; expected++) {
        uint64_t got = 0, r12 = 0, wrong = 0;
        for (size_t i = 0; i < sizeof in; i++)
            in[i] = (uint8_t)(i * 7 + expected);
        if (held_read(to_child[0], &got, in, out, &r12) != 8 || got != expected) wrong |= 1;
        if (r12 != 0x1122334455667788) wrong |= 2;
        if (memcmp(in, out, avx ? 32 : 16) != 0 || memcmp(in + 32, out + 32, avx ? 32 : 16) != 0) wrong |= 4;
        pthread_sigmask(SIG_SETMASK, NULL, &mask_now);
        if (!sigismember(&mask_now, SIGUSR2) || sigismember(&mask_now, SIGUSR1)) wrong |= 8;
        sigaltstack(NULL, &now);
        if (now.ss_sp != stack.ss_sp || now.ss_size != stack.ss_size || now.ss_flags) wrong |= 16;
        memset(area, (int)expected, area_size);
        if (write(from_child[1], &wrong, 8) != 8) _exit(3);
    }
}

static void *spin(void *arg)
{
    (void)arg;
    for (;;)
        ++*turns;
    return NULL;
}

static bool forbid;        /* a seccomp filter for the child */
static const char *cgroup; /* where the child is to live, with much memory */

/* One that allows everything. */
static void set_filter(void)
{
    struct sock_filter allow = {.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW};
    struct sock_fprog program = {.len = 1, .filter = &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(5);
}

static bool put_text(const char *dir, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    bool ok = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

static void live_there(void)
{
    char self[16];
    snprintf(self, sizeof self, "%d", (int)getpid());
    area_size = HEAVY;
    area = mmap(NULL, HEAVY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || !put_text(cgroup, "cgroup.procs", self)) _exit(4);
}

static pid_t start_child(void)
{
    assert_int_equal(pipe(to_child), 0);
    assert_int_equal(pipe(from_child), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t t;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGUSR1, on_signal);
        if (cgroup) live_there();
        memset(area, 0, area_size);
        close(to_child[1]);
        close(from_child[0]);
        pthread_create(&t, NULL, spin, NULL);
        if (forbid) set_filter();
        obey();
    }
    close(to_child[0]);
    close(from_child[1]);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(to_child[1]);
    close(from_child[0]);
}

static void exchange(uint64_t number)
{
    uint64_t wrong = 99, before = *turns;
    assert_int_equal(write(to_child[1], &number, 8), 8);
    assert_int_equal(read(from_child[0], &wrong, 8), 8);
    assert_int_equal(wrong, 0);
    int64_t end = mono_ns() + WAIT_S * INT64_C(1000000000);
    while (*turns == before)
        assert_true(mono_ns() < end);
}

/* Its first thread waits in read(2). */
static void await_reading(pid_t pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)pid);
    int64_t end = mono_ns() + WAIT_S * INT64_C(1000000000);
    while (strncmp(text, "0 ", 2) != 0) {
        assert_true(mono_ns() < end);
        FILE *f = fopen(path, "re");
        if (!f || !fgets(text, sizeof text, f)) *text = 0;
        if (f) fclose(f);
        usleep(1000);
    }
}

static unsigned children_of(pid_t pid)
{
    unsigned n = 0;
    DIR *d = opendir("/proc");
    struct dirent *entry;
    while (d && (entry = readdir(d)) != NULL) {
        char path[300], text[512] = "";
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *f = fopen(path, "re");
        if (f && !fgets(text, sizeof text, f)) *text = 0;
        if (f) fclose(f);
        const char *close_at = strrchr(text, ')');
        n += close_at && strtol(close_at + 4, NULL, 10) == pid;
    }
    if (d) closedir(d);
    return n;
}

/* No thread of it has a tracer. */
static bool is_free(pid_t pid)
{
    char path[64], line[256];
    bool yes = true;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    struct dirent *entry;
    while (d && (entry = readdir(d)) != NULL) {
        char status[400];
        snprintf(status, sizeof status, "%s/%s/status", path, entry->d_name);
        FILE *f = fopen(status, "re");
        while (f && fgets(line, sizeof line, f))
            if (strncmp(line, "TracerPid:", 10) == 0) yes = yes && strtol(line + 10, NULL, 10) == 0;
        if (f) fclose(f);
    }
    if (d) closedir(d);
    return yes;
}

static void await_nothing_left(pid_t pid)
{
    int64_t end = mono_ns() + WAIT_S * INT64_C(1000000000);
    while (children_of(pid) != 0 || !is_free(pid)) {
        assert_true(mono_ns() < end);
        usleep(2000);
    }
}

/* ---- whoever looks ---- */

static int fork_it(mem_target *t, err *e)
{
    int rc = mem_fork_prepare(t, e);
    if (rc == 0) rc = mem_stop(t, deadline_in_ms(20000), e);
    if (rc == 0) rc = mem_fork(t, e);
    mem_resume(t);
    return rc;
}

static mem_target *open_child(pid_t pid)
{
    err e = {0};
    mem_target *t = NULL;
    if (mem_open_live(pid, 0, &t, &e) < 0) fail_msg("%s", e.message);
    return t;
}

static void an_image_stays_what_it_was(void **state)
{
    (void)state;
    pid_t pid = start_child();
    exchange(1);
    await_reading(pid);
    mem_target *t = open_child(pid);
    err e = {0};
    if (fork_it(t, &e) < 0) fail_msg("%s", e.message);
    assert_true(mem_forked(t));
    assert_int_not_equal(mem_memory_pid(t), pid);
    assert_true(mem_fork_ns(t) > 0);
    exchange(2);
    exchange(3);
    uint8_t got[2] = {0};
    assert_true(mem_get(t, (uintptr_t)area + AREA - 2, got, 2));
    assert_int_equal(got[0], 1);
    mem_registers r;
    assert_int_equal(mem_registers_of(t, pid, &r, &e), 0);
    assert_int_equal(r.general.orig_rax, 0); /* read, as the target has it, not the clone */
    assert_int_equal(r.general.r12, 0x1122334455667788);
    assert_int_equal(mem_fork_check(t, &e), 0);
    assert_int_equal(children_of(pid), 1);
    mem_fork_drop(t);
    assert_null(mem_note(t, 0));
    assert_int_equal(children_of(pid), 0);
    assert_true(mem_get(t, (uintptr_t)area, got, 1));
    assert_int_equal(got[0], 3);
    mem_close(t);
    exchange(4);
    end_child(pid);
}

static void forty_forks_harm_nothing(void **state)
{
    (void)state;
    pid_t pid = start_child();
    for (uint64_t i = 1; i <= 40; i++) {
        await_reading(pid);
        mem_target *t = open_child(pid);
        err e = {0};
        if (fork_it(t, &e) < 0) fail_msg("%s", e.message);
        exchange(i);
        mem_close(t);
        assert_int_equal(children_of(pid), 0);
    }
    assert_true(is_free(pid));
    end_child(pid);
}

static void an_image_that_died_is_said(void **state)
{
    (void)state;
    pid_t pid = start_child();
    await_reading(pid);
    mem_target *t = open_child(pid);
    err e = {0};
    if (fork_it(t, &e) < 0) fail_msg("%s", e.message);
    kill(mem_memory_pid(t), SIGKILL);
    int64_t end = mono_ns() + WAIT_S * INT64_C(1000000000);
    while (mem_fork_check(t, &e) == 0)
        assert_true(mono_ns() < end);
    assert_int_equal(e.kind, ERR_LIMIT);
    mem_close(t);
    assert_int_equal(children_of(pid), 0);
    exchange(1);
    end_child(pid);
}

static void the_target_may_end_meanwhile(void **state)
{
    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t pid = start_child();
    await_reading(pid);
    mem_target *t = open_child(pid);
    err e = {0};
    if (fork_it(t, &e) < 0) fail_msg("%s", e.message);
    pid_t image = mem_memory_pid(t);
    end_child(pid);
    assert_true(mem_gone(t));
    mem_close(t);
    assert_int_equal(kill(image, 0), -1); /* it was ours to inherit, and is dead and gone */
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static mem__moment die_at;
static unsigned die_skip;
static void die(mem__moment at)
{
    if (at != die_at || die_skip-- > 0) return;
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void killing_the_worker_at_any_moment_harms_nothing(void **state)
{
    (void)state;
    pid_t pid = start_child();
    uint64_t number = 0;
    for (unsigned call = 0; call < 2; call++)
        for (int at = 0; at < MEM_MOMENT_COUNT; at++) {
            await_reading(pid);
            pid_t worker = fork();
            if (worker == 0) {
                mem_target *t = open_child(pid);
                die_at = (mem__moment)at;
                die_skip = call;
                mem__fork_hook = die;
                err e = {0};
                if (fork_it(t, &e) < 0) _exit(2);
                mem_close(t);
                _exit(0);
            }
            int status;
            waitpid(worker, &status, 0);
            bool only_once = at == MEM_AT_CHILD || at == MEM_AT_BACK || at == MEM_AT_IMAGE || at == MEM_AT_DEATH;
            if (call == 0 || !only_once)
                assert_true(WIFSIGNALED(status));
            else
                assert_int_equal(status, 0);
            exchange(++number); /* at once: whatever is left to be done */
            await_nothing_left(pid);
            exchange(++number);
        }
    end_child(pid);
}

static void a_filter_or_a_tracer_is_refused(void **state)
{
    (void)state;
    err e = {0};
    forbid = true;
    pid_t pid = start_child();
    forbid = false;
    mem_target *t = open_child(pid);
    int64_t end = mono_ns() + WAIT_S * INT64_C(1000000000);
    while (mem_fork_prepare(t, &e) == 0) { /* until it has set its filter */
        assert_true(mono_ns() < end);
        mem_close(t);
        t = open_child(pid);
    }
    assert_int_equal(e.kind, ERR_NOT_SUPPORTED);
    mem_close(t);
    end_child(pid);

    e = (err){0};
    pid = start_child();
    assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
    t = open_child(pid);
    assert_int_equal(mem_fork_prepare(t, &e), -ERR_PERMISSION_DENIED);
    mem_close(t);
    end_child(pid);
}

/* Memory that is left: 200 MB of its own need 121 MB more before, and 71 MB all the time. */
static void memory_is_estimated_and_watched(void **state)
{
    (void)state;
    char dir[64];
    const char *limit = "memory.limit_in_bytes";
    snprintf(dir, sizeof dir, "/sys/fs/cgroup/memory/lunette-test-%d", (int)getpid());
    if (mkdir(dir, 0700) != 0) {
        limit = "memory.max";
        snprintf(dir, sizeof dir, "/sys/fs/cgroup/lunette-test-%d", (int)getpid());
        if (mkdir(dir, 0700) != 0) skip(); /* no cgroup may be made here */
    }
    if (!put_text(dir, limit, "440M")) {
        rmdir(dir);
        skip(); /* no controller of memory here */
    }
    cgroup = dir;
    pid_t pid = start_child();
    cgroup = NULL;
    exchange(1);
    await_reading(pid);
    err e = {0};
    mem_target *t = open_child(pid);
    if (fork_it(t, &e) < 0) fail_msg("%s", e.message);
    assert_int_equal(mem_fork_check(t, &e), 0);
    exchange(2); /* writes all of it */
    int64_t end = mono_ns() + WAIT_S * INT64_C(1000000000);
    while (mem_fork_check(t, &e) == 0)
        assert_true(mono_ns() < end);
    assert_int_equal(e.kind, ERR_LIMIT);
    mem_close(t);
    await_nothing_left(pid);
    exchange(3);

    assert_true(put_text(dir, limit, "300M"));
    e = (err){0};
    t = open_child(pid);
    assert_int_equal(mem_fork_prepare(t, &e), -ERR_LIMIT);
    mem_close(t);
    exchange(4);
    end_child(pid);
    end = mono_ns() + WAIT_S * INT64_C(1000000000);
    while (rmdir(dir) != 0 && mono_ns() < end)
        usleep(1000);
}

int main(void)
{
    area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    turns = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || turns == MAP_FAILED) return EXIT_FAILURE;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_stays_what_it_was),
        cmocka_unit_test(forty_forks_harm_nothing),
        cmocka_unit_test(an_image_that_died_is_said),
        cmocka_unit_test(the_target_may_end_meanwhile),
        cmocka_unit_test(killing_the_worker_at_any_moment_harms_nothing),
        cmocka_unit_test(memory_is_estimated_and_watched),
        cmocka_unit_test(a_filter_or_a_tracer_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
