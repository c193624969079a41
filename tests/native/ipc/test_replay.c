/* SPDX-License-Identifier: MIT */
/* test_replay.c: the replayed process, asked by the real client: what it says about itself, what it plays and when, and
 * that bad clients do it no harm. Recording: tests/data/ipc (2.3 s, 57 events). */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clr/clr.h"
#include "ipc/fake.h"
#include "ipc/replay_internal.h"
#include "nettrace/nettrace.h"

#define FILE_NAME   LUNETTE_SOURCE_DIR "/tests/data/ipc/counters.nettrace"
#define FILE_EVENTS 57

static char dir[32];

/* ---- a replay in a process of its own ------------------------------------------------------------------------------
 */
static pid_t start(const char *const *options)
{
    int p[2];
    char line[512];
    assert_int_equal(pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(p[1], STDOUT_FILENO);
        (void)close(p[0]);
        (void)close(p[1]);
        char *argv[16] = {"replay", FILE_NAME, "--socket-dir", dir};
        int n = 4;
        for (; *options; options++)
            argv[n++] = (char *)(uintptr_t)*options;
        _exit(replay__run(n, argv));
    }
    (void)close(p[1]);
    ssize_t n = read(p[0], line, sizeof line - 1); /* it says when it is ready */
    assert_true(n > 0);
    line[n] = 0;
    assert_non_null(strstr(line, "replaying as process"));
    (void)close(p[0]);
    return pid;
}
static void end(pid_t pid)
{
    int status;
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
static ipc_endpoint endpoint(pid_t pid)
{
    const char *const more[] = {dir, NULL};
    ipc_discover_cfg cfg = {.tmpdirs = more};
    ipc_endpoint ep;
    err e = {0};
    assert_int_equal(ipc_resolve(pid, &cfg, &ep, &e), 0);
    return ep;
}
static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/lunette-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}
static int drop_dir(void **state)
{
    (void)state;
    return rmdir(dir); /* fails when a replay left its socket behind */
}

/* ---- a client ------------------------------------------------------------------------------------------------------
 */
typedef struct client {
    nt_reader *r;
    ipc_session *s;
    int64_t start_ns, newest_ns; /* when the last event came */
    int64_t last_ts, pid, start_unix_ns;
    bool ordered;
    int finish;
    ipc_session_end end;
    uint64_t events, breaks, lost;
} client;
static int on_trace(void *arg, const nt_trace *t)
{
    client *c = arg;
    c->pid = t->pid;
    c->start_unix_ns = t->sync_unix_ns;
    return 0;
}
static int on_event(void *arg, const nt_event *ev)
{
    client *c = arg;
    c->newest_ns = mono_ns();
    c->ordered = c->ordered && ev->ts >= c->last_ts;
    c->last_ts = ev->ts;
    return 0;
}
static int on_bytes(void *arg, slice b)
{
    client *c = arg;
    return nt_feed(c->r, b.p, b.n, NULL);
}
static void on_end(void *arg, const ipc_session_end *end_)
{
    client *c = arg;
    c->end = *end_;
    c->finish = nt_finish(c->r, NULL);
    const nt_stats *st = nt_stats_of(c->r);
    c->events = st->events;
    c->breaks = st->out_of_order;
    c->lost = st->lost;
}
static void client_open(client *c, const ipc_endpoint *ep)
{
    nt_options o = nt_options_default();
    o.resolve = clr_resolve;
    *c = (client){.ordered = true, .last_ts = INT64_MIN};
    c->r = nt_new(&o, &(nt_sink){.trace = on_trace, .event = on_event}, c, NULL);
    ipc_provider p = {.name = "System.Runtime", .args = "EventCounterIntervalSec=1", .level = 4};
    ipc_session_cfg cfg = {.collect = {.providers = &p, .n_providers = 1, .buffer_mb = 64, .format = 1},
                           .on_bytes = on_bytes,
                           .on_end = on_end,
                           .arg = c};
    err e = {0};
    c->start_ns = mono_ns();
    assert_int_equal(ipc_session_open(ep, &cfg, deadline_in_ms(5000), NULL, &c->s, &e), 0);
}
static void client_stop(client *c)
{
    ipc_session_stop(c->s, deadline_in_ms(5000));
    assert_true(ipc_session_wait(c->s, deadline_in_ms(6000)));
    ipc_session_free(c->s);
    nt_free(c->r);
}

