/* SPDX-License-Identifier: MIT */
/* metadata.h: ECMA-335 metadata (partition II.22 to II.24) and the tables that portable PDBs add to it (dotnet/runtime,
 * docs/design/specs/PortablePdb-Metadata.md). The bytes are the caller's; nothing is decoded before it is asked for. */
#ifndef LUNETTE_SYMBOLS_METADATA_H
#define LUNETTE_SYMBOLS_METADATA_H

#include "base/mem.h"

enum {
    MD_MODULE = 0x00,
    MD_TYPE_REF = 0x01,
    MD_TYPE_DEF = 0x02,
    MD_METHOD_PTR = 0x05,
    MD_METHOD_DEF = 0x06,
    MD_PARAM = 0x08,
    MD_TYPE_SPEC = 0x1b,
    MD_ASSEMBLY = 0x20,
    MD_NESTED_CLASS = 0x29,
    MD_GENERIC_PARAM = 0x2a,
    MD_DOCUMENT = 0x30,
    MD_METHOD_DEBUG = 0x31,
    MD_CUSTOM_DEBUG = 0x37,
    MD_TABLES = 0x38,
    MD_COLUMNS_MAX = 9,
};

/* Columns that we read, in the order of the standard. */
enum { MODULE_NAME = 1, MODULE_MVID = 2 };
enum { TYPE_REF_SCOPE, TYPE_REF_NAME, TYPE_REF_NAMESPACE };
enum { TYPE_FLAGS, TYPE_NAME, TYPE_NAMESPACE, TYPE_EXTENDS, TYPE_FIELDS, TYPE_METHODS };
enum { METHOD_RVA, METHOD_IMPL_FLAGS, METHOD_FLAGS, METHOD_NAME, METHOD_SIGNATURE, METHOD_PARAMS };
enum { ASSEMBLY_NAME = 7 };
enum { NESTED_TYPE, NESTED_IN };
enum { GENERIC_NUMBER, GENERIC_FLAGS, GENERIC_OWNER, GENERIC_NAME };
enum { DOCUMENT_NAME, DOCUMENT_HASH_ALGORITHM, DOCUMENT_HASH, DOCUMENT_LANGUAGE };
enum { DEBUG_DOCUMENT, DEBUG_POINTS };
enum { CUSTOM_PARENT, CUSTOM_KIND, CUSTOM_VALUE };

typedef struct md_table {
    const uint8_t *p;
    uint32_t rows, row_size;
    uint8_t at[MD_COLUMNS_MAX], wide[MD_COLUMNS_MAX]; /* bytes: offset in the row, width */
} md_table;

typedef struct sym_md {
    slice strings, guids, blobs;
    md_table tables[MD_TABLES];
    uint32_t foreign_rows[MD_TABLES]; /* of a portable PDB: rows of its module's tables */
    bool is_pdb;                      /* it has a #Pdb stream */
    const uint8_t *pdb_stream;        /* in the bytes: begins with the id */
    uint8_t pdb_id[20];               /* GUID and stamp */
    uint32_t pdb_entry;               /* token of the entry point */
} sym_md;

/* Reads the root, the stream headers and the table header of metadata. bytes must outlive *md. base: its offset, for
 * messages. */
int sym_md_read(sym_md *md, slice bytes, int64_t base, err *e);
static inline uint32_t md_rows(const sym_md *md, int table) { return md->tables[table].rows; }
/* A column of a row (from 1): a number, a heap index or a row number. 0: no such row. */
uint32_t md_get(const sym_md *md, int table, uint32_t row, int column);
/* Heap entries; empty: none, or an index outside. Strings are UTF-8 as they lie there, perhaps not valid. */
slice md_string(const sym_md *md, uint32_t index);
slice md_blob(const sym_md *md, uint32_t index);
const uint8_t *md_guid(const sym_md *md, uint32_t index); /* 16 bytes, or NULL */
/* The first row whose column is at least key, in a table that the standard has sorted by it. rows + 1: none. */
uint32_t md_lower_bound(const sym_md *md, int table, int column, uint32_t key);
/* Compressed numbers (II.23.2). A failed cursor gives 0. */
uint32_t md_compressed(cursor *c);
int32_t md_compressed_signed(cursor *c);

#endif
