/* SPDX-License-Identifier: MIT */
/* uw_space.h: an address space, for space.c and walk.c. */
#ifndef LUNETTE_UNWIND_UW_SPACE_H
#define LUNETTE_UNWIND_UW_SPACE_H

#include <errno.h>
#include <unistd.h>

#include "unwind/uw_internal.h"

typedef struct uw__file {
    char *path, *open;
    uw__image *image;
    uint64_t base; /* where its first byte would lie */
    bool looked, vdso;
} uw__file;

typedef struct uw__map {
    uint64_t start, end, file_offset;
    uint32_t file; /* UINT32_MAX: none */
    bool executable;
} uw__map;

#define UW__PAGE  4096u
#define UW__PAGES 256u
typedef struct uw__page {
    uint64_t number; /* + 1; 0: none */
    uint8_t bytes[UW__PAGE];
} uw__page;

/* Rows that were needed before, by address. */
#define UW__RECENT 4096u
typedef struct uw__recent {
    uint64_t pc;
    const uw__row *row;
} uw__recent;

/* Prologues that were needed before, by their method's start. */
#define UW__METHODS 1024u
typedef struct uw__method {
    uint64_t start; /* 0: none */
    uw__layout layout;
} uw__method;

struct uw_space {
    uw_memory memory, code; /* code: the same through pages */
    uw__page *pages;
    uw__map *maps; /* by address, without overlap */
    uint32_t n_maps, cap_maps, last;
    uw__file *files;
    uint32_t n_files, cap_files;
    map64 by_name;
    uw_code_fn code_fn;
    void *code_arg;
    uw__recent recent[UW__RECENT];
    uw__method *methods; /* UW__METHODS; NULL until the first */
    uint64_t *patches;   /* UW__METHODS return addresses, shifted; the low bit: behind the call of a patchpoint */
    uw_stats stats;
};

const uw__map *uw__space_at(uw_space *s, uint64_t address);
uw__image *uw__space_image(uw_space *s, uint32_t file);

#endif
