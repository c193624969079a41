/* SPDX-License-Identifier: MIT */
/* fields.c: the value of a field in an event: where it stands in a kind of event, and what is there. */
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "probe/hot.h"

static pv of_value(const nt_value *v)
{
    if (v->bad) return pv_null();
    switch (v->type) {
    case NT_BOOL: return pv_bool(v->u != 0);
    case NT_CHAR:
    case NT_UINT: return pv_int((int64_t)v->u);
    case NT_INT:
    case NT_FILETIME: return pv_int(v->i);
    case NT_FLOAT: return pv_float(v->f);
    case NT_STR16: return pv_bytes(PV_TEXT16, v->raw);
    case NT_STR8: return pv_bytes(PV_TEXT8, v->raw);
    case NT_GUID: return pv_bytes(PV_GUID, v->raw);
    case NT_NONE:
    case NT_DECIMAL:
    case NT_BYTES:
    case NT_STRUCT:
    case NT_ARRAY: break;
    }
    return pv_null();
}

/* The NUL unit of a UTF-16 text; NULL: none before the end. */
static const uint8_t *nul16(const uint8_t *p, const uint8_t *end)
{
    for (; end - p >= 8; p += 8) {
        uint64_t v;
        memcpy(&v, p, sizeof v);
        v = (v - 0x0001000100010001u) & ~v & 0x8000800080008000u;
        if (v) return p + (size_t)(__builtin_ctzll(v) / 16) * 2; /* the lowest mark is a true one */
    }
    for (; end - p >= 2; p += 2)
        if (!p[0] && !p[1]) return p;
    return NULL;
}

/* The 16 bytes of a text at p: how many of them come before its NUL (16: it has none here), zeros from there on. The
 * lowest mark of a NUL unit is a true one, and what is below it is the text and zeros. */
static inline uint32_t text_chunk(const uint8_t *p, uint64_t *lo, uint64_t *hi)
{
#ifdef __SSE2__
    static const uint8_t before[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    const __m128i text = _mm_loadu_si128((const __m128i *)(const void *)p);
    const uint32_t ends = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi16(text, _mm_setzero_si128()));
    const uint32_t n = (uint32_t)__builtin_ctz(ends | 0x10000);
    const __m128i own = _mm_and_si128(text, _mm_loadu_si128((const __m128i *)(const void *)(before + 16 - n)));
    *lo = (uint64_t)_mm_cvtsi128_si64(own);
    *hi = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(own, own));
    return n;
#else
    const uint64_t units = 0x0001000100010001u, high = 0x8000800080008000u, x = probe__load64(p),
                   y = probe__load64(p + 8), a = (x - units) & ~x & high, b = (y - units) & ~y & high;
    *lo = x & (a ^ (a - 1));
    *hi = a ? 0 : y & (b ^ (b - 1));
    if (!(a | b)) return 16;
    return (uint32_t)(a ? __builtin_ctzll(a) : 64 + __builtin_ctzll(b)) / 16 * 2;
#endif
}

static inline pv symbol_value(const psymbol *s)
{
    return (pv){.head = PV_TEXT16 | PV_SYMBOL | (uint64_t)s->n << 32, .p = s->text};
}

/* The symbol of a text of less than 16 bytes; NULL: it has none. */
static inline const psymbol *short_symbol(const psymbols *t, uint32_t n, uint64_t hash, uint64_t lo, uint64_t hi)
{
    if (UNLIKELY(!t->cap)) return NULL;
    const uint32_t mask = t->cap - 1;
    for (uint32_t i = probe__home(hash, t->cap);; i = (i + 1) & mask) {
        const psymbol *s = t->slot[i];
        if (!s || (s->hash == hash && s->n == n && probe__load64(s->text) == lo && probe__load64(s->text + 8) == hi))
            return s;
    }
}

/* The symbol of a text, or the text itself. */
static pv named_text(const pctx *c, pcell *cell, const uint8_t *text, uint32_t n, uint64_t hash)
{
    probe *p = c->p;
    const psymbols *t = &p->symbols;
    const psymbol *s = NULL;
    if (n <= p->symbol_max && !cell->plain) {
        for (uint32_t i = probe__home(hash, t->cap); t->cap && (s = t->slot[i]); i = (i + 1) & (t->cap - 1))
            if (s->hash == hash && s->n == n && memcmp(s->text, text, n) == 0) break;
        if (!s && !c->looking_back) s = probe__symbol_make(p, cell, text, n, hash);
    }
    return s ? symbol_value(s) : pv_bytes(PV_TEXT16, slice_of(text, n));
}

