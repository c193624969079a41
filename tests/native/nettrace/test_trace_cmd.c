/* SPDX-License-Identifier: MIT */
/* test_trace_cmd.c: `lunette trace` on files that the test writes, zipped ones too: what it prints, and its exit codes.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/json.h"
#include "nettrace/trace_cmd.h"
#include "nettrace/writer.h"

static char folder[] = "/tmp/lunette-trace-XXXXXX";

static const char *path_of(const char *name)
{
    static char paths[16][128];
    static unsigned next;
    char *p = paths[next++ % 16];
    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static void save(const char *name, slice bytes)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    if (bytes.n) assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
    fclose(f);
}

/* Runs the command; what it says on stdout and stderr comes back in *out. */
static int run(buf *out, const char *const *args)
{
    char *argv[12] = {"trace"};
    int argc = 1;
    for (; args[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)args[argc - 1];
    const char *said = path_of("said");
    fflush(NULL);
    int to = open(said, O_CREAT | O_TRUNC | O_RDWR, 0600), old_out = dup(1), old_err = dup(2);
    dup2(to, 1);
    dup2(to, 2);
    int rc = trace_main(argc, argv);
    fflush(NULL);
    dup2(old_out, 1);
    dup2(old_err, 2);
    close(old_out);
    close(old_err);
    off_t n = lseek(to, 0, SEEK_END);
    buf_reset(out);
    uint8_t *p = buf_reserve(out, (size_t)n + 1);
    assert_int_equal(pread(to, p, (size_t)n, 0), n);
    close(to);
    p[n] = 0;
    out->n = (size_t)n;
    return rc;
}
#define RUN(out, ...) run((out), (const char *const[]){__VA_ARGS__, NULL})

static bool says(const buf *b, const char *text) { return strstr((const char *)b->p, text) != NULL; }

static void put_le(buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_u8(b, i < 8 ? (uint8_t)(v >> (8 * i)) : 0);
}

/* An archive of one member, after another that is no trace. method 8: deflated; flags 1: encrypted. */
static void zip_of(buf *z, const char *name, slice data, unsigned method, unsigned flags)
{
    uLongf n = compressBound(data.n);
    uint8_t *packed = malloc(n);
    z_stream s = {
        .next_in = (Bytef *)(uintptr_t)data.p, .avail_in = (uInt)data.n, .next_out = packed, .avail_out = (uInt)n};
    deflateInit2(&s, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    n = s.total_out;
    deflateEnd(&s);
    slice content = method == 8 ? slice_of(packed, n) : data;
    buf directory;
    buf_init(&directory, 0);
    for (int i = 0; i < 2; i++) {
        const char *member = i ? name : "read.me";
        slice bytes = i ? content : slice_str("hello");
        size_t at = z->n;
        buf_put(z, "PK\3\4\x14\0", 6);
        put_le(z, i ? flags : 0, 2);
        put_le(z, i ? method : 0, 2);
        put_le(z, 0, 8);
        put_le(z, bytes.n, 4);
        put_le(z, i ? data.n : 5, 4);
        put_le(z, strlen(member), 2);
        put_le(z, 3, 2);
        buf_str(z, member);
        buf_str(z, "xtr");
        buf_slice(z, bytes);
        buf_put(&directory, "PK\1\2\x14\0\x14\0", 8);
        put_le(&directory, i ? flags : 0, 2);
        put_le(&directory, i ? method : 0, 2);
        put_le(&directory, 0, 8);
        put_le(&directory, bytes.n, 4);
        put_le(&directory, i ? data.n : 5, 4);
        put_le(&directory, strlen(member), 2);
        put_le(&directory, 0, 12);
        put_le(&directory, at, 4);
        buf_str(&directory, member);
    }
    size_t at = z->n;
    buf_slice(z, buf_view(&directory));
    buf_put(z, "PK\5\6\0\0\0\0\2\0\2\0", 12);
    put_le(z, directory.n, 4);
    put_le(z, at, 4);
    put_le(z, 3, 2);
    buf_str(z, "end");
    buf_fini(&directory);
    free(packed);
}

static void save_sample(const char *name, bool v6, size_t cut)
{
    tw w;
    tw_sample(&w, v6, true);
    save(name, slice_of(w.out.p, w.out.n - cut));
    tw_fini(&w);
}

static const char summary_of_sample[] =
    "{\"events\":[{\"provider\":\"Shop\",\"event\":\"Checked\",\"count\":6},{\"provider\":\"Shop\",\"event\":\"Order/"
    "Start\",\"count\":8}],\"lost\":0,\"incomplete\":false,"
    "\"total\":14,";

static void a_summary_counts_by_provider_and_event(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 0);
    for (int v6 = 0; v6 <= 1; v6++) {
        save_sample("a.nettrace", v6, 0);
        assert_int_equal(RUN(&out, "summary", path_of("a.nettrace"), "--json"), 0);
        assert_true(slice_starts(buf_view(&out), slice_str(summary_of_sample)));
        assert_true(
            says(&out, "\"processId\":77,\"processors\":4,\"pointerSize\":8,\"start\":\"2026-01-31T10:20:30.123Z\""));
        assert_true(says(&out, "\"firstEventMs\":0.01,\"lastEventMs\":0.013"));
    }
    assert_int_equal(RUN(&out, "summary", path_of("a.nettrace")), 0);
    assert_true(says(&out, "14 events"));
    assert_true(says(&out, "process 77, 4 processors, 64-bit"));
    assert_true(
        says(&out, "Shop      Order/Start             8\nShop      Checked                 6\n")); /* most first */
    buf_fini(&out);
}

static void a_cut_file_is_incomplete_and_no_failure(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 0);
    save_sample("cut.nettrace", false, 40);
    assert_int_equal(RUN(&out, "summary", path_of("cut.nettrace"), "--json"), 0);
    assert_true(says(&out, "\"incomplete\":true"));
    assert_true(says(&out, "\"error\":{\"kind\":\"TruncatedInput\""));
    assert_true(says(&out, "\"count\":8"));
    buf_fini(&out);
}

