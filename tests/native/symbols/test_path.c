/* SPDX-License-Identifier: MIT */
/* test_path.c: what a symbol path names, and which servers pass. */
#include <dlfcn.h>

#include "check.h"
#include "symbols/path_internal.h"

static const char *const listed[] = {"msdl.example", "Symbols.Example:8443", "[::1]:99", "10.0.0.7"};

typedef struct passing {
    const char *text;
    const char *parts; /* servers with "@" before them, with spaces between */
} passing;

static void folders_and_allowed_servers_are_taken_in_order(void **state)
{
    (void)state;
    static const passing cases[] = {
        {"", ""},
        {" ; ;;", ""},
        {"/sym", "/sym"},
        {"/sym/;/more//", "/sym /more"},
        {"C:\\symbols;relative/folder", "C:\\symbols relative/folder"},
        {"srv*/cache*https://msdl.example/download/symbols", "/cache @https://msdl.example/download/symbols"},
        {"SRV*/cache*HTTPS://MSDL.Example/x/", "/cache @HTTPS://MSDL.Example/x"},
        {"symsrv*symsrv.dll*/a*/b*http://10.0.0.7:81/s", "/a /b @http://10.0.0.7:81/s"},
        {"cache*/tmp/sym;srv*https://symbols.example:8443", "/tmp/sym @https://symbols.example:8443"},
        {"srv*", ""},
        {"https://msdl.example", "@https://msdl.example"},
        {"srv*http://[::1]:99/s", "@http://[::1]:99/s"},
        {"srv*https://user:secret@msdl.example/s", "@https://user:secret@msdl.example/s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sym_path *p = NULL;
        err e = {0};
        buf b;
        buf_init(&b, 0);
        assert_int_equal(sym_path_new(slice_str(cases[i].text), &(sym_gate){.hosts = listed, .n_hosts = 4}, &p, &e), 0);
        for (size_t k = 0; k < p->n; k++)
            buf_printf(&b, "%s%s%s", k ? " " : "", p->parts[k].is_server ? "@" : "", p->parts[k].text);
        assert_slice_str(buf_view(&b), cases[i].parts);
        assert_int_equal(sym_path_by_hosts(p), sym_path_servers(p) > 0);
        sym_path_unref(p);
        buf_fini(&b);
    }
}

static void other_servers_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *detail;
    } cases[] = {
        {"srv*/cache*https://evil.example/x", "https://evil.example/x"},
        {"/sym;srv*https://evil.example", "https://evil.example"},
        {"srv*https://msdl.example/a*https://evil.example/b", "https://evil.example/b"},
        {"srv*https://msdl.example.evil.example/", "https://msdl.example.evil.example"},
        {"srv*https://evil.example/msdl.example", "https://evil.example/msdl.example"},
        {"srv*https://msdl.example@evil.example/", "https://msdl.example@evil.example"},
        {"srv*https://symbols.example/", "https://symbols.example"}, /* another port than the listed one */
        {"https://evil.example", "https://evil.example"},
        {"cache*/a;HTTP://EVIL.example", "HTTP://EVIL.example"},
        {"symsrv*symsrv.dll*http://127.0.0.1/", "http://127.0.0.1"},
        {"srv*http://[::1]:98/s", "http://[::1]:98/s"},
        {"srv*https://msdl.example:443.evil.example/", NULL}, /* no address at all */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sym_path *p = NULL;
        err e = {0};
        int rc = sym_path_new(slice_str(cases[i].text), &(sym_gate){.hosts = listed, .n_hosts = 4}, &p, &e);
        assert_int_equal(rc, cases[i].detail ? -ERR_PERMISSION_DENIED : -ERR_INVALID_ARGUMENT);
        if (cases[i].detail) assert_string_equal(e.detail, cases[i].detail);
        assert_null(p);
    }
}

