/* SPDX-License-Identifier: MIT */
#include "memory/heap_kit.h"

kit *kit_new(void)
{
    kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    return k;
}

void kit_free(kit *k) { free(k); }

static size_t read_types(void *arg, uint64_t address, void *to, size_t n)
{
    kit *k = arg;
    k->looked++;
    if (address < KIT_TYPES || address - KIT_TYPES > sizeof k->types - n) return 0;
    memcpy(to, k->types + (address - KIT_TYPES), n);
    return n;
}

heap_reader kit_reader(kit *k) { return (heap_reader){.arg = k, .read = read_types}; }

static void put64(uint8_t *p, uint64_t v) { memcpy(p, &v, 8); }
static void put32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }

uint64_t kit_type(kit *k, uint32_t flags, uint32_t base, uint32_t component, int n, const int64_t *series)
{
    size_t items = (size_t)(n < 0 ? -n : n), below = n ? 8 + 8 * (n < 0 ? items + 1 : 2 * items) : 0;
    k->next_type += below;
    uint8_t *mt = k->types + k->next_type;
    put32(mt, flags | (flags & 0x80000000u ? component : 0));
    put32(mt + 4, base);
    if (n) put64(mt - 8, (uint64_t)(int64_t)n);
    if (n < 0) put64(mt - 16, (uint64_t)series[0]);
    for (size_t i = 0; i < items; i++) {
        if (n < 0) {
            put32(mt - 24 - 8 * i, (uint32_t)series[1 + 2 * i]);
            put32(mt - 20 - 8 * i, (uint32_t)series[2 + 2 * i]);
        } else {
            put64(mt - 8 - 16 * (i + 1), (uint64_t)series[2 * i]);
            put64(mt - 16 * (i + 1), (uint64_t)series[2 * i + 1]);
        }
    }
    uint64_t at = KIT_TYPES + k->next_type;
    k->next_type += 64;
    return at;
}

uint64_t kit_object(kit *k, uint64_t mt, uint32_t base, uint32_t component, uint32_t count)
{
    uint64_t size = base + (uint64_t)component * count, at = k->next_object;
    if (size < 24) size = 24;
    put64(k->heap + at, mt);
    if (component) put32(k->heap + at + 8, count);
    k->next_object += (size + 7) & ~UINT64_C(7);
    return KIT_HEAP + at;
}

void kit_word(kit *k, uint64_t address, uint64_t value) { put64(k->heap + (address - KIT_HEAP), value); }
void kit_skip(kit *k, uint64_t bytes) { k->next_object += bytes; }

heap_region kit_region(kit *k, heap_gen gen)
{
    return (heap_region){
        .start = KIT_HEAP, .end = KIT_HEAP + k->next_object, .gen = gen, .bytes = k->heap, .held = k->next_object};
}
