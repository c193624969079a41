/* SPDX-License-Identifier: MIT */
/* engine.h: what the files of the engine share; no other folder includes it. Values, expressions, nodes and their
 * states. */
#ifndef LUNETTE_PROBE_ENGINE_H
#define LUNETTE_PROBE_ENGINE_H

#include "probe/probe.h"
#include "probe/tlv.h"
#include "probe/value.h"

/* ---- expressions ------------------------------------------------------------------------------------------------- */
typedef enum px_op {
    PX_LITERAL,
    PX_FIELD,    /* ref: a field of the event */
    PX_CAPTURED, /* ref: a value of the pair's start */
    PX_TIME,
    PX_UNIX,
    PX_THREAD,
    PX_ACTIVITY,
    PX_RELATED,
    PX_STACK,
    PX_PROVIDER,
    PX_EVENT,
    PX_ID,
    PX_VERSION,
    PX_LEVEL,
    PX_SIZE,
    PX_DURATION,
    PX_NOT,
    PX_NEG,
    PX_AND,
    PX_OR,
    PX_EQ,
    PX_NE,
    PX_LT,
    PX_LE,
    PX_GT,
    PX_GE,
    PX_BIT_OR,
    PX_BIT_AND,
    PX_SHL,
    PX_SHR,
    PX_ADD,
    PX_SUB,
    PX_MUL,
    PX_DIV,
    PX_IDIV,
    PX_MOD,
    PX_IF, /* functions from here on */
    PX_COALESCE,
    PX_MIN,
    PX_MAX,
    PX_ABS,
    PX_FLOOR,
    PX_EXP,
    PX_BIT,
    PX_LEN,
    PX_LOWER,
    PX_STARTS,
    PX_ENDS,
    PX_CONTAINS,
    PX_LIKE,
    PX_SQL,
    PX_ENUM,
    PX_HEX,
    PX_TO_NUMBER,
    PX_WITHIN, /* value: the name of a pair at the top of the program */
} px_op;

#define PX_ARGS 4
typedef struct px px;
struct px {
    uint8_t op;
    uint8_t n;
    uint32_t ref;
    pv value; /* PX_LITERAL */
    const px *arg[PX_ARGS];
};

/* ---- nodes ------------------------------------------------------------------------------------------------------- */
typedef struct pnode pnode;
struct pctx;
typedef void (*prunner)(struct pctx *c, const pnode *n, uint8_t *state);

typedef struct pcolumns {
    const px **e;
    slice *name;
    uint32_t n;
} pcolumns;

/* The children of a node and the memory that one copy of their states takes. */
typedef struct pblock {
    pnode *node;
    uint32_t n;
    size_t size;
} pblock;

struct pnode {
    uint64_t on;     /* bits of short names */
    const px *where; /* of a pair: NULL, see pair_where */
    prunner run;
    uint32_t offset; /* of its state in the block of its parent */
    uint8_t op;      /* probe_op */
    bool nested, open;
    bool lazy;      /* last: its rows can be made from the event alone */
    bool always;    /* every event of its block is its event; never set for pairs */
    bool one_group; /* pair: all that it runs is one group that is always run */
    uint8_t seen;   /* group: its place in psymbol.seen */
    const px *e, *weight;
    pblock kids;
    const px *pair_where;
    pcolumns by, by_stop, captured; /* captured: what a pair keeps of a start; the open row's columns first */
    pcolumns row;
    uint32_t n, max, top, depth, each;
    uint32_t *fields, n_fields; /* lazy: of its expressions */
    uint64_t field_bits;        /* all of them, as probe__field_bit says */
    uint64_t start, stop;       /* pair */
    uint32_t open_rows;         /* pair: how many of the open ones are shown */
    int64_t every_ns;
    const double *quantiles;
    uint32_t n_quantiles;
    slice *skip;
    uint32_t n_skip;
    slice name;
};

