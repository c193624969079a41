/* SPDX-License-Identifier: MIT */
/* heap_object.c: one object with its fields. Values are told as they are; who may see them is the server's business,
 * so what is a value (not an address, not a type) is marked. */
#include "base/utf.h"
#include "memory/heap_details_own.h"

#define FIELDS_SHOWN 256u
#define VALUE_DEPTH  3u /* values inside values */
#define ARRAY_SHOWN  8u
#define TEXT_UNITS   2048u
#define NAME_BYTES   512u

typedef struct printer {
    heap *h;
    jsonw *w;
    uint64_t at; /* where field offsets count from */
    uint32_t shown;
    unsigned depth;
    char prefix[NAME_BYTES];
    uint64_t mt;
    bool truncated;
} printer;

static const char *primitive_name(uint32_t element)
{
    static const char *const names[] = {NULL,
                                        NULL,
                                        "System.Boolean",
                                        "System.Char",
                                        "System.SByte",
                                        "System.Byte",
                                        "System.Int16",
                                        "System.UInt16",
                                        "System.Int32",
                                        "System.UInt32",
                                        "System.Int64",
                                        "System.UInt64",
                                        "System.Single",
                                        "System.Double"};
    if (element < sizeof names / sizeof *names && names[element]) return names[element];
    switch (element) {
    case HEAP_EL_I: return "System.IntPtr";
    case HEAP_EL_U: return "System.UIntPtr";
    case HEAP_EL_PTR: return "System.Void*";
    case HEAP_EL_STRING: return "System.String";
    default: return "System.Object";
    }
}

