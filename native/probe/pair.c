/* SPDX-License-Identifier: MIT */
/* pair.c: starts wait under their key for the stop; what a stop meets runs the reducers of the pair. */
#include <stdlib.h>

#include "probe/engine.h"

#define FIRST_SLOTS 64u
#define SPARE_MAX   64u /* nested starts that one key may have open */

static slice key_of(const pslot *s) { return slice_of(s->key_n <= sizeof s->small ? s->small : s->key, s->key_n); }

static pslot *find(const ppair *s, slice key, uint64_t hash)
{
    uint32_t i = (uint32_t)hash & (s->cap - 1);
    for (;; i = (i + 1) & (s->cap - 1)) {
        pslot *at = &s->slot[i];
        if (at->hash == 0 || (at->hash == hash && slice_eq(key_of(at), key))) return at;
    }
}

static void key_free(probe *p, pslot *s)
{
    if (s->key) probe__free(p, s->key, s->key_n);
    s->key = NULL;
}

/* Gives every used slot a new place in a table of that size; slots without an open start go. */
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
        if (!old[i].top) {
            key_free(p, &old[i]);
            continue;
        }
        *find(s, key_of(&old[i]), old[i].hash) = old[i];
        s->used++;
    }
    probe__free(p, old, old_cap * sizeof *old);
    return true;
}

static bool room(probe *p, ppair *s)
{
    if (s->cap && (s->used + 1) * 4 <= s->cap * 3) return true;
    if (!s->cap) return rehash(p, s, FIRST_SLOTS);
    /* Slots whose pairs are over are only taken out here: grow when more than half of them are in use. */
    return rehash(p, s, s->n_open * 2 >= s->cap ? 2 * s->cap : s->cap);
}

/* *hash is 0 when all parts are null: such an event has no partner. */
static slice make_key(pctx *c, const pcolumns *by, uint64_t *hash)
{
    buf *b = &c->p->tmp;
    pv v[PROBE_COLUMNS_MAX];
    for (uint32_t i = 0; i < by->n; i++)
        v[i] = probe__value(c, by->e[i]);
    buf_reset(b);
    uint32_t nulls = 0;
    for (uint32_t i = 0; i < by->n; i++) {
        nulls += v[i].type == PV_NULL;
        probe__key_put(b, v[i]);
    }
    *hash = hash_bytes(buf_view(b), 0x5EED) | 1;
    if (nulls == by->n) *hash = 0;
    return buf_view(b);
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
    uint64_t hash;
    if (!room(p, s)) {
        s->dropped++;
        return;
    }
    slice key = make_key(c, &n->by, &hash);
    if (!hash) {
        s->keyless++;
        return;
    }
    pslot *at = find(s, key, hash);
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
            at->key = probe__alloc(p, key.n);
            if (!at->key) {
                s->dropped++;
                open_free(p, s, o, true);
                return;
            }
        }
        memcpy(at->key ? at->key : at->small, key.p, key.n);
        at->key_n = (uint32_t)key.n;
        at->hash = hash;
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
    uint64_t hash;
    slice key = make_key(c, n->by_stop.n ? &n->by_stop : &n->by, &hash);
    if (!hash) {
        s->keyless++;
        return;
    }
    pslot *at = s->cap ? find(s, key, hash) : NULL;
    pwait *o = at ? at->top : NULL;
    if (!o) {
        s->unmatched++;
        return;
    }
    at->top = o->next;
    s->n_open--;
    const pctx outer = *c;
    c->start = o->row ? o->row->v : NULL;
    c->paired = true;
    c->duration_ns = nt_ns(c->trace, c->ev->ts) - nt_ns(c->trace, o->ts);
    if (!n->where || pv_true(probe__value(c, n->where))) {
        s->pairs++;
        probe__run(c, &n->kids, kids);
    }
    c->start = outer.start;
    c->paired = outer.paired;
    c->duration_ns = outer.duration_ns;
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
