/* SPDX-License-Identifier: MIT */
/* source.c: one thread feeds the bytes of a session or a file to the reader; the reader's events, as far as wanted, are
 * copied into a bounded queue. */
#include "probe/source.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clr/clr.h"

#define WAKE_AT 256 /* events in a file's queue that are worth a wake before it is full */

/* What the source knows of a kind of event. */
typedef struct kind_use {
    struct kind_use *next;
    bool queue, rundown;
    int methods; /* code for the map of methods */
    probe_kind *probe;
} kind_use;

struct source {
    atomic_uint refs; /* the consumer's and the thread's */
    source_cfg cfg;
    source_want *want; /* a copy, strings on the heap */
    nt_reader *reader; /* the thread's until the end, then whoever asks */
    ipc_session *session;
    bool live;
    char *path;
    int save_fd;
    kind_use *uses;

    /* Over the reducers and the names: held by the reader while it reads, taken before `lock`. */
    pthread_mutex_t engine_lock;
    atomic_uint peekers; /* who wait for it: the reader lets them */
    probe *engine;       /* NULL: no program */
    clr_methods *methods;
    bool names_wanted; /* the map was told which addresses matter */
    source *names_for; /* whose map gets the methods of this stream too, or NULL */

    int64_t last_ns;   /* time of the last event or sequence point; the reader's */
    atomic_bool muted; /* stop of a file, or close: events are only counted */
    atomic_bool closed;

    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t room;
    source_record *head, *tail;
    size_t n, bytes;
    bool woken; /* wake was called and nothing was taken since */
    bool ended;
    bool finished, finish_told, finish_unseen;
    int64_t deadline_ns;
    int64_t started_ns, wish_ns;
    source_summary sum;
};

/* ---- all sources of the process ---------------------------------------------------------------------------------- */
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

static bool cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t deadline_ns)
{
    if (deadline_ns == DEADLINE_NEVER) return pthread_cond_wait(c, m) == 0;
    struct timespec t = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
    return pthread_cond_timedwait(c, m, &t) != ETIMEDOUT;
}

unsigned sources_live(void)
{
    pthread_mutex_lock(&all.lock);
    unsigned n = all.live;
    pthread_mutex_unlock(&all.lock);
    return n;
}

bool sources_wait(int64_t deadline_ns)
{
    pthread_once(&all_once, all_init);
    pthread_mutex_lock(&all.lock);
    while (all.live > 0 && cond_wait_until(&all.cond, &all.lock, deadline_ns))
        ;
    bool none = all.live == 0;
    pthread_mutex_unlock(&all.lock);
    return none && ipc_sessions_wait(deadline_ns);
}

/* ---- the reader's callbacks, on the source's thread -------------------------------------------------------------- */
static bool name_is(slice s, const char *name) { return strlen(name) == s.n && memcmp(name, s.p, s.n) == 0; }

static bool wanted(const source *s, const nt_kind *k)
{
    if (s->cfg.n_want == 0) return !s->engine && !s->names_for;
    for (size_t i = 0; i < s->cfg.n_want; i++) {
        const source_want *w = &s->want[i];
        if (strlen(w->provider) != k->provider.n ||
            strncasecmp(w->provider, (const char *)k->provider.p, k->provider.n) != 0)
            continue;
        if (!w->event || strcmp(w->event, "*") == 0 || name_is(k->display, w->event) || name_is(k->name, w->event))
            return true;
    }
    return false;
}

static int on_kind(void *arg, nt_kind *k)
{
    source *s = arg;
    kind_use *u = mem_calloc(1, sizeof *u);
    k->muted = !u;
    if (!u) return 0;
    u->next = s->uses;
    s->uses = u;
    k->user = u;
    u->queue = wanted(s, k);
    u->methods = s->methods || s->names_for ? clr_methods_kind(k) : 0;
    u->rundown = slice_eq_str(k->provider, "Microsoft-Windows-DotNETRuntimeRundown");
    u->probe = s->engine ? probe_bind(s->engine, k) : NULL;
    k->muted = !u->queue && !u->methods && !u->probe;
    return 0;
}

