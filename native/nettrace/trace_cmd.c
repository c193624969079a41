/* SPDX-License-Identifier: MIT */
/* trace_cmd.c: `lunette trace summary` and `lunette trace events`. */
#include "nettrace/trace_cmd.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "clr/clr.h"
#include "nettrace/trace_print.h"

enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
#define FLUSH_BYTES    ((size_t)64 << 10)
#define PROGRESS_BYTES ((uint64_t)16 << 20) /* a file below this is read at once: no progress */
#define PROGRESS_NS    INT64_C(200000000)

typedef struct args {
    const char *verb, *file, *provider, *event;
    uint64_t limit; /* UINT64_MAX: none */
    bool json;
} args;

typedef struct session {
    const args *a;
    nt_reader *r;
    nt_trace trace;
    bool has_times;
    int64_t first_ts, last_ts;
    uint64_t shown;
    bool full;     /* the limit was met */
    bool broken;   /* stdout takes no more */
    int unwritten; /* errno of that, unless its reader just went away */
    buf out, scratch;
    int64_t told_at;
    bool told;
} session;

static const char help[] =
    "Usage: lunette trace summary FILE [--json]\n"
    "       lunette trace events FILE [--provider NAME] [--event NAME] [--limit N] [--json]\n"
    "\n"
    "Shows what is in a recorded .nettrace file, or in the first one inside a .zip archive.\n"
    "\n"
    "  summary   how often each event came, what was lost, and whether the recording is whole\n"
    "  events    the events in order of time, with their fields\n"
    "\n"
    "  --provider NAME   only events of this provider (* and ? are wildcards; case does not matter)\n"
    "  --event NAME      only events of this name, such as GC/Start or 'GC/*', or of this id\n"
    "  --limit N         stop after N events\n"
    "  --json            summary: one JSON object; events: one JSON object a line\n"
    "\n"
    "Exit code: 0 fine, 1 the file cannot be read or is damaged, 2 wrong usage.\n";

static int usage(const char *what, const char *which)
{
    fprintf(stderr, "lunette trace: %s%s%s\nTry: lunette trace --help\n", what, *which ? ": " : "", which);
    return EXIT_USAGE;
}

static bool parse_count(const char *s, uint64_t *out)
{
    char *end;
    *out = strtoull(s, &end, 10);
    return *s >= '0' && *s <= '9' && *end == 0;
}

/* Returns -1 to go on, else the exit code. */
static int parse_option(args *a, int argc, char **argv, int *i)
{
    const char *name = argv[*i];
    if (strcmp(name, "--json") == 0) {
        a->json = true;
        return -1;
    }
    bool provider = strcmp(name, "--provider") == 0, event = strcmp(name, "--event") == 0,
         limit = strcmp(name, "--limit") == 0;
    if (!provider && !event && !limit) return usage("no such option", name);
    if (strcmp(a->verb, "events") != 0) return usage("only `trace events` takes", name);
    if (++*i == argc) return usage("a value must follow", name);
    if (provider) a->provider = argv[*i];
    if (event) a->event = argv[*i];
    if (limit && !parse_count(argv[*i], &a->limit)) return usage("--limit takes a whole number, not", argv[*i]);
    return -1;
}

static int parse_args(args *a, int argc, char **argv)
{
    *a = (args){.limit = UINT64_MAX};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return EXIT_FINE;
        }
    if (argc < 2) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    a->verb = argv[1];
    if (strcmp(a->verb, "summary") != 0 && strcmp(a->verb, "events") != 0)
        return usage("what to do with the file? summary and events are known, not", a->verb);
    for (int i = 2; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            int rc = parse_option(a, argc, argv, &i);
            if (rc >= 0) return rc;
        } else if (a->file) {
            return usage("one file at a time; too many", argv[i]);
        } else {
            a->file = argv[i];
        }
    }
    return a->file ? -1 : usage("which file", "");
}

/* ---- output and progress ---- */

static void flush_out(session *s)
{
    size_t done = 0;
    while (done < s->out.n && !s->broken) {
        ssize_t n = write(STDOUT_FILENO, s->out.p + done, s->out.n - done);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno != EINTR) {
            s->broken = true;
            s->unwritten = errno == EPIPE ? 0 : errno;
        }
    }
    buf_reset(&s->out);
}

static int progress(void *arg, uint64_t done, uint64_t total)
{
    session *s = arg;
    int64_t now = mono_ns();
    if (total < PROGRESS_BYTES || now - s->told_at < PROGRESS_NS || !isatty(STDERR_FILENO) ||
        (s->shown && isatty(STDOUT_FILENO)))
        return 0;
    s->told_at = now;
    s->told = true;
    fprintf(stderr, "\rreading %s: %3d %%", s->a->file, (int)(100.0 * (double)done / (double)total));
    return 0;
}

static void clear_progress(const session *s)
{
    if (s->told) fprintf(stderr, "\r\033[K");
}

/* ---- what the reader tells ---- */

static int on_trace(void *arg, const nt_trace *t)
{
    session *s = arg;
    s->trace = *t;
    return 0;
}

