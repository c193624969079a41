/* SPDX-License-Identifier: MIT */
/* nettrace.h: reads a .nettrace stream (V4, V5, V6) as it comes, in pieces of any size, and decodes event payloads.
 * Plain C, one thread a reader, memory bounded by nt_limits however long the stream. Format: microsoft/perfview,
 * NetTraceFormat_v5.md and NetTraceFormat.md.
 *
 *     nt_options o = nt_options_default();
 *     nt_reader *r = nt_new(&o, &(nt_sink){.event = on_event}, arg, &e);
 *     while ((n = read(fd, chunk, sizeof chunk)) > 0 && nt_feed(r, chunk, n, &e) >= 0) {}
 *     int rc = nt_finish(r, &e);          0: complete; -ERR_TRUNCATED: the stream stopped before its end mark; else
 * malformed nt_free(r);
 */
#ifndef LUNETTE_NETTRACE_H
#define LUNETTE_NETTRACE_H

#include <assert.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/mem.h"

/* ---- fields of a payload
 * ------------------------------------------------------------------------------------------------------ */
typedef enum nt_type {
    NT_NONE = 0,
    NT_BOOL,     /* u = 0 or 1; 4 or 1 bytes in the payload */
    NT_CHAR,     /* u = one UTF-16 code unit */
    NT_INT,      /* i; signed, 1 to 8 bytes or a variable-length number */
    NT_UINT,     /* u; unsigned */
    NT_FLOAT,    /* f; 4 or 8 bytes */
    NT_FILETIME, /* i = 100 ns since 1601-01-01 UTC */
    NT_GUID,     /* raw: 16 bytes, first three groups little-endian */
    NT_DECIMAL,  /* raw: 16 bytes */
    NT_STR16,    /* raw: UTF-16LE without its NUL */
    NT_STR8,     /* raw: text of one-byte units (UTF-8 or ANSI) without its NUL */
    NT_BYTES,    /* raw */
    NT_STRUCT,   /* raw: its fields */
    NT_ARRAY,    /* raw: count elements */
} nt_type;

/* How the payload holds a value; the reader's business, public so that nt_get may be inlined. */
typedef enum nt_wire {
    NT_W_BOOL32,
    NT_W_BOOL8,
    NT_W_CHAR16,
    NT_W_I8,
    NT_W_U8,
    NT_W_I16,
    NT_W_U16,
    NT_W_I32,
    NT_W_U32,
    NT_W_I64,
    NT_W_U64,
    NT_W_F32,
    NT_W_F64,
    NT_W_FILETIME,
    NT_W_GUID,
    NT_W_DECIMAL,
    NT_W_UTF16Z,
    NT_W_ANSIZ,
    NT_W_VARINT,
    NT_W_VARUINT,
    NT_W_UTF8,
    NT_W_STRUCT,
    NT_W_ARRAY,
    NT_W_BYTES,
    NT_W_RELLOC,
    NT_W_DATALOC,
    NT_W_COUNT
} nt_wire;

typedef enum nt_count { NT_COUNT_U16, NT_COUNT_FIXED, NT_COUNT_FIELD } nt_count;

#define NT_VARIES   UINT32_MAX
#define NT_NO_SLOT  0xFF
#define NT_NO_SHIFT 0xFF
#define NT_SLOTS    4

typedef struct nt_field nt_field;
struct nt_field {
    /* what decoding looks at comes first: one cache line a field */
    uint8_t wire;       /* nt_wire */
    uint8_t type;       /* nt_type of the value */
    uint8_t shift;      /* whole numbers of a fixed size: bits above them in 64; NT_NO_SHIFT: something else */
    uint8_t slot;       /* where an iterator keeps this field's number for a later count, or NT_NO_SLOT */
    uint8_t count_slot; /* NT_COUNT_FIELD: the slot that holds the count */
    uint8_t count_kind; /* nt_count, of NT_W_ARRAY and NT_W_BYTES */
    bool hex;           /* an address or a mask: shown in hexadecimal */
    uint16_t n_sub;
    uint32_t size;       /* bytes, or NT_VARIES */
    uint32_t min_size;   /* the least bytes that it can take */
    uint32_t offset;     /* from the start of the struct (flat fields: of the payload), or NT_VARIES */
    uint32_t count;      /* NT_COUNT_FIXED */
    const nt_field *sub; /* struct: its fields; array and location: the one field that describes an element */
    slice name;          /* UTF-8, NUL-terminated beyond n; may be empty */
    slice path; /* flat fields only: names of the structs around it and its own, joined by '.', empty ones left out */
    const char *enums; /* name of the manifest's enum, or NULL */
};

