/* SPDX-License-Identifier: MIT */
/* result.h: what the files that write a result share. */
#ifndef LUNETTE_PROBE_RESULT_H
#define LUNETTE_PROBE_RESULT_H

#include "probe/engine.h"

typedef struct pframe {
    uint64_t ip, ident; /* equal ident: the same method */
    slice name, module; /* empty: not known */
} pframe;

typedef struct pnamed {
    uint32_t n;
    uint32_t number; /* in the result, from 1; 0: not in it */
    uint32_t *frame;
} pnamed;

/* Names of stacks of one result. */
typedef struct pnames {
    const probe *p;
    const clr_methods *methods;
    arena a;
    pframe *frame;
    uint32_t n_frame, cap_frame;
    map64 by_ip;
    strtab *seen; /* of the idents of a stack; its id is the number of the stack */
    pnamed *stack;
    uint32_t cap_stack;
    uint32_t *shown; /* stacks of the result, in their order */
    uint32_t n_shown, cap_shown;
    buf key, text;
    bool failed;
} pnames;

bool probe__names_init(pnames *w, const probe *p, const clr_methods *methods);
void probe__names_fini(pnames *w);
/* The id of a stack by its frames: equal for two stacks of the same methods. n (may be NULL): a group that cuts its
 * stacks. -1: failed. */
int64_t probe__named_stack(pnames *w, int64_t raw, const pnode *n);
/* The number under which the result has the stack of that id. */
int64_t probe__stack_number(pnames *w, int64_t id);
/* Appends the list of all stacks that have a number. */
void probe__put_stacks(pnames *w, buf *out);

#endif
