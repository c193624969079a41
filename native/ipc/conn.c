/* SPDX-License-Identifier: MIT */
/* conn.c: one connection, one command: connect, write the whole request at once, read the answer, all by one deadline.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc/ipc_internal.h"

#define BACKLOG_RETRY_MS 10 /* a full backlog of a Unix socket cannot be waited for */

int ipc_cancel_init(ipc_cancel *c, err *e)
{
    c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return c->fd < 0 ? err_sys(e, ERR_IO, errno, "cannot make an eventfd") : 0;
}

void ipc_cancel_fini(ipc_cancel *c) { ipc__close(&c->fd); }

void ipc_cancel_fire(ipc_cancel *c)
{
    uint64_t one = 1;
    if (c->fd >= 0 && write(c->fd, &one, sizeof one) < 0) return; /* full: it has fired more than enough */
}

bool ipc_cancel_fired(const ipc_cancel *c)
{
    if (!c || c->fd < 0) return false;
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

void ipc__close(int *fd)
{
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

int ipc__wait(int fd, short events, int64_t deadline_ns, const ipc_cancel *c)
{
    for (;;) {
        struct pollfd p[2] = {{.fd = fd, .events = events}, {.fd = c ? c->fd : -1, .events = POLLIN}};
        int n = poll(p, 2, deadline_poll_ms(deadline_ns));
        if (n < 0 && errno != EINTR) return -ERR_IO;
        if (p[1].revents && n > 0) return -ERR_CANCELLED;
        if (p[0].revents && n > 0) return 0;
        if (deadline_ns != DEADLINE_NEVER && mono_ns() >= deadline_ns) return -ERR_TIMEOUT;
    }
}

static int wait_err(int rc, const char *what, err *e)
{
    if (rc == -ERR_CANCELLED) return err_set(e, ERR_CANCELLED, "cancelled while %s", what);
    if (rc == -ERR_TIMEOUT) return err_set(e, ERR_TIMEOUT, "no answer in time while %s", what);
    return err_set(e, ERR_IO, "poll failed while %s", what);
}

/* A socket address for any path: too long a one goes through a descriptor of its folder, which the caller closes after
 * connecting. */
static int address_of(const char *path, struct sockaddr_un *a, int *folder, int *sys)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    *folder = -1;
    size_t n = strlen(path);
    if (n < sizeof a->sun_path) {
        memcpy(a->sun_path, path, n + 1);
        return 0;
    }
    const char *slash = strrchr(path, '/');
    char *dir = slash ? slice_dup(slice_of(path, (size_t)(slash - path))) : NULL;
    if (!dir) {
        *sys = slash ? ENOMEM : ENAMETOOLONG;
        return -1;
    }
    *folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *sys = errno;
    free(dir);
    if (*folder < 0) return -1;
    int len = snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d/%s", *folder, slash + 1);
    if (len > 0 && (size_t)len < sizeof a->sun_path) return 0;
    ipc__close(folder);
    *sys = ENAMETOOLONG;
    return -1;
}

static void add_advice(const ipc_endpoint *ep, int sys, err *e)
{
    if (sys == EACCES || sys == EPERM)
        err_hint(e, "the socket is for uid %u only: run lunette as that user or as root", ep->uid);
    else if (sys == ENOENT)
        err_hint(e, "the process ended meanwhile, or its socket was removed");
    else if (sys == ECONNREFUSED)
        err_hint(e, "nobody listens on the socket file: it was left behind, or the process is ending");
    else if (sys == EMFILE || sys == ENFILE)
        err_hint(e, "lunette has too many files open: raise its limit (ulimit -n) and try again");
}

static int connect_err(const ipc_endpoint *ep, const char *path, int sys, err *e)
{
    err_kind kind = sys == EACCES || sys == EPERM ? ERR_PERMISSION_DENIED
                    : sys == ENOMEM               ? ERR_NO_MEMORY
                                                  : ERR_ENDPOINT_UNAVAILABLE;
    int rc = err_sys(e, kind, sys, "cannot connect to the diagnostics socket");
    err_detail(e, "%s", path);
    add_advice(ep, sys, e);
    return rc;
}

int ipc__connect_start(const ipc_endpoint *ep, const char *path, int *out, int *sys, err *e)
{
    struct sockaddr_un a;
    int folder = -1;
    *out = -1;
    *sys = 0;
    if (address_of(path, &a, &folder, sys) < 0) return connect_err(ep, path, *sys, e);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&a, sizeof a);
    *sys = rc < 0 ? errno : 0;
    ipc__close(&folder);
    if (rc == 0) {
        *out = fd;
        return 1;
    }
    bool full = fd >= 0 && (*sys == EAGAIN || *sys == EINTR);
    ipc__close(&fd);
    return full ? 0 : connect_err(ep, path, *sys, e);
}

