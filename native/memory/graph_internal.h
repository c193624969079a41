/* SPDX-License-Identifier: MIT */
/* graph_internal.h: what the files of the object graph share. */
#ifndef LUNETTE_MEMORY_GRAPH_INTERNAL_H
#define LUNETTE_MEMORY_GRAPH_INTERNAL_H

#include <stdatomic.h>

#include "base/mem.h"
#include "memory/graph.h"

/* Sizes are 4 bytes; this one stands for an entry of the table of big ones. */
#define GRAPH_SIZE_BIG UINT32_MAX

typedef struct graph_big {
    uint32_t node, zero;
    uint64_t size;
} graph_big;

/* As stored: texts are offsets into the graph's text. */
typedef struct graph_stored_type {
    uint64_t id, count, bytes;
    uint32_t name, module_name, module_path;
    uint32_t token, flags;
    uint32_t has_mvid;
    uint8_t mvid[16];
} graph_stored_type;
_Static_assert(sizeof(graph_stored_type) == 64, "the layout is part of the file");

typedef struct graph_stored_root {
    uint64_t slot;
    uint32_t node, name;
    uint16_t kind, flags;
    uint32_t zero;
} graph_stored_root;
_Static_assert(sizeof(graph_stored_root) == 24, "the layout is part of the file");

struct graph {
    atomic_int refs;
    graph_info info;
    uint64_t *address; /* [nodes], ascending */
    uint32_t *type;    /* [nodes] */
    uint32_t *size;    /* [nodes], or GRAPH_SIZE_BIG */
    uint32_t *first;   /* [nodes + 1] into edge */
    uint32_t *edge;    /* [edges] */
    graph_big *big;    /* ascending by node */
    graph_stored_type *types;
    graph_stored_root *roots;
    char *text; /* NUL-terminated texts; the one at 0 is empty */
    uint64_t n_big, n_text;
    void *map; /* not NULL: all of the above lies in it, and is not freed one by one */
    size_t map_len;
    bool mapped; /* map is a mapping, else it is allocated */
};

graph *graph__new(void);

/* ---- finding nodes by address quickly (while sealing) ------------------------------------------------------------ */

typedef struct graph_span {
    uint64_t base, end; /* addresses; base is a chunk's beginning */
    uint64_t chunk;     /* of the first chunk in the table */
} graph_span;
typedef struct graph_index {
    const uint64_t *address;
    uint32_t n;
    unsigned shift; /* of a chunk */
    graph_span *spans;
    size_t n_spans, last;
    uint32_t *chunks; /* of each the first node at or behind its beginning; one more at the end of a span */
} graph_index;
int graph__index_build(graph_index *x, const uint64_t *address, uint32_t n, err *e);
void graph__index_fini(graph_index *x);
/* GRAPH_NONE: no node has this address. */
uint32_t graph__index_find(graph_index *x, uint64_t address);

#endif
