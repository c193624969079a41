/* SPDX-License-Identifier: MIT */
/* settings.c: the kind of collector by the DAC; the pool's limits from the fields of the managed pool
 * (System.Threading.PortableThreadPool in System.Private.CoreLib, .NET 6 and later). */
#include "memory/settings.h"

#include <stdlib.h>

#include "symbols/metadata.h"

#define METADATA_MAX ((uint64_t)64 << 20)
#define FIELDS_MAX   1024u
#define MD_FIELD     0x04
#define FIELD_NAME   1
#define OWN_BASES    9 /* the version from which on a type has static bases of its own */

typedef struct pool_look {
    dac *d;
    dac_addr module, mt;
    uint32_t row; /* of the type */
    sym_md md;
    uint8_t *bytes;
} pool_look;

static bool read_metadata(pool_look *l)
{
    dac_module m;
    err quiet = {0};
    if (!dac_get_module(l->d, l->module, &m) || m.metadata == 0 || m.metadata_size == 0 ||
        m.metadata_size > METADATA_MAX)
        return false;
    l->bytes = mem_alloc((size_t)m.metadata_size);
    return l->bytes && mem_get(dac_target(l->d), m.metadata, l->bytes, (size_t)m.metadata_size) &&
           sym_md_read(&l->md, slice_of(l->bytes, (size_t)m.metadata_size), 0, &quiet) == 0;
}

static uint32_t row_of(const sym_md *md, const char *space, const char *name)
{
    for (uint32_t row = 1; row <= md_rows(md, MD_TYPE_DEF); row++)
        if (slice_eq_str(md_string(md, md_get(md, MD_TYPE_DEF, row, TYPE_NAME)), name) &&
            slice_eq_str(md_string(md, md_get(md, MD_TYPE_DEF, row, TYPE_NAMESPACE)), space))
            return row;
    return 0;
}

static void each_type(void *arg, uint32_t row, dac_addr mt)
{
    pool_look *l = arg;
    if ((row & 0xffffff) == l->row) l->mt = mt;
}

/* The field of the type itself (not of what it extends) with this name. */
static bool field_named(const pool_look *l, const char *name, dac_field *out)
{
    dac_fields f;
    if (!dac_get_fields(l->d, l->mt, &f)) return false;
    dac_addr at = f.first;
    for (uint32_t i = 0; at && i < (uint32_t)f.instance + f.statics && i < FIELDS_MAX; i++) {
        if (!dac_get_field(l->d, at, out)) return false;
        if (slice_eq_str(md_string(&l->md, md_get(&l->md, MD_FIELD, out->token & 0xffffff, FIELD_NAME)), name))
            return true;
        at = out->next;
    }
    return false;
}

/* The object that a static field of the type refers to; 0: none yet. */
static dac_addr object_in(const pool_look *l, const char *name)
{
    dac_field f;
    dac_addr plain = 0, gc = 0;
    uint32_t flags = 0;
    if (!field_named(l, name, &f) || !f.is_static) return 0;
    if (dac_runtime_of(l->d)->major >= OWN_BASES) {
        if (!dac_init_flags(l->d, l->mt, &flags) || !(flags & 1) || !dac_static_bases(l->d, l->mt, &plain, &gc))
            return 0;
        gc &= ~UINT64_C(1);
    } else {
        dac_local_module local;
        uint8_t state = 0;
        if (!dac_get_local_module(l->d, l->module, &local)) return 0;
        if (!dac_read(l->d, local.class_data + l->row - 1, &state, 1) || !(state & 1)) return 0;
        gc = local.gc_statics;
    }
    return gc ? dac_word(l->d, gc + f.offset) : 0;
}

static bool short_in(const pool_look *l, dac_addr object, const char *name, int32_t *out)
{
    dac_field f;
    int16_t v;
    if (!field_named(l, name, &f) || f.is_static) return false;
    if (!dac_read(l->d, object + sizeof(dac_addr) + f.offset, &v, sizeof v) || v < 0) return false;
    *out = v;
    return true;
}

static bool read_pool(dac *d, int32_t out[SETTINGS_POOL])
{
    static const char *const names[SETTINGS_POOL] = {"_minThreads", "_maxThreads", "_legacy_minIOCompletionThreads",
                                                     "_legacy_maxIOCompletionThreads"};
    pool_look l = {.d = d};
    dac_globals g;
    dac_method_table object;
    bool ok = dac_get_globals(d, &g) && dac_get_method_table(d, g.object, &object);
    if (ok) l.module = object.module; /* System.Object's */
    ok = ok && read_metadata(&l);
    if (ok) l.row = row_of(&l.md, "System.Threading", "PortableThreadPool");
    ok = ok && l.row && dac_module_types(d, l.module, each_type, &l) && l.mt;
    dac_addr pool = ok ? object_in(&l, "ThreadPoolInstance") : 0;
    ok = pool != 0;
    for (int i = 0; i < SETTINGS_POOL && ok; i++)
        ok = short_in(&l, pool, names[i], &out[i]);
    free(l.bytes);
    return ok;
}

void settings_read(dac *d, settings *out)
{
    dac_gc_heap gc;
    *out = (settings){0};
    if (dac_get_gc_heap(d, &gc)) {
        out->has_gc = true;
        out->is_server = gc.is_server != 0;
        out->heaps = gc.heaps;
    }
    out->has_pool = read_pool(d, out->pool);
}
