/* SPDX-License-Identifier: MIT */
/* test_threads.c: CPU time of threads by name: of this process, and of folders with known figures. */
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "fixtures.h"

#define BURN_NS ((int64_t)50000000)

typedef struct worker {
    pthread_t thread;
    const char *name;
    int64_t burn_ns; /* CPU to use */
    int tid;
    int64_t used_ns;
    sem_t done, go_home;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    prctl(PR_SET_NAME, w->name);
    w->tid = (int)syscall(SYS_gettid);
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < w->burn_ns) {
    }
    w->used_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    sem_post(&w->done);
    while (sem_wait(&w->go_home) < 0) {
    }
    return NULL;
}

static void start(worker *w)
{
    sem_init(&w->done, 0, 0);
    sem_init(&w->go_home, 0, 0);
    assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
    while (sem_wait(&w->done) < 0) {
    }
}

static void stop(worker *w)
{
    sem_post(&w->go_home);
    pthread_join(w->thread, NULL);
}

static void threads_are_found_by_name_with_their_cpu_time(void **state)
{
    (void)state;
    worker busy = {.name = ".NET EventPipe", .burn_ns = BURN_NS}, idle = {.name = ".NET EventPipe"};
    worker other = {.name = "Contend", .burn_ns = BURN_NS};
    start(&busy);
    start(&idle);
    start(&other);
    kn_threads t;
    err e = {0};
    assert_int_equal(kn_threads_of("", getpid(), SLICE_LIT("nothing\0.NET Ev\0"), &t, &e), 0);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.dropped, 0);
    for (size_t i = 0; i < 2; i++) {
        const worker *w = t.rows[i].tid == busy.tid ? &busy : &idle;
        assert_int_equal(t.rows[i].tid, w->tid);
        assert_string_equal(t.rows[i].name, ".NET EventPipe");
        assert_true(t.rows[i].start_time > 0);
        /* the thread waits now: the figure is up to date, but for the way into the wait; a kernel without it counts in
         * ticks */
        int64_t slack = t.rows[i].precise ? 5000000 : 20000000;
        assert_true((int64_t)t.rows[i].cpu_ns >= w->used_ns - slack);
        assert_true((int64_t)t.rows[i].cpu_ns <= w->used_ns + slack);
    }
    assert_true(t.rows[0].tid < t.rows[1].tid);
    kn_threads_fini(&t);
    assert_int_equal(kn_threads_of("", getpid(), (slice){0}, &t, &e), 0);
    assert_int_equal(t.n, 4); /* and this one */
    kn_threads_fini(&t);
    assert_int_equal(kn_threads_of("", getpid(), SLICE_LIT("Nobody\0"), &t, &e), 0);
    assert_int_equal(t.n, 0);
    kn_threads_fini(&t);
    stop(&busy);
    stop(&idle);
    stop(&other);
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A thread's folder under ROOT/proc/7/task; schedstat NULL: the kernel keeps none. */
static void put_thread(int tid, const char *name, int ticks, const char *schedstat)
{
    char path[200], text[256];
    snprintf(path, sizeof path, "%s/threads/proc/7/task/%d", fixture_base, tid);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(text, sizeof text, "%s\n", name);
    put_file(path, "comm", text);
    snprintf(text, sizeof text, "%d (%s) S 1 7 7 0 -1 64 0 0 0 0 %d 2 0 0 20 0 9 0 4242 100 50 0\n", tid, name, ticks);
    put_file(path, "stat", text);
    if (schedstat) put_file(path, "schedstat", schedstat);
}

static void make_root(void)
{
    static const char *const dirs[] = {"threads", "threads/proc", "threads/proc/7", "threads/proc/7/task"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", fixture_base, dirs[i]);
        mkdir(path, 0700);
    }
}

