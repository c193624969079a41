/* SPDX-License-Identifier: MIT */
/* text.c: UTF-16 to UTF-8 for payload strings, and GUIDs as text. */
#include "nettrace/nt_internal.h"

#include <stdio.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline uint64_t four_units(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Four ASCII units to four bytes. */
static inline void put_four(char *out, uint64_t x)
{
    x = (x | x >> 8) & 0x0000FFFF0000FFFF;
    uint32_t four = (uint32_t)(x | x >> 16);
    memcpy(out, &four, sizeof four);
}

#ifdef __SSE2__
static inline __m128i eight_units(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
static inline void put_eight(char *out, __m128i v) { _mm_storel_epi64((__m128i *)(void *)out, _mm_packus_epi16(v, v)); }

/* As ascii_only, for 8 units or more: whole eights, then the last eight once more, so that no length needs a loop of
 * its own. */
static inline bool ascii_eights(const uint8_t *in, size_t n, char *out)
{
    __m128i all = _mm_setzero_si128();
    for (size_t i = 0; i + 8 < n; i += 8) {
        __m128i v = eight_units(in + 2 * i);
        all = _mm_or_si128(all, v);
        put_eight(out + i, v);
    }
    __m128i v = eight_units(in + 2 * (n - 8));
    put_eight(out + n - 8, v);
    all = _mm_and_si128(_mm_or_si128(all, v), _mm_set1_epi16((short)0xFF80));
    return _mm_movemask_epi8(_mm_cmpeq_epi16(all, _mm_setzero_si128())) == 0xFFFF;
}
#else
static inline bool ascii_eights(const uint8_t *in, size_t n, char *out)
{
    uint64_t all = 0;
    for (size_t i = 0; i + 4 < n; i += 4) {
        all |= four_units(in + 2 * i);
        put_four(out + i, four_units(in + 2 * i));
    }
    all |= four_units(in + 2 * (n - 4));
    put_four(out + n - 4, four_units(in + 2 * (n - 4)));
    return (all & 0xFF80FF80FF80FF80) == 0;
}
#endif

/* Most strings of a trace are ASCII throughout: n bytes to out then. False: they are not, and out holds nothing of
 * worth. */
static inline bool ascii_only(const uint8_t *in, size_t n, char *out)
{
    if (n >= 8) return ascii_eights(in, n, out);
    if (n >= 4) {
        uint64_t head = four_units(in), tail = four_units(in + 2 * (n - 4));
        put_four(out, head);
        put_four(out + n - 4, tail);
        return ((head | tail) & 0xFF80FF80FF80FF80) == 0;
    }
    unsigned all = 0;
    for (size_t i = 0; i < n; i++) {
        all |= in[2 * i + 1] | (in[2 * i] & 0x80u);
        out[i] = (char)in[2 * i];
    }
    return all == 0;
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

static __attribute__((noinline)) size_t utf8_units(const uint8_t *in, size_t units, char *out, size_t cap)
{
    size_t n = 0;
    while (units) {
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
        size_t k = put_utf8(out + n, cap - n, c);
        if (!k) break;
        n += k;
        in += 2 * used;
        units -= used;
    }
    return n;
}

size_t nt_utf8(slice utf16, char *out, size_t cap)
{
    size_t units = utf16.n / 2;
    if (units <= cap && ascii_only(utf16.p, units, out)) return units;
    return utf8_units(utf16.p, units, out, cap);
}