/* ---- tests ---------------------------------------------------------------------------------------------------------
 */
static void it_tells_about_itself_like_a_runtime(void **state)
{
    (void)state;
    const char *const options[] = {"--pid-name", "demo", "--command-line", "/app/demo --x", "--instant", NULL};
    pid_t pid = start(options);
    ipc_endpoint ep = endpoint(pid);
    assert_true(ep.sockets[0].key_matches);
    static const ipc_command forms[] = {IPC_PROCESS_INFO, IPC_PROCESS_INFO2, IPC_PROCESS_INFO3};
    for (int form = 1; form <= 3; form++) {
        ipc_msg m;
        ipc_msg_init(&m);
        ipc_answer a = {0};
        ipc_info i;
        assert_int_equal(ipc_msg_plain(&m, forms[form - 1], NULL), 0);
        assert_int_equal(ipc_call(&ep, &m, deadline_in_ms(5000), NULL, &a, NULL, NULL), 0);
        assert_int_equal(ipc_info_parse(a.payload, form, &i, NULL), 0);
        assert_int_equal(i.process_id, pid);
        assert_string_equal(i.command_line, "/app/demo --x");
        if (form > 1) assert_string_equal(i.entrypoint, "demo");
        ipc_info_fini(&i);
        ipc_answer_fini(&a);
        ipc_msg_fini(&m);
    }
    buf env;
    buf_init(&env, 4096);
    assert_int_equal(ipc_environment(&ep, deadline_in_ms(5000), NULL, &env, NULL), 1);
    assert_string_equal((const char *)env.p, "LUNETTE_REPLAY=1");
    buf_fini(&env);
    assert_int_equal(ipc_resume(&ep, deadline_in_ms(5000), NULL, NULL), 0);
    ipc_endpoint_fini(&ep);
    end(pid);
}

static void the_command_line_comes_from_the_recording(void **state)
{
    (void)state;
    const char *const options[] = {NULL};
    pid_t pid = start(options);
    ipc_endpoint ep = endpoint(pid);
    ipc_info i;
    assert_int_equal(ipc_process_info(&ep, deadline_in_ms(5000), NULL, &i, NULL), 0);
    assert_non_null(strstr(i.command_line, "lunette-target.dll counters"));
    assert_string_equal(i.entrypoint, "lunette-target");
    assert_string_equal(i.runtime_version, "10.0.0-replay");
    ipc_info_fini(&i);
    ipc_endpoint_fini(&ep);
    end(pid);
}

static void several_clients_get_the_whole_recording_each(void **state)
{
    (void)state;
    const char *const options[] = {"--instant", NULL};
    pid_t pid = start(options);
    ipc_endpoint ep = endpoint(pid);
    enum { N = 8 };
    client c[N];
    int64_t now = wall_ns();
    for (int i = 0; i < N; i++)
        client_open(&c[i], &ep);
    for (int i = 0; i < N; i++) {
        (void)ipc_session_wait(c[i].s,
                               deadline_in_ms(i == 0 ? 300 : 1)); /* all is there at once; nothing ends by itself */
        client_stop(&c[i]);
        assert_int_equal(c[i].end.reason, IPC_END_STOPPED);
        assert_true(c[i].end.stop_answered);
        assert_int_equal(c[i].finish, 0); /* with its end mark */
        assert_int_equal(c[i].events, FILE_EVENTS);
        assert_int_equal(c[i].lost, 0);
        assert_int_equal(c[i].pid, pid); /* here and now, not as recorded */
        assert_true(llabs(c[i].start_unix_ns - now) < INT64_C(10000000000));
    }
    ipc_endpoint_fini(&ep);
    end(pid);
}

