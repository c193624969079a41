/* SPDX-License-Identifier: MIT */
/* test_target.c: a child of ours as a live target: its memory, threads, stops and their ends. */
#include "memory/target.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define N_THREADS 5

static uint8_t *area; /* two pages and a gap, the same in parent and child */
static volatile uint64_t *turns;

static void *spin(void *arg)
{
    for (;;) {
        turns[(uintptr_t)arg]++;
        sched_yield();
    }
    return NULL;
}

/* A child with N_THREADS threads besides its first, all of which count. */
static pid_t start_child(void)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pthread_t t;
        for (uintptr_t i = 1; i <= N_THREADS; i++)
            pthread_create(&t, NULL, spin, (void *)i);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        spin(NULL);
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static uint64_t sum_of_turns(void)
{
    uint64_t sum = 0;
    for (int i = 0; i <= N_THREADS; i++)
        sum += turns[i];
    return sum;
}

/* Every thread runs again: each counts on. */
static bool all_run(void)
{
    uint64_t before[N_THREADS + 1];
    for (int i = 0; i <= N_THREADS; i++)
        before[i] = turns[i];
    int64_t deadline = mono_ns() + (int64_t)20 * 1000000000;
    for (int i = 0; i <= N_THREADS; i++)
        while (turns[i] == before[i]) {
            if (mono_ns() > deadline) return false;
            sched_yield();
        }
    return true;
}

static mem_target *open_child(pid_t pid)
{
    err e = {0};
    mem_target *t = NULL;
    if (mem_open_live(pid, 0, &t, &e) < 0) fail_msg("%s", e.message);
    return t;
}

static void reading_stops_at_the_first_gap(void **state)
{
    (void)state;
    pid_t pid = start_child();
    mem_target *t = open_child(pid);
    uint8_t got[3 * 4096];
    assert_int_equal(mem_read(t, (uintptr_t)area + 100, got, sizeof got), 2 * 4096 - 100);
    assert_int_equal(got[0], 'a');
    assert_int_equal(got[4096 - 100], 'b');
    assert_int_equal(mem_read(t, (uintptr_t)area + 2 * 4096, got, 1), 0);
    assert_int_equal(mem_read(t, UINT64_MAX - 10, got, 100), 0);
    uint8_t same[3 * 4096] = {0};
    assert_int_equal(mem_fetch(t, (uintptr_t)area + 100, same, sizeof same), 2 * 4096 - 100);
    assert_int_equal(mem_read(t, (uintptr_t)area + 100, got, sizeof got), 2 * 4096 - 100);
    assert_memory_equal(same, got, 2 * 4096 - 100);
    assert_int_equal(mem_fetch(t, (uintptr_t)area + 2 * 4096, same, 1), 0);
    mem_piece p[3] = {{(uintptr_t)area, got, 10, 0},
                      {(uintptr_t)area + 2 * 4096 - 5, got + 10, 10, 0},
                      {(uintptr_t)area + 4096, got + 20, 10, 0}};
    mem_read_pieces(t, p, 3);
    assert_int_equal(p[0].got, 10);
    assert_int_equal(p[1].got, 5);
    assert_int_equal(p[2].got, 10);
    assert_false(mem_gone(t));
    mem_close(t);
    end_child(pid);
}

static void a_stop_holds_every_thread_and_lets_it_go(void **state)
{
    (void)state;
    err e = {0};
    pid_t pid = start_child();
    mem_target *t = open_child(pid);
    assert_int_equal(mem_stop(t, deadline_in_ms(20000), &e), 0);
    size_t n;
    const mem_thread *threads = mem_threads(t, &n);
    assert_int_equal(n, N_THREADS + 1);
    uint64_t before = sum_of_turns();
    for (size_t i = 0; i < n; i++) {
        mem_registers r;
        assert_true(threads[i].stopped);
        assert_int_equal(mem_registers_of(t, threads[i].tid, &r, &e), 0);
        assert_true(r.has_floating);
        assert_non_null(mem_mapping_of(t, r.general.rsp));
        const mem_mapping *code = mem_mapping_of(t, r.general.rip);
        assert_true(code && code->prot & MEM_EXEC);
    }
    assert_int_equal(sum_of_turns(), before);
    assert_true(mem_stop_ns(t) > 0);
    mem_resume(t);
    assert_true(all_run());
    int64_t stood = mem_stop_ns(t);
    assert_int_equal(mem_stop_ns(t), stood);
    mem_close(t);
    end_child(pid);
}

static void a_thousand_stops_harm_nothing(void **state)
{
    (void)state;
    pid_t pid = start_child();
    for (int i = 0; i < 1000; i++) {
        err e = {0};
        mem_target *t = open_child(pid);
        if (mem_stop(t, deadline_in_ms(20000), &e) < 0) fail_msg("round %d: %s", i, e.message);
        mem_close(t);
    }
    assert_true(all_run());
    end_child(pid);
}

static char state_of(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *close = strrchr(text, ')');
    return close ? close[2] : 0;
}

static void await_state(pid_t pid, char c)
{
    for (int64_t end = mono_ns() + (int64_t)20 * 1000000000; state_of(pid) != c && mono_ns() < end;)
        sched_yield();
    assert_int_equal(state_of(pid), c);
}

static void a_process_that_job_control_has_stopped_stays_so(void **state)
{
    (void)state;
    err e = {0};
    pid_t pid = start_child();
    kill(pid, SIGSTOP);
    await_state(pid, 'T');
    mem_target *t = open_child(pid);
    assert_int_equal(mem_stop(t, deadline_in_ms(20000), &e), 0);
    mem_close(t);
    await_state(pid, 'T');
    kill(pid, SIGCONT);
    assert_true(all_run());
    end_child(pid);
}

