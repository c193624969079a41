/* SPDX-License-Identifier: MIT */
/* perf_internal.h: what the files of perf.h share: attributes, rings, records. */
#ifndef LUNETTE_KERNEL_PERF_INTERNAL_H
#define LUNETTE_KERNEL_PERF_INTERNAL_H

#include <linux/perf_event.h>

#include "kernel/perf.h"

/* Every event has these, so that the time of any record lies at a known place: of a sample behind id, ip, pid and tid;
 * of all others in the last 32 bytes (pid and tid, time, CPU, id). */
#define PERF__COMMON     (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)
#define PERF__TRAILER    32u
#define PERF__RECORD_MAX 65536u
#define PERF__RING_PARTS 4u /* the reader is woken when so great a part of a ring has been filled */

/* The registers that a sample brings: those that uw_regs has. */
extern const uint64_t perf__user_regs;
/* The place in uw_regs of the kernel's register number; -1: none. */
int perf__reg_of(unsigned kernel_number);

/* What the kernel is asked for. tasks: also maps, names, forks and exits. */
void perf__attr(const perf_spec *s, bool tasks, size_t ring_bytes, struct perf_event_attr *out);
/* A descriptor, or -errno. What a kernel refuses without being needed is left out in *a for good. */
int perf__open(struct perf_event_attr *a, int tid, int cpu);
/* The time of a record, without reading it. 0: it has none. */
int64_t perf__time_of(slice record);

/* ---- a ring ---- */

typedef struct perf__ring {
    int fd; /* whose ring it is; owned by the set */
    int cpu;
    void *base; /* NULL: none */
    size_t bytes, page;
    uint64_t at, head; /* what is read next, and up to where there was something when last looked */
    uint8_t *scratch;  /* of a record that goes round the end */
    slice next;        /* the next record; n 0: none */
    int64_t next_time;
} perf__ring;

/* Maps a ring, halved while the kernel refuses. 0 or -errno. */
int perf__ring_map(perf__ring *r, int fd, int cpu, size_t bytes);
void perf__ring_unmap(perf__ring *r);
/* Looks how far the kernel has written. */
void perf__ring_look(perf__ring *r);
/* Fills next with what lies at `at`; false: nothing is there. Damage: everything up to the head is given up, *damaged
 * grows. */
bool perf__ring_peek(perf__ring *r, uint64_t *damaged);
/* Goes behind next. */
void perf__ring_pass(perf__ring *r);
/* Tells the kernel what has been read. */
void perf__ring_free(perf__ring *r);

#endif
