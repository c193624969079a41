/* SPDX-License-Identifier: MIT */
/* text.c: UTF-16 to UTF-8 for payload strings, and GUIDs as text. */
#include "nettrace/nt_internal.h"

#include <stdio.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Copies ASCII as long as it goes; returns how many units. Most strings of a trace are nothing else. */
static inline size_t copy_ascii(const uint8_t *in, size_t units, char *out, size_t cap)
{
    size_t n = units < cap ? units : cap, i = 0;
#ifdef __SSE2__
    const __m128i high = _mm_set1_epi16((short)0xFF80);
    for (; i + 8 <= n; i += 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(in + 2 * i));
        if (_mm_movemask_epi8(_mm_cmpeq_epi16(_mm_and_si128(v, high), _mm_setzero_si128())) != 0xFFFF) break;
        _mm_storel_epi64((__m128i *)(void *)(out + i), _mm_packus_epi16(v, v));
    }
#endif
    for (; i < n && in[2 * i + 1] == 0 && in[2 * i] < 0x80; i++)
        out[i] = (char)in[2 * i];
    return i;
}

static size_t put_utf8(char *out, size_t room, uint32_t c)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (n > room) return 0;
    static const uint8_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[n] | c);
    return n;
}

static inline uint32_t unit_at(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

size_t nt_utf8(slice utf16, char *out, size_t cap)
{
    const uint8_t *in = utf16.p;
    size_t units = utf16.n / 2, n = 0;
    while (units) {
        size_t k = copy_ascii(in, units, out + n, cap - n);
        n += k;
        in += 2 * k;
        units -= k;
        if (!units || n == cap) break;
        uint32_t c = unit_at(in);
        size_t used = 1;
        if (c >= 0xD800 && c < 0xE000) {
            uint32_t low = units > 1 ? unit_at(in + 2) : 0;
            if (c < 0xDC00 && low >= 0xDC00 && low < 0xE000) {
                c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
                used = 2;
            } else {
                c = 0xFFFD;
            }
        }
        k = put_utf8(out + n, cap - n, c);
        if (!k) break;
        n += k;
        in += 2 * used;
        units -= used;
    }
    return n;
}

void nt_guid_text(const uint8_t *g, char out[37])
{
    snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", g[3], g[2], g[1], g[0],
             g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
}
