/* SPDX-License-Identifier: MIT */
/* timer.c: a binary min-heap of deadlines; timers of one deadline fire in the order in which they were set. */
#include <stdlib.h>

#include "base/mem.h"
#include "loop/loop_internal.h"

struct loop_timer {
    loop *l;
    int64_t at;
    uint64_t seq;
    size_t index;
    loop_fn fn;
    void *arg;
};

static bool before(const loop_timer *a, const loop_timer *b)
{
    return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

static void place(loop *l, size_t i, loop_timer *t)
{
    l->heap[i] = t;
    t->index = i;
}

static void sift_up(loop *l, size_t i, loop_timer *t)
{
    while (i > 0 && before(t, l->heap[(i - 1) / 2])) {
        place(l, i, l->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(l, i, t);
}

static void sift_down(loop *l, size_t i, loop_timer *t)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= l->n_timers) break;
        if (child + 1 < l->n_timers && before(l->heap[child + 1], l->heap[child])) child++;
        if (!before(l->heap[child], t)) break;
        place(l, i, l->heap[child]);
        i = child;
    }
    place(l, i, t);
}

/* Takes t out of the heap; the last one fills its place. */
static void take_out(loop *l, const loop_timer *t)
{
    size_t i = t->index;
    loop_timer *last = l->heap[--l->n_timers];
    if (last == t) return;
    if (i > 0 && before(last, l->heap[(i - 1) / 2]))
        sift_up(l, i, last);
    else
        sift_down(l, i, last);
}

static bool grow(loop *l)
{
    size_t cap = l->cap_timers ? l->cap_timers * 2 : 16;
    loop_timer **heap = mem_realloc(l->heap, cap * sizeof(loop_timer *));
    if (!heap) return false;
    l->heap = heap;
    l->cap_timers = cap;
    return true;
}

loop_timer *loop_timer_at(loop *l, int64_t deadline_ns, loop_fn fn, void *arg)
{
    if (l->n_timers == l->cap_timers && !grow(l)) return NULL;
    loop_timer *t = mem_alloc(sizeof *t);
    if (!t) return NULL;
    *t = (loop_timer){.l = l, .at = deadline_ns, .seq = l->timer_seq++, .fn = fn, .arg = arg};
    sift_up(l, l->n_timers++, t);
    return t;
}

void loop_timer_del(loop_timer *t)
{
    if (!t) return;
    take_out(t->l, t);
    free(t);
}

int loop__timer_wait_ms(const loop *l, int timeout_ms)
{
    if (l->n_timers == 0) return timeout_ms;
    int wait = deadline_poll_ms(l->heap[0]->at);
    return wait < 0 || (timeout_ms >= 0 && timeout_ms < wait) ? timeout_ms : wait;
}

void loop__run_timers(loop *l)
{
    if (l->n_timers == 0) return;
    int64_t now = mono_ns();
    uint64_t end = l->timer_seq; /* what a timer sets for at once waits for the next round: descriptors come first */
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): take_out() takes the freed ones off the heap
    while (l->n_timers > 0 && l->heap[0]->at <= now && l->heap[0]->seq < end) {
        loop_timer *t = l->heap[0];
        loop_fn fn = t->fn;
        void *arg = t->arg;
        take_out(l, t);
        free(t);
        fn(arg);
    }
}

void loop__free_timers(loop *l)
{
    for (size_t i = 0; i < l->n_timers; i++)
        free(l->heap[i]);
    free(l->heap);
    l->heap = NULL;
    l->n_timers = l->cap_timers = 0;
}
