/* SPDX-License-Identifier: MIT */
/* source_read.c: the reader's callbacks: events run through the reducers, feed the map of methods, and, as far as
 * wanted, are copied into the bounded queue. */
#include <stdlib.h>
#include <strings.h>

#include "probe/source_internal.h"

#define WAKE_AT 256 /* events in a file's queue that are worth a wake before it is full */

static bool name_is(slice s, const char *name) { return strlen(name) == s.n && memcmp(name, s.p, s.n) == 0; }

static bool wanted(const source *s, const nt_kind *k)
{
    if (s->cfg.n_want == 0) return !s->engine && !s->names_for && !s->cfg.tap;
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
    u->tap = s->cfg.tap ? s->cfg.tap->ops->kind(s->cfg.tap, k) : NULL;
    k->muted = !u->queue && !u->methods && !u->probe && !u->tap;
    if (!u->queue && !u->methods && !u->rundown && !u->tap) u->use.only = u->probe;
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

void source__wake_locked(source *s)
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
        source__wake_locked(s);
        pthread_mutex_unlock(&s->engine_lock);
        (void)source__wait_until(&s->room, &s->lock, s->deadline_ns);
        pthread_mutex_unlock(&s->lock);
        pthread_mutex_lock(&s->engine_lock);
        pthread_mutex_lock(&s->lock);
    }
    return !s->muted && !full(s);
}

/* Is the time of a stopped file over, or was it closed? Then the reader stops. */
bool source__give_up(const source *s)
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
        s->bytes += source__size(r);
        r = NULL;
        if (!s->live && s->n >= WAKE_AT) source__wake_locked(s);
    } else if (!s->muted)
        s->sum.dropped++;
    pthread_mutex_unlock(&s->lock);
    free(r);
    return kept;
}

bool source__each(void *arg, uint32_t each, const void *tlv, size_t n)
{
    source_record *r = mem_alloc(sizeof *r + n);
    if (r) {
        *r = (source_record){.each = each, .n = (uint32_t)n};
        memcpy(r->payload, tlv, n);
    }
    return enqueue(arg, r);
}

/* From here on only methods that some stack hits are kept. */
static void want_names(source *s)
{
    size_t n;
    s->names_wanted = true;
    uint64_t *ips = probe_addresses(s->engine, &n);
    uint64_t none = 0;
    (void)clr_methods_want(s->methods, ips ? ips : &none, ips ? n : 1);
    free(ips);
}

static __attribute__((noinline)) void tell_finish(source *s)
{
    if (s->finish_told) return;
    s->finish_told = true;
    pthread_mutex_lock(&s->lock);
    s->finished = s->finish_unseen = true;
    s->woken = false;
    source__wake_locked(s);
    pthread_mutex_unlock(&s->lock);
}

static inline void reduce(source *s, const kind_use *u, const nt_event *ev)
{
    probe_event(s->engine, u->probe, s->reader, ev);
    if (__builtin_expect(probe_finished(s->engine), 0)) tell_finish(s);
}

static void take_method(source *s, const kind_use *u, const nt_event *ev)
{
    if (s->methods) {
        /* Before the first row of the rundown, which may be one of a hundred thousand. A file keeps all while it can,
         * since its stacks may come later. */
        if (u->rundown && s->live && !s->names_wanted) want_names(s);
        if (clr_methods_event(s->methods, u->methods, ev) == -ERR_LIMIT) {
            want_names(s); /* gives the room of all others back */
            (void)clr_methods_event(s->methods, u->methods, ev);
        }
    }
    source *t = s->names_for; /* times are ticks of one clock in all sessions of a process */
    if (!t) return;
    pthread_mutex_lock(&t->engine_lock);
    if (t->methods) (void)clr_methods_event(t->methods, u->methods, ev);
    pthread_mutex_unlock(&t->engine_lock);
}

static void before_reducers(source *s, const kind_use *u, const nt_event *ev)
{
    if (u->methods) take_method(s, u, ev);
    if (ev->ts > s->last_ts && !u->rundown) s->last_ts = ev->ts;
    if (u->tap && !atomic_load_explicit(&s->closed, memory_order_relaxed))
        s->cfg.tap->ops->event(s->cfg.tap, u->tap, s->reader, ev);
}

static int on_event(void *arg, const nt_event *ev)
{
    source *s = arg;
    const kind_use *u = ev->kind->user;
    before_reducers(s, u, ev);
    int stop = atomic_load_explicit(&s->closed, memory_order_relaxed);
    if (u->probe && !atomic_load_explicit(&s->muted, memory_order_relaxed)) reduce(s, u, ev);
    if (__builtin_expect(u->queue, 0)) (void)enqueue(s, record_of(s, ev));
    return stop;
}

static int on_run(void *arg, nt_run *run)
{
    source *s = arg;
    if (!s->engine)
        while (nt_run_next(run))
            if (on_event(s, &run->event)) return 1;
    while (s->engine && probe_events(s->engine, s->reader, run, &s->muted, &s->last_ts))
        if (on_event(s, &run->event)) return 1;
    if (s->engine && probe_finished(s->engine)) tell_finish(s);
    return atomic_load_explicit(&s->closed, memory_order_relaxed);
}

/* A sequence point is later than all events before it, muted ones too, and the runtime writes one at the end. */
static int on_sequence_point(void *arg, int64_t ts)
{
    source *s = arg;
    if (ts > s->last_ts) s->last_ts = ts;
    return 0;
}

static int on_lost(void *arg, uint64_t thread, uint64_t events)
{
    source_summary *sum = &((source *)arg)->sum;
    uint32_t i = 0;
    while (i < sum->n_loss && sum->loss[i].thread != thread)
        i++;
    if (i == SOURCE_LOSS_THREADS) return 0;
    if (i == sum->n_loss) sum->loss[sum->n_loss++] = (source_loss){.thread = thread};
    sum->loss[i].events += events;
    return 0;
}

const nt_sink source__sink = {
    .kind = on_kind, .event = on_event, .run = on_run, .lost = on_lost, .sequence_point = on_sequence_point};
