/* SPDX-License-Identifier: MIT */
/* find.h: the PDB of a module: inside it, beside it, in the folders of a symbol path, at its servers. */
#ifndef LUNETTE_SYMBOLS_FIND_H
#define LUNETTE_SYMBOLS_FIND_H

#include "symbols/pdb.h"
#include "symbols/pe.h"

/* What is looked for: filled by sym_find_of_pe, or by hand. Pointers are borrowed. */
typedef struct sym_sought {
    const char *module; /* path of the module; NULL: not known */
    const sym_pe *pe;   /* NULL: the file could not be read */
    bool has_id;
    uint8_t guid[16];
    uint32_t age;   /* of a Windows PDB */
    uint32_t stamp; /* of a portable one */
    bool has_stamp, is_portable;
    const char *recorded; /* the PDB's path when it was made; NULL: not known */
    const char *file;     /* look here only; NULL */
    const sym_path *paths[2];
    int64_t deadline_ns;
} sym_sought;

typedef struct sym_found {
    arena a; /* the PDB's bytes and what was made of them */
    sym_pdb pdb;
    sym_format format;
    const char *file; /* in a */
    char why[480];    /* SYM_FORMAT_NONE: a sentence for the user */
} sym_found;

/* Fills what a module says of its PDB. */
void sym_sought_of_pe(sym_sought *s, const sym_pe *pe, const char *module);
/* Looks. 0 also when there is none (format SYM_FORMAT_NONE, why tells); OutOfMemory. out is for sym_found_fini, also
 * after a failure. */
int sym_find(const sym_sought *s, sym_found *out, err *e);
void sym_found_fini(sym_found *f);
/* Whether a PDB is the one that is looked for. */
bool sym_pdb_is(const sym_sought *s, const sym_pdb *p);

#endif