/* ---- kept rows --------------------------------------------------------------------------------------------------- */
/* An event as it came, of which a row is made when somebody looks. */
typedef struct praw {
    const struct probe_kind *kind;
    int64_t ts;
    uint64_t thread;
    uint8_t activity[16], related[16];
    bool has_activity, has_related;
    uint32_t n; /* bytes of the payload, behind this */
    uint8_t payload[];
} praw;
typedef struct prow {
    uint32_t cap; /* bytes of the allocation */
    uint32_t n;   /* PROW_RAW: v is a praw */
    double key;
    uint64_t order;
    pv v[];
} prow;
#define PROW_RAW     UINT32_MAX
#define PROW_RAW_MAX 1024u /* bytes of payload that are kept raw */

/* ---- states, one a reducer and place ----------------------------------------------------------------------------- */
typedef struct psum {
    uint64_t n;
    double f;
    int64_t i;
    bool floats; /* f counts, not i */
} psum;
typedef struct pextreme {
    bool floats;
    uint64_t n;
    double f;
    int64_t i;
} pextreme;
typedef struct pstats {
    psum sum;
    pextreme min, max;
} pstats;
typedef struct prows {
    prow **p;
    uint32_t n, cap, head; /* last: head is the oldest; top: a heap with the least in p[0] */
    uint64_t seen, dropped;
    size_t bytes;
} prows;

typedef struct psketch psketch;
typedef struct pdistinct pdistinct;
typedef struct pgroup pgroup;
typedef struct ppair ppair;
typedef struct ptimeline ptimeline;

#define PROBE_KEY_SMALL  256 /* bytes of a key that need no buffer */
#define PROBE_NUMBER_KEY 9   /* bytes of a key of one number */
/* ---- the engine -------------------------------------------------------------------------------------------------- */
/* How a field is read: most are whole numbers at a place that is known when the kind is first seen. */
typedef enum pfast {
    PF_NONE,
    PF_SLOW,
    PF_ARGUMENT,
    PF_TEXT16,
    PF_BEHIND_TEXT,
    PF_I32,
    PF_U32,
    PF_I64,
    PF_THREAD
} pfast;
typedef struct pplace {
    uint8_t how;                   /* pfast, up to PF_I64 */
    uint8_t number;                /* PF_BEHIND_TEXT: PF_I32, PF_U32 or PF_I64 */
    uint32_t offset, behind, text; /* PF_BEHIND_TEXT: offset is that of the one text before it, then come `behind` bytes
                                    * from its end; text: the field that is that text, or UINT32_MAX.
                                    * PF_ARGUMENT: offset of the key in the field's name */
} pplace;

/* The value of a field in the event with that stamp, and what is known of its texts. */
typedef struct pcell {
    pv v;
    uint64_t stamp;   /* the event's number: probe.order then */
    uint16_t symbols; /* how many texts of the field became symbols */
    bool plain;       /* it has too many different ones */
    uint32_t misses;
} pcell;

/* A node of the top that looks at a kind, and its state. Those that most events run through have words of their own. */
typedef enum ptop_op { PT_END, PT_RUN, PT_START, PT_STOP, PT_RING } ptop_op;
typedef struct ptop {
    uint8_t op;  /* ptop_op */
    uint8_t key; /* PT_START, PT_STOP: PF_I32, PF_U32 or PF_I64 at key_at of the payload, or PF_THREAD */
    uint32_t key_at;
    prunner run; /* does the same as any op, for whatever event */
    const pnode *node;
    uint8_t *state;
} ptop;

/* An event of which a ring keeps a row when the run is over: of many only the last ones. */
typedef struct plater {
    nt_turn turn;
    uint64_t order;
} plater;
#define PROBE_LATER 128u /* most rows of such a ring */

struct probe_kind {
    uint64_t on; /* bits of the short names that mean it */
    const nt_kind *kind;
    int32_t *index; /* of each field of the program in this kind; -1: not there */
    pplace *place;
    uint64_t *missing; /* how often it was asked for nevertheless */
    ptop *top;         /* up to PT_END */
    bool later;        /* the ring (probe.ring) keeps it, too; it is not in top */
    uint64_t lacks;    /* which fields of the program are not there, as probe__field_bit says */
};
/* Fields as bits; those of many share the last one. */
static inline uint64_t probe__field_bit(uint32_t ref) { return (uint64_t)1 << (ref < 63 ? ref : 63); }

