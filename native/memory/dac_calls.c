/* SPDX-License-Identifier: MIT */
/* dac_calls.c: the questions to the DAC, each a slot of an interface. */
#include <stdlib.h>
#include <string.h>

#include "base/utf.h"
#include "memory/dac_internal.h"

#define FETCH_AT_ONCE 256u

/* The shapes of the methods: the object, addresses, numbers, places for answers. */
typedef int32_t (*p_fn)(void *, void *);
typedef int32_t (*pp_fn)(void *, void *, void *);
typedef int32_t (*ap_fn)(void *, dac_addr, void *);
typedef int32_t (*app_fn)(void *, dac_addr, void *, void *);
typedef int32_t (*aap_fn)(void *, dac_addr, dac_addr, void *);
typedef int32_t (*aapp_fn)(void *, dac_addr, dac_addr, void *, void *);
typedef int32_t (*up_fn)(void *, uint32_t, void *);
typedef int32_t (*upp_fn)(void *, uint32_t, void *, void *);
typedef int32_t (*aup_fn)(void *, dac_addr, uint32_t, void *);
typedef int32_t (*aupp_fn)(void *, dac_addr, uint32_t, void *, void *);

#define ASK(object, slot, type, ...)                                                                                   \
    (dac__said(d, DAC_CALL(d, object, slot, type, __VA_ARGS__)) ||                                                     \
     (dac__again(d) && dac__said(d, DAC_CALL(d, object, slot, type, __VA_ARGS__))))
#define SOS(n, slot, type, ...) (d->sos[n] && ASK(d->sos[n], slot, type, __VA_ARGS__))

/* ---- one record each ---- */
bool dac_get_thread_store(dac *d, dac_thread_store *out) { return SOS(1, 3, p_fn, out); }
bool dac_get_thread(dac *d, dac_addr thread, dac_thread *out) { return SOS(1, 17, ap_fn, thread, out); }
bool dac_thread_by_thin_lock(dac *d, uint32_t id, dac_addr *thread) { return SOS(1, 18, up_fn, id, thread) && *thread; }
bool dac_get_module(dac *d, dac_addr module, dac_module *out) { return SOS(1, 13, ap_fn, module, out); }
bool dac_get_method_table(dac *d, dac_addr mt, dac_method_table *out) { return SOS(1, 37, ap_fn, mt, out); }
bool dac_get_fields(dac *d, dac_addr mt, dac_fields *out) { return SOS(1, 39, ap_fn, mt, out); }
bool dac_get_field(dac *d, dac_addr field, dac_field *out) { return SOS(1, 42, ap_fn, field, out); }
bool dac_get_object(dac *d, dac_addr object, dac_object *out) { return SOS(1, 33, ap_fn, object, out); }
bool dac_get_globals(dac *d, dac_globals *out) { return SOS(1, 70, p_fn, out); }
bool dac_method_by_ip(dac *d, dac_addr ip, dac_addr *method) { return SOS(1, 21, ap_fn, ip, method) && *method; }
bool dac_method_of_frame(dac *d, dac_addr frame, dac_addr *method)
{
    return SOS(1, 23, ap_fn, frame, method) && *method;
}
bool dac_get_code(dac *d, dac_addr ip, dac_code *out) { return SOS(1, 26, ap_fn, ip, out); }
bool dac_get_gc_heap(dac *d, dac_gc_heap *out) { return SOS(1, 46, p_fn, out); }
bool dac_get_segment(dac *d, dac_addr segment, dac_segment *out) { return SOS(1, 50, ap_fn, segment, out); }
bool dac_get_sync_block(dac *d, uint32_t number, dac_sync_block *out) { return SOS(1, 59, up_fn, number, out); }
bool dac_get_exception(dac *d, dac_addr object, dac_exception *out) { return SOS(2, 3, ap_fn, object, out); }
bool dac_get_collectible(dac *d, dac_addr mt, dac_collectible *out) { return SOS(6, 3, ap_fn, mt, out); }
bool dac_load_context(dac *d, dac_addr mt, dac_addr *object) { return SOS(8, 8, ap_fn, mt, object); }
bool dac_global_alloc_context(dac *d, dac_addr *ptr, dac_addr *limit) { return SOS(12, 3, pp_fn, ptr, limit); }
bool dac_init_flags(dac *d, dac_addr mt, uint32_t *flags) { return SOS(14, 5, ap_fn, mt, flags); }
bool dac_get_local_module(dac *d, dac_addr module, dac_local_module *out) { return SOS(1, 57, ap_fn, module, out); }

bool dac_get_thread_local_module(dac *d, dac_addr thread, uint32_t module_index, dac_local_module *out)
{
    return SOS(1, 58, aup_fn, thread, module_index, out);
}

