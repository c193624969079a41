/* SPDX-License-Identifier: MIT */
/* log.h: structured log lines to stderr, one JSON object (or, on a terminal, one readable line) each; nothing else ever
 * writes to stderr or stdout from a library. Thread-safe, never blocks for long: a line that cannot be written (full
 * disk, closed pipe) is counted and dropped, and the count is told by the next line that gets through. */
#ifndef LUNETTE_BASE_LOG_H
#define LUNETTE_BASE_LOG_H

#include "base/err.h"

typedef enum log_level { LOG_DEBUG, LOG_INFO, LOG_NOTICE, LOG_WARNING, LOG_ERROR } log_level;
typedef enum log_format { LOG_AUTO, LOG_JSON, LOG_TEXT } log_format;

void log_setup(log_level min, log_format format); /* default: info, auto (text on a terminal, else JSON) */
log_level log_level_min(void);
/* area names the module ("ipc"); a line passes LOG_LINE_MAX bytes only cut, with "truncated":true. */
#define LOG_LINE_MAX 4096
void log_msg(log_level lv, const char *area, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void log_err(log_level lv, const char *area, const char *what, const err *e);
/* One line with extra members: json_members is "" or a JSON object body such as "\"pid\":12". */
void log_raw(log_level lv, const char *area, const char *message, const char *json_members);
uint64_t log_dropped(void);

#endif
