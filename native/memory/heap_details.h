/* SPDX-License-Identifier: MIT */
/* heap_details.h: what there is to say of a heap beside its graph: equal strings, delegates and whom they call, timers,
 * tasks, async methods under way, load contexts, handles, the finalizer queue, fragmentation; and one object, field by
 * field. Gathered while the graph is walked, written as JSON in the words of the contract's views. */
#ifndef LUNETTE_MEMORY_HEAP_DETAILS_H
#define LUNETTE_MEMORY_HEAP_DETAILS_H

#include "base/json.h"
#include "memory/heap_fields.h"

#define HEAP_STRINGS_MAX   8000000u /* different strings that are kept apart */
#define HEAP_DELEGATES_MAX 1000000u /* pairs of target type and code */
#define HEAP_OBJECTS_MAX   2000000u /* timers, async methods, load contexts: of each */
#define HEAP_ROWS_MAX      1000u    /* of one section */
#define HEAP_TEXT_UNITS    2048u /* UTF-16 units of a string that are told: secrets are looked for before it is cut */
#define HEAP_CHAIN_MAX     64u   /* async methods that wait for each other */

typedef struct heap_details heap_details;
heap_details *heap_details_new(heap *h, err *e);
void heap_details_free(heap_details *d); /* NULL is fine */
/* For heap_graph_of: arg is the heap_details. */
void heap_details_see(void *arg, uint64_t address, uint32_t type, const uint8_t *body, uint64_t size);

typedef struct heap_wanted {
    bool statics, delegates, strings;
    bool totals; /* of a heap that was only counted: nothing that is told by its objects, roots or handles */
} heap_wanted;
/* Writes one object: runtime, heap, notes, and a member for each view. */
void heap_details_write(heap_details *d, const heap_wanted *want, jsonw *w);

/* One object, as the view `object` shows it: no value is left out here. False: no object begins there. */
bool heap_object_write(heap *h, uint64_t address, jsonw *w);

#endif
