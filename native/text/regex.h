/* SPDX-License-Identifier: MIT */
/* regex.h: regular expressions that an operator writes, matched in time proportional to text and program, whatever the
 * pattern: all states are followed at once, nothing is tried again. The leftmost match counts, and of these the
 * longest. Bytes are compared; there are no back-references and no look-around. Syntax: docs/configuration.md. */
#ifndef LUNETTE_TEXT_REGEX_H
#define LUNETTE_TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/err.h"

typedef struct regex regex;

#define REGEX_PATTERN_MAX 1024u /* bytes of a pattern */
#define REGEX_PROGRAM_MAX 4096u /* instructions after repetitions are written out */
#define REGEX_NESTING_MAX 64u   /* groups inside groups */
#define REGEX_REPEAT_MAX  1000u /* the n of {n,m} */

/* Compiles a pattern. *out is yours to free with regex_free. INVALID_ARGUMENT with the byte offset of the fault in the
 * pattern; LIMIT past one of the caps above; NO_MEMORY. */
int regex_new(slice pattern, regex **out, err *e);
void regex_free(regex *r); /* NULL is fine */

/* The leftmost-longest match that is not empty, at or behind `from`: true with *start and *end (one past the last
 * byte). The expression holds the scratch memory of the search: one thread at a time. */
bool regex_find(regex *r, slice text, size_t from, size_t *start, size_t *end);

/* … and calls look(arg) every now and then (each REGEX_LOOK_WORK states that were followed, some 0.1 ms). It may leave
 * by longjmp: the search holds nothing, and the next one begins afresh. */
#define REGEX_LOOK_WORK 8192u
typedef void (*regex_look_fn)(void *arg);
bool regex_find_watched(regex *r, slice text, size_t from, size_t *start, size_t *end, regex_look_fn look, void *arg);

#endif
