/* SPDX-License-Identifier: MIT */
/* jsonr.c: the strict pull reader for JSON from outside. One state byte a level, no recursion. */
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/utf_internal.h"

enum { WANT_TOP, TOP_DONE, ARRAY_FIRST, ARRAY_MORE, OBJECT_FIRST, OBJECT_MORE, OBJECT_VALUE, BROKEN };

void jsonr_init(jsonr *r, slice text)
{
    const uint8_t *p = text.p ? text.p : (const uint8_t *)"";
    *r = (jsonr){.start = p, .p = p, .end = p + text.n};
}

void jsonr_fini(jsonr *r) { buf_fini(&r->scratch); }

static json_tok fail_at(jsonr *r, const uint8_t *where, const char *what)
{
    err_at(&r->e, ERR_MALFORMED, where - r->start, "JSON: %s", what);
    r->state[r->depth] = BROKEN;
    return JSON_ERROR;
}

static json_tok fail_end(jsonr *r) { return fail_at(r, r->end, "the text ends too soon"); }

static json_tok fail_memory(jsonr *r)
{
    err_at(&r->e, ERR_NO_MEMORY, r->p - r->start, "JSON: no memory for a string");
    r->state[r->depth] = BROKEN;
    return JSON_ERROR;
}

static void skip_space(jsonr *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

/* ---- strings ------------------------------------------------------------------------------------------------------
 */

/* Four hex digits at p, or -1. */
static int32_t hex4(const uint8_t *p, const uint8_t *end)
{
    if (end - p < 4) return -1;
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i], lower = c | 0x20;
        if (c >= '0' && c <= '9')
            v = v << 4 | (c - '0');
        else if (lower >= 'a' && lower <= 'f')
            v = v << 4 | (lower - 'a' + 10);
        else
            return -1;
    }
    return v;
}

/* \uXXXX with p behind the u: appends the character, joining a surrogate pair; where to go on, or NULL. */
static const uint8_t *unicode_escape(jsonr *r, const uint8_t *p)
{
    int32_t u = hex4(p, r->end);
    if (u < 0) {
        fail_at(r, p, "\\u wants four hexadecimal digits");
        return NULL;
    }
    p += 4;
    uint32_t cp = (uint32_t)u;
    if (cp >= 0xd800 && cp <= 0xdfff) {
        int32_t low = cp < 0xdc00 && r->end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, r->end) : -1;
        if (low >= 0xdc00 && low <= 0xdfff) {
            cp = 0x10000 + ((cp - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
            p += 6;
        } else {
            cp = 0xfffd;
        }
    }
    uint8_t text[4];
    buf_put(&r->scratch, text, utf8__encode(cp, text));
    return p;
}

static const uint8_t *escape(jsonr *r, const uint8_t *p) /* p behind the backslash */
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (p == r->end) {
        fail_end(r);
        return NULL;
    }
    if (*p == 'u') return unicode_escape(r, p + 1);
    const char *at = *p ? strchr(from, *p) : NULL;
    if (!at) {
        fail_at(r, p, "unknown escape in a string");
        return NULL;
    }
    buf_u8(&r->scratch, (uint8_t)to[at - from]);
    return p + 1;
}

/* The end of the run of plain characters from p: a quote, a backslash, the end of the text; NULL on a fault. */
static const uint8_t *plain_run(jsonr *r, const uint8_t *p)
{
    while (p < r->end && *p != '"' && *p != '\\') {
        if (*p < 0x20) {
            fail_at(r, p, "control character in a string");
            return NULL;
        }
        bool good = true;
        size_t len = *p < 0x80 ? 1 : utf8__step(p, (size_t)(r->end - p), &good);
        if (!good) {
            fail_at(r, p, "invalid UTF-8 in a string");
            return NULL;
        }
        p += len;
    }
    if (p == r->end) {
        fail_end(r);
        return NULL;
    }
    return p;
}

/* A string with r->p behind its opening quote. Without escapes r->str is a view of the text, else of the scratch. */
static bool read_string(jsonr *r)
{
    const uint8_t *start = r->p, *p = plain_run(r, start);
    if (!p) return false;
    if (*p == '"') {
        r->str = slice_of(start, (size_t)(p - start));
        r->p = p + 1;
        return true;
    }
    buf_reset(&r->scratch);
    buf_put(&r->scratch, start, (size_t)(p - start));
    while (*p == '\\') {
        p = escape(r, p + 1);
        if (!p) return false;
        start = p;
        p = plain_run(r, p);
        if (!p) return false;
        buf_put(&r->scratch, start, (size_t)(p - start));
    }
    if (r->scratch.failed) {
        fail_memory(r);
        return false;
    }
    r->str = buf_view(&r->scratch);
    r->p = p + 1;
    return true;
}

/* ---- numbers and words --------------------------------------------------------------------------------------------
 */

static bool is_digit(const jsonr *r, const uint8_t *p) { return p < r->end && *p >= '0' && *p <= '9'; }

static const uint8_t *skip_digits(const jsonr *r, const uint8_t *p)
{
    while (is_digit(r, p))
        p++;
    return p;
}

static bool parse_int(const uint8_t *p, const uint8_t *end, int64_t *out)
{
    bool negative = *p == '-';
    int64_t v = 0; /* counts down: the negative side reaches one further */
    for (p += negative; p < end; p++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *p - '0', &v)) return false;
    }
    if (negative) {
        *out = v;
        return true;
    }
    return !__builtin_sub_overflow((int64_t)0, v, out);
}

