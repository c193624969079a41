/* SPDX-License-Identifier: MIT */
/* port_serve.c: the thread of a reverse-connect port. Every read, write and accept is non-blocking and done under the
 * port's lock; only poll waits. A descriptor of the poll set may be taken by somebody else meanwhile, which shows in
 * its runtime: it then holds another number, or none. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/port_internal.h"

#define ACCEPT_ROUND    64  /* connections accepted before others get their turn */
#define ACCEPT_PAUSE_MS 100 /* when accepting failed for want of descriptors or memory */
#define PORTS_VARIABLE  "DOTNET_DiagnosticPorts"

static const uint8_t advertise_magic[8] = "ADVR_V1";

int ipc_advertise_parse(slice message, ipc_advertise *out, err *e)
{
    cursor c = cursor_of(message, 0);
    slice magic = cursor_bytes(&c, sizeof advertise_magic), cookie = cursor_bytes(&c, sizeof out->cookie);
    uint64_t pid = cursor_u64(&c);
    (void)cursor_u16(&c); /* unused so far */
    if (magic.n && memcmp(magic.p, advertise_magic, sizeof advertise_magic) != 0)
        return err_at(e, ERR_PROTOCOL, 0, "no advertise message: it begins with something else");
    if (!cursor_ok(&c)) return err_at(e, ERR_TRUNCATED, cursor_offset(&c), "an advertise message has 34 bytes");
    memcpy(out->cookie, cookie.p, sizeof out->cookie);
    out->pid = pid;
    return 0;
}

void port__notify(ipc_port *p)
{
    uint64_t one = 1;
    for (port__waiter *w = p->waiters; w; w = w->next)
        if (write(w->fd, &one, sizeof one) < 0) continue; /* full: it has been told */
}

void port__runtime_free(port__runtime *r)
{
    ipc__close(&r->idle);
    ipc__close(&r->asked);
    ipc__close(&r->pidfd);
    free(r);
}

/* ---- resuming ---------------------------------------------------------------------------------------------------- */
static int build_question(const ipc_port *p, const port__runtime *r, ipc_msg *m)
{
    return r->restoring ? ipc_msg_set_environment(m, PORTS_VARIABLE, p->earlier, NULL)
                        : ipc_msg_plain(m, IPC_RESUME, NULL);
}

void port__resume(const ipc_port *p, port__runtime *r)
{
    if (!r->wanted || r->is.resumed || r->asked >= 0 || r->idle < 0 || r->tries == PORT__TRIES) return;
    r->tries++;
    /* A closing port has no second connection to wait for. */
    r->restoring = p->restore && !r->restored && !p->closed;
    ipc_msg m;
    ipc_msg_init(&m);
    /* Some hundred bytes into a fresh connection: they fit, or it is broken and the runtime makes another. */
    bool sent =
        build_question(p, r, &m) == 0 && send(r->idle, m.b.p, m.b.n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)m.b.n;
    ipc_msg_fini(&m);
    if (!sent) {
        r->restored = r->restored || r->restoring;
        ipc__close(&r->idle);
        return;
    }
    r->told = r->told || !r->restoring;
    r->asked = r->idle;
    r->idle = -1;
    r->n_answer = 0;
    r->answer_by = deadline_in_ms(r->restoring ? IPC_PORT_RESTORE_MS : IPC_PORT_RESUME_MS);
}

/* The answer, as far as it is there. 1: an OK, 0: more to come, -1: something else. */
static int answer_of(const port__runtime *r)
{
    if (r->n_answer < IPC_HEADER_SIZE) return 0;
    int size = ipc_header_size(slice_of(r->answer, r->n_answer), NULL);
    if (size < 0 || (size_t)size > sizeof r->answer) return -1;
    if (r->n_answer < (size_t)size) return 0;
    ipc_answer a = {0};
    bool ok = buf_put(&a.b, r->answer, (size_t)size) && ipc_answer_parse(&a, NULL) == 0 && a.ok;
    ipc_answer_fini(&a);
    return ok ? 1 : -1;
}

/* The question is over, answered with an OK or not. */
static void answered(ipc_port *p, port__runtime *r, bool ok)
{
    ipc__close(&r->asked);
    if (r->restoring)
        r->restored = true; /* an older runtime does not know how */
    else if (ok) {
        r->is.resumed = true;
        p->stats.resumed++;
        port__notify(p);
    }
    port__resume(p, r); /* on the connection that it makes next, which may be there already */
}

