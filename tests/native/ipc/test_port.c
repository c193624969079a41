/* SPDX-License-Identifier: MIT */
/* test_port.c: reverse-connect ports, with runtimes in small that connect to them, and with clients that are none. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/fake.h"
#include "ipc/port.h"

/* ---- a runtime in small: connects, advertises, serves one command, connects again ---------------------------------
 */
#define BEFORE 1000 /* bytes of the stream once it runs */
#define AFTER  5000 /* … and while it stops */
typedef struct runtime {
    char path[108];
    uint8_t id;       /* all bytes of its cookie */
    bool slowly;      /* one byte a write */
    bool old;         /* does not know SetEnvironmentVariable */
    uint32_t refuses; /* CollectTracing is answered with this */
    int deaf_resumes; /* so many ResumeRuntime get no answer */
    ipc_cancel over;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned commands[32]; /* in order of arrival */
    int n, connections;
    uint8_t set[512]; /* the last SetEnvironmentVariable */
    size_t n_set;
    int stream; /* the thread's */
} runtime;

static int connect_to(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    (void)close(fd);
    return -1;
}

static size_t advertise_message(uint8_t out[IPC_ADVERTISE_SIZE], uint8_t id, uint64_t pid)
{
    memset(out, 0, IPC_ADVERTISE_SIZE);
    memcpy(out, "ADVR_V1", 8);
    memset(out + 8, id, 16);
    memcpy(out + 24, &pid, sizeof pid);
    return IPC_ADVERTISE_SIZE;
}

static void play(int fd, size_t from, size_t n)
{
    uint8_t bytes[AFTER];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(from + i);
    fake_write(fd, bytes, n);
}

static void answer(runtime *r, int *fd, const ipc_request *q)
{
    uint32_t zero = 0;
    uint64_t session = 77;
    switch (q->command) {
    case IPC_COLLECT5:
        if (r->refuses)
            fake_error(*fd, r->refuses);
        else {
            fake_ok(*fd, &session, sizeof session);
            r->stream = *fd;
            *fd = -1;
        }
        break;
    case IPC_RESUME:
        if (r->deaf_resumes-- > 0) break;
        fake_ok(*fd, &zero, sizeof zero);
        if (r->stream >= 0) play(r->stream, 0, BEFORE);
        break;
    case IPC_SET_ENVIRONMENT:
        if (r->old)
            fake_error(*fd, IPC_E_UNKNOWN_COMMAND);
        else
            fake_ok(*fd, &zero, sizeof zero);
        break;
    case IPC_STOP_TRACING:
        play(r->stream, BEFORE, AFTER);
        ipc__close(&r->stream);
        fake_ok(*fd, &session, sizeof session);
        break;
    default: fake_error(*fd, IPC_E_UNKNOWN_COMMAND);
    }
}

static void one_connection(runtime *r)
{
    int fd = connect_to(r->path);
    if (fd < 0) {
        (void)ipc__wait(-1, 0, deadline_in_ms(5), &r->over);
        return;
    }
    uint8_t m[IPC_ADVERTISE_SIZE];
    (r->slowly ? fake_write_slowly : fake_write)(fd, m, advertise_message(m, r->id, 4711));
    pthread_mutex_lock(&r->lock);
    r->connections++;
    pthread_mutex_unlock(&r->lock);
    buf b;
    buf_init(&b, 0);
    ipc_request q = {0};
    int size = 0;
    if (ipc__recv(fd, &b, IPC_HEADER_SIZE, DEADLINE_NEVER, &r->over, NULL) == 0)
        size = ipc_header_size(buf_view(&b), NULL);
    if (size > 0 && ipc__recv(fd, &b, (size_t)size - IPC_HEADER_SIZE, DEADLINE_NEVER, &r->over, NULL) == 0 &&
        ipc_request_parse(buf_view(&b), &q, NULL) == 0) {
        pthread_mutex_lock(&r->lock);
        r->commands[r->n++ % 32] = q.command;
        if (q.command == IPC_SET_ENVIRONMENT && b.n <= sizeof r->set) {
            memcpy(r->set, b.p, b.n);
            r->n_set = b.n;
        }
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
        answer(r, &fd, &q);
    }
    buf_fini(&b);
    ipc__close(&fd);
}

static void *runtime_main(void *arg)
{
    runtime *r = arg;
    while (!ipc_cancel_fired(&r->over))
        one_connection(r);
    ipc__close(&r->stream);
    return NULL;
}

