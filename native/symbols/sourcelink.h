/* SPDX-License-Identifier: MIT */
/* sourcelink.h: the address of a source file, by the SourceLink map of a PDB. Format: dotnet/designs,
 * accepted/2020/diagnostics/source-link.md. */
#ifndef LUNETTE_SYMBOLS_SOURCELINK_H
#define LUNETTE_SYMBOLS_SOURCELINK_H

#include "base/mem.h"

#define SYM_LINKS_MAX 8192u

typedef struct sym_link {
    slice path;      /* of a file, or what its path begins with */
    slice url, rest; /* the address; with a wildcard: what is before and behind it */
    bool wildcard;
} sym_link;

typedef struct sym_links {
    sym_link *list; /* the longest path first */
    size_t n;
} sym_links;

/* Reads the JSON text; its strings are copied into a. What is damaged is left out. False: no memory. */
bool sym_links_read(sym_links *l, slice json, arena *a);
/* Appends the address of a file; false: it has none, and nothing was appended. */
bool sym_links_url(const sym_links *l, slice path, buf *out);

#endif
