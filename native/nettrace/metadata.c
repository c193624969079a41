/* SPDX-License-Identifier: MIT */
/* metadata.c: what the stream says about its kinds of event: names, keywords, fields. */
#include "nettrace/nt_internal.h"

#include <ctype.h>
#include <stdio.h>

#define DENSE_IDS  65536u
#define TEMP_BYTES ((size_t)1 << 20) /* of one kind's fields while they are compiled */

/* Parses one field list; what a failure costs is the list, never the kind. */
typedef struct fields {
    cursor c;
    arena temp;
    buf *text;
    const nt_reader *r;
    uint32_t left; /* fields that may still come */
    bool v6;
} fields;

static bool parse_list(fields *f, nt_spec **out, uint32_t *n_out, uint32_t depth, bool v2);

static bool keep_text(fields *f, slice utf16, slice *out)
{
    buf_reset(f->text);
    if (!utf16le_to_utf8(utf16, f->text)) return false;
    char *p = arena_str(&f->temp, buf_view(f->text));
    *out = slice_of(p, f->text->n);
    return p != NULL;
}

static bool field_name(fields *f, slice *out)
{
    if (f->v6) {
        slice s = cursor_bytes(&f->c, cursor_varu32(&f->c));
        if (s.n > f->r->lim.name_bytes) return false;
        buf_reset(f->text);
        if (!cursor_ok(&f->c) || !utf8_sanitize(s, f->text)) return false;
        char *p = arena_str(&f->temp, buf_view(f->text));
        *out = slice_of(p, f->text->n);
        return p != NULL;
    }
    slice s = cursor_utf16z(&f->c, f->r->lim.name_bytes / 2);
    return cursor_ok(&f->c) && keep_text(f, s, out);
}

static bool plain_type(uint32_t code, bool v6, nt_wire *out)
{
    static const int8_t wires[] = {[0] = -1,
                                   [1] = -1,
                                   [2] = -1,
                                   [3] = NT_W_BOOL32,
                                   [4] = NT_W_CHAR16,
                                   [5] = NT_W_I8,
                                   [6] = NT_W_U8,
                                   [7] = NT_W_I16,
                                   [8] = NT_W_U16,
                                   [9] = NT_W_I32,
                                   [10] = NT_W_U32,
                                   [11] = NT_W_I64,
                                   [12] = NT_W_U64,
                                   [13] = NT_W_F32,
                                   [14] = NT_W_F64,
                                   [15] = NT_W_DECIMAL,
                                   [16] = NT_W_FILETIME,
                                   [17] = NT_W_GUID,
                                   [18] = NT_W_UTF16Z,
                                   [19] = -1,
                                   [20] = NT_W_VARINT,
                                   [21] = NT_W_VARUINT,
                                   [22] = -1,
                                   [23] = NT_W_UTF8,
                                   [24] = -1,
                                   [25] = -1,
                                   [26] = NT_W_BOOL8};
    if (code >= sizeof wires || wires[code] < 0 || (code > 19 && !v6)) return false;
    *out = (nt_wire)wires[code];
    return true;
}

static bool parse_type(fields *f, nt_spec *s, uint32_t depth, bool v2)
{
    if (depth > f->r->lim.field_depth) return false;
    uint32_t code = f->v6 ? cursor_u8(&f->c) : cursor_u32(&f->c);
    if (!cursor_ok(&f->c)) return false;
    if (code == 1) {
        s->wire = NT_W_STRUCT;
        return parse_list(f, &s->sub, &s->n_sub, depth + 1, v2);
    }
    bool array = v2 && (code == 19 || (f->v6 && (code == 22 || code == 24 || code == 25)));
    if (!array) return plain_type(code, f->v6, &s->wire);
    s->sub = arena_alloc(&f->temp, sizeof *s->sub);
    s->n_sub = 1;
    if (!s->sub || !parse_type(f, s->sub, depth + 1, v2)) return false;
    s->wire = code == 24 ? NT_W_RELLOC : code == 25 ? NT_W_DATALOC : NT_W_ARRAY;
    s->count_kind = code == 22 ? NT_COUNT_FIXED : NT_COUNT_U16;
    if (code == 22) s->count = cursor_u16(&f->c);
    return cursor_ok(&f->c);
}

static bool parse_v1_field(fields *f, nt_spec *s, uint32_t depth)
{
    return parse_type(f, s, depth, false) && field_name(f, &s->name);
}