static void read_answer(ipc_port *p, port__runtime *r)
{
    ssize_t n = recv(r->asked, r->answer + r->n_answer, sizeof r->answer - r->n_answer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) r->n_answer += (size_t)n;
    int answer = answer_of(r);
    if (n > 0 && answer == 0) return;
    answered(p, r, answer == 1);
}

/* ---- connections that advertise ---------------------------------------------------------------------------------- */
static port__runtime *find(const ipc_port *p, const uint8_t cookie[16])
{
    for (unsigned i = 0; i < p->n_runtimes; i++)
        if (memcmp(p->runtimes[i]->is.cookie, cookie, 16) == 0) return p->runtimes[i];
    return NULL;
}

static port__runtime *add(ipc_port *p, const ipc_advertise *ad, pid_t pid)
{
    port__runtime *r = p->n_runtimes < IPC_PORT_RUNTIMES_MAX ? mem_calloc(1, sizeof *r) : NULL;
    if (!r) return NULL;
    r->is.pid = pid;
    r->is.nspid = ad->pid;
    memcpy(r->is.cookie, ad->cookie, sizeof r->is.cookie);
    r->idle = r->asked = -1;
    r->pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
    r->wanted = p->first || p->release_first;
    if (!p->first) p->first = r;
    p->runtimes[p->n_runtimes++] = r;
    p->stats.runtimes++;
    return r;
}

/* A whole advertise message came on fd: the connection is its runtime's idle one from now on. */
static void advertised(ipc_port *p, port__pending *c)
{
    ipc_advertise ad;
    port__runtime *r = NULL;
    if (ipc_advertise_parse(slice_of(c->message, c->n), &ad, NULL) == 0) {
        r = find(p, ad.cookie);
        if (r && r->is.pid != c->pid) r = NULL; /* somebody else with its cookie */
        if (!r && !find(p, ad.cookie)) {
            r = add(p, &ad, c->pid);
            if (!r) {
                p->stats.dropped++;
                ipc__close(&c->fd);
                return;
            }
        }
    }
    if (!r) {
        p->stats.rejected++;
        ipc__close(&c->fd);
        return;
    }
    ipc__close(&r->idle); /* the newest one counts */
    r->idle = c->fd;
    c->fd = -1;
    port__resume(p, r);
    port__notify(p);
}

/* Reads what is there. The slot's descriptor is -1 once the connection is no longer pending. */
static void read_pending(ipc_port *p, port__pending *c)
{
    ssize_t n = recv(c->fd, c->message + c->n, sizeof c->message - c->n, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) c->n += (size_t)n;
    if (n > 0 && c->n < sizeof c->message) return;
    if (c->n == sizeof c->message) {
        advertised(p, c);
        return;
    }
    p->stats.rejected++;
    ipc__close(&c->fd);
}

static void forget_pending(ipc_port *p, unsigned i)
{
    ipc__close(&p->pending[i].fd);
    p->n_pending--;
    memmove(&p->pending[i], &p->pending[i + 1], (p->n_pending - i) * sizeof p->pending[0]);
}

/* Drops those that are done or late. */
static void sweep_pending(ipc_port *p)
{
    int64_t now = mono_ns();
    for (unsigned i = 0; i < p->n_pending;) {
        bool late = p->pending[i].fd >= 0 && p->pending[i].deadline_ns <= now;
        if (late) p->stats.rejected++;
        if (late || p->pending[i].fd < 0)
            forget_pending(p, i);
        else
            i++;
    }
}

static void take_connection(ipc_port *p, int fd)
{
    struct ucred peer = {0};
    socklen_t n = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.uid != geteuid()) {
        p->stats.rejected++;
        ipc__close(&fd);
        return;
    }
    if (p->n_pending == IPC_PORT_PENDING_MAX) { /* a runtime sends at once: who has waited longest is none */
        p->stats.dropped++;
        forget_pending(p, 0);
    }
    port__pending *c = &p->pending[p->n_pending++];
    *c = (port__pending){.fd = fd, .pid = peer.pid, .deadline_ns = deadline_in_ms(IPC_PORT_ADVERTISE_MS)};
    read_pending(p, c);
    if (c->fd < 0) forget_pending(p, p->n_pending - 1);
}

