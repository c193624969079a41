/* SPDX-License-Identifier: MIT */
/* test_fetch.c: PDBs from a symbol server on 127.0.0.1: fetched, checked, kept; and what is never asked. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "symbols/lines.h"
#include "symbols/path.h"

#define DATA      LUNETTE_SOURCE_DIR "/tests/data/symbols/"
#define KEY       "802e6900a8f54e1f8e8af81bb46e5df0ffffffff"
#define UPPER_KEY "802E6900A8F54E1F8E8AF81BB46E5DF0FFFFFFFF"
#define FILE_PATH "/Shop.pdb/" KEY "/Shop.pdb"

/* ---- a server: one answer for all requests, which are counted ---- */

typedef struct server {
    int fd, port;
    pthread_t thread;
    pthread_mutex_t lock;
    bool stop;
    int requests;
    char first[512]; /* line of the last request */
    bool checksum;   /* it had the header */
    const char *head;
    slice body;
    const char *only; /* 404 for a line without it; NULL: none */
    char redirect[256];
} server;

static void send_all(int fd, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t k = send(fd, (const char *)p + at, n - at, MSG_NOSIGNAL);
        if (k <= 0) return;
        at += (size_t)k;
    }
}

static void answer(server *s, int fd)
{
    char request[4096];
    size_t n = 0;
    while (n + 1 < sizeof request) {
        ssize_t k = recv(fd, request + n, sizeof request - 1 - n, 0);
        if (k <= 0) return;
        n += (size_t)k;
        request[n] = '\0';
        if (strstr(request, "\r\n\r\n")) break;
    }
    pthread_mutex_lock(&s->lock);
    s->requests++;
    s->checksum = strstr(request, "\r\nSymbolChecksum: SHA256:") != NULL;
    snprintf(s->first, sizeof s->first, "%.*s", (int)strcspn(request, "\r\n"), request);
    bool none = s->only && !strstr(s->first, s->only);
    char head[512];
    if (none)
        snprintf(head, sizeof head, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    else if (*s->redirect && strncmp(s->first, "GET /moved", 10) != 0)
        snprintf(head, sizeof head,
                 "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", s->redirect);
    else
        snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", s->head,
                 s->body.n);
    slice body = none || strstr(head, "302") ? (slice){0} : s->body;
    pthread_mutex_unlock(&s->lock);
    send_all(fd, head, strlen(head));
    send_all(fd, body.p, body.n);
}

static void *serve(void *arg)
{
    server *s = arg;
    for (;;) {
        struct pollfd pf = {.fd = s->fd, .events = POLLIN};
        poll(&pf, 1, 50);
        pthread_mutex_lock(&s->lock);
        bool stop = s->stop;
        pthread_mutex_unlock(&s->lock);
        if (stop) return NULL;
        int fd = pf.revents ? accept(s->fd, NULL, NULL) : -1;
        if (fd < 0) continue;
        answer(s, fd);
        close(fd);
    }
}

static void start(server *s, const char *head, slice body)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    *s = (server){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .head = head, .body = body};
    assert_true(s->fd >= 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s->fd, 8), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &n), 0);
    s->port = ntohs(at.sin_port);
    pthread_mutex_init(&s->lock, NULL);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static int stop(server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    close(s->fd);
    return s->requests;
}

/* ---- a module without a PDB beside it, and a cache ---- */

static char folder[32];
static uint8_t pdb_bytes[8192];
static slice pdb;

