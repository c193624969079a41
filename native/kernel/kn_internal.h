/* SPDX-License-Identifier: MIT */
/* kn_internal.h: what the files of this folder share: reading text of the kernel word by word. */
#ifndef LUNETTE_KERNEL_KN_INTERNAL_H
#define LUNETTE_KERNEL_KN_INTERNAL_H

#include "kernel/kernel.h"

/* Pops the text up to the next newline (not included); false at the end. */
bool kn__line(slice *rest, slice *line);
/* Pops the next word between blanks and tabs; an empty slice when there is none. */
slice kn__word(slice *rest);
/* Decimal or hexadecimal digits and nothing else; false for any other text, an empty one and an overflow. */
bool kn__u64(slice s, uint64_t *out);
bool kn__i64(slice s, int64_t *out);
bool kn__hex(slice s, uint64_t *out);
slice kn__trim(slice s);
/* Copies at most size - 1 bytes and a NUL. False when it was cut. */
bool kn__copy(slice s, char *out, size_t size);
bool kn__has(slice s, const char *needle);

/* Calls fn for each line of a file, read piece by piece so that its length costs no memory; a line over KN_LINE_MAX
 * bytes is cut. Stops after max bytes. 0: all; 1: there was more. Errors as kn_read. */
#define KN_LINE_MAX 8192
typedef void (*kn__line_fn)(void *arg, slice line);
int kn__each_line(const char *root, const char *rel, size_t max, kn__line_fn fn, void *arg, err *e);
/* "/proc/PID/NAME" with its root into out; false when it does not fit. */
bool kn__pid_path(const char *root, int pid, const char *name, char *out, size_t size);
/* Opens for reading: never blocks on a FIFO, refuses what is no regular file. A descriptor, or a negative status. */
int kn__open(const char *path, err *e);
/* Makes "no such file" of a process's file into "no such process" where that is the truth. Returns rc or the new
 * status. */
int kn__pid_error(const char *root, int pid, int rc, err *e);

#endif
