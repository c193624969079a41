/* SPDX-License-Identifier: MIT */
/* ledger.h: which blocks of a native allocator are there that were taken since the ledger began: calls are paired with
 * their returns by thread and stack pointer, blocks with their frees by address. Of one thread. */
#ifndef LUNETTE_HITS_LEDGER_H
#define LUNETTE_HITS_LEDGER_H

#include "base/mem.h"

#define HL_BLOCKS_MAX  (1u << 20) /* blocks at a time; what is over is counted as untracked */
#define HL_THREADS_MAX 8192u

typedef enum hl_call { HL_ALLOC, HL_REALLOC, HL_FREE } hl_call;

typedef struct hl_block {
    uint64_t bytes;
    uint32_t stack, function; /* as given to hl_enter */
} hl_block;

typedef struct hl_totals {
    uint64_t allocated, allocated_bytes; /* blocks that were taken; a block that grows is a new one */
    uint64_t freed, freed_bytes;         /* of these */
    uint64_t freed_older;                /* frees of blocks that were there before, or are not tracked */
    uint64_t blocks, bytes;              /* still there */
    uint64_t untracked;                  /* blocks and calls that found no room */
    uint64_t unpaired;                   /* returns without their call */
} hl_totals;

typedef struct hl hl;
hl *hl_new(void); /* NULL: no memory */
void hl_free(hl *l);

/* A call begins: of HL_FREE and HL_REALLOC with the block's address, which may be 0. A call inside of another one, of
 * the same thread and lower on its stack, is a part of it. False: it is such a part. */
bool hl_enter(hl *l, hl_call what, int tid, uint64_t sp, uint64_t address, const hl_block *b);
/* It returned an address, 0: it failed (realloc to 0 bytes: it freed). sp: as at its begin. */
void hl_leave(hl *l, int tid, uint64_t sp, uint64_t address);
/* Whether a call of this thread began with that stack pointer and has not returned; then its argument. */
bool hl_pending(const hl *l, int tid, uint64_t sp, uint64_t *argument);

void hl_totals_of(const hl *l, hl_totals *out);
/* Blocks that are there, by stack and function: fn is called once each. False: no memory. */
typedef void (*hl_site_fn)(void *arg, const hl_block *site, uint64_t blocks, uint64_t bytes);
bool hl_sites(const hl *l, hl_site_fn fn, void *arg);

#endif
