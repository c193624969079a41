/* SPDX-License-Identifier: MIT */
/* schema.c: compiles declared fields into a layout: sizes, fixed offsets as far as they go, and the flat list with
 * structs opened. */
#include "nettrace/nt_internal.h"

#define SIZE_MAX_FIELD ((uint64_t)1 << 31)

static const struct wire_info {
    uint8_t type;
    uint8_t size; /* 0: varies */
    uint8_t min;
} wires[NT_W_COUNT] = {
    [NT_W_BOOL32] = {NT_BOOL, 4, 4},  [NT_W_BOOL8] = {NT_BOOL, 1, 1},
    [NT_W_CHAR16] = {NT_CHAR, 2, 2},  [NT_W_I8] = {NT_INT, 1, 1},
    [NT_W_U8] = {NT_UINT, 1, 1},      [NT_W_I16] = {NT_INT, 2, 2},
    [NT_W_U16] = {NT_UINT, 2, 2},     [NT_W_I32] = {NT_INT, 4, 4},
    [NT_W_U32] = {NT_UINT, 4, 4},     [NT_W_I64] = {NT_INT, 8, 8},
    [NT_W_U64] = {NT_UINT, 8, 8},     [NT_W_F32] = {NT_FLOAT, 4, 4},
    [NT_W_F64] = {NT_FLOAT, 8, 8},    [NT_W_FILETIME] = {NT_FILETIME, 8, 8},
    [NT_W_GUID] = {NT_GUID, 16, 16},  [NT_W_DECIMAL] = {NT_DECIMAL, 16, 16},
    [NT_W_UTF16Z] = {NT_STR16, 0, 2}, [NT_W_ANSIZ] = {NT_STR8, 0, 1},
    [NT_W_VARINT] = {NT_INT, 0, 1},   [NT_W_VARUINT] = {NT_UINT, 0, 1},
    [NT_W_UTF8] = {NT_CHAR, 1, 1},    [NT_W_STRUCT] = {NT_STRUCT, 0, 0},
    [NT_W_ARRAY] = {NT_ARRAY, 0, 0},  [NT_W_BYTES] = {NT_BYTES, 0, 0},
    [NT_W_RELLOC] = {NT_ARRAY, 4, 4}, [NT_W_DATALOC] = {NT_ARRAY, 4, 4},
};

static bool build_list(arena *a, nt_field *out, const nt_spec *specs, uint32_t n, bool natural, uint64_t *size,
                       uint64_t *min);

static uint32_t align_of(const nt_field *f)
{
    if (f->wire == NT_W_GUID) return 4;
    return f->size == 0 || f->size > 8 ? 8 : f->size;
}

/* Arrays of characters are text. */
static uint8_t sequence_type(const nt_field *f)
{
    if (f->n_sub == 1 && f->sub->wire == NT_W_CHAR16) return NT_STR16;
    if (f->n_sub == 1 && f->sub->wire == NT_W_UTF8) return NT_STR8;
    return NT_ARRAY;
}

static bool build_nested(arena *a, nt_field *f, const nt_spec *s)
{
    uint64_t size = 0, min = 0;
    nt_field *sub = arena_alloc(a, sizeof *sub * (s->n_sub ? s->n_sub : 1));
    if (!sub || !build_list(a, sub, s->sub, s->n_sub, s->natural, &size, &min)) return false;
    f->sub = sub;
    f->n_sub = (uint16_t)s->n_sub;
    if (s->wire == NT_W_STRUCT) {
        f->size = size == NT_VARIES ? NT_VARIES : (uint32_t)size;
        f->min_size = (uint32_t)min;
        return true;
    }
    if (s->n_sub != 1) return false;
    f->type = sequence_type(f);
    if (s->wire != NT_W_ARRAY) return sub->size != NT_VARIES; /* a location's elements must have a fixed size */
    f->min_size = s->count_kind == NT_COUNT_U16 ? 2 : 0;
    if (s->count_kind != NT_COUNT_FIXED) return true;
    f->count = s->count;
    uint64_t total_min = (uint64_t)sub->min_size * s->count;
    if (total_min > SIZE_MAX_FIELD) return false;
    f->min_size = (uint32_t)total_min;
    if (sub->size != NT_VARIES) f->size = sub->size * s->count;
    return true;
}

