/* SPDX-License-Identifier: MIT */
/* test_fields.c: metadata in all its forms, and payloads decoded by it: every type, nesting, arrays, locations, short
 * payloads. */
#include "nettrace/writer.h"

/* Reads one kind and one event with its payload through the whole reader, and calls check with both. */
typedef struct probe {
    void (*check)(const nt_kind *k, const nt_event *ev);
    int events;
} probe;

static int on_event(void *arg, const nt_event *ev)
{
    probe *p = arg;
    p->events++;
    if (p->check) p->check(ev->kind, ev);
    return 0;
}

static void read_kind(bool v6, const char *name, slice fields, slice tags, slice payload,
                      void (*check)(const nt_kind *k, const nt_event *ev))
{
    tw w;
    err e = {0};
    probe p = {.check = check};
    tw_start(&w, v6, true);
    if (v6) {
        tw_begin(&w, TW_THREADS);
        tw_put_thread(&w, 1, 1, 1, "");
        tw_end(&w);
    }
    tw_begin(&w, TW_METADATA);
    tw_put_kind(&w, 70000, "Prov", 300, name, 2, fields, tags); /* an id beyond the dense table */
    tw_end(&w);
    tw_begin(&w, TW_EVENTS);
    tw_put_event(&w, &(tw_event){.kind = 70000, .seq = 1, .thread = 1, .capture = 1, .ts = 2000, .payload = payload});
    tw_end(&w);
    tw_finish(&w);
    nt_reader *r = nt_new(NULL, &(nt_sink){.event = on_event}, &p, &e);
    if (nt_feed(r, w.out.p, w.out.n, &e) < 0 || nt_finish(r, &e) < 0) print_error("%s\n", e.message);
    assert_int_equal(e.kind, ERR_NONE);
    assert_int_equal(p.events, 1);
    assert_int_equal(nt_kind_count(r), 1);
    assert_null(nt_kind_at(r, 1));
    nt_free(r);
    tw_fini(&w);
}

static const tw_field scalars[] = {
    {"Bool", 3, 0},  {"Char", 4, 0},    {"SByte", 5, 0},  {"Byte", 6, 0},     {"Int16", 7, 0},   {"UInt16", 8, 0},
    {"Int32", 9, 0}, {"UInt32", 10, 0}, {"Int64", 11, 0}, {"UInt64", 12, 0},  {"Single", 13, 0}, {"Double", 14, 0},
    {"Text", 18, 0}, {"Guid", 17, 0},   {"Time", 16, 0},  {"Decimal", 15, 0}, {"Last", 10, 0}};
#define N_SCALARS (sizeof scalars / sizeof *scalars)

static void put_scalars(buf *b)
{
    float f = 1.5f;
    double d = -2.25;
    buf_u32(b, 1);
    buf_u16(b, 0x263A);
    buf_u8(b, 0xFE);
    buf_u8(b, 200);
    buf_u16(b, 0x8000);
    buf_u16(b, 0x8000);
    buf_u32(b, 0xFFFFFFFF);
    buf_u32(b, 0xFFFFFFFF);
    buf_u64(b, UINT64_MAX);
    buf_u64(b, UINT64_MAX);
    buf_put(b, &f, 4);
    buf_put(b, &d, 8);
    tw_utf16z(b, "hello, world");
    buf_put(b, "0123456789abcdef", 16);
    buf_u64(b, 116444736000000000);
    buf_put(b, "ABCDEFGHIJKLMNOP", 16);
    buf_u32(b, 42);
}

