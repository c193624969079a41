/* SPDX-License-Identifier: MIT */
/* rows.c: values that are kept: rows of first, last, top and value, and what a pair keeps of its starts. A row is one
 * allocation with its texts behind it. */
#include <stdlib.h>

#include "probe/hot.h"

#define RING_FIRST 16u

static uint32_t kept_bytes(const probe *p, pv v)
{
    uint32_t n = v.n > p->text_max ? p->text_max : v.n;
    return v.type == PV_TEXT16 ? n & ~1u : n;
}

void probe__row_free(probe *p, prow *r)
{
    if (r) probe__free(p, r, r->cap);
}

/* A row of n values whose texts take `bytes`; reuse (may be NULL) is taken when it is large enough, else freed. */
static prow *row_of(probe *p, const pv *v, uint32_t n, prow *reuse)
{
    size_t need = sizeof(prow) + n * sizeof(pv);
    for (uint32_t i = 0; i < n; i++)
        if (pv_has_bytes(v[i]) && !v[i].symbol) need += kept_bytes(p, v[i]);
    prow *r = reuse;
    if (!r || r->cap < need) {
        size_t cap = (need + 31) & ~(size_t)31;
        probe__row_free(p, reuse);
        r = probe__alloc(p, cap);
        if (!r) return NULL;
        r->cap = (uint32_t)cap;
    }
    r->n = n;
    uint8_t *text = (uint8_t *)(r->v + n);
    for (uint32_t i = 0; i < n; i++) {
        r->v[i] = v[i];
        if (!pv_has_bytes(v[i]) || v[i].symbol) continue;
        uint32_t bytes = kept_bytes(p, v[i]);
        memcpy(text, v[i].p, bytes);
        r->v[i].p = text;
        r->v[i].cut = v[i].cut || bytes < v[i].n;
        r->v[i].n = bytes;
        text += bytes;
    }
    return r;
}

/* Writes straight into a row that is used again; false: a text does not fit. */
static bool refill(pctx *c, const pcolumns *cols, prow *r)
{
    uint8_t *text = (uint8_t *)(r->v + cols->n), *end = (uint8_t *)r + r->cap;
    if (text > end) return false;
    for (uint32_t i = 0; i < cols->n; i++) {
        pv v = probe__value(c, cols->e[i]);
        if (pv_has_bytes(v) && !v.symbol) {
            if (v.n > c->p->text_max || v.n > (size_t)(end - text)) return false;
            probe__copy(text, v.p, v.n);
            v.p = text;
            text += v.n;
        }
        r->v[i] = v;
    }
    r->n = cols->n;
    return true;
}

static __attribute__((noinline)) prow *fresh_row(pctx *c, const pcolumns *cols, prow *reuse)
{
    pv v[PROBE_COLUMNS_MAX];
    for (uint32_t i = 0; i < cols->n; i++)
        v[i] = probe__value(c, cols->e[i]);
    prow *r = row_of(c->p, v, cols->n, reuse);
    if (r) r->order = c->p->order;
    return r;
}

prow *probe__row(pctx *c, const pcolumns *cols, prow *reuse)
{
    if (reuse && refill(c, cols, reuse)) {
        reuse->order = c->p->order;
        return reuse;
    }
    return fresh_row(c, cols, reuse);
}

/* ---- events kept as they came ------------------------------------------------------------------------------------ */
static void raw_fill(pctx *c, const pnode *n, prow *r)
{
    const nt_event *ev = c->ev;
    for (uint32_t i = 0; i < n->n_fields; i++)
        if (c->kind->place[n->fields[i]].how == PF_NONE) c->kind->missing[n->fields[i]]++;
    praw *w = probe__raw_head(r, c->p->order, c->kind, ev);
    w->has_activity = ev->activity != NULL;
    w->has_related = ev->related != NULL;
    if (ev->activity) memcpy(w->activity, ev->activity, 16);
    if (ev->related) memcpy(w->related, ev->related, 16);
    if (w->n) memcpy(w->payload, ev->payload.p, w->n);
}

static prow *raw_row(pctx *c, const pnode *n, prow *r)
{
    size_t need = sizeof(prow) + sizeof(praw) + c->ev->payload.n;
    if (!r || r->cap < need) {
        size_t cap = (need + 63) & ~(size_t)63;
        probe__row_free(c->p, r);
        r = probe__alloc(c->p, cap);
        if (!r) return NULL;
        r->cap = (uint32_t)cap;
    }
    raw_fill(c, n, r);
    return r;
}

static prow *raw_copy(probe *p, const prow *r)
{
    const praw *w = (const praw *)(const void *)r->v;
    size_t size = sizeof *r + sizeof *w + w->n;
    prow *copy = probe__alloc(p, size);
    if (!copy) return NULL;
    memcpy(copy, r, size);
    copy->cap = (uint32_t)size;
    return copy;
}

