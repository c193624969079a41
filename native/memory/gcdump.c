/* SPDX-License-Identifier: MIT */
/* gcdump.c: the events of an induced collection into an object graph. The runtime lists objects with the number of
 * their references in one sort of events and the references in another, both in the order of objects; names of types
 * and modules come whenever they come. */
#include "memory/gcdump.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/utf.h"

#define RUNTIME "Microsoft-Windows-DotNETRuntime"
#define RUNDOWN "Microsoft-Windows-DotNETRuntimeRundown"

#define TEXTS_MAX_BYTES ((size_t)128 << 20)
#define TYPES_MAX       GRAPH_MAX_TYPES
#define NAME_UNITS_MAX  32768

typedef enum use {
    USE_NONE,
    USE_GC_START,
    USE_GC_END,
    USE_HEAP_STATS,
    USE_DYNAMIC,
    USE_TYPES,
    USE_NODES,
    USE_EDGES,
    USE_ROOTS,
    USE_STATICS,
    USE_WEAK_TABLE,
    USE_MODULE,
    USE_DOMAIN_MODULE,
} use;

typedef struct type_row {
    uint64_t id, module;
    uint32_t name, token; /* in texts */
    unsigned flags;
} type_row;

typedef struct static_row {
    uint64_t slot, object, type;
    uint32_t field; /* in texts */
    bool thread;
} static_row;

struct gcdump {
    nt_tap tap;
    atomic_int refs;
    atomic_bool started, stopped, ended;
    atomic_uint objects;
    atomic_ullong bytes;
    graph_limits lim;
    graph_builder *b;
    bool inside; /* between the beginning and the end of the collection */
    uint32_t gc; /* its number */
    int64_t began_ticks;
    uint32_t next_node, next_edge, next_root; /* Index of the event that should come next */
    gcdump_quality q;
    type_row *types;
    static_row *statics;
    uint32_t n_types, cap_types, n_statics, cap_statics, dropped;
    map64 modules; /* id -> text */
    strtab *texts;
    buf scratch;
    unsigned pointer; /* bytes */
    bool have_trace;
    nt_trace trace;
};

/* ---- texts ------------------------------------------------------------------------------------------------------- */

size_t gcdump_type_name(slice name, char *out, size_t cap)
{
    size_t n = 0, open = SIZE_MAX; /* where the last '<' stands while only commas follow it */
    for (size_t i = 0; i < name.n && n < cap; i++) {
        char c = (char)name.p[i];
        if (c == '`') {
            while (i + 1 < name.n && name.p[i + 1] >= '0' && name.p[i + 1] <= '9')
                i++;
            continue;
        }
        if (c == '[') {
            open = n;
            c = '<';
        } else if (c == ']') {
            c = '>';
            if (open != SIZE_MAX) { /* nothing or commas in between: an array */
                out[open] = '[';
                c = ']';
            }
            open = SIZE_MAX;
        } else if (c != ',' && c != '*') {
            open = SIZE_MAX;
        }
        out[n++] = c;
    }
    return n;
}

/* The id in texts; 0 when there is no room. */
static uint32_t text(gcdump *d, slice utf16)
{
    buf_reset(&d->scratch);
    if (!utf16le_to_utf8(utf16, &d->scratch)) return 0;
    uint32_t id = strtab_intern(d->texts, buf_view(&d->scratch));
    return id == STRTAB_FULL ? 0 : id;
}

static uint32_t type_text(gcdump *d, slice utf16)
{
    buf_reset(&d->scratch);
    if (!utf16le_to_utf8(utf16, &d->scratch)) return 0;
    size_t n = gcdump_type_name(buf_view(&d->scratch), (char *)d->scratch.p, d->scratch.n);
    uint32_t id = strtab_intern(d->texts, slice_of(d->scratch.p, n));
    return id == STRTAB_FULL ? 0 : id;
}

