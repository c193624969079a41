/* SPDX-License-Identifier: MIT */
/* test_port_session.c: commands and sessions through a port, and waiting for its runtime. */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "ipc/port_kit.h"

typedef struct sink {
    pthread_mutex_t lock;
    size_t got;
    bool in_order, ended;
    ipc_session_end end;
} sink;

static int on_bytes(void *arg, slice b)
{
    sink *k = arg;
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < b.n; i++)
        k->in_order = k->in_order && b.p[i] == (uint8_t)(k->got + i);
    k->got += b.n;
    pthread_mutex_unlock(&k->lock);
    return 0;
}

static void on_end(void *arg, const ipc_session_end *end)
{
    sink *k = arg;
    k->end = *end;
    k->ended = true;
}

static int open_session(const ipc_endpoint *ep, sink *k, ipc_session **out, err *e)
{
    *k = (sink){.in_order = true};
    pthread_mutex_init(&k->lock, NULL);
    ipc_provider provider = {.name = "P", .level = 4};
    ipc_session_cfg cfg = {.collect = {.providers = &provider, .n_providers = 1, .buffer_mb = 1, .format = 1},
                           .on_bytes = on_bytes,
                           .on_end = on_end,
                           .arg = k};
    return ipc_session_open(ep, &cfg, deadline_in_ms(5000), NULL, out, e);
}

static void wait_bytes(sink *k, size_t n)
{
    for (;;) {
        pthread_mutex_lock(&k->lock);
        bool there = k->got >= n;
        pthread_mutex_unlock(&k->lock);
        if (there) return;
        (void)poll(NULL, 0, 2);
    }
}

static void a_session_is_armed_before_the_runtime_goes_on(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    ipc_port *p = port_open();
    runtime a = {0};
    runtime_start(&a, p, 1);
    (void)port_first(p);
    ipc_endpoint ep;
    assert_int_equal(ipc_resolve(getpid(), NULL, &ep, NULL), 0); /* this process "is" the runtime */
    assert_ptr_equal(ep.port, p);
    assert_int_equal(ep.cause, IPC_OK);
    sink k;
    ipc_session *s;
    assert_int_equal(open_session(&ep, &k, &s, NULL), 0);
    ipc_endpoint_fini(&ep);
    wait_bytes(&k, BEFORE);
    assert_int_equal(runtime_command(&a, 1), IPC_COLLECT5);
    assert_int_equal(runtime_command(&a, 2), IPC_RESUME);
    ipc_port_close(p); /* the session outlives it: its stop goes over the connection that is left */
    ipc_session_stop(s, deadline_in_ms(5000));
    assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
    assert_int_equal(k.end.reason, IPC_END_STOPPED);
    assert_true(k.end.stop_sent && k.end.stop_answered);
    assert_int_equal(k.got, BEFORE + AFTER);
    assert_true(k.in_order);
    assert_int_equal(runtime_command(&a, 3), IPC_STOP_TRACING);
    ipc_session_free(s);
    assert_true(ipc_sessions_wait(deadline_in_ms(2000)));
    runtime_end(&a);
    assert_int_equal(a.n, 3);
    assert_nothing_leaked(fds, threads);
}

static void a_session_that_is_refused_releases_nobody(void **state)
{
    (void)state;
    ipc_port *p = port_open();
    runtime a = {.refuses = IPC_E_FAIL};
    runtime_start(&a, p, 1);
    (void)port_first(p);
    ipc_endpoint ep;
    assert_int_equal(ipc_port_endpoint(p, &ep, NULL), 0);
    sink k;
    ipc_session *s;
    err e = {0};
    assert_int_equal(open_session(&ep, &k, &s, &e), -ERR_BUSY);
    assert_false(k.ended);
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(30), NULL, NULL), -ERR_TIMEOUT);
    /* … and the connection after it is good for the next command. */
    assert_int_equal(ipc_resume(&ep, deadline_in_ms(5000), NULL, NULL), 0);
    assert_int_equal(runtime_command(&a, 2), IPC_RESUME);
    ipc_endpoint_fini(&ep);
    ipc_port_close(p);
    runtime_end(&a);
}

static void a_process_that_never_connected_is_not_found_at_a_port(void **state)
{
    (void)state;
    ipc_port *p = port_open();
    ipc_endpoint ep;
    assert_int_equal(ipc_port_endpoint(p, &ep, NULL), -ERR_NOT_FOUND);
    assert_int_equal(ipc_resolve(getpid(), NULL, &ep, NULL), -ERR_NOT_A_DOTNET_PROCESS);
    ipc_port_close(p);
}

static void waiting_ends_at_its_deadline_and_when_cancelled(void **state)
{
    (void)state;
    ipc_port *p = port_open();
    ipc_port_runtime r;
    err e = {0};
    assert_int_equal(ipc_port_wait(p, deadline_in_ms(20), NULL, &r, &e), -ERR_TIMEOUT);
    ipc_cancel c;
    assert_int_equal(ipc_cancel_init(&c, NULL), 0);
    ipc_cancel_fire(&c);
    assert_int_equal(ipc_port_wait(p, DEADLINE_NEVER, &c, &r, NULL), -ERR_CANCELLED);
    assert_int_equal(ipc_port_wait_resumed(p, DEADLINE_NEVER, &c, NULL), -ERR_CANCELLED);
    ipc_cancel_fini(&c);
    ipc_port_close(p);
}

static void a_runtime_that_dies_while_it_is_held_is_told(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    ipc_port *p = port_open();
    pid_t pid = port_child(p, 5);
    assert_int_equal(port_first(p).pid, pid);
    ipc_endpoint ep;
    assert_int_equal(ipc_port_endpoint(p, &ep, NULL), 0);
    port_kill_child(pid);
    err e = {0};
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(5000), NULL, &e), -ERR_PROCESS_EXITED);
    assert_true(port_first(p).gone);
    assert_int_equal(ipc_resume(&ep, deadline_in_ms(5000), NULL, NULL), -ERR_PROCESS_EXITED);
    ipc_endpoint_fini(&ep);
    ipc_port_close(p);
    assert_nothing_leaked(fds, threads);
}

int main(void)
{
    fake_warm_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_is_armed_before_the_runtime_goes_on),
        cmocka_unit_test(a_session_that_is_refused_releases_nobody),
        cmocka_unit_test(a_process_that_never_connected_is_not_found_at_a_port),
        cmocka_unit_test(waiting_ends_at_its_deadline_and_when_cancelled),
        cmocka_unit_test(a_runtime_that_dies_while_it_is_held_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
