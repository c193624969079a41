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
    probe__sketch_put(c->p, (psketch **)s, probe__value(c, n->e));
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
    const size_t end = (size_t)t->key_at + 4;
    if (LIKELY(t->key == PF_I32)) {
        if (UNLIKELY(end > ev->payload.n)) return false;
        *key = (int32_t)probe__load32(ev->payload.p + t->key_at);
        return true;
    }
    if (t->key == PF_THREAD) {
        *key = (int64_t)ev->thread;
        return true;
    }
    if (end + (t->key == PF_I64 ? 4 : 0) > ev->payload.n) return false;
    const uint8_t *at = ev->payload.p + t->key_at;
    *key = t->key == PF_I64 ? (int64_t)probe__load64(at) : (int64_t)probe__load32(at);
    return true;
}

/* One event, which c has already. */
static inline __attribute__((always_inline)) void run_event(probe *p, pctx *c, const probe_kind *k, const nt_event *ev)
{
    ppair *pair;
    int64_t key;
    p->order++;
    c->kind = k;
    c->has_time = false;
    p->scratch_n = 0;
    for (const ptop *t = (const ptop *)(k + 1);; t++) {
        if (t->op == PT_START) {
            pair = *(ppair **)(void *)t->state;
            if (LIKELY(pair && pair->used < pair->limit && key_of(t, ev, &key))) {
                probe__begin_number(c, t->node, pair, key);
                continue;
            }
        } else if (t->op == PT_STOP) {
            pair = *(ppair **)(void *)t->state;
            if (LIKELY(pair && pair->cap && key_of(t, ev, &key))) {
                probe__end_number(c, t->node, pair, key, t->state + sizeof pair, true);
                continue;
            }
        } else if (t->op == PT_END) {
            break;
        } else if (t->op == PT_RING && probe__ring_put(t->node, (prows *)(void *)t->state, p->order, k, ev)) {
            continue;
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

/* The ring's row of an event that was run already, as number `order`. */
static void run_ring(probe *p, const probe_kind *k, const nt_event *ev, uint64_t order)
{
    pctx *const c = &p->ctx;
    const pnode *const n = p->ring;
    prows *const s = (prows *)(void *)(p->state + n->offset);
    if (LIKELY(probe__ring_put(n, s, order, k, ev))) return;
    c->kind = k;
    c->ev = ev;
    c->has_time = false;
    n->run(c, n, (uint8_t *)s);
}

void probe_event(probe *p, probe_kind *k, const nt_reader *r, const nt_event *ev)
{
    enter(&p->ctx, r, ev);
    run_event(p, &p->ctx, k, ev);
    if (k->later) run_ring(p, k, ev, p->order);
}

static inline const probe_kind *kind_of(const nt_run *run, const nt_waiting *w)
{
    return ((const probe_use *)run->kinds[w->kind]->user)->only;
}

/* Notes for the ring what was taken of a run: n events of kinds that it keeps, up to `end`. The first event of all,
 * whatever its kind, was number `order`. */
static void note_later(probe *p, const nt_run *run, const nt_turn *first, const nt_turn *end, uint64_t order,
                       uint64_t n)
{
    const uint64_t kept = n < p->ring->n ? n : p->ring->n;
    const bool all = n == (uint64_t)(end - first);
    const nt_turn *at = all ? end - kept : end;
    for (uint64_t left = all ? 0 : kept; left > 0;)
        left -= kind_of(run, (--at)->w)->later;
    p->n_later += n - kept;
    for (; at < end; at++)
        if (all || kind_of(run, at->w)->later)
            p->later[p->n_later++ % PROBE_LATER] = (plater){*at, order + (uint64_t)(at - first)};
}

/* The ring's rows of the events that were noted. Those that it would have forgotten again by now are counted. */
static __attribute__((noinline)) void run_later(probe *p, const nt_run *run)
{
    pctx *const c = &p->ctx;
    const nt_event *const was = c->ev;
    const uint64_t now = p->order, n = p->n_later, kept = n < p->ring->n ? n : p->ring->n;
    prows *const s = (prows *)(void *)(p->state + p->ring->offset);
    s->seen += n - kept;
    s->dropped += n - kept;
    for (uint64_t i = n - kept; i < n; i++) {
        const plater *l = &p->later[i % PROBE_LATER];
        nt_event ev;
        nt_run_look(run, &l->turn, &ev);
        p->order = l->order;
        p->scratch_n = 0;
        run_ring(p, kind_of(run, l->turn.w), &ev, l->order);
    }
    p->n_later = 0;
    p->order = now;
    c->ev = was;
    c->has_time = false;
}

/* Whose kind is looked up before the first of them is run: what comes next is then known early. */
#define KINDS_AHEAD 64u

bool probe_events(probe *p, const nt_reader *r, nt_run *run, const atomic_bool *quiet, int64_t *latest)
{
    const nt_event *const ev = &run->event;
    const nt_turn *const first = run->at;
    const uint64_t order = p->order + 1;
    const bool muted = atomic_load_explicit(quiet, memory_order_relaxed);
    int64_t last = INT64_MIN;
    uint64_t n_later = 0;
    bool other = false;
    enter(&p->ctx, r, ev);
    while (!other && run->at < run->end) {
        const probe_kind *kinds[KINDS_AHEAD];
        const size_t left = (size_t)(run->end - run->at), n = left < KINDS_AHEAD ? left : KINDS_AHEAD;
        for (size_t i = 0; i < n; i++)
            kinds[i] = kind_of(run, run->at[i].w);
        for (size_t i = 0; i < n; i++) {
            const probe_kind *k = kinds[i];
            (void)nt_run_next(run);
            other = !k || muted;
            if (UNLIKELY(other)) break;
            last = ev->ts;
            n_later += k->later;
            run_event(p, &p->ctx, k, ev);
        }
    }
    if (n_later) note_later(p, run, first, run->at - other, order, n_later);
    if (run->last && !other && p->n_later) run_later(p, run);
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
        t.op = PT_RING;
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
        if (!(node->on & on)) continue;
        const ptop t = top_of(p, node, b);
        if (t.op == PT_RING && node == p->ring)
            b->later = true;
        else
            *top++ = t;
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