static void check_scalars(const nt_kind *k, const nt_event *ev)
{
    nt_value v[N_SCALARS], one;
    bool whole;
    assert_slice_str(k->provider, "Prov");
    assert_slice_str(k->name, "Scalars");
    assert_slice_str(k->display, "Scalars");
    assert_int_equal(k->id, 300);
    assert_int_equal(k->version, 2);
    assert_true(k->described);
    assert_int_equal(nt_decode_whole(k->schema, ev->payload, v, &whole), N_SCALARS);
    assert_true(whole);
    static const nt_type types[N_SCALARS] = {NT_BOOL,  NT_CHAR, NT_INT,      NT_UINT,    NT_INT,   NT_UINT,
                                             NT_INT,   NT_UINT, NT_INT,      NT_UINT,    NT_FLOAT, NT_FLOAT,
                                             NT_STR16, NT_GUID, NT_FILETIME, NT_DECIMAL, NT_UINT};
    static const int64_t numbers[12] = {1, 0x263A, -2, 200, -32768, 32768, -1, 0xFFFFFFFF, -1, -1};
    for (size_t i = 0; i < N_SCALARS; i++) {
        assert_slice_str(v[i].field->name, scalars[i].name);
        assert_int_equal(v[i].type, types[i]);
        if (i < 10) assert_int_equal(v[i].i, numbers[i]);
        assert_true(nt_get(k->schema, ev->payload, (uint32_t)i, &one));
        assert_int_equal(one.type, v[i].type);
        if (i < 12) assert_int_equal(one.u, v[i].u);
        assert_int_equal(nt_field_index(k->schema, slice_str(scalars[i].name)), i);
    }
    assert_true(v[10].f == 1.5 && v[11].f == -2.25);
    assert_int_equal(v[12].raw.n, 24);
    assert_memory_equal(v[13].raw.p, "0123456789abcdef", 16);
    assert_int_equal(v[14].i, 116444736000000000);
    assert_memory_equal(v[15].raw.p, "ABCDEFGHIJKLMNOP", 16);
    assert_int_equal(v[16].u, 42);
    assert_false(nt_get(k->schema, ev->payload, N_SCALARS, &one));
    assert_int_equal(nt_field_index(k->schema, slice_str("Missing")), -1);
    assert_int_equal(k->schema->flat[12].offset, 48); /* up to the first text offsets are fixed */
    assert_int_equal(k->schema->flat[13].offset, NT_VARIES);
    assert_int_equal(k->schema->size, NT_VARIES);
}

static void every_scalar_type_is_decoded(void **state)
{
    (void)state;
    for (int v6 = 0; v6 <= 1; v6++) {
        tw w = {.v6 = v6};
        buf fields, payload;
        buf_init(&fields, 0);
        buf_init(&payload, 0);
        tw_fields(&w, &fields, scalars, N_SCALARS);
        put_scalars(&payload);
        read_kind(v6, "Scalars", buf_view(&fields), (slice){0}, buf_view(&payload), check_scalars);
        buf_fini(&fields);
        buf_fini(&payload);
    }
}

static const nt_schema *scalar_schema(arena *a)
{
    static nt_spec specs[] = {{.name = SLICE_LIT("N"), .wire = NT_W_U32},
                              {.name = SLICE_LIT("S"), .wire = NT_W_UTF16Z},
                              {.name = SLICE_LIT("M"), .wire = NT_W_U16}};
    return nt_schema_build(a, specs, 3);
}

static void a_short_payload_gives_the_fields_that_are_there(void **state)
{
    (void)state;
    static const uint8_t payload[] = {7, 0, 0, 0, 'h', 0, 'i', 0, 0, 0, 9, 0, 0xAA};
    static const int fields_at[] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3};
    arena a = {0};
    const nt_schema *s = scalar_schema(&a);
    for (size_t n = 0; n <= sizeof payload; n++) {
        nt_value v[3], one;
        bool whole;
        slice part = slice_of(malloc(n ? n : 1), n); /* of its own size, so that a look past it is seen */
        memcpy((void *)(uintptr_t)part.p, payload, n);
        assert_int_equal(nt_decode_whole(s, part, v, &whole), fields_at[n]);
        assert_int_equal(whole, n == 12);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(nt_get(s, part, i, &one), (int)i < fields_at[n]);
        nt_iter it;
        int walked = 0;
        nt_iter_payload(&it, s, part);
        while (nt_iter_next(&it, &one))
            walked++;
        assert_int_equal(walked, fields_at[n]);
        assert_int_equal(it.truncated, fields_at[n] < 3);
        free((void *)(uintptr_t)part.p);
    }
    arena_free(&a);
}

