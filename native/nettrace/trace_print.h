/* SPDX-License-Identifier: MIT */
/* trace_print.h: events as text for people and as JSON. Shared by trace_cmd.c and trace_print.c; no other folder
 * includes it. */
#ifndef LUNETTE_NETTRACE_TRACE_PRINT_H
#define LUNETTE_NETTRACE_TRACE_PRINT_H

#include "base/json.h"
#include "nettrace/nettrace.h"

/* One JSON object; scratch is for strings. Addresses and masks are "0x…" texts, enums numbers, times ISO 8601. */
void trace_event_json(jsonw *w, const nt_trace *t, const nt_event *ev, slice stack, buf *scratch);
/* One line without its end. Enums by name, long texts cut. */
void trace_event_text(buf *out, const nt_trace *t, const nt_event *ev, buf *scratch);

/* "12,345", "1.5 MiB", "2.51 s", "2026-01-31T10:20:30.123Z" appended to out. */
void trace_count(buf *out, uint64_t n);
void trace_bytes(buf *out, uint64_t n);
void trace_duration(buf *out, int64_t ns);
void trace_time(buf *out, int64_t unix_ns);

#endif
