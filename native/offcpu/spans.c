/* SPDX-License-Identifier: MIT */
/* spans.c: one open span a thread; closed ones are added to the sums of their place at once. */
#include "offcpu/spans.h"

#include <stdlib.h>

/* TASK_INTERRUPTIBLE and so on, as TRACE_EVENT(sched_switch) writes them; the bit above the reported ones: preempted.
 */
#define TASK_REPORTED 0xff

typedef struct open_span {
    bool open, preempted;
    bool before;          /* it began before the window */
    int64_t since, woken; /* woken 0: not seen */
    int64_t read_at;      /* before: at has been true then */
    oc_place at;
    uint32_t waker; /* index + 1; 0: none */
} open_span;

/* An index of 32 bits by hash, over keys that lie elsewhere. */
typedef struct cells {
    uint32_t *at; /* index + 1 */
    uint32_t slots;
} cells;

struct oc {
    oc_totals totals;
    oc_thread *threads;
    open_span *open; /* beside threads */
    size_t n_threads, cap_threads;
    map64 by_tid; /* tid -> index of the living one */
    oc_row *rows;
    size_t n_rows, cap_rows;
    cells rows_at;
    oc_wake *wakes;
    size_t n_wakes, cap_wakes;
    cells wakes_at;
    oc_waker *wakers;
    size_t n_wakers, cap_wakers;
    cells wakers_at;
};

oc_state oc_state_of(int64_t prev_state)
{
    unsigned bits = (unsigned)prev_state & TASK_REPORTED;
    if (prev_state & (TASK_REPORTED + 1) || bits == 0) return OC_RUNNABLE;
    if (bits & 0x30) return OC_DEAD;
    if (bits & 0x80) return OC_IDLE;
    if (bits & 0x2) return OC_DISK;
    if (bits & 0x1) return OC_SLEEP;
    if (bits & 0x4) return OC_STOPPED;
    if (bits & 0x8) return OC_TRACED;
    return OC_PARKED;
}

char oc_state_letter(oc_state s)
{
    static const char letters[OC_STATES] = {'R', 'S', 'D', 'I', 'T', 't', 'P', 'X'};
    return letters[s];
}

oc *oc_new(void) { return mem_calloc(1, sizeof(oc)); }

