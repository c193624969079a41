/* SPDX-License-Identifier: MIT */
/* clr_names.c: types, fields and statics of the target by their names, from the metadata of its modules. */
#include <stdlib.h>
#include <string.h>

#include "memory/stacks.h"

#define METADATA_MAX ((uint64_t)64 << 20)
#define PARENTS_MAX  64
#define FIELDS_MAX   4096
#define TOKEN_TYPE   0x02000000u

enum { TABLE_FIELD = 0x04, FIELD_NAME = 1, ELEMENT_VALUE = 0x11 };

void clr_names_init(clr_names *c, dac *d)
{
    dac_globals g;
    dac_method_table mt;
    *c = (clr_names){.d = d};
    if (dac_get_globals(d, &g) && dac_get_method_table(d, g.object, &mt)) c->core = mt.module;
}

void clr_names_fini(clr_names *c)
{
    for (clr_module *m = c->modules; m;) {
        clr_module *next = m->next;
        free(m->bytes);
        free(m);
        m = next;
    }
    c->modules = NULL;
}

const sym_md *clr_metadata(clr_names *c, dac_addr module)
{
    for (clr_module *m = c->modules; m; m = m->next)
        if (m->address == module) return m->bytes ? &m->md : NULL;
    clr_module *m = mem_calloc(1, sizeof *m);
    dac_module info;
    err quiet = {0};
    if (!m) return NULL;
    m->address = module;
    m->next = c->modules;
    c->modules = m;
    if (!dac_get_module(c->d, module, &info) || info.metadata_size == 0 || info.metadata_size > METADATA_MAX)
        return NULL;
    m->bytes = mem_alloc((size_t)info.metadata_size);
    bool ok = m->bytes && mem_get(dac_target(c->d), info.metadata, m->bytes, (size_t)info.metadata_size) &&
              sym_md_read(&m->md, slice_of(m->bytes, (size_t)info.metadata_size), 0, &quiet) >= 0;
    if (!ok) {
        free(m->bytes);
        m->bytes = NULL;
    }
    return ok ? &m->md : NULL;
}

/* The row of a type that is nested in `in` (0: in none). */
static uint32_t type_row(const sym_md *md, const char *ns, slice name, uint32_t in)
{
    for (uint32_t row = 1; row <= md_rows(md, MD_TYPE_DEF); row++) {
        if (!slice_eq(md_string(md, md_get(md, MD_TYPE_DEF, row, TYPE_NAME)), name)) continue;
        uint32_t at = md_lower_bound(md, MD_NESTED_CLASS, NESTED_TYPE, row);
        bool nested = at <= md_rows(md, MD_NESTED_CLASS) && md_get(md, MD_NESTED_CLASS, at, NESTED_TYPE) == row;
        uint32_t outer = nested ? md_get(md, MD_NESTED_CLASS, at, NESTED_IN) : 0;
        if (outer == in && (in || slice_eq_str(md_string(md, md_get(md, MD_TYPE_DEF, row, TYPE_NAMESPACE)), ns)))
            return row;
    }
    return 0;
}

dac_addr clr_type(clr_names *c, const char *ns, const char *name)
{
    const sym_md *md = c->core ? clr_metadata(c, c->core) : NULL;
    uint32_t row = 0;
    dac_addr mt = 0;
    for (const char *at = name; md && *at;) {
        size_t n = strcspn(at, "+");
        row = type_row(md, ns, slice_of(at, n), row);
        if (!row) return 0;
        at += n + (at[n] == '+');
    }
    return row && dac_method_by_token(c->d, c->core, TOKEN_TYPE | row, &mt) ? mt : 0;
}

typedef struct found {
    dac_field field;
    dac_addr mt; /* that declares it */
} found;

/* How many fields the type declares itself: beyond the last one the library would read what is no field. */
static uint32_t own_fields(clr_names *c, const dac_method_table *t, const dac_fields *f)
{
    dac_fields parent = {0};
    uint32_t inherited = t->parent && dac_get_fields(c->d, t->parent, &parent) ? parent.instance : 0;
    return (f->instance > inherited ? f->instance - inherited : 0u) + f->statics;
}

static bool declares(clr_names *c, dac_addr mt, const char *name, bool is_static, found *out)
{
    dac_method_table t;
    dac_fields f;
    if (!dac_get_method_table(c->d, mt, &t) || !dac_get_fields(c->d, mt, &f)) return false;
    const sym_md *md = clr_metadata(c, t.module);
    dac_addr at = f.first;
    uint32_t n = own_fields(c, &t, &f);
    for (uint32_t i = 0; md && at && i < n && i < FIELDS_MAX; i++) {
        if (!dac_get_field(c->d, at, &out->field)) return false;
        const dac_field *d = &out->field;
        if ((d->is_static != 0) == is_static &&
            slice_eq_str(md_string(md, md_get(md, TABLE_FIELD, d->token & 0xffffff, FIELD_NAME)), name)) {
            out->mt = mt;
            return true;
        }
        at = d->next;
    }
    return false;
}

static bool find_field(clr_names *c, dac_addr mt, const char *name, bool is_static, found *out)
{
    for (int i = 0; mt && i < PARENTS_MAX; i++) {
        dac_method_table t;
        if (declares(c, mt, name, is_static, out)) return true;
        if (!dac_get_method_table(c->d, mt, &t)) return false;
        mt = t.parent;
    }
    return false;
}

uint32_t clr_field(clr_names *c, dac_addr mt, const char *name)
{
    uint32_t offset = 8;
    char part[128];
    for (const char *at = name; *at;) {
        found f;
        size_t n = strcspn(at, ".");
        if (n >= sizeof part) return 0;
        memcpy(part, at, n);
        part[n] = '\0';
        if (!mt || !find_field(c, mt, part, false, &f)) return 0;
        offset += f.field.offset;
        mt = f.field.mt;
        at += n + (at[n] == '.');
    }
    return offset;
}

dac_addr clr_static(clr_names *c, dac_addr mt, const char *name)
{
    found f;
    dac_addr non_gc = 0, gc = 0;
    if (!find_field(c, mt, name, true, &f)) return 0;
    if (dac_has(c->d, 14)) {
        uint32_t flags = 0;
        if (dac_init_flags(c->d, f.mt, &flags) && flags != 1) return 0;
        if (!dac_static_bases(c->d, f.mt, &non_gc, &gc) || !gc) return 0;
        return dac_word(c->d, gc + f.field.offset);
    }
    dac_method_table t;
    dac_local_module l;
    if (!dac_get_method_table(c->d, f.mt, &t) || !dac_get_local_module(c->d, t.module, &l) || !l.gc_statics) return 0;
    return dac_word(c->d, l.gc_statics + f.field.offset);
}

bool clr_is(clr_names *c, dac_addr mt, dac_addr base)
{
    for (int i = 0; mt && base && i < PARENTS_MAX; i++) {
        dac_method_table t;
        if (mt == base) return true;
        if (!dac_get_method_table(c->d, mt, &t)) return false;
        mt = t.parent;
    }
    return false;
}
