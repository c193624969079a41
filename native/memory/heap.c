/* SPDX-License-Identifier: MIT */
/* heap.c: opens a heap, of a core or of a live process, and finds bytes in it. */
#include "memory/fork.h"
#include "memory/heap_own.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOOKED_A_TIME       128u
#define HEAP_NEWEST_RUNTIME 10 /* whose layouts the tests compare with ClrMD */

const heap_facts *heap_facts_of(const heap *h) { return &h->facts; }
const char *heap_note(const heap *h, size_t i) { return i < h->n_notes ? h->notes[i] : NULL; }
dac *heap_dac(const heap *h) { return h->d; }
const dac_globals *heap_globals(const heap *h) { return &h->globals; }
heap_types *heap_types_in(const heap *h) { return h->types; }
heap_region *heap_regions(const heap *h, size_t *n)
{
    *n = h->n_regions;
    return h->regions;
}
const heap_context *heap_contexts(const heap *h, size_t *n)
{
    *n = h->n_contexts;
    return h->contexts;
}
const heap_root *heap_roots(const heap *h, size_t *n)
{
    *n = h->n_roots;
    return h->roots;
}
const heap_handle *heap_handles(const heap *h, size_t *n)
{
    *n = h->n_handles;
    return h->handles;
}
const uint64_t *heap_finalizers(const heap *h, size_t *n, size_t *n_ready)
{
    *n = h->n_queue;
    *n_ready = h->n_ready;
    return h->queue;
}

void heap_add_note(heap *h, const char *fmt, ...)
{
    char text[HEAP_NOTE_LEN];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < h->n_notes; i++)
        if (strcmp(h->notes[i], text) == 0) return;
    if (h->n_notes < HEAP_NOTES_MAX) memcpy(h->notes[h->n_notes++], text, sizeof text);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

