/* SPDX-License-Identifier: MIT */
/* fuzz_nettrace.c: any bytes as a trace: no crash, memory within the limits, every field of every event decoded inside
 * its payload, and the same events and the same error whether the bytes come at once or in pieces. The first byte
 * chooses how the reader is set up. */
#include <stdlib.h>

#include "clr/clr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) abort();                                                                                          \
    } while (0)

#define VALUES_MAX 1024

enum { IN_STREAM_ORDER = 1, WITHOUT_STACKS = 2, SMALL_LIMITS = 4, WITH_MANIFEST = 8 };

typedef struct listener {
    nt_reader *r;
    uint64_t hash, events, lost;
    nt_value values[VALUES_MAX];
} listener;

static void add(listener *l, uint64_t v) { l->hash = hash_u64(l->hash ^ v) + l->hash * 31; }

static bool inside(slice part, slice whole)
{
    return part.n == 0 || (part.p >= whole.p && part.n <= whole.n && (size_t)(part.p - whole.p) <= whole.n - part.n);
}

static void take_value(listener *l, const nt_value *v, slice payload)
{
    char text[64];
    add(l, v->type);
    if (v->bad) return;
    if (v->type <= NT_FILETIME) add(l, v->u);
    if (v->type < NT_GUID) return;
    REQUIRE(inside(v->raw, payload));
    add(l, hash_bytes(v->raw, 1));
    if (v->type == NT_STR16) add(l, nt_utf8(v->raw, text, sizeof text));
}

static void walk(listener *l, nt_iter *it, slice payload, unsigned depth)
{
    nt_value v;
    uint32_t left = 4096;
    REQUIRE(depth < 40);
    while (left-- && nt_iter_next(it, &v)) {
        nt_iter in;
        take_value(l, &v, payload);
        nt_iter_into(&in, it, &v);
        walk(l, &in, payload, depth + 1);
    }
}

static void take_payload(listener *l, const nt_event *ev)
{
    const nt_schema *s = ev->kind->schema;
    if (!s || s->n_flat > VALUES_MAX) return;
    uint32_t n = nt_decode(s, ev->payload, l->values);
    for (uint32_t i = 0; i < n; i++) {
        nt_value one;
        take_value(l, &l->values[i], ev->payload);
        if (i % 7 == 0) { /* one field for itself is the same as among all */
            REQUIRE(nt_get(s, ev->payload, i, &one));
            REQUIRE(one.type == l->values[i].type && one.bad == l->values[i].bad);
            if (one.type <= NT_FILETIME && !one.bad) REQUIRE(one.u == l->values[i].u);
        }
    }
    nt_iter it;
    nt_iter_payload(&it, s, ev->payload);
    walk(l, &it, ev->payload, 0);
}

static int on_event(void *arg, const nt_event *ev)
{
    listener *l = arg;
    l->events++;
    add(l, ev->kind->index);
    add(l, (uint64_t)ev->ts);
    add(l, ev->thread);
    add(l, ev->capture_thread);
    add(l, ev->seq);
    add(l, hash_bytes(ev->payload, 2));
    add(l, hash_bytes(nt_stack(l->r, ev), 3));
    if (ev->activity) add(l, hash_bytes(slice_of(ev->activity, 16), 4));
    nt_labels labels;
    nt_label label;
    size_t at = 0;
    if (nt_labels_of(l->r, ev, &labels))
        while (nt_label_next(&labels, &at, &label))
            add(l, hash_bytes(label.key, 5));
    take_payload(l, ev);
    return 0;
}

static int on_lost(void *arg, uint64_t thread, uint64_t n)
{
    listener *l = arg;
    l->lost += n;
    add(l, thread);
    return 0;
}

static nt_options options_of(uint8_t how)
{
    nt_options o = nt_options_default();
    o.stream_order = how & IN_STREAM_ORDER;
    o.no_stacks = how & WITHOUT_STACKS;
    if (how & WITH_MANIFEST) o.resolve = clr_resolve;
    if (!(how & SMALL_LIMITS)) return o;
    o.limits = (nt_limits){.block_bytes = 65536,
                           .name_bytes = 64,
                           .kinds = 4,
                           .kind_bytes = 65536,
                           .fields_per_kind = 8,
                           .field_depth = 3,
                           .stack_bytes = 64,
                           .stacks = 8,
                           .stacks_bytes = 512,
                           .label_lists = 4,
                           .label_bytes = 256,
                           .threads = 2,
                           .indexed_threads = 3,
                           .queue_bytes = 16384};
    return o;
}

/* What a reader may hold by its limits, and what its tables and free lists come to besides. */
static size_t memory_allowed(const nt_limits *l)
{
    return l->kind_bytes + l->stacks_bytes * 2 + l->label_bytes * 2 + l->queue_bytes + (size_t)4 * l->block_bytes +
           ((size_t)10 << 20);
}

static int read_all(listener *l, const nt_options *o, slice bytes, size_t piece, err *e)
{
    static const nt_sink sink = {.event = on_event, .lost = on_lost};
    *l = (listener){.hash = 1};
    l->r = nt_new(o, &sink, l, e);
    REQUIRE(l->r);
    int rc = 0;
    for (size_t at = 0; at < bytes.n && rc >= 0; at += piece)
        rc = nt_feed(l->r, bytes.p + at, piece < bytes.n - at ? piece : bytes.n - at, e);
    if (rc >= 0) rc = nt_finish(l->r, e);
    const nt_stats *st = nt_stats_of(l->r);
    REQUIRE(st->lost == l->lost);
    REQUIRE(st->events == l->events || rc == -ERR_NO_MEMORY);
    REQUIRE(st->memory_peak <= memory_allowed(&o->limits));
    REQUIRE(rc == 0 || (e->kind != ERR_NONE && e->has_offset && e->offset >= 0 && (uint64_t)e->offset <= bytes.n));
    nt_free(l->r);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static listener whole, pieces;
    if (size == 0) return 0;
    nt_options o = options_of(data[0]);
    size_t piece = 1 + data[0] / 16;
    slice bytes = slice_of(data + 1, size - 1);
    err e = {0}, e2 = {0};
    int rc = read_all(&whole, &o, bytes, bytes.n ? bytes.n : 1, &e);
    REQUIRE(read_all(&pieces, &o, bytes, piece, &e2) == rc);
    REQUIRE(whole.hash == pieces.hash && whole.events == pieces.events);
    REQUIRE(strcmp(e.message, e2.message) == 0);
    return 0;
}
