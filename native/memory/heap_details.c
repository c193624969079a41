/* SPDX-License-Identifier: MIT */
/* heap_details.c: gathers what the walk meets, and writes it. */
#include <stdio.h>

#include "memory/heap_details_own.h"

heap_details *heap_details_new(heap *h, err *e)
{
    heap_details *d = mem_calloc(1, sizeof *d);
    if (!d) {
        err_set(e, ERR_NO_MEMORY, "no memory for the details of a heap");
        return NULL;
    }
    d->h = h;
    return d;
}

void heap_details_free(heap_details *d)
{
    if (!d) return;
    for (int k = 0; k < HEAP_KIND_COUNT; k++)
        free(d->of_kind[k].v);
    free(d->texts);
    free(d->calls);
    map64_fini(&d->text_at);
    map64_fini(&d->call_at);
    free(d);
}

void heap_details_see(void *arg, uint64_t address, uint32_t type, const uint8_t *body, uint64_t size)
{
    heap_details *d = arg;
    const heap_type *t = heap_type_at(d->h->types, type);
    switch ((heap_kind)t->kind) {
    case HEAP_STRING: heap__see_string(d, address, body, size); break;
    case HEAP_DELEGATE: heap__see_delegate(d, t->mt, body, size); break;
    case HEAP_TIMER_QUEUE_TIMER:
    case HEAP_ASYNC_BOX:
    case HEAP_LOAD_CONTEXT: {
        heap_list *l = &d->of_kind[t->kind];
        if (HEAP_ROOM(l->v, l->n, l->cap, HEAP_OBJECTS_MAX))
            l->v[l->n++] = address;
        else
            l->dropped++;
        break;
    }
    case HEAP_PLAIN:
    case HEAP_TIMER:
    case HEAP_TASK:
    case HEAP_COMPLETION_SOURCE:
    case HEAP_KIND_COUNT: break;
    }
}

static void write_runtime(const heap *h, jsonw *w)
{
    const dac_runtime *r = dac_runtime_of(h->d);
    jsonw_key_lit(w, "runtime");
    jsonw_object(w);
    jsonw_key_lit(w, "name");
    jsonw_cstr(w, "CoreClr");
    jsonw_key_lit(w, "version");
    jsonw_cstr(w, r->version[0] ? r->version : "unknown");
    jsonw_key_lit(w, "architecture");
    jsonw_cstr(w, "x64");
    jsonw_key_lit(w, "isServerGC");
    jsonw_bool(w, h->facts.is_server);
    jsonw_key_lit(w, "heapCount");
    jsonw_uint(w, h->facts.heaps);
    jsonw_end_object(w);
}

/* Bytes of the objects of each generation, free room left out. */
static void write_sizes(const heap *h, jsonw *w)
{
    static const char *const names[] = {"gen0", "gen1", "gen2", "large", "pinned", "frozen"};
    uint64_t used[HEAP_GEN_COUNT] = {0}, room = 0, objects = 0;
    for (size_t i = 0; i < h->n_regions; i++) {
        const heap_region *r = &h->regions[i];
        used[r->gen] += r->object_bytes - r->free_bytes;
        room += r->free_bytes;
        objects += r->objects - r->free_objects;
    }
    jsonw_key_lit(w, "sizes");
    jsonw_object(w);
    for (int g = 0; g < HEAP_GEN_COUNT; g++) {
        jsonw_key(w, slice_str(names[g]));
        jsonw_uint(w, used[g]);
    }
    jsonw_key_lit(w, "free");
    jsonw_uint(w, room);
    jsonw_key_lit(w, "committed");
    jsonw_uint(w, h->facts.committed);
    jsonw_key_lit(w, "missing"); /* of a dump */
    jsonw_uint(w, h->facts.missing);
    jsonw_key_lit(w, "objects");
    jsonw_uint(w, objects);
    jsonw_end_object(w);
}

