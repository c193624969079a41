/* SPDX-License-Identifier: MIT */
/* names.c: types, methods and signatures as text. */
#include "symbols/names.h"

#include "base/utf.h"

enum { NESTING_MAX = 32, TYPE_DEPTH_MAX = 64, TAG_TYPE_DEF = 0, TAG_TYPE_REF = 1, SCOPE_TYPE_REF = 3 };
enum { OWNER_TYPE = 0, OWNER_METHOD = 1 };
enum { SIG_GENERIC = 0x10 };
enum {
    ET_VOID = 0x01,
    ET_STRING = 0x0e,
    ET_PTR = 0x0f,
    ET_BYREF = 0x10,
    ET_VALUETYPE = 0x11,
    ET_CLASS = 0x12,
    ET_VAR = 0x13,
    ET_ARRAY = 0x14,
    ET_GENERICINST = 0x15,
    ET_TYPEDBYREF = 0x16,
    ET_I = 0x18,
    ET_U = 0x19,
    ET_FNPTR = 0x1b,
    ET_OBJECT = 0x1c,
    ET_SZARRAY = 0x1d,
    ET_MVAR = 0x1e,
    ET_CMOD_REQD = 0x1f,
    ET_CMOD_OPT = 0x20,
    ET_SENTINEL = 0x41,
    ET_PINNED = 0x45,
};

static const char *const PRIMITIVES[] = {
    NULL,
    "void",
    "bool",
    "char",
    "sbyte",
    "byte",
    "short",
    "ushort",
    "int",
    "uint",
    "long",
    "ulong",
    "float",
    "double",
    "string",
    [ET_TYPEDBYREF] = "typedref",
    [ET_I] = "nint",
    [ET_U] = "nuint",
    [ET_OBJECT] = "object",
};

int sym_names_init(sym_names *n, const sym_md *md, arena *a, err *e)
{
    uint32_t methods = md_rows(md, MD_METHOD_DEF), types = md_rows(md, MD_TYPE_DEF), next = 1;
    *n = (sym_names){.md = md, .owners = arena_alloc(a, (size_t)methods * sizeof *n->owners + 1)};
    if (!n->owners) return err_set(e, ERR_NO_MEMORY, "no memory for %u methods", methods);
    bool pointers = md_rows(md, MD_METHOD_PTR) > 0;
    uint32_t listed = pointers ? md_rows(md, MD_METHOD_PTR) : methods;
    for (uint32_t t = 1; t <= types; t++) {
        uint32_t from = md_get(md, MD_TYPE_DEF, t, TYPE_METHODS);
        uint32_t to = t < types ? md_get(md, MD_TYPE_DEF, t + 1, TYPE_METHODS) : listed + 1;
        if (from < next) from = next; /* ranges never overlap, whatever a damaged table says */
        for (; from < to && from <= listed; from++) {
            uint32_t row = pointers ? md_get(md, MD_METHOD_PTR, from, 0) : from;
            if (row && row <= methods) n->owners[row - 1] = t;
            next = from + 1;
        }
    }
    return 0;
}

/* ---- names ---- */

/* A name without its arity ("List`1"). */
static slice plain(slice name)
{
    for (size_t i = name.n; i-- > 0;) {
        if (name.p[i] == '`' && i + 1 < name.n) return slice_of(name.p, i);
        if (name.p[i] < '0' || name.p[i] > '9') break;
    }
    return name;
}

static void put_qualified(const sym_md *md, uint32_t space, uint32_t name, buf *out)
{
    slice ns = md_string(md, space);
    if (ns.n) {
        utf8_sanitize(ns, out);
        buf_u8(out, '.');
    }
    utf8_sanitize(plain(md_string(md, name)), out);
}

static uint32_t enclosing(const sym_md *md, uint32_t type)
{
    uint32_t row = md_lower_bound(md, MD_NESTED_CLASS, NESTED_TYPE, type);
    return md_get(md, MD_NESTED_CLASS, row, NESTED_TYPE) == type ? md_get(md, MD_NESTED_CLASS, row, NESTED_IN) : 0;
}

static void put_type_def(const sym_md *md, uint32_t row, buf *out)
{
    uint32_t chain[NESTING_MAX];
    int n = 0;
    for (uint32_t t = row; t && n < NESTING_MAX; t = enclosing(md, t))
        chain[n++] = t;
    while (n-- > 0) {
        put_qualified(md, md_get(md, MD_TYPE_DEF, chain[n], TYPE_NAMESPACE),
                      md_get(md, MD_TYPE_DEF, chain[n], TYPE_NAME), out);
        if (n) buf_u8(out, '+');
    }
}

