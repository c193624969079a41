/* SPDX-License-Identifier: MIT */
/* graph.h: the objects of a managed heap, what they refer to and what keeps them, compact and immutable, from whichever
 * source: a live process, a core dump, a gcdump. Heaps of 30 million objects are meant: about 16 bytes an object and 4
 * bytes a reference.
 *
 *     graph_builder *b = graph_builder_new(NULL, &e);
 *     uint32_t t = graph_builder_type(b, method_table);          once a type; its name whenever it is known
 *     graph_builder_node(b, address, t, size);                   each object, in any order (of address is fastest)
 *     graph_builder_edge(b, address_of_target);                  each reference of the object added last
 *     graph_builder_root(b, GRAPH_ROOT_STACK, 0, slot, target, slice_str(""));
 *     graph *g = graph_seal(b, &e);                              takes the builder's memory; b stays yours to free
 *     graph_write(g, fd, &e);  graph_open(fd, &e)                from a worker to the server, which maps it
 *
 * A builder is one thread's; several threads may each fill one, graph_builder_append joins them. A sealed graph is read
 * by any number of threads. Counts and bytes never round: what a cap or a broken source cost is in graph_info. */
#ifndef LUNETTE_MEMORY_GRAPH_H
#define LUNETTE_MEMORY_GRAPH_H

#include "base/bytes.h"
#include "base/err.h"

#define GRAPH_NONE UINT32_MAX /* no node, no type */

#define GRAPH_MAX_NODES  UINT32_C(200000000)
#define GRAPH_MAX_EDGES  UINT64_C(1000000000)
#define GRAPH_MAX_TYPES  UINT32_C(1000000)
#define GRAPH_MAX_ROOTS  UINT32_C(16000000)
#define GRAPH_MAX_TEXT   ((size_t)256 << 20)
#define GRAPH_MAX_BYTES  (UINT64_C(1) << 60) /* of all objects together: sums of them never overflow */
#define GRAPH_MAX_MEMORY ((size_t)8 << 30)
#define GRAPH_NAME_MAX   4096u /* bytes of one name; the rest is cut at a character's border */

/* What keeps an object from outside of the heap. The names are those of the wire (roots-by-kind, retention chains). */
#define GRAPH_ROOT_KINDS(X)                                                                                            \
    X(NONE, "None")                                                                                                    \
    X(STACK, "Stack")                                                                                                  \
    X(FINALIZER_QUEUE, "FinalizerQueue")                                                                               \
    X(STRONG_HANDLE, "StrongHandle")                                                                                   \
    X(PINNED_HANDLE, "PinnedHandle")                                                                                   \
    X(ASYNC_PINNED_HANDLE, "AsyncPinnedHandle")                                                                        \
    X(REF_COUNTED_HANDLE, "RefCountedHandle")                                                                          \
    X(SIZED_REF_HANDLE, "SizedRefHandle")                                                                              \
    X(DEPENDENT_HANDLE, "DependentHandle")                                                                             \
    X(HANDLE, "Handle") /* a strong one of a kind that the source does not tell */                                     \
    X(STATIC, "StaticVar")                                                                                             \
    X(THREAD_STATIC, "ThreadStaticVar")                                                                                \
    X(OLDER_GENERATION, "OlderGeneration")                                                                             \
    X(OTHER, "Other")
typedef enum graph_root_kind {
#define X(sym, text) GRAPH_ROOT_##sym,
    GRAPH_ROOT_KINDS(X)
#undef X
        GRAPH_ROOT_KIND_COUNT
} graph_root_kind;
const char *graph_root_kind_name(graph_root_kind kind); /* "Other" for a number that is none */

typedef enum graph_root_flags { GRAPH_PINNED = 1, GRAPH_INTERIOR = 2 } graph_root_flags;
typedef enum graph_type_flags {
    GRAPH_TYPE_ARRAY = 1,
    GRAPH_TYPE_STRING = 2,
    GRAPH_TYPE_COLLECTIBLE = 4,
    GRAPH_TYPE_DELEGATE = 8,
    GRAPH_TYPE_UNNAMED = 16, /* the name is made from the id, since the source never told it */
} graph_type_flags;

/* ---- building ---------------------------------------------------------------------------------------------------- */

typedef struct graph_limits { /* 0: the cap above */
    uint32_t nodes, types, roots;
    uint64_t edges;
    size_t memory; /* bytes of the builder at its height, sealing included (estimate) */
} graph_limits;

typedef struct graph_builder graph_builder;
/* lim may be NULL. NULL with *e filled: no memory. */
graph_builder *graph_builder_new(const graph_limits *lim, err *e);
void graph_builder_free(graph_builder *b); /* NULL is fine */

/* The index of the type with this id (a method table, a TypeID), made when it is new. GRAPH_NONE past the cap or
 * without memory. */
uint32_t graph_builder_type(graph_builder *b, uint64_t id);
/* What is known of a type, at any time before sealing; texts are copied, empty ones are unknown. A type that is never
 * described is named after its id, in graph_info.unnamed_types. */
typedef struct graph_type_text {
    slice name;        /* full name as the source's tool prints it */
    slice module_name; /* "System.Private.CoreLib.dll" */
    slice module_path;
    const uint8_t *mvid; /* 16 bytes as in a GUID's memory; NULL: not known */
    uint32_t token;      /* 0: not known */
    unsigned flags;      /* graph_type_flags */
} graph_type_text;
bool graph_builder_describe(graph_builder *b, uint32_t type, const graph_type_text *t);