static bool grow(void **p, uint32_t n, uint32_t *cap, uint32_t max, size_t item)
{
    if (n < *cap) return true;
    uint32_t next = *cap ? *cap * 2 : 256;
    if (n >= max) return false;
    void *q = mem_realloc(*p, next * item);
    if (!q) return false;
    *p = q;
    *cap = next;
    return true;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static uint64_t address(gcdump *d, cursor *c) { return d->pointer == 4 ? cursor_u32(c) : cursor_u64(c); }

static void gc_start(gcdump *d, cursor *c, const nt_event *ev)
{
    uint32_t count = cursor_u32(c), depth = cursor_u32(c), reason = cursor_u32(c), type = cursor_u32(c);
    if (!cursor_ok(c) || atomic_load(&d->stopped)) return;
    if (depth < 2 || type != 0 || reason != 1 || d->inside) { /* not whole, in the background, not asked for */
        d->q.other_gcs++;
        return;
    }
    d->inside = d->q.gc_started = true;
    d->gc = count;
    d->began_ticks = ev->ts;
    atomic_store(&d->started, true);
}

static void gc_end(gcdump *d, cursor *c, const nt_event *ev)
{
    uint32_t count = cursor_u32(c);
    graph_building so_far;
    if (!cursor_ok(c) || !d->inside || count != d->gc) return;
    d->inside = false;
    graph_builder_progress(d->b, &so_far);
    if (so_far.nodes == 0) { /* somebody's GC.Collect() */
        d->q.other_gcs++;
        return;
    }
    d->q.gc_stopped = true;
    if (d->have_trace) d->q.gc_ns = nt_ns(&d->trace, ev->ts) - nt_ns(&d->trace, d->began_ticks);
    atomic_store(&d->stopped, true);
}

/* Comes inside the collection, just before its end, or behind it. */
static void heap_stats(gcdump *d, cursor *c)
{
    uint64_t v[5] = {0};
    if (!d->q.gc_started || d->q.has_sizes) return;
    for (int i = 0; i < 4; i++) {
        v[i] = cursor_u64(c);
        cursor_skip(c, 8);
    }
    if (!cursor_ok(c)) return;
    cursor_skip(c, 16 + 12 + 2);
    uint64_t pinned = cursor_u64(c);
    if (cursor_ok(c)) v[4] = pinned;
    memcpy(d->q.generation, v, sizeof v);
    d->q.has_sizes = true;
}

/* "CommittedUsage": u16 version, u64 in use, … */
static void dynamic(gcdump *d, cursor *c)
{
    static const uint8_t name[] = "C\0o\0m\0m\0i\0t\0t\0e\0d\0U\0s\0a\0g\0e";
    slice is = cursor_utf16z(c, 64);
    if (!d->q.gc_started || !cursor_ok(c) || !slice_eq(is, slice_of(name, sizeof name))) return;
    cursor_skip(c, 4 + 2);
    uint64_t in_use = cursor_u64(c);
    if (cursor_ok(c)) d->q.committed = in_use;
}

static void types(gcdump *d, cursor *c)
{
    uint32_t n = cursor_u32(c);
    cursor_skip(c, 2);
    for (uint32_t i = 0; i < n && cursor_ok(c); i++) {
        type_row t = {.id = cursor_u64(c), .module = cursor_u64(c), .token = cursor_u32(c), .flags = cursor_u32(c)};
        cursor_skip(c, 1);
        slice name = cursor_utf16z(c, NAME_UNITS_MAX);
        uint32_t n_params = cursor_u32(c);
        cursor_skip(c, (size_t)n_params * 8);
        if (!cursor_ok(c)) return;
        t.name = type_text(d, name);
        if (grow((void **)&d->types, d->n_types, &d->cap_types, TYPES_MAX, sizeof *d->types))
            d->types[d->n_types++] = t;
        else
            d->dropped++;
    }
}

/* Events of one sort count themselves from 0. */
static void count_gap(gcdump *d, uint32_t index, uint32_t *next)
{
    if (index != *next) d->q.gaps += index > *next ? index - *next : 1;
    *next = index + 1;
}

static void nodes(gcdump *d, cursor *c)
{
    uint32_t index = cursor_u32(c), n = cursor_u32(c);
    cursor_skip(c, 2);
    if (!cursor_ok(c)) return;
    count_gap(d, index, &d->next_node);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = address(d, c), size = cursor_u64(c), type = cursor_u64(c), edges = cursor_u64(c);
        if (!cursor_ok(c)) return;
        (void)graph_builder_counted_node(d->b, at, graph_builder_type(d->b, type), size,
                                         edges < UINT32_MAX ? (uint32_t)edges : UINT32_MAX);
    }
    graph_building so_far;
    graph_builder_progress(d->b, &so_far);
    atomic_store_explicit(&d->objects, so_far.nodes, memory_order_relaxed);
    atomic_store_explicit(&d->bytes, so_far.bytes, memory_order_relaxed);
}

