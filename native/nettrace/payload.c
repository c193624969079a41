/* SPDX-License-Identifier: MIT */
/* payload.c: reads field values out of a payload by a compiled layout. Nothing is copied; every read is checked against
 * the payload. */
#include "nettrace/nt_internal.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Where a walk stands in a payload. */
typedef struct place {
    const uint8_t *p, *end;
    slice payload;
    uint64_t *slots;
    bool bool8;
} place;

/* First NUL unit at or after p (units of 2 bytes), or NULL. */
static inline const uint8_t *find_nul16(const uint8_t *p, const uint8_t *end)
{
#ifdef __SSE2__
    const __m128i zero = _mm_setzero_si128();
    while (end - p >= 16) {
        int m = _mm_movemask_epi8(_mm_cmpeq_epi16(_mm_loadu_si128((const __m128i *)(const void *)p), zero));
        if (m) return p + __builtin_ctz((unsigned)m);
        p += 16;
    }
#endif
    while (end - p >= 8) { /* four units at once */
        uint64_t x;
        memcpy(&x, p, sizeof x);
        uint64_t zeros = (x - 0x0001000100010001) & ~x & 0x8000800080008000;
        if (zeros) return p + (__builtin_ctzll(zeros) >> 3) - 1;
        p += 8;
    }
    for (; end - p >= 2; p += 2)
        if (!p[0] && !p[1]) return p;
    return NULL;
}

static inline bool read_varuint(place *at, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (at->p == at->end) return false;
        uint8_t b = *at->p++;
        v |= (uint64_t)(b & 0x7F) << (shift < 64 ? shift : 63);
        if (!(b & 0x80)) {
            *out = v;
            return true;
        }
    }
    return false;
}

static bool skip_field(place *at, const nt_field *f);

static bool skip_struct(place *at, const nt_field *fields, uint32_t n)
{
    uint64_t slots[NT_SLOTS] = {0};
    place in = {at->p, at->end, at->payload, slots, at->bool8};
    for (uint32_t i = 0; i < n; i++)
        if (!skip_field(&in, &fields[i])) return false;
    at->p = in.p;
    return true;
}

/* Elements of an array; p stands behind the count. Elements without bytes are not walked: a count alone must not make
 * work. */
static bool skip_elements(place *at, const nt_field *elem, uint32_t count)
{
    size_t left = (size_t)(at->end - at->p);
    if (elem->size != NT_VARIES) {
        uint64_t bytes = (uint64_t)elem->size * count;
        if (bytes > left) return false;
        at->p += bytes;
        return true;
    }
    if ((uint64_t)elem->min_size * count > left) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!skip_field(at, elem)) return false;
    return true;
}

static inline bool read_count(place *at, const nt_field *f, uint32_t *count)
{
    uint64_t n = f->count;
    if (f->count_kind == NT_COUNT_U16) {
        if (at->end - at->p < 2) return false;
        n = (uint64_t)at->p[0] | (uint64_t)at->p[1] << 8;
        at->p += 2;
    } else if (f->count_kind == NT_COUNT_FIELD) {
        n = at->slots[f->count_slot];
    }
    if (n > UINT32_MAX) return false;
    *count = (uint32_t)n;
    return true;
}

/* RelLoc and DataLoc: size in bytes in the high half, position in the low one. */
static void read_location(place *at, const nt_field *f, uint32_t word, nt_value *v)
{
    size_t bytes = word >> 16, from = word & 0xFFFF;
    if (f->wire == NT_W_RELLOC) from += (size_t)(at->p - at->payload.p);
    uint32_t each = f->sub->size;
    v->bad = from > at->payload.n || bytes > at->payload.n - from || each == 0 || bytes % each != 0;
    if (v->bad) return;
    v->raw = slice_of(at->payload.p + from, bytes);
    v->count = (uint32_t)(bytes / each);
}

static inline bool take(place *at, void *to, size_t n)
{
    if ((size_t)(at->end - at->p) < n) return false;
    memcpy(to, at->p, n);
    at->p += n;
    return true;
}

static inline bool take_raw(place *at, nt_value *v, size_t n)
{
    if ((size_t)(at->end - at->p) < n) return false;
    v->raw = slice_of(at->p, n);
    at->p += n;
    return true;
}

