/* SPDX-License-Identifier: MIT */
/* pair.c: starts wait under their key for the stop; what a stop meets runs the reducers of the pair. */
#include <stdlib.h>

#include "probe/engine.h"

#define FIRST_SLOTS 64u
#define SPARE_MAX   64u /* nested starts that one key may have open */

static const uint8_t *key_of(const pslot *s) { return s->key ? s->key : (const uint8_t *)s->small; }

static inline pslot *find(const ppair *s, const pkey *k)
{
    uint32_t i = probe__home(k->hash, s->cap);
    for (;; i = (i + 1) & (s->cap - 1)) {
        pslot *at = &s->slot[i];
        if (at->hash == 0 || (at->hash == k->hash && at->key_n == k->n && probe__key_is(key_of(at), k))) return at;
    }
}

static void key_free(probe *p, pslot *s)
{
    if (s->key) probe__free(p, s->key, probe__key_room(s->key_n));
    s->key = NULL;
}

/* Takes a slot out: those behind it that it had pushed on move up. */
static void slot_free(probe *p, ppair *s, pslot *at)
{
    uint32_t mask = s->cap - 1, hole = (uint32_t)(at - s->slot);
    key_free(p, at);
    s->used--;
    for (uint32_t i = (hole + 1) & mask; s->slot[i].hash; i = (i + 1) & mask) {
        uint32_t home = probe__home(s->slot[i].hash, s->cap);
        if (((i - home) & mask) < ((i - hole) & mask)) continue; /* would stand before its home */
        s->slot[hole] = s->slot[i];
        hole = i;
    }
    s->slot[hole] = (pslot){0};
}

/* Gives every slot a new place in a table of that size. */
static bool rehash(probe *p, ppair *s, uint32_t cap)
{
    pslot *slot = probe__alloc(p, cap * sizeof *slot), *old = s->slot;
    uint32_t old_cap = s->cap;
    if (!slot) return false;
    s->slot = slot;
    s->cap = cap;
    s->used = 0;
    for (uint32_t i = 0; i < old_cap; i++) {
        if (!old[i].hash) continue;
        const pkey k = {.form = PK_BYTES, .n = old[i].key_n, .hash = old[i].hash, .p = key_of(&old[i])};
        *find(s, &k) = old[i];
        s->used++;
    }
    probe__free(p, old, old_cap * sizeof *old);
    return true;
}

static bool room(probe *p, ppair *s)
{
    if (s->cap && (s->used + 1) * 2 <= s->cap) return true;
    return rehash(p, s, s->cap ? 2 * s->cap : FIRST_SLOTS);
}

static void open_free(probe *p, ppair *s, pwait *o, bool keep)
{
    if (keep) {
        o->next = s->spare;
        s->spare = o;
        return;
    }
    probe__row_free(p, o->row);
    probe__free(p, o, sizeof *o);
}

static void begin(pctx *c, const pnode *n, ppair *s)
{
    probe *p = c->p;
    pkey key;
    if (!room(p, s)) {
        s->dropped++;
        return;
    }
    probe__key(c, &n->by, &key);
    if (key.nulls == n->by.n) { /* nothing to find a partner by */
        s->keyless++;
        return;
    }
    pslot *at = find(s, &key);
    if (at->top && !n->nested) {
        pwait *o = at->top;
        at->top = NULL;
        s->n_open--;
        s->replaced++;
        open_free(p, s, o, true);
    }
    uint32_t depth = 0;
    for (const pwait *o = at->top; o && depth < SPARE_MAX; o = o->next)
        depth++;
    pwait *o = s->spare;
    if (depth == SPARE_MAX || s->n_open >= PROBE_OPEN_MAX)
        o = NULL;
    else if (o)
        s->spare = o->next;
    else
        o = probe__alloc(p, sizeof *o);
    if (!o) {
        s->dropped++;
        return;
    }
    if (at->hash == 0) {
        if (key.n > sizeof at->small) {
            at->key = probe__alloc(p, probe__key_room(key.n));
            if (!at->key) {
                s->dropped++;
                open_free(p, s, o, true);
                return;
            }
        }
        probe__key_store(at->key ? at->key : (uint8_t *)at->small, &key);
        at->key_n = key.n;
        at->hash = key.hash;
        s->used++;
    }
    o->ts = c->ev->ts;
    o->order = p->order;
    o->row = n->captured.n ? probe__row(c, &n->captured, o->row) : o->row;
    if (n->captured.n && !o->row) {
        s->dropped++;
        open_free(p, s, o, true);
        return;
    }
    o->next = at->top;
    at->top = o;
    s->n_open++;
}

