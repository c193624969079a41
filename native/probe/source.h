/* SPDX-License-Identifier: MIT */
/* source.h: where events come from: a live EventPipe session or a recorded file, the same thing to whoever takes them.
 * A source reads on a thread of its own, counts everything, and queues the wanted events (bounded) for one consumer. */
#ifndef LUNETTE_PROBE_SOURCE_H
#define LUNETTE_PROBE_SOURCE_H

#include "ipc/ipc.h"
#include "nettrace/nettrace.h"
#include "nettrace/tap.h"
#include "probe/probe.h"

#define SOURCE_QUEUE_EVENTS 65536u
#define SOURCE_QUEUE_BYTES  ((size_t)32 << 20)
#define SOURCE_SAVE_MAX     ((uint64_t)1 << 30)
#define SOURCE_WANTS_MAX    256

/* Which events reach the queue; all others are only counted. Names as TraceEvent gives them ("GC/Start") or as the
 * stream has them ("GCStart_V2"); provider names are compared without case. event NULL or "*": all of the provider. */
typedef struct source_want {
    const char *provider, *event;
} source_want;

typedef struct source source;
typedef struct source_cfg {
    const source_want *want; /* copied */
    size_t n_want;           /* 0: everything is wanted; with a program or a tap: nothing */
    /* Reducers that all events run through (borrowed until the source is open; its `each` is the source's own: rows of
     * it come through the queue). NULL: none. Live: when it needs names of methods and the session asks for no rundown,
     * it asks for the one that names need. */
    const probe_program *program;
    size_t queue_events; /* 0: SOURCE_QUEUE_EVENTS */
    size_t queue_bytes;  /* 0: SOURCE_QUEUE_BYTES */
    const char *save_to; /* live only: the raw stream goes to this file (0600, made new); NULL: nowhere */
    uint64_t save_max;   /* 0: SOURCE_SAVE_MAX */
    /* live: method events of this stream, of its rundown above all, name the stacks of that one. For a target that may
     * die before the rundown at its own end. A reference is taken; it must outlive the call only. NULL: nobody's */
    source *names_for;
    /* Gets all events, too, but for those after source_close. A reference is taken. Live: stacks are asked for, and
     * the rundown that names need when none is. NULL: nobody */
    nt_tap *tap;
    bool no_rundown; /* not that one either: names come from elsewhere */
    /* On the source's thread: there is something new to take (more may follow without another call until something was
     * taken), or, once and last, the end: after the call with last set, arg is not touched again. Must not wait, nor
     * call the source: its lock may be held. */
    void (*wake)(void *arg, bool last);
    void *arg;
} source_cfg;

/* One event, its payload as the stream has it: kind->schema reads it. Good until source_records_free; kind as long as
 * the source. */
typedef struct source_record source_record;
struct source_record {
    source_record *next;
    const nt_kind *kind; /* NULL: a row of the program's `each`, as tlv in the payload */
    uint32_t each;
    int64_t time_ns; /* since the session's start; negative before it */
    int64_t unix_ns;
    uint64_t thread;
    bool has_activity, has_related;
    uint8_t activity[16], related[16];
    uint32_t n;
    uint8_t payload[];
};

#define SOURCE_LOSS_THREADS 32
typedef struct source_loss {
    uint64_t thread, events; /* thread: the target's, as in nt_event.capture_thread */
} source_loss;

typedef struct source_summary {
    bool complete;   /* the stream came to its end mark */
    err incomplete;  /* why not, else unset */
    uint64_t events; /* in the stream, wanted or not */
    uint64_t bytes;  /* of the stream */
    uint64_t lost;   /* by the runtime's own count: its buffers were full */
    /* Which threads' events: the first SOURCE_LOSS_THREADS of them, most first; what is missing to `lost` is of others.
     */
    source_loss loss[SOURCE_LOSS_THREADS];
    uint32_t n_loss;
    uint64_t dropped;      /* wanted, and thrown away because nobody took them in time */
    int64_t duration_ns;   /* live: from the start to the wish to stop (or the end); file: time of the last event */
    int64_t pid;           /* as the stream tells, in the target's namespace; -1: not told */
    uint32_t pointer_size; /* 0: not told */
    int64_t start_unix_ns; /* 0: not told; no finer than the millisecond */
    int64_t start_mono_ns; /* the same moment by the clock of the events, which all sessions of a machine share */
    int32_t processors;    /* -1: not told */
    int collect_version;   /* live: CollectTracing 2..6; else 0 */
    uint64_t saved_bytes;  /* into save_to */
    bool save_truncated;   /* save_max was met */
    err save_error;        /* writing failed (a full disk): the rest was not saved */
} source_summary;

/* Both give a source with one reference. On failure wake is and will not be called. open_live waits for the runtime's
 * answer until the deadline. */
int source_open_live(const ipc_endpoint *ep, const ipc_collect_cfg *collect, const source_cfg *cfg, int64_t deadline_ns,
                     const ipc_cancel *c, source **out, err *e);
/* A .nettrace file, or a .zip with one. A file waits for its consumer instead of dropping. */
int source_open_file(const char *path, const source_cfg *cfg, source **out, err *e);
/* Up to max_events events in order of time, taken out of the queue; NULL: none there. */
source_record *source_take(source *s, size_t max_events, size_t max_bytes);
void source_records_free(source_record *r);
/* Is there something to take, or the end or the program's early end to see? */
bool source_ready(source *s);
/* All has been read and queued; what is in the queue can still be taken. */
bool source_ended(source *s);
/* When bytes of the stream came last, by mono_ns; 0: none came. */
int64_t source_bytes_ns(const source *s);
/* Asks for the end: live: the session is stopped and drained; file: the rest is only counted. Over at the latest at the
 * deadline, then incomplete. Returns at once: wake(last) tells when it is done. */
void source_stop(source *s, int64_t deadline_ns);
/* As stop, at once and without more events. */
void source_close(source *s);
/* Totals; false before the end. */
bool source_summary_of(source *s, source_summary *out);
/* After the end: how many kinds of event there were, and each with its number of events. Borrowed as long as the
 * source. */
uint32_t source_kinds(source *s);
const nt_kind *source_kind(source *s, uint32_t i);
/* The program's early end was met: known once s was woken for it. */
bool source_finished(source *s);
/* Appends what the program's reducers hold (probe_result); at any time, and the reader waits meanwhile. False: no
 * memory, or no program. */
bool source_result(source *s, buf *out);
source *source_ref(source *s);
void source_unref(source *s);           /* any thread; a running source must have been closed. NULL is fine */
unsigned sources_live(void);            /* sources whose thread still runs */
bool sources_wait(int64_t deadline_ns); /* until there are none; false: not in time */

#endif