#define NUMBER(ctype, member)                                                                                          \
    {                                                                                                                  \
        ctype x;                                                                                                       \
        if (!take(at, &x, sizeof x)) return false;                                                                     \
        v->member = x;                                                                                                 \
        return true;                                                                                                   \
    }

static bool read_sequence(place *at, const nt_field *f, nt_value *v)
{
    uint32_t count;
    if (!read_count(at, f, &count)) return false;
    const uint8_t *from = at->p;
    if (f->wire == NT_W_BYTES) {
        if ((size_t)(at->end - at->p) < count) return false;
        at->p += count;
    } else if (!skip_elements(at, f->sub, count)) {
        return false;
    }
    v->count = count;
    v->raw = slice_of(from, (size_t)(at->p - from));
    return true;
}

static bool read_struct(place *at, const nt_field *f, nt_value *v)
{
    const uint8_t *from = at->p;
    if (f->size != NT_VARIES && !at->bool8) {
        if ((size_t)(at->end - at->p) < f->size) return false;
        at->p += f->size;
    } else if (!skip_struct(at, f->sub, f->n_sub)) {
        return false;
    }
    v->raw = slice_of(from, (size_t)(at->p - from));
    return true;
}

/* Reads the value at *at and steps behind it. False: the payload ends inside. */
static inline bool read_value(place *at, const nt_field *f, nt_value *v)
{
    v->field = f;
    v->type = (nt_type)f->type;
    v->bad = false;
    const uint8_t *from = at->p;
    switch ((nt_wire)f->wire) {
    case NT_W_U32: NUMBER(uint32_t, u)
    case NT_W_U64: NUMBER(uint64_t, u)
    case NT_W_U16: NUMBER(uint16_t, u)
    case NT_W_U8: NUMBER(uint8_t, u)
    case NT_W_I32: NUMBER(int32_t, i)
    case NT_W_I64: NUMBER(int64_t, i)
    case NT_W_I16: NUMBER(int16_t, i)
    case NT_W_I8: {
        uint8_t x;
        if (!take(at, &x, sizeof x)) return false;
        v->i = ((int64_t)x ^ 0x80) - 0x80;
        return true;
    }
    case NT_W_CHAR16: NUMBER(uint16_t, u)
    case NT_W_UTF8: NUMBER(uint8_t, u)
    case NT_W_F32: NUMBER(float, f)
    case NT_W_F64: NUMBER(double, f)
    case NT_W_FILETIME: NUMBER(int64_t, i)
    case NT_W_BOOL32:
        if (!at->bool8) {
            uint32_t x;
            if (!take(at, &x, sizeof x)) return false;
            v->u = x != 0;
            return true;
        }
        /* fall through */
    case NT_W_BOOL8: {
        uint8_t x;
        if (!take(at, &x, sizeof x)) return false;
        v->u = x != 0;
        return true;
    }
    case NT_W_UTF16Z: {
        const uint8_t *nul = find_nul16(from, at->end);
        if (!nul) return false;
        v->raw = slice_of(from, (size_t)(nul - from));
        at->p = nul + 2;
        return true;
    }
    case NT_W_ANSIZ: {
        const uint8_t *nul = memchr(from, 0, (size_t)(at->end - from));
        if (!nul) return false;
        v->raw = slice_of(from, (size_t)(nul - from));
        at->p = nul + 1;
        return true;
    }
    case NT_W_GUID:
    case NT_W_DECIMAL: return take_raw(at, v, 16);
    case NT_W_VARUINT: return read_varuint(at, &v->u);
    case NT_W_VARINT: {
        uint64_t z;
        if (!read_varuint(at, &z)) return false;
        v->i = (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
        return true;
    }
    case NT_W_STRUCT: return read_struct(at, f, v);
    case NT_W_ARRAY:
    case NT_W_BYTES: return read_sequence(at, f, v);
    case NT_W_RELLOC:
    case NT_W_DATALOC: {
        uint32_t word;
        if (!take(at, &word, sizeof word)) return false;
        read_location(at, f, word, v);
        return true;
    }
    case NT_W_COUNT: break;
    }
    return false;
}

static bool skip_field(place *at, const nt_field *f)
{
    nt_value v;
    v.u = 0;
    return read_value(at, f, &v) && (f->slot == NT_NO_SLOT || (at->slots[f->slot] = v.u, true));
}

static bool measure(const nt_schema *s, slice payload, bool bool8)
{
    uint64_t slots[NT_SLOTS] = {0};
    place at = {payload.p, payload.p + payload.n, payload, slots, bool8};
    for (uint32_t i = 0; i < s->n_flat; i++)
        if (!skip_field(&at, &s->flat[i])) return false;
    return at.p == at.end;
}

/* Some self-describing sources write one byte where the metadata says a 4-byte boolean: then the payload is 3 short for
 * each. */
static bool bools_are_bytes(const nt_schema *s, slice payload)
{
    if (s->n_bool32 == 0) return false;
    if (s->size != NT_VARIES) return payload.n + 3 * (size_t)s->n_bool32 == s->size;
    return !measure(s, payload, false) && measure(s, payload, true);
}

static inline uint64_t number_of(uint64_t high, const nt_field *f) /* the field's bytes are the high ones */
{
    return f->type == NT_INT ? (uint64_t)((int64_t)high >> f->shift) : high >> f->shift;
}

/* A whole number of 1 to 8 bytes without a branch on its size: 8 bytes that end with it, or else start with it, are in
 * the payload. */
static inline bool read_whole(const uint8_t **at, const uint8_t *start, const uint8_t *end, const nt_field *f,
                              uint64_t *out)
{
    const uint8_t *p = *at;
    uint64_t x = 0;
    if (f->size > (size_t)(end - p)) return false;
    *at = p + f->size;
    if (*at - start >= 8) {
        memcpy(&x, *at - 8, sizeof x);
    } else if (end - p >= 8) {
        memcpy(&x, p, sizeof x);
        x <<= f->shift;
    } else {
        for (uint32_t i = 0; i < f->size; i++)
            x |= (uint64_t)p[i] << (8 * i);
        x <<= f->shift;
    }
    *out = number_of(x, f);
    return true;
}

static bool read_other(place *at, const nt_field *f, nt_value *v)
{
    if (!read_value(at, f, v)) return false;
    if (f->slot != NT_NO_SLOT) at->slots[f->slot] = v->u;
    return true;
}

/* The whole numbers at the start of a payload that is long enough for all of them: no branch but the loop's. */
static inline void run_steps(const nt_schema *s, const uint8_t *start, nt_value *v)
{
    for (const nt_step *t = s->steps, *end = t + s->n_steps; t < end; t++, v++) {
        uint64_t x;
        memcpy(&x, start + t->at, sizeof x);
        x = x << t->left >> t->right;
        v->field = t->field;
        v->type = (nt_type)t->type;
        v->bad = false;
        v->u = (x ^ t->sign) - t->sign;
    }
}

/* The loop that every event goes through: whole numbers and UTF-16 texts right here, the rest by read_value. Returns
 * how far it came. */
static const nt_field *decode(const nt_schema *s, place *at, nt_value *v)
{
    const uint8_t *p = at->p, *const start = at->p, *const end = at->end;
    const nt_field *f = s->flat, *const f_end = f + s->n_flat;
    if (s->n_steps && (size_t)(end - start) >= s->steps_size) {
        run_steps(s, start, v);
        f += s->n_steps;
        v += s->n_steps;
        p += f[-1].offset + f[-1].size;
    }
    for (; f < f_end; f++, v++) {
        v->field = f;
        v->type = (nt_type)f->type;
        v->bad = false;
        if (f->shift != NT_NO_SHIFT) {
            if (!read_whole(&p, start, end, f, &v->u)) break;
            if (f->slot != NT_NO_SLOT && at->slots) at->slots[f->slot] = v->u;
        } else if (f->wire == NT_W_UTF16Z) {
            const uint8_t *nul = find_nul16(p, end);
            if (!nul) break;
            v->raw = slice_of(p, (size_t)(nul - p));
            p = nul + 2;
        } else {
            at->p = p;
            if (!read_other(at, f, v)) break;
            p = at->p;
        }
    }
    at->p = p;
    return f;
}

static const nt_field *decode_from_start(const nt_schema *s, slice payload, nt_value *values, bool bool8, bool *whole)
{
    uint64_t slots[NT_SLOTS] = {0};
    place at = {payload.p, payload.p + payload.n, payload, slots, bool8};
    const nt_field *f = decode(s, &at, values);
    *whole = f == s->flat + s->n_flat && at.p == at.end;
    return f;
}

/* With counted arrays; and with booleans, which some self-describing sources write in one byte although their metadata
 * says four. */
static __attribute__((noinline)) uint32_t decode_special(const nt_schema *s, slice payload, nt_value *values,
                                                         bool *whole)
{
    const nt_field *f = decode_from_start(s, payload, values, false, whole);
    if (!*whole && s->n_bool32) {
        f = decode_from_start(s, payload, values, true, whole);
        if (!*whole) f = decode_from_start(s, payload, values, false, whole);
    }
    return (uint32_t)(f - s->flat);
}

uint32_t nt_decode_whole(const nt_schema *s, slice payload, nt_value *values, bool *whole)
{
    bool unwanted;
    if (s->n_slots | s->n_bool32) return decode_special(s, payload, values, whole ? whole : &unwanted);
    place at = {payload.p, payload.p + payload.n, payload, NULL, false};
    const nt_field *f = decode(s, &at, values);
    if (whole) *whole = f == s->flat + s->n_flat && at.p == at.end;
    return (uint32_t)(f - s->flat);
}

uint32_t nt_decode(const nt_schema *s, slice payload, nt_value *values)
{
    return nt_decode_whole(s, payload, values, NULL);
}

bool nt_get(const nt_schema *s, slice payload, uint32_t index, nt_value *v)
{
    if (index >= s->n_flat) return false;
    uint64_t slots[NT_SLOTS] = {0};
    place at = {payload.p, payload.p + payload.n, payload, slots, s->n_bool32 && bools_are_bytes(s, payload)};
    const nt_field *f = &s->flat[index];
    if (f->offset != NT_VARIES && !at.bool8 && f->count_slot == NT_NO_SLOT) {
        if (f->offset > payload.n) return false;
        at.p += f->offset;
        return read_value(&at, f, v);
    }
    for (const nt_field *g = s->flat; g < f; g++)
        if (!skip_field(&at, g)) return false;
    return read_value(&at, f, v);
}

void nt_iter_payload(nt_iter *it, const nt_schema *s, slice payload)
{
    if (!payload.p) payload.p = (const uint8_t *)"";
    *it = (nt_iter){
        .f = s->fields, .f_end = s->fields + s->n_fields, .base = payload.p, .p = payload.p, .payload = payload};
    it->end = payload.p + payload.n;
    it->bool8 = s->n_bool32 && bools_are_bytes(s, payload);
}

void nt_iter_into(nt_iter *it, const nt_iter *parent, const nt_value *v)
{
    *it = (nt_iter){.payload = parent->payload, .bool8 = parent->bool8};
    if (v->bad || !v->raw.p) return;
    it->base = it->p = v->raw.p;
    it->end = v->raw.p + v->raw.n;
    if (v->type == NT_STRUCT) {
        it->f = v->field->sub;
        it->f_end = v->field->sub + v->field->n_sub;
    } else if (v->type == NT_ARRAY && v->raw.n) {
        it->elem = v->field->sub;
        it->left = v->count;
    }
}

bool nt_iter_next(nt_iter *it, nt_value *v)
{
    const nt_field *f = it->elem;
    if (f) {
        if (it->left == 0) return false;
        it->left--;
    } else {
        if (it->f == it->f_end) return false;
        f = it->f++;
        if (f->offset != NT_VARIES && !it->bool8) it->p = it->base + f->offset; /* C alignment leaves gaps */
    }
    place at = {it->p, it->end, it->payload, it->slots, it->bool8};
    if (!read_value(&at, f, v)) {
        it->truncated = true;
        it->f = it->f_end;
        it->left = 0;
        return false;
    }
    it->p = at.p;
    if (f->slot != NT_NO_SLOT) it->slots[f->slot] = v->u;
    return true;
}
