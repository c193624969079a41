/* SPDX-License-Identifier: MIT */
/* source_feed.c: the thread that feeds the reader, from a session or a file, up to the end. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe/source_internal.h"

/* ---- the end ----------------------------------------------------------------------------------------------------- */
static int most_first(const void *a, const void *b)
{
    const source_loss *x = a, *y = b;
    return x->events != y->events ? (x->events < y->events ? 1 : -1)
                                  : (x->thread > y->thread) - (x->thread < y->thread);
}

/* A recording that was cut has no sequence point at its end: what nobody asked for tells the time, too. */
static void last_of_muted(source *s)
{
    for (uint32_t i = 0; i < nt_kind_count(s->reader); i++) {
        const nt_kind *k = nt_kind_at(s->reader, i);
        const kind_use *u = k->user;
        if (k->muted && u && !u->rundown && k->muted_ts > s->last_ts) s->last_ts = k->muted_ts;
    }
}

static void totals(source *s)
{
    if (!s->live) last_of_muted(s);
    source_summary *sum = &s->sum;
    const nt_stats *st = nt_stats_of(s->reader);
    const nt_trace *t = nt_trace_info(s->reader);
    sum->events = st->events + st->unknown_kind;
    sum->bytes = st->bytes;
    sum->lost = st->lost;
    qsort(sum->loss, sum->n_loss, sizeof *sum->loss, most_first);
    sum->pid = t ? t->pid : -1;
    sum->processors = t ? t->processors : -1;
    sum->pointer_size = t ? t->pointer_size : 0;
    sum->start_unix_ns = t ? t->sync_unix_ns : 0;
    sum->start_mono_ns = t && t->frequency > 0 ? (int64_t)((__int128)t->sync_ticks * 1000000000 / t->frequency) : 0;
    int64_t until = s->wish_ns ? s->wish_ns : mono_ns();
    int64_t last_ns = t && s->last_ts ? nt_ns(t, s->last_ts) : 0;
    sum->duration_ns = s->live ? until - s->started_ns : last_ns > 0 ? last_ns : 0;
}

/* Everything has been read: totals, then the last wake. rc and e are the reader's last word, why the session's. */
static void settle(source *s, int rc, const err *e, const err *why)
{
    if (s->save_fd >= 0 && close(s->save_fd) < 0)
        (void)err_sys(&s->sum.save_error, ERR_IO, errno, "cannot save the stream");
    s->save_fd = -1;
    if (s->cfg.tap) s->cfg.tap->ops->end(s->cfg.tap, s->reader);
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
    source__all_add(-1);
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

int source__bytes(void *arg, slice bytes)
{
    source *s = arg;
    atomic_store_explicit(&s->bytes_ns, mono_ns(), memory_order_relaxed);
    save(s, bytes);
    let_peek(s);
    pthread_mutex_lock(&s->engine_lock);
    int rc = nt_feed(s->reader, bytes.p, bytes.n, NULL);
    pthread_mutex_unlock(&s->engine_lock);
    pthread_mutex_lock(&s->lock);
    if (s->n > 0) source__wake_locked(s);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* The stream pauses: what the reader holds back for its order is complete, since the runtime writes in one go. */
void source__pause(void *arg)
{
    source *s = arg;
    let_peek(s);
    pthread_mutex_lock(&s->engine_lock);
    (void)nt_flush(s->reader, NULL);
    pthread_mutex_unlock(&s->engine_lock);
    pthread_mutex_lock(&s->lock);
    if (s->n > 0) source__wake_locked(s);
    pthread_mutex_unlock(&s->lock);
}

void source__session_ended(void *arg, const ipc_session_end *end)
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
    int stop = source__give_up(s) ? 1 : 0;
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
    bool late = rc < 0 && !s->closed && source__give_up(s);
    pthread_mutex_unlock(&s->lock);
    if (late) (void)err_set(&why, ERR_TIMEOUT, "the file had not been read to its end when its time to stop was over");
    settle(s, rc, &e, &why);
    return NULL;
}

int source__file_thread(source *s, err *e)
{
    sigset_t none, before;
    sigfillset(&none);
    pthread_sigmask(SIG_SETMASK, &none, &before);
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    pthread_t t;
    source__all_add(1);
    int rc = pthread_create(&t, &a, file_main, s);
    pthread_attr_destroy(&a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) return 0;
    source__all_add(-1);
    return err_sys(e, ERR_NO_MEMORY, rc, "cannot start a thread to read a file");
}
