/* SPDX-License-Identifier: MIT */
/* group.c: a block of reducers for each key. Keys are bytes: for each value a type and what it holds, texts as the
 * stream has them. When all places are taken the lighter half of the keys goes, merged into `other`. */
#include <stdlib.h>

#include "probe/hot.h"

#define FIRST_SLOTS 64u
#define ROOMY_SLOTS 1024u /* up to here a quarter of the slots is used, then half: collisions cost more than memory */

void probe__key_put(buf *b, pv v)
{
    uint32_t n = v.n > PROBE_TEXT_MAX ? PROBE_TEXT_MAX : v.n;
    (void)buf_u8(b, v.type);
    if (v.type == PV_NULL) return;
    if (!pv_has_bytes(v)) {
        (void)buf_put(b, &v.i, sizeof v.i);
        return;
    }
    (void)buf_put(b, &n, sizeof n);
    (void)buf_put(b, v.p, n);
}

static uint64_t hash_words(const uint64_t *w, uint32_t n)
{
    uint64_t h = PROBE_KEY_SEED ^ n;
    for (uint32_t i = 0; i < n; i += 8, w++) {
        h = (h ^ *w) * 0x9FB21C651E98DF25ull;
        h ^= h >> 32;
    }
    h *= 0xD6E8FEB86659FD93ull;
    return (h ^ h >> 29) | 1;
}

static __attribute__((noinline)) void key_of_many(pctx *c, const pcolumns *cols, pkey *k)
{
    pv many[PROBE_COLUMNS_MAX], *v = many;
    size_t need = 0;
    k->nulls = 0;
    for (uint32_t i = 0; i < cols->n; i++) { /* first: expressions use the buffer too */
        v[i] = probe__value(c, cols->e[i]);
        k->nulls += v[i].type == PV_NULL;
        need += 9 + (pv_has_bytes(v[i]) ? v[i].n : 0);
    }
    if (need > PROBE_KEY_SMALL) {
        buf *b = &c->p->tmp;
        buf_reset(b);
        for (uint32_t i = 0; i < cols->n; i++)
            probe__key_put(b, v[i]);
        k->n = (uint32_t)b->n;
        (void)buf_u64(b, 0); /* the padding */
        k->p = b->p;
        k->hash = hash_bytes(slice_of(k->p, k->n), PROBE_KEY_SEED) | 1;
        return;
    }
    uint8_t *small = (uint8_t *)c->p->key_words, *at = small;
    for (uint32_t i = 0; i < cols->n; i++) {
        *at++ = v[i].type;
        if (v[i].type == PV_NULL) continue;
        if (pv_has_bytes(v[i])) {
            memcpy(at, &v[i].n, sizeof v[i].n);
            memcpy(at + sizeof v[i].n, v[i].p, v[i].n);
            at += sizeof v[i].n + v[i].n;
        } else {
            memcpy(at, &v[i].i, sizeof v[i].i);
            at += sizeof v[i].i;
        }
    }
    memset(at, 0, 8);
    k->p = small;
    k->n = (uint32_t)(at - small);
    k->hash = hash_words(c->p->key_words, k->n);
}

static uint64_t hash_text(const uint8_t *p, uint32_t n, uint8_t type)
{
    uint64_t h = PROBE_KEY_SEED, w[2] = {0};
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        h = probe__mix(h, probe__load64(p + i), probe__load64(p + i + 8));
    if (i < n) {
        memcpy(w, p + i, n - i);
        h = probe__mix(h, w[0], w[1]);
    }
    return probe__hash_end(h, n, type);
}

void probe__key_slow(pctx *c, const pcolumns *cols, pkey *k)
{
    if (cols->n == 1) {
        pv v = probe__value(c, cols->e[0]);
        k->nulls = v.type == PV_NULL;
        if (!pv_has_bytes(v)) {
            uint64_t i = v.type == PV_NULL ? 0 : (uint64_t)v.i;
            k->form = PK_WORD;
            k->word[0] = v.type | i << 8;
            k->word[1] = i >> 56;
            k->n = v.type == PV_NULL ? 1 : 9;
            k->hash = probe__hash_number(v);
            return;
        }
        if (v.n + 5 <= PROBE_KEY_SMALL) {
            k->form = PK_TEXT;
            k->one = v;
            k->n = v.n + 5;
            k->hash = v.symbol ? probe__symbol_of(v.p)->hash : hash_text(v.p, v.n, v.type);
            return;
        }
    }
    k->form = PK_BYTES;
    key_of_many(c, cols, k);
}

void probe__key_store(uint8_t *to, const pkey *k)
{
    memset(to + probe__key_room(k->n) - 8, 0, 8);
    switch ((pkey_form)k->form) {
    case PK_WORD: memcpy(to, k->word, k->n); break;
    case PK_TEXT:
        to[0] = k->one.type;
        memcpy(to + 1, &k->one.n, sizeof k->one.n);
        memcpy(to + 5, k->one.p, k->one.n);
        break;
    case PK_BYTES: memcpy(to, k->p, k->n); break;
    }
}

