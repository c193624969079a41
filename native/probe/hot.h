/* SPDX-License-Identifier: MIT */
/* hot.h: what nearly every event runs through, as inline functions: the loop over events (engine.c) has it in one piece
 * and not behind calls. What is seldom (a first event, a full table, a key of several values) is a call to the file
 * that the reducer has its name from. */
#ifndef LUNETTE_PROBE_HOT_H
#define LUNETTE_PROBE_HOT_H

#include "probe/engine.h"

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- quantiles: sketch.c ----------------------------------------------------------------------------------------- */
#define SKETCH_EXACT    32
#define SKETCH_NEAR     16
#define SKETCH_SUB_BITS 6
#define SKETCH_SUB      (1u << SKETCH_SUB_BITS)

typedef struct psketch_page {
    uint16_t id;
    uint64_t n[SKETCH_SUB];
} psketch_page;

struct psketch {
    uint64_t n;
    double sum, min, max;
    /* Pages by the low bits of their id (0: none): durations of one kind keep to a few orders of magnitude. */
    uint16_t near_id[SKETCH_NEAR];
    psketch_page *near[SKETCH_NEAR];
    psketch_page **page; /* sorted by id */
    uint32_t n_page, cap_page;
    uint64_t lost; /* found no page: counted, with no place */
    double exact[SKETCH_EXACT];
};

/* Doubles as whole numbers that have the same order; no negative zero. */
static inline uint64_t probe__ordered_bits(double v)
{
    uint64_t u;
    v += 0.0;
    memcpy(&u, &v, sizeof u);
    return u ^ ((uint64_t)((int64_t)u >> 63) | (uint64_t)1 << 63);
}

