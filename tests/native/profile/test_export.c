/* SPDX-License-Identifier: MIT */
/* test_export.c: the texts of each format, byte by byte where they are text, decoded where they are not. */
#include <zlib.h>

#include "base/json.h"
#include "kit.h"
#include "profile/export.h"

static const profile_cfg cpu = {.kind = PROFILE_CPU};
static const profile_cfg allocation = {.kind = PROFILE_ALLOCATION};

static profile *example(void)
{
    profile_builder *b = kit_builder(&cpu);
    kit_stack(b, "Main>A>C", 5);
    kit_stack(b, "Main>A", 2);
    kit_stack(b, "lib!Start>B;x", 3);
    kit_stack(b, "", 1);
    return kit_build(b);
}

static char *exported(const profile *p, const profile_export_cfg *cfg)
{
    buf out = {0};
    err e = {0};
    assert_int_equal(profile_export(p, cfg, &out, &e), 0);
    assert_true(buf_u8(&out, 0));
    return (char *)out.p;
}

static void folded_has_a_line_for_each_stack_that_ends_somewhere(void **state)
{
    (void)state;
    profile *p = example();
    assert_text(exported(p, &(profile_export_cfg){.format = PROFILE_FOLDED}),
                "<root> 1\napp!Main;app!A 2\napp!Main;app!A;app!C 5\nlib!Start;app!B,x 3\n");
    profile_unref(p);
}

static void folded_has_no_control_characters(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&(profile_cfg){.kind = PROFILE_CPU});
    kit_stack(b,
              "lib!A\x1b[2J\x7f\xc2\x9b"
              "1m\xc2\xa7\n",
              3);
    profile *p = kit_build(b);
    assert_text(exported(p, &(profile_export_cfg){.format = PROFILE_FOLDED}), "lib!A [2J  1m\xc2\xa7  3\n");
    profile_unref(p);
}

static void speedscope_opens_and_closes_each_frame_where_it_stands(void **state)
{
    (void)state;
    profile *p = example();
    char *got = exported(p, &(profile_export_cfg){.format = PROFILE_SPEEDSCOPE, .title = SLICE_LIT("a \"b\"")});
    assert_non_null(strstr(got, "\"name\":\"a \\\"b\\\"\""));
    assert_non_null(strstr(got, "\"unit\":\"none\",\"startValue\":0,\"endValue\":11,\"events\":["));
    /* Main and Start lie side by side, C at the beginning of A */
    buf want = {0};
    unsigned main_ = kit_frame(p, "Main"), a = kit_frame(p, "A"), c = kit_frame(p, "C"), start = kit_frame(p, "Start"),
             x = kit_frame(p, "B;x");
    assert_true(buf_printf(&want,
                           "[{\"type\":\"O\",\"frame\":%u,\"at\":0},{\"type\":\"O\",\"frame\":%u,\"at\":0},"
                           "{\"type\":\"O\",\"frame\":%u,\"at\":0},{\"type\":\"C\",\"frame\":%u,\"at\":5},",
                           main_, a, c, c));
    assert_true(buf_printf(&want,
                           "{\"type\":\"C\",\"frame\":%u,\"at\":7},{\"type\":\"C\",\"frame\":%u,\"at\":7},"
                           "{\"type\":\"O\",\"frame\":%u,\"at\":7},{\"type\":\"O\",\"frame\":%u,\"at\":7},"
                           "{\"type\":\"C\",\"frame\":%u,\"at\":10},{\"type\":\"C\",\"frame\":%u,\"at\":10}]",
                           a, main_, start, x, x, start));
    assert_true(buf_u8(&want, 0));
    assert_non_null(strstr(got, (char *)want.p));
    buf_fini(&want);
    free(got);
    profile_unref(p);
}

static void flame_leaves_the_smallest_nodes_out_and_says_how_many(void **state)
{
    (void)state;
    profile *p = example();
    profile_export_cfg cfg = {.format = PROFILE_FLAME, .title = SLICE_LIT("</script>")};
    char *got = exported(p, &cfg);
    assert_null(strchr(got, '<')); /* nothing ends the element that holds it */
    assert_non_null(strstr(got, "\"title\":\"\\u003c/script>\",\"unit\":\"samples\",\"total\":11,\"left_out\":0,"));
    assert_non_null(strstr(got, "\"f\":[0,1,2,3,4,5],\"d\":[0,1,2,3,1,2],\"v\":[11,7,7,5,3,3]}"));
    free(got);
    cfg.max_nodes = 4; /* 11, 7, 7, 5; both of 3 stay out */
    got = exported(p, &cfg);
    assert_non_null(strstr(got, "\"left_out\":2,"));
    assert_non_null(strstr(got, "\"d\":[0,1,2,3],\"v\":[11,7,7,5],\"o\":[1,0,2,5]}"));
    free(got);
    cfg.max_nodes = 2; /* one of the 7 would be as good as the other: neither */
    got = exported(p, &cfg);
    assert_non_null(strstr(got, "\"left_out\":5,"));
    assert_non_null(strstr(got, "\"d\":[0],\"v\":[11],\"o\":[1]}"));
    free(got);
    profile_unref(p);
}

