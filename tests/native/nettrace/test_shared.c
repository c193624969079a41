/* SPDX-License-Identifier: MIT */
/* test_shared.c: recordings of real runtimes beside the project ($LUNETTE_SHARED, else ../shared): counts that another
 * parser made, the first event of each kind as TraceEvent printed it, and what must hold of every recording. Skipped
 * where they are not. */
#include <sys/stat.h>

#include "base/guid.h"
#include "base/json.h"
#include "check.h"
#include "clr/clr.h"

#define KINDS_MAX  256
#define VALUES_MAX 1024

/* One kind of event, as met in a file. */
typedef struct seen {
    const nt_kind *kind;
    uint64_t count, with_frames;
} seen;

typedef struct first {
    char name[256]; /* Provider/Event */
    uint64_t count;
    int64_t ns;
    uint64_t thread;
    const nt_schema *schema;
    buf payload;
} first;

typedef struct reading {
    nt_reader *r;
    nt_trace trace;
    seen seen[KINDS_MAX];
    first first[KINDS_MAX];
    size_t n_first;
    uint64_t events, not_whole, opaque;
    uint64_t hash;
    nt_value values[VALUES_MAX];
} reading;

static char shared[512];

static const char *path_of(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/data/nettrace/%s", shared, name);
    return path;
}

