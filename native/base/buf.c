/* SPDX-License-Identifier: MIT */
/* buf.c: the growable byte buffer. It doubles; after a failed append nothing more goes in until buf_reset. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BUF_FIRST ((size_t)64)

void buf_init(buf *b, size_t max_bytes) { *b = (buf){.max = max_bytes}; }

void buf_fini(buf *b)
{
    free(b->p);
    b->p = NULL;
    b->n = b->cap = 0;
    b->failed = false;
}

static bool grow(buf *b, size_t need)
{
    size_t max = b->max ? b->max : BUF_MAX_DEFAULT;
    if (need > max) return false;
    size_t cap = b->cap ? b->cap : BUF_FIRST;
    while (cap < need)
        cap *= 2;
    if (cap > max) cap = max;
    uint8_t *p = mem_realloc(b->p, cap);
    if (!p) return false;
    b->p = p;
    b->cap = cap;
    return true;
}

uint8_t *buf_reserve(buf *b, size_t n)
{
    if (__builtin_expect(b->failed, 0)) return NULL;
    if (__builtin_expect(b->cap - b->n < n || !b->p, 0)) {
        if (n > SIZE_MAX - b->n || !grow(b, b->n + n)) {
            b->failed = true;
            return NULL;
        }
    }
    return b->p + b->n;
}

bool buf_put(buf *b, const void *p, size_t n)
{
    if (n == 0) return !b->failed;
    uint8_t *to = buf_reserve(b, n);
    if (!to) return false;
    memcpy(to, p, n);
    b->n += n;
    return true;
}

bool buf_u8(buf *b, uint8_t v) { return buf_put(b, &v, sizeof v); }

bool buf_u16(buf *b, uint16_t v)
{
    uint8_t le[2] = {(uint8_t)v, (uint8_t)(v >> 8)};
    return buf_put(b, le, sizeof le);
}

bool buf_u32(buf *b, uint32_t v)
{
    uint8_t le[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    return buf_put(b, le, sizeof le);
}

bool buf_u64(buf *b, uint64_t v) { return buf_u32(b, (uint32_t)v) && buf_u32(b, (uint32_t)(v >> 32)); }

bool buf_printf(buf *b, const char *fmt, ...)
{
    char small[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->failed = true;
        return false;
    }
    if ((size_t)n < sizeof small) return buf_put(b, small, (size_t)n);
    /* vsnprintf also writes a NUL, which the buffer need not have room for: print to the side. */
    char *big = mem_alloc((size_t)n + 1);
    if (!big) {
        b->failed = true;
        return false;
    }
    va_start(ap, fmt);
    (void)vsnprintf(big, (size_t)n + 1, fmt, ap);
    va_end(ap);
    bool ok = buf_put(b, big, (size_t)n);
    free(big);
    return ok;
}

void buf_consume(buf *b, size_t n)
{
    if (n >= b->n) {
        b->n = 0;
        return;
    }
    if (n == 0) return;
    b->n -= n;
    memmove(b->p, b->p + n, b->n);
}
