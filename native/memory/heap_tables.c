/* SPDX-License-Identifier: MIT */
/* heap_tables.c: handles, the finalizer queue, static fields and segments, as rows. */
#include <math.h>

#include "memory/heap_details_own.h"

#define HANDLE_KINDS    12u
#define TYPES_OF_HANDLE 5u
#define SEGMENTS_SHOWN  4096u

/* ---- objects by type --------------------------------------------------------------------------------------------- */

typedef struct tally {
    uint64_t mt, count, bytes, ready;
} tally;

typedef struct tallies {
    tally *v;
    size_t n, cap;
    map64 at;
} tallies;

double heap__percent(uint64_t part, uint64_t whole)
{
    return whole ? round((double)part * 10000 / (double)whole) / 100 : 0;
}

static tally *tally_of(heap *h, tallies *t, uint64_t object)
{
    uint64_t mt = heap_word(h, object) & ~UINT64_C(7), at;
    if (!heap_region_of(h, object)) return NULL;
    if (!map64_get(&t->at, mt, &at)) {
        if (!HEAP_ROOM(t->v, t->n, t->cap, HEAP_TYPES_MAX) || !map64_put(&t->at, mt, t->n)) return NULL;
        at = t->n++;
        t->v[at] = (tally){.mt = mt};
    }
    if (!t->v) return NULL;
    t->v[at].count++;
    t->v[at].bytes += heap_size_of_object(h, object);
    return &t->v[at];
}

static void tallies_fini(tallies *t)
{
    free(t->v);
    map64_fini(&t->at);
}

static int by_bytes(const void *a, const void *b)
{
    const tally *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return x->mt < y->mt ? -1 : x->mt > y->mt;
}

static int by_count(const void *a, const void *b)
{
    const tally *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : by_bytes(a, b);
}

/* ---- the finalizer queue ----------------------------------------------------------------------------------------- */

