/* SPDX-License-Identifier: MIT */
/* uprobe.h: probes on functions of a process's native libraries: where a function lies, and how it is watched there.
 * Three ways, the first that works. A uprobe by the file uprobe_events of tracefs: one for all threads and CPUs;
 * up_close removes it, and what a process of ours left behind that was killed the next one removes. A uprobe by
 * perf_event_open alone, of which nothing can stay; but threads that start later cannot inherit it, the kernel makes
 * one of each event, so that a call is handled once a thread and CPU, and it takes its time to remove them: 80 of them
 * took 7.3 s to close (Linux 6.18), against 0.4 s of the first way. A hardware breakpoint, of which a processor has
 * four. Formats: man perf_event_open(2); Documentation/trace/uprobetracer.rst.
 *
 *     up_place places[8];
 *     up_find(pid, names, 3, places, &n, &e);
 *     up_probes *p;
 *     up_open(pid, places, n, NULL, &p, &e);
 *     for each place: up_spec(p, i, period)           then perf_open, perf_run, perf_close
 *     up_close(p);                                    after perf_close */
#ifndef LUNETTE_KERNEL_UPROBE_H
#define LUNETTE_KERNEL_UPROBE_H

#include "kernel/perf.h"

#define UP_PLACES_MAX    16u
#define UP_PATH_MAX      512
#define UP_GROUP         "lunette" /* of our events in tracefs: lunette_PID_START_NS, of who made them */
#define UP_LIBRARIES_MAX 64
/* Uprobes of perf_event_open that are made of themselves: each takes up to a tenth of a second to remove, during which
 * this process cannot even be killed. 3,080 of them (300 threads) took 290 s. */
#define UP_PERF_EVENTS_MAX 128

typedef struct up_place {
    uint32_t function;      /* index of its name */
    char path[UP_PATH_MAX]; /* the file, as this process can open it */
    char library[128];      /* its name */
    uint64_t offset;        /* in the file */
    uint64_t address;       /* in the process */
    bool at_return;         /* watched when it returns; not by breakpoints. up_find leaves it false */
} up_place;

/* Where the process has functions of these names: in the library that stands before the C library for all of them (an
 * allocator of its own), else in the C library. Of several names for one place the first is taken. out has room for n.
 * NotFound: none of them; ProcessNotFound, PermissionDenied. Not on the loop's thread. */
int up_find(int pid, const char *const *names, uint32_t n, up_place *out, uint32_t *found, err *e);

typedef enum up_way { UP_TRACEFS, UP_PERF, UP_BREAKPOINT } up_way;
const char *up_way_name(up_way w); /* "tracefs-uprobe", "perf-uprobe", "hardware-breakpoint" */

typedef struct up_probes up_probes;
/* Chooses the way and makes what it needs. only: the name of the one way to take; NULL: any. NotSupported or
 * PermissionDenied: none; the error is that of perf_event_open. */
int up_open(int pid, const up_place *places, uint32_t n, const char *only, up_probes **out, err *e);
up_way up_way_of(const up_probes *p);
/* Whether uprobes of perf_event_open were passed over, since they would be more than UP_PERF_EVENTS_MAX. */
bool up_crowded(const up_probes *p);
bool up_too_many(uint32_t places, uint64_t threads, uint64_t cpus);
/* How many of the places can be watched at once: all, but for breakpoints. */
uint32_t up_count(const up_probes *p);
/* What is to be opened for a place; borrowed things in it are good until up_close. */
perf_spec up_spec(const up_probes *p, uint32_t place, uint64_t period);
void up_close(up_probes *p); /* after the events are closed; NULL is fine */

/* Removes events of ours whose process is gone, of tracefs. How many. root: "" or a fixture, for tests. */
uint32_t up_sweep(const char *root);
/* Those that up_sweep would remove, as a line each that removes one when it is written to uprobe_events, appended to
 * told (NULL: they are counted only). How many. */
uint32_t up_stale(const char *root, buf *told);
typedef struct up_maker {
    int pid;            /* in its namespace of processes */
    uint64_t start, ns; /* ticks; the number of its namespace, 0: not told */
} up_maker;
/* Whether a line of uprobe_events is of ours and of a process that is gone; then its removal ("-:GROUP/NAME") in out.
 * alive: whether it lives or may live. For tests. */
bool up_is_stale(slice line, bool (*alive)(void *arg, const up_maker *m), void *arg, char *out, size_t size);

#endif
