/* SPDX-License-Identifier: MIT */
/* fuzz_probe.c: the input is a program of reducers (lines of expressions) and, behind a NUL byte, events with whatever
 * payload. The engine must neither crash nor leave its memory cap, and its result must be well formed. */
#include <stdlib.h>

#include "clr/clr.h"
#include "probe/probe.h"
#include "probe/tlv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) abort();                                                                                          \
    } while (0)

#define LINES 6

typedef struct run {
    probe *p;
    nt_reader *r;
} run;

static int on_kind(void *arg, nt_kind *k)
{
    probe_use *use = calloc(1, sizeof *use); /* freed with the reader's kinds, at the end */
    REQUIRE(use);
    use->only = probe_bind(((run *)arg)->p, k);
    k->user = use;
    k->muted = !use->only;
    return 0;
}

static int on_event(void *arg, const nt_event *ev)
{
    probe_event(((run *)arg)->p, ((const probe_use *)ev->kind->user)->only, ((run *)arg)->r, ev);
    return 0;
}

static int on_run(void *arg, nt_run *some)
{
    static atomic_bool quiet;
    int64_t latest = 0;
    REQUIRE(!probe_events(((run *)arg)->p, ((run *)arg)->r, some, &quiet, &latest));
    return 0;
}

static bool well_formed(cursor *c, int depth)
{
    REQUIRE(depth < 200);
    switch (cursor_u8(c)) {
    case TLV_NIL:
    case TLV_FALSE:
    case TLV_TRUE: return true;
    case TLV_INT:
    case TLV_FLOAT: cursor_skip(c, 8); return cursor_ok(c);
    case TLV_TEXT: cursor_skip(c, cursor_u32(c)); return cursor_ok(c);
    case TLV_LIST:
    case TLV_TABLE:
        while (well_formed(c, depth + 1)) {
        }
        return cursor_ok(c);
    case TLV_END: return false;
    default: abort();
    }
}

static probe *program(char *line[LINES])
{
    static const probe_named events[] = {{"a", "Microsoft-Windows-DotNETRuntime/*"},
                                         {"b", "Microsoft-Windows-DotNETRuntime/#1"},
                                         {"a", "P/*"},
                                         {"b", "P/#2"}};
    static const char *const a[] = {"a"}, *const b[] = {"b"};
    const probe_named row[] = {{"x", line[0]}, {"y", line[1]}}, by[] = {{"k", line[2]}};
    const probe_spec leaves[] = {
        {.name = "n", .op = PROBE_COUNT, .where = line[3]},
        {.name = "sum", .op = PROBE_SUM, .expr = line[0]},
        {.name = "stats", .op = PROBE_STATS, .expr = line[1]},
        {.name = "q", .op = PROBE_QUANTILES, .expr = line[0]},
        {.name = "d", .op = PROBE_DISTINCT, .expr = line[1], .max = 8},
        {.name = "last", .op = PROBE_LAST, .n = 3, .row = {row, 2}},
        {.name = "top", .op = PROBE_TOP, .n = 3, .expr = line[0], .row = {row, 2}},
        {.name = "value", .op = PROBE_VALUE, .expr = line[1]},
    };
    const probe_spec keep[] = {
        {.name = "g",
         .op = PROBE_GROUP,
         .by = {by, 1},
         .weight = line[0],
         .max = 16,
         .top = 4,
         .depth = 1,
         .keep = leaves,
         .n_keep = 8},
        {.name = "p",
         .op = PROBE_PAIR,
         .start = {a, 1},
         .stop = {b, 1},
         .by = {by, 1},
         .nested = true,
         .open = true,
         .row = {row, 2},
         .where = line[4],
         .keep = leaves,
         .n_keep = 8},
        {.name = "t", .op = PROBE_TIMELINE, .every_ns = 1000, .max = 8, .on = {b, 1}, .keep = leaves, .n_keep = 8},
        {.name = "first", .op = PROBE_FIRST, .n = 2, .row = {row, 2}},
    };
    const probe_named let[] = {{"l", line[5]}};
    const probe_program g = {.events = events,
                             .n_events = 4,
                             .let = {let, line[5] ? 1 : 0},
                             .keep = keep,
                             .n_keep = 4,
                             .memory_max = (size_t)256 << 10};
    err e = {0};
    probe *p = probe_new(&g, &e);
    REQUIRE(p || e.kind == ERR_INVALID_ARGUMENT || e.kind == ERR_NO_MEMORY);
    return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    char *text = slice_dup(slice_of(data, nul ? (size_t)(nul - data) : size)), *at = text, *line[LINES];
    static char id[] = "@id";
    for (int i = 0; i < LINES; i++) {
        char *end = strchr(at, '\n');
        line[i] = *at && *at != '\n' ? at : i < 3 ? id : NULL;
        if (end) *end = 0;
        at = end ? end + 1 : at + strlen(at);
    }
    run r = {.p = program(line)};
    if (r.p) {
        err e = {0};
        nt_options o = nt_options_default();
        o.resolve = clr_resolve;
        r.r = nt_new(&o, &(nt_sink){.kind = on_kind, .event = on_event, .run = on_run}, &r, &e);
        REQUIRE(r.r);
        if (nul) (void)nt_feed(r.r, nul + 1, size - (size_t)(nul + 1 - data), &e);
        (void)nt_finish(r.r, &e);
        REQUIRE(probe_memory(r.p) <= (size_t)(256 << 10));
        buf out = {0};
        buf_init(&out, 0);
        size_t before = probe_memory(r.p);
        if (probe_result(r.p, NULL, &out)) {
            cursor c = cursor_of(buf_view(&out), 0);
            REQUIRE(well_formed(&c, 0) && cursor_left(&c) == 0);
        }
        REQUIRE(probe_memory(r.p) == before);
        buf_fini(&out);
        for (uint32_t i = 0; i < nt_kind_count(r.r); i++)
            free(nt_kind_at(r.r, i)->user);
        nt_free(r.r);
        probe_free(r.p);
    }
    free(text);
    return 0;
}