static source_record *record_of(const source *s, const nt_event *ev)
{
    source_record *r = mem_alloc(sizeof *r + ev->payload.n);
    if (!r) return NULL;
    const nt_trace *t = nt_trace_info(s->reader);
    *r = (source_record){.kind = ev->kind,
                         .time_ns = nt_ns(t, ev->ts),
                         .unix_ns = nt_unix_ns(t, ev->ts),
                         .thread = ev->thread,
                         .n = (uint32_t)ev->payload.n};
    r->has_activity = ev->activity != NULL;
    if (ev->activity) memcpy(r->activity, ev->activity, 16);
    r->has_related = ev->related != NULL;
    if (ev->related) memcpy(r->related, ev->related, 16);
    if (ev->payload.n) memcpy(r->payload, ev->payload.p, ev->payload.n);
    return r;
}

static size_t record_size(const source_record *r) { return sizeof *r + r->n; }

static void wake_locked(source *s)
{
    if (s->woken) return;
    s->woken = true;
    s->cfg.wake(s->cfg.arg, false);
}

static bool full(const source *s) { return s->n >= s->cfg.queue_events || s->bytes >= s->cfg.queue_bytes; }

/* A file has time: its reader waits for room, and lets go of the reducers meanwhile. Returns false when the event is
 * not to be kept. */
static bool make_room(source *s)
{
    while (!s->live && full(s) && !s->muted && mono_ns() < s->deadline_ns) {
        wake_locked(s);
        pthread_mutex_unlock(&s->engine_lock);
        (void)cond_wait_until(&s->room, &s->lock, s->deadline_ns);
        pthread_mutex_unlock(&s->lock);
        pthread_mutex_lock(&s->engine_lock);
        pthread_mutex_lock(&s->lock);
    }
    return !s->muted && !full(s);
}

/* Is the time of a stopped file over, or was it closed? Then the reader stops. */
static bool give_up(const source *s)
{
    return s->closed || (!s->live && s->deadline_ns != DEADLINE_NEVER && mono_ns() >= s->deadline_ns);
}

/* Puts a record (NULL: there was no memory) into the queue. False: it was dropped. */
static bool enqueue(source *s, source_record *r)
{
    pthread_mutex_lock(&s->lock);
    bool kept = make_room(s) && r;
    if (kept) {
        *(s->tail ? &s->tail->next : &s->head) = r;
        s->tail = r;
        s->n++;
        s->bytes += record_size(r);
        r = NULL;
        if (!s->live && s->n >= WAKE_AT) wake_locked(s);
    } else if (!s->muted)
        s->sum.dropped++;
    pthread_mutex_unlock(&s->lock);
    free(r);
    return kept;
}

static bool on_each(void *arg, uint32_t each, const void *tlv, size_t n)
{
    source_record *r = mem_alloc(sizeof *r + n);
    if (r) {
        *r = (source_record){.each = each, .n = (uint32_t)n};
        memcpy(r->payload, tlv, n);
    }
    return enqueue(arg, r);
}

/* Before the first row of the rundown, which may be one of a hundred thousand: from here on only methods that some
 * stack hits are of use. A file keeps them all, since its stacks may come later. */
static void narrow_names(source *s)
{
    size_t n;
    s->names_wanted = true;
    if (!s->live) return;
    uint64_t *ips = probe_addresses(s->engine, &n);
    uint64_t none = 0;
    (void)clr_methods_want(s->methods, ips ? ips : &none, ips ? n : 1);
    free(ips);
}

static void reduce(source *s, const kind_use *u, const nt_event *ev)
{
    probe_event(s->engine, u->probe, s->reader, ev);
    if (!probe_finished(s->engine) || s->finish_told) return;
    s->finish_told = true;
    pthread_mutex_lock(&s->lock);
    s->finished = s->finish_unseen = true;
    s->woken = false;
    wake_locked(s);
    pthread_mutex_unlock(&s->lock);
}

static void take_method(source *s, const kind_use *u, const nt_event *ev)
{
    if (s->methods) {
        if (u->rundown && !s->names_wanted) narrow_names(s);
        (void)clr_methods_event(s->methods, u->methods, ev);
    }
    source *t = s->names_for; /* times are ticks of one clock in all sessions of a process */
    if (!t) return;
    pthread_mutex_lock(&t->engine_lock);
    if (t->methods) (void)clr_methods_event(t->methods, u->methods, ev);
    pthread_mutex_unlock(&t->engine_lock);
}

