/* SPDX-License-Identifier: MIT */
/* heap_types.c: method tables and their GC descriptors, each read once. */
#include "memory/heap_internal.h"

/* Words of a method table (MTF_* in methodtable.h): unmoved from .NET Core 2.0 to 10. */
#define MT_HAS_COMPONENT 0x80000000u
#define MT_POINTERS      0x01000000u
#define MT_FINALIZER     0x00100000u
#define MT_COLLECTIBLE   0x00200000u
#define MT_CATEGORY      0x000F0000u
#define MT_ARRAY_MASK    0x000C0000u
#define MT_ARRAY         0x00080000u
#define MT_INTERFACE     0x000C0000u
#define MT_VALUE_MASK    0x000C0000u
#define MT_VALUE         0x00040000u
#define MT_BASE_MAX      0x04000000u /* of a class: far more than any has */

const char *heap_gen_name(heap_gen gen)
{
    static const char *const names[] = {"Generation0", "Generation1", "Generation2", "Large", "Pinned", "Frozen"};
    return (unsigned)gen < HEAP_GEN_COUNT ? names[gen] : "Unknown";
}

heap_types *heap_types_new(const heap_reader *reader, uint64_t free_mt, uint64_t string_mt, err *e)
{
    heap_types *ty = mem_calloc(1, sizeof *ty);
    if (!ty || pthread_mutex_init(&ty->lock, NULL) != 0) {
        free(ty);
        err_set(e, ERR_NO_MEMORY, "no memory for the types of a heap");
        return NULL;
    }
    ty->reader = *reader;
    ty->free_mt = free_mt;
    ty->string_mt = string_mt;
    return ty;
}

void heap_types_free(heap_types *ty)
{
    if (!ty) return;
    for (size_t i = 0; i < ty->cap_chunks; i++)
        free(ty->chunks[i]);
    free(ty->chunks);
    free(ty->series);
    map64_fini(&ty->by_mt);
    pthread_mutex_destroy(&ty->lock);
    free(ty);
}

size_t heap_types_count(const heap_types *ty) { return ty->n; }
heap_type *heap_type_at(const heap_types *ty, size_t i) { return heap__type(ty, i); }

heap_sum heap_type_sum(const heap_type *t)
{
    heap_sum all = {0};
    for (int g = 0; g < HEAP_GEN_COUNT; g++) {
        all.count += t->by_gen[g].count;
        all.bytes += t->by_gen[g].bytes;
    }
    return all;
}

static bool room_for_type(heap_types *ty)
{
    if (ty->n >= HEAP_TYPES_MAX) return false;
    size_t chunk = ty->n / HEAP_CHUNK;
    if (!ty->chunks) { /* one piece for all: a reader without the lock never sees it move */
        ty->chunks = mem_calloc(HEAP_TYPES_MAX / HEAP_CHUNK + 1, sizeof *ty->chunks);
        if (!ty->chunks) return false;
        ty->cap_chunks = HEAP_TYPES_MAX / HEAP_CHUNK + 1;
    }
    if (!ty->chunks[chunk]) ty->chunks[chunk] = mem_calloc(HEAP_CHUNK, sizeof(heap_type));
    return ty->chunks[chunk] != NULL;
}

static heap_series *series_room(heap_types *ty, size_t n)
{
    if (ty->n_series + n > ty->cap_series) {
        size_t cap = ty->cap_series ? ty->cap_series * 2 : 1024;
        while (cap < ty->n_series + n)
            cap *= 2;
        heap_series *p = mem_realloc(ty->series, cap * sizeof *p);
        if (!p) return NULL;
        ty->series = p;
        ty->cap_series = cap;
    }
    heap_series *at = ty->series + ty->n_series;
    ty->n_series += n;
    return at;
}

/* The GC descriptor, which grows downwards from below the method table. False: it makes no sense. */
static bool read_series(heap_types *ty, heap_type *t)
{
    uint8_t word[8];
    if (ty->reader.read(ty->reader.arg, t->mt - 8, word, 8) != 8) return false;
    int64_t n = (int64_t)heap__word(word);
    if (n == 0 || n > HEAP_SERIES_MAX || n < -HEAP_SERIES_MAX) return false;
    size_t items = (size_t)(n < 0 ? -n : n), bytes = 8 + 8 * (n < 0 ? items + 1 : 2 * items);
    uint8_t *raw = mem_alloc(bytes);
    if (!raw) return false;
    bool ok = ty->reader.read(ty->reader.arg, t->mt - bytes, raw, bytes) == bytes;
    heap_series *s = ok ? series_room(ty, items) : NULL;
    if (!s) {
        free(raw);
        return false;
    }
    t->series = (uint32_t)(s - ty->series);
    t->n_series = (int32_t)n;
    const uint8_t *top = raw + bytes;
    uint64_t start = n < 0 ? heap__word(top - 16) : 0;
    for (size_t i = 0; ok && i < items; i++) {
        if (n < 0) { /* an item: u32 references, u32 bytes to skip */
            const uint8_t *p = top - 24 - 8 * i;
            s[i] = (heap_series){.offset = (uint32_t)start, .count = heap__half(p), .skip = heap__half(p + 4)};
            ok = start >= 8 && start < MT_BASE_MAX && s[i].count > 0 && s[i].skip % 8 == 0;
        } else {
            const uint8_t *p = top - 8 - 16 * (i + 1);
            uint64_t offset = heap__word(p + 8);
            int64_t delta = (int64_t)heap__word(p);
            ok = offset >= 8 && offset < MT_BASE_MAX && offset % 8 == 0 && delta > -(int64_t)MT_BASE_MAX &&
                 delta < (int64_t)MT_BASE_MAX;
            if (!ok) break;
            int64_t fixed = delta + (int64_t)t->base_size;
            s[i] = (heap_series){
                .offset = (uint32_t)offset, .delta = delta, .count = fixed > 0 ? (uint32_t)(fixed / 8) : 0};
        }
    }
    free(raw);
    return ok;
}

