/* SPDX-License-Identifier: MIT */
/* json.h: a streaming JSON writer with exact integers, and a pull reader for JSON from outside. */
#ifndef LUNETTE_BASE_JSON_H
#define LUNETTE_BASE_JSON_H

#include "base/mem.h"

#define JSON_DEPTH_MAX 128

/* ---- writer ------------------------------------------------------------------------------------------------------ */
/* Compact JSON into *out. Commas and colons are the writer's business. With flush set, out is handed on (and reset)
 * whenever it passes flush_at bytes, so a long document needs little memory. Misuse (a value where a key is due, depth
 * over JSON_DEPTH_MAX) sets failed. */
typedef struct jsonw {
    buf *out;
    int (*flush)(void *arg, buf *out); /* NULL: none; a negative return stops the writer */
    void *flush_arg;
    size_t flush_at;
    uint32_t depth;
    bool failed;
    uint8_t state[JSON_DEPTH_MAX + 1];
} jsonw;
void jsonw_init(jsonw *w, buf *out);
void jsonw_object(jsonw *w);
void jsonw_end_object(jsonw *w);
void jsonw_array(jsonw *w);
void jsonw_end_array(jsonw *w);
void jsonw_key(jsonw *w, slice key);
void jsonw_key_lit(jsonw *w, const char *key);
void jsonw_str(jsonw *w, slice s); /* any bytes: invalid UTF-8 becomes U+FFFD; U+2028/9 and controls escaped */
void jsonw_cstr(jsonw *w, const char *s);
void jsonw_int(jsonw *w, int64_t v);
void jsonw_uint(jsonw *w, uint64_t v);
/* Shortest form that reads back the same: 1 as 1, -0 as 0; NaN and infinities become null. */
void jsonw_num(jsonw *w, double v);
void jsonw_bool(jsonw *w, bool v);
void jsonw_null(jsonw *w);
void jsonw_raw(jsonw *w, slice json); /* one already valid JSON value */
void jsonw_hex(jsonw *w, uint64_t v); /* "0x…" lower case, as addresses and masks are written */
/* True when everything was written and closed. */
bool jsonw_done(const jsonw *w);

/* ---- reader ------------------------------------------------------------------------------------------------------ */
typedef enum json_tok {
    JSON_ERROR = -1,
    JSON_END = 0,
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_KEY,
    JSON_STR,
    JSON_INT,
    JSON_NUM,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL
} json_tok;
/* Strict RFC 8259: no comments, no trailing commas, no NaN, one value, only white space after it; depth at most
 * JSON_DEPTH_MAX. */
typedef struct jsonr {
    const uint8_t *start, *p, *end;
    uint32_t depth;
    uint8_t state[JSON_DEPTH_MAX + 1];
    buf scratch; /* unescaped strings */
    slice str;   /* of JSON_KEY and JSON_STR: borrowed until the next call; valid UTF-8 */
    int64_t i;   /* of JSON_INT: an integer literal without fraction or exponent that fits */
    double num;  /* of JSON_NUM (and JSON_INT) */
    err e;       /* after JSON_ERROR: kind ERR_MALFORMED with the offset */
} jsonr;
void jsonr_init(jsonr *r, slice text);
void jsonr_fini(jsonr *r);
json_tok jsonr_next(jsonr *r);
/* Skips one value: call it after JSON_KEY, or where a value is due. False on error. */
bool jsonr_skip(jsonr *r);

#endif