static void edges(gcdump *d, cursor *c)
{
    uint32_t index = cursor_u32(c), n = cursor_u32(c);
    cursor_skip(c, 2);
    if (!cursor_ok(c)) return;
    count_gap(d, index, &d->next_edge);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t to = address(d, c);
        cursor_skip(c, 4);
        if (!cursor_ok(c)) return;
        (void)graph_builder_target(d->b, to);
    }
}

static graph_root_kind kind_of(uint8_t kind, uint32_t flags)
{
    switch (kind) {
    case 0: return GRAPH_ROOT_STACK;
    case 1: return GRAPH_ROOT_FINALIZER_QUEUE;
    case 2:
        return flags & 8   ? GRAPH_ROOT_REF_COUNTED_HANDLE
               : flags & 1 ? GRAPH_ROOT_PINNED_HANDLE
                           : GRAPH_ROOT_STRONG_HANDLE;
    case 3: return GRAPH_ROOT_OLDER_GENERATION;
    case 4: return GRAPH_ROOT_SIZED_REF_HANDLE;
    default: return GRAPH_ROOT_OTHER;
    }
}

static void roots(gcdump *d, cursor *c)
{
    uint32_t index = cursor_u32(c), n = cursor_u32(c);
    cursor_skip(c, 2);
    if (!cursor_ok(c)) return;
    count_gap(d, index, &d->next_root);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t to = address(d, c);
        uint8_t kind = cursor_u8(c);
        uint32_t flags = cursor_u32(c);
        uint64_t slot = address(d, c);
        if (!cursor_ok(c)) return;
        if (flags & 2) continue; /* weak: keeps nothing */
        unsigned is = (flags & 1 ? GRAPH_PINNED : 0u) | (flags & 4 ? GRAPH_INTERIOR : 0u);
        (void)graph_builder_root(d->b, kind_of(kind, flags), is, slot, to, slice_str(""));
    }
}

static void statics(gcdump *d, cursor *c)
{
    uint32_t n = cursor_u32(c);
    cursor_skip(c, 8 + 2);
    for (uint32_t i = 0; i < n && cursor_ok(c); i++) {
        static_row s = {.slot = cursor_u64(c), .object = cursor_u64(c), .type = cursor_u64(c)};
        s.thread = cursor_u32(c) & 1;
        slice field = cursor_utf16z(c, NAME_UNITS_MAX);
        if (!cursor_ok(c)) return;
        s.field = text(d, field);
        if (grow((void **)&d->statics, d->n_statics, &d->cap_statics, GCDUMP_MAX_STATICS, sizeof *d->statics))
            d->statics[d->n_statics++] = s;
        else
            d->dropped++;
    }
}

static void weak_table(gcdump *d, cursor *c)
{
    cursor_skip(c, 4);
    uint32_t n = cursor_u32(c);
    cursor_skip(c, 2);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t key = address(d, c), value = address(d, c);
        cursor_skip(c, d->pointer);
        if (!cursor_ok(c)) return;
        (void)graph_builder_dependent(d->b, key, value);
    }
}

static void module(gcdump *d, cursor *c, bool of_domain)
{
    uint64_t id = cursor_u64(c);
    cursor_skip(c, of_domain ? 8 + 8 + 8 : 8 + 8);
    slice path = cursor_utf16z(c, NAME_UNITS_MAX);
    uint64_t known;
    if (!cursor_ok(c) || path.n == 0 || map64_get(&d->modules, id, &known)) return;
    (void)map64_put(&d->modules, id, text(d, path));
}

/* ---- the tap ----------------------------------------------------------------------------------------------------- */

static gcdump *of_tap(nt_tap *t) { return (gcdump *)t; }
static void tap_ref(nt_tap *t) { (void)gcdump_ref(of_tap(t)); }
static void tap_unref(nt_tap *t) { gcdump_unref(of_tap(t)); }

