/* SPDX-License-Identifier: MIT */
/* elf_internal.h: what elf.c (symbols) and elf_lines.c (DWARF) share. */
#ifndef LUNETTE_SYMBOLS_ELF_INTERNAL_H
#define LUNETTE_SYMBOLS_ELF_INTERNAL_H

#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <pthread.h>

#include "symbols/elf.h"
#include "symbols/input.h"

typedef struct elf__image {
    sym_input in;
    Elf *elf;
} elf__image;

typedef struct elf__symbol {
    uint64_t start, size;
    const char *name; /* in the table of its file, which stays open */
    int rank;         /* of several at one address the highest counts */
} elf__symbol;

typedef struct elf__segment {
    uint64_t offset, address, size;
} elf__segment;

/* A range of addresses of a compilation unit. */
typedef struct elf__unit {
    uint64_t start, end;
    Dwarf_Off die;
} elf__unit;

struct sym_elf {
    arena a;
    elf__image file, debug;
    const char *debug_file;
    uint8_t id[SYM_ELF_BUILD_ID_MAX];
    size_t id_size;
    elf__symbol *symbols; /* by address */
    size_t n;
    elf__segment *segments;
    size_t n_segments;
    pthread_mutex_t lock; /* over the rest: libdw is for one thread at a time */
    bool looked;
    Dwarf *dwarf;
    elf__unit *units; /* by start */
    size_t n_units;
};

bool elf__loaded(const sym_elf *f, uint64_t address, uint64_t *offset);
void elf__dwarf_close(sym_elf *f);

#endif
