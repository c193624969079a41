/* SPDX-License-Identifier: MIT */
/* wakees.h: whose wake-ups are told. Wake-ups by other processes and by interrupts come as events of the whole machine,
 * which the kernel filters by the thread that is woken; and it numbers that thread as the initial pid namespace does,
 * while everything else in a record is numbered as our own. */
#ifndef LUNETTE_OFFCPU_WAKEES_H
#define LUNETTE_OFFCPU_WAKEES_H

#include "base/mem.h"

#define OC_WAKEES_RANGES 96u /* of a filter, which is a page of text at most */

/* Threads that are in no filter yet. */
typedef struct oc_wakees {
    int *tids; /* own */
    size_t n, cap;
} oc_wakees;

/* false: no room. */
bool oc_wakees_add(oc_wakees *w, int tid);
/* A filter of sched_waking for these threads and for all that came after the thread `last` (negative: for none): to
 * out, NUL-terminated. Close numbers become a range, which may hold threads of others. w is sorted. false: no room, or
 * nobody to tell of. */
bool oc_wakees_filter(oc_wakees *w, int last, buf *out);
void oc_wakees_fini(oc_wakees *w);

/* The number that the kernel gave last, as our pid namespace has it; -1: not known. Source: proc(5), /proc/loadavg. */
int oc_last_tid(void);
/* Whether this process is in a pid namespace of its own, or it cannot be told: the kernel's numbers are not ours.
 * Source: linux/proc_ns.h, PROC_PID_INIT_INO. */
bool oc_is_nested(void);

#endif
