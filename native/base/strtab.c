/* SPDX-License-Identifier: MIT */
/* strtab.c: interned strings. Bytes live in an arena and never move; an open-addressing index holds id + 1, 0 meaning
 * empty. */
#include "base/mem.h"

#include <stdlib.h>

#include "base/hash_internal.h"

#define FIRST_INDEX ((size_t)64)

typedef struct entry {
    const uint8_t *p;
    uint32_t n, hash;
} entry;

struct strtab {
    arena text;
    entry *entries;
    uint32_t n, cap, max;
    size_t max_bytes;
    uint32_t *index;
    size_t index_cap;
    uint64_t seed;
};

strtab *strtab_new(uint32_t max_strings, size_t max_bytes)
{
    strtab *t = mem_calloc(1, sizeof *t);
    if (!t) return NULL;
    t->max = max_strings ? max_strings : STRTAB_FULL - 1;
    t->max_bytes = max_bytes ? max_bytes : SIZE_MAX;
    t->seed = hash__seed();
    return t;
}

void strtab_free(strtab *t)
{
    if (!t) return;
    arena_free(&t->text);
    free(t->entries);
    free(t->index);
    free(t);
}

/* The index cell of s, or the empty one in which its search ends. */
static size_t find_cell(const strtab *t, slice s, uint32_t hash)
{
    size_t mask = t->index_cap - 1, i = hash & mask;
    for (; t->index[i]; i = (i + 1) & mask) {
        const entry *en = &t->entries[t->index[i] - 1];
        if (en->hash == hash && en->n == s.n && (s.n == 0 || memcmp(en->p, s.p, s.n) == 0)) break;
    }
    return i;
}

static bool grow_entries(strtab *t)
{
    size_t cap = t->cap ? (size_t)t->cap * 2 : 32;
    if (cap > t->max) cap = t->max;
    entry *entries = mem_realloc(t->entries, cap * sizeof *entries);
    if (!entries) return false;
    t->entries = entries;
    t->cap = (uint32_t)cap;
    return true;
}

static bool grow_index(strtab *t)
{
    size_t cap = t->index_cap ? t->index_cap * 2 : FIRST_INDEX;
    uint32_t *index = mem_calloc(cap, sizeof *index);
    if (!index) return false;
    for (uint32_t id = 0; id < t->n; id++) {
        size_t i = t->entries[id].hash & (cap - 1);
        while (index[i])
            i = (i + 1) & (cap - 1);
        index[i] = id + 1;
    }
    free(t->index);
    t->index = index;
    t->index_cap = cap;
    return true;
}

/* Appends s, which is known not to be there. */
static uint32_t add(strtab *t, slice s, uint32_t hash)
{
    if (t->n >= t->max || s.n >= UINT32_MAX || t->text.used > t->max_bytes || s.n + 1 > t->max_bytes - t->text.used) {
        return STRTAB_FULL;
    }
    if (t->n == t->cap && !grow_entries(t)) return STRTAB_FULL;
    if ((size_t)(t->n + 1) * 4 > t->index_cap * 3 && !grow_index(t)) return STRTAB_FULL;
    char *copy = arena_str(&t->text, s);
    if (!copy) return STRTAB_FULL;
    t->index[find_cell(t, s, hash)] = t->n + 1;
    t->entries[t->n] = (entry){(const uint8_t *)copy, (uint32_t)s.n, hash};
    return t->n++;
}

uint32_t strtab_intern(strtab *t, slice s)
{
    uint32_t hash = (uint32_t)hash_bytes(s, t->seed);
    if (t->index_cap) {
        uint32_t cell = t->index[find_cell(t, s, hash)];
        if (cell) return cell - 1;
    }
    return add(t, s, hash);
}

uint32_t strtab_find(const strtab *t, slice s)
{
    if (!t->index_cap) return STRTAB_FULL;
    uint32_t cell = t->index[find_cell(t, s, (uint32_t)hash_bytes(s, t->seed))];
    return cell ? cell - 1 : STRTAB_FULL;
}

slice strtab_get(const strtab *t, uint32_t id)
{
    if (id >= t->n) return SLICE_LIT("");
    return slice_of(t->entries[id].p, t->entries[id].n);
}

uint32_t strtab_count(const strtab *t) { return t->n; }
