/* SPDX-License-Identifier: MIT */
/* layout.c: raw trees, and what becomes of them: flat arrays in preorder, the heaviest child first. */
#include <stdlib.h>

#include "profile/profile_internal.h"

/* ---- raw trees --------------------------------------------------------------------------------------------------- */

static bool grow_raw(pf_raw *r)
{
    uint32_t cap = r->cap + r->cap / 2 + 64;
    if (cap < r->cap) return false;
    uint32_t *parent = mem_realloc(r->parent, cap * sizeof *parent);
    if (parent) r->parent = parent;
    uint32_t *frame = mem_realloc(r->frame, cap * sizeof *frame);
    if (frame) r->frame = frame;
    bool ok = parent && frame;
    for (int c = 0; c < PF_COLUMNS; c++) {
        if (!r->own[c]) continue;
        int64_t *own = mem_realloc(r->own[c], cap * sizeof *own);
        if (own) r->own[c] = own;
        ok = ok && own;
    }
    if (ok) r->cap = cap;
    return ok;
}

static uint32_t raw_hash(uint32_t parent, uint32_t frame) { return (uint32_t)hash_u64((uint64_t)parent << 32 | frame); }

static bool widen_raw(pf_raw *r)
{
    uint32_t slots = r->slots ? 2 * r->slots : 1024, mask = slots - 1;
    uint64_t *cells = slots ? mem_calloc(slots, sizeof *cells) : NULL;
    if (!cells) return false;
    for (uint32_t i = 0; i < r->slots; i++) {
        if (!r->cells[i]) continue;
        uint32_t k = (uint32_t)(r->cells[i] >> 32) & mask;
        while (cells[k])
            k = (k + 1) & mask;
        cells[k] = r->cells[i];
    }
    free(r->cells);
    r->cells = cells;
    r->slots = slots;
    return true;
}

static void set_raw(pf_raw *r, uint32_t i, uint32_t parent, uint32_t frame)
{
    r->parent[i] = parent;
    r->frame[i] = frame;
    for (int c = 0; c < PF_COLUMNS; c++)
        if (r->own[c]) r->own[c][i] = 0;
}

bool pf_raw_init(pf_raw *r, unsigned columns, uint32_t expect)
{
    *r = (pf_raw){.cap = expect + 1};
    r->parent = mem_alloc(r->cap * sizeof *r->parent);
    r->frame = mem_alloc(r->cap * sizeof *r->frame);
    for (r->slots = 1024; r->slots / 4 * 3 < r->cap && r->slots < 1u << 30;)
        r->slots *= 2;
    r->cells = mem_calloc(r->slots, sizeof *r->cells);
    bool ok = r->parent && r->frame && r->cells;
    for (unsigned c = 0; c < PF_COLUMNS; c++) {
        if (!(columns & 1u << c)) continue;
        r->own[c] = mem_alloc(r->cap * sizeof *r->own[c]);
        ok = ok && r->own[c];
    }
    if (!ok) {
        pf_raw_fini(r);
        return false;
    }
    set_raw(r, 0, 0, 0);
    r->n = 1;
    return true;
}

void pf_raw_fini(pf_raw *r)
{
    free(r->parent);
    free(r->frame);
    free(r->cells);
    for (int c = 0; c < PF_COLUMNS; c++)
        free(r->own[c]);
    *r = (pf_raw){0};
}

uint32_t pf_raw_child(pf_raw *r, uint32_t parent, uint32_t frame)
{
    if (r->n / 3 * 4 + 4 >= r->slots && !widen_raw(r)) return PF_NONE;
    uint32_t hash = raw_hash(parent, frame), mask = r->slots - 1, k = hash & mask;
    for (; r->cells[k]; k = (k + 1) & mask) {
        uint32_t i = (uint32_t)r->cells[k];
        if ((uint32_t)(r->cells[k] >> 32) == hash && r->parent[i] == parent && r->frame[i] == frame) return i;
    }
    if (r->n == r->cap && !grow_raw(r)) return PF_NONE;
    set_raw(r, r->n, parent, frame);
    r->cells[k] = (uint64_t)hash << 32 | r->n;
    return r->n++;
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

typedef struct order {
    const pf_raw *r;
    int64_t *sum[PF_SUMMED];
    uint32_t *from; /* by node: where its children begin in kids; from[i + 1]: their end */
    uint32_t *kids;
    uint32_t *number; /* by node: in preorder */
} order;

static void order_fini(order *o)
{
    for (int c = 0; c < PF_SUMMED; c++)
        free(o->sum[c]);
    free(o->from);
    free(o->kids);
    free(o->number);
}

static bool sum_up(order *o)
{
    const pf_raw *r = o->r;
    for (int c = 0; c < PF_SUMMED; c++) {
        if (!r->own[c]) continue;
        int64_t *sum = o->sum[c] = mem_alloc(r->n * sizeof *sum);
        if (!sum) return false;
        memcpy(sum, r->own[c], r->n * sizeof *sum);
        for (uint32_t i = r->n; i-- > 1;)
            sum[r->parent[i]] += sum[i];
    }
    return true;
}

/* Less than 0: a comes first. What only the other side of a comparison has comes by that side's weight. */
static int compare_nodes(const order *o, uint32_t a, uint32_t b)
{
    for (int c = 0; c < PF_SUMMED; c++) {
        const int64_t *sum = o->sum[c];
        if (sum && sum[a] != sum[b]) return sum[a] > sum[b] ? -1 : 1;
    }
    uint32_t x = o->r->frame[a], y = o->r->frame[b];
    return x < y ? -1 : x > y;
}

static int by_weight(const void *a, const void *b, void *arg)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return compare_nodes(arg, x, y);
}

