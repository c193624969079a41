/* SPDX-License-Identifier: MIT */
/* fork.h: a copy-on-write image of a live target: it forks once, by a clone that we make one of its threads execute
 * while all stand, and goes on; the child never runs and is read in its place for as long as is needed, then is killed
 * and reaped. What the target writes meanwhile costs it memory: that is estimated first, and watched.
 *
 *     if (mem_fork_prepare(t, &e) == 0 && mem_stop(t, …) == 0 && mem_fork(t, &e) == 0) {
 *         mem_resume(t);
 *         mem_read(t, …)                // reads the image; mem_registers_of has the registers of the stop
 *     }
 *     mem_resume(t);
 *     mem_fork_drop(t);                 // or mem_close
 *
 * No moment of this leaves the target in need of us: the thread that forks finds its own way back when we are killed
 * (a signal frame on its stack, below what it uses, restores its registers as they were), the child ends by itself,
 * and a second process of ours reaps it. Formats: man ptrace(2), clone(2), sigreturn(2); x86-64 only. */
#ifndef LUNETTE_MEMORY_FORK_H
#define LUNETTE_MEMORY_FORK_H

#include "memory/target.h"

#define MEM_FORK_FLOOR ((uint64_t)64 << 20) /* bytes that must stay free beside a share of the target's size */

/* What the target and its surroundings have: bytes. */
typedef struct mem_fork_memory {
    uint64_t anonymous; /* memory of the target that would be shared with its image */
    uint64_t left;      /* that the machine or the target's cgroup has left, whichever has less */
    uint64_t need;      /* that must be left before */
    uint64_t floor;     /* below which the image is given up */
} mem_fork_memory;
/* Whether it can be done at all, and starts the process that cleans up after us; before any stop. NotSupported (a
 * seccomp filter, a shadow stack, a C library without what is needed), PermissionDenied (a tracer), LimitExceeded (the
 * memory, with the figures), ProcessExited. */
int mem_fork_prepare(mem_target *t, err *e);
const mem_fork_memory *mem_fork_memory_of(const mem_target *t); /* after prepare; NULL before */
/* The target stands. Busy: no thread of it waits in the kernel in a way that can be borrowed: let it go and try again.
 * Failing, it leaves the target as it was. */
int mem_fork(mem_target *t, err *e);
/* Is the target read by its image? */
bool mem_forked(const mem_target *t);
int64_t mem_fork_ns(const mem_target *t); /* that the clone took, of the stop */
/* 0 while the image is there: else LimitExceeded (memory fell below the floor) or ProcessExited. */
int mem_fork_check(mem_target *t, err *e);
/* Ends the image, and lets the target forget it. A note says if that failed. No-op without one. */
void mem_fork_drop(mem_target *t);

#endif
