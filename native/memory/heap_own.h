/* SPDX-License-Identifier: MIT */
/* heap_own.h: what the files behind heap.h share. */
#ifndef LUNETTE_MEMORY_HEAP_OWN_H
#define LUNETTE_MEMORY_HEAP_OWN_H

#include <stdio.h>
#include <stdlib.h>

#include "memory/heap.h"
#include "memory/heap_fields.h"

typedef struct heap_loaded { /* a type, as its module lists it */
    uint64_t mt, module;
    uint32_t row;
} heap_loaded;
typedef struct heap_thread {
    uint64_t address;
    uint32_t id, os_id;
} heap_thread;

struct heap {
    dac *d;
    mem_target *t;
    heap_options o;
    heap_facts facts;
    dac_globals globals;
    heap_types *types;
    size_t n_looked; /* at method tables */
    int nice;        /* before a live target stood in place */
    heap_region *regions;
    size_t n_regions, cap_regions;
    heap_context *contexts;
    size_t n_contexts, cap_contexts;
    heap_root *roots;
    size_t n_roots, cap_roots;
    heap_handle *handles;
    size_t n_handles, cap_handles;
    uint64_t *queue; /* ready ones first */
    size_t n_queue, n_ready, cap_queue;
    uint8_t *copy; /* of a live heap: one mapping */
    size_t copy_size;
    uint8_t **pieces; /* of a core: regions that do not lie in one piece there */
    size_t n_pieces, cap_pieces;
    struct heap_module **modules; /* that were asked for */
    size_t n_modules, cap_modules;
    map64 module_at;     /* address -> place + 1 */
    map64 kinds;         /* method table -> heap_kind */
    heap_loaded *loaded; /* by module: listed while the target stands, since the runtime's lists grow */
    size_t n_loaded, cap_loaded;
    uint64_t *module_list;
    size_t n_module_list, cap_module_list;
    heap_thread *threads;
    size_t n_threads, cap_threads;
    heap_static *statics;
    size_t n_statics, cap_statics;
    arena names; /* of static fields */
    bool statics_read;
    char notes[HEAP_NOTES_MAX][HEAP_NOTE_LEN];
    size_t n_notes;
};

/* Makes room for one more; false without memory or past max. */
bool heap__room(void **p, size_t *cap, size_t n, size_t size, size_t max);
#define HEAP_ROOM(v, n, cap, max) heap__room((void **)&(v), &(cap), (n), sizeof *(v), (max))

/* Regions, contexts, facts, by the DAC. The target stands, or it is for an estimate only. */
int heap__layout(heap *h, err *e);
/* Handles, finalizer queue, stacks. The target stands. */
int heap__roots(heap *h, int64_t deadline_ns, err *e);
/* Modules with their types, and threads. The target stands. */
void heap__list_loaded(heap *h);
/* Bytes of all regions: of a core where they lie. */
int heap__bytes_of_core(heap *h, err *e);
/* Stops the target, reads layout, roots and bytes, resumes it. */
int heap__capture_live(heap *h, err *e);
/* Room for a copy of the regions that the layout found; the copy itself, of the target or its image; and to be first
 * in line while a process stands. */
int heap__make_room(heap *h, err *e);
int heap__fits(const heap *h, err *e); /* should it have grown since */
int heap__copy(heap *h, err *e);
void heap__hurry(bool on, int *before);
#define HEAP_GC_WAIT_NS INT64_C(5000000)
/* Notes a collection that was at work at each stop. */
void heap__say_gc(heap *h);
/* Of a live target that is to be counted (heap_options.count): it stands, and no collection is at work, or it is said.
 */
int heap__open_to_count(heap *h, err *e);
/* What the estimate allows for each thread that is to be stopped. */
#define HEAP_THREAD_STOP_NS INT64_C(60000)
/* Names and modules of the types that are in the builder. */
void heap__describe_types(heap *h, graph_builder *b);
void heap__say_damage(heap *h);
/* fork_heap.c: the same by an image of the target (fork.h), which stays until heap_close. */
int heap__capture_fork(heap *h, err *e);

void heap__modules_free(heap *h);

#endif
