/* SPDX-License-Identifier: MIT */
/* bytes.h: outside bytes. A slice is borrowed text or bytes; a cursor reads a slice with bounds checked and remembers
 * its first failure, so that a parser reads straight down and asks once. Little-endian throughout (the formats we read
 * are). */
#ifndef LUNETTE_BASE_BYTES_H
#define LUNETTE_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct slice {
    const uint8_t *p; /* may be NULL only when n is 0 */
    size_t n;
} slice;

static inline slice slice_of(const void *p, size_t n) { return (slice){(const uint8_t *)p, n}; }
static inline slice slice_str(const char *s) { return (slice){(const uint8_t *)s, s ? strlen(s) : 0}; }
#define SLICE_LIT(s) ((slice){(const uint8_t *)("" s), sizeof(s) - 1})
static inline bool slice_eq(slice a, slice b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }
static inline bool slice_eq_str(slice a, const char *s) { return slice_eq(a, slice_str(s)); }
bool slice_starts(slice a, slice prefix);
bool slice_ends(slice a, slice suffix);
/* A heap copy with a terminating NUL, yours to free; NULL when memory is out. */
char *slice_dup(slice s);

typedef struct cursor {
    const uint8_t *p, *end;
    const uint8_t *start;
    int64_t base;    /* stream offset of start */
    int64_t fail_at; /* stream offset of the first failed read; -1 while all went well */
} cursor;

static inline cursor cursor_of(slice s, int64_t base)
{
    const uint8_t *p = s.p ? s.p : (const uint8_t *)""; /* arithmetic on NULL is undefined, even by 0 */
    return (cursor){p, p + s.n, p, base, -1};
}
static inline bool cursor_ok(const cursor *c) { return c->fail_at < 0; }
static inline size_t cursor_left(const cursor *c) { return (size_t)(c->end - c->p); }
static inline int64_t cursor_offset(const cursor *c)
{
    return c->fail_at >= 0 ? c->fail_at : c->base + (c->p - c->start);
}
/* Marks the cursor failed where it stands; every later read gives zeros. */
static inline void cursor_fail(cursor *c)
{
    if (c->fail_at < 0) c->fail_at = c->base + (c->p - c->start);
    c->p = c->end;
}

#define CURSOR_READ(name, type)                                                                                        \
    static inline type name(cursor *c)                                                                                 \
    {                                                                                                                  \
        type v = 0;                                                                                                    \
        if (__builtin_expect(cursor_left(c) < sizeof v, 0)) {                                                          \
            cursor_fail(c);                                                                                            \
            return 0;                                                                                                  \
        }                                                                                                              \
        memcpy(&v, c->p, sizeof v);                                                                                    \
        c->p += sizeof v;                                                                                              \
        return v;                                                                                                      \
    }
CURSOR_READ(cursor_u8, uint8_t)
CURSOR_READ(cursor_u16, uint16_t)
CURSOR_READ(cursor_u32, uint32_t)
CURSOR_READ(cursor_u64, uint64_t)
CURSOR_READ(cursor_i16, int16_t)
CURSOR_READ(cursor_i32, int32_t)
CURSOR_READ(cursor_i64, int64_t)
CURSOR_READ(cursor_f32, float)
CURSOR_READ(cursor_f64, double)
#undef CURSOR_READ

/* n bytes, borrowed; an empty slice and a failed cursor when fewer are left. */
static inline slice cursor_bytes(cursor *c, size_t n)
{
    if (cursor_left(c) < n) {
        cursor_fail(c);
        return (slice){0};
    }
    slice s = {c->p, n};
    c->p += n;
    return s;
}
static inline void cursor_skip(cursor *c, size_t n) { (void)cursor_bytes(c, n); }

/* Variable-length unsigned numbers, 7 bits a byte, low first; at most 5 / 10 bytes, else the cursor fails. */
uint32_t cursor_varu32(cursor *c);
uint64_t cursor_varu64(cursor *c);
/* UTF-16LE code units up to and with a NUL unit: the bytes without the NUL, borrowed, still UTF-16. Fails past
 * max_units or without a NUL. */
slice cursor_utf16z(cursor *c, size_t max_units);

#endif
