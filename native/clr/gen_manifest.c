/* SPDX-License-Identifier: MIT */
/* gen_manifest.c: a program of the build: reads schemas/clr-events.json and writes the C table that manifest.h
 * describes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "nettrace/nettrace.h"

#define INPUT_MAX ((size_t)16 << 20)
#define LIST_MAX  256
#define DEPTH_MAX 4

/* Three tables grow side by side; what refers to them holds an index. */
typedef struct out {
    buf fields, events, names, providers, enums, dynamics;
    unsigned n_fields, n_events, n_names, n_providers, n_enums, n_dynamics;
} out;

typedef struct field {
    char name[64], enums[64], type[64], packing[16];
    bool hex;
    unsigned sub, n_sub;
} field;

static jsonr in;
static out o;

static void die(const char *what)
{
    fprintf(stderr, "gen_manifest: %s near byte %td\n", what, in.p - in.start);
    exit(1);
}

static json_tok next(void)
{
    json_tok t = jsonr_next(&in);
    if (t == JSON_ERROR) die(in.e.message);
    return t;
}

static void expect(json_tok want)
{
    if (next() != want) die("another sort of value is expected here");
}

static void copy(char *to, size_t cap)
{
    if (in.str.n >= cap) die("a text is too long");
    memcpy(to, in.str.p, in.str.n);
    to[in.str.n] = 0;
}

static void text(char *to, size_t cap)
{
    json_tok t = next();
    if (t == JSON_NULL)
        *to = 0;
    else if (t == JSON_STR)
        copy(to, cap);
    else
        die("a text is expected here");
}

static bool key_is(const char *name) { return slice_eq_str(in.str, name); }

static int64_t number(void)
{
    json_tok t = next();
    if (t == JSON_NULL) return -1;
    if (t != JSON_INT) die("a whole number is expected here");
    return in.i;
}

static uint64_t mask(void)
{
    char s[32];
    text(s, sizeof s);
    return strtoull(s, NULL, 0);
}

static bool truth(void)
{
    json_tok t = next();
    if (t != JSON_TRUE && t != JSON_FALSE) die("true or false is expected here");
    return t == JSON_TRUE;
}

/* ---- fields ---- */

static const struct {
    const char *type, *wire;
} scalars[] = {{"u8", "NT_W_U8"},
               {"i8", "NT_W_I8"},
               {"u16", "NT_W_U16"},
               {"i16", "NT_W_I16"},
               {"u32", "NT_W_U32"},
               {"i32", "NT_W_I32"},
               {"u64", "NT_W_U64"},
               {"i64", "NT_W_I64"},
               {"f32", "NT_W_F32"},
               {"f64", "NT_W_F64"},
               {"bool32", "NT_W_BOOL32"},
               {"bool8", "NT_W_BOOL8"},
               {"ptr", "CLR_WIRE_PTR"},
               {"utf16z", "NT_W_UTF16Z"},
               {"ansiz", "NT_W_ANSIZ"},
               {"guid", "NT_W_GUID"},
               {"filetime", "NT_W_FILETIME"},
               {"struct", "NT_W_STRUCT"}};

static const char *scalar(const char *type)
{
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        if (strcmp(scalars[i].type, type) == 0) return scalars[i].wire;
    fprintf(stderr, "gen_manifest: type \"%s\" is not known\n", type);
    exit(1);
}

static void put_row(const char *name, const char *enums, const char *wire, const char *count_kind, const field *f,
                    unsigned count, bool natural, unsigned sub, unsigned n_sub)
{
    buf_printf(&o.fields, "{\"%s\", ", name);
    if (*enums)
        buf_printf(&o.fields, "\"%s\"", enums);
    else
        buf_str(&o.fields, "NULL");
    buf_printf(&o.fields, ", %s, %s, %d, %d, %u, %u, %u},\n", wire, count_kind, f->hex, natural, count, sub, n_sub);
    o.n_fields++;
}

/* The part of "array(of=T,count=F)" behind name=, up to , or ). */
static bool part(const char *type, const char *name, char *to, size_t cap)
{
    const char *p = strstr(type, name);
    if (!p) return false;
    p += strlen(name);
    size_t n = strcspn(p, ",)");
    if (n >= cap) die("a type is too long");
    memcpy(to, p, n);
    to[n] = 0;
    return true;
}

static unsigned sibling(const field *list, unsigned at, const char *name)
{
    for (unsigned i = 0; i < at; i++)
        if (strcmp(list[i].name, name) == 0) return i;
    fprintf(stderr, "gen_manifest: no field \"%s\" stands before the one it counts\n", name);
    exit(1);
}

/* The row of an array's element goes before the rows of its list. */
static void put_element(field *f)
{
    char of[32];
    if (!part(f->type, "of=", of, sizeof of)) return;
    unsigned at = o.n_fields;
    put_row("", "", scalar(of), "NT_COUNT_U16", f, 0, strcmp(f->packing, "natural") == 0, f->sub, f->n_sub);
    f->sub = at;
    f->n_sub = 1;
}