static void put_type_ref(const sym_md *md, uint32_t row, buf *out)
{
    uint32_t chain[NESTING_MAX];
    int n = 0;
    for (uint32_t t = row; t && n < NESTING_MAX;) {
        chain[n++] = t;
        uint32_t scope = md_get(md, MD_TYPE_REF, t, TYPE_REF_SCOPE);
        t = (scope & 3) == SCOPE_TYPE_REF ? scope >> 2 : 0;
    }
    while (n-- > 0) {
        put_qualified(md, md_get(md, MD_TYPE_REF, chain[n], TYPE_REF_NAMESPACE),
                      md_get(md, MD_TYPE_REF, chain[n], TYPE_REF_NAME), out);
        if (n) buf_u8(out, '+');
    }
}

/* "<T, U>" of a type or a method; nothing when it has no parameters. */
static void put_generics(const sym_md *md, uint32_t row, uint32_t kind, buf *out)
{
    uint32_t owner = row << 1 | kind, first = md_lower_bound(md, MD_GENERIC_PARAM, GENERIC_OWNER, owner);
    for (uint32_t g = first; md_get(md, MD_GENERIC_PARAM, g, GENERIC_OWNER) == owner; g++) {
        if (out->n > SYM_SIGNATURE_MAX) break;
        buf_str(out, g == first ? "<" : ", ");
        utf8_sanitize(md_string(md, md_get(md, MD_GENERIC_PARAM, g, GENERIC_NAME)), out);
    }
    if (md_get(md, MD_GENERIC_PARAM, first, GENERIC_OWNER) == owner) buf_u8(out, '>');
}

void sym_type_name(const sym_names *n, uint32_t type_row, buf *out)
{
    put_type_def(n->md, type_row, out);
    put_generics(n->md, type_row, OWNER_TYPE, out);
}

void sym_method_name(const sym_names *n, uint32_t method_row, buf *out)
{
    uint32_t owner = method_row && method_row <= md_rows(n->md, MD_METHOD_DEF) ? n->owners[method_row - 1] : 0;
    if (owner) {
        sym_type_name(n, owner, out);
        buf_u8(out, '.');
    }
    utf8_sanitize(md_string(n->md, md_get(n->md, MD_METHOD_DEF, method_row, METHOD_NAME)), out);
    put_generics(n->md, method_row, OWNER_METHOD, out);
}

/* ---- signatures ---- */

typedef struct reader {
    const sym_names *names;
    cursor c;
    uint32_t method, type; /* rows that own the generic parameters */
    size_t end;            /* out may grow to this */
    buf *out;
    int depth;
    uint32_t steps; /* parts looked at: a signature of many names may not cost more than its text */
} reader;
enum { STEPS_MAX = 20000 };

static void put_type(reader *r);

static bool full(reader *r)
{
    if (r->out->n < r->end && r->depth < TYPE_DEPTH_MAX && ++r->steps < STEPS_MAX) return false;
    cursor_fail(&r->c);
    return true;
}

static void put_coded(reader *r, uint32_t coded)
{
    uint32_t row = coded >> 2;
    const sym_md *md = r->names->md;
    switch (coded & 3) {
    case TAG_TYPE_DEF: put_type_def(md, row, r->out); break;
    case TAG_TYPE_REF: put_type_ref(md, row, r->out); break;
    default: {
        cursor outer = r->c;
        r->c = cursor_of(md_blob(md, md_get(md, MD_TYPE_SPEC, row, 0)), 0);
        put_type(r);
        if (!cursor_ok(&r->c)) cursor_fail(&outer);
        r->c = outer;
    }
    }
}

static void put_parameter(reader *r, uint32_t row, uint32_t kind, uint32_t number)
{
    const sym_md *md = r->names->md;
    uint32_t owner = row << 1 | kind, g = md_lower_bound(md, MD_GENERIC_PARAM, GENERIC_OWNER, owner);
    for (; row && md_get(md, MD_GENERIC_PARAM, g, GENERIC_OWNER) == owner; g++) {
        if (md_get(md, MD_GENERIC_PARAM, g, GENERIC_NUMBER) != number) continue;
        utf8_sanitize(md_string(md, md_get(md, MD_GENERIC_PARAM, g, GENERIC_NAME)), r->out);
        return;
    }
    buf_printf(r->out, kind == OWNER_METHOD ? "!!%u" : "!%u", number);
}

