/* SPDX-License-Identifier: MIT */
/* sort.c: the queues of events that wait for their place in time. Each thread's events come in order; a heap of threads
 * merges them. A waiting event is a record that points into its block, so the block stays until its last event is out.
 */
#include "nettrace/nt_internal.h"

#define FREE_BLOCKS      16u
#define FREE_BLOCK_BYTES ((size_t)512 << 10)
#define SLAB_RECORDS     256

static size_t block_bytes(const nt__block *b)
{
    return b->cap + b->cap_events * sizeof *b->events + b->cap_contexts * sizeof *b->contexts;
}

static void block_free(nt_reader *r, nt__block *b)
{
    nt__account(r, -(ptrdiff_t)block_bytes(b));
    free(b->bytes);
    free(b->events);
    free(b->contexts);
    free(b);
}

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
            block_free(r, b);
            return NULL;
        }
        nt__account(r, (ptrdiff_t)(bytes - b->cap));
        b->bytes = p;
        b->cap = bytes;
    }
    b->n = b->live = b->n_contexts = 0;
    b->charge = 0;
    return b;
}

void nt__block_put(nt_reader *r, nt__block *b)
{
    r->queued_bytes -= b->charge;
    b->charge = 0;
    if (r->n_free_blocks == FREE_BLOCKS || block_bytes(b) > FREE_BLOCK_BYTES) {
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

static int heap_room(nt_reader *r)
{
    if (r->n_heap < r->cap_heap) return 0;
    uint32_t cap = r->cap_heap ? r->cap_heap * 2 : 64;
    nt__thread **p = mem_realloc(r->heap, cap * sizeof(nt__thread *));
    if (!p) return nt__no_memory(r);
    nt__account(r, (ptrdiff_t)((cap - r->cap_heap) * sizeof *p));
    r->heap = p;
    r->cap_heap = cap;
    return 0;
}

static void heap_push(nt_reader *r, nt__thread *t)
{
    uint32_t i = r->n_heap++;
    int64_t ts = head_ts(t);
    while (i && head_ts(r->heap[(i - 1) / 2]) > ts) {
        r->heap[i] = r->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    r->heap[i] = t;
}

/* The top thread has nothing left. */
static void remove_top(nt_reader *r)
{
    nt__thread *t = r->heap[0];
    r->heap[0] = r->heap[--r->n_heap];
    if (r->n_heap) heap_down(r, 0);
    if (t->removed) nt__thread_drained(r, t);
}

/* Every event of the run by itself. */
static int take_each(nt_reader *r, nt_run *run)
{
    int rc = 0;
    while (rc == 0 && nt_run_next(run))
        rc = r->sink.event(r->arg, &run->event);
    return rc;
}

/* ---- batches: what is next in time, of all threads --------------------------------------------------------------- */
/* The first run of a thread, whose events a batch may point to from now on. */
static nt__run *open_run(const nt__thread *t)
{
    nt__run *run = t->head;
    run->origin = (nt_origin){run->block->bytes, run->block->contexts, t->tid};
    return run;
}

/* Adds the next events of the heap's top up to a time. Returns how many there are in the batch now. */
static uint32_t gather_one(nt_reader *r, int64_t ts, uint32_t n)
{
    nt__run *run = open_run(r->heap[0]);
    const nt_waiting *at = run->block->events + run->at, *end = run->block->events + run->end;
    int64_t last = r->last_ts;
    if ((size_t)(end - at) > NT_BATCH - n) end = at + (NT_BATCH - n);
    for (; at < end && at->ts <= ts; at++) {
        r->batch[n++] = (nt_turn){at, &run->origin};
        r->stats.out_of_order += at->ts < last;
        last = at->ts < last ? last : at->ts;
    }
    r->last_ts = last;
    run->at = (uint32_t)(at - run->block->events);
    return n;
}

/* As gather_one, of both threads of a heap of two. Whose turn it is cannot be foretold, so nothing here jumps by it:
 * what would be two pointers is one, of the thread that has the turn, and what makes that of the other one of it by
 * exclusive or. Of two events of the same time that of the thread goes first that had the turn before. */
static uint32_t gather_two(nt_reader *r, int64_t ts)
{
    nt__run *const top = open_run(r->heap[0]), *const second = open_run(r->heap[1]);
    const nt_waiting *a = top->block->events + top->at, *b = second->block->events + second->at;
    uintptr_t at = (uintptr_t)a, other = at ^ (uintptr_t)b;
    uintptr_t origin = (uintptr_t)&top->origin, other_origin = origin ^ (uintptr_t)&second->origin;
    int64_t last = r->last_ts;
    uint64_t n_late = 0;
    nt_turn *to = r->batch;
    for (bool later = false; !later;) {
        size_t left = top->end - top->at, left_second = second->end - second->at,
               steps = left < left_second ? left : left_second;
        if (steps > (size_t)(r->batch + NT_BATCH - to)) steps = (size_t)(r->batch + NT_BATCH - to);
        if (steps == 0) break; /* so many can be of one thread */
        for (const nt_turn *const full = to + steps; to < full; to++) {
            const int64_t mine = ((const nt_waiting *)at)->ts, its = ((const nt_waiting *)(at ^ other))->ts;
            const int64_t now = its < mine ? its : mine;
            const uintptr_t turns = -(uintptr_t)(its < mine);
            later = now > ts;
            if (__builtin_expect(later, 0)) break;
            n_late += now < last;
            last = now < last ? last : now;
            at ^= other & turns;
            origin ^= other_origin & turns;
            *to = (nt_turn){(const nt_waiting *)at, (const nt_origin *)origin};
            other ^= at ^ (at + sizeof(nt_waiting));
            at += sizeof(nt_waiting);
        }
        const bool swapped = origin != (uintptr_t)&top->origin;
        a = (const nt_waiting *)(swapped ? at ^ other : at);
        b = (const nt_waiting *)(swapped ? at : at ^ other);
        top->at = (uint32_t)(a - top->block->events);
        second->at = (uint32_t)(b - second->block->events);
    }
    r->last_ts = last;
    r->stats.out_of_order += n_late;
    if (origin != (uintptr_t)&top->origin) {
        nt__thread *t = r->heap[0];
        r->heap[0] = r->heap[1];
        r->heap[1] = t;
    }
    return (uint32_t)(to - r->batch);
}

/* Gathers what is next in time up to ts. Stops behind the last event of a run, which is then the top's first one. */
static uint32_t gather(nt_reader *r, int64_t ts)
{
    if (r->n_heap == 2) return gather_two(r, ts);
    uint32_t n = 0;
    for (;;) {
        const nt__thread *t = r->heap[0];
        int64_t bound = ts;
        for (uint32_t kid = 1; kid <= 2 && kid < r->n_heap; kid++)
            if (head_ts(r->heap[kid]) < bound) bound = head_ts(r->heap[kid]);
        n = gather_one(r, bound, n);
        if (t->head->at == t->head->end) return n;
        heap_down(r, 0);
        if (n == NT_BATCH || head_ts(r->heap[0]) > ts) return n;
    }
}

/* Delivers a batch. last: afterwards blocks may go, or change. */
static int deliver(nt_reader *r, uint32_t n, bool last)
{
    nt_run run = {.at = r->batch, .end = r->batch + n, .kinds = r->kinds, .last = last};
    int rc = 0;
    while (rc == 0 && run.at < run.end)
        rc = r->sink.run ? r->sink.run(r->arg, &run) : take_each(r, &run);
    return rc ? nt__cancelled(r) : 0;
}

static void pop_run(nt_reader *r, nt__thread *t)
{
    nt__run *run = t->head;
    nt__block *b = run->block;
    t->head = run->next;
    if (!t->head) t->tail = NULL;
    run_put(r, run);
    nt__block_release(r, b);
}

/* Delivers a batch of what waits, oldest first, up to a time that the heap's top does not pass. */
static int drain(nt_reader *r, int64_t ts)
{
    uint32_t n = gather(r, ts);
    nt__thread *t = r->heap[0];
    const bool over = t->head->at == t->head->end;
    int rc = deliver(r, n, over || head_ts(t) > ts);
    if (!over) return rc;
    pop_run(r, t);
    if (t->head)
        heap_down(r, 0);
    else
        remove_top(r);
    return rc;
}

int nt__merge(nt_reader *r, int64_t ts)
{
    while (r->n_heap && head_ts(r->heap[0]) <= ts) {
        int rc = drain(r, ts);
        if (rc < 0) return rc;
    }
    return 0;
}

static int grow(nt_reader *r, void **rows, uint32_t *cap, uint32_t first, size_t each)
{
    uint32_t to = *cap ? *cap * 2 : first;
    void *p = mem_realloc(*rows, to * each);
    if (!p) return nt__no_memory(r);
    nt__account(r, (ptrdiff_t)((to - *cap) * each));
    *rows = p;
    *cap = to;
    return 0;
}

void nt__queue_charge(nt_reader *r, nt__block *b, size_t bytes)
{
    b->charge += bytes;
    r->queued_bytes += bytes;
}

int nt__queue_relieve(nt_reader *r)
{
    size_t enough = r->lim.queue_bytes / 2;
    if (r->queued_bytes <= r->lim.queue_bytes) return 0;
    r->stats.forced_merges++;
    while (r->n_heap && r->queued_bytes > enough) {
        int rc = drain(r, INT64_MAX);
        if (rc < 0) return rc;
    }
    return 0;
}

/* A block of very many small events: what waits goes out, so that their records are bounded as well. */
static int empty(nt_reader *r, nt__block *b)
{
    r->stats.forced_merges++;
    int rc = nt__merge(r, INT64_MAX);
    b->n = b->n_contexts = 0;
    return rc;
}

int nt__queue_room(nt_reader *r, nt__block *b)
{
    int rc = b->n >= nt__waiting_max(r) ? empty(r, b) : 0;
    if (rc == 0 && b->n == b->cap_events) rc = grow(r, (void **)&b->events, &b->cap_events, 256, sizeof *b->events);
    if (rc == 0 && b->n_contexts == b->cap_contexts)
        rc = grow(r, (void **)&b->contexts, &b->cap_contexts, 32, sizeof *b->contexts);
    return rc;
}

int nt__queue_run(nt_reader *r, nt__thread *t, nt__block *b)
{
    if (heap_room(r) < 0) return r->status;
    nt__run *run = run_get(r);
    if (!run) return nt__no_memory(r);
    *run = (nt__run){b, b->n, b->n + 1, NULL};
    b->n++;
    b->live++;
    bool was_empty = !t->head;
    if (was_empty)
        t->head = run;
    else
        t->tail->next = run;
    t->tail = run;
    if (was_empty) heap_push(r, t);
    return 0;
}

void nt__sort_fini(nt_reader *r)
{
    for (uint32_t i = 0; i < r->n_heap; i++)
        for (nt__run *run = r->heap[i]->head; run; run = run->next)
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
