/* SPDX-License-Identifier: MIT */
/* graph_seal.c: from what a builder collected to the graph: nodes sorted by address, targets resolved to nodes. The
 * array of target addresses becomes that of target nodes in place, since it is the biggest of all. */
#include <stdio.h>
#include <stdlib.h>

#include "memory/graph_build.h"

typedef struct seal {
    graph_builder *b;
    graph *g;
    uint32_t *order; /* node -> number in the builder; NULL: the same */
    uint64_t *start; /* of the builder's nodes in target, [n + 1]; used when order or deps demand it */
    uint32_t *edge;  /* resolved, in the builder's order: the memory of b->target */
    graph_index index;
} seal;

static int no_memory(const seal *s, err *e)
{
    return err_set(e, ERR_NO_MEMORY, "no memory to sort a graph of %u objects and %llu references", s->b->n_nodes,
                   (unsigned long long)s->b->n_targets);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static bool is_sorted(const graph_builder *b)
{
    for (uint32_t i = 1; i < b->n_nodes; i++)
        if (b->address[i] <= b->address[i - 1]) return false;
    return true;
}

/* The beginnings of ascending runs, closed by n. A heap is walked segment by segment: there are few. */
static uint32_t *find_runs(const graph_builder *b, uint32_t *n_runs)
{
    uint32_t n = 1;
    for (uint32_t i = 1; i < b->n_nodes; i++)
        n += b->address[i] < b->address[i - 1];
    uint32_t *runs = mem_alloc((n + 1) * sizeof *runs);
    if (!runs) return NULL;
    uint32_t k = 0;
    runs[k++] = 0;
    for (uint32_t i = 1; i < b->n_nodes; i++)
        if (b->address[i] < b->address[i - 1]) runs[k++] = i;
    runs[k] = b->n_nodes;
    *n_runs = n;
    return runs;
}

/* Stable: of equal addresses the one added first comes first. */
static void merge(const uint64_t *address, const uint32_t *from, uint32_t lo, uint32_t mid, uint32_t hi, uint32_t *to)
{
    uint32_t a = lo, b = mid, k = lo;
    while (a < mid && b < hi)
        to[k++] = address[from[b]] < address[from[a]] ? from[b++] : from[a++];
    memcpy(to + k, from + a, (mid - a) * sizeof *to);
    k += mid - a;
    memcpy(to + k, from + b, (hi - b) * sizeof *to);
}

/* One pass: neighbours are joined; the number of runs halves. */
static uint32_t merge_pairs(const uint64_t *address, uint32_t *runs, uint32_t n, const uint32_t *from, uint32_t *to)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i += 2) {
        uint32_t lo = runs[i], mid = runs[i + 1], hi = i + 2 <= n ? runs[i + 2] : mid;
        merge(address, from, lo, mid, hi, to);
        runs[k++] = lo;
    }
    runs[k] = runs[n];
    return k;
}

static void drop_duplicates(seal *s)
{
    const uint64_t *address = s->b->address;
    uint32_t k = 0;
    for (uint32_t i = 0; i < s->b->n_nodes; i++)
        if (k == 0 || address[s->order[i]] != address[s->order[k - 1]]) s->order[k++] = s->order[i];
    s->g->info.nodes = k;
    s->g->info.duplicate_nodes = s->b->n_nodes - k;
}