static void put_list(reader *r, uint32_t n)
{
    for (uint32_t i = 0; i < n && cursor_ok(&r->c); i++) {
        if (i) buf_str(r->out, ", ");
        put_type(r);
    }
}

static void put_array(reader *r)
{
    put_type(r);
    uint32_t rank = md_compressed(&r->c);
    for (uint32_t n = md_compressed(&r->c), i = 0; i < n && cursor_ok(&r->c); i++)
        md_compressed(&r->c);
    for (uint32_t n = md_compressed(&r->c), i = 0; i < n && cursor_ok(&r->c); i++)
        md_compressed_signed(&r->c);
    buf_u8(r->out, '[');
    for (uint32_t i = 1; i < rank && i < 32; i++)
        buf_u8(r->out, ',');
    buf_u8(r->out, ']');
}

static void put_instance(reader *r)
{
    cursor_u8(&r->c); /* class or value type */
    put_coded(r, md_compressed(&r->c));
    uint32_t n = md_compressed(&r->c);
    buf_u8(r->out, '<');
    put_list(r, n);
    buf_u8(r->out, '>');
}

/* "delegate*<parameters, return>": the return type comes first and is written last. */
static void put_function(reader *r)
{
    uint8_t convention = cursor_u8(&r->c);
    if (convention & SIG_GENERIC) md_compressed(&r->c);
    uint32_t n = md_compressed(&r->c);
    buf_str(r->out, "delegate*<");
    size_t start = r->out->n;
    put_type(r);
    size_t returned = r->out->n - start;
    if (n && cursor_ok(&r->c)) {
        put_list(r, n);
        buf_str(r->out, ", ");
        uint8_t *room = buf_reserve(r->out, returned);
        if (room) {
            memcpy(room, r->out->p + start, returned);
            memmove(r->out->p + start, r->out->p + start + returned, r->out->n - start);
        }
    }
    buf_u8(r->out, '>');
}

static void put_element(reader *r, uint8_t element)
{
    switch (element) {
    case ET_PTR:
        put_type(r);
        buf_u8(r->out, '*');
        break;
    case ET_BYREF:
        put_type(r);
        buf_u8(r->out, '&');
        break;
    case ET_SZARRAY:
        put_type(r);
        buf_str(r->out, "[]");
        break;
    case ET_VALUETYPE:
    case ET_CLASS: put_coded(r, md_compressed(&r->c)); break;
    case ET_VAR: put_parameter(r, r->type, OWNER_TYPE, md_compressed(&r->c)); break;
    case ET_MVAR: put_parameter(r, r->method, OWNER_METHOD, md_compressed(&r->c)); break;
    case ET_ARRAY: put_array(r); break;
    case ET_GENERICINST: put_instance(r); break;
    case ET_FNPTR: put_function(r); break;
    default:
        if (element < sizeof PRIMITIVES / sizeof *PRIMITIVES && PRIMITIVES[element])
            buf_str(r->out, PRIMITIVES[element]);
        else
            cursor_fail(&r->c);
    }
}

static void put_type(reader *r)
{
    if (full(r)) return;
    r->depth++;
    uint8_t element = cursor_u8(&r->c);
    while (element == ET_CMOD_REQD || element == ET_CMOD_OPT || element == ET_PINNED || element == ET_SENTINEL) {
        if (element == ET_CMOD_REQD || element == ET_CMOD_OPT) md_compressed(&r->c);
        element = cursor_u8(&r->c);
    }
    if (cursor_ok(&r->c)) put_element(r, element);
    r->depth--;
}

void sym_method_signature(const sym_names *n, uint32_t method_row, buf *out)
{
    slice blob = md_blob(n->md, md_get(n->md, MD_METHOD_DEF, method_row, METHOD_SIGNATURE));
    bool known = method_row && method_row <= md_rows(n->md, MD_METHOD_DEF);
    reader r = {.names = n,
                .c = cursor_of(blob, 0),
                .method = method_row,
                .type = known ? n->owners[method_row - 1] : 0,
                .end = out->n + SYM_SIGNATURE_MAX,
                .out = out};
    uint8_t convention = cursor_u8(&r.c);
    if (convention & SIG_GENERIC) md_compressed(&r.c);
    uint32_t count = md_compressed(&r.c);
    put_type(&r);
    buf_str(out, " (");
    put_list(&r, count);
    buf_str(out, out->n >= r.end ? "…)" : cursor_ok(&r.c) ? ")" : "?");
}

_Static_assert(ET_STRING == 14 && ET_VOID == 1, "PRIMITIVES is by element type");