static bool matches(const char *pattern, slice text)
{
    return !pattern || fnmatch(pattern, (const char *)text.p, FNM_CASEFOLD) == 0;
}

static int on_kind(void *arg, nt_kind *k)
{
    const session *s = arg;
    uint64_t id;
    bool by_id = s->a->event && parse_count(s->a->event, &id) && id == k->id;
    bool wanted = by_id || matches(s->a->event, k->display) || (k->name.n && matches(s->a->event, k->name));
    k->muted = !wanted || !matches(s->a->provider, k->provider);
    return 0;
}

static int on_event(void *arg, const nt_event *ev)
{
    session *s = arg;
    if (s->shown == s->a->limit) {
        s->full = true;
        return 1;
    }
    s->shown++;
    if (s->a->json) {
        jsonw w;
        jsonw_init(&w, &s->out);
        trace_event_json(&w, &s->trace, ev, nt_stack(s->r, ev), &s->scratch);
    } else {
        trace_event_text(&s->out, &s->trace, ev, &s->scratch);
    }
    buf_u8(&s->out, '\n');
    if (s->out.n >= FLUSH_BYTES) flush_out(s);
    return s->broken;
}

static int on_event_time(void *arg, const nt_event *ev)
{
    session *s = arg;
    if (!s->has_times || ev->ts < s->first_ts) s->first_ts = ev->ts;
    if (!s->has_times || ev->ts > s->last_ts) s->last_ts = ev->ts;
    s->has_times = true;
    return 0;
}

/* ---- summary ---- */

/* Several kinds (ids, versions) may share a name: a row is a name. */
typedef struct row {
    slice provider, event;
    uint64_t count;
} row;

static int slice_cmp(slice a, slice b)
{
    int c = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return c ? c : a.n < b.n ? -1 : a.n > b.n;
}

static int by_name(const void *a, const void *b)
{
    const row *x = a, *y = b;
    int c = slice_cmp(x->provider, y->provider);
    return c ? c : slice_cmp(x->event, y->event);
}

static int by_count(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return by_name(a, b);
}

/* Rows in order of name; kinds that never came are left out. Yours to free; NULL without memory. */
static row *make_rows(nt_reader *r, size_t *n_out)
{
    uint32_t kinds = nt_kind_count(r);
    row *rows = mem_calloc(kinds ? kinds : 1, sizeof *rows);
    size_t n = 0, merged = 0;
    if (!rows) return NULL;
    for (uint32_t i = 0; i < kinds; i++) {
        const nt_kind *k = nt_kind_at(r, i);
        if (k->count) rows[n++] = (row){k->provider, k->display, k->count};
    }
    qsort(rows, n, sizeof *rows, by_name);
    for (size_t i = 0; i < n; i++) {
        if (merged && by_name(&rows[merged - 1], &rows[i]) == 0)
            rows[merged - 1].count += rows[i].count;
        else
            rows[merged++] = rows[i];
    }
    *n_out = merged;
    return rows;
}

static void uint_member(jsonw *w, const char *key, uint64_t v)
{
    jsonw_key_lit(w, key);
    jsonw_uint(w, v);
}

static void head_json(jsonw *w, const session *s, buf *scratch)
{
    const nt_stats *st = nt_stats_of(s->r);
    uint_member(w, "total", st->events);
    uint_member(w, "bytes", st->bytes);
    if (s->trace.version == 0) return;
    uint_member(w, "formatVersion", (uint64_t)s->trace.version);
    if (s->trace.pid >= 0) uint_member(w, "processId", (uint64_t)s->trace.pid);
    if (s->trace.processors >= 0) uint_member(w, "processors", (uint64_t)s->trace.processors);
    uint_member(w, "pointerSize", s->trace.pointer_size);
    buf_reset(scratch);
    trace_time(scratch, s->trace.sync_unix_ns);
    jsonw_key_lit(w, "start");
    jsonw_str(w, buf_view(scratch));
    if (!s->has_times) return;
    jsonw_key_lit(w, "firstEventMs");
    jsonw_num(w, (double)nt_ns(&s->trace, s->first_ts) / 1e6);
    jsonw_key_lit(w, "lastEventMs");
    jsonw_num(w, (double)nt_ns(&s->trace, s->last_ts) / 1e6);
}

static void error_json(jsonw *w, const err *e)
{
    jsonw_key_lit(w, "error");
    jsonw_object(w);
    jsonw_key_lit(w, "kind");
    jsonw_cstr(w, err_kind_name(e->kind));
    jsonw_key_lit(w, "message");
    jsonw_cstr(w, e->message);
    if (e->has_offset) {
        jsonw_key_lit(w, "offset");
        jsonw_int(w, e->offset);
    }
    jsonw_end_object(w);
}