/* One whole number of the fixed start of a payload: read where, and how it is cut out of 8 bytes. The reader's
 * business. */
typedef struct nt_step {
    const nt_field *field;
    uint32_t type;
    uint16_t at; /* 8 bytes from here hold it */
    uint8_t left, right;
    uint64_t sign; /* its sign bit once it is cut out; 0: unsigned */
} nt_step;

typedef struct nt_schema {
    const nt_field *fields; /* as declared: structs hold their fields */
    uint32_t n_fields;
    const nt_field *flat; /* all structs opened: what nt_get and nt_decode index */
    uint32_t n_flat;
    const nt_step *steps; /* the whole numbers that a payload starts with */
    uint32_t n_steps;
    uint32_t steps_size; /* bytes of a payload that all steps need: at least 8 */
    uint32_t size;       /* of the whole payload, or NT_VARIES */
    uint32_t min_size;
    uint32_t n_slots;  /* numbers that count later elements */
    uint32_t n_bool32; /* 4-byte booleans outside arrays: some writers put one byte there */
} nt_schema;

typedef struct nt_value {
    const nt_field *field;
    nt_type type : 8;
    bool bad;       /* a location outside the payload: no value */
    uint32_t count; /* of NT_ARRAY: elements */
    slice raw;      /* of texts, bytes, GUIDs, structs and arrays: the value's bytes, borrowed from the payload */
    union {
        uint64_t u;
        int64_t i;
        double f;
    };
} nt_value;

/* Walks the fields of a payload, of a struct or the elements of an array, in order. Storage is the caller's, nothing to
 * free. */
typedef struct nt_iter {
    const nt_field *f, *f_end;
    const nt_field *elem;
    uint32_t left;
    bool bool8;
    bool truncated; /* the payload ended inside a field: the walk stopped there */
    const uint8_t *base, *p, *end;
    slice payload;
    uint64_t slots[NT_SLOTS];
} nt_iter;
void nt_iter_payload(nt_iter *it, const nt_schema *s, slice payload);
/* Into a value of type NT_STRUCT or NT_ARRAY that parent gave; other values give an empty walk. */
void nt_iter_into(nt_iter *it, const nt_iter *parent, const nt_value *v);
bool nt_iter_next(nt_iter *it, nt_value *v);

/* Index of a flat field: by its path, else by its own name when only one has it; -1: none. For once, not for each
 * event. */
int nt_field_index(const nt_schema *s, slice name);
/* The value of one flat field; at once where its offset is fixed, else by walking from the start. False: not in this
 * payload. */
bool nt_get(const nt_schema *s, slice payload, uint32_t index, nt_value *v);
/* All flat fields into values[n_flat]; returns how many the payload holds (a short payload ends early). */
uint32_t nt_decode(const nt_schema *s, slice payload, nt_value *values);
/* As nt_decode; false in *whole when bytes are left over after the last field or it ended early. */
uint32_t nt_decode_whole(const nt_schema *s, slice payload, nt_value *values, bool *whole);

/* UTF-8 form of UTF-16LE bytes into out[cap]; U+FFFD for a lone surrogate; never splits a character. Returns the bytes
 * written (3 for each 2 of input are always enough). Not NUL-terminated. */
size_t nt_utf8(slice utf16, char *out, size_t cap);

/* ---- building schemas (the stream's metadata and the CLR manifest do)
 * --------------------------------------------------------- */
typedef struct nt_spec nt_spec; /* one field as declared; zero what does not apply */
struct nt_spec {
    slice name;
    const char *enums;
    nt_wire wire;
    nt_spec *sub; /* struct: fields; array, location: one element */
    uint32_t n_sub;
    nt_count count_kind;
    uint32_t count;    /* NT_COUNT_FIXED: elements; NT_COUNT_FIELD: index of the earlier sibling that holds the count */
    bool hex, natural; /* natural: a struct with C alignment */
};
/* Compiles specs into a; NULL when memory or the arena's cap is out, or a layout is impossible (size over 2^31, slots).
 */
