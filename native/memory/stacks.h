/* SPDX-License-Identifier: MIT */
/* stacks.h: the managed stack of a thread as the DAC walks it, and named types, fields and statics of the runtime's own
 * library. The target stands still. */
#ifndef LUNETTE_MEMORY_STACKS_H
#define LUNETTE_MEMORY_STACKS_H

#include "memory/dac.h"
#include "symbols/metadata.h"

#define STACK_FRAMES_MAX 4096u

typedef enum stack_kind { STACK_MANAGED, STACK_RUNTIME, STACK_NATIVE } stack_kind;
typedef struct stack_frame {
    stack_kind kind; /* STACK_RUNTIME: a transition frame of the runtime, with its name */
    uint64_t ip, sp;
    dac_addr frame;  /* the explicit Frame; 0: none */
    dac_addr method; /* MethodDesc; 0: not known */
} stack_frame;
typedef enum stack_end { STACK_COMPLETE, STACK_CUT, STACK_BROKEN, STACK_NONE } stack_end;
/* Innermost first, at most max; *end: all of it, cut at max, ended by an error of the DAC, or no managed stack at all
 * (a thread that has not begun). */
uint32_t stack_walk(dac *d, uint32_t os_id, stack_frame *out, uint32_t max, stack_end *end);

/* ---- types and fields by name ------------------------------------------------------------------------------------ */
typedef struct clr_module {
    dac_addr address;
    uint8_t *bytes;
    sym_md md;
    struct clr_module *next;
} clr_module;
typedef struct clr_names {
    dac *d;
    clr_module *modules;
    dac_addr core; /* System.Private.CoreLib's module; 0: not found */
} clr_names;
void clr_names_init(clr_names *c, dac *d);
void clr_names_fini(clr_names *c);
/* The MethodTable of a type of the core library, by namespace and name ("PortableThreadPool+HillClimbing" for a nested
 * one); 0: none, or not loaded. */
dac_addr clr_type(clr_names *c, const char *ns, const char *name);
/* Offset of an instance field from the object's address (of an inlined value: subtract 8); 0: none of that name in the
 * type and those it extends. mt: also of a class's value field when field is "a.b". */
uint32_t clr_field(clr_names *c, dac_addr mt, const char *name);
/* The reference in a static field; 0: none. */
dac_addr clr_static(clr_names *c, dac_addr mt, const char *name);
/* Is the type, or one that it extends, this one? */
bool clr_is(clr_names *c, dac_addr mt, dac_addr base);
/* The metadata of a module, read once; NULL: not to be had. */
const sym_md *clr_metadata(clr_names *c, dac_addr module);

#endif