bool dac_method_by_token(dac *d, dac_addr module, uint32_t token, dac_addr *method)
{
    return SOS(1, 24, aup_fn, module, token, method) && *method;
}

bool dac_get_method(dac *d, dac_addr method, dac_addr ip, dac_method *out)
{
    typedef int32_t (*method_fn)(void *, dac_addr, dac_addr, void *, uint32_t, void *, uint32_t *);
    return SOS(1, 20, method_fn, method, ip, out, 0, NULL, NULL);
}

bool dac_get_heap(dac *d, dac_addr heap, dac_heap *out)
{
    return heap ? SOS(1, 48, ap_fn, heap, out) : SOS(1, 49, p_fn, out);
}

bool dac_nested_exception(dac *d, dac_addr nested, dac_addr *object, dac_addr *next)
{
    return SOS(1, 65, app_fn, nested, object, next);
}

bool dac_static_bases(dac *d, dac_addr mt, dac_addr *non_gc, dac_addr *gc)
{
    return SOS(14, 3, app_fn, mt, non_gc, gc);
}

bool dac_thread_static_bases(dac *d, dac_addr mt, dac_addr thread, dac_addr *non_gc, dac_addr *gc)
{
    return SOS(14, 4, aapp_fn, mt, thread, non_gc, gc);
}

/* ---- short lists ---- */
bool dac_gc_heap_list(dac *d, dac_addr *v, uint32_t cap, uint32_t *n) { return SOS(1, 47, upp_fn, cap, v, n); }

bool dac_generations(dac *d, dac_addr heap, dac_generation *v, uint32_t cap, uint32_t *n)
{
    return heap ? SOS(8, 6, aupp_fn, heap, cap, v, n) : SOS(8, 4, upp_fn, cap, v, n);
}

bool dac_fill_pointers(dac *d, dac_addr heap, dac_addr *v, uint32_t cap, uint32_t *n)
{
    return heap ? SOS(8, 7, aupp_fn, heap, cap, v, n) : SOS(8, 5, upp_fn, cap, v, n);
}

bool dac_get_app_domains(dac *d, dac_addr *v, uint32_t cap, uint32_t *n, dac_app_domain_store *store)
{
    dac_app_domain_store own;
    if (!store) store = &own;
    return SOS(1, 4, p_fn, store) && SOS(1, 5, upp_fn, cap, v, n);
}

bool dac_tiers(dac *d, dac_addr method, dac_tier *v, uint32_t cap, uint32_t *n)
{
    typedef int32_t (*tiers_fn)(void *, dac_addr, int32_t, dac_tier *, int32_t, int32_t *);
    int32_t got = 0;
    bool ok = SOS(5, 3, tiers_fn, method, 0, v, (int32_t)cap, &got);
    *n = ok && got > 0 ? (uint32_t)got : 0;
    return ok;
}

/* ---- lists whose length is asked first ---- */

bool dac_assemblies(dac *d, dac_addr domain, dac_addr **v, uint32_t *n)
{
    int32_t need = 0;
    typedef int32_t (*list_fn)(void *, dac_addr, int32_t, dac_addr *, int32_t *);
    *v = NULL;
    *n = 0;
    if (!SOS(1, 9, list_fn, domain, 0, NULL, &need) || need <= 0 || need > (int32_t)DAC_ASSEMBLIES_MAX) return false;
    *v = mem_calloc((size_t)need, sizeof **v);
    if (!*v || !SOS(1, 9, list_fn, domain, need, *v, &need)) {
        free(*v);
        *v = NULL;
        return false;
    }
    *n = (uint32_t)need;
    return true;
}

bool dac_assembly_modules(dac *d, dac_addr assembly, dac_addr **v, uint32_t *n)
{
    uint32_t need = 0;
    *v = NULL;
    *n = 0;
    if (!SOS(1, 15, aupp_fn, assembly, 0, NULL, &need) || need == 0 || need > DAC_ASSEMBLIES_MAX) return false;
    *v = mem_calloc(need, sizeof **v);
    if (!*v || !SOS(1, 15, aupp_fn, assembly, need, *v, &need)) {
        free(*v);
        *v = NULL;
        return false;
    }
    *n = need;
    return true;
}

/* ---- names ---- */

/* get(object, address, count, text, needed): most names have this shape. */
static bool name_at(dac *d, void *object, int slot, dac_addr a, buf *utf8)
{
    uint16_t small[512] = {0}, *text = small;
    uint32_t need = 0, cap = sizeof small / sizeof small[0];
    if (!object || !ASK(object, slot, aupp_fn, a, cap, small, &need)) return false;
    if (need > cap && need <= DAC_NAME_UNITS_MAX) {
        text = mem_calloc((size_t)need + 1, sizeof *text);
        if (!text) return false;
        if (!ASK(object, slot, aupp_fn, a, need, text, &cap)) need = 0;
        cap = need;
    }
    size_t n = 0;
    while (n < cap && text[n])
        n++;
    bool ok = n > 0 && utf16le_to_utf8(slice_of(text, 2 * n), utf8);
    if (text != small) free(text);
    return ok;
}

