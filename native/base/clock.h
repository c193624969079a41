/* SPDX-License-Identifier: MIT */
/* clock.h: time. Deadlines are absolute monotonic nanoseconds; DEADLINE_NEVER waits for ever. */
#ifndef LUNETTE_BASE_CLOCK_H
#define LUNETTE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define DEADLINE_NEVER INT64_MAX

static inline int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static inline int64_t mono_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
static inline int64_t wall_ns(void) { return clock_ns(CLOCK_REALTIME); }
static inline int64_t deadline_in_ms(int64_t ms) { return ms < 0 ? DEADLINE_NEVER : mono_ns() + ms * 1000000; }
/* Milliseconds until a deadline, rounded up, for poll(): -1 for never, 0 when past. */
static inline int deadline_poll_ms(int64_t deadline_ns)
{
    if (deadline_ns == DEADLINE_NEVER) return -1;
    int64_t left = deadline_ns - mono_ns();
    if (left <= 0) return 0;
    left = (left + 999999) / 1000000;
    return left > 1000000000 ? 1000000000 : (int)left;
}

#endif