/* A text up to its NUL, hashed on the way, 16 bytes a step; null: there is none before the end. */
static pv text_value(const pctx *c, pcell *cell, const uint8_t *from, const uint8_t *end)
{
    uint64_t h = PROBE_KEY_SEED, lo, hi;
    for (const uint8_t *at = from;; at += 16) {
        const size_t left = (size_t)(end - at);
        uint8_t few[16] = {0}; /* zeros behind the payload: a NUL unit has to end before them */
        if (left < 16) memcpy(few, at, left);
        const uint32_t n = text_chunk(left < 16 ? few : at, &lo, &hi);
        if (left < 16 && n + 2 > left) return pv_null(); /* 15 bytes and no NUL unit look like a full step */
        if (n < 16) {
            if (n) h = probe__mix(h, lo, hi);
            const uint32_t all = (uint32_t)(at - from) + n;
            return named_text(c, cell, from, all, probe__hash_end(h, all, PV_TEXT16));
        }
        h = probe__mix(h, lo, hi);
    }
}

/* A number of a fixed size, at `from`; null: the payload is shorter. */
static inline pv number_value(uint8_t how, const uint8_t *from, const uint8_t *end)
{
    ptrdiff_t size = how == PF_I64 ? 8 : 4;
    if (end - from < size) return pv_null();
    if (how == PF_I64) return pv_int((int64_t)probe__load64(from));
    uint32_t narrow = probe__load32(from);
    return pv_int(how == PF_I32 ? (int64_t)(int32_t)narrow : (int64_t)narrow);
}

/* Any text. */
static __attribute__((noinline)) pv field_text(pctx *c, uint32_t ref)
{
    pcell *cell = &c->p->cell[ref];
    const slice b = c->ev->payload;
    const uint32_t offset = c->kind->place[ref].offset;
    pv v = offset <= b.n ? text_value(c, cell, b.p + offset, b.p + b.n) : pv_null();
    if (v.type == PV_NULL && !c->looking_back) c->kind->missing[ref]++;
    cell->stamp = c->p->order;
    return cell->v = v;
}

pv probe__field_text(pctx *c, uint32_t ref)
{
    const uint8_t *const p = c->ev->payload.p + c->kind->place[ref].offset;
    uint64_t lo, hi;
    if (UNLIKELY((size_t)c->kind->place[ref].offset + 16 > c->ev->payload.n)) return field_text(c, ref);
    const uint32_t n = text_chunk(p, &lo, &hi); /* most names are short and have come before */
    if (UNLIKELY(n - 1 >= 15)) return field_text(c, ref);
    const uint64_t hash = probe__hash_end(probe__mix(PROBE_KEY_SEED, lo, hi), n, PV_TEXT16);
    const psymbol *s = short_symbol(&c->p->symbols, n, hash, lo, hi);
    if (UNLIKELY(!s)) return field_text(c, ref);
    pcell *cell = &c->p->cell[ref];
    const pv v = symbol_value(s);
    cell->stamp = c->p->order;
    cell->v = v;
    return v;
}

/* A number at a known place, or behind a text; null: the payload is shorter. */
static pv quick(pctx *c, const pplace *f)
{
    const slice b = c->ev->payload;
    if (f->offset > b.n) return pv_null();
    const uint8_t *from = b.p + f->offset, *end = b.p + b.n;
    if (f->how != PF_BEHIND_TEXT) return number_value(f->how, from, end);
    if (f->text != UINT32_MAX) { /* most often looked at already */
        pv text = probe__field_value(c, f->text);
        if (text.type != PV_TEXT16) return pv_null();
        from += text.n;
    } else if (!(from = nul16(from, end)))
        return pv_null();
    return number_value(f->number, from + 2 + f->behind, end);
}

/* Mostly the text before it was looked at already, in this event. */
pv probe__field_behind(pctx *c, uint32_t ref)
{
    const pplace *f = &c->kind->place[ref];
    if (f->text == UINT32_MAX || f->number != PF_I32) return probe__field_slow(c, ref);
    const pcell *text = &c->p->cell[f->text];
    const size_t at = (size_t)f->offset + text->v.n + 2 + f->behind;
    if (text->stamp != c->p->order || text->v.type != PV_TEXT16 || at + 4 > c->ev->payload.n)
        return probe__field_slow(c, ref);
    return pv_int((int32_t)probe__load32(c->ev->payload.p + at));
}

