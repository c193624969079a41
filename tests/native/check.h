/* SPDX-License-Identifier: MIT */
/* check.h: cmocka with its includes, and what our native tests share: strings against slices, and one run for each
 * allocation that fails. */
#ifndef LUNETTE_TESTS_CHECK_H
#define LUNETTE_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

/* Fails with both texts when they differ. */
static inline void check_slice(slice got, slice want, const char *file, int line)
{
    if (slice_eq(got, want)) return;
    print_error("got  %zu bytes: %.*s\nwant %zu bytes: %.*s\n", got.n, (int)got.n, (const char *)got.p, want.n,
                (int)want.n, (const char *)want.p);
    _fail(file, line);
}
#define assert_slice(got, want)  check_slice((got), (want), __FILE__, __LINE__)
#define assert_slice_str(got, s) check_slice((got), slice_str(s), __FILE__, __LINE__)
/* A string literal that may hold NUL bytes. */
#define assert_slice_lit(got, lit) check_slice((got), SLICE_LIT(lit), __FILE__, __LINE__)

/* Runs `run(arg)` again and again with the first, second, … allocation failing, until none failed. run returns 0 when
 * all went well and -ERR_NO_MEMORY when memory was out; leaks are the sanitizer's to find. Returns how many allocations
 * were made to fail. */
static inline long each_allocation_fails(int (*run)(void *arg), void *arg)
{
    for (long n = 0;; n++) {
        mem_fail_at(n);
        int rc = run(arg);
        bool fired = mem_failed();
        mem_fail_at(-1);
        assert_int_equal(rc, fired ? -ERR_NO_MEMORY : 0);
        if (!fired) return n;
    }
}

#endif