static void whoever_may_ask_any_server_may(void **state)
{
    (void)state;
    sym_path *p = NULL;
    err e = {0};
    const slice text = SLICE_LIT("srv*https://any.example/x");
    assert_int_equal(sym_path_new(text, &(sym_gate){.any_host = true}, &p, &e), 0);
    assert_false(sym_path_by_hosts(p));
    assert_true(sym_path__allows(p, "http://other.example/", NULL));
    assert_false(sym_path__allows(p, "ftp://other.example/", NULL));
    assert_false(sym_path__allows(p, "file:///etc/passwd", NULL));
    sym_path_unref(p);
}

static void the_operators_path_allows_what_it_names_and_no_more(void **state)
{
    (void)state;
    sym_path *p = NULL;
    err e = {0};
    const slice text = SLICE_LIT("srv*/c*https://one.example/x;srv*http://two.example:8080/");
    assert_int_equal(sym_path_new(text, &(sym_gate){.trusted = true}, &p, &e), 0);
    bool secure = false;
    assert_true(sym_path__allows(p, "https://one.example/y", &secure) && secure);
    assert_true(sym_path__allows(p, "http://two.example:8080/", &secure) && !secure);
    assert_false(sym_path__allows(p, "http://one.example/", NULL)); /* another port */
    assert_false(sym_path__allows(p, "https://three.example/", NULL));
    sym_path_unref(p);
}

static void too_much_is_refused(void **state)
{
    (void)state;
    buf b;
    sym_path *p = NULL;
    err e = {0};
    buf_init(&b, 0);
    for (int i = 0; i < SYM_PATH_MAX_PARTS + 1; i++)
        buf_str(&b, "/a;");
    assert_int_equal(sym_path_new(buf_view(&b), &(sym_gate){0}, &p, &e), -ERR_INVALID_ARGUMENT);
    buf_reset(&b);
    while (b.n <= SYM_PATH_MAX_BYTES)
        buf_str(&b, "/a/long/name");
    err_clear(&e);
    assert_int_equal(sym_path_new(buf_view(&b), &(sym_gate){0}, &p, &e), -ERR_INVALID_ARGUMENT);
    err_clear(&e);
    assert_int_equal(sym_path_new(SLICE_LIT("/a\0/b"), &(sym_gate){0}, &p, &e), -ERR_INVALID_ARGUMENT);
    buf_fini(&b);
}

static int make_once(void *arg)
{
    sym_path *p = NULL;
    err e = {0};
    (void)arg;
    int rc = sym_path_new(SLICE_LIT("srv*/c*https://msdl.example/x"),
                          &(sym_gate){.hosts = listed, .n_hosts = 4, .cache = "/c"}, &p, &e);
    sym_path_unref(p);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(each_allocation_fails(make_once, NULL) > 1);
}

static bool curl_is_loaded(void) { return dlopen("libcurl.so.4", RTLD_NOW | RTLD_NOLOAD) != NULL; }

/* The first test: it and what it needs are megabytes. */
static void libcurl_is_loaded_for_the_first_server(void **state)
{
    (void)state;
    sym_path *p = NULL;
    err e = {0};
    const sym_gate gate = {.hosts = listed, .n_hosts = 4};
    assert_false(curl_is_loaded());
    assert_int_equal(sym_path_new(slice_str("/sym;/more"), &gate, &p, &e), 0);
    sym_path_unref(p);
    assert_false(curl_is_loaded());
    assert_int_equal(sym_path_new(slice_str("https://msdl.example"), &gate, &p, &e), 0);
    sym_path_unref(p);
    assert_true(curl_is_loaded());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libcurl_is_loaded_for_the_first_server),
        cmocka_unit_test(folders_and_allowed_servers_are_taken_in_order),
        cmocka_unit_test(other_servers_are_refused_by_name),
        cmocka_unit_test(whoever_may_ask_any_server_may),
        cmocka_unit_test(the_operators_path_allows_what_it_names_and_no_more),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
