/* SPDX-License-Identifier: MIT */
/* source.c: makes and ends sources, and what their consumer calls. */
#include "probe/source_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clr/clr.h"

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

void source__all_add(int by)
{
    pthread_mutex_lock(&all.lock);
    all.live += (unsigned)by;
    pthread_cond_broadcast(&all.cond);
    pthread_mutex_unlock(&all.lock);
}

bool source__wait_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t deadline_ns)
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
    while (all.live > 0 && source__wait_until(&all.cond, &all.lock, deadline_ns))
        ;
    bool none = all.live == 0;
    pthread_mutex_unlock(&all.lock);
    return none && ipc_sessions_wait(deadline_ns);
}

void source__records_drop(source *s)
{
    source_record *r = s->head;
    s->head = s->tail = NULL;
    s->n = s->bytes = 0;
    source_records_free(r);
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
    source__records_drop(s);
    if (s->save_fd >= 0) (void)close(s->save_fd);
    ipc_session_free(s->session);
    nt_free(s->reader);
    probe_free(s->engine);
    clr_methods_free(s->methods);
    source_unref(s->names_for);
    if (s->cfg.tap) s->cfg.tap->ops->unref(s->cfg.tap);
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
    mine.each = source__each;
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
    if (cfg->tap) cfg->tap->ops->ref(cfg->tap);
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
    o.no_stacks = !cfg->tap && (!s->engine || !probe_uses_stacks(s->engine));
    o.resolve = clr_resolve;
    if (rc == 0) s->reader = nt_new(&o, &source__sink, s, e);
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
    int rc = err_unwritten(e, errno, "cannot make the file for the stream");
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
        ipc_session_cfg sc = {.collect = *collect,
                              .on_bytes = source__bytes,
                              .on_pause = source__pause,
                              .on_end = source__session_ended,
                              .arg = s};
        if ((s->methods || s->names_for || cfg->tap) && !sc.collect.rundown_keywords && !cfg->no_rundown)
            sc.collect.rundown_keywords = CLR_NAMES_RUNDOWN_KEYWORDS;
        if (cfg->tap || (s->engine && probe_uses_stacks(s->engine))) sc.collect.stacks = true;
        s->started_ns = mono_ns();
        source_ref(s);
        source__all_add(1);
        rc = ipc_session_open(ep, &sc, deadline_ns, c, &s->session, e);
        if (rc == 0) {
            *out = s;
            return 0;
        }
        source__all_add(-1);
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
    if (rc == 0) rc = source__file_thread(s, e);
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
        bytes += source__size(last);
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

int64_t source_bytes_ns(const source *s) { return atomic_load_explicit(&s->bytes_ns, memory_order_relaxed); }

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
    source__records_drop(s);
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
