/* SPDX-License-Identifier: MIT */
/* ways.c: the shortest ways from roots to all objects, in one pass, and what can be reached from one. */
#include <stdlib.h>

#include "memory/dominators_internal.h"

struct graph_ways {
    atomic_int refs;
    graph *g;
    uint32_t *from;     /* [nodes] who refers to it on its way; nodes + root: a root does; GRAPH_NONE: nobody */
    uint32_t *distance; /* [nodes] */
};

/* How telling a root is: less comes first. */
static int rank_of(graph_root_kind kind, bool named)
{
    switch (kind) {
    case GRAPH_ROOT_STATIC: return named ? 0 : 1;
    case GRAPH_ROOT_THREAD_STATIC: return 1;
    case GRAPH_ROOT_STRONG_HANDLE:
    case GRAPH_ROOT_PINNED_HANDLE:
    case GRAPH_ROOT_ASYNC_PINNED_HANDLE:
    case GRAPH_ROOT_REF_COUNTED_HANDLE:
    case GRAPH_ROOT_SIZED_REF_HANDLE:
    case GRAPH_ROOT_HANDLE: return 2;
    case GRAPH_ROOT_STACK: return 3;
    case GRAPH_ROOT_DEPENDENT_HANDLE: return 4;
    case GRAPH_ROOT_FINALIZER_QUEUE:
    case GRAPH_ROOT_OLDER_GENERATION:
    case GRAPH_ROOT_OTHER:
    case GRAPH_ROOT_NONE:
    case GRAPH_ROOT_KIND_COUNT: return 5;
    }
    return 5;
}
#define RANKS 6

static uint32_t start(graph_ways *w, uint32_t *queue)
{
    const graph *g = w->g;
    uint32_t n = 0;
    for (int rank = 0; rank < RANKS; rank++)
        for (uint32_t i = 0; i < g->info.roots; i++) {
            const graph_stored_root *r = &g->roots[i];
            if (rank_of((graph_root_kind)r->kind, g->text[r->name] != 0) != rank || w->from[r->node] != GRAPH_NONE)
                continue;
            w->from[r->node] = g->info.nodes + i;
            w->distance[r->node] = 0;
            queue[n++] = r->node;
        }
    return n;
}

static void spread(graph_ways *w, uint32_t *queue, uint32_t n)
{
    const graph *g = w->g;
    for (uint32_t at = 0; at < n; at++) {
        uint32_t v = queue[at];
        for (uint32_t k = g->first[v]; k < g->first[v + 1]; k++) {
            uint32_t to = g->edge[k];
            if (w->from[to] != GRAPH_NONE) continue;
            w->from[to] = v;
            w->distance[to] = w->distance[v] + 1;
            queue[n++] = to;
        }
    }
}

graph_ways *graph_ways_new(graph *g, err *e)
{
    graph_ways *w = mem_calloc(1, sizeof *w);
    size_t bytes = (g->info.nodes + UINT64_C(1)) * sizeof(uint32_t);
    uint32_t *queue = mem_alloc(bytes);
    if (w) {
        atomic_init(&w->refs, 1);
        w->g = graph_ref(g);
        w->from = mem_alloc(bytes);
        w->distance = mem_alloc(bytes);
    }
    if (!w || !queue || !w->from || !w->distance) {
        graph_ways_unref(w);
        free(queue);
        (void)err_set(e, ERR_NO_MEMORY, "no memory for the ways to %u objects", g->info.nodes);
        return NULL;
    }
    memset(w->from, 0xFF, bytes);
    memset(w->distance, 0xFF, bytes);
    spread(w, queue, start(w, queue));
    free(queue);
    return w;
}

graph_ways *graph_ways_ref(graph_ways *w)
{
    atomic_fetch_add(&w->refs, 1);
    return w;
}

void graph_ways_unref(graph_ways *w)
{
    if (!w || atomic_fetch_sub(&w->refs, 1) != 1) return;
    graph_unref(w->g);
    free(w->from);
    free(w->distance);
    free(w);
}

uint32_t graph_distance(const graph_ways *w, uint32_t node) { return w->distance[node]; }

uint32_t graph_way(const graph_ways *w, uint32_t node, uint32_t *out, uint32_t max, uint32_t *root)
{
    uint32_t n = w->g->info.nodes;
    if (w->from[node] == GRAPH_NONE) return 0;
    uint32_t length = w->distance[node] + 1;
    for (uint32_t at = length;; node = w->from[node]) {
        at--; /* the place of node on the whole way */
        if (length <= max)
            out[at] = node;
        else if (at > length - max)
            out[at - (length - max)] = node;
        else if (at == 0 && max)
            out[0] = node;
        if (w->from[node] >= n) break;
    }
    *root = w->from[node] - n;
    return length;
}

/* Who refers to it on its way: a type; info.types: a root; GRAPH_NONE: nobody, or an object of its own type, which then
 * is the better example. */
static uint32_t referrer(const graph_ways *w, uint32_t node)
{
    const graph *g = w->g;
    uint32_t from = w->from[node];
    if (from == GRAPH_NONE) return GRAPH_NONE;
    if (from >= g->info.nodes) return g->info.types;
    return g->type[from] == g->type[node] ? GRAPH_NONE : g->type[from];
}

