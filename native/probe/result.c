/* SPDX-License-Identifier: MIT */
/* result.c: the state of all reducers, written down. States are only read: what has to be merged is merged into blocks
 * of its own. */
#include "probe/result.h"
#include "base/guid.h"
#include "probe/hot.h"

#include <stdio.h>
#include <stdlib.h>

#define RESULT_ROOM ((size_t)64 << 20) /* memory for merging, beyond the engine's own */

typedef struct writer {
    probe *p; /* for its accounting of memory only */
    pnames names;
    buf *out, tmp;
} writer;

static void put_block(writer *w, const pblock *b, const uint8_t *state);

/* ---- values ------------------------------------------------------------------------------------------------------ */
static void put_text(pv v, buf *out, buf *tmp)
{
    buf_reset(tmp);
    (void)probe__text_utf8(v, tmp);
    if (v.cut) (void)buf_str(tmp, "...");
    tlv_text(out, buf_view(tmp));
}

void probe__tlv_value(pv v, buf *out, buf *tmp)
{
    char guid[37];
    switch (v.type) {
    case PV_BOOL: tlv_bool(out, v.i != 0); break;
    case PV_INT:
    case PV_STACK: tlv_int(out, v.i); break;
    case PV_FLOAT: tlv_float(out, v.f); break;
    case PV_TEXT16:
    case PV_TEXT8: put_text(v, out, tmp); break;
    case PV_GUID:
        guid_text(v.p, guid);
        tlv_text(out, slice_str(guid));
        break;
    default: tlv_mark(out, TLV_NIL); break;
    }
}

/* A stack becomes its number in the list of stacks, from 1. */
static void put_value(writer *w, pv v)
{
    if (v.type != PV_STACK) {
        probe__tlv_value(v, w->out, &w->tmp);
        return;
    }
    int64_t id = probe__named_stack(&w->names, v.i, NULL);
    if (id < 0)
        tlv_mark(w->out, TLV_NIL);
    else
        tlv_int(w->out, probe__stack_number(&w->names, id));
}

static void put_number(writer *w, bool floats, double f, int64_t i)
{
    if (floats)
        tlv_float(w->out, f);
    else
        tlv_int(w->out, i);
}

static void put_sum(writer *w, const psum *s)
{
    if (s->n == 0)
        tlv_mark(w->out, TLV_NIL);
    else
        put_number(w, s->floats, s->f, s->i);
}

static void put_extreme(writer *w, const pextreme *s)
{
    if (s->n == 0)
        tlv_mark(w->out, TLV_NIL);
    else
        put_number(w, s->floats, s->f, s->i);
}

static void put_stats(writer *w, const pstats *s)
{
    buf *o = w->out;
    tlv_mark(o, TLV_TABLE);
    tlv_key_int(o, "n", (int64_t)s->sum.n);
    if (s->sum.n) {
        tlv_key(o, "sum");
        put_sum(w, &s->sum);
        tlv_key(o, "min");
        put_extreme(w, &s->min);
        tlv_key(o, "max");
        put_extreme(w, &s->max);
        tlv_key_float(o, "mean", (s->sum.floats ? s->sum.f : (double)s->sum.i) / (double)s->sum.n);
    }
    tlv_mark(o, TLV_END);
}

static void put_quantiles(writer *w, const pnode *n, const psketch *s)
{
    buf *o = w->out;
    tlv_mark(o, TLV_TABLE);
    tlv_key_int(o, "n", (int64_t)probe__sketch_n(s));
    if (probe__sketch_n(s)) {
        tlv_key_float(o, "min", probe__sketch_min(s));
        tlv_key_float(o, "max", probe__sketch_max(s));
        tlv_key_float(o, "mean", probe__sketch_mean(s));
        for (uint32_t i = 0; i < n->n_quantiles; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "p%g", n->quantiles[i]);
            for (char *c = name; *c; c++)
                if (*c == '.') *c = '_';
            tlv_key_float(o, name, probe__sketch_at(s, n->quantiles[i]));
        }
        tlv_key_float(o, "error", probe__sketch_exact(s) ? 0 : PROBE_SKETCH_ERROR);
    }
    tlv_mark(o, TLV_END);
}

