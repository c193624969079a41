/* SPDX-License-Identifier: MIT */
/* gcdump.h: an object graph out of the events that a runtime sends of a collection that was asked for (keyword
 * GCHeapDump), from a live session or a recorded one, and out of the .gcdump files that dotnet-gcdump and PerfView
 * write.
 *
 *     gcdump *d = gcdump_new(NULL, &e);
 *     events of a stream through gcdump_tap(d); it may stop as soon as gcdump_progress says so
 *     graph *g = gcdump_graph(d, &quality, &e);          once, after the end; any thread
 *
 * Types are named as dotnet-gcdump names them, without its suffixes of size ("List<System.String>", "Byte[]"), but for
 * arrays of more than one dimension ("Int32[,]"). Format of the events: dotnet/runtime, ClrEtwAll.man. */
#ifndef LUNETTE_MEMORY_GCDUMP_H
#define LUNETTE_MEMORY_GCDUMP_H

#include "memory/graph.h"
#include "nettrace/tap.h"

#define GCDUMP_MAX_STATICS 1000000u

typedef struct gcdump gcdump;
/* One reference. lim may be NULL. NULL with *e filled: no memory. */
gcdump *gcdump_new(const graph_limits *lim, err *e);
gcdump *gcdump_ref(gcdump *d);
void gcdump_unref(gcdump *d); /* any thread; NULL is fine */
/* For source_cfg.tap: each reference taken of it is one of the gcdump's. For one stream. */
nt_tap *gcdump_tap(gcdump *d);

typedef struct gcdump_progress { /* any thread, at any time */
    bool started;                /* the collection has begun */
    bool stopped;                /* it has ended, and there were objects: nothing more will come */
    bool ended;                  /* the stream has been read */
    uint32_t objects;
    uint64_t bytes;
} gcdump_progress;
void gcdump_progress_of(const gcdump *d, gcdump_progress *out);

typedef struct gcdump_quality {
    bool gc_started, gc_stopped;
    uint64_t gaps;    /* events of the collection that are missing, by their own numbers: references are worthless then,
                         and left out */
    uint64_t bad;     /* events that could not be read */
    uint32_t no_name; /* types of objects whose name never came */
    uint32_t other_gcs; /* collections that were not it */
    int64_t gc_ns;      /* from the beginning of the collection to its end; -1: not seen */
    bool has_sizes;
    uint64_t generation[5]; /* bytes behind the collection, free ones included: 0, 1, 2, large, pinned */
    uint64_t committed;     /* 0: not told */
} gcdump_quality;
/* NULL with *e filled: NotFound when the stream holds no such collection, or no objects of it. */
graph *gcdump_graph(gcdump *d, gcdump_quality *q, err *e);

/* ---- .gcdump files ----------------------------------------------------------------------------------------------- */

typedef struct gcdump_file_info {
    int64_t pid;            /* 0: not told */
    int64_t unix_ms;        /* when it was collected; 0: not told */
    char process_name[256]; /* may be empty, as the rest */
    char machine_name[256];
    char tool[128];
    uint64_t nodes, bytes; /* as the file has them: with its own nodes for groups of roots */
    uint32_t undefined;    /* objects that are referred to, but not described */
    bool sampled;          /* not all objects are in it */
} gcdump_file_info;
/* Reads the file, which is hostile until proven otherwise: MalformedInput, TruncatedInput with the offset,
 * LimitExceeded. Format: FastSerialization of microsoft/perfview (GCHeapDump 10, MemoryGraph 0 and 1). */
graph *gcdump_read(slice file, const graph_limits *lim, gcdump_file_info *info, err *e);
/* The same of a path: at most GCDUMP_FILE_MAX bytes. */
#define GCDUMP_FILE_MAX ((uint64_t)4 << 30)
graph *gcdump_read_file(const char *path, const graph_limits *lim, gcdump_file_info *info, err *e);

/* Of a type name as the runtime has it ("System.Collections.Generic.List`1[System.String]") the one to show. Writes at
 * most cap bytes, returns how many. out may be name itself. */
size_t gcdump_type_name(slice name, char *out, size_t cap);

#endif
