/* SPDX-License-Identifier: MIT */
/* test_client.c: the quick commands against servers that behave, and servers that do not. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/fake.h"

/* ---- servers ------------------------------------------------------------------------------------------------------
 */
static void serve_info(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)f;
    (void)raw;
    uint8_t p[1024];
    int form = r->command == IPC_PROCESS_INFO3 ? 3 : r->command == IPC_PROCESS_INFO2 ? 2 : 1;
    fake_ok(fd, p, fake_info(p, form));
}
/* *arg is the newest form that this runtime knows; it never closes after an Error by itself. */
static void serve_old_info(fake *f, int fd, const ipc_request *r, slice raw)
{
    int form = r->command == IPC_PROCESS_INFO3 ? 3 : r->command == IPC_PROCESS_INFO2 ? 2 : 1;
    if (form <= *(int *)f->arg) {
        serve_info(f, fd, r, raw);
        return;
    }
    fake_error(fd, IPC_E_UNKNOWN_COMMAND);
    fake_wait_closed(fd);
}
static void serve_slowly(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)f;
    (void)r;
    (void)raw;
    uint8_t p[1024], m[1100];
    fake_write_slowly(fd, m, fake_answer(m, true, p, fake_info(p, 3)));
}
static void serve_nothing(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)f;
    (void)fd;
    (void)r;
    (void)raw;
}
static void serve_silence(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)f;
    (void)r;
    (void)raw;
    fake_wait_closed(fd);
}
static void serve_garbage(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)f;
    (void)r;
    (void)raw;
    fake_write(fd, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 47);
}
static void serve_error(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)r;
    (void)raw;
    fake_error(fd, *(_Atomic uint32_t *)f->arg);
    fake_wait_closed(fd);
}
static void serve_half(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)r;
    (void)raw;
    uint8_t p[1024], m[1100];
    size_t n = fake_answer(m, true, p, fake_info(p, 3));
    fake_write(fd, m, *(_Atomic size_t *)f->arg < n ? *(_Atomic size_t *)f->arg : n);
}

/* ---- tests --------------------------------------------------------------------------------------------------------
 */
static void process_info_falls_back_by_the_answer(void **state)
{
    (void)state;
    for (int known = 3; known >= 1; known--) {
        fake f = {0};
        fake_start(&f, serve_old_info, &known, 0);
        ipc_endpoint ep = fake_endpoint(&f);
        ipc_info i;
        err e = {0};
        assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, &e), 0);
        assert_int_equal(i.command_version, known);
        assert_int_equal(f.connections, 4 - known); /* one command a connection */
        assert_int_equal(e.kind, ERR_NONE);
        ipc_info_fini(&i);
        ipc_endpoint_fini(&ep);
        fake_stop(&f);
    }
}

static void another_error_is_no_reason_to_fall_back(void **state)
{
    (void)state;
    _Atomic uint32_t hr = IPC_E_BAD_ENCODING;
    fake f = {0};
    fake_start(&f, serve_error, &hr, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    ipc_info i;
    err e = {0};
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, &e), -ERR_PROTOCOL);
    assert_int_equal(e.hresult, IPC_E_BAD_ENCODING);
    assert_int_equal(f.connections, 1);
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
}

static void an_answer_in_single_bytes_is_read(void **state)
{
    (void)state;
    fake f = {0};
    fake_start(&f, serve_slowly, NULL, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    ipc_info i;
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, NULL), 0);
    assert_string_equal(i.rid, "linux-x64");
    ipc_info_fini(&i);
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
}

static void a_connection_closed_at_any_byte_is_told(void **state)
{
    (void)state;
    _Atomic size_t bytes = 0;
    fake f = {0};
    fake_start(&f, serve_half, &bytes, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    for (bytes = 0; bytes < 60; bytes++) {
        ipc_info i;
        err e = {0};
        assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, &e), -ERR_PROCESS_EXITED);
        assert_non_null(strstr(e.message, "closed the connection"));
        assert_true(e.hint[0] != 0);
    }
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
}

