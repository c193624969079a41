/* SPDX-License-Identifier: MIT */
/* tiles.c: the dominator tree from the roots down, objects of one type below one tile put together, for a picture. */
#include <stdlib.h>

#include "memory/dominators_internal.h"

#define GROUP UINT32_C(0x40000000) /* added to a group's number while its tile is not known */

typedef struct group {
    uint32_t parent, type, node, count, tile;
    uint64_t retained, own;
} group;

typedef struct tiling {
    const graph_tree *t;
    uint32_t *tile_of; /* [nodes + 1]: a tile, GROUP + group, or GRAPH_NONE */
    group *groups;
    size_t n_groups, cap_groups;
    graph_tile *rows;
    uint32_t n, cap;
    uint64_t least;
} tiling;

static bool add_tile(tiling *x, graph_tile row)
{
    if (x->n == x->cap) {
        uint32_t cap = x->cap ? 2 * x->cap : 256;
        graph_tile *rows = mem_realloc(x->rows, cap * sizeof *rows);
        if (!rows) return false;
        x->rows = rows;
        x->cap = cap;
    }
    x->rows[x->n++] = row;
    return true;
}

static bool add_to_group(tiling *x, map64 *by_key, uint32_t node, uint32_t parent)
{
    const graph *g = x->t->g;
    uint64_t key = (uint64_t)parent << 32 | g->type[node], at;
    if (!map64_get(by_key, key, &at)) {
        if (x->n_groups == x->cap_groups) {
            size_t cap = x->cap_groups ? 2 * x->cap_groups : 1024;
            group *groups = cap < GROUP ? mem_realloc(x->groups, cap * sizeof *groups) : NULL;
            if (!groups) return false;
            x->groups = groups;
            x->cap_groups = cap;
        }
        at = x->n_groups++;
        x->groups[at] = (group){.parent = parent, .type = g->type[node], .node = node};
        if (!map64_put(by_key, key, at)) return false;
    }
    if (!x->groups) return false;
    group *to = &x->groups[at];
    to->count++;
    to->retained += x->t->retained[node];
    to->own += graph_size(g, node);
    x->tile_of[node] = GROUP + (uint32_t)at;
    return true;
}

/* All nodes whose dominator lies in one of the tiles from..to. */
static bool collect(tiling *x, uint32_t from, uint32_t to)
{
    map64 by_key = {0};
    const graph_tree *t = x->t;
    bool fine = true;
    x->n_groups = 0;
    for (uint32_t i = 0; fine && i < t->g->info.nodes; i++) {
        uint32_t up = t->dominator[i];
        if (up == GRAPH_NONE || x->tile_of[i] != GRAPH_NONE) continue;
        uint32_t tile = x->tile_of[up];
        if (tile >= from && tile < to) fine = add_to_group(x, &by_key, i, tile);
    }
    map64_fini(&by_key);
    return fine;
}

static int biggest_first(const void *a, const void *b)
{
    const group *x = *(const group *const *)a, *y = *(const group *const *)b;
    if (x->retained != y->retained) return x->retained > y->retained ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Tiles of the groups that are big enough, and one for the others of each parent. */
static bool place(tiling *x, uint32_t from, uint32_t to)
{
    group **order = mem_alloc((x->n_groups + 1) * sizeof *order);
    graph_tile *rest = mem_calloc(to - from + UINT64_C(1), sizeof *rest);
    bool fine = order && rest;
    for (size_t i = 0; fine && i < x->n_groups; i++)
        order[i] = &x->groups[i];
    if (fine && x->n_groups) qsort(order, x->n_groups, sizeof(group *), biggest_first);
    for (size_t i = 0; fine && i < x->n_groups; i++) {
        group *p = order[i];
        p->tile = GRAPH_NONE;
        if (p->retained >= x->least && x->n + (to - from) < GRAPH_TILES_MAX) {
            p->tile = x->n;
            fine = add_tile(x, (graph_tile){p->parent, p->type, p->count == 1 ? p->node : GRAPH_NONE, p->count,
                                            p->retained, p->own});
            continue;
        }
        graph_tile *r = &rest[p->parent - from];
        r->count += p->count;
        r->retained += p->retained;
        r->own += p->own;
    }
    for (uint32_t i = 0; fine && i < to - from; i++)
        if (rest[i].count && rest[i].retained >= x->least)
            fine = add_tile(
                x, (graph_tile){from + i, GRAPH_NONE, GRAPH_NONE, rest[i].count, rest[i].retained, rest[i].own});
    free(order);
    free(rest);
    return fine;
}

static void settle(tiling *x)
{
    if (!x->groups) return;
    for (uint32_t i = 0; i < x->t->g->info.nodes; i++)
        if (x->tile_of[i] != GRAPH_NONE && x->tile_of[i] >= GROUP) {
            uint32_t tile = x->groups[x->tile_of[i] - GROUP].tile;
            x->tile_of[i] = tile == GRAPH_NONE ? GROUP - 1 : tile; /* shown nowhere: neither is what is below */
        }
}

int graph_tree_tiles(const graph_tree *t, unsigned depth, uint32_t least_part, graph_tiles *out, err *e)
{
    uint64_t n = t->g->info.nodes + UINT64_C(1);
    tiling x = {.t = t, .tile_of = mem_alloc(n * sizeof *x.tile_of)};
    x.least = least_part ? t->info.reached_bytes / least_part : 0;
    bool fine = x.tile_of && add_tile(&x, (graph_tile){.type = GRAPH_NONE,
                                                       .node = GRAPH_NONE,
                                                       .count = t->info.reached,
                                                       .retained = t->info.reached_bytes});
    if (fine) {
        memset(x.tile_of, 0xFF, n * sizeof *x.tile_of);
        x.tile_of[n - 1] = 0;
    }
    for (uint32_t from = 0, to = 1; fine && depth && from < to; depth--) {
        fine = collect(&x, from, to) && place(&x, from, to);
        if (fine) settle(&x);
        from = to;
        to = x.n;
    }
    free(x.tile_of);
    free(x.groups);
    *out = (graph_tiles){.rows = x.rows, .n = x.n};
    if (fine) return 0;
    free(x.rows);
    *out = (graph_tiles){0};
    return err_set(e, ERR_NO_MEMORY, "no memory for a picture of %u objects", t->g->info.nodes);
}