static bool build_field(arena *a, nt_field *f, const nt_spec *s)
{
    if ((unsigned)s->wire >= NT_W_COUNT) return false;
    const struct wire_info *w = &wires[s->wire];
    char *name = arena_str(a, s->name);
    if (!name) return false;
    f->name = slice_of(name, s->name.n);
    f->enums = s->enums;
    f->wire = (uint8_t)s->wire;
    f->type = w->type;
    f->count_kind = (uint8_t)s->count_kind;
    f->slot = f->count_slot = NT_NO_SLOT;
    f->hex = s->hex;
    f->shift = NT_NO_SHIFT;
    bool whole = w->size && w->size <= 8 && s->wire != NT_W_BOOL32 && s->wire != NT_W_BOOL8 && s->wire != NT_W_F32;
    if (whole && w->type != NT_ARRAY) f->shift = (uint8_t)(64 - 8 * w->size);
    f->size = w->size ? w->size : NT_VARIES;
    f->min_size = w->min;
    if (s->wire == NT_W_BYTES) f->min_size = s->count_kind == NT_COUNT_U16 ? 2 : 0;
    if (s->wire == NT_W_STRUCT || s->wire == NT_W_ARRAY || s->wire == NT_W_RELLOC || s->wire == NT_W_DATALOC)
        return build_nested(a, f, s);
    return true;
}

/* The slot that keeps the number of the sibling which counts f's elements. */
static bool bind_count(nt_field *fields, uint32_t at, const nt_spec *s, uint8_t *slots_used)
{
    if (s->count_kind != NT_COUNT_FIELD || (s->wire != NT_W_ARRAY && s->wire != NT_W_BYTES)) return true;
    if (s->count >= at) return false;
    nt_field *counter = &fields[s->count];
    if (counter->type != NT_UINT && counter->type != NT_INT) return false;
    if (counter->slot == NT_NO_SLOT) {
        if (*slots_used == NT_SLOTS) return false;
        counter->slot = (*slots_used)++;
    }
    fields[at].count_slot = counter->slot;
    return true;
}

static bool build_list(arena *a, nt_field *out, const nt_spec *specs, uint32_t n, bool natural, uint64_t *size,
                       uint64_t *min)
{
    uint64_t at = 0, least = 0, widest = 1;
    bool fixed = true;
    uint8_t slots = 0;
    for (uint32_t i = 0; i < n; i++) {
        nt_field *f = &out[i];
        if (!build_field(a, f, &specs[i]) || !bind_count(out, i, &specs[i], &slots)) return false;
        if (natural) {
            if (f->size == NT_VARIES || f->wire == NT_W_STRUCT) return false;
            uint32_t align = align_of(f);
            at = (at + align - 1) / align * align;
            if (align > widest) widest = align;
        }
        f->offset = fixed ? (uint32_t)at : NT_VARIES;
        if (f->size == NT_VARIES)
            fixed = false;
        else
            at += f->size;
        least += f->min_size;
        if (at > SIZE_MAX_FIELD || least > SIZE_MAX_FIELD) return false;
    }
    if (natural) least = at = (at + widest - 1) / widest * widest;
    *size = fixed ? at : NT_VARIES;
    *min = least;
    return true;
}

static uint32_t count_flat(const nt_field *f, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += f[i].wire == NT_W_STRUCT ? count_flat(f[i].sub, f[i].n_sub) : 1;
    return sum;
}

static bool join_path(arena *a, slice prefix, slice name, slice *out)
{
    bool dot = prefix.n && name.n;
    char *p = arena_alloc(a, prefix.n + name.n + dot + 1);
    if (!p) return false;
    if (prefix.n) memcpy(p, prefix.p, prefix.n);
    if (dot) p[prefix.n] = '.';
    if (name.n) memcpy(p + prefix.n + dot, name.p, name.n);
    *out = slice_of(p, prefix.n + dot + name.n);
    return true;
}

/* Where the flat list stands: its next offset, and whether that is still fixed. */
typedef struct flat_place {
    nt_field *next;
    uint64_t at;
    bool fixed;
    uint8_t slots;
} flat_place;