static void flame_of_an_overlay_has_both_values(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&cpu);
    kit_stack(b, "Main>A", 4);
    kit_stack(b, "Main>Gone", 6);
    profile *before = kit_build(b);
    b = kit_builder(&cpu);
    kit_stack(b, "Main>A", 5);
    profile *after = kit_build(b), *both = profile_overlay(before, after, NULL);
    assert_non_null(both);
    char *got = exported(both, &(profile_export_cfg){.format = PROFILE_FLAME});
    assert_non_null(strstr(got, "\"total\":5,\"before\":10,"));
    assert_non_null(strstr(got, "\"v\":[5,5,5,0],\"b\":[10,10,4,6]}"));
    free(got);
    got = exported(both, &(profile_export_cfg){.format = PROFILE_FLAME, .max_nodes = 3});
    assert_non_null(strstr(got, "\"v\":[5,5,0],\"b\":[10,10,6],\"o\":[0,0,0],\"ob\":[0,0,6]}"));
    free(got);
    profile_unref(before);
    profile_unref(after);
    profile_unref(both);
}

static void bytes_are_counted_when_asked_for_and_refused_where_there_are_none(void **state)
{
    (void)state;
    profile_builder *b = kit_builder(&allocation);
    assert_true(kit_add(b, "Main>A", 2, 1, PROFILE_UNKNOWN, 300));
    assert_true(kit_add(b, "Main", 1, 1, PROFILE_UNKNOWN, 50));
    profile *p = kit_build(b);
    assert_text(exported(p, &(profile_export_cfg){.format = PROFILE_FOLDED, .by_weight = true}),
                "app!Main 50\napp!Main;app!A 300\n");
    assert_text(exported(p, &(profile_export_cfg){.format = PROFILE_FOLDED}), "app!Main 1\napp!Main;app!A 2\n");
    profile_unref(p);
    p = example();
    buf out = {0};
    err e = {0};
    assert_int_equal(profile_export(p, &(profile_export_cfg){.format = PROFILE_FOLDED, .by_weight = true}, &out, &e),
                     -ERR_INVALID_ARGUMENT);
    profile_unref(p);
}

/* ---- pprof ------------------------------------------------------------------------------------------------------- */

static uint64_t varint(const uint8_t **p)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t b = *(*p)++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) return v;
    }
}

static size_t inflated(const buf *gz, uint8_t *out, size_t max)
{
    z_stream z = {.next_in = gz->p, .avail_in = (uInt)gz->n, .next_out = out, .avail_out = (uInt)max};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    inflateEnd(&z);
    return max - z.avail_out;
}

/* Reads a message back: types of the samples' values, then texts, functions and samples, as "count[/weight]
 * leaf<caller<caller" lines. */
static char *decoded(const buf *gz)
{
    static uint8_t raw[1 << 16];
    static slice texts[200];
    size_t n = inflated(gz, raw, sizeof raw), n_texts = 0;
    uint64_t name_of[64] = {0};
    buf out = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (const uint8_t *p = raw; p < raw + n;) {
            uint64_t key = varint(&p);
            if ((key & 7) == 0) {
                varint(&p);
                continue;
            }
            assert_int_equal(key & 7, 2);
            size_t len = varint(&p);
            const uint8_t *end = p + len;
            if (pass == 0 && key >> 3 == 6) texts[n_texts++] = slice_of(p, len);
            uint64_t id = 0;
            buf line = {0}, values = {0};
            while (pass == 1 && key >> 3 == 1 && p < end) {
                uint64_t inner = varint(&p);
                slice s = texts[varint(&p)];
                assert_true(buf_printf(&out, "%.*s%s", (int)s.n, (const char *)s.p, inner >> 3 == 1 ? "/" : "\n"));
            }
            while (pass == 0 ? key >> 3 == 5 && p < end : key >> 3 == 2 && p < end) {
                uint64_t inner = varint(&p), v = varint(&p);
                if (pass == 0) {
                    if (inner >> 3 == 1) id = v;
                    if (inner >> 3 == 2) name_of[id] = v;
                    assert_int_not_equal(inner >> 3,
                                         3); /* a system name: pprof would cut "<WorkAsync>" from the name */
                    continue;
                }
                for (const uint8_t *stop = p + v; p < stop;) {
                    uint64_t x = varint(&p);
                    slice s = texts[name_of[x % 64]];
                    if (inner >> 3 == 1)
                        assert_true(buf_printf(&line, "%s%.*s", line.n ? "<" : " ", (int)s.n, (const char *)s.p));
                    else
                        assert_true(buf_printf(&values, "%s%llu", values.n ? "/" : "", (unsigned long long)x));
                }
            }
            if (values.n) {
                assert_true(buf_put(&out, values.p, values.n) && (line.n == 0 || buf_put(&out, line.p, line.n)) &&
                            buf_u8(&out, '\n'));
            }
            buf_fini(&line);
            buf_fini(&values);
            p = end;
        }
    }
    assert_true(buf_u8(&out, 0));
    return (char *)out.p;
}

