/* SPDX-License-Identifier: MIT */
/* listing.h: what `lunette symbols` shows: a module with its PDB, or a PDB with its module where that lies beside it.
 */
#ifndef LUNETTE_SYMBOLS_LISTING_H
#define LUNETTE_SYMBOLS_LISTING_H

#include "symbols/find.h"
#include "symbols/names.h"

typedef struct sym_listing {
    const char *file;
    arena a;
    /* The module; has_module false: names are those of the PDB. */
    bool has_module, has_mvid;
    const char *module_file;
    sym_input in; /* its bytes, in memory */
    sym_pe pe;
    sym_md md;
    sym_names names;
    uint8_t mvid[16];
    bool has_pdb;
    sym_found pdb;
} sym_listing;

/* pdb_file: look for the PDB there only; NULL. MalformedInput for a file that is neither. *l is for sym_listing_close,
 * also after a failure. */
int sym_listing_open(sym_listing *l, const char *file, const char *pdb_file, err *e);
void sym_listing_close(sym_listing *l);

typedef struct sym_row {
    uint32_t token;
    uint32_t rva;             /* of the method's body; 0: none (abstract) or no module */
    uint32_t segment, offset; /* as a Windows PDB numbers it; segment 0: not known */
    uint32_t size;            /* bytes of IL */
    slice name, signature;    /* valid UTF-8, good until the next row; empty: not known */
    bool has_line;
    sym_point first; /* the first real line */
    const sym_point *points;
    size_t n_points;
    slice file; /* of the first real line */
} sym_row;

/* Room for a row's text, between calls. */
typedef struct sym_row_space {
    buf name, signature, file;
    arena points;
    uint32_t document;
} sym_row_space;

uint32_t sym_listing_rows(const sym_listing *l);
/* Row i, from 0, in order of token. points: all of them, too. */
int sym_listing_row(sym_listing *l, uint32_t i, bool points, sym_row_space *space, sym_row *out, err *e);
/* The address of a source file; false: none. Appended to out. */
bool sym_listing_url(const sym_listing *l, slice file, buf *out);

#endif
