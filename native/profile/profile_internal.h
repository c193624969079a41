/* SPDX-License-Identifier: MIT */
/* profile_internal.h: what the files of the profile share. builder.c takes events and samples, collect.c counts them,
 * build.c and frames.c make the tree, layout.c brings it into its final form; the others answer questions. */
#ifndef LUNETTE_PROFILE_INTERNAL_H
#define LUNETTE_PROFILE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "clr/il_map.h"
#include "profile/profile.h"

#define PF_NONE UINT32_MAX

/* ---- collect.c: stacks of addresses, and counts -------------------------------------------------------------------
 */

/* A name that came with a sample (profile_symbol) stands where an address would: no address has these upper bits. */
#define PF_SYMBOL_BITS UINT64_C(0xFFFE000000000000)
#define PF_SYMBOL_MASK UINT64_C(0xFFFF000000000000)
static inline bool pf_is_symbol(uint64_t ip) { return (ip & PF_SYMBOL_MASK) == PF_SYMBOL_BITS; }

/* One address of a stack, below those nearer to the root. Parents come before their children; 0 is the root. */
typedef struct pf_step {
    uint64_t ip;
    uint32_t parent;
    uint32_t exact; /* 1: where the thread stood; 0: a return address */
} pf_step;

/* How often a thread was seen at a stack. */
typedef struct pf_count {
    uint32_t step, thread;
    uint32_t what; /* CPU: PF_WHAT(state, type); allocation: index of the type */
    uint32_t pad;
    uint64_t samples, weight;
    int64_t first, last; /* ticks */
} pf_count;

typedef struct pf_type {
    uint32_t name; /* in pf_store.text */
    uint64_t events, bytes;
    double objects;
    uint64_t by_kind[PROFILE_HEAPS];
} pf_type;

typedef struct pf_symbol {
    uint32_t module, method; /* in pf_store.text */
    bool kernel;
} pf_symbol;

/* A whole stack that came before: by 128 bits of hash under a key that nobody can guess, so that equal is the same. */
typedef struct pf_known {
    uint64_t a, b;
    uint32_t step; /* 0: free */
} pf_known;

typedef struct pf_store {
    size_t max, memory;
    uint64_t key[2]; /* of the hashes of whole stacks */
    pf_known *known;
    uint32_t n_known, known_slots;
    pf_step *steps;
    uint32_t n_steps, cap_steps;
    uint64_t *step_cells; /* hash << 32 | index */
    uint32_t step_slots;
    pf_count *counts;
    uint32_t n_counts, cap_counts;
    uint32_t *count_cells; /* index + 1 */
    uint32_t count_slots;
    map64 thread_at;
    uint64_t *threads;
    uint32_t n_threads, cap_threads;
    pf_type *types;
    uint32_t n_types, cap_types;
    uint32_t *type_at; /* by text: index + 1 */
    uint32_t cap_type_at;
    pf_symbol *symbols;
    uint32_t n_symbols, cap_symbols;
    map64 symbol_at; /* module << 32 | method << 1 | kernel of their texts */
    strtab *text;
    uint32_t stacks; /* different ones */
    uint64_t samples, weight, no_stack, dropped, cut, by_type[3];
    bool weighted, states, streamed; /* streamed: stacks are those of a runtime */
} pf_store;

bool pf_store_init(pf_store *s, size_t max);
void pf_store_fini(pf_store *s);
/* The step below parent at ip, made if need be. PF_NONE: no room. */
uint32_t pf_store_step(pf_store *s, uint32_t parent, uint64_t ip, bool exact);
/* A stack of pointers, leaf first. PF_NONE: no room; then the sample is the root's. */
uint32_t pf_store_stack(pf_store *s, slice ips, uint32_t pointer, bool exact);
/* The number of a thread. PF_NONE: no room. */
uint32_t pf_store_thread(pf_store *s, uint64_t thread);
uint32_t pf_store_type(pf_store *s, slice name);
/* Adds to a count, made if need be. PF_NONE: no room; else its index, for pf_store_again. */
uint32_t pf_store_count(pf_store *s, uint32_t step, uint32_t thread, uint32_t what, uint64_t samples, uint64_t weight,
                        int64_t time);
