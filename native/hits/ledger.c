/* SPDX-License-Identifier: MIT */
/* ledger.c: see ledger.h. */
#include "hits/ledger.h"

#include <stdlib.h>

typedef struct pending {
    uint64_t sp, address;
    hl_block block, old;
    hl_call what;
    bool had_old;
    bool open; /* it has not returned yet */
} pending;     /* of a thread: its outermost call */

typedef struct site {
    hl_block of;
    uint64_t blocks, bytes;
} site;

struct hl {
    map64 live; /* address -> index of its block */
    hl_block *blocks;
    uint32_t n_blocks, cap_blocks;
    uint32_t *gone; /* indexes that are free again */
    uint32_t n_gone, cap_gone;
    map64 by_tid;
    pending *threads;
    uint32_t n_threads, cap_threads;
    hl_totals t;
};

hl *hl_new(void) { return mem_calloc(1, sizeof(hl)); }

void hl_free(hl *l)
{
    if (!l) return;
    map64_fini(&l->live);
    map64_fini(&l->by_tid);
    free(l->blocks);
    free(l->gone);
    free(l->threads);
    free(l);
}

/* Room for one more of size bytes each. */
static bool grow(void **list, uint32_t n, uint32_t *cap, uint32_t max, size_t size)
{
    if (n < *cap) return true;
    if (n >= max) return false;
    uint32_t to = *cap ? *cap * 2 : 256;
    void *grown = mem_realloc(*list, to * size);
    if (!grown) return false;
    *list = grown;
    *cap = to;
    return true;
}

static pending *thread_of(hl *l, int tid)
{
    uint64_t i;
    if (map64_get(&l->by_tid, (uint64_t)tid, &i)) return &l->threads[i];
    void *list = l->threads;
    bool room = grow(&list, l->n_threads, &l->cap_threads, HL_THREADS_MAX, sizeof *l->threads);
    l->threads = list;
    if (!room || !map64_put(&l->by_tid, (uint64_t)tid, l->n_threads)) return NULL;
    l->threads[l->n_threads] = (pending){0};
    return &l->threads[l->n_threads++];
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static bool take_out(hl *l, uint64_t address, hl_block *out)
{
    uint64_t i;
    if (!map64_get(&l->live, address, &i)) return false;
    *out = l->blocks[i];
    (void)map64_del(&l->live, address);
    void *list = l->gone;
    if (grow(&list, l->n_gone, &l->cap_gone, HL_BLOCKS_MAX, sizeof *l->gone)) {
        l->gone = list;
        l->gone[l->n_gone++] = (uint32_t)i;
    }
    l->t.blocks--;
    l->t.bytes -= out->bytes;
    return true;
}

static bool put_in(hl *l, uint64_t address, const hl_block *b)
{
    hl_block lost;
    (void)take_out(l, address, &lost); /* its free was not seen */
    void *list = l->blocks;
    uint32_t i = l->n_blocks;
    if (l->n_gone) {
        i = l->gone[l->n_gone - 1];
    } else if (!grow(&list, l->n_blocks, &l->cap_blocks, HL_BLOCKS_MAX, sizeof *l->blocks)) {
        l->t.untracked++;
        return false;
    }
    l->blocks = list;
    if (!map64_put(&l->live, address, i)) {
        l->t.untracked++;
        return false;
    }
    if (l->n_gone)
        l->n_gone--;
    else
        l->n_blocks++;
    l->blocks[i] = *b;
    l->t.blocks++;
    l->t.bytes += b->bytes;
    return true;
}

static void count_freed(hl *l, bool known, const hl_block *b)
{
    l->t.freed += known;
    l->t.freed_bytes += known ? b->bytes : 0;
    l->t.freed_older += !known;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

bool hl_enter(hl *l, hl_call what, int tid, uint64_t sp, uint64_t address, const hl_block *b)
{
    pending *t = thread_of(l, tid);
    pending p = {.sp = sp, .address = address, .what = what, .open = true};
    if (b) p.block = *b;
    if (t && t->open && t->sp > sp) return false;
    if (t) t->open = false; /* its return was not seen */
    if (what == HL_FREE) {
        if (address) count_freed(l, take_out(l, address, &p.old), &p.old);
        return true;
    }
    if (!t) {
        l->t.untracked++;
        return true;
    }
    /* Nobody else gets the address before the call has given it back, which is later. */
    if (what == HL_REALLOC && address) p.had_old = take_out(l, address, &p.old);
    *t = p;
    return true;
}

bool hl_pending(const hl *l, int tid, uint64_t sp, uint64_t *argument)
{
    uint64_t i;
    if (!map64_get(&l->by_tid, (uint64_t)tid, &i)) return false;
    const pending *p = &l->threads[i];
    if (!p->open || p->sp != sp) return false;
    *argument = p->address;
    return true;
}

void hl_leave(hl *l, int tid, uint64_t sp, uint64_t address)
{
    pending *p = thread_of(l, tid);
    if (!p || !p->open || p->sp < sp) {
        l->t.unpaired++;
        return;
    }
    if (p->sp > sp) return; /* of a call inside of it */
    p->open = false;
    bool frees = p->what == HL_REALLOC && p->address;
    if (!address && frees && p->block.bytes > 0) { /* the old block stays */
        if (p->had_old) (void)put_in(l, p->address, &p->old);
        return;
    }
    if (frees) count_freed(l, p->had_old, &p->old);
    if (!address) return;
    if (put_in(l, address, &p->block)) {
        l->t.allocated++;
        l->t.allocated_bytes += p->block.bytes;
    }
}

/* ---- what is there ----------------------------------------------------------------------------------------------- */

void hl_totals_of(const hl *l, hl_totals *out) { *out = l->t; }

bool hl_sites(const hl *l, hl_site_fn fn, void *arg)
{
    map64 index = {0};
    site *sites = mem_calloc(l->t.blocks ? l->t.blocks : 1, sizeof *sites);
    size_t it = 0, n = 0;
    uint64_t address, i, k;
    bool ok = sites != NULL;
    while (ok && map64_next(&l->live, &it, &address, &i)) {
        const hl_block *b = &l->blocks[i];
        uint64_t key = (uint64_t)b->stack << 32 | b->function;
        if (!map64_get(&index, key, &k)) {
            k = n++;
            sites[k].of = *b;
            ok = map64_put(&index, key, k);
        }
        sites[k].blocks++;
        sites[k].bytes += b->bytes;
    }
    for (size_t s = 0; ok && s < n; s++)
        fn(arg, &sites[s].of, sites[s].blocks, sites[s].bytes);
    map64_fini(&index);
    free(sites);
    return ok;
}
