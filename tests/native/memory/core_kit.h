/* SPDX-License-Identifier: MIT */
/* core_kit.h: makes small ELF cores for tests. */
#ifndef LUNETTE_TESTS_CORE_KIT_H
#define LUNETTE_TESTS_CORE_KIT_H

#include <elf.h>

#include "base/mem.h"

typedef struct core_piece {
    uint64_t start, memory, held; /* held: bytes that are in the file, each the low byte of its page's number */
    uint32_t flags;
} core_piece;
typedef struct core_file {
    uint64_t start, end, offset_pages;
    const char *path;
} core_file;
typedef struct core_plan {
    const core_piece *pieces;
    size_t n_pieces;
    const core_file *files;
    size_t n_files;
    const int *tids;
    size_t n_tids;
    int group;        /* pr_pgrp of each thread */
    int psinfo_pid;   /* 0: no NT_PRPSINFO */
    uint16_t machine; /* 0: x86-64 */
} core_plan;

/* Appends the core's bytes. */
void core_make(const core_plan *plan, buf *out);

#endif