static void without_schedstat_the_time_comes_in_ticks(void **state)
{
    (void)state;
    make_root();
    put_thread(20, "a", 100, "123456789 55 3\n");
    put_thread(9, "b", 100, NULL);
    put_thread(10, "c", 100, "none\n");
    put_thread(11, "d) S", 1, "");
    char root[128];
    snprintf(root, sizeof root, "%s/threads", fixture_base);
    kn_threads t;
    err e = {0};
    assert_int_equal(kn_threads_of(root, 7, (slice){0}, &t, &e), 0);
    assert_int_equal(t.n, 4);
    uint64_t tick = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    static const int tids[] = {9, 10, 11, 20};
    const uint64_t ns[] = {102 * tick, 102 * tick, 3 * tick, 123456789};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(t.rows[i].tid, tids[i]);
        assert_int_equal(t.rows[i].cpu_ns, ns[i]);
        assert_int_equal(t.rows[i].precise, tids[i] == 20);
        assert_int_equal(t.rows[i].start_time, 4242);
    }
    assert_string_equal(t.rows[2].name, "d) S");
    kn_threads_fini(&t);
    for (int tid = 100; tid < 100 + KN_THREADS_MAX; tid++)
        put_thread(tid, "many", 1, NULL);
    assert_int_equal(kn_threads_of(root, 7, (slice){0}, &t, &e), 0);
    assert_int_equal(t.n, KN_THREADS_MAX);
    assert_int_equal(t.dropped, 4);
    kn_threads_fini(&t);
}

static void a_process_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    kn_threads t;
    err e = {0};
    assert_int_equal(kn_threads_of("", INT32_MAX, (slice){0}, &t, &e), -ERR_PROCESS_NOT_FOUND);
    assert_int_equal(t.n, 0);
}

static void the_first_number_of_schedstat_is_the_time(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns; /* -1: none */
    } cases[] = {{"178935 0 1\n", 178935},      {"0 0 0", 0}, {"5", 5}, {"", -1}, {"x 1", -1}, {"-1 0", -1},
                 {"99999999999999999999 0", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t ns = 77;
        assert_int_equal(kn_parse_schedstat(slice_str(cases[i].text), &ns), cases[i].ns >= 0);
        if (cases[i].ns >= 0) assert_int_equal(ns, cases[i].ns);
    }
}

static int list_own(void *arg)
{
    (void)arg;
    kn_threads t;
    int rc = kn_threads_of("", getpid(), (slice){0}, &t, NULL);
    bool all = rc == 0 && t.n == 1;
    kn_threads_fini(&t);
    return all ? 0 : -ERR_NO_MEMORY;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(each_allocation_fails(list_own, NULL) > 1);
}

static void a_call_is_read_from_its_line(void **state)
{
    (void)state;
    kn_thread_wait w = {0};
    assert_int_equal(kn_parse_syscall(slice_str("202 0x7f10 0x189 0x0 0x0 0x0 0xffffffffffffffff 0x7ffe 0x7f\n"), &w),
                     1);
    assert_int_equal(w.syscall, 202);
    assert_int_equal(w.args[0], 0x7f10);
    assert_int_equal(w.args[1], 0x189);
    assert_true(w.args[5] == UINT64_MAX);
    assert_int_equal(kn_parse_syscall(slice_str("running\n"), &w), 0);
    assert_false(w.has_syscall);
    assert_int_equal(kn_parse_syscall(slice_str("-1 0x7ffe 0x7f\n"), &w), 0);
    assert_int_equal(kn_parse_syscall(slice_str(""), &w), 0);
    assert_int_equal(kn_parse_syscall(slice_str("0 0x1"), &w), 1); /* cut short: what is missing is 0 */
    assert_int_equal(w.args[0], 1);
    assert_int_equal(w.args[1], 0);
}

static void waits_are_of_all_threads(void **state)
{
    (void)state;
    kn_thread_waits all;
    err e = {0};
    assert_int_equal(kn_thread_waits_of("", getpid(), &all, &e), 0);
    assert_true(all.n >= 1);
    assert_int_equal(all.rows[0].tid, getpid());
    assert_int_equal(all.rows[0].state, 'R'); /* it is us who ask */
    kn_thread_waits_fini(&all);
    assert_int_equal(kn_thread_waits_of("", INT32_MAX, &all, &e), -ERR_PROCESS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_are_found_by_name_with_their_cpu_time),
        cmocka_unit_test(without_schedstat_the_time_comes_in_ticks),
        cmocka_unit_test(a_process_that_is_not_there_is_an_error),
        cmocka_unit_test(the_first_number_of_schedstat_is_the_time),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(a_call_is_read_from_its_line),
        cmocka_unit_test(waits_are_of_all_threads),
    };
    return cmocka_run_group_tests(tests, fixtures_make, fixtures_remove);
}
