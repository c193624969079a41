/* SPDX-License-Identifier: MIT */
/* spans.h: from the scheduler's switches to blocked time: where threads left the processor, for how long, in which
 * state and system call, and who woke them. Fed in the order of time, one event after the other; keeps sums only, so a
 * million switches take the room of the different places at which they happened. Knows nothing of perf: stacks, system
 * calls and wakers are numbers of whoever feeds it. */
#ifndef LUNETTE_OFFCPU_SPANS_H
#define LUNETTE_OFFCPU_SPANS_H

#include "base/mem.h"

#define OC_THREADS_MAX 65536u
#define OC_PLACES_MAX  (1u << 18) /* different (thread, stack, call, state) */
#define OC_WAKES_MAX   (1u << 17) /* different (stack, waker) */
#define OC_WAKERS_MAX  16384u

/* What a thread was when it left the processor, as the kernel's sched_switch has it in prev_state. */
typedef enum oc_state {
    OC_RUNNABLE, /* R: it wanted to go on and was made to wait: no blocking */
    OC_SLEEP,    /* S: interruptible */
    OC_DISK,     /* D: uninterruptible: disk, page faults, memory maps */
    OC_IDLE,     /* I: a kernel thread without work */
    OC_STOPPED,  /* T: by a signal */
    OC_TRACED,   /* t: by a debugger */
    OC_PARKED,   /* P */
    OC_DEAD,     /* X, Z: it ended */
    OC_STATES
} oc_state;
/* prev_state of sched_switch (Linux 4.14 and later: TASK_REPORT bits, TASK_REPORT_MAX for preemption). */
oc_state oc_state_of(int64_t prev_state);
char oc_state_letter(oc_state s);

/* What is known of native synchronisation in a span. */
typedef enum oc_sync {
    OC_SYNC_NONE,
    OC_SYNC_LOCK, /* FUTEX_WAIT or FUTEX_LOCK_PI: what mutexes wait with */
    OC_SYNC_WAIT, /* FUTEX_WAIT_BITSET and others: condition variables, semaphores, joins */
} oc_sync;

typedef struct oc_place { /* where a thread left the processor */
    uint32_t stack;       /* 0: not known */
    uint16_t call;        /* 0: none */
    uint8_t state, sync;
} oc_place;

typedef enum oc_waker_kind { OC_WAKER_THREAD, OC_WAKER_OTHER, OC_WAKER_INTERRUPT } oc_waker_kind;
typedef struct oc_waker {
    oc_waker_kind kind; /* a thread of the target, one of another process, or an interrupt (a timer, a device) */
    int tid;            /* 0 for an interrupt */
    char comm[16];
} oc_waker;

typedef struct oc_sum {
    int64_t ns;          /* of all spans, closed and censored */
    uint64_t n;          /* all spans */
    int64_t censored_ns; /* of those that an end of the window cut off, the first or the last: lower bounds */
    uint64_t censored;
    int64_t delay_ns; /* of the spans whose wake-up was seen: from it to the processor */
    int64_t longest_ns;
} oc_sum;

typedef struct oc_row { /* one place of one thread */
    uint32_t thread;    /* index */
    oc_place at;
    oc_sum sum;
} oc_row;

typedef struct oc_wake { /* who ended the spans of one stack */
    uint32_t stack, waker;
    int64_t ns;
    uint64_t n;
} oc_wake;

typedef struct oc_thread {
    int tid;
    char comm[16];
    uint64_t switches; /* all, preemptions too */
    uint64_t preempted;
    int64_t preempted_ns; /* off the processor although it could have run */
    int64_t off_ns;
    uint64_t spans;
    bool ended, came; /* came: it took a processor within the window */
} oc_thread;

typedef struct oc_totals {
    uint64_t switches, preempted, spans, censored;
    uint64_t before;  /* of the censored: those that began before the window and ended in it */
    uint64_t unwoken; /* spans that ended in the window, whose wake-up was not seen */
    int64_t off_ns, censored_ns, preempted_ns, delay_ns;
    uint64_t unpaired; /* threads that came back and were not seen to leave: before the window, or lost */
    uint64_t threads_dropped, places_dropped, wakes_dropped; /* events that found no room in their table */
} oc_totals;

typedef struct oc oc;
oc *oc_new(void); /* NULL: no memory */
void oc_free(oc *o);

/* A thread leaves the processor. */
void oc_out(oc *o, int tid, int64_t time, oc_place at);
/* It waits already when the window begins, at since: a span that is censored however it ends. Where it waits was looked
 * at at read_at: a span that ends before that has no place. Once a thread, before what happens to it. */
void oc_stand(oc *o, int tid, int64_t since, int64_t read_at, oc_place at);
/* Whether it left or took a processor. */
bool oc_seen(const oc *o, int tid);
/* Whether a span of oc_stand is open, with a stack. */
bool oc_stands(const oc *o, int tid);
/* It comes back. */
void oc_in(oc *o, int tid, int64_t time);
/* Somebody makes it runnable. *w is copied; the first within a span counts. */
void oc_waking(oc *o, int tid, int64_t time, const oc_waker *w);
void oc_name(oc *o, int tid, slice comm);
/* The thread has ended; a number may be used again by another. */
void oc_exit(oc *o, int tid);
/* The end of the window: open spans are cut off and censored. Nothing more may be fed. */
void oc_end(oc *o, int64_t time);

/* ---- what came of it: borrowed until oc_free, in no order ---- */
const oc_totals *oc_totals_of(const oc *o);
const oc_thread *oc_threads(const oc *o, size_t *n);
const oc_row *oc_rows(const oc *o, size_t *n);
const oc_wake *oc_wakes(const oc *o, size_t *n);
const oc_waker *oc_wakers(const oc *o, size_t *n);

#endif
