/* SPDX-License-Identifier: MIT */
/* writer.h: writes .nettrace streams in memory, V4/V5 and V6, with compressed or plain headers, for the reader's tests;
 * and a listener that writes down what the reader delivers. */
#ifndef LUNETTE_TESTS_NETTRACE_WRITER_H
#define LUNETTE_TESTS_NETTRACE_WRITER_H

#include "check.h"
#include "nettrace/nettrace.h"

typedef enum tw_block { TW_EVENTS, TW_METADATA, TW_STACKS, TW_POINT, TW_THREADS, TW_REMOVED, TW_LABELS } tw_block;

typedef struct tw_event {
    uint32_t kind, seq, stack, processor, labels;
    uint64_t thread, capture;
    int64_t ts;
    bool sorted;
    const char *activity, *related; /* 16 bytes, or NULL */
    slice payload;
} tw_event;

typedef struct tw {
    buf out, body;
    bool v6, compressed;
    tw_block block;
    tw_event last; /* compressed headers tell what changed */
} tw;

/* A stream with its head: pid 77, 4 processors, 8-byte pointers, ticks of 10 ns that start at 1000. */
void tw_start(tw *w, bool v6, bool compressed);
void tw_fini(tw *w);
slice tw_bytes(const tw *w);
/* A block: what goes in between is put into w->body. */
void tw_begin(tw *w, tw_block b);
void tw_end(tw *w);
void tw_finish(tw *w); /* the end mark */
/* The rest go between tw_begin and tw_end of their sort of block. */
void tw_put_event(tw *w, const tw_event *e);
/* fields: the encoded list with its count, or empty; tags or optional values come behind it. */
void tw_put_kind(tw *w, uint32_t id, const char *provider, uint32_t event_id, const char *name, uint32_t version,
                 slice fields, slice tags);
void tw_put_stacks(tw *w, uint32_t first, uint32_t n, const uint64_t *leaves); /* one frame each */
void tw_put_point(tw *w, int64_t ts, uint32_t flags, uint32_t n, const uint64_t *threads, const uint32_t *seqs);
void tw_put_thread(tw *w, uint64_t index, uint64_t tid, uint64_t pid, const char *name);

/* A field list in the stream's own form. type: the code; elem: of an array (19) in V6, else 0. */
typedef struct tw_field {
    const char *name;
    uint32_t type, elem;
} tw_field;
void tw_fields(const tw *w, buf *out, const tw_field *f, uint32_t n);

void tw_utf16z(buf *b, const char *ascii);
void tw_text6(buf *b, const char *text); /* V6: varuint length and UTF-8 */
void tw_varint(buf *b, uint64_t v);

/* Two kinds, three threads, unsorted and sorted events, stacks, a sequence point: enough for what must hold of every
 * stream. */
void tw_sample(tw *w, bool v6, bool compressed);
#define TW_SAMPLE_EVENTS 14

/* What a reader delivered, one line an event: name, time, threads, sequence, stack's leaf, activity, fields. */
typedef struct heard {
    nt_reader *r;
    nt_trace trace;
    buf text;
    uint64_t events, lost;
    uint64_t stop_at; /* the callback asks for the end at this event; 0: never */
    uint64_t points;
} heard;
void heard_init(heard *h);
void heard_fini(heard *h);
extern const nt_sink heard_sink;
/* Reads bytes in pieces of chunk (0: all at once); h->text is added to. Returns nt_finish's or nt_feed's status. */
int hear(heard *h, const nt_options *o, slice bytes, size_t chunk, nt_stats *stats, err *e);

#endif
