/* SPDX-License-Identifier: MIT */
/* graph.c: what is asked of one node, type or root of a sealed graph. */
#include <stdlib.h>
#include <sys/mman.h>

#include "memory/graph_internal.h"

const char *graph_root_kind_name(graph_root_kind kind)
{
    static const char *const names[] = {
#define X(sym, text) text,
        GRAPH_ROOT_KINDS(X)
#undef X
    };
    return (unsigned)kind < GRAPH_ROOT_KIND_COUNT ? names[kind] : "Other";
}

graph *graph__new(void)
{
    graph *g = mem_calloc(1, sizeof *g);
    if (g) atomic_init(&g->refs, 1);
    return g;
}

graph *graph_ref(graph *g)
{
    atomic_fetch_add(&g->refs, 1);
    return g;
}

void graph_unref(graph *g)
{
    if (!g || atomic_fetch_sub(&g->refs, 1) != 1) return;
    if (g->map && g->mapped) {
        (void)munmap(g->map, g->map_len);
    } else if (g->map) {
        free(g->map);
    } else {
        free(g->address);
        free(g->type);
        free(g->size);
        free(g->first);
        free(g->edge);
        free(g->big);
        free(g->types);
        free(g->roots);
        free(g->text);
    }
    free(g);
}

const graph_info *graph_info_of(const graph *g) { return &g->info; }

void graph_type_at(const graph *g, uint32_t type, graph_type *out)
{
    const graph_stored_type *t = &g->types[type];
    *out = (graph_type){
        .id = t->id,
        .name = slice_str(g->text + t->name),
        .module_name = slice_str(g->text + t->module_name),
        .module_path = slice_str(g->text + t->module_path),
        .mvid = t->has_mvid ? t->mvid : NULL,
        .token = t->token,
        .flags = t->flags,
        .count = t->count,
        .bytes = t->bytes,
    };
}

void graph_root_at(const graph *g, uint32_t root, graph_root *out)
{
    const graph_stored_root *r = &g->roots[root];
    *out = (graph_root){.node = r->node,
                        .kind = (graph_root_kind)r->kind,
                        .flags = r->flags,
                        .slot = r->slot,
                        .name = slice_str(g->text + r->name)};
}

uint64_t graph_address(const graph *g, uint32_t node) { return g->address[node]; }
uint32_t graph_type_of(const graph *g, uint32_t node) { return g->type[node]; }

static uint64_t big_size(const graph *g, uint32_t node)
{
    uint64_t lo = 0, hi = g->n_big;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (g->big[mid].node < node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < g->n_big && g->big[lo].node == node ? g->big[lo].size : GRAPH_SIZE_BIG;
}

uint64_t graph_size(const graph *g, uint32_t node)
{
    return g->size[node] == GRAPH_SIZE_BIG ? big_size(g, node) : g->size[node];
}

const uint32_t *graph_targets(const graph *g, uint32_t node, uint32_t *n)
{
    *n = g->first[node + 1] - g->first[node];
    return g->edge + g->first[node];
}

uint32_t graph_find(const graph *g, uint64_t address, bool interior)
{
    uint32_t lo = 0, hi = g->info.nodes; /* the first node behind the address */
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (g->address[mid] <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0) return GRAPH_NONE;
    uint64_t at = g->address[lo - 1];
    return at == address || (interior && address - at < graph_size(g, lo - 1)) ? lo - 1 : GRAPH_NONE;
}