static int on_event(void *arg, const nt_event *ev)
{
    source *s = arg;
    const kind_use *u = ev->kind->user;
    if (u->methods) take_method(s, u, ev);
    int64_t ns = nt_ns(nt_trace_info(s->reader), ev->ts);
    if (ns > s->last_ns && !u->rundown) s->last_ns = ns;
    bool muted = atomic_load_explicit(&s->muted, memory_order_relaxed);
    int stop = atomic_load_explicit(&s->closed, memory_order_relaxed) ? 1 : 0;
    if (u->probe && !muted) reduce(s, u, ev);
    if (u->queue) (void)enqueue(s, record_of(s, ev));
    return stop;
}

/* A sequence point is later than all events before it, muted ones too, and the runtime writes one at the end. */
static int on_sequence_point(void *arg, int64_t ts)
{
    source *s = arg;
    int64_t ns = nt_ns(nt_trace_info(s->reader), ts);
    if (ns > s->last_ns) s->last_ns = ns;
    return 0;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */
static void records_drop(source *s)
{
    source_record *r = s->head;
    s->head = s->tail = NULL;
    s->n = s->bytes = 0;
    source_records_free(r);
}

static void totals(source *s)
{
    source_summary *sum = &s->sum;
    const nt_stats *st = nt_stats_of(s->reader);
    const nt_trace *t = nt_trace_info(s->reader);
    sum->events = st->events + st->unknown_kind;
    sum->bytes = st->bytes;
    sum->lost = st->lost;
    sum->pid = t ? t->pid : -1;
    sum->processors = t ? t->processors : -1;
    sum->pointer_size = t ? t->pointer_size : 0;
    sum->start_unix_ns = t ? t->sync_unix_ns : 0;
    int64_t until = s->wish_ns ? s->wish_ns : mono_ns();
    sum->duration_ns = s->live ? until - s->started_ns : s->last_ns;
}

/* Everything has been read: totals, then the last wake. rc and e are the reader's last word, why the session's. */
static void settle(source *s, int rc, const err *e, const err *why)
{
    if (s->save_fd >= 0 && close(s->save_fd) < 0)
        (void)err_sys(&s->sum.save_error, ERR_IO, errno, "cannot save the stream");
    s->save_fd = -1;
    pthread_mutex_lock(&s->lock);
    totals(s);
    s->sum.complete = rc == 0 && nt_ended(s->reader);
    if (!s->sum.complete) {
        s->sum.incomplete = why->kind != ERR_NONE ? *why : *e;
        if (s->closed)
            s->sum.incomplete = (err){.kind = ERR_CANCELLED, .message = "closed before its end"};
        else
            (void)err_set(&s->sum.incomplete, ERR_TRUNCATED, "the event stream stopped before its end mark");
    }
    s->ended = true;
    pthread_mutex_unlock(&s->lock);
    s->cfg.wake(s->cfg.arg, true);
    source_unref(s);
    all_add(-1);
}

/* ---- a live session ---------------------------------------------------------------------------------------------- */
static void save(source *s, slice b)
{
    source_summary *sum = &s->sum;
    if (s->save_fd < 0 || sum->save_truncated || sum->save_error.kind != ERR_NONE) return;
    if (b.n > s->cfg.save_max - sum->saved_bytes) {
        b.n = (size_t)(s->cfg.save_max - sum->saved_bytes);
        sum->save_truncated = true;
    }
    while (b.n > 0) {
        ssize_t n = write(s->save_fd, b.p, b.n);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            (void)err_sys(&sum->save_error, ERR_IO, errno, "cannot save the stream");
            return;
        }
        b = slice_of(b.p + n, b.n - (size_t)n);
        sum->saved_bytes += (uint64_t)n;
    }
}

/* Whoever waits to look at the reducers comes first: a mutex alone would let a busy reader have it again and again. */
static void let_peek(source *s)
{
    while (atomic_load(&s->peekers) > 0)
        (void)sched_yield();
}

