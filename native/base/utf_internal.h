/* SPDX-License-Identifier: MIT */
/* utf_internal.h: the one UTF-8 step that utf.c, err.c and both JSON sides share. Table 3-7 of the Unicode standard. */
#ifndef LUNETTE_BASE_UTF_INTERNAL_H
#define LUNETTE_BASE_UTF_INTERNAL_H

#include "base/bytes.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Bytes of the character at p (n > 0 bytes left), with *good set; for a bad sequence the bytes that one U+FFFD stands
 * for. */
static inline size_t utf8__step(const uint8_t *p, size_t n, bool *good)
{
    uint8_t b = p[0];
    *good = true;
    if (b < 0x80) return 1;
    uint8_t lo = 0x80, hi = 0xbf;
    size_t more;
    if (b >= 0xc2 && b <= 0xdf) {
        more = 1;
    } else if (b >= 0xe0 && b <= 0xef) {
        more = 2;
        if (b == 0xe0) lo = 0xa0;
        if (b == 0xed) hi = 0x9f;
    } else if (b >= 0xf0 && b <= 0xf4) {
        more = 3;
        if (b == 0xf0) lo = 0x90;
        if (b == 0xf4) hi = 0x8f;
    } else {
        *good = false;
        return 1;
    }
    for (size_t i = 1; i <= more; i++) {
        if (i >= n || p[i] < lo || p[i] > hi) {
            *good = false;
            return i;
        }
        lo = 0x80;
        hi = 0xbf;
    }
    return more + 1;
}

/* Length of the leading run of ASCII. */
static inline size_t utf8__ascii_run(const uint8_t *p, size_t n)
{
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, 8);
        if (w & 0x8080808080808080u) break;
    }
    while (i < n && p[i] < 0x80)
        i++;
    return i;
}

/* Code point -> UTF-8 (at most 4 bytes at to); surrogates are not expected here. */
static inline size_t utf8__encode(uint32_t cp, uint8_t *to)
{
    if (cp < 0x80) {
        to[0] = (uint8_t)cp;
        return 1;
    }
    if (cp < 0x800) {
        to[0] = (uint8_t)(0xc0 | cp >> 6);
        to[1] = (uint8_t)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        to[0] = (uint8_t)(0xe0 | cp >> 12);
        to[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
        to[2] = (uint8_t)(0x80 | (cp & 0x3f));
        return 3;
    }
    to[0] = (uint8_t)(0xf0 | cp >> 18);
    to[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
    to[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
    to[3] = (uint8_t)(0x80 | (cp & 0x3f));
    return 4;
}

/* Copies src into a NUL-terminated field of cap bytes as valid UTF-8, cut between characters; the bytes written. */
size_t utf8__copy_into(char *to, size_t cap, const char *src);

#endif
