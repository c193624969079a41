/* SPDX-License-Identifier: MIT */
/* fixtures.h: the fixture roots of tests/data/proc, made afresh for a test program. */
#ifndef LUNETTE_TESTS_KERNEL_FIXTURES_H
#define LUNETTE_TESTS_KERNEL_FIXTURES_H

#include "check.h"
#include "kernel/kernel.h"

extern char fixture_base[64];
/* Group setup and teardown: make and remove the roots. */
int fixtures_make(void **state);
int fixtures_remove(void **state);
/* The path of one root, such as "v2"; a static buffer. */
const char *fixture(const char *name);

#endif
