/* SPDX-License-Identifier: MIT */
/* clr.h: what is known of the .NET runtime's own events: names, layouts, keywords and enums. The table is
 * schemas/clr-events.json, compiled in by gen_manifest.c. All pointers are to static data unless a line says otherwise.
 */
#ifndef LUNETTE_CLR_H
#define LUNETTE_CLR_H

#include "nettrace/nettrace.h"

/* An nt_options.resolve: gives kinds of native providers their name, display name and layout (an unknown version takes
 * the highest known lower one: versions only append), and events of old DiagnosticSources, which come without fields,
 * their layout. arg is not used. */
void clr_resolve(void *arg, nt_kind *k, uint32_t pointer_size, arena *a);

typedef struct clr_provider clr_provider;
typedef struct clr_event clr_event;
/* NULL: not in the manifest. Names compare exactly. */
const clr_provider *clr_provider_find(slice name);
const clr_provider *clr_provider_by_guid(const uint8_t guid[16]);
size_t clr_provider_count(void);
const clr_provider *clr_provider_at(size_t i);
const char *clr_provider_name(const clr_provider *p);
/* The provider numbers its events at run time: match by name. */
bool clr_provider_dynamic_ids(const clr_provider *p);
/* The GUID of any provider: the manifest's, else made from its name the way EventSource does (SHA-1; name is UTF-8).
 * False: no memory. */
bool clr_provider_guid(slice name, uint8_t guid[16]);
/* The bit of a keyword's name ("GC"); 0: the provider has none of that name. */
uint64_t clr_keyword(const clr_provider *p, slice name);

/* The event of this id and the highest version that is not above version; NULL: none. */
const clr_event *clr_event_find(const clr_provider *p, uint32_t id, uint32_t version);
size_t clr_event_count(const clr_provider *p);
const clr_event *clr_event_at(const clr_provider *p, size_t i);
uint32_t clr_event_id(const clr_event *e);
uint32_t clr_event_version(const clr_event *e);
uint32_t clr_event_level(const clr_event *e);
uint64_t clr_event_keywords(const clr_event *e);
const char *clr_event_name(const clr_event *e);    /* "GCStart_V2" */
const char *clr_event_display(const clr_event *e); /* "GC/Start", as TraceEvent prints it */
bool clr_event_has_stack(const clr_event *e);      /* the runtime asks for one */
/* The layout for pointers of 4 or 8 bytes, in a; NULL: no memory. */
const nt_schema *clr_event_schema(const clr_event *e, uint32_t pointer_size, arena *a);
/* Layout of the Data of a GCDynamicEvent by its Name ("SizeAdaptationSample"); NULL: not known, or no memory. */
const nt_schema *clr_gc_dynamic_schema(slice name, arena *a);

/* Appends the name of an enum's value ("AllocSOH"), or its flags joined by ", " with what is left in hexadecimal.
 * False: enums is no enum of the manifest, or no name fits, or out failed; nothing is appended then. */
bool clr_enum_text(const char *enums, uint64_t value, buf *out);

#endif