static void runtime_start(runtime *r, const ipc_port *p, uint8_t id)
{
    (void)snprintf(r->path, sizeof r->path, "%s", ipc_port_path(p));
    r->id = id;
    r->stream = -1;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    assert_int_equal(ipc_cancel_init(&r->over, NULL), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, runtime_main, r), 0);
}

static void runtime_end(runtime *r)
{
    ipc_cancel_fire(&r->over);
    pthread_join(r->thread, NULL);
    ipc_cancel_fini(&r->over);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
}

/* Waits until n commands came, and gives the n-th. */
static unsigned command(runtime *r, int n)
{
    pthread_mutex_lock(&r->lock);
    while (r->n < n)
        pthread_cond_wait(&r->changed, &r->lock);
    unsigned c = r->commands[n - 1];
    pthread_mutex_unlock(&r->lock);
    return c;
}

static ipc_port *open_port(void)
{
    ipc_port *p;
    err e = {0};
    assert_int_equal(ipc_port_open(NULL, &p, &e), 0);
    return p;
}

static ipc_port_runtime wait_first(ipc_port *p)
{
    ipc_port_runtime r;
    assert_int_equal(ipc_port_wait(p, deadline_in_ms(5000), NULL, &r, NULL), 0);
    return r;
}

static void wait_stats(ipc_port *p, const char *what, bool (*fits)(const ipc_port_stats *s, unsigned n), unsigned n)
{
    ipc_port_stats s = {0};
    for (int i = 0; i < 1000; i++) {
        s = ipc_port_stats_of(p);
        if (fits(&s, n)) return;
        (void)poll(NULL, 0, 5);
    }
    fail_msg("%s: %u runtimes, %u resumed, %u rejected, %u dropped", what, s.runtimes, s.resumed, s.rejected,
             s.dropped);
}
static bool rejected(const ipc_port_stats *s, unsigned n) { return s->rejected >= n; }
static bool resumed(const ipc_port_stats *s, unsigned n) { return s->resumed >= n; }
static bool runtimes(const ipc_port_stats *s, unsigned n) { return s->runtimes >= n; }

/* ---- the message --------------------------------------------------------------------------------------------------
 */
static void an_advertise_message_is_read(void **state)
{
    (void)state;
    uint8_t m[IPC_ADVERTISE_SIZE];
    ipc_advertise ad;
    (void)advertise_message(m, 9, UINT64_C(0x123456789));
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
    ipc_port *p = open_port();
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
    ipc_port *p = open_port();
    runtime a = {0}, b = {0}, c = {.deaf_resumes = 1, .slowly = true};
    runtime_start(&a, p, 1);
    ipc_port_runtime first = wait_first(p);
    assert_int_equal(first.pid, getpid()); /* the kernel's word */
    assert_int_equal(first.nspid, 4711);   /* the runtime's */
    assert_int_equal(first.cookie[15], 1);
    assert_false(first.resumed || first.gone);
    assert_true(ipc_port_stats_of(p).held);
    runtime_start(&b, p, 2);
    runtime_start(&c, p, 3);
    assert_int_equal(command(&b, 1), IPC_RESUME);
    assert_int_equal(command(&c, 2), IPC_RESUME); /* asked again, as the first time was not answered */
    wait_stats(p, "two are resumed", resumed, 2);
    err e = {0};
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(30), NULL, &e), -ERR_TIMEOUT);
    assert_int_equal(a.n, 0);
    ipc_port_release(p);
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(5000), NULL, NULL), 0);
    assert_int_equal(command(&a, 1), IPC_RESUME);
    assert_true(wait_first(p).resumed);
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
    ipc_port *p = open_port();
    ipc_port_release(p);
    runtime a = {0};
    runtime_start(&a, p, 1);
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(5000), NULL, NULL), 0);
    assert_int_equal(command(&a, 1), IPC_RESUME);
    ipc_port_close(p);
    runtime_end(&a);
}