static void accept_some(ipc_port *p)
{
    for (int i = 0; i < ACCEPT_ROUND && p->listener >= 0; i++) {
        int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take_connection(p, fd);
            continue;
        }
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            p->accept_again_ns = deadline_in_ms(ACCEPT_PAUSE_MS);
        return;
    }
}

/* ---- one round --------------------------------------------------------------------------------------------------- */
typedef enum what { WAKE, LISTENER, PENDING, IDLE, ASKED, PROCESS } what;
struct port__set {
    struct pollfd fds[2 + IPC_PORT_PENDING_MAX + 3 * IPC_PORT_RUNTIMES_MAX];
    struct {
        what what;
        port__runtime *r;
    } of[2 + IPC_PORT_PENDING_MAX + 3 * IPC_PORT_RUNTIMES_MAX];
    unsigned n;
    int64_t until_ns;
};

port__set *port__set_new(void) { return mem_alloc(sizeof(port__set)); }

static void watch(port__set *s, int fd, what w, port__runtime *r)
{
    if (fd < 0) return;
    s->fds[s->n] = (struct pollfd){.fd = fd, .events = POLLIN};
    s->of[s->n].what = w;
    s->of[s->n++].r = r;
}

static void until(port__set *s, int64_t ns)
{
    if (ns < s->until_ns) s->until_ns = ns;
}

static void build(ipc_port *p, port__set *s)
{
    s->n = 0;
    s->until_ns = DEADLINE_NEVER;
    watch(s, p->wake, WAKE, NULL);
    if (p->accept_again_ns > mono_ns())
        until(s, p->accept_again_ns);
    else
        watch(s, p->listener, LISTENER, NULL);
    for (unsigned i = 0; i < p->n_pending; i++) {
        watch(s, p->pending[i].fd, PENDING, NULL);
        until(s, p->pending[i].deadline_ns);
    }
    for (unsigned i = 0; i < p->n_runtimes; i++) {
        port__runtime *r = p->runtimes[i];
        watch(s, r->idle, IDLE, r);
        watch(s, r->asked, ASKED, r);
        if (r->asked >= 0) until(s, r->answer_by);
        if (!r->is.gone) watch(s, r->pidfd, PROCESS, r);
    }
}

static void serve(ipc_port *p, const struct pollfd *f, what w, port__runtime *r)
{
    uint64_t n;
    switch (w) {
    case WAKE:
        if (read(f->fd, &n, sizeof n) < 0) return;
        break;
    case LISTENER: accept_some(p); break;
    case PENDING:
        for (unsigned i = 0; i < p->n_pending; i++)
            if (p->pending[i].fd == f->fd) read_pending(p, &p->pending[i]);
        break;
    case IDLE: /* hung up, or it speaks unasked: the runtime makes another */
        if (r->idle == f->fd) ipc__close(&r->idle);
        break;
    case ASKED:
        if (r->asked == f->fd) read_answer(p, r);
        break;
    case PROCESS:
        r->is.gone = true;
        port__notify(p);
        break;
    }
}

/* Runtimes that have ended go, but for the first, about which its owner may still ask; late answers are given up. */
static void sweep_runtimes(ipc_port *p)
{
    for (unsigned i = 0; i < p->n_runtimes;) {
        port__runtime *r = p->runtimes[i];
        if (r->asked >= 0 && r->answer_by <= mono_ns()) answered(p, r, false);
        if (r->is.gone && r != p->first) {
            port__runtime_free(r);
            p->runtimes[i] = p->runtimes[--p->n_runtimes];
        } else
            i++;
    }
}

void *port__main(void *arg)
{
    ipc_port *p = arg;
    port__set *s = p->set;
    pthread_mutex_lock(&p->lock);
    while (!p->quit) {
        build(p, s);
        pthread_mutex_unlock(&p->lock);
        int n = poll(s->fds, s->n, deadline_poll_ms(s->until_ns));
        pthread_mutex_lock(&p->lock);
        for (unsigned i = 0; n > 0 && i < s->n && !p->quit; i++)
            if (s->fds[i].revents) serve(p, &s->fds[i], s->of[i].what, s->of[i].r);
        sweep_pending(p);
        sweep_runtimes(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}
