/* SPDX-License-Identifier: MIT */
/* probe.c: ProcessInfo from many endpoints at once, on one thread: each has its own deadline, so the slow ones cost no
 * more than one does. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "ipc/ipc_internal.h"

#define AT_ONCE  256 /* connections open at a time; the next endpoint starts when one is done */
#define RETRY_MS 10  /* while a backlog is full */

typedef struct probe {
    ipc_endpoint *ep; /* NULL: this slot is free */
    int fd;
    size_t at;       /* index into polls */
    int form;        /* index into forms */
    unsigned socket; /* index into ep->sockets */
    int64_t deadline_ns, retry_ns;
    ipc_answer a;
} probe;
typedef struct prober {
    probe slots[AT_ONCE];
    struct pollfd polls[AT_ONCE + 1];
    ipc_msg forms[3];
    ipc_endpoint *eps;
    size_t n, next, busy, n_polls;
    int64_t probe_ms;
} prober;

static void probe_end(prober *all, probe *p)
{
    ipc__close(&p->fd);
    ipc_answer_fini(&p->a);
    p->ep = NULL;
    all->busy--;
}

static void fail(prober *all, probe *p, ipc_cause cause, const err *why)
{
    p->ep->cause = cause;
    p->ep->why = *why;
    probe_end(all, p);
}

static ipc_cause cause_of(int sys)
{
    switch (sys) {
    case EACCES:
    case EPERM: return IPC_PERMISSION;
    case ENOENT: return IPC_NO_SOCKET;
    case ECONNREFUSED: return IPC_STALE_SOCKET;
    default: return IPC_REFUSED; /* says nothing of who made the socket */
    }
}

/* Asks on one socket. 1: asked, 0: its backlog is full; negative, with the cause: it is no good. */
static int ask(prober *all, probe *p, const ipc_socket *s, ipc_cause *cause, err *e)
{
    int sys = 0;
    int rc = ipc__connect_start(p->ep, s->path, &p->fd, &sys, e);
    if (rc == 0) return 0;
    if (rc < 0) {
        *cause = cause_of(sys);
        return rc;
    }
    *cause = IPC_STALE_SOCKET; /* a listener that is another process */
    rc = ipc__check_peer(p->fd, p->ep, s, e);
    if (rc == 0) {
        *cause = IPC_REFUSED; /* the process itself listens, whatever it does with the question */
        rc = ipc__send(p->fd, &all->forms[p->form], p->deadline_ns, NULL, e);
        if (rc == -ERR_TIMEOUT) *cause = IPC_NOT_ANSWERING;
    }
    if (rc == 0) return 1;
    ipc__close(&p->fd);
    return rc;
}

/* Connects and sends; on to the next socket of the process when this one is no good. */
static void probe_start(prober *all, probe *p)
{
    err first = {0};
    ipc_cause cause = IPC_NO_SOCKET;
    p->retry_ns = 0;
    for (; p->socket < p->ep->n_sockets; p->socket++) {
        err e = {0};
        ipc_cause why;
        int rc = ask(all, p, &p->ep->sockets[p->socket], &why, &e);
        if (rc == 0) p->retry_ns = deadline_in_ms(RETRY_MS);
        if (rc > 0) buf_reset(&p->a.b);
        if (rc >= 0) return;
        if (first.kind == ERR_NONE) {
            first = e;
            cause = why;
        }
    }
    fail(all, p, cause, &first);
}

/* Seen with .NET 10: every form holds the command line, and an answer has at most 64 KB. */
static int too_long(err *e)
{
    int rc =
        err_set(e, ERR_ENDPOINT_UNAVAILABLE, "ProcessInfo: the runtime could not tell of itself (E_FAIL, 0x80004005)");
    err_hint(e, "a command line of more than 32,000 characters does that: start it with a shorter one; else it is "
                "starting or shutting down: try again");
    return rc;
}

static void answered(prober *all, probe *p)
{
    err e = {0};
    ipc_cause cause = IPC_GARBAGE;
    int rc = ipc_answer_parse(&p->a, &e);
    if (rc == 0 && !p->a.ok) {
        ipc__close(&p->fd);
        if (p->a.hresult == IPC_E_UNKNOWN_COMMAND && p->form < 2) {
            p->form++;
            probe_start(all, p);
            return;
        }
        cause = IPC_REFUSED;
        rc = p->a.hresult == IPC_E_FAIL ? too_long(&e) : ipc_hresult_err(&e, all->forms[p->form].command, p->a.hresult);
    }
    if (rc == 0) rc = ipc_info_parse(p->a.payload, 3 - p->form, &p->ep->info, &e);
    if (rc < 0) {
        err_hint(&e, "what answers on the socket does not speak the diagnostics protocol as a .NET runtime does");
        fail(all, p, cause, &e);
        return;
    }
    probe_end(all, p);
}