static void put_field(const field *list, unsigned at)
{
    const field *f = &list[at];
    char counter[64];
    bool array = strncmp(f->type, "array(", 6) == 0, bytes = strncmp(f->type, "bytes(", 6) == 0;
    if (!array && !bytes) {
        put_row(f->name, f->enums, scalar(f->type), "NT_COUNT_U16", f, 0, false, f->sub, f->n_sub);
        return;
    }
    if (!part(f->type, "count=", counter, sizeof counter)) die("a list without a count");
    bool prefix = strcmp(counter, "u16prefix") == 0;
    put_row(f->name, f->enums, array ? "NT_W_ARRAY" : "NT_W_BYTES", prefix ? "NT_COUNT_U16" : "NT_COUNT_FIELD", f,
            prefix ? 0 : sibling(list, at, counter), false, f->sub, f->n_sub);
}

static unsigned read_fields(unsigned *n_out, unsigned depth);

static void read_field(field *f, unsigned depth)
{
    *f = (field){0};
    while (next() == JSON_KEY) {
        if (key_is("name"))
            text(f->name, sizeof f->name);
        else if (key_is("type"))
            text(f->type, sizeof f->type);
        else if (key_is("enum"))
            text(f->enums, sizeof f->enums);
        else if (key_is("packing"))
            text(f->packing, sizeof f->packing);
        else if (key_is("hex"))
            f->hex = truth();
        else if (key_is("fields"))
            f->sub = read_fields(&f->n_sub, depth + 1);
        else if (!jsonr_skip(&in))
            die("a value cannot be read");
    }
}

/* Reads a list of fields; returns where its rows start. */
static unsigned read_fields(unsigned *n_out, unsigned depth)
{
    if (depth > DEPTH_MAX) die("fields are nested too deep");
    field *list = calloc(LIST_MAX, sizeof *list);
    if (!list) die("no memory");
    unsigned n = 0;
    expect(JSON_ARRAY);
    while (next() == JSON_OBJECT) {
        if (n == LIST_MAX) die("too many fields");
        read_field(&list[n++], depth);
    }
    for (unsigned i = 0; i < n; i++)
        put_element(&list[i]);
    unsigned at = o.n_fields;
    for (unsigned i = 0; i < n; i++)
        put_field(list, i);
    free(list);
    *n_out = n;
    return at;
}

/* ---- events, providers, enums ---- */

typedef struct event {
    int64_t id, version, level, opcode;
    uint64_t keywords;
    char name[96], display[96];
    bool stack;
    unsigned fields, n_fields;
} event;

static void read_event(event *e)
{
    *e = (event){.opcode = -1};
    while (next() == JSON_KEY) {
        if (key_is("id"))
            e->id = number();
        else if (key_is("version"))
            e->version = number();
        else if (key_is("level"))
            e->level = number();
        else if (key_is("opcode"))
            e->opcode = number();
        else if (key_is("keywords"))
            e->keywords = mask();
        else if (key_is("name"))
            text(e->name, sizeof e->name);
        else if (key_is("display"))
            text(e->display, sizeof e->display);
        else if (key_is("stack"))
            e->stack = truth();
        else if (key_is("fields"))
            e->fields = read_fields(&e->n_fields, 0);
        else if (!jsonr_skip(&in))
            die("a value cannot be read");
    }
}

static void put_event(buf *b, const event *e)
{
    buf_printf(b, "{%lld, %lld, %lld, %lld, %d, UINT64_C(0x%llx), \"%s\", ", (long long)e->id, (long long)e->version,
               (long long)e->level, (long long)e->opcode, e->stack, (unsigned long long)e->keywords, e->name);
    buf_printf(b, "\"%s\", %u, %u},\n", *e->display ? e->display : e->name, e->fields, e->n_fields);
}

static int by_id(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->version < y->version ? -1 : x->version > y->version;
}

static void read_events(void)
{
    enum { EVENTS_MAX = 1024 };
    event *list = calloc(EVENTS_MAX, sizeof *list);
    if (!list) die("no memory");
    size_t n = 0;
    expect(JSON_ARRAY);
    while (next() == JSON_OBJECT) {
        if (n == EVENTS_MAX) die("too many events");
        read_event(&list[n++]);
    }
    qsort(list, n, sizeof *list, by_id);
    for (size_t i = 0; i < n; i++)
        put_event(&o.events, &list[i]);
    o.n_events += (unsigned)n;
    free(list);
}

static void put_name(const char *name, uint64_t value)
{
    buf_printf(&o.names, "{\"%s\", UINT64_C(0x%llx)},\n", name, (unsigned long long)value);
    o.n_names++;
}

/* {"name": "0x1"} or {"0x1": "name"} */
static void read_names(bool name_first)
{
    expect(JSON_OBJECT);
    while (next() == JSON_KEY) {
        char key[96], value[96];
        copy(key, sizeof key);
        text(value, sizeof value);
        if (name_first)
            put_name(key, strtoull(value, NULL, 0));
        else
            put_name(value, strtoull(key, NULL, 0));
    }
}

