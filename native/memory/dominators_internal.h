/* SPDX-License-Identifier: MIT */
/* dominators_internal.h: the dominator tree's layout, for those who walk it. */
#ifndef LUNETTE_MEMORY_DOMINATORS_INTERNAL_H
#define LUNETTE_MEMORY_DOMINATORS_INTERNAL_H

#include "memory/dominators.h"
#include "memory/graph_internal.h"

struct graph_tree {
    atomic_int refs;
    graph *g;
    uint32_t *dominator; /* [nodes] */
    uint32_t *dominated; /* [nodes] */
    uint64_t *retained;  /* [nodes] */
    uint64_t *by_type;   /* [types] */
    graph_tree_info info;
};

#endif