static inline void pf_store_again(pf_store *s, uint32_t count, uint64_t samples, uint64_t weight, int64_t time)
{
    pf_count *c = &s->counts[count];
    c->samples += samples;
    c->weight += weight;
    if (time < c->first) c->first = time;
    if (time > c->last) c->last = time;
}
/* Grows an array of a store to hold one more. False: no memory, or over the cap. */
bool pf_store_room(pf_store *s, void **array, uint32_t n, uint32_t *cap, size_t each, uint32_t first);

#define PF_WHAT(state, type) ((uint32_t)(state) << 8 | (uint32_t)(type))
static inline profile_state pf_state_of(uint32_t what) { return (profile_state)(what >> 8); }

/* ---- builder.c -----------------------------------------------------------------------------------------------------
 */

typedef struct pf_wait_rule {
    slice name; /* without the '*' */
    bool prefix;
    int32_t reason; /* index of the first rule with this reason */
} pf_wait_rule;

/* What a stack's number in the stream stood for last. */
typedef struct pf_seen {
    uint32_t epoch, step;
    uint32_t thread, what, count; /* the last count there */
} pf_seen;
#define PF_SEEN_MAX (1u << 20)

/* A thread's last sample: the time up to the next one is its. */
typedef struct pf_last {
    int64_t time;
    uint32_t count; /* + 1; 0: none */
} pf_last;

typedef struct pf_use pf_use; /* what the builder knows of a kind of event */

struct profile_builder {
    nt_tap tap; /* first */
    atomic_uint refs;
    pthread_mutex_t
        lock; /* events of a stream, names of other sessions and samples of somebody else may come on several threads */
    profile_cfg cfg;
    arena a; /* texts of waits, uses */
    pf_wait_rule *waits;
    pf_store store;
    nt_tap names; /* what profile_builder_names gives */
    clr_methods *methods;
    clr_il_maps *il_maps; /* NULL until the stream has one */
    bool wanted;          /* the map was told which addresses matter */
    bool began;           /* the rundown */
    bool told;            /* profile_names_told */
    pf_seen *seen;
    uint32_t cap_seen;
    pf_last *last; /* by thread */
    uint32_t cap_last;
    int64_t gap_max; /* ticks */
    uint64_t thread; /* the last one, and its number */
    uint32_t thread_index;
    uint64_t bad;
    profile_resolve_fn resolve;
    void *resolve_arg;
    void (*resolve_release)(void *arg);
    bool have_trace, built;
    bool in_ticks; /* weights are, by the stream's clock */
    nt_trace trace;
    _Atomic uint64_t seen_samples;
    _Atomic uint32_t seen_stacks, seen_threads;
    _Atomic size_t seen_memory;
    atomic_bool ended;
};

/* From here on only methods that some stack hits are kept. Under the lock. */
void pf_builder_want(profile_builder *b);

/* ---- raw trees: what layout.c makes a profile of ---------------------------------------------------------------- */

typedef enum pf_column {
    PF_SAMPLES,
    PF_WEIGHT,
    PF_BEFORE,
    PF_BEFORE_WEIGHT,
    PF_SUMMED, /* the columns above have inclusive sums, those below are of the exclusive samples */
    PF_RUNNING = PF_SUMMED,
    PF_WAITING,
    PF_COLUMNS
} pf_column;

/* Parents before children; 0 is the root. */
typedef struct pf_raw {
    uint32_t *parent, *frame;
    int64_t *own[PF_COLUMNS]; /* NULL: all zero */
    uint32_t n, cap;
    uint64_t *cells;
    uint32_t slots;
} pf_raw;
/* columns: a bit for each that is used. False: no memory. */
bool pf_raw_init(pf_raw *r, unsigned columns, uint32_t expect);
void pf_raw_fini(pf_raw *r);
/* The child of a frame, made if need be. PF_NONE: no memory. */
uint32_t pf_raw_child(pf_raw *r, uint32_t parent, uint32_t frame);

/* ---- the profile --------------------------------------------------------------------------------------------------
 */

