/* SPDX-License-Identifier: MIT */
/* heap_kit.h: made-up memory of a runtime: method tables with their GC descriptors, and objects of them. */
#ifndef LUNETTE_TESTS_HEAP_KIT_H
#define LUNETTE_TESTS_HEAP_KIT_H

#include "check.h"
#include "memory/heap_walk.h"

#define KIT_TYPES UINT64_C(0x10000) /* where method tables are */
#define KIT_HEAP  UINT64_C(0x7f0000000000)
#define KIT_SIZE  (1u << 20)

typedef struct kit {
    uint8_t types[KIT_SIZE], heap[KIT_SIZE];
    uint64_t next_type, next_object;
    unsigned looked;
    void *file; /* of a test that fetches */
} kit;

kit *kit_new(void);
void kit_free(kit *k);
heap_reader kit_reader(kit *k);
/* A method table; flags as in memory, component: 0 for none. series: pairs of (size, offset) for n > 0; for n < 0 the
 * offset first, then pairs of (references, skip). */
uint64_t kit_type(kit *k, uint32_t flags, uint32_t base, uint32_t component, int n, const int64_t *series);
/* An object at the end of the heap; count: of elements. Its address. */
uint64_t kit_object(kit *k, uint64_t mt, uint32_t base, uint32_t component, uint32_t count);
void kit_word(kit *k, uint64_t address, uint64_t value);
void kit_skip(kit *k, uint64_t bytes); /* room that is no object */
heap_region kit_region(kit *k, heap_gen gen);

#define KIT_CLASS    0x00000000u
#define KIT_POINTERS 0x01000000u
#define KIT_ARRAY    0x80080000u
#define KIT_STRING   0x80000000u

#endif
