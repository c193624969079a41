/* SPDX-License-Identifier: MIT */
/* hash_internal.h: the 64 x 64 -> 128 bit multiply that the hashes fold with, and the seed that keeps input from
 * choosing its slots. */
#ifndef LUNETTE_BASE_HASH_INTERNAL_H
#define LUNETTE_BASE_HASH_INTERNAL_H

#include <stdint.h>

static inline uint64_t hash__fold(uint64_t a, uint64_t b)
{
    unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* One random number a process. */
uint64_t hash__seed(void);

#endif
