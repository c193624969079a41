/* SPDX-License-Identifier: MIT */
/* msf.h: the container of a Windows PDB: streams in blocks. Format: LLVM documentation, "The MSF File Format". */
#ifndef LUNETTE_SYMBOLS_MSF_H
#define LUNETTE_SYMBOLS_MSF_H

#include "base/mem.h"

#define MSF_STREAMS_MAX 65536u
#define MSF_NO_STREAM   0xffffu

typedef struct sym_msf {
    slice file; /* the caller's */
    uint32_t block_size, n_blocks, n_streams;
    const uint32_t *sizes;         /* by stream; 0 for one that is not there */
    const uint32_t *const *blocks; /* by stream */
} sym_msf;

bool sym_msf_is(slice file);
/* Reads the directory; what it needs is allocated in a. */
int sym_msf_read(sym_msf *m, slice file, arena *a, err *e);
/* A stream's bytes: borrowed from the file where its blocks lie in a row, else copied into a. An empty slice for a
 * stream that is not there. */
int sym_msf_stream(const sym_msf *m, uint32_t stream, arena *a, slice *out, err *e);

#endif
