/* SPDX-License-Identifier: MIT */
/* arena.c: bump allocation in chunks that double from 4 KiB to 256 KiB; what is bigger gets a chunk of its own size. */
#include "base/mem.h"

#include <stdlib.h>

#define CHUNK_MIN ((size_t)4 << 10)
#define CHUNK_MAX ((size_t)256 << 10)
#define ALIGN     ((size_t)16)

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, cap;
    size_t pad; /* keeps data on a 16-byte boundary */
    uint8_t data[];
};
_Static_assert(sizeof(struct arena_chunk) % ALIGN == 0, "chunk data must be aligned");

static struct arena_chunk *add_chunk(arena *a, size_t need)
{
    size_t cap = a->head ? a->head->cap * 2 : CHUNK_MIN;
    if (cap > CHUNK_MAX) cap = CHUNK_MAX;
    if (cap < need) cap = need;
    struct arena_chunk *c = mem_alloc(sizeof *c + cap);
    if (!c) return NULL;
    c->used = 0;
    c->cap = cap;
    if (a->head && need > CHUNK_MAX) { /* full at once: goes behind the head, whose rest stays in use */
        c->next = a->head->next;
        a->head->next = c;
    } else {
        c->next = a->head;
        a->head = c;
    }
    return c;
}

void *arena_alloc(arena *a, size_t n)
{
    if (n > SIZE_MAX / 2 || (a->max && (a->used > a->max || n > a->max - a->used))) {
        a->failed = true;
        return NULL;
    }
    size_t need = (n + ALIGN - 1) & ~(ALIGN - 1);
    if (need == 0) need = ALIGN;
    struct arena_chunk *c = a->head;
    if (!c || c->cap - c->used < need) c = add_chunk(a, need);
    if (!c) {
        a->failed = true;
        return NULL;
    }
    uint8_t *p = c->data + c->used;
    c->used += need;
    a->used += n;
    return memset(p, 0, need);
}

void *arena_dup(arena *a, const void *p, size_t n)
{
    void *copy = arena_alloc(a, n);
    if (copy && n) memcpy(copy, p, n);
    return copy;
}

char *arena_str(arena *a, slice s)
{
    if (s.n == SIZE_MAX) {
        a->failed = true;
        return NULL;
    }
    char *copy = arena_alloc(a, s.n + 1);
    if (copy && s.n) memcpy(copy, s.p, s.n);
    return copy;
}

static void free_chunks(struct arena_chunk *c)
{
    while (c) {
        struct arena_chunk *next = c->next;
        free(c);
        c = next;
    }
}

void arena_reset(arena *a)
{
    if (a->head) {
        free_chunks(a->head->next);
        a->head->next = NULL;
        a->head->used = 0;
    }
    a->used = 0;
    a->failed = false;
}

void arena_free(arena *a)
{
    free_chunks(a->head);
    a->head = NULL;
    a->used = 0;
    a->failed = false;
}
