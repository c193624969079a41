/* SPDX-License-Identifier: MIT */
/* portable.h: sequence points, documents and SourceLink of a portable PDB. Format: dotnet/runtime,
 * docs/design/specs/PortablePdb-Metadata.md. */
#ifndef LUNETTE_SYMBOLS_PORTABLE_H
#define LUNETTE_SYMBOLS_PORTABLE_H

#include "symbols/metadata.h"
#include "symbols/points.h"

/* Walks the sequence points of a method. */
typedef struct sym_portable_walk {
    cursor c;
    uint32_t document, il_offset, line, column;
    bool begun, has_line;
} sym_portable_walk;

/* Starts at a method's row (the low 24 bits of its token). False: it has none. */
bool sym_portable_points(const sym_md *md, uint32_t method, sym_portable_walk *w);
/* The next point, hidden ones too. False: the end, or damage. */
bool sym_portable_next(sym_portable_walk *w, sym_point *out);
/* A document's name, appended to out. False: no such document, a damaged name, or out failed. */
bool sym_portable_document(const sym_md *md, uint32_t document, buf *out);
/* The SourceLink text (JSON) of the module; empty: none. */
slice sym_portable_source_link(const sym_md *md);

#endif
