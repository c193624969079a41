/* SPDX-License-Identifier: MIT */
/* heap.h: a managed heap of a live process or a core: where its regions are, what keeps its objects, and their bytes.
 * Of a core the bytes stay in the file. Of a live process they are copied while it stands, and it goes on before the
 * first object is looked at; the stop is measured. Only a worker process does this (dac.h).
 *
 *     heap *h;
 *     if (heap_open(d, &options, &h, &e) == 0) {
 *         heap_walk_stats(heap_types_in(h), …) or heap_graph_of(h, &g, &e);
 *     }
 *     heap_close(h);
 *
 * Formats: dotnet/runtime src/coreclr/gc/gc.cpp, gcinterface.dac.h, debug/daccess/request.cpp. */
#ifndef LUNETTE_MEMORY_HEAP_H
#define LUNETTE_MEMORY_HEAP_H

#include "memory/dac.h"
#include "memory/heap_walk.h"

#define HEAP_REGIONS_MAX 1000000u
#define HEAP_THREADS_MAX MEM_THREADS_MAX
#define HEAP_HEAPS_MAX   1024u
#define HEAP_ROOTS_MAX   8000000u
#define HEAP_QUEUE_MAX   16000000u /* objects in the finalizer queue */
#define HEAP_NOTES_MAX   16
#define HEAP_NOTE_LEN    224
#define HEAP_PAUSE_NS    INT64_C(5000000000) /* for which a live target may stand, if the caller says nothing */
#define HEAP_STACK_NS    INT64_C(1000000000) /* of it, for reading the roots on the stacks of threads */
#define HEAP_GC_TRIES    40                  /* stops that meet a collection at work, before it is said */

/* Types that say something by themselves: heap_type.kind. A type is of the kind of what it extends. */
typedef enum heap_kind {
    HEAP_PLAIN,
    HEAP_STRING,
    HEAP_DELEGATE,
    HEAP_TIMER_QUEUE_TIMER,
    HEAP_TIMER,
    HEAP_TASK,
    HEAP_ASYNC_BOX, /* a task that is an async method's state machine */
    HEAP_COMPLETION_SOURCE,
    HEAP_LOAD_CONTEXT,
    HEAP_KIND_COUNT
} heap_kind;

typedef struct heap_options {
    unsigned threads; /* that walk and copy; 0: as many as there are processors, at most 4 */
    uint64_t memory;  /* bytes that the copy may take; 0: half of what the machine or container has left */
    int64_t pause_ns; /* 0: HEAP_PAUSE_NS; what is estimated to take longer is refused */
    bool in_place; /* no copy, no roots: a live target stands until heap_close; for a look at few objects, or a count of
                      all where there is no memory for a copy */
    bool count;    /* all will be counted, by heap_totals_of: a live target is read in_place, and the pause, which is
                      estimated first, may be refused */
    bool fork;     /* of a live target: by a copy-on-write image (fork.h) instead of a copy made while it stands */
    bool stacks;   /* read the roots on stacks too */
    unsigned list; /* bits of heap_kind: objects of these kinds are shown to who walks for a graph */
    unsigned copies; /* this one included, that were made because the ones before were torn; 0: as 1 */
    /* Told what happens, for a progress report; may be NULL. */
    void (*progress)(void *arg, const char *what);
    void *arg;
} heap_options;

typedef struct heap heap;
/* The kind of a type, by its name and those of its parents. */
heap_kind heap_kind_of(heap *h, uint64_t mt);
/* d: of a core, or of a live target that is not stopped: it is stopped and resumed here. Busy: collections were at work
 * at every try. LimitExceeded: the copy or the pause would pass its limit, with the figures. */
int heap_open(dac *d, const heap_options *o, heap **out, err *e);
void heap_close(heap *h); /* NULL is fine */
/* Whether a walk of a live heap came upon bytes that are no objects: it stood while a thread was given memory. */
bool heap_is_torn(const heap *h);

typedef struct heap_facts {
    bool is_server, regions, live;
    uint32_t heaps, generations;
    uint64_t committed, reserved, bytes_held; /* of all regions */
    uint64_t missing;                         /* bytes of them that a core has not */
    int64_t stop_ns;                          /* for which the target stood; 0: a core */
    int64_t stop_copy_ns, stop_roots_ns;      /* of the last stop: for copying, for reading what keeps objects */
    int64_t fork_ns;                          /* of it, for the clone; 0: it was copied */
    int64_t estimate_ns;                      /* what was expected */
    uint64_t copied;
    bool gc_at_work;                  /* a collection was at work: results are approximate */
    uint32_t threads, threads_unread; /* stacks whose roots could not be read */
} heap_facts;
const heap_facts *heap_facts_of(const heap *h);
const char *heap_note(const heap *h, size_t i); /* NULL past the end */
void heap_add_note(heap *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

dac *heap_dac(const heap *h);
const dac_globals *heap_globals(const heap *h);
heap_types *heap_types_in(const heap *h);
heap_region *heap_regions(const heap *h, size_t *n); /* by start; filled by a walk */
const heap_context *heap_contexts(const heap *h, size_t *n);
/* The region that an address is in; NULL: none. */
const heap_region *heap_region_of(const heap *h, uint64_t address);
/* n bytes of an object where they are; NULL: not in a region, or not held. */
const uint8_t *heap_at(const heap *h, uint64_t address, size_t n);
/* From the heap's copy where it is there, else from the target. Whole or not at all. */
bool heap_read(heap *h, uint64_t address, void *to, size_t n);
static inline uint64_t heap_word(heap *h, uint64_t address)
{
    uint64_t v = 0;
    return heap_read(h, address, &v, sizeof v) ? v : 0;
}
/* The type of the object at an address: GRAPH_NONE when there is none. */
uint32_t heap_type_of_object(heap *h, uint64_t object);
uint64_t heap_size_of_object(heap *h, uint64_t object); /* 0: none */

typedef struct heap_root {
    uint64_t slot, target;
    uint8_t kind;    /* graph_root_kind */
    uint8_t flags;   /* graph_root_flags */
    uint32_t thread; /* managed id, of a stack root */
} heap_root;
/* Roots but static fields (heap_fields.h). Borrowed. */
const heap_root *heap_roots(const heap *h, size_t *n);
typedef struct heap_handle {
    uint64_t handle, object, secondary;
    uint32_t type; /* 0 weak short, 1 weak long, 2 strong, 3 pinned, 5 ref-counted, 6 dependent, 7 async pinned, … */
    uint32_t ref_count;
} heap_handle;
const heap_handle *heap_handles(const heap *h, size_t *n);
const char *heap_handle_name(uint32_t type); /* as ClrMD names it; "Unknown" */
/* Objects with a finalizer: first those whose time has come (roots), then the rest. */
const uint64_t *heap_finalizers(const heap *h, size_t *n, size_t *n_ready);

/* All objects and references, roots, dependent handles; types described as far as the walk met them. statics: adds a
 * named root for every static field that refers to something. */
int heap_graph_of(heap *h, bool statics, heap_object_fn each, void *arg, graph **out, err *e);
/* The same types with what there is of each, and no object (graph_info.totals_only): no memory per object. A live
 * target is resumed as soon as it is counted. Timeout: it would have stood longer than pause_ns. Uses h up, but for its
 * facts, regions and types. */
int heap_totals_of(heap *h, graph **out, err *e);

#endif