/* strtod wants a NUL behind the number, which the text does not have. */
static json_tok to_double(jsonr *r, const uint8_t *end)
{
    char small[64];
    size_t n = (size_t)(end - r->p);
    const char *text = small;
    if (n < sizeof small) {
        memcpy(small, r->p, n);
        small[n] = '\0';
    } else {
        buf_reset(&r->scratch);
        buf_put(&r->scratch, r->p, n);
        if (!buf_u8(&r->scratch, 0)) return fail_memory(r);
        text = (const char *)r->scratch.p;
    }
    r->num = strtod(text, NULL);
    if (!isfinite(r->num)) return fail_at(r, r->p, "the number is too big for a double");
    r->p = end;
    return JSON_NUM;
}

static json_tok read_number(jsonr *r)
{
    const uint8_t *p = r->p + (*r->p == '-');
    if (!is_digit(r, p)) return fail_at(r, p, "a digit is missing");
    p = *p == '0' ? p + 1 : skip_digits(r, p);
    if (is_digit(r, p)) return fail_at(r, p, "a number must not start with 0");
    bool integer = true;
    if (p < r->end && *p == '.') {
        integer = false;
        if (!is_digit(r, p + 1)) return fail_at(r, p + 1, "a digit is missing after the point");
        p = skip_digits(r, p + 1);
    }
    if (p < r->end && (*p | 0x20) == 'e') {
        integer = false;
        p++;
        if (p < r->end && (*p == '+' || *p == '-')) p++;
        if (!is_digit(r, p)) return fail_at(r, p, "a digit is missing in the exponent");
        p = skip_digits(r, p);
    }
    if (integer && parse_int(r->p, p, &r->i)) {
        r->num = r->i == 0 && *r->p == '-' ? -0.0 : (double)r->i;
        r->p = p;
        return JSON_INT;
    }
    return to_double(r, p);
}

static json_tok read_word(jsonr *r, const char *word, json_tok tok)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0) return fail_at(r, r->p, "unknown word");
    r->p += n;
    return tok;
}

/* ---- structure ----------------------------------------------------------------------------------------------------
 */

static json_tok open_level(jsonr *r, uint8_t state, json_tok tok)
{
    if (r->depth == JSON_DEPTH_MAX) return fail_at(r, r->p, "nested too deep");
    r->state[++r->depth] = state;
    r->p++;
    return tok;
}

static json_tok close_level(jsonr *r, json_tok tok)
{
    r->depth--;
    r->p++;
    return tok;
}

static json_tok read_value(jsonr *r, uint8_t next_state)
{
    r->state[r->depth] = next_state;
    switch (*r->p) {
    case '{': return open_level(r, OBJECT_FIRST, JSON_OBJECT);
    case '[': return open_level(r, ARRAY_FIRST, JSON_ARRAY);
    case '"': r->p++; return read_string(r) ? JSON_STR : JSON_ERROR;
    case 't': return read_word(r, "true", JSON_TRUE);
    case 'f': return read_word(r, "false", JSON_FALSE);
    case 'n': return read_word(r, "null", JSON_NULL);
    case '-':
    case '0' ... '9': return read_number(r);
    default: return fail_at(r, r->p, "a value is missing");
    }
}

static json_tok read_key(jsonr *r)
{
    if (*r->p != '"') return fail_at(r, r->p, "a key in quotes is missing");
    r->p++;
    if (!read_string(r)) return JSON_ERROR;
    skip_space(r);
    if (r->p == r->end) return fail_end(r);
    if (*r->p != ':') return fail_at(r, r->p, "a colon is missing");
    r->p++;
    r->state[r->depth] = OBJECT_VALUE;
    return JSON_KEY;
}

/* Behind a comma: something must follow. */
static bool comma(jsonr *r)
{
    if (*r->p != ',') {
        fail_at(r, r->p, "a comma is missing");
        return false;
    }
    r->p++;
    skip_space(r);
    if (r->p == r->end) fail_end(r);
    return r->p < r->end;
}

json_tok jsonr_next(jsonr *r)
{
    uint8_t state = r->state[r->depth];
    if (state == BROKEN) return JSON_ERROR;
    skip_space(r);
    if (r->p == r->end) return state == TOP_DONE ? JSON_END : fail_end(r);
    switch (state) {
    case WANT_TOP: return read_value(r, TOP_DONE);
    case OBJECT_VALUE: return read_value(r, OBJECT_MORE);
    case ARRAY_FIRST: return *r->p == ']' ? close_level(r, JSON_ARRAY_END) : read_value(r, ARRAY_MORE);
    case ARRAY_MORE:
        if (*r->p == ']') return close_level(r, JSON_ARRAY_END);
        return comma(r) ? read_value(r, ARRAY_MORE) : JSON_ERROR;
    case OBJECT_FIRST: return *r->p == '}' ? close_level(r, JSON_OBJECT_END) : read_key(r);
    case OBJECT_MORE:
        if (*r->p == '}') return close_level(r, JSON_OBJECT_END);
        return comma(r) ? read_key(r) : JSON_ERROR;
    default: return fail_at(r, r->p, "only white space may follow the value");
    }
}

bool jsonr_skip(jsonr *r)
{
    uint32_t level = r->depth;
    json_tok t = jsonr_next(r);
    if (t == JSON_OBJECT || t == JSON_ARRAY) {
        while (r->depth > level) {
            if (jsonr_next(r) == JSON_ERROR) return false;
        }
        return true;
    }
    return t >= JSON_STR;
}
