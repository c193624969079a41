/* SPDX-License-Identifier: MIT */
/* heap_walk.c: one object after the other. The inner loop touches the object's first line and one line of a table of
 * types that stays in the nearest cache; what is new or wrong leaves it. */
#include <stdatomic.h>
#include <sys/mman.h>

#include "memory/heap_internal.h"

#define WALK_PAGE      ((uintptr_t)4096)
#define WALK_KEPT      (UINT64_C(256) << 10) /* bytes of a file that is walked */
#define WALK_WINDOW    ((size_t)128 << 10)   /* bytes that are fetched at once: less than a core's own cache */
#define WALK_GLANCE    ((size_t)4 << 10)     /* the same after a step over what was not fetched: large objects */
#define WALK_NEED      ((size_t)16)          /* of an object, to size it: its method table and its number of elements */
#define WALK_SLOTS_MIN 1024u
#define WALK_LOCAL_MAX ((size_t)4 * HEAP_TYPES_MAX)
#define RECOVER_MAX    (UINT64_C(64) << 20) /* bytes looked through for the next object in one place */

/* One type in a walking thread's table: one cache line. */
typedef struct local {
    uint64_t mt; /* 0: empty */
    uint64_t count, bytes;
    uint32_t base, component;
    uint32_t type;
    uint32_t flags;
    uint32_t graph_type;
    int32_t n_series;
    uint32_t series;
    uint32_t pad[3];
} local;
_Static_assert(sizeof(local) == 64, "a type in a walk is a line of cache");

typedef struct walker {
    heap_types *ty;
    local *slots;
    size_t mask, n;
    const heap_context *contexts;
    size_t n_contexts;
    heap_gen gen;
    graph_builder *b;
    heap_object_fn each;
    void *arg;
    bool no_memory;
    /* Of a region that is fetched: bytes of [from, from + held). */
    uint8_t *room, *window; /* the memory, while there is such a region */
    uint64_t from;
    size_t held, fetch;
} walker;