static int on_bytes(void *arg, slice bytes)
{
    source *s = arg;
    save(s, bytes);
    let_peek(s);
    pthread_mutex_lock(&s->engine_lock);
    int rc = nt_feed(s->reader, bytes.p, bytes.n, NULL);
    pthread_mutex_unlock(&s->engine_lock);
    pthread_mutex_lock(&s->lock);
    if (s->n > 0) wake_locked(s);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void session_ended(void *arg, const ipc_session_end *end)
{
    source *s = arg;
    err e = {0}, why = end->why;
    pthread_mutex_lock(&s->engine_lock);
    int rc = nt_finish(s->reader, &e);
    pthread_mutex_unlock(&s->engine_lock);
    s->started_ns = mono_ns() - end->duration_ns; /* the runtime's OK, not our request */
    if (why.kind == ERR_NONE && rc == -ERR_TRUNCATED && end->reason == IPC_END_BY_TARGET) {
        (void)err_set(&why, ERR_PROCESS_EXITED,
                      "the target went away in the middle of the session: what came before is kept");
        err_hint(&why, "it crashed or was killed: look at its exit code and log, and list the processes again");
    }
    settle(s, rc, &e, &why);
}

/* ---- a file ------------------------------------------------------------------------------------------------------ */
static int file_progress(void *arg, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    source *s = arg;
    if (atomic_load(&s->peekers) > 0) {
        pthread_mutex_unlock(&s->engine_lock);
        let_peek(s);
        pthread_mutex_lock(&s->engine_lock);
    }
    pthread_mutex_lock(&s->lock);
    int stop = give_up(s) ? 1 : 0;
    pthread_mutex_unlock(&s->lock);
    return stop;
}

static void *file_main(void *arg)
{
    source *s = arg;
    err e = {0}, why = {0};
    pthread_mutex_lock(&s->engine_lock);
    int rc = nt_read_file(s->reader, s->path, file_progress, s, &e);
    pthread_mutex_unlock(&s->engine_lock);
    pthread_mutex_lock(&s->lock);
    bool late = rc < 0 && !s->closed && give_up(s);
    pthread_mutex_unlock(&s->lock);
    if (late) (void)err_set(&why, ERR_TIMEOUT, "the file had not been read to its end when its time to stop was over");
    settle(s, rc, &e, &why);
    return NULL;
}

static int file_thread(source *s, err *e)
{
    sigset_t none, before;
    sigfillset(&none);
    pthread_sigmask(SIG_SETMASK, &none, &before);
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    pthread_t t;
    all_add(1);
    int rc = pthread_create(&t, &a, file_main, s);
    pthread_attr_destroy(&a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) return 0;
    all_add(-1);
    return err_sys(e, ERR_NO_MEMORY, rc, "cannot start a thread to read a file");
}

/* ---- making and ending ------------------------------------------------------------------------------------------- */
static void source_free(source *s)
{
    for (size_t i = 0; s->want && i < s->cfg.n_want; i++) {
        free((char *)s->want[i].provider);
        free((char *)s->want[i].event);
    }
    free(s->want);
    free(s->path);
    records_drop(s);
    if (s->save_fd >= 0) (void)close(s->save_fd);
    ipc_session_free(s->session);
    nt_free(s->reader);
    probe_free(s->engine);
    clr_methods_free(s->methods);
    source_unref(s->names_for);
    while (s->uses) {
        kind_use *next = s->uses->next;
        free(s->uses);
        s->uses = next;
    }
    pthread_mutex_destroy(&s->engine_lock);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->room);
    free(s);
}

source *source_ref(source *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void source_unref(source *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) source_free(s);
}

static int copy_wants(source *s, const source_cfg *cfg, err *e)
{
    if (cfg->n_want > SOURCE_WANTS_MAX)
        return err_set(e, ERR_LIMIT, "%zu wanted events are more than %d", cfg->n_want, SOURCE_WANTS_MAX);
    s->want = cfg->n_want ? mem_calloc(cfg->n_want, sizeof *s->want) : NULL;
    if (cfg->n_want && !s->want) return err_set(e, ERR_NO_MEMORY, "no memory for a source");
    for (size_t i = 0; i < cfg->n_want; i++) {
        s->want[i].provider = slice_dup(slice_str(cfg->want[i].provider));
        if (cfg->want[i].event) s->want[i].event = slice_dup(slice_str(cfg->want[i].event));
        if (!s->want[i].provider || (cfg->want[i].event && !s->want[i].event))
            return err_set(e, ERR_NO_MEMORY, "no memory for a source");
    }
    return 0;
}