static void a_silent_close_and_garbage_are_told_apart(void **state)
{
    (void)state;
    ipc_info i;
    err e = {0};
    fake f = {0};
    fake_start(&f, serve_nothing, NULL, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, &e), -ERR_PROCESS_EXITED);
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
    err_clear(&e);
    fake_start(&f, serve_garbage, NULL, 0);
    ep = fake_endpoint(&f);
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, &e), -ERR_PROTOCOL);
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
}

static void a_server_that_never_answers_costs_the_deadline_and_no_more(void **state)
{
    (void)state;
    fake f = {0};
    fake_start(&f, serve_silence, NULL, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    ipc_info i;
    err e = {0};
    int64_t t = mono_ns();
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(150), NULL, &i, &e), -ERR_TIMEOUT);
    int64_t ms = (mono_ns() - t) / 1000000;
    assert_in_range(ms, 140, 1500);
    assert_non_null(strstr(e.hint, "try again"));
    ep.stopped = true;
    err_clear(&e);
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(1), NULL, &i, &e), -ERR_TIMEOUT);
    assert_non_null(strstr(e.hint, "kill -CONT"));
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
}

static void *fire_soon(void *arg)
{
    (void)poll(NULL, 0, 50);
    ipc_cancel_fire(arg);
    return NULL;
}

static void a_cancel_ends_a_blocked_call_at_once(void **state)
{
    (void)state;
    fake f = {0};
    fake_start(&f, serve_silence, NULL, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    ipc_cancel c;
    assert_int_equal(ipc_cancel_init(&c, NULL), 0);
    assert_false(ipc_cancel_fired(&c));
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, fire_soon, &c), 0);
    ipc_info i;
    err e = {0};
    int64_t start = mono_ns();
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(20000), &c, &i, &e), -ERR_CANCELLED);
    assert_true(mono_ns() - start < 1000000000);
    pthread_join(t, NULL);
    assert_true(ipc_cancel_fired(&c));
    ipc_cancel_fini(&c);
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
}

static void a_stale_socket_is_refused_and_the_next_one_tried(void **state)
{
    (void)state;
    fake f = {0};
    fake_start(&f, serve_info, NULL, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    ep.sockets[1] = ep.sockets[0];
    ep.n_sockets = 2;
    ep.sockets[0].path = slice_dup(SLICE_LIT("/nonexistent/dotnet-diagnostic-1-2-socket"));
    ipc_info i;
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, NULL), 0);
    ipc_info_fini(&i);
    fake_stop(&f);
    err e = {0};
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, &e), -ERR_ENDPOINT_UNAVAILABLE);
    assert_int_equal(e.sys, ENOENT);
    ipc_endpoint_fini(&ep);
}

static void a_listener_that_is_another_process_is_not_trusted(void **state)
{
    (void)state;
    fake f = {0};
    fake_start(&f, serve_info, NULL, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    ep.pid = getppid(); /* as if the file were named after our parent */
    ipc_info i;
    err e = {0};
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, &e), -ERR_ENDPOINT_UNAVAILABLE);
    assert_non_null(strstr(e.message, "is served by process"));
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
}

static void a_path_too_long_for_a_socket_address_is_reached(void **state)
{
    (void)state;
    fake f = {0};
    fake_start(&f, serve_info, NULL, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    char path[1024];
    const char *name = strrchr(f.path, '/') + 1;
    int n = snprintf(path, sizeof path, "%s", f.dir);
    while (n < 300)
        n += snprintf(path + n, sizeof path - (size_t)n, "/../%s", strrchr(f.dir, '/') + 1);
    (void)snprintf(path + n, sizeof path - (size_t)n, "/%s", name);
    free(ep.sockets[0].path);
    ep.sockets[0].path = slice_dup(slice_str(path));
    ipc_info i;
    err e = {0};
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, &e), 0);
    ipc_info_fini(&i);
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
}

