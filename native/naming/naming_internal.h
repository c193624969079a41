/* SPDX-License-Identifier: MIT */
/* naming_internal.h: names that another JIT keeps in a file. */
#ifndef LUNETTE_NAMING_INTERNAL_H
#define LUNETTE_NAMING_INTERNAL_H

#include "base/mem.h"

typedef struct naming__jit naming__jit;
/* perf-PID.map below the process's own /tmp; NULL: none. */
naming__jit *naming__jit_open(int pid);
/* From text: lines "START SIZE NAME", numbers in hexadecimal. What is no such line is skipped. NULL: no memory. */
naming__jit *naming__jit_parse(slice text);
void naming__jit_free(naming__jit *j);
size_t naming__jit_count(const naming__jit *j);
bool naming__jit_find(const naming__jit *j, uint64_t ip, slice *name);

#endif