/* symbols.c: a text of a field that is kept once. */
#define PROBE_SEEN 2u
typedef struct psymbol {
    uint64_t hash; /* probe__hash_text of it */
    struct {
        const struct pgroup *in;
        struct pentry *entry;
    } seen[PROBE_SEEN]; /* its entry in the group of that pnode.seen that looked last; cleared when the entry goes */
    uint32_t n;
    uint8_t text[]; /* UTF-16 */
} psymbol;
typedef struct psymbols {
    const psymbol **slot;
    uint32_t cap, n;
} psymbols;
#define PROBE_SYMBOLS_MAX  4096u
#define PROBE_SYMBOL_BYTES 256u /* a longer text is none */
static inline psymbol *probe__symbol_of(const uint8_t *text)
{
    return (psymbol *)(uintptr_t)(text - offsetof(psymbol, text));
}

typedef struct pstacks {
    uint32_t n, cap;
    struct pstack *p;
    uint32_t *index;
    uint32_t index_cap;
    uint64_t dropped;
    size_t bytes;
} pstacks;

typedef struct palias {
    slice provider, event;
    uint32_t bit;
    int64_t id; /* -1: by name */
} palias;

/* What the running event needs; one a thread, so it lives in the engine. */
typedef struct pctx {
    probe *p;
    const probe_kind *kind;
    const nt_event *ev;
    const nt_reader *reader;
    const nt_trace *trace;
    const pv *start; /* captured values of the pair's start; NULL outside a pair */
    int64_t duration_ns;
    bool paired;
    bool looking_back; /* at an event that was kept: what it lacks was counted when it came */
    int64_t time_ns;
    bool has_time;
} pctx;

struct probe {
    arena a;
    palias *alias;
    uint32_t n_alias;
    slice *field; /* names of all fields that expressions use */
    uint32_t n_field;
    pcell *cell; /* of each field */
    psymbols symbols;
    pblock keep;
    uint8_t *state; /* of keep */
    uint64_t finish_on;
    const px *finish_where;
    uint64_t finish_left;
    bool finished;
    bool uses_stacks, addresses;
    bool (*each)(void *arg, uint32_t each, const void *tlv, size_t n);
    void *each_arg;
    probe_kind **kind;
    uint32_t n_kind, cap_kind;
    pstacks stacks;
    size_t memory, memory_max;
    uint32_t text_max;   /* bytes of a text in a row, as the stream has it */
    uint32_t symbol_max; /* bytes of a text that may become a symbol */
    uint64_t refused;    /* allocations past memory_max */
    uint64_t scratch_full;
    uint8_t *scratch; /* texts that expressions make, until the next event */
    uint32_t scratch_n;
    buf tmp;
    pctx ctx;
    int64_t pointer_size;
    uint64_t order;                              /* number of the event, or of the look at a kept one */
    uint64_t key_words[PROBE_KEY_SMALL / 8 + 2]; /* a key of several values, until it is stored */
    const pnode *ring;                           /* the ring that looks at runs when they are over, or NULL */
    uint64_t n_later;                            /* events that it has not seen */
    plater later[PROBE_LATER];                   /* … the last of them: number i is at i % PROBE_LATER */
};
#define PROBE_SCRATCH 65536u

/* engine.c */
void *probe__alloc(probe *p, size_t n); /* zeroed; NULL past memory_max, counted */
void probe__free(probe *p, void *v, size_t n);
bool probe__charge(probe *p, size_t n); /* for memory that is not allocated here */
void probe__init(probe *p, const pblock *b, uint8_t *state);
void probe__fini(probe *p, const pblock *b, uint8_t *state);
void probe__run_all(pctx *c, const pblock *b, uint8_t *state);
/* Runs the nodes of a block whose event it is. */
static inline void probe__run(pctx *c, const pblock *b, uint8_t *state)
{
    const pnode *n = b->node;
    if (b->n == 1 && !n->where && (n->on & c->kind->on)) /* mostly the last thing that the caller does */
        n->run(c, n, state + n->offset);
    else
        probe__run_all(c, b, state);
}
/* Adds the state from to the state into; from is not changed. */
void probe__merge(probe *p, const pblock *b, uint8_t *into, const uint8_t *from);
/* Ticks to ns since the session's start; nearly every stream has ticks of 1 ns. */
static inline int64_t probe__ns(const nt_trace *t, int64_t ts)
{
    return t->frequency == 1000000000 ? ts - t->sync_ticks : nt_ns(t, ts);
}
/* From one event to another. */
static inline int64_t probe__span(const nt_trace *t, int64_t from, int64_t to)
{
    return t->frequency == 1000000000 ? (int64_t)((uint64_t)to - (uint64_t)from) : nt_ns(t, to) - nt_ns(t, from);
}
static inline int64_t probe__time(pctx *c)
{
    if (!c->has_time) {
        c->has_time = true;
        c->time_ns = probe__ns(c->trace, c->ev->ts);
    }
    return c->time_ns;
}