/* The referrer of most bytes of the type; GRAPH_NONE: none is known, or no memory to count. */
static uint32_t usual_referrer(const graph_ways *w, uint32_t type)
{
    const graph *g = w->g;
    uint64_t *bytes = mem_calloc(g->info.types + UINT64_C(1), sizeof *bytes);
    uint32_t most = GRAPH_NONE;
    for (uint32_t i = 0; bytes && i < g->info.nodes; i++) {
        uint32_t by = g->type[i] == type ? referrer(w, i) : GRAPH_NONE;
        if (by == GRAPH_NONE) continue;
        bytes[by] += graph_size(g, i);
        if (most == GRAPH_NONE) most = by;
    }
    for (uint32_t i = 0; most != GRAPH_NONE && i <= g->info.types; i++)
        if (bytes[i] > bytes[most]) most = i;
    free(bytes);
    return most;
}

uint32_t graph_example(const graph_ways *w, const graph_tree *t, uint32_t type)
{
    const graph *g = w->g;
    uint32_t best = GRAPH_NONE, usual = usual_referrer(w, type);
    uint64_t most = 0;
    for (uint32_t i = 0; i < g->info.nodes; i++) {
        if (g->type[i] != type || w->from[i] == GRAPH_NONE) continue;
        if (usual != GRAPH_NONE && referrer(w, i) != usual) continue;
        uint64_t bytes = t ? graph_retained(t, i) : graph_size(g, i);
        if (best != GRAPH_NONE && (bytes < most || (bytes == most && w->distance[i] >= w->distance[best]))) continue;
        best = i;
        most = bytes;
    }
    return best;
}

/* ---- what can be reached ----------------------------------------------------------------------------------------- */

int graph_reachable(const graph *g, uint32_t node, uint32_t max, graph_reach *out, err *e)
{
    uint32_t n = g->info.nodes < max ? g->info.nodes : max, count = 0;
    uint64_t *seen = mem_calloc(g->info.nodes / 64 + UINT64_C(1), sizeof *seen);
    uint32_t *queue = mem_alloc((n + UINT64_C(1)) * sizeof *queue);
    *out = (graph_reach){0};
    if (!seen || !queue) {
        free(seen);
        free(queue);
        return err_set(e, ERR_NO_MEMORY, "no memory to walk %u objects", n);
    }
    queue[count++] = node;
    seen[node / 64] |= UINT64_C(1) << node % 64;
    for (uint32_t at = 0; at < count; at++) {
        uint32_t v = queue[at];
        out->bytes += graph_size(g, v);
        for (uint32_t k = g->first[v]; k < g->first[v + 1]; k++) {
            uint32_t to = g->edge[k];
            if (seen[to / 64] >> to % 64 & 1) continue;
            if (count >= n) {
                out->truncated = true;
                break;
            }
            seen[to / 64] |= UINT64_C(1) << to % 64;
            queue[count++] = to;
        }
    }
    out->objects = count;
    free(seen);
    free(queue);
    return 0;
}

/* All that roots keep; without the objects of a type, unless it is GRAPH_NONE. */
static void flood(const graph *g, uint32_t without, uint64_t *seen, uint32_t *queue, graph_reach *out)
{
    uint32_t count = 0;
    *out = (graph_reach){0};
    for (uint32_t i = 0; i < g->info.roots; i++) {
        uint32_t to = g->roots[i].node;
        if (g->type[to] == without || seen[to / 64] >> to % 64 & 1) continue;
        seen[to / 64] |= UINT64_C(1) << to % 64;
        queue[count++] = to;
    }
    for (uint32_t at = 0; at < count; at++) {
        uint32_t v = queue[at];
        out->bytes += graph_size(g, v);
        for (uint32_t k = g->first[v]; k < g->first[v + 1]; k++) {
            uint32_t to = g->edge[k];
            if (g->type[to] == without || seen[to / 64] >> to % 64 & 1) continue;
            seen[to / 64] |= UINT64_C(1) << to % 64;
            queue[count++] = to;
        }
    }
    out->objects = count;
}

int graph_retained_together(const graph *g, uint32_t type, graph_reach *out, err *e)
{
    size_t words = g->info.nodes / 64 + UINT64_C(1);
    uint64_t *seen = mem_calloc(words, sizeof *seen);
    uint32_t *queue = mem_alloc((g->info.nodes + UINT64_C(1)) * sizeof *queue);
    graph_reach left;
    *out = (graph_reach){0};
    if (seen && queue) {
        flood(g, GRAPH_NONE, seen, queue, out);
        memset(seen, 0, words * sizeof *seen);
        flood(g, type, seen, queue, &left);
        out->bytes -= left.bytes;
        out->objects -= left.objects;
    }
    int rc = seen && queue ? 0 : err_set(e, ERR_NO_MEMORY, "no memory to walk %u objects", g->info.nodes);
    free(seen);
    free(queue);
    return rc;
}
