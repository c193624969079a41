/* SPDX-License-Identifier: MIT */
/* dominators.c: dominators by the method that computes semidominators and then walks up to the nearest common ancestor
 * (Georgiadis, Tarjan: "Finding dominators revisited"), without recursion. All of it works on numbers of the order in
 * which a depth-first search from the roots finds the nodes; 0 is the roots together. */
#include "memory/dominators.h"

#include <stdlib.h>

#include "memory/dominators_internal.h"

/* By number; [reached + 1]. */
typedef struct search {
    const graph *g;
    uint32_t n;       /* reached */
    uint32_t *number; /* of a node, or GRAPH_NONE; [nodes] */
    uint32_t *node;
    uint32_t *parent; /* in the search's tree; then the nearest dominator */
    uint32_t *up;   /* while evaluating: a link towards the root, shortened as it is used; first the edge to go next */
    uint32_t *best; /* the least semidominator on the links so far */
    uint32_t *semi;
    uint32_t *pred_first; /* [reached + 2] */
    uint32_t *pred;
    uint32_t *stack;
} search;

static void search_fini(search *s)
{
    free(s->number);
    free(s->node);
    free(s->parent);
    free(s->up);
    free(s->best);
    free(s->semi);
    free(s->pred_first);
    free(s->pred);
    free(s->stack);
    *s = (search){0};
}

static uint32_t *array(uint64_t n) { return mem_alloc((n ? n : 1) * sizeof(uint32_t)); }

static void enter(search *s, uint32_t node, uint32_t parent)
{
    uint32_t v = ++s->n;
    s->number[node] = v;
    s->node[v] = node;
    s->parent[v] = parent;
    s->up[v] = s->g->first[node];
}

static void walk_from(search *s, uint32_t root)
{
    const graph *g = s->g;
    enter(s, root, 0);
    for (uint32_t v = s->n; v;) {
        uint32_t at = s->up[v], end = g->first[s->node[v] + 1];
        while (at < end && s->number[g->edge[at]] != GRAPH_NONE)
            at++;
        if (at == end) {
            v = s->parent[v];
            continue;
        }
        s->up[v] = at + 1;
        enter(s, g->edge[at], v);
        v = s->n;
    }
}

static bool walk(search *s)
{
    const graph *g = s->g;
    uint64_t n = g->info.nodes + UINT64_C(1);
    s->number = array(n);
    s->node = array(n);
    s->parent = array(n);
    s->up = array(n);
    if (!s->number || !s->node || !s->parent || !s->up) return false;
    memset(s->number, 0xFF, n * sizeof *s->number);
    s->node[0] = g->info.nodes;
    s->parent[0] = 0;
    for (uint32_t i = 0; i < g->info.roots; i++)
        if (s->number[g->roots[i].node] == GRAPH_NONE) walk_from(s, g->roots[i].node);
    return true;
}

/* Who refers to each number. Tree edges that come first and roots' edges are among them. */
static bool list_preds(search *s)
{
    const graph *g = s->g;
    uint64_t m = 0;
    s->pred_first = mem_calloc(s->n + UINT64_C(2), sizeof *s->pred_first);
    if (!s->pred_first) return false;
    for (uint32_t v = 1; v <= s->n; v++)
        for (uint32_t k = g->first[s->node[v]]; k < g->first[s->node[v] + 1]; k++)
            s->pred_first[s->number[g->edge[k]] + 1]++;
    for (uint32_t i = 0; i < g->info.roots; i++)
        s->pred_first[s->number[g->roots[i].node] + 1]++;
    for (uint32_t v = 0; v <= s->n; v++) {
        m += s->pred_first[v + 1];
        if (m >= UINT32_MAX) return false;
        s->pred_first[v + 1] = (uint32_t)m;
    }
    s->pred = array(m);
    if (!s->pred) return false;
    /* filled from the end, so that each beginning is where it belongs afterwards */
    for (uint32_t i = 0; i < g->info.roots; i++)
        s->pred[--s->pred_first[s->number[g->roots[i].node] + 1]] = 0;
    for (uint32_t v = 1; v <= s->n; v++)
        for (uint32_t k = g->first[s->node[v]]; k < g->first[s->node[v] + 1]; k++)
            s->pred[--s->pred_first[s->number[g->edge[k]] + 1]] = v;
    memmove(s->pred_first, s->pred_first + 1, (s->n + UINT64_C(1)) * sizeof *s->pred_first);
    s->pred_first[s->n + 1] = (uint32_t)m;
    return true;
}

