/* SPDX-License-Identifier: MIT */
/* profile.h: samples with stacks (of EventPipe's sample profiler, of allocations, later of the kernel) into an
 * immutable merged call tree with names, and what is asked of it. docs/design/profile.md.
 *
 *     profile_builder *b = profile_builder_new(&cfg, &e);
 *     events of a stream through profile_builder_tap(b), or profile_add() for each sample of somebody else
 *     profile *p = profile_build(b, &e);          names, merging; any thread
 *     ... profile_top(p, &q, &rows) ...           any number of threads at once
 *     profile_unref(p); profile_builder_unref(b);
 *
 * Names stay what the runtime's events say; text is UTF-8, borrowed as long as the profile. */
#ifndef LUNETTE_PROFILE_PROFILE_H
#define LUNETTE_PROFILE_PROFILE_H

#include "base/bytes.h"
#include "base/err.h"
#include "clr/methods.h"
#include "nettrace/tap.h"

/* ---- collecting -------------------------------------------------------------------------------------------------- */

typedef enum profile_kind {
    PROFILE_CPU,        /* Microsoft-DotNETCore-SampleProfiler: where threads stood, each millisecond */
    PROFILE_ALLOCATION, /* GC/AllocationTick: about each 100 KB, of a type; or GC/AllocationSampled (.NET 10) */
} profile_kind;

/* What is known of the thread when the sample was taken. EventPipe never says RUNNING: it looks at waiting threads
 * too. */
typedef enum profile_state { PROFILE_UNKNOWN, PROFILE_RUNNING, PROFILE_WAITING, PROFILE_STATES } profile_state;

/* A name by which a leaf is known to wait: of "Namespace.Type.Method" (no generic arguments, no parameters), or its
 * beginning when it ends in '*'. The first that fits counts. */
typedef struct profile_wait {
    const char *name, *reason;
} profile_wait;
#define PROFILE_WAITS_MAX 512

#define PROFILE_MAX_BYTES ((size_t)512 << 20)
/* EventPipe tells so many frames of a stack, those next to its leaf (EP_MAX_STACK_DEPTH of the runtime's ep-types.h).
 */
#define PROFILE_RUNTIME_DEPTH 100
/* Frames of one stack; what is nearer to the root is cut off and counted. */
#define PROFILE_DEPTH_MAX 4096u

typedef struct profile_cfg {
    profile_kind kind;
    const profile_wait *waits; /* copied; CPU */
    size_t n_waits;
    bool sampled;     /* ALLOCATION: use AllocationSampled and leave AllocationTick out */
    bool causality;   /* keep what the view of async causality needs */
    size_t max_bytes; /* of what is collected; 0: PROFILE_MAX_BYTES. Past it new stacks are dropped and counted */
} profile_cfg;

typedef struct profile_builder profile_builder;
/* One reference. NULL with *e filled: no memory, too many waits. */
profile_builder *profile_builder_new(const profile_cfg *cfg, err *e);
profile_builder *profile_builder_ref(profile_builder *b);
void profile_builder_unref(profile_builder *b);
/* For source_cfg.tap: each reference taken of it is one of the builder's. A builder is for one stream. */
nt_tap *profile_builder_tap(profile_builder *b);
/* The same for another session on the same process, of which only names of methods (and IL maps) are taken, while the
 * stream runs or after it: the tap of as many sessions as one likes, one after the other. References as above. */
nt_tap *profile_builder_names(profile_builder *b);

/* Which addresses of the stacks have no name so far. After the end of the stream, before the build; any thread. */
typedef struct profile_unnamed {
    uint32_t unknown; /* no method is known to have been there */
    uint32_t begun;   /* of these: code of precompiled methods that began to be used after the names were told */
    uint64_t dropped; /* methods that were told and found no room */
} profile_unnamed;
void profile_unnamed_of(profile_builder *b, profile_unnamed *out);
/* All names were told: those of code that was there before, to its end, and each first use of precompiled code since
 * then. Only now is such code known by where it begins, although nobody told where it ends; after a rundown that broke
 * off it could as well be that of a method behind, which was not told. Before the build; any thread. */
void profile_names_told(profile_builder *b);

typedef struct profile_progress {
    uint64_t samples; /* so far */
    uint32_t stacks;  /* different ones, about */
    uint32_t threads;
    size_t memory; /* bytes, estimate */
    bool ended;    /* the stream has been read */
} profile_progress;
void profile_progress_of(const profile_builder *b, profile_progress *out); /* any thread, at any time */

