/* SPDX-License-Identifier: MIT */
/* session.c: an EventPipe session: started on the caller's thread, read on a thread of its own, which is also the only
 * place that ever sends StopTracing: once, on a second connection, while the stream is drained. Not draining would
 * block the target with a lock held. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/ipc_internal.h"

#define CHUNK_SIZE     ((size_t)64 * 1024)
#define STOP_RETRY_MS  10  /* while the target's backlog is full */
#define STOP_ANSWER_MS 250 /* for the answer that follows the end of the stream */
#define STOP_GRACE_MS  500 /* for the stream to end when StopTracing could not be sent */

/* The end of a session with System.Diagnostics.Metrics joins the runtime's collection thread with the lock of all event
 * sources held. In a process that has not used a task yet, that thread's first collection makes an event source, which
 * wants this lock: a stop at that moment leaves the target without diagnostics for good (seen on 9 and 10). So none
 * is sent around the first collection, which is one interval after the start. */
#define METER_PROVIDER   "System.Diagnostics.Metrics"
#define METER_INTERVAL   "RefreshInterval="
#define METER_INTERVAL_S 1.0  /* the runtime's own default */
#define METER_BEFORE_MS  1000 /* a stop that is sent earlier has been carried out before the collection */
#define METER_AFTER_MS   700  /* a collection that has not begun by then: the machine is busy beyond help */
#define METER_LEFT_MS    1000 /* of the time to stop is left for the stop itself */

struct ipc_session {
    ipc_endpoint ep; /* a copy of what connecting needs */
    ipc_session_cfg cfg;
    int stream, wake;
    uint64_t id;
    int version;
    bool filtered, unanswered;
    ipc_answer answer; /* to the start; when it is unanswered, what came of it */
    int64_t started_ns;
    double meter_interval_s; /* 0: no meters */

    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t ended_cond;
    unsigned refs; /* the user's and the thread's */
    bool ended, stop_wanted, aborted;
    int64_t deadline_ns;
};

/* ---- all sessions of the process --------------------------------------------------------------------------------- */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned live;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t all_once = PTHREAD_ONCE_INIT;

static void cond_monotonic(pthread_cond_t *c)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(c, &a);
    pthread_condattr_destroy(&a);
}

static void all_init(void) { cond_monotonic(&all.cond); }

static void all_add(int by)
{
    pthread_mutex_lock(&all.lock);
    all.live += (unsigned)by;
    pthread_cond_broadcast(&all.cond);
    pthread_mutex_unlock(&all.lock);
}

/* Waits on a condition; false at the deadline. */
static bool cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t deadline_ns)
{
    if (deadline_ns == DEADLINE_NEVER) {
        pthread_cond_wait(c, m);
        return true;
    }
    struct timespec t = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
    return pthread_cond_timedwait(c, m, &t) != ETIMEDOUT;
}

unsigned ipc_sessions_live(void)
{
    pthread_mutex_lock(&all.lock);
    unsigned n = all.live;
    pthread_mutex_unlock(&all.lock);
    return n;
}

bool ipc_sessions_wait(int64_t deadline_ns)
{
    pthread_once(&all_once, all_init);
    pthread_mutex_lock(&all.lock);
    while (all.live > 0 && cond_wait_until(&all.cond, &all.lock, deadline_ns))
        ;
    bool none = all.live == 0;
    pthread_mutex_unlock(&all.lock);
    return none;
}

/* ---- the session's thread ---------------------------------------------------------------------------------------- */
typedef struct reader { /* what only the thread sees */
    ipc_session *s;
    ipc_session_end end;
    uint8_t *chunk;
    bool stopping, discard, eof, stop_failed, over;
    int64_t deadline_ns;
    int64_t pause_ns; /* when the silence since the last bytes is a pause; DEADLINE_NEVER: told, or nobody asks */
    int stop_fd;      /* the second connection, -1: none */
    int64_t retry_ns; /* when to try to connect again; 0: no need */
    ipc_msg stop_msg;
    ipc_answer answer;
} reader;

static void finish(reader *r, ipc_end_reason why)
{
    if (!r->over) r->end.reason = why;
    r->over = true;
}

/* The stop request could not be made: the stream gets a moment to end by itself (the target may be on its way out). */
static void stop_failed(reader *r, const err *why)
{
    ipc__close(&r->stop_fd);
    r->retry_ns = 0;
    r->stop_failed = true;
    r->end.why = *why;
    int64_t grace = deadline_in_ms(STOP_GRACE_MS);
    if (grace < r->deadline_ns) r->deadline_ns = grace;
}

