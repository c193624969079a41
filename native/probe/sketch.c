/* SPDX-License-Identifier: MIT */
/* sketch.c: quantiles of numbers. The first 32 values are kept as they are; then each goes to a bucket of the number
 * line whose width is 1/64 of its value: the sign, the exponent and six bits of the fraction of the double name the
 * bucket, so that its middle is at most 1/128 (0.8 %) away from any value in it. Buckets come in pages of one binary
 * order of magnitude, made when first needed. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "probe/hot.h"

#define PAGES     4096 /* sign and exponent */
#define PAGES_MAX 256  /* of one sketch; values beyond go to the nearest page there is */

static double from_bits(uint64_t u)
{
    double v;
    u = u >> 63 ? u & ~((uint64_t)1 << 63) : ~u;
    memcpy(&v, &u, sizeof v);
    return v;
}

static psketch_page *near_page(psketch *s, psketch_page *g)
{
    s->near_id[g->id % SKETCH_NEAR] = g->id;
    return s->near[g->id % SKETCH_NEAR] = g;
}

static __attribute__((noinline)) psketch_page *page_at(probe *p, psketch *s, uint16_t id)
{
    uint32_t lo = 0, hi = s->n_page;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (s->page[mid]->id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < s->n_page && s->page[lo]->id == id) return near_page(s, s->page[lo]);
    if (s->n_page == PAGES_MAX) return s->page[lo < s->n_page ? lo : lo - 1];
    if (s->n_page == s->cap_page) {
        uint32_t cap = s->cap_page ? 2 * s->cap_page : 8;
        if (!probe__charge(p, (cap - s->cap_page) * sizeof *s->page)) return NULL;
        psketch_page **grown = mem_realloc(s->page, cap * sizeof *grown);
        if (!grown) return NULL;
        s->page = grown;
        s->cap_page = cap;
    }
    psketch_page *fresh = probe__alloc(p, sizeof *fresh);
    if (!fresh) return NULL;
    fresh->id = id;
    memmove(s->page + lo + 1, s->page + lo, (s->n_page - lo) * sizeof *s->page);
    s->page[lo] = fresh;
    s->n_page++;
    return near_page(s, fresh);
}

static __attribute__((noinline)) void bucket(probe *p, psketch *s, uint64_t bits, uint64_t times)
{
    uint16_t id = (uint16_t)(bits >> 52);
    psketch_page *g = s->near_id[id % SKETCH_NEAR] == id ? s->near[id % SKETCH_NEAR] : page_at(p, s, id);
    if (g)
        g->n[bits >> (52 - SKETCH_SUB_BITS) & (SKETCH_SUB - 1)] += times;
    else
        s->lost += times;
}

static void spill(probe *p, psketch *s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        bucket(p, s, probe__ordered_bits(s->exact[i]), 1);
}

/* The first values, and those that are none. */
static __attribute__((noinline)) void add_first(probe *p, psketch **at, double v)
{
    psketch *s = *at;
    if (!isfinite(v)) return;
    if (!s) {
        s = *at = probe__alloc(p, sizeof *s);
        if (!s) return;
        s->min = s->max = v;
    }
    if (v < s->min) s->min = v;
    if (v > s->max) s->max = v;
    s->sum += v;
    if (s->n < SKETCH_EXACT) {
        s->exact[s->n++] = v;
        return;
    }
    spill(p, s, SKETCH_EXACT);
    s->n++;
    bucket(p, s, probe__ordered_bits(v), 1);
}

void probe__sketch_add(probe *p, psketch **at, double v)
{
    psketch *s = *at;
    if (!s || s->n <= SKETCH_EXACT || !isfinite(v)) {
        add_first(p, at, v);
        return;
    }
    if (v < s->min) s->min = v;
    if (v > s->max) s->max = v;
    s->sum += v;
    s->n++;
    bucket(p, s, probe__ordered_bits(v), 1);
}

void probe__sketch_fini(probe *p, psketch **at)
{
    psketch *s = *at;
    if (!s) return;
    for (uint32_t i = 0; i < s->n_page; i++)
        probe__free(p, s->page[i], sizeof *s->page[i]);
    p->memory -= s->cap_page * sizeof *s->page;
    free(s->page);
    probe__free(p, s, sizeof *s);
    *at = NULL;
}

void probe__sketch_merge(probe *p, psketch **into, const psketch *from)
{
    if (!from) return;
    if (from->n <= SKETCH_EXACT) {
        for (uint64_t i = 0; i < from->n; i++)
            probe__sketch_add(p, into, from->exact[i]);
        return;
    }
    psketch *s = *into;
    if (!s) {
        s = *into = probe__alloc(p, sizeof *s);
        if (!s) return;
        s->min = from->min;
        s->max = from->max;
    }
    if (s->n <= SKETCH_EXACT) spill(p, s, s->n);
    if (from->min < s->min) s->min = from->min;
    if (from->max > s->max) s->max = from->max;
    s->sum += from->sum;
    s->lost += from->lost;
    for (uint32_t i = 0; i < from->n_page; i++)
        for (uint32_t k = 0; k < SKETCH_SUB; k++)
            if (from->page[i]->n[k])
                bucket(p, s, (uint64_t)from->page[i]->id << 52 | (uint64_t)k << (52 - SKETCH_SUB_BITS),
                       from->page[i]->n[k]);
    s->n += from->n;
    if (s->n <= SKETCH_EXACT) s->n = SKETCH_EXACT + 1; /* cannot be: from alone has more */
}

uint64_t probe__sketch_n(const psketch *s) { return s ? s->n : 0; }
bool probe__sketch_exact(const psketch *s) { return !s || s->n <= SKETCH_EXACT; }
double probe__sketch_min(const psketch *s) { return s->min; }
double probe__sketch_max(const psketch *s) { return s->max; }
double probe__sketch_mean(const psketch *s) { return s->sum / (double)s->n; }

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nearest rank: the least value that has at least q percent of all at or below it. */
double probe__sketch_at(const psketch *s, double q)
{
    double need = q / 100 * (double)s->n;
    uint64_t rank = (uint64_t)need;
    if ((double)rank < need) rank++;
    if (rank < 1) rank = 1;
    if (rank > s->n) rank = s->n;
    if (s->n <= SKETCH_EXACT) {
        double sorted[SKETCH_EXACT];
        memcpy(sorted, s->exact, (size_t)s->n * sizeof *sorted);
        qsort(sorted, (size_t)s->n, sizeof *sorted, by_value);
        return sorted[rank - 1];
    }
    if (rank == 1) return s->min;
    if (rank == s->n) return s->max;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < s->n_page; i++) {
        for (uint32_t k = 0; k < SKETCH_SUB; k++) {
            seen += s->page[i]->n[k];
            if (seen < rank || !s->page[i]->n[k]) continue;
            uint64_t low = (uint64_t)s->page[i]->id << 52 | (uint64_t)k << (52 - SKETCH_SUB_BITS);
            double v = from_bits(low + ((uint64_t)1 << (52 - SKETCH_SUB_BITS - 1)));
            if (v > -DBL_MIN && v < DBL_MIN) v = 0; /* the bucket of zero, and of what is as good as zero */
            return v < s->min ? s->min : v > s->max ? s->max : v;
        }
    }
    return s->max;
}
