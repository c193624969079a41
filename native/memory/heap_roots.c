/* SPDX-License-Identifier: MIT */
/* heap_roots.c: what keeps objects from outside of the heap: handles, stacks, finalizers whose time has come. */
#include "memory/heap_own.h"

enum { WEAK_SHORT, WEAK_LONG, STRONG, PINNED, VARIABLE, REF_COUNTED, DEPENDENT, ASYNC_PINNED, SIZED_REF };

const char *heap_handle_name(uint32_t type)
{
    static const char *const names[] = {"WeakShort", "WeakLong",   "Strong",       "Pinned",
                                        "Variable",  "RefCounted", "Dependent",    "AsyncPinned",
                                        "SizedRef",  "WeakWinRT",  "WeakInterior", "CrossReference"};
    return type < sizeof names / sizeof *names ? names[type] : "Unknown";
}

static bool add_root(heap *h, graph_root_kind kind, unsigned flags, uint64_t slot, uint64_t target, uint32_t thread)
{
    if (!target) return true;
    if (!HEAP_ROOM(h->roots, h->n_roots, h->cap_roots, HEAP_ROOTS_MAX)) return false;
    h->roots[h->n_roots++] =
        (heap_root){.slot = slot, .target = target, .kind = (uint8_t)kind, .flags = (uint8_t)flags, .thread = thread};
    return true;
}

static graph_root_kind root_of_handle(const heap_handle *x)
{
    switch (x->type) {
    case STRONG: return GRAPH_ROOT_STRONG_HANDLE;
    case PINNED: return GRAPH_ROOT_PINNED_HANDLE;
    case ASYNC_PINNED: return GRAPH_ROOT_ASYNC_PINNED_HANDLE;
    case SIZED_REF: return GRAPH_ROOT_SIZED_REF_HANDLE;
    case REF_COUNTED: return x->ref_count > 0 ? GRAPH_ROOT_REF_COUNTED_HANDLE : GRAPH_ROOT_NONE;
    default: return GRAPH_ROOT_NONE;
    }
}

/* Handles of one question; those that were had before are left out. */
static bool ask_handles(heap *h, const uint32_t *types, uint32_t n_types, map64 *seen)
{
    dac_handle *v = NULL;
    size_t n = 0;
    bool ok = dac_handles(h->d, types, n_types, &v, &n);
    for (size_t i = 0; ok && i < n; i++) {
        uint64_t before;
        if (map64_get(seen, v[i].handle, &before)) continue;
        ok = map64_put(seen, v[i].handle, 1) && HEAP_ROOM(h->handles, h->n_handles, h->cap_handles, DAC_HANDLES_MAX);
        if (!ok) break;
        uint64_t object = 0;
        if (!dac_read(h->d, v[i].handle, &object, sizeof object)) object = 0;
        h->handles[h->n_handles++] = (heap_handle){.handle = v[i].handle,
                                                   .object = object,
                                                   .secondary = v[i].secondary,
                                                   .type = v[i].type,
                                                   .ref_count = v[i].ref_count};
    }
    free(v);
    return ok;
}

static void read_handles(heap *h)
{
    static const uint32_t dependent[] = {DEPENDENT};
    map64 seen = {.max = DAC_HANDLES_MAX};
    bool ok = ask_handles(h, NULL, 0, &seen);
    ok = ask_handles(h, dependent, 1, &seen) && ok;
    map64_fini(&seen);
    if (!ok) heap_add_note(h, "Not all GC handles could be read: %zu are known.", h->n_handles);
    for (size_t i = 0; i < h->n_handles; i++) {
        const heap_handle *x = &h->handles[i];
        graph_root_kind kind = root_of_handle(x);
        bool pinned = x->type == PINNED || x->type == ASYNC_PINNED;
        if (kind != GRAPH_ROOT_NONE) add_root(h, kind, pinned ? GRAPH_PINNED : 0, x->handle, x->object, 0);
    }
}

