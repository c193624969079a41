/* SPDX-License-Identifier: MIT */
/* pair.c: starts wait under their key for the stop; what a stop meets runs the reducers of the pair. */
#include <stdlib.h>

#include "probe/hot.h"

#define FIRST_SLOTS 64u
#define ROOMY_SLOTS 1024u /* up to here a quarter of the slots is used, then half: collisions cost more than memory */
#define SPARE_MAX   64u   /* nested starts that one key may have open */

static const uint8_t *key_of(const pslot *s) { return s->key ? s->key : (const uint8_t *)s->small; }

static inline pslot *find(const ppair *s, const pkey *k)
{
    uint32_t i = probe__home(k->hash, s->cap);
    for (;; i = (i + 1) & (s->cap - 1)) {
        pslot *at = &s->slot[i];
        if (at->hash == 0 || (at->hash == k->hash && at->key_n == k->n && probe__key_is(key_of(at), k))) return at;
    }
}

/* Is the key of cols now one whole number? */
static inline bool is_number(pctx *c, const pcolumns *cols, int64_t *key)
{
    if (cols->n != 1) return false;
    pv v = probe__value(c, cols->e[0]);
    *key = v.i;
    return v.type == PV_INT;
}

pslot *probe__slot_search(const ppair *s, pslot *at, int64_t key, uint64_t hash)
{
    while (at->hash != 0 && !(at->hash == hash && at->small[0] == probe__number_key(key)))
        at = probe__slot_next(s, at);
    return at;
}

void probe__slot_key_free(probe *p, pslot *s)
{
    if (s->key) probe__free(p, s->key, probe__key_room(s->key_n));
    s->key = NULL;
}

void probe__slot_close(ppair *s, uint32_t hole)
{
    uint32_t mask = s->cap - 1;
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
    s->last = slot + cap - 1;
    s->cap = cap;
    s->limit = cap / (cap <= ROOMY_SLOTS ? 4 : 2);
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
    if (s->used < s->limit) return true;
    return rehash(p, s, s->cap ? 2 * s->cap : FIRST_SLOTS);
}

static void wait_free(probe *p, pwait *o)
{
    probe__row_free(p, o->row);
    probe__free(p, o, sizeof *o);
}

bool probe__make_way(probe *p, const pnode *n, ppair *s, pslot *at)
{
    (void)p;
    if (!n->nested) {
        pwait *o = at->top;
        at->top = NULL;
        s->n_open--;
        s->replaced++;
        o->next = s->spare;
        s->spare = o;
        return true;
    }
    uint32_t depth = 0;
    for (const pwait *o = at->top; o && depth < SPARE_MAX; o = o->next)
        depth++;
    return depth < SPARE_MAX;
}

/* A row that was used before has room for all but texts. */
bool probe__capture_row(pctx *c, const pnode *n, pwait *o)
{
    o->row = probe__row(c, &n->captured, o->row);
    o->kept = o->row ? o->row->v : NULL;
    return o->row != NULL;
}

/* Writes a key of any sort into an empty slot. */
static bool take_key(probe *p, ppair *s, pslot *at, const pkey *k)
{
    if (k->n > sizeof at->small) {
        at->key = probe__alloc(p, probe__key_room(k->n));
        if (!at->key) return false;
        at->small[0] = 0; /* of an earlier key of one number: probe__slot_search looks at nothing else */
    }
    probe__key_store(at->key ? at->key : (uint8_t *)at->small, k);
    at->key_n = k->n;
    at->hash = k->hash;
    s->used++;
    return true;
}

/* A start of any key. */
static __attribute__((noinline)) void begin_any(pctx *c, const pnode *n, ppair *s)
{
    pkey key;
    probe__key(c, &n->by, &key);
    if (key.nulls == n->by.n) { /* nothing to find a partner by */
        s->keyless++;
        return;
    }
    pslot *at = find(s, &key);
    bool kept = (!at->top || probe__make_way(c->p, n, s, at)) && (at->hash != 0 || take_key(c->p, s, at, &key)) &&
                probe__wait_at(c, n, s, at);
    if (kept) return;
    s->dropped++;
    if (at->hash != 0 && !at->top) probe__slot_free(c->p, s, at);
}

static void begin(pctx *c, const pnode *n, ppair *s)
{
    int64_t key;
    if (UNLIKELY(s->used >= s->limit) && !room(c->p, s))
        s->dropped++;
    else if (is_number(c, &n->by, &key))
        probe__begin_number(c, n, s, key);
    else
        begin_any(c, n, s);
}

/* The slot of a key of any sort; NULL: there is none. */
static __attribute__((noinline)) pslot *find_any(pctx *c, const pcolumns *by, ppair *s)
{
    pkey key;
    probe__key(c, by, &key);
    if (key.nulls == by->n) {
        s->keyless++;
        return NULL;
    }
    pslot *at = s->cap ? find(s, &key) : NULL;
    if (at && at->top) return at;
    s->unmatched++;
    return NULL;
}

static void end(pctx *c, const pnode *n, ppair *s, uint8_t *kids)
{
    const pcolumns *by = n->by_stop.n ? &n->by_stop : &n->by;
    int64_t key;
    if (is_number(c, by, &key)) {
        if (s->cap)
            probe__end_number(c, n, s, key, kids, false);
        else
            s->unmatched++;
        return;
    }
    pslot *at = find_any(c, by, s);
    if (at) probe__meet(c, n, s, at, kids, false);
}

/* The pair at that state, made if need be; NULL: past the memory cap. */
static inline ppair *pair_of(probe *p, uint8_t *state)
{
    ppair **at = (ppair **)(void *)state;
    return __builtin_expect(*at != NULL, 1) ? *at : (*at = probe__alloc(p, sizeof **at));
}

void probe__pair_start(pctx *c, const pnode *n, uint8_t *state)
{
    ppair *s = pair_of(c->p, state);
    if (s) begin(c, n, s);
}

void probe__pair_stop(pctx *c, const pnode *n, uint8_t *state)
{
    ppair *s = pair_of(c->p, state);
    if (s) end(c, n, s, state + sizeof s);
}

void probe__pair_run(pctx *c, const pnode *n, uint8_t *state)
{
    if (n->stop & c->kind->on) probe__pair_stop(c, n, state);
    if (n->start & c->kind->on) probe__pair_start(c, n, state);
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
            wait_free(p, o);
            o = next;
        }
        probe__slot_key_free(p, &s->slot[i]);
    }
    while (s->spare) {
        pwait *next = s->spare->next;
        wait_free(p, s->spare);
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
