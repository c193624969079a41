/* SPDX-License-Identifier: MIT */
/* loop_internal.h: what the files of the loop share. All of it belongs to the loop's thread, but for what stands under
 * a lock. */
#ifndef LUNETTE_LOOP_INTERNAL_H
#define LUNETTE_LOOP_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"

#define LOOP_SIGNALS 65

struct loop_fd {
    loop *l;
    int fd;
    loop_fd_fn fn; /* NULL once deleted: events already fetched for it are dropped */
    void *arg;
    loop_fd *prev, *next;
};

/* A call to be made on the loop's thread; embedded in what carries it. */
typedef struct loop_call {
    struct loop_call *next;
    loop_fn fn;
    void *arg;
} loop_call;

typedef struct loop_queue {
    loop_call *head, **tail;
} loop_queue;

typedef struct loop_job {
    loop_call call; /* work while queued, then the way back to the loop */
    loop *l;
    loop_fn work, done;
    void *arg;
} loop_job;

typedef enum worker_state { WORKER_NONE, WORKER_RUNS, WORKER_ENDED } worker_state;
typedef struct loop_worker {
    loop *l;
    pthread_t thread;
    worker_state state; /* under the lock; ENDED waits to be joined */
} loop_worker;

struct loop {
    int epoll_fd, wake_fd;
    bool stop, dispatching;
    bool (*idle)(void *arg);
    void *idle_arg;
    loop_fd *fds, *deleted; /* deleted ones are freed when the round is over */

    loop_timer **heap;
    size_t n_timers, cap_timers;
    uint64_t timer_seq;

    int signal_fd;
    loop_fd *signal_watch;
    sigset_t signals;      /* those that we blocked */
    bool signal_by_kernel; /* the one being told of right now */
    void (*signal_fn[LOOP_SIGNALS])(void *arg, int signo);
    void *signal_arg[LOOP_SIGNALS];

    loop_child *children;
    unsigned pending; /* work not yet done() */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work_ready;
    bool closed, quit_workers;
    loop_queue calls, jobs;
    unsigned jobs_waiting, workers_idle;
    loop_worker workers[LOOP_WORKERS_MAX];
};

static inline void loop__queue_init(loop_queue *q)
{
    q->head = NULL;
    q->tail = &q->head;
}
static inline void loop__queue_push(loop_queue *q, loop_call *c)
{
    c->next = NULL;
    *q->tail = c;
    q->tail = &c->next;
}
static inline loop_call *loop__queue_pop(loop_queue *q)
{
    loop_call *c = q->head;
    if (!c) return NULL;
    q->head = c->next;
    if (!q->head) q->tail = &q->head;
    return c;
}

void loop__wake(loop *l);                               /* any thread */
void loop__run_calls(loop *l);                          /* runs what was posted before it began */
int loop__timer_wait_ms(const loop *l, int timeout_ms); /* the shorter of the timeout and the wait for the next timer */
void loop__run_timers(loop *l);
void loop__free_timers(loop *l);
int loop__init_workers(loop *l, err *e);
void loop__stop_workers(loop *l); /* finishes all accepted work, runs its done() and joins the threads */
void loop__free_signals(loop *l);
void loop__kill_children(loop *l); /* kills, reaps and runs done() */
/* fork.c: starts a child that posix_spawn cannot; from as spawn() has it. 0, or an errno. */
int loop__fork_child(const loop_child_cfg *cfg, const int from[3], pid_t *pid);

#endif
