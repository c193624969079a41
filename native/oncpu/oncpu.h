/* SPDX-License-Identifier: MIT */
/* oncpu.h: where the threads of a process spend the time that they run: the CPU clock of each thread, sampled by the
 * kernel, with one stack of kernel, native and managed frames. A thread that waits has no samples.
 *
 *     oncpu *c;
 *     oncpu_open(&cfg, &c, &e);               what is missing is in the error, with its cure
 *     oncpu_run(c, deadline_ns, &e);          a worker thread, until the deadline, oncpu_stop or the target's end; it
 * adds to cfg.builder profile_build(...);                     asks for the names of what the map of methods does not
 * know oncpu_unref(c); */
#ifndef LUNETTE_ONCPU_ONCPU_H
#define LUNETTE_ONCPU_ONCPU_H

#include "kernel/perf.h"
#include "profile/profile.h"

#define ONCPU_HZ          997u /* no multiple of a timer of the program's */
#define ONCPU_HZ_MAX      20000u
#define ONCPU_STACK_BYTES 16384u /* of each sample's user stack; what is above comes by frame pointers */
#define ONCPU_FRAMES_MAX  512u

typedef struct oncpu_cfg {
    int pid;
    uint32_t hz;              /* samples of a second that a thread ran; 0: ONCPU_HZ */
    uint32_t stack_bytes;     /* 0: ONCPU_STACK_BYTES */
    profile_builder *builder; /* a reference is taken */
} oncpu_cfg;

typedef struct oncpu oncpu;
/* PermissionDenied, NotSupported, ProcessNotFound, LimitExceeded, OutOfMemory. Takes up to 100 ms: names of the kernel
 * are read. From here on the builder asks this for names, and holds a reference. */
int oncpu_open(const oncpu_cfg *cfg, oncpu **out, err *e);
int oncpu_run(oncpu *c, int64_t until_ns, err *e);
void oncpu_stop(oncpu *c); /* any thread, any time */
oncpu *oncpu_ref(oncpu *c);
void oncpu_unref(oncpu *c); /* any thread; NULL is fine */

typedef struct oncpu_stats {
    perf_stats perf;
    uint32_t hz;
    uint64_t in_kernel; /* samples taken in the kernel */
    uint64_t no_user;   /* samples without registers of the program: a thread of the kernel, or one that ends */
    uint64_t joined;    /* stacks deeper than the bytes that were taken, whose rest came by frame pointers */
    uint64_t broken;    /* stacks whose root was not reached */
    uint64_t dropped;   /* samples that found no room */
    int64_t unwind_ns;  /* time spent on stacks */
    uint64_t by_cfi, by_frame_pointer, by_code, guesses; /* frames */
    bool kernel_names;
    char kernel_why[512]; /* not kernel_names: why */
    uint32_t jit_map;     /* functions in perf-PID.map */
} oncpu_stats;
void oncpu_stats_of(const oncpu *c, oncpu_stats *out); /* after oncpu_run */

#endif