static int set_up(void **state)
{
    (void)state;
    char command[256];
    snprintf(folder, sizeof folder, "/tmp/lunette-fetch-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(command, sizeof command, "cp " DATA "Shop.dll '%s/Shop.dll'", folder);
    FILE *f = fopen(DATA "Shop.pdb", "rb");
    pdb = slice_of(pdb_bytes, f ? fread(pdb_bytes, 1, sizeof pdb_bytes, f) : 0);
    if (f) fclose(f);
    unsetenv("http_proxy");
    return system(command);
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static int make_path(const server *s, const char *host, const char *allowed, sym_path **out)
{
    char text[256], cache[64];
    err e = {0};
    snprintf(text, sizeof text, "srv*/nowhere*http://%s:%d/", host, s->port);
    snprintf(cache, sizeof cache, "%s/new/cache", folder);
    return sym_path_new(slice_str(text), &(sym_gate){.hosts = &allowed, .n_hosts = 1, .cache = cache}, out, &e);
}

/* Opens the module along the path; why is filled when there are no lines. */
static sym_format look(sym_path *p, char why[512])
{
    char module[64];
    sym_store *s = sym_store_new(0);
    sym_module *m = NULL;
    err e = {0};
    snprintf(module, sizeof module, "%s/Shop.dll", folder);
    sym_wanted w = {.path = module, .search = p};
    assert_int_equal(sym_module_open(s, &w, &m, &e), 0);
    sym_format format = sym_module_info_of(m)->format;
    snprintf(why, 512, "%s", sym_module_why(m));
    sym_line at;
    assert_int_equal(sym_module_line(m, 0x06000005, 0, &at), format != SYM_FORMAT_NONE);
    sym_module_release(m);
    sym_store_free(s);
    return format;
}

static mode_t mode_of(const char *name)
{
    char path[256];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &st) == 0 ? st.st_mode & 0777 : 0;
}

/* Files below the cache. */
static int kept(void)
{
    char command[128], text[16] = "";
    snprintf(command, sizeof command, "find '%s/new' -type f 2>/dev/null | wc -l", folder);
    FILE *f = popen(command, "r");
    assert_non_null(fgets(text, sizeof text, f));
    pclose(f);
    return atoi(text);
}

static void a_pdb_is_fetched_once_and_kept_for_its_owner_only(void **state)
{
    (void)state;
    server s;
    sym_path *p = NULL;
    char why[512];
    start(&s, "200 OK", pdb);
    assert_int_equal(make_path(&s, "127.0.0.1", "127.0.0.1", &p), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(look(p, why), SYM_FORMAT_PORTABLE);
    assert_string_equal(s.first, "GET " FILE_PATH " HTTP/1.1");
    assert_true(s.checksum);
    assert_int_equal(mode_of("new"), 0700);
    assert_int_equal(mode_of("new/cache"), 0700);
    assert_int_equal(mode_of("new/cache/Shop.pdb/" KEY), 0700);
    assert_int_equal(mode_of("new/cache" FILE_PATH), 0600);
    assert_int_equal(kept(), 1);
    sym_path_unref(p);
    assert_int_equal(stop(&s), 1);
}

static void a_server_that_is_not_allowed_is_not_asked(void **state)
{
    (void)state;
    server s;
    sym_path *p = NULL;
    start(&s, "200 OK", pdb);
    assert_int_equal(make_path(&s, "127.0.0.1", "symbols.example", &p), -ERR_PERMISSION_DENIED);
    assert_null(p);
    assert_int_equal(stop(&s), 0);
}

static void without_a_cache_nothing_is_fetched(void **state)
{
    (void)state;
    server s;
    sym_path *p = NULL;
    char text[64], why[512];
    err e = {0};
    start(&s, "200 OK", pdb);
    snprintf(text, sizeof text, "http://127.0.0.1:%d", s.port);
    assert_int_equal(sym_path_new(slice_str(text), &(sym_gate){.any_host = true}, &p, &e), 0);
    assert_int_equal(look(p, why), SYM_FORMAT_NONE);
    sym_path_unref(p);
    assert_int_equal(stop(&s), 0);
}

static void check_refused(slice body, const char *says)
{
    server s;
    sym_path *p = NULL;
    char why[512];
    start(&s, "200 OK", body);
    assert_int_equal(make_path(&s, "127.0.0.1", "127.0.0.1", &p), 0);
    assert_int_equal(look(p, why), SYM_FORMAT_NONE);
    assert_non_null(strstr(why, says));
    assert_int_equal(kept(), 0);
    sym_path_unref(p);
    assert_int_equal(stop(&s), 1);
}

static void what_is_not_the_modules_pdb_is_refused(void **state)
{
    (void)state;
    static const uint8_t id[4] = {0x00, 0x69, 0x2e, 0x80};
    uint8_t *at = memmem(pdb_bytes, pdb.n, id, sizeof id);
    assert_non_null(at);
    *at ^= 1;
    check_refused(pdb, "its id is not the one");
    *at ^= 1;
    pdb_bytes[pdb.n - 1] ^= 1; /* what its checksum finds */
    check_refused(pdb, "its checksum is not the one");
    pdb_bytes[pdb.n - 1] ^= 1;
    check_refused(slice_of(pdb.p, pdb.n / 2), "checksum");
    check_refused(SLICE_LIT("<html>sign in first</html>"), "checksum");
    check_refused(slice_of("", 0), "checksum");
}

static void a_key_in_capitals_is_tried_too(void **state)
{
    (void)state;
    server s;
    sym_path *p = NULL;
    char why[512];
    start(&s, "200 OK", pdb);
    s.only = UPPER_KEY;
    assert_int_equal(make_path(&s, "127.0.0.1", "127.0.0.1", &p), 0);
    assert_int_equal(look(p, why), SYM_FORMAT_PORTABLE);
    sym_path_unref(p);
    assert_int_equal(stop(&s), 2);
}

static void one_that_is_there_only_compressed_is_named(void **state)
{
    (void)state;
    server s;
    sym_path *p = NULL;
    char why[512], command[256];
    err e = {0};
    start(&s, "200 OK", SLICE_LIT("MSCF"));
    s.only = "/Shop.pdb/" UPPER_KEY "/Shop.pd_ ";
    assert_int_equal(make_path(&s, "127.0.0.1", "127.0.0.1", &p), 0);
    assert_int_equal(look(p, why), SYM_FORMAT_NONE);
    assert_non_null(strstr(why, "Shop.pdb is there only compressed, as Shop.pd_ in http://127.0.0.1:"));
    assert_int_equal(kept(), 0);
    sym_path_unref(p);
    assert_int_equal(stop(&s), 3);
    /* A store that is a folder. */
    snprintf(command, sizeof command,
             "mkdir -p '%s/store/Shop.pdb/" UPPER_KEY "' && touch '%s/store/Shop.pdb/" UPPER_KEY "/Shop.pd_'", folder,
             folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/store", folder);
    assert_int_equal(sym_path_new(slice_str(command), &(sym_gate){0}, &p, &e), 0);
    assert_int_equal(look(p, why), SYM_FORMAT_NONE);
    assert_non_null(strstr(why, "as Shop.pd_ in "));
    sym_path_unref(p);
}

static void answers_that_are_none_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *head, *says;
        int requests;
    } cases[] = {
        {"404 Not Found", "Shop.pdb was not found", 3}, {"500 Oops", "status 500", 1}, {"401 Who", "status 401", 1}};
    for (size_t i = 0; i < 3; i++) {
        server s;
        sym_path *p = NULL;
        char why[512];
        start(&s, cases[i].head, SLICE_LIT("sorry"));
        assert_int_equal(make_path(&s, "127.0.0.1", "127.0.0.1", &p), 0);
        assert_int_equal(look(p, why), SYM_FORMAT_NONE);
        assert_non_null(strstr(why, cases[i].says));
        sym_path_unref(p);
        assert_int_equal(stop(&s), cases[i].requests);
        assert_int_equal(kept(), 0);
    }
}

static void a_redirect_is_followed_to_allowed_hosts_only(void **state)
{
    (void)state;
    server s, other;
    sym_path *p = NULL;
    char why[512];
    start(&s, "200 OK", pdb);
    start(&other, "200 OK", pdb);
    snprintf(s.redirect, sizeof s.redirect, "http://localhost:%d/moved", other.port);
    assert_int_equal(make_path(&s, "127.0.0.1", "127.0.0.1", &p), 0);
    assert_int_equal(look(p, why), SYM_FORMAT_NONE);
    assert_non_null(strstr(why, "is not allowed: it was not asked"));
    assert_int_equal(stop(&other), 0);
    snprintf(s.redirect, sizeof s.redirect, "file:///etc/hostname");
    assert_int_equal(look(p, why), SYM_FORMAT_NONE);
    assert_non_null(strstr(why, "is not allowed"));
    snprintf(s.redirect, sizeof s.redirect, "/moved/Shop.pdb");
    assert_int_equal(look(p, why), SYM_FORMAT_PORTABLE);
    sym_path_unref(p);
    assert_int_equal(stop(&s), 4);
}

static void redirects_have_an_end(void **state)
{
    (void)state;
    server s;
    sym_path *p = NULL;
    char why[512];
    start(&s, "200 OK", pdb);
    snprintf(s.redirect, sizeof s.redirect, "/round");
    assert_int_equal(make_path(&s, "127.0.0.1", "127.0.0.1", &p), 0);
    assert_int_equal(look(p, why), SYM_FORMAT_NONE);
    assert_non_null(strstr(why, "on and on"));
    sym_path_unref(p);
    assert_int_equal(stop(&s), 6);
}

static void a_server_that_is_away_is_left_alone_for_a_while(void **state)
{
    (void)state;
    server s;
    sym_path *p = NULL;
    char why[512];
    start(&s, "200 OK", pdb);
    stop(&s); /* nobody listens at the port now */
    assert_int_equal(make_path(&s, "127.0.0.1", "127.0.0.1", &p), 0);
    assert_int_equal(look(p, why), SYM_FORMAT_NONE);
    assert_non_null(strstr(why, "did not answer ("));
    assert_int_equal(look(p, why), SYM_FORMAT_NONE);
    assert_non_null(strstr(why, "within the last minute"));
    sym_path_unref(p);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_pdb_is_fetched_once_and_kept_for_its_owner_only),
        CASE(a_server_that_is_not_allowed_is_not_asked),
        CASE(without_a_cache_nothing_is_fetched),
        CASE(what_is_not_the_modules_pdb_is_refused),
        CASE(a_key_in_capitals_is_tried_too),
        CASE(one_that_is_there_only_compressed_is_named),
        CASE(answers_that_are_none_are_told),
        CASE(a_redirect_is_followed_to_allowed_hosts_only),
        CASE(redirects_have_an_end),
        CASE(a_server_that_is_away_is_left_alone_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
