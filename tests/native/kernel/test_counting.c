/* SPDX-License-Identifier: MIT */
/* test_counting.c: what is counted of a process: scaling of shared counters, /proc's own numbers, and our own faults,
 * switches and CPU time against what we did. */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "kernel/counting.h"

static void a_shared_counter_is_extrapolated(void **state)
{
    (void)state;
    double share;
    assert_true(kn_count_scaled((uint64_t[]){100, 1000, 1000}, (uint64_t[]){300, 2000, 1500}, &share) == 400);
    assert_true(share == 0.5);
    assert_true(kn_count_scaled((uint64_t[]){0, 0, 0}, (uint64_t[]){7, 50, 50}, &share) == 7 && share == 1);
    assert_true(kn_count_scaled((uint64_t[]){9, 10, 10}, (uint64_t[]){9, 500, 10}, &share) == 0 && share == 0);
}

static void a_number_of_proc_is_found_by_its_whole_key(void **state)
{
    (void)state;
    slice text = SLICE_LIT("dotnet (7, #threads: 1)\nse.nr_migrations_cold : 1\nse.nr_migrations      :       42\n"
                           "voluntary_ctxt_switches:\t12\n");
    uint64_t n = 0;
    assert_true(kn_parse_sched(text, "se.nr_migrations", &n));
    assert_int_equal(n, 42);
    assert_true(kn_parse_sched(text, "voluntary_ctxt_switches", &n));
    assert_int_equal(n, 12);
    assert_false(kn_parse_sched(text, "nr_wakeups", &n));
    assert_false(kn_parse_sched(SLICE_LIT("se.nr_migrations : x\n"), "se.nr_migrations", &n));
}

enum { PAGES = 500, NAPS = 40 };

static void touch_pages(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *p = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    madvise((void *)p, PAGES * page, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < PAGES; i++)
        p[i * page] = 1;
    munmap((void *)p, PAGES * page);
}

/* A thread that begins inside the window: it is counted by inheritance. */
static void *work(void *arg)
{
    touch_pages();
    for (int i = 0; i < NAPS; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < 30000000) {
    }
    return arg;
}

static void our_own_work_is_counted(void **state)
{
    (void)state;
    kn_counting *c = NULL;
    kn_counts n;
    err e = {0};
    assert_int_equal(kn_counting_open(getpid(), &c, &e), 0);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, work, NULL), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(kn_counting_read(c, &n, &e), 0);
    assert_int_equal(n.threads, 1);
    assert_int_equal(n.uncounted, 0);
    assert_true(n.elapsed_ns > 70000000);
    const kn_count *faults = &n.by[KN_METRIC_MINOR_FAULTS], *clock = &n.by[KN_METRIC_TASK_CLOCK];
    assert_true(faults->source != KN_COUNT_NONE && faults->value >= PAGES &&
                faults->value < 20 * PAGES); /* a sanitizer has its own */
    assert_true(clock->source != KN_COUNT_NONE && clock->value >= 20e6);
    const kn_count *switches = &n.by[KN_METRIC_CONTEXT_SWITCHES];
    if (switches->source == KN_COUNT_PERF) assert_true(switches->value >= NAPS);
    for (int m = KN_METRIC_CYCLES; m < KN_METRIC_COUNT; m++) { /* a PMU or none: known, or an errno and no value */
        const kn_count *x = &n.by[m];
        assert_true(x->source == KN_COUNT_PERF ? x->sys == 0 : x->sys != 0 && x->value == 0);
    }
    kn_counting_close(c);
}

enum { TIMES = 20 };

static void what_a_process_starts_is_another_process(void **state)
{
    (void)state;
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
                                .size = sizeof a,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .inherit = 1,
                                .inherit_thread = 1,
                                .exclude_kernel = 1};
    long fd = syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) skip(); /* refused, or Linux before 5.13 */
    close((int)fd);
    kn_counting *c = NULL;
    kn_counts n;
    err e = {0};
    int status = 1;
    assert_int_equal(kn_counting_open(getpid(), &c, &e), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < TIMES; i++)
            touch_pages();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(kn_counting_read(c, &n, &e), 0);
    const kn_count *faults = &n.by[KN_METRIC_MINOR_FAULTS];
    if (faults->source == KN_COUNT_PERF) assert_true(faults->value < 0.5 * TIMES * PAGES);
    kn_counting_close(c);
}

static void a_process_that_is_not_there_is_not_counted(void **state)
{
    (void)state;
    kn_counting *c = NULL;
    err e = {0};
    assert_int_equal(kn_counting_open(0x3fffffff, &c, &e), -ERR_PROCESS_NOT_FOUND);
    assert_null(c);
    kn_counting_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_counter_is_extrapolated),
        cmocka_unit_test(a_number_of_proc_is_found_by_its_whole_key),
        cmocka_unit_test(our_own_work_is_counted),
        cmocka_unit_test(what_a_process_starts_is_another_process),
        cmocka_unit_test(a_process_that_is_not_there_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