static inline size_t place(const walker *w, uint64_t mt)
{
    return (size_t)((mt * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & w->mask;
}

static bool grow(walker *w)
{
    size_t cap = w->slots ? (w->mask + 1) * 2 : WALK_SLOTS_MIN;
    if (cap > WALK_LOCAL_MAX) return false;
    local *old = w->slots, *p = mem_calloc(cap, sizeof *p);
    if (!p) return false;
    size_t old_cap = old ? w->mask + 1 : 0;
    w->slots = p;
    w->mask = cap - 1;
    for (size_t i = 0; i < old_cap; i++) {
        if (!old[i].mt) continue;
        size_t at = place(w, old[i].mt);
        while (p[at].mt)
            at = (at + 1) & w->mask;
        p[at] = old[i];
    }
    free(old);
    return true;
}

/* A type that this thread meets for the first time. NULL: it is none. */
static __attribute__((noinline)) local *meet(walker *w, uint64_t mt)
{
    uint32_t type = heap_types_of(w->ty, mt);
    if (type == GRAPH_NONE) return NULL;
    if ((!w->slots || w->n * 2 >= w->mask + 1) && !grow(w)) {
        w->no_memory = true;
        return NULL;
    }
    const heap_type *t = heap__type(w->ty, type);
    size_t at = place(w, mt);
    while (w->slots[at].mt)
        at = (at + 1) & w->mask;
    w->slots[at] = (local){.mt = mt,
                           .base = t->base_size,
                           .component = t->component_size,
                           .type = type,
                           .flags = t->flags,
                           .graph_type = GRAPH_NONE,
                           .n_series = t->n_series,
                           .series = t->series};
    w->n++;
    return &w->slots[at];
}

static inline local *type_of(walker *w, uint64_t mt)
{
    if (__builtin_expect(w->slots != NULL, 1)) {
        for (size_t at = place(w, mt); w->slots[at].mt; at = (at + 1) & w->mask)
            if (w->slots[at].mt == mt) return &w->slots[at];
    }
    return mt ? meet(w, mt) : NULL;
}

/* What was counted goes to the generation that it was counted in. */
static void flush(walker *w)
{
    pthread_mutex_lock(&w->ty->lock);
    for (size_t i = 0; w->slots && i <= w->mask; i++) {
        local *s = &w->slots[i];
        if (!s->count) continue;
        heap_sum *sum = &heap__type(w->ty, s->type)->by_gen[w->gen];
        sum->count += s->count;
        sum->bytes += s->bytes;
        s->count = s->bytes = 0;
    }
    pthread_mutex_unlock(&w->ty->lock);
}

/* ---- references of one object into the builder ------------------------------------------------------------------- */

static inline void edges_of_run(graph_builder *b, const uint8_t *p, const uint8_t *end)
{
    for (; p + 8 <= end; p += 8) {
        uint64_t target = heap__word(p);
        if (target) graph_builder_edge(b, target);
    }
}

static void edge_of(void *arg, uint64_t target, uint32_t offset)
{
    (void)offset;
    graph_builder_edge(arg, target);
}

static void hand_on(walker *w, local *s, uint64_t address, const uint8_t *body, uint64_t size)
{
    if (s->graph_type == GRAPH_NONE) {
        s->graph_type = graph_builder_type(w->b, s->mt);
        heap__type(w->ty, s->type)->graph_type = s->graph_type;
    }
    graph_builder_node(w->b, address, s->graph_type, size);
    if (s->flags & (HEAP_TYPE_POINTERS | HEAP_TYPE_COLLECTIBLE)) {
        if (s->n_series == 1 && !s->component && !(s->flags & HEAP_TYPE_COLLECTIBLE)) { /* most classes */
            const heap_series *run = w->ty->series + s->series;
            uint64_t to = run->offset + run->count * UINT64_C(8);
            edges_of_run(w->b, body + run->offset, body + (to < size ? to : size));
        } else {
            heap_refs(w->ty, heap__type(w->ty, s->type), body, size, edge_of, w->b);
        }
    }
    if (s->flags & HEAP_TYPE_LISTED && w->each) w->each(w->arg, address, s->type, body, size);
}

/* ---- bytes of a region ------------------------------------------------------------------------------------------- */

/* The window moves on to p; what cannot be read is zero, as memory is that was never used. */
static __attribute__((noinline)) const uint8_t *move_on(walker *w, heap_region *r, uint64_t p)
{
    uint64_t all = r->end - r->start, left = r->start + (r->held < all ? r->held : all) - p;
    bool near = p >= w->from && p - w->from <= 2 * w->held;
    w->fetch = !near ? WALK_GLANCE : w->fetch * 2 < WALK_WINDOW ? w->fetch * 2 : WALK_WINDOW;
    size_t n = left < w->fetch ? (size_t)left : w->fetch, got = w->ty->reader.fetch(w->ty->reader.arg, p, w->window, n);
    size_t again = near && w->from + w->held > p ? (size_t)(w->from + w->held - p) : 0; /* a few bytes at the seam */
    size_t fresh = got > again ? got : again;
    if (fresh < n) r->unread_bytes += n - fresh;
    memset(w->window + got, 0, (got < n ? n - got : 0) + WALK_NEED);
    w->from = p;
    w->held = n;
    return w->window;
}

/* An object's first bytes: as many as it takes to size it, zeros beyond the region's end. */
static inline __attribute__((always_inline)) const uint8_t *bytes_at(walker *w, heap_region *r, uint64_t p,
                                                                     const bool fetched)
{
    if (!fetched) return r->bytes + (p - r->start);
    uint64_t at = p - w->from;
    if (__builtin_expect(w->held >= WALK_NEED && at <= w->held - WALK_NEED, 1)) return w->window + at;
    return move_on(w, r, p);
}

static bool with_window(walker *w)
{
    if (!w->room) w->room = mem_alloc(WALK_WINDOW + WALK_NEED);
    w->window = w->room;
    w->from = UINT64_MAX;
    w->held = 0;
    return w->window != NULL;
}

static uint64_t word_at(walker *w, heap_region *r, uint64_t p) { return heap__word(bytes_at(w, r, p, w->window)); }

/* ---- one region -------------------------------------------------------------------------------------------------- */

/* The size of what would begin at p; 0: nothing can. */
static uint64_t plausible(walker *w, heap_region *r, uint64_t p, uint64_t limit)
{
    if (p + HEAP_MIN_OBJECT > limit) return 0;
    const uint8_t *body = bytes_at(w, r, p, w->window);
    const local *s = type_of(w, heap__word(body) & ~UINT64_C(7));
    if (!s) return 0;
    uint64_t step = HEAP_ALIGN(heap__size(s->base, s->component, s->component ? heap__half(body + 8) : 0));
    return step <= limit - p ? step : 0;
}

/* The next address from p on where an object begins whose neighbour is one too, or the next context, or the end. */
static uint64_t recover(walker *w, heap_region *r, uint64_t p, uint64_t limit, uint64_t context)
{
    uint64_t stop = limit - p > RECOVER_MAX ? p + RECOVER_MAX : limit;
    if (context >= p && context < stop) stop = context;
    for (; p < stop; p += 8) {
        uint64_t step = plausible(w, r, p, limit);
        if (!step) continue;
        uint64_t next = p + step;
        if (next >= limit || next == context || plausible(w, r, next, limit)) return p;
    }
    return stop == limit || stop == context ? stop : limit;
}

/* All from p on that is not an object: zeros up to the end are room that was never used. */
static uint64_t pass_over(walker *w, heap_region *r, uint64_t p, uint64_t limit, uint64_t context)
{
    uint64_t from = p;
    bool zero = word_at(w, r, p) == 0;
    while (p + 8 <= limit && word_at(w, r, p) == 0 && p != context)
        p += 8;
    if (zero && (p + 8 > limit || p == context)) return p + 8 > limit ? limit : p;
    p = recover(w, r, from + 8, limit, context);
    if (!r->corrupt_places++) r->corrupt_at = from;
    r->corrupt_bytes += p - from;
    return p;
}

/* A file of gigabytes need not stay in our memory because it was read once. */
static __attribute__((noinline)) void let_go(const heap_region *r, uint64_t from, uint64_t to)
{
    uintptr_t first = ((uintptr_t)r->bytes + (from - r->start)) & ~(WALK_PAGE - 1),
              last = ((uintptr_t)r->bytes + (to - r->start)) & ~(WALK_PAGE - 1);
    if (from == r->start) first += first < (uintptr_t)r->bytes ? WALK_PAGE : 0; /* a page that another region shares */
    if (last > first) madvise((void *)first, last - first, MADV_DONTNEED);
}

static inline __attribute__((always_inline)) void walk(walker *w, heap_region *r, const bool follow, const bool fetched)
{
    uint64_t limit = r->start + (r->held < r->end - r->start ? r->held : r->end - r->start), p = r->start;
    size_t lo = 0, hi = w->n_contexts;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (w->contexts[mid].pointer < p)
            lo = mid + 1;
        else
            hi = mid;
    }
    const bool contexts = r->gen <= HEAP_GEN2 || r->gen == HEAP_POH;
    uint64_t context = contexts && lo < w->n_contexts ? w->contexts[lo].pointer : UINT64_MAX;
    uint64_t objects = 0, bytes = 0, kept = p, letting_go = r->is_file && !fetched ? p + WALK_KEPT : UINT64_MAX;
    while (p + HEAP_MIN_OBJECT <= limit || (p < limit && p == context)) {
        while (__builtin_expect(p >= context, 0)) { /* a thread allocates here: what it has left is none yet */
            uint64_t after = HEAP_ALIGN(w->contexts[lo].limit + HEAP_MIN_OBJECT);
            if (p == context && after > p) p = after < limit ? after : limit;
            context = ++lo < w->n_contexts ? w->contexts[lo].pointer : UINT64_MAX;
        }
        if (p + HEAP_MIN_OBJECT > limit) break;
        const uint8_t *body = bytes_at(w, r, p, fetched);
        local *s = type_of(w, heap__word(body) & ~UINT64_C(7));
        uint64_t size = 0, step = 0;
        if (__builtin_expect(s != NULL, 1)) {
            size = heap__size(s->base, s->component, s->component ? heap__half(body + 8) : 0);
            step = HEAP_ALIGN(size);
        }
        if (__builtin_expect(!s || step > limit - p, 0)) {
            if (w->no_memory) return;
            p = pass_over(w, r, p, limit, context);
            continue;
        }
        s->count++;
        s->bytes += size;
        objects++;
        bytes += size;
        if (__builtin_expect(s->flags & HEAP_TYPE_FREE, 0)) {
            r->free_objects++;
            r->free_bytes += size;
            if (size > r->largest_free) r->largest_free = size;
        } else if (follow) {
            hand_on(w, s, p, body, size);
        }
        p += step;
        if (__builtin_expect(p >= letting_go, 0)) {
            let_go(r, kept, p);
            kept = p;
            letting_go = p + WALK_KEPT;
        }
    }
    if (r->is_file && !fetched) let_go(r, kept, limit);
    r->objects += objects;
    r->object_bytes += bytes;
}

static void walk_one(walker *w, heap_region *r)
{
    r->objects = r->object_bytes = r->free_objects = r->free_bytes = r->largest_free = 0;
    r->corrupt_bytes = r->corrupt_at = r->corrupt_places = 0;
    r->unread_bytes = 0;
    bool fetched = !w->b && w->ty->reader.fetch && (r->is_file || !r->bytes) && r->held;
    if ((!r->bytes && !fetched) || r->end <= r->start || r->start % 8) return;
    if (r->gen != w->gen) flush(w);
    w->gen = r->gen;
    if (w->b) {
        walk(w, r, true, false);
    } else if (fetched && with_window(w)) {
        walk(w, r, false, true);
        w->window = NULL;
    } else if (!r->bytes) {
        w->no_memory = true;
    } else {
        walk(w, r, false, false);
    }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

typedef struct crew {
    heap_region *regions;
    size_t n;
    atomic_size_t next;
    atomic_bool no_memory;
    heap_types *ty;
    const heap_context *contexts;
    size_t n_contexts;
} crew;

static void *one_of_crew(void *arg)
{
    crew *c = arg;
    walker w = {.ty = c->ty, .contexts = c->contexts, .n_contexts = c->n_contexts};
    for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->n && !w.no_memory;)
        walk_one(&w, &c->regions[i]);
    flush(&w);
    free(w.slots);
    free(w.room);
    if (w.no_memory) atomic_store(&c->no_memory, true);
    return NULL;
}

#define WALK_THREADS_MAX 8u

int heap_walk_stats(heap_types *ty, heap_region *regions, size_t n, const heap_context *contexts, size_t n_contexts,
                    unsigned threads, err *e)
{
    crew c = {.regions = regions, .n = n, .ty = ty, .contexts = contexts, .n_contexts = n_contexts};
    pthread_t others[WALK_THREADS_MAX];
    unsigned started = 0;
    if (threads > WALK_THREADS_MAX) threads = WALK_THREADS_MAX;
    while (started + 1 < threads && started + 1 < n && pthread_create(&others[started], NULL, one_of_crew, &c) == 0)
        started++;
    one_of_crew(&c);
    for (unsigned i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    return atomic_load(&c.no_memory) ? err_set(e, ERR_NO_MEMORY, "no memory for the types of a heap") : 0;
}

int heap_walk_graph(heap_types *ty, heap_region *regions, size_t n, const heap_context *contexts, size_t n_contexts,
                    graph_builder *b, heap_object_fn each, void *arg, err *e)
{
    walker w = {.ty = ty, .contexts = contexts, .n_contexts = n_contexts, .b = b, .each = each, .arg = arg};
    for (size_t i = 0; i < n && !w.no_memory; i++)
        walk_one(&w, &regions[i]);
    flush(&w);
    free(w.slots);
    return w.no_memory ? err_set(e, ERR_NO_MEMORY, "no memory for the types of a heap") : 0;
}
