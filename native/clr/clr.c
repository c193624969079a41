/* SPDX-License-Identifier: MIT */
/* clr.c: looks things up in the compiled-in manifest and turns its layouts into schemas. */
#include "clr/clr.h"

#include <nettle/sha1.h>

#include "base/utf.h"
#include "clr/manifest.h"

#define DEPTH_MAX 4

const clr_provider *clr_provider_find(slice name)
{
    for (unsigned i = 0; i < clr__n_providers; i++)
        if (slice_eq_str(name, clr__providers[i].name)) return &clr__providers[i];
    return NULL;
}

const clr_provider *clr_provider_by_guid(const uint8_t guid[16])
{
    for (unsigned i = 0; i < clr__n_providers; i++)
        if (clr__providers[i].has_guid && memcmp(clr__providers[i].guid, guid, 16) == 0) return &clr__providers[i];
    return NULL;
}

size_t clr_provider_count(void) { return clr__n_providers; }
const clr_provider *clr_provider_at(size_t i) { return i < clr__n_providers ? &clr__providers[i] : NULL; }
const char *clr_provider_name(const clr_provider *p) { return p->name; }
bool clr_provider_dynamic_ids(const clr_provider *p) { return p->dynamic_ids; }

/* EventSource: SHA-1 over a fixed namespace and the upper-cased name in UTF-16BE. ASCII case only: names are. */
bool clr_provider_guid(slice name, uint8_t guid[16])
{
    static const uint8_t space[16] = {0x48, 0x2C, 0x2D, 0xB2, 0xC3, 0x90, 0x47, 0xC8,
                                      0x87, 0xF8, 0x1A, 0x15, 0xBF, 0xC1, 0x30, 0xFB};
    const clr_provider *p = clr_provider_find(name);
    if (p && p->has_guid) {
        memcpy(guid, p->guid, 16);
        return true;
    }
    buf wide;
    buf_init(&wide, 0);
    bool ok = utf8_to_utf16le(name, &wide);
    for (size_t i = 0; i + 1 < wide.n; i += 2) {
        uint8_t low = wide.p[i], high = wide.p[i + 1];
        wide.p[i] = high;
        wide.p[i + 1] = high == 0 && low >= 'a' && low <= 'z' ? (uint8_t)(low - 32) : low;
    }
    struct sha1_ctx h;
    uint8_t digest[SHA1_DIGEST_SIZE];
    sha1_init(&h);
    sha1_update(&h, sizeof space, space);
    sha1_update(&h, wide.n, wide.p);
    sha1_digest(&h, sizeof digest, digest);
    memcpy(guid, digest, 16);
    guid[7] = (uint8_t)((guid[7] & 0x0F) | 0x50);
    buf_fini(&wide);
    return ok;
}

uint64_t clr_keyword(const clr_provider *p, slice name)
{
    for (unsigned i = 0; i < p->n_keywords; i++)
        if (slice_eq_str(name, clr__names[p->keywords + i].name)) return clr__names[p->keywords + i].value;
    return 0;
}

const clr_event *clr_event_find(const clr_provider *p, uint32_t id, uint32_t version)
{
    const clr_event *best = NULL;
    for (unsigned i = 0; i < p->n_events; i++) {
        const clr_event *e = &clr__events[p->events + i];
        if (e->id == id && e->version <= version) best = e; /* they stand by version */
    }
    return best;
}

size_t clr_event_count(const clr_provider *p) { return p->n_events; }
const clr_event *clr_event_at(const clr_provider *p, size_t i)
{
    return i < p->n_events ? &clr__events[p->events + i] : NULL;
}
uint32_t clr_event_id(const clr_event *e) { return e->id; }
uint32_t clr_event_version(const clr_event *e) { return e->version; }
uint32_t clr_event_level(const clr_event *e) { return e->level; }
uint64_t clr_event_keywords(const clr_event *e) { return e->keywords; }
const char *clr_event_name(const clr_event *e) { return e->name; }
const char *clr_event_display(const clr_event *e) { return e->display; }
bool clr_event_has_stack(const clr_event *e) { return e->stack; }

