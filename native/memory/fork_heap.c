/* SPDX-License-Identifier: MIT */
/* fork_heap.c: the heap of a live process, by a copy-on-write image of it: the process stands only while it forks.
 * Regions, roots, types and names are then read of the image, which does not change. */
#include "memory/fork.h"
#include "memory/heap_own.h"

#define TRIES    40
#define WAIT_NS  INT64_C(5000000)
#define ROOTS_NS INT64_C(60000000000) /* nobody stands meanwhile */

static void tell(const heap *h, const char *what)
{
    if (h->o.progress) h->o.progress(h->o.arg, what);
}

/* One stop. 1: a collection was at work, or nobody could be borrowed. */
static int stop_and_fork(heap *h, err *e)
{
    int before = 0;
    heap__hurry(true, &before);
    int rc = mem_stop(h->t, mono_ns() + h->o.pause_ns, e);
    if (rc == 0) {
        dac_flush(h->d);
        rc = heap__layout(h, e);
        if (rc == 0 && h->facts.gc_at_work) rc = 1;
        if (rc == 0) rc = heap__fits(h, e);
        if (rc == 0) rc = mem_fork(h->t, e);
        if (rc == -ERR_BUSY) rc = 1;
        mem_resume(h->t);
    }
    heap__hurry(false, &before);
    return rc;
}

static int fork_it(heap *h, err *e)
{
    int rc = 1;
    for (int i = 0; i < TRIES && rc == 1; i++) {
        struct timespec wait = {.tv_nsec = WAIT_NS}; /* a collection ends by itself, and nothing tells us when */
        if (i) nanosleep(&wait, NULL);
        if (e) *e = (err){0};
        rc = stop_and_fork(h, e);
    }
    if (rc != 1 || (e && e->kind != ERR_NONE)) return rc == 1 ? -ERR_BUSY : rc;
    rc = err_set(e, ERR_BUSY, "a garbage collection was at work at each of %d stops", TRIES);
    err_hint(e, "Ask again, or use freeze=\"copy\", which answers with what it finds then.");
    return rc;
}

static int read_image(heap *h, err *e)
{
    tell(h, "reading the heap of the fork");
    int rc = heap__copy(h, e);
    if (rc == 0) rc = heap__roots(h, mono_ns() + ROOTS_NS, e);
    if (rc == 0) heap__list_loaded(h);
    return rc == 0 ? mem_fork_check(h->t, e) : rc;
}

int heap__capture_fork(heap *h, err *e)
{
    tell(h, "looking at the heap");
    int rc = mem_fork_prepare(h->t, e);
    if (rc == 0) rc = heap__layout(h, e);
    if (rc == 0) rc = heap__make_room(h, e);
    if (rc == 0) tell(h, "forking the process");
    if (rc == 0) rc = fork_it(h, e);
    int64_t stop_ns = mem_stop_ns(h->t);
    if (rc == 0) rc = read_image(h, e);
    h->facts.stop_ns = stop_ns;
    h->facts.fork_ns = mem_fork_ns(h->t);
    return rc;
}