/* The least semidominator on the way up from v among numbers above `last`, whose links are followed and shortened. */
static uint32_t evaluate(search *s, uint32_t v, uint32_t last)
{
    uint32_t depth = 0;
    if (s->up[v] <= last) return s->best[v];
    for (uint32_t u = v; s->up[u] > last; u = s->up[u])
        s->stack[depth++] = u;
    /* from the top of the way down: each takes over what is above it */
    uint32_t above = s->up[s->stack[depth - 1]];
    while (depth--) {
        uint32_t u = s->stack[depth];
        if (s->best[above] < s->best[u]) s->best[u] = s->best[above];
        s->up[u] = s->up[above];
        above = u;
    }
    return s->best[v];
}

static bool find_semidominators(search *s)
{
    uint64_t n = s->n + UINT64_C(1);
    s->best = array(n);
    s->semi = array(n);
    s->stack = array(n);
    if (!s->best || !s->semi || !s->stack) return false;
    memcpy(s->up, s->parent, n * sizeof *s->up);
    for (uint32_t v = 0; v <= s->n; v++)
        s->best[v] = s->semi[v] = v;
    for (uint32_t w = s->n; w > 0; w--) {
        uint32_t least = s->parent[w];
        for (uint32_t k = s->pred_first[w]; k < s->pred_first[w + 1]; k++) {
            uint32_t v = s->pred[k], b = v <= w ? v : evaluate(s, v, w);
            if (b < least) least = b;
        }
        s->semi[w] = s->best[w] = least;
    }
    return true;
}

static void find_dominators(search *s)
{
    for (uint32_t w = 1; w <= s->n; w++) {
        uint32_t d = s->parent[w];
        while (d > s->semi[w])
            d = s->parent[d];
        s->parent[w] = d;
    }
}

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

static void sum_retained(graph_tree *t, const search *s)
{
    const graph *g = t->g;
    for (uint32_t v = s->n; v > 0; v--) {
        uint32_t node = s->node[v], up = s->parent[v];
        t->retained[node] += graph_size(g, node);
        t->dominated[node]++;
        t->dominator[node] = s->node[up];
        if (up) {
            t->retained[s->node[up]] += t->retained[node];
            t->dominated[s->node[up]] += t->dominated[node];
        } else {
            t->info.reached_bytes += t->retained[node];
        }
    }
    t->info.reached = s->n;
    t->info.unreached = g->info.nodes - s->n;
    t->info.unreached_bytes = g->info.bytes - t->info.reached_bytes;
}

/* Going down the tree, an object counts for its type unless one of the type is above it. The children of a number are
 * linked through `best` (next sibling) and `semi` (first child), which are no longer needed. */
static void sum_types(graph_tree *t, search *s, uint32_t *above)
{
    const graph *g = t->g;
    uint32_t *child = s->semi, *sibling = s->best;
    memset(child, 0, (s->n + UINT64_C(1)) * sizeof *child);
    for (uint32_t v = s->n; v > 0; v--) {
        sibling[v] = child[s->parent[v]];
        child[s->parent[v]] = v;
    }
    for (uint32_t v = child[0]; v;) {
        uint32_t node = s->node[v], type = g->type[node];
        if (above[type]++ == 0) t->by_type[type] += t->retained[node];
        if (child[v]) {
            v = child[v];
            continue;
        }
        while (v && !sibling[v]) {
            above[g->type[s->node[v]]]--;
            v = s->parent[v];
        }
        if (!v) break;
        above[g->type[s->node[v]]]--;
        v = sibling[v];
    }
}

