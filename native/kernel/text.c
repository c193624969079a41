/* SPDX-License-Identifier: MIT */
/* text.c: words, lines and numbers of the kernel's text files. */
#include <stdarg.h>
#include <stdio.h>

#include "kernel/kn_internal.h"

bool kn__line(slice *rest, slice *line)
{
    if (rest->n == 0) return false;
    const uint8_t *nl = memchr(rest->p, '\n', rest->n);
    size_t n = nl ? (size_t)(nl - rest->p) : rest->n;
    *line = slice_of(rest->p, n);
    size_t used = nl ? n + 1 : n;
    *rest = slice_of(rest->p + used, rest->n - used);
    return true;
}

static bool blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\r'; }

slice kn__word(slice *rest)
{
    size_t i = 0;
    while (i < rest->n && blank(rest->p[i]))
        i++;
    size_t from = i;
    while (i < rest->n && !blank(rest->p[i]) && rest->p[i] != '\n')
        i++;
    slice w = slice_of(rest->p + from, i - from);
    *rest = slice_of(rest->p + i, rest->n - i);
    return w;
}

bool kn__u64(slice s, uint64_t *out)
{
    uint64_t v = 0;
    if (s.n == 0) return false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned d = (unsigned)s.p[i] - '0';
        if (d > 9 || __builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, (uint64_t)d, &v))
            return false;
    }
    *out = v;
    return true;
}

bool kn__i64(slice s, int64_t *out)
{
    bool minus = s.n > 0 && s.p[0] == '-';
    uint64_t v;
    if (minus) s = slice_of(s.p + 1, s.n - 1);
    if (!kn__u64(s, &v) || v > INT64_MAX) return false;
    *out = minus ? -(int64_t)v : (int64_t)v;
    return true;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool kn__hex(slice s, uint64_t *out)
{
    uint64_t v = 0;
    if (s.n == 0 || s.n > 16) return false;
    for (size_t i = 0; i < s.n; i++) {
        int d = hex_digit(s.p[i]);
        if (d < 0) return false;
        v = v << 4 | (uint64_t)d;
    }
    *out = v;
    return true;
}

slice kn__trim(slice s)
{
    while (s.n && (blank(s.p[0]) || s.p[0] == '\n'))
        s = slice_of(s.p + 1, s.n - 1);
    while (s.n && (blank(s.p[s.n - 1]) || s.p[s.n - 1] == '\n'))
        s.n--;
    return s;
}

bool kn__copy(slice s, char *out, size_t size)
{
    size_t n = s.n < size ? s.n : size - 1;
    if (n) memcpy(out, s.p, n);
    out[n] = 0;
    return n == s.n;
}

bool kn__has(slice s, const char *needle) { return s.n && memmem(s.p, s.n, needle, strlen(needle)) != NULL; }

bool kn_next_z(slice *rest, slice *item)
{
    if (rest->n == 0) return false;
    const uint8_t *nul = memchr(rest->p, 0, rest->n);
    size_t n = nul ? (size_t)(nul - rest->p) : rest->n;
    *item = slice_of(rest->p, n);
    size_t used = nul ? n + 1 : n;
    *rest = slice_of(rest->p + used, rest->n - used);
    return true;
}

void kn_note(kn_notes *notes, const char *fmt, ...)
{
    if (notes->n >= KN_NOTES_MAX) {
        notes->dropped++;
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(notes->text[notes->n++], KN_NOTE_LEN, fmt, ap);
    va_end(ap);
}
