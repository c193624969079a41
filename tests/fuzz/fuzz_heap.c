/* SPDX-License-Identifier: MIT */
/* A heap of hostile bytes: the first half is where method tables are, the second half the region that is walked.
 * Whatever they hold, the walk ends within them. Names are read from the same bytes. */
#include <stdlib.h>

#include "memory/heap_name.h"
#include "memory/heap_walk.h"

#define TYPES UINT64_C(0x10000)
#define HEAP  UINT64_C(0x7f0000000000)

typedef struct half {
    const uint8_t *p;
    size_t n;
    const uint8_t *heap;
    size_t heap_n;
} half;

static size_t read_half(void *arg, uint64_t address, void *to, size_t n)
{
    const half *t = arg;
    if (address < TYPES || address - TYPES > t->n || n > t->n - (address - TYPES)) return 0;
    memcpy(to, t->p + (address - TYPES), n);
    return n;
}

static size_t fetch(void *arg, uint64_t address, void *to, size_t n)
{
    const half *t = arg;
    if (address < HEAP || n > t->heap_n || address - HEAP > t->heap_n - n) abort();
    memcpy(to, t->heap + (address - HEAP), n);
    return n;
}

/* Counted where it lies, and counted piece by piece: the same. */
static void count_both_ways(const heap_reader *reader, const heap_region *region, const heap_context *c)
{
    heap_reader with = *reader;
    with.fetch = fetch;
    err e = {0};
    heap_types *one = heap_types_new(reader, TYPES + 64, TYPES + 128, &e),
               *two = heap_types_new(&with, TYPES + 64, TYPES + 128, &e);
    heap_region a = *region, b = *region;
    b.is_file = true;
    if (one && two && heap_walk_stats(one, &a, 1, c, 1, 1, &e) == 0 && heap_walk_stats(two, &b, 1, c, 1, 1, &e) == 0 &&
        (a.objects != b.objects || a.object_bytes != b.object_bytes || a.free_objects != b.free_objects ||
         a.corrupt_bytes != b.corrupt_bytes || a.corrupt_places != b.corrupt_places || b.unread_bytes))
        abort();
    heap_types_free(one);
    heap_types_free(two);
}

static void see(void *arg, uint64_t address, uint32_t type, const uint8_t *body, uint64_t size)
{
    uint64_t *sum = arg;
    *sum += address + type + body[0] + body[size - 1];
}

static bool list_all(void *arg, heap_type *t)
{
    (void)arg;
    t->flags |= HEAP_TYPE_LISTED;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    buf name;
    buf_init(&name, 1 << 16);
    heap_name_of(slice_of(data, size), &name);
    buf_fini(&name);
    half types = {.p = data, .n = size / 2 & ~(size_t)7};
    size_t n = (size - types.n) & ~(size_t)7;
    uint8_t *heap = malloc(n ? n : 1); /* exactly as long: a byte beyond is found */
    if (!heap) return 0;
    memcpy(heap, data + types.n, n);
    types.heap = heap;
    types.heap_n = n;
    heap_reader reader = {.arg = &types, .read = read_half, .look = list_all};
    err e = {0};
    uint64_t sum = 0;
    heap_types *ty = heap_types_new(&reader, TYPES + 64, TYPES + 128, &e);
    graph_builder *b = graph_builder_new(NULL, &e);
    heap_region r = {.start = HEAP, .end = HEAP + n, .gen = HEAP_GEN0, .bytes = heap, .held = n};
    heap_context c = {HEAP + (n / 3 & ~(size_t)7), HEAP + (n / 2 & ~(size_t)7)};
    if (ty && b && heap_walk_graph(ty, &r, 1, &c, 1, b, see, &sum, &e) == 0) {
        graph *g = graph_seal(b, &e);
        if (g && graph_info_of(g)->bytes > n + 8) abort();
        graph_unref(g);
    }
    count_both_ways(&reader, &r, &c);
    graph_builder_free(b);
    heap_types_free(ty);
    free(heap);
    return 0;
}