/* Connects to the first socket that lets us, as the start did. 0: their backlog is full. */
static int stop_connect_any(reader *r, err *e)
{
    const ipc_endpoint *ep = &r->s->ep;
    int rc = ep->port ? ipc__port_try(ep, &r->stop_fd, e) : err_set(NULL, ERR_ENDPOINT_UNAVAILABLE, "no socket");
    for (unsigned i = 0; i < ep->n_sockets && rc < 0; i++) {
        int sys;
        rc = ipc__connect_start(ep, ep->sockets[i].path, &r->stop_fd, &sys, e);
        if (rc == 1 && ipc__check_peer(r->stop_fd, ep, &ep->sockets[i], e) < 0) {
            ipc__close(&r->stop_fd);
            rc = -ERR_ENDPOINT_UNAVAILABLE;
        }
    }
    return rc;
}

static void stop_connect(reader *r)
{
    err e = {0};
    int rc = stop_connect_any(r, &e);
    r->retry_ns = rc == 0 ? deadline_in_ms(STOP_RETRY_MS) : 0;
    if (rc < 0) {
        stop_failed(r, &e);
        return;
    }
    if (r->stop_fd < 0) return;
    /* 28 bytes into a fresh socket: they fit, so this does not wait. */
    rc = ipc__send(r->stop_fd, &r->stop_msg, r->deadline_ns, NULL, &e);
    if (rc < 0)
        stop_failed(r, &e);
    else
        r->end.stop_sent = true;
}

/* The target has closed its end: the session is over, what is left is in our socket, and its id may be another
 * session's by now. */
static bool hung_up(int fd)
{
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP);
}

/* When a stop may be sent; 0: now. */
static int64_t stop_not_before(const reader *r)
{
    const ipc_session *s = r->s;
    if (s->meter_interval_s <= 0) return 0;
    int64_t first_ns = s->started_ns + (int64_t)(s->meter_interval_s * 1e9), now = mono_ns();
    if (now < first_ns - METER_BEFORE_MS * INT64_C(1000000)) return 0;
    int64_t until = first_ns + METER_AFTER_MS * INT64_C(1000000);
    int64_t latest = r->deadline_ns - METER_LEFT_MS * INT64_C(1000000);
    if (until > latest) until = latest;
    return now < until ? until : 0;
}

static void stop_begin(reader *r, int64_t deadline_ns)
{
    if (deadline_ns < r->deadline_ns) r->deadline_ns = deadline_ns;
    if (r->stopping && r->retry_ns) r->retry_ns = stop_not_before(r) ? stop_not_before(r) : mono_ns();
    if (r->stopping || r->eof) return;
    r->stopping = true;
    err e = {0};
    if (hung_up(r->s->stream)) return;
    int rc = ipc_msg_stop(&r->stop_msg, r->s->id, &e);
    r->retry_ns = rc < 0 ? 0 : stop_not_before(r);
    if (rc < 0)
        stop_failed(r, &e);
    else if (r->retry_ns == 0)
        stop_connect(r);
}

/* Bytes of the answer to StopTracing. Whatever it says, the stream decides about the end. */
static void stop_read(reader *r)
{
    buf *b = &r->answer.b;
    size_t want = IPC_HEADER_SIZE;
    if (b->n >= IPC_HEADER_SIZE) {
        int size = ipc_header_size(buf_view(b), NULL);
        want = size < 0 ? 0 : (size_t)size;
    }
    uint8_t *p = want > b->n ? buf_reserve(b, want - b->n) : NULL;
    ssize_t n = p ? recv(r->stop_fd, p, want - b->n, 0) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) b->n += (size_t)n;
    int size = b->n >= IPC_HEADER_SIZE ? ipc_header_size(buf_view(b), NULL) : IPC_HEADER_SIZE;
    if (n > 0 && size > 0 && (b->n < (size_t)size || b->n == IPC_HEADER_SIZE)) return; /* more to come */
    err e = {0};
    if (b->n > IPC_HEADER_SIZE && ipc_answer_parse(&r->answer, &e) == 0) {
        r->end.stop_answered = true;
        if (!r->answer.ok) (void)ipc_hresult_err(&r->end.why, IPC_STOP_TRACING, r->answer.hresult);
    }
    ipc__close(&r->stop_fd);
}