const nt_schema *nt_schema_build(arena *a, const nt_spec *specs, uint32_t n);

/* ---- the stream
 * ---------------------------------------------------------------------------------------------------------------- */
typedef struct nt_trace {
    int version;           /* 4 (V4 and V5 look alike) or 6 */
    int64_t sync_unix_ns;  /* wall clock at the start of the session */
    int64_t sync_ticks;    /* clock of the events at that moment */
    int64_t frequency;     /* ticks a second */
    uint32_t pointer_size; /* 4 or 8 */
    int64_t pid;           /* in the target's own PID namespace; -1: not told */
    int32_t processors;    /* -1: not told */
    int64_t sampling_ns;   /* expected interval of CPU samples; -1: not told */
} nt_trace;

/* One kind of event, as the stream's metadata announced it. Lives as long as the reader. */
typedef struct nt_kind {
    uint32_t index; /* 0, 1, … in order of appearance */
    uint32_t metadata_id;
    slice provider, name; /* UTF-8, NUL-terminated beyond n; native runtime events have an empty name */
    uint32_t id;
    uint32_t version, level;
    uint64_t keywords;
    int opcode;                 /* -1: not told */
    slice display;              /* Task/Opcode name as TraceEvent prints it; never empty */
    slice description, message; /* V6; else empty */
    const nt_schema *schema;    /* NULL: the layout is not known, the payload is opaque */
    bool described;             /* the schema came from the stream */
    bool fields_dropped;        /* the stream's field list could not be parsed */
    bool muted;                 /* set by the sink: count these events, do not deliver them */
    uint64_t count;             /* events so far */
    int64_t muted_ts;           /* ticks of the newest of those that were muted; 0: none */
    void *user;                 /* the sink's */
} nt_kind;

/* One event. Everything is borrowed and good until the callback returns. */
typedef struct nt_event {
    const nt_kind *kind;
    slice payload;
    int64_t ts;              /* ticks; nt_ns makes nanoseconds */
    uint64_t thread;         /* whom it is about; it and what follows: in the order of nt_context */
    const uint8_t *activity; /* 16 bytes, or NULL */
    const uint8_t *related;  /* 16 bytes, or NULL */
    int64_t pid;             /* V6: of the thread; else the trace's */
    uint32_t processor;      /* of the capture thread; NT_NO_PROCESSOR: not known */
    uint32_t labels;         /* V6, for nt_labels; 0: none */
    uint64_t capture_thread; /* who wrote it: sequence numbers count per capture thread */
    uint32_t stack;          /* for nt_stack */
    uint32_t seq;
} nt_event;
#define NT_NO_PROCESSOR UINT32_MAX

/* Events that were put in order in time and follow one another, for nt_sink.run. What it holds is the reader's
 * business: nt_run_next takes the events out. */
typedef struct nt_context { /* what changes seldom from event to event: many waiting events share a row */
    uint64_t thread;
    const uint8_t *activity, *related;
    int64_t pid;
    uint32_t processor, labels;
} nt_context;
typedef struct nt_waiting { /* as small as it goes: a tenth of a second of events should fit a processor's cache */
    int64_t ts;
    uint32_t payload, payload_size; /* offset in the block's bytes */
    uint32_t stack, seq;
    uint32_t kind;    /* index of it */
    uint32_t context; /* row of the block's contexts */
} nt_waiting;
typedef struct nt_origin { /* what the events of one capture thread in one block share */
    const uint8_t *bytes;
    const nt_context *contexts;
    uint64_t capture_thread;
} nt_origin;
typedef struct nt_turn { /* one event of a run; neighbours are often of different threads */
    const nt_waiting *w;
    const nt_origin *of;
} nt_turn;
typedef struct nt_run {
    const nt_turn *at, *end;
    nt_kind *const *kinds;
    bool last; /* turns of this run and of those before it are good up to the end of this callback, else longer */
    nt_event event;
} nt_run;
/* An event by its turn: where run->at stands or stood, of this run or one before it, see `last`. */
static inline void nt_run_look(const nt_run *run, const nt_turn *turn, nt_event *ev)
{
    const nt_waiting *w = turn->w;
    const nt_origin *of = turn->of;
    ev->kind = run->kinds[w->kind];
    ev->payload = (slice){of->bytes + w->payload, w->payload_size};
    ev->ts = w->ts;
    memcpy(&ev->thread, &of->contexts[w->context], sizeof(nt_context)); /* up to ev->labels */
    ev->capture_thread = of->capture_thread;
    ev->stack = w->stack;
    ev->seq = w->seq;
}
static_assert(offsetof(nt_event, labels) - offsetof(nt_event, thread) == offsetof(nt_context, labels) &&
                  offsetof(nt_event, pid) - offsetof(nt_event, thread) == offsetof(nt_context, pid),
              "an event's members from thread to labels are those of nt_context");
