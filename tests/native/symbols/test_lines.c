/* SPDX-License-Identifier: MIT */
/* test_lines.c: files and lines of the modules in tests/data/symbols, through the store. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "symbols/lines.h"
#include "symbols/path.h"

#define DATA LUNETTE_SOURCE_DIR "/tests/data/symbols/"
#define URL  "https://git.example/shop/raw/4f1d/"
enum { ADD = 0x06000001, LATER = 0x06000003, GENERATED, SPREAD, OUTSIDE, MOVE_NEXT = 0x0600000a };

static char folder[] = "/tmp/lunette-lines-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[4][128];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static size_t read_file(const char *path, uint8_t *out, size_t max)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(out, 1, max, f);
    fclose(f);
    return n;
}

static void write_file(const char *path, const uint8_t *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

/* A copy in the folder, with one byte changed when at is not 0. */
static const char *copy(const char *from, const char *to, size_t at)
{
    uint8_t bytes[16384];
    const char *path = in_folder(to);
    size_t n = read_file(from, bytes, sizeof bytes);
    if (at) bytes[at] ^= 0xff;
    write_file(path, bytes, n);
    return path;
}

static sym_module *open_module(sym_store *s, const char *path)
{
    sym_wanted w = {.path = path};
    sym_module *m = NULL;
    err e = {0};
    assert_int_equal(sym_module_open(s, &w, &m, &e), 0);
    return m;
}

typedef struct expected {
    uint32_t token, il, line;
    const char *file;
    bool exact;
} expected;

static const expected all[] = {
    {ADD, 0, 13, "Shop.cs", true},
    {ADD, 0x0d, 14, "Shop.cs", true},
    {ADD, 0x1c, 15, "Shop.cs", false},
    {ADD, 0x60, 20, "Shop.cs", true},
    {GENERATED, 3, 41, "Shop.cs", true},
    {GENERATED, 4, 700, "Generated.txt", true},
    {GENERATED, 9, 701, "Generated.txt", true},
    {GENERATED, 0x0c, 46, "Shop.cs", true},
    {SPREAD, 4, 51, "Shop.cs", true},
    {MOVE_NEXT, 0, 34, "Shop.cs", false},
    {MOVE_NEXT, 0x20, 35, "Shop.cs", false},
    {MOVE_NEXT, 0x6f, 36, "Shop.cs", true},
    {MOVE_NEXT, 0xa1, 37, "Shop.cs", false},
    {SPREAD, SYM_IL_UNKNOWN, 50, "Shop.cs", false},
    {LATER, 0, 0, NULL, false},
    {OUTSIDE, 0, 0, NULL, false},
    {0x06000000, 0, 0, NULL, false},
    {0x0600ffff, 0, 0, NULL, false},
    {0x02000002, 0, 0, NULL, false},
};

static void check_module(sym_module *m)
{
    char text[128];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const expected *x = &all[i];
        sym_line at;
        assert_int_equal(sym_module_line(m, x->token, x->il, &at), x->line != 0);
        if (!x->line) continue;
        assert_int_equal(at.line, x->line);
        assert_int_equal(at.exact, x->exact);
        snprintf(text, sizeof text, "/src/%s", x->file);
        assert_slice_str(at.file, text);
        snprintf(text, sizeof text, URL "%s", x->file);
        assert_slice_str(at.url, text);
    }
}

static void lines_come_from_the_pdb_beside_the_module(void **state)
{
    (void)state;
    sym_store *s = sym_store_new(0);
    sym_module *m = open_module(s, DATA "Shop.dll");
    const sym_module_info *i = sym_module_info_of(m);
    assert_int_equal(i->format, SYM_FORMAT_PORTABLE);
    assert_string_equal(i->pdb_file, DATA "Shop.pdb");
    assert_true(i->has_mvid && i->has_pdb_id);
    const uint8_t mvid[16] = {0x67, 0xbd, 0x9f, 0x77, 0x5f, 0xd6, 0x8e, 0x40,
                              0xb0, 0x2e, 0x05, 0x33, 0x42, 0xe8, 0x8a, 0x35};
    assert_memory_equal(i->mvid, mvid, 16);
    assert_string_equal(sym_module_why(m), "");
    check_module(m);
    sym_line at;
    assert_true(sym_module_line(m, SPREAD, 1, &at));
    assert_int_equal(at.end_line, 53);
    assert_int_equal(at.column, 9);
    assert_int_equal(at.end_column, 17);
    assert_int_equal(at.il_offset, 1);
    sym_module_release(m);
    sym_store_free(s);
}