pv probe__key_next(const uint8_t **at, const uint8_t *end)
{
    pv v = pv_null();
    const uint8_t *p = *at;
    if (p >= end) return v;
    v.type = *p++;
    if (v.type != PV_NULL && !pv_has_bytes(v)) {
        memcpy(&v.i, p, sizeof v.i);
        p += sizeof v.i;
    } else if (v.type != PV_NULL) {
        memcpy(&v.n, p, sizeof v.n);
        v.cut = v.n == PROBE_TEXT_MAX;
        v.p = p + sizeof v.n;
        p += sizeof v.n + v.n;
    }
    *at = p;
    return v;
}

uint64_t probe__hash_value(pv v)
{
    if (pv_has_bytes(v)) return hash_bytes(slice_of(v.p, v.n), PROBE_KEY_SEED + v.type);
    return hash_bytes(slice_of((const uint8_t *)&v.i, sizeof v.i), PROBE_KEY_SEED + v.type);
}

static size_t entry_size(const pnode *n, uint32_t key_n)
{
    return sizeof(pentry) + n->kids.size + probe__key_room(key_n);
}

static inline pentry **find(const pnode *n, const pgroup *g, const pkey *k)
{
    uint32_t i = probe__home(k->hash, g->cap);
    for (;; i = (i + 1) & (g->cap - 1)) {
        pentry *e = g->slot[i];
        if (!e || (e->hash == k->hash && e->key_n == k->n && probe__key_is(probe__entry_key(n, e), k)))
            return &g->slot[i];
    }
}

static void entry_free(probe *p, const pnode *n, pentry *e)
{
    probe__fini(p, &n->kids, e->state);
    psymbol *s = e->symbol ? probe__symbol_of(e->symbol) : NULL;
    if (s && s->seen[n->seen].entry == e) s->seen[n->seen].in = NULL;
    probe__free(p, e, entry_size(n, e->key_n));
}

static bool rehash(probe *p, pgroup *g, uint32_t cap)
{
    pentry **slot = probe__alloc(p, cap * sizeof *slot);
    if (!slot) return false;
    for (uint32_t i = 0; i < g->cap; i++) {
        pentry *e = g->slot[i];
        if (!e) continue;
        uint32_t k = probe__home(e->hash, cap);
        while (slot[k])
            k = (k + 1) & (cap - 1);
        slot[k] = e;
    }
    probe__free(p, g->slot, g->cap * sizeof *g->slot);
    g->slot = slot;
    g->cap = cap;
    return true;
}

static uint8_t *other_of(probe *p, const pnode *n, pgroup *g)
{
    if (!g->other) g->other = probe__alloc(p, n->kids.size + 8);
    return g->other;
}

static int lighter(const void *a, const void *b)
{
    const pentry *x = *(pentry *const *)a, *y = *(pentry *const *)b;
    return (x->weight > y->weight) - (x->weight < y->weight);
}

static void evict(probe *p, const pnode *n, pgroup *g)
{
    pentry **all = mem_alloc(g->n * sizeof *all);
    uint8_t *other = other_of(p, n, g);
    if (!all || !other) {
        free(all);
        return;
    }
    uint32_t k = 0;
    for (uint32_t i = 0; i < g->cap; i++)
        if (g->slot[i]) all[k++] = g->slot[i];
    qsort(all, k, sizeof *all, lighter);
    memset(g->slot, 0, g->cap * sizeof *g->slot);
    uint32_t gone = k - k / 2;
    for (uint32_t i = 0; i < k; i++) {
        pentry *e = all[i];
        if (i < gone) {
            probe__merge(p, &n->kids, other, e->state);
            g->other_n += e->n;
            g->other_weight += e->weight;
            entry_free(p, n, e);
            continue;
        }
        uint32_t at = probe__home(e->hash, g->cap);
        while (g->slot[at])
            at = (at + 1) & (g->cap - 1);
        g->slot[at] = e;
    }
    g->n = k - gone;
    g->evicted += gone;
    free(all);
}

/* The entry of a key, made if need be; NULL: past a cap. */
static __attribute__((noinline)) pentry *new_entry(probe *p, const pnode *n, pgroup **at, const pkey *k)
{
    pgroup *g = *at;
    if (!g) {
        g = *at = probe__alloc(p, sizeof *g);
        if (!g) return NULL;
    }
    if (!g->cap && !rehash(p, g, FIRST_SLOTS)) return NULL;
    pentry **slot = find(n, g, k);
    if (*slot) return *slot;
    if (g->n >= n->max) {
        evict(p, n, g);
        if (g->n >= n->max) return NULL;
        slot = find(n, g, k);
    }
    if ((g->n + 1) * (g->cap < ROOMY_SLOTS ? 4 : 2) > g->cap) {
        if (!rehash(p, g, 2 * g->cap)) return NULL;
        slot = find(n, g, k);
    }
    pentry *e = probe__alloc(p, entry_size(n, k->n));
    if (!e) return NULL;
    e->hash = k->hash;
    e->key_n = k->n;
    e->partial = g->evicted > 0 || g->refused > 0;
    e->born = p->order;
    e->symbol = k->form == PK_TEXT && k->one.symbol ? k->one.p : NULL;
    probe__key_store(e->state + n->kids.size, k);
    g->n++;
    return *slot = e;
}