/* The next event into run->event, good until the next call or the callback's end. False: none is left. */
static inline bool nt_run_next(nt_run *run)
{
    if (run->at == run->end) return false;
    nt_run_look(run, run->at++, &run->event);
    return true;
}

/* V6: what a label list adds to its events. Zero or -1 where it says nothing; slices borrowed until the next sequence
 * point. */
typedef struct nt_labels {
    const uint8_t *activity, *related, *trace_id; /* 16 bytes, or NULL */
    const uint8_t *span_id;                       /* 8 bytes, or NULL */
    int opcode, level, version;                   /* -1: not overridden */
    bool has_keywords;
    uint64_t keywords;
    slice pairs; /* the list itself; nt_label_next walks the named values */
} nt_labels;
typedef struct nt_label {
    slice key;
    bool is_number;
    slice text;
    int64_t number;
} nt_label;

typedef struct nt_thread {
    uint64_t index, tid; /* tid: of the OS; the index when not told */
    int64_t pid;         /* -1: not told */
    slice name;          /* UTF-8, may be empty */
} nt_thread;

/* Callbacks; each may be NULL. A non-zero return stops the reader: nt_feed then returns -ERR_CANCELLED. */
typedef struct nt_sink {
    int (*trace)(void *arg, const nt_trace *t);
    int (*kind)(void *arg, nt_kind *k); /* once for each kind, before its first event; may set k->muted, k->user */
    int (*event)(void *arg, const nt_event *ev);
    /* Instead of `event` for those that had to wait for their turn, which are nearly all: takes them one by one, at
     * least one. What it leaves comes again. Now and then a run is the `last` one. */
    int (*run)(void *arg, nt_run *run);
    int (*thread)(void *arg, const nt_thread *t); /* V6 */
    int (*lost)(void *arg, uint64_t thread, uint64_t events);
    int (*sequence_point)(void *arg, int64_t ts);
} nt_sink;

/* What input can make grow. Past a limit marked "drops" the rest is counted in nt_stats; past any other the stream ends
 * with ERR_LIMIT. */
typedef struct nt_limits {
    uint32_t block_bytes;     /* one block: 16 MiB (the runtime writes 100 KiB) */
    uint32_t name_bytes;      /* one name of the metadata, in UTF-8: 32 KiB */
    uint32_t kinds;           /* kinds of event: 65,536 */
    size_t kind_bytes;        /* their names and layouts: 8 MiB */
    uint32_t fields_per_kind; /* 1,024 with those nested; more: the kind keeps its name and loses its fields */
    uint32_t field_depth;     /* 16; as above */
    uint32_t stack_bytes;     /* one stack: 64 KiB */
    uint32_t stacks;          /* between sequence points: 1,000,000; drops */
    size_t stacks_bytes;      /* as above: 12 MiB; drops */
    uint32_t label_lists;     /* between sequence points: 100,000 */
    size_t label_bytes;       /* as above: 4 MiB */
    uint32_t threads;         /* V4/V5: 5,000, the one silent longest goes (its next gap is not seen) */
    uint32_t indexed_threads; /* V6: 100,000 at a time */
    size_t queue_bytes; /* events that wait to be sorted: 24 MiB; past it order is no longer certain, and counted */
} nt_limits;
nt_limits nt_limits_default(void);