/* V2 and V6 fields tell their size, so that a newer writer may append. */
static bool parse_sized_field(fields *f, nt_spec *s, uint32_t depth)
{
    const uint8_t *start = f->c.p;
    size_t size = f->v6 ? cursor_u16(&f->c) : cursor_u32(&f->c);
    if (f->v6) start = f->c.p; /* V6: the size does not count itself */
    if (!cursor_ok(&f->c) || size > (size_t)(f->c.end - start)) return false;
    cursor outer = f->c;
    f->c.end = start + size;
    if (f->c.p > f->c.end) return false;
    bool ok = field_name(f, &s->name) && parse_type(f, s, depth, true);
    outer.p = start + size;
    f->c = outer;
    return ok;
}

static bool parse_list(fields *f, nt_spec **out, uint32_t *n_out, uint32_t depth, bool v2)
{
    uint32_t n = f->v6 ? cursor_u16(&f->c) : cursor_u32(&f->c);
    if (!cursor_ok(&f->c) || n > f->left || n > cursor_left(&f->c)) return false;
    f->left -= n;
    nt_spec *s = arena_alloc(&f->temp, sizeof *s * (n ? n : 1));
    if (!s) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!(v2 ? parse_sized_field(f, &s[i], depth) : parse_v1_field(f, &s[i], depth))) return false;
    *out = s;
    *n_out = n;
    return true;
}

/* Compiles the list at *c into k. A list that cannot be parsed leaves k without fields; -1: memory, told to the reader.
 */
static int take_fields(nt_reader *r, nt_kind *k, cursor *c, bool v2)
{
    fields f = {.c = *c,
                .temp.max = TEMP_BYTES,
                .text = &r->scratch,
                .r = r,
                .left = r->lim.fields_per_kind,
                .v6 = r->trace.version >= 6};
    nt_spec *specs = NULL;
    uint32_t n = 0;
    bool ok = parse_list(&f, &specs, &n, 1, v2);
    *c = f.c;
    if (ok && n) {
        k->schema = nt_schema_build(&r->kinds_arena, specs, n);
        k->described = ok = k->schema != NULL;
    }
    bool no_memory = r->scratch.failed || (f.temp.failed && f.temp.used < TEMP_BYTES / 2);
    arena_free(&f.temp);
    if (no_memory) nt__no_memory(r); /* not the list's fault: kind_add gives up */
    if (!ok) {
        k->schema = NULL;
        k->fields_dropped = true;
        r->stats.fields_dropped++;
        cursor_fail(c);
    }
    return ok ? 0 : -1;
}

/* ---- names ---- */

static bool ends_with(slice s, const char *lower)
{
    size_t n = strlen(lower);
    if (s.n < n) return false;
    for (size_t i = 0; i < n; i++)
        if (tolower(s.p[s.n - n + i]) != lower[i]) return false;
    return true;
}

slice nt__display_name(arena *a, slice name, uint32_t id, int opcode)
{
    static const char *const opcodes[] = {
        "",       "Start",   "Stop",    "DataCollectionStart", "DataCollectionStop", "Extension", "Reply",
        "Resume", "Suspend", "Transfer"};
    char number[32];
    if (name.n == 0) {
        int n = snprintf(number, sizeof number, "EventID(%u)", id);
        char *p = arena_str(a, slice_of(number, (size_t)n));
        return slice_of(p, p ? (size_t)n : 0);
    }
    if (opcode <= 0) opcode = ends_with(name, "start") ? 1 : ends_with(name, "stop") ? 2 : 0;
    if (opcode == 0) {
        char *p = arena_str(a, name);
        return slice_of(p, p ? name.n : 0);
    }
    slice task = name;
    if (opcode == 1 && ends_with(name, "start")) task.n -= 5;
    if (opcode == 2 && ends_with(name, "stop")) task.n -= 4;
    const char *suffix = number;
    if (opcode < 10)
        suffix = opcodes[opcode];
    else
        snprintf(number, sizeof number, "%d", opcode);
    size_t n = task.n + 1 + strlen(suffix);
    char *p = arena_alloc(a, n + 1);
    if (!p) return (slice){0};
    snprintf(p, n + 1, "%.*s/%s", (int)task.n, (const char *)task.p, suffix);
    return slice_of(p, n);
}

/* ---- the table of kinds ---- */

static int full(nt_reader *r, int64_t at)
{
    if (r->kinds_arena.used + 65536 < r->lim.kind_bytes) return nt__no_memory(r);
    return nt__fail(r, ERR_LIMIT, at, "the names and fields of event kinds pass %zu bytes", r->lim.kind_bytes);
}

static bool keep_name(nt_reader *r, slice raw, bool utf8, slice *out)
{
    buf_reset(&r->scratch);
    bool ok = utf8 ? utf8_sanitize(raw, &r->scratch) : utf16le_to_utf8(raw, &r->scratch);
    char *p = ok ? arena_str(&r->kinds_arena, buf_view(&r->scratch)) : NULL;
    *out = slice_of(p, p ? r->scratch.n : 0);
    return p != NULL;
}

