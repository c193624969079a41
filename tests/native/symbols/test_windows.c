/* SPDX-License-Identifier: MIT */
/* test_windows.c: Windows PDBs that windows_kit.c writes. */
#include "check.h"
#include "symbols/pdb.h"
#include "windows_kit.h"

static const kit_line add_lines[] = {
    {0, 10, 0, 5, 6, 0}, {1, 11, 2, 9, 30, 0}, {8, 0xfeefee, 0, 0, 0, 0}, {12, 7, 0, 1, 9, 1}, {20, 15, 0, 5, 6, 0}};
static const kit_line start_hidden[] = {{0, 0xfeefee, 0, 0, 0, 0}, {4, 30, 0, 9, 10, 0}};
static const kit_line only_hidden[] = {{0, 0xfeefee, 0, 0, 0, 0}};
static const kit_method methods[] = {
    {0x06000003, 1, 0x40, 0x20, "Add", 0, false, add_lines, 5},
    {0x06000001, 1, 0x10, 0x30, "Begin", 0, true, start_hidden, 2},
    {0x06000002, 1, 0x60, 0x08, "Silent", 1, false, only_hidden, 1},
    {0x06000007, 1, 0x68, 0x04, "Bare", 1, false, NULL, 0},
};
static const char *const modules[] = {"Shop.Cart", "Shop.Desk"};
static const char *const files[] = {"C:\\src\\Cart.cs", "C:\\src\\gen\\Made by hand.txt"};

static kit_pdb usual(void)
{
    return (kit_pdb){.guid = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
                     .age = 3,
                     .dbi_age = 2,
                     .block_size = 512,
                     .columns = true,
                     .modules = modules,
                     .n_modules = 2,
                     .files = files,
                     .n_files = 2,
                     .methods = methods,
                     .n_methods = 4,
                     .source_link = "{\"documents\":{\"C:\\\\src\\\\*\":\"https://git.example/raw/1f/*\"}}"};
}

typedef struct opened {
    buf file;
    arena a;
    sym_pdb p;
    err e;
    int rc;
} opened;

static void open_kit(opened *o, const kit_pdb *k)
{
    *o = (opened){0};
    buf_init(&o->file, 0);
    kit_windows(k, &o->file);
    o->rc = sym_pdb_read(&o->p, buf_view(&o->file), &o->a, &o->e);
}

static void close_kit(opened *o)
{
    sym_pdb_fini(&o->p);
    arena_free(&o->a);
    buf_fini(&o->file);
}

static void check_line(opened *o, uint32_t token, uint32_t il, uint32_t line, const char *file, bool exact)
{
    sym_pick k = {.il_offset = il};
    buf name;
    buf_init(&name, 0);
    assert_int_equal(sym_pdb_pick(&o->p, token, &k, &o->e), 0);
    assert_int_equal(k.found, line != 0);
    if (line) {
        assert_int_equal(k.best.line, line);
        assert_int_equal(k.exact, exact);
        assert_true(sym_pdb_document(&o->p, k.best.document, &name));
        assert_slice_str(buf_view(&name), file);
    }
    buf_fini(&name);
}

static void check_lines(opened *o)
{
    assert_int_equal(o->rc, 0);
    check_line(o, 0x06000003, 0, 10, files[0], true);
    check_line(o, 0x06000003, 7, 11, files[0], true);
    check_line(o, 0x06000003, 9, 11, files[0], false); /* in the hidden part */
    check_line(o, 0x06000003, 13, 7, files[1], true);
    check_line(o, 0x06000003, 999, 15, files[0], true);
    check_line(o, 0x06000003, SYM_IL_UNKNOWN, 10, files[0], false);
    check_line(o, 0x06000001, 2, 30, files[0], false); /* hidden, and nothing before */
    check_line(o, 0x06000002, 0, 0, NULL, false);
    check_line(o, 0x06000007, 0, 0, NULL, false);
    check_line(o, 0x06000099, 0, 0, NULL, false);
}

static void lines_are_found_by_token_and_il_offset(void **state)
{
    (void)state;
    kit_pdb k = usual();
    opened o;
    open_kit(&o, &k);
    check_lines(&o);
    assert_memory_equal(o.p.guid, k.guid, 16);
    assert_int_equal(o.p.age, 3);
    assert_int_equal(o.p.dbi_age, 2);
    close_kit(&o);
}

