/* SPDX-License-Identifier: MIT */
/* dominators.h: what keeps what, of a sealed graph (graph.h): the dominator tree with retained sizes, the shortest
 * ways from roots, and what can be reached. Each is made once, on any thread, and then read by any number of threads.
 *
 * An object dominates another when every way from a root to the other leads through it: were it gone, the other would
 * go too. Its retained size is its own and that of all it dominates. */
#ifndef LUNETTE_MEMORY_DOMINATORS_H
#define LUNETTE_MEMORY_DOMINATORS_H

#include "memory/graph.h"

/* ---- the dominator tree ------------------------------------------------------------------------------------------ */

typedef struct graph_tree graph_tree;
/* Holds a reference on g. Takes about 0.25 s and 55 MB a million objects, 16 MB of it for good. NULL with *e filled: no
 * memory. */
graph_tree *graph_tree_new(graph *g, err *e);
graph_tree *graph_tree_ref(graph_tree *t);
void graph_tree_unref(graph_tree *t); /* any thread; NULL is fine */

typedef struct graph_tree_info {
    uint32_t reached;         /* objects that some root keeps */
    uint64_t reached_bytes;   /* the retained size of all roots together */
    uint32_t unreached;       /* garbage, or kept by a root that the source does not tell */
    uint64_t unreached_bytes; /* of those */
    size_t memory;            /* bytes, beside the graph's */
} graph_tree_info;
const graph_tree_info *graph_tree_info_of(const graph_tree *t);
graph *graph_of_tree(const graph_tree *t); /* borrowed */

/* The nearest dominator: a node; info.nodes: only the roots together keep it; GRAPH_NONE: nothing does. */
uint32_t graph_dominator(const graph_tree *t, uint32_t node);
/* Bytes; 0: nothing keeps it, and so it keeps nothing. */
uint64_t graph_retained(const graph_tree *t, uint32_t node);
/* Bytes that would go with all objects of a type: the retained sizes of those that no other of the type dominates. A
 * lower bound: what several of them keep only together is not in it. */
uint64_t graph_retained_by_type(const graph_tree *t, uint32_t type);

/* Nodes by retained size, the biggest first. */
typedef struct graph_row {
    uint32_t node;
    uint32_t objects; /* it and all it dominates */
    uint64_t retained;
} graph_row;
/* The n biggest of all (under = GRAPH_NONE) or of those whose nearest dominator is `under` (info.nodes: the roots), of
 * one type unless it is GRAPH_NONE. Returns how many were written to out[n]; *total (may be NULL) gets how many there
 * are, *bytes (may be NULL) their retained bytes together (under given only). */
uint32_t graph_tree_top(const graph_tree *t, uint32_t under, uint32_t type, graph_row *out, uint32_t n, uint32_t *total,
                        uint64_t *bytes);
/* Objects that a node dominates, itself included; 0: nothing keeps it. */
uint32_t graph_dominated(const graph_tree *t, uint32_t node);

/* The tree with children of one type under one dominator put together, from the biggest down: for a picture. */
typedef struct graph_tile {
    uint32_t parent; /* tile; 0 for the first one itself, which is the roots */
    uint32_t type;   /* GRAPH_NONE: the first one, or what was too small to show */
    uint32_t node;   /* when it stands for one object; else GRAPH_NONE */
    uint32_t count;  /* objects put together */
    uint64_t retained;
    uint64_t own; /* bytes of those objects themselves */
} graph_tile;
#define GRAPH_TILES_MAX 20000u
typedef struct graph_tiles {
    graph_tile *rows; /* free() it */
    uint32_t n;
} graph_tiles;
/* depth: levels below the roots; smaller than 1/least_part of all: put into one tile a parent. 0, or a negative status.
 */
int graph_tree_tiles(const graph_tree *t, unsigned depth, uint32_t least_part, graph_tiles *out, err *e);

/* ---- the ways from roots ----------------------------------------------------------------------------------------- */

typedef struct graph_ways graph_ways;
/* Holds a reference on g. For each object the shortest way from a root; of equally short ones that from the more
 * telling root: a static, a handle, a stack, anything else. NULL with *e filled: no memory. */
graph_ways *graph_ways_new(graph *g, err *e);
graph_ways *graph_ways_ref(graph_ways *w);
void graph_ways_unref(graph_ways *w);
/* The way to a node into out[max]: from the node that the root refers to, down to `node` itself. Returns its length,
 * which may be more than max: then out has its first node and the last max - 1 ones. 0: no root keeps it. *root gets
 * the root's index. */
uint32_t graph_way(const graph_ways *w, uint32_t node, uint32_t *out, uint32_t max, uint32_t *root);
/* References away from a root: 0 is what a root refers to; GRAPH_NONE: no root keeps it. */
uint32_t graph_distance(const graph_ways *w, uint32_t node);
/* Of a type the object that says most: of those that a root keeps, and that on their ways are referred to by the type
 * (or by roots) that refers to most bytes of them, the one that retains most (t given), else the biggest, the nearest
 * one to a root of equals. An odd one does not stand for thousands. GRAPH_NONE: no root keeps one. */
uint32_t graph_example(const graph_ways *w, const graph_tree *t, uint32_t type);

/* ---- what can be reached ----------------------------------------------------------------------------------------- */

typedef struct graph_reach {
    uint64_t bytes; /* of the node and all that can be reached from it */
    uint32_t objects;
    bool truncated; /* max objects were met: a lower bound */
} graph_reach;
/* What would go if all objects of a type were gone: they, and what can be reached only through them. Exact, unlike
 * graph_retained_by_type, for a walk over the whole heap. 0, or a negative status (no memory). */
int graph_retained_together(const graph *g, uint32_t type, graph_reach *out, err *e);
/* 0, or a negative status (no memory). */
int graph_reachable(const graph *g, uint32_t node, uint32_t max, graph_reach *out, err *e);

#endif
