/* SPDX-License-Identifier: MIT */
/* names.h: names and signatures of a module's types and methods, readable: "Shop.Cart+Line.Add<T>" and
 * "void (int, System.Collections.Generic.List<T>)". Signatures: ECMA-335 II.23.2. */
#ifndef LUNETTE_SYMBOLS_NAMES_H
#define LUNETTE_SYMBOLS_NAMES_H

#include "symbols/metadata.h"

/* Text that a signature may grow to; the rest is "…". */
#define SYM_SIGNATURE_MAX ((size_t)8 << 10)

typedef struct sym_names {
    const sym_md *md;
    uint32_t *owners; /* by method row - 1: the row of its type; 0: none */
} sym_names;

/* md must outlive *n; its memory is a's. OutOfMemory. */
int sym_names_init(sym_names *n, const sym_md *md, arena *a, err *e);
/* Each appends valid UTF-8 to out. row is the low part of a token. */
void sym_type_name(const sym_names *n, uint32_t type_row, buf *out);     /* "Ns.Outer+Inner<T>" */
void sym_method_name(const sym_names *n, uint32_t method_row, buf *out); /* with its type */
/* "ReturnType (ParameterTypes)". A damaged signature ends in "?". */
void sym_method_signature(const sym_names *n, uint32_t method_row, buf *out);

#endif