static int tree_build(graph_tree *t, err *e)
{
    graph *g = t->g;
    uint64_t n = g->info.nodes + UINT64_C(1);
    search s = {.g = g};
    uint32_t *above = NULL;
    t->dominator = array(n);
    t->dominated = mem_calloc(n, sizeof *t->dominated);
    t->retained = mem_calloc(n, sizeof *t->retained);
    t->by_type = mem_calloc(g->info.types + 1, sizeof *t->by_type);
    bool fine = t->dominator && t->dominated && t->retained && t->by_type && walk(&s) && list_preds(&s) &&
                find_semidominators(&s);
    above = fine ? mem_calloc(g->info.types + 1, sizeof *above) : NULL;
    if (above) {
        memset(t->dominator, 0xFF, n * sizeof *t->dominator);
        find_dominators(&s);
        sum_retained(t, &s);
        sum_types(t, &s, above);
        t->info.memory = n * 16 + g->info.types * sizeof *t->by_type;
    }
    search_fini(&s);
    free(above);
    return above ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for what keeps what among %u objects", g->info.nodes);
}

graph_tree *graph_tree_new(graph *g, err *e)
{
    graph_tree *t = mem_calloc(1, sizeof *t);
    if (!t) {
        (void)err_set(e, ERR_NO_MEMORY, "no memory for what keeps what");
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->g = graph_ref(g);
    if (tree_build(t, e) == 0) return t;
    graph_tree_unref(t);
    return NULL;
}

graph_tree *graph_tree_ref(graph_tree *t)
{
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void graph_tree_unref(graph_tree *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1) return;
    graph_unref(t->g);
    free(t->dominator);
    free(t->dominated);
    free(t->retained);
    free(t->by_type);
    free(t);
}

const graph_tree_info *graph_tree_info_of(const graph_tree *t) { return &t->info; }
graph *graph_of_tree(const graph_tree *t) { return t->g; }
uint32_t graph_dominator(const graph_tree *t, uint32_t node) { return t->dominator[node]; }
uint64_t graph_retained(const graph_tree *t, uint32_t node) { return t->retained[node]; }
uint32_t graph_dominated(const graph_tree *t, uint32_t node) { return t->dominated[node]; }
uint64_t graph_retained_by_type(const graph_tree *t, uint32_t type) { return t->by_type[type]; }

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* a comes after b: less, or the same and further on in memory. */
static bool after(const graph_row *a, const graph_row *b)
{
    return a->retained != b->retained ? a->retained < b->retained : a->node > b->node;
}

static int by_retained(const void *a, const void *b) { return after(a, b) ? 1 : after(b, a) ? -1 : 0; }

/* A heap whose first is the one that comes last. */
static void sift(graph_row *h, uint32_t n, uint32_t i)
{
    for (;;) {
        uint32_t last = i, l = 2 * i + 1, r = l + 1;
        if (l < n && after(&h[l], &h[last])) last = l;
        if (r < n && after(&h[r], &h[last])) last = r;
        if (last == i) return;
        graph_row t = h[i];
        h[i] = h[last];
        h[last] = t;
        i = last;
    }
}

static void offer(graph_row *h, uint32_t *n, uint32_t max, graph_row row)
{
    if (*n < max) {
        h[(*n)++] = row;
        if (*n == max)
            for (uint32_t i = max / 2; i-- > 0;)
                sift(h, max, i);
    } else if (max && after(&h[0], &row)) {
        h[0] = row;
        sift(h, max, 0);
    }
}

uint32_t graph_tree_top(const graph_tree *t, uint32_t under, uint32_t type, graph_row *out, uint32_t n, uint32_t *total,
                        uint64_t *bytes)
{
    const graph *g = t->g;
    uint32_t kept = 0, seen = 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g->info.nodes; i++) {
        if (t->dominator[i] == GRAPH_NONE || (under != GRAPH_NONE && t->dominator[i] != under)) continue;
        if (type != GRAPH_NONE && g->type[i] != type) continue;
        seen++;
        sum += t->retained[i];
        offer(out, &kept, n, (graph_row){.node = i, .objects = t->dominated[i], .retained = t->retained[i]});
    }
    if (kept) qsort(out, kept, sizeof *out, by_retained);
    if (total) *total = seen;
    if (bytes) *bytes = sum;
    return kept;
}