/* Whether a field is a list of structs of a Key and a Value: what DiagnosticSource and the loggers call arguments. */
static bool is_arguments(const nt_field *f)
{
    const nt_field *item = f->wire == NT_W_ARRAY ? f->sub : NULL;
    return item && item->wire == NT_W_STRUCT && item->n_sub == 2 && item->sub[0].wire == NT_W_UTF16Z &&
           item->sub[1].wire == NT_W_UTF16Z && slice_eq_str(item->sub[0].name, "Key") &&
           slice_eq_str(item->sub[1].name, "Value");
}

static bool place_argument(const nt_schema *s, slice name, int32_t *index, pplace *out)
{
    for (size_t i = 1; i + 1 < name.n; i++) {
        if (name.p[i] != '.') continue;
        int32_t list = nt_field_index(s, slice_of(name.p, i));
        if (list < 0 || !is_arguments(&s->flat[list])) continue;
        *index = list;
        *out = (pplace){.how = PF_ARGUMENT, .offset = (uint32_t)i + 1, .text = UINT32_MAX};
        return true;
    }
    return false;
}

static void place_field(const nt_schema *s, int32_t index, pplace *out)
{
    static const uint8_t hows[NT_W_COUNT] = {[NT_W_I32] = PF_I32, [NT_W_U32] = PF_U32,      [NT_W_I64] = PF_I64,
                                             [NT_W_U64] = PF_I64, [NT_W_FILETIME] = PF_I64, [NT_W_UTF16Z] = PF_TEXT16};
    *out = (pplace){.how = index < 0 ? PF_NONE : PF_SLOW, .text = UINT32_MAX};
    if (index < 0 || s->n_bool32) return; /* the size of booleans depends on the payload */
    const nt_field *f = &s->flat[index];
    uint8_t how = hows[f->wire];
    if (!how || f->count_slot != NT_NO_SLOT) return;
    if (f->offset != NT_VARIES) {
        *out = (pplace){.how = how, .offset = f->offset, .text = UINT32_MAX};
        return;
    }
    uint32_t behind = 0;
    const nt_field *g = f;
    while (g > s->flat && (--g)->offset == NT_VARIES) {
        if (g->size == NT_VARIES) return;
        behind += g->size;
    }
    if (g->offset == NT_VARIES || g->wire != NT_W_UTF16Z || how == PF_TEXT16) return;
    *out = (pplace){.how = PF_BEHIND_TEXT, .number = how, .offset = g->offset, .behind = behind, .text = UINT32_MAX};
}

void probe__place(const nt_schema *s, slice name, int32_t *index, pplace *out)
{
    *index = s ? nt_field_index(s, name) : -1;
    if (s && *index < 0 && place_argument(s, name, index, out)) return;
    place_field(s, *index, out);
}

static bool text_at(const uint8_t *p, const uint8_t *end, slice *text, const uint8_t **next)
{
    const uint8_t *nul = nul16(p, end);
    if (!nul) return false;
    *text = slice_of(p, (size_t)(nul - p));
    *next = nul + 2;
    return true;
}

/* The value of a key in a list of Key/Value texts; null when it is not there. The last one counts. */
static pv argument(pctx *c, uint32_t ref, const nt_value *list)
{
    const slice name = c->p->field[ref];
    const uint32_t at = c->kind->place[ref].offset;
    const pv wanted = pv_bytes(PV_TEXT8, slice_of(name.p + at, name.n - at));
    const uint8_t *p = list->raw.p, *end = p + list->raw.n;
    pv found = pv_null();
    for (uint32_t left = list->count; left > 0; left--) {
        slice key, value;
        if (!text_at(p, end, &key, &p) || !text_at(p, end, &value, &p)) break;
        if (probe__same_text(pv_bytes(PV_TEXT16, key), wanted)) found = pv_bytes(PV_TEXT16, value);
    }
    return found;
}

pv probe__field_slow(pctx *c, uint32_t ref)
{
    pcell *cell = &c->p->cell[ref];
    nt_value v;
    const pplace *f = &c->kind->place[ref];
    pv out = pv_null();
    bool there;
    if (f->how > PF_ARGUMENT) {
        out = quick(c, f);
        there = out.type != PV_NULL;
    } else {
        there = f->how != PF_NONE && nt_get(c->ev->kind->schema, c->ev->payload, (uint32_t)c->kind->index[ref], &v);
        if (there) out = f->how == PF_ARGUMENT ? argument(c, ref, &v) : of_value(&v);
    }
    if (!there && !c->looking_back) c->kind->missing[ref]++;
    cell->stamp = c->p->order;
    cell->v = out;
    return out;
}