void heap__write_queue(heap_details *d, jsonw *w)
{
    heap *h = d->h;
    tallies t = {0};
    for (size_t i = 0; i < h->n_queue; i++) {
        tally *x = tally_of(h, &t, h->queue[i]);
        if (x && i < h->n_ready) x->ready++;
    }
    if (t.n) qsort(t.v, t.n, sizeof *t.v, by_bytes);
    d->total = (heap_total){.rows = t.n, .objects = h->n_queue};
    jsonw_array(w);
    for (size_t i = 0; i < t.n && i < HEAP_ROWS_MAX; i++) {
        const heap_module *m = heap__module_of_type(h, t.v[i].mt);
        jsonw_object(w);
        jsonw_key_lit(w, "typeFullName");
        heap__write_type_name(h, t.v[i].mt, w);
        jsonw_key_lit(w, "moduleName");
        heap__write_slice_or_null(m ? m->name : (slice){0}, w);
        jsonw_key_lit(w, "instanceCount");
        jsonw_uint(w, t.v[i].count);
        jsonw_key_lit(w, "totalBytes");
        jsonw_uint(w, t.v[i].bytes);
        jsonw_key_lit(w, "readyCount");
        jsonw_uint(w, t.v[i].ready);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    tallies_fini(&t);
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

static void write_handle_kind(heap_details *d, uint32_t kind, jsonw *w)
{
    heap *h = d->h;
    tallies t = {0};
    uint64_t count = 0, bytes = 0;
    for (size_t i = 0; i < h->n_handles; i++) {
        if (h->handles[i].type != kind) continue;
        count++;
        if (h->handles[i].object) tally_of(h, &t, h->handles[i].object);
    }
    for (size_t i = 0; i < t.n; i++)
        bytes += t.v[i].bytes;
    if (t.n) qsort(t.v, t.n, sizeof *t.v, by_count);
    jsonw_object(w);
    jsonw_key_lit(w, "kind");
    jsonw_cstr(w, heap_handle_name(kind));
    jsonw_key_lit(w, "count");
    jsonw_uint(w, count);
    jsonw_key_lit(w, "retainedBytes");
    jsonw_uint(w, bytes);
    jsonw_key_lit(w, "topTypes");
    jsonw_array(w);
    for (size_t i = 0; i < t.n && i < TYPES_OF_HANDLE; i++) {
        jsonw_object(w);
        jsonw_key_lit(w, "typeFullName");
        heap__write_type_name(h, t.v[i].mt, w);
        jsonw_key_lit(w, "count");
        jsonw_uint(w, t.v[i].count);
        jsonw_key_lit(w, "retainedBytes");
        jsonw_uint(w, t.v[i].bytes);
        jsonw_key_lit(w, "identity");
        heap__write_type_identity(h, t.v[i].mt, w);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
    jsonw_end_object(w);
    tallies_fini(&t);
}

void heap__write_handles(heap_details *d, jsonw *w)
{
    static const uint32_t always[] = {2, 3, 0, 1, 6}; /* Strong, Pinned, WeakShort, WeakLong, Dependent */
    bool seen[HANDLE_KINDS] = {false};
    jsonw_object(w);
    jsonw_key_lit(w, "totalHandles");
    jsonw_uint(w, d->h->n_handles);
    jsonw_key_lit(w, "byKind");
    jsonw_array(w);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        seen[always[i]] = true;
        write_handle_kind(d, always[i], w);
    }
    for (size_t i = 0; i < d->h->n_handles; i++) {
        uint32_t kind = d->h->handles[i].type;
        if (kind >= HANDLE_KINDS || seen[kind]) continue;
        seen[kind] = true;
        write_handle_kind(d, kind, w);
    }
    jsonw_end_array(w);
    jsonw_key_lit(w, "notes");
    jsonw_array(w);
    jsonw_cstr(w, "RetainedBytes: the bytes of the objects that handles refer to directly; what these keep in turn is "
                  "in the view retained.");
    jsonw_end_array(w);
    jsonw_end_object(w);
}

/* ---- static fields ----------------------------------------------------------------------------------------------- */

typedef struct field_row {
    const heap_static *s;
    uint64_t bytes;
} field_row;

static int by_referenced(const void *a, const void *b)
{
    const field_row *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->s->slot < y->s->slot ? -1 : x->s->slot > y->s->slot;
}

static void write_static(heap *h, const field_row *r, jsonw *w)
{
    const heap_module *m = heap__module_of_type(h, r->s->mt);
    jsonw_object(w);
    jsonw_key_lit(w, "containingTypeFullName");
    heap__write_type_name(h, r->s->mt, w);
    jsonw_key_lit(w, "moduleName");
    heap__write_slice_or_null(m ? m->name : (slice){0}, w);
    jsonw_key_lit(w, "fieldName");
    jsonw_cstr(w, r->s->name);
    jsonw_key_lit(w, "fieldToken");
    jsonw_uint(w, r->s->token);
    jsonw_key_lit(w, "valueAddress");
    jsonw_hex(w, r->s->target);
    jsonw_key_lit(w, "valueTypeFullName");
    heap__write_type_name(h, heap_word(h, r->s->target) & ~UINT64_C(7), w);
    jsonw_key_lit(w, "directlyReferencedBytes");
    jsonw_uint(w, r->bytes);
    jsonw_key_lit(w, "appDomainId");
    jsonw_int(w, 1); /* .NET has one */
    if (r->s->thread) {
        jsonw_key_lit(w, "managedThreadId");
        jsonw_uint(w, r->s->thread);
    }
    jsonw_key_lit(w, "containingTypeIdentity");
    heap__write_type_identity(h, r->s->mt, w);
    jsonw_end_object(w);
}

void heap__write_statics(heap_details *d, jsonw *w)
{
    size_t n = 0;
    const heap_static *s = heap_statics(d->h, &n);
    field_row *v = mem_calloc(n + 1, sizeof *v);
    for (size_t i = 0; v && i < n; i++)
        v[i] = (field_row){&s[i], heap_size_of_object(d->h, s[i].target)};
    if (v && n) qsort(v, n, sizeof *v, by_referenced);
    d->total = (heap_total){.rows = n};
    jsonw_array(w);
    for (size_t i = 0; v && i < n && i < HEAP_ROWS_MAX; i++)
        write_static(d->h, &v[i], w);
    jsonw_end_array(w);
    free(v);
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

static int by_free(const void *a, const void *b)
{
    const heap_region *x = *(heap_region *const *)a, *y = *(heap_region *const *)b;
    if (x->free_bytes != y->free_bytes) return x->free_bytes < y->free_bytes ? 1 : -1;
    uint64_t p = x->end - x->start, q = y->end - y->start; /* the smaller one is the emptier one */
    if (p != q && x->free_bytes) return p < q ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static const char *generation_name(heap_gen gen)
{
    static const char *const names[] = {"gen0", "gen1", "gen2", "loh", "poh", "frozen"};
    return names[gen];
}

static void write_segment(const heap_region *r, jsonw *w)
{
    uint64_t length = r->end - r->start;
    jsonw_object(w);
    jsonw_key_lit(w, "logicalHeap");
    jsonw_uint(w, r->heap);
    jsonw_key_lit(w, "kind");
    jsonw_cstr(w, heap_gen_name(r->gen));
    jsonw_key_lit(w, "generation");
    jsonw_cstr(w, generation_name(r->gen));
    jsonw_key_lit(w, "start");
    jsonw_hex(w, r->start);
    jsonw_key_lit(w, "end");
    jsonw_hex(w, r->end);
    jsonw_key_lit(w, "length");
    jsonw_uint(w, length);
    jsonw_key_lit(w, "committedBytes");
    jsonw_uint(w, r->committed > r->start ? r->committed - r->start : 0);
    jsonw_key_lit(w, "reservedBytes");
    jsonw_uint(w, r->reserved > r->start ? r->reserved - r->start : 0);
    jsonw_key_lit(w, "usedBytes");
    jsonw_uint(w, r->object_bytes - r->free_bytes);
    jsonw_key_lit(w, "freeBytes");
    jsonw_uint(w, r->free_bytes);
    jsonw_key_lit(w, "objectCount");
    jsonw_uint(w, r->objects - r->free_objects);
    jsonw_key_lit(w, "freeObjectCount");
    jsonw_uint(w, r->free_objects);
    jsonw_key_lit(w, "freePercent");
    jsonw_num(w, heap__percent(r->free_bytes, length));
    jsonw_key_lit(w, "largestFreeBytes");
    jsonw_uint(w, r->largest_free);
    if (r->corrupt_places) {
        jsonw_key_lit(w, "unreadableBytes");
        jsonw_uint(w, r->corrupt_bytes);
    }
    jsonw_end_object(w);
}

void heap__write_segments(heap_details *d, jsonw *w)
{
    size_t n = d->h->n_regions;
    const heap_region **v = mem_calloc(n + 1, sizeof *v);
    for (size_t i = 0; v && i < n; i++)
        v[i] = &d->h->regions[i];
    if (v && n) qsort(v, n, sizeof *v, by_free);
    if (n > SEGMENTS_SHOWN)
        heap_add_note(d->h, "Fragmentation: %zu regions with less free room are left out.", n - SEGMENTS_SHOWN);
    jsonw_array(w);
    for (size_t i = 0; v && i < n && i < SEGMENTS_SHOWN; i++)
        write_segment(v[i], w);
    jsonw_end_array(w);
    free(v);
}