static int sort(seal *s, err *e)
{
    graph_builder *b = s->b;
    s->g->info.nodes = b->n_nodes;
    if (is_sorted(b)) return 0;
    uint32_t n_runs, *runs = find_runs(b, &n_runs);
    uint32_t *spare = mem_alloc(b->n_nodes * sizeof *spare);
    s->order = mem_alloc(b->n_nodes * sizeof *s->order);
    if (!runs || !spare || !s->order) {
        free(runs);
        free(spare);
        return no_memory(s, e);
    }
    for (uint32_t i = 0; i < b->n_nodes; i++)
        s->order[i] = i;
    while (n_runs > 1) {
        n_runs = merge_pairs(b->address, runs, n_runs, s->order, spare);
        uint32_t *t = s->order;
        s->order = spare;
        spare = t;
    }
    free(runs);
    free(spare);
    drop_duplicates(s);
    return 0;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static int permute32(const seal *s, uint32_t **p, err *e)
{
    uint32_t n = s->g->info.nodes, *q = mem_alloc((n + 1) * sizeof *q);
    if (!q) return no_memory(s, e);
    for (uint32_t i = 0; i < n; i++)
        q[i] = (*p)[s->order[i]];
    free(*p);
    *p = q;
    return 0;
}

static int permute64(const seal *s, uint64_t **p, err *e)
{
    uint32_t n = s->g->info.nodes;
    uint64_t *q = mem_alloc((n + UINT64_C(1)) * sizeof *q);
    if (!q) return no_memory(s, e);
    for (uint32_t i = 0; i < n; i++)
        q[i] = (*p)[s->order[i]];
    free(*p);
    *p = q;
    return 0;
}

static int by_node(const void *a, const void *b)
{
    uint32_t x = ((const graph_big *)a)->node, y = ((const graph_big *)b)->node;
    return (x > y) - (x < y);
}

/* Big ones name a builder's node: they are given the sorted one's number. */
static int permute_big(const seal *s, err *e)
{
    graph_builder *b = s->b;
    if (b->n_big == 0) return 0;
    uint32_t *at = mem_alloc(b->n_nodes * sizeof *at);
    if (!at) return no_memory(s, e);
    memset(at, 0xFF, b->n_nodes * sizeof *at);
    for (uint32_t i = 0; i < s->g->info.nodes; i++)
        at[s->order[i]] = i;
    uint64_t k = 0;
    for (uint64_t i = 0; i < b->n_big; i++)
        if (at[b->big[i].node] != GRAPH_NONE)
            b->big[k++] = (graph_big){.node = at[b->big[i].node], .size = b->big[i].size};
    b->n_big = k;
    qsort(b->big, k, sizeof *b->big, by_node);
    free(at);
    return 0;
}

static int place_nodes(seal *s, err *e)
{
    graph_builder *b = s->b;
    graph *g = s->g;
    int rc = 0;
    if (s->order) {
        rc = permute64(s, &b->address, e);
        if (rc == 0) rc = permute32(s, &b->type, e);
        if (rc == 0) rc = permute32(s, &b->size, e);
        if (rc == 0) rc = permute_big(s, e);
    }
    if (rc < 0) return rc;
    g->address = b->address;
    g->type = b->type;
    g->size = b->size;
    g->big = b->big;
    g->n_big = b->n_big;
    b->address = NULL;
    b->type = b->size = NULL;
    b->big = NULL;
    return 0;
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

static void resolve(seal *s)
{
    graph_builder *b = s->b;
    s->edge = (uint32_t *)b->target;
    for (uint64_t i = 0; i < b->n_targets; i++) {
        uint64_t to;
        memcpy(&to, &b->target[i], sizeof to);
        uint32_t node = graph__index_find(&s->index, to);
        memcpy((char *)b->target + i * sizeof node, &node, sizeof node);
    }
}

/* Dependent edges, resolved and counted by key; those without both ends go. */
static void resolve_deps(seal *s)
{
    graph_builder *b = s->b;
    uint64_t k = 0;
    for (uint64_t i = 0; i < b->n_deps; i++) {
        uint32_t key = graph__index_find(&s->index, b->deps[i].key);
        uint32_t target = graph__index_find(&s->index, b->deps[i].target);
        if (key == GRAPH_NONE || target == GRAPH_NONE)
            s->g->info.dangling_edges++;
        else
            b->deps[k++] = (graph_dep){key, target};
    }
    b->n_deps = k;
}

static int by_key(const void *a, const void *b)
{
    const graph_dep *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->target > y->target) - (x->target < y->target);
}

/* Where each of the builder's nodes begins in the flat list. */
static int find_starts(seal *s, err *e)
{
    graph_builder *b = s->b;
    s->start = mem_alloc((b->n_nodes + UINT64_C(1)) * sizeof *s->start);
    if (!s->start) return no_memory(s, e);
    uint64_t at = 0;
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        s->start[i] = at < b->n_targets ? at : b->n_targets;
        at += b->degree[i];
    }
    s->start[b->n_nodes] = at < b->n_targets ? at : b->n_targets;
    return 0;
}