bool dac_app_domain_name(dac *d, dac_addr domain, buf *utf8) { return name_at(d, d->sos[1], 7, domain, utf8); }
bool dac_pe_file_name(dac *d, dac_addr pe_assembly, buf *utf8) { return name_at(d, d->sos[1], 45, pe_assembly, utf8); }
bool dac_method_table_name(dac *d, dac_addr mt, buf *utf8) { return name_at(d, d->sos[1], 36, mt, utf8); }
bool dac_object_class(dac *d, dac_addr object, buf *utf8) { return name_at(d, d->sos[1], 35, object, utf8); }
bool dac_method_name(dac *d, dac_addr method, buf *utf8) { return name_at(d, d->sos[1], 22, method, utf8); }
bool dac_frame_name(dac *d, dac_addr word, buf *utf8) { return name_at(d, d->sos[1], 43, word, utf8); }

bool dac_assembly_name(dac *d, dac_addr domain, dac_addr assembly, buf *utf8)
{
    (void)domain;
    return name_at(d, d->sos[1], 11, assembly, utf8);
}

bool dac_code_name(dac *d, dac_addr ip, buf *utf8)
{
    typedef int32_t (*fn)(void *, dac_addr, uint32_t, uint32_t, uint32_t *, uint16_t *, dac_addr *);
    uint16_t text[1024] = {0};
    uint32_t need = 0;
    dac_addr displacement;
    if (!ASK(d->process, 15, fn, ip, 0, 1023, &need, text, &displacement)) return false;
    size_t n = 0;
    while (n < 1023 && text[n])
        n++;
    return n > 0 && utf16le_to_utf8(slice_of(text, 2 * n), utf8);
}

bool dac_register_name(dac *d, int32_t reg, buf *utf8)
{
    typedef int32_t (*fn)(void *, int32_t, uint32_t, uint16_t *, uint32_t *);
    uint16_t text[32] = {0};
    uint32_t need = 0;
    if (!SOS(1, 80, fn, reg, 31, text, &need)) return false;
    size_t n = 0;
    while (n < 31 && text[n])
        n++;
    return n > 0 && utf16le_to_utf8(slice_of(text, 2 * n), utf8);
}

#define METADATA_UNITS 512u /* of a name */

/* IMetaDataImport of a module; NULL: none. Released by the caller. */
static void *metadata_of(dac *d, dac_addr module)
{
    typedef int32_t (*query_fn)(void *, const dac_guid *, void **);
    static const dac_guid import = DAC_GUID(0x7dac8207, 0xd3ae, 0x4c75, 0x9b, 0x67, 0x92, 0x80, 0x1a, 0x49, 0x7d, 0x44);
    void *m = NULL, *metadata = NULL;
    if (!SOS(1, 12, ap_fn, module, &m) || !m) return NULL;
    if (!ASK(m, 0, query_fn, &import, &metadata)) metadata = NULL;
    dac__release(d, m);
    return metadata;
}

static bool name_in_metadata(const uint16_t *text, uint32_t got, buf *utf8)
{
    return got > 1 && got <= METADATA_UNITS && utf16le_to_utf8(slice_of(text, 2 * (size_t)(got - 1)), utf8);
}

bool dac_type_name_in_metadata(dac *d, dac_addr module, uint32_t token, buf *utf8)
{
    typedef int32_t (*fn)(void *, uint32_t, uint16_t *, uint32_t, uint32_t *, uint32_t *, uint32_t *);
    void *metadata = metadata_of(d, module);
    uint16_t text[METADATA_UNITS] = {0};
    uint32_t got = 0, flags = 0, extends = 0;
    bool ok = metadata && ASK(metadata, 12, fn, token, text, METADATA_UNITS, &got, &flags, &extends) &&
              name_in_metadata(text, got, utf8);
    dac__release(d, metadata);
    return ok;
}

bool dac_field_name_in_metadata(dac *d, dac_addr module, uint32_t token, buf *utf8)
{
    typedef int32_t (*fn)(void *, uint32_t, uint32_t *, uint16_t *, uint32_t, uint32_t *, uint32_t *, const uint8_t **,
                          uint32_t *, uint32_t *, const void **, uint32_t *);
    void *metadata = metadata_of(d, module);
    uint16_t text[METADATA_UNITS] = {0};
    uint32_t of = 0, got = 0, flags = 0, signature_size = 0, element = 0, value_size = 0;
    const uint8_t *signature = NULL;
    const void *value = NULL;
    bool ok = metadata &&
              ASK(metadata, 57, fn, token, &of, text, METADATA_UNITS, &got, &flags, &signature, &signature_size,
                  &element, &value, &value_size) &&
              name_in_metadata(text, got, utf8);
    dac__release(d, metadata);
    return ok;
}

