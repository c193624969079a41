/* SPDX-License-Identifier: MIT */
/* standing.h: the threads of a process that wait already when a window begins, which no switch of the window tells. */
#ifndef LUNETTE_OFFCPU_STANDING_H
#define LUNETTE_OFFCPU_STANDING_H

#include "naming/naming.h"
#include "offcpu/spans.h"
#include "offcpu/stacks.h"

#define OC_STANDING_MAX 4096u             /* threads that are looked at */
#define OC_STANDING_NS  INT64_C(50000000) /* for stacks at the beginning, while the rings fill */

typedef struct oc_standing {
    int pid;
    uw_space *space; /* all borrowed */
    naming *names;
    oc_stacks *stacks;
    oc *spans;
    int *tids; /* own */
    uint32_t n;
    int64_t begin_ns;
} oc_standing;

/* Opens a span at begin_ns for each thread that waits, before any record of the window is looked at. */
void oc_standing_begin(oc_standing *c, int64_t begin_ns);
/* How many waited for the whole window; the stacks that were not read at its beginning are. Before oc_end. */
uint32_t oc_standing_end(oc_standing *c);
void oc_standing_fini(oc_standing *c);

#endif