int ipc__check_peer(int fd, const ipc_endpoint *ep, const ipc_socket *s, err *e)
{
    struct ucred peer = {0};
    socklen_t n = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return err_sys(e, ERR_IO, errno, "cannot ask who listens");
    if (peer.pid == ep->pid) return 0;
    if (peer.pid == 0 && s->key_matches) return 0; /* a listener outside our PID namespace has no number here */
    int rc = err_set(e, ERR_ENDPOINT_UNAVAILABLE, "the socket named after process %d is served by process %d of uid %u",
                     ep->pid, peer.pid, peer.uid);
    err_detail(e, "%s", s->path);
    err_hint(e, "it was left behind or put there by another process; remove the file");
    return rc;
}

static int connect_one(const ipc_endpoint *ep, const ipc_socket *s, int64_t deadline_ns, const ipc_cancel *c, int *out,
                       err *e)
{
    for (;;) {
        int sys;
        int rc = ipc__connect_start(ep, s->path, out, &sys, e);
        if (rc < 0) return rc;
        if (rc == 1) break;
        int64_t soon = deadline_in_ms(BACKLOG_RETRY_MS);
        rc = ipc__wait(-1, 0, soon < deadline_ns ? soon : deadline_ns, c);
        if (rc == -ERR_CANCELLED || mono_ns() >= deadline_ns)
            return wait_err(rc, "connecting (the target's backlog is full)", e);
    }
    int rc = ipc__check_peer(*out, ep, s, e);
    if (rc < 0) ipc__close(out);
    return rc;
}

int ipc__connect(const ipc_endpoint *ep, int64_t deadline_ns, const ipc_cancel *c, int *out, err *e)
{
    err first = {0};
    *out = -1;
    if (ep->port) return ipc__port_take(ep, deadline_ns, c, out, e);
    for (unsigned i = 0; i < ep->n_sockets; i++) {
        err one = {0};
        int rc = connect_one(ep, &ep->sockets[i], deadline_ns, c, out, &one);
        if (rc == 0) return 0;
        if (first.kind == ERR_NONE) first = one;
        if (rc == -ERR_CANCELLED || rc == -ERR_TIMEOUT) break;
    }
    if (first.kind == ERR_NONE)
        (void)err_set(&first, ERR_ENDPOINT_UNAVAILABLE, "process %d has no diagnostics socket", ep->pid);
    if (e && e->kind == ERR_NONE) *e = first;
    return -(int)first.kind;
}

int ipc__send(int fd, const ipc_msg *m, int64_t deadline_ns, const ipc_cancel *c, err *e)
{
    BUG_IF(m->command == 0 || m->b.failed, e); /* only a builder's success may leave */
    size_t at = 0;
    while (at < m->b.n) {
        ssize_t n = send(fd, m->b.p + at, m->b.n - at, MSG_NOSIGNAL);
        if (n >= 0) {
            at += (size_t)n;
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) {
            int rc = err_sys(e, ERR_PROCESS_EXITED, errno, "the target closed the connection while a request was sent");
            err_hint(e, "the process may have ended; list the processes again");
            return rc;
        }
        int rc = ipc__wait(fd, POLLOUT, deadline_ns, c);
        if (rc < 0) return wait_err(rc, "sending a request", e);
    }
    return 0;
}

int ipc__recv(int fd, buf *b, size_t n, int64_t deadline_ns, const ipc_cancel *c, err *e)
{
    if (n == 0) return 0;
    uint8_t *p = buf_reserve(b, n);
    if (!p) return err_set(e, ERR_NO_MEMORY, "no memory for %zu bytes of an answer", n);
    for (size_t at = 0; at < n;) {
        ssize_t got = recv(fd, p + at, n - at, 0);
        if (got > 0) {
            at += (size_t)got;
            b->n += (size_t)got;
            continue;
        }
        if (got < 0 && errno == EINTR) continue;
        if (got == 0 || errno != EAGAIN) {
            int rc = got == 0 ? err_set(e, ERR_PROCESS_EXITED, "the target closed the connection without an answer")
                              : err_sys(e, ERR_PROCESS_EXITED, errno, "the connection broke before an answer came");
            err_hint(e, "the process may have ended or refused the request; list the processes again");
            return rc;
        }
        int rc = ipc__wait(fd, POLLIN, deadline_ns, c);
        if (rc < 0) return wait_err(rc, "waiting for an answer", e);
    }
    return 0;
}

int ipc__recv_rest(int fd, ipc_answer *a, int64_t deadline_ns, const ipc_cancel *c, err *e)
{
    int rc = a->b.n < IPC_HEADER_SIZE ? ipc__recv(fd, &a->b, IPC_HEADER_SIZE - a->b.n, deadline_ns, c, e) : 0;
    if (rc < 0) return rc;
    int size = ipc_header_size(buf_view(&a->b), e);
    if (size < 0) return size;
    rc = ipc__recv(fd, &a->b, (size_t)size - a->b.n, deadline_ns, c, e);
    return rc < 0 ? rc : ipc_answer_parse(a, e);
}

int ipc__recv_answer(int fd, ipc_answer *a, int64_t deadline_ns, const ipc_cancel *c, err *e)
{
    buf_reset(&a->b);
    return ipc__recv_rest(fd, a, deadline_ns, c, e);
}