static void end(pctx *c, const pnode *n, ppair *s, uint8_t *kids)
{
    pkey key;
    probe__key(c, n->by_stop.n ? &n->by_stop : &n->by, &key);
    if (key.nulls == n->by.n) {
        s->keyless++;
        return;
    }
    pslot *at = s->cap ? find(s, &key) : NULL;
    pwait *o = at ? at->top : NULL;
    if (!o) {
        s->unmatched++;
        return;
    }
    at->top = o->next;
    s->n_open--;
    if (!at->top) slot_free(c->p, s, at);
    const pv *outer_start = c->start;
    bool outer_paired = c->paired;
    int64_t outer_duration = c->duration_ns;
    c->start = o->row ? o->row->v : NULL;
    c->paired = true;
    c->duration_ns = probe__ns(c->trace, c->ev->ts) - probe__ns(c->trace, o->ts);
    if (!n->pair_where || pv_true(probe__value(c, n->pair_where))) {
        s->pairs++;
        probe__run(c, &n->kids, kids);
    }
    c->start = outer_start;
    c->paired = outer_paired;
    c->duration_ns = outer_duration;
    open_free(c->p, s, o, true);
}

void probe__pair_run(pctx *c, const pnode *n, ppair **at, uint8_t *kids)
{
    ppair *s = *at;
    if (!s) {
        s = *at = probe__alloc(c->p, sizeof *s);
        if (!s) return;
    }
    if (n->stop & c->kind->on) end(c, n, s, kids);
    if (n->start & c->kind->on) begin(c, n, s);
}

bool probe__pair_is_open(pctx *c, slice name)
{
    const pblock *top = &c->p->keep;
    const pnode *n = NULL;
    for (uint32_t i = 0; i < top->n && !n; i++)
        if (top->node[i].op == PROBE_PAIR && slice_eq(top->node[i].name, name)) n = &top->node[i];
    const ppair *s = n ? *(ppair **)(c->p->state + n->offset) : NULL;
    if (!s || !s->cap) return false;
    pkey key;
    probe__key(c, &n->by, &key);
    return key.nulls < n->by.n && find(s, &key)->top;
}

void probe__pair_fini(probe *p, ppair **at)
{
    ppair *s = *at;
    if (!s) return;
    for (uint32_t i = 0; i < s->cap; i++) {
        pwait *o = s->slot[i].top;
        while (o) {
            pwait *next = o->next;
            open_free(p, s, o, false);
            o = next;
        }
        key_free(p, &s->slot[i]);
    }
    while (s->spare) {
        pwait *next = s->spare->next;
        open_free(p, s, s->spare, false);
        s->spare = next;
    }
    probe__free(p, s->slot, s->cap * sizeof *s->slot);
    probe__free(p, s, sizeof *s);
    *at = NULL;
}

void probe__pair_merge(probe *p, ppair **at, const ppair *from)
{
    if (!from) return;
    if (!*at) *at = probe__alloc(p, sizeof **at);
    ppair *s = *at;
    if (!s) return;
    s->pairs += from->pairs;
    s->unmatched += from->unmatched;
    s->replaced += from->replaced;
    s->dropped += from->dropped;
    s->keyless += from->keyless;
    s->open_elsewhere += from->n_open + from->open_elsewhere;
}
