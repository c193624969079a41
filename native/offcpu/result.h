/* SPDX-License-Identifier: MIT */
/* result.h: blocked time by named stack and by thread, sorted. Stacks that differ in addresses only are one. Immutable;
 * any number of threads may read. */
#ifndef LUNETTE_OFFCPU_RESULT_H
#define LUNETTE_OFFCPU_RESULT_H

#include "naming/naming.h"
#include "offcpu/spans.h"
#include "offcpu/stacks.h"

#define OC_CALLS_TOP  8u /* system calls told of a stack */
#define OC_WAKERS_TOP 8u

typedef struct oc_frame {
    slice module, method;
    naming_kind kind;
    uint32_t token;                /* MANAGED: of its metadata; 0: none */
    slice module_path, type, name; /* MANAGED */
} oc_frame;

typedef struct oc_call {
    slice name; /* "futex", or "syscall_451" */
    int64_t ns;
    uint64_t n;
} oc_call;

typedef struct oc_woken {
    oc_waker who;
    int64_t ns; /* of the time until the wake-up */
    uint64_t n;
} oc_woken;

/* Waits for native synchronisation: futexes. */
typedef struct oc_syncs {
    uint64_t spans, censored, locks; /* locks: of the spans, those of a mutex's kind of wait */
    int64_t ns, censored_ns, locks_ns;
} oc_syncs;

typedef struct oc_stack_row {
    const uint32_t *frames; /* of oc_result.frames, root first */
    uint32_t n_frames;
    uint32_t leaf; /* the frame that names it: the leaf without the scheduler's own */
    oc_sum sum;
    int64_t state_ns[OC_STATES];
    oc_state dominant;
    oc_call calls[OC_CALLS_TOP];
    uint32_t n_calls, calls_dropped;
    oc_woken wakers[OC_WAKERS_TOP];
    uint32_t n_wakers, wakers_dropped;
    oc_syncs sync;
    uint32_t threads; /* different ones */
} oc_stack_row;

typedef struct oc_thread_row {
    oc_thread thread;
    int64_t top; /* index of the stack with most of its time; -1: none */
    oc_state dominant;
    oc_syncs sync;
} oc_thread_row;

typedef struct oc_result {
    arena a; /* of all that follows */
    oc_totals totals;
    oc_syncs sync;
    oc_frame *frames;
    uint32_t n_frames;
    oc_stack_row *stacks; /* most time first */
    uint32_t n_stacks;
    oc_thread_row *threads; /* likewise */
    uint32_t n_threads;
    uint64_t calls_dropped; /* rows of stacks that had more than OC_CALLS_TOP calls */
    uint64_t managed_named; /* different addresses with a name of the runtime */
    uint64_t unnamed;       /* different user addresses in code without a file and a name */
    naming_stats naming;
    oc_stacks_stats stacks_stats;
    uint64_t lost, samples, records, late, damaged;
    uint32_t threads_missing, fds, standing;
    int64_t begin_ns, end_ns;
    int64_t build_ns;
    bool target_ended, filtered_wakers;
    bool kernel_names, syscalls_traced;
} oc_result;
void oc_result_free(oc_result *r); /* NULL is fine */

/* Names and sorts what the spans hold. n is used by this call only. *out has the fields of the window and of perf
 * unset. */
int oc_result_make(const oc *spans, const oc_stacks *stacks, naming *n, oc_result **out, err *e);

/* The system call that a function of the kernel is the entry of: "__x64_sys_futex" and "ksys_read" give "futex" and
 * "read". Empty: none. For tests. */
slice oc_call_of_function(slice name);
/* The name of a call by its number, "syscall_N" into text for one that is not listed. */
slice oc_call_name(uint32_t nr, char text[24]);

#endif
