/* SPDX-License-Identifier: MIT */
/* input.h: the bytes of a module or a PDB: memory, or a file that is read piece by piece. A file is never mapped: one
 * that its owner cuts short while we look would end the process. */
#ifndef LUNETTE_SYMBOLS_INPUT_H
#define LUNETTE_SYMBOLS_INPUT_H

#include "base/mem.h"

/* Larger files are refused. */
#define SYM_INPUT_MAX ((uint64_t)512 << 20)

typedef struct sym_input {
    int fd;    /* -1: mem is the whole */
    slice mem; /* borrowed */
    uint64_t size;
    uint64_t dev, ino; /* of the file, and when it was last written: together they tell whether it is still the same */
    int64_t mtime_ns;
} sym_input;

void sym_input_memory(sym_input *in, slice bytes);
/* A regular file. NotFound, PermissionDenied, LimitExceeded (over SYM_INPUT_MAX) or IoError; *in is then closed. */
int sym_input_open(sym_input *in, const char *path, err *e);
void sym_input_close(sym_input *in); /* twice is fine */
/* n bytes from off: of memory they are borrowed, of a file they are read into a. TruncatedInput when they are not all
 * there, OutOfMemory, or IoError. what names them in the message. */
int sym_input_get(const sym_input *in, uint64_t off, size_t n, arena *a, slice *out, const char *what, err *e);

#endif
