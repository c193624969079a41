/* SPDX-License-Identifier: MIT */
/* test_work.c: work on worker threads. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loop_check.h"

typedef struct job {
    pthread_t loop_thread;
    int input, output;
    int *done;
    bool on_loop;
} job;

static void square(void *arg)
{
    job *j = arg;
    assert_false(pthread_equal(pthread_self(), j->loop_thread));
    j->output = j->input * j->input;
}

static void job_done(void *arg)
{
    job *j = arg;
    j->on_loop = pthread_equal(pthread_self(), j->loop_thread) != 0;
    ++*j->done;
}

static void work_runs_elsewhere_and_done_on_the_loop(void **state)
{
    loop *l = loop_in(state);
    enum { N = 500 };
    static job jobs[N];
    int done = 0;
    for (int i = 0; i < N; i++) {
        jobs[i] = (job){.loop_thread = pthread_self(), .input = i, .done = &done};
        assert_true(loop_work(l, square, job_done, &jobs[i]));
    }
    assert_int_equal(loop_work_pending(l), N);
    run_until(l, &done, N);
    assert_int_equal(loop_work_pending(l), 0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(jobs[i].output, i * i);
        assert_true(jobs[i].on_loop);
    }
}

/* A meeting that only succeeds when all take part at the same time. */
typedef struct meeting {
    pthread_barrier_t barrier;
    int done;
} meeting;

static void meet(void *arg) { pthread_barrier_wait(&((meeting *)arg)->barrier); }

static void meeting_done(void *arg) { ((meeting *)arg)->done++; }

static void as_many_run_at_once_as_there_may_be_threads(void **state)
{
    loop *l = loop_in(state);
    meeting m = {.done = 0};
    for (int round = 1; round <= 3; round++) { /* with no thread, then with idle ones */
        pthread_barrier_init(&m.barrier, NULL, LOOP_WORKERS_MAX);
        for (int i = 0; i < LOOP_WORKERS_MAX; i++)
            assert_true(loop_work(l, meet, meeting_done, &m));
        run_until(l, &m.done, round * LOOP_WORKERS_MAX);
        pthread_barrier_destroy(&m.barrier);
    }
    assert_true(entries_of("/proc/self/task") <= LOOP_WORKERS_MAX + 4u); /* main, and what a sanitizer runs */
}

typedef struct patient {
    atomic_bool cancel;
    sem_t begun;
    int done, started;
} patient;

static void wait_for_cancel(void *arg)
{
    patient *p = arg;
    sem_post(&p->begun);
    while (!atomic_load(&p->cancel))
        sched_yield();
}

static void patient_done(void *arg) { ((patient *)arg)->done++; }

static void work_ends_by_its_cancel_flag(void **state)
{
    loop *l = loop_in(state);
    patient p = {.done = 0};
    sem_init(&p.begun, 0, 0);
    assert_true(loop_work(l, wait_for_cancel, patient_done, &p));
    sem_wait(&p.begun);
    err e = {0};
    assert_int_equal(loop_run_once(l, 0, &e), 0);
    assert_int_equal(p.done, 0);
    assert_int_equal(loop_work_pending(l), 1);
    atomic_store(&p.cancel, true);
    run_until(l, &p.done, 1);
    sem_destroy(&p.begun);
}

static void *cancel_soon(void *arg)
{
    patient *p = arg;
    sem_wait(&p->begun);
    usleep(20000); /* so that loop_free is waiting by now: the case under test, though any order must pass */
    atomic_store(&p->cancel, true);
    return NULL;
}

static void loop_free_waits_for_work_and_calls_done(void **state)
{
    loop_fixture *f = *state;
    patient p = {.done = 0};
    sem_init(&p.begun, 0, 0);
    pthread_t t;
    assert_true(loop_work(f->l, wait_for_cancel, patient_done, &p));
    assert_int_equal(pthread_create(&t, NULL, cancel_soon, &p), 0);
    loop_free(f->l);
    f->l = NULL;
    assert_true(atomic_load(&p.cancel));
    assert_int_equal(p.done, 1);
    pthread_join(t, NULL);
    sem_destroy(&p.begun);
}

static void loop_free_finishes_work_that_still_waits(void **state)
{
    loop_fixture *f = *state;
    int done = 0;
    enum { N = 200 };
    static job jobs[N];
    for (int i = 0; i < N; i++) {
        jobs[i] = (job){.loop_thread = pthread_self(), .input = i, .done = &done};
        assert_true(loop_work(f->l, square, job_done, &jobs[i]));
    }
    loop_free(f->l);
    f->l = NULL;
    assert_int_equal(done, N);
    assert_int_equal(jobs[N - 1].output, (N - 1) * (N - 1));
}

static void nothing(void *arg) { (void)arg; }

static void idle_workers_end(void **state)
{
    loop *l = loop_in(state);
    loop_fixture *f = *state;
    int done = 0;
    job j = {.loop_thread = pthread_self(), .done = &done};
    assert_true(loop_work(l, square, job_done, &j));
    run_until(l, &done, 1);
    assert_int_equal(entries_of("/proc/self/task"), f->threads + 1);
    err e = {0};
    int64_t give_up = deadline_in_ms(LOOP_WORKER_IDLE_MS + WAIT_MAX_MS);
    while (entries_of("/proc/self/task") > f->threads && mono_ns() < give_up) /* its end wakes the loop */
        assert_int_equal(loop_run_once(l, 1000, &e), 0);
    assert_int_equal(threads_settled_at(f->threads), f->threads);
    assert_true(loop_work(l, nothing, NULL, NULL)); /* and a new one can be had; done may be NULL */
    while (loop_work_pending(l) && mono_ns() < give_up)
        assert_int_equal(loop_run_once(l, 1000, &e), 0);
    assert_int_equal(loop_work_pending(l), 0);
}

static void use_stack(void *arg)
{
    volatile char big[700 * 1024];
    for (size_t i = 0; i < sizeof big; i += 1024)
        big[i] = 1;
    *(int *)arg = big[sizeof big - 1024];
}

static void a_worker_has_a_roomy_stack(void **state)
{
    loop *l = loop_in(state);
    int touched = 0;
    assert_true(loop_work(l, use_stack, NULL, &touched));
    err e = {0};
    while (loop_work_pending(l))
        assert_int_equal(loop_run_once(l, 1000, &e), 0);
    assert_int_equal(touched, 1);
}

static void without_memory_work_is_refused(void **state)
{
    loop *l = loop_in(state);
    mem_fail_at(0);
    assert_false(loop_work(l, nothing, NULL, NULL));
    mem_fail_at(-1);
    assert_int_equal(loop_work_pending(l), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        loop_test(work_runs_elsewhere_and_done_on_the_loop),
        loop_test(as_many_run_at_once_as_there_may_be_threads),
        loop_test(work_ends_by_its_cancel_flag),
        loop_test(loop_free_waits_for_work_and_calls_done),
        loop_test(loop_free_finishes_work_that_still_waits),
        loop_test(idle_workers_end),
        loop_test(a_worker_has_a_roomy_stack),
        loop_test(without_memory_work_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