static int make_engine(source *s, const probe_program *program, err *e)
{
    probe_program mine = *program;
    mine.each = on_each;
    mine.each_arg = s;
    s->engine = probe_new(&mine, e);
    s->cfg.program = NULL; /* was borrowed */
    if (!s->engine) return e && e->kind != ERR_NONE ? -(int)e->kind : -ERR_NO_MEMORY;
    if (!probe_wants_names(s->engine)) return 0;
    s->methods = clr_methods_new(0);
    return s->methods ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for the names of methods");
}

static int source_new(const source_cfg *cfg, bool live, source **out, err *e)
{
    pthread_once(&all_once, all_init);
    source *s = mem_calloc(1, sizeof *s);
    if (!s) return err_set(e, ERR_NO_MEMORY, "no memory for a source");
    atomic_init(&s->refs, 1);
    s->cfg = *cfg;
    if (!s->cfg.queue_events) s->cfg.queue_events = SOURCE_QUEUE_EVENTS;
    if (!s->cfg.queue_bytes) s->cfg.queue_bytes = SOURCE_QUEUE_BYTES;
    if (!s->cfg.save_max) s->cfg.save_max = SOURCE_SAVE_MAX;
    s->live = live;
    s->names_for = live && cfg->names_for ? source_ref(cfg->names_for) : NULL;
    s->save_fd = -1;
    s->deadline_ns = DEADLINE_NEVER;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->engine_lock, NULL);
    cond_monotonic(&s->room);
    int rc = copy_wants(s, cfg, e);
    if (rc == 0 && cfg->program) rc = make_engine(s, cfg->program, e);
    nt_options o = nt_options_default();
    o.no_stacks = !s->engine || !probe_uses_stacks(s->engine);
    o.resolve = clr_resolve;
    if (rc == 0)
        s->reader =
            nt_new(&o, &(nt_sink){.kind = on_kind, .event = on_event, .sequence_point = on_sequence_point}, s, e);
    if (rc == 0 && !s->reader) rc = -ERR_NO_MEMORY;
    if (rc < 0)
        source_unref(s);
    else
        *out = s;
    return rc;
}

static int open_save(source *s, const char *path, err *e)
{
    if (!path) return 0;
    s->save_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->save_fd >= 0) return 0;
    int rc = err_sys(e,
                     errno == EACCES || errno == EPERM ? ERR_PERMISSION_DENIED
                     : errno == EEXIST                 ? ERR_CONFLICT
                                                       : ERR_IO,
                     errno, "cannot make the file for the stream");
    err_detail(e, "%s", path);
    return rc;
}

int source_open_live(const ipc_endpoint *ep, const ipc_collect_cfg *collect, const source_cfg *cfg, int64_t deadline_ns,
                     const ipc_cancel *c, source **out, err *e)
{
    source *s = NULL;
    *out = NULL;
    int rc = source_new(cfg, true, &s, e);
    if (rc < 0) return rc;
    rc = open_save(s, cfg->save_to, e);
    if (rc == 0) {
        ipc_session_cfg sc = {.collect = *collect, .on_bytes = on_bytes, .on_end = session_ended, .arg = s};
        if ((s->methods || s->names_for) && !sc.collect.rundown_keywords)
            sc.collect.rundown_keywords = CLR_NAMES_RUNDOWN_KEYWORDS;
        if (s->engine && probe_uses_stacks(s->engine)) sc.collect.stacks = true;
        s->started_ns = mono_ns();
        source_ref(s);
        all_add(1);
        rc = ipc_session_open(ep, &sc, deadline_ns, c, &s->session, e);
        if (rc == 0) {
            *out = s;
            return 0;
        }
        all_add(-1);
        atomic_fetch_sub(&s->refs, 1); /* the thread's */
    }
    if (s->save_fd >= 0) (void)unlink(cfg->save_to); /* just made, and empty */
    source_unref(s);
    return rc;
}

