/* SPDX-License-Identifier: MIT */
/* windows_kit.h: writes a Windows PDB of managed code, for tests. */
#ifndef LUNETTE_TESTS_SYMBOLS_WINDOWS_KIT_H
#define LUNETTE_TESTS_SYMBOLS_WINDOWS_KIT_H

#include "base/mem.h"

typedef struct kit_line {
    uint32_t il, line, end_delta; /* line 0xfeefee: hidden */
    uint16_t column, end_column;
    int file; /* index into kit_pdb.files */
} kit_line;

typedef struct kit_method {
    uint32_t token, segment, offset, size;
    const char *name;
    int module;
    bool local; /* S_LMANPROC */
    const kit_line *lines;
    int n_lines;
} kit_method;

typedef struct kit_pdb {
    uint8_t guid[16];
    uint32_t age, dbi_age, block_size; /* 512 to 65536 */
    bool scattered;                    /* no two blocks of a stream in a row */
    bool columns;
    const char *const *modules;
    int n_modules;
    const char *const *files;
    int n_files;
    const kit_method *methods; /* those of a module in a row */
    int n_methods;
    const char *source_link;   /* NULL: none */
    const char *srcsrv;        /* the same; one of both */
    const uint32_t *token_map; /* NULL: none; rows of methods -> now */
    int n_token_map;
} kit_pdb;

void kit_windows(const kit_pdb *k, buf *out);
/* An MSF file of these streams. */
void kit_msf(const slice *streams, uint32_t n, uint32_t block_size, bool scattered, buf *out);

#endif
