/* SPDX-License-Identifier: MIT */
/* symbols.c: texts of fields that come again and again are kept once, with their hash, so that what groups, pairs and
 * rows hold of them is a pointer, and equal pointers are equal texts. Only so many different ones: a field whose texts
 * hardly repeat (a message, an id) is left alone, and a text that has no symbol is as good as one that has. */
#include "probe/engine.h"

#define FIRST_SLOTS 256u
#define PER_FIELD   512u   /* different texts of one field that are kept */
#define PATIENCE    16384u /* texts of a field that found no place before the field is given up */

static bool widen(probe *p)
{
    psymbols *t = &p->symbols;
    uint32_t cap = t->cap ? 2 * t->cap : FIRST_SLOTS;
    const psymbol **slot = probe__alloc(p, cap * sizeof *slot);
    if (!slot) return false;
    for (uint32_t i = 0; i < t->cap; i++) {
        if (!t->slot[i]) continue;
        uint32_t k = probe__home(t->slot[i]->hash, cap);
        while (slot[k])
            k = (k + 1) & (cap - 1);
        slot[k] = t->slot[i];
    }
    probe__free(p, t->slot, t->cap * sizeof *t->slot);
    t->slot = slot;
    t->cap = cap;
    return true;
}

static size_t symbol_size(uint32_t n) { return sizeof(psymbol) + n + 16; }

__attribute__((noinline, cold)) const psymbol *probe__symbol_make(probe *p, pcell *field, const uint8_t *text,
                                                                  uint32_t n, uint64_t hash)
{
    psymbols *t = &p->symbols;
    if (field->symbols == PER_FIELD || t->n == PROBE_SYMBOLS_MAX || ((t->n + 1) * 4 > t->cap && !widen(p))) {
        if (++field->misses >= PATIENCE) field->plain = true;
        return NULL;
    }
    psymbol *s = probe__alloc(p, symbol_size(n));
    if (!s) {
        field->plain = true;
        return NULL;
    }
    s->hash = hash;
    s->n = n;
    memcpy(s->text, text, n);
    field->symbols++;
    uint32_t i = probe__home(hash, t->cap);
    while (t->slot[i])
        i = (i + 1) & (t->cap - 1);
    t->slot[i] = s;
    t->n++;
    return s;
}

void probe__symbols_fini(probe *p)
{
    psymbols *t = &p->symbols;
    for (uint32_t i = 0; i < t->cap; i++)
        if (t->slot[i]) probe__free(p, (void *)t->slot[i], symbol_size(t->slot[i]->n));
    probe__free(p, t->slot, t->cap * sizeof *t->slot);
    *t = (psymbols){0};
}
