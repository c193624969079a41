/* SPDX-License-Identifier: MIT */
/* dac_guard.c: the runtime's library does not check what it follows. In a process that runs, or in a broken dump, it
 * meets pointers that lead nowhere, and chains that lead back: a call that faults, or that does not return, ends here
 * as one that failed. What the call held (memory, its own recursive lock, which this thread may take again) stays so:
 * only workers call it, and they end soon. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "memory/dac_internal.h"

#define FALLS_MAX     64u /* then a fault is our end: something is very wrong */
#define WATCH_EVERY_S 1
#define STUCK_ROUNDS  5  /* of a live target a call takes milliseconds */
#define STUCK_OF_DUMP 10 /* its file may come from a slow disk */
#define STUCK_SIGNAL  SIGUSR2

#define DEPTH_MAX 4u /* a call, one of a callback of ours in it, and some to spare */

static _Thread_local sigjmp_buf back[DEPTH_MAX];
static _Thread_local volatile sig_atomic_t depth;

/* What the watcher sees: the thread in a call, and a number that each call changes. */
static _Atomic(pthread_t) caller;
static atomic_uint_fast64_t calls; /* odd: in a call */
static atomic_uint_fast64_t stuck; /* the call that the watcher gave up */
static atomic_uint falls;
static atomic_int stuck_rounds;

sigjmp_buf *dac__enter(void)
{
    if (depth == DEPTH_MAX) abort();
    if (depth == 0) {
        atomic_store(&caller, pthread_self());
        atomic_fetch_add(&calls, 1);
    }
    depth = depth + 1;
    return &back[depth - 1];
}

int32_t dac__leave(int32_t hr)
{
    depth = depth - 1;
    if (depth == 0) atomic_fetch_add(&calls, 1);
    return hr;
}

int32_t dac__fell(dac *d)
{
    d->falls++;
    return dac__leave(DAC_E_FELL);
}

bool dac__again(dac *d)
{
    if (d->hr != (uint32_t)DAC_E_FELL || !mem_is_live(d->t) || mem_stopped(d->t)) return false;
    dac_flush(d); /* what it read before may be what does not fit */
    return true;
}

unsigned dac_falls(const dac *d) { return d->falls; }

static void on_signal(int sig)
{
    bool ours = depth > 0 && (sig != STUCK_SIGNAL || atomic_load(&stuck) == atomic_load(&calls));
    if (ours && atomic_fetch_add(&falls, 1) < FALLS_MAX) siglongjmp(back[depth - 1], 1);
    if (sig == STUCK_SIGNAL) return;
    signal(sig, SIG_DFL);
    raise(sig);
}

static void *watch(void *arg)
{
    (void)arg;
    uint_fast64_t last = 0;
    for (int rounds = 0;;) {
        nanosleep(&(struct timespec){.tv_sec = WATCH_EVERY_S}, NULL);
        uint_fast64_t now = atomic_load(&calls);
        rounds = now == last && now % 2 == 1 ? rounds + 1 : 0;
        last = now;
        if (rounds < atomic_load(&stuck_rounds)) continue;
        atomic_store(&stuck, now);
        pthread_kill(atomic_load(&caller), STUCK_SIGNAL);
        rounds = 0;
    }
    return NULL;
}

void dac__guard(const dac *d)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, STUCK_SIGNAL};
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &sa, NULL);
    static atomic_bool watched;
    pthread_t watcher;
    atomic_store(&stuck_rounds, mem_is_live(d->t) ? STUCK_ROUNDS : STUCK_OF_DUMP);
    if (atomic_exchange(&watched, true)) return;
    if (pthread_create(&watcher, NULL, watch, NULL) == 0) pthread_detach(watcher);
}
