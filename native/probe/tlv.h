/* SPDX-License-Identifier: MIT */
/* tlv.h: results between the engine and a scripting face: a tag byte, then the value; numbers in host order. Both ends
 * are of one build. */
#ifndef LUNETTE_PROBE_TLV_H
#define LUNETTE_PROBE_TLV_H

#include "base/mem.h"

typedef enum tlv_tag {
    TLV_NIL = 'n',
    TLV_FALSE = 'f',
    TLV_TRUE = 't',
    TLV_INT = 'i',   /* 8 bytes */
    TLV_FLOAT = 'd', /* 8 bytes */
    TLV_TEXT = 's',  /* 4 bytes length, UTF-8 */
    TLV_LIST = '[',  /* values, then TLV_END */
    TLV_TABLE = '{', /* key text and value in turn, then TLV_END */
    TLV_END = '.',
} tlv_tag;

static inline void tlv_mark(buf *b, tlv_tag t) { (void)buf_u8(b, (uint8_t)t); }
static inline void tlv_bool(buf *b, bool v) { tlv_mark(b, v ? TLV_TRUE : TLV_FALSE); }
static inline void tlv_int(buf *b, int64_t v)
{
    tlv_mark(b, TLV_INT);
    (void)buf_put(b, &v, sizeof v);
}
static inline void tlv_float(buf *b, double v)
{
    tlv_mark(b, TLV_FLOAT);
    (void)buf_put(b, &v, sizeof v);
}
static inline void tlv_text(buf *b, slice s)
{
    uint32_t n = (uint32_t)s.n;
    tlv_mark(b, TLV_TEXT);
    (void)buf_put(b, &n, sizeof n);
    (void)buf_slice(b, s);
}
static inline void tlv_key(buf *b, const char *name) { tlv_text(b, slice_str(name)); }
static inline void tlv_key_int(buf *b, const char *name, int64_t v)
{
    tlv_key(b, name);
    tlv_int(b, v);
}
static inline void tlv_key_float(buf *b, const char *name, double v)
{
    tlv_key(b, name);
    tlv_float(b, v);
}

#endif