/* ---- modules ---- */

bool dac_get_module_layout(dac *d, dac_addr module, dac_module_layout *out)
{
    typedef int32_t (*request_fn)(void *, uint32_t, uint32_t, void *, uint32_t, void *);
    void *m = NULL;
    if (!SOS(1, 12, ap_fn, module, &m) || !m) return false;
    bool ok = dac__said(d, DAC_CALL(d, m, 36, request_fn, 0xf0000001u, 0, NULL, sizeof *out, out));
    dac__release(d, m);
    return ok;
}

typedef struct traverse {
    dac_type_fn fn;
    void *arg;
} traverse;

static void on_type(uint32_t row, dac_addr mt, void *token)
{
    const traverse *t = token;
    t->fn(t->arg, row, mt);
}

bool dac_module_types(dac *d, dac_addr module, dac_type_fn fn, void *arg)
{
    typedef int32_t (*map_fn)(void *, uint32_t, dac_addr, void (*)(uint32_t, dac_addr, void *), void *);
    traverse t = {fn, arg};
    return SOS(1, 14, map_fn, 0, module, on_type, &t);
}

/* ---- enumerators ---- */

/* Takes all items of an enumerator, which it releases. A failure midway leaves what came before. */
static bool drain(dac *d, void *en, size_t item, size_t max, void **v, size_t *n)
{
    uint8_t *all = NULL;
    size_t done = 0, cap = 0;
    for (;;) {
        if (done + FETCH_AT_ONCE > cap) {
            cap = cap ? 2 * cap : 1024;
            uint8_t *p = cap <= 2 * max + 1024 ? mem_realloc(all, cap * item) : NULL;
            if (!p) break;
            all = p;
        }
        uint32_t got = 0;
        int32_t hr = DAC_CALL(d, en, 6, upp_fn, FETCH_AT_ONCE, all + done * item, &got);
        if (!dac__said(d, hr) || got == 0 || got > FETCH_AT_ONCE) break;
        done += got;
        if (done >= max) break;
    }
    dac__release(d, en);
    if (d->extra_release) dac__release(d, en);
    *v = all;
    *n = done;
    return all != NULL;
}

bool dac_handles(dac *d, const uint32_t *types, uint32_t n_types, dac_handle **v, size_t *n)
{
    void *en = NULL, *all = NULL;
    *v = NULL;
    *n = 0;
    typedef int32_t (*types_fn)(void *, const uint32_t *, uint32_t, void **);
    bool ok = types ? SOS(1, 62, types_fn, types, n_types, &en) : SOS(1, 61, p_fn, &en);
    if (!ok || !en || !drain(d, en, sizeof **v, DAC_HANDLES_MAX, &all, n)) return false;
    *v = all;
    return true;
}

bool dac_stack_refs(dac *d, uint32_t os_id, dac_stack_ref **v, size_t *n)
{
    void *en = NULL, *all = NULL;
    *v = NULL;
    *n = 0;
    if (!SOS(1, 79, up_fn, os_id, &en) || !en || !drain(d, en, sizeof **v, DAC_STACK_REFS_MAX, &all, n)) return false;
    *v = all;
    return true;
}

/* ---- IL ---- */

bool dac_il_offset(dac *d, dac_addr ip, uint32_t *il)
{
    typedef int32_t (*start_fn)(void *, dac_addr, void *, uint64_t *);
    typedef int32_t (*next_fn)(void *, uint64_t *, void **);
    typedef int32_t (*end_fn)(void *, uint64_t);
    typedef int32_t (*offsets_fn)(void *, dac_addr, uint32_t, uint32_t *, uint32_t *);
    uint64_t h = 0;
    void *m = NULL, *p = d->process;
    bool found = false;
    if (!dac__said(d, DAC_CALL(d, p, 27, start_fn, ip, NULL, &h))) return false;
    if (DAC_CALL(d, p, 28, next_fn, &h, &m) == DAC_S_OK && m) {
        uint32_t need = 0, offsets[32];
        if (dac__said(d, DAC_CALL(d, m, 12, offsets_fn, ip, 32, &need, offsets)))
            for (uint32_t i = 0; i < need && i < 32 && !found; i++)
                if (offsets[i] < 0xfffffff0u) {
                    *il = offsets[i];
                    found = true;
                }
        dac__release(d, m);
    }
    (void)DAC_CALL(d, p, 29, end_fn, h);
    return found;
}
