/* SPDX-License-Identifier: MIT */
/* heap_statics.c: static fields that hold on to objects. From .NET 9 on a type has its own bases; up to 8 a module has
 * one block for all its types (botr/type-loader.md; threadstatics.cpp, appdomain.hpp). */
#include <unistd.h>

#include "memory/heap_own.h"

#define THREADS_LOOKED 512u /* whose thread-static fields are read */

/* ---- what the runtime lists -------------------------------------------------------------------------------------- */

typedef struct listing {
    heap *h;
    uint64_t module;
} listing;

static void list_type(void *arg, uint32_t row, dac_addr mt)
{
    listing *l = arg;
    heap *h = l->h;
    if (HEAP_ROOM(h->loaded, h->n_loaded, h->cap_loaded, HEAP_TYPES_MAX))
        h->loaded[h->n_loaded++] = (heap_loaded){.mt = mt, .module = l->module, .row = row & 0xFFFFFF};
}

static void list_modules(heap *h, uint64_t domain)
{
    dac_addr *assemblies = NULL, *modules = NULL;
    uint32_t n = 0, k = 0;
    if (!dac_assemblies(h->d, domain, &assemblies, &n)) return;
    for (uint32_t i = 0; i < n; i++) {
        if (!dac_assembly_modules(h->d, assemblies[i], &modules, &k)) continue;
        for (uint32_t j = 0; j < k; j++) {
            listing l = {h, modules[j]};
            if (HEAP_ROOM(h->module_list, h->n_module_list, h->cap_module_list, HEAP_MODULES_MAX))
                h->module_list[h->n_module_list++] = modules[j];
            dac_module_types(h->d, modules[j], list_type, &l);
        }
        free(modules);
        modules = NULL;
    }
    free(assemblies);
}

static void list_threads(heap *h)
{
    dac_thread_store ts;
    if (!dac_get_thread_store(h->d, &ts)) return;
    uint64_t at = ts.first;
    for (int32_t i = 0; at && i < ts.threads && h->n_threads < THREADS_LOOKED; i++) {
        dac_thread th;
        if (!dac_get_thread(h->d, at, &th)) break;
        if (th.os_id && HEAP_ROOM(h->threads, h->n_threads, h->cap_threads, THREADS_LOOKED))
            h->threads[h->n_threads++] = (heap_thread){at, th.managed_id, th.os_id};
        at = th.next;
    }
    if (ts.threads > (int32_t)THREADS_LOOKED)
        heap_add_note(h, "Thread-static fields were read of %u of %d threads.", THREADS_LOOKED, ts.threads);
}