prow *probe__row_copy(probe *p, const prow *r)
{
    if (r->n == PROW_RAW) return raw_copy(p, r);
    prow *copy = row_of(p, r->v, r->n, NULL);
    if (!copy) return NULL;
    copy->key = r->key;
    copy->order = r->order;
    return copy;
}

void probe__raw_begin(probe *p, const prow *r, praw_look *look)
{
    const praw *w = (const praw *)(const void *)r->v;
    look->was = p->ctx;
    look->ev = (nt_event){.kind = w->kind->kind,
                          .ts = w->ts,
                          .thread = w->thread,
                          .activity = w->has_activity ? w->activity : NULL,
                          .related = w->has_related ? w->related : NULL,
                          .payload = slice_of(w->payload, w->n)};
    p->ctx = (pctx){.looking_back = true,
                    .p = p,
                    .kind = w->kind,
                    .ev = &look->ev,
                    .reader = look->was.reader,
                    .trace = look->was.trace};
    p->order++; /* nothing in the cache is of this event */
    p->scratch_n = 0;
}

void probe__raw_end(probe *p, const praw_look *look) { p->ctx = look->was; }

/* ---- collections ------------------------------------------------------------------------------------------------- */
static bool grow(probe *p, prows *s, uint32_t max)
{
    if (s->n < s->cap) return true;
    uint32_t cap = s->cap ? 2 * s->cap : RING_FIRST;
    if (cap > max) cap = max;
    if (!probe__charge(p, (cap - s->cap) * sizeof *s->p)) return false;
    prow **grown = mem_realloc(s->p, cap * sizeof *grown);
    if (!grown) {
        p->memory -= (cap - s->cap) * sizeof *s->p;
        return false;
    }
    s->p = grown;
    s->cap = cap;
    return true;
}

static void sift_down(prows *s, uint32_t i)
{
    for (;;) {
        uint32_t least = i, left = 2 * i + 1;
        for (uint32_t k = left; k < left + 2 && k < s->n; k++)
            if (s->p[k]->key < s->p[least]->key) least = k;
        if (least == i) return;
        prow *t = s->p[i];
        s->p[i] = s->p[least];
        s->p[least] = t;
        i = least;
    }
}

static void sift_up(prows *s, uint32_t i)
{
    while (i > 0 && s->p[i]->key < s->p[(i - 1) / 2]->key) {
        prow *t = s->p[i];
        s->p[i] = s->p[(i - 1) / 2];
        s->p[(i - 1) / 2] = t;
        i = (i - 1) / 2;
    }
}

static uint32_t wanted(const pnode *n) { return n->op == PROBE_VALUE ? 1 : n->n; }

/* Takes the row that has to go for another one; NULL: none has to, there is room (or the new one is not wanted: *skip).
 */
static prow *make_room(const pnode *n, prows *s, double key, bool *skip)
{
    *skip = false;
    bool full = s->n >= wanted(n) || (n->op == PROBE_TOP && s->bytes > PROBE_ROWS_BYTES);
    if (s->n == 0 || !full) return NULL;
    if (n->op == PROBE_FIRST || (n->op == PROBE_TOP && key <= s->p[0]->key)) {
        *skip = true;
        return NULL;
    }
    prow *r = s->p[n->op == PROBE_TOP ? 0 : s->head];
    s->bytes -= r->cap;
    return r;
}

/* Puts a row in the place that make_room left, or behind the others. */
static void put(const pnode *n, prows *s, prow *r, bool replaces)
{
    s->bytes += r->cap;
    if (n->op == PROBE_TOP) {
        uint32_t at = replaces ? 0 : s->n++;
        s->p[at] = r;
        if (replaces)
            sift_down(s, 0);
        else
            sift_up(s, at);
    } else if (replaces) {
        s->p[s->head] = r;
        s->head = (s->head + 1) % s->n;
    } else
        s->p[s->n++] = r;
}

static void reverse(prow **p, uint32_t n)
{
    for (uint32_t i = 0; i < n / 2; i++) {
        prow *t = p[i];
        p[i] = p[n - 1 - i];
        p[n - 1 - i] = t;
    }
}

/* Turns a ring so that its oldest row is first. */
static void turn(prows *s)
{
    reverse(s->p, s->head);
    reverse(s->p + s->head, s->n - s->head);
    reverse(s->p, s->n);
    s->head = 0;
}

/* The place of a row that was taken out and cannot be filled. */
static void close_gap(const pnode *n, prows *s)
{
    if (n->op == PROBE_TOP) {
        s->p[0] = s->p[--s->n];
        sift_down(s, 0);
        return;
    }
    turn(s);
    s->n--;
    memmove(s->p, s->p + 1, s->n * sizeof *s->p);
}