static void lines_come_from_the_pdb_inside_the_module(void **state)
{
    (void)state;
    sym_store *s = sym_store_new(0);
    sym_module *m = open_module(s, DATA "Embedded.dll");
    assert_int_equal(sym_module_info_of(m)->format, SYM_FORMAT_EMBEDDED);
    check_module(m);
    sym_module_release(m);
    sym_store_free(s);
}

static void a_module_without_its_pdb_says_what_to_do(void **state)
{
    (void)state;
    sym_store *s = sym_store_new(0);
    sym_line at;
    sym_module *m = open_module(s, copy(DATA "Shop.dll", "Alone.dll", 0));
    assert_int_equal(sym_module_info_of(m)->format, SYM_FORMAT_NONE);
    assert_true(sym_module_info_of(m)->has_mvid);
    assert_non_null(strstr(sym_module_why(m), "Shop.pdb was not found"));
    assert_false(sym_module_line(m, ADD, 0, &at));
    sym_module_release(m);
    copy(DATA "Shop.pdb", "Shop.pdb", 0); /* it is looked for again */
    m = open_module(s, in_folder("Alone.dll"));
    check_module(m);
    sym_module_release(m);
    unlink(in_folder("Shop.pdb"));
    sym_store_free(s);
}

/* Where the id of the #Pdb stream is. */
static size_t id_at(void)
{
    uint8_t pdb[4096];
    const uint8_t id[4] = {0x00, 0x69, 0x2e, 0x80};
    size_t n = read_file(DATA "Shop.pdb", pdb, sizeof pdb);
    const uint8_t *p = memmem(pdb, n, id, sizeof id);
    assert_non_null(p);
    return (size_t)(p - pdb);
}

static void a_pdb_of_another_build_is_refused(void **state)
{
    (void)state;
    sym_store *s = sym_store_new(0);
    const size_t changed[] = {id_at(), id_at() + 15, id_at() + 16, id_at() + 19}; /* GUID and stamp */
    copy(DATA "Shop.dll", "Shop.dll", 0);
    for (size_t i = 0; i < 4; i++) {
        copy(DATA "Shop.pdb", "Shop.pdb", changed[i]);
        sym_module *m = open_module(s, in_folder("Shop.dll"));
        assert_int_equal(sym_module_info_of(m)->format, SYM_FORMAT_NONE);
        assert_non_null(strstr(sym_module_why(m), "has another id"));
        sym_module_release(m);
    }
    unlink(in_folder("Shop.pdb"));
    sym_store_free(s);
}

static void folders_of_a_symbol_path_are_looked_into(void **state)
{
    (void)state;
    static const char *const layouts[] = {"Shop.pdb", "Shop.pdb/802e6900a8f54e1f8e8af81bb46e5df0ffffffff/Shop.pdb",
                                          "Shop.pdb/802E6900A8F54E1F8E8AF81BB46E5DF0FFFFFFFF/Shop.pdb"};
    char text[256];
    const char *module = copy(DATA "Shop.dll", "Apart.dll", 0);
    for (size_t i = 0; i < 3; i++) {
        char command[512];
        err e = {0};
        sym_path *p = NULL;
        sym_module *m = NULL;
        sym_store *s = sym_store_new(0);
        snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s/sym%zu/%s')\" && cp %sShop.pdb '%s/sym%zu/%s'",
                 folder, i, layouts[i], DATA, folder, i, layouts[i]);
        assert_int_equal(system(command), 0);
        snprintf(text, sizeof text, "/nowhere;srv*%s/sym%zu/", folder, i);
        assert_int_equal(sym_path_new(slice_str(text), &(sym_gate){0}, &p, &e), 0);
        sym_wanted w = {.path = module, .search = p};
        assert_int_equal(sym_module_open(s, &w, &m, &e), 0);
        check_module(m);
        sym_module_release(m);
        sym_path_unref(p);
        sym_store_free(s);
    }
}

static void a_pdb_is_found_by_its_id_alone(void **state)
{
    (void)state;
    sym_store *s = sym_store_new(0);
    sym_path *p = NULL;
    sym_module *m = NULL;
    err e = {0};
    sym_pdb_id id = {
        .guid = {0x00, 0x69, 0x2e, 0x80, 0xf5, 0xa8, 0x1f, 0x4e, 0x8e, 0x8a, 0xf8, 0x1b, 0xb4, 0x6e, 0x5d, 0xf0},
        .age = 1};
    assert_int_equal(sym_path_new(SLICE_LIT(DATA), &(sym_gate){0}, &p, &e), 0);
    sym_wanted w = {.path = "/app/gone/Shop.dll", .pdb = &id, .pdb_path = "C:\\build\\obj\\Shop.pdb", .search = p};
    assert_int_equal(sym_module_open(s, &w, &m, &e), 0);
    check_module(m);
    assert_false(sym_module_info_of(m)->has_mvid);
    sym_module_release(m);
    sym_path_unref(p);
    sym_store_free(s);
}

