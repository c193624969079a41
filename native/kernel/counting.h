/* SPDX-License-Identifier: MIT */
/* counting.h: what the kernel and the processor count of a process within a window: software events and, where there is
 * a PMU, hardware ones. Each is known or not for itself. All threads are counted, those that start later by
 * inheritance. What perf_event_open refuses is read of /proc where /proc has it. Format: man perf_event_open(2),
 * proc(5). */
#ifndef LUNETTE_KERNEL_COUNTING_H
#define LUNETTE_KERNEL_COUNTING_H

#include "kernel/kernel.h"

#define KN_COUNTING_THREADS_MAX 2048        /* threads counted; the rest are told in `uncounted` */
#define KN_COUNTING_FILES_MAX   (16u << 10) /* descriptors that may be taken, within RLIMIT_NOFILE */

/* name, perf type, config */
#define KN_METRICS(X)                                                                                                  \
    X(TASK_CLOCK, "task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK)                                          \
    X(CONTEXT_SWITCHES, "context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES)                        \
    X(MIGRATIONS, "cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS)                                  \
    X(FAULTS, "page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS)                                            \
    X(MINOR_FAULTS, "minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN)                                 \
    X(MAJOR_FAULTS, "major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ)                                 \
    X(CYCLES, "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES)                                                  \
    X(INSTRUCTIONS, "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS)                                    \
    X(CACHE_REFERENCES, "cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES)                        \
    X(CACHE_MISSES, "cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES)                                    \
    X(BRANCHES, "branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS)                                     \
    X(BRANCH_MISSES, "branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES)                                 \
    X(STALLED_FRONTEND, "stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND)          \
    X(STALLED_BACKEND, "stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND)             \
    X(TLB_LOADS, "dTLB-loads", PERF_TYPE_HW_CACHE, KN_CACHE_DTLB)                                                      \
    X(TLB_MISSES, "dTLB-load-misses", PERF_TYPE_HW_CACHE, KN_CACHE_DTLB | KN_CACHE_MISS)

typedef enum kn_metric {
#define X(id, name, type, config) KN_METRIC_##id,
    KN_METRICS(X)
#undef X
        KN_METRIC_COUNT
} kn_metric;
const char *kn_metric_name(kn_metric m);

typedef enum kn_count_source { KN_COUNT_NONE, KN_COUNT_PERF, KN_COUNT_PROC } kn_count_source;

/* One metric over the window. task-clock is in nanoseconds, all others are events. */
typedef struct kn_count {
    kn_count_source source; /* NONE: not known */
    double value;
    double share;   /* of the time in which it was counted, 0 to 1: below 1 the value is extrapolated */
    bool user_only; /* the kernel's own part is not in it */
    bool at_least;  /* of /proc: what ended threads did is not in it */
    int sys;        /* why perf did not count it: an errno, or 0 */
} kn_count;

typedef struct kn_counts {
    kn_count by[KN_METRIC_COUNT];
    int64_t elapsed_ns;
    uint32_t threads;   /* counted from the beginning */
    uint32_t uncounted; /* that found no room or descriptor */
    uint32_t raced;     /* that began while the counters were opened: they may be missing or there twice */
    int64_t ended;      /* threads of the beginning that were gone at the end */
} kn_counts;

typedef struct kn_counting kn_counting;
/* Begins to count. ProcessNotFound; PermissionDenied when neither perf nor /proc may be read; OutOfMemory. Takes a few
 * microseconds a thread and metric: call it off the loop's thread. Not for threads at once. */
int kn_counting_open(int pid, kn_counting **out, err *e);
/* What was counted since; as often as wanted. Fails when the process is gone and perf had nothing (ProcessNotFound). */
int kn_counting_read(kn_counting *c, kn_counts *out, err *e);
void kn_counting_close(kn_counting *c); /* NULL is fine */

/* A difference of two readings {value, time enabled, time running}, extrapolated to the whole time. *share: of the time
 * in which it counted; 0 and a value of 0 when it never did. For tests. */
double kn_count_scaled(const uint64_t before[3], const uint64_t after[3], double *share);
/* "KEY : VALUE" of /proc/PID/task/TID/sched, such as se.nr_migrations. False: not there. */
bool kn_parse_sched(slice text, const char *key, uint64_t *out);

#endif