typedef struct nt_options {
    nt_limits limits;
    bool stream_order; /* deliver as the stream has them: in order per capture thread only, no queue */
    bool no_stacks;    /* do not keep stacks: nt_stack is empty */
    /* Layout and display name for kinds that the stream does not describe: fills k->schema and k->display when it knows
     * better, allocating in a. May be NULL; clr_resolve (native/clr) is the one for .NET. */
    void (*resolve)(void *arg, nt_kind *k, uint32_t pointer_size, arena *a);
    void *resolve_arg;
} nt_options;
nt_options nt_options_default(void);

typedef struct nt_stats {
    uint64_t bytes;  /* fed */
    uint64_t blocks; /* of all sorts, complete */
    uint64_t events; /* delivered or muted */
    uint64_t lost;   /* by gaps of the sequence numbers */
    uint64_t
        sequence_breaks; /* numbers that went back: a thread id used again, or a damaged stream; not counted as lost */
    uint64_t unknown_kind;   /* events whose metadata never came: not delivered */
    uint64_t fields_dropped; /* kinds whose field list could not be parsed */
    uint64_t stacks_dropped; /* past limits.stacks or limits.stacks_bytes */
    uint64_t forced_merges;  /* times limits.queue_bytes was met */
    uint64_t out_of_order;   /* events delivered with a time below an earlier one (not counted in stream_order) */
    uint64_t threads_evicted;
    uint64_t sequence_points;
    uint64_t skipped_blocks; /* of unknown sorts */
    size_t memory;           /* bytes that the reader holds now, estimate */
    size_t memory_peak;
} nt_stats;

typedef struct nt_reader nt_reader;
/* NULL with *e filled: no memory. Options and sink are copied. */
nt_reader *nt_new(const nt_options *o, const nt_sink *sink, void *arg, err *e);
void nt_free(nt_reader *r);
/* Takes n more bytes of the stream. 0, or negative with *e filled (offset = where in the stream): every event before
 * the fault has been delivered, and later calls repeat the same error. Bytes after the end mark are ignored. */
int nt_feed(nt_reader *r, const void *bytes, size_t n, err *e);
/* Delivers what waits for its place in time, for a live stream that pauses: the runtime writes in bursts, each complete
 * up to its moment, but the last events of one are known to be in order only when something comes after them. (What
 * came older all the same would be counted in stats.out_of_order.) Does nothing in the middle of a block. 0, or as
 * nt_feed. */
int nt_flush(nt_reader *r, err *e);
/* No more bytes. Delivers what waits. 0: the stream had its end mark; -ERR_TRUNCATED: it stopped before; else as
 * nt_feed. */
int nt_finish(nt_reader *r, err *e);
/* The end mark was seen. */
bool nt_ended(const nt_reader *r);
/* NULL before the stream's head was read. */
const nt_trace *nt_trace_info(const nt_reader *r);
/* Counts so far; borrowed, kept up to date. */
const nt_stats *nt_stats_of(const nt_reader *r);
uint32_t nt_kind_count(const nt_reader *r);
nt_kind *nt_kind_at(nt_reader *r, uint32_t index);
/* Instruction pointers of an event's stack, leaf first, pointer_size bytes each; empty when it has none. Only inside
 * the event callback. */
slice nt_stack(const nt_reader *r, const nt_event *ev);
/* While this number is the same, an nt_event.stack of the same value is the same stack. */
uint32_t nt_stack_epoch(const nt_reader *r);
/* The labels of a V6 event; false: none. Only inside the event callback. */
bool nt_labels_of(const nt_reader *r, const nt_event *ev, nt_labels *out);
/* Walks the named values of labels->pairs: *pos starts at 0. */
bool nt_label_next(const nt_labels *l, size_t *pos, nt_label *out);

/* Nanoseconds since the session's start (negative before it), and since 1970. */
int64_t nt_ns(const nt_trace *t, int64_t ts);
static inline int64_t nt_unix_ns(const nt_trace *t, int64_t ts) { return t->sync_unix_ns + nt_ns(t, ts); }

/* ---- files
 * ----------------------------------------------------------------------------------------------------------------------
 */
/* Feeds a whole file to r: a .nettrace file, or the first .nettrace member of a .zip. progress (may be NULL) gets bytes
 * read and the file's size now and then; non-zero cancels. Returns what nt_finish returns, or a negative status for the
 * file itself. */
int nt_read_file(nt_reader *r, const char *path, int (*progress)(void *arg, uint64_t done, uint64_t total),
                 void *progress_arg, err *e);

#endif