/* In the order of nodes, dangling ones left out, dependent ones behind a node's own. */
static int copy_edges(seal *s, err *e)
{
    graph_builder *b = s->b;
    graph *g = s->g;
    uint64_t k = 0, dep = 0;
    if (find_starts(s, e) < 0) return -ERR_NO_MEMORY;
    g->edge = mem_alloc((b->n_targets + b->n_deps + 1) * sizeof *g->edge);
    if (!g->edge) return no_memory(s, e);
    if (b->n_deps) qsort(b->deps, b->n_deps, sizeof *b->deps, by_key);
    for (uint32_t i = 0; i < g->info.nodes; i++) {
        uint32_t from = s->order ? s->order[i] : i;
        g->first[i] = (uint32_t)k;
        for (uint64_t t = s->start[from]; t < s->start[from + 1]; t++)
            if (s->edge[t] != GRAPH_NONE) g->edge[k++] = s->edge[t];
        for (; dep < b->n_deps && b->deps[dep].key == i; dep++)
            g->edge[k++] = (uint32_t)b->deps[dep].target;
    }
    g->first[g->info.nodes] = (uint32_t)k;
    g->info.edges = k;
    return 0;
}

/* The same where the order stays: no second array. */
static void close_up(seal *s)
{
    graph_builder *b = s->b;
    graph *g = s->g;
    uint64_t k = 0, at = 0;
    for (uint32_t i = 0; i < g->info.nodes; i++) {
        uint64_t end = at + b->degree[i];
        g->first[i] = (uint32_t)k;
        for (; at < end && at < b->n_targets; at++)
            if (s->edge[at] != GRAPH_NONE) s->edge[k++] = s->edge[at];
        at = end;
    }
    g->first[g->info.nodes] = (uint32_t)k;
    g->info.edges = k;
    uint32_t *less = mem_realloc(s->edge, (k + 1) * sizeof *less);
    g->edge = less ? less : s->edge;
    b->target = NULL;
    s->edge = NULL;
}

static void count_edges(seal *s)
{
    graph_builder *b = s->b;
    uint64_t told = 0;
    for (uint32_t i = 0; i < b->n_nodes; i++)
        told += b->degree[i];
    if (told > b->n_targets) s->g->info.missing_edges = told - b->n_targets;
    if (told < b->n_targets) b->dropped_edges += b->n_targets - told;
    for (uint64_t i = 0; i < b->n_targets && i < told; i++)
        s->g->info.dangling_edges += s->edge[i] == GRAPH_NONE;
}

static int place_edges(seal *s, err *e)
{
    graph_builder *b = s->b;
    graph *g = s->g;
    g->first = mem_alloc((g->info.nodes + UINT64_C(1)) * sizeof *g->first);
    if (!g->first) return no_memory(s, e);
    resolve(s);
    count_edges(s);
    resolve_deps(s);
    if (s->order || b->n_deps || b->n_targets == 0) return copy_edges(s, e);
    close_up(s);
    return 0;
}

/* ---- roots, types, texts ----------------------------------------------------------------------------------------- */

static int place_roots(seal *s, err *e)
{
    graph_builder *b = s->b;
    graph *g = s->g;
    g->roots = mem_calloc(b->n_roots + 1, sizeof *g->roots);
    if (!g->roots) return no_memory(s, e);
    for (uint32_t i = 0; i < b->n_roots; i++) {
        const graph_raw_root *r = &b->roots[i];
        uint32_t node = graph__index_find(&s->index, r->target);
        if (node == GRAPH_NONE && r->flags & GRAPH_INTERIOR) node = graph_find(g, r->target, true);
        if (node == GRAPH_NONE) {
            g->info.dangling_roots++;
            continue;
        }
        g->roots[g->info.roots++] =
            (graph_stored_root){.slot = r->slot, .node = node, .name = r->name, .kind = r->kind, .flags = r->flags};
    }
    return 0;
}

/* "UNKNOWN(0x…)" for what was never described. */
static int name_types(seal *s, err *e)
{
    graph_builder *b = s->b;
    char name[64];
    for (uint32_t i = 0; i < b->n_types; i++) {
        graph_stored_type *t = &b->types[i];
        if (t->name) continue;
        int n = snprintf(name, sizeof name, "UNKNOWN(0x%llx)", (unsigned long long)t->id);
        t->name = strtab_intern(b->texts, slice_of(name, (size_t)n));
        if (t->name == STRTAB_FULL) return no_memory(s, e);
        t->flags |= GRAPH_TYPE_UNNAMED;
    }
    return 0;
}

