/* SPDX-License-Identifier: MIT */
/* windows.h: methods and lines of a Windows PDB of managed code. Formats: LLVM documentation, "The PDB Info Stream",
 * "The PDB DBI Stream", "Module Information Stream"; Microsoft/microsoft-pdb, cvinfo.h. */
#ifndef LUNETTE_SYMBOLS_WINDOWS_H
#define LUNETTE_SYMBOLS_WINDOWS_H

#include "symbols/msf.h"
#include "symbols/points.h"

typedef struct sym_windows_method {
    uint32_t token;
    uint32_t segment, offset, size; /* of its code, as the PDB numbers it */
    uint32_t module;                /* index into modules */
    slice name;                     /* as the PDB has it: without its type */
} sym_windows_method;

typedef struct sym_windows_module {
    slice name; /* often the type's full name */
    uint32_t stream, symbol_bytes, c11_bytes, c13_bytes;
} sym_windows_module;

/* The lines of one module, the one asked for last. */
typedef struct sym_windows_kept {
    arena a;
    uint32_t module;
    bool filled;
    slice checksums;
    struct sym_windows_block *blocks; /* by segment and offset */
    size_t n;
} sym_windows_kept;

typedef struct sym_windows {
    sym_msf msf;
    uint8_t guid[16];
    uint32_t age, dbi_age; /* a module names either */
    sym_windows_module *modules;
    uint32_t n_modules;
    sym_windows_method *methods; /* by token */
    uint32_t n_methods;
    slice names;       /* text of the string table */
    slice source_link; /* JSON; empty: none */
    slice srcsrv;      /* text of a source server (srcsrv.h); empty: none */
    sym_windows_kept kept;
} sym_windows;

/* A document of a point is its offset in the string table + 1. file must outlive *w; the rest is in a, but for what
 * sym_windows_fini frees (also after a failure). */
int sym_windows_read(sym_windows *w, slice file, arena *a, err *e);
void sym_windows_fini(sym_windows *w);
const sym_windows_method *sym_windows_find(const sym_windows *w, uint32_t token);
/* The points of a method in order of IL offset, hidden ones too, in a. Changes what is kept: one thread at a time. */
int sym_windows_points(sym_windows *w, const sym_windows_method *m, arena *a, sym_point **out, size_t *n, err *e);
/* The name of a document; empty: none. */
slice sym_windows_document(const sym_windows *w, uint32_t document);

#endif