/* ---- samples of somebody else (one thread at a time), instead of a stream's or beside a stream that brings the names
 * of methods. Whatever is added comes before the stream's rundown. ----
 */

/* A frame whose name is known already, as an address for profile_sample.ips. UINT64_MAX: no room. */
uint64_t profile_symbol(profile_builder *b, slice module, slice method, bool kernel);
typedef struct profile_sample {
    const uint64_t *ips; /* leaf first; addresses, or what profile_symbol gave */
    uint32_t n;
    bool leaf_exact; /* the first is where the thread stood, not a return address */
    uint64_t thread;
    int64_t time; /* ticks of one clock, for names that hold for a time only */
    profile_state state;
    uint64_t samples; /* this many at once: 1 */
    uint64_t weight;  /* bytes of allocations; nanoseconds of CPU or time */
    slice what;       /* for the split by type: a type's name; may be empty */
    uint32_t flavour; /* profile_heap_kind for allocations */
} profile_sample;
/* False: dropped (counted). */
bool profile_add(profile_builder *b, const profile_sample *s);
/* The names of addresses that the map of methods does not know (of a return address the one before it); asked while the
 * tree is built. Borrowed, as arg, until
 * then. module and method may be empty: then the frame is shown by its address. */
typedef struct profile_name {
    slice module, method;
    bool kernel;
} profile_name;
typedef bool (*profile_resolve_fn)(void *arg, uint64_t ip, int64_t time, profile_name *out);
void profile_set_resolver(profile_builder *b, profile_resolve_fn fn, void *arg);
/* The same, and release(arg) when the builder goes. */
void profile_own_resolver(profile_builder *b, profile_resolve_fn fn, void *arg, void (*release)(void *arg));
/* Where the method at ip begins, as far as the map of methods has it by now. Any thread. */
bool profile_builder_code(profile_builder *b, uint64_t ip, uint64_t *start);
/* No stream will come: what was added is all. */
void profile_builder_end(profile_builder *b);
/* The map that names managed frames; fed by the tap, or by whoever adds samples. Borrowed. */
clr_methods *profile_builder_methods(profile_builder *b);

/* ---- the profile --------------------------------------------------------------------------------------------------
 */

typedef struct profile profile;
/* Builds the tree of what was collected so far and takes it away: once a builder, after the end. NULL with *e filled.
 */
profile *profile_build(profile_builder *b, err *e);
profile *profile_ref(profile *p);
void profile_unref(profile *p); /* any thread; NULL is fine */

typedef enum profile_frame_kind {
    PROFILE_FRAME_ROOT,
    PROFILE_FRAME_MANAGED,
    PROFILE_FRAME_DYNAMIC,    /* managed, without metadata: no token */
    PROFILE_FRAME_NATIVE,     /* named by somebody else, in user space */
    PROFILE_FRAME_KERNEL,     /* the same, of the kernel */
    PROFILE_FRAME_UNRESOLVED, /* nothing, or more than one thing, is known to have been at the address */
} profile_frame_kind;

#define PROFILE_HOT_ADDRESSES 8
/* An address at which a frame was seen, for its source line. */
typedef struct profile_address {
    uint64_t ip;
    uint64_t samples;   /* for which it was the leaf; of a frame that was none: which passed through */
    uint64_t method_id; /* of the body that it lies in, with rejit_id and start the key of its IL map */
    uint64_t rejit_id, start;
    uint32_t il_offset; /* CLR_IL_NONE: not known */
    bool exact;         /* not a return address (else look up ip - 1) */
} profile_address;

/* The samples of a thing. unknown is exclusive less running less waiting. */
typedef struct profile_counts {
    int64_t inclusive, exclusive;
    int64_t running, waiting; /* of the exclusive ones */
    /* Bytes; of CPU nanoseconds: EventPipe's samples stand for the time up to the thread's next one, at most
     * PROFILE_GAP_MAX_NS of it, since a thread is seen late where it is slow to stop. */
    int64_t inclusive_weight, exclusive_weight;
} profile_counts;
#define PROFILE_GAP_MAX_NS INT64_C(1000000000)