static void blocks_may_lie_anywhere_and_be_of_any_size(void **state)
{
    (void)state;
    for (uint32_t size = 512; size <= 65536; size *= 2)
        for (int scattered = 0; scattered < 2; scattered++) {
            kit_pdb k = usual();
            opened o;
            k.block_size = size;
            k.scattered = scattered;
            open_kit(&o, &k);
            check_lines(&o);
            close_kit(&o);
        }
}

static void ends_and_columns_are_told(void **state)
{
    (void)state;
    kit_pdb k = usual();
    opened o;
    sym_point *points;
    size_t n;
    open_kit(&o, &k);
    assert_int_equal(sym_pdb_points(&o.p, 0x06000003, &o.a, &points, &n, &o.e), 0);
    assert_int_equal(n, 5);
    assert_int_equal(points[1].end_line, 13);
    assert_int_equal(points[1].column, 9);
    assert_int_equal(points[1].end_column, 30);
    assert_true(sym_point_hidden(&points[2]));
    close_kit(&o);
    k.columns = false;
    open_kit(&o, &k);
    assert_int_equal(sym_pdb_points(&o.p, 0x06000003, &o.a, &points, &n, &o.e), 0);
    assert_int_equal(n, 5);
    assert_int_equal(points[1].end_line, 13);
    assert_int_equal(points[1].column, 0);
    close_kit(&o);
}

static void names_and_addresses_of_methods_are_there(void **state)
{
    (void)state;
    kit_pdb k = usual();
    opened o;
    open_kit(&o, &k);
    assert_int_equal(o.p.win.n_methods, 4);
    const sym_windows_method *m = sym_windows_find(&o.p.win, 0x06000001);
    assert_non_null(m);
    assert_slice_str(m->name, "Begin");
    assert_int_equal(m->segment, 1);
    assert_int_equal(m->offset, 0x10);
    assert_int_equal(m->size, 0x30);
    assert_slice_str(o.p.win.modules[m->module].name, "Shop.Cart");
    close_kit(&o);
}

static void tokens_that_were_renumbered_are_mapped(void **state)
{
    (void)state;
    static const uint32_t map[] = {0, 1, 2, 5, 4, 3, 6, 7};
    kit_pdb k = usual();
    opened o;
    k.token_map = map;
    k.n_token_map = 8;
    open_kit(&o, &k);
    check_line(&o, 0x06000005, 0, 10, files[0], true);
    check_line(&o, 0x06000003, 0, 0, NULL, false);
    close_kit(&o);
}

static void source_link_gives_addresses(void **state)
{
    (void)state;
    kit_pdb k = usual();
    opened o;
    buf url;
    buf_init(&url, 0);
    open_kit(&o, &k);
    assert_true(sym_links_url(&o.p.links, slice_str(files[1]), &url));
    assert_slice_str(buf_view(&url), "https://git.example/raw/1f/gen/Made%20by%20hand.txt");
    assert_false(sym_links_url(&o.p.links, SLICE_LIT("D:\\other.cs"), &url));
    close_kit(&o);
    k.source_link = NULL;
    open_kit(&o, &k);
    assert_int_equal(o.rc, 0);
    assert_false(sym_links_url(&o.p.links, slice_str(files[1]), &url));
    close_kit(&o);
    buf_fini(&url);
}

#define SRCSRV_HEAD                                                                                                    \
    "SRCSRV: ini ------------------------------------------------\r\nVERSION=2\r\nVERCTRL=http\r\n"                    \
    "SRCSRV: variables ------------------------------------------\r\n"
#define SRCSRV_FILES "SRCSRV: source files ---------------------------------------\r\n"
#define SRCSRV_END   "SRCSRV: end ------------------------------------------------\r\n"

/* The address of a file by the text of a source server; NULL: it has none. */
static void check_server(const char *text, const char *file, const char *expected)
{
    kit_pdb k = usual();
    opened o;
    buf url;
    buf_init(&url, 0);
    k.source_link = NULL;
    k.srcsrv = text;
    open_kit(&o, &k);
    assert_int_equal(o.rc, 0);
    assert_int_equal(sym_links_url(&o.p.links, slice_str(file), &url), expected != NULL);
    if (expected) assert_slice_str(buf_view(&url), expected);
    close_kit(&o);
    buf_fini(&url);
}