/* All four: false past a cap or without memory; sealing then fails with the figures, or, for a cap, gives the graph of
 * what fitted and counts the rest in graph_info.dropped_*. */
bool graph_builder_node(graph_builder *b, uint64_t address, uint32_t type, uint64_t size);
/* A reference of the node added last, by the address of its target. 0 is skipped. */
bool graph_builder_edge(graph_builder *b, uint64_t target);
/* As graph_builder_node, for a source that tells how many references an object has, and lists them later, in the order
 * of the nodes (graph_builder_target). Not to be mixed with graph_builder_edge in one builder. */
bool graph_builder_counted_node(graph_builder *b, uint64_t address, uint32_t type, uint64_t size, uint32_t n_edges);
bool graph_builder_target(graph_builder *b, uint64_t target); /* 0 counts as one */
/* Drops all references that were listed so far: some are missing, so nobody knows whose the others are. */
void graph_builder_forget_targets(graph_builder *b);
/* Objects of a type that were only counted: the sealed graph tells what there is of each type, and has no node. Not to
 * be mixed with nodes. */
bool graph_builder_totals(graph_builder *b, uint32_t type, uint64_t count, uint64_t bytes);

/* target lives as long as key: a dependent handle, an entry of a ConditionalWeakTable. An edge from key to target. */
bool graph_builder_dependent(graph_builder *b, uint64_t key, uint64_t target);
/* slot: where the reference stands, 0: not known. name: of the static field or so, copied, may be empty. A target that
 * is no object's beginning is looked up as an interior one when flags say so. Weak references are no roots: do not add
 * them. */
bool graph_builder_root(graph_builder *b, graph_root_kind kind, unsigned flags, uint64_t slot, uint64_t target,
                        slice name);

/* Takes all of src, which is empty afterwards. Neither may have counted nodes. */
bool graph_builder_append(graph_builder *dst, graph_builder *src, err *e);

typedef struct graph_building { /* so far */
    uint32_t nodes, types, roots;
    uint64_t edges, bytes; /* bytes of the objects */
    size_t memory;
} graph_building;
void graph_builder_progress(const graph_builder *b, graph_building *out);

/* ---- the graph --------------------------------------------------------------------------------------------------- */

typedef struct graph graph;
/* Sorts by address, resolves all targets, drops what the builder holds. NULL with *e filled: no memory, or more than
 * the limit on it (LimitExceeded with the figures). */
graph *graph_seal(graph_builder *b, err *e);
graph *graph_ref(graph *g);
void graph_unref(graph *g); /* any thread; NULL is fine */

/* Nodes are numbered from 0 in order of address, types from 0 in order of first use. */
typedef struct graph_info {
    uint32_t nodes, types, roots;
    uint32_t totals_only; /* 1: objects were counted (graph_builder_totals), and are no nodes */
    uint64_t objects;     /* as many as nodes, or counted ones */
    uint64_t edges, bytes;
    uint64_t dangling_edges; /* references whose target is no object of the graph: left out */
    uint64_t missing_edges;  /* counted for nodes, but never listed */
    uint32_t dangling_roots;
    uint32_t duplicate_nodes; /* the same address again: the first counts */
    uint64_t dropped_nodes, dropped_edges, dropped_roots;
    uint32_t unnamed_types;
    size_t memory; /* bytes of the graph, mapped or allocated */
} graph_info;
const graph_info *graph_info_of(const graph *g);

typedef struct graph_type { /* slices are borrowed from the graph, NUL-terminated */
    uint64_t id;
    slice name, module_name, module_path;
    const uint8_t *mvid; /* 16 bytes; NULL: not known */
    uint32_t token;
    unsigned flags;
    uint64_t count, bytes; /* of its objects */
} graph_type;
void graph_type_at(const graph *g, uint32_t type, graph_type *out); /* type < info.types */

typedef struct graph_root {
    uint32_t node;
    graph_root_kind kind;
    unsigned flags;
    uint64_t slot;
    slice name;
} graph_root;
void graph_root_at(const graph *g, uint32_t root, graph_root *out); /* root < info.roots; in order of being added */

uint64_t graph_address(const graph *g, uint32_t node);
uint32_t graph_type_of(const graph *g, uint32_t node);
uint64_t graph_size(const graph *g, uint32_t node);
/* What a node refers to: *n nodes, borrowed. */
const uint32_t *graph_targets(const graph *g, uint32_t node, uint32_t *n);
/* The object that begins at an address, or (interior) in which it lies; GRAPH_NONE: none. */
uint32_t graph_find(const graph *g, uint64_t address, bool interior);

/* ---- from process to process ------------------------------------------------------------------------------------- */

/* Writes the graph to a file or memfd, from its beginning, which is truncated. 0, or a negative status. */
int graph_write(const graph *g, int fd, err *e);
/* The bytes that graph_write put at the beginning of a file: what a writer added lies behind them. 0: no graph. */
uint64_t graph_written(int fd);
/* Maps what graph_write wrote. The writer is not trusted: everything is checked once; a memfd must be sealed against
 * writing and shrinking, what is not is copied first. The descriptor may be closed afterwards. */
graph *graph_open(int fd, err *e);

#endif
