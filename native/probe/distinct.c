/* SPDX-License-Identifier: MIT */
/* distinct.c: how many different values there were. Hashes are kept exactly up to a limit; then the numbers of leading
 * zeros of 4096 classes of hashes give an estimate (HyperLogLog; standard error 1.04/64 = 1.6 %). */
#include <math.h>
#include <stdlib.h>

#include "probe/engine.h"

#define REGISTER_BITS 12
#define REGISTERS     (1u << REGISTER_BITS)

struct pdistinct {
    uint64_t *hash; /* open addressing, 0: empty; NULL once estimating */
    uint32_t n, cap, max;
    uint8_t *reg;
};

static void note(uint8_t *reg, uint64_t hash)
{
    uint32_t i = (uint32_t)(hash >> (64 - REGISTER_BITS));
    uint64_t rest = hash << REGISTER_BITS;
    uint8_t rank = (uint8_t)(rest ? __builtin_clzll(rest) + 1 : 64 - REGISTER_BITS + 1);
    if (rank > reg[i]) reg[i] = rank;
}

static void set_put(uint64_t *set, uint32_t cap, uint64_t hash, uint32_t *n)
{
    uint32_t i = (uint32_t)hash & (cap - 1);
    while (set[i] && set[i] != hash)
        i = (i + 1) & (cap - 1);
    if (!set[i]) {
        set[i] = hash;
        ++*n;
    }
}

static void estimate(probe *p, pdistinct *s)
{
    s->reg = probe__alloc(p, REGISTERS);
    if (!s->reg) return; /* stays at what it has */
    for (uint32_t i = 0; i < s->cap; i++)
        if (s->hash[i]) note(s->reg, s->hash[i]);
    probe__free(p, s->hash, s->cap * sizeof *s->hash);
    s->hash = NULL;
    s->cap = 0;
}

static bool widen(probe *p, pdistinct *s)
{
    uint32_t cap = s->cap ? 2 * s->cap : 32, n = 0;
    uint64_t *grown = probe__alloc(p, cap * sizeof *grown);
    if (!grown) return false;
    for (uint32_t i = 0; i < s->cap; i++)
        if (s->hash[i]) set_put(grown, cap, s->hash[i], &n);
    probe__free(p, s->hash, s->cap * sizeof *s->hash);
    s->hash = grown;
    s->cap = cap;
    return true;
}

void probe__distinct_add(probe *p, pdistinct **at, uint32_t max, uint64_t hash)
{
    pdistinct *s = *at;
    if (!s) {
        s = *at = probe__alloc(p, sizeof *s);
        if (!s) return;
        s->max = max;
    }
    if (hash == 0) hash = 1;
    if (s->reg) {
        note(s->reg, hash);
        return;
    }
    if (s->n * 2 >= s->cap && !widen(p, s)) return;
    set_put(s->hash, s->cap, hash, &s->n);
    if (s->n > s->max) estimate(p, s);
}

void probe__distinct_fini(probe *p, pdistinct **at)
{
    pdistinct *s = *at;
    if (!s) return;
    probe__free(p, s->hash, s->cap * sizeof *s->hash);
    probe__free(p, s->reg, REGISTERS);
    probe__free(p, s, sizeof *s);
    *at = NULL;
}

void probe__distinct_merge(probe *p, pdistinct **into, const pdistinct *from)
{
    if (!from) return;
    for (uint32_t i = 0; i < from->cap; i++)
        if (from->hash[i]) probe__distinct_add(p, into, from->max, from->hash[i]);
    if (!from->reg) return;
    if (!*into) {
        *into = probe__alloc(p, sizeof **into);
        if (!*into) return;
        (*into)->max = from->max;
    }
    if (!(*into)->reg) estimate(p, *into);
    for (uint32_t i = 0; (*into)->reg && i < REGISTERS; i++)
        if (from->reg[i] > (*into)->reg[i]) (*into)->reg[i] = from->reg[i];
}

uint64_t probe__distinct_n(const pdistinct *s, bool *exact)
{
    *exact = !s || !s->reg;
    if (*exact) return s ? s->n : 0;
    double sum = 0;
    uint32_t empty = 0;
    for (uint32_t i = 0; i < REGISTERS; i++) {
        sum += ldexp(1, -s->reg[i]);
        empty += s->reg[i] == 0;
    }
    double m = REGISTERS, raw = 0.7213 / (1 + 1.079 / m) * m * m / sum;
    if (raw <= 2.5 * m && empty) raw = m * log(m / empty);
    return (uint64_t)llround(raw);
}
