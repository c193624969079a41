/* SPDX-License-Identifier: MIT */
/* engine.c: runs events through the compiled program. */
#include "probe/hot.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */
bool probe__charge(probe *p, size_t n)
{
    if (n > p->memory_max - p->memory) {
        p->refused++;
        return false;
    }
    p->memory += n;
    return true;
}

void *probe__alloc(probe *p, size_t n)
{
    if (!probe__charge(p, n)) return NULL;
    void *v = mem_calloc(1, n);
    if (v) return v;
    p->memory -= n;
    p->refused++;
    return NULL;
}

void probe__free(probe *p, void *v, size_t n)
{
    if (!v) return;
    p->memory -= n;
    free(v);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
static void sum_add(psum *s, pv v)
{
    double d;
    if (!pv_number(v, &d) || !isfinite(d)) return;
    s->n++;
    int64_t sum;
    if (!s->floats && v.type == PV_INT && !__builtin_add_overflow(s->i, v.i, &sum)) {
        s->i = sum;
        return;
    }
    if (!s->floats) {
        s->floats = true;
        s->f = (double)s->i;
    }
    s->f += d;
}

static void sum_merge(psum *into, const psum *from)
{
    if (from->n == 0) return;
    uint64_t n = into->n + from->n;
    sum_add(into, from->floats ? pv_float(from->f) : pv_int(from->i));
    into->n = n;
}

static void extreme_add(pextreme *s, pv v, bool least)
{
    double d;
    if (!pv_number(v, &d) || !isfinite(d)) return;
    double have = s->floats ? s->f : (double)s->i;
    bool better = s->n == 0;
    if (!better && v.type == PV_INT && !s->floats)
        better = least ? v.i < s->i : v.i > s->i;
    else if (!better)
        better = least ? d < have : d > have;
    s->n++;
    if (!better) return;
    s->floats = v.type == PV_FLOAT;
    if (s->floats)
        s->f = v.f;
    else
        s->i = v.i;
}

static void extreme_merge(pextreme *into, const pextreme *from, bool least)
{
    if (from->n == 0) return;
    uint64_t n = into->n + from->n;
    extreme_add(into, from->floats ? pv_float(from->f) : pv_int(from->i), least);
    into->n = n;
}

static void stats_add(pstats *s, pv v)
{
    sum_add(&s->sum, v);
    extreme_add(&s->min, v, true);
    extreme_add(&s->max, v, false);
}

/* ---- blocks of states -------------------------------------------------------------------------------------------- */
void probe__init(probe *p, const pblock *b, uint8_t *state)
{
    (void)p;
    if (b->size) memset(state, 0, b->size); /* every empty state is all zeros */
}

static void node_fini(probe *p, const pnode *n, void *s)
{
    switch (n->op) {
    case PROBE_QUANTILES: probe__sketch_fini(p, s); break;
    case PROBE_DISTINCT: probe__distinct_fini(p, s); break;
    case PROBE_VALUE:
    case PROBE_FIRST:
    case PROBE_LAST:
    case PROBE_TOP: probe__rows_fini(p, s); break;
    case PROBE_GROUP: probe__group_fini(p, n, s); break;
    case PROBE_TIMELINE: probe__timeline_fini(p, n, s); break;
    case PROBE_PAIR:
        probe__pair_fini(p, s);
        probe__fini(p, &n->kids, (uint8_t *)s + sizeof(void *));
        break;
    case PROBE_FILTER: probe__fini(p, &n->kids, s); break;
    default: break;
    }
}

void probe__fini(probe *p, const pblock *b, uint8_t *state)
{
    for (uint32_t i = 0; i < b->n; i++)
        node_fini(p, &b->node[i], state + b->node[i].offset);
}

static void node_merge(probe *p, const pnode *n, void *into, const void *from)
{
    switch (n->op) {
    case PROBE_COUNT: *(uint64_t *)into += *(const uint64_t *)from; break;
    case PROBE_SUM: sum_merge(into, from); break;
    case PROBE_MIN:
    case PROBE_MAX: extreme_merge(into, from, n->op == PROBE_MIN); break;
    case PROBE_STATS:
        sum_merge(&((pstats *)into)->sum, &((const pstats *)from)->sum);
        extreme_merge(&((pstats *)into)->min, &((const pstats *)from)->min, true);
        extreme_merge(&((pstats *)into)->max, &((const pstats *)from)->max, false);
        break;
    case PROBE_QUANTILES: probe__sketch_merge(p, into, *(psketch *const *)from); break;
    case PROBE_DISTINCT: probe__distinct_merge(p, into, *(pdistinct *const *)from); break;
    case PROBE_VALUE:
    case PROBE_FIRST:
    case PROBE_LAST:
    case PROBE_TOP: probe__rows_merge(p, n, into, from); break;
    case PROBE_GROUP: probe__group_merge(p, n, into, *(pgroup *const *)from); break;
    case PROBE_TIMELINE: probe__timeline_merge(p, n, into, *(ptimeline *const *)from); break;
    case PROBE_PAIR:
        probe__pair_merge(p, into, *(ppair *const *)from);
        probe__merge(p, &n->kids, (uint8_t *)into + sizeof(void *), (const uint8_t *)from + sizeof(void *));
        break;
    case PROBE_FILTER: probe__merge(p, &n->kids, into, from); break;
    case PROBE_EACH:
        ((uint64_t *)into)[0] += ((const uint64_t *)from)[0];
        ((uint64_t *)into)[1] += ((const uint64_t *)from)[1];
        break;
    default: break;
    }
}

void probe__merge(probe *p, const pblock *b, uint8_t *into, const uint8_t *from)
{
    for (uint32_t i = 0; i < b->n; i++)
        node_merge(p, &b->node[i], into + b->node[i].offset, from + b->node[i].offset);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */
static void run_each(pctx *c, const pnode *n, uint8_t *state)
{
    uint64_t *s = (uint64_t *)state;
    probe *p = c->p;
    buf *b = &p->tmp;
    pv v[PROBE_COLUMNS_MAX];
    for (uint32_t i = 0; i < n->row.n; i++) /* first, since they may use the buffer */
        v[i] = probe__value(c, n->row.e[i]);
    buf row = {.max = (size_t)1 << 20};
    tlv_mark(&row, TLV_TABLE);
    for (uint32_t i = 0; i < n->row.n; i++) {
        if (v[i].type == PV_NULL) continue;
        tlv_text(&row, n->row.name[i]);
        probe__tlv_value(v[i], &row, b);
    }
    tlv_mark(&row, TLV_END);
    s[0]++;
    if (row.failed || !p->each || !p->each(p->each_arg, n->each, row.p, row.n)) s[1]++;
    buf_fini(&row);
}

static void run_count(pctx *c, const pnode *n, uint8_t *s)
{
    (void)c;
    (void)n;
    ++*(uint64_t *)s;
}

static void run_sum(pctx *c, const pnode *n, uint8_t *state)
{
    psum *s = (psum *)state;
    pv v = probe__value(c, n->e);
    int64_t sum;
    if (v.type == PV_INT && !s->floats && !__builtin_add_overflow(s->i, v.i, &sum)) {
        s->n++;
        s->i = sum;
    } else
        sum_add(s, v);
}

static void run_extreme(pctx *c, const pnode *n, uint8_t *s)
{
    extreme_add((pextreme *)s, probe__value(c, n->e), n->op == PROBE_MIN);
}

static void run_stats(pctx *c, const pnode *n, uint8_t *s) { stats_add((pstats *)s, probe__value(c, n->e)); }

static void run_quantiles(pctx *c, const pnode *n, uint8_t *s)
{
    double d;
    if (pv_number(probe__value(c, n->e), &d)) probe__sketch_put(c->p, (psketch **)s, d);
}

static void run_distinct(pctx *c, const pnode *n, uint8_t *s)
{
    pv v = probe__value(c, n->e);
    if (v.type != PV_NULL) probe__distinct_add(c->p, (pdistinct **)s, n->max, probe__hash_value(v));
}

static void run_rows(pctx *c, const pnode *n, uint8_t *s) { probe__rows_add(c, n, (prows *)s); }
static void run_group(pctx *c, const pnode *n, uint8_t *s) { probe__group_add(c, n, (pgroup **)s); }
static void run_timeline(pctx *c, const pnode *n, uint8_t *s) { probe__timeline_add(c, n, (ptimeline **)s); }
static void run_filter(pctx *c, const pnode *n, uint8_t *s) { probe__run(c, &n->kids, s); }

prunner probe__runner(probe_op op)
{
    static const prunner runners[PROBE_OP_COUNT] = {
        [PROBE_COUNT] = run_count,      [PROBE_SUM] = run_sum,           [PROBE_MIN] = run_extreme,
        [PROBE_MAX] = run_extreme,      [PROBE_STATS] = run_stats,       [PROBE_QUANTILES] = run_quantiles,
        [PROBE_VALUE] = run_rows,       [PROBE_DISTINCT] = run_distinct, [PROBE_FIRST] = run_rows,
        [PROBE_LAST] = run_rows,        [PROBE_TOP] = run_rows,          [PROBE_GROUP] = run_group,
        [PROBE_PAIR] = probe__pair_run, [PROBE_TIMELINE] = run_timeline, [PROBE_FILTER] = run_filter,
        [PROBE_EACH] = run_each,
    };
    return runners[op];
}

static void run_where(pctx *c, const pnode *n, uint8_t *state)
{
    if (probe__holds(c, n->where)) n->run(c, n, state);
}

void probe__run_all(pctx *c, const pblock *b, uint8_t *state) { probe__run_here(c, b, state); }

/* An event that may end the window. */
static __attribute__((noinline)) void look_for_the_end(probe *p, const probe_kind *k)
{
    if (p->finished || !(p->finish_on & k->on)) return;
    if (p->finish_where && !probe__holds(&p->ctx, p->finish_where)) return;
    if (--p->finish_left == 0) p->finished = true;
}

/* The key that a node of the top has in an event; false: the payload ends before it. */
static inline bool key_of(const ptop *t, const nt_event *ev, int64_t *key)
{
    if (t->key == PF_THREAD) {
        *key = (int64_t)ev->thread;
        return true;
    }
    if (UNLIKELY((size_t)t->key_at + (t->key == PF_I64 ? 8 : 4) > ev->payload.n)) return false;
    const uint8_t *at = ev->payload.p + t->key_at;
    *key = t->key == PF_I32   ? (int32_t)probe__load32(at)
           : t->key == PF_U32 ? (int64_t)probe__load32(at)
                              : (int64_t)probe__load64(at);
    return true;
}

/* One event, which c has already. run: what it was taken from, if a ring may look at it later; else NULL. */
static inline __attribute__((always_inline)) void run_event(probe *p, pctx *c, const probe_kind *k, const nt_event *ev,
                                                            const nt_run *run)
{
    ppair *pair;
    int64_t key;
    const uint64_t order = ++p->order;
    c->kind = k;
    c->has_time = false;
    p->scratch_n = 0;
    for (const ptop *t = k->top; t->op != PT_END; t++) {
        switch ((ptop_op)t->op) {
        case PT_START:
            pair = *(ppair **)(void *)t->state;
            if (LIKELY(pair && pair->used < pair->limit && key_of(t, ev, &key))) {
                probe__begin_number(c, t->node, pair, key);
                continue;
            }
            break;
        case PT_STOP:
            pair = *(ppair **)(void *)t->state;
            if (LIKELY(pair && pair->cap && key_of(t, ev, &key))) {
                probe__end_number(c, t->node, pair, key, t->state + sizeof pair, true);
                continue;
            }
            break;
        case PT_LATER:
            if (run) {
                p->later[p->n_later++ % PROBE_LATER] = (plater){run->at - 1, order};
                continue;
            }
            /* fall through */
        case PT_RING:
            if (LIKELY(probe__ring_put(t->node, (prows *)(void *)t->state, order, k, ev))) continue;
            break;
        case PT_RUN:
        case PT_END: break;
        }
        t->run(c, t->node, t->state);
    }
    if (UNLIKELY(p->finish_on != 0)) look_for_the_end(p, k);
}

static inline void enter(pctx *c, const nt_reader *r, const nt_event *ev)
{
    c->ev = ev;
    c->start = NULL;
    c->paired = false;
    if (LIKELY(c->reader == r)) return;
    c->reader = r;
    c->trace = nt_trace_info(r);
}

void probe_event(probe *p, probe_kind *k, const nt_reader *r, const nt_event *ev)
{
    enter(&p->ctx, r, ev);
    run_event(p, &p->ctx, k, ev, NULL);
}

/* What is known of the fields of the event at hand holds no more. */
static void forget_fields(probe *p)
{
    for (uint32_t i = 0; i < p->n_field; i++)
        p->cell[i].stamp = 0;
}

/* The ring's rows of a run. Events that it would have forgotten again by now are counted. */
static __attribute__((noinline)) void run_later(probe *p, const nt_run *run)
{
    pctx *const c = &p->ctx;
    const pnode *const n = p->ring;
    const probe_kind *const kind = c->kind;
    const nt_event *const last = c->ev;
    const uint64_t order = p->order;
    const uint32_t n_all = p->n_later, kept = n_all < n->n ? n_all : n->n;
    prows *const s = (prows *)(void *)(p->state + n->offset);
    s->seen += n_all - kept;
    s->dropped += n_all - kept;
    for (uint32_t i = n_all - kept; i < n_all; i++) {
        const plater *l = &p->later[i % PROBE_LATER];
        const nt_event ev = nt_run_look(run, l->at);
        const probe_kind *k = ((const probe_use *)ev.kind->user)->only;
        if (LIKELY(probe__ring_put(n, s, l->order, k, &ev))) continue;
        p->order = l->order;
        p->scratch_n = 0;
        c->kind = k;
        c->ev = &ev;
        c->has_time = false;
        forget_fields(p);
        n->run(c, n, (uint8_t *)s);
        forget_fields(p);
    }
    p->n_later = 0;
    p->order = order;
    c->kind = kind;
    c->ev = last;
    c->has_time = false;
}

bool probe_events(probe *p, const nt_reader *r, nt_run *run, const atomic_bool *quiet, int64_t *latest)
{
    const nt_event *const ev = &run->event;
    int64_t last = INT64_MIN;
    bool other = false;
    const uint64_t before = p->order;
    const nt_run *const later = p->last_run >= PROBE_LATER_FROM ? run : NULL;
    enter(&p->ctx, r, ev);
    while (nt_run_next(run)) {
        const probe_kind *k = ((const probe_use *)ev->kind->user)->only;
        other = !k || atomic_load_explicit(quiet, memory_order_relaxed);
        if (UNLIKELY(other)) break;
        last = ev->ts;
        run_event(p, &p->ctx, k, ev, later);
    }
    p->last_run = p->order - before;
    if (p->n_later) run_later(p, run);
    if (last > *latest) *latest = last; /* times of a run only grow */
    return other;
}

/* ---- kinds of events --------------------------------------------------------------------------------------------- */
static bool alias_is(const palias *a, const nt_kind *k)
{
    if (!slice_eq_str(a->provider, "*") &&
        (a->provider.n != k->provider.n ||
         strncasecmp((const char *)a->provider.p, (const char *)k->provider.p, k->provider.n) != 0))
        return false;
    if (a->id >= 0) return k->id == (uint64_t)a->id;
    return slice_eq_str(a->event, "*") || slice_eq(a->event, k->display) || slice_eq(a->event, k->name);
}

/* Where a pair's key is in events of a kind, when it is one whole number of a known place; else PF_NONE. */
static uint8_t place_of_key(const pcolumns *by, const probe_kind *k, uint32_t *at)
{
    const px *x = by->e[0];
    if (by->n != 1) return PF_NONE;
    if (x->op == PX_THREAD) return PF_THREAD;
    if (x->op != PX_FIELD || k->place[x->ref].how < PF_I32) return PF_NONE;
    *at = k->place[x->ref].offset;
    return k->place[x->ref].how;
}

/* What runs a node of the top for events of a kind. */
static ptop top_of(const probe *p, const pnode *n, const probe_kind *k)
{
    ptop t = {.op = PT_RUN, .run = n->run, .node = n, .state = p->state + n->offset};
    if (n->where) {
        t.run = run_where;
    } else if (n->op == PROBE_LAST && n->lazy && !(k->lacks & n->field_bits)) {
        t.op = n == p->ring ? PT_LATER : PT_RING;
    } else if (n->op == PROBE_PAIR && !(n->start & k->on && n->stop & k->on)) {
        const bool start = n->start & k->on;
        t.run = start ? probe__pair_start : probe__pair_stop;
        t.key = place_of_key(!start && n->by_stop.n ? &n->by_stop : &n->by, k, &t.key_at);
        if (t.key != PF_NONE) t.op = start ? PT_START : PT_STOP;
    }
    return t;
}

/* The ring of the top that is kept by the run: the first that is small enough. */
static const pnode *ring_of(const probe *p)
{
    for (uint32_t i = 0; i < p->keep.n; i++) {
        const pnode *n = &p->keep.node[i];
        if (n->op == PROBE_LAST && n->lazy && !n->where && n->n > 0 && n->n <= PROBE_LATER) return n;
    }
    return NULL;
}

probe_kind *probe_bind(probe *p, const nt_kind *k)
{
    uint64_t on = 0;
    for (uint32_t i = 0; i < p->n_alias; i++)
        if (alias_is(&p->alias[i], k)) on |= (uint64_t)1 << p->alias[i].bit;
    if (!on) return NULL;
    p->ring = ring_of(p);
    if (p->n_kind == p->cap_kind) {
        uint32_t cap = p->cap_kind ? 2 * p->cap_kind : 16;
        probe_kind **grown = mem_realloc(p->kind, cap * sizeof *grown);
        if (!grown) return NULL;
        p->kind = grown;
        p->cap_kind = cap;
    }
    size_t n = p->n_field, n_top = p->keep.n;
    probe_kind *b = probe__alloc(p, sizeof *b + (n_top + 1) * sizeof *b->top +
                                        n * (sizeof *b->index + sizeof *b->missing + sizeof *b->place));
    if (!b) return NULL;
    b->on = on;
    b->kind = k;
    ptop *top = b->top = (ptop *)(b + 1);
    b->missing = (uint64_t *)(b->top + n_top + 1); /* behind the end mark, which is zero */
    b->index = (int32_t *)(b->missing + n);
    b->place = (pplace *)(b->index + n);
    for (size_t i = 0; i < n; i++) {
        probe__place(k->schema, p->field[i], &b->index[i], &b->place[i]);
        if (b->place[i].how == PF_NONE) b->lacks |= probe__field_bit((uint32_t)i);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t t = 0; t < n && b->place[i].how == PF_BEHIND_TEXT; t++)
            if (b->place[t].how == PF_TEXT16 && b->place[t].offset == b->place[i].offset) b->place[i].text = t;
    for (uint32_t i = 0; i < n_top; i++) {
        const pnode *node = &p->keep.node[i];
        if (node->on & on) *top++ = top_of(p, node, b);
    }
    p->kind[p->n_kind++] = b;
    return b;
}

/* ---- making and ending ------------------------------------------------------------------------------------------- */
probe *probe_new(const probe_program *program, err *e)
{
    probe *p = mem_calloc(1, sizeof *p);
    if (!p) {
        (void)err_set(e, ERR_NO_MEMORY, "no memory for a program of reducers");
        return NULL;
    }
    p->a.max = (size_t)8 << 20;
    p->memory_max = program->memory_max ? program->memory_max : PROBE_MEMORY_DEFAULT;
    p->text_max = !program->text_max                       ? PROBE_TEXT_MAX
                  : program->text_max > PROBE_ROW_TEXT_MAX ? PROBE_ROW_TEXT_MAX
                                                           : program->text_max;
    p->symbol_max = p->text_max < PROBE_SYMBOL_BYTES ? p->text_max : PROBE_SYMBOL_BYTES;
    p->each = program->each;
    p->each_arg = program->each_arg;
    p->addresses = program->addresses;
    buf_init(&p->tmp, (size_t)1 << 20);
    bool ok = probe__compile(p, program, e);
    if (ok) {
        size_t n = p->n_field ? p->n_field : 1;
        p->cell = mem_calloc(n, sizeof *p->cell);
        p->scratch = mem_alloc(PROBE_SCRATCH);
        p->state = probe__alloc(p, p->keep.size + 8);
        ok = p->cell && p->scratch && p->state;
        p->ctx.p = p;
        if (!ok) (void)err_set(e, ERR_NO_MEMORY, "no memory for a program of reducers");
    }
    if (ok) return p;
    probe_free(p);
    return NULL;
}

void probe_free(probe *p)
{
    if (!p) return;
    if (p->state) probe__fini(p, &p->keep, p->state);
    free(p->state);
    for (uint32_t i = 0; i < p->n_kind; i++)
        free(p->kind[i]);
    free(p->kind);
    probe__stacks_fini(p);
    probe__symbols_fini(p);
    free(p->alias);
    free(p->field);
    free(p->cell);
    free(p->scratch);
    buf_fini(&p->tmp);
    arena_free(&p->a);
    free(p);
}

bool probe_uses_stacks(const probe *p) { return p->uses_stacks; }
bool probe_wants_names(const probe *p) { return p->uses_stacks && !p->addresses; }
bool probe_finished(const probe *p) { return p->finished; }
size_t probe_memory(const probe *p) { return p->memory; }
