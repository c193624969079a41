/* SPDX-License-Identifier: MIT */
/* probe.h: the reducer engine (docs/design/probe.md). A declaration is compiled once; then every event of a stream runs
 * through it on the thread that reads the stream. Plain C, no Lua, one thread at a time; whoever shares an engine
 * locks.
 *
 *     probe *p = probe_new(&program, &e);
 *     in the sink:  kind:  probe_bind(p, k)   event:  probe_event(p, reader, ev)
 *     at the end:   probe_result(p, methods, &out)
 */
#ifndef LUNETTE_PROBE_PROBE_H
#define LUNETTE_PROBE_PROBE_H

#include <stdatomic.h>

#include "base/mem.h"
#include "clr/methods.h"
#include "nettrace/nettrace.h"

typedef enum probe_op {
    PROBE_COUNT,
    PROBE_SUM,
    PROBE_MIN,
    PROBE_MAX,
    PROBE_STATS,
    PROBE_QUANTILES,
    PROBE_VALUE,
    PROBE_DISTINCT,
    PROBE_FIRST,
    PROBE_LAST,
    PROBE_TOP,
    PROBE_GROUP,
    PROBE_PAIR,
    PROBE_TIMELINE,
    PROBE_FILTER,
    PROBE_EACH,
    PROBE_OP_COUNT
} probe_op;

/* The defaults and caps of docs/design/probe.md. */
#define PROBE_NODES_MAX      512
#define PROBE_EXPRS_MAX      8192 /* nodes of all expressions */
#define PROBE_EVENTS_MAX     64   /* short names */
#define PROBE_PATTERNS_MAX   256  /* texts behind them */
#define PROBE_COLUMNS_MAX    64
#define PROBE_DEPTH_MAX      16
#define PROBE_KEYS_DEFAULT   4096
#define PROBE_KEYS_MAX       1000000
#define PROBE_TOP_DEFAULT    100
#define PROBE_ROWS_MAX       1000000
#define PROBE_ROWS_BYTES     ((size_t)16 << 20)
#define PROBE_TEXT_MAX       4096u  /* bytes of a text in a key, and in a row when the program does not say */
#define PROBE_ROW_TEXT_MAX   65536u /* the most that a program may say */
#define PROBE_OPEN_MAX       65536u
#define PROBE_OPEN_ROWS      200 /* of a pair that does not say how many */
#define PROBE_BUCKETS_MAX    3600
#define PROBE_STACKS_MAX     65536u
#define PROBE_MEMORY_DEFAULT ((size_t)64 << 20)
#define PROBE_DISTINCT_MAX   1024

/* All texts of a program and its lists are borrowed until probe_new has returned. */
typedef struct probe_named {
    const char *name, *text; /* an expression; of an event: "PROVIDER/EVENT" */
} probe_named;

typedef struct probe_texts {
    const char *const *p;
    size_t n;
} probe_texts;

typedef struct probe_row {
    const probe_named *p;
    size_t n;
} probe_row;

/* A node as declared; zero what does not apply. */
typedef struct probe_spec probe_spec;
struct probe_spec {
    const char *name; /* unique beside its siblings */
    probe_op op;
    probe_texts on;          /* short names; none: all */
    const char *where;       /* may be NULL */
    const char *expr;        /* sum, min, max, stats, quantiles, value, distinct, top */
    const char *weight;      /* group; NULL: the number of events */
    probe_row row;           /* first, last, top, each; pair: the row of a start that stayed open */
    probe_row by;            /* group: keys; pair: keys (names do not matter) */
    probe_row by_stop;       /* pair: keys of the stop where they differ */
    probe_texts start, stop; /* pair: short names */
    const double *quantiles; /* percentiles, 0 to 100 */
    size_t n_quantiles;
    uint32_t n;        /* first, last, top: rows */
    uint32_t max, top; /* 0: the default; top of a pair: rows of what stayed open */
    int64_t every_ns;  /* timeline */
    bool nested, open; /* pair; open: rows of what had no stop are wanted */
    probe_texts skip;  /* group: leading frames that begin so are left out */
    uint32_t depth;    /* group: frames kept; 0: all */
    uint32_t each;     /* each: whom it is for */
    const probe_spec *keep;
    size_t n_keep;
};

typedef struct probe_program {
    const probe_named *events; /* short name, "PROVIDER/EVENT"; the same name may come again */
    size_t n_events;
    probe_row let;
    const probe_spec *keep;
    size_t n_keep;
    probe_texts finish_on; /* none: the window has no early end */
    const char *finish_where;
    uint64_t finish_count; /* 0: 1 */
    bool addresses;        /* stacks stay addresses: no names, so no rundown */
    size_t memory_max;     /* 0: PROBE_MEMORY_DEFAULT */
    uint32_t text_max;     /* bytes of a text in a row, as the stream has it; 0: PROBE_TEXT_MAX */
    /* Rows of `each`, as tlv (probe/tlv.h); the engine's thread; false: it was dropped. */
    bool (*each)(void *arg, uint32_t each, const void *tlv, size_t n);
    void *each_arg;
} probe_program;

typedef struct probe probe;
/* NULL with *e filled (InvalidArgument: what is wrong with which expression of which reducer). */
probe *probe_new(const probe_program *program, err *e);
void probe_free(probe *p);
/* Does an expression use @stack? Then the reader must keep stacks. */
bool probe_uses_stacks(const probe *p);
/* Stacks are used and names are wanted: the session needs a rundown. */
bool probe_wants_names(const probe *p);
/* A kind of event appeared. Returns what probe_event needs to know of it (of the engine, good until probe_free); NULL:
 * no reducer looks at it. */
typedef struct probe_kind probe_kind;
probe_kind *probe_bind(probe *p, const nt_kind *k);
/* One event of a bound kind; inside the reader's event callback. */
void probe_event(probe *p, probe_kind *k, const nt_reader *r, const nt_event *ev);
/* nt_kind.user of a sink that gives whole runs of events to probe_events: a struct that begins with this. */
typedef struct probe_use {
    probe_kind *only; /* what probe_bind said, when nobody but the reducers wants the events of the kind; else NULL */
} probe_use;
/* Takes events out of a run, inside nt_sink.run. True: run->event is one that is not for the reducers alone, or *quiet
 * is set: it was not looked at. False: none is left. *latest: the time of the latest event that was looked at, if it is
 * later. */
bool probe_events(probe *p, const nt_reader *r, nt_run *run, const atomic_bool *quiet, int64_t *latest);
/* The early end that the program asked for was met. */
bool probe_finished(const probe *p);
/* The addresses of all stacks so far and those just before them, each once, sorted; *n of them, yours to free. NULL:
 * none, or no memory. */
uint64_t *probe_addresses(const probe *p, size_t *n);
size_t probe_memory(const probe *p);
/* Appends the state of all reducers to out as tlv (probe/tlv.h): a table of the names of `keep`, and "stacks", "meta".
 * methods may be NULL. The engine is not changed. False: no memory. */
bool probe_result(const probe *p, const clr_methods *methods, buf *out);

#endif
