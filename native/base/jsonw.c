/* SPDX-License-Identifier: MIT */
/* jsonw.c: the streaming JSON writer. One state byte a level says what may come next, so that misuse is caught, not
 * written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/utf_internal.h"

enum { AT_TOP, TOP_DONE, ARRAY_FIRST, ARRAY_MORE, OBJECT_FIRST, OBJECT_MORE, OBJECT_VALUE };

void jsonw_init(jsonw *w, buf *out) { *w = (jsonw){.out = out}; }

/* After each token: hand on what has piled up. */
static void settle(jsonw *w)
{
    if (w->out->failed) w->failed = true;
    if (w->failed || !w->flush || w->out->n < w->flush_at) return;
    if (w->flush(w->flush_arg, w->out) < 0) w->failed = true;
    buf_reset(w->out);
}

/* Writes the comma that is due before a value and moves the state past it; false where no value may stand. */
static bool value_due(jsonw *w)
{
    if (w->failed) return false;
    uint8_t *state = &w->state[w->depth];
    switch (*state) {
    case AT_TOP: *state = TOP_DONE; return true;
    case ARRAY_FIRST: *state = ARRAY_MORE; return true;
    case ARRAY_MORE: return buf_u8(w->out, ',');
    case OBJECT_VALUE: *state = OBJECT_MORE; return true;
    default: w->failed = true; return false;
    }
}

static void open_level(jsonw *w, uint8_t state, uint8_t mark)
{
    if (!value_due(w)) return;
    if (w->depth == JSON_DEPTH_MAX) {
        w->failed = true;
        return;
    }
    w->state[++w->depth] = state;
    buf_u8(w->out, mark);
    settle(w);
}

static void close_level(jsonw *w, uint8_t first, uint8_t more, uint8_t mark)
{
    if (w->failed) return;
    if (w->depth == 0 || (w->state[w->depth] != first && w->state[w->depth] != more)) {
        w->failed = true;
        return;
    }
    w->depth--;
    buf_u8(w->out, mark);
    settle(w);
}

void jsonw_object(jsonw *w) { open_level(w, OBJECT_FIRST, '{'); }
void jsonw_end_object(jsonw *w) { close_level(w, OBJECT_FIRST, OBJECT_MORE, '}'); }
void jsonw_array(jsonw *w) { open_level(w, ARRAY_FIRST, '['); }
void jsonw_end_array(jsonw *w) { close_level(w, ARRAY_FIRST, ARRAY_MORE, ']'); }

/* For bytes below 0x80: 0 as it is, 'u' as \u00xx, else the letter of the short escape. */
static const char escapes[128] = {
    [0 ... 7] = 'u', ['\b'] = 'b',      ['\t'] = 't', ['\n'] = 'n',  [0x0b] = 'u', ['\f'] = 'f',
    ['\r'] = 'r',    [14 ... 31] = 'u', ['"'] = '"',  ['\\'] = '\\', [0x7f] = 'u',
};

static void put_escape(buf *out, uint8_t b)
{
    char kind = escapes[b];
    if (kind == 'u') /* not by buf_printf: a long text may be nothing else */
        buf_put(out, (const char[6]){'\\', 'u', '0', '0', "0123456789abcdef"[b >> 4], "0123456789abcdef"[b & 15]}, 6);
    else
        buf_put(out, (const char[2]){'\\', kind}, 2);
}

/* U+2028 and U+2029 are legal JSON but end a line in older JavaScript and in some log readers. */
static bool is_line_separator(const uint8_t *p, size_t len)
{
    return len == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] & 0xfe) == 0xa8;
}

static void put_string(buf *out, slice s)
{
    size_t start = 0, i = 0; /* start: of the run that is copied as it is */
    buf_u8(out, '"');
    while (i < s.n) {
        uint8_t b = s.p[i];
        if (b < 0x80 && !escapes[b]) {
            i++;
            continue;
        }
        bool good = true;
        size_t len = utf8__step(s.p + i, s.n - i, &good);
        bool separator = is_line_separator(s.p + i, len);
        if (b >= 0x80 && good && !separator) {
            i += len;
            continue;
        }
        buf_put(out, s.p + start, i - start);
        if (b < 0x80)
            put_escape(out, b);
        else if (separator)
            buf_printf(out, "\\u20%02x", 0x28 + (s.p[i + 2] & 1));
        else
            buf_put(out, UTF8_REPLACEMENT, 3);
        i += len;
        start = i;
    }
    if (start < s.n) buf_put(out, s.p + start, s.n - start);
    buf_u8(out, '"');
}

void jsonw_key(jsonw *w, slice key)
{
    if (w->failed) return;
    uint8_t *state = &w->state[w->depth];
    if (*state != OBJECT_FIRST && *state != OBJECT_MORE) {
        w->failed = true;
        return;
    }
    if (*state == OBJECT_MORE) buf_u8(w->out, ',');
    *state = OBJECT_VALUE;
    put_string(w->out, key);
    buf_u8(w->out, ':');
    if (w->out->failed) w->failed = true;
}

void jsonw_key_lit(jsonw *w, const char *key) { jsonw_key(w, slice_str(key)); }

void jsonw_str(jsonw *w, slice s)
{
    if (!value_due(w)) return;
    put_string(w->out, s);
    settle(w);
}

void jsonw_cstr(jsonw *w, const char *s)
{
    if (s)
        jsonw_str(w, slice_str(s));
    else
        jsonw_null(w);
}

static void put_value(jsonw *w, const char *text, size_t n)
{
    if (!value_due(w)) return;
    buf_put(w->out, text, n);
    settle(w);
}

/* Digits of v, right-aligned before end; where they start. */
static char *digits(char *end, uint64_t v)
{
    do
        *--end = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    return end;
}

void jsonw_uint(jsonw *w, uint64_t v)
{
    char text[24], *end = text + sizeof text, *p = digits(end, v);
    put_value(w, p, (size_t)(end - p));
}

void jsonw_int(jsonw *w, int64_t v)
{
    char text[24], *end = text + sizeof text;
    char *p = digits(end, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
    if (v < 0) *--p = '-';
    put_value(w, p, (size_t)(end - p));
}

void jsonw_num(jsonw *w, double v)
{
    if (!isfinite(v)) {
        jsonw_null(w);
        return;
    }
    if (fabs(v) <= 9007199254740992.0 && v == (double)(int64_t)v) { /* 2^53: exact, and the common case */
        jsonw_int(w, (int64_t)v);
        return;
    }
    char text[40];
    int n = 0;
    for (int precision = 15; precision <= 17; precision++) {
        n = snprintf(text, sizeof text, "%.*g", precision, v);
        if (strtod(text, NULL) == v) break;
    }
    put_value(w, text, (size_t)n);
}

void jsonw_bool(jsonw *w, bool v) { put_value(w, v ? "true" : "false", v ? 4 : 5); }

void jsonw_null(jsonw *w) { put_value(w, "null", 4); }

void jsonw_raw(jsonw *w, slice json)
{
    if (json.n == 0) { /* nothing is no value */
        w->failed = true;
        return;
    }
    put_value(w, (const char *)json.p, json.n);
}

void jsonw_hex(jsonw *w, uint64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof text, "\"0x%llx\"", (unsigned long long)v);
    put_value(w, text, (size_t)n);
}

bool jsonw_done(const jsonw *w) { return !w->failed && !w->out->failed && w->depth == 0 && w->state[0] == TOP_DONE; }