static slice load(const char *name)
{
    FILE *f = fopen(path_of(name), "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = malloc(n + 1);
    assert_int_equal(fread(p, 1, n, f), n);
    p[n] = 0;
    fclose(f);
    return slice_of(p, n);
}

static int on_trace(void *arg, const nt_trace *t)
{
    ((reading *)arg)->trace = *t;
    return 0;
}

static void note_first(reading *g, const nt_event *ev)
{
    char name[256];
    snprintf(name, sizeof name, "%s/%s", (const char *)ev->kind->provider.p, (const char *)ev->kind->display.p);
    for (size_t i = 0; i < g->n_first; i++)
        if (strcmp(g->first[i].name, name) == 0) {
            g->first[i].count++;
            return;
        }
    assert_true(g->n_first < KINDS_MAX);
    first *f = &g->first[g->n_first++];
    snprintf(f->name, sizeof f->name, "%s", name);
    f->count = 1;
    f->ns = nt_ns(&g->trace, ev->ts);
    f->thread = ev->thread;
    f->schema = ev->kind->schema;
    buf_init(&f->payload, 0);
    buf_slice(&f->payload, ev->payload);
}

static int on_event(void *arg, const nt_event *ev)
{
    reading *g = arg;
    const nt_kind *k = ev->kind;
    bool whole = true;
    slice stack = nt_stack(g->r, ev);
    assert_true(k->index < KINDS_MAX);
    g->seen[k->index].kind = k;
    g->seen[k->index].count++;
    g->seen[k->index].with_frames += stack.n > 0;
    g->events++;
    if (k->schema)
        nt_decode_whole(k->schema, ev->payload, g->values, &whole);
    else if (ev->payload.n)
        g->opaque++;
    if (!whole) print_error("%s %s v%u\n", (const char *)k->provider.p, (const char *)k->name.p, k->version);
    g->not_whole += !whole;
    g->hash = hash_u64(g->hash ^ hash_bytes(ev->payload, (uint64_t)ev->ts) ^ hash_bytes(stack, ev->thread)) + ev->seq;
    note_first(g, ev);
    return 0;
}

static reading *reading_new(const nt_options *o)
{
    err e = {0};
    reading *g = calloc(1, sizeof *g);
    nt_sink sink = {.trace = on_trace, .event = on_event};
    g->r = nt_new(o, &sink, g, &e);
    assert_non_null(g->r);
    return g;
}

static void reading_free(reading *g)
{
    for (size_t i = 0; i < g->n_first; i++)
        buf_fini(&g->first[i].payload);
    nt_free(g->r);
    free(g);
}

static nt_options options(void)
{
    nt_options o = nt_options_default();
    o.resolve = clr_resolve;
    return o;
}

/* Reads a whole file and checks what must hold of every one. */
static reading *read_file(const char *name)
{
    err e = {0};
    nt_options o = options();
    reading *g = reading_new(&o);
    int rc = nt_read_file(g->r, path_of(name), NULL, NULL, &e);
    if (rc < 0) print_error("%s: %s\n", name, e.message);
    assert_int_equal(rc, 0);
    const nt_stats *st = nt_stats_of(g->r);
    assert_int_equal(st->out_of_order, 0);
    assert_int_equal(st->sequence_breaks, 0);
    assert_int_equal(st->unknown_kind, 0);
    assert_int_equal(st->fields_dropped, 0);
    assert_int_equal(st->stacks_dropped, 0);
    assert_int_equal(st->forced_merges, 0);
    assert_int_equal(st->lost, 0);
    assert_int_equal(st->events, g->events);
    assert_int_equal(g->not_whole, 0); /* every event decodes to its last byte */
    assert_int_equal(g->opaque, 0);
    assert_true(st->memory_peak < (32u << 20));
    return g;
}

/* ---- live recordings ---- */

typedef struct counted {
    char provider[96];
    int64_t id, version, count, with_frames;
} counted;

static void check_count(const reading *g, const counted *c)
{
    for (size_t i = 0; i < KINDS_MAX; i++) {
        const seen *s = &g->seen[i];
        if (!s->kind || !slice_eq_str(s->kind->provider, c->provider) || s->kind->id != c->id ||
            s->kind->version != c->version)
            continue;
        assert_int_equal(s->count, c->count);
        assert_int_equal(s->with_frames, c->with_frames);
        return;
    }
    fail_msg("%s/%d v%d never came", c->provider, (int)c->id, (int)c->version);
}

static void read_counts(jsonr *j, const reading *g, size_t *n)
{
    assert_int_equal(jsonr_next(j), JSON_ARRAY);
    while (jsonr_next(j) == JSON_OBJECT) {
        counted c = {0};
        while (jsonr_next(j) == JSON_KEY) {
            bool provider = slice_eq_str(j->str, "provider");
            int64_t *number = slice_eq_str(j->str, "id")           ? &c.id
                              : slice_eq_str(j->str, "version")    ? &c.version
                              : slice_eq_str(j->str, "count")      ? &c.count
                              : slice_eq_str(j->str, "withFrames") ? &c.with_frames
                                                                   : NULL;
            if (provider) {
                assert_int_equal(jsonr_next(j), JSON_STR);
                snprintf(c.provider, sizeof c.provider, "%.*s", (int)j->str.n, (const char *)j->str.p);
            } else if (number) {
                assert_int_equal(jsonr_next(j), JSON_INT);
                *number = j->i;
            } else {
                assert_true(jsonr_skip(j));
            }
        }
        check_count(g, &c);
        ++*n;
    }
}

static void check_recording(jsonr *j, const char *name)
{
    reading *g = read_file(name);
    size_t rows = 0, kinds = 0;
    static const char *const numbers[] = {"metadata",  "events",     "lost",         "pointerSize",
                                          "processId", "processors", "qpcFrequency", "sequencePointBlocks"};
    const nt_stats *st = nt_stats_of(g->r);
    int64_t ours[] = {nt_kind_count(g->r), (int64_t)st->events, (int64_t)st->lost,  g->trace.pointer_size,
                      g->trace.pid,        g->trace.processors, g->trace.frequency, (int64_t)st->sequence_points};
    assert_int_equal(jsonr_next(j), JSON_OBJECT);
    while (jsonr_next(j) == JSON_KEY) {
        int at = -1;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            if (slice_eq_str(j->str, numbers[i])) at = (int)i;
        if (slice_eq_str(j->str, "counts")) {
            read_counts(j, g, &rows);
        } else if (at >= 0) {
            assert_int_equal(jsonr_next(j), JSON_INT);
            assert_int_equal(ours[at], j->i);
        } else {
            assert_true(jsonr_skip(j));
        }
    }
    for (size_t i = 0; i < KINDS_MAX; i++)
        kinds += g->seen[i].count != 0;
    assert_int_equal(rows, kinds);
    reading_free(g);
}

static void live_recordings_have_the_counts_of_another_parser(void **state)
{
    (void)state;
    slice text = load("live-recordings.json");
    jsonr j;
    size_t files = 0;
    jsonr_init(&j, text);
    assert_int_equal(jsonr_next(&j), JSON_OBJECT);
    while (jsonr_next(&j) == JSON_KEY) {
        if (!slice_eq_str(j.str, "files")) {
            assert_true(jsonr_skip(&j));
            continue;
        }
        assert_int_equal(jsonr_next(&j), JSON_OBJECT);
        while (jsonr_next(&j) == JSON_KEY) {
            char name[128];
            snprintf(name, sizeof name, "%.*s", (int)j.str.n, (const char *)j.str.p);
            check_recording(&j, name);
            files++;
        }
    }
    assert_int_equal(files, 6);
    jsonr_fini(&j);
    free((void *)(uintptr_t)text.p);
}

/* ---- baselines ---- */

/* The text of an attribute, unescaped; false: not there, or cut by the baseline's limit of 1,000 characters. */
static bool attribute(const char *xml, slice name, buf *out)
{
    char key[128];
    snprintf(key, sizeof key, " %.*s=", (int)name.n, (const char *)name.p);
    const char *p = strstr(xml, key);
    if (!p) return false;
    p += strlen(key);
    while (*p == ' ')
        p++;
    if (*p++ != '"') return false;
    const char *end = strchr(p, '"');
    if (!end) return false;
    static const struct {
        const char *from, *to;
    } entities[] = {{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}, {"&quot;", "\""}, {"&apos;", "'"}};
    buf_reset(out);
    while (p < end) {
        size_t k = 0;
        while (k < 5 && strncmp(p, entities[k].from, strlen(entities[k].from)) != 0)
            k++;
        if (k < 5) {
            buf_str(out, entities[k].to);
            p += strlen(entities[k].from);
        } else {
            buf_u8(out, (uint8_t)*p++);
        }
    }
    buf_u8(out, 0);
    out->n--;
    return true;
}

static bool parse_number(const char *s, int64_t *out)
{
    char digits[64];
    size_t n = 0;
    for (; *s && n + 1 < sizeof digits; s++)
        if (*s != ',') digits[n++] = *s;
    digits[n] = 0;
    char *end;
    *out = strncmp(digits, "0x", 2) == 0 ? (int64_t)strtoull(digits, &end, 16) : strtoll(digits, &end, 10);
    return n && *end == 0;
}

static void array_text(const nt_schema *s, slice payload, const nt_value *v, buf *out)
{
    nt_iter it, in;
    nt_value e;
    nt_iter_payload(&it, s, payload);
    nt_iter_into(&in, &it, v);
    buf_reset(out);
    buf_u8(out, '[');
    for (int i = 0; nt_iter_next(&in, &e); i++)
        buf_printf(out, "%s%lld", i ? "," : "", (long long)e.i);
    buf_str(out, "]");
}

/* Compares one field with what TraceEvent printed. False: it prints this one in a way of its own. */
static bool same_value(const first *f, const nt_value *v, const char *printed)
{
    char text[4096];
    int64_t number;
    buf b;
    buf_init(&b, 0);
    bool compared = true;
    if (v->type == NT_STR16) {
        assert_slice(slice_of(text, nt_utf8(v->raw, text, sizeof text)), slice_str(printed));
    } else if (v->type == NT_GUID) {
        guid_text(v->raw.p, text);
        assert_string_equal(text, printed);
    } else if (v->type == NT_ARRAY) {
        array_text(f->schema, buf_view(&f->payload), v, &b);
        assert_slice(buf_view(&b), slice_str(printed));
    } else if ((v->type == NT_INT || v->type == NT_UINT) && parse_number(printed, &number)) {
        assert_int_equal(v->i, number);
    } else if (v->field->enums && clr_enum_text(v->field->enums, v->u, &b)) {
        compared = slice_eq_str(buf_view(&b), printed);
    } else {
        compared = false;
    }
    buf_fini(&b);
    return compared;
}

static size_t check_first(const first *f, const char *xml)
{
    nt_value v[64];
    buf b;
    size_t same = 0;
    buf_init(&b, 0);
    uint32_t n = f->schema ? nt_decode(f->schema, buf_view(&f->payload), v) : 0;
    for (uint32_t i = 0; i < n; i++)
        if (attribute(xml, v[i].field->name, &b)) same += same_value(f, &v[i], (const char *)b.p);
    assert_true(attribute(xml, SLICE_LIT("MSec"), &b));
    char ms[64];
    snprintf(ms, sizeof ms, "%.4f", (double)f->ns / 1e6);
    assert_slice(slice_str(ms), slice_str((const char *)b.p + strspn((const char *)b.p, " ")));
    assert_true(attribute(xml, SLICE_LIT("TID"), &b));
    assert_int_equal(strtoull((const char *)b.p, NULL, 10), f->thread);
    buf_fini(&b);
    return same;
}

/* TraceLog, which made the baselines, takes the bookkeeping of methods out. */
static bool left_out(const char *name)
{
    static const char *const names[] = {"Microsoft-Windows-DotNETRuntimeRundown/Method/DCStopVerbose",
                                        "Microsoft-Windows-DotNETRuntimeRundown/Method/ILToNativeMapDCStop",
                                        "Microsoft-Windows-DotNETRuntime/Method/ILToNativeMap"};
    for (size_t i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static size_t check_baseline(const char *file, const char *baseline)
{
    reading *g = read_file(file);
    slice text = load(baseline);
    size_t lines = 0, same = 0, ours = 0;
    char *save = NULL;
    for (char *line = strtok_r((char *)(uintptr_t)text.p + (slice_starts(text, SLICE_LIT("\xEF\xBB\xBF")) ? 3 : 0),
                               "\r\n", &save);
         line; line = strtok_r(NULL, "\r\n", &save), lines++) {
        char *comma = strstr(line, ", "), *xml = strstr(line, "<Event");
        assert_non_null(comma);
        *comma = 0;
        size_t i = 0;
        while (i < g->n_first && strcmp(g->first[i].name, line) != 0)
            i++;
        if (i == g->n_first) fail_msg("%s is in the baseline only", line);
        assert_int_equal(g->first[i].count, strtoull(comma + 2, NULL, 10));
        same += check_first(&g->first[i], xml);
    }
    for (size_t i = 0; i < g->n_first; i++)
        ours += !left_out(g->first[i].name);
    assert_int_equal(ours, lines);
    reading_free(g);
    free((void *)(uintptr_t)text.p);
    return same;
}

static void counts_and_first_events_are_those_of_the_published_baselines(void **state)
{
    (void)state;
    assert_in_range(check_baseline("eventpipe-dotnetcore5.0-win-x64-arraytypes.nettrace.zip",
                                   "eventpipe-dotnetcore5.0-win-x64-arraytypes.nettrace.baseline.txt"),
                    45, 100);
    assert_in_range(check_baseline("eventpipe-dotnetcore6.0-win-x64-executioncheckpoints.nettrace.zip",
                                   "eventpipe-dotnetcore6.0-win-x64-executioncheckpoints.nettrace.baseline.txt"),
                    3, 3);
}

static void large_public_traces_have_their_known_counts(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        uint64_t events;
        uint32_t kinds;
        const char *kind;
        uint64_t count;
    } traces[] = {
        {"VoiceMemo.23092.nettrace.zip", 108450, 11, "Microsoft-DotNETCore-SampleProfiler/Thread/Sample", 947},
        {"only_managed_samples.nettrace.zip", 37603, 18, "Microsoft-DotNETCore-SampleProfiler/Thread/Sample", 7423}};
    for (size_t i = 0; i < 2; i++) {
        reading *g = read_file(traces[i].file);
        assert_int_equal(g->events, traces[i].events);
        assert_int_equal(nt_kind_count(g->r), traces[i].kinds);
        for (size_t k = 0; k < g->n_first; k++)
            if (strcmp(g->first[k].name, traces[i].kind) == 0) assert_int_equal(g->first[k].count, traces[i].count);
        reading_free(g);
    }
}

/* ---- pieces and cuts ---- */

static uint64_t read_pieces(slice bytes, size_t piece, bool whole, uint64_t *events)
{
    err e = {0};
    nt_options o = options();
    reading *g = reading_new(&o);
    int rc = 0;
    for (size_t at = 0; at < bytes.n && rc >= 0; at += piece)
        rc = nt_feed(g->r, bytes.p + at, piece < bytes.n - at ? piece : bytes.n - at, &e);
    assert_int_equal(rc, 0);
    assert_int_equal(nt_finish(g->r, &e), whole ? 0 : -ERR_TRUNCATED);
    uint64_t hash = g->hash;
    *events = g->events;
    reading_free(g);
    return hash;
}

static void real_recordings_read_the_same_in_pieces_and_cut_anywhere(void **state)
{
    (void)state;
    static const char *const files[] = {"live10-gc.nettrace", "live10-http-in-and-out.nettrace",
                                        "live8-gcdump.nettrace"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        slice bytes = load(files[i]);
        uint64_t events, cut_events;
        uint64_t hash = read_pieces(bytes, bytes.n, true, &events);
        for (size_t piece = 1; piece < bytes.n; piece = piece * 7 + 4) {
            assert_int_equal(read_pieces(bytes, piece, true, &cut_events), hash);
            assert_int_equal(cut_events, events);
        }
        for (size_t cut = 0; cut < bytes.n; cut += cut < 4096 ? 5 : 997) {
            read_pieces(slice_of(bytes.p, cut), bytes.n, false, &cut_events);
            assert_true(cut_events <= events);
        }
        free((void *)(uintptr_t)bytes.p);
    }
}

int main(void)
{
    const char *given = getenv("LUNETTE_SHARED");
    struct stat st;
    snprintf(shared, sizeof shared, "%s", given && *given ? given : LUNETTE_SOURCE_DIR "/../shared");
    if (stat(path_of("live-recordings.json"), &st) != 0) {
        printf("skipped: there are no shared recordings at %s (set LUNETTE_SHARED)\n", path_of(""));
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_recordings_have_the_counts_of_another_parser),
        cmocka_unit_test(counts_and_first_events_are_those_of_the_published_baselines),
        cmocka_unit_test(large_public_traces_have_their_known_counts),
        cmocka_unit_test(real_recordings_read_the_same_in_pieces_and_cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