static void a_damaged_file_fails_after_what_came_before(void **state)
{
    (void)state;
    tw w;
    buf out;
    buf_init(&out, 0);
    tw_sample(&w, false, true);
    w.out.p[w.out.n - 1] = 9; /* where the end mark was */
    save("bad.nettrace", tw_bytes(&w));
    tw_fini(&w);
    assert_int_equal(RUN(&out, "summary", path_of("bad.nettrace"), "--json"), 1);
    assert_true(says(&out, "\"total\":14"));
    assert_true(says(&out, "tag 9"));
    assert_int_equal(RUN(&out, "events", path_of("bad.nettrace")), 1);
    assert_true(says(&out, "Order/Start"));
    buf_fini(&out);
}

static size_t lines(const buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        n += b->p[i] == '\n';
    return n;
}

static void events_are_filtered_and_limited(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 0);
    save_sample("a.nettrace", false, 0);
    char file[128];
    snprintf(file, sizeof file, "%s", path_of("a.nettrace"));
    static const struct {
        const char *option, *value;
        size_t lines;
    } filters[] = {{"--limit", "3", 3},           {"--limit", "0", 0},      {"--limit", "99", 14},
                   {"--event", "order/start", 8}, {"--event", "Order*", 8}, {"--event", "OrderStart", 8},
                   {"--event", "8", 6},           {"--event", "no", 0},     {"--provider", "sh?p", 14},
                   {"--provider", "Other", 0}};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        assert_int_equal(RUN(&out, "events", file, filters[i].option, filters[i].value, "--json"), 0);
        if (lines(&out) != filters[i].lines) print_error("%s %s\n", filters[i].option, filters[i].value);
        assert_int_equal(lines(&out), filters[i].lines);
    }
    assert_int_equal(RUN(&out, "events", "--json", "--limit", "1", file), 0);
    assert_string_equal((char *)out.p, "{\"provider\":\"Shop\",\"event\":\"Order/"
                                       "Start\",\"id\":7,\"version\":3,\"timeNs\":10000,\"thread\":11,\"frames\":1,"
                                       "\"fields\":{\"Number\":110,\"Text\":\"abc\"}}\n");
    assert_int_equal(RUN(&out, "events", file, "--limit", "1"), 0);
    assert_string_equal((char *)out.p, "      0.0100 ms        11  Shop Order/Start  Number=110 Text=\"abc\"\n");
    buf_fini(&out);
}