static void timing_follows_the_recording(void **state)
{
    (void)state;
    const char *const options[] = {"--speed", "4", NULL};
    pid_t pid = start(options);
    ipc_endpoint ep = endpoint(pid);
    client c;
    client_open(&c, &ep);
    (void)ipc_session_wait(c.s, deadline_in_ms(1000));
    client_stop(&c);
    assert_int_equal(c.events, FILE_EVENTS);
    assert_in_range((c.newest_ns - c.start_ns) / 1000000, 500, 990); /* recorded at 2.3 s */
    ipc_endpoint_fini(&ep);
    end(pid);
}

static void a_loop_goes_on_with_later_times(void **state)
{
    (void)state;
    const char *const options[] = {"--loop", "--speed", "20", NULL};
    pid_t pid = start(options);
    ipc_endpoint ep = endpoint(pid);
    client c;
    client_open(&c, &ep);
    (void)ipc_session_wait(c.s, deadline_in_ms(700)); /* 5 passes and more */
    client_stop(&c);
    assert_int_equal(c.finish, 0);
    assert_true(c.events > 3 * FILE_EVENTS);
    assert_true(c.ordered);
    assert_int_equal(c.breaks, 0);
    assert_int_equal(c.lost, 0);
    ipc_endpoint_fini(&ep);
    end(pid);
}

static void an_ending_process_ends_its_sessions_in_good_order(void **state)
{
    (void)state;
    const char *const options[] = {NULL};
    pid_t pid = start(options);
    ipc_endpoint ep = endpoint(pid);
    client c;
    client_open(&c, &ep);
    end(pid);
    assert_true(ipc_session_wait(c.s, deadline_in_ms(5000)));
    assert_int_equal(c.end.reason, IPC_END_BY_TARGET);
    assert_int_equal(c.finish, 0);
    ipc_session_free(c.s);
    nt_free(c.r);
    ipc_endpoint_fini(&ep);
}

/* Connects, writes, and closes or lingers. */
static int raw_client(const ipc_endpoint *ep, const void *p, size_t n)
{
    int fd, sys;
    assert_int_equal(ipc__connect_start(ep, ep->sockets[0].path, &fd, &sys, NULL), 1);
    fake_write(fd, p, n);
    return fd;
}
static uint32_t answered_code(int fd)
{
    ipc_answer a = {0};
    assert_int_equal(ipc__recv_answer(fd, &a, deadline_in_ms(5000), NULL, NULL), 0);
    uint32_t hr = a.ok ? 0 : a.hresult;
    ipc_answer_fini(&a);
    (void)close(fd);
    return hr;
}
static void bad_clients_do_it_no_harm(void **state)
{
    (void)state;
    const char *const options[] = {"--instant", NULL};
    pid_t pid = start(options);
    ipc_endpoint ep = endpoint(pid);
    int half[20];
    for (int i = 0; i < 20; i++) /* they say half a message, and stay */
        half[i] = raw_client(&ep, "DOTNET_IPC_V1\0\x20", (size_t)i % 16);
    assert_int_equal(answered_code(raw_client(&ep, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27)), IPC_E_UNKNOWN_MAGIC);
    assert_int_equal(answered_code(raw_client(&ep, "DOTNET_IPC_V1\0\x10\0\x04\x00\0\0", 20)), IPC_E_BAD_ENCODING);
    assert_int_equal(answered_code(raw_client(&ep, "DOTNET_IPC_V1\0\x14\0\x04\x99\0\0", 20)), IPC_E_UNKNOWN_COMMAND);
    assert_int_equal(answered_code(raw_client(&ep, "DOTNET_IPC_V1\0\x14\0\x02\x03\0\0", 20)),
                     IPC_E_BAD_ENCODING); /* kills a real one */
    assert_int_equal(answered_code(raw_client(&ep, "DOTNET_IPC_V1\0\x18\0\x01\x01\0\0\xff\xff\xff\xff", 24)),
                     IPC_E_BAD_ENCODING);
    assert_int_equal(answered_code(raw_client(&ep, "DOTNET_IPC_V1\0\x1c\0\x02\x01\0\0\x09\0\0\0\0\0\0\0", 28)),
                     0);           /* an unknown id: OK */
    for (int i = 0; i < 50; i++) { /* they ask for a stream and go away at once */
        ipc_msg m;
        ipc_msg_init(&m);
        ipc_provider p = {.name = "P"};
        ipc_collect_cfg cfg = {.providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1};
        assert_int_equal(ipc_msg_collect(&m, 2 + i % 4, &cfg, NULL), 0);
        (void)close(raw_client(&ep, m.b.p, m.b.n));
        ipc_msg_fini(&m);
    }
    client c;
    client_open(&c, &ep);
    (void)ipc_session_wait(c.s, deadline_in_ms(300));
    client_stop(&c);
    assert_int_equal(c.events, FILE_EVENTS);
    for (int i = 0; i < 20; i++)
        (void)close(half[i]);
    ipc_endpoint_fini(&ep);
    end(pid);
}