static void summary_json(session *s, const row *rows, size_t n, int rc, const err *e)
{
    const nt_stats *st = nt_stats_of(s->r);
    jsonw w;
    jsonw_init(&w, &s->out);
    jsonw_object(&w);
    jsonw_key_lit(&w, "events");
    jsonw_array(&w);
    for (size_t i = 0; i < n; i++) {
        jsonw_object(&w);
        jsonw_key_lit(&w, "provider");
        jsonw_str(&w, rows[i].provider);
        jsonw_key_lit(&w, "event");
        jsonw_str(&w, rows[i].event);
        uint_member(&w, "count", rows[i].count);
        jsonw_end_object(&w);
    }
    jsonw_end_array(&w);
    uint_member(&w, "lost", st->lost);
    jsonw_key_lit(&w, "incomplete");
    jsonw_bool(&w, rc < 0);
    head_json(&w, s, &s->scratch);
    if (st->unknown_kind) uint_member(&w, "unknownEvents", st->unknown_kind);
    if (rc < 0) error_json(&w, e);
    jsonw_end_object(&w);
    buf_u8(&s->out, '\n');
}

static void head_text(session *s, int rc)
{
    const nt_stats *st = nt_stats_of(s->r);
    buf *o = &s->out;
    buf_printf(o, "%s: ", s->a->file);
    trace_count(o, st->events);
    buf_str(o, " events in ");
    trace_bytes(o, st->bytes);
    if (s->has_times) {
        buf_str(o, " over ");
        trace_duration(o, nt_ns(&s->trace, s->last_ts) - nt_ns(&s->trace, s->first_ts));
    }
    buf_str(o, rc < 0 ? ", incomplete\n" : "\n");
    if (s->trace.version) {
        buf_str(o, "recorded ");
        trace_time(o, s->trace.sync_unix_ns);
        if (s->trace.pid >= 0) buf_printf(o, ", process %lld", (long long)s->trace.pid);
        if (s->trace.processors >= 0) buf_printf(o, ", %d processors", s->trace.processors);
        buf_printf(o, ", %u-bit\n", s->trace.pointer_size * 8);
    }
    buf_str(o, "lost: ");
    trace_count(o, st->lost);
    buf_str(o, st->lost ? " events (the buffer was full)\n" : "\n");
    if (st->unknown_kind)
        buf_printf(o, "%llu events were of kinds that the file does not describe\n",
                   (unsigned long long)st->unknown_kind);
}

static void summary_text(session *s, row *rows, size_t n, int rc)
{
    size_t provider = 8, event = 5;
    qsort(rows, n, sizeof *rows, by_count);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].provider.n > provider) provider = rows[i].provider.n;
        if (rows[i].event.n > event) event = rows[i].event.n;
    }
    head_text(s, rc);
    if (n) buf_printf(&s->out, "\n%-*s  %-*s  %12s\n", (int)provider, "PROVIDER", (int)event, "EVENT", "COUNT");
    for (size_t i = 0; i < n; i++) {
        buf_reset(&s->scratch);
        trace_count(&s->scratch, rows[i].count);
        buf_u8(&s->scratch, 0);
        buf_printf(&s->out, "%-*s  %-*s  %12s\n", (int)provider, (const char *)rows[i].provider.p, (int)event,
                   (const char *)rows[i].event.p, (const char *)s->scratch.p);
    }
}

static int show_summary(session *s, int rc, const err *e)
{
    size_t n = 0;
    row *rows = make_rows(s->r, &n);
    if (!rows) {
        fprintf(stderr, "lunette trace: no memory\n");
        return EXIT_FAILED;
    }
    if (s->a->json)
        summary_json(s, rows, n, rc, e);
    else
        summary_text(s, rows, n, rc);
    free(rows);
    return EXIT_FINE;
}

/* ---- the command ---- */

static int run(const args *a)
{
    bool summary = strcmp(a->verb, "summary") == 0;
    session s = {.a = a, .told_at = mono_ns()};
    nt_options o = nt_options_default();
    o.resolve = clr_resolve;
    o.stream_order = summary;
    o.no_stacks = summary;
    nt_sink sink = {.trace = on_trace, .kind = summary ? NULL : on_kind, .event = summary ? on_event_time : on_event};
    err e = {0};
    buf_init(&s.out, 0);
    buf_init(&s.scratch, 0);
    s.r = nt_new(&o, &sink, &s, &e);
    int rc = s.r ? nt_read_file(s.r, a->file, progress, &s, &e) : -(int)e.kind;
    clear_progress(&s);
    if (s.full || s.broken) rc = 0;
    bool readable = rc == 0 || (s.r && nt_trace_info(s.r));
    int code = EXIT_FINE;
    if (summary && readable) code = show_summary(&s, rc, &e);
    flush_out(&s);
    if (s.unwritten) {
        fprintf(stderr, "lunette trace: cannot write to standard output: %s\n", strerror(s.unwritten));
        code = EXIT_FAILED;
    }
    if (rc < 0) {
        fprintf(stderr, "lunette trace: %s: %s\n", a->file, e.message);
        if (*e.hint) fprintf(stderr, "%s\n", e.hint);
        if (rc != -ERR_TRUNCATED || !readable) code = EXIT_FAILED;
    }
    nt_free(s.r);
    buf_fini(&s.out);
    buf_fini(&s.scratch);
    return code;
}

int trace_main(int argc, char **argv)
{
    args a;
    int rc = parse_args(&a, argc, argv);
    return rc >= 0 ? rc : run(&a);
}
