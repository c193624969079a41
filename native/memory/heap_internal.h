/* SPDX-License-Identifier: MIT */
/* heap_internal.h: what heap_types.c and heap_walk.c share. */
#ifndef LUNETTE_MEMORY_HEAP_INTERNAL_H
#define LUNETTE_MEMORY_HEAP_INTERNAL_H

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

#include "memory/heap_walk.h"

/* A run of references of a fixed place: count words from offset on. Of an array of references: to its end. Of an array
 * of values (n_series < 0): count references, then skip bytes; repeated. */
typedef struct heap_series {
    uint32_t offset;
    uint32_t count;
    uint32_t skip;
    int64_t delta; /* bytes of the run = delta + size of the object */
} heap_series;

typedef struct heap_slot {
    uint64_t mt;
    uint32_t type;
    uint32_t base, component; /* a copy: sizing needs no other line of memory */
    uint32_t flags;
} heap_slot;

struct heap_types {
    heap_reader reader;
    uint64_t free_mt, string_mt;
    pthread_mutex_t lock;
    heap_type **chunks; /* of HEAP_CHUNK types each: a type stays where it is */
    size_t n, cap_chunks;
    map64 by_mt; /* type + 1; 0: looked at and none */
    heap_series *series;
    size_t n_series, cap_series;
};
#define HEAP_CHUNK 1024u

static inline heap_type *heap__type(const heap_types *ty, size_t i)
{
    return &ty->chunks[i / HEAP_CHUNK][i % HEAP_CHUNK];
}

static inline uint64_t heap__word(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t heap__half(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* As ClrMD counts it. count: elements, 0 where there are none. */
static inline uint64_t heap__size(uint32_t base, uint32_t component, uint32_t count)
{
    uint64_t size = base + (uint64_t)component * count;
    return size < HEAP_MIN_OBJECT ? HEAP_MIN_OBJECT : size;
}
#define HEAP_ALIGN(size) (((size) + 7) & ~UINT64_C(7))

#endif
