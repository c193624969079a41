/* SPDX-License-Identifier: MIT */
/* compile.c: a declaration becomes nodes with places for their states. */
#include <stdio.h>
#include <stdlib.h>

#include "probe/engine.h"

typedef struct compiler {
    probe *p;
    const probe_program *program;
    uint32_t nodes;
    uint32_t groups;
    pscope scope;
    err *e;
} compiler;

static const uint16_t STATE[PROBE_OP_COUNT] = {
    [PROBE_COUNT] = sizeof(uint64_t),    [PROBE_SUM] = sizeof(psum),        [PROBE_MIN] = sizeof(pextreme),
    [PROBE_MAX] = sizeof(pextreme),      [PROBE_STATS] = sizeof(pstats),    [PROBE_QUANTILES] = sizeof(void *),
    [PROBE_VALUE] = sizeof(prows),       [PROBE_DISTINCT] = sizeof(void *), [PROBE_FIRST] = sizeof(prows),
    [PROBE_LAST] = sizeof(prows),        [PROBE_TOP] = sizeof(prows),       [PROBE_GROUP] = sizeof(void *),
    [PROBE_PAIR] = sizeof(void *),       [PROBE_TIMELINE] = sizeof(void *), [PROBE_FILTER] = 0,
    [PROBE_EACH] = 2 * sizeof(uint64_t),
};

static bool wrong(compiler *c, const char *fmt, const char *a, const char *b)
{
    char what[200];
    (void)snprintf(what, sizeof what, fmt, a, b);
    (void)err_set(c->e, ERR_INVALID_ARGUMENT, "%s", what);
    return false;
}

static bool no_memory(compiler *c) { return wrong(c, "the declaration is too large%s%s", "", ""); }

/* ---- events ------------------------------------------------------------------------------------------------------ */
static bool read_alias(compiler *c, const probe_named *e, palias *a)
{
    const char *slash = strchr(e->text, '/');
    if (!slash || slash == e->text || !slash[1])
        return wrong(c, "event '%s': \"%s\" is not PROVIDER/EVENT", e->name, e->text);
    char *copy = arena_str(&c->p->a, slice_str(e->text));
    if (!copy) return no_memory(c);
    a->provider = slice_of(copy, (size_t)(slash - e->text));
    a->event = slice_str(copy + a->provider.n + 1);
    a->id = -1;
    if (a->event.p[0] == '#') {
        char *end;
        a->id = strtoll((const char *)a->event.p + 1, &end, 10);
        if (*end || a->id < 0 || !a->event.p[1])
            return wrong(c, "event '%s': \"%s\" has no number behind #", e->name, e->text);
    }
    return true;
}

static bool read_aliases(compiler *c)
{
    const probe_program *g = c->program;
    uint32_t bits = 0;
    if (g->n_events == 0) return wrong(c, "the program names no events%s%s", "", "");
    if (g->n_events > PROBE_PATTERNS_MAX) return wrong(c, "the program names too many events%s%s", "", "");
    c->p->alias = mem_calloc(g->n_events, sizeof *c->p->alias);
    if (!c->p->alias) return no_memory(c);
    for (size_t i = 0; i < g->n_events; i++) {
        palias *a = &c->p->alias[i];
        if (!read_alias(c, &g->events[i], a)) return false;
        a->bit = UINT32_MAX;
        for (size_t k = 0; k < i; k++)
            if (strcmp(g->events[k].name, g->events[i].name) == 0) a->bit = c->p->alias[k].bit;
        if (a->bit == UINT32_MAX) a->bit = bits++;
        if (bits > PROBE_EVENTS_MAX) return wrong(c, "the program has more than 64 short names of events%s%s", "", "");
        c->p->n_alias++;
    }
    return true;
}

