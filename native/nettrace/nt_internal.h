/* SPDX-License-Identifier: MIT */
/* nt_internal.h: what the parts of the reader share. No other folder includes it. */
#ifndef LUNETTE_NETTRACE_INTERNAL_H
#define LUNETTE_NETTRACE_INTERNAL_H

#include <stdlib.h>

#include "base/utf.h"
#include "nettrace/nettrace.h"

/* One thread that wrote or is written about. V4: keyed by thread id; V6: by table index. */
typedef struct nt__thread {
    uint64_t key, tid;
    int64_t pid;
    uint32_t last_seq;
    bool seen;                        /* last_seq means something */
    bool removed;                     /* V6: gone once its queue is empty */
    struct nt__run *head, *tail;      /* events that wait, oldest first */
    struct nt__thread *older, *newer; /* V4: in order of last use; free threads are linked by older */
} nt__thread;

/* Events that wait keep the block that holds their bytes. */
typedef struct nt__block {
    uint8_t *bytes;
    size_t cap;
    nt_waiting *events; /* the waiting ones, in the block's order */
    nt_context *contexts;
    uint32_t n, cap_events, n_contexts, cap_contexts;
    uint32_t live; /* runs that wait, and the parser */
    size_t charge; /* of queued_bytes */
    struct nt__block *next_free;
} nt__block;

/* Consecutive waiting events of one thread in one block. */
typedef struct nt__run {
    nt__block *block;
    uint32_t at, end;
    struct nt__run *next;
    nt_origin origin; /* while a batch holds events of it */
} nt__run;

#define NT_BATCH 512u /* most events that the sink gets at once */

/* Ids first … first+n-1 of one stack or label block; index[i] stands at the entry's bytes. */
typedef struct nt__segment {
    uint32_t first, n;
    uint32_t at; /* of its first entry in nt__table.index */
} nt__segment;

/* Stacks, and label lists: both come in numbered blocks and go at a sequence point. */
typedef struct nt__table {
    nt__segment *segments;
    size_t n_segments, cap_segments;
    const uint8_t **index;
    size_t n_index, cap_index;
    struct nt__chunk *chunks; /* the bytes */
    size_t bytes;
} nt__table;

typedef struct nt__chunk {
    struct nt__chunk *next;
    size_t n;
    uint8_t bytes[];
} nt__chunk;

typedef enum nt__state {
    NT_S_MAGIC,
    NT_S_VERSION,
    NT_S_FORMAT,
    NT_S_TAG,
    NT_S_OBJECT,
    NT_S_NAME,
    NT_S_TRACE,
    NT_S_SIZE,
    NT_S_PADDING,
    NT_S_BLOCK,
    NT_S_END_OBJECT,
    NT_S_V6_HEAD,
    NT_S_V6_WORD,
    NT_S_V6_BLOCK,
    NT_S_SKIP,
    NT_S_DONE
} nt__state;

typedef enum nt__sort { /* sorts of block */
                        NT_B_UNKNOWN,
                        NT_B_EVENT,
                        NT_B_METADATA,
                        NT_B_STACK,
                        NT_B_SP,
                        NT_B_TRACE,
                        NT_B_THREAD,
                        NT_B_REMOVE_THREAD,
                        NT_B_LABELS,
                        NT_B_END
} nt__sort;

struct nt_reader {
    nt_options opt;
    nt_limits lim;
    nt_sink sink;
    void *arg;
    nt_trace trace;
    bool has_trace;
    nt_stats stats;
    int status; /* negative: dead, with failure telling why */
    err failure;

    /* framing */
    nt__state state;
    nt__sort sort;
    size_t want;   /* bytes that the state needs */
    uint64_t skip; /* NT_S_SKIP: bytes left */
    nt__state after_skip;
    int64_t offset;     /* of the piece that is due: pieces in parts move it when they are whole */
    uint8_t small[128]; /* bytes of a frame that came in pieces */
    size_t n_small;
    nt__block *filling; /* the block that comes in pieces */
    size_t n_filling;
    int64_t block_offset; /* where the block's content starts */
    uint8_t name_len;

    /* kinds */
    arena kinds_arena;
    nt_kind **kinds;
    uint32_t n_kinds, cap_kinds;
    nt_kind **by_id; /* metadata id -> kind, for small ids */
    uint32_t n_by_id;
    map64 by_big_id;
    map64 by_content; /* hash of a metadata record -> kind index, so that V6 may announce one again */
    buf scratch;

    /* threads */
    map64 threads;
    nt__thread *newest, *oldest, *free_threads;
    struct nt__slab *slabs;
    uint32_t n_threads;
    nt__thread *last_capture, *last_thread;

    /* sorting */
    nt__run *free_runs;
    struct nt__slab *run_slabs;
    nt__block *free_blocks;
    uint32_t n_free_blocks;
    size_t queued_bytes; /* charges of all blocks */
    nt__thread **heap;   /* threads with waiting events */
    uint32_t n_heap, cap_heap;
    int64_t last_ts; /* of the last delivered event; before it INT64_MIN */
    nt_turn batch[NT_BATCH];

    nt__table stacks, labels;
    uint32_t table_epoch; /* counts how often one of them was emptied */
};