/* V1: an Object of an Object, as EventCounters are: no name outside, "Payload" inside. */
static void check_nested(const nt_kind *k, const nt_event *ev)
{
    nt_value v[4], inner;
    nt_iter it, in;
    assert_int_equal(k->schema->n_fields, 1);
    assert_int_equal(k->schema->n_flat, 3);
    assert_int_equal(nt_decode(k->schema, ev->payload, v), 3);
    assert_slice_str(k->schema->flat[0].path, "Payload.Mean");
    assert_int_equal(nt_field_index(k->schema, slice_str("Payload.Count")), 1);
    assert_int_equal(nt_field_index(k->schema, slice_str("Count")), 1);
    assert_int_equal(nt_field_index(k->schema, slice_str("Twice")), -1);
    assert_int_equal(v[1].i, 5);
    nt_iter_payload(&it, k->schema, ev->payload);
    assert_true(nt_iter_next(&it, &inner));
    assert_int_equal(inner.type, NT_STRUCT);
    nt_iter_into(&in, &it, &inner);
    assert_true(nt_iter_next(&in, &inner));
    assert_slice_str(inner.field->name, "Payload");
    assert_int_equal(inner.raw.n, ev->payload.n);
    assert_false(nt_iter_next(&in, &inner));
    assert_false(nt_iter_next(&it, &inner));
}

static void structs_are_opened_and_named_by_their_path(void **state)
{
    (void)state;
    buf f, p;
    double mean = 2.5;
    buf_init(&f, 0);
    buf_init(&p, 0);
    buf_u32(&f, 1);
    buf_u32(&f, 1);
    buf_u32(&f, 1);
    buf_u32(&f, 1);
    tw w = {0};
    tw_fields(&w, &f, (tw_field[]){{"Mean", 14, 0}, {"Count", 9, 0}, {"Unit", 18, 0}}, 3);
    tw_utf16z(&f, "Payload");
    tw_utf16z(&f, "");
    buf_put(&p, &mean, 8);
    buf_u32(&p, 5);
    tw_utf16z(&p, "MB");
    read_kind(false, "EventCounters", buf_view(&f), (slice){0}, buf_view(&p), check_nested);
    buf_fini(&f);
    buf_fini(&p);
}

/* V5's tag 2: a list of {Key, Value}, which V1 cannot say. */
static void check_pairs(const nt_kind *k, const nt_event *ev)
{
    nt_value list, pair, text;
    nt_iter it, in, deep;
    char key[8];
    assert_int_equal(k->opcode, 24);
    assert_slice_str(k->display, "Pairs/24");
    nt_iter_payload(&it, k->schema, ev->payload);
    assert_true(nt_iter_next(&it, &list));
    assert_int_equal(list.type, NT_ARRAY);
    assert_int_equal(list.count, 2);
    nt_iter_into(&in, &it, &list);
    for (int i = 0; i < 2; i++) {
        assert_true(nt_iter_next(&in, &pair));
        nt_iter_into(&deep, &in, &pair);
        assert_true(nt_iter_next(&deep, &text));
        assert_slice(slice_of(key, nt_utf8(text.raw, key, sizeof key)), slice_str(i ? "k2" : "k1"));
        assert_true(nt_iter_next(&deep, &text));
        assert_false(nt_iter_next(&deep, &text));
    }
    assert_false(nt_iter_next(&in, &pair));
    assert_false(nt_iter_next(&it, &list));
}

static void put_v2_field(buf *out, const char *name, slice type)
{
    buf b;
    buf_init(&b, 0);
    tw_utf16z(&b, name);
    buf_slice(&b, type);
    buf_str(&b, "??"); /* what a later version may add */
    buf_u32(out, (uint32_t)b.n + 4);
    buf_slice(out, buf_view(&b));
    buf_fini(&b);
}

