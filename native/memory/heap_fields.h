/* SPDX-License-Identifier: MIT */
/* heap_fields.h: modules, names and fields of the types of a heap, and the static fields that hold on to objects. Asked
 * of the DAC and of the modules' metadata; after a live target was resumed too, since none of it changes. */
#ifndef LUNETTE_MEMORY_HEAP_FIELDS_H
#define LUNETTE_MEMORY_HEAP_FIELDS_H

#include "memory/heap.h"
#include "symbols/metadata.h"

#define HEAP_MODULES_MAX  65536u
#define HEAP_METADATA_MAX ((size_t)64 << 20)
#define HEAP_FIELDS_MAX   4096u /* of one type */
#define HEAP_STATICS_MAX  500000u
#define HEAP_PARENTS_MAX  64u

/* ---- modules ----------------------------------------------------------------------------------------------------- */
typedef struct heap_module {
    uint64_t address;
    slice path, name; /* "/…/Shop.dll", "Shop.dll"; empty: a dynamic one */
    uint8_t mvid[16];
    bool has_mvid, has_metadata;
    sym_md md; /* with has_metadata */
    uint8_t *bytes;
    char *text;
} heap_module;
/* NULL: no such module. Borrowed. */
const heap_module *heap_module_of(heap *h, uint64_t address);

/* ---- types ------------------------------------------------------------------------------------------------------- */
/* Appends the name as ClrMD writes it. False: it has none. */
bool heap_type_name(heap *h, uint64_t mt, buf *out);
/* The same into a fixed place, cut at a character's border; "" when it has none. */
const char *heap_type_text(heap *h, uint64_t mt, char *to, size_t size);

enum { /* ELEMENT_TYPE_… (II.23.1.16) */
       HEAP_EL_BOOLEAN = 0x02,
       HEAP_EL_CHAR = 0x03,
       HEAP_EL_I1,
       HEAP_EL_U1,
       HEAP_EL_I2,
       HEAP_EL_U2,
       HEAP_EL_I4,
       HEAP_EL_U4,
       HEAP_EL_I8,
       HEAP_EL_U8,
       HEAP_EL_R4,
       HEAP_EL_R8,
       HEAP_EL_STRING = 0x0e,
       HEAP_EL_PTR = 0x0f,
       HEAP_EL_BYREF = 0x10,
       HEAP_EL_VALUE = 0x11,
       HEAP_EL_CLASS = 0x12,
       HEAP_EL_I = 0x18,
       HEAP_EL_U = 0x19,
       HEAP_EL_FNPTR = 0x1b,
};
/* Does a field of this element type hold a reference to an object? */
bool heap_is_reference(uint32_t element);

typedef struct heap_field {
    slice name; /* borrowed from the module's metadata; of one made at run time: good for the call only */
    uint32_t element, token;
    uint32_t offset; /* of an instance field: from the object's address on (of an inlined value, 8 less) */
    bool is_static, is_thread_static, has_rva;
    uint64_t mt; /* of its type; 0: not loaded */
} heap_field;
/* The fields that a type declares itself, in the runtime's order; each is called with. */
typedef bool (*heap_field_fn)(void *arg, const heap_field *f); /* false: enough */
bool heap_each_field(heap *h, uint64_t mt, heap_field_fn fn, void *arg);
/* An instance field of that name of the type or of those that it extends. False: none. */
bool heap_field_named(heap *h, uint64_t mt, const char *name, heap_field *out);

/* ---- static fields ----------------------------------------------------------------------------------------------- */
typedef struct heap_static {
    uint64_t mt; /* that declares it */
    uint64_t slot, target;
    const char *name; /* of the field */
    uint32_t token;
    uint32_t thread; /* managed id, of a thread-static one; 0: a plain one */
    bool boxed;      /* a value, which the runtime keeps in a box */
    bool goes;       /* of a type that can be unloaded: what it refers to lives as long as its loader allocator */
} heap_static;
/* All static fields that refer to an object of the heap, of loaded types and of those met by the walk. Borrowed. */
const heap_static *heap_statics(heap *h, size_t *n);

#endif
