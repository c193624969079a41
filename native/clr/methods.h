/* SPDX-License-Identifier: MIT */
/* methods.h: names for instruction pointers of managed code, from the method, module and assembly events of a session
 * and of the rundown at its end. Plain C, one thread a map. Layouts: the manifest (clr.h); what the events mean:
 * dotnet/runtime, docs "CLR ETW events, method and loader rundown".
 *
 *     clr_methods *m = clr_methods_new(0);
 *     int code = clr_methods_kind(kind);                    once a kind
 *     if (code) clr_methods_event(m, code, ev);             each of its events
 *     clr_methods_want(m, ips, n);                          before the rundown: keep only what these addresses hit
 *     clr_method f;
 *     if (clr_methods_find(m, ip, ts, &f)) clr_method_name(&f, &text);
 *
 * An address range may be used again (dynamic methods, collectible assemblies), so a range has lives: from a load to an
 * unload, or around the moment of a rundown row. Outside what was seen a life reaches to the next one that was; where
 * two that differ could have been there the answer is "unknown", never the wrong name. A method has several ranges:
 * each tier's body, and its cold part. */
#ifndef LUNETTE_CLR_METHODS_H
#define LUNETTE_CLR_METHODS_H

#include "nettrace/nettrace.h"

typedef struct clr_methods clr_methods;

#define CLR_METHODS_MAX_BYTES ((size_t)32 << 20)
/* A longer body is no method but a damaged event: not kept, counted as dropped. */
#define CLR_METHOD_SIZE_MAX ((uint32_t)64 << 20)
/* So far behind the beginning of a precompiled method its code is looked for, when its end is not known. */
#define CLR_ENTRY_REACH ((uint32_t)64 << 10)
/* One name of an event, in UTF-8; the rest is cut off. */
#define CLR_METHOD_NAME_MAX ((size_t)16 << 10)
/* So many lives at one address are looked through; past it the address has no name. */
#define CLR_METHOD_LIVES_MAX 4096

/* Keyword of the runtime's provider, at level 5, that tells which precompiled methods are used for the first time: it
 * sends no load for them. */
#define CLR_ENTRY_POINT_KEYWORD UINT64_C(0x2000000000)
/* The least rundown keywords that names need: Loader (module names), Jit and NGen (bodies), End (enumerate when the
 * session stops). Without Loader (0x8) a frame has its method's name but no module. */
#define CLR_NAMES_RUNDOWN_KEYWORDS UINT64_C(0x138)
/* Keywords of the runtime's provider that bring loads and unloads while the session runs (Jit, NGen, Loader); below
 * level 5 only generic and dynamic methods come with their names. */
#define CLR_NAMES_SESSION_KEYWORDS UINT64_C(0x38)

/* max_bytes caps the whole map (0: CLR_METHODS_MAX_BYTES). NULL: no memory. */
clr_methods *clr_methods_new(size_t max_bytes);
void clr_methods_free(clr_methods *m);

/* Is this a kind that the map reads? A code > 0 for clr_methods_event; 0: no. The kind need not have a layout. Call
 * once a kind. */
int clr_methods_kind(const nt_kind *k);
/* Takes one event of a kind that has this code (not 0). ev->ts orders loads and unloads; events may come in any order.
 * An event too short for its layout is counted as dropped. Returns 0, or -ERR_LIMIT when the cap is met or memory is
 * out, the first time only: later ones are counted. */
int clr_methods_event(clr_methods *m, int code, const nt_event *ev);

/* From now on (and of what is there) only methods are kept that one of these addresses hits, or that give such a method
 * its name. A copy is taken, to the addresses of earlier calls; any order, twice is fine. ips NULL: keep all again.
 * False: no memory or over the cap; the map then goes on as before. */
bool clr_methods_want(clr_methods *m, const uint64_t *ips, size_t n);

/* Text is UTF-8, NUL-terminated beyond n, borrowed until clr_methods_free; empty where it is not known. */
typedef struct clr_method {
    slice namespace_; /* with the type: "System.Collections.Generic.List`1[System.__Canon]" */
    slice name, signature;
    slice module;      /* file name without its extension: "System.Private.CoreLib"; a dynamic module: its assembly */
    slice module_path; /* of its file, as the target sees it */
    uint64_t start, size;          /* of the body that holds the address, bytes */
    uint64_t method_id, module_id; /* addresses of the descriptors in the target */
    uint64_t rejit_id;             /* with method_id the key of the body's IL map (il_map.h) */
    uint32_t module_index;         /* of clr_methods_module */
    uint32_t token;                /* metadata token; 0: none (dynamic) */
    bool dynamic;                  /* a DynamicMethod or a stub */
    bool cold;                     /* the body's cold part */
    const char *tier;              /* "OptimizedTier1", "QuickJitted", ..., "ReadyToRun"; never NULL ("Unknown") */
} clr_method;

/* The method at ip at time ts (ticks, as nt_event.ts; INT64_MAX: the latest that was there). False: unknown, or more
 * than one could have been there; *out is left alone. The first call after new events sorts the map. */
bool clr_methods_find(const clr_methods *m, uint64_t ip, int64_t ts, clr_method *out);
/* Whether more than one method is known to have been at ip: a name then holds for its time only. */
bool clr_methods_reused(const clr_methods *m, uint64_t ip);
/* The precompiled method that began to be used before ip, when no body is known there: the runtime tells where such a
 * one begins, and only a rundown where it ends. It is the right one only if all was told: the whole rundown of
 * what was there before, and all that began in the session. Without
 * module (module_index UINT32_MAX), token and size. False: none, or a body is known that lies nearer. */
bool clr_methods_entry(const clr_methods *m, uint64_t ip, clr_method *out);
/* Appends the name as TraceEvent prints it: "Namespace.Type.Method(class System.String,int32)", the signature from its
 * parenthesis on. False when out failed. */
bool clr_method_name(const clr_method *m, buf *out);

/* What the runtime told of a loaded module, by an index that the look-up gave. */
typedef struct clr_module {
    slice name, path;        /* as module and module_path of clr_method */
    bool has_pdb;            /* the three below are known: of the managed PDB that belongs to it */
    const uint8_t *pdb_guid; /* 16 bytes, as it lies in files; borrowed as text */
    uint32_t pdb_age;
    slice pdb_path; /* where the compiler put it; may be empty */
} clr_module;
clr_module clr_methods_module(const clr_methods *m, uint32_t index);

/* Events that were not kept though they were wanted: over the cap, damaged, or without memory. */
uint64_t clr_methods_dropped(const clr_methods *m);
size_t clr_methods_memory(const clr_methods *m); /* bytes, estimate */
size_t clr_methods_count(const clr_methods *m);  /* rows held: loads, unloads and rundown rows of bodies */

#endif