static use use_of(const nt_kind *k)
{
    bool rundown = slice_eq_str(k->provider, RUNDOWN);
    if (!rundown && !slice_eq_str(k->provider, RUNTIME)) return USE_NONE;
    switch (k->id) {
    case 151: return USE_DOMAIN_MODULE;
    case 152: return rundown ? USE_DOMAIN_MODULE : USE_MODULE;
    case 153:
    case 154: return rundown ? USE_MODULE : USE_NONE;
    default: break;
    }
    if (rundown) return USE_NONE;
    switch (k->id) {
    case 1: return USE_GC_START;
    case 2: return USE_GC_END;
    case 4: return USE_HEAP_STATS;
    case 15: return USE_TYPES;
    case 16: return USE_ROOTS;
    case 17: return USE_WEAK_TABLE;
    case 18: return USE_NODES;
    case 19: return USE_EDGES;
    case 38: return USE_STATICS;
    case 39: return USE_DYNAMIC;
    default: return USE_NONE;
    }
}

static void *tap_kind(nt_tap *t, nt_kind *k)
{
    (void)t;
    return (void *)(uintptr_t)use_of(k);
}

static void take(gcdump *d, use u, cursor *c, const nt_event *ev)
{
    switch (u) {
    case USE_GC_START: gc_start(d, c, ev); return;
    case USE_GC_END: gc_end(d, c, ev); return;
    case USE_HEAP_STATS: heap_stats(d, c); return;
    case USE_DYNAMIC: dynamic(d, c); return;
    case USE_TYPES: types(d, c); return;
    case USE_MODULE: module(d, c, false); return;
    case USE_DOMAIN_MODULE: module(d, c, true); return;
    case USE_NONE: return;
    case USE_NODES:
    case USE_EDGES:
    case USE_ROOTS:
    case USE_STATICS:
    case USE_WEAK_TABLE: break;
    }
    if (!d->inside) return;
    if (u == USE_NODES) nodes(d, c);
    if (u == USE_EDGES) edges(d, c);
    if (u == USE_ROOTS) roots(d, c);
    if (u == USE_STATICS) statics(d, c);
    if (u == USE_WEAK_TABLE) weak_table(d, c);
}

static void tap_event(nt_tap *t, void *what, const nt_reader *r, const nt_event *ev)
{
    gcdump *d = of_tap(t);
    cursor c = cursor_of(ev->payload, 0);
    if (!d->have_trace && nt_trace_info(r)) {
        d->trace = *nt_trace_info(r);
        d->have_trace = true;
        d->pointer = d->trace.pointer_size == 4 ? 4 : 8;
    }
    take(d, (use)(uintptr_t)what, &c, ev);
    if (!cursor_ok(&c)) d->q.bad++;
}

static void tap_end(nt_tap *t, const nt_reader *r)
{
    (void)r;
    atomic_store(&of_tap(t)->ended, true);
}

static const nt_tap_ops tap_ops = {
    .kind = tap_kind, .event = tap_event, .end = tap_end, .ref = tap_ref, .unref = tap_unref};

gcdump *gcdump_new(const graph_limits *lim, err *e)
{
    gcdump *d = mem_calloc(1, sizeof *d);
    if (!d) {
        (void)err_set(e, ERR_NO_MEMORY, "no memory for a heap snapshot");
        return NULL;
    }
    atomic_init(&d->refs, 1);
    d->tap.ops = &tap_ops;
    d->pointer = 8;
    d->q.gc_ns = -1;
    d->b = graph_builder_new(lim, e);
    d->texts = d->b ? strtab_new(0, TEXTS_MAX_BYTES) : NULL;
    if (d->texts && strtab_intern(d->texts, slice_str("")) == 0) return d;
    gcdump_unref(d);
    (void)err_set(e, ERR_NO_MEMORY, "no memory for a heap snapshot");
    return NULL;
}

gcdump *gcdump_ref(gcdump *d)
{
    atomic_fetch_add(&d->refs, 1);
    return d;
}

void gcdump_unref(gcdump *d)
{
    if (!d || atomic_fetch_sub(&d->refs, 1) != 1) return;
    graph_builder_free(d->b);
    free(d->types);
    free(d->statics);
    map64_fini(&d->modules);
    strtab_free(d->texts);
    buf_fini(&d->scratch);
    free(d);
}

nt_tap *gcdump_tap(gcdump *d) { return &d->tap; }

