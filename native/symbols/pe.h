/* SPDX-License-Identifier: MIT */
/* pe.h: a managed module (PE file): where its metadata is, and what it says of its PDB. Formats: Microsoft PE/COFF
 * specification; ECMA-335 II.25; dotnet/runtime docs/design/specs/PE-COFF.md (the debug directory). */
#ifndef LUNETTE_SYMBOLS_PE_H
#define LUNETTE_SYMBOLS_PE_H

#include "symbols/input.h"

#define SYM_PE_SECTIONS_MAX 96
#define SYM_PE_DEBUG_MAX    64
/* An embedded PDB, decompressed. */
#define SYM_PE_EMBEDDED_MAX ((uint32_t)256 << 20)

typedef struct sym_pe_section {
    uint32_t rva, size, offset; /* size: bytes that are in the file */
} sym_pe_section;

typedef struct sym_pe {
    const sym_input *in; /* the caller's */
    sym_pe_section sections[SYM_PE_SECTIONS_MAX];
    uint32_t n_sections;
    bool plus; /* PE32+ */
    uint32_t machine;
    uint32_t metadata_rva, metadata_size; /* 0: not managed */
    uint32_t entry_token;
    /* The debug directory. */
    bool has_pdb;         /* a CodeView entry */
    bool pdb_is_portable; /* as that entry says */
    uint8_t pdb_guid[16];
    uint32_t pdb_age, pdb_stamp; /* the stamp is the last part of a portable PDB's id */
    slice pdb_path;              /* UTF-8, in the arena */
    bool has_embedded;
    uint32_t embedded_at, embedded_size; /* in the file, with its header */
    slice checksum_algorithm, checksum;  /* of the PDB ("SHA256", 32 bytes); empty: none */
    bool reproducible;
} sym_pe;

/* Reads headers and the debug directory; text goes into a. in must outlive *pe. A file that is no PE: MalformedInput. A
 * damaged debug directory leaves the rest usable: has_pdb and the others are false then. */
int sym_pe_read(sym_pe *pe, const sym_input *in, arena *a, err *e);
/* n bytes at an RVA (as sym_input_get). MalformedInput: they are in no section. */
int sym_pe_at(const sym_pe *pe, uint32_t rva, size_t n, arena *a, slice *out, const char *what, err *e);
/* Bytes of the file from an RVA to the end of its section; 0: in no section. */
size_t sym_pe_room(const sym_pe *pe, uint32_t rva);
/* The embedded PDB, decompressed into a. */
int sym_pe_embedded(const sym_pe *pe, arena *a, slice *out, err *e);

#endif
