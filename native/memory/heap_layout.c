/* SPDX-License-Identifier: MIT */
/* heap_layout.c: where objects are: segments or regions of each heap and generation, and what threads may allocate
 * into. */
#include "memory/heap_own.h"

#define GENERATIONS_MAX 8u
#define SEGMENT_FROZEN  1u
#define GEN_LOH         3u
#define GEN_POH         4u

bool heap__room(void **p, size_t *cap, size_t n, size_t size, size_t max)
{
    if (n >= max) return false;
    if (n < *cap) return true;
    size_t more = *cap ? *cap * 2 : 64;
    void *q = mem_realloc(*p, more * size);
    if (!q) return false;
    *p = q;
    *cap = more;
    return true;
}

typedef struct part { /* of one heap */
    dac_heap at;
    dac_generation gens[GENERATIONS_MAX];
    uint32_t n, number;
} part;

static bool add_region(heap *h, const part *p, const dac_segment *s, heap_gen gen, uint64_t start, uint64_t end)
{
    if (end <= start) end = start;
    if (!HEAP_ROOM(h->regions, h->n_regions, h->cap_regions, HEAP_REGIONS_MAX)) return false;
    h->regions[h->n_regions++] = (heap_region){.start = start,
                                               .end = end,
                                               .committed = s->committed,
                                               .reserved = s->reserved,
                                               .segment = s->self,
                                               .gen = gen,
                                               .heap = p->number};
    return true;
}

/* A segment of gen 2's chain under segments: the ephemeral one holds the younger generations too, the youngest last. */
static bool add_segment(heap *h, const part *p, const dac_segment *s, uint32_t gen)
{
    uint64_t end = s->self == p->at.ephemeral_segment ? p->at.alloc_allocated : s->allocated;
    if (s->flags & SEGMENT_FROZEN) return add_region(h, p, s, HEAP_FROZEN, s->mem, s->allocated);
    if (gen >= GEN_LOH) return add_region(h, p, s, gen == GEN_LOH ? HEAP_LOH : HEAP_POH, s->mem, end);
    if (h->facts.regions || s->self != p->at.ephemeral_segment) return add_region(h, p, s, (heap_gen)gen, s->mem, end);
    uint64_t g0 = p->gens[0].allocation_start, g1 = p->gens[1].allocation_start;
    if (g1 < s->mem || g1 > end) g1 = s->mem;
    if (g0 < g1 || g0 > end) g0 = end;
    return add_region(h, p, s, HEAP_GEN2, s->mem, g1) && add_region(h, p, s, HEAP_GEN1, g1, g0) &&
           add_region(h, p, s, HEAP_GEN0, g0, end);
}

static int chain(heap *h, const part *p, uint32_t gen, map64 *seen, err *e)
{
    for (uint64_t at = p->gens[gen].start_segment; at;) {
        uint64_t before;
        dac_segment s;
        if (map64_get(seen, at, &before)) break; /* a circle, or a chain that joins another */
        if (!map64_put(seen, at, 1)) return err_set(e, ERR_NO_MEMORY, "no memory for the regions of the heap");
        if (!dac_get_segment(h->d, at, &s)) {
            heap_add_note(h, "A segment of generation %u of heap %u could not be read: objects behind it are missing.",
                          gen, p->number);
            break;
        }
        s.self = at;
        if (!add_segment(h, p, &s, gen))
            return err_set(e, ERR_LIMIT, "the heap has more than %u regions", HEAP_REGIONS_MAX);
        at = s.next;
    }
    return 0;
}

static bool add_context(heap *h, uint64_t pointer, uint64_t limit)
{
    if (!pointer || limit < pointer) return true;
    if (!HEAP_ROOM(h->contexts, h->n_contexts, h->cap_contexts, (size_t)HEAP_THREADS_MAX * 2)) return false;
    h->contexts[h->n_contexts++] = (heap_context){pointer, limit};
    return true;
}

/* A core may lack what the runtime's library wants to read. */
static int unreadable(heap *h, const char *what, err *e)
{
    if (h->facts.live && dac_hresult(h->d) == (uint32_t)DAC_E_FELL) {
        int fell = err_set(e, ERR_UNSUPPORTED_RUNTIME,
                           "the runtime's %s is not there yet: the process is just starting", what);
        err_hint(e, "Ask again in a moment.");
        return fell;
    }
    if (h->facts.live)
        return err_set(e, ERR_MALFORMED, "the runtime's %s cannot be read (0x%08x)", what, dac_hresult(h->d));
    int rc = err_set(e, ERR_NOT_SUPPORTED,
                     "the dump lacks the runtime's %s (0x%08x): dumps of type Mini and Triage hold no heap", what,
                     dac_hresult(h->d));
    err_hint(e, "Write one of type WithHeap or Full: collect_process_dump(dumpType=\"WithHeap\").");
    return rc;
}