/* As probe__sketch_add, of numbers; others are left out. */
static inline void probe__sketch_put(probe *p, psketch **at, pv value)
{
    psketch *s = *at;
    double v;
    if (UNLIKELY(!pv_number(value, &v))) return;
    if (UNLIKELY(!s || s->n <= SKETCH_EXACT || (value.type != PV_INT && !__builtin_isfinite(v)))) {
        probe__sketch_add(p, at, v);
        return;
    }
    const uint64_t bits = probe__ordered_bits(v);
    const uint16_t id = (uint16_t)(bits >> 52);
    if (UNLIKELY(s->near_id[id % SKETCH_NEAR] != id)) {
        probe__sketch_add(p, at, v);
        return;
    }
    if (v < s->min) s->min = v;
    if (v > s->max) s->max = v;
    s->sum += v;
    s->n++;
    s->near[id % SKETCH_NEAR]->n[bits >> (52 - SKETCH_SUB_BITS) & (SKETCH_SUB - 1)]++;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */
/* Runs a node whose event it is and whose condition holds. */
static inline void probe__run_node(pctx *c, const pnode *n, uint8_t *state)
{
    switch (n->op) {
    case PROBE_COUNT: ++*(uint64_t *)(void *)state; break;
    case PROBE_QUANTILES: probe__sketch_put(c->p, (psketch **)(void *)state, probe__value(c, n->e)); break;
    case PROBE_GROUP: probe__group_add(c, n, (pgroup **)(void *)state); break;
    default: n->run(c, n, state); break;
    }
}

/* As probe__run_all, in the caller. */
static inline void probe__run_here(pctx *c, const pblock *b, uint8_t *state)
{
    const uint64_t on = c->kind->on;
    for (const pnode *n = b->node, *end = n + b->n; n < end; n++)
        if (n->always || ((n->on & on) && (!n->where || probe__holds(c, n->where))))
            probe__run_node(c, n, state + n->offset);
}

/* What a pair n runs: mostly a group. */
static inline void probe__run_pair(pctx *c, const pnode *n, uint8_t *state)
{
    if (LIKELY(n->one_group))
        probe__group_add(c, n->kids.node, (pgroup **)(void *)state); /* the only one: its state is the first */
    else
        probe__run_all(c, &n->kids, state);
}

/* ---- pairs, and those by one whole number: pair.c ---------------------------------------------------------------- */
#define PROBE_WAIT_FEW 2 /* values of a start that need no row of their own */
typedef struct pwait {
    struct pwait *next; /* an older start of the same key, or in the free list */
    int64_t ts;
    uint64_t order;
    const pv *kept; /* the captured values: few, or those of row */
    pv few[PROBE_WAIT_FEW];
    prow *row; /* kept for the next start when it is not used */
} pwait;
typedef struct pslot {
    uint64_t hash; /* 0: empty */
    pwait *top;
    uint64_t small[2];
    uint8_t *key; /* of a long one; key_room bytes */
    uint32_t key_n;
} pslot;
struct ppair {
    pslot *slot, *last;
    uint32_t cap, used, n_open;
    uint32_t limit; /* of used, before the table grows */
    pwait *spare;
    uint64_t pairs, unmatched, replaced, dropped, keyless;
    uint64_t open_elsewhere; /* of states that were merged into this one */
};

/* The first bytes of a stored key of one whole number. */
static inline uint64_t probe__number_key(int64_t key) { return PV_INT | (uint64_t)key << 8; }
/* The slot of one whole number from `at` on. */
pslot *probe__slot_search(const ppair *s, pslot *at, int64_t key, uint64_t hash);
void probe__slot_key_free(probe *p, pslot *s);
/* Fills the hole that a slot leaves: those behind it that it had pushed on move up. */
void probe__slot_close(ppair *s, uint32_t hole);
/* Makes the place of a start free when that may be; false: it may not. */
bool probe__make_way(probe *p, const pnode *n, ppair *s, pslot *at);
/* Keeps what of the start is wanted in a row. False: past the memory cap. */
bool probe__capture_row(pctx *c, const pnode *n, pwait *o);

static inline pslot *probe__slot_next(const ppair *s, pslot *at) { return at == s->last ? s->slot : at + 1; }

/* The slot of one whole number, where it is or would be. */
static inline pslot *probe__slot_of(const ppair *s, int64_t key, uint64_t hash)
{
    pslot *at = &s->slot[probe__home(hash, s->cap)];
    if (LIKELY(at->hash == 0 || (at->hash == hash && at->small[0] == probe__number_key(key)))) return at;
    return probe__slot_search(s, at, key, hash);
}

/* Takes a slot out. */
static inline void probe__slot_free(probe *p, ppair *s, pslot *at)
{
    if (UNLIKELY(at->key != NULL)) probe__slot_key_free(p, at);
    s->used--;
    if (UNLIKELY(probe__slot_next(s, at)->hash != 0)) {
        probe__slot_close(s, (uint32_t)(at - s->slot));
        return;
    }
    at->hash = 0;
    at->top = NULL;
}

/* Keeps what of the start is wanted. False: past the memory cap. */
static inline bool probe__capture(pctx *c, const pnode *n, pwait *o)
{
    o->kept = o->few;
    switch (n->captured.n) {
    case 2:
        o->few[1] = probe__value(c, n->captured.e[1]);
        if (UNLIKELY(pv_has_bytes(o->few[1]) && !o->few[1].symbol)) return probe__capture_row(c, n, o);
        /* fall through */
    case 1:
        o->few[0] = probe__value(c, n->captured.e[0]);
        if (UNLIKELY(pv_has_bytes(o->few[0]) && !o->few[0].symbol)) return probe__capture_row(c, n, o);
        /* fall through */
    case 0: return true;
    default: return probe__capture_row(c, n, o);
    }
}

/* The start waits at that slot, which has its key already. False: dropped. */
static inline bool probe__wait_at(pctx *c, const pnode *n, ppair *s, pslot *at)
{
    probe *p = c->p;
    const int64_t ts = c->ev->ts;
    pwait *o = s->spare;
    if (UNLIKELY(s->n_open >= PROBE_OPEN_MAX)) return false;
    if (LIKELY(o != NULL))
        s->spare = o->next;
    else if (!(o = probe__alloc(p, sizeof *o)))
        return false;
    o->ts = ts;
    o->order = p->order;
    if (UNLIKELY(!probe__capture(c, n, o))) {
        o->next = s->spare;
        s->spare = o;
        return false;
    }
    o->next = at->top;
    at->top = o;
    s->n_open++;
    return true;
}

/* A start. There is room for one more key. */
static inline void probe__begin_number(pctx *c, const pnode *n, ppair *s, int64_t key)
{
    const uint64_t hash = probe__hash_word(PV_INT, key);
    pslot *at = probe__slot_of(s, key, hash);
    if (LIKELY(at->hash == 0)) {
        at->hash = hash;
        at->small[0] = probe__number_key(key);
        at->small[1] = (uint64_t)key >> 56;
        at->key_n = PROBE_NUMBER_KEY;
        s->used++;
    } else if (at->top && !probe__make_way(c->p, n, s, at)) {
        s->dropped++;
        return;
    }
    if (LIKELY(probe__wait_at(c, n, s, at))) return;
    s->dropped++;
    if (!at->top) probe__slot_free(c->p, s, at);
}

/* A stop that met the newest start of its slot. top: the pair is below no other. */
static inline void probe__meet(pctx *c, const pnode *n, ppair *s, pslot *at, uint8_t *kids, bool top)
{
    pwait *o = at->top;
    at->top = o->next;
    s->n_open--;
    if (LIKELY(!o->next)) probe__slot_free(c->p, s, at);
    const pv *outer_start = top ? NULL : c->start;
    const bool outer_paired = top ? false : c->paired;
    const int64_t outer_duration = top ? 0 : c->duration_ns;
    c->start = o->kept;
    c->paired = true;
    c->duration_ns = probe__span(c->trace, o->ts, c->ev->ts);
    if (!n->pair_where || probe__holds(c, n->pair_where)) {
        s->pairs++;
        probe__run_pair(c, n, kids);
    }
    c->start = outer_start;
    c->paired = outer_paired;
    if (!top) c->duration_ns = outer_duration;
    o->next = s->spare;
    s->spare = o;
}

/* A stop; the table has slots. */
static inline void probe__end_number(pctx *c, const pnode *n, ppair *s, int64_t key, uint8_t *kids, bool top)
{
    pslot *at = probe__slot_of(s, key, probe__hash_word(PV_INT, key));
    if (UNLIKELY(!at->top))
        s->unmatched++;
    else
        probe__meet(c, n, s, at, kids, top);
}

/* ---- rings of events: rows.c ------------------------------------------------------------------------------------- */
/* Writes what every event has into a row; its payload and its activities are the caller's. */
static inline praw *probe__raw_head(prow *r, uint64_t order, const probe_kind *k, const nt_event *ev)
{
    const int64_t ts = ev->ts;
    const uint64_t thread = ev->thread;
    const uint32_t n = (uint32_t)ev->payload.n;
    praw *w = (praw *)(void *)r->v;
    r->n = PROW_RAW;
    r->order = order;
    w->kind = k;
    w->ts = ts;
    w->thread = thread;
    w->has_activity = w->has_related = false;
    w->n = n;
    return w;
}

/* Writes an event that has all fields of the row over the oldest of a full ring; false: not so simple. */
static inline bool probe__ring_put(const pnode *n, prows *s, uint64_t order, const probe_kind *k, const nt_event *ev)
{
    const uint32_t head = s->head;
    if (UNLIKELY(s->n != n->n)) return false;
    prow *r = s->p[head];
    const slice payload = ev->payload;
    if (UNLIKELY(((uintptr_t)ev->activity | (uintptr_t)ev->related) != 0 || r->n != PROW_RAW || payload.n > 64 ||
                 r->cap < sizeof(prow) + sizeof(praw) + payload.n))
        return false;
    s->seen++;
    s->dropped++;
    s->head = head + 1 == n->n ? 0 : head + 1;
    probe__copy(probe__raw_head(r, order, k, ev)->payload, payload.p, (uint32_t)payload.n);
    return true;
}

#endif