static void closing_lets_go_who_is_held(void **state)
{
    (void)state;
    ipc_port *p = open_port();
    runtime a = {0};
    runtime_start(&a, p, 1);
    (void)wait_first(p);
    ipc_port_close(p);
    assert_int_equal(command(&a, 1), IPC_RESUME);
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
        (void)wait_first(p);
        runtime_start(&b, p, 2);
        assert_int_equal(command(&b, 1), IPC_SET_ENVIRONMENT);
        assert_int_equal(command(&b, 2), IPC_RESUME); /* also one that cannot */
        assert_int_equal(a.n, 0);
        ipc_port_release(p);
        assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(5000), NULL, NULL), 0);
        assert_int_equal(command(&a, 1), IPC_SET_ENVIRONMENT);
        assert_int_equal(command(&a, 2), IPC_RESUME);
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
    (void)wait_first(p);
    ipc_port_skip(p, true);
    assert_int_equal(command(&a, 1), IPC_RESUME); /* with its variable */
    runtime_start(&b, p, 2);
    assert_int_equal(wait_first(p).cookie[0], 2);
    assert_int_equal(b.n, 0);
    ipc_port_skip(p, false);
    assert_int_equal(command(&b, 1), IPC_SET_ENVIRONMENT);
    assert_int_equal(command(&b, 2), IPC_RESUME);
    ipc_port_skip(p, true); /* nobody is first */
    runtime_start(&c, p, 3);
    assert_int_equal(wait_first(p).cookie[0], 3);
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
    (void)wait_first(p);
    ipc_port_close(p);
    assert_int_equal(command(&a, 1), IPC_RESUME); /* there may be no second connection */
    runtime_end(&a);
    p = open_restoring(NULL);
    runtime b = {0};
    runtime_start(&b, p, 1);
    (void)wait_first(p);
    ipc_port_release(p);
    ipc_port_close(p); /* right behind it: the variable is asked about, or nothing is */
    while (command(&b, 1) == IPC_SET_ENVIRONMENT && b.n < 2)
        (void)poll(NULL, 0, 2);
    assert_int_equal(b.commands[b.n - 1], IPC_RESUME);
    runtime_end(&b);
}

/* ---- commands and sessions ------------------------------------------------------------------------------------------
 */
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
    ipc_port *p = open_port();
    runtime a = {0};
    runtime_start(&a, p, 1);
    (void)wait_first(p);
    ipc_endpoint ep;
    assert_int_equal(ipc_resolve(getpid(), NULL, &ep, NULL), 0); /* this process "is" the runtime */
    assert_ptr_equal(ep.port, p);
    assert_int_equal(ep.cause, IPC_OK);
    sink k;
    ipc_session *s;
    assert_int_equal(open_session(&ep, &k, &s, NULL), 0);
    ipc_endpoint_fini(&ep);
    wait_bytes(&k, BEFORE);
    assert_int_equal(command(&a, 1), IPC_COLLECT5);
    assert_int_equal(command(&a, 2), IPC_RESUME);
    ipc_port_close(p); /* the session outlives it: its stop goes over the connection that is left */
    ipc_session_stop(s, deadline_in_ms(5000));
    assert_true(ipc_session_wait(s, deadline_in_ms(5000)));
    assert_int_equal(k.end.reason, IPC_END_STOPPED);
    assert_true(k.end.stop_sent && k.end.stop_answered);
    assert_int_equal(k.got, BEFORE + AFTER);
    assert_true(k.in_order);
    assert_int_equal(command(&a, 3), IPC_STOP_TRACING);
    ipc_session_free(s);
    assert_true(ipc_sessions_wait(deadline_in_ms(2000)));
    runtime_end(&a);
    assert_int_equal(a.n, 3);
    assert_nothing_leaked(fds, threads);
}

static void a_session_that_is_refused_releases_nobody(void **state)
{
    (void)state;
    ipc_port *p = open_port();
    runtime a = {.refuses = IPC_E_FAIL};
    runtime_start(&a, p, 1);
    (void)wait_first(p);
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
    assert_int_equal(command(&a, 2), IPC_RESUME);
    ipc_endpoint_fini(&ep);
    ipc_port_close(p);
    runtime_end(&a);
}

static void a_process_that_never_connected_is_not_found_at_a_port(void **state)
{
    (void)state;
    ipc_port *p = open_port();
    ipc_endpoint ep;
    assert_int_equal(ipc_port_endpoint(p, &ep, NULL), -ERR_NOT_FOUND);
    assert_int_equal(ipc_resolve(getpid(), NULL, &ep, NULL), -ERR_NOT_A_DOTNET_PROCESS);
    ipc_port_close(p);
}

static void waiting_ends_at_its_deadline_and_when_cancelled(void **state)
{
    (void)state;
    ipc_port *p = open_port();
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

/* A child that advertises and then waits to be killed. Returns its pid, with the connection made. */
static pid_t child_runtime(const ipc_port *p, uint8_t id)
{
    int told[2];
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        uint8_t m[IPC_ADVERTISE_SIZE];
        int fd = connect_to(ipc_port_path(p));
        (void)!write(fd, m, advertise_message(m, id, 1));
        (void)!write(told[1], "x", 1);
        for (;;)
            (void)pause();
    }
    assert_true(pid > 0);
    char x;
    assert_int_equal(read(told[0], &x, 1), 1);
    (void)close(told[0]);
    (void)close(told[1]);
    return pid;
}