static void tags_bring_opcodes_and_arrays(void **state)
{
    (void)state;
    buf strings, type, tag, tags, payload;
    buf_init(&strings, 0);
    buf_init(&type, 0);
    buf_init(&tag, 0);
    buf_init(&tags, 0);
    buf_init(&payload, 0);
    put_v2_field(&strings, "Key", slice_of("\x12\0\0\0", 4));
    put_v2_field(&strings, "Value", slice_of("\x12\0\0\0", 4));
    buf_u32(&type, 19);
    buf_u32(&type, 1);
    buf_u32(&type, 2);
    buf_slice(&type, buf_view(&strings));
    buf_u32(&tag, 1);
    put_v2_field(&tag, "Arguments", buf_view(&type));
    buf_u32(&tags, 1);
    buf_u8(&tags, 1);
    buf_u8(&tags, 24);
    buf_u32(&tags, 3);
    buf_str(&tags, "\x63xyz"); /* a tag of an unknown sort */
    buf_u32(&tags, (uint32_t)tag.n);
    buf_u8(&tags, 2);
    buf_slice(&tags, buf_view(&tag));
    buf_u16(&payload, 2);
    tw_utf16z(&payload, "k1");
    tw_utf16z(&payload, "v1");
    tw_utf16z(&payload, "k2");
    tw_utf16z(&payload, "v2");
    read_kind(false, "Pairs", slice_of("\0\0\0\0", 4), buf_view(&tags), buf_view(&payload), check_pairs);
    buf_fini(&strings);
    buf_fini(&type);
    buf_fini(&tag);
    buf_fini(&tags);
    buf_fini(&payload);
}

static void check_v6_types(const nt_kind *k, const nt_event *ev)
{
    nt_value v[8], e;
    nt_iter it, in;
    bool whole;
    assert_slice_str(k->message, "said {0}");
    assert_slice_str(k->description, "about it");
    assert_int_equal(k->level, 3);
    assert_int_equal(k->keywords, 0x77);
    assert_slice_str(k->display, "Sixth/Stop"); /* the opcode is told, the name ends with nothing */
    assert_int_equal(nt_decode_whole(k->schema, ev->payload, v, &whole), 8);
    assert_int_equal(v[0].i, -3);
    assert_int_equal(v[1].u, 300);
    assert_int_equal(v[2].type, NT_BOOL);
    assert_int_equal(v[2].u, 1);
    assert_int_equal(v[3].type, NT_STR8);
    assert_slice_str(v[3].raw, "utf8");
    assert_int_equal(v[4].type, NT_STR16);
    assert_memory_equal(v[4].raw.p, "r\0e\0l\0", 6);
    assert_int_equal(v[5].type, NT_ARRAY);
    assert_int_equal(v[5].count, 2);
    assert_true(v[6].bad); /* a location outside of the payload */
    nt_iter_payload(&it, k->schema, ev->payload);
    nt_iter_into(&in, &it, &v[5]);
    assert_true(nt_iter_next(&in, &e));
    assert_int_equal(e.u, 0x0201);
    assert_true(nt_iter_next(&in, &e));
    assert_int_equal(e.u, 0x0403);
    assert_false(nt_iter_next(&in, &e));
    nt_iter_into(&in, &it, &v[6]);
    assert_false(nt_iter_next(&in, &e));
    assert_int_equal(v[7].count, 3);
}

