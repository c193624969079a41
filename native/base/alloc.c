/* SPDX-License-Identifier: MIT */
/* alloc.c: malloc with a fault counter, so that a test can make each allocation fail once. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Allocations still to let through before one fails; negative: no fault is armed. */
static atomic_long fail_in = -1;
static atomic_bool fired;

/* True when this allocation is the one to fail. One relaxed load in the ordinary run. */
static bool fault_now(void)
{
    if (__builtin_expect(atomic_load_explicit(&fail_in, memory_order_relaxed) < 0, 1)) return false;
    if (atomic_fetch_sub(&fail_in, 1) != 0) return false;
    atomic_store(&fired, true);
    return true;
}

void *mem_alloc(size_t n) { return fault_now() ? NULL : malloc(n ? n : 1); }

void *mem_calloc(size_t n, size_t sz) { return fault_now() ? NULL : calloc(n ? n : 1, sz ? sz : 1); }

void *mem_realloc(void *p, size_t n) { return fault_now() ? NULL : realloc(p, n ? n : 1); }

void mem_fail_at(long n)
{
    atomic_store(&fired, false);
    atomic_store(&fail_in, n < 0 ? -1 : n);
}

bool mem_failed(void) { return atomic_load(&fired); }
