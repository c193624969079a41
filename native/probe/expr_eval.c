/* SPDX-License-Identifier: MIT */
/* expr_eval.c: the value of an expression for one event. Anything with null is null. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf.h"
#include "clr/clr.h"
#include "probe/engine.h"

#define TEXT_ARG_MAX 16384u /* bytes of a text that lower(), number() and sql() look at */
#define SQL_BYTES    4000u  /* of what sql() gives: as a key it is whole */

bool probe__text_utf8(pv v, buf *out)
{
    slice s = slice_of(v.p, v.n);
    if (v.type == PV_TEXT16) return utf16le_to_utf8(s, out);
    return utf8_valid(s) ? buf_slice(out, s) : utf8_sanitize(s, out);
}

/* ---- values of the event ----------------------------------------------------------------------------------------- */
static pv guid(const uint8_t *g)
{
    static const uint8_t zero[16];
    if (!g || memcmp(g, zero, sizeof zero) == 0) return pv_null();
    return pv_bytes(PV_GUID, slice_of(g, 16));
}

static pv stack_value(pctx *c)
{
    int64_t id = probe__stack_intern(c);
    return id < 0 ? pv_null() : (pv){.type = PV_STACK, .i = id};
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */
static uint8_t *scratch(pctx *c, size_t n)
{
    probe *p = c->p;
    if (n > PROBE_SCRATCH - p->scratch_n) {
        p->scratch_full++;
        return NULL;
    }
    uint8_t *at = p->scratch + p->scratch_n;
    p->scratch_n += (uint32_t)n;
    return at;
}

/* Walks the characters of a text; -1 at its end. ASCII is all that is told apart exactly; other units are given one by
 * one. */
typedef struct units {
    const uint8_t *p, *end;
    bool wide;
} units;

static units units_of(pv v) { return (units){v.p, v.p + (v.type == PV_TEXT16 ? v.n & ~1u : v.n), v.type == PV_TEXT16}; }

static int32_t unit(units *u)
{
    if (u->p >= u->end) return -1;
    if (u->wide) {
        int32_t v = u->p[0] | u->p[1] << 8;
        u->p += 2;
        if (v >= 0xD800 && v < 0xDC00 && u->p < u->end) {
            int32_t low = u->p[0] | u->p[1] << 8;
            if (low >= 0xDC00 && low < 0xE000) {
                u->p += 2;
                return 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
            }
        }
        return v;
    }
    int32_t v = *u->p++;
    int more = v >= 0xF0 ? 3 : v >= 0xE0 ? 2 : v >= 0xC0 ? 1 : 0;
    if (!more) return v;
    v &= 0x3F >> more;
    for (; more > 0 && u->p < u->end && (*u->p & 0xC0) == 0x80; more--)
        v = v << 6 | (*u->p++ & 0x3F);
    return v;
}

static int compare_text(pv a, pv b)
{
    if (a.type == b.type && a.type == PV_TEXT8) {
        int d = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
        return d ? d : (a.n > b.n) - (a.n < b.n);
    }
    units x = units_of(a), y = units_of(b);
    for (;;) {
        int32_t u = unit(&x), v = unit(&y);
        if (u != v) return u < v ? -1 : 1;
        if (u < 0) return 0;
    }
}

bool probe__same_text(pv a, pv b)
{
    if (a.type == b.type) return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
    return compare_text(a, b) == 0;
}

/* The end of the UTF-16 text at p, behind its NUL, in *next; false: none before the end. */
static bool starts(units text, pv part)
{
    units y = units_of(part);
    for (;;) {
        int32_t v = unit(&y);
        if (v < 0) return true;
        if (unit(&text) != v) return false;
    }
}

static pv contains(pv text, pv part, bool at_end)
{
    if (!pv_is_text(text) || !pv_is_text(part)) return pv_null();
    units x = units_of(text);
    for (;;) {
        units rest = x;
        if (at_end) {
            pv tail = text;
            tail.p = x.p;
            tail.n = (uint32_t)(x.end - x.p);
            if (probe__same_text(tail, part)) return pv_bool(true);
        } else if (starts(rest, part))
            return pv_bool(true);
        if (unit(&x) < 0) return pv_bool(false);
    }
}

/* Whether the whole text fits a pattern in which * stands for any characters and ? for one. On a mismatch the last *
 * takes one more: time grows with the product of the lengths at most. */
static pv like(pv text, pv pattern)
{
    if (!pv_is_text(text) || !pv_is_text(pattern)) return pv_null();
    units x = units_of(text), y = units_of(pattern), x_again = {0}, y_again = {0};
    bool star = false;
    for (;;) {
        units x_was = x;
        int32_t wanted = unit(&y);
        if (wanted == '*') {
            star = true;
            x_again = x;
            y_again = y;
            continue;
        }
        int32_t got = unit(&x);
        if (got < 0 && wanted < 0) return pv_bool(true);
        if (got >= 0 && (wanted == '?' || wanted == got)) continue;
        if (!star || x_was.p >= x_was.end) return pv_bool(false);
        (void)unit(&x_again);
        x = x_again;
        y = y_again;
    }
}

static pv lower(pctx *c, pv v)
{
    if (!pv_is_text(v) || v.n > TEXT_ARG_MAX) return pv_null();
    uint8_t *out = scratch(c, v.n);
    if (!out) return pv_null();
    for (uint32_t i = 0; i < v.n; i++)
        out[i] =
            v.type == PV_TEXT16 && (i % 2 == 1 || (i + 1 < v.n && v.p[i + 1] != 0)) ? v.p[i] : (uint8_t)tolower(v.p[i]);
    return pv_bytes((pv_type)v.type, slice_of(out, v.n));
}

static pv enum_name(pctx *c, const px *x)
{
    pv v = probe__field_value(c, x->ref);
    int32_t i = c->kind->index[x->ref];
    if (v.type != PV_INT || i < 0) return v.type == PV_INT ? pv_null() : v;
    const char *enums = c->ev->kind->schema->flat[i].enums;
    buf *b = &c->p->tmp;
    buf_reset(b);
    if (!enums || !clr_enum_text(enums, (uint64_t)v.i, b)) (void)buf_printf(b, "%" PRId64, v.i);
    uint8_t *out = scratch(c, b->n);
    if (!out) return pv_null();
    memcpy(out, b->p, b->n);
    return pv_bytes(PV_TEXT8, slice_of(out, b->n));
}

/* What does not fit is cut: a statement of that length is told apart by its beginning. */
static pv sql(pctx *c, pv v)
{
    if (!pv_is_text(v)) return pv_null();
    if (v.n > TEXT_ARG_MAX) v.n = TEXT_ARG_MAX;
    buf *b = &c->p->tmp;
    buf_reset(b);
    uint8_t *out = probe__text_utf8(v, b) ? scratch(c, SQL_BYTES) : NULL;
    if (!out) return pv_null();
    uint32_t n = probe__sql_plain(buf_view(b), out, SQL_BYTES);
    c->p->scratch_n -= SQL_BYTES - n;
    return pv_bytes(PV_TEXT8, slice_of(out, n));
}

static pv hex(pctx *c, pv v)
{
    uint8_t *out = v.type == PV_INT ? scratch(c, 19) : NULL;
    if (!out) return pv_null();
    int n = snprintf((char *)out, 19, "0x%" PRIx64, (uint64_t)v.i);
    return pv_bytes(PV_TEXT8, slice_of(out, (size_t)n));
}

static pv to_number(pctx *c, pv v)
{
    if (!pv_is_text(v) || v.n > 128) return v.type == PV_INT || v.type == PV_FLOAT ? v : pv_null();
    buf *b = &c->p->tmp;
    buf_reset(b);
    if (!probe__text_utf8(v, b) || !buf_u8(b, 0)) return pv_null();
    char *end;
    const char *s = (const char *)b->p;
    if (strpbrk(s, "xXpP")) return pv_null(); /* strtod would read hexadecimal */
    errno = 0;
    long long whole = strtoll(s, &end, 10);
    if (end != s && *end == 0 && errno == 0) return pv_int(whole);
    double d = strtod(s, &end);
    return end != s && *end == 0 && isfinite(d) ? pv_float(d) : pv_null();
}

/* ---- operators --------------------------------------------------------------------------------------------------- */
/* -2: not comparable. */
static int compare(pv a, pv b)
{
    double x, y;
    if (a.type == PV_INT && b.type == PV_INT) return (a.i > b.i) - (a.i < b.i);
    if (pv_number(a, &x) && pv_number(b, &y)) return x != x || y != y ? -2 : (x > y) - (x < y);
    if (pv_is_text(a) && pv_is_text(b)) {
        int d = compare_text(a, b);
        return (d > 0) - (d < 0);
    }
    if (a.type != b.type) return -2;
    if (a.type == PV_GUID) {
        int d = memcmp(a.p, b.p, 16);
        return (d > 0) - (d < 0);
    }
    return (a.i > b.i) - (a.i < b.i);
}

static pv equal(pv a, pv b, bool wanted)
{
    if (a.type == PV_NULL || b.type == PV_NULL) return pv_null();
    if (pv_is_text(a) && pv_is_text(b)) return pv_bool(probe__same_text(a, b) == wanted);
    int d = compare(a, b);
    return d == -2 ? pv_null() : pv_bool((d == 0) == wanted);
}

static pv ordered(pv a, pv b, uint8_t op)
{
    if (a.type == PV_NULL || b.type == PV_NULL) return pv_null();
    int d = compare(a, b);
    if (d == -2) return pv_null();
    return pv_bool(op == PX_LT ? d < 0 : op == PX_LE ? d <= 0 : op == PX_GT ? d > 0 : d >= 0);
}

static pv integer_op(uint8_t op, int64_t a, int64_t b)
{
    int64_t r;
    switch (op) {
    case PX_ADD: return __builtin_add_overflow(a, b, &r) ? pv_float((double)a + (double)b) : pv_int(r);
    case PX_SUB: return __builtin_sub_overflow(a, b, &r) ? pv_float((double)a - (double)b) : pv_int(r);
    case PX_MUL: return __builtin_mul_overflow(a, b, &r) ? pv_float((double)a * (double)b) : pv_int(r);
    case PX_DIV: return b ? pv_float((double)a / (double)b) : pv_null();
    case PX_IDIV:
    case PX_MOD:
        if (b == 0) return pv_null();
        if (b == -1) return op == PX_MOD ? pv_int(0) : a == INT64_MIN ? pv_null() : pv_int(-a);
        r = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
        return pv_int(op == PX_IDIV ? r : a - r * b);
    case PX_BIT_OR: return pv_int(a | b);
    case PX_BIT_AND: return pv_int(a & b);
    case PX_SHL: return b < 0 ? pv_null() : pv_int(b > 63 ? 0 : (int64_t)((uint64_t)a << b));
    case PX_SHR: return b < 0 ? pv_null() : pv_int(b > 63 ? 0 : (int64_t)((uint64_t)a >> b));
    default: return pv_null();
    }
}

static pv arithmetic(uint8_t op, pv a, pv b)
{
    double x, y;
    if (a.type == PV_INT && b.type == PV_INT) return integer_op(op, a.i, b.i);
    if (!pv_number(a, &x) || !pv_number(b, &y)) return pv_null();
    switch (op) {
    case PX_ADD: return pv_float(x + y);
    case PX_SUB: return pv_float(x - y);
    case PX_MUL: return pv_float(x * y);
    case PX_DIV: return y != 0 ? pv_float(x / y) : pv_null();
    case PX_IDIV: return y != 0 ? pv_float(floor(x / y)) : pv_null();
    case PX_MOD: return y != 0 ? pv_float(x - floor(x / y) * y) : pv_null();
    default: return pv_null();
    }
}

static pv unary(pctx *c, uint8_t op, pv v)
{
    switch (op) {
    case PX_NOT: return v.type == PV_BOOL ? pv_bool(!v.i) : pv_null();
    case PX_NEG:
        return v.type == PV_INT     ? pv_int((int64_t)(0 - (uint64_t)v.i))
               : v.type == PV_FLOAT ? pv_float(-v.f)
                                    : pv_null();
    case PX_ABS:
        if (v.type == PV_FLOAT) return pv_float(fabs(v.f));
        return v.type == PV_INT ? pv_int(v.i < 0 ? (int64_t)(0 - (uint64_t)v.i) : v.i) : pv_null();
    case PX_FLOOR:
        if (v.type != PV_FLOAT) return v.type == PV_INT ? v : pv_null();
        return fabs(v.f) < 9e18 ? pv_int((int64_t)floor(v.f)) : pv_float(v.f);
    case PX_EXP:
        return v.type == PV_INT || v.type == PV_FLOAT ? pv_float(exp(v.type == PV_INT ? (double)v.i : v.f)) : pv_null();
    case PX_LEN: return pv_is_text(v) ? pv_int(v.type == PV_TEXT16 ? v.n / 2 : v.n) : pv_null();
    case PX_LOWER: return lower(c, v);
    case PX_SQL: return sql(c, v);
    case PX_HEX: return hex(c, v);
    case PX_TO_NUMBER: return to_number(c, v);
    default: return pv_null();
    }
}

static pv logic(pctx *c, const px *x)
{
    pv a = probe__value(c, x->arg[0]);
    bool is_and = x->op == PX_AND;
    if (a.type == PV_BOOL && (a.i != 0) != is_and) return a;
    pv b = probe__value(c, x->arg[1]);
    if (b.type == PV_BOOL && (b.i != 0) != is_and) return b;
    return a.type == PV_BOOL && b.type == PV_BOOL ? pv_bool(is_and) : pv_null();
}

static pv choose(uint8_t op, pv a, pv b)
{
    int d = a.type == PV_NULL || b.type == PV_NULL ? -2 : compare(a, b);
    if (d == -2) return pv_null();
    return (d < 0) == (op == PX_MIN) ? a : b;
}

/* The word null, which is what a value may be compared with; a value that happens to be null is not. */
static bool is_null(const px *x) { return x->op == PX_LITERAL && x->value.type == PV_NULL; }

static pv binary(pctx *c, const px *x)
{
    pv a = probe__value(c, x->arg[0]), b = probe__value(c, x->arg[1]);
    switch (x->op) {
    case PX_EQ:
    case PX_NE:
        if (is_null(x->arg[0]) || is_null(x->arg[1])) return pv_bool((a.type == b.type) == (x->op == PX_EQ));
        return equal(a, b, x->op == PX_EQ);
    case PX_LT:
    case PX_LE:
    case PX_GT:
    case PX_GE: return ordered(a, b, x->op);
    case PX_MIN:
    case PX_MAX: return choose(x->op, a, b);
    case PX_BIT: return a.type == PV_INT && b.type == PV_INT ? pv_bool((a.i & b.i) != 0) : pv_null();
    case PX_STARTS: return pv_is_text(a) && pv_is_text(b) ? pv_bool(starts(units_of(a), b)) : pv_null();
    case PX_ENDS: return contains(a, b, true);
    case PX_CONTAINS: return contains(a, b, false);
    case PX_LIKE: return like(a, b);
    default: return arithmetic(x->op, a, b);
    }
}

static pv property(pctx *c, uint8_t op)
{
    const nt_kind *k = c->ev->kind;
    switch (op) {
    case PX_TIME: return pv_int(probe__time(c));
    case PX_UNIX: return pv_int(c->trace->sync_unix_ns + probe__time(c));
    case PX_THREAD: return pv_int((int64_t)c->ev->thread);
    case PX_ACTIVITY: return guid(c->ev->activity);
    case PX_RELATED: return guid(c->ev->related);
    case PX_STACK: return stack_value(c);
    case PX_PROVIDER: return pv_bytes(PV_TEXT8, k->provider);
    case PX_EVENT: return pv_bytes(PV_TEXT8, k->display);
    case PX_ID: return pv_int(k->id);
    case PX_VERSION: return pv_int(k->version);
    case PX_LEVEL: return pv_int(k->level);
    case PX_SIZE: return pv_int((int64_t)c->ev->payload.n);
    case PX_DURATION: return c->paired ? pv_int(c->duration_ns) : pv_null();
    default: return pv_null();
    }
}

pv probe__eval(pctx *c, const px *x)
{
    pv v;
    switch (x->op) {
    case PX_LITERAL: return x->value;
    case PX_FIELD: return probe__field_value(c, x->ref);
    case PX_CAPTURED: return c->start ? c->start[x->ref] : pv_null();
    case PX_AND:
    case PX_OR: return logic(c, x);
    case PX_IF: return probe__value(c, x->arg[pv_true(probe__value(c, x->arg[0])) ? 1 : 2]);
    case PX_COALESCE:
        v = pv_null();
        for (uint8_t i = 0; i < x->n && v.type == PV_NULL; i++)
            v = probe__value(c, x->arg[i]);
        return v;
    case PX_ENUM: return enum_name(c, x->arg[0]);
    case PX_NOT:
    case PX_NEG:
    case PX_ABS:
    case PX_FLOOR:
    case PX_EXP:
    case PX_LEN:
    case PX_LOWER:
    case PX_SQL:
    case PX_HEX:
    case PX_TO_NUMBER: return unary(c, x->op, probe__value(c, x->arg[0]));
    case PX_WITHIN: return pv_bool(probe__pair_is_open(c, slice_of(x->value.p, x->value.n)));
    default: return x->op <= PX_DURATION ? property(c, x->op) : binary(c, x);
    }
}