static void stream_read(reader *r)
{
    ssize_t n = recv(r->s->stream, r->chunk, CHUNK_SIZE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) {
        if (r->discard) return;
        r->end.bytes += (uint64_t)n;
        if (r->s->cfg.on_pause) r->pause_ns = deadline_in_ms(IPC_PAUSE_MS);
        if (r->s->cfg.on_bytes(r->s->cfg.arg, slice_of(r->chunk, (size_t)n)) >= 0) return;
        r->discard = true;
        r->end.reason = IPC_END_CONSUMER;
        stop_begin(r, deadline_in_ms(IPC_ABORT_MS));
        return;
    }
    r->eof = true;
    if (n < 0) {
        (void)err_sys(&r->end.why, ERR_PROCESS_EXITED, errno, "the event stream broke");
        finish(r, IPC_END_RESET);
        return;
    }
    int64_t soon = deadline_in_ms(STOP_ANSWER_MS);
    if (soon < r->deadline_ns) r->deadline_ns = soon;
}

static void wishes(reader *r)
{
    uint64_t n;
    if (read(r->s->wake, &n, sizeof n) < 0) return;
    pthread_mutex_lock(&r->s->lock);
    bool stop = r->s->stop_wanted, aborted = r->s->aborted;
    int64_t deadline = r->s->deadline_ns;
    pthread_mutex_unlock(&r->s->lock);
    if (aborted) {
        r->discard = true;
        r->end.reason = IPC_END_ABORTED;
    }
    if (stop) stop_begin(r, deadline);
}

static void stop_late(reader *r)
{
    err *e = &r->end.why;
    (void)err_set(e, ERR_TIMEOUT, "the event stream had not ended when its time to stop was over");
    ipc__late_hint(&r->s->ep, e);
}

static void pause_told(reader *r)
{
    r->pause_ns = DEADLINE_NEVER;
    if (!r->discard && !r->eof) r->s->cfg.on_pause(r->s->cfg.arg);
}

/* The stream has ended, or time is up: which end is it? */
static void settle(reader *r)
{
    bool late = r->deadline_ns != DEADLINE_NEVER && mono_ns() >= r->deadline_ns;
    bool waiting = r->stop_fd >= 0 && !late;
    if (r->eof && !waiting)
        finish(r, r->discard ? r->end.reason : r->end.stop_sent ? IPC_END_STOPPED : IPC_END_BY_TARGET);
    else if (late && !r->over && r->discard)
        finish(r, r->end.reason);
    else if (late && !r->over) {
        if (!r->stop_failed) stop_late(r);
        finish(r, r->stop_failed ? IPC_END_RESET : IPC_END_DEADLINE);
    }
    if (r->eof && r->stop_failed) r->end.why = (err){0}; /* the target went away by itself: no error to show */
}

static void round_once(reader *r)
{
    int64_t until = r->deadline_ns;
    if (r->retry_ns && r->retry_ns < until) until = r->retry_ns;
    if (r->pause_ns < until) until = r->pause_ns;
    struct pollfd p[3] = {{.fd = r->eof ? -1 : r->s->stream, .events = POLLIN},
                          {.fd = r->s->wake, .events = POLLIN},
                          {.fd = r->stop_fd, .events = POLLIN}};
    if (poll(p, 3, deadline_poll_ms(until)) > 0) {
        if (p[1].revents) wishes(r);
        if (p[0].revents) stream_read(r);
        if (p[2].revents && p[2].fd == r->stop_fd) stop_read(r);
    }
    if (r->retry_ns && mono_ns() >= r->retry_ns && !r->eof) stop_connect(r);
    if (mono_ns() >= r->pause_ns) pause_told(r);
    settle(r);
}

static void session_unref(ipc_session *s)
{
    pthread_mutex_lock(&s->lock);
    bool last = --s->refs == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last) return;
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->ended_cond);
    ipc__close(&s->stream);
    ipc__close(&s->wake);
    ipc_answer_fini(&s->answer);
    ipc_endpoint_fini(&s->ep);
    free(s);
}

static void *session_main(void *arg)
{
    ipc_session *s = arg;
    reader r = {.s = s, .deadline_ns = DEADLINE_NEVER, .pause_ns = DEADLINE_NEVER, .stop_fd = -1};
    ipc_msg_init(&r.stop_msg);
    r.chunk = mem_alloc(CHUNK_SIZE);
    if (!r.chunk) {
        (void)err_set(&r.end.why, ERR_NO_MEMORY, "no memory to read the event stream");
        finish(&r, IPC_END_RESET);
    }
    while (!r.over)
        round_once(&r);
    ipc__close(&r.stop_fd);
    ipc__close(&s->stream); /* before on_end: whoever waits for that may count descriptors */
    free(r.chunk);
    ipc_msg_fini(&r.stop_msg);
    ipc_answer_fini(&r.answer);
    r.end.duration_ns = mono_ns() - s->started_ns;
    s->cfg.on_end(s->cfg.arg, &r.end);
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    pthread_cond_broadcast(&s->ended_cond);
    pthread_mutex_unlock(&s->lock);
    session_unref(s);
    all_add(-1);
    return NULL;
}