static void a_source_server_gives_addresses(void **state)
{
    (void)state;
    static const char http[] = SRCSRV_HEAD
        "HTTP_ALIAS=https://git.example/raw/1f\r\n"
        "HTTP_EXTRACT_TARGET=%http_alias%/%var2%\r\nSRCSRVTRG=%HTTP_EXTRACT_TARGET%\r\n" SRCSRV_FILES
        "c:\\src\\a.cs*lib/a.cs\r\nc:\\src\\b.cs*lib/b c.cs*more\r\n*x\r\n" SRCSRV_END "c:\\src\\late.cs*late.cs\r\n";
    check_server(http, "C:\\src\\A.cs", "https://git.example/raw/1f/lib/a.cs");
    check_server(http, "c:/src/b.cs", "https://git.example/raw/1f/lib/b c.cs");
    check_server(http, "c:\\src\\a.cs2", NULL);
    check_server(http, "c:\\src\\late.cs", NULL);
    check_server(SRCSRV_HEAD
                 "MAIN=http://h/%fnfile%(%var1%)?p=%fnbksl%(%var3%)\nSRCSRVTRG=%fnvar%(%var2%)\n" SRCSRV_FILES
                 "d:\\x\\y.cs*MAIN*q/r\n",
                 "d:\\x\\y.cs", "http://h/y.cs?p=q\\r");
    /* a command, a path on a disk, variables that never end, what is cut short */
    check_server(SRCSRV_HEAD "SRCSRVTRG=%targ%\\%var2%\n" SRCSRV_FILES "a.cs*b\n", "a.cs", NULL);
    check_server(SRCSRV_HEAD "A=%B%%B%%B%\nB=%A%%A%%A%\nSRCSRVTRG=http://%A%\n" SRCSRV_FILES "a.cs*b\n", "a.cs", NULL);
    check_server(SRCSRV_HEAD "SRCSRVTRG=http://%fnvar%(%var2%\n" SRCSRV_FILES "a.cs*b\n", "a.cs", NULL);
    check_server(SRCSRV_HEAD "SRCSRVTRG=http://%var2\n" SRCSRV_FILES "a.cs*b\n", "a.cs", NULL);
    check_server(SRCSRV_HEAD "SRCSRVTRG=http://%fnother%(x)\n" SRCSRV_FILES "a.cs*b", "a.cs", NULL);
    check_server("SRCSRV: ", "a.cs", NULL);
}

/* Whatever is cut off or changed: an error or fewer lines, never a read outside (the sanitizer's business). */
static void damage_is_survived(void **state)
{
    (void)state;
    kit_pdb k = usual();
    buf whole;
    buf_init(&whole, 0);
    kit_windows(&k, &whole);
    for (size_t n = 0; n < whole.n - 512; n += n < 64 ? 1 : 61) {
        opened o = {0};
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, whole.p, n);
        assert_true(sym_pdb_read(&o.p, slice_of(copy, n), &o.a, &o.e) < 0);
        assert_true(o.e.kind == ERR_TRUNCATED || o.e.kind == ERR_MALFORMED);
        sym_pdb_fini(&o.p);
        arena_free(&o.a);
        free(copy);
    }
    for (size_t i = 0; i < whole.n; i += 3) {
        opened o = {0};
        sym_pick pick = {.il_offset = 9};
        uint8_t was = whole.p[i];
        whole.p[i] ^= (uint8_t)(0x80 | i);
        if (sym_pdb_read(&o.p, buf_view(&whole), &o.a, &o.e) == 0) (void)sym_pdb_pick(&o.p, 0x06000003, &pick, &o.e);
        sym_pdb_fini(&o.p);
        arena_free(&o.a);
        whole.p[i] = was;
    }
    buf_fini(&whole);
}

static int read_once(void *arg)
{
    opened o = {0};
    sym_pick pick = {.il_offset = 9};
    o.rc = sym_pdb_read(&o.p, buf_view(arg), &o.a, &o.e);
    if (o.rc == 0) o.rc = sym_pdb_pick(&o.p, 0x06000003, &pick, &o.e);
    sym_pdb_fini(&o.p);
    arena_free(&o.a);
    return o.rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    kit_pdb k = usual();
    buf whole;
    buf_init(&whole, 0);
    k.scattered = true;
    kit_windows(&k, &whole);
    assert_true(each_allocation_fails(read_once, &whole) > 3);
    buf_fini(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_found_by_token_and_il_offset),
        cmocka_unit_test(blocks_may_lie_anywhere_and_be_of_any_size),
        cmocka_unit_test(ends_and_columns_are_told),
        cmocka_unit_test(names_and_addresses_of_methods_are_there),
        cmocka_unit_test(tokens_that_were_renumbered_are_mapped),
        cmocka_unit_test(source_link_gives_addresses),
        cmocka_unit_test(a_source_server_gives_addresses),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