static bool describe(heap_types *ty, heap_type *t, uint64_t mt)
{
    uint8_t head[16];
    if (ty->reader.read(ty->reader.arg, mt, head, sizeof head) != sizeof head) return false;
    uint32_t flags = heap__half(head);
    *t = (heap_type){.mt = mt, .base_size = heap__half(head + 4), .graph_type = GRAPH_NONE};
    if (flags & MT_HAS_COMPONENT) t->component_size = flags & 0xFFFF;
    if (mt == ty->free_mt) {
        t->flags = HEAP_TYPE_FREE;
        t->base_size = HEAP_MIN_OBJECT;
        t->component_size = 1;
        return true;
    }
    bool is_array = (flags & MT_ARRAY_MASK) == MT_ARRAY;
    /* an interface has no objects; an array or string has elements; a base size is that of an object at least */
    if ((flags & MT_CATEGORY) == MT_INTERFACE || t->base_size < 16 || t->base_size > MT_BASE_MAX) return false;
    if (mt == ty->string_mt) t->flags |= HEAP_TYPE_STRING;
    if (is_array) t->flags |= HEAP_TYPE_ARRAY;
    if (!is_array && (flags & MT_VALUE_MASK) == MT_VALUE) t->flags |= HEAP_TYPE_VALUE;
    if (!is_array && (flags & MT_FINALIZER)) t->flags |= HEAP_TYPE_FINALIZER;
    if (flags & MT_COLLECTIBLE) t->flags |= HEAP_TYPE_COLLECTIBLE;
    if (!(flags & MT_POINTERS)) return true;
    t->flags |= HEAP_TYPE_POINTERS;
    return read_series(ty, t);
}

static uint32_t look_at(heap_types *ty, uint64_t mt)
{
    uint64_t known;
    if (map64_get(&ty->by_mt, mt, &known)) return known ? (uint32_t)(known - 1) : GRAPH_NONE;
    if (mt <= 0x1000 || mt % 8 != 0 || !room_for_type(ty)) return GRAPH_NONE;
    heap_type *t = heap__type(ty, ty->n);
    bool ok = describe(ty, t, mt) && (!ty->reader.look || ty->reader.look(ty->reader.arg, t));
    if (!map64_put(&ty->by_mt, mt, ok ? ty->n + 1 : 0) || !ok) return GRAPH_NONE;
    return (uint32_t)ty->n++;
}

uint32_t heap_types_of(heap_types *ty, uint64_t mt)
{
    pthread_mutex_lock(&ty->lock);
    uint32_t at = look_at(ty, mt);
    pthread_mutex_unlock(&ty->lock);
    return at;
}

static void each_word(const uint8_t *body, uint64_t from, uint64_t to, heap_ref_fn each, void *arg)
{
    for (uint64_t at = from; at + 8 <= to; at += 8) {
        uint64_t target = heap__word(body + at);
        if (target) each(arg, target, (uint32_t)at);
    }
}

void heap_refs(const heap_types *ty, const heap_type *t, const uint8_t *body, uint64_t size, heap_ref_fn each,
               void *arg)
{
    if (t->flags & HEAP_TYPE_COLLECTIBLE && t->loader_object) each(arg, t->loader_object, 0);
    if (!(t->flags & HEAP_TYPE_POINTERS)) return;
    const heap_series *s = ty->series + t->series;
    if (t->n_series > 0) {
        for (int32_t i = 0; i < t->n_series; i++) {
            uint64_t bytes = t->component_size ? (uint64_t)(s[i].delta + (int64_t)size) : s[i].count * UINT64_C(8);
            uint64_t to = s[i].offset + bytes;
            each_word(body, s[i].offset, to < size ? to : size, each, arg);
        }
        return;
    }
    for (uint64_t at = s->offset; at + 8 < size;) {
        for (int32_t i = 0; i < -t->n_series && at + 8 < size; i++) {
            uint64_t to = at + s[i].count * UINT64_C(8);
            each_word(body, at, to < size ? to : size, each, arg);
            at = to + s[i].skip;
        }
    }
}