static void killing_the_one_who_stopped_it_resumes_it(void **state)
{
    (void)state;
    pid_t pid = start_child();
    for (int i = 0; i < 20; i++) {
        int ready[2];
        char c;
        assert_int_equal(pipe(ready), 0);
        pid_t worker = fork();
        if (worker == 0) {
            err e = {0};
            mem_target *t = NULL;
            if (mem_open_live(pid, 0, &t, &e) < 0 || mem_stop(t, deadline_in_ms(20000), &e) < 0) _exit(1);
            if (write(ready[1], "x", 1) != 1) _exit(1);
            pause();
        }
        assert_int_equal(read(ready[0], &c, 1), 1);
        kill(worker, SIGKILL);
        waitpid(worker, NULL, 0);
        close(ready[0]);
        close(ready[1]);
        assert_true(all_run());
    }
    end_child(pid);
}

static void a_target_that_is_killed_while_it_stands_is_an_error(void **state)
{
    (void)state;
    err e = {0};
    mem_registers r;
    pid_t pid = start_child();
    mem_target *t = open_child(pid);
    assert_int_equal(mem_stop(t, deadline_in_ms(20000), &e), 0);
    kill(pid, SIGKILL);
    for (int64_t end = mono_ns() + (int64_t)20 * 1000000000; !mem_gone(t) && mono_ns() < end;)
        waitpid(pid, NULL, WNOHANG | __WALL);
    assert_true(mem_gone(t));
    assert_true(mem_registers_of(t, pid, &r, &e) < 0);
    mem_close(t);
    e = (err){0};
    waitpid(pid, NULL, __WALL);
    int rc = mem_open_live(pid, 0, &t, &e); /* its leader may be a zombie for a moment more */
    assert_true(rc == -ERR_PROCESS_NOT_FOUND || rc == -ERR_PROCESS_EXITED);
}

static void who_traces_it_already_is_told(void **state)
{
    (void)state;
    err e = {0};
    pid_t pid = start_child();
    mem_target *first = open_child(pid);
    assert_int_equal(mem_stop(first, deadline_in_ms(20000), &e), 0);
    int result[2];
    assert_int_equal(pipe(result), 0);
    pid_t second = fork();
    if (second == 0) {
        mem_target *t = NULL;
        err why = {0};
        int rc = mem_open_live(pid, 0, &t, &why);
        if (rc >= 0) rc = mem_stop(t, deadline_in_ms(1000), &why);
        _exit(write(result[1], &why, sizeof why) == sizeof why && rc == -ERR_PERMISSION_DENIED ? 0 : 1);
    }
    err why = {0};
    assert_int_equal(read(result[0], &why, sizeof why), sizeof why);
    int status;
    waitpid(second, &status, 0);
    assert_int_equal(status, 0);
    assert_non_null(strstr(why.message, "is traced by process"));
    close(result[0]);
    close(result[1]);
    mem_close(first);
    assert_true(all_run());
    end_child(pid);
}

static void another_process_of_the_number_is_not_taken(void **state)
{
    (void)state;
    err e = {0};
    mem_target *t = NULL;
    pid_t pid = start_child();
    assert_int_equal(mem_open_live(pid, 1, &t, &e), -ERR_PROCESS_EXITED);
    assert_null(t);
    end_child(pid);
}

static void modules_have_bases_build_ids_and_symbols(void **state)
{
    (void)state;
    pid_t pid = start_child();
    mem_target *t = open_child(pid);
    size_t n;
    mem_modules(t, &n);
    assert_true(n >= 3); /* the program, libc, the loader, [vdso] */
    const mem_module *program = mem_module_of(t, (uintptr_t)&start_child), *libc = mem_module_named(t, "libc.so.6");
    assert_true(program && program->is_program);
    uint64_t at = 0;
    if (libc) {
        assert_true(mem_symbol(t, libc, "gnu_get_libc_version", &at));
        assert_true(at > libc->base && at < libc->end);
        assert_false(mem_symbol(t, libc, "no_such_name_here", &at));
        assert_int_equal(libc->build_id_size, 20);
        assert_true(libc->eh_frame_hdr > libc->base && libc->eh_frame_hdr < libc->end);
    }
    mem_close(t);
    end_child(pid);
}

static int setup(void **state)
{
    (void)state;
    area = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    turns = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || turns == MAP_FAILED) return -1;
    memset(area, 'a', 4096);
    memset(area + 4096, 'b', 4096);
    /* A page of a file that ends before it: nothing is there, and nothing else can be put there. */
    int empty = memfd_create("empty", MFD_CLOEXEC);
    return mmap(area + 2 * 4096, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, empty, 0) == MAP_FAILED ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_stops_at_the_first_gap),
        cmocka_unit_test(a_stop_holds_every_thread_and_lets_it_go),
        cmocka_unit_test(a_thousand_stops_harm_nothing),
        cmocka_unit_test(a_process_that_job_control_has_stopped_stays_so),
        cmocka_unit_test(killing_the_one_who_stopped_it_resumes_it),
        cmocka_unit_test(a_target_that_is_killed_while_it_stands_is_an_error),
        cmocka_unit_test(who_traces_it_already_is_told),
        cmocka_unit_test(another_process_of_the_number_is_not_taken),
        cmocka_unit_test(modules_have_bases_build_ids_and_symbols),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