static void v6_has_types_of_its_own(void **state)
{
    (void)state;
    static const tw_field types[] = {{"zig", 20, 0}, {"var", 21, 0},  {"flag", 26, 0}, {"text8", 19, 23},
                                     {"rel", 24, 4}, {"data", 25, 8}, {"out", 25, 8}};
    tw w = {.v6 = true};
    buf f, tags, p;
    buf_init(&f, 0);
    buf_init(&tags, 0);
    buf_init(&p, 0);
    tw_fields(&w, &f, types, 7);
    f.p[0] = 8; /* and one more, of a type with a count of its own: three bytes */
    buf_u16(&f, 6 + 4);
    tw_text6(&f, "fixed");
    buf_put(&f, "\x16\x06\3\0", 4);
    buf_u8(&tags, 1);
    buf_u8(&tags, 2);
    buf_u8(&tags, 3);
    buf_u64(&tags, 0x77);
    buf_u8(&tags, 4);
    tw_text6(&tags, "said {0}");
    buf_u8(&tags, 5);
    tw_text6(&tags, "about it");
    buf_u8(&tags, 6);
    tw_text6(&tags, "key");
    tw_text6(&tags, "value");
    buf_u8(&tags, 7);
    buf_put(&tags, "0123456789abcdef", 16);
    buf_u8(&tags, 8);
    buf_u8(&tags, 3);
    buf_str(&tags, "\x63whatever");
    tw_varint(&p, 5); /* zig-zag of -3 */
    tw_varint(&p, 300);
    buf_u8(&p, 1);
    buf_u16(&p, 4);
    buf_str(&p, "utf8");
    size_t rel = p.n;
    buf_u32(&p, 6u << 16 | 11); /* six bytes, 11 behind this field: two more locations and the fixed array */
    buf_u32(&p, 4u << 16 | (uint32_t)(rel + 4 + 11 + 6));
    buf_u32(&p, 4u << 16 | 60000);
    buf_str(&p, "abc");
    buf_put(&p, "r\0e\0l\0", 6);
    buf_put(&p, "\1\2\3\4", 4);
    read_kind(true, "Sixth", buf_view(&f), buf_view(&tags), buf_view(&p), check_v6_types);
    buf_fini(&f);
    buf_fini(&tags);
    buf_fini(&p);
}

static void check_opaque(const nt_kind *k, const nt_event *ev)
{
    assert_null(k->schema);
    assert_true(k->fields_dropped);
    assert_int_equal(ev->payload.n, 3);
}

