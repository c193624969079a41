/* SPDX-License-Identifier: MIT */
/* heap_details_own.h: what the files behind heap_details.h share. */
#ifndef LUNETTE_MEMORY_HEAP_DETAILS_OWN_H
#define LUNETTE_MEMORY_HEAP_DETAILS_OWN_H

#include "memory/heap_details.h"
#include "memory/heap_own.h"

typedef struct heap_text { /* one string, and those that equal it */
    uint64_t address, count, bytes;
    uint32_t length;
    uint32_t next; /* of the same hash + 1; 0: none */
} heap_text;

typedef struct heap_call { /* delegates that call one piece of code on objects of one type */
    uint64_t target_mt, code, count;
    bool is_static;
    uint64_t method; /* when it is known */
} heap_call;

typedef struct heap_list {
    uint64_t *v;
    size_t n, cap, dropped;
} heap_list;

typedef struct heap_total { /* of a whole section, also of the rows beyond HEAP_ROWS_MAX */
    uint64_t rows, objects, bytes;
} heap_total;

struct heap_details {
    heap *h;
    heap_text *texts;
    size_t n_texts, cap_texts;
    uint64_t texts_dropped;
    map64 text_at;
    heap_call *calls;
    size_t n_calls, cap_calls;
    map64 call_at;
    bool has_delegate; /* the offsets are known */
    uint32_t target_at, code_at, aux_at, list_at, count_at;
    heap_list of_kind[HEAP_KIND_COUNT];
    heap_total total; /* of the section that is being written */
};

void heap__see_string(heap_details *d, uint64_t address, const uint8_t *body, uint64_t size);
void heap__see_delegate(heap_details *d, uint64_t mt, const uint8_t *body, uint64_t size);
/* What a delegate calls: the target's type (0: none), the code. False: it is no delegate. */
bool heap__call_of(heap_details *d, uint64_t delegate, heap_call *out);
/* The method whose code, or whose stub, is at an address; 0: not known. */
uint64_t heap__method_of(heap *h, uint64_t code);
/* Members of a method: methodName, declaringTypeFullName, methodSignature, moduleName, method. */
void heap__write_method(heap *h, uint64_t method, uint64_t code, jsonw *w);
/* {"methodName": …}: a MethodIdentity; null when not known. */
void heap__write_identity_of_method(heap *h, uint64_t method, jsonw *w);
/* The member typeIdentity of a type. */
void heap__write_type_identity(heap *h, uint64_t mt, jsonw *w);
void heap__write_type_name(heap *h, uint64_t mt, jsonw *w); /* a text; null for none */
const heap_module *heap__module_of_type(heap *h, uint64_t mt);
void heap__write_slice_or_null(slice s, jsonw *w);

double heap__percent(uint64_t part, uint64_t whole); /* two decimals; 0 of nothing */

/* Sections: each writes its value, and leaves in d->total what all of it is, where rows may be left out. */
void heap__write_strings(heap_details *d, jsonw *w);
void heap__write_delegates(heap_details *d, jsonw *w);
void heap__write_timers(heap_details *d, jsonw *w);
void heap__write_async(heap_details *d, jsonw *w);
void heap__write_contexts(heap_details *d, jsonw *w);
void heap__write_handles(heap_details *d, jsonw *w);
void heap__write_queue(heap_details *d, jsonw *w);
void heap__write_statics(heap_details *d, jsonw *w);
void heap__write_segments(heap_details *d, jsonw *w);

#endif