const heap_region *heap_region_of(const heap *h, uint64_t address)
{
    size_t lo = 0, hi = h->n_regions;
    while (lo < hi) { /* the last one that begins at or before it */
        size_t mid = (lo + hi) / 2;
        if (h->regions[mid].start <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && address < h->regions[lo - 1].end ? &h->regions[lo - 1] : NULL;
}

const uint8_t *heap_at(const heap *h, uint64_t address, size_t n)
{
    const heap_region *r = heap_region_of(h, address);
    if (!r || !r->bytes || address - r->start > r->held || n > r->held - (address - r->start)) return NULL;
    return r->bytes + (address - r->start);
}

bool heap_read(heap *h, uint64_t address, void *to, size_t n)
{
    const uint8_t *p = heap_at(h, address, n);
    if (!p) return dac_read(h->d, address, to, n);
    memcpy(to, p, n);
    return true;
}

uint32_t heap_type_of_object(heap *h, uint64_t object)
{
    uint64_t mt = 0;
    if (object % 8 || !heap_region_of(h, object) || !heap_read(h, object, &mt, 8)) return GRAPH_NONE;
    return heap_types_of(h->types, mt & ~UINT64_C(7));
}

uint64_t heap_size_of_object(heap *h, uint64_t object)
{
    uint32_t at = heap_type_of_object(h, object), count = 0;
    if (at == GRAPH_NONE) return 0;
    const heap_type *t = heap_type_at(h->types, at);
    if (t->component_size && !heap_read(h, object + 8, &count, 4)) return 0;
    uint64_t size = t->base_size + (uint64_t)t->component_size * count;
    return size < HEAP_MIN_OBJECT ? HEAP_MIN_OBJECT : size;
}

/* Of [from, to), the bytes up to the first that the core has not: what its region list says may be anything. */
static size_t held_in_one_go(const heap *h, uint64_t from, uint64_t to)
{
    uint64_t at = from;
    const mem_mapping *m;
    while (at < to && (m = mem_mapping_of(h->t, at)) && at - m->start < m->held)
        at = m->start + m->held;
    return (size_t)((at < to ? at : to) - from);
}

/* A region that does not lie in one piece in the core is put together. */
static bool gather(heap *h, heap_region *r)
{
    size_t n = held_in_one_go(h, r->start, r->end);
    if (!n) return (r->held = 0, true);
    if (!HEAP_ROOM(h->pieces, h->n_pieces, h->cap_pieces, HEAP_REGIONS_MAX)) return false;
    uint8_t *p = mem_alloc(n);
    if (!p) return false;
    h->pieces[h->n_pieces++] = p;
    r->bytes = p;
    r->held = mem_read(h->t, r->start, p, n);
    return true;
}

int heap__bytes_of_core(heap *h, err *e)
{
    uint64_t missing = 0, held = 0;
    for (size_t i = 0; i < h->n_regions; i++) {
        heap_region *r = &h->regions[i];
        uint64_t n = r->end - r->start;
        if (!n) continue;
        r->bytes = mem_at(h->t, r->start, n);
        r->held = n;
        r->is_file = r->bytes != NULL;
        if (!r->bytes && !gather(h, r))
            return err_set(e, ERR_NO_MEMORY, "no memory for a region of %llu bytes", (unsigned long long)n);
        missing += n - r->held;
        held += r->held;
    }
    h->facts.missing = missing;
    if (missing && !held) {
        int rc = err_set(e, ERR_NOT_SUPPORTED,
                         "the dump has none of the %llu bytes of the heap: dumps of type Mini and Triage hold no heap",
                         (unsigned long long)missing);
        err_hint(e, "Write one of type WithHeap or Full: collect_process_dump(dumpType=\"WithHeap\").");
        return rc;
    }
    if (missing)
        heap_add_note(h,
                      "The core lacks %llu bytes of the heap: objects there are missing. A dump of type WithHeap or "
                      "Full has them.",
                      (unsigned long long)missing);
    return 0;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static size_t read_words(void *arg, uint64_t address, void *to, size_t n)
{
    heap *h = arg;
    return dac_read(h->d, address, to, n) ? n : 0;
}

static size_t fetch(void *arg, uint64_t address, void *to, size_t n)
{
    const heap *h = arg;
    return mem_fetch(h->t, address, to, n);
}

/* The runtime's own word on whether it is a method table, and what keeps a collectible type. */
static bool look(void *arg, heap_type *t)
{
    heap *h = arg;
    dac_method_table mt;
    if (!dac_get_method_table(h->d, t->mt, &mt)) return false;
    dac_collectible c;
    if (dac_get_collectible(h->d, t->mt, &c)) { /* the flag in memory is another one in .NET 8 */
        t->flags = c.is_collectible ? t->flags | HEAP_TYPE_COLLECTIBLE : t->flags & ~(uint32_t)HEAP_TYPE_COLLECTIBLE;
        if (c.is_collectible && c.loader_allocator_handle) t->loader_object = heap_word(h, c.loader_allocator_handle);
    }
    t->kind = heap_kind_of(h, t->mt);
    if (h->o.list >> t->kind & 1) t->flags |= HEAP_TYPE_LISTED;
    if (++h->n_looked % LOOKED_A_TIME == 0) mem_let_go(h->t); /* of tables that the runtime spread over a core */
    return true;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int open_core(heap *h, err *e)
{
    int rc = heap__layout(h, e);
    if (rc == 0) rc = heap__bytes_of_core(h, e);
    if (rc == 0) rc = heap__roots(h, DEADLINE_NEVER, e);
    if (rc == 0) heap__list_loaded(h);
    mem_let_go(h->t);
    if (rc == 0 && h->facts.gc_at_work)
        heap_add_note(
            h,
            "A garbage collection was at work when the dump was written: objects may be counted twice or not at all.");
    return rc;
}

static int open_in_place(heap *h, err *e)
{
    if (h->facts.live) heap__hurry(true, &h->nice);
    int rc = mem_stop(h->t, mono_ns() + h->o.pause_ns, e);
    if (rc < 0) return rc;
    dac_flush(h->d);
    rc = heap__layout(h, e);
    for (size_t i = 0; mem_is_live(h->t) && i < h->n_regions; i++) /* to be fetched, should somebody count them */
        h->regions[i].held = h->regions[i].end - h->regions[i].start;
    return rc;
}

/* Where things are in objects and method tables is known of these; of others it would be a guess. */
static int known_runtime(const dac_runtime *r, err *e)
{
    if (r->major <= HEAP_NEWEST_RUNTIME) return 0; /* 0: it does not tell */
    int rc = err_set(e, ERR_UNSUPPORTED_RUNTIME, "the heap of .NET %s is not known here: .NET %d is the newest that is",
                     r->version, HEAP_NEWEST_RUNTIME);
    err_hint(e, "Use source=\"gcdump\": the runtime's own events tell of its objects in every version.");
    return rc;
}

int heap_open(dac *d, const heap_options *o, heap **out, err *e)
{
    if (known_runtime(dac_runtime_of(d), e) < 0) return -ERR_UNSUPPORTED_RUNTIME;
    heap *h = mem_calloc(1, sizeof *h);
    if (!h) return err_set(e, ERR_NO_MEMORY, "no memory for a heap");
    h->d = d;
    h->t = dac_target(d);
    if (o) h->o = *o;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (!h->o.threads) h->o.threads = processors < 1 ? 1 : processors > 4 ? 4 : (unsigned)processors;
    if (!h->o.pause_ns) h->o.pause_ns = HEAP_PAUSE_NS;
    h->facts.live = mem_is_live(h->t);
    h->o.in_place = h->o.in_place || (h->o.count && h->facts.live);
    int rc = h->o.in_place    ? h->o.count ? heap__open_to_count(h, e) : open_in_place(h, e)
                : !h->facts.live ? open_core(h, e)
             : h->o.fork      ? heap__capture_fork(h, e)
                              : heap__capture_live(h, e);
    if (rc == 0) {
        heap_reader reader = {.arg = h, .read = read_words, .look = look, .fetch = fetch};
        h->types = heap_types_new(&reader, h->globals.free, h->globals.string, e);
        if (!h->types) rc = -ERR_NO_MEMORY;
    }
    if (rc < 0) {
        heap_close(h);
        return rc;
    }
    *out = h;
    return 0;
}

void heap_close(heap *h)
{
    if (!h) return;
    if (h->o.in_place) mem_resume(h->t);
    if (h->o.in_place && h->facts.live) heap__hurry(false, &h->nice);
    if (h->o.fork) mem_fork_drop(h->t);
    heap_types_free(h->types);
    for (size_t i = 0; i < h->n_pieces; i++)
        free(h->pieces[i]);
    free(h->pieces);
    if (h->copy) munmap(h->copy, h->copy_size);
    free(h->regions);
    free(h->contexts);
    free(h->roots);
    free(h->handles);
    free(h->queue);
    free(h->statics);
    free(h->loaded);
    free(h->module_list);
    free(h->threads);
    arena_free(&h->names);
    heap__modules_free(h);
    map64_fini(&h->kinds);
    free(h);
}