static void a_field_list_that_cannot_be_read_leaves_the_kind(void **state)
{
    (void)state;
    static const struct {
        bool v6;
        const char *fields;
        size_t n;
    } lists[] = {
        {false, "\1\0\0\0\2\0\0\0a\0\0\0", 12},            /* type 2 */
        {false, "\1\0\0\0\x13\0\0\0\x9\0\0\0a\0\0\0", 16}, /* an array in V1 */
        {false, "\2\0\0\0\x9\0\0\0a\0\0\0", 12},           /* two fields, one there */
        {false, "\xFF\xFF\xFF\xFF", 4},
        {true, "\1\0\xFF\0\1a\x9", 7},
        {true, "\1\0\3\0\1a\x1B", 7},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        read_kind(lists[i].v6, "Odd", slice_of(lists[i].fields, lists[i].n), (slice){0}, slice_of("abc", 3),
                  check_opaque);
}

static void one_byte_booleans_are_seen_by_the_length(void **state)
{
    (void)state;
    nt_spec specs[] = {{.name = SLICE_LIT("A"), .wire = NT_W_BOOL32},
                       {.name = SLICE_LIT("S"), .wire = NT_W_UTF16Z},
                       {.name = SLICE_LIT("B"), .wire = NT_W_BOOL32}};
    static const uint8_t four[] = {1, 0, 0, 0, 'x', 0, 0, 0, 0, 0, 0, 0}, one[] = {1, 'x', 0, 0, 0, 1};
    arena a = {0};
    const nt_schema *s = nt_schema_build(&a, specs, 3);
    nt_value v[3], third;
    bool whole;
    assert_int_equal(nt_decode_whole(s, slice_of(four, sizeof four), v, &whole), 3);
    assert_true(whole && v[0].u == 1 && v[2].u == 0);
    assert_int_equal(nt_decode_whole(s, slice_of(one, sizeof one), v, &whole), 3);
    assert_true(whole && v[0].u == 1 && v[2].u == 1 && v[1].raw.n == 2);
    assert_true(nt_get(s, slice_of(one, sizeof one), 2, &third));
    assert_int_equal(third.u, 1);
    nt_iter it;
    nt_iter_payload(&it, s, slice_of(one, sizeof one));
    assert_true(nt_iter_next(&it, &third) && nt_iter_next(&it, &third) && nt_iter_next(&it, &third) && third.u == 1);
    arena_free(&a);
}

static void counted_arrays_and_alignment(void **state)
{
    (void)state;
    nt_spec row[] = {{.name = SLICE_LIT("a"), .wire = NT_W_U16},
                     {.name = SLICE_LIT("b"), .wire = NT_W_U64},
                     {.name = SLICE_LIT("c"), .wire = NT_W_U16}};
    nt_spec elem = {.wire = NT_W_STRUCT, .sub = row, .n_sub = 3, .natural = true}, byte = {.wire = NT_W_U8};
    nt_spec specs[] = {{.name = SLICE_LIT("n"), .wire = NT_W_U16},
                       {.name = SLICE_LIT("rows"),
                        .wire = NT_W_ARRAY,
                        .sub = &elem,
                        .n_sub = 1,
                        .count_kind = NT_COUNT_FIELD,
                        .count = 0},
                       {.name = SLICE_LIT("m"), .wire = NT_W_U8},
                       {.name = SLICE_LIT("blob"), .wire = NT_W_BYTES, .count_kind = NT_COUNT_FIELD, .count = 2},
                       {.name = SLICE_LIT("more"),
                        .wire = NT_W_ARRAY,
                        .sub = &byte,
                        .n_sub = 1,
                        .count_kind = NT_COUNT_FIXED,
                        .count = 2}};
    arena a = {0};
    const nt_schema *s = nt_schema_build(&a, specs, 5);
    assert_non_null(s);
    uint8_t p[2 + 48 + 1 + 3 + 2] = {2};
    p[2] = 1, p[10] = 2, p[18] = 3, p[26] = 4, p[34] = 5, p[42] = 6;
    p[50] = 3;
    memcpy(p + 51, "xyz\7\10", 5);
    nt_value v[5], e, c;
    bool whole;
    assert_int_equal(nt_decode_whole(s, slice_of(p, sizeof p), v, &whole), 5);
    assert_true(whole);
    assert_int_equal(v[1].count, 2);
    assert_slice_str(v[3].raw, "xyz");
    assert_int_equal(v[4].count, 2);
    nt_iter it, in, deep;
    nt_iter_payload(&it, s, slice_of(p, sizeof p));
    nt_iter_into(&in, &it, &v[1]);
    for (int i = 0; i < 2; i++) {
        assert_true(nt_iter_next(&in, &e));
        nt_iter_into(&deep, &in, &e);
        for (int k = 1; k <= 3; k++) {
            assert_true(nt_iter_next(&deep, &c));
            assert_int_equal(c.u, 3 * i + k);
        }
    }
    assert_true(nt_get(s, slice_of(p, sizeof p), 3, &c));
    assert_slice_str(c.raw, "xyz");
    p[0] = 200; /* a count that the payload cannot hold */
    assert_int_equal(nt_decode(s, slice_of(p, sizeof p), v), 1);
    assert_null(nt_schema_build(&a, (nt_spec[]){{.wire = NT_W_BYTES, .count_kind = NT_COUNT_FIELD, .count = 0}},
                                1)); /* counts itself */
    arena_free(&a);
}

static void elements_without_bytes_make_no_work(void **state)
{
    (void)state;
    nt_spec empty = {.wire = NT_W_STRUCT},
            inner = {.wire = NT_W_ARRAY, .sub = &empty, .n_sub = 1, .count_kind = NT_COUNT_FIXED, .count = 65535},
            outer = {.wire = NT_W_ARRAY, .sub = &inner, .n_sub = 1, .count_kind = NT_COUNT_FIXED, .count = 65535};
    arena a = {0};
    const nt_schema *s = nt_schema_build(&a, &outer, 1);
    nt_value v, e;
    nt_iter it, in;
    assert_int_equal(nt_decode(s, slice_of("", 0), &v), 1);
    assert_int_equal(v.count, 65535);
    nt_iter_payload(&it, s, slice_of("", 0));
    nt_iter_into(&in, &it, &v);
    assert_false(nt_iter_next(&in, &e));
    nt_spec big = {.wire = NT_W_ARRAY,
                   .sub = &(nt_spec){.wire = NT_W_U64},
                   .n_sub = 1,
                   .count_kind = NT_COUNT_FIXED,
                   .count = 65535};
    nt_spec bigger = {.wire = NT_W_ARRAY, .sub = &big, .n_sub = 1, .count_kind = NT_COUNT_FIXED, .count = 65535};
    assert_null(nt_schema_build(&a, &bigger, 1)); /* 34 GB */
    arena_free(&a);
}

static void names_follow_task_and_opcode(void **state)
{
    (void)state;
    static const struct {
        const char *name, *display;
    } names[] = {{"RequestStart", "Request/Start"},
                 {"requeststop", "request/Stop"},
                 {"Start", "/Start"},
                 {"Started", "Started"},
                 {"", "EventID(300)"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tw w;
        err e = {0};
        tw_start(&w, false, true);
        tw_begin(&w, TW_METADATA);
        tw_put_kind(&w, 1, "P", 300, names[i].name, 0, (slice){0}, (slice){0});
        tw_end(&w);
        nt_reader *r = nt_new(NULL, NULL, NULL, &e);
        assert_int_equal(nt_feed(r, w.out.p, w.out.n, &e), 0);
        assert_slice_str(nt_kind_at(r, 0)->display, names[i].display);
        nt_free(r);
        tw_fini(&w);
    }
}

static void kinds_are_told_once_and_v6_may_tell_them_again(void **state)
{
    (void)state;
    for (int v6 = 0; v6 <= 1; v6++)
        for (uint32_t flags = 0; flags <= 2; flags += 2) {
            tw w;
            err e = {0};
            tw_start(&w, v6, true);
            for (int i = 0; i < 2; i++) {
                tw_begin(&w, TW_METADATA);
                tw_put_kind(&w, 1, "P", 3, "Same", 0, (slice){0}, (slice){0});
                tw_end(&w);
                tw_begin(&w, TW_POINT);
                tw_put_point(&w, 1, flags, 0, NULL, NULL);
                tw_end(&w);
            }
            nt_reader *r = nt_new(NULL, NULL, NULL, &e);
            bool fine = v6 && flags == 2; /* the point gave all numbers up */
            assert_int_equal(nt_feed(r, w.out.p, w.out.n, &e), fine ? 0 : -ERR_MALFORMED);
            assert_int_equal(nt_kind_count(r), 1);
            nt_free(r);
            tw_fini(&w);
        }
}

static int on_labelled(void *arg, const nt_event *ev)
{
    nt_labels l;
    nt_label named;
    size_t at = 0;
    nt_reader *r = *(nt_reader **)arg;
    if (ev->seq == 1) {
        assert_false(nt_labels_of(r, ev, &l));
        return 0;
    }
    assert_true(nt_labels_of(r, ev, &l));
    if (ev->seq == 2) {
        assert_memory_equal(l.span_id, "12345678", 8);
        assert_memory_equal(l.trace_id, "0123456789abcdef", 16);
        assert_true(l.opcode == 9 && l.level == 2 && l.version == 7 && l.has_keywords && l.keywords == 0x1122);
        assert_true(nt_label_next(&l, &at, &named));
        assert_slice_str(named.key, "route");
        assert_slice_str(named.text, "/home");
        assert_true(nt_label_next(&l, &at, &named));
        assert_true(named.is_number);
        assert_int_equal(named.number, -2);
        assert_false(nt_label_next(&l, &at, &named));
        assert_null(ev->activity);
    } else {
        assert_memory_equal(ev->related, "0123456789abcdef", 16);
        assert_int_equal(l.opcode, -1);
    }
    return 0;
}

static void v6_label_lists_add_to_events(void **state)
{
    (void)state;
    tw w;
    err e = {0};
    nt_reader *r = NULL;
    tw_start(&w, true, true);
    tw_begin(&w, TW_THREADS);
    tw_put_thread(&w, 1, 1, 1, "");
    tw_end(&w);
    tw_begin(&w, TW_METADATA);
    tw_put_kind(&w, 1, "P", 3, "E", 0, (slice){0}, (slice){0});
    tw_end(&w);
    tw_begin(&w, TW_LABELS);
    buf_u32(&w.body, 5);
    buf_u32(&w.body, 2);
    buf_put(&w.body,
            "\4"
            "12345678"
            "\3"
            "0123456789abcdef"
            "\5\5route\5/home"
            "\6\1n\3"
            "\7\x9"
            "\x8\x22\x11\0\0\0\0\0\0"
            "\x9\2"
            "\x8A\7",
            9 + 17 + 13 + 4 + 2 + 9 + 2 + 2);
    buf_put(&w.body,
            "\x82"
            "0123456789abcdef",
            17);
    tw_end(&w);
    tw_begin(&w, TW_EVENTS);
    for (uint32_t i = 1; i <= 3; i++)
        tw_put_event(
            &w,
            &(tw_event){.kind = 1, .seq = i, .thread = 1, .capture = 1, .ts = 2000 + i, .labels = i == 1 ? 0 : 3 + i});
    tw_end(&w);
    tw_finish(&w);
    r = nt_new(NULL, &(nt_sink){.event = on_labelled}, &r, &e);
    assert_int_equal(nt_feed(r, w.out.p, w.out.n, &e), 0);
    assert_int_equal(nt_finish(r, &e), 0);
    assert_int_equal(nt_stats_of(r)->events, 3);
    nt_free(r);
    tw_fini(&w);
}

static void utf16_becomes_valid_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        size_t n;
        const char *out;
    } texts[] = {{"", 0, ""},
                 {"a\0b\0", 4, "ab"},
                 {"a\0b\0c\0d\0e\0", 10, "abcde"},
                 {"0\0001\0002\0003\0004\0005\0006\0007\0", 16, "01234567"},
                 {"0\0001\0002\0003\0004\0005\0006\0007\0008\0", 18, "012345678"},
                 {"0\0001\0002\0003\0004\0005\0006\0007\0008\0\xE4\0", 20, "012345678\xC3\xA4"},
                 {"\x3A\x26", 2, "\xE2\x98\xBA"},
                 {"\x3D\xD8\x00\xDE", 4, "\xF0\x9F\x98\x80"},
                 {"\x3D\xD8", 2, "\xEF\xBF\xBD"},
                 {"\x00\xDE"
                  "a\0",
                  4,
                  "\xEF\xBF\xBD"
                  "a"},
                 {"a\0b", 3, "a"}};
    char out[64];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_slice_str(slice_of(out, nt_utf8(slice_of(texts[i].in, texts[i].n), out, sizeof out)), texts[i].out);
        size_t whole = strlen(texts[i].out);
        for (size_t cap = 0; cap < whole; cap++) { /* a cut never splits a character, nor writes past its room */
            char *small = malloc(cap ? cap : 1);
            size_t n = nt_utf8(slice_of(texts[i].in, texts[i].n), small, cap);
            assert_true(n <= cap);
            assert_memory_equal(small, texts[i].out, n);
            assert_true(((uint8_t)texts[i].out[n] & 0xC0) != 0x80);
            free(small);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_type_is_decoded),
        cmocka_unit_test(a_short_payload_gives_the_fields_that_are_there),
        cmocka_unit_test(structs_are_opened_and_named_by_their_path),
        cmocka_unit_test(tags_bring_opcodes_and_arrays),
        cmocka_unit_test(v6_has_types_of_its_own),
        cmocka_unit_test(a_field_list_that_cannot_be_read_leaves_the_kind),
        cmocka_unit_test(one_byte_booleans_are_seen_by_the_length),
        cmocka_unit_test(counted_arrays_and_alignment),
        cmocka_unit_test(elements_without_bytes_make_no_work),
        cmocka_unit_test(names_follow_task_and_opcode),
        cmocka_unit_test(kinds_are_told_once_and_v6_may_tell_them_again),
        cmocka_unit_test(v6_label_lists_add_to_events),
        cmocka_unit_test(utf16_becomes_valid_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
