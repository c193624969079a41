/* SPDX-License-Identifier: MIT */
/* bytes.c: the parts of slices and cursors that are too long to be inline. */
#include "base/bytes.h"

#include "base/mem.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

bool slice_starts(slice a, slice prefix) { return a.n >= prefix.n && slice_eq(slice_of(a.p, prefix.n), prefix); }

bool slice_ends(slice a, slice suffix)
{
    return suffix.n == 0 || (a.n >= suffix.n && slice_eq(slice_of(a.p + (a.n - suffix.n), suffix.n), suffix));
}

char *slice_dup(slice s)
{
    if (s.n == SIZE_MAX) return NULL;
    char *copy = mem_alloc(s.n + 1);
    if (!copy) return NULL;
    if (s.n) memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    return copy;
}

/* The cursor moves only when the whole number was good, so that a failure names where the number began. */
static uint64_t read_varint(cursor *c, unsigned max_bytes, uint8_t last_max)
{
    uint64_t v = 0;
    size_t left = cursor_left(c);
    for (unsigned i = 0; i < max_bytes && i < left; i++) {
        uint8_t b = c->p[i];
        if (i == max_bytes - 1 && b > last_max) break;
        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if (!(b & 0x80)) {
            c->p += i + 1;
            return v;
        }
    }
    cursor_fail(c);
    return 0;
}

uint32_t cursor_varu32(cursor *c)
{
    if (__builtin_expect(c->p < c->end && *c->p < 0x80, 1)) return *c->p++;
    return (uint32_t)read_varint(c, 5, 0x0f);
}

uint64_t cursor_varu64(cursor *c)
{
    if (__builtin_expect(c->p < c->end && *c->p < 0x80, 1)) return *c->p++;
    return read_varint(c, 10, 0x01);
}

/* The index of the first zero unit among n, or n. */
static size_t find_zero_unit(const uint8_t *p, size_t n)
{
    size_t i = 0;
#ifdef __SSE2__
    const __m128i zero = _mm_setzero_si128();
    for (; n - i >= 8; i += 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + 2 * i));
        int hit = _mm_movemask_epi8(_mm_cmpeq_epi16(v, zero));
        if (hit) return i + (size_t)__builtin_ctz((unsigned)hit) / 2;
    }
#endif
    while (i < n && (p[2 * i] | p[2 * i + 1]))
        i++;
    return i;
}

slice cursor_utf16z(cursor *c, size_t max_units)
{
    size_t units = cursor_left(c) / 2;
    bool capped = units > max_units;
    if (capped) units = max_units + 1; /* the NUL may stand right behind the cap */
    size_t n = find_zero_unit(c->p, units);
    if (n == units) {
        cursor_fail(c);
        return (slice){0};
    }
    slice s = {c->p, 2 * n};
    c->p += 2 * n + 2;
    return s;
}