/* Objects in [from, to) of a finalizer queue. */
static bool queue_part(heap *h, uint64_t from, uint64_t to, bool ready)
{
    uint64_t chunk[512];
    for (uint64_t at = from; at < to;) {
        size_t n = (size_t)(to - at < sizeof chunk ? to - at : sizeof chunk) / 8;
        size_t got = mem_read(h->t, at, chunk, n * 8) / 8;
        if (!n || !got) return false;
        for (size_t i = 0; i < got; i++) {
            if (!chunk[i]) continue;
            if (!HEAP_ROOM(h->queue, h->n_queue, h->cap_queue, HEAP_QUEUE_MAX)) return false;
            h->queue[h->n_queue++] = chunk[i];
            if (ready) add_root(h, GRAPH_ROOT_FINALIZER_QUEUE, 0, at + i * 8, chunk[i], 0);
        }
        at += got * 8;
    }
    return true;
}

/* With G generations there are G + 2 boundaries: generations from the oldest on, then two kinds of ready ones. */
static void read_queue(heap *h, bool ready)
{
    uint64_t list[HEAP_HEAPS_MAX] = {0}, f[16];
    uint32_t heaps = h->facts.heaps, n = 0;
    if (h->facts.is_server && !dac_gc_heap_list(h->d, list, heaps, &(uint32_t){0})) return;
    for (uint32_t i = 0; i < heaps && i < HEAP_HEAPS_MAX; i++) {
        dac_heap at;
        if (!dac_fill_pointers(h->d, list[i], f, 16, &n)) {
            if (!dac_get_heap(h->d, list[i], &at)) continue;
            memcpy(f, at.fill_pointers, sizeof at.fill_pointers);
            n = 6;
        }
        uint32_t g = h->facts.generations;
        if (n < g + 2 || g + 1 >= 16) continue;
        uint64_t from = ready ? f[g - 1] : f[0], to = ready ? f[g + 1] : f[g - 1];
        if (from > to || to - from > HEAP_QUEUE_MAX * UINT64_C(8) || !queue_part(h, from, to, ready))
            heap_add_note(h, "The finalizer queue of heap %u could not be read whole.", i);
    }
    if (ready) h->n_ready = h->n_queue;
}

static void read_stacks(heap *h, int64_t deadline_ns)
{
    dac_thread_store ts;
    if (!dac_get_thread_store(h->d, &ts)) return;
    uint64_t at = ts.first;
    for (int32_t i = 0; at && i < ts.threads && i < (int32_t)HEAP_THREADS_MAX; i++) {
        dac_thread th;
        dac_stack_ref *v = NULL;
        size_t n = 0;
        if (!dac_get_thread(h->d, at, &th)) break;
        at = th.next;
        if (!th.os_id || th.state & (DAC_THREAD_UNSTARTED | DAC_THREAD_DEAD)) continue;
        if (mono_ns() > deadline_ns || !dac_stack_refs(h->d, th.os_id, &v, &n)) {
            h->facts.threads_unread++;
            continue;
        }
        for (size_t k = 0; k < n; k++)
            if (heap_region_of(h, v[k].object)) /* else a reference into a stack or to what is static */
                add_root(h, GRAPH_ROOT_STACK,
                         (v[k].flags & 1 ? GRAPH_INTERIOR : 0) | (v[k].flags & 2 ? GRAPH_PINNED : 0), v[k].address,
                         v[k].object, th.managed_id);
        free(v);
    }
    if (h->facts.threads_unread)
        heap_add_note(
            h, "The stack roots of %u of %u threads could not be read in time: what only they keep looks unrooted.",
            h->facts.threads_unread, h->facts.threads);
}

int heap__roots(heap *h, int64_t deadline_ns, err *e)
{
    (void)e;
    read_queue(h, true);
    read_queue(h, false);
    read_handles(h);
    if (h->o.stacks) read_stacks(h, deadline_ns);
    return 0;
}
