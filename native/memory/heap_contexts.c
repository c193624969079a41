/* SPDX-License-Identifier: MIT */
/* heap_contexts.c: assembly load contexts: which assemblies each holds, and for a collectible one the object that keeps
 * its types alive. */
#include "base/utf.h"
#include "memory/heap_details_own.h"

#define CONTEXTS_MAX   4096u
#define ASSEMBLIES_MAX 65536u

typedef struct assembly {
    uint64_t context;   /* the AssemblyLoadContext object; 0: the default one */
    uint64_t allocator; /* the LoaderAllocator object, of a collectible one */
    slice name;
} assembly;

typedef struct finding {
    heap *h;
    assembly *v;
    size_t n, cap;
} finding;

/* A type of a module: of those it lists, or (a dynamic one) of those on the heap. 0: none. */
static uint64_t type_of_module(const heap *h, uint64_t module)
{
    for (size_t i = 0; i < h->n_loaded; i++)
        if (h->loaded[i].module == module) return h->loaded[i].mt;
    for (size_t i = 0; i < heap_types_count(h->types); i++) {
        dac_method_table t;
        const heap_type *x = heap_type_at(h->types, i);
        if (x->flags & HEAP_TYPE_COLLECTIBLE && dac_get_method_table(h->d, x->mt, &t) && t.module == module)
            return x->mt;
    }
    return 0;
}

static void add_module(finding *f, uint64_t address)
{
    heap *h = f->h;
    uint64_t first = type_of_module(h, address);
    const heap_module *m = heap_module_of(h, address);
    dac_addr context = 0;
    dac_collectible c = {0};
    if (!first || !m || !dac_load_context(h->d, first, &context)) return;
    if (!HEAP_ROOM(f->v, f->n, f->cap, ASSEMBLIES_MAX)) return;
    bool goes = dac_get_collectible(h->d, first, &c) && c.is_collectible && c.loader_allocator_handle;
    f->v[f->n++] = (assembly){.context = context,
                              .allocator = goes ? heap_word(h, c.loader_allocator_handle) : 0,
                              .name = m->name.n ? m->name : SLICE_LIT("(dynamic)")};
}

static void find_assemblies(finding *f)
{
    for (size_t i = 0; i < f->h->n_module_list; i++)
        add_module(f, f->h->module_list[i]);
}

static bool flag(heap *h, uint64_t object, const char *name)
{
    heap_field x;
    uint8_t v = 0;
    uint64_t mt = heap_word(h, object) & ~UINT64_C(7);
    return mt && heap_field_named(h, mt, name, &x) && heap_read(h, object + x.offset, &v, 1) && v;
}

/* The text of a string field; null: none. */
static void write_text(heap *h, uint64_t object, const char *name, jsonw *w)
{
    heap_field x;
    uint32_t length = 0;
    uint64_t mt = heap_word(h, object) & ~UINT64_C(7), text = 0;
    if (mt && heap_field_named(h, mt, name, &x)) text = heap_word(h, object + x.offset);
    const uint8_t *p =
        text && heap_read(h, text + 8, &length, 4) && length < 4096 ? heap_at(h, text + 12, 2 * (size_t)length) : NULL;
    if (!p) {
        jsonw_null(w);
        return;
    }
    buf b;
    buf_init(&b, 16384);
    utf16le_to_utf8(slice_of(p, 2 * (size_t)length), &b);
    jsonw_str(w, buf_view(&b));
    buf_fini(&b);
}

static void write_context(heap_details *d, const finding *f, uint64_t object, bool is_default, jsonw *w)
{
    heap *h = d->h;
    uint64_t allocator = 0;
    bool collectible = object && flag(h, object, "_isCollectible");
    jsonw_object(w);
    jsonw_key_lit(w, "name");
    if (object)
        write_text(h, object, "_name", w);
    else
        jsonw_cstr(w, "Default");
    jsonw_key_lit(w, "typeFullName");
    if (object)
        heap__write_type_name(h, heap_word(h, object) & ~UINT64_C(7), w);
    else
        jsonw_cstr(w, "System.Runtime.Loader.DefaultAssemblyLoadContext");
    jsonw_key_lit(w, "address");
    jsonw_hex(w, object);
    jsonw_key_lit(w, "isCollectible");
    jsonw_bool(w, collectible);
    jsonw_key_lit(w, "isDefault");
    jsonw_bool(w, is_default);
    jsonw_key_lit(w, "isUnloading"); /* InternalState: 0 alive, 1 unloading */
    jsonw_bool(w, object && flag(h, object, "_state"));
    jsonw_key_lit(w, "assemblies");
    jsonw_array(w);
    for (size_t i = 0; i < f->n; i++) {
        if (f->v[i].context != object && !(is_default && !f->v[i].context)) continue;
        jsonw_str(w, f->v[i].name);
        if (f->v[i].allocator) allocator = f->v[i].allocator;
    }
    jsonw_end_array(w);
    jsonw_key_lit(w, "loaderAllocatorAddress");
    if (allocator)
        jsonw_hex(w, allocator);
    else
        jsonw_null(w);
    jsonw_end_object(w);
}

void heap__write_contexts(heap_details *d, jsonw *w)
{
    finding f = {.h = d->h};
    const heap_list *l = &d->of_kind[HEAP_LOAD_CONTEXT];
    bool default_seen = false;
    find_assemblies(&f);
    jsonw_array(w);
    for (size_t i = 0; i < l->n && i < CONTEXTS_MAX; i++) {
        char name[128];
        heap_type_text(d->h, heap_word(d->h, l->v[i]) & ~UINT64_C(7), name, sizeof name);
        bool is_default = strcmp(name, "System.Runtime.Loader.DefaultAssemblyLoadContext") == 0;
        default_seen = default_seen || is_default;
        write_context(d, &f, l->v[i], is_default, w);
    }
    if (!default_seen) write_context(d, &f, 0, true, w);
    jsonw_end_array(w);
    free(f.v);
}
