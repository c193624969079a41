/* SPDX-License-Identifier: MIT */
/* utf.c: UTF-16LE and UTF-8. Names and strings of .NET are nearly always ASCII in UTF-16, so that road is the fast one.
 */
#include "base/utf.h"

#include "base/utf_internal.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Above this many units the output is measured first, not reserved at three bytes a unit. */
#define MEASURE_ABOVE 4096

static inline uint32_t unit_at(const uint8_t *p, size_t i) { return (uint32_t)p[2 * i] | (uint32_t)p[2 * i + 1] << 8; }

/* The code point at unit i of n; *used is 1 or 2. A lone surrogate gives U+FFFD. */
static inline uint32_t code_point(const uint8_t *p, size_t i, size_t n, size_t *used)
{
    uint32_t u = unit_at(p, i);
    *used = 1;
    if (u < 0xd800 || u > 0xdfff) return u;
    if (u < 0xdc00 && i + 1 < n) {
        uint32_t low = unit_at(p, i + 1);
        if (low >= 0xdc00 && low <= 0xdfff) {
            *used = 2;
            return 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return 0xfffd;
}

static size_t utf8_length(const uint8_t *p, size_t units)
{
    size_t n = 0, used;
    for (size_t i = 0; i < units; i += used) {
        uint32_t cp = code_point(p, i, units, &used);
        n += cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    }
    return n;
}

/* Copies leading ASCII units as bytes; how many. */
static size_t narrow_ascii(const uint8_t *p, size_t units, uint8_t *to)
{
    size_t i = 0;
#ifdef __SSE2__
    const __m128i high = _mm_set1_epi16((short)0xff80);
    const __m128i zero = _mm_setzero_si128();
    for (; units - i >= 8; i += 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + 2 * i));
        if (_mm_movemask_epi8(_mm_cmpeq_epi16(_mm_and_si128(v, high), zero)) != 0xffff) break;
        _mm_storel_epi64((__m128i *)(void *)(to + i), _mm_packus_epi16(v, v));
    }
#endif
    for (; i < units; i++) {
        if (p[2 * i + 1] || p[2 * i] >= 0x80) break;
        to[i] = p[2 * i];
    }
    return i;
}

/* Writes at most 3 bytes a unit; the caller made room. */
static size_t transcode(const uint8_t *p, size_t units, uint8_t *to)
{
    size_t n = 0, i = 0;
    while (i < units) {
        size_t run = narrow_ascii(p + 2 * i, units - i, to + n);
        n += run;
        i += run;
        while (i < units && unit_at(p, i) >= 0x80) {
            size_t used;
            n += utf8__encode(code_point(p, i, units, &used), to + n);
            i += used;
        }
    }
    return n;
}

bool utf16le_to_utf8(slice utf16, buf *out)
{
    size_t units = utf16.n / 2;
    if (units == 0) return !out->failed;
    size_t max = out->max ? out->max : BUF_MAX_DEFAULT;
    size_t need = units > MEASURE_ABOVE || units * 3 > max - out->n ? utf8_length(utf16.p, units) : units * 3;
    uint8_t *to = buf_reserve(out, need);
    if (!to) return false;
    out->n += transcode(utf16.p, units, to);
    return true;
}

/* The code point of a sequence that utf8__step called good. */
static uint32_t decode(const uint8_t *p, size_t len)
{
    switch (len) {
    case 1: return p[0];
    case 2: return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    case 3: return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    default:
        return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 |
               (p[3] & 0x3f);
    }
}

bool utf8_to_utf16le(slice utf8, buf *out)
{
    for (size_t i = 0; i < utf8.n;) {
        bool good;
        size_t len = utf8__step(utf8.p + i, utf8.n - i, &good);
        uint32_t cp = good ? decode(utf8.p + i, len) : 0xfffd;
        i += len;
        bool ok;
        if (cp < 0x10000) {
            ok = buf_u16(out, (uint16_t)cp);
        } else {
            uint32_t high = 0xd800 + ((cp - 0x10000) >> 10), low = 0xdc00 + ((cp - 0x10000) & 0x3ff);
            ok = buf_u32(out, low << 16 | high);
        }
        if (!ok) return false;
    }
    return !out->failed;
}

bool utf8_valid(slice s)
{
    for (size_t i = 0; i < s.n;) {
        i += utf8__ascii_run(s.p + i, s.n - i);
        if (i == s.n) break;
        bool good;
        i += utf8__step(s.p + i, s.n - i, &good);
        if (!good) return false;
    }
    return true;
}

bool utf8_sanitize(slice s, buf *out)
{
    size_t start = 0; /* of the good run not yet copied */
    for (size_t i = 0; i < s.n;) {
        bool good;
        size_t len = utf8__step(s.p + i, s.n - i, &good);
        if (!good) {
            buf_put(out, s.p + start, i - start);
            buf_put(out, UTF8_REPLACEMENT, 3);
            start = i + len;
        }
        i += len;
    }
    if (start < s.n) buf_put(out, s.p + start, s.n - start);
    return !out->failed;
}

size_t utf8_cut(slice s, size_t max_bytes)
{
    if (s.n <= max_bytes) return s.n;
    size_t n = max_bytes;
    while (n > 0 && (s.p[n] & 0xc0) == 0x80)
        n--;
    return n;
}

size_t utf8__copy_into(char *to, size_t cap, const char *src)
{
    const uint8_t *p = (const uint8_t *)src;
    size_t left = strlen(src), n = 0;
    while (left > 0) {
        bool good;
        size_t len = utf8__step(p, left, &good), put = good ? len : 3;
        if (n + put >= cap) break;
        memcpy(to + n, good ? (const void *)p : UTF8_REPLACEMENT, put);
        n += put;
        p += len;
        left -= len;
    }
    to[n] = '\0';
    return n;
}