static char *pprof_of(profile *p)
{
    buf out = {0};
    err e = {0};
    profile_export_cfg cfg = {.format = PROFILE_PPROF, .time_ns = 5, .length_ns = 7};
    assert_int_equal(profile_export(p, &cfg, &out, &e), 0);
    profile_unref(p);
    char *got = decoded(&out);
    buf_fini(&out);
    return got;
}

static char *pprof_of_one(const profile_cfg *cfg, profile_state how)
{
    profile_builder *b = kit_builder(cfg);
    assert_true(kit_add(b, "Main>A", 2, 1, how, 300));
    return pprof_of(kit_build(b));
}

static void pprof_reads_back_as_the_stacks_that_went_in(void **state)
{
    (void)state;
    assert_text(pprof_of(example()),
                "samples/count\n1\n2 app!A<app!Main\n5 app!C<app!A<app!Main\n3 app!B;x<lib!Start\n");
}

static void pprof_tells_what_the_second_value_is(void **state)
{
    (void)state;
    assert_text(pprof_of_one(&allocation, PROFILE_UNKNOWN), "samples/count\nalloc_space/bytes\n2/300 app!A<app!Main\n");
    assert_text(pprof_of_one(&cpu, PROFILE_UNKNOWN), "samples/count\nwall/nanoseconds\n2/300 app!A<app!Main\n");
    assert_text(pprof_of_one(&cpu, PROFILE_RUNNING), "samples/count\ncpu/nanoseconds\n2/300 app!A<app!Main\n");
}

/* One field of a message: its number; what it is in *v, or its bytes in *s. */
static unsigned field(const uint8_t **p, uint64_t *v, slice *s)
{
    uint64_t key = varint(p);
    *v = varint(p);
    *s = (slice){0};
    if ((key & 7) == 2) {
        *s = slice_of(*p, (size_t)*v);
        *p += *v;
    }
    return (unsigned)(key >> 3);
}

/* The functions and locations of a file, as "name file:start @line" lines; "-" where there is no file. */
static char *places_of(const buf *gz)
{
    static uint8_t raw[1 << 16];
    slice texts[200], s, inner;
    size_t n = inflated(gz, raw, sizeof raw), n_texts = 0;
    uint64_t v, function[64][6] = {0};
    buf out = {0};
    for (const uint8_t *p = raw; p < raw + n;) {
        unsigned f = field(&p, &v, &s);
        uint64_t parts[6] = {0};
        for (const uint8_t *q = s.p; f == 5 && q < s.p + s.n;) {
            unsigned which = field(&q, &v, &inner);
            assert_true(which < 6);
            parts[which] = v;
        }
        if (f == 5) memcpy(function[parts[1]], parts, sizeof parts);
        if (f == 6) texts[n_texts++] = s;
    }
    for (const uint8_t *p = raw; p < raw + n;) {
        uint64_t id = 0, line = 0;
        if (field(&p, &v, &s) != 4) continue;
        for (const uint8_t *q = s.p; q < s.p + s.n;)
            if (field(&q, &v, &inner) == 4)
                for (const uint8_t *r = inner.p; r < inner.p + inner.n;)
                    *(field(&r, &v, &s) == 1 ? &id : &line) = v;
        slice name = texts[function[id][2]], file = texts[function[id][4]];
        assert_true(buf_printf(&out, "%.*s %.*s:%llu @%llu\n", (int)name.n, (const char *)name.p,
                               file.n ? (int)file.n : 1, file.n ? (const char *)file.p : "-",
                               (unsigned long long)function[id][5], (unsigned long long)line));
    }
    assert_true(buf_u8(&out, 0));
    return (char *)out.p;
}