int source_open_file(const char *path, const source_cfg *cfg, source **out, err *e)
{
    source *s = NULL;
    *out = NULL;
    if (cfg->save_to) return err_set(e, ERR_INVALID_ARGUMENT, "a recorded file is not saved again");
    if (access(path, R_OK) < 0) {
        int rc = err_sys(e,
                         errno == ENOENT   ? ERR_NOT_FOUND
                         : errno == EACCES ? ERR_PERMISSION_DENIED
                                           : ERR_IO,
                         errno, "cannot read the trace file");
        err_detail(e, "%s", path);
        return rc;
    }
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* to open a pipe or a device may take for ever */
        int rc = err_set(e, ERR_INVALID_ARGUMENT, "a recorded trace is a plain file, and this is none");
        err_detail(e, "%s", path);
        return rc;
    }
    int rc = source_new(cfg, false, &s, e);
    if (rc < 0) return rc;
    s->path = slice_dup(slice_str(path));
    rc = s->path ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for a source");
    s->started_ns = mono_ns();
    source_ref(s);
    if (rc == 0) rc = file_thread(s, e);
    if (rc == 0) {
        *out = s;
        return 0;
    }
    atomic_fetch_sub(&s->refs, 1); /* the thread's */
    source_unref(s);
    return rc;
}

source_record *source_take(source *s, size_t max_events, size_t max_bytes)
{
    pthread_mutex_lock(&s->lock);
    source_record *first = s->head, *last = NULL;
    s->finish_unseen = false;
    size_t bytes = 0;
    for (size_t n = 0; s->head && n < max_events && bytes < max_bytes; n++) {
        last = s->head;
        bytes += record_size(last);
        s->head = last->next;
        s->n--;
    }
    s->bytes -= bytes;
    if (!s->head) {
        s->tail = NULL;
        s->woken = false;
    }
    if (last) last->next = NULL;
    pthread_cond_signal(&s->room);
    pthread_mutex_unlock(&s->lock);
    return first;
}

void source_records_free(source_record *r)
{
    while (r) {
        source_record *next = r->next;
        free(r);
        r = next;
    }
}

bool source_finished(source *s)
{
    pthread_mutex_lock(&s->lock);
    bool finished = s->finished;
    pthread_mutex_unlock(&s->lock);
    return finished;
}

bool source_result(source *s, buf *out)
{
    if (!s->engine) return false;
    atomic_fetch_add(&s->peekers, 1);
    pthread_mutex_lock(&s->engine_lock);
    bool ok = probe_result(s->engine, s->methods, out);
    pthread_mutex_unlock(&s->engine_lock);
    atomic_fetch_sub(&s->peekers, 1);
    return ok;
}

bool source_ready(source *s)
{
    pthread_mutex_lock(&s->lock);
    bool ready = s->n > 0 || s->ended || s->finish_unseen;
    pthread_mutex_unlock(&s->lock);
    return ready;
}

bool source_ended(source *s)
{
    pthread_mutex_lock(&s->lock);
    bool ended = s->ended;
    pthread_mutex_unlock(&s->lock);
    return ended;
}

void source_stop(source *s, int64_t deadline_ns)
{
    pthread_mutex_lock(&s->lock);
    bool ended = s->ended;
    if (!s->wish_ns) s->wish_ns = mono_ns();
    if (deadline_ns < s->deadline_ns) s->deadline_ns = deadline_ns;
    if (!s->live) s->muted = true;
    pthread_cond_signal(&s->room);
    pthread_mutex_unlock(&s->lock);
    if (s->live && !ended) ipc_session_stop(s->session, deadline_ns);
}

void source_close(source *s)
{
    pthread_mutex_lock(&s->lock);
    bool ended = s->ended;
    if (!ended) s->closed = true;
    s->muted = true;
    records_drop(s);
    pthread_cond_signal(&s->room);
    pthread_mutex_unlock(&s->lock);
    if (s->live && !ended) ipc_session_abort(s->session);
}

bool source_summary_of(source *s, source_summary *out)
{
    pthread_mutex_lock(&s->lock);
    bool ended = s->ended;
    if (ended) {
        *out = s->sum;
        out->collect_version = s->live ? ipc_session_version(s->session) : 0;
    }
    pthread_mutex_unlock(&s->lock);
    return ended;
}

uint32_t source_kinds(source *s) { return source_ended(s) ? nt_kind_count(s->reader) : 0; }

const nt_kind *source_kind(source *s, uint32_t i) { return nt_kind_at(s->reader, i); }
