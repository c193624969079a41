/* SPDX-License-Identifier: MIT */
/* utf.h: UTF-16LE and UTF-8. What leaves is always valid UTF-8: a lone surrogate, an overlong form or a stray byte
 * becomes U+FFFD. */
#ifndef LUNETTE_BASE_UTF_H
#define LUNETTE_BASE_UTF_H

#include "base/mem.h"

/* Appends the UTF-8 form of UTF-16LE bytes (an odd last byte is ignored). False when out failed. */
bool utf16le_to_utf8(slice utf16, buf *out);
/* Appends the UTF-16LE form of UTF-8 text. */
bool utf8_to_utf16le(slice utf8, buf *out);
bool utf8_valid(slice s);
/* Appends s with every invalid byte sequence replaced by U+FFFD. */
bool utf8_sanitize(slice s, buf *out);
/* The longest prefix of valid UTF-8 s of at most max bytes that splits no character. */
size_t utf8_cut(slice s, size_t max_bytes);

#endif