static void pprof_tells_files_and_lines_where_they_are_known(void **state)
{
    (void)state;
    profile *p = example();
    profile_export_source sources[64] = {{{0}}};
    for (uint32_t i = 0; i < profile_frames(p); i++) {
        slice name = profile_frame_at(p, i)->method;
        if (slice_eq_str(name, "A")) sources[i] = (profile_export_source){SLICE_LIT("/src/a\xff.cs"), 12, 9};
        if (slice_eq_str(name, "C")) sources[i] = (profile_export_source){SLICE_LIT("/src/c.cs"), 400, 0};
    }
    buf out = {0};
    profile_export_cfg cfg = {.format = PROFILE_PPROF, .sources = sources, .n_sources = profile_frames(p)};
    assert_int_equal(profile_export(p, &cfg, &out, NULL), 0);
    char *got = places_of(&out);
    for (const char **want =
             (const char *[]){"app!Main -:0 @0\n", "app!A /src/a\xef\xbf\xbd.cs:9 @12\n", "app!C /src/c.cs:0 @400\n",
                              "lib!Start -:0 @0\n", "app!B;x -:0 @0\n", NULL};
         *want; want++)
        assert_non_null(strstr(got, *want));
    free(got);
    buf_reset(&out);
    cfg.n_sources = 1; /* of the root only: nothing is read behind it */
    assert_int_equal(profile_export(p, &cfg, &out, NULL), 0);
    got = places_of(&out);
    assert_null(strstr(got, ".cs"));
    free(got);
    buf_fini(&out);
    assert_text(pprof_of(p), "samples/count\n1\n2 app!A<app!Main\n5 app!C<app!A<app!Main\n3 app!B;x<lib!Start\n");
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void an_export_that_is_too_long_fails(void **state)
{
    (void)state;
    profile *p = example();
    for (int f = 0; f < PROFILE_FORMATS; f++) {
        buf out = {.max = 20};
        err e = {0};
        assert_int_equal(profile_export(p, &(profile_export_cfg){.format = (profile_format)f}, &out, &e), -ERR_LIMIT);
        buf_fini(&out);
    }
    profile_unref(p);
}

static void a_profile_of_nothing_can_be_exported(void **state)
{
    (void)state;
    profile *p = kit_build(kit_builder(&cpu));
    assert_text(exported(p, &(profile_export_cfg){.format = PROFILE_FOLDED}), "");
    char *got = exported(p, &(profile_export_cfg){.format = PROFILE_SPEEDSCOPE});
    assert_non_null(strstr(got, "\"events\":[]"));
    free(got);
    got = exported(p, &(profile_export_cfg){.format = PROFILE_FLAME});
    assert_non_null(strstr(got, "\"v\":[0]}"));
    free(got);
    profile_unref(p);
}

static void deep_stacks_are_written_whole(void **state)
{
    (void)state;
    buf stack = {0};
    for (int i = 0; i < 1500; i++)
        assert_true(buf_printf(&stack, "%sF%d", i ? ">" : "", i % 3));
    assert_true(buf_u8(&stack, 0));
    profile_builder *b = kit_builder(&cpu);
    kit_stack(b, (const char *)stack.p, 2);
    buf_fini(&stack);
    profile *p = kit_build(b);
    char *got = exported(p, &(profile_export_cfg){.format = PROFILE_FOLDED});
    size_t parts = 0;
    for (const char *s = got; (s = strchr(s, ';')); s++)
        parts++;
    assert_int_equal(parts, 1499);
    free(got);
    got = exported(p, &(profile_export_cfg){.format = PROFILE_SPEEDSCOPE});
    size_t opens = 0, closes = 0;
    for (const char *s = strstr(got, "\"events\""); (s = strstr(s, "\"type\":\"")); s += 8)
        *(s[8] == 'O' ? &opens : &closes) += 1;
    assert_int_equal(opens, 1500);
    assert_int_equal(closes, 1500);
    free(got);
    got = exported(p, &(profile_export_cfg){.format = PROFILE_FLAME});
    assert_non_null(strstr(got, ",1499,1500]"));
    free(got);
    profile_unref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_has_a_line_for_each_stack_that_ends_somewhere),
        cmocka_unit_test(folded_has_no_control_characters),
        cmocka_unit_test(speedscope_opens_and_closes_each_frame_where_it_stands),
        cmocka_unit_test(flame_leaves_the_smallest_nodes_out_and_says_how_many),
        cmocka_unit_test(flame_of_an_overlay_has_both_values),
        cmocka_unit_test(bytes_are_counted_when_asked_for_and_refused_where_there_are_none),
        cmocka_unit_test(pprof_reads_back_as_the_stacks_that_went_in),
        cmocka_unit_test(pprof_tells_what_the_second_value_is),
        cmocka_unit_test(pprof_tells_files_and_lines_where_they_are_known),
        cmocka_unit_test(an_export_that_is_too_long_fails),
        cmocka_unit_test(a_profile_of_nothing_can_be_exported),
        cmocka_unit_test(deep_stacks_are_written_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
