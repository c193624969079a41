/* SPDX-License-Identifier: MIT */
/* source_internal.h: what the files of the source share: source.c makes and ends it, source_read.c has the reader's
 * callbacks, source_feed.c the thread that feeds the reader. */
#ifndef LUNETTE_PROBE_SOURCE_INTERNAL_H
#define LUNETTE_PROBE_SOURCE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "probe/source.h"

/* What the source knows of a kind of event. */
typedef struct kind_use {
    probe_use use; /* first: see probe_events */
    struct kind_use *next;
    bool queue, rundown;
    int methods; /* code for the map of methods */
    probe_kind *probe;
    void *tap; /* what the tap calls this kind, or NULL */
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

    int64_t last_ts;   /* ticks of the last event or sequence point; the reader's */
    atomic_bool muted; /* stop of a file, or close: events are only counted */
    atomic_bool closed;
    _Atomic int64_t bytes_ns; /* when bytes came last; 0: never */

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

static inline size_t source__size(const source_record *r) { return sizeof *r + r->n; }

/* source.c */
void source__all_add(int by); /* sources whose thread runs */
bool source__wait_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t deadline_ns);
void source__records_drop(source *s); /* the queue; under the lock */

/* source_read.c */
extern const nt_sink source__sink;
bool source__each(void *arg, uint32_t each, const void *tlv, size_t n); /* probe_program.each */
void source__wake_locked(source *s);
bool source__give_up(const source *s);

/* source_feed.c */
int source__bytes(void *arg, slice bytes); /* ipc_session_cfg.on_bytes and on_end */
void source__pause(void *arg);
void source__session_ended(void *arg, const ipc_session_end *end);
int source__file_thread(source *s, err *e);

#endif