/* ---- reader.c */
int nt__fail(nt_reader *r, err_kind kind, int64_t offset, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int nt__no_memory(nt_reader *r);
int nt__cancelled(nt_reader *r);
const char *nt__sort_name(nt__sort s);
void nt__account(nt_reader *r, ptrdiff_t bytes);

/* Where the next bytes of a block that comes in pieces may be put, so that a file is read into its place: *n 0 when
 * none is due. Then nt__commit says how many were put there. */
uint8_t *nt__room(nt_reader *r, size_t *n);
int nt__commit(nt_reader *r, size_t n, err *e);

/* ---- frame.c: takes one complete piece, r->want bytes, which starts at r->offset; bytes are borrowed */
int nt__frame_step(nt_reader *r, const uint8_t *p);
/* One complete block's content. owned: the block that holds the bytes, or NULL when they are the caller's. *owned is
 * set to NULL when the block was kept. */
int nt__block_content(nt_reader *r, nt__sort sort, const uint8_t *p, size_t n, int64_t at, nt__block **owned,
                      bool partial);

/* ---- events.c */
int nt__event_block(nt_reader *r, const uint8_t *p, size_t n, int64_t at, nt__block **owned, bool partial,
                    bool metadata) __attribute__((nonnull(2)));

/* ---- metadata.c */
int nt__metadata_v4(nt_reader *r, slice payload, int64_t at);
int nt__metadata_v6(nt_reader *r, const uint8_t *p, size_t n, int64_t at);
void nt__kinds_forget_ids(nt_reader *r);
void nt__kinds_fini(nt_reader *r);
static inline nt_kind *nt__kind_of(const nt_reader *r, uint32_t id)
{
    if (__builtin_expect(id < r->n_by_id, 1)) return r->by_id[id];
    uint64_t at;
    return map64_get(&r->by_big_id, id, &at) ? r->kinds[at] : NULL;
}
/* The display name (Task/Opcode) of a kind by TraceEvent's rules; allocates in a. Empty on failure. */
slice nt__display_name(arena *a, slice name, uint32_t id, int opcode);

/* ---- threads.c */
nt__thread *nt__thread_get(nt_reader *r, uint64_t key, int64_t at, int *rc);
/* Checks seq against the thread's last; counts what is missing. exact: an event; else the lower bound of a sequence
 * point. */
int nt__sequence(nt_reader *r, nt__thread *t, uint32_t seq, bool exact);
int nt__sequence_point(nt_reader *r, const uint8_t *p, size_t n, int64_t at);
int nt__threads_v6(nt_reader *r, const uint8_t *p, size_t n, int64_t at);
int nt__threads_remove_v6(nt_reader *r, const uint8_t *p, size_t n, int64_t at);
/* A removed thread's last waiting event is out. */
void nt__thread_drained(nt_reader *r, nt__thread *t);
void nt__threads_forget(nt_reader *r);
void nt__threads_fini(nt_reader *r);

/* ---- sort.c */
nt__block *nt__block_get(nt_reader *r, size_t bytes);
void nt__block_put(nt_reader *r, nt__block *b);
/* One run of b is out, or the parser is done with b: the last one gives it back. */
void nt__block_release(nt_reader *r, nt__block *b);
/* What a block costs while it waits: its content and its records, by their number and not by the room they have, so
 * that the pieces which a stream comes in change nothing. */
void nt__queue_charge(nt_reader *r, nt__block *b, size_t bytes);
/* Over the limit: the oldest events go out although older ones may still come. */
int nt__queue_relieve(nt_reader *r);
/* Most events of one block that may wait. */
static inline uint32_t nt__waiting_max(const nt_reader *r)
{
    size_t n = r->lim.queue_bytes / 256;
    return n < 16 ? 16 : n > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)n;
}
/* Room for one more event of b and one more context row. At nt__waiting_max everything that waits goes out and b starts
 * anew, without a context row. */
int nt__queue_room(nt_reader *r, nt__block *b);
/* The event that was put at b->events[b->n] waits, as the first of a new run. */
int nt__queue_run(nt_reader *r, nt__thread *t, nt__block *b);
/* As nt__queue_run; mostly the event goes on where the thread's last run ended. */
static inline int nt__queue(nt_reader *r, nt__thread *t, nt__block *b)
{
    nt__run *run = t->tail;
    if (__builtin_expect(!run || run->block != b || run->end != b->n, 0)) return nt__queue_run(r, t, b);
    run->end = ++b->n;
    return 0;
}
/* Delivers what waits with a time of at most ts, oldest first. */
int nt__merge(nt_reader *r, int64_t ts);
static inline int nt__deliver(nt_reader *r, const nt_event *ev)
{
    if (__builtin_expect(ev->ts < r->last_ts, 0))
        r->stats.out_of_order += !r->opt.stream_order;
    else
        r->last_ts = ev->ts;
    if (__builtin_expect(r->sink.event(r->arg, ev) != 0, 0)) return nt__cancelled(r);
    return 0;
}
void nt__sort_fini(nt_reader *r);

/* ---- tables.c */
int nt__stack_block(nt_reader *r, const uint8_t *p, size_t n, int64_t at);
int nt__label_block(nt_reader *r, const uint8_t *p, size_t n, int64_t at);
void nt__table_clear(nt_reader *r, nt__table *t);
/* Start of an entry's bytes, or NULL. */
const uint8_t *nt__table_find(const nt__table *t, uint32_t id);
/* Activity ids of a list, for the event record. */
void nt__label_ids(const nt_reader *r, uint32_t list, const uint8_t **activity, const uint8_t **related);

/* ---- slabs: many small records of one size that go with the reader */
typedef struct nt__slab {
    struct nt__slab *next;
    max_align_t records[];
} nt__slab;

#endif