static int place_texts(seal *s, uint32_t **offsets, err *e)
{
    graph_builder *b = s->b;
    graph *g = s->g;
    uint32_t n = strtab_count(b->texts);
    uint32_t *at = mem_alloc(n * sizeof *at);
    if (!at) return no_memory(s, e);
    for (uint32_t i = 0; i < n; i++) {
        at[i] = (uint32_t)g->n_text;
        g->n_text += strtab_get(b->texts, i).n + 1;
    }
    g->text = mem_calloc(1, g->n_text);
    *offsets = at;
    if (!g->text) return no_memory(s, e);
    for (uint32_t i = 0; i < n; i++) {
        slice t = strtab_get(b->texts, i);
        if (t.n) memcpy(g->text + at[i], t.p, t.n);
    }
    return 0;
}

static void sum_types(graph *g, const graph_builder *b)
{
    g->info.totals_only = b->totals;
    g->info.objects = b->totals ? b->n_counted : g->info.nodes;
    g->info.bytes = b->totals ? b->bytes : 0;
    for (uint32_t i = 0; i < g->info.nodes; i++) {
        uint64_t size = graph_size(g, i);
        g->types[g->type[i]].count++;
        g->types[g->type[i]].bytes += size;
        g->info.bytes += size;
    }
}

static int place_types(seal *s, err *e)
{
    graph_builder *b = s->b;
    graph *g = s->g;
    uint32_t *offsets = NULL;
    int rc = name_types(s, e);
    if (rc == 0) rc = place_texts(s, &offsets, e);
    if (rc == 0 && !b->types) b->types = mem_calloc(1, sizeof *b->types);
    if (rc == 0 && !b->types) rc = no_memory(s, e);
    if (rc < 0) {
        free(offsets);
        return rc;
    }
    g->types = b->types;
    b->types = NULL;
    g->info.types = b->n_types;
    for (uint32_t i = 0; i < g->info.types; i++) {
        graph_stored_type *t = &g->types[i];
        t->name = offsets[t->name];
        t->module_name = offsets[t->module_name];
        t->module_path = offsets[t->module_path];
        g->info.unnamed_types += (t->flags & GRAPH_TYPE_UNNAMED) != 0;
    }
    for (uint32_t i = 0; i < g->info.roots; i++)
        g->roots[i].name = offsets[g->roots[i].name];
    free(offsets);
    sum_types(g, b);
    return 0;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static size_t memory_of(const graph *g)
{
    const graph_info *i = &g->info;
    return i->nodes * UINT64_C(20) + i->edges * 4 + i->types * sizeof *g->types + i->roots * sizeof *g->roots +
           g->n_big * sizeof *g->big + g->n_text;
}

static int check_memory(const graph_builder *b, err *e)
{
    if (b->no_memory)
        return err_set(e, ERR_NO_MEMORY, "no memory for a graph of more than %u objects and %llu references",
                       b->n_nodes, (unsigned long long)b->n_targets);
    if (!b->over_memory) return 0;
    (void)err_set(e, ERR_LIMIT, "a graph of more than %u objects and %llu references needs more than %zu MB",
                  b->n_nodes, (unsigned long long)b->n_targets, b->lim.memory >> 20);
    err_hint(e, "ask for type totals only, or raise the memory limit");
    return -ERR_LIMIT;
}

static int seal_run(seal *s, err *e)
{
    int rc = sort(s, e);
    if (rc == 0) rc = place_nodes(s, e);
    if (rc == 0) rc = graph__index_build(&s->index, s->g->address, s->g->info.nodes, e);
    if (rc == 0) rc = place_edges(s, e);
    if (rc == 0) rc = place_roots(s, e);
    if (rc == 0) rc = place_types(s, e);
    return rc;
}

graph *graph_seal(graph_builder *b, err *e)
{
    seal s = {.b = b};
    int rc = check_memory(b, e);
    if (rc == 0 && !b->texts) rc = err_set(e, ERR_INTERNAL, "this builder has been sealed already");
    if (rc == 0) {
        s.g = graph__new();
        rc = s.g ? seal_run(&s, e) : no_memory(&s, e);
    }
    if (rc == 0) {
        s.g->info.dropped_nodes = b->dropped_nodes;
        s.g->info.dropped_edges = b->dropped_edges;
        s.g->info.dropped_roots = b->dropped_roots;
        s.g->info.memory = memory_of(s.g);
    } else {
        graph_unref(s.g);
        s.g = NULL;
    }
    free(s.order);
    free(s.start);
    graph__index_fini(&s.index);
    graph__builder_drop(b);
    return s.g;
}
