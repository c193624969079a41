/* SPDX-License-Identifier: MIT */
/* sort.c: the queues of events that wait for their place in time. Each thread's events come in order; a heap of threads
 * merges them. A waiting event is a record that points into its block, so the block stays until its last event is out.
 */
#include "nettrace/nt_internal.h"

#define FREE_BLOCKS       16u
#define FREE_BLOCK_BYTES  ((size_t)256 << 10)
#define FREE_BLOCK_EVENTS 4096u
#define SLAB_RECORDS      256

nt__block *nt__block_get(nt_reader *r, size_t bytes)
{
    nt__block *b = r->free_blocks;
    if (b) {
        r->free_blocks = b->next_free;
        r->n_free_blocks--;
    } else {
        b = mem_calloc(1, sizeof *b);
        if (!b) return NULL;
    }
    if (b->cap < bytes) {
        uint8_t *p = mem_realloc(b->bytes, bytes);
        if (!p) {
            nt__account(r, -(ptrdiff_t)(b->cap + b->cap_events * sizeof(nt_event)));
            free(b->events);
            free(b->bytes);
            free(b);
            return NULL;
        }
        nt__account(r, (ptrdiff_t)(bytes - b->cap));
        b->bytes = p;
        b->cap = bytes;
    }
    b->n = b->live = 0;
    r->queued_bytes += b->cap + b->cap_events * sizeof(nt_event);
    return b;
}

static void block_free(nt_reader *r, nt__block *b)
{
    nt__account(r, -(ptrdiff_t)(b->cap + b->cap_events * sizeof(nt_event)));
    free(b->bytes);
    free(b->events);
    free(b);
}

void nt__block_put(nt_reader *r, nt__block *b)
{
    r->queued_bytes -= b->cap + b->cap_events * sizeof(nt_event);
    if (r->n_free_blocks == FREE_BLOCKS || b->cap > FREE_BLOCK_BYTES || b->cap_events > FREE_BLOCK_EVENTS) {
        block_free(r, b);
        return;
    }
    b->next_free = r->free_blocks;
    r->free_blocks = b;
    r->n_free_blocks++;
}

void nt__block_release(nt_reader *r, nt__block *b)
{
    if (--b->live == 0) nt__block_put(r, b);
}

static nt__run *run_get(nt_reader *r)
{
    if (!r->free_runs) {
        nt__slab *s = mem_alloc(sizeof *s + SLAB_RECORDS * sizeof(nt__run));
        if (!s) return NULL;
        nt__account(r, (ptrdiff_t)(SLAB_RECORDS * sizeof(nt__run)));
        s->next = r->run_slabs;
        r->run_slabs = s;
        nt__run *runs = (nt__run *)(void *)s->records;
        for (size_t i = 0; i < SLAB_RECORDS; i++) {
            runs[i].next = r->free_runs;
            r->free_runs = &runs[i];
        }
    }
    nt__run *run = r->free_runs;
    r->free_runs = run->next;
    return run;
}

static void run_put(nt_reader *r, nt__run *run)
{
    run->next = r->free_runs;
    r->free_runs = run;
}

static inline int64_t head_ts(const nt__thread *t) { return t->head->block->events[t->head->at].ts; }

static void heap_down(nt_reader *r, uint32_t i)
{
    nt__thread *t = r->heap[i];
    int64_t ts = head_ts(t);
    for (;;) {
        uint32_t kid = 2 * i + 1;
        if (kid >= r->n_heap) break;
        if (kid + 1 < r->n_heap && head_ts(r->heap[kid + 1]) < head_ts(r->heap[kid])) kid++;
        if (head_ts(r->heap[kid]) >= ts) break;
        r->heap[i] = r->heap[kid];
        i = kid;
    }
    r->heap[i] = t;
}