/* The bytes of a GUID's text, as a C initialiser: the first three groups are little-endian. */
static void put_guid(const char *s)
{
    static const int order[16] = {6, 4, 2, 0, 11, 9, 16, 14, 19, 21, 24, 26, 28, 30, 32, 34};
    buf_str(&o.providers, "{");
    for (int i = 0; i < 16; i++)
        buf_printf(&o.providers, "%s0x%.2s", i ? ", " : "", *s ? s + order[i] : "00");
    buf_str(&o.providers, "}");
}

static void read_provider(void)
{
    char name[96] = "", guid[64] = "", kind[32] = "";
    bool dynamic = false;
    unsigned events = o.n_events, names = o.n_names;
    while (next() == JSON_KEY) {
        if (key_is("name"))
            text(name, sizeof name);
        else if (key_is("guid"))
            text(guid, sizeof guid);
        else if (key_is("kind"))
            text(kind, sizeof kind);
        else if (key_is("dynamicIds"))
            dynamic = truth();
        else if (key_is("keywords"))
            read_names(true);
        else if (key_is("events"))
            read_events();
        else if (!jsonr_skip(&in))
            die("a value cannot be read");
    }
    buf_printf(&o.providers, "{\"%s\", ", name);
    put_guid(guid);
    buf_printf(&o.providers, ", %d, %d, %d, %u, %u, %u, %u},\n", *guid != 0, strcmp(kind, "native") == 0, dynamic,
               events, o.n_events - events, names, o.n_names - names);
    o.n_providers++;
}

static void read_enum(const char *name)
{
    unsigned at = o.n_names;
    bool flags = false;
    expect(JSON_OBJECT);
    while (next() == JSON_KEY) {
        if (key_is("values"))
            read_names(false);
        else if (key_is("flags")) {
            flags = true;
            read_names(false);
        } else if (!jsonr_skip(&in))
            die("a value cannot be read");
    }
    buf_printf(&o.enums, "{\"%s\", %d, %u, %u},\n", name, flags, at, o.n_names - at);
    o.n_enums++;
}

static void read_document(void)
{
    expect(JSON_OBJECT);
    while (next() == JSON_KEY) {
        if (key_is("providers")) {
            expect(JSON_ARRAY);
            while (next() == JSON_OBJECT)
                read_provider();
        } else if (key_is("gcDynamicPayloads")) {
            expect(JSON_ARRAY);
            for (event e; next() == JSON_OBJECT; o.n_dynamics++) {
                read_event(&e);
                put_event(&o.dynamics, &e);
            }
        } else if (key_is("enums")) {
            expect(JSON_OBJECT);
            while (next() == JSON_KEY) {
                char name[96];
                copy(name, sizeof name);
                read_enum(name);
            }
        } else if (!jsonr_skip(&in)) {
            die("a value cannot be read");
        }
    }
}

static void put_table(FILE *f, const char *head, const buf *rows)
{
    if (rows->failed) die("a table is too long");
    fprintf(f, "%s[] = {\n%.*s};\n", head, (int)rows->n, (const char *)rows->p);
}

static void write_tables(FILE *f)
{
    fprintf(f, "/* Made by gen_manifest from schemas/clr-events.json: change that. */\n#include <stddef.h>\n\n#include "
               "\"clr/clr.h\"\n#include \"clr/manifest.h\"\n\n");
    put_table(f, "const clr__field clr__fields", &o.fields);
    put_table(f, "const struct clr_event clr__events", &o.events);
    put_table(f, "const clr__name clr__names", &o.names);
    put_table(f, "const struct clr_provider clr__providers", &o.providers);
    put_table(f, "const clr__enum clr__enums", &o.enums);
    put_table(f, "const struct clr_event clr__gc_dynamic", &o.dynamics);
    fprintf(f, "const unsigned clr__n_providers = %u, clr__n_enums = %u, clr__n_gc_dynamic = %u;\n", o.n_providers,
            o.n_enums, o.n_dynamics);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "use: gen_manifest clr-events.json OUT.c\n");
        return 2;
    }
    FILE *f = fopen(argv[1], "rb");
    char *bytes = malloc(INPUT_MAX);
    if (!f || !bytes) {
        fprintf(stderr, "gen_manifest: cannot read %s\n", argv[1]);
        free(bytes);
        if (f) fclose(f);
        return 1;
    }
    size_t n = fread(bytes, 1, INPUT_MAX, f);
    fclose(f);
    jsonr_init(&in, slice_of(bytes, n));
    read_document();
    FILE *to = fopen(argv[2], "wb");
    if (!to) {
        fprintf(stderr, "gen_manifest: cannot write %s\n", argv[2]);
        return 1;
    }
    write_tables(to);
    jsonr_fini(&in);
    free(bytes);
    return fclose(to) == 0 ? 0 : 1;
}
