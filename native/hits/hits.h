/* SPDX-License-Identifier: MIT */
/* hits.h: who calls functions of a process's native libraries: each call is counted, each so-manieth brings its stack,
 * from the caller on, into a profile.
 *
 *     hits *h;
 *     hits_open(&cfg, &h, &e);              what is missing is in the error, with its cure
 *     hits_run(h, deadline_ns, &e);         on a worker thread, until the deadline, hits_stop or the target's end
 *     hits_stats_of(h, &stats);             profile_build(…) asks for names
 *     hits_unref(h); */
#ifndef LUNETTE_HITS_HITS_H
#define LUNETTE_HITS_HITS_H

#include "hits/ledger.h"
#include "kernel/uprobe.h"
#include "profile/profile.h"

#define HITS_STACK_BYTES 8192u /* of each sample's user stack */
#define HITS_RING_BYTES  ((size_t)16 << 20)

typedef struct hits_cfg {
    int pid;
    const char *const *functions; /* names, at most UP_PLACES_MAX; borrowed until hits_open returns */
    uint32_t n_functions;
    uint64_t period; /* one stack each so many calls, of each function, thread and CPU */
    /* What is not freed within the window, in place of calls: functions are those of an allocator, with free; the
     * period is 1. Only by way of tracefs, since threads that start later have to be seen. The builder is of
     * allocations. */
    bool outstanding;
    const char *way;          /* up_way_name; NULL: any. Borrowed likewise */
    profile_builder *builder; /* a reference is taken */
} hits_cfg;

typedef struct hits hits;
/* NotSupported, PermissionDenied, ProcessNotFound, LimitExceeded, OutOfMemory. From here on the builder asks this for
 * names, and holds a reference. */
int hits_open(const hits_cfg *cfg, hits **out, err *e);
int hits_run(hits *h, int64_t until_ns, err *e); /* once */
void hits_stop(hits *h);                         /* any thread, any time */
hits *hits_ref(hits *h);
void hits_unref(hits *h); /* any thread; NULL is fine. The last one closes the probes, which takes a while */

typedef struct hits_function {
    uint32_t function; /* index in cfg.functions */
    char name[32], library[128];
    uint64_t calls;   /* within the window */
    uint64_t samples; /* stacks */
} hits_function;

typedef struct hits_stats {
    hits_function functions[UP_PLACES_MAX];
    uint32_t n_functions;
    uint32_t left_out; /* functions that were found, but not watched: breakpoints are four */
    up_way way;
    bool crowded; /* uprobes of perf were passed over: up_crowded */
    uint64_t calls, samples;
    uint64_t broken;  /* stacks whose root was not reached */
    uint64_t dropped; /* samples that found no room */
    bool has_ledger;
    hl_totals ledger;
    perf_stats perf;
    int64_t open_ns, close_ns;
} hits_stats;
void hits_stats_of(const hits *h, hits_stats *out); /* after hits_run */

#endif