/* expr_parse.c: compiles a text. pair: the pair that the expression is below, or NULL. where: for messages. */
typedef struct pscope {
    probe *p;
    const probe_program *program;
    pnode *pair;
    struct pcapture *captures; /* of pair, growing */
    const char *place;         /* name of the reducer */
    uint32_t nodes;            /* expression nodes so far, of the whole program */
    err *e;
} pscope;
typedef struct pcapture {
    const px **e;
    slice *text;
    uint32_t n;
} pcapture;
const px *probe__parse(pscope *s, const char *text);
uint32_t probe__field(probe *p, slice name);

/* expr_eval.c */
pv probe__eval(pctx *c, const px *x);
bool probe__same_text(pv a, pv b); /* both texts, of any encoding */

/* fields.c */
pv probe__field_slow(pctx *c, uint32_t ref);
pv probe__field_text(pctx *c, uint32_t ref);   /* PF_TEXT16, not in its cell yet */
pv probe__field_behind(pctx *c, uint32_t ref); /* PF_BEHIND_TEXT, not in its cell yet */
/* The place of a field of the program in a kind, and its index there (-1: none). LIST.KEY, where LIST is an array of
 * Key/Value texts, is the value of that key; its index is that of the list. */
void probe__place(const nt_schema *s, slice name, int32_t *index, pplace *out);

static inline pv probe__field_value(pctx *c, uint32_t ref)
{
    const pplace *f = &c->kind->place[ref];
    const slice *b = &c->ev->payload;
    if (f->how == PF_I32 && f->offset + 4 <= b->n) return pv_int((int32_t)probe__load32(b->p + f->offset));
    const pcell *cell = &c->p->cell[ref];
    if (cell->stamp == c->p->order) return cell->v;
    return f->how == PF_TEXT16        ? probe__field_text(c, ref)
           : f->how == PF_BEHIND_TEXT ? probe__field_behind(c, ref)
                                      : probe__field_slow(c, ref);
}

static inline pv probe__value(pctx *c, const px *x)
{
    if (x->op == PX_FIELD) return probe__field_value(c, x->ref);
    if (x->op == PX_CAPTURED && c->start) return c->start[x->ref];
    if (x->op == PX_DURATION && c->paired) return pv_int(c->duration_ns);
    return probe__eval(c, x);
}
static inline bool probe__holds(pctx *c, const px *where) { return pv_true(probe__value(c, where)); }
bool probe__text_utf8(pv v, buf *out);
/* sql.c: the statement without its values, comments and needless blanks into out[cap], cap >= 4; what does not fit ends
 * in
 * "...". The statement is valid UTF-8, and so is what comes out. Returns the bytes written. */
uint32_t probe__sql_plain(slice sql, uint8_t *out, uint32_t cap);
/* Appends a value; tmp is overwritten. Stacks come as their number from 0 (probe_result numbers them anew). */
void probe__tlv_value(pv v, buf *out, buf *tmp);

/* Which function runs a reducer. */
prunner probe__runner(probe_op op);

/* compile.c */
bool probe__compile(probe *p, const probe_program *program, err *e);

/* symbols.c: a symbol for a text that has none; NULL: it gets none. */
const psymbol *probe__symbol_make(probe *p, pcell *field, const uint8_t *text, uint32_t n, uint64_t hash);
void probe__symbols_fini(probe *p);