/* The value of a primitive as text; false: it is none. */
static bool primitive_text(heap *h, uint64_t at, uint32_t element, char *to, size_t size)
{
    uint64_t raw = 0;
    static const uint8_t widths[] = {0, 0, 1, 2, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    size_t n = element < sizeof widths ? widths[element]
               : element == HEAP_EL_I || element == HEAP_EL_U || element == HEAP_EL_PTR || element == HEAP_EL_FNPTR ? 8
                                                                                                                    : 0;
    if (!n) return false;
    if (!heap_read(h, at, &raw, n)) {
        snprintf(to, size, "?");
        return true;
    }
    float f;
    double d;
    uint32_t half = (uint32_t)raw;
    memcpy(&f, &half, 4);
    memcpy(&d, &raw, 8);
    switch (element) {
    case HEAP_EL_BOOLEAN: snprintf(to, size, "%s", raw ? "true" : "false"); break;
    case HEAP_EL_CHAR: snprintf(to, size, "U+%04X", (unsigned)raw); break;
    case HEAP_EL_I1: snprintf(to, size, "%d", (int8_t)raw); break;
    case HEAP_EL_I2: snprintf(to, size, "%d", (int16_t)raw); break;
    case HEAP_EL_I4: snprintf(to, size, "%d", (int32_t)raw); break;
    case HEAP_EL_I8: snprintf(to, size, "%lld", (long long)raw); break;
    case HEAP_EL_R4: snprintf(to, size, "%.9g", (double)f); break;
    case HEAP_EL_R8: snprintf(to, size, "%.17g", d); break;
    case HEAP_EL_U1:
    case HEAP_EL_U2:
    case HEAP_EL_U4:
    case HEAP_EL_U8: snprintf(to, size, "%llu", (unsigned long long)raw); break;
    default: snprintf(to, size, "0x%llx", (unsigned long long)raw);
    }
    return true;
}

static bool is_string(heap *h, uint64_t object)
{
    return object && (heap_word(h, object) & ~UINT64_C(7)) == h->globals.string;
}

/* The text of a string object; *cut: it is longer. */
static bool string_text(heap *h, uint64_t object, buf *out, bool *cut)
{
    uint32_t length = 0;
    uint8_t units[TEXT_UNITS * 2];
    if (!heap_read(h, object + 8, &length, 4)) return false;
    uint32_t n = length < TEXT_UNITS ? length : TEXT_UNITS;
    *cut = n < length;
    return (!n || heap_read(h, object + 12, units, 2 * (size_t)n)) &&
           utf16le_to_utf8(slice_of(units, 2 * (size_t)n), out);
}

/* value, objectAddress, referencedTypeFullName of a reference. */
static void write_reference(heap *h, uint64_t target, jsonw *w)
{
    buf text;
    bool cut = false, is_text = is_string(h, target);
    buf_init(&text, 16384);
    jsonw_key_lit(w, "value");
    if (!target)
        jsonw_cstr(w, "null");
    else if (is_text && string_text(h, target, &text, &cut))
        jsonw_str(w, buf_view(&text));
    else
        jsonw_cstr(w, "object");
    jsonw_key_lit(w, "isValue");
    jsonw_bool(w, is_text);
    jsonw_key_lit(w, "cut");
    jsonw_bool(w, cut);
    jsonw_key_lit(w, "objectAddress");
    if (target)
        jsonw_hex(w, target);
    else
        jsonw_null(w);
    jsonw_key_lit(w, "referencedTypeFullName");
    heap__write_type_name(h, target ? heap_word(h, target) & ~UINT64_C(7) : 0, w);
    buf_fini(&text);
}

static void write_type(heap *h, uint64_t mt, uint32_t element, jsonw *w)
{
    char name[NAME_BYTES];
    jsonw_key_lit(w, "typeFullName");
    heap_type_text(h, mt, name, sizeof name);
    jsonw_cstr(w, name[0] ? name : primitive_name(element));
}

/* prefix and name, as far as there is room. */
static void join(char to[NAME_BYTES], const char *prefix, slice name)
{
    size_t n = strlen(prefix), k = name.n < NAME_BYTES - 1 - n ? name.n : NAME_BYTES - 1 - n;
    memcpy(to, prefix, n);
    if (k) memcpy(to + n, name.p, k);
    to[n + k] = 0;
}

static void fields_of(printer *p, uint64_t mt);

static bool one_field(void *arg, const heap_field *f)
{
    printer *p = arg;
    char name[NAME_BYTES], value[64];
    if (f->is_static) return true;
    if (p->shown >= FIELDS_SHOWN) {
        p->truncated = true;
        return false;
    }
    uint64_t at = p->at + f->offset;
    join(name, p->prefix, f->name);
    if (f->element == HEAP_EL_VALUE && f->mt && p->depth < VALUE_DEPTH) {
        printer inner = *p;
        inner.depth++;
        inner.at = at - 8; /* a value has no method table before its fields */
        size_t n = strlen(name);
        if (n > sizeof inner.prefix - 2) n = sizeof inner.prefix - 2;
        memcpy(inner.prefix, name, n);
        memcpy(inner.prefix + n, ".", 2);
        fields_of(&inner, f->mt);
        p->shown = inner.shown;
        p->truncated = inner.truncated;
        return true;
    }
    p->shown++;
    jsonw_object(p->w);
    jsonw_key_lit(p->w, "name");
    jsonw_cstr(p->w, name);
    write_type(p->h, f->mt, f->element, p->w);
    if (heap_is_reference(f->element)) {
        write_reference(p->h, heap_word(p->h, at), p->w);
    } else {
        jsonw_key_lit(p->w, "value");
        jsonw_cstr(p->w, primitive_text(p->h, at, f->element, value, sizeof value) ? value : "value");
        jsonw_key_lit(p->w, "isValue");
        jsonw_bool(p->w, true);
    }
    jsonw_end_object(p->w);
    return true;
}

/* Of the type and of those that it extends, the outermost first. */
static void fields_of(printer *p, uint64_t mt)
{
    uint64_t chain[HEAP_PARENTS_MAX];
    size_t n = 0;
    dac_method_table t;
    for (; mt && n < HEAP_PARENTS_MAX && dac_get_method_table(p->h->d, mt, &t); mt = t.parent)
        chain[n++] = mt;
    while (n--)
        heap_each_field(p->h, chain[n], one_field, p);
}

static void write_array(heap *h, uint64_t address, jsonw *w)
{
    dac_object o;
    char value[64];
    bool known = dac_get_object(h->d, address, &o);
    jsonw_key_lit(w, "arrayLength");
    if (known)
        jsonw_uint(w, o.components);
    else
        jsonw_null(w);
    jsonw_key_lit(w, "arraySample");
    jsonw_array(w);
    for (uint64_t i = 0; known && i < o.components && i < ARRAY_SHOWN; i++) {
        uint64_t at = o.data + i * o.component_size;
        jsonw_object(w);
        jsonw_key_lit(w, "index");
        jsonw_uint(w, i);
        write_type(h, o.element_type, o.element_kind, w);
        if (heap_is_reference(o.element_kind)) {
            write_reference(h, heap_word(h, at), w);
        } else {
            jsonw_key_lit(w, "value");
            jsonw_cstr(w, primitive_text(h, at, o.element_kind, value, sizeof value) ? value : "value");
            jsonw_key_lit(w, "isValue");
            jsonw_bool(w, true);
        }
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void write_string(heap *h, uint64_t address, jsonw *w)
{
    buf text;
    bool cut = false;
    uint32_t length = 0;
    buf_init(&text, 16384);
    heap_read(h, address + 8, &length, 4);
    jsonw_key_lit(w, "stringValue");
    if (string_text(h, address, &text, &cut))
        jsonw_str(w, buf_view(&text));
    else
        jsonw_null(w);
    jsonw_key_lit(w, "stringLength");
    jsonw_uint(w, length);
    jsonw_key_lit(w, "stringValueTruncated");
    jsonw_bool(w, cut);
    buf_fini(&text);
}

bool heap_object_write(heap *h, uint64_t address, jsonw *w)
{
    uint32_t type = heap_type_of_object(h, address);
    const heap_region *r = heap_region_of(h, address);
    if (type == GRAPH_NONE || !r) return false;
    const heap_type *t = heap_type_at(h->types, type);
    if (t->flags & HEAP_TYPE_FREE) return false;
    bool is_text = t->flags & HEAP_TYPE_STRING, is_array = t->flags & HEAP_TYPE_ARRAY;
    jsonw_object(w);
    jsonw_key_lit(w, "address");
    jsonw_hex(w, address);
    write_type(h, t->mt, HEAP_EL_CLASS, w);
    jsonw_key_lit(w, "size");
    jsonw_uint(w, heap_size_of_object(h, address));
    jsonw_key_lit(w, "segmentKind");
    jsonw_cstr(w, heap_gen_name(r->gen));
    jsonw_key_lit(w, "generation");
    static const char *const names[] = {"gen0", "gen1", "gen2", "loh", "poh", "frozen"};
    jsonw_cstr(w, names[r->gen]);
    jsonw_key_lit(w, "isArray");
    jsonw_bool(w, is_array);
    jsonw_key_lit(w, "isString");
    jsonw_bool(w, is_text);
    if (is_array) write_array(h, address, w);
    if (is_text) write_string(h, address, w);
    if (!is_array && !is_text) {
        printer p = {.h = h, .w = w, .at = address};
        jsonw_key_lit(w, "fields");
        jsonw_array(w);
        fields_of(&p, t->mt);
        jsonw_end_array(w);
        jsonw_key_lit(w, "fieldsTruncated");
        jsonw_bool(w, p.truncated);
    }
    jsonw_end_object(w);
    return true;
}
