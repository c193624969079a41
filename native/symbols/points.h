/* SPDX-License-Identifier: MIT */
/* points.h: one sequence point, and which of a method's belongs to an IL offset. */
#ifndef LUNETTE_SYMBOLS_POINTS_H
#define LUNETTE_SYMBOLS_POINTS_H

#include "base/bytes.h"

#define SYM_HIDDEN_LINE 0xfeefeeu

typedef struct sym_point {
    uint32_t il_offset;
    uint32_t document;           /* the reader's own number of it; 0: none */
    uint32_t line, end_line;     /* from 1; SYM_HIDDEN_LINE: code without a source */
    uint32_t column, end_column; /* 0: not known */
} sym_point;

static inline bool sym_point_hidden(const sym_point *p) { return p->line == SYM_HIDDEN_LINE; }

/* Finds the point of an IL offset while a method's points pass by, in order of IL offset. Starts as {.il_offset = …}.
 */
typedef struct sym_pick {
    uint32_t il_offset;
    bool found, exact;
    sym_point best; /* once found: the point to show */
    bool hidden;    /* the offset lies in a hidden point */
} sym_pick;
/* False: no later point can change the choice. */
static inline bool sym_pick_offer(sym_pick *k, const sym_point *p)
{
    if (p->il_offset > k->il_offset) {
        if (!k->found && !sym_point_hidden(p)) { /* nothing real before it: the first one behind it */
            k->best = *p;
            k->found = true;
            k->exact = false;
        }
        return !k->found;
    }
    if (sym_point_hidden(p)) {
        k->hidden = true;
        k->exact = false;
        return true;
    }
    k->best = *p;
    k->found = true;
    k->hidden = false;
    k->exact = true;
    return true;
}

#endif