/* One method, whatever its bodies and addresses: the same module, token, type, name and signature. */
typedef struct profile_frame {
    slice module;    /* "System.Private.CoreLib"; "?" when not known */
    slice method;    /* as TraceEvent prints it: "System.String.Concat(class System.String,class System.String)";
                        unresolved: "0x7f…" */
    slice type;      /* "System.Collections.Generic.List`1[System.__Canon]"; may be empty */
    slice name;      /* "Add"; may be empty */
    slice signature; /* "instance void  (!0)"; may be empty */
    uint32_t token;  /* 0: none */
    profile_frame_kind kind;
    uint32_t module_index;    /* of profile_module; UINT32_MAX: none */
    uint32_t group;           /* of profile_group: modules of one name */
    uint32_t namespace_index; /* of profile_namespace */
    int32_t wait;             /* of profile_wait_reason; -1: no known wait */
    bool async;               /* OWNER+<NAME>d__N.MoveNext() */
    const char *tier;         /* of the hottest body; NULL: not told */
    profile_counts counts;    /* inclusive: of samples that have it at least once */
    uint32_t n_addresses;     /* hottest first */
    const profile_address *addresses;
} profile_frame;

typedef struct profile_module {
    slice name, path;     /* path as the runtime has it (in its mount namespace); may be empty */
    bool has_pdb;         /* of the managed PDB, by the runtime */
    uint8_t pdb_guid[16]; /* as it lies in files */
    uint32_t pdb_age;
    slice pdb_path;
} profile_module;

/* Nodes are numbered in preorder, the heaviest child first: the subtree of i is [i, i + size), its first child is
 * i + 1, the next brother of c is c + size. 0 is the root. */
typedef struct profile_node {
    uint32_t parent; /* of the root: 0 */
    uint32_t size;
    uint32_t frame;
    int64_t inclusive, exclusive;
} profile_node;

typedef struct profile_info {
    profile_kind kind;
    uint64_t samples; /* all, also those without a stack, which are the root's own */
    uint64_t weight;
    uint64_t running, waiting;  /* of all samples */
    uint64_t no_stack;          /* samples without a frame */
    uint64_t dropped;           /* samples whose stack found no room: the root's own, too */
    uint64_t cut;               /* stacks deeper than PROFILE_DEPTH_MAX: without what was next to their root */
    uint64_t full;              /* samples with as many frames as the runtime tells: PROFILE_RUNTIME_DEPTH */
    uint64_t unresolved;        /* samples whose leaf has no name */
    uint64_t managed, external; /* CPU: of the samples, by EventPipe's type */
    uint64_t bad;               /* events that could not be read */
    uint64_t methods_dropped;   /* of the map of methods */
    int64_t first_ns, last_ns;  /* time of the samples since the session's start */
    int64_t build_ns, name_ns;  /* the tree, and the names in it */
    size_t memory;              /* bytes of the profile */
    /* Of profile_causality: samples of resumed methods that were put below their caller; of whose caller nothing, or
     * more than one, was seen. */
    uint64_t joined, unseen, several;
    bool causality;
    bool weighted, states; /* weights are there; states were told with the samples */
} profile_info;

const profile_info *profile_info_of(const profile *p);
uint32_t profile_nodes(const profile *p);
profile_node profile_node_at(const profile *p, uint32_t i);
profile_counts profile_node_counts(const profile *p, uint32_t i);
uint32_t profile_frames(const profile *p); /* 0 is <root> */
const profile_frame *profile_frame_at(const profile *p, uint32_t i);
uint32_t profile_modules(const profile *p);
const profile_module *profile_module_at(const profile *p, uint32_t i);
uint32_t profile_groups(const profile *p);
slice profile_group_at(const profile *p, uint32_t i); /* the name of a module; "?": not known */
uint32_t profile_namespaces(const profile *p);
slice profile_namespace_at(const profile *p, uint32_t i);        /* "" : none */
const char *profile_wait_reason(const profile *p, int32_t wait); /* NULL: none */
/* The name of a state machine's method after its author: "Owner.Name() [async]" into out. False: it is none. */
bool profile_async_name(const profile *p, uint32_t frame, buf *out);

typedef struct profile_thread {
    uint64_t thread;
    profile_counts counts;
} profile_thread;
uint32_t profile_threads(const profile *p); /* most samples first */
const profile_thread *profile_thread_at(const profile *p, uint32_t i);

