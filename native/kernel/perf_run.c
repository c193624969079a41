/* SPDX-License-Identifier: MIT */
/* perf_run.c: reads the rings while events are taken. Records are handed out in the order of time: what is younger than
 * a moment ago waits, in its ring, for what other CPUs have still to write. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernel/kernel.h"
#include "kernel/perf_set.h"

#define SLACK_NS INT64_C(2000000) /* a record is written at once, but a virtual CPU can be taken away meanwhile */
#define PASS_MS  25               /* the longest time between two looks */
enum { EVENTS_MAX = 16 };

typedef struct reader {
    perf_set *p;
    perf_record_fn fn;
    void *arg;
    int epoll, watch;
    int64_t until;
    bool ended; /* the target, or we were stopped */
} reader;

static void hand_out(reader *r, slice record)
{
    perf_set *p = r->p;
    perf_record x;
    p->stats.records++;
    if (!perf_decode(record, perf__layout_of, p, &x)) {
        p->stats.damaged++;
        return;
    }
    if (x.kind == PERF_LOST) p->stats.lost += x.lost;
    if (x.kind == PERF_THROTTLE) p->stats.throttled++;
    if (x.kind == PERF_SAMPLE || x.kind == PERF_SWITCH) {
        if (x.time < p->stats.begin_ns || x.time > p->stats.end_ns) return;
        p->stats.samples += x.kind == PERF_SAMPLE;
    }
    if (x.time < p->last_time)
        p->stats.late++;
    else
        p->last_time = x.time;
    r->fn(r->arg, &x);
}

/* The ring with the oldest record, and the time of the next oldest. NULL: nothing is there. */
static perf__ring *oldest(perf_set *p, int64_t *other)
{
    perf__ring *best = NULL;
    *other = INT64_MAX;
    for (uint32_t i = 0; i < p->n_rings; i++) {
        perf__ring *x = &p->rings[i];
        if (!perf__ring_peek(x, &p->stats.damaged)) continue;
        if (!best || x->next_time < best->next_time) {
            if (best) *other = best->next_time;
            best = x;
        } else if (x->next_time < *other) {
            *other = x->next_time;
        }
    }
    return best;
}

/* Everything that is not younger than limit. */
static void pass(reader *r, int64_t limit)
{
    perf_set *p = r->p;
    int64_t other;
    for (uint32_t i = 0; i < p->n_rings; i++)
        perf__ring_look(&p->rings[i]);
    for (perf__ring *x; (x = oldest(p, &other)) && x->next_time <= limit;) {
        uint64_t freed = x->at;
        do {
            hand_out(r, x->next);
            perf__ring_pass(x);
            if (x->at - freed > x->bytes / 8) { /* the kernel need not wait for the end of a long pass */
                perf__ring_free(x);
                freed = x->at;
            }
        } while (perf__ring_peek(x, &p->stats.damaged) && x->next_time <= limit && x->next_time <= other);
        perf__ring_free(x);
    }
}

static int watch(reader *r, int fd, err *e)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
    if (fd < 0 || epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &ev) == 0) return 0;
    return err_sys(e, ERR_IO, errno, "cannot wait for events of the kernel");
}

static int watch_all(reader *r, err *e)
{
    err ignored = {0};
    perf_set *p = r->p;
    r->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (r->epoll < 0) return err_sys(e, ERR_IO, errno, "no descriptor to wait with");
    if (p->pid) r->watch = kn_watch_open(p->pid, &ignored);
    if (r->watch == -ERR_PROCESS_NOT_FOUND) r->ended = p->stats.target_ended = true;
    int rc = watch(r, p->stop_fd, e);
    if (rc == 0) rc = watch(r, r->watch, e);
    for (uint32_t i = 0; rc == 0 && i < p->n_rings; i++)
        if (p->rings[i].base) rc = watch(r, p->rings[i].fd, e);
    return rc;
}

static int wait_once(reader *r, err *e)
{
    perf_set *p = r->p;
    struct epoll_event evs[EVENTS_MAX];
    int ms = deadline_poll_ms(r->until);
    int n = epoll_wait(r->epoll, evs, EVENTS_MAX, ms < 0 || ms > PASS_MS ? PASS_MS : ms);
    if (n < 0 && errno != EINTR) return err_sys(e, ERR_IO, errno, "waiting for events of the kernel failed");
    for (int i = 0; i < n; i++) {
        int fd = evs[i].data.fd;
        if (fd == p->stop_fd)
            r->ended = p->stats.stopped = true;
        else if (fd == r->watch)
            r->ended = p->stats.target_ended = true;
        else if (evs[i].events & (EPOLLHUP | EPOLLERR)) /* its thread ended; the ring is looked at by the clock */
            (void)epoll_ctl(r->epoll, EPOLL_CTL_DEL, fd, NULL);
    }
    return 0;
}

int64_t perf_begin(perf_set *p)
{
    if (!p->stats.begin_ns) p->stats.begin_ns = mono_ns();
    return p->stats.begin_ns;
}

int perf_run(perf_set *p, int64_t until_ns, perf_record_fn fn, void *arg, err *e)
{
    reader r = {.p = p, .fn = fn, .arg = arg, .epoll = -1, .watch = -1, .until = until_ns};
    if (p->ran) return err_set(e, ERR_CONFLICT, "these events have been read already");
    p->ran = true;
    (void)perf_begin(p);
    p->stats.end_ns = INT64_MAX;
    int rc = watch_all(&r, e);
    while (rc == 0 && !r.ended && mono_ns() < until_ns) {
        rc = wait_once(&r, e);
        pass(&r, mono_ns() - SLACK_NS);
    }
    p->stats.end_ns = mono_ns();
    for (uint32_t i = 0; i < p->n_events; i++)
        (void)ioctl(p->events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
    pass(&r, INT64_MAX);
    if (r.epoll >= 0) close(r.epoll);
    if (r.watch >= 0) close(r.watch);
    return rc;
}