static int heap_push(nt_reader *r, nt__thread *t)
{
    if (r->n_heap == r->cap_heap) {
        uint32_t cap = r->cap_heap ? r->cap_heap * 2 : 64;
        nt__thread **p = mem_realloc(r->heap, cap * sizeof(nt__thread *));
        if (!p) return nt__no_memory(r);
        nt__account(r, (ptrdiff_t)((cap - r->cap_heap) * sizeof *p));
        r->heap = p;
        r->cap_heap = cap;
    }
    uint32_t i = r->n_heap++;
    int64_t ts = head_ts(t);
    while (i && head_ts(r->heap[(i - 1) / 2]) > ts) {
        r->heap[i] = r->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    r->heap[i] = t;
    return 0;
}

int nt__deliver(nt_reader *r, const nt_event *ev)
{
    if (ev->ts < r->last_ts && r->has_last_ts)
        r->stats.out_of_order += !r->opt.stream_order;
    else
        r->last_ts = ev->ts;
    r->has_last_ts = true;
    if (r->sink.event(r->arg, ev) != 0) return nt__cancelled(r);
    return 0;
}

/* Takes the run's first event out, after its delivery. Returns whether the thread still has one. */
static bool advance(nt_reader *r, nt__thread *t)
{
    nt__run *run = t->head;
    nt__block *b = run->block;
    if (++run->at == run->end) {
        t->head = run->next;
        if (!t->head) t->tail = NULL;
        run_put(r, run);
    }
    nt__block_release(r, b);
    return t->head != NULL;
}

/* Delivers the top thread's events as long as no other thread has an older one. */
static int drain_top(nt_reader *r, int64_t ts, size_t enough)
{
    nt__thread *t = r->heap[0];
    int64_t bound = ts;
    for (uint32_t kid = 1; kid <= 2 && kid < r->n_heap; kid++)
        if (head_ts(r->heap[kid]) < bound) bound = head_ts(r->heap[kid]);
    for (;;) {
        int rc = nt__deliver(r, &t->head->block->events[t->head->at]);
        if (rc < 0) return rc;
        if (!advance(r, t)) {
            r->heap[0] = r->heap[--r->n_heap];
            if (r->n_heap) heap_down(r, 0);
            if (t->removed) nt__thread_drained(r, t);
            return 0;
        }
        if (head_ts(t) > bound || r->queued_bytes <= enough) {
            heap_down(r, 0);
            return 0;
        }
    }
}

int nt__merge(nt_reader *r, int64_t ts)
{
    while (r->n_heap && head_ts(r->heap[0]) <= ts) {
        int rc = drain_top(r, ts, 0);
        if (rc < 0) return rc;
    }
    return 0;
}

static int grow_events(nt_reader *r, nt__block *b)
{
    uint32_t cap = b->cap_events ? b->cap_events * 2 : 256;
    nt_event *p = mem_realloc(b->events, cap * sizeof *p);
    if (!p) return nt__no_memory(r);
    nt__account(r, (ptrdiff_t)((cap - b->cap_events) * sizeof *p));
    r->queued_bytes += (cap - b->cap_events) * sizeof *p;
    b->events = p;
    b->cap_events = cap;
    return 0;
}

/* Over the limit: the oldest events go out although older ones may still come. */
static int relieve(nt_reader *r)
{
    size_t enough = r->lim.queue_bytes / 2;
    r->stats.forced_merges++;
    while (r->n_heap && r->queued_bytes > enough) {
        int rc = drain_top(r, INT64_MAX, enough);
        if (rc < 0) return rc;
    }
    return 0;
}

int nt__queue(nt_reader *r, nt__thread *t, nt__block *b, const nt_event *ev)
{
    if (r->queued_bytes > r->lim.queue_bytes) {
        int rc = relieve(r);
        if (rc < 0) return rc;
    }
    if (b->n == b->cap_events) {
        int rc = grow_events(r, b);
        if (rc < 0) return rc;
    }
    nt__run *run = t->tail;
    bool extends = run && run->block == b && run->end == b->n;
    if (!extends) {
        run = run_get(r);
        if (!run) return nt__no_memory(r);
        *run = (nt__run){b, b->n, b->n, NULL};
    }
    b->events[b->n++] = *ev;
    b->live++;
    run->end++;
    if (extends) return 0;
    bool was_empty = !t->head;
    if (was_empty)
        t->head = run;
    else
        t->tail->next = run;
    t->tail = run;
    return was_empty ? heap_push(r, t) : 0;
}

void nt__sort_fini(nt_reader *r)
{
    for (uint32_t i = 0; i < r->n_heap; i++)
        for (nt__run *run = r->heap[i]->head; run; run = run->next)
            for (; run->at < run->end; run->at++)
                nt__block_release(r, run->block);
    if (r->filling) nt__block_put(r, r->filling);
    while (r->free_blocks) {
        nt__block *b = r->free_blocks;
        r->free_blocks = b->next_free;
        block_free(r, b);
    }
    while (r->run_slabs) {
        nt__slab *s = r->run_slabs;
        r->run_slabs = s->next;
        free(s);
    }
    free(r->heap);
    r->heap = NULL;
}
