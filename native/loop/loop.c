/* SPDX-License-Identifier: MIT */
/* loop.c: the round: sleep in epoll, descriptors, timers; posted calls arrive by an eventfd. */
#include "loop/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop_internal.h"

#define EVENTS_A_ROUND 64

/* ---- descriptors --------------------------------------------------------------------------------------------------
 */

int loop_fd_add(loop *l, int fd, uint32_t events, loop_fd_fn fn, void *arg, loop_fd **out, err *e)
{
    BUG_IF(!fn, e);
    loop_fd *f = mem_calloc(1, sizeof *f);
    if (!f) return err_set(e, ERR_NO_MEMORY, "no memory to watch a descriptor");
    *f = (loop_fd){.l = l, .fd = fd, .fn = fn, .arg = arg, .next = l->fds};
    struct epoll_event ev = {.events = events, .data.ptr = f};
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
        int sys = errno;
        free(f);
        return err_sys(e, ERR_IO, sys, "watch descriptor %d", fd);
    }
    if (l->fds) l->fds->prev = f;
    l->fds = f;
    *out = f;
    return 0;
}

int loop_fd_mod(loop_fd *f, uint32_t events, err *e)
{
    struct epoll_event ev = {.events = events, .data.ptr = f};
    if (epoll_ctl(f->l->epoll_fd, EPOLL_CTL_MOD, f->fd, &ev) < 0) {
        return err_sys(e, ERR_IO, errno, "watch descriptor %d", f->fd);
    }
    return 0;
}

void loop_fd_del(loop_fd *f)
{
    if (!f || !f->fn) return;
    loop *l = f->l;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, f->fd, NULL);
    f->fn = NULL;
    if (f->prev)
        f->prev->next = f->next;
    else
        l->fds = f->next;
    if (f->next) f->next->prev = f->prev;
    if (!l->dispatching) {
        free(f);
        return;
    }
    f->next = l->deleted; /* an event of this round may still point here */
    l->deleted = f;
}

static void free_deleted(loop *l)
{
    while (l->deleted) {
        loop_fd *next = l->deleted->next;
        free(l->deleted);
        l->deleted = next;
    }
}

/* ---- posted calls -------------------------------------------------------------------------------------------------
 */

void loop__wake(loop *l)
{
    uint64_t one = 1;
    ssize_t n = write(l->wake_fd, &one, sizeof one); /* fails only when the counter is full, and then it is awake */
    (void)n;
}

static void on_wake(void *arg, uint32_t events)
{
    (void)events;
    loop *l = arg;
    uint64_t count;
    ssize_t n = read(l->wake_fd, &count, sizeof count);
    (void)n;
    loop__run_calls(l);
}

void loop__run_calls(loop *l)
{
    loop_queue mine;
    pthread_mutex_lock(&l->lock);
    mine.head = l->calls.head; /* what these post in turn runs in the next round */
    loop__queue_init(&l->calls);
    pthread_mutex_unlock(&l->lock);
    while (mine.head) {
        loop_call *c = mine.head;
        mine.head = c->next; /* the call owns c */
        c->fn(c);
    }
}

typedef struct posted {
    loop_call call;
    loop_fn fn;
} posted;

static void run_posted(void *arg)
{
    posted *p = arg;
    loop_fn fn = p->fn;
    void *fn_arg = p->call.arg;
    free(p);
    fn(fn_arg);
}

bool loop_post(loop *l, loop_fn fn, void *arg)
{
    posted *p = mem_alloc(sizeof *p);
    if (!p) return false;
    *p = (posted){.call = {.fn = run_posted, .arg = arg}, .fn = fn};
    pthread_mutex_lock(&l->lock);
    bool accepted = !l->closed;
    if (accepted) {
        bool first = !l->calls.head;
        loop__queue_push(&l->calls, &p->call);
        if (first) loop__wake(l); /* under the lock: after it the loop may be gone */
    }
    pthread_mutex_unlock(&l->lock);
    if (!accepted) free(p);
    return accepted;
}

/* ---- the loop -----------------------------------------------------------------------------------------------------
 */

static int open_fds(loop *l, err *e)
{
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0) return err_sys(e, ERR_IO, errno, "epoll_create1");
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->wake_fd < 0) return err_sys(e, ERR_IO, errno, "eventfd");
    loop_fd *wake;
    return loop_fd_add(l, l->wake_fd, EPOLLIN, on_wake, l, &wake, e); /* lives in l->fds */
}

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void free_fds(loop *l)
{
    while (l->fds) {
        loop_fd *next = l->fds->next;
        free(l->fds);
        l->fds = next;
    }
    free_deleted(l);
    close_fd(&l->wake_fd);
    close_fd(&l->epoll_fd);
}

int loop_new(loop **out, err *e)
{
    loop *l = mem_calloc(1, sizeof *l);
    if (!l) return err_set(e, ERR_NO_MEMORY, "no memory for the event loop");
    l->epoll_fd = l->wake_fd = l->signal_fd = -1;
    sigemptyset(&l->signals);
    loop__queue_init(&l->calls);
    loop__queue_init(&l->jobs);
    int rc = open_fds(l, e);
    if (rc >= 0) rc = loop__init_workers(l, e);
    if (rc < 0) {
        free_fds(l);
        free(l);
        return rc;
    }
    *out = l;
    return 0;
}

void loop_free(loop *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->closed = true;
    pthread_mutex_unlock(&l->lock);
    loop__kill_children(l);
    loop__stop_workers(l);
    loop__free_signals(l);
    loop__free_timers(l);
    free_fds(l);
    pthread_cond_destroy(&l->work_ready);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static bool run_idle(loop *l) { return l->idle && l->idle(l->idle_arg); }

/* Sleeps for at most timeout_ms, then runs what is due. */
static int sleep_and_dispatch(loop *l, int timeout_ms, err *e)
{
    struct epoll_event events[EVENTS_A_ROUND];
    int n = epoll_wait(l->epoll_fd, events, EVENTS_A_ROUND, loop__timer_wait_ms(l, timeout_ms));
    if (n < 0) {
        if (errno != EINTR) return err_sys(e, ERR_IO, errno, "epoll_wait");
        n = 0;
    }
    l->dispatching = true;
    for (int i = 0; i < n; i++) {
        loop_fd *f = events[i].data.ptr;
        if (f->fn) f->fn(f->arg, events[i].events);
    }
    l->dispatching = false;
    free_deleted(l);
    loop__run_timers(l);
    return 0;
}

int loop_run(loop *l, err *e)
{
    int rc = 0;
    while (!l->stop && rc >= 0) {
        bool more = run_idle(l);
        if (l->stop) break;
        rc = sleep_and_dispatch(l, more ? 0 : -1, e);
    }
    l->stop = false;
    return rc;
}

int loop_run_once(loop *l, int timeout_ms, err *e)
{
    bool more = run_idle(l); /* what was made ready since the last round */
    int rc = sleep_and_dispatch(l, more ? 0 : timeout_ms, e);
    if (rc >= 0) run_idle(l);
    return rc;
}

void loop_stop(loop *l) { l->stop = true; }

void loop_on_idle(loop *l, bool (*fn)(void *arg), void *arg)
{
    l->idle = fn;
    l->idle_arg = arg;
}
