/* SPDX-License-Identifier: MIT */
/* The HTTP server, talked to over real sockets by the same thread: write a request, turn the loop, read what came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "transport/http.h"

#define PATIENCE_MS 5000

typedef struct fixture {
    loop *l;
    http_server *s;
    http_req *req; /* the last one, kept by the mode below */
    int requests, ends, closes;
    enum { ANSWER, STREAM, KEEP, DROP, LATER, END, REUSE } mode;
    char seen_method[16], seen_path[64], seen_query[64], seen_header[64];
    size_t seen_body;
} fixture;

static const http_kv json_type = {SLICE_LIT("Content-Type"), SLICE_LIT("application/json")};

static void on_end(void *arg, bool gone)
{
    fixture *f = arg;
    f->ends++;
    f->closes += gone;
}

static void copy_slice(char *out, size_t max, slice s)
{
    size_t n = s.n < max - 1 ? s.n : max - 1;
    if (n) memcpy(out, s.p, n);
    out[n] = 0;
}

static void answer_later(void *arg)
{
    http_req *r = arg;
    err e = {0};
    http_req_respond(r, 200, &json_type, 1, SLICE_LIT("{\"ok\":1}"), &e);
    http_req_unref(r);
}

static void on_request(void *arg, http_req *r)
{
    fixture *f = arg;
    err e = {0};
    http_kv h[HTTP_HEADERS_MAX];
    f->requests++;
    snprintf(f->seen_method, sizeof f->seen_method, "%s", http_req_method(r));
    copy_slice(f->seen_path, sizeof f->seen_path, http_req_path(r));
    copy_slice(f->seen_query, sizeof f->seen_query, http_req_query(r));
    f->seen_body = http_req_body(r).n;
    for (size_t i = 0, n = http_req_headers(r, h, HTTP_HEADERS_MAX); i < n; i++)
        if (slice_eq_str(h[i].name, "X-Probe")) copy_slice(f->seen_header, sizeof f->seen_header, h[i].value);
    if (f->mode == DROP) return;
    if (f->mode == END) {
        http_server_free(f->s);
        f->s = NULL;
        return;
    }
    http_req_on_end(r, on_end, f);
    if (f->mode == REUSE)
        assert_int_equal(http_req_respond_kept(r, 200, &json_type, 1, SLICE_LIT("{\"id\":"), SLICE_LIT(",\"ok\":1}"),
                                               http_req_generation(r), &e),
                         0);
    if (f->mode == LATER) assert_true(loop_post(f->l, answer_later, http_req_ref(r)));
    if (f->mode == ANSWER) assert_int_equal(http_req_respond(r, 200, &json_type, 1, SLICE_LIT("{\"ok\":1}"), &e), 0);
    if (f->mode == STREAM) assert_int_equal(http_req_stream(r, 200, &json_type, 1, &e), 0);
    if (f->mode == STREAM || f->mode == KEEP) f->req = http_req_ref(r);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    err e = {0};
    assert_int_equal(loop_new(&f->l, &e), 0);
    http_cfg cfg = {.on_request = on_request, .arg = f, .body_max = 1000, .first_seconds = 1};
    assert_int_equal(http_server_new(f->l, &cfg, &f->s, &e), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    http_server_free(f->s);
    http_req_unref(f->req);
    loop_free(f->l);
    free(f);
    return 0;
}

static int dial(fixture *f)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(http_server_port(f->s)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void turn(fixture *f)
{
    err e = {0};
    assert_true(loop_run_once(f->l, 5, &e) >= 0);
}

/* Turns the loop until what came on fd holds want (all of it is in got), or the peer closed (want NULL). */
static void hear(fixture *f, int fd, const char *want, buf *got)
{
    int64_t deadline = deadline_in_ms(PATIENCE_MS);
    while (mono_ns() < deadline) {
        char piece[4096];
        ssize_t n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
        if (n > 0) assert_true(buf_put(got, piece, (size_t)n));
        assert_true(buf_u8(got, 0));
        got->n--;
        if (want && strstr((char *)got->p, want)) return;
        if (n == 0 || (n < 0 && errno == ECONNRESET)) {
            if (want) fail_msg("closed before '%s' came; got: %s", want, got->p);
            return;
        }
        turn(f);
    }
    fail_msg("waited in vain for '%s'; got: %s", want ? want : "the end", got->p);
}

static void turn_until(fixture *f, const int *counter, int value)
{
    int64_t deadline = deadline_in_ms(PATIENCE_MS);
    while (*counter < value && mono_ns() < deadline)
        turn(f);
    assert_int_equal(*counter, value);
}

static void a_request_is_handed_on_whole_and_answered(void **state)
{
    fixture *f = *state;
    buf got = {0};
    int fd = dial(f);
    say(fd, "POST /mcp?a=1%20b HTTP/1.1\r\nHost: x\r\nX-Probe: seen\r\nContent-Length: 5\r\n\r\nhe");
    turn(f);
    assert_int_equal(f->requests, 0);
    say(fd, "llo");
    hear(f, fd, "{\"ok\":1}", &got);
    assert_string_equal(f->seen_method, "POST");
    assert_string_equal(f->seen_path, "/mcp");
    assert_string_equal(f->seen_query, "a=1%20b");
    assert_string_equal(f->seen_header, "seen");
    assert_int_equal(f->seen_body, 5);
    assert_non_null(strstr((char *)got.p, "Content-Type: application/json"));
    assert_int_equal(f->closes, 0);
    buf_fini(&got);
    close(fd);
}

static void a_connection_serves_many_requests(void **state)
{
    fixture *f = *state;
    int fd = dial(f);
    for (int i = 1; i <= 20; i++) {
        buf got = {0};
        say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        hear(f, fd, "{\"ok\":1}", &got);
        assert_int_equal(f->requests, i);
        buf_fini(&got);
    }
    close(fd);
}

/* Answers come from the loop, after the callback; all connections are kept alive and stay busy. */
static void many_connections_are_answered_later(void **state)
{
    enum { CONNECTIONS = 8, ROUNDS = 50 };
    fixture *f = *state;
    int fds[CONNECTIONS];
    f->mode = LATER;
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = dial(f);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CONNECTIONS; i++)
            say(fds[i], "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
        for (int i = 0; i < CONNECTIONS; i++) {
            buf got = {0};
            hear(f, fds[i], "{\"ok\":1}", &got);
            buf_fini(&got);
        }
    }
    assert_int_equal(f->requests, CONNECTIONS * ROUNDS);
    assert_int_equal(f->closes, 0);
    turn_until(f, &f->ends, CONNECTIONS * ROUNDS);
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
}

static void ask(fixture *f, int fd, const char *header, const char *body, const char *want, int requests)
{
    char text[256];
    buf got = {0};
    snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: x\r\nX-A: %s\r\nContent-Length: %zu\r\n\r\n%s", header,
             strlen(body), body);
    say(fd, text);
    hear(f, fd, want, &got);
    assert_non_null(strstr((char *)got.p, "Content-Type: application/json"));
    assert_int_equal(f->requests, requests);
    buf_fini(&got);
}

