/* SPDX-License-Identifier: MIT */
/* manifest.h: the form of the compiled-in table. Shared by gen_manifest.c, which writes it, and clr.c; no other folder
 * includes it. */
#ifndef LUNETTE_CLR_MANIFEST_H
#define LUNETTE_CLR_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#define CLR_WIRE_PTR 0xFF /* clr__field.wire: NT_W_U32 or NT_W_U64 by the trace's pointer size */

typedef struct clr__field {
    const char *name, *enums;
    uint8_t wire, count_kind;
    bool hex, natural;
    uint16_t count;      /* as nt_spec.count */
    uint16_t sub, n_sub; /* in clr__fields: fields of a struct, the element of an array */
} clr__field;

struct clr_event {
    uint16_t id;
    uint8_t version, level;
    int16_t opcode; /* -1: not known */
    bool stack;
    uint64_t keywords;
    const char *name, *display;
    uint16_t fields, n_fields; /* in clr__fields */
};

typedef struct clr__name {
    const char *name;
    uint64_t value;
} clr__name;

struct clr_provider {
    const char *name;
    uint8_t guid[16];
    bool has_guid, native, dynamic_ids;
    uint16_t events, n_events;     /* in clr__events, by id and version */
    uint16_t keywords, n_keywords; /* in clr__names */
};

typedef struct clr__enum {
    const char *name;
    bool flags;
    uint16_t values, n_values; /* in clr__names */
} clr__enum;

extern const clr__field clr__fields[];
extern const struct clr_event clr__events[];
extern const clr__name clr__names[];
extern const struct clr_provider clr__providers[];
extern const clr__enum clr__enums[];
extern const struct clr_event clr__gc_dynamic[]; /* only name and fields mean something */
extern const unsigned clr__n_providers, clr__n_enums, clr__n_gc_dynamic;

#endif