/* rows.c */
/* The values of cols now. reuse (may be NULL) is taken over: used again or freed. NULL: past the memory cap. */
prow *probe__row(pctx *c, const pcolumns *cols, prow *reuse);
void probe__row_free(probe *p, prow *r);
prow *probe__row_copy(probe *p, const prow *r);
void probe__rows_add(pctx *c, const pnode *n, prows *s);
void probe__rows_fini(probe *p, prows *s);
void probe__rows_merge(probe *p, const pnode *n, prows *into, const prows *from);
/* Between begin and end expressions see the event that a raw row was kept of (p->ctx). */
typedef struct praw_look {
    pctx was;
    nt_event ev;
} praw_look;
void probe__raw_begin(probe *p, const prow *r, praw_look *look);
void probe__raw_end(probe *p, const praw_look *look);
/* In the order of the result: `visit` for each. */
void probe__rows_each(const pnode *n, const prows *s, void (*visit)(void *arg, const prow *r), void *arg);

/* sketch.c */
void probe__sketch_add(probe *p, psketch **s, double v);
void probe__sketch_fini(probe *p, psketch **s);
void probe__sketch_merge(probe *p, psketch **into, const psketch *from);
uint64_t probe__sketch_n(const psketch *s);
bool probe__sketch_exact(const psketch *s);
/* q: 0 to 100. */
double probe__sketch_at(const psketch *s, double q);
double probe__sketch_min(const psketch *s);
double probe__sketch_max(const psketch *s);
double probe__sketch_mean(const psketch *s);
#define PROBE_SKETCH_ERROR (1.0 / 128)

/* distinct.c */
void probe__distinct_add(probe *p, pdistinct **s, uint32_t max, uint64_t hash);
void probe__distinct_fini(probe *p, pdistinct **s);
void probe__distinct_merge(probe *p, pdistinct **into, const pdistinct *from);
uint64_t probe__distinct_n(const pdistinct *s, bool *exact);
#define PROBE_DISTINCT_ERROR 0.017

/* group.c */
struct pentry; /* one key */
void probe__group_add(pctx *c, const pnode *n, pgroup **g);
void probe__group_fini(probe *p, const pnode *n, pgroup **g);
void probe__group_merge(probe *p, const pnode *n, pgroup **into, const pgroup *from);
typedef struct pentry {
    uint64_t hash;
    double weight;
    uint64_t n;
    bool partial;
    uint32_t key_n;
    uint64_t born;         /* number of its first event */
    const uint8_t *symbol; /* the text of the symbol that the key is, once it was met as one */
    uint8_t state[];       /* the block, then the key */
} pentry;
struct pgroup {
    pentry **slot;
    uint32_t cap, n;
    uint64_t evicted, refused;
    uint8_t *other; /* a block, or NULL */
    uint64_t other_n;
    double other_weight;
};
/* Walks the values of a key. */
pv probe__key_next(const uint8_t **p, const uint8_t *end);
void probe__key_put(buf *b, pv v);
/* A key in the making. One value alone is hashed and compared as it is; bytes are made of it only when it is stored. */
typedef enum pkey_form { PK_BYTES, PK_WORD, PK_TEXT } pkey_form;
typedef struct pkey {
    uint8_t form;
    uint32_t n, nulls; /* bytes; how many of its values are null */
    uint64_t hash;     /* never 0 */
    pv one;            /* PK_TEXT: texts and GUIDs */
    const uint8_t *p;  /* PK_BYTES: in the engine */
    uint64_t word[2];  /* PK_WORD */
} pkey;
/* The key of cols now. Its bytes are in k, in the event, or, of a large one, in the engine's buffer, where the next
 * text overwrites them. */
void probe__key_slow(pctx *c, const pcolumns *cols, pkey *k);
#define PROBE_KEY_SEED 0x9E3779B97F4A7C15ull
/* Mixes 16 bytes into h. */
static inline uint64_t probe__mix(uint64_t h, uint64_t lo, uint64_t hi)
{
    const unsigned __int128 m = (unsigned __int128)(lo ^ h) * (hi ^ 0xD6E8FEB86659FD93ull);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}