static void every_json_line_is_json(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 0);
    save_sample("a.nettrace", true, 0);
    assert_int_equal(RUN(&out, "events", path_of("a.nettrace"), "--json"), 0);
    const char *p = (const char *)out.p;
    for (int i = 0; i < TW_SAMPLE_EVENTS; i++) {
        const char *end = strchr(p, '\n');
        jsonr r;
        json_tok t;
        jsonr_init(&r, slice_of(p, (size_t)(end - p)));
        while ((t = jsonr_next(&r)) > JSON_END) {
        }
        assert_int_equal(t, JSON_END);
        jsonr_fini(&r);
        p = end + 1;
    }
    buf_fini(&out);
}

static void archives_are_looked_into(void **state)
{
    (void)state;
    tw w;
    buf out, z;
    buf_init(&out, 0);
    buf_init(&z, 0);
    tw_sample(&w, false, true);
    static const struct {
        const char *name;
        unsigned method, flags;
        int rc;
        const char *says;
    } zips[] = {{"x.nettrace", 0, 0, 0, summary_of_sample},
                {"folder/x.nettrace", 8, 0, 0, summary_of_sample},
                {"x.nettrace", 9, 0, 1, "compression method 9"},
                {"x.nettrace", 8, 1, 1, "encrypted"},
                {"x.etl", 8, 0, 1, "holds no .nettrace file"}};
    for (size_t i = 0; i < sizeof zips / sizeof *zips; i++) {
        buf_reset(&z);
        zip_of(&z, zips[i].name, tw_bytes(&w), zips[i].method, zips[i].flags);
        save("a.zip", buf_view(&z));
        assert_int_equal(RUN(&out, "summary", path_of("a.zip"), "--json"), zips[i].rc);
        if (!says(&out, zips[i].says)) print_error("%s", (char *)out.p);
        assert_true(says(&out, zips[i].says));
    }
    buf_reset(&z);
    zip_of(&z, "x.nettrace", tw_bytes(&w), 8, 0);
    for (size_t cut = 4; cut < z.n; cut += 7) { /* an archive cut anywhere is told, never a crash */
        save("a.zip", slice_of(z.p, z.n - cut));
        assert_int_equal(RUN(&out, "summary", path_of("a.zip"), "--json"), 1);
    }
    for (size_t at = 0; at < z.n; at += 3) { /* nor is one with a flipped byte */
        z.p[at] ^= 0x55;
        save("a.zip", buf_view(&z));
        assert_in_range(RUN(&out, "summary", path_of("a.zip"), "--json"), 0, 1);
        z.p[at] ^= 0x55;
    }
    tw_fini(&w);
    buf_fini(&out);
    buf_fini(&z);
}

static void wrong_usage_exits_2_and_says_why(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 0);
    static const char *const wrong[][6] = {{"summary"},
                                           {"summary", "a", "b"},
                                           {"what", "a"},
                                           {"summary", "a", "--limit", "3"},
                                           {"events", "a", "--limit"},
                                           {"events", "a", "--limit", "x"},
                                           {"events", "a", "--nonsense"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run(&out, wrong[i]), 2);
        assert_true(says(&out, "lunette trace: "));
        assert_true(says(&out, "--help"));
    }
    assert_int_equal(run(&out, (const char *const[]){NULL}), 2);
    assert_int_equal(RUN(&out, "events", "--help"), 0);
    assert_true(says(&out, "Usage: lunette trace summary FILE"));
    assert_int_equal(RUN(&out, "summary", path_of("not-there")), 1);
    assert_true(says(&out, "cannot open"));
    assert_int_equal(RUN(&out, "summary", folder), 1);
    assert_true(says(&out, "is a folder"));
    save("empty.nettrace", (slice){0});
    assert_int_equal(RUN(&out, "summary", path_of("empty.nettrace")), 1);
    buf_fini(&out);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"said",         "a.nettrace", "cut.nettrace",
                                        "bad.nettrace", "a.zip",      "empty.nettrace"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_summary_counts_by_provider_and_event),
        cmocka_unit_test(a_cut_file_is_incomplete_and_no_failure),
        cmocka_unit_test(a_damaged_file_fails_after_what_came_before),
        cmocka_unit_test(events_are_filtered_and_limited),
        cmocka_unit_test(every_json_line_is_json),
        cmocka_unit_test(archives_are_looked_into),
        cmocka_unit_test(wrong_usage_exits_2_and_says_why),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
