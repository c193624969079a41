/* SPDX-License-Identifier: MIT */
/* work.c: worker threads, started when work waits and nobody is idle, ended by idleness. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop_internal.h"

/* Decoders run here; their buffers are on the heap, but a format's nesting may be on the stack. */
#ifdef __SANITIZE_THREAD__
#define STACK_BYTES ((size_t)3 << 20) /* its book-keeping lies on the stack too */
#else
#define STACK_BYTES ((size_t)1 << 20)
#endif

int loop__init_workers(loop *l, err *e)
{
    pthread_condattr_t attr;
    int sys = pthread_mutex_init(&l->lock, NULL);
    if (sys) return err_sys(e, ERR_IO, sys, "pthread_mutex_init");
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    sys = pthread_cond_init(&l->work_ready, &attr);
    pthread_condattr_destroy(&attr);
    if (sys) {
        pthread_mutex_destroy(&l->lock);
        return err_sys(e, ERR_IO, sys, "pthread_cond_init");
    }
    return 0;
}

/* ---- on the worker's thread ---------------------------------------------------------------------------------------
 */

/* Under the lock: the next job, or NULL when it is time to end. */
static loop_job *wait_for_job(loop *l)
{
    int64_t until = deadline_in_ms(LOOP_WORKER_IDLE_MS);
    struct timespec ts = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    int rc = 0;
    l->workers_idle++;
    while (!l->jobs.head && !l->quit_workers && rc == 0)
        rc = pthread_cond_timedwait(&l->work_ready, &l->lock, &ts);
    l->workers_idle--;
    if (!l->jobs.head) return NULL;
    l->jobs_waiting--;
    return (loop_job *)loop__queue_pop(&l->jobs);
}

static void reap_ended(loop *l)
{
    for (int i = 0; i < LOOP_WORKERS_MAX; i++) {
        loop_worker *w = &l->workers[i];
        pthread_mutex_lock(&l->lock);
        bool ended = w->state == WORKER_ENDED;
        pthread_mutex_unlock(&l->lock);
        if (!ended) continue;
        pthread_join(w->thread, NULL); /* it holds nothing any more and is about to be gone */
        pthread_mutex_lock(&l->lock);
        w->state = WORKER_NONE;
        pthread_mutex_unlock(&l->lock);
    }
}

static void reap_posted(void *arg) { reap_ended(arg); }

static void job_finished(void *call)
{
    loop_job *j = call;
    loop_fn done = j->done;
    void *arg = j->arg;
    j->l->pending--;
    free(j);
    if (done) done(arg);
}

static void *worker_main(void *arg)
{
    loop_worker *w = arg;
    loop *l = w->l;
    pthread_mutex_lock(&l->lock);
    loop_job *j;
    while ((j = wait_for_job(l))) {
        pthread_mutex_unlock(&l->lock);
        j->work(j->arg);
        pthread_mutex_lock(&l->lock);
        loop__queue_push(&l->calls, &j->call); /* goes back also while the loop is being freed */
        loop__wake(l);
    }
    w->state = WORKER_ENDED;
    pthread_mutex_unlock(&l->lock);
    (void)loop_post(l, reap_posted, l); /* refused while the loop is being freed, which joins by itself */
    return NULL;
}

/* ---- on the loop's thread -----------------------------------------------------------------------------------------
 */

/* The thread takes no signals: they belong to the loop. */
static int start_thread(loop_worker *w)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int sys = pthread_create(&w->thread, &attr, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return sys;
}

/* Under the lock: starts one more thread when there is a place for it; how many threads there are then. */
static int one_more_worker(loop *l)
{
    int running = 0;
    loop_worker *place = NULL;
    for (int i = 0; i < LOOP_WORKERS_MAX; i++) {
        running += l->workers[i].state == WORKER_RUNS;
        if (l->workers[i].state == WORKER_NONE) place = &l->workers[i];
    }
    if (!place) return running;
    place->l = l;
    place->state = WORKER_RUNS;
    if (start_thread(place) == 0) return running + 1;
    place->state = WORKER_NONE;
    return running;
}

bool loop_work(loop *l, loop_fn work, loop_fn done, void *arg)
{
    loop_job *j = mem_alloc(sizeof *j);
    if (!j) return false;
    *j = (loop_job){.call = {.fn = job_finished}, .l = l, .work = work, .done = done, .arg = arg};
    reap_ended(l);
    pthread_mutex_lock(&l->lock);
    bool accepted = !l->closed;
    if (accepted && l->jobs_waiting >= l->workers_idle) accepted = one_more_worker(l) > 0;
    if (accepted) {
        loop__queue_push(&l->jobs, &j->call);
        l->jobs_waiting++;
        l->pending++;
        pthread_cond_signal(&l->work_ready);
    }
    pthread_mutex_unlock(&l->lock);
    if (!accepted) free(j);
    return accepted;
}

void loop_do(loop *l, loop_fn fn, void *arg)
{
    if (!loop_work(l, fn, NULL, arg)) fn(arg);
}

unsigned loop_work_pending(const loop *l) { return l->pending; }

void loop__stop_workers(loop *l)
{
    loop__run_calls(l);
    while (l->pending > 0) {
        struct pollfd pf = {.fd = l->wake_fd, .events = POLLIN};
        poll(&pf, 1, -1);
        uint64_t count;
        ssize_t n = read(l->wake_fd, &count, sizeof count);
        (void)n;
        loop__run_calls(l);
    }
    pthread_mutex_lock(&l->lock);
    l->quit_workers = true;
    pthread_cond_broadcast(&l->work_ready);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < LOOP_WORKERS_MAX; i++) {
        pthread_mutex_lock(&l->lock);
        bool there = l->workers[i].state != WORKER_NONE;
        pthread_mutex_unlock(&l->lock);
        if (there) pthread_join(l->workers[i].thread, NULL);
    }
    loop__run_calls(l);
}