void heap__list_loaded(heap *h)
{
    dac_addr domains[16];
    uint32_t k = 0;
    if (dac_get_app_domains(h->d, domains, 16, &k, NULL))
        for (uint32_t i = 0; i < k && i < 16; i++)
            list_modules(h, domains[i]);
    list_threads(h);
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

typedef struct looking {
    heap *h;
    uint64_t module_address;
    uint64_t module_index;
    bool new_bases; /* .NET 9 and later */
    dac_local_module local;
    bool has_local;
    map64 seen;                      /* method tables */
    bool left_plain, left_of_thread; /* fields of types that can be unloaded, which are not read */
    /* the type at hand */
    uint64_t mt, gc_base;
    bool goes; /* it can be unloaded */
    uint64_t thread_gc_base;
    uint32_t thread;
} looking;

static void add_static(looking *l, const heap_field *f, uint64_t base, uint32_t thread)
{
    heap *h = l->h;
    uint64_t slot = base + f->offset, target = heap_word(h, slot);
    if (!target || heap_type_of_object(h, target) == GRAPH_NONE) return;
    if (!HEAP_ROOM(h->statics, h->n_statics, h->cap_statics, HEAP_STATICS_MAX)) return;
    const char *name = f->name.n ? arena_str(&h->names, f->name) : "";
    h->statics[h->n_statics++] = (heap_static){.mt = l->mt,
                                               .slot = slot,
                                               .target = target,
                                               .name = name ? name : "",
                                               .token = f->token,
                                               .thread = thread,
                                               .boxed = f->element == HEAP_EL_VALUE,
                                               .goes = l->goes};
}

static bool plain_field(void *arg, const heap_field *f)
{
    looking *l = arg;
    if (!f->is_static || f->is_thread_static || f->has_rva) return true;
    if (heap_is_reference(f->element) || f->element == HEAP_EL_VALUE) add_static(l, f, l->gc_base, 0);
    return true;
}

static bool thread_field(void *arg, const heap_field *f)
{
    looking *l = arg;
    if (!f->is_thread_static) return true;
    if (heap_is_reference(f->element) || f->element == HEAP_EL_VALUE) add_static(l, f, l->thread_gc_base, l->thread);
    return true;
}

/* Where the references of a type's static fields are; 0: nowhere yet. row: in the TypeDef table; 0: an instantiation.
 */
static uint64_t gc_base_of(looking *l, uint32_t row)
{
    uint32_t flags = 0;
    dac_addr plain = 0, gc = 0;
    if (l->goes && !l->new_bases) return 0;
    if (l->new_bases) {
        if (!dac_init_flags(l->h->d, l->mt, &flags) || !(flags & 1)) return 0;
        return dac_static_bases(l->h->d, l->mt, &plain, &gc) ? gc & ~UINT64_C(1) : 0;
    }
    uint8_t state = 0;
    if (!row || !l->has_local || !l->local.gc_statics) return 0;
    if (!heap_read(l->h, l->local.class_data + row - 1, &state, 1) || !(state & 1)) return 0;
    return l->local.gc_statics;
}

/* Of a live process that goes on: what a thread had is gone when it has ended. */
static bool is_there(const heap *h, const heap_thread *t)
{
    char path[64];
    if (!h->facts.live || mem_stopped(h->t)) return true;
    const mem_thread *known = mem_thread_of(h->t, (pid_t)t->os_id);
    snprintf(path, sizeof path, "/proc/%d/task/%d", (int)mem_pid(h->t), known ? (int)known->tid : (int)t->os_id);
    return access(path, F_OK) == 0;
}

static uint64_t thread_gc_base_of(looking *l, const heap_thread *t)
{
    dac_addr plain = 0, gc = 0;
    dac_local_module m;
    if (!is_there(l->h, t)) return 0;
    if (l->new_bases) return dac_thread_static_bases(l->h->d, l->mt, t->address, &plain, &gc) ? gc : 0;
    return dac_get_thread_local_module(l->h->d, t->address, (uint32_t)l->module_index, &m) ? m.gc_statics : 0;
}

static void one_type(looking *l, uint32_t row, uint64_t mt)
{
    dac_fields f;
    uint64_t before;
    if (map64_get(&l->seen, mt, &before) || !map64_put(&l->seen, mt, 1)) return;
    if (!dac_get_fields(l->h->d, mt, &f) || (!f.statics && !f.thread_statics)) return;
    dac_collectible c = {0};
    l->mt = mt;
    l->goes = dac_get_collectible(l->h->d, mt, &c) && c.is_collectible;
    l->gc_base = gc_base_of(l, row);
    if (l->gc_base) heap_each_field(l->h, mt, plain_field, l);
    if (l->goes) { /* .NET 8 keeps them where its library does not tell; that of 9 and 10 falls over those of threads */
        l->left_plain |= !l->new_bases && f.statics > f.thread_statics;
        l->left_of_thread |= f.thread_statics > 0;
        return;
    }
    if (!f.thread_statics) return;
    for (size_t i = 0; i < l->h->n_threads; i++) {
        l->thread = l->h->threads[i].id;
        l->thread_gc_base = thread_gc_base_of(l, &l->h->threads[i]);
        if (l->thread_gc_base) heap_each_field(l->h, mt, thread_field, l);
    }
}

static void enter_module(looking *l, uint64_t address)
{
    dac_module m;
    if (address == l->module_address) return;
    l->module_address = address;
    l->module_index = dac_get_module(l->h->d, address, &m) ? m.index : 0;
    l->has_local = !l->new_bases && dac_get_local_module(l->h->d, address, &l->local);
}

const heap_static *heap_statics(heap *h, size_t *n)
{
    if (!h->statics_read) {
        h->statics_read = true;
        looking l = {.h = h, .new_bases = dac_has(h->d, 14), .seen = {.max = (size_t)HEAP_TYPES_MAX * 2}};
        for (size_t i = 0; i < h->n_loaded; i++) {
            enter_module(&l, h->loaded[i].module);
            one_type(&l, h->loaded[i].row, h->loaded[i].mt);
        }
        l.has_local = false;
        for (size_t i = 0; i < heap_types_count(h->types); i++) { /* instantiations are in no module's list */
            const heap_type *t =
                heap_type_at(h->types, i); /* asked for the fields of Free, the DAC of .NET 8 crashes */
            if (!(t->flags & (HEAP_TYPE_FREE | HEAP_TYPE_ARRAY))) one_type(&l, 0, t->mt);
        }
        map64_fini(&l.seen);
        if (l.left_plain || l.left_of_thread)
            heap_add_note(h,
                          "%s fields of types that can be unloaded are not read: what they refer to is kept by the "
                          "loader allocator of their context.",
                          l.left_plain ? "Static" : "Thread-static");
        if (h->n_statics >= HEAP_STATICS_MAX)
            heap_add_note(h, "More than %u static fields refer to objects: the rest is left out.", HEAP_STATICS_MAX);
    }
    *n = h->n_statics;
    return h->statics;
}