static nt_kind *kind_new(nt_reader *r, uint32_t id)
{
    nt_kind *k = arena_alloc(&r->kinds_arena, sizeof *k);
    if (!k) return NULL;
    k->metadata_id = id;
    k->opcode = -1;
    return k;
}

static bool bind_id(nt_reader *r, nt_kind *k, uint32_t id)
{
    if (id >= DENSE_IDS) return map64_put(&r->by_big_id, id, k->index);
    if (id >= r->n_by_id) {
        uint32_t n = r->n_by_id * 2 > id ? r->n_by_id * 2 : id + 64;
        nt_kind **p = mem_realloc(r->by_id, n * sizeof(nt_kind *));
        if (!p) return false;
        nt__account(r, (ptrdiff_t)((n - r->n_by_id) * sizeof *p));
        memset(p + r->n_by_id, 0, (n - r->n_by_id) * sizeof *p);
        r->by_id = p;
        r->n_by_id = n;
    }
    r->by_id[id] = k;
    return true;
}

static int kind_add(nt_reader *r, nt_kind *k, int64_t at)
{
    if (r->status < 0) return r->status;
    if (r->n_kinds >= r->lim.kinds) return nt__fail(r, ERR_LIMIT, at, "more than %u kinds of event", r->lim.kinds);
    if (r->n_kinds == r->cap_kinds) {
        uint32_t cap = r->cap_kinds ? r->cap_kinds * 2 : 64;
        nt_kind **p = mem_realloc(r->kinds, cap * sizeof(nt_kind *));
        if (!p) return nt__no_memory(r);
        nt__account(r, (ptrdiff_t)((cap - r->cap_kinds) * sizeof *p));
        r->kinds = p;
        r->cap_kinds = cap;
    }
    k->index = r->n_kinds;
    r->kinds[r->n_kinds++] = k;
    if (!bind_id(r, k, k->metadata_id)) return nt__no_memory(r);
    k->display = nt__display_name(&r->kinds_arena, k->name, k->id, k->opcode);
    if (k->display.n == 0) return full(r, at);
    if (r->opt.resolve) r->opt.resolve(r->opt.resolve_arg, k, r->trace.pointer_size, &r->kinds_arena);
    if (r->kinds_arena.failed) return full(r, at);
    if (r->sink.kind && r->sink.kind(r->arg, k) != 0) return nt__cancelled(r);
    return 0;
}

static int check_id(nt_reader *r, uint32_t id, int64_t at)
{
    if (id == 0) return nt__fail(r, ERR_MALFORMED, at, "a kind of event with number 0");
    if (nt__kind_of(r, id)) return nt__fail(r, ERR_MALFORMED, at, "kind of event %u is announced twice", id);
    return 0;
}

/* Tags after the fields (V5). Unknown ones are stepped over. */
static void take_tags(nt_reader *r, nt_kind *k, cursor *c)
{
    while (cursor_left(c)) {
        uint32_t len = cursor_u32(c);
        uint8_t tag = cursor_u8(c);
        cursor body = cursor_of(cursor_bytes(c, len), 0);
        if (!cursor_ok(c)) return;
        if (tag == 1 && cursor_left(&body)) k->opcode = cursor_u8(&body);
        if (tag == 2 && !k->schema) take_fields(r, k, &body, true);
    }
}

int nt__metadata_v4(nt_reader *r, slice payload, int64_t at)
{
    cursor c = cursor_of(payload, at);
    uint32_t id = cursor_u32(&c);
    slice provider = cursor_utf16z(&c, r->lim.name_bytes / 2);
    uint32_t event_id = cursor_u32(&c);
    slice name = cursor_utf16z(&c, r->lim.name_bytes / 2);
    uint64_t keywords = cursor_u64(&c);
    uint32_t version = cursor_u32(&c), level = cursor_u32(&c);
    if (!cursor_ok(&c))
        return nt__fail(r, ERR_MALFORMED, cursor_offset(&c), "the metadata record at %lld ends inside a value",
                        (long long)at);
    int rc = check_id(r, id, at);
    if (rc < 0) return rc;
    nt_kind *k = kind_new(r, id);
    if (!k || !keep_name(r, provider, false, &k->provider) || !keep_name(r, name, false, &k->name)) return full(r, at);
    k->id = event_id & 0xFFFF;
    k->keywords = keywords;
    k->version = version & 0xFF;
    k->level = level & 0xFF;
    if (cursor_left(&c) && take_fields(r, k, &c, false) == 0) take_tags(r, k, &c);
    return kind_add(r, k, at);
}