static nt_spec *make_specs(arena *a, unsigned at, unsigned n, uint32_t pointer_size, unsigned depth)
{
    nt_spec *s = arena_alloc(a, sizeof *s * (n ? n : 1));
    if (!s || depth > DEPTH_MAX) return NULL;
    for (unsigned i = 0; i < n; i++) {
        const clr__field *f = &clr__fields[at + i];
        nt_wire wire = f->wire != CLR_WIRE_PTR ? (nt_wire)f->wire : pointer_size == 4 ? NT_W_U32 : NT_W_U64;
        s[i] = (nt_spec){.name = slice_str(f->name),
                         .enums = f->enums,
                         .wire = wire,
                         .n_sub = f->n_sub,
                         .count_kind = (nt_count)f->count_kind,
                         .count = f->count,
                         .hex = f->hex,
                         .natural = f->natural};
        if (f->n_sub && !(s[i].sub = make_specs(a, f->sub, f->n_sub, pointer_size, depth + 1))) return NULL;
    }
    return s;
}

const nt_schema *clr_event_schema(const clr_event *e, uint32_t pointer_size, arena *a)
{
    arena temp = {0};
    nt_spec *s = make_specs(&temp, e->fields, e->n_fields, pointer_size, 0);
    const nt_schema *schema = s ? nt_schema_build(a, s, e->n_fields) : NULL;
    if (!schema) a->failed = true; /* the manifest's layouts are possible ones: it was memory */
    arena_free(&temp);
    return schema;
}

const nt_schema *clr_gc_dynamic_schema(slice name, arena *a)
{
    for (unsigned i = 0; i < clr__n_gc_dynamic; i++)
        if (slice_eq_str(name, clr__gc_dynamic[i].name)) return clr_event_schema(&clr__gc_dynamic[i], 8, a);
    return NULL;
}

static const clr_event *find_by_name(const clr_provider *p, slice name)
{
    for (unsigned i = 0; i < p->n_events; i++)
        if (slice_eq_str(name, clr__events[p->events + i].name)) return &clr__events[p->events + i];
    return NULL;
}

static void resolve_native(const clr_provider *p, nt_kind *k, uint32_t pointer_size, arena *a)
{
    const clr_event *e = clr_event_find(p, k->id, k->version);
    const clr_event *any = e ? e : clr_event_find(p, k->id, UINT32_MAX);
    if (!any) return;
    k->display = slice_str(any->display);
    if (k->name.n == 0) k->name = slice_str(any->name);
    if (k->opcode < 0) k->opcode = any->opcode;
    if (e && !k->schema) k->schema = clr_event_schema(e, pointer_size, a);
}

void clr_resolve(void *arg, nt_kind *k, uint32_t pointer_size, arena *a)
{
    (void)arg;
    const clr_provider *p = clr_provider_find(k->provider);
    if (!p) return;
    if (p->native) {
        resolve_native(p, k, pointer_size, a);
        return;
    }
    const clr_event *e = k->schema ? NULL : find_by_name(p, k->name);
    if (e) k->schema = clr_event_schema(e, pointer_size, a);
}

static const clr__enum *enum_find(const char *name)
{
    for (unsigned i = 0; name && i < clr__n_enums; i++)
        if (strcmp(clr__enums[i].name, name) == 0) return &clr__enums[i];
    return NULL;
}

bool clr_enum_text(const char *enums, uint64_t value, buf *out)
{
    const clr__enum *e = enum_find(enums);
    if (!e) return false;
    const clr__name *n = &clr__names[e->values], *end = n + e->n_values;
    if (!e->flags || value == 0) {
        for (; n < end; n++)
            if (n->value == value) return buf_str(out, n->name);
        return e->flags && buf_str(out, "None");
    }
    size_t start = out->n;
    for (; n < end; n++) {
        if (n->value == 0 || (value & n->value) != n->value) continue;
        value &= ~n->value;
        if (out->n > start) buf_str(out, ", ");
        buf_str(out, n->name);
    }
    if (value) buf_printf(out, out->n > start ? ", 0x%llx" : "0x%llx", (unsigned long long)value);
    return !out->failed;
}