static void the_sixty_fifth_session_is_refused(void **state)
{
    (void)state;
    const char *const options[] = {NULL};
    pid_t pid = start(options);
    ipc_endpoint ep = endpoint(pid);
    enum { N = 64 };
    static client c[N];
    for (int i = 0; i < N; i++)
        client_open(&c[i], &ep);
    ipc_provider p = {.name = "P"};
    ipc_session_cfg cfg = {.collect = {.providers = &p, .n_providers = 1, .buffer_mb = 1, .format = 1},
                           .on_bytes = on_bytes,
                           .on_end = on_end};
    ipc_session *s;
    err e = {0};
    assert_int_equal(ipc_session_open(&ep, &cfg, deadline_in_ms(5000), NULL, &s, &e), -ERR_BUSY);
    assert_int_equal(e.hresult, IPC_E_FAIL);
    assert_non_null(strstr(e.hint, "64"));
    for (int i = 0; i < N; i++)
        client_stop(&c[i]);
    client again;
    client_open(&again, &ep); /* their places are free again */
    client_stop(&again);
    ipc_endpoint_fini(&ep);
    end(pid);
}

static void a_file_that_is_no_recording_is_refused(void **state)
{
    (void)state;
    recording r;
    err e = {0};
    assert_int_equal(recording_load("/nonexistent", &r, &e), -ERR_NOT_FOUND);
    err_clear(&e);
    assert_true(recording_load(LUNETTE_SOURCE_DIR "/LICENSE", &r, &e) < 0);
    assert_true(e.message[0] != 0);
    assert_string_equal(e.detail, LUNETTE_SOURCE_DIR "/LICENSE");
}

static void the_plan_holds_every_byte_of_the_recording(void **state)
{
    (void)state;
    recording r;
    err e = {0};
    assert_int_equal(recording_load(FILE_NAME, &r, &e), 0);
    size_t n = r.opening.n + REPLAY_TRACE_SIZE + 1 + 1; /* end of Trace, end of stream */
    int64_t before = 0;
    for (size_t i = 0; i < r.n_objects; i++) {
        size_t size_at = (size_t)(r.objects[i].head.p - r.bytes) + r.objects[i].head.n + 4;
        n += r.objects[i].head.n + 4 + (4 - size_at % 4) % 4 + r.objects[i].content.n + 1;
        assert_true(r.objects[i].due_ns >= before);
        before = r.objects[i].due_ns;
    }
    assert_int_equal(n, r.n);
    assert_in_range(r.length_ns / 1000000, 2200, 2500);
    recording_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_tells_about_itself_like_a_runtime),
        cmocka_unit_test(the_command_line_comes_from_the_recording),
        cmocka_unit_test(several_clients_get_the_whole_recording_each),
        cmocka_unit_test(timing_follows_the_recording),
        cmocka_unit_test(a_loop_goes_on_with_later_times),
        cmocka_unit_test(an_ending_process_ends_its_sessions_in_good_order),
        cmocka_unit_test(bad_clients_do_it_no_harm),
        cmocka_unit_test(the_sixty_fifth_session_is_refused),
        cmocka_unit_test(a_file_that_is_no_recording_is_refused),
        cmocka_unit_test(the_plan_holds_every_byte_of_the_recording),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