static void an_answer_is_given_again_to_equal_requests_with_their_ids(void **state)
{
    fixture *f = *state;
    int fd = dial(f);
    f->mode = REUSE;
    ask(f, fd, "1", "{\"id\":1,\"m\":\"a\"}", "{\"id\":1,\"ok\":1}", 1);
    ask(f, fd, "1", "{\"id\":\"two\",\"m\":\"a\"}", "{\"id\":\"two\",\"ok\":1}", 1);
    ask(f, fd, "2", "{\"id\":3,\"m\":\"a\"}", "{\"id\":3,\"ok\":1}", 2);
    ask(f, fd, "1", "{\"id\":4,\"m\":\"b\"}", "{\"id\":4,\"ok\":1}", 3);
    ask(f, fd, "1", "{\"id\":5,\"m\":\"a\"}", "{\"id\":5,\"ok\":1}", 3);
    http_server_forget(f->s);
    ask(f, fd, "1", "{\"id\":6,\"m\":\"a\"}", "{\"id\":6,\"ok\":1}", 4);
    close(fd);
}

static void a_body_over_the_limit_is_refused(void **state)
{
    fixture *f = *state;
    char chunked[1400] = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n44c\r\n";
    size_t n = strlen(chunked);
    memset(chunked + n, 'a', 1100);
    strcpy(chunked + n + 1100, "\r\n0\r\n\r\n");
    const char *cases[] = {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", chunked};
    for (size_t i = 0; i < 2; i++) {
        buf got = {0};
        int fd = dial(f);
        say(fd, cases[i]);
        hear(f, fd, i == 0 ? "HTTP/1.1 413" : NULL, &got);
        assert_int_equal(f->requests, 0);
        buf_fini(&got);
        close(fd);
    }
}

static void a_dropped_request_is_answered_500(void **state)
{
    fixture *f = *state;
    buf got = {0};
    int fd = dial(f);
    f->mode = DROP;
    say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    hear(f, fd, "HTTP/1.1 500", &got);
    buf_fini(&got);
    close(fd);
}

static void a_second_answer_is_a_conflict(void **state)
{
    fixture *f = *state;
    err e = {0};
    int fd = dial(f);
    f->mode = KEEP;
    say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    turn_until(f, &f->requests, 1);
    assert_int_equal(http_req_respond(f->req, 204, NULL, 0, (slice){0}, &e), 0);
    assert_int_equal(http_req_respond(f->req, 200, NULL, 0, (slice){0}, &e), -ERR_CONFLICT);
    buf got = {0};
    hear(f, fd, "HTTP/1.1 204", &got);
    buf_fini(&got);
    close(fd);
}

static void a_stream_goes_out_write_by_write(void **state)
{
    fixture *f = *state;
    err e = {0};
    buf got = {0};
    int fd = dial(f);
    f->mode = STREAM;
    say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    turn_until(f, &f->requests, 1);
    for (int i = 0; i < 5; i++) {
        char text[32];
        snprintf(text, sizeof text, "data: %d\n\n", i);
        assert_int_equal(http_req_write(f->req, slice_str(text), &e), 0);
        hear(f, fd, text, &got);
    }
    http_req_end(f->req);
    hear(f, fd, "\r\n0\r\n\r\n", &got);
    assert_int_equal(f->closes, 0);
    assert_int_equal(http_req_write(f->req, SLICE_LIT("x"), &e), -ERR_CONFLICT);
    buf_fini(&got);
    close(fd);
}

static void a_client_that_goes_away_is_noticed(void **state)
{
    fixture *f = *state;
    for (int streaming = 0; streaming < 2; streaming++) {
        err e = {0};
        int fd = dial(f);
        f->mode = streaming ? STREAM : KEEP;
        say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        turn_until(f, &f->requests, streaming + 1);
        close(fd);
        turn_until(f, &f->closes, streaming + 1);
        assert_true(http_req_closed(f->req));
        assert_int_equal(streaming ? http_req_write(f->req, SLICE_LIT("x"), &e)
                                   : http_req_respond(f->req, 200, NULL, 0, (slice){0}, &e),
                         -ERR_CANCELLED);
        http_req_unref(f->req);
        f->req = NULL;
    }
}

/* Both come to the server in one step, since the loop turns only afterwards. */
static void an_end_that_comes_with_the_data_is_noticed(void **state)
{
    fixture *f = *state;
    static const char *const cases[] = {"GET / HTTP/1.1\r\nHo",
                                        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"};
    for (size_t i = 0; i < 2; i++) {
        buf got = {0};
        int fd = dial(f);
        say(fd, cases[i]);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        hear(f, fd, NULL, &got);
        assert_int_equal(f->requests, 0);
        buf_fini(&got);
        close(fd);
    }
}

/* An answer may be larger than what may be left unread, with something before it that is not read yet either. */
static void a_large_message_reaches_its_reader(void **state)
{
    fixture *f = *state;
    const size_t large = 3 * HTTP_STREAM_BACKLOG_MAX;
    uint8_t *message = calloc(1, large);
    assert_non_null(message);
    memset(message, 'x', large);
    err e = {0};
    int fd = dial(f);
    f->mode = STREAM;
    say(fd, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    turn_until(f, &f->requests, 1);
    assert_int_equal(http_req_write(f->req, slice_str("first"), &e), 0);
    assert_int_equal(http_req_write(f->req, slice_of(message, large), &e), 0);
    assert_int_equal(http_req_write(f->req, slice_str("last"), &e), -ERR_LIMIT);
    free(message);
    close(fd);
}

static void a_reader_that_does_not_read_is_cut_off(void **state)
{
    fixture *f = *state;
    static char block[1 << 20];
    err e = {0};
    int fd = dial(f), rc = 0;
    f->mode = STREAM;
    say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    turn_until(f, &f->requests, 1);
    size_t written = 0;
    for (int i = 0; i < 64 && rc == 0; i++) {
        rc = http_req_write(f->req, slice_of(block, sizeof block), &e);
        if (rc == 0) written += sizeof block;
        turn(f);
    }
    assert_int_equal(rc, -ERR_LIMIT);
    assert_true(written >= HTTP_STREAM_BACKLOG_MAX - sizeof block);
    assert_int_equal(f->closes, 1);
    close(fd);
}

static void a_connection_that_asks_nothing_is_closed(void **state)
{
    fixture *f = *state;
    buf got = {0};
    int quiet = dial(f), asked = dial(f);
    say(asked, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    hear(f, asked, "{\"ok\":1}", &got);
    hear(f, quiet, NULL, &got);
    say(asked, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); /* has the patience of one that asked before */
    buf_reset(&got);
    hear(f, asked, "{\"ok\":1}", &got);
    buf_fini(&got);
    close(quiet);
    close(asked);
}

static void the_server_ends_with_streams_open(void **state)
{
    fixture *f = *state;
    buf got = {0};
    int fds[3];
    f->mode = STREAM;
    for (int i = 0; i < 3; i++) {
        http_req_unref(f->req);
        fds[i] = dial(f);
        say(fds[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        turn_until(f, &f->requests, i + 1);
    }
    http_server_free(f->s);
    f->s = NULL;
    assert_int_equal(f->closes, 3);
    for (int i = 0; i < 3; i++) {
        hear(f, fds[i], NULL, &got);
        close(fds[i]);
    }
    buf_fini(&got);
}

static void the_server_ends_from_inside_a_request(void **state)
{
    fixture *f = *state;
    buf got = {0};
    int fd = dial(f);
    f->mode = END;
    say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    hear(f, fd, NULL, &got);
    assert_null(f->s);
    buf_fini(&got);
    close(fd);
}

static void garbage_is_refused_and_the_server_goes_on(void **state)
{
    fixture *f = *state;
    static const char *cases[] = {"\x16\x03\x01\x02\r\n\r\n", "GET\r\n\r\n",
                                  "GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                                  "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf got = {0};
        int fd = dial(f);
        say(fd, cases[i]);
        hear(f, fd, NULL, &got);
        buf_fini(&got);
        close(fd);
    }
    a_request_is_handed_on_whole_and_answered(state);
}

static void a_bad_address_or_a_taken_port_is_told(void **state)
{
    fixture *f = *state;
    http_server *s = NULL;
    err e = {0};
    http_cfg cfg = {.on_request = on_request, .address = "localhost.example"};
    assert_int_equal(http_server_new(f->l, &cfg, &s, &e), -ERR_INVALID_ARGUMENT);
    err_clear(&e);
    cfg = (http_cfg){.on_request = on_request, .port = http_server_port(f->s)};
    assert_int_equal(http_server_new(f->l, &cfg, &s, &e), -ERR_IO);
    assert_non_null(strstr(e.hint, "--http"));
    err_clear(&e);
    cfg = (http_cfg){.on_request = on_request, .cert_pem = "x"};
    assert_int_equal(http_server_new(f->l, &cfg, &s, &e), -ERR_INVALID_ARGUMENT);
    err_clear(&e);
    cfg = (http_cfg){.on_request = on_request, .cert_pem = "no certificate", .key_pem = "no key"};
    assert_int_equal(http_server_new(f->l, &cfg, &s, &e), -ERR_INVALID_ARGUMENT);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_handed_on_whole_and_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_serves_many_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(many_connections_are_answered_later, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_is_given_again_to_equal_requests_with_their_ids, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_over_the_limit_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dropped_request_is_answered_500, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_answer_is_a_conflict, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_goes_out_write_by_write, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_goes_away_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_that_comes_with_the_data_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_message_reaches_its_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reader_that_does_not_read_is_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_that_asks_nothing_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_server_ends_with_streams_open, setup, teardown),
        cmocka_unit_test_setup_teardown(the_server_ends_from_inside_a_request, setup, teardown),
        cmocka_unit_test_setup_teardown(garbage_is_refused_and_the_server_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bad_address_or_a_taken_port_is_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
