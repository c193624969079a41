/* SPDX-License-Identifier: MIT */
/* pdb.h: a PDB of either format: its id, and the sequence points of methods by token. */
#ifndef LUNETTE_SYMBOLS_PDB_H
#define LUNETTE_SYMBOLS_PDB_H

#include "symbols/lines.h"
#include "symbols/metadata.h"
#include "symbols/points.h"
#include "symbols/sourcelink.h"
#include "symbols/windows.h"

typedef struct sym_pdb {
    bool windows;
    uint8_t guid[16];
    uint32_t age, dbi_age; /* Windows */
    uint32_t stamp;        /* portable */
    sym_md md;             /* portable */
    sym_windows win;
    sym_links links;
} sym_pdb;

/* Reads a PDB, telling the format by its first bytes. bytes must outlive *p; the rest is in a, but for what
 * sym_pdb_fini frees (also after a failure). MalformedInput for what is none. */
int sym_pdb_read(sym_pdb *p, slice bytes, arena *a, err *e);
void sym_pdb_fini(sym_pdb *p);
/* How many method tokens there may be: a portable PDB has them by row from 1, of a Windows one ask win.methods. */
uint32_t sym_pdb_method_rows(const sym_pdb *p);
/* Of a Windows PDB the next two keep something: one thread at a time.
 * All points of a method in order of IL offset, in a; none is no failure. */
int sym_pdb_points(sym_pdb *p, uint32_t token, arena *a, sym_point **out, size_t *n, err *e);
/* The point for an IL offset (SYM_IL_UNKNOWN: the first real one), by k->il_offset; k->found tells. */
int sym_pdb_pick(sym_pdb *p, uint32_t token, sym_pick *k, err *e);
/* Appends a document's name, valid UTF-8. False: it has none. */
bool sym_pdb_document(const sym_pdb *p, uint32_t document, buf *out);

#endif
