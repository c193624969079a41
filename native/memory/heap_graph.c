/* SPDX-License-Identifier: MIT */
/* heap_graph.c: a heap as an object graph: all objects, what keeps them, what they are. */
#include "memory/heap_own.h"

#define NAME_BYTES 8192u

void heap__describe_types(heap *h, graph_builder *b)
{
    buf name;
    buf_init(&name, (size_t)1 << 20);
    for (size_t i = 0; i < heap_types_count(h->types); i++) {
        const heap_type *t = heap_type_at(h->types, i);
        dac_method_table mt;
        if (t->graph_type == GRAPH_NONE) continue;
        buf_reset(&name);
        graph_type_text text = {.name = heap_type_name(h, t->mt, &name) ? buf_view(&name) : (slice){0}};
        const heap_module *m = dac_get_method_table(h->d, t->mt, &mt) ? heap_module_of(h, mt.module) : NULL;
        if (m) {
            text.module_name = m->name;
            text.module_path = m->path;
            text.mvid = m->has_mvid ? m->mvid : NULL;
            text.token = mt.token & 0xFFFFFF ? mt.token : 0;
        }
        if (t->flags & HEAP_TYPE_ARRAY) text.flags |= GRAPH_TYPE_ARRAY;
        if (t->flags & HEAP_TYPE_STRING) text.flags |= GRAPH_TYPE_STRING;
        if (t->flags & HEAP_TYPE_COLLECTIBLE) text.flags |= GRAPH_TYPE_COLLECTIBLE;
        graph_builder_describe(b, t->graph_type, &text);
    }
    buf_fini(&name);
}

static void add_statics(heap *h, graph_builder *b)
{
    size_t n;
    const heap_static *v = heap_statics(h, &n);
    char type[NAME_BYTES];
    buf name;
    buf_init(&name, (size_t)NAME_BYTES * 2);
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        if (v[i].goes) continue; /* no root: the loader allocator refers to it */
        if (v[i].mt != last) heap_type_text(h, v[i].mt, type, sizeof type);
        last = v[i].mt;
        buf_reset(&name);
        buf_printf(&name, "%s.%s", type, v[i].name);
        graph_builder_root(b, v[i].thread ? GRAPH_ROOT_THREAD_STATIC : GRAPH_ROOT_STATIC, 0, v[i].slot, v[i].target,
                           buf_view(&name));
    }
    buf_fini(&name);
}

static void add_roots(heap *h, graph_builder *b)
{
    for (size_t i = 0; i < h->n_roots; i++)
        graph_builder_root(b, (graph_root_kind)h->roots[i].kind, h->roots[i].flags, h->roots[i].slot,
                           h->roots[i].target, slice_str(""));
    for (size_t i = 0; i < h->n_handles; i++)
        if (h->handles[i].type == 6 && h->handles[i].object && h->handles[i].secondary)
            graph_builder_dependent(b, h->handles[i].object, h->handles[i].secondary);
}

bool heap_is_torn(const heap *h)
{
    for (size_t i = 0; h->facts.live && i < h->n_regions; i++)
        if (h->regions[i].corrupt_places) return true;
    return false;
}

/* How much of the heap could not be made out, for whoever reads the counts. */
void heap__say_damage(heap *h)
{
    uint64_t bytes = 0, places = 0, first = 0;
    for (size_t i = 0; i < h->n_regions; i++) {
        bytes += h->regions[i].corrupt_bytes;
        places += h->regions[i].corrupt_places;
        if (!first) first = h->regions[i].corrupt_at;
    }
    if (places)
        heap_add_note(h,
                      "%llu bytes in %llu places of the heap are no objects that can be made out, the first at 0x%llx: "
                      "they are left out.",
                      (unsigned long long)bytes, (unsigned long long)places, (unsigned long long)first);
}

int heap_graph_of(heap *h, bool statics, heap_object_fn each, void *arg, graph **out, err *e)
{
    graph_builder *b = graph_builder_new(NULL, e);
    if (!b) return -ERR_NO_MEMORY;
    graph *g = NULL;
    int rc = heap_walk_graph(h->types, h->regions, h->n_regions, h->contexts, h->n_contexts, b, each, arg, e);
    if (rc < 0) goto out;
    heap__say_damage(h);
    add_roots(h, b);
    if (statics) add_statics(h, b);
    heap__describe_types(h, b);
    g = graph_seal(b, e);
    rc = g ? 0 : -(int)(e->kind ? e->kind : ERR_NO_MEMORY);
out:
    graph_builder_free(b);
    if (rc == 0) *out = g;
    return rc;
}
