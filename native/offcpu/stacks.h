/* SPDX-License-Identifier: MIT */
/* stacks.h: stacks of addresses by number, each once; and what lets most samples do without an unwinding: a thread that
 * stands where it stood, with the same return addresses in the same places of its stack, has the same stack. */
#ifndef LUNETTE_OFFCPU_STACKS_H
#define LUNETTE_OFFCPU_STACKS_H

#include "base/mem.h"
#include "unwind/uw.h"

#define OC_STACKS_MAX      (1u << 18)
#define OC_STACK_BYTES_MAX ((size_t)128 << 20)
#define OC_FRAMES_MAX      256u /* of a user stack; what is nearer to the root is cut off and counted */
#define OC_KERNEL_MAX      64u
/* A user address at which the thread stood; others are return addresses. */
#define OC_EXACT (UINT64_C(1) << 62)

typedef struct oc_stacks oc_stacks;
oc_stacks *oc_stacks_new(void); /* NULL: no memory */
void oc_stacks_free(oc_stacks *s);

/* The number of a stack, leaf first: kernel, then user. 0: no room (counted), or both empty. */
uint32_t oc_stacks_put(oc_stacks *s, const uint64_t *kernel, uint32_t n_kernel, const uint64_t *user, uint32_t n_user);
uint32_t oc_stacks_count(const oc_stacks *s); /* numbers are 1 to this */
/* Borrowed until oc_stacks_free. NULL for a number that is none. */
const uint64_t *oc_stacks_get(const oc_stacks *s, uint32_t id, uint32_t *n_kernel, uint32_t *n_user);

typedef struct oc_stacks_stats {
    uint64_t walked, remembered; /* samples that were unwound; that were known */
    uint64_t dropped;            /* that found no room */
    uint64_t cut;                /* walks that ended at the end of the sampled bytes, or of OC_FRAMES_MAX */
    uint64_t lost;               /* walks that ended without their root for want of information */
    size_t bytes;
} oc_stacks_stats;
void oc_stacks_stats_of(const oc_stacks *s, oc_stacks_stats *out);

/* The user part of a sample: its registers, and the bytes of its stack from the stack pointer up. Into out (room for
 * OC_FRAMES_MAX); the number of addresses. */
uint32_t oc_stacks_user(oc_stacks *s, uw_space *space, int tid, const uw_regs *regs, slice stack, uint64_t *out);

#endif
