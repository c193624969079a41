/* SPDX-License-Identifier: MIT */
/* test_port.c: reverse-connect ports, with runtimes in small that connect to them, and with clients that are none. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/port_kit.h"

/* ---- the message --------------------------------------------------------------------------------------------------
 */
static void an_advertise_message_is_read(void **state)
{
    (void)state;
    uint8_t m[IPC_ADVERTISE_SIZE];
    ipc_advertise ad;
    (void)port_advertise(m, 9, UINT64_C(0x123456789));
    for (size_t n = 0; n < sizeof m; n++) {
        err e = {0};
        assert_int_equal(ipc_advertise_parse(slice_of(m, n), &ad, &e), -ERR_TRUNCATED);
    }
    assert_int_equal(ipc_advertise_parse(slice_of(m, sizeof m), &ad, NULL), 0);
    assert_int_equal(ad.pid, UINT64_C(0x123456789));
    assert_memory_equal(ad.cookie, "\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09", 16);
    m[6] = '2';
    assert_int_equal(ipc_advertise_parse(slice_of(m, sizeof m), &ad, NULL), -ERR_PROTOCOL);
    m[6] = '1';
    m[7] = 'x';
    assert_int_equal(ipc_advertise_parse(slice_of(m, sizeof m), &ad, NULL), -ERR_PROTOCOL);
}

/* ---- the folder and the socket -------------------------------------------------------------------------------------
 */
static void a_port_is_private_and_leaves_nothing(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    ipc_port *p = port_open();
    char path[256];
    (void)snprintf(path, sizeof path, "%s", ipc_port_path(p));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    *strrchr(path, '/') = '\0';
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    ipc_port_close(p);
    assert_int_not_equal(stat(path, &st), 0);
    assert_nothing_leaked(fds, threads);
    ipc_port_close(NULL);
}

static void a_folder_that_the_variable_cannot_hold_gives_way(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "/tmp/with,comma", "/tmp/with;semicolon", "relative", "",
        "/tmp/a-name-that-is-far-too-long-for-an-address-of-a-unix-socket-of-which-there-are-108-bytes"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ipc_port *p;
        assert_int_equal(ipc_port_open(&(ipc_port_cfg){.dir = bad[i]}, &p, NULL), 0);
        assert_memory_equal(ipc_port_path(p), "/tmp/lunette-port-", 18);
        ipc_port_close(p);
    }
    ipc_port *p;
    err e = {0};
    assert_int_equal(ipc_port_open(&(ipc_port_cfg){.dir = "/proc/self"}, &p, &e), -ERR_IO);
    assert_true(e.hint[0]);
    assert_null(p);
}

static int open_and_close(void *arg)
{
    (void)arg;
    ipc_port *p;
    int rc = ipc_port_open(NULL, &p, NULL);
    ipc_port_close(p);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    long n = 0;
    for (;; n++) {
        mem_fail_at(n);
        int rc = open_and_close(NULL);
        bool fired = mem_failed();
        mem_fail_at(-1);
        assert_int_equal(rc, fired ? -ERR_NO_MEMORY : 0);
        if (!fired) break;
    }
    assert_int_equal(n, 2);
    assert_nothing_leaked(fds, threads);
}

/* ---- holding and resuming ------------------------------------------------------------------------------------------
 */
static void the_first_runtime_is_held_and_the_others_go_on(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    ipc_port *p = port_open();
    runtime a = {0}, b = {0}, c = {.deaf_resumes = 1, .slowly = true};
    runtime_start(&a, p, 1);
    ipc_port_runtime first = port_first(p);
    assert_int_equal(first.pid, getpid()); /* the kernel's word */
    assert_int_equal(first.nspid, 4711);   /* the runtime's */
    assert_int_equal(first.cookie[15], 1);
    assert_false(first.resumed || first.gone);
    assert_true(ipc_port_stats_of(p).held);
    runtime_start(&b, p, 2);
    runtime_start(&c, p, 3);
    assert_int_equal(runtime_command(&b, 1), IPC_RESUME);
    assert_int_equal(runtime_command(&c, 2), IPC_RESUME); /* asked again, as the first time was not answered */
    port_wait_stats(p, "two are resumed", stats_resumed, 2);
    err e = {0};
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(30), NULL, &e), -ERR_TIMEOUT);
    assert_int_equal(a.n, 0);
    ipc_port_release(p);
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(5000), NULL, NULL), 0);
    assert_int_equal(runtime_command(&a, 1), IPC_RESUME);
    assert_true(port_first(p).resumed);
    assert_false(ipc_port_stats_of(p).held);
    ipc_port_release(p); /* once is enough */
    ipc_port_stats s = ipc_port_stats_of(p);
    assert_int_equal(s.runtimes, 3);
    assert_int_equal(s.resumed, 3);
    ipc_port_close(p);
    runtime_end(&a);
    runtime_end(&b);
    runtime_end(&c);
    assert_int_equal(a.n, 1);
    assert_int_equal(b.n, 1);
    assert_nothing_leaked(fds, threads);
}