#define FEW 12
static void sort_kids(order *o, uint32_t *kids, uint32_t n)
{
    if (n > FEW) {
        qsort_r(kids, n, sizeof *kids, by_weight, o);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        uint32_t k = kids[i], at = i;
        for (; at > 0 && compare_nodes(o, k, kids[at - 1]) < 0; at--)
            kids[at] = kids[at - 1];
        kids[at] = k;
    }
}

static bool collect_kids(order *o)
{
    const pf_raw *r = o->r;
    uint32_t *from = o->from = mem_calloc((size_t)r->n + 2, sizeof *from);
    o->kids = mem_alloc(r->n * sizeof *o->kids);
    if (!from || !o->kids) return false;
    for (uint32_t i = 1; i < r->n; i++)
        from[r->parent[i] + 2]++;
    for (uint32_t i = 0; i < r->n; i++)
        from[i + 2] += from[i + 1]; /* from[i + 1]: where the children of i go on */
    for (uint32_t i = 1; i < r->n; i++)
        o->kids[from[r->parent[i] + 1]++] = i;
    for (uint32_t i = 0; i < r->n; i++)
        sort_kids(o, o->kids + from[i], from[i + 1] - from[i]);
    return true;
}

/* Preorder numbers, without recursion: the list of those that wait holds brothers, the heaviest on top. */
static bool number_nodes(order *o)
{
    const pf_raw *r = o->r;
    uint32_t *waiting = mem_alloc(r->n * sizeof *waiting), n = 0, next = 0;
    o->number = mem_alloc(r->n * sizeof *o->number);
    if (!waiting || !o->number) {
        free(waiting);
        return false;
    }
    waiting[n++] = 0;
    while (n > 0) {
        uint32_t i = waiting[--n];
        o->number[i] = next++;
        for (uint32_t k = o->from[i + 1]; k > o->from[i]; k--)
            waiting[n++] = o->kids[k - 1];
    }
    free(waiting);
    return true;
}

static int64_t *reordered(profile *p, const order *o, const int64_t *in)
{
    int64_t *out = mem_alloc(p->n * sizeof *out);
    for (uint32_t i = 0; out && i < p->n; i++)
        out[o->number[i]] = in[i];
    p->info.memory += p->n * sizeof *out;
    return out;
}

static bool place(profile *p, const order *o)
{
    const pf_raw *r = o->r;
    p->n = r->n;
    p->parent = mem_alloc(p->n * sizeof *p->parent);
    p->size = mem_alloc(p->n * sizeof *p->size);
    p->frame = mem_alloc(p->n * sizeof *p->frame);
    if (!p->parent || !p->size || !p->frame) return false;
    p->info.memory += p->n * (sizeof *p->parent + sizeof *p->size + sizeof *p->frame);
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t at = o->number[i];
        p->parent[at] = o->number[r->parent[i]];
        p->frame[at] = r->frame[i];
        p->size[at] = 1;
    }
    for (uint32_t i = p->n; i-- > 1;)
        p->size[p->parent[i]] += p->size[i];
    for (int c = 0; c < PF_COLUMNS; c++) {
        if (r->own[c] && !(p->own[c] = reordered(p, o, r->own[c]))) return false;
        if (c < PF_SUMMED && r->own[c] && !(p->sum[c] = reordered(p, o, o->sum[c]))) return false;
    }
    return true;
}

bool pf_layout(profile *p, const pf_raw *r)
{
    order o = {.r = r};
    bool ok = sum_up(&o) && collect_kids(&o) && number_nodes(&o) && place(p, &o);
    order_fini(&o);
    return ok;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

profile_counts pf_counts(const profile *p, uint32_t i)
{
    profile_counts c = {.inclusive = p->sum[PF_SAMPLES][i], .exclusive = p->own[PF_SAMPLES][i]};
    if (p->own[PF_RUNNING]) c.running = p->own[PF_RUNNING][i];
    if (p->own[PF_WAITING]) c.waiting = p->own[PF_WAITING][i];
    if (p->own[PF_WEIGHT]) {
        c.inclusive_weight = p->sum[PF_WEIGHT][i];
        c.exclusive_weight = p->own[PF_WEIGHT][i];
    }
    return c;
}

bool pf_tally_init(pf_tally *t, uint32_t keys)
{
    t->counts = mem_calloc(keys ? keys : 1, sizeof *t->counts);
    t->until = mem_calloc(keys ? keys : 1, sizeof *t->until);
    if (t->counts && t->until) return true;
    pf_tally_fini(t);
    return false;
}

void pf_tally_fini(pf_tally *t)
{
    free(t->counts);
    free(t->until);
    *t = (pf_tally){0};
}

bool pf_count_frames(profile *p)
{
    pf_tally t;
    if (!pf_tally_init(&t, p->n_frames)) return false;
    for (uint32_t i = 0; i < p->n; i++)
        pf_tally_add(&t, p, p->frame[i], i);
    for (uint32_t i = 0; i < p->n_frames; i++)
        p->frames[i].counts = t.counts[i];
    pf_tally_fini(&t);
    return true;
}
