/* SPDX-License-Identifier: MIT */
/* port.c: making and ending a reverse-connect port, and the connections that others take from it. */
#include "ipc/port.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc/port_internal.h"

#define BACKLOG 255 /* as the runtime's own server */

/* ---- all ports of the process: a process id is looked up in them ------------------------------------------------- */
static struct {
    pthread_mutex_t lock;
    ipc_port *first;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void all_add(ipc_port *p)
{
    pthread_mutex_lock(&all.lock);
    p->next = all.first;
    all.first = p;
    pthread_mutex_unlock(&all.lock);
}

static void all_remove(const ipc_port *p)
{
    pthread_mutex_lock(&all.lock);
    for (ipc_port **at = &all.first; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    pthread_mutex_unlock(&all.lock);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */
static void wake(ipc_port *p)
{
    uint64_t one = 1;
    if (write(p->wake, &one, sizeof one) < 0) return; /* full: it is awake enough */
}

static void port_free(ipc_port *p)
{
    for (unsigned i = 0; i < p->n_runtimes; i++)
        port__runtime_free(p->runtimes[i]);
    for (unsigned i = 0; i < p->n_pending; i++)
        ipc__close(&p->pending[i].fd);
    ipc__close(&p->listener);
    ipc__close(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->set);
    free(p->earlier);
    free(p);
}

void ipc__port_unref(ipc_port *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    bool last = --p->refs == 0;
    p->quit = last;
    pthread_mutex_unlock(&p->lock);
    if (!last) return;
    wake(p);
    pthread_join(p->thread, NULL);
    port_free(p);
}

ipc_port *ipc__port_ref(ipc_port *p)
{
    if (!p) return NULL;
    pthread_mutex_lock(&p->lock);
    p->refs++;
    pthread_mutex_unlock(&p->lock);
    return p;
}

/* Can the variable, and a socket address, hold a path below dir? */
static bool usable(const char *dir)
{
    return dir && dir[0] == '/' && strlen(dir) < sizeof((ipc_port *)0)->folder - 32 && !strpbrk(dir, ",;");
}

static int make_folder(ipc_port *p, const char *dir, err *e)
{
    const char *tmp = dir ? dir : getenv("TMPDIR");
    (void)snprintf(p->folder, sizeof p->folder, "%s/lunette-port-XXXXXX", usable(tmp) ? tmp : "/tmp");
    if (mkdtemp(p->folder)) return 0; /* 0700 */
    int rc = err_sys(e, errno == EACCES ? ERR_PERMISSION_DENIED : ERR_IO, errno, "cannot make a folder for a port");
    err_detail(e, "%s", p->folder);
    err_hint(e, "set TMPDIR to a folder that may be written to");
    p->folder[0] = '\0';
    return rc;
}

static int listen_there(ipc_port *p, err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(p->path, sizeof p->path, "%s/port", p->folder);
    memcpy(a.sun_path, p->path, strlen(p->path) + 1);
    p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Nobody else gets into the folder, so the mode may follow the bind. */
    if (p->listener >= 0 && bind(p->listener, (struct sockaddr *)&a, sizeof a) == 0 && chmod(p->path, 0600) == 0 &&
        listen(p->listener, BACKLOG) == 0)
        return 0;
    int rc = err_sys(e, ERR_IO, errno, "cannot listen for a runtime");
    err_detail(e, "%s", p->path);
    return rc;
}

static int start_thread(ipc_port *p, err *e)
{
    sigset_t none, before;
    sigfillset(&none);
    pthread_sigmask(SIG_SETMASK, &none, &before); /* signals are the loop's business */
    int rc = pthread_create(&p->thread, NULL, port__main, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? 0 : err_sys(e, ERR_NO_MEMORY, rc, "cannot start a thread for a port");
}

static void remove_files(ipc_port *p)
{
    if (!p->folder[0]) return;
    (void)unlink(p->path);
    (void)rmdir(p->folder);
    p->folder[0] = '\0';
}

int ipc_port_open(const ipc_port_cfg *cfg, ipc_port **out, err *e)
{
    *out = NULL;
    ipc_port *p = mem_calloc(1, sizeof *p);
    if (!p) return err_set(e, ERR_NO_MEMORY, "no memory for a port");
    p->listener = p->wake = -1;
    p->refs = 1;
    pthread_mutex_init(&p->lock, NULL);
    p->set = port__set_new();
    p->restore = cfg && cfg->restore;
    if (p->restore && cfg->earlier) p->earlier = slice_dup(slice_str(cfg->earlier));
    bool made = p->set && (!p->restore || !cfg->earlier || p->earlier);
    int rc = made ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for a port");
    if (rc == 0) {
        p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (p->wake < 0) rc = err_sys(e, ERR_IO, errno, "cannot make an eventfd");
    }
    if (rc == 0) rc = make_folder(p, cfg ? cfg->dir : NULL, e);
    if (rc == 0) rc = listen_there(p, e);
    if (rc == 0) rc = start_thread(p, e);
    if (rc < 0) {
        remove_files(p);
        port_free(p);
        return rc;
    }
    all_add(p);
    *out = p;
    return 0;
}

const char *ipc_port_path(const ipc_port *p) { return p->path; }

/* ---- waiting ----------------------------------------------------------------------------------------------------- */
/* Whether what is waited for has come; under the lock. Negative ends the waiting with that. */
typedef int (*ready_fn)(ipc_port *p, void *arg, err *e);

static void waiter_remove(ipc_port *p, const port__waiter *w)
{
    for (port__waiter **at = &p->waiters; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            return;
        }
}

/* Waits until ready gives something other than 0. */
static int wait_until(ipc_port *p, ready_fn ready, void *arg, int64_t deadline_ns, const ipc_cancel *c, err *e)
{
    port__waiter w = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (w.fd < 0) return err_sys(e, ERR_IO, errno, "cannot make an eventfd");
    pthread_mutex_lock(&p->lock);
    w.next = p->waiters;
    p->waiters = &w;
    int rc;
    while ((rc = ready(p, arg, e)) == 0) {
        pthread_mutex_unlock(&p->lock);
        int waited = ipc__wait(w.fd, POLLIN, deadline_ns, c);
        uint64_t n;
        pthread_mutex_lock(&p->lock);
        if (waited == 0 && read(w.fd, &n, sizeof n) < 0) continue;
        if (waited == 0) continue;
        rc = waited == -ERR_CANCELLED ? err_set(e, ERR_CANCELLED, "cancelled while waiting for the runtime")
                                      : err_set(e, ERR_TIMEOUT, "the runtime did not connect in time");
        break;
    }
    waiter_remove(p, &w);
    pthread_mutex_unlock(&p->lock);
    ipc__close(&w.fd);
    return rc < 0 ? rc : 0;
}

/* Nobody is left who still has to be told to go on; and while endpoints lead here, each runtime has left a connection
 * over which its session can be stopped. */
static int may_close(ipc_port *p, void *arg, err *e)
{
    (void)arg;
    (void)e;
    for (unsigned i = 0; i < p->n_runtimes; i++) {
        const port__runtime *r = p->runtimes[i];
        if (r->is.gone) continue;
        if (!r->told && r->tries < PORT__TRIES) return 0;
        if (p->refs > 1 && r->idle < 0) return 0;
    }
    return 1;
}

void ipc_port_close(ipc_port *p)
{
    if (!p) return;
    all_remove(p);
    pthread_mutex_lock(&p->lock);
    p->closed = true;
    for (unsigned i = 0; i < p->n_runtimes; i++) {
        p->runtimes[i]->wanted = true;
        port__resume(p, p->runtimes[i]);
    }
    pthread_mutex_unlock(&p->lock);
    wake(p);
    (void)wait_until(p, may_close, NULL, deadline_in_ms(IPC_PORT_CLOSE_MS), NULL, NULL);
    remove_files(p);
    pthread_mutex_lock(&p->lock);
    ipc__close(&p->listener);
    port__notify(p);
    pthread_mutex_unlock(&p->lock);
    wake(p);
    ipc__port_unref(p);
}

static int first_there(ipc_port *p, void *arg, err *e)
{
    (void)e;
    if (!p->first) return 0;
    *(ipc_port_runtime *)arg = p->first->is;
    return 1;
}

int ipc_port_wait(ipc_port *p, int64_t deadline_ns, const ipc_cancel *c, ipc_port_runtime *out, err *e)
{
    return wait_until(p, first_there, out, deadline_ns, c, e);
}

static int first_resumed(ipc_port *p, void *arg, err *e)
{
    (void)arg;
    if (!p->first) return 0;
    if (p->first->is.resumed) return 1;
    return p->first->is.gone
               ? err_set(e, ERR_PROCESS_EXITED, "process %d ended before it was told to go on", p->first->is.pid)
               : 0;
}

int ipc_port_wait_resumed(ipc_port *p, int64_t deadline_ns, const ipc_cancel *c, err *e)
{
    return wait_until(p, first_resumed, NULL, deadline_ns, c, e);
}

static void release(ipc_port *p, const uint8_t *cookie)
{
    pthread_mutex_lock(&p->lock);
    p->release_first = true;
    port__runtime *r = p->first;
    if (r && (!cookie || memcmp(r->is.cookie, cookie, sizeof r->is.cookie) == 0)) {
        r->wanted = true;
        port__resume(p, r);
    }
    pthread_mutex_unlock(&p->lock);
    wake(p); /* its poll set has changed */
}

void ipc_port_release(ipc_port *p) { release(p, NULL); }

void ipc_port_skip(ipc_port *p, bool keep_variable)
{
    pthread_mutex_lock(&p->lock);
    port__runtime *r = p->first;
    p->first = NULL;
    p->release_first = false;
    if (r) {
        r->restored = r->restored || keep_variable;
        r->wanted = true;
        port__resume(p, r);
    }
    pthread_mutex_unlock(&p->lock);
    wake(p);
}

void ipc__port_armed(const ipc_endpoint *ep)
{
    if (ep->port) release(ep->port, ep->cookie);
}

ipc_port_stats ipc_port_stats_of(ipc_port *p)
{
    pthread_mutex_lock(&p->lock);
    ipc_port_stats s = p->stats;
    s.held = p->first && !p->first->is.resumed && !p->first->is.gone;
    pthread_mutex_unlock(&p->lock);
    return s;
}

/* ---- endpoints --------------------------------------------------------------------------------------------------- */
static void lead_to(ipc_port *p, const port__runtime *r, ipc_endpoint *ep)
{
    p->refs++;
    ep->port = p;
    memcpy(ep->cookie, r->is.cookie, sizeof ep->cookie);
}

int ipc_port_endpoint(ipc_port *p, ipc_endpoint *out, err *e)
{
    *out = (ipc_endpoint){0};
    pthread_mutex_lock(&p->lock);
    if (p->first) {
        *out = (ipc_endpoint){.pid = p->first->is.pid, .nspid = (pid_t)p->first->is.nspid, .uid = geteuid()};
        lead_to(p, p->first, out);
    }
    pthread_mutex_unlock(&p->lock);
    return out->port ? 0 : err_set(e, ERR_NOT_FOUND, "no runtime has connected yet");
}

bool ipc__port_find(pid_t pid, ipc_endpoint *ep)
{
    pthread_mutex_lock(&all.lock); /* a port on the list is not being freed: its owner takes it off first */
    for (ipc_port *p = all.first; p && !ep->port; p = p->next) {
        pthread_mutex_lock(&p->lock);
        for (unsigned i = 0; i < p->n_runtimes && !ep->port; i++)
            if (p->runtimes[i]->is.pid == pid && !p->runtimes[i]->is.gone) lead_to(p, p->runtimes[i], ep);
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_unlock(&all.lock);
    return ep->port != NULL;
}

typedef struct taking {
    const uint8_t *cookie;
    pid_t pid;
    int fd;
} taking;

static bool hung_up(int fd)
{
    struct pollfd f = {.fd = fd, .events = POLLIN}; /* an idle runtime has nothing to say either */
    return poll(&f, 1, 0) != 0;
}

static int take(ipc_port *p, void *arg, err *e)
{
    taking *t = arg;
    port__runtime *r = NULL;
    for (unsigned i = 0; i < p->n_runtimes && !r; i++)
        if (memcmp(p->runtimes[i]->is.cookie, t->cookie, sizeof r->is.cookie) == 0) r = p->runtimes[i];
    if (!r || r->is.gone) return err_set(e, ERR_PROCESS_EXITED, "process %d has ended", t->pid);
    if (r->idle >= 0 && hung_up(r->idle)) ipc__close(&r->idle);
    if (r->idle < 0)
        return p->closed
                   ? err_set(e, ERR_ENDPOINT_UNAVAILABLE, "the port at which process %d was reached is closed", t->pid)
                   : 0;
    t->fd = r->idle;
    r->idle = -1;
    return 1;
}

int ipc__port_try(const ipc_endpoint *ep, int *out, err *e)
{
    ipc_port *p = ep->port;
    taking t = {.cookie = ep->cookie, .pid = ep->pid, .fd = -1};
    pthread_mutex_lock(&p->lock);
    int rc = take(p, &t, e);
    pthread_mutex_unlock(&p->lock);
    *out = t.fd;
    return rc;
}

int ipc__port_take(const ipc_endpoint *ep, int64_t deadline_ns, const ipc_cancel *c, int *out, err *e)
{
    taking t = {.cookie = ep->cookie, .pid = ep->pid, .fd = -1};
    int rc = wait_until(ep->port, take, &t, deadline_ns, c, e);
    *out = t.fd;
    return rc;
}