/* The bits of short names. None given: `otherwise`. */
static bool bits_of(compiler *c, const probe_texts *names, uint64_t otherwise, const char *place, uint64_t *out)
{
    *out = names->n ? 0 : otherwise;
    for (size_t i = 0; i < names->n; i++) {
        uint64_t bit = 0;
        for (size_t k = 0; k < c->program->n_events && !bit; k++)
            if (strcmp(c->program->events[k].name, names->p[i]) == 0) bit = (uint64_t)1 << c->p->alias[k].bit;
        if (!bit) return wrong(c, "%s: there is no event '%s' in the program", place, names->p[i]);
        *out |= bit;
    }
    return true;
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */
static bool expression(compiler *c, const char *text, const char *place, const px **out)
{
    c->scope.place = place;
    *out = text ? probe__parse(&c->scope, text) : NULL;
    return !text || *out;
}

static bool columns(compiler *c, const probe_row *row, const char *place, pcolumns *out)
{
    if (row->n > PROBE_COLUMNS_MAX) return wrong(c, "%s: more than 64 columns%s", place, "");
    out->n = (uint32_t)row->n;
    if (!row->n) return true;
    out->e = arena_alloc(&c->p->a, row->n * sizeof *out->e);
    out->name = arena_alloc(&c->p->a, row->n * sizeof *out->name);
    if (!out->e || !out->name) return no_memory(c);
    for (size_t i = 0; i < row->n; i++) {
        char *name = arena_str(&c->p->a, slice_str(row->p[i].name));
        if (!name) return no_memory(c);
        out->name[i] = slice_str(name);
        if (!expression(c, row->p[i].text, place, &out->e[i])) return false;
    }
    return true;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */
static bool block(compiler *c, const probe_spec *specs, size_t n, bool paired, int depth, pblock *out);

static bool needs(compiler *c, const probe_spec *s, bool there, const char *what)
{
    return there || wrong(c, "%s: %s is missing", s->name, what);
}

static uint32_t limited(uint32_t given, uint32_t otherwise, uint32_t max)
{
    uint32_t v = given ? given : otherwise;
    return v > max ? max : v;
}

static bool checked(compiler *c, const probe_spec *s)
{
    switch (s->op) {
    case PROBE_SUM:
    case PROBE_MIN:
    case PROBE_MAX:
    case PROBE_STATS:
    case PROBE_QUANTILES:
    case PROBE_VALUE:
    case PROBE_DISTINCT: return needs(c, s, s->expr, "the expression");
    case PROBE_TOP:
        if (!needs(c, s, s->expr, "the expression to rank by")) return false;
        return needs(c, s, s->n > 0, "the number of rows") && needs(c, s, s->row.n > 0, "the row");
    case PROBE_FIRST:
    case PROBE_LAST: return needs(c, s, s->n > 0, "the number of rows") && needs(c, s, s->row.n > 0, "the row");
    case PROBE_GROUP: return needs(c, s, s->by.n > 0, "'by'") && needs(c, s, s->n_keep > 0, "'keep'");
    case PROBE_PAIR: return needs(c, s, s->start.n > 0, "'start'") && needs(c, s, s->stop.n > 0, "'stop'");
    case PROBE_TIMELINE: return needs(c, s, s->every_ns > 0, "'every'") && needs(c, s, s->n_keep > 0, "'keep'");
    case PROBE_FILTER: return needs(c, s, s->n_keep > 0, "'keep'");
    case PROBE_EACH: return needs(c, s, s->row.n > 0, "the row");
    default: return true;
    }
}

static bool skip_list(compiler *c, const probe_spec *s, pnode *n)
{
    n->n_skip = (uint32_t)s->skip.n;
    n->skip = s->skip.n ? arena_alloc(&c->p->a, s->skip.n * sizeof *n->skip) : NULL;
    for (size_t i = 0; i < s->skip.n; i++) {
        char *copy = n->skip ? arena_str(&c->p->a, slice_str(s->skip.p[i])) : NULL;
        if (!copy) return no_memory(c);
        n->skip[i] = slice_str(copy);
    }
    return true;
}

static bool quantiles(compiler *c, const probe_spec *s, pnode *n)
{
    static const double usual[] = {50, 95, 99};
    const double *q = s->n_quantiles ? s->quantiles : usual;
    size_t count = s->n_quantiles ? s->n_quantiles : sizeof usual / sizeof *usual;
    double *copy = arena_dup(&c->p->a, q, count * sizeof *q);
    if (!copy) return no_memory(c);
    for (size_t i = 0; i < count; i++)
        if (!(copy[i] >= 0 && copy[i] <= 100)) return wrong(c, "%s: a percentile is 0 to 100%s", s->name, "");
    n->quantiles = copy;
    n->n_quantiles = (uint32_t)count;
    return true;
}

/* Does x ask whether a pair is open? */
static bool asks_within(const px *x)
{
    if (!x) return false;
    if (x->op == PX_WITHIN) return true;
    for (uint8_t i = 0; i < x->n; i++)
        if (asks_within(x->arg[i])) return true;
    return false;
}

/* The keys of a pair: within() computes the keys of the pair that it names, so it would call itself without end. */
static bool pair_keys(compiler *c, const probe_row *by, const probe_spec *s, pcolumns *out)
{
    if (!columns(c, by, s->name, out)) return false;
    for (uint32_t i = 0; i < out->n; i++)
        if (asks_within(out->e[i])) return wrong(c, "%s: within() cannot be part of a pair's keys%s", s->name, "");
    return true;
}

/* What belongs to a pair: its sides are looked at by themselves, its children with both. */
static bool pair(compiler *c, const probe_spec *s, pnode *n, int depth)
{
    const pscope outer = c->scope;
    c->scope.pair = NULL;
    if (!bits_of(c, &s->start, 0, s->name, &n->start) || !bits_of(c, &s->stop, 0, s->name, &n->stop)) return false;
    static const probe_named thread = {"thread", "@thread"};
    const probe_row by = s->by.n ? s->by : (probe_row){&thread, 1};
    if (!pair_keys(c, &by, s, &n->by) || !pair_keys(c, &s->by_stop, s, &n->by_stop)) return false;
    if (n->by_stop.n && n->by_stop.n != n->by.n)
        return wrong(c, "%s: both sides of 'by' must have as many keys%s", s->name, "");
    if (!columns(c, &s->row, s->name, &n->row)) return false;
    n->open_rows = s->top ? s->top : PROBE_OPEN_ROWS;
    /* The list of what is kept of a start grows while the children are read. */
    pcapture captures = {.e = mem_calloc(PROBE_COLUMNS_MAX, sizeof *captures.e),
                         .text = mem_calloc(PROBE_COLUMNS_MAX, sizeof *captures.text)};
    bool ok = captures.e && captures.text;
    if (!ok) (void)no_memory(c);
    for (uint32_t i = 0; ok && i < n->row.n; i++) {
        captures.e[i] = n->row.e[i];
        captures.text[i] = SLICE_LIT("\001"); /* found by no expression */
        captures.n++;
    }
    c->scope.pair = n;
    c->scope.captures = &captures;
    ok = ok && expression(c, s->where, s->name, &n->pair_where) && block(c, s->keep, s->n_keep, true, depth, &n->kids);
    n->one_group = ok && n->kids.n == 1 && n->kids.node->op == PROBE_GROUP && n->kids.node->always;
    if (ok && captures.n) {
        n->captured.n = captures.n;
        n->captured.e = arena_dup(&c->p->a, captures.e, captures.n * sizeof *captures.e);
        ok = n->captured.e || no_memory(c);
    }
    free(captures.e);
    free(captures.text);
    uint32_t used = c->scope.nodes;
    c->scope = outer;
    c->scope.nodes = used;
    n->on = n->start | n->stop;
    return ok;
}

/* Can x be told from the event alone, later? */
static bool later(const px *x)
{
    if (x->op == PX_STACK || x->op == PX_CAPTURED || x->op == PX_DURATION || x->op == PX_WITHIN) return false;
    for (uint8_t i = 0; i < x->n; i++)
        if (!later(x->arg[i])) return false;
    return true;
}

static void note_fields(const px *x, uint32_t *list, uint32_t *n)
{
    if (x->op == PX_FIELD) {
        uint32_t i = 0;
        while (i < *n && list[i] != x->ref)
            i++;
        if (i == *n && *n < PROBE_COLUMNS_MAX) list[(*n)++] = x->ref;
    }
    for (uint8_t i = 0; i < x->n; i++)
        note_fields(x->arg[i], list, n);
}

/* The fields that the columns of a row read, each once. */
static bool fields_of(compiler *c, pnode *n)
{
    n->fields = arena_alloc(&c->p->a, PROBE_COLUMNS_MAX * sizeof *n->fields);
    if (!n->fields) return false;
    for (uint32_t i = 0; i < n->row.n; i++)
        note_fields(n->row.e[i], n->fields, &n->n_fields);
    for (uint32_t i = 0; i < n->n_fields; i++)
        n->field_bits |= probe__field_bit(n->fields[i]);
    return true;
}

static bool node(compiler *c, const probe_spec *s, bool paired, int depth, pnode *n)
{
    if (!s->name || !*s->name) return wrong(c, "a reducer has no name%s%s", "", "");
    if (++c->nodes > PROBE_NODES_MAX) return wrong(c, "the program has more than 512 reducers%s%s", "", "");
    if (depth > PROBE_DEPTH_MAX) return wrong(c, "%s: reducers are nested too deep%s", s->name, "");
    if (!checked(c, s)) return false;
    char *name = arena_str(&c->p->a, slice_str(s->name));
    if (!name) return no_memory(c);
    n->name = slice_str(name);
    n->op = (uint8_t)s->op;
    n->run = probe__runner(s->op);
    n->nested = s->nested;
    n->open = s->open;
    n->n = limited(s->n, 1, PROBE_ROWS_MAX);
    n->depth = s->depth;
    n->each = s->each;
    n->every_ns = s->every_ns;
    n->top = s->top ? s->top : PROBE_TOP_DEFAULT;
    n->max = s->op == PROBE_DISTINCT   ? limited(s->max, PROBE_DISTINCT_MAX, 65536)
             : s->op == PROBE_TIMELINE ? limited(s->max, PROBE_BUCKETS_MAX, 1000000)
                                       : limited(s->max, PROBE_KEYS_DEFAULT, PROBE_KEYS_MAX);
    if (paired && s->on.n) return wrong(c, "%s: 'on' cannot be below a pair: the stop decides%s", s->name, "");
    if (!bits_of(c, &s->on, ~(uint64_t)0, s->name, &n->on)) return false;
    if (s->op == PROBE_PAIR) return pair(c, s, n, depth + 1);
    n->always = !s->where && n->on == ~(uint64_t)0;
    bool had_stacks = c->p->uses_stacks;
    if (!expression(c, s->where, s->name, &n->where) || !expression(c, s->expr, s->name, &n->e) ||
        !expression(c, s->weight, s->name, &n->weight) || !columns(c, &s->row, s->name, &n->row) ||
        !columns(c, &s->by, s->name, &n->by))
        return false;
    if (s->op == PROBE_EACH && c->p->uses_stacks && !had_stacks)
        return wrong(c, "%s: a row of each() cannot have a stack: its names are known at the end only%s", s->name, "");
    if (s->op == PROBE_VALUE) {
        n->row.e = arena_dup(&c->p->a, &n->e, sizeof n->e);
        if (!n->row.e) return no_memory(c);
        n->row.n = 1;
    }
    if (s->op == PROBE_QUANTILES && !quantiles(c, s, n)) return false;
    if (s->op == PROBE_GROUP) n->seen = (uint8_t)(c->groups++ % PROBE_SEEN);
    n->lazy = s->op == PROBE_LAST && fields_of(c, n);
    for (uint32_t i = 0; n->lazy && i < n->row.n; i++)
        n->lazy = later(n->row.e[i]);
    return skip_list(c, s, n) && block(c, s->keep, s->n_keep, paired, depth + 1, &n->kids);
}

static bool clash(const probe_spec *specs, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(specs[k].name, specs[i].name) == 0) return true;
    return false;
}

static bool block(compiler *c, const probe_spec *specs, size_t n, bool paired, int depth, pblock *out)
{
    size_t at = 0;
    out->n = (uint32_t)n;
    out->node = n ? arena_alloc(&c->p->a, n * sizeof *out->node) : NULL;
    if (n && !out->node) return no_memory(c);
    for (size_t i = 0; i < n; i++) {
        pnode *x = &out->node[i];
        if (!node(c, &specs[i], paired, depth, x)) return false;
        if (clash(specs, i)) return wrong(c, "two reducers are called '%s'%s", specs[i].name, "");
        x->offset = (uint32_t)at;
        at += (STATE[x->op] + (x->op == PROBE_PAIR || x->op == PROBE_FILTER ? x->kids.size : 0) + 7) & ~(size_t)7;
    }
    out->size = at;
    return true;
}

bool probe__compile(probe *p, const probe_program *program, err *e)
{
    compiler c = {.p = p, .program = program, .e = e, .scope = {.p = p, .program = program, .e = e}};
    if (!read_aliases(&c)) return false;
    if (program->n_keep == 0) return wrong(&c, "the program keeps nothing%s%s", "", "");
    if (!block(&c, program->keep, program->n_keep, false, 0, &p->keep)) return false;
    p->finish_left = program->finish_count ? program->finish_count : 1;
    return bits_of(&c, &program->finish_on, 0, "finish", &p->finish_on) &&
           expression(&c, program->finish_where, "finish", &p->finish_where);
}