static void a_module_with_another_mvid_is_no_match(void **state)
{
    (void)state;
    sym_store *s = sym_store_new(0);
    const uint8_t other[16] = {1};
    for (int again = 0; again < 2; again++) {
        err e = {0};
        sym_module *m = NULL;
        sym_wanted w = {.path = DATA "Shop.dll", .mvid = other};
        assert_int_equal(sym_module_open(s, &w, &m, &e), -ERR_NOT_FOUND);
        assert_non_null(strstr(e.message, "MVID"));
        sym_module_release(open_module(s, DATA "Shop.dll")); /* the second time it is in the store */
    }
    sym_store_free(s);
}

static void what_cannot_be_read_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        err_kind kind;
    } cases[] = {{"/nowhere/Shop.dll", ERR_NOT_FOUND},
                 {DATA, ERR_NOT_FOUND},
                 {DATA "README.md", ERR_MALFORMED},
                 {"/dev/null", ERR_NOT_FOUND}};
    sym_store *s = sym_store_new(0);
    for (size_t i = 0; i < 4; i++) {
        sym_wanted w = {.path = cases[i].path};
        sym_module *m = NULL;
        err e = {0};
        assert_int_equal(sym_module_open(s, &w, &m, &e), -(int)cases[i].kind);
    }
    sym_store_free(s);
}

static void modules_are_shared_and_let_go_of(void **state)
{
    (void)state;
    sym_store *s = sym_store_new(0);
    sym_module *a = open_module(s, DATA "Shop.dll"), *b = open_module(s, DATA "Shop.dll");
    assert_ptr_equal(a, b);
    assert_true(sym_store_memory(s) > 1000);
    sym_module_release(a);
    sym_module_release(b);
    sym_store_free(s);
    s = sym_store_new(1); /* nothing fits: kept as long as it is in use */
    a = open_module(s, DATA "Shop.dll");
    check_module(a);
    sym_module_release(a);
    assert_int_equal(sym_store_memory(s), 0);
    sym_store_free(s);
}

static void a_module_that_changed_is_read_anew(void **state)
{
    (void)state;
    sym_store *s = sym_store_new(0);
    const char *path = copy(DATA "Embedded.dll", "Changing.dll", 0);
    sym_module *a = open_module(s, path);
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    sym_module *b = open_module(s, path);
    assert_ptr_not_equal(a, b);
    check_module(a);
    check_module(b);
    sym_module_release(a);
    sym_module_release(b);
    sym_store_free(s);
}

/* ---- many at once ---- */

static void *look_around(void *arg)
{
    for (int i = 0; i < 60; i++) {
        sym_module *m = open_module(arg, i % 2 ? DATA "Shop.dll" : DATA "Embedded.dll");
        check_module(m);
        sym_module_release(m);
    }
    return NULL;
}

static void threads_share_a_store(void **state)
{
    (void)state;
    for (size_t max = 1; max <= 1 << 20; max <<= 20) {
        pthread_t threads[4];
        sym_store *s = sym_store_new(max);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, look_around, s), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        sym_store_free(s);
    }
}

static int open_once(void *arg)
{
    sym_store *s = sym_store_new(0);
    if (!s) return -ERR_NO_MEMORY;
    sym_wanted w = {.path = arg};
    sym_module *m = NULL;
    err e = {0};
    int rc = sym_module_open(s, &w, &m, &e);
    sym_module_release(m);
    sym_store_free(s);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(each_allocation_fails(open_once, DATA "Shop.dll") > 5);
    assert_true(each_allocation_fails(open_once, DATA "Embedded.dll") > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_from_the_pdb_beside_the_module),
        cmocka_unit_test(lines_come_from_the_pdb_inside_the_module),
        cmocka_unit_test(a_module_without_its_pdb_says_what_to_do),
        cmocka_unit_test(a_pdb_of_another_build_is_refused),
        cmocka_unit_test(folders_of_a_symbol_path_are_looked_into),
        cmocka_unit_test(a_pdb_is_found_by_its_id_alone),
        cmocka_unit_test(a_module_with_another_mvid_is_no_match),
        cmocka_unit_test(what_cannot_be_read_is_told),
        cmocka_unit_test(modules_are_shared_and_let_go_of),
        cmocka_unit_test(a_module_that_changed_is_read_anew),
        cmocka_unit_test(threads_share_a_store),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
