/* SPDX-License-Identifier: MIT */
/* regex_internal.h: the program of a regular expression, shared by its compiler and its matcher. */
#ifndef LUNETTE_TEXT_REGEX_INTERNAL_H
#define LUNETTE_TEXT_REGEX_INTERNAL_H

#include "text/regex.h"

typedef enum rx_op { RX_SET, RX_SPLIT, RX_JUMP, RX_BEGIN, RX_END, RX_WORD, RX_NOT_WORD, RX_MATCH } rx_op;

typedef struct rx_set {
    uint64_t bits[4];
} rx_set;

typedef struct rx_inst {
    rx_op op;
    uint32_t x, y; /* SPLIT: both ways on; JUMP: x; SET: index of the set */
} rx_inst;

/* One list of states, in which each is at most once. */
typedef struct rx_list {
    uint32_t n;
    uint32_t *pc;    /* the states */
    size_t *start;   /* where the match of each began */
    uint32_t *place; /* of a state, its index in pc: valid when pc[place] is the state */
} rx_list;

struct regex {
    rx_inst *prog;
    uint32_t n_prog;
    rx_set *sets;
    uint32_t n_sets;
    rx_list now, next;
    uint32_t *stack; /* of the closure */
};

static inline bool rx_set_has(const rx_set *s, uint8_t c) { return (s->bits[c >> 6] >> (c & 63) & 1) != 0; }
static inline bool rx_is_word(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* Fills prog and sets. */
int rx__compile(slice pattern, regex *r, err *e);

#endif
