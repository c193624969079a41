/* SPDX-License-Identifier: MIT */
/* methods_internal.h: what the two halves of the method map share: methods.c takes events into rows, methods_find.c
 * makes lives of the rows and looks addresses up. */
#ifndef LUNETTE_CLR_METHODS_INTERNAL_H
#define LUNETTE_CLR_METHODS_INTERNAL_H

#include "clr/methods.h"

typedef enum clr__row_kind {
    CLR__LOAD,   /* the body begins to live */
    CLR__UNLOAD, /* and ends */
    CLR__ALIVE,  /* it was there at this time */
    CLR__NAME,   /* no body: the name of a method id */
    CLR__ENTRY,  /* the same, and where its precompiled body begins */
} clr__row_kind;

#define CLR__NO_TEXT STRTAB_FULL
#define CLR__SEQ_MAX ((uint32_t)1 << 29)

typedef struct clr__text3 {
    uint32_t namespace_, name, signature; /* ids in the string table; name CLR__NO_TEXT: the event had no names */
} clr__text3;

/* One event about one body. */
typedef struct clr__row {
    uint64_t start, method_id, rejit_id;
    int64_t ts;
    uint32_t size;
    clr__text3 text;
    uint32_t module; /* index into modules */
    uint32_t token, flags;
    uint32_t seq : 29; /* order of arrival, for equal times */
    uint32_t kind : 3; /* clr__row_kind */
} clr__row;

/* A body at its address from one time to another; sorted by address, with the largest end of each half's half (an
 * implicit interval tree). */
typedef struct clr__life {
    uint64_t max_end;
    int64_t from, to;    /* could have been there */
    int64_t first, last; /* was there, by an event */
    uint32_t row;        /* start, size, names */
    bool loaded;         /* first is its load: was not there before, unless that event came late */
} clr__life;

/* Changed by a look-up, so apart from the map, which is const then. */
typedef struct clr__index {
    clr__life *lives;
    size_t n, cap;
    bool fresh;
} clr__index;

typedef struct clr__module {
    uint64_t id, assembly;
    uint32_t name, path, pdb_path; /* CLR__NO_TEXT: not told */
    bool has_pdb;
    uint32_t pdb_age;
    uint8_t pdb_guid[16];
} clr__module;

struct clr_methods {
    size_t max;
    clr__row *rows;
    size_t n, cap;
    uint32_t seq;
    clr__index *index;
    strtab *text;
    size_t text_bytes;
    clr__module *modules;
    uint32_t n_modules, modules_cap;
    map64 module_at;      /* module id -> index of the one that has it now */
    map64 assembly_names; /* assembly id -> text */
    bool wanting;
    uint64_t *want; /* sorted, each once */
    size_t n_want;
    map64 needed; /* ids of wanted methods without names -> hash of a name kept for it, or 0 */
    bool entries; /* some row is a CLR__ENTRY */
    uint64_t dropped;
    bool told; /* that the cap was met */
    buf scratch;
};

static inline bool clr__named(const clr__row *r) { return r->text.name != CLR__NO_TEXT; }
static inline bool clr__same_text(clr__text3 a, clr__text3 b)
{
    return a.namespace_ == b.namespace_ && a.name == b.name && a.signature == b.signature;
}

/* From which address on a row may hold code, and how much of it; 0: it has no body. */
static inline uint32_t clr__reach(const clr__row *r) { return r->kind == CLR__ENTRY ? CLR_ENTRY_REACH : r->size; }

#endif