void oc_free(oc *o)
{
    if (!o) return;
    map64_fini(&o->by_tid);
    free(o->threads);
    free(o->open);
    free(o->rows);
    free(o->rows_at.at);
    free(o->wakes);
    free(o->wakes_at.at);
    free(o->wakers);
    free(o->wakers_at.at);
    free(o);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static bool room(void **array, size_t n, size_t *cap, size_t each)
{
    if (n < *cap) return true;
    size_t to = *cap ? *cap * 2 : 64;
    void *grown = mem_realloc(*array, to * each);
    if (!grown) return false;
    *array = grown;
    *cap = to;
    return true;
}

static uint64_t row_hash(const oc_row *r)
{
    return hash_u64((uint64_t)r->thread << 32 ^ r->at.stack) ^
           hash_u64((uint64_t)r->at.call << 16 ^ (uint64_t)r->at.state << 8 ^ r->at.sync);
}
static uint64_t wake_hash(const oc_wake *w) { return hash_u64((uint64_t)w->stack << 32 ^ w->waker); }
static uint64_t waker_hash(const oc_waker *w) { return hash_u64((uint64_t)(uint32_t)w->tid << 8 ^ (uint64_t)w->kind); }

/* Twice the slots, empty: the caller puts in what is there. */
static bool widen(cells *c)
{
    uint32_t slots = c->slots ? c->slots * 2 : 256;
    uint32_t *at = mem_calloc(slots, sizeof *at);
    if (!at) return false;
    free(c->at);
    *c = (cells){at, slots};
    return true;
}

static void put(cells *c, uint64_t hash, size_t index)
{
    uint32_t mask = c->slots - 1, k = (uint32_t)hash & mask;
    while (c->at[k])
        k = (k + 1) & mask;
    c->at[k] = (uint32_t)index + 1;
}

#define FULL(c, n) ((n) / 3 * 4 + 4 >= (c)->slots)

/* The sums of a place; NULL: no room. */
static oc_sum *sum_of(oc *o, uint32_t thread, oc_place at)
{
    oc_row key = {.thread = thread, .at = at};
    if (FULL(&o->rows_at, o->n_rows)) {
        if (!widen(&o->rows_at)) return NULL;
        for (size_t i = 0; i < o->n_rows; i++)
            put(&o->rows_at, row_hash(&o->rows[i]), i);
    }
    uint64_t hash = row_hash(&key);
    uint32_t mask = o->rows_at.slots - 1;
    for (uint32_t k = (uint32_t)hash & mask; o->rows_at.at[k]; k = (k + 1) & mask) {
        oc_row *r = &o->rows[o->rows_at.at[k] - 1];
        if (r->thread == thread && r->at.stack == at.stack && r->at.call == at.call && r->at.state == at.state &&
            r->at.sync == at.sync)
            return &r->sum;
    }
    if (o->n_rows == OC_PLACES_MAX || !room((void **)&o->rows, o->n_rows, &o->cap_rows, sizeof *o->rows)) return NULL;
    o->rows[o->n_rows] = key;
    put(&o->rows_at, hash, o->n_rows);
    return &o->rows[o->n_rows++].sum;
}

static oc_wake *wake_of(oc *o, uint32_t stack, uint32_t waker)
{
    oc_wake key = {.stack = stack, .waker = waker};
    if (FULL(&o->wakes_at, o->n_wakes)) {
        if (!widen(&o->wakes_at)) return NULL;
        for (size_t i = 0; i < o->n_wakes; i++)
            put(&o->wakes_at, wake_hash(&o->wakes[i]), i);
    }
    uint64_t hash = wake_hash(&key);
    uint32_t mask = o->wakes_at.slots - 1;
    for (uint32_t k = (uint32_t)hash & mask; o->wakes_at.at[k]; k = (k + 1) & mask) {
        oc_wake *w = &o->wakes[o->wakes_at.at[k] - 1];
        if (w->stack == stack && w->waker == waker) return w;
    }
    if (o->n_wakes == OC_WAKES_MAX || !room((void **)&o->wakes, o->n_wakes, &o->cap_wakes, sizeof *o->wakes))
        return NULL;
    o->wakes[o->n_wakes] = key;
    put(&o->wakes_at, hash, o->n_wakes);
    return &o->wakes[o->n_wakes++];
}

/* Index + 1; 0: no room. A thread that changed its name keeps the first. */
static uint32_t waker_of(oc *o, const oc_waker *w)
{
    if (FULL(&o->wakers_at, o->n_wakers)) {
        if (!widen(&o->wakers_at)) return 0;
        for (size_t i = 0; i < o->n_wakers; i++)
            put(&o->wakers_at, waker_hash(&o->wakers[i]), i);
    }
    uint64_t hash = waker_hash(w);
    uint32_t mask = o->wakers_at.slots - 1;
    for (uint32_t k = (uint32_t)hash & mask; o->wakers_at.at[k]; k = (k + 1) & mask) {
        const oc_waker *had = &o->wakers[o->wakers_at.at[k] - 1];
        if (had->tid == w->tid && had->kind == w->kind) return o->wakers_at.at[k];
    }
    if (o->n_wakers == OC_WAKERS_MAX || !room((void **)&o->wakers, o->n_wakers, &o->cap_wakers, sizeof *o->wakers))
        return 0;
    o->wakers[o->n_wakers] = *w;
    put(&o->wakers_at, hash, o->n_wakers);
    return (uint32_t)++o->n_wakers;
}

static bool grow_threads(oc *o)
{
    if (o->n_threads < o->cap_threads) return true;
    size_t to = o->cap_threads ? o->cap_threads * 2 : 64;
    oc_thread *threads = mem_realloc(o->threads, to * sizeof *threads);
    if (!threads) return false;
    o->threads = threads;
    open_span *open = mem_realloc(o->open, to * sizeof *open);
    if (!open) return false;
    o->open = open;
    o->cap_threads = to;
    return true;
}

/* Index, or SIZE_MAX without room. */
static size_t thread_of(oc *o, int tid)
{
    uint64_t i;
    if (map64_get(&o->by_tid, (uint64_t)tid, &i)) return (size_t)i;
    if (o->n_threads == OC_THREADS_MAX || !grow_threads(o) || !map64_put(&o->by_tid, (uint64_t)tid, o->n_threads)) {
        o->totals.threads_dropped++;
        return SIZE_MAX;
    }
    o->threads[o->n_threads] = (oc_thread){.tid = tid};
    o->open[o->n_threads] = (open_span){0};
    return o->n_threads++;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

void oc_out(oc *o, int tid, int64_t time, oc_place at)
{
    size_t i = thread_of(o, tid);
    if (i == SIZE_MAX) return;
    open_span *s = &o->open[i];
    o->totals.switches++;
    o->threads[i].switches++;
    *s = (open_span){.since = time, .at = at};
    s->preempted = at.state == OC_RUNNABLE;
    s->open = !s->preempted && at.state != OC_DEAD;
}

void oc_stand(oc *o, int tid, int64_t since, int64_t read_at, oc_place at)
{
    size_t i = thread_of(o, tid);
    if (i != SIZE_MAX)
        o->open[i] = (open_span){.open = true, .before = true, .since = since, .read_at = read_at, .at = at};
}

bool oc_seen(const oc *o, int tid)
{
    uint64_t i;
    return map64_get(&o->by_tid, (uint64_t)tid, &i) && (o->threads[i].switches || o->threads[i].came);
}

bool oc_stands(const oc *o, int tid)
{
    uint64_t i;
    return map64_get(&o->by_tid, (uint64_t)tid, &i) && o->open[i].open && o->open[i].before && o->open[i].at.stack;
}

/* The span of a thread is over, or cut off. */
static void close_span(oc *o, size_t i, int64_t time, bool cut)
{
    open_span *s = &o->open[i];
    oc_thread *t = &o->threads[i];
    int64_t ns = time > s->since ? time - s->since : 0, delay = s->woken ? time - s->woken : 0;
    if (s->before && time < s->read_at) s->at = (oc_place){.state = s->at.state};
    oc_sum *sum = sum_of(o, (uint32_t)i, s->at);
    if (!sum) o->totals.places_dropped++;
    oc_sum none = {0}, *to = sum ? sum : &none;
    to->ns += ns;
    to->n++;
    if (ns > to->longest_ns) to->longest_ns = ns;
    if (cut || s->before) {
        to->censored++;
        to->censored_ns += ns;
        o->totals.censored++;
        o->totals.censored_ns += ns;
    }
    if (!cut && s->before) o->totals.before++;
    if (!cut && !s->before && !s->woken) o->totals.unwoken++;
    if (!cut && delay > 0) {
        to->delay_ns += delay;
        o->totals.delay_ns += delay;
    }
    t->off_ns += ns;
    t->spans++;
    o->totals.off_ns += ns;
    o->totals.spans++;
    if (s->waker) {
        oc_wake *w = wake_of(o, s->at.stack, s->waker - 1);
        if (!w) o->totals.wakes_dropped++;
        if (w) w->n++, w->ns += ns - (delay > 0 ? delay : 0);
    }
}

static void preempted(oc *o, size_t i, int64_t time)
{
    int64_t ns = time > o->open[i].since ? time - o->open[i].since : 0;
    o->threads[i].preempted++;
    o->threads[i].preempted_ns += ns;
    o->totals.preempted++;
    o->totals.preempted_ns += ns;
}

void oc_in(oc *o, int tid, int64_t time)
{
    size_t i = thread_of(o, tid);
    if (i == SIZE_MAX) return;
    open_span *s = &o->open[i];
    o->threads[i].came = true;
    if (s->open)
        close_span(o, i, time, false);
    else if (s->preempted)
        preempted(o, i, time);
    else
        o->totals.unpaired++;
    *s = (open_span){0};
}

void oc_waking(oc *o, int tid, int64_t time, const oc_waker *w)
{
    uint64_t i;
    if (!map64_get(&o->by_tid, (uint64_t)tid, &i)) return;
    open_span *s = &o->open[i];
    if (!s->open || s->woken) return;
    s->woken = time > s->since ? time : s->since;
    s->waker = waker_of(o, w);
}

void oc_name(oc *o, int tid, slice comm)
{
    size_t i = thread_of(o, tid);
    if (i == SIZE_MAX) return;
    size_t n = comm.n < sizeof o->threads[i].comm - 1 ? comm.n : sizeof o->threads[i].comm - 1;
    memset(o->threads[i].comm, 0, sizeof o->threads[i].comm);
    if (n) memcpy(o->threads[i].comm, comm.p, n);
}

void oc_exit(oc *o, int tid)
{
    uint64_t i;
    if (!map64_get(&o->by_tid, (uint64_t)tid, &i)) return;
    o->threads[i].ended = true;
    o->open[i] = (open_span){0};
    map64_del(&o->by_tid, (uint64_t)tid);
}

void oc_end(oc *o, int64_t time)
{
    for (size_t i = 0; i < o->n_threads; i++) {
        if (o->open[i].open) close_span(o, i, time, true);
        if (o->open[i].preempted) preempted(o, i, time);
        o->open[i] = (open_span){0};
    }
}

const oc_totals *oc_totals_of(const oc *o) { return &o->totals; }
const oc_thread *oc_threads(const oc *o, size_t *n)
{
    *n = o->n_threads;
    return o->threads;
}
const oc_row *oc_rows(const oc *o, size_t *n)
{
    *n = o->n_rows;
    return o->rows;
}
const oc_wake *oc_wakes(const oc *o, size_t *n)
{
    *n = o->n_wakes;
    return o->wakes;
}
const oc_waker *oc_wakers(const oc *o, size_t *n)
{
    *n = o->n_wakers;
    return o->wakers;
}