static void a_release_before_the_runtime_came_counts(void **state)
{
    (void)state;
    ipc_port *p = port_open();
    ipc_port_release(p);
    runtime a = {0};
    runtime_start(&a, p, 1);
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(5000), NULL, NULL), 0);
    assert_int_equal(runtime_command(&a, 1), IPC_RESUME);
    ipc_port_close(p);
    runtime_end(&a);
}

static void closing_lets_go_who_is_held(void **state)
{
    (void)state;
    ipc_port *p = port_open();
    runtime a = {0};
    runtime_start(&a, p, 1);
    (void)port_first(p);
    ipc_port_close(p);
    assert_int_equal(runtime_command(&a, 1), IPC_RESUME);
    runtime_end(&a);
}

static ipc_port *open_restoring(const char *earlier)
{
    ipc_port *p;
    assert_int_equal(ipc_port_open(&(ipc_port_cfg){.restore = true, .earlier = earlier}, &p, NULL), 0);
    return p;
}

static void the_variable_is_as_it_was_before_a_runtime_goes_on(void **state)
{
    (void)state;
    static const char *const earlier[] = {NULL, "/run/other,nosuspend"};
    for (int i = 0; i < 2; i++) {
        ipc_port *p = open_restoring(earlier[i]);
        runtime a = {0}, b = {.old = true};
        runtime_start(&a, p, 1);
        (void)port_first(p);
        runtime_start(&b, p, 2);
        assert_int_equal(runtime_command(&b, 1), IPC_SET_ENVIRONMENT);
        assert_int_equal(runtime_command(&b, 2), IPC_RESUME); /* also one that cannot */
        assert_int_equal(a.n, 0);
        ipc_port_release(p);
        assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(5000), NULL, NULL), 0);
        assert_int_equal(runtime_command(&a, 1), IPC_SET_ENVIRONMENT);
        assert_int_equal(runtime_command(&a, 2), IPC_RESUME);
        ipc_msg wanted;
        ipc_msg_init(&wanted);
        assert_int_equal(ipc_msg_set_environment(&wanted, "DOTNET_DiagnosticPorts", earlier[i], NULL), 0);
        assert_int_equal(a.n_set, wanted.b.n);
        assert_memory_equal(a.set, wanted.b.p, wanted.b.n);
        ipc_msg_fini(&wanted);
        ipc_port_close(p);
        runtime_end(&a);
        runtime_end(&b);
        assert_int_equal(a.n, 2);
        assert_int_equal(b.n, 2);
    }
}

static void a_runtime_that_is_skipped_makes_room_for_the_next(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    ipc_port *p = open_restoring(NULL);
    runtime a = {0}, b = {0}, c = {0};
    runtime_start(&a, p, 1);
    (void)port_first(p);
    ipc_port_skip(p, true);
    assert_int_equal(runtime_command(&a, 1), IPC_RESUME); /* with its variable */
    runtime_start(&b, p, 2);
    assert_int_equal(port_first(p).cookie[0], 2);
    assert_int_equal(b.n, 0);
    ipc_port_skip(p, false);
    assert_int_equal(runtime_command(&b, 1), IPC_SET_ENVIRONMENT);
    assert_int_equal(runtime_command(&b, 2), IPC_RESUME);
    ipc_port_skip(p, true); /* nobody is first */
    runtime_start(&c, p, 3);
    assert_int_equal(port_first(p).cookie[0], 3);
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(30), NULL, NULL), -ERR_TIMEOUT);
    ipc_port_release(p);
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(5000), NULL, NULL), 0);
    ipc_port_close(p);
    runtime_end(&a);
    runtime_end(&b);
    runtime_end(&c);
    assert_nothing_leaked(fds, threads);
}

static void closing_does_not_stop_at_the_variable(void **state)
{
    (void)state;
    ipc_port *p = open_restoring(NULL);
    runtime a = {0};
    runtime_start(&a, p, 1);
    (void)port_first(p);
    ipc_port_close(p);
    assert_int_equal(runtime_command(&a, 1), IPC_RESUME); /* there may be no second connection */
    runtime_end(&a);
    p = open_restoring(NULL);
    runtime b = {0};
    runtime_start(&b, p, 1);
    (void)port_first(p);
    ipc_port_release(p);
    ipc_port_close(p); /* right behind it: the variable is asked about, or nothing is */
    while (runtime_command(&b, 1) == IPC_SET_ENVIRONMENT && b.n < 2)
        (void)poll(NULL, 0, 2);
    assert_int_equal(b.commands[b.n - 1], IPC_RESUME);
    runtime_end(&b);
}

/* ---- those who are no runtime --------------------------------------------------------------------------------------
 */
