/* SPDX-License-Identifier: MIT */
/* loop_check.h: a loop for each test, run until a condition holds, and the check that a test leaves no descriptor and
 * no thread behind. */
#ifndef LUNETTE_TESTS_LOOP_CHECK_H
#define LUNETTE_TESTS_LOOP_CHECK_H

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "loop/loop.h"

#define WAIT_MAX_MS 20000

static inline unsigned entries_of(const char *dir)
{
    unsigned n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *de; (de = readdir(d));)
        n += de->d_name[0] != '.';
    closedir(d);
    return n;
}

static inline void *no_work(void *arg) { return arg; }

/* A joined thread is gone for us a moment before it is gone from /proc. */
static inline unsigned threads_settled_at(unsigned want)
{
    int64_t give_up = deadline_in_ms(WAIT_MAX_MS);
    while (entries_of("/proc/self/task") > want && mono_ns() < give_up)
        sched_yield();
    return entries_of("/proc/self/task");
}

/* Threads of this program; a sanitizer starts one of its own with our first, so that one comes before the count. */
static inline unsigned count_threads(void)
{
    static unsigned first;
    if (first) return threads_settled_at(first);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, no_work, NULL), 0);
    pthread_join(t, NULL);
#ifdef __SANITIZE_THREAD__
    first = threads_settled_at(2);
#else
    first = threads_settled_at(1);
#endif
    return first;
}

typedef struct loop_fixture {
    loop *l;
    unsigned fds, threads;
} loop_fixture;

static inline int loop_setup(void **state)
{
    static loop_fixture f;
    f.fds = entries_of("/proc/self/fd");
    f.threads = count_threads();
    err e = {0};
    assert_int_equal(loop_new(&f.l, &e), 0);
    *state = &f;
    return 0;
}

/* A test that freed the loop itself sets l to NULL. */
static inline int loop_teardown(void **state)
{
    loop_fixture *f = *state;
    loop_free(f->l);
    f->l = NULL;
    assert_int_equal(entries_of("/proc/self/fd"), f->fds);
    assert_int_equal(threads_settled_at(f->threads), f->threads);
    return 0;
}

static inline loop *loop_in(void **state) { return ((loop_fixture *)*state)->l; }

/* Runs rounds until *what reaches want; fails when that takes too long. */
static inline void run_until(loop *l, const int *what, int want)
{
    err e = {0};
    int64_t give_up = deadline_in_ms(WAIT_MAX_MS);
    while (*what < want && mono_ns() < give_up)
        assert_int_equal(loop_run_once(l, 1000, &e), 0);
    assert_int_equal(*what, want);
}

static inline void count_up(void *arg) { ++*(int *)arg; }

#define loop_test(fn) cmocka_unit_test_setup_teardown(fn, loop_setup, loop_teardown)

#endif
