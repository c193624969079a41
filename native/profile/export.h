/* SPDX-License-Identifier: MIT */
/* export.h: a profile as a file that other programs read, or that a browser shows. */
#ifndef LUNETTE_PROFILE_EXPORT_H
#define LUNETTE_PROFILE_EXPORT_H

#include "base/mem.h"
#include "profile/profile.h"

typedef enum profile_format {
    PROFILE_SPEEDSCOPE, /* JSON of www.speedscope.app, one "evented" profile: the merged tree, heaviest first */
    PROFILE_FOLDED,     /* "root;child;leaf 12" lines, as flamegraph.pl and inferno read them */
    PROFILE_PPROF,      /* gzip of a google/pprof profile.proto message */
    PROFILE_FLAME,      /* JSON for share/flamegraph.html */
    PROFILE_FORMATS
} profile_format;

/* The cap on what an export may take; one that would be longer fails with ERR_LIMIT. */
#define PROFILE_EXPORT_MAX ((size_t)256 << 20)
/* Nodes that a flame graph shows: the heaviest ones. A browser draws so many without a pause. */
#define PROFILE_FLAME_NODES 60000u

/* Where in its source a method is, as far as its lines were looked up. */
typedef struct profile_export_source {
    slice file;          /* empty: not known */
    uint32_t line;       /* at which it was seen most, from 1 */
    uint32_t start_line; /* its first one; 0: not known */
} profile_export_source;

typedef struct profile_export_cfg {
    profile_format format;
    bool by_weight;                       /* count weight (bytes) instead of samples, where there is one */
    slice title;                          /* shown by viewers */
    uint32_t max_nodes;                   /* FLAME; 0: PROFILE_FLAME_NODES */
    int64_t time_ns;                      /* PPROF: when the window began, Unix time; 0: not told */
    int64_t length_ns;                    /* PPROF: how long it was; 0: not told */
    const profile_export_source *sources; /* PPROF: by frame, n_sources of them; NULL: none. Borrowed */
    uint32_t n_sources;
} profile_export_cfg;

/* Appends the export to out, whose max the caller has set. Names are cut to valid UTF-8. -ERR_LIMIT (too long),
 * -ERR_NO_MEMORY, with *e filled; out is then of no use. */
int profile_export(const profile *p, const profile_export_cfg *cfg, buf *out, err *e);

/* ---- what the writers share -------------------------------------------------------------------------------------- */

/* "Module!Namespace.Type.Method(args)" as TraceEvent shows a frame; "<root>" for the root. */
bool profile_export_name(const profile *p, uint32_t frame, buf *out);
/* What of a node's counts is exported. */
static inline int64_t profile_export_own(const profile_export_cfg *cfg, const profile_counts *c)
{
    return cfg->by_weight ? c->exclusive_weight : c->exclusive;
}
static inline int64_t profile_export_all(const profile_export_cfg *cfg, const profile_counts *c)
{
    return cfg->by_weight ? c->inclusive_weight : c->inclusive;
}
bool profile_export_speedscope(const profile *p, const profile_export_cfg *cfg, buf *out);
bool profile_export_folded(const profile *p, const profile_export_cfg *cfg, buf *out);
bool profile_export_pprof(const profile *p, const profile_export_cfg *cfg, buf *out);
bool profile_export_flame(const profile *p, const profile_export_cfg *cfg, buf *out);

#endif
