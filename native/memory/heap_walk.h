/* SPDX-License-Identifier: MIT */
/* heap_walk.h: the objects of a managed heap, one after the other, from the bytes of its regions: sized by their method
 * tables, followed by their GC descriptors. Knows nothing of where bytes come from: a region's bytes are given, the
 * words of method tables are asked for. Millions of objects a second and thread; no memory per object.
 *
 *     heap_types *ty = heap_types_new(&reader, free_mt, &e);
 *     heap_region r = {.start = …, .end = …, .gen = HEAP_GEN2, .bytes = …, .held = …};
 *     heap_walk_stats(ty, &r, 1, contexts, n_contexts, threads, &e);
 *     heap_types_count(ty), heap_type_at(ty, i)                    what there is of each type, by generation
 *
 * Formats: dotnet/runtime src/coreclr/vm/methodtable.h and gcdesc.h, src/coreclr/gc/gc.cpp; x64. */
#ifndef LUNETTE_MEMORY_HEAP_WALK_H
#define LUNETTE_MEMORY_HEAP_WALK_H

#include "memory/graph.h"

#define HEAP_TYPES_MAX  1000000u /* method tables */
#define HEAP_SERIES_MAX 4096     /* of one GC descriptor */
#define HEAP_MIN_OBJECT UINT64_C(24)

typedef enum heap_gen { HEAP_GEN0, HEAP_GEN1, HEAP_GEN2, HEAP_LOH, HEAP_POH, HEAP_FROZEN, HEAP_GEN_COUNT } heap_gen;
const char *heap_gen_name(heap_gen gen); /* "Generation0" … "Large", "Pinned", "Frozen" */

/* ---- types: method tables, each looked at once ------------------------------------------------------------------- */

struct heap_type;
typedef struct heap_reader {
    void *arg;
    /* n bytes at an address of the target; how many could be read. Called under one lock, from any walking thread. */
    size_t (*read)(void *arg, uint64_t address, void *to, size_t n);
    /* A type is met for the first time: is it one? May fill loader_object and set HEAP_TYPE_LISTED. NULL: its words are
     * believed when they make sense. Called as read is. */
    bool (*look)(void *arg, struct heap_type *t);
    /* Bytes of a region that is a file's, or that has none, into memory of ours: a walk that only counts needs no page
     * of the file in its own, and no copy of a heap that stands. How many could be read. Called by several threads at
     * once. NULL: where the region's bytes are. */
    size_t (*fetch)(void *arg, uint64_t address, void *to, size_t n);
} heap_reader;

typedef enum heap_type_flags {
    HEAP_TYPE_FREE = 1,        /* room between objects */
    HEAP_TYPE_POINTERS = 2,    /* has references */
    HEAP_TYPE_COLLECTIBLE = 4, /* every object also refers to the loader allocator of its type */
    HEAP_TYPE_ARRAY = 8,       /* of any rank */
    HEAP_TYPE_STRING = 16,
    HEAP_TYPE_LISTED = 32, /* each object of it is shown to who walks for a graph */
    HEAP_TYPE_VALUE = 64,  /* a boxed value */
    HEAP_TYPE_FINALIZER = 128,
} heap_type_flags;

typedef struct heap_sum {
    uint64_t count, bytes; /* bytes as ClrMD counts them: base size and elements, not rounded up, at least 24 */
} heap_sum;

typedef struct heap_type {
    uint64_t mt;
    uint32_t base_size, component_size; /* as in memory */
    uint32_t flags;                     /* heap_type_flags */
    uint32_t graph_type;                /* in the builder; GRAPH_NONE: not yet */
    uint32_t kind;                      /* whatever the reader's look says */
    uint64_t loader_object;             /* with HEAP_TYPE_COLLECTIBLE: what is referred to; 0: not known */
    int32_t n_series;                   /* < 0: items of an array of values with references */
    uint32_t series;                    /* the first one, in the table of all */
    heap_sum by_gen[HEAP_GEN_COUNT];
} heap_type;

typedef struct heap_types heap_types;
/* reader is copied, its arg borrowed. free_mt and string_mt: of the runtime's globals; 0: not known. */
heap_types *heap_types_new(const heap_reader *reader, uint64_t free_mt, uint64_t string_mt, err *e);
void heap_types_free(heap_types *ty);
size_t heap_types_count(const heap_types *ty);
heap_type *heap_type_at(const heap_types *ty, size_t i);
/* The index of a method table, looked at now if it is new; GRAPH_NONE: it is none, or the cap is reached. */
uint32_t heap_types_of(heap_types *ty, uint64_t mt);
heap_sum heap_type_sum(const heap_type *t); /* of all generations */

/* Calls each(arg, target, offset) for each reference that an object of the type holds; body is the object's bytes from
 * its method table on, size that of heap_object_size. Nulls are left out. */
typedef void (*heap_ref_fn)(void *arg, uint64_t target, uint32_t offset);
void heap_refs(const heap_types *ty, const heap_type *t, const uint8_t *body, uint64_t size, heap_ref_fn each,
               void *arg);

/* ---- regions ----------------------------------------------------------------------------------------------------- */

typedef struct heap_region {
    uint64_t start, end;          /* of the objects, end exclusive */
    uint64_t committed, reserved; /* ends, for reports */
    uint64_t segment;             /* its address in the runtime, so that parts of one segment are known as such */
    heap_gen gen;
    uint32_t heap;        /* number of a server GC's heap */
    const uint8_t *bytes; /* of [start, start + held) */
    uint64_t held;        /* bytes that there are; less than all of a partial dump */
    bool is_file; /* bytes are a mapped file's: fetched where that can be, or else its pages are let go of after the
                     walk, and come back when they are asked for */
    /* filled by the walk */
    uint64_t objects, object_bytes, free_objects, free_bytes, largest_free;
    uint64_t corrupt_bytes; /* passed over where no object could be made out */
    uint64_t corrupt_at;    /* the first such address; 0: none */
    uint32_t corrupt_places;
    uint64_t unread_bytes; /* that should have been there to be fetched: the file became shorter */
} heap_region;

/* What a thread may still allocate into: no objects there yet. */
typedef struct heap_context {
    uint64_t pointer, limit;
} heap_context;

/* Counts all objects into the types and regions. threads: 1 to 8. contexts are sorted by pointer. Regions in
 * any order; those without bytes are left alone. Failing (no memory), the sums are incomplete. */
int heap_walk_stats(heap_types *ty, heap_region *regions, size_t n, const heap_context *contexts, size_t n_contexts,
                    unsigned threads, err *e);

/* The same, and hands each object that is not free with its references to a builder, in order of the regions given;
 * those should be sorted by start. each (may be NULL) sees every object of a listed type. */
typedef void (*heap_object_fn)(void *arg, uint64_t address, uint32_t type, const uint8_t *body, uint64_t size);
int heap_walk_graph(heap_types *ty, heap_region *regions, size_t n, const heap_context *contexts, size_t n_contexts,
                    graph_builder *b, heap_object_fn each, void *arg, err *e);

#endif
