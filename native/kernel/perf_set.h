/* SPDX-License-Identifier: MIT */
/* perf_set.h: a set of events, for the files that open it (perf_set.c) and read it (perf_run.c). */
#ifndef LUNETTE_KERNEL_PERF_SET_H
#define LUNETTE_KERNEL_PERF_SET_H

#include <sys/ioctl.h>

#include "kernel/perf_internal.h"

typedef struct perf__event {
    int fd;
    uint32_t spec;
    bool counts; /* no ring */
} perf__event;

typedef struct perf__kind {
    perf_spec spec;
    struct perf_event_attr attr;
    perf_layout layout;
    bool tracks; /* brings maps and tasks */
} perf__kind;

struct perf_set {
    int pid, stop_fd;
    perf__kind kinds[PERF_SPECS_MAX + 1]; /* one more: maps and tasks only */
    uint32_t n_kinds;
    perf__event *events;
    uint32_t n_events, cap_events;
    perf__ring *rings; /* one a CPU */
    uint32_t n_rings;
    map64 by_id;   /* the kernel's id of an event: index of its kind */
    map64 threads; /* that have their events */
    perf_stats stats;
    int64_t last_time;
    bool ran;
};

/* For perf_decode; arg is the set. */
const perf_layout *perf__layout_of(void *arg, uint64_t id);

#endif