static int start_thread(ipc_session *s, void *(*body)(void *), err *e)
{
    sigset_t none, before;
    sigfillset(&none);
    pthread_sigmask(SIG_SETMASK, &none, &before); /* signals are the loop's business */
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    pthread_t t;
    all_add(1);
    int rc = pthread_create(&t, &a, body, s);
    pthread_attr_destroy(&a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) return 0;
    all_add(-1);
    return err_sys(e, ERR_NO_MEMORY, rc, "cannot start a thread for the session");
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */
static bool has_filter(const ipc_collect_cfg *cfg)
{
    for (size_t i = 0; i < cfg->n_providers; i++)
        if (cfg->providers[i].filter) return true;
    return false;
}

static double meter_interval_s(const ipc_collect_cfg *cfg)
{
    for (size_t i = 0; i < cfg->n_providers; i++) {
        if (strcmp(cfg->providers[i].name, METER_PROVIDER) != 0) continue;
        const char *args = cfg->providers[i].args, *p = args ? strstr(args, METER_INTERVAL) : NULL;
        double asked = p ? strtod(p + strlen(METER_INTERVAL), NULL) : 0;
        return asked > 0 && asked < 86400 ? asked : METER_INTERVAL_S;
    }
    return 0;
}

static int take_id(ipc_session *s, err *e)
{
    cursor p = cursor_of(s->answer.payload, IPC_HEADER_SIZE);
    s->id = cursor_u64(&p);
    return cursor_ok(&p) && s->id != 0 ? 0 : err_set(e, ERR_PROTOCOL, "the answer to a start has no session id");
}

/* Sends one form. On success the stream and its id are in s. */
static int collect_once(ipc_session *s, int version, const ipc_collect_cfg *cfg, int64_t deadline_ns,
                        const ipc_cancel *c, err *e)
{
    ipc_msg m;
    ipc_msg_init(&m);
    int rc = ipc_msg_collect(&m, version, cfg, e);
    if (rc == 0) rc = ipc_call(&s->ep, &m, deadline_ns, c, &s->answer, &s->stream, e);
    s->unanswered = rc < 0 && s->stream >= 0;
    s->version = version;
    if (rc == 0) rc = take_id(s, e);
    ipc_msg_fini(&m);
    return rc;
}

static int collect(ipc_session *s, const ipc_collect_cfg *asked, int64_t deadline_ns, const ipc_cancel *c, err *e)
{
    ipc_collect_cfg cfg = *asked;
    ipc_provider *plain = NULL; /* the providers without their filters, for the older forms */
    int first = asked->block_writers ? 6 : 5, rc = 0;
    for (int version = first; version >= 2; version--) {
        if (version < 5 && has_filter(&cfg)) {
            plain = mem_calloc(cfg.n_providers, sizeof *plain);
            if (!plain) return err_set(e, ERR_NO_MEMORY, "no memory for %zu providers", cfg.n_providers);
            for (size_t i = 0; i < cfg.n_providers; i++) {
                plain[i] = cfg.providers[i];
                plain[i].filter = NULL;
            }
            cfg.providers = plain;
        }
        err one = {0};
        rc = collect_once(s, version, &cfg, deadline_ns, c, &one);
        if (rc == 0) break;
        bool older = one.hresult == IPC_E_UNKNOWN_COMMAND && version > 2 && version < 6;
        if (older) continue;
        if (e && e->kind == ERR_NONE) *e = one;
        break;
    }
    s->filtered = rc == 0 && has_filter(&cfg);
    free(plain);
    return rc;
}

/* ---- a start that is given up ------------------------------------------------------------------------------------ */
static int no_bytes(void *arg, slice bytes)
{
    (void)arg;
    (void)bytes;
    return 0;
}

static void no_end(void *arg, const ipc_session_end *end)
{
    (void)arg;
    (void)end;
}

/* The runtime sees that a stream was closed only when it writes to it: a session that it begins after all, or has just
 * begun, would last until its next event. So its answer is waited for a moment, and then it is stopped. */
static void *given_up_main(void *arg)
{
    ipc_session *s = arg;
    if (ipc__recv_rest(s->stream, &s->answer, deadline_in_ms(IPC_LATE_MS), NULL, NULL) == 0 && s->answer.ok &&
        take_id(s, NULL) == 0) {
        s->started_ns = mono_ns();
        ipc_session_abort(s);
        return session_main(s);
    }
    session_unref(s);
    all_add(-1);
    return NULL;
}

/* False: nobody waits for it, and it stays the caller's. */
static bool give_up(ipc_session *s)
{
    s->cfg = (ipc_session_cfg){.on_bytes = no_bytes, .on_end = no_end};
    s->refs = 1;
    return start_thread(s, given_up_main, NULL) == 0;
}

/* What a second connection needs of an endpoint. */
static int endpoint_copy(const ipc_endpoint *from, ipc_endpoint *to, err *e)
{
    *to = (ipc_endpoint){.pid = from->pid,
                         .nspid = from->nspid,
                         .start_time = from->start_time,
                         .uid = from->uid,
                         .stopped = from->stopped,
                         .port = ipc__port_ref(from->port)};
    memcpy(to->cookie, from->cookie, sizeof to->cookie);
    for (unsigned i = 0; i < from->n_sockets; i++) {
        to->sockets[i] = from->sockets[i];
        to->sockets[i].path = slice_dup(slice_str(from->sockets[i].path));
        if (!to->sockets[i].path) return err_set(e, ERR_NO_MEMORY, "no memory for an endpoint");
        to->n_sockets = i + 1;
    }
    return 0;
}

int ipc_session_open(const ipc_endpoint *ep, const ipc_session_cfg *cfg, int64_t deadline_ns, const ipc_cancel *c,
                     ipc_session **out, err *e)
{
    *out = NULL;
    ipc_session *s = mem_calloc(1, sizeof *s);
    if (!s) return err_set(e, ERR_NO_MEMORY, "no memory for a session");
    pthread_once(&all_once, all_init);
    pthread_mutex_init(&s->lock, NULL);
    cond_monotonic(&s->ended_cond);
    s->cfg = *cfg;
    s->cfg.collect = (ipc_collect_cfg){0}; /* the caller's arrays end with this call */
    s->stream = -1;
    s->refs = 1;
    s->deadline_ns = DEADLINE_NEVER;
    s->meter_interval_s = meter_interval_s(&cfg->collect);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = s->wake < 0 ? err_sys(e, ERR_IO, errno, "cannot make an eventfd") : endpoint_copy(ep, &s->ep, e);
    if (rc == 0) rc = collect(s, &cfg->collect, deadline_ns, c, e);
    if (rc == 0) {
        s->started_ns = mono_ns();
        s->refs = 2;
        rc = start_thread(s, session_main, e);
        if (rc < 0) s->refs = 1;
        if (rc == 0) ipc__port_armed(&s->ep);
    }
    if (rc == 0)
        *out = s;
    else if (!s->unanswered || !give_up(s))
        session_unref(s);
    return rc;
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */
static void wish(ipc_session *s, int64_t deadline_ns, bool aborted)
{
    pthread_mutex_lock(&s->lock);
    s->stop_wanted = true;
    s->aborted = s->aborted || aborted;
    if (deadline_ns < s->deadline_ns) s->deadline_ns = deadline_ns;
    pthread_mutex_unlock(&s->lock);
    uint64_t one = 1;
    if (write(s->wake, &one, sizeof one) < 0) return; /* full: it is awake enough */
}

void ipc_session_stop(ipc_session *s, int64_t deadline_ns) { wish(s, deadline_ns, false); }

void ipc_session_abort(ipc_session *s) { wish(s, deadline_in_ms(IPC_ABORT_MS), true); }

bool ipc_session_wait(ipc_session *s, int64_t deadline_ns)
{
    pthread_mutex_lock(&s->lock);
    while (!s->ended && cond_wait_until(&s->ended_cond, &s->lock, deadline_ns))
        ;
    bool ended = s->ended;
    pthread_mutex_unlock(&s->lock);
    return ended;
}

void ipc_session_free(ipc_session *s)
{
    if (!s) return;
    ipc_session_abort(s);
    session_unref(s);
}

int ipc_session_version(const ipc_session *s) { return s->version; }

bool ipc_session_filtered(const ipc_session *s) { return s->filtered; }

const char *ipc_end_reason_name(ipc_end_reason r)
{
    switch (r) {
    case IPC_END_STOPPED: return "stopped";
    case IPC_END_BY_TARGET: return "ended by the target";
    case IPC_END_RESET: return "broken";
    case IPC_END_DEADLINE: return "deadline";
    case IPC_END_ABORTED: return "aborted";
    case IPC_END_CONSUMER: return "ended by its reader";
    }
    return "unknown";
}