static void write_stop(const heap *h, jsonw *w)
{
    if (!h->facts.live) return;
    jsonw_key_lit(w, "stop");
    jsonw_object(w);
    jsonw_key_lit(w, "ms");
    jsonw_num(w, (double)h->facts.stop_ns / 1e6);
    if (h->facts.fork_ns) {
        jsonw_key_lit(w, "forkMs");
        jsonw_num(w, (double)h->facts.fork_ns / 1e6);
    }
    jsonw_key_lit(w, "estimatedMs");
    jsonw_num(w, (double)h->facts.estimate_ns / 1e6);
    jsonw_key_lit(w, "copyMs");
    jsonw_num(w, (double)h->facts.stop_copy_ns / 1e6);
    jsonw_key_lit(w, "rootsMs");
    jsonw_num(w, (double)h->facts.stop_roots_ns / 1e6);
    jsonw_key_lit(w, "copiedBytes");
    jsonw_uint(w, h->facts.copied);
    jsonw_key_lit(w, "copies");
    jsonw_uint(w, h->o.copies ? h->o.copies : 1);
    jsonw_end_object(w);
}

static void write_notes(heap_details *d, jsonw *w)
{
    jsonw_key_lit(w, "notes");
    jsonw_array(w);
    if (dac_falls(d->h->d)) {
        char text[160];
        snprintf(text, sizeof text,
                 "The runtime's library fell over %u questions, which were asked again where that helps: names may be "
                 "missing.",
                 dac_falls(d->h->d));
        jsonw_cstr(w, text);
    }
    for (size_t i = 0; heap_note(d->h, i); i++)
        jsonw_cstr(w, heap_note(d->h, i));
    for (size_t i = 0; mem_note(d->h->t, i); i++)
        jsonw_cstr(w, mem_note(d->h->t, i));
    jsonw_end_array(w);
}

static void write_total(const char *name, const heap_total *t, jsonw *w)
{
    jsonw_key(w, slice_str(name));
    jsonw_object(w);
    jsonw_key_lit(w, "rows");
    jsonw_uint(w, t->rows);
    jsonw_key_lit(w, "objects");
    jsonw_uint(w, t->objects);
    jsonw_key_lit(w, "bytes");
    jsonw_uint(w, t->bytes);
    jsonw_end_object(w);
}

void heap_details_write(heap_details *d, const heap_wanted *want, jsonw *w)
{
    const struct {
        const char *name;
        void (*write)(heap_details *d, jsonw *w);
        bool wanted;
    } sections[] = {{"fragmentation", heap__write_segments, true},
                    {"finalizer-queue", heap__write_queue, !want->totals},
                    {"gchandles", heap__write_handles, !want->totals},
                    {"timers", heap__write_timers, !want->totals},
                    {"async", heap__write_async, !want->totals},
                    {"alc", heap__write_contexts, !want->totals},
                    {"static-fields", heap__write_statics, want->statics},
                    {"delegate-targets", heap__write_delegates, want->delegates},
                    {"duplicate-strings", heap__write_strings, want->strings}};
    heap_total totals[sizeof sections / sizeof *sections] = {0};
    jsonw_object(w);
    write_runtime(d->h, w);
    write_sizes(d->h, w);
    write_stop(d->h, w);
    jsonw_key_lit(w, "pid");
    jsonw_int(w, mem_pid(d->h->t));
    jsonw_key_lit(w, "sections");
    jsonw_object(w);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (!sections[i].wanted) continue;
        jsonw_key(w, slice_str(sections[i].name));
        d->total = (heap_total){0};
        sections[i].write(d, w);
        totals[i] = d->total;
    }
    jsonw_end_object(w);
    jsonw_key_lit(w, "totals");
    jsonw_object(w);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (totals[i].rows) write_total(sections[i].name, &totals[i], w);
    jsonw_end_object(w);
    write_notes(d, w); /* last: sections add to them */
    jsonw_end_object(w);
}