static void garbage_is_turned_away(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    ipc_port *p = port_open();
    int garbage = port_connect(ipc_port_path(p));
    static const char get[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    fake_write(garbage, get, sizeof get - 1);
    fake_wait_closed(garbage);
    int closes = port_connect(ipc_port_path(p));
    fake_write(closes, "ADVR_V1", 8);
    (void)shutdown(closes, SHUT_WR);
    fake_wait_closed(closes);
    int silent = port_connect(ipc_port_path(p));
    fake_wait_closed(silent); /* after IPC_PORT_ADVERTISE_MS */
    port_wait_stats(p, "three are rejected", stats_rejected, 3);
    assert_int_equal(ipc_port_stats_of(p).runtimes, 0);
    (void)close(garbage);
    (void)close(closes);
    (void)close(silent);
    ipc_port_close(p);
    assert_nothing_leaked(fds, threads);
}

static void a_crowd_does_not_keep_a_runtime_out(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    ipc_port *p = port_open();
    int crowd[100];
    for (int i = 0; i < 100; i++) {
        crowd[i] = port_connect(ipc_port_path(p));
        fake_write(crowd[i], "ADVR", 4);
    }
    runtime a = {0};
    int64_t t = mono_ns();
    runtime_start(&a, p, 1);
    assert_int_equal(port_first(p).cookie[0], 1);
    assert_true(mono_ns() - t < (int64_t)IPC_PORT_ADVERTISE_MS * 1000000); /* it did not wait for theirs to run out */
    assert_in_range(ipc_port_stats_of(p).dropped, 100 - IPC_PORT_PENDING_MAX, 101);
    ipc_port_close(p);
    runtime_end(&a);
    for (int i = 0; i < 100; i++)
        (void)close(crowd[i]);
    assert_nothing_leaked(fds, threads);
}

static void nobody_takes_a_runtimes_place_by_its_cookie(void **state)
{
    (void)state;
    ipc_port *p = port_open();
    runtime a = {0};
    runtime_start(&a, p, 6);
    (void)port_first(p);
    pid_t thief = port_child(p, 6);
    port_wait_stats(p, "the other process is rejected", stats_rejected, 1);
    assert_int_equal(port_first(p).pid, getpid());
    ipc_endpoint ep;
    assert_int_equal(ipc_port_endpoint(p, &ep, NULL), 0);
    assert_int_equal(ipc_resume(&ep, deadline_in_ms(5000), NULL, NULL), 0); /* the right one answers */
    assert_int_equal(runtime_command(&a, 1), IPC_RESUME);
    ipc_endpoint_fini(&ep);
    port_kill_child(thief);
    ipc_port_close(p);
    runtime_end(&a);
}

static void an_idle_runtime_that_speaks_unasked_has_to_connect_again(void **state)
{
    (void)state;
    ipc_port *p = port_open();
    int fd = port_connect(ipc_port_path(p));
    uint8_t m[IPC_ADVERTISE_SIZE];
    fake_write(fd, m, port_advertise(m, 8, 1));
    (void)port_first(p);
    fake_write(fd, "more", 4);
    fake_wait_closed(fd);
    (void)close(fd);
    runtime a = {0};
    runtime_start(&a, p, 8);
    ipc_port_release(p);
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(5000), NULL, NULL), 0);
    ipc_port_close(p);
    runtime_end(&a);
}

static void more_runtimes_than_the_port_holds_are_dropped(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    ipc_port *p = port_open();
    int all[IPC_PORT_RUNTIMES_MAX + 1];
    for (int i = 0; i <= IPC_PORT_RUNTIMES_MAX; i++) {
        uint8_t m[IPC_ADVERTISE_SIZE];
        all[i] = port_connect(ipc_port_path(p));
        (void)port_advertise(m, 0, 1);
        memcpy(m + 8, &i, sizeof i); /* a cookie of its own */
        fake_write(all[i], m, sizeof m);
    }
    port_wait_stats(p, "the port is full", stats_runtimes, IPC_PORT_RUNTIMES_MAX);
    fake_wait_closed(all[IPC_PORT_RUNTIMES_MAX]);
    assert_int_equal(ipc_port_stats_of(p).dropped, 1);
    for (int i = 0; i <= IPC_PORT_RUNTIMES_MAX; i++)
        (void)close(all[i]);
    ipc_port_close(p);
    assert_nothing_leaked(fds, threads);
}

int main(void)
{
    fake_warm_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_advertise_message_is_read),
        cmocka_unit_test(a_port_is_private_and_leaves_nothing),
        cmocka_unit_test(a_folder_that_the_variable_cannot_hold_gives_way),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(the_first_runtime_is_held_and_the_others_go_on),
        cmocka_unit_test(a_release_before_the_runtime_came_counts),
        cmocka_unit_test(closing_lets_go_who_is_held),
        cmocka_unit_test(the_variable_is_as_it_was_before_a_runtime_goes_on),
        cmocka_unit_test(a_runtime_that_is_skipped_makes_room_for_the_next),
        cmocka_unit_test(closing_does_not_stop_at_the_variable),
        cmocka_unit_test(garbage_is_turned_away),
        cmocka_unit_test(a_crowd_does_not_keep_a_runtime_out),
        cmocka_unit_test(nobody_takes_a_runtimes_place_by_its_cookie),
        cmocka_unit_test(an_idle_runtime_that_speaks_unasked_has_to_connect_again),
        cmocka_unit_test(more_runtimes_than_the_port_holds_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
