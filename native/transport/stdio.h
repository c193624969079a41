/* SPDX-License-Identifier: MIT */
/* stdio.h: newline-delimited messages on standard input and output. From stdio_start on, file descriptor 1 leads to
 * standard error, so that nothing but stdio_write can put a byte on the real standard output. */
#ifndef LUNETTE_TRANSPORT_STDIO_H
#define LUNETTE_TRANSPORT_STDIO_H

#include "base/bytes.h"
#include "loop/loop.h"

typedef struct stdio_link stdio_link;

#define STDIO_LINE_MAX_DEFAULT ((size_t)4 << 20)
#define STDIO_BACKLOG_MAX      ((size_t)64 << 20) /* bytes that the reader of our output may leave unread */

typedef struct stdio_cfg {
    size_t line_max; /* bytes; 0: the default. A longer line is dropped and told by on_line(too_long) */
    void (*on_line)(void *arg, slice line, bool too_long); /* without its LF (and CR); empty lines are skipped */
    void (*on_eof)(void *arg);                             /* input ended, or the reader of our output is gone; once */
    void *arg;
} stdio_cfg;

int stdio_start(loop *l, const stdio_cfg *cfg, stdio_link **out, err *e);
/* One message: a LF is added. Queued and written in order. CANCELLED: the reader is gone; LIMIT: it does not read. */
int stdio_write(stdio_link *s, slice line, err *e);
/* Writes what is queued, for at most ms milliseconds; then what is left is lost. True when all went out. */
bool stdio_flush(stdio_link *s, int ms);
void stdio_free(stdio_link *s);

#endif
