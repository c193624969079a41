/* SPDX-License-Identifier: MIT */
/* port_kit.c: the runtimes in small. */
#include "ipc/port_kit.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

int port_connect(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    (void)close(fd);
    return -1;
}

size_t port_advertise(uint8_t out[IPC_ADVERTISE_SIZE], uint8_t id, uint64_t pid)
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
    int fd = port_connect(r->path);
    if (fd < 0) {
        (void)ipc__wait(-1, 0, deadline_in_ms(5), &r->over);
        return;
    }
    uint8_t m[IPC_ADVERTISE_SIZE];
    (r->slowly ? fake_write_slowly : fake_write)(fd, m, port_advertise(m, r->id, 4711));
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

void runtime_start(runtime *r, const ipc_port *p, uint8_t id)
{
    (void)snprintf(r->path, sizeof r->path, "%s", ipc_port_path(p));
    r->id = id;
    r->stream = -1;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    assert_int_equal(ipc_cancel_init(&r->over, NULL), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, runtime_main, r), 0);
}

void runtime_end(runtime *r)
{
    ipc_cancel_fire(&r->over);
    pthread_join(r->thread, NULL);
    ipc_cancel_fini(&r->over);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
}

/* Waits until n commands came, and gives the n-th. */
unsigned runtime_command(runtime *r, int n)
{
    pthread_mutex_lock(&r->lock);
    while (r->n < n)
        pthread_cond_wait(&r->changed, &r->lock);
    unsigned c = r->commands[n - 1];
    pthread_mutex_unlock(&r->lock);
    return c;
}

ipc_port *port_open(void)
{
    ipc_port *p;
    err e = {0};
    assert_int_equal(ipc_port_open(NULL, &p, &e), 0);
    return p;
}

ipc_port_runtime port_first(ipc_port *p)
{
    ipc_port_runtime r;
    assert_int_equal(ipc_port_wait(p, deadline_in_ms(5000), NULL, &r, NULL), 0);
    return r;
}

void port_wait_stats(ipc_port *p, const char *what, bool (*fits)(const ipc_port_stats *s, unsigned n), unsigned n)
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
bool stats_rejected(const ipc_port_stats *s, unsigned n) { return s->rejected >= n; }
bool stats_resumed(const ipc_port_stats *s, unsigned n) { return s->resumed >= n; }
bool stats_runtimes(const ipc_port_stats *s, unsigned n) { return s->runtimes >= n; }

/* A child that advertises and then waits to be killed. Returns its pid, with the connection made. */
pid_t port_child(const ipc_port *p, uint8_t id)
{
    int told[2];
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        uint8_t m[IPC_ADVERTISE_SIZE];
        int fd = port_connect(ipc_port_path(p));
        (void)!write(fd, m, port_advertise(m, id, 1));
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

void port_kill_child(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}
