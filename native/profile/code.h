/* SPDX-License-Identifier: MIT */
/* code.h: where methods of the JIT begin, for whoever takes stacks apart while they come in: asked of a builder's map
 * of methods, remembered, and so seldom that a large map which goes on growing costs a part of the time only. */
#ifndef LUNETTE_PROFILE_CODE_H
#define LUNETTE_PROFILE_CODE_H

#include "base/mem.h"
#include "profile/profile.h"

/* Of one thread. The storage is the caller's. */
typedef struct profile_code {
    profile_builder *builder; /* borrowed; NULL: no method is known */
    map64 starts, unknown;    /* by address */
    int64_t look_at;          /* not before: the map was costly to ask */
    int64_t forget_at;        /* when addresses that were not known are asked for again */
} profile_code;

/* arg is a profile_code: true, and where the method at ip begins. Fits uw_space_code. */
bool profile_code_at(void *arg, uint64_t ip, uint64_t *start);
void profile_code_fini(profile_code *c);

#endif
