/* SPDX-License-Identifier: MIT */
/* heap_count.c: what there is of each type, and nothing of each object: a live target is read where it lies while it
 * stands, a core piece by piece. */
#include <sys/uio.h>

#include "memory/heap_own.h"

#define TASTE_BYTES     ((size_t)8 << 20) /* that are read to see how fast it goes */
#define TASTE_PIECE     ((size_t)128 << 10)
#define SLOWEST_BYTES_S UINT64_C(400000000)
#define BATCH_BYTES     (UINT64_C(256) << 20) /* that are counted between two looks at the clock */

static uint64_t bytes_of(const heap *h)
{
    uint64_t n = 0;
    for (size_t i = 0; i < h->n_regions; i++)
        n += h->regions[i].end - h->regions[i].start;
    return n;
}

/* Bytes a second that one thread reads of that process, by a part of its largest region. */
static uint64_t rate_of(const heap *h)
{
    const heap_region *largest = NULL;
    for (size_t i = 0; i < h->n_regions; i++)
        if (!largest || h->regions[i].end - h->regions[i].start > largest->end - largest->start)
            largest = &h->regions[i];
    uint8_t *to = largest ? mem_alloc(TASTE_PIECE) : NULL;
    if (!to) return SLOWEST_BYTES_S;
    uint64_t n = largest->end - largest->start, done = 0;
    int64_t t0 = mono_ns();
    while (done + TASTE_PIECE <= n && done < TASTE_BYTES) {
        struct iovec into = {to, TASTE_PIECE}, from = {(void *)(uintptr_t)(largest->start + done), TASTE_PIECE};
        if (process_vm_readv(mem_pid(h->t), &into, 1, &from, 1, 0) != (ssize_t)TASTE_PIECE) break;
        done += TASTE_PIECE;
    }
    int64_t took = mono_ns() - t0;
    free(to);
    uint64_t rate = done && took > 0 ? (uint64_t)((double)done * 1e9 / (double)took) : 0;
    return rate < SLOWEST_BYTES_S ? SLOWEST_BYTES_S : rate;
}

/* Reading and looking take about as long as each other. */
static int estimate(heap *h, int64_t *expected, err *e)
{
    int rc = heap__layout(h, e);
    if (rc < 0) return rc;
    unsigned at_once = h->o.threads ? h->o.threads : 1;
    *expected = (int64_t)(2.0 * (double)bytes_of(h) * 1e9 / (double)rate_of(h) / (double)at_once) +
                (int64_t)h->facts.threads * HEAP_THREAD_STOP_NS + 5000000;
    if (*expected <= h->o.pause_ns) return 0;
    rc = err_set(e, ERR_LIMIT,
                 "the process would stand for about %lld ms while %llu MB are counted, and may stand for %lld ms",
                 (long long)(*expected / 1000000), (unsigned long long)(bytes_of(h) >> 20),
                 (long long)(h->o.pause_ns / 1000000));
    err_hint(e, "Write a dump (collect_process_dump) at a quiet time and open it with source=\"dump\".");
    return rc;
}

/* One stop, which lasts when nothing is wrong. 1: a collection was at work. */
static int stop_once(heap *h, bool last, err *e)
{
    int rc = mem_stop(h->t, mono_ns() + h->o.pause_ns, e);
    if (rc < 0) return rc;
    dac_flush(h->d);
    rc = heap__layout(h, e);
    if (rc == 0 && h->facts.gc_at_work && !last) rc = 1;
    if (rc) mem_resume(h->t);
    return rc;
}

int heap__open_to_count(heap *h, err *e)
{
    int64_t expected = 0;
    int rc = estimate(h, &expected, e);
    if (rc < 0) return rc;
    heap__hurry(true, &h->nice);
    for (int i = 0; i < HEAP_GC_TRIES; i++) {
        rc = stop_once(h, i + 1 == HEAP_GC_TRIES, e);
        if (rc <= 0) break;
        struct timespec wait = {.tv_nsec = HEAP_GC_WAIT_NS};
        nanosleep(&wait, NULL); /* a collection ends by itself, and nothing tells us when */
    }
    for (size_t i = 0; i < h->n_regions; i++)
        h->regions[i].held = h->regions[i].end - h->regions[i].start;
    h->facts.estimate_ns = expected;
    if (rc == 0) heap__say_gc(h);
    return rc;
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

static int too_long(const heap *h, err *e)
{
    int rc = err_set(e, ERR_TIMEOUT, "the process stood for %lld ms while its heap was counted, and was let go",
                     (long long)(h->o.pause_ns / 1000000));
    err_hint(e, "Write a dump (collect_process_dump) at a quiet time and open it with source=\"dump\".");
    return rc;
}

static int count(heap *h, err *e)
{
    int64_t deadline = h->o.in_place ? mono_ns() + h->o.pause_ns : DEADLINE_NEVER;
    int rc = 0;
    for (size_t from = 0, to = 0; rc == 0 && from < h->n_regions; from = to) {
        if (mono_ns() > deadline) return too_long(h, e);
        for (uint64_t bytes = 0; to < h->n_regions && bytes < BATCH_BYTES; to++)
            bytes += h->regions[to].end - h->regions[to].start;
        rc = heap_walk_stats(h->types, h->regions + from, to - from, h->contexts, h->n_contexts, h->o.threads, e);
    }
    return rc;
}

static void add_types(heap *h, graph_builder *b)
{
    for (size_t i = 0; i < heap_types_count(h->types); i++) {
        heap_type *t = heap_type_at(h->types, i);
        heap_sum sum = heap_type_sum(t);
        if (t->flags & HEAP_TYPE_FREE || !sum.count) continue;
        t->graph_type = graph_builder_type(b, t->mt);
        if (t->graph_type != GRAPH_NONE) graph_builder_totals(b, t->graph_type, sum.count, sum.bytes);
    }
}

int heap_totals_of(heap *h, graph **out, err *e)
{
    graph_builder *b = graph_builder_new(NULL, e);
    if (!b) return -ERR_NO_MEMORY;
    int rc = count(h, e);
    if (h->o.in_place) {
        mem_resume(h->t);
        heap__hurry(false, &h->nice);
        h->facts.stop_ns = mem_stop_ns(h->t);
        if (rc == 0 && mem_gone(h->t)) rc = err_set(e, ERR_PROCESS_EXITED, "the process ended while it was counted");
    }
    if (rc == 0) {
        heap__say_damage(h);
        add_types(h, b);
        heap__describe_types(h, b);
        *out = graph_seal(b, e);
        rc = *out ? 0 : -(int)(e->kind ? e->kind : ERR_NO_MEMORY);
    }
    graph_builder_free(b);
    return rc;
}
