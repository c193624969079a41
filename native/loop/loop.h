/* SPDX-License-Identifier: MIT */
/* loop.h: one epoll loop on the main thread: descriptors, timers, posted calls, futures, worker threads, child
 * processes. Everything here runs on and is called from the loop's thread, but for what says otherwise. A handle's
 * memory is the caller's again only after its close callback (or, where none is given, after the stop function
 * returns). */
#ifndef LUNETTE_LOOP_LOOP_H
#define LUNETTE_LOOP_LOOP_H

#include <signal.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"

typedef struct loop loop;
int loop_new(loop **out, err *e);
/* Refuses new posts and work, kills the children, finishes all work and posted calls it had accepted (their done
 * callbacks run inside), ends the threads. Timers and watches go without a call. */
void loop_free(loop *l);
int loop_run(loop *l, err *e);                      /* until loop_stop; 0, or a failure of epoll itself */
int loop_run_once(loop *l, int timeout_ms, err *e); /* one round */
void loop_stop(loop *l);
/* Called before every sleep (and by loop_run_once also after it): where the host resumes ready coroutines. Returns true
 * when there is more to do at once. */
void loop_on_idle(loop *l, bool (*fn)(void *arg), void *arg);

/* ---- descriptors: events are EPOLLIN, EPOLLOUT, EPOLLRDHUP …; level-triggered unless EPOLLET is given ------------ */
typedef struct loop_fd loop_fd;
typedef void (*loop_fd_fn)(void *arg, uint32_t events);
/* fd stays the caller's, and is closed after loop_fd_del only: a closed number may be another file's the next moment.
 */
int loop_fd_add(loop *l, int fd, uint32_t events, loop_fd_fn fn, void *arg, loop_fd **out, err *e);
int loop_fd_mod(loop_fd *f, uint32_t events, err *e);
void loop_fd_del(loop_fd *f); /* NULL is fine; may be called from inside its own callback */

/* ---- timers ------------------------------------------------------------------------------------------------------ */
typedef struct loop_timer loop_timer;
typedef void (*loop_fn)(void *arg);
/* Once, not before deadline_ns and up to a millisecond later; NULL: no memory. The handle is gone when fn is called. */
loop_timer *loop_timer_at(loop *l, int64_t deadline_ns, loop_fn fn, void *arg);
void loop_timer_del(loop_timer *t); /* before it fired only; NULL is fine */

/* ---- posting from any thread ------------------------------------------------------------------------------------- */
/* Any thread: fn(arg) runs on the loop's thread soon, in order of posting. False without memory or after loop_free
 * began (arg is then still yours). */
bool loop_post(loop *l, loop_fn fn, void *arg);

/* ---- worker threads ---------------------------------------------------------------------------------------------- */
/* work(arg) runs on a worker thread; then done(arg), if there is one, on the loop's thread. Threads are started on
 * demand (at most LOOP_WORKERS_MAX) and end after LOOP_WORKER_IDLE_MS without work. work must end by itself: give it a
 * deadline, or a cancel flag that it looks at. False: no memory or thread to be had, or loop_free began. */
#define LOOP_WORKERS_MAX    16
#define LOOP_WORKER_IDLE_MS 5000
bool loop_work(loop *l, loop_fn work, loop_fn done, void *arg);
/* fn(arg) on a worker thread, or at once where none is to be had: for letting go of what takes a while. */
void loop_do(loop *l, loop_fn fn, void *arg);
unsigned loop_work_pending(const loop *l);

/* ---- signals and child processes --------------------------------------------------------------------------------- */
/* By signalfd; blocks signo in this thread and those it starts, so call it before others exist. A second call for the
 * same signal replaces the first. loop_free discards what is pending and unblocks. */
int loop_signal(loop *l, int signo, void (*fn)(void *arg, int signo), void *arg, err *e);
/* Inside such a call: the kernel sent the signal (a key of the terminal, whose whole foreground group got it too), not
 * some process. */
bool loop_signal_by_kernel(const loop *l);
typedef struct loop_child loop_child;
typedef struct loop_child_cfg {
    const char *const *argv;            /* argv[0] is a path; NULL-terminated */
    const char *const *envp;            /* NULL: inherit */
    int stdin_fd, stdout_fd, stderr_fd; /* -1: /dev/null for in and out, inherited for err */
    int64_t deadline_ns;                /* then SIGKILL; DEADLINE_NEVER */
    /* A program that is somebody else's, and ours to end. These three cost a fork, which takes longer the more memory
     * we have. */
    const char *cwd;   /* where it starts; NULL: here. A relative argv[0] is looked for there */
    bool own_group;    /* it leads a process group: loop_child_kill reaches the group, and at its end, however it came,
                          what is left of the group is killed */
    bool dies_with_us; /* SIGKILL when the thread that started it ends, even if that was killed itself */
} loop_child_cfg;
typedef void (*loop_child_fn)(void *arg, int exit_code, int term_signal); /* exit_code is -1 when a signal ended it */
/* By pidfd: no SIGCHLD handler, no foreign child is reaped. The child gets descriptors 0 to 2 only, and no blocked or
 * ignored signals. done runs once; after it the handle is gone. out may be NULL. */
int loop_child_start(loop *l, const loop_child_cfg *cfg, loop_child_fn done, void *arg, loop_child **out, err *e);
void loop_child_kill(loop_child *c, int signo);
pid_t loop_child_pid(const loop_child *c);

/* ---- futures: a value that will be there; one waiter ------------------------------------------------------------- */
/* A future is made by native code and waited for by the host (or any C callback). It ends exactly once: resolved,
 * failed, or cancelled by its waiter. The payload is opaque here; free_fn (may be NULL) releases it if nobody took it.
 * Loop thread only. */
typedef struct future future;
typedef void (*future_fn)(void *arg, future *f);
/* Refcount 1; cancel may be NULL: the work just goes on unseen. NULL: no memory. */
future *future_new(loop *l, void (*cancel)(void *owner), void *owner);
future *future_ref(future *f);
void future_unref(future *f); /* NULL is fine */
/* A second ending is ignored and its payload freed. */
void future_resolve(future *f, void *payload, void (*free_fn)(void *));
void future_fail(future *f, const err *e);
bool future_done(const future *f);
bool future_cancelled(const future *f);
const err *future_err(const future *f); /* NULL unless failed or cancelled (then ERR_CANCELLED) */
void *future_take(future *f);           /* the payload, now yours; NULL if none */
/* The one waiter, called at whatever ending, its own cancel included; at once if it is done already; NULL removes it.
 */
void future_on_done(future *f, future_fn fn, void *arg);
/* Ends it as cancelled and calls its cancel hook, once, before the waiter. No-op on one that is done. */
void future_cancel(future *f);

#endif