static void probe_read(prober *all, probe *p)
{
    buf *b = &p->a.b;
    err e = {0};
    int size = b->n < IPC_HEADER_SIZE ? IPC_HEADER_SIZE : ipc_header_size(buf_view(b), &e);
    uint8_t *at = size > 0 ? buf_reserve(b, (size_t)size - b->n) : NULL;
    ssize_t n = at ? recv(p->fd, at, (size_t)size - b->n, 0) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        (void)err_set(&e, ERR_ENDPOINT_UNAVAILABLE, "it closed the connection after %zu bytes of an answer", b->n);
        err_hint(&e, "the process may be ending; try again");
        fail(all, p, IPC_REFUSED, &e);
        return;
    }
    b->n += (size_t)n;
    if (b->n < IPC_HEADER_SIZE) return;
    size = ipc_header_size(buf_view(b), &e);
    if (size < 0) {
        err_hint(&e, "what answers on the socket is not a .NET runtime");
        fail(all, p, IPC_GARBAGE, &e);
    } else if (b->n == (size_t)size)
        answered(all, p);
}

static void too_late(prober *all, probe *p)
{
    err e = {0};
    (void)err_set(&e, ERR_TIMEOUT, "it did not answer within %lld ms%s", (long long)all->probe_ms,
                  p->ep->stopped ? ": it is stopped by a signal or a debugger" : "");
    if (p->ep->stopped)
        err_hint(&e, "let it go on: kill -CONT %d, or detach the debugger", p->ep->pid);
    else
        err_hint(&e, "its diagnostics server is busy (a dump, a rundown, a half-open client) or stuck; try again");
    fail(all, p, IPC_NOT_ANSWERING, &e);
}

static void fill(prober *all)
{
    for (size_t i = 0; i < AT_ONCE && all->next < all->n; i++) {
        if (all->slots[i].ep) continue;
        while (all->next < all->n && all->eps[all->next].cause != IPC_OK)
            all->next++;
        if (all->next == all->n) return;
        all->slots[i] = (probe){.ep = &all->eps[all->next++], .fd = -1, .deadline_ns = deadline_in_ms(all->probe_ms)};
        all->busy++;
        probe_start(all, &all->slots[i]);
    }
}

static int64_t prepare(prober *all, const ipc_cancel *cancel)
{
    int64_t until = DEADLINE_NEVER;
    all->polls[0] = (struct pollfd){.fd = cancel ? cancel->fd : -1, .events = POLLIN};
    all->n_polls = 1; /* no more than are in use: poll refuses more than the limit of open files */
    for (size_t i = 0; i < AT_ONCE; i++) {
        probe *p = &all->slots[i];
        if (!p->ep) continue;
        p->at = all->n_polls++;
        all->polls[p->at] = (struct pollfd){.fd = p->fd, .events = POLLIN};
        if (p->deadline_ns < until) until = p->deadline_ns;
        if (p->retry_ns && p->retry_ns < until) until = p->retry_ns;
    }
    return until;
}

static void serve(prober *all)
{
    int64_t now = mono_ns();
    for (size_t i = 0; i < AT_ONCE; i++) {
        probe *p = &all->slots[i];
        if (!p->ep) continue;
        if (all->polls[p->at].revents && p->fd >= 0)
            probe_read(all, p);
        else if (now >= p->deadline_ns)
            too_late(all, p);
        else if (p->retry_ns && now >= p->retry_ns)
            probe_start(all, p);
    }
}

int ipc__probe_all(ipc_endpoint *eps, size_t n, int64_t probe_ms, const ipc_cancel *c, err *e)
{
    static const ipc_command forms[] = {IPC_PROCESS_INFO3, IPC_PROCESS_INFO2, IPC_PROCESS_INFO};
    prober *all = mem_calloc(1, sizeof *all);
    if (!all) return err_set(e, ERR_NO_MEMORY, "no memory to ask the processes");
    *all = (prober){.eps = eps, .n = n, .probe_ms = probe_ms};
    int rc = 0;
    for (int i = 0; i < 3; i++) {
        ipc_msg_init(&all->forms[i]);
        if (rc == 0) rc = ipc_msg_plain(&all->forms[i], forms[i], e);
    }
    if (rc == 0) fill(all);
    while (rc == 0 && all->busy > 0) {
        int64_t until = prepare(all, c);
        int ready = poll(all->polls, all->n_polls, deadline_poll_ms(until));
        if (ready < 0 && errno != EINTR)
            rc = err_sys(e, ERR_IO, errno, "poll failed while asking the processes");
        else if (ready > 0 && all->polls[0].revents)
            rc = err_set(e, ERR_CANCELLED, "cancelled while asking the processes");
        else if (ready >= 0)
            serve(all);
        if (rc == 0) fill(all);
    }
    for (size_t i = 0; i < AT_ONCE; i++)
        if (all->slots[i].ep) probe_end(all, &all->slots[i]);
    for (int i = 0; i < 3; i++)
        ipc_msg_fini(&all->forms[i]);
    free(all);
    return rc;
}