static void kill_child(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_runtime_that_dies_while_it_is_held_is_told(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    ipc_port *p = open_port();
    pid_t pid = child_runtime(p, 5);
    assert_int_equal(wait_first(p).pid, pid);
    ipc_endpoint ep;
    assert_int_equal(ipc_port_endpoint(p, &ep, NULL), 0);
    kill_child(pid);
    err e = {0};
    assert_int_equal(ipc_port_wait_resumed(p, deadline_in_ms(5000), NULL, &e), -ERR_PROCESS_EXITED);
    assert_true(wait_first(p).gone);
    assert_int_equal(ipc_resume(&ep, deadline_in_ms(5000), NULL, NULL), -ERR_PROCESS_EXITED);
    ipc_endpoint_fini(&ep);
    ipc_port_close(p);
    assert_nothing_leaked(fds, threads);
}

/* ---- those who are no runtime --------------------------------------------------------------------------------------
 */
static void garbage_is_turned_away(void **state)
{
    (void)state;
    int fds = count_fds(), threads = count_threads();
    ipc_port *p = open_port();
    int garbage = connect_to(ipc_port_path(p));
    static const char get[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    fake_write(garbage, get, sizeof get - 1);
    fake_wait_closed(garbage);
    int closes = connect_to(ipc_port_path(p));
    fake_write(closes, "ADVR_V1", 8);
    (void)shutdown(closes, SHUT_WR);
    fake_wait_closed(closes);
    int silent = connect_to(ipc_port_path(p));
    fake_wait_closed(silent); /* after IPC_PORT_ADVERTISE_MS */
    wait_stats(p, "three are rejected", rejected, 3);
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
    ipc_port *p = open_port();
    int crowd[100];
    for (int i = 0; i < 100; i++) {
        crowd[i] = connect_to(ipc_port_path(p));
        fake_write(crowd[i], "ADVR", 4);
    }
    runtime a = {0};
    int64_t t = mono_ns();
    runtime_start(&a, p, 1);
    assert_int_equal(wait_first(p).cookie[0], 1);
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
    ipc_port *p = open_port();
    runtime a = {0};
    runtime_start(&a, p, 6);
    (void)wait_first(p);
    pid_t thief = child_runtime(p, 6);
    wait_stats(p, "the other process is rejected", rejected, 1);
    assert_int_equal(wait_first(p).pid, getpid());
    ipc_endpoint ep;
    assert_int_equal(ipc_port_endpoint(p, &ep, NULL), 0);
    assert_int_equal(ipc_resume(&ep, deadline_in_ms(5000), NULL, NULL), 0); /* the right one answers */
    assert_int_equal(command(&a, 1), IPC_RESUME);
    ipc_endpoint_fini(&ep);
    kill_child(thief);
    ipc_port_close(p);
    runtime_end(&a);
}

static void an_idle_runtime_that_speaks_unasked_has_to_connect_again(void **state)
{
    (void)state;
    ipc_port *p = open_port();
    int fd = connect_to(ipc_port_path(p));
    uint8_t m[IPC_ADVERTISE_SIZE];
    fake_write(fd, m, advertise_message(m, 8, 1));
    (void)wait_first(p);
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
    ipc_port *p = open_port();
    int all[IPC_PORT_RUNTIMES_MAX + 1];
    for (int i = 0; i <= IPC_PORT_RUNTIMES_MAX; i++) {
        uint8_t m[IPC_ADVERTISE_SIZE];
        all[i] = connect_to(ipc_port_path(p));
        (void)advertise_message(m, 0, 1);
        memcpy(m + 8, &i, sizeof i); /* a cookie of its own */
        fake_write(all[i], m, sizeof m);
    }
    wait_stats(p, "the port is full", runtimes, IPC_PORT_RUNTIMES_MAX);
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
        cmocka_unit_test(a_session_is_armed_before_the_runtime_goes_on),
        cmocka_unit_test(a_session_that_is_refused_releases_nobody),
        cmocka_unit_test(a_process_that_never_connected_is_not_found_at_a_port),
        cmocka_unit_test(waiting_ends_at_its_deadline_and_when_cancelled),
        cmocka_unit_test(a_runtime_that_dies_while_it_is_held_is_told),
        cmocka_unit_test(garbage_is_turned_away),
        cmocka_unit_test(a_crowd_does_not_keep_a_runtime_out),
        cmocka_unit_test(nobody_takes_a_runtimes_place_by_its_cookie),
        cmocka_unit_test(an_idle_runtime_that_speaks_unasked_has_to_connect_again),
        cmocka_unit_test(more_runtimes_than_the_port_holds_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