static void put_distinct(writer *w, const pdistinct *s)
{
    bool exact;
    uint64_t n = probe__distinct_n(s, &exact);
    tlv_mark(w->out, TLV_TABLE);
    tlv_key_int(w->out, "n", (int64_t)n);
    tlv_key(w->out, "exact");
    tlv_bool(w->out, exact);
    tlv_key_float(w->out, "error", exact ? 0 : PROBE_DISTINCT_ERROR);
    tlv_mark(w->out, TLV_END);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
typedef struct row_arg {
    writer *w;
    const pcolumns *cols;
} row_arg;

/* v: the values of the columns; NULL: they are those of the running event. */
static void put_values(const row_arg *a, const pv *kept)
{
    tlv_mark(a->w->out, TLV_TABLE);
    for (uint32_t i = 0; i < a->cols->n; i++) {
        pv v = kept ? kept[i] : probe__value(&a->w->p->ctx, a->cols->e[i]);
        if (v.type == PV_NULL) continue;
        tlv_text(a->w->out, a->cols->name[i]);
        put_value(a->w, v);
    }
    tlv_mark(a->w->out, TLV_END);
}

static void put_row(void *arg, const prow *r)
{
    const row_arg *a = arg;
    praw_look look;
    if (r->n != PROW_RAW) {
        put_values(a, r->v);
        return;
    }
    probe__raw_begin(a->w->p, r, &look);
    put_values(a, NULL);
    probe__raw_end(a->w->p, &look);
}

static void put_rows(writer *w, const pnode *n, const prows *s)
{
    row_arg arg = {w, &n->row};
    tlv_mark(w->out, TLV_TABLE);
    tlv_key(w->out, "rows");
    tlv_mark(w->out, TLV_LIST);
    probe__rows_each(n, s, put_row, &arg);
    tlv_mark(w->out, TLV_END);
    tlv_key_int(w->out, "seen", (int64_t)s->seen);
    tlv_key_int(w->out, "dropped", (int64_t)s->dropped);
    tlv_mark(w->out, TLV_END);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */
/* A key of the result: an entry, or several that became one. */
typedef struct member {
    double weight;
    uint64_t n;
    bool partial;
    const uint8_t *state;
    uint8_t *own; /* state, when it was merged */
    slice key;
} member;

typedef struct members {
    member *p;
    uint32_t n;
    strtab *keys; /* with stacks by their names, in the order of p; only when the program uses stacks */
} members;

static int heavier(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    if (x->n != y->n) return x->n < y->n ? 1 : -1;
    size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
    int d = n ? memcmp(x->key.p, y->key.p, n) : 0;
    return d ? d : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

/* The key with the number that each of its stacks has by name. */
static void named_key(writer *w, const pnode *n, slice key, buf *out)
{
    const uint8_t *p = key.p, *end = key.p + key.n;
    buf_reset(out);
    for (uint32_t i = 0; i < n->by.n; i++) {
        pv v = probe__key_next(&p, end);
        if (v.type == PV_STACK) v.i = probe__named_stack(&w->names, v.i, n);
        probe__key_put(out, v);
    }
}

static void join(writer *w, const pnode *n, member *m, const pentry *e)
{
    if (!m->own) {
        m->own = probe__alloc(w->p, n->kids.size + 8);
        if (!m->own) return;
        probe__merge(w->p, &n->kids, m->own, m->state);
        m->state = m->own;
    }
    probe__merge(w->p, &n->kids, m->own, e->state);
    m->weight += e->weight;
    m->n += e->n;
    m->partial |= e->partial;
}

static int heavier_entry(const void *a, const void *b)
{
    const pentry *x = *(pentry *const *)a, *y = *(pentry *const *)b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : (x->born > y->born) - (x->born < y->born);
}

/* The heaviest first, so that one of several stacks that become one is shown with its own addresses. */
static pentry **entries_of(const pgroup *g)
{
    pentry **e = mem_alloc((g->n ? g->n : 1) * sizeof *e);
    uint32_t k = 0;
    for (uint32_t i = 0; e && i < g->cap; i++)
        if (g->slot[i]) e[k++] = g->slot[i];
    if (e) qsort(e, k, sizeof *e, heavier_entry);
    return e;
}

static bool gather(writer *w, const pnode *n, const pgroup *g, members *all)
{
    pentry **entry = entries_of(g);
    all->p = mem_alloc((g->n ? g->n : 1) * sizeof *all->p);
    bool ok = entry && all->p;
    if (ok && w->p->uses_stacks) ok = (all->keys = strtab_new(0, 0)) != NULL;
    buf key = {0};
    buf_init(&key, (size_t)1 << 20);
    for (uint32_t i = 0; ok && i < g->n; i++) {
        const pentry *e = entry[i];
        slice k = slice_of(probe__entry_key(n, e), e->key_n);
        if (all->keys) {
            named_key(w, n, k, &key);
            uint32_t before = strtab_count(all->keys), id = strtab_intern(all->keys, buf_view(&key));
            ok = id != STRTAB_FULL;
            if (!ok) break;
            if (id < before) {
                join(w, n, &all->p[id], e);
                continue;
            }
            k = (slice){0}; /* of the table, once it is complete */
        }
        all->p[all->n++] = (member){e->weight, e->n, e->partial, e->state, NULL, k};
    }
    for (uint32_t i = 0; all->keys && i < all->n; i++)
        all->p[i].key = strtab_get(all->keys, i);
    buf_fini(&key);
    free(entry);
    if (ok) qsort(all->p, all->n, sizeof *all->p, heavier);
    w->names.failed |= !ok;
    return ok;
}

static void put_member(writer *w, const pnode *n, const member *m, bool named)
{
    const uint8_t *p = m->key.p, *end = m->key.p + m->key.n;
    tlv_mark(w->out, TLV_TABLE);
    for (uint32_t i = 0; i < n->by.n; i++) {
        pv v = probe__key_next(&p, end);
        if (v.type == PV_NULL) continue;
        tlv_text(w->out, n->by.name[i]);
        if (v.type == PV_STACK && named)
            tlv_int(w->out, probe__stack_number(&w->names, v.i));
        else
            put_value(w, v);
    }
    if (m->partial) {
        tlv_key(w->out, "partial");
        tlv_bool(w->out, true);
    }
    put_block(w, &n->kids, m->state);
    tlv_mark(w->out, TLV_END);
}

static void put_other(writer *w, const pnode *n, const pgroup *g, const members *all, uint32_t shown)
{
    if (all->n <= shown && !g->other) return;
    uint8_t *block = probe__alloc(w->p, n->kids.size + 8);
    if (!block) return;
    if (g->other) probe__merge(w->p, &n->kids, block, g->other);
    for (uint32_t i = shown; i < all->n; i++)
        probe__merge(w->p, &n->kids, block, all->p[i].state);
    tlv_key(w->out, "other");
    tlv_mark(w->out, TLV_TABLE);
    tlv_key_int(w->out, "keys", (int64_t)(all->n - shown + g->evicted));
    put_block(w, &n->kids, block);
    tlv_mark(w->out, TLV_END);
    probe__fini(w->p, &n->kids, block);
    probe__free(w->p, block, n->kids.size + 8);
}

static void put_group(writer *w, const pnode *n, const pgroup *g)
{
    static const pgroup none;
    members all = {0};
    if (!g) g = &none;
    tlv_mark(w->out, TLV_TABLE);
    tlv_key(w->out, "rows");
    tlv_mark(w->out, TLV_LIST);
    bool ok = gather(w, n, g, &all);
    uint32_t shown = all.n < n->top ? all.n : n->top;
    for (uint32_t i = 0; ok && i < shown; i++)
        put_member(w, n, &all.p[i], all.keys != NULL);
    tlv_mark(w->out, TLV_END);
    tlv_key_int(w->out, "keys", (int64_t)(all.n + g->evicted));
    tlv_key_int(w->out, "evicted", (int64_t)g->evicted);
    tlv_key_int(w->out, "dropped", (int64_t)g->refused);
    if (ok) put_other(w, n, g, &all, shown);
    tlv_mark(w->out, TLV_END);
    for (uint32_t i = 0; i < all.n; i++) {
        if (!all.p[i].own) continue;
        probe__fini(w->p, &n->kids, all.p[i].own);
        probe__free(w->p, all.p[i].own, n->kids.size + 8);
    }
    free(all.p);
    strtab_free(all.keys);
}

/* ---- pairs and slices of time ------------------------------------------------------------------------------------ */
static int older(const void *a, const void *b)
{
    const pwait *x = *(pwait *const *)a, *y = *(pwait *const *)b;
    return (x->order > y->order) - (x->order < y->order);
}

static void put_open_rows(writer *w, const pnode *n, const ppair *s)
{
    tlv_key(w->out, "open_rows");
    tlv_mark(w->out, TLV_LIST);
    pwait **all = s->n_open ? mem_alloc(s->n_open * sizeof *all) : NULL;
    uint32_t k = 0;
    for (uint32_t i = 0; all && i < s->cap; i++)
        for (pwait *o = s->slot[i].top; o && k < s->n_open; o = o->next)
            all[k++] = o;
    if (all) qsort(all, k, sizeof *all, older);
    row_arg arg = {w, &n->row};
    const uint32_t max = n->open_rows;
    for (uint32_t i = 0; i < k && i < max; i++)
        if (n->captured.n) put_values(&arg, all[i]->kept);
    free(all);
    tlv_mark(w->out, TLV_END);
}

static void put_pair(writer *w, const pnode *n, const ppair *s, const uint8_t *kids)
{
    static const ppair none;
    if (!s) s = &none;
    buf *o = w->out;
    tlv_mark(o, TLV_TABLE);
    tlv_key_int(o, "pairs", (int64_t)s->pairs);
    tlv_key_int(o, "unmatched", (int64_t)s->unmatched);
    tlv_key_int(o, "replaced", (int64_t)s->replaced);
    tlv_key_int(o, "dropped", (int64_t)s->dropped);
    tlv_key_int(o, "keyless", (int64_t)s->keyless);
    tlv_key_int(o, "open", (int64_t)(s->n_open + s->open_elsewhere));
    if (n->open) put_open_rows(w, n, s);
    put_block(w, &n->kids, kids);
    tlv_mark(o, TLV_END);
}

static void put_timeline(writer *w, const pnode *n, const ptimeline *t)
{
    buf *o = w->out;
    tlv_mark(o, TLV_TABLE);
    tlv_key_int(o, "every_ns", n->every_ns);
    tlv_key_int(o, "dropped", t ? (int64_t)t->dropped : 0);
    tlv_key(o, "buckets");
    tlv_mark(o, TLV_LIST);
    for (uint32_t i = 0; t && i < t->n; i++) {
        tlv_mark(o, TLV_TABLE);
        tlv_key_int(o, "at_ns", t->p[i].at * n->every_ns);
        put_block(w, &n->kids, t->p[i].state);
        tlv_mark(o, TLV_END);
    }
    tlv_mark(o, TLV_END);
    tlv_mark(o, TLV_END);
}

static void put_node(writer *w, const pnode *n, const uint8_t *s)
{
    switch (n->op) {
    case PROBE_COUNT: tlv_int(w->out, (int64_t) * (const uint64_t *)s); break;
    case PROBE_SUM: put_sum(w, (const psum *)s); break;
    case PROBE_MIN:
    case PROBE_MAX: put_extreme(w, (const pextreme *)s); break;
    case PROBE_STATS: put_stats(w, (const pstats *)s); break;
    case PROBE_QUANTILES: put_quantiles(w, n, *(psketch *const *)s); break;
    case PROBE_DISTINCT: put_distinct(w, *(pdistinct *const *)s); break;
    case PROBE_VALUE: put_value(w, ((const prows *)s)->n ? ((const prows *)s)->p[0]->v[0] : pv_null()); break;
    case PROBE_FIRST:
    case PROBE_LAST:
    case PROBE_TOP: put_rows(w, n, (const prows *)s); break;
    case PROBE_GROUP: put_group(w, n, *(pgroup *const *)s); break;
    case PROBE_PAIR: put_pair(w, n, *(ppair *const *)s, s + sizeof(void *)); break;
    case PROBE_TIMELINE: put_timeline(w, n, *(ptimeline *const *)s); break;
    case PROBE_FILTER:
        tlv_mark(w->out, TLV_TABLE);
        put_block(w, &n->kids, s);
        tlv_mark(w->out, TLV_END);
        break;
    case PROBE_EACH:
        tlv_mark(w->out, TLV_TABLE);
        tlv_key_int(w->out, "seen", (int64_t)((const uint64_t *)s)[0]);
        tlv_key_int(w->out, "dropped", (int64_t)((const uint64_t *)s)[1]);
        tlv_mark(w->out, TLV_END);
        break;
    default: tlv_mark(w->out, TLV_NIL); break;
    }
}

static void put_block(writer *w, const pblock *b, const uint8_t *state)
{
    for (uint32_t i = 0; i < b->n; i++) {
        tlv_text(w->out, b->node[i].name);
        put_node(w, &b->node[i], state + b->node[i].offset);
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */
static void put_missing(writer *w)
{
    const probe *p = w->p;
    tlv_key(w->out, "missing");
    tlv_mark(w->out, TLV_LIST);
    for (uint32_t i = 0; i < p->n_kind; i++) {
        for (uint32_t f = 0; f < p->n_field; f++) {
            const probe_kind *k = p->kind[i];
            if (!k->missing[f]) continue;
            tlv_mark(w->out, TLV_TABLE);
            tlv_key(w->out, "event");
            tlv_text(w->out, k->kind->display);
            tlv_key_int(w->out, "version", k->kind->version);
            tlv_key(w->out, "field");
            tlv_text(w->out, p->field[f]);
            tlv_key_int(w->out, "n", (int64_t)k->missing[f]);
            tlv_mark(w->out, TLV_END);
        }
    }
    tlv_mark(w->out, TLV_END);
}

bool probe_result(const probe *engine, const clr_methods *methods, buf *out)
{
    probe *p = (probe *)engine; /* counts what merging takes; given back before the end */
    writer w = {.p = p, .out = out};
    buf_init(&w.tmp, 0);
    if (!probe__names_init(&w.names, p, methods)) {
        probe__names_fini(&w.names);
        return false;
    }
    uint64_t refused = p->refused;
    size_t held = p->memory;
    p->memory_max += RESULT_ROOM;
    tlv_mark(out, TLV_TABLE);
    put_block(&w, &p->keep, p->state);
    tlv_key(out, "stacks");
    probe__put_stacks(&w.names, out);
    tlv_key(out, "meta");
    tlv_mark(out, TLV_TABLE);
    put_missing(&w);
    tlv_key_int(out, "stacks_dropped", (int64_t)p->stacks.dropped);
    tlv_key_int(out, "memory", (int64_t)held);
    tlv_key_int(out, "refused", (int64_t)refused);
    tlv_key_int(out, "texts_dropped", (int64_t)p->scratch_full);
    tlv_key(out, "finished");
    tlv_bool(out, p->finished);
    tlv_mark(out, TLV_END);
    tlv_mark(out, TLV_END);
    p->memory_max -= RESULT_ROOM;
    bool ok = !out->failed && !w.names.failed && p->refused == refused;
    p->refused = refused;
    probe__names_fini(&w.names);
    buf_fini(&w.tmp);
    return ok;
}