static inline pentry *entry_of(probe *p, const pnode *n, pgroup **at, const pkey *k)
{
    pentry *e = *at && (*at)->cap ? *find(n, *at, k) : NULL;
    return e ? e : new_entry(p, n, at, k);
}

/* Any key, and one that is not there yet. NULL: past a cap. */
static __attribute__((noinline)) pentry *entry_now(pctx *c, const pnode *n, pgroup **at)
{
    pkey key;
    probe__key(c, &n->by, &key);
    pentry *e = entry_of(c->p, n, at, &key);
    if (e && !e->symbol && key.form == PK_TEXT && key.one.symbol) e->symbol = key.one.p;
    return e;
}

/* The entry of a symbol that another group looked for since, or nobody. NULL: look for it by its bytes. */
static __attribute__((noinline)) pentry *find_symbol(const pnode *n, const pgroup *g, psymbol *s)
{
    uint32_t i = probe__home(s->hash, g->cap);
    pentry *e;
    while ((e = g->slot[i]) && e->symbol != s->text)
        i = (i + 1) & (g->cap - 1);
    s->seen[n->seen].in = e ? g : NULL;
    s->seen[n->seen].entry = e;
    return e;
}

/* The entry of a symbol; NULL: as find_symbol. */
static inline pentry *entry_of_symbol(const pnode *n, const pgroup *g, pv v)
{
    psymbol *s = probe__symbol_of(v.p);
    return LIKELY(s->seen[n->seen].in == g) ? s->seen[n->seen].entry : find_symbol(n, g, s);
}

/* The key holds a place no more; its events count in `other`. */
static __attribute__((noinline)) void add_to_other(pctx *c, const pnode *n, pgroup *g, double weight)
{
    uint8_t *other = other_of(c->p, n, g);
    g->refused++;
    if (!other) return;
    g->other_n++;
    g->other_weight += weight;
    probe__run(c, &n->kids, other);
}

void probe__group_add(pctx *c, const pnode *n, pgroup **at)
{
    pentry *e = NULL;
    const pgroup *g = *at;
    if (LIKELY(n->by.n == 1 && g && g->cap)) { /* most groups are by a name */
        pv v = probe__value(c, n->by.e[0]);
        if (v.symbol) e = entry_of_symbol(n, g, v);
    }
    if (UNLIKELY(!e)) e = entry_now(c, n, at);
    double weight = 1;
    if (n->weight && !pv_number(probe__value(c, n->weight), &weight)) weight = 0;
    if (LIKELY(e != NULL)) {
        e->n++;
        e->weight += weight;
        probe__run_here(c, &n->kids, e->state);
    } else if (*at)
        add_to_other(c, n, *at, weight);
}

void probe__group_fini(probe *p, const pnode *n, pgroup **at)
{
    pgroup *g = *at;
    if (!g) return;
    for (uint32_t i = 0; i < g->cap; i++)
        if (g->slot[i]) entry_free(p, n, g->slot[i]);
    if (g->other) probe__fini(p, &n->kids, g->other);
    probe__free(p, g->other, n->kids.size + 8);
    probe__free(p, g->slot, g->cap * sizeof *g->slot);
    probe__free(p, g, sizeof *g);
    *at = NULL;
}

void probe__group_merge(probe *p, const pnode *n, pgroup **into, const pgroup *from)
{
    if (!from) return;
    for (uint32_t i = 0; i < from->cap; i++) {
        const pentry *e = from->slot[i];
        if (!e) continue;
        const pkey key = {.form = PK_BYTES, .n = e->key_n, .hash = e->hash, .p = probe__entry_key(n, e)};
        pentry *mine = entry_of(p, n, into, &key);
        if (!mine) {
            uint8_t *other = *into ? other_of(p, n, *into) : NULL;
            if (!other) continue;
            (*into)->refused += e->n;
            (*into)->other_n += e->n;
            (*into)->other_weight += e->weight;
            probe__merge(p, &n->kids, other, e->state);
            continue;
        }
        mine->n += e->n;
        mine->weight += e->weight;
        mine->partial |= e->partial;
        probe__merge(p, &n->kids, mine->state, e->state);
    }
    if (!from->other) return;
    if (!*into) *into = probe__alloc(p, sizeof **into);
    uint8_t *other = *into ? other_of(p, n, *into) : NULL;
    if (!other) return;
    (*into)->other_n += from->other_n;
    (*into)->other_weight += from->other_weight;
    (*into)->evicted += from->evicted;
    (*into)->refused += from->refused;
    probe__merge(p, &n->kids, other, from->other);
}