struct profile {
    atomic_uint refs;
    profile_info info;
    arena a; /* everything that has no pointer of its own below */
    uint32_t n, n_frames, n_modules, n_groups, n_namespaces, n_threads, n_types;
    uint32_t *parent, *size, *frame;
    int64_t *own[PF_COLUMNS], *sum[PF_SUMMED];
    profile_frame *frames;
    profile_module *modules;
    slice *groups, *namespaces; /* by profile_frame.group, .namespace_index */
    profile_thread *threads;
    profile_type *types;
    const char **reasons; /* by profile_frame.wait */
    int32_t n_reasons;
};

profile *pf_profile_new(void);
/* Sorts, numbers and sums a raw tree into p (whose frames are there), and counts its frames. Takes nothing of r away.
 */
bool pf_layout(profile *p, const pf_raw *r);
/* The counts of every frame: a sample counts once for a frame. */
bool pf_count_frames(profile *p);
profile_counts pf_counts(const profile *p, uint32_t node);

/* Gives p the frames, modules, groups and namespaces of another profile, and room for more frames. False: no memory. */
bool pf_copy_frames(profile *p, const profile *from, uint32_t more);

/* Adds up rows while a tree is walked in preorder: inclusive counts only outside of what was counted for the key. */
typedef struct pf_tally {
    profile_counts *counts; /* by key */
    uint32_t *until;        /* by key: end of the last subtree that was counted */
} pf_tally;
bool pf_tally_init(pf_tally *t, uint32_t keys);
void pf_tally_fini(pf_tally *t);
static inline void pf_tally_add(pf_tally *t, const profile *p, uint32_t key, uint32_t node)
{
    profile_counts c = pf_counts(p, node), *to = &t->counts[key];
    to->exclusive += c.exclusive;
    to->running += c.running;
    to->waiting += c.waiting;
    to->exclusive_weight += c.exclusive_weight;
    if (node < t->until[key]) return;
    to->inclusive += c.inclusive;
    to->inclusive_weight += c.inclusive_weight;
    t->until[key] = node + p->size[node];
}

/* Keys of a tally that carry anything, ranked, at most max. keep (may be NULL) says which keys count. */
int pf_rank(const profile *p, const profile_counts *counts, uint32_t keys, profile_rank rank, uint32_t max,
            bool (*keep)(const profile *p, uint32_t key), profile_rows *out, err *e);

/* ---- frames.c: methods of addresses -------------------------------------------------------------------------------
 */

typedef struct pf_namer pf_namer;
/* Names for the addresses of a builder's stacks, into p. NULL: no memory. */
pf_namer *pf_namer_new(profile *p, profile_builder *b);
void pf_namer_free(pf_namer *w);
/* Looks an address up, and tells in *reused whether its method depends on the time. False: no memory. */
bool pf_namer_see(pf_namer *w, const pf_step *s, bool *reused);
/* The frame of a step between two times, and how many samples were there and passed through; PF_NONE: no memory. */
uint32_t pf_namer_frame(pf_namer *w, const pf_step *s, int64_t first, int64_t last, uint64_t own, uint64_t through);
profile_frame_kind pf_namer_kind(const pf_namer *w, uint32_t frame);
/* The rule by which a frame waits as a leaf; -1: none. */
int32_t pf_namer_wait(const pf_namer *w, uint32_t frame);
/* Gives the frames to p, with their hottest addresses, modules and namespaces. */
bool pf_namer_finish(pf_namer *w);

/* ---- text.c: what names tell --------------------------------------------------------------------------------------
 */

/* The namespace of a type's name: "System.Collections.Generic" of "System.Collections.Generic.List`1[System.Int32]". */
slice pf_namespace_of(slice type);
/* "OWNER+<NAME>d__N" with MoveNext: owner and name. */
bool pf_async_parts(slice type, slice method, slice *owner, slice *name);
/* The body of an async method, a lambda or local function of one: MoveNext of a type "…+<NAME>d…". */
bool pf_is_async_body(slice type, slice method);
/* Appends without generic arguments and arities: "System.Threading.Tasks.Task" of "System.Threading.Tasks.Task`1[X]".
 */
bool pf_plain_name(slice name, buf *out);
/* The rule for a leaf of this plain name; -1: none. */
int32_t pf_wait_of(const pf_wait_rule *rules, size_t n, slice plain);

#endif