/* The hash of a text or GUID of n bytes, which were mixed into h by 16 (the last ones filled up with zeros), beginning
 * with the seed. */
static inline uint64_t probe__hash_end(uint64_t h, uint32_t n, uint8_t type)
{
    return (h ^ ((uint64_t)n << 8 | type)) | 1;
}
/* Numbers that follow one another are spread evenly. Two of a type with the same hash differ in their low 56 bits. */
static inline uint64_t probe__hash_word(uint8_t type, int64_t i)
{
    uint64_t h = ((uint64_t)i ^ (uint64_t)type << 56) * PROBE_KEY_SEED;
    return (h >> 32 | h << 32) | 1;
}
static inline uint64_t probe__hash_number(pv v) { return probe__hash_word(v.type, v.i); }
static inline void probe__key(pctx *c, const pcolumns *cols, pkey *k)
{
    pv v = cols->n == 1 ? probe__value(c, cols->e[0]) : pv_null();
    if (cols->n != 1 || v.type == PV_NULL || pv_has_bytes(v)) {
        probe__key_slow(c, cols, k);
        return;
    }
    k->nulls = 0; /* most keys are one number */
    k->form = PK_WORD;
    k->word[0] = v.type | (uint64_t)v.i << 8;
    k->word[1] = (uint64_t)v.i >> 56;
    k->n = PROBE_NUMBER_KEY;
    k->hash = probe__hash_number(v);
}
/* Where a hash begins to look in a table of cap places; the lowest bit of every hash is set. */
static inline uint32_t probe__home(uint64_t hash, uint32_t cap) { return (uint32_t)(hash >> 4) & (cap - 1); }
static inline uint32_t probe__key_room(uint32_t n) { return (n + 7) & ~7u; }
/* Writes probe__key_room(k->n) bytes. */
void probe__key_store(uint8_t *to, const pkey *k);
/* Stored keys have probe__key_room bytes, padded with zeros; stored has k->n of them. */
static inline bool probe__key_is(const uint8_t *stored, const pkey *k)
{
    if (k->form == PK_WORD)
        return probe__load64(stored) == k->word[0] && (k->n <= 8 || probe__load64(stored + 8) == k->word[1]);
    if (k->form == PK_TEXT) {
        const uint8_t *p = k->one.p;
        uint32_t n = k->one.n;
        return *stored == k->one.type && probe__same(stored + 5, p, n);
    }
    return memcmp(stored, k->p, k->n) == 0;
}
static inline const uint8_t *probe__entry_key(const pnode *n, const pentry *e) { return e->state + n->kids.size; }
uint64_t probe__hash_value(pv v);

/* pair.c */
/* The state of a pair is its ppair and then its children's. An event of a kind that is a start, a stop, or both. */
void probe__pair_start(pctx *c, const pnode *n, uint8_t *state);
void probe__pair_stop(pctx *c, const pnode *n, uint8_t *state);
void probe__pair_run(pctx *c, const pnode *n, uint8_t *state);
void probe__pair_fini(probe *p, ppair **s);
void probe__pair_merge(probe *p, ppair **into, const ppair *from);
/* Is a start of the top's pair of that name open under the keys that the running event has? */
bool probe__pair_is_open(pctx *c, slice name);
/* timeline.c */
typedef struct pbucket {
    int64_t at; /* number of the slice */
    uint8_t *state;
} pbucket;
struct ptimeline {
    pbucket *p;
    uint32_t n, cap;
    uint64_t dropped;
};
void probe__timeline_add(pctx *c, const pnode *n, ptimeline **t);
void probe__timeline_fini(probe *p, const pnode *n, ptimeline **t);
void probe__timeline_merge(probe *p, const pnode *n, ptimeline **into, const ptimeline *from);

/* stacks.c */
typedef struct pstack {
    uint32_t n; /* addresses, leaf first */
    uint32_t hash;
    int64_t ts, last; /* of the first and the last event that had it */
    uint64_t *ip;
} pstack;
int64_t probe__stack_intern(pctx *c); /* -1: none */
void probe__stacks_fini(probe *p);

#endif