/* ---- V6 ---- */

static bool take_optional(nt_reader *r, nt_kind *k, cursor *c)
{
    while (cursor_left(c)) {
        slice text;
        switch (cursor_u8(c)) {
        case 1: k->opcode = cursor_u8(c); break;
        case 3: k->keywords = cursor_u64(c); break;
        case 4:
            text = cursor_bytes(c, cursor_varu32(c));
            if (!keep_name(r, text, true, &k->message)) return false;
            break;
        case 5:
            text = cursor_bytes(c, cursor_varu32(c));
            if (!keep_name(r, text, true, &k->description)) return false;
            break;
        case 6:
            cursor_skip(c, cursor_varu32(c));
            cursor_skip(c, cursor_varu32(c));
            break;
        case 7: cursor_skip(c, 16); break;
        case 8: k->level = cursor_u8(c); break;
        case 9: k->version = cursor_u8(c); break;
        default: return true; /* unknown: the rest cannot be read */
        }
    }
    return true;
}

/* The same record under another number, after the numbers were given up: the kind lives on. */
static nt_kind *known_content(nt_reader *r, slice record, uint64_t *hash)
{
    *hash = hash_bytes(record, 0x6e74);
    uint64_t index;
    return map64_get(&r->by_content, *hash, &index) ? r->kinds[index] : NULL;
}

static int row_v6(nt_reader *r, slice row, int64_t at)
{
    cursor c = cursor_of(row, at);
    uint32_t id = cursor_varu32(&c);
    int rc = cursor_ok(&c) ? check_id(r, id, at) : 0;
    if (rc < 0) return rc;
    uint64_t hash;
    nt_kind *k = known_content(r, slice_of(c.p, cursor_left(&c)), &hash);
    if (k && cursor_ok(&c)) {
        k->metadata_id = id;
        return bind_id(r, k, id) ? 0 : nt__no_memory(r);
    }
    slice provider = cursor_bytes(&c, cursor_varu32(&c));
    uint32_t event_id = cursor_varu32(&c);
    slice name = cursor_bytes(&c, cursor_varu32(&c));
    if (!cursor_ok(&c))
        return nt__fail(r, ERR_MALFORMED, cursor_offset(&c), "the metadata row at %lld ends inside a value",
                        (long long)at);
    if (provider.n > r->lim.name_bytes || name.n > r->lim.name_bytes)
        return nt__fail(r, ERR_LIMIT, at, "a name over %u bytes", r->lim.name_bytes);
    k = kind_new(r, id);
    if (!k || !keep_name(r, provider, true, &k->provider) || !keep_name(r, name, true, &k->name)) return full(r, at);
    k->id = event_id;
    if (take_fields(r, k, &c, true) == 0) {
        cursor optional = cursor_of(cursor_bytes(&c, cursor_u16(&c)), 0);
        if (!take_optional(r, k, &optional)) return full(r, at);
    }
    if ((rc = kind_add(r, k, at)) < 0) return rc;
    return map64_put(&r->by_content, hash, k->index) ? 0 : nt__no_memory(r);
}

int nt__metadata_v6(nt_reader *r, const uint8_t *p, size_t n, int64_t at)
{
    cursor c = cursor_of(slice_of(p, n), at);
    cursor_skip(&c, cursor_u16(&c));
    if (!cursor_ok(&c)) return nt__fail(r, ERR_MALFORMED, at, "the header passes the end of the block");
    while (cursor_left(&c)) {
        int64_t row_at = cursor_offset(&c);
        slice row = cursor_bytes(&c, cursor_u16(&c));
        if (!cursor_ok(&c))
            return nt__fail(r, ERR_MALFORMED, row_at, "the metadata row at %lld passes the end of the block",
                            (long long)row_at);
        int rc = row_v6(r, row, row_at + 2);
        if (rc < 0) return rc;
    }
    return 0;
}

void nt__kinds_forget_ids(nt_reader *r)
{
    if (r->n_by_id) memset(r->by_id, 0, r->n_by_id * sizeof *r->by_id);
    map64_clear(&r->by_big_id);
}

void nt__kinds_fini(nt_reader *r)
{
    free(r->kinds);
    free(r->by_id);
    map64_fini(&r->by_big_id);
    map64_fini(&r->by_content);
    arena_free(&r->kinds_arena);
}

uint32_t nt_kind_count(const nt_reader *r) { return r->n_kinds; }
nt_kind *nt_kind_at(nt_reader *r, uint32_t index) { return index < r->n_kinds ? r->kinds[index] : NULL; }