/* A ring over its bytes loses its oldest eighth at once: one by one would turn it for every event. */
static void shed(probe *p, const pnode *n, prows *s)
{
    if (n->op != PROBE_LAST || s->n == 0) return;
    uint32_t gone = s->n / 8 + 1;
    turn(s);
    for (uint32_t i = 0; i < gone; i++) {
        s->bytes -= s->p[i]->cap;
        probe__row_free(p, s->p[i]);
    }
    s->n -= gone;
    s->dropped += gone;
    memmove(s->p, s->p + gone, s->n * sizeof *s->p);
}

void probe__rows_add(pctx *c, const pnode *n, prows *s)
{
    probe *p = c->p;
    double key = 0;
    bool skip;
    if (n->op == PROBE_TOP) {
        if (!pv_number(probe__value(c, n->e), &key) || key != key) return;
    } else if (n->op == PROBE_VALUE && probe__value(c, n->row.e[0]).type == PV_NULL)
        return;
    s->seen++;
    if (s->bytes > PROBE_ROWS_BYTES) shed(p, n, s);
    prow *old = make_room(n, s, key, &skip);
    if (skip) {
        s->dropped++;
        return;
    }
    if (old && n->op != PROBE_VALUE) s->dropped++;
    bool replaces = old != NULL;
    if (!replaces && !grow(p, s, wanted(n))) {
        s->dropped++;
        return;
    }
    prow *r = s->bytes > PROBE_ROWS_BYTES && !replaces      ? NULL
              : n->lazy && c->ev->payload.n <= PROW_RAW_MAX ? raw_row(c, n, old)
                                                            : probe__row(c, &n->row, old);
    if (!r) {
        if (replaces) close_gap(n, s);
        s->dropped++;
        return;
    }
    r->key = key;
    put(n, s, r, replaces);
}

void probe__rows_fini(probe *p, prows *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        probe__row_free(p, s->p[i]);
    p->memory -= s->cap * sizeof *s->p;
    free(s->p);
    *s = (prows){0};
}

static int by_order(const void *a, const void *b)
{
    const prow *x = *(prow *const *)a, *y = *(prow *const *)b;
    return (x->order > y->order) - (x->order < y->order);
}

void probe__rows_merge(probe *p, const pnode *n, prows *into, const prows *from)
{
    uint64_t seen = into->seen + from->seen;
    uint32_t max = wanted(n);
    if (from->n == 0) {
        into->seen = seen;
        into->dropped += from->dropped;
        return;
    }
    /* All in one list in order of time, of which the wanted ones are kept. */
    size_t n_all = (size_t)into->n + from->n;
    prow **all = mem_alloc(n_all * sizeof *all);
    if (!all) {
        into->seen = seen;
        return;
    }
    uint32_t k = 0;
    for (uint32_t i = 0; i < into->n; i++)
        all[k++] = into->p[i];
    uint32_t own = k;
    for (uint32_t i = 0; i < from->n; i++)
        if ((all[k] = probe__row_copy(p, from->p[i]))) k++;
    (void)own;
    qsort(all, k, sizeof *all, by_order);
    prow **room = into->p;
    size_t cap = into->cap;
    prows fresh = {.seen = seen};
    for (uint32_t i = 0; i < k; i++) {
        bool skip;
        prow *old = make_room(n, &fresh, all[i]->key, &skip);
        if (old) probe__row_free(p, old);
        if (skip || (!old && !grow(p, &fresh, max)))
            probe__row_free(p, all[i]);
        else
            put(n, &fresh, all[i], old != NULL);
    }
    p->memory -= cap * sizeof *room;
    free(room);
    free(all);
    fresh.dropped = n->op == PROBE_VALUE ? 0 : seen - fresh.n;
    *into = fresh;
}

static int by_key(const void *a, const void *b)
{
    const prow *x = *(prow *const *)a, *y = *(prow *const *)b;
    if (x->key != y->key) return x->key < y->key ? 1 : -1;
    return (x->order > y->order) - (x->order < y->order);
}

void probe__rows_each(const pnode *n, const prows *s, void (*visit)(void *arg, const prow *r), void *arg)
{
    if (n->op != PROBE_TOP) {
        for (uint32_t i = 0; i < s->n; i++)
            visit(arg, s->p[(s->head + i) % s->n]);
        return;
    }
    prow **sorted = s->n ? mem_alloc(s->n * sizeof *sorted) : NULL;
    if (!sorted) return;
    memcpy(sorted, s->p, s->n * sizeof *sorted);
    qsort(sorted, s->n, sizeof *sorted, by_key);
    for (uint32_t i = 0; i < s->n; i++)
        visit(arg, sorted[i]);
    free(sorted);
}