static void serve_environment(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)raw;
    assert_int_equal(r->command, IPC_ENVIRONMENT);
    const _Atomic size_t *n = f->arg; /* bytes that come; 26 are announced */
    fake_ok(fd, "\x1A\0\0\0\0\0", 6);
    uint8_t p[26] = "\x02\0\0\0\x04\0\0\0A\0=\0b\0\0\0\x03\0\0\0C\0=\0\0";
    fake_write_slowly(fd, p, *n);
}

static void the_environment_is_read_from_the_continuation(void **state)
{
    (void)state;
    _Atomic size_t n = 26;
    fake f = {0};
    fake_start(&f, serve_environment, &n, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    buf out;
    buf_init(&out, 4096);
    err e = {0};
    assert_int_equal(ipc_environment(&ep, deadline_in_ms(5000), NULL, &out, &e), 2);
    assert_memory_equal(out.p, "A=b\0C=", 7);
    for (n = 0; n < 26; n++) {
        err_clear(&e);
        assert_int_equal(ipc_environment(&ep, deadline_in_ms(5000), NULL, &out, &e), -ERR_PROCESS_EXITED);
    }
    buf_fini(&out);
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
}

static void serve_resume(fake *f, int fd, const ipc_request *r, slice raw)
{
    (void)r;
    (void)raw;
    uint32_t hr = *(_Atomic uint32_t *)f->arg;
    fake_ok(fd, &hr, sizeof hr);
}

static void an_ok_with_a_code_other_than_zero_is_a_failure(void **state)
{
    (void)state;
    _Atomic uint32_t hr = 0;
    fake f = {0};
    fake_start(&f, serve_resume, &hr, 0);
    ipc_endpoint ep = fake_endpoint(&f);
    err e = {0};
    assert_int_equal(ipc_resume(&ep, deadline_in_ms(5000), NULL, &e), 0);
    hr = IPC_E_NOT_SUPPORTED;
    assert_int_equal(ipc_resume(&ep, deadline_in_ms(5000), NULL, &e), -ERR_NOT_SUPPORTED);
    ipc_endpoint_fini(&ep);
    fake_stop(&f);
}

static void no_descriptor_stays_open(void **state)
{
    (void)state;
    _Atomic size_t half = 30;
    _Atomic uint32_t hr = IPC_E_FAIL;
    int fds = count_fds(), threads = count_threads();
    static const fake_serve servers[] = {serve_info,  serve_nothing, serve_garbage,
                                         serve_error, serve_half,    serve_slowly};
    void *args[] = {NULL, NULL, NULL, &hr, &half, NULL};
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        fake f = {0};
        fake_start(&f, servers[i], args[i], 0);
        ipc_endpoint ep = fake_endpoint(&f);
        ipc_info info = {0};
        (void)ipc_process_info(&ep, deadline_in_ms(5000), NULL, &info, NULL);
        ipc_info_fini(&info);
        ipc_endpoint_fini(&ep);
        fake_stop(&f);
    }
    assert_nothing_leaked(fds, threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_info_falls_back_by_the_answer),
        cmocka_unit_test(another_error_is_no_reason_to_fall_back),
        cmocka_unit_test(an_answer_in_single_bytes_is_read),
        cmocka_unit_test(a_connection_closed_at_any_byte_is_told),
        cmocka_unit_test(a_silent_close_and_garbage_are_told_apart),
        cmocka_unit_test(a_server_that_never_answers_costs_the_deadline_and_no_more),
        cmocka_unit_test(a_cancel_ends_a_blocked_call_at_once),
        cmocka_unit_test(a_stale_socket_is_refused_and_the_next_one_tried),
        cmocka_unit_test(a_listener_that_is_another_process_is_not_trusted),
        cmocka_unit_test(a_path_too_long_for_a_socket_address_is_reached),
        cmocka_unit_test(the_environment_is_read_from_the_continuation),
        cmocka_unit_test(an_ok_with_a_code_other_than_zero_is_a_failure),
        cmocka_unit_test(no_descriptor_stays_open),
    };
    fake_warm_up();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
