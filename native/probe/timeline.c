/* SPDX-License-Identifier: MIT */
/* timeline.c: a block of reducers for each slice of time. Events come in order but for a few, so the last slice is
 * nearly always the right one. */
#include <stdlib.h>

#include "probe/engine.h"

static pbucket *bucket_of(probe *p, const pnode *n, ptimeline *t, int64_t at)
{
    uint32_t i = t->n;
    while (i > 0 && t->p[i - 1].at > at)
        i--;
    if (i > 0 && t->p[i - 1].at == at) return &t->p[i - 1];
    if (t->n >= n->max) return NULL;
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 16;
        if (!probe__charge(p, (cap - t->cap) * sizeof *t->p)) return NULL;
        pbucket *grown = mem_realloc(t->p, cap * sizeof *grown);
        if (!grown) {
            p->memory -= (cap - t->cap) * sizeof *t->p;
            return NULL;
        }
        t->p = grown;
        t->cap = cap;
    }
    uint8_t *state = probe__alloc(p, n->kids.size + 8);
    if (!state) return NULL;
    memmove(t->p + i + 1, t->p + i, (t->n - i) * sizeof *t->p);
    t->p[i] = (pbucket){at, state};
    t->n++;
    return &t->p[i];
}

static ptimeline *timeline_of(probe *p, ptimeline **at)
{
    if (!*at) *at = probe__alloc(p, sizeof **at);
    return *at;
}

void probe__timeline_add(pctx *c, const pnode *n, ptimeline **at)
{
    ptimeline *t = timeline_of(c->p, at);
    if (!t) return;
    int64_t ns = probe__time(c);
    int64_t slice_no = ns / n->every_ns - (ns % n->every_ns < 0);
    pbucket *b = bucket_of(c->p, n, t, slice_no);
    if (b)
        probe__run(c, &n->kids, b->state);
    else
        t->dropped++;
}

void probe__timeline_fini(probe *p, const pnode *n, ptimeline **at)
{
    ptimeline *t = *at;
    if (!t) return;
    for (uint32_t i = 0; i < t->n; i++) {
        probe__fini(p, &n->kids, t->p[i].state);
        probe__free(p, t->p[i].state, n->kids.size + 8);
    }
    p->memory -= t->cap * sizeof *t->p;
    free(t->p);
    probe__free(p, t, sizeof *t);
    *at = NULL;
}

void probe__timeline_merge(probe *p, const pnode *n, ptimeline **into, const ptimeline *from)
{
    if (!from) return;
    ptimeline *t = timeline_of(p, into);
    if (!t) return;
    t->dropped += from->dropped;
    for (uint32_t i = 0; i < from->n; i++) {
        pbucket *b = bucket_of(p, n, t, from->p[i].at);
        if (b)
            probe__merge(p, &n->kids, b->state, from->p[i].state);
        else
            t->dropped++;
    }
}