static int one_heap(heap *h, uint64_t address, uint32_t number, map64 *seen, err *e)
{
    part p = {.number = number};
    if (!dac_get_heap(h->d, address, &p.at)) return unreadable(h, "heap", e);
    if (!dac_generations(h->d, address, p.gens, GENERATIONS_MAX, &p.n) || p.n < 4) { /* before .NET 5 */
        memcpy(p.gens, p.at.generations, sizeof p.at.generations);
        p.n = 4;
    }
    if (p.n > GENERATIONS_MAX) p.n = GENERATIONS_MAX;
    h->facts.generations = p.n;
    h->facts.regions = p.gens[0].start_segment != p.gens[1].start_segment;
    static const uint32_t order[] = {0, 1, 2, GEN_LOH, GEN_POH};
    int rc = 0;
    for (size_t i = h->facts.regions ? 0 : 2; rc == 0 && i < 5 && order[i] < p.n; i++)
        rc = chain(h, &p, order[i], seen, e);
    if (rc == 0 && !add_context(h, p.gens[0].alloc_ptr, p.gens[0].alloc_limit))
        rc = err_set(e, ERR_NO_MEMORY, "no memory for allocation contexts");
    return rc;
}

static int contexts_of_threads(heap *h, err *e)
{
    dac_thread_store ts;
    if (!dac_get_thread_store(h->d, &ts)) return unreadable(h, "list of threads", e);
    uint64_t at = ts.first;
    for (int32_t i = 0; at && i < ts.threads && i < (int32_t)HEAP_THREADS_MAX; i++) {
        dac_thread th;
        if (!dac_get_thread(h->d, at, &th)) break;
        if (!add_context(h, th.alloc_ptr, th.alloc_limit)) return err_set(e, ERR_NO_MEMORY, "no memory for threads");
        h->facts.threads++;
        at = th.next;
    }
    dac_addr pointer = 0, limit = 0;
    if (dac_global_alloc_context(h->d, &pointer, &limit)) add_context(h, pointer, limit);
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const heap_region *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int by_pointer(const void *a, const void *b)
{
    const heap_context *x = a, *y = b;
    return x->pointer < y->pointer ? -1 : x->pointer > y->pointer;
}

/* Sorted, without overlaps: what overlaps was read in the middle of a change. */
static void put_in_order(heap *h)
{
    if (h->n_regions) qsort(h->regions, h->n_regions, sizeof *h->regions, by_start);
    if (h->n_contexts) qsort(h->contexts, h->n_contexts, sizeof *h->contexts, by_pointer);
    uint64_t last_segment = 0;
    for (size_t i = 0; i < h->n_regions; i++) {
        heap_region *r = &h->regions[i];
        if (i + 1 < h->n_regions && r->end > h->regions[i + 1].start) r->end = h->regions[i + 1].start;
        if (r->end < r->start) r->end = r->start;
        h->facts.bytes_held += r->end - r->start;
        if (r->segment == last_segment) continue;
        last_segment = r->segment;
        if (r->committed > r->start) h->facts.committed += r->committed - r->start;
        if (r->reserved > r->start) h->facts.reserved += r->reserved - r->start;
    }
}

int heap__layout(heap *h, err *e)
{
    dac_gc_heap gc;
    uint64_t list[HEAP_HEAPS_MAX] = {0};
    uint32_t n = 1;
    map64 seen = {.max = HEAP_REGIONS_MAX};
    h->n_regions = h->n_contexts = 0;
    bool live = h->facts.live;
    h->facts = (heap_facts){.live = live, .stop_ns = h->facts.stop_ns, .estimate_ns = h->facts.estimate_ns};
    if (!dac_get_gc_heap(h->d, &gc)) return unreadable(h, "heap", e);
    if (!dac_get_globals(h->d, &h->globals)) return unreadable(h, "well-known types", e);
    h->facts.is_server = gc.is_server != 0;
    h->facts.gc_at_work = gc.is_valid == 0;
    if (gc.is_server) n = gc.heaps < HEAP_HEAPS_MAX ? gc.heaps : HEAP_HEAPS_MAX;
    if (gc.is_server && !dac_gc_heap_list(h->d, list, n, &(uint32_t){0})) /* it wants the exact number */
        return unreadable(h, "list of heaps", e);
    h->facts.heaps = n;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = one_heap(h, list[i], i, &seen, e);
    map64_fini(&seen);
    if (rc == 0) rc = contexts_of_threads(h, e);
    if (rc == 0) put_in_order(h);
    return rc;
}