void gcdump_progress_of(const gcdump *d, gcdump_progress *out)
{
    *out = (gcdump_progress){.started = atomic_load(&d->started),
                             .stopped = atomic_load(&d->stopped),
                             .ended = atomic_load(&d->ended),
                             .objects = atomic_load(&d->objects),
                             .bytes = atomic_load(&d->bytes)};
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static slice file_name(slice path)
{
    for (size_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/' || path.p[i - 1] == '\\') return slice_of(path.p + i, path.n - i);
    return path;
}

/* A type whose name is empty still has its token. */
static slice name_of(const gcdump *d, const type_row *t, char out[64])
{
    slice name = strtab_get(d->texts, t->name);
    if (name.n) return name;
    int n = snprintf(out, 64, "%s(0x%x)", t->flags & 8 ? "ArrayType" : "Type", t->token);
    return slice_of(out, (size_t)n);
}

static void describe(gcdump *d)
{
    char made[64];
    for (uint32_t i = 0; i < d->n_types; i++) {
        const type_row *t = &d->types[i];
        uint64_t path = 0;
        (void)map64_get(&d->modules, t->module, &path);
        slice name = name_of(d, t, made), file = strtab_get(d->texts, (uint32_t)path);
        unsigned flags = (t->flags & 8 ? GRAPH_TYPE_ARRAY : 0u) | (t->flags & 1 ? GRAPH_TYPE_DELEGATE : 0u) |
                         (slice_eq_str(name, "System.String") ? GRAPH_TYPE_STRING : 0u);
        const graph_type_text say = {
            .name = name, .module_name = file_name(file), .module_path = file, .token = t->token, .flags = flags};
        uint32_t type = graph_builder_type(d->b, t->id);
        if (type != GRAPH_NONE) (void)graph_builder_describe(d->b, type, &say);
        if (strtab_get(d->texts, t->name).n == 0) d->q.no_name++;
    }
}

static bool add_statics(gcdump *d)
{
    map64 by_id = {0};
    buf name = {0};
    bool fine = true;
    for (uint32_t i = 0; fine && i < d->n_types; i++)
        fine = map64_put(&by_id, d->types[i].id, d->types[i].name);
    for (uint32_t i = 0; fine && i < d->n_statics; i++) {
        const static_row *s = &d->statics[i];
        uint64_t type = 0;
        buf_reset(&name);
        if (map64_get(&by_id, s->type, &type))
            (void)buf_slice(&name, strtab_get(d->texts, (uint32_t)type));
        else
            (void)buf_printf(&name, "Type(0x%llx)", (unsigned long long)s->type);
        (void)buf_u8(&name, '.');
        (void)buf_slice(&name, strtab_get(d->texts, s->field));
        (void)graph_builder_root(d->b, s->thread ? GRAPH_ROOT_THREAD_STATIC : GRAPH_ROOT_STATIC, 0, s->slot, s->object,
                                 buf_view(&name));
    }
    map64_fini(&by_id);
    buf_fini(&name);
    return fine;
}

static int check(const gcdump *d, err *e)
{
    graph_building so_far;
    graph_builder_progress(d->b, &so_far);
    if (!d->q.gc_started) {
        (void)err_set(e, ERR_NOT_FOUND, "the stream holds no collection that was asked for");
        err_hint(e, "it needs the keywords 0x1980001 of " RUNTIME " at level 5");
        return -ERR_NOT_FOUND;
    }
    if (so_far.nodes) return 0;
    (void)err_set(e, ERR_NOT_FOUND, "the collection told of no objects%s",
                  d->q.gc_stopped || !d->inside ? "" : ": the stream ended before it did");
    err_hint(e, "another tool may hold a session with the same keywords on this process: end it and try again");
    return -ERR_NOT_FOUND;
}

graph *gcdump_graph(gcdump *d, gcdump_quality *q, err *e)
{
    if (check(d, e) < 0) return NULL;
    describe(d);
    if (!add_statics(d)) {
        (void)err_set(e, ERR_NO_MEMORY, "no memory for the names of statics");
        return NULL;
    }
    if (d->q.gaps) graph_builder_forget_targets(d->b);
    graph *g = graph_seal(d->b, e);
    *q = d->q;
    if (g) q->no_name += graph_info_of(g)->unnamed_types;
    return g;
}