/* A struct's own slots are numbered from 0 again: shift them, so that two structs of one payload do not share. */
static bool shift_slots(nt_field *f, uint8_t by)
{
    if (f->slot != NT_NO_SLOT) f->slot = (uint8_t)(f->slot + by);
    if (f->count_slot != NT_NO_SLOT) f->count_slot = (uint8_t)(f->count_slot + by);
    return (f->slot == NT_NO_SLOT || f->slot < NT_SLOTS) && (f->count_slot == NT_NO_SLOT || f->count_slot < NT_SLOTS);
}

static bool flatten(arena *a, flat_place *to, const nt_field *f, uint32_t n, slice prefix)
{
    uint8_t base = to->slots;
    for (uint32_t i = 0; i < n; i++)
        if (f[i].slot != NT_NO_SLOT && to->slots < base + f[i].slot + 1) to->slots = (uint8_t)(base + f[i].slot + 1);
    for (uint32_t i = 0; i < n; i++) {
        slice path;
        if (!join_path(a, prefix, f[i].name, &path)) return false;
        if (f[i].wire == NT_W_STRUCT) {
            uint64_t from = to->at;
            if (!flatten(a, to, f[i].sub, f[i].n_sub, path)) return false;
            if (to->fixed && to->at - from != f[i].size)
                return false; /* alignment gaps: only array elements may have them */
            continue;
        }
        nt_field *out = to->next++;
        *out = f[i];
        out->path = path;
        if (!shift_slots(out, base)) return false;
        out->offset = to->fixed ? (uint32_t)to->at : NT_VARIES;
        if (out->size == NT_VARIES)
            to->fixed = false;
        else
            to->at += out->size;
    }
    return true;
}

static uint32_t count_bool32(const nt_field *flat, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += flat[i].wire == NT_W_BOOL32;
    return sum;
}

/* The whole numbers at the start, as far as 16 bits reach. */
static bool build_steps(arena *a, nt_schema *s)
{
    uint32_t n = 0;
    while (n < s->n_flat && s->flat[n].shift != NT_NO_SHIFT && s->flat[n].slot == NT_NO_SLOT &&
           s->flat[n].offset <= UINT16_MAX - 16)
        n++;
    nt_step *steps = arena_alloc(a, sizeof *steps * (n ? n : 1));
    if (!steps) return false;
    s->steps_size = 8;
    for (uint32_t i = 0; i < n; i++) {
        const nt_field *f = &s->flat[i];
        uint32_t end = f->offset + f->size, at = end > 8 ? end - 8 : 0;
        steps[i] = (nt_step){.field = f,
                             .type = f->type,
                             .at = (uint16_t)at,
                             .left = (uint8_t)(8 * (at + 8 - end)),
                             .right = f->shift,
                             .sign = f->type == NT_INT ? UINT64_C(1) << (8 * f->size - 1) : 0};
        if (end > s->steps_size) s->steps_size = end;
    }
    s->steps = steps;
    s->n_steps = n;
    return true;
}

const nt_schema *nt_schema_build(arena *a, const nt_spec *specs, uint32_t n)
{
    uint64_t size = 0, min = 0;
    nt_schema *s = arena_alloc(a, sizeof *s);
    nt_field *fields = arena_alloc(a, sizeof *fields * (n ? n : 1));
    if (!s || !fields || !build_list(a, fields, specs, n, false, &size, &min)) return NULL;
    uint32_t n_flat = count_flat(fields, n);
    nt_field *flat = arena_alloc(a, sizeof *flat * (n_flat ? n_flat : 1));
    flat_place to = {.next = flat, .fixed = true};
    if (!flat || !flatten(a, &to, fields, n, (slice){0})) return NULL;
    s->fields = fields;
    s->n_fields = n;
    s->flat = flat;
    s->n_flat = n_flat;
    s->size = size == NT_VARIES ? NT_VARIES : (uint32_t)size;
    s->min_size = (uint32_t)min;
    s->n_slots = to.slots;
    s->n_bool32 = count_bool32(flat, n_flat);
    return build_steps(a, s) ? s : NULL;
}

int nt_field_index(const nt_schema *s, slice name)
{
    int found = -1;
    for (uint32_t i = 0; i < s->n_flat; i++)
        if (slice_eq(s->flat[i].path, name)) return (int)i;
    for (uint32_t i = 0; i < s->n_flat; i++) {
        if (!slice_eq(s->flat[i].name, name)) continue;
        if (found >= 0) return -1;
        found = (int)i;
    }
    return found;
}
