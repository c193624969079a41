/* SPDX-License-Identifier: MIT */
/* graph_build.h: what a builder holds until it is sealed. Private to graph_build.c and graph_seal.c. */
#ifndef LUNETTE_MEMORY_GRAPH_BUILD_H
#define LUNETTE_MEMORY_GRAPH_BUILD_H

#include "memory/graph_internal.h"

typedef struct graph_dep {
    uint64_t key, target;
} graph_dep;

typedef struct graph_raw_root {
    uint64_t slot, target;
    uint32_t name; /* in texts */
    uint16_t kind, flags;
} graph_raw_root;

struct graph_builder {
    graph_limits lim;
    size_t memory; /* bytes of the arrays below */
    bool no_memory, over_memory;
    uint64_t *address; /* by node, in order of being added */
    uint32_t *type, *size, *degree;
    uint64_t *target; /* of all nodes, in their order */
    graph_big *big;
    graph_stored_type *types; /* texts are ids of texts */
    graph_raw_root *roots;
    graph_dep *deps;
    size_t cap_address, cap_type, cap_size, cap_degree, cap_target, cap_big, cap_types, cap_roots, cap_deps;
    uint32_t n_nodes, n_types, n_roots;
    uint64_t n_targets, n_big, n_deps, bytes;
    map64 by_id;
    strtab *texts;
    uint64_t last_id; /* what was asked for last: most neighbours are of one type */
    uint32_t last_type;
    bool node_open; /* the last node was taken: its edges may come */
    bool closed;    /* a node was dropped: all later ones are */
    bool totals;    /* objects are counted, and are no nodes */
    uint64_t n_counted;
    uint64_t dropped_nodes, dropped_edges, dropped_roots, dropped_texts;
};

/* Frees all that it holds. */
void graph__builder_drop(graph_builder *b);

#endif