typedef enum profile_heap_kind { PROFILE_SMALL, PROFILE_LARGE, PROFILE_PINNED, PROFILE_HEAPS } profile_heap_kind;
typedef struct profile_type {
    slice name;
    uint64_t events, bytes;
    double objects;                  /* sampled: estimate; else 0 */
    uint64_t by_kind[PROFILE_HEAPS]; /* events */
} profile_type;
uint32_t profile_types(const profile *p); /* most bytes first */
const profile_type *profile_type_at(const profile *p, uint32_t i);

/* ---- projections: results are yours to free() ---------------------------------------------------------------------
 */

typedef enum profile_rank {
    PROFILE_BY_EXCLUSIVE,
    PROFILE_BY_INCLUSIVE,
    PROFILE_BY_RUNNING,
    PROFILE_BY_WEIGHT,
    PROFILE_BY_INCLUSIVE_WEIGHT
} profile_rank;

typedef struct profile_row {
    uint32_t key; /* frame, module, namespace or node, as the function says */
    profile_counts counts;
} profile_row;
typedef struct profile_rows {
    profile_row *rows; /* free() */
    uint32_t n;
    uint32_t all; /* how many there were */
} profile_rows;

/* Frames that carry any sample, without the root. With PROFILE_BY_RUNNING of a profile without states: by exclusive. */
int profile_top(const profile *p, profile_rank rank, uint32_t max, profile_rows *out, err *e);
int profile_by_module(const profile *p, profile_rank rank, uint32_t max, profile_rows *out, err *e);
int profile_by_namespace(const profile *p, profile_rank rank, uint32_t max, profile_rows *out, err *e);
/* Nodes from the root's heaviest child down, as long as the heaviest child has at least this share (percent) of its
 * parent's inclusive samples. The root is left out. */
int profile_hot_path(const profile *p, double threshold_percent, profile_rows *out, err *e);

/* Frames whose method or "module!method" contains text (as written; when there is none, without case), most inclusive
 * first. Empty text: none. */
int profile_match(const profile *p, slice text, uint32_t max, profile_rows *out, err *e);

/* Callers and callees of a frame: a sample counts once for each edge that its stack has at least once. Frame 0 among
 * the callers: it was an entry. */
typedef struct profile_edges {
    profile_counts focus;
    profile_rows callers, callees; /* by frame; counts.inclusive: of samples with the edge; exclusive, running, waiting:
                                      of a callee its own under the focus, of a caller the focus's own under it */
} profile_edges;
int profile_edges_of(const profile *p, uint32_t frame, uint32_t max, profile_edges *out, err *e);
void profile_edges_fini(profile_edges *x);

/* A part of the tree, heaviest nodes first as room allows; in preorder. */
typedef struct profile_tree_query {
    uint32_t root_frame;           /* 0: the root; else: all outermost nodes of this frame, merged */
    bool callers;                  /* the other way round: who called root_frame (of 0: of every leaf) */
    uint32_t max_depth, max_nodes; /* below the root, which is depth 0; 0: PROFILE_TREE_… */
    bool by_weight;                /* order and room by weight instead of samples */
} profile_tree_query;
#define PROFILE_TREE_DEPTH 512
#define PROFILE_TREE_NODES 50000
typedef struct profile_tree_node {
    uint32_t frame, parent, depth; /* parent: index in the result */
    profile_counts counts;
    uint32_t left_out; /* children that found no room */
} profile_tree_node;
typedef struct profile_tree {
    profile_tree_node *nodes; /* free() */
    uint32_t n;
    bool truncated;
} profile_tree;
int profile_tree_of(const profile *p, const profile_tree_query *q, profile_tree *out, err *e);

/* Methods of two profiles, joined by module and method. Index UINT32_MAX: not in that one. Every frame of either that
 * has samples, in no order. */
typedef struct profile_pair {
    uint32_t before, after;
} profile_pair;
int profile_join(const profile *before, const profile *after, profile_pair **pairs, uint32_t *n, err *e);
/* Both trees in one, for a flame graph of the difference: counts are those of after, profile_node_before those of
 * before. NULL with *e filled. */
profile *profile_overlay(const profile *before, const profile *after, err *e);
bool profile_has_before(const profile *p);
profile_counts profile_node_before(const profile *p, uint32_t i);
/* The tree with the parts of one logical operation put together across its awaits, as far as the stacks tell who awaits
 * whom; what they do not tell is below a frame of its own (PROFILE_FRAME_ROOT, not ranked). See the design. */
profile *profile_causality(const profile *p, err *e);

#endif
