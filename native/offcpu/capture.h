/* SPDX-License-Identifier: MIT */
/* capture.h: where the threads of a process wait, over a window: the scheduler's switches of its threads with their
 * stacks, records of their return to a processor, and who wakes them. Reduced while it comes in; what is left for the
 * end is naming and sorting.
 *
 *     oc_capture *c;
 *     oc_open(pid, NULL, &c, &e);                   what is missing is in the error, with its cure
 *     oc_run(c, deadline_ns, &e);                   on a worker thread, until the deadline, oc_stop or the target's end
 *     oc_finish(c, methods, &result, &e);           names and sorts; once
 *     oc_close(c);
 *
 * Needs CAP_PERFMON (or perf_event_paranoid -1) and readable tracing files. */
#ifndef LUNETTE_OFFCPU_CAPTURE_H
#define LUNETTE_OFFCPU_CAPTURE_H

#include "clr/methods.h"
#include "kernel/perf.h"
#include "offcpu/result.h"
#include "profile/profile.h"

#define OC_STACK_BYTES 8192u /* of each sample's user stack */
#define OC_RING_BYTES  ((size_t)32 << 20)
#define OC_RINGS_BYTES ((size_t)64 << 20) /* of all CPUs */
#define OC_RING_MIN    ((size_t)1 << 20)
#define OC_NICE        (-10) /* of the thread that reads, where it may: a ring is full in a tenth of a second */
#define OC_FILTERS_MAX 64u   /* of threads that the first filter of wake-ups does not have */

typedef struct oc_cfg {
    uint32_t stack_bytes;     /* 0: OC_STACK_BYTES */
    bool syscalls;            /* take raw_syscalls:sys_enter even where the kernel's names tell the call */
    profile_builder *builder; /* that has the methods of the JIT, or NULL; a reference is taken */
} oc_cfg;

typedef struct oc_capture oc_capture;
/* NotSupported, PermissionDenied, ProcessNotFound, ProcessExited, LimitExceeded, OutOfMemory. cfg may be NULL. */
int oc_open(int pid, const oc_cfg *cfg, oc_capture **out, err *e);
/* Until until_ns (monotonic). Once. */
int oc_run(oc_capture *c, int64_t until_ns, err *e);
void oc_stop(oc_capture *c); /* any thread, from oc_open to oc_close */
/* How many addresses have no name yet that the runtime could give, or one that it may have given to others meanwhile
 * (of a DynamicMethod): 0, or 1 for any, since it looks no further. methods: what is known until now. After oc_run. */
uint32_t oc_unnamed(oc_capture *c, clr_methods *methods);
/* methods may be NULL: the names of managed code. The result is yours. Once, after oc_run. */
int oc_finish(oc_capture *c, clr_methods *methods, oc_result **out, err *e);
void oc_close(oc_capture *c); /* NULL is fine */

#endif
