/* SPDX-License-Identifier: MIT */
/* stacks.c: every different stack once, by number. */
#include <stdlib.h>

#include "probe/engine.h"

#define FIRST_CELLS 256u

static bool same(const pstack *s, slice ips, uint32_t pointer)
{
    if ((size_t)s->n * pointer != ips.n) return false;
    if (pointer == 8) return memcmp(s->ip, ips.p, ips.n) == 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t ip;
        memcpy(&ip, ips.p + (size_t)i * 4, 4);
        if (s->ip[i] != ip) return false;
    }
    return true;
}

static bool widen(probe *p, pstacks *t)
{
    uint32_t cap = t->index_cap ? 2 * t->index_cap : FIRST_CELLS;
    uint32_t *index = probe__alloc(p, cap * sizeof *index);
    if (!index) return false;
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t k = t->p[i].hash & (cap - 1);
        while (index[k])
            k = (k + 1) & (cap - 1);
        index[k] = i + 1;
    }
    probe__free(p, t->index, t->index_cap * sizeof *t->index);
    t->index = index;
    t->index_cap = cap;
    return true;
}

static bool add(probe *p, pstacks *t, slice ips, uint32_t pointer, uint32_t hash, int64_t ts)
{
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 64;
        if (!probe__charge(p, (cap - t->cap) * sizeof *t->p)) return false;
        pstack *grown = mem_realloc(t->p, cap * sizeof *grown);
        if (!grown) {
            p->memory -= (cap - t->cap) * sizeof *t->p;
            return false;
        }
        t->p = grown;
        t->cap = cap;
    }
    uint32_t n = (uint32_t)(ips.n / pointer);
    uint64_t *ip = probe__alloc(p, n * sizeof *ip + 8);
    if (!ip) return false;
    for (uint32_t i = 0; i < n; i++)
        memcpy(&ip[i], ips.p + (size_t)i * pointer, pointer);
    t->p[t->n++] = (pstack){.n = n, .hash = hash, .ts = ts, .last = ts, .ip = ip};
    return true;
}

int64_t probe__stack_intern(pctx *c)
{
    probe *p = c->p;
    pstacks *t = &p->stacks;
    slice ips = nt_stack(c->reader, c->ev);
    uint32_t pointer = c->trace->pointer_size == 4 ? 4 : 8;
    if (ips.n < pointer) return -1;
    if ((t->n + 1) * 2 > t->index_cap && !widen(p, t)) {
        t->dropped++;
        return -1;
    }
    uint32_t hash = (uint32_t)hash_bytes(ips, 0x57AC);
    uint32_t k = hash & (t->index_cap - 1);
    for (; t->index[k]; k = (k + 1) & (t->index_cap - 1)) {
        pstack *s = &t->p[t->index[k] - 1];
        if (s->hash != hash || !same(s, ips, pointer)) continue;
        if (c->ev->ts > s->last) s->last = c->ev->ts;
        return (int64_t)t->index[k] - 1;
    }
    if (t->n >= PROBE_STACKS_MAX || !add(p, t, ips, pointer, hash, c->ev->ts)) {
        t->dropped++;
        return -1;
    }
    t->index[k] = t->n;
    return (int64_t)t->n - 1;
}

void probe__stacks_fini(probe *p)
{
    pstacks *t = &p->stacks;
    for (uint32_t i = 0; i < t->n; i++)
        probe__free(p, t->p[i].ip, t->p[i].n * sizeof(uint64_t) + 8);
    p->memory -= t->cap * sizeof *t->p;
    free(t->p);
    probe__free(p, t->index, t->index_cap * sizeof *t->index);
    *t = (pstacks){0};
}

static int by_address(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t *probe_addresses(const probe *p, size_t *n)
{
    size_t all = 0, k = 0;
    *n = 0;
    for (uint32_t i = 0; i < p->stacks.n; i++)
        all += p->stacks.p[i].n;
    all *= 2;
    uint64_t *ips = all ? mem_alloc(all * sizeof *ips) : NULL;
    if (!ips) return NULL;
    for (uint32_t i = 0; i < p->stacks.n; i++) {
        const pstack *s = &p->stacks.p[i];
        for (uint32_t j = 0; j < s->n; j++) {
            ips[k++] = s->ip[j];
            ips[k++] = s->ip[j] ? s->ip[j] - 1 : 0; /* a return address may lie behind the end of its method */
        }
    }
    qsort(ips, all, sizeof *ips, by_address);
    k = 0;
    for (size_t i = 0; i < all; i++)
        if (k == 0 || ips[k - 1] != ips[i]) ips[k++] = ips[i];
    *n = k;
    return ips;
}
