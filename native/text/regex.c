/* SPDX-License-Identifier: MIT */
/* regex.c: follows all states of a program at once through a text. A state is kept once, with the earliest start that
 * led to it, so a step costs at most one visit of each instruction. */
#include "text/regex.h"

#include <stdlib.h>

#include "base/mem.h"
#include "text/regex_internal.h"

static bool list_new(rx_list *l, uint32_t n)
{
    l->pc = mem_calloc(n, sizeof *l->pc);
    l->start = mem_calloc(n, sizeof *l->start);
    l->place = mem_calloc(n, sizeof *l->place);
    return l->pc && l->start && l->place;
}

static void list_free(rx_list *l)
{
    free(l->pc);
    free(l->start);
    free(l->place);
}

int regex_new(slice pattern, regex **out, err *e)
{
    if (pattern.n > REGEX_PATTERN_MAX)
        return err_set(e, ERR_LIMIT, "regular expression: longer than %u bytes", REGEX_PATTERN_MAX);
    err own = {0};
    regex *r = mem_calloc(1, sizeof *r);
    if (!r) return err_set(e, ERR_NO_MEMORY, "no memory for a regular expression");
    int rc = rx__compile(pattern, r, &own);
    if (rc < 0) goto fail;
    r->stack = mem_calloc((size_t)r->n_prog * 2, sizeof *r->stack);
    if (!list_new(&r->now, r->n_prog) || !list_new(&r->next, r->n_prog) || !r->stack) {
        rc = err_set(&own, ERR_NO_MEMORY, "no memory for a regular expression");
        goto fail;
    }
    *out = r;
    return 0;
fail:
    regex_free(r);
    if (e && !e->kind) *e = own;
    return rc;
}

void regex_free(regex *r)
{
    if (!r) return;
    free(r->prog);
    free(r->sets);
    free(r->stack);
    list_free(&r->now);
    list_free(&r->next);
    free(r);
}

static bool on_list(const rx_list *l, uint32_t pc) { return l->place[pc] < l->n && l->pc[l->place[pc]] == pc; }

static bool at_word_edge(slice text, size_t at)
{
    bool before = at > 0 && rx_is_word(text.p[at - 1]);
    bool behind = at < text.n && rx_is_word(text.p[at]);
    return before != behind;
}

static bool holds(rx_op op, slice text, size_t at)
{
    switch (op) {
    case RX_BEGIN: return at == 0;
    case RX_END: return at == text.n;
    case RX_WORD: return at_word_edge(text, at);
    case RX_NOT_WORD: return !at_word_edge(text, at);
    case RX_SET:
    case RX_SPLIT:
    case RX_JUMP:
    case RX_MATCH: break;
    }
    return false;
}

/* Adds a state and all that it leads to without reading a byte. States are added in the order of their starts, so the
 * first one to come has the earliest. */
static void add(regex *r, rx_list *l, uint32_t from, size_t start, slice text, size_t at)
{
    uint32_t depth = 0;
    r->stack[depth++] = from;
    while (depth > 0) {
        uint32_t pc = r->stack[--depth];
        if (on_list(l, pc)) continue;
        l->place[pc] = l->n;
        l->pc[l->n] = pc;
        l->start[l->n++] = start;
        const rx_inst *i = &r->prog[pc];
        if (i->op == RX_SPLIT) {
            r->stack[depth++] = i->y;
            r->stack[depth++] = i->x;
        } else if (i->op == RX_JUMP) {
            r->stack[depth++] = i->x;
        } else if (i->op != RX_SET && i->op != RX_MATCH && holds(i->op, text, at)) {
            r->stack[depth++] = pc + 1;
        }
    }
}

/* Notes a match that the list has reached at `at`: an earlier start wins, then a later end. */
static void note_match(const regex *r, size_t at, bool *found, size_t *start, size_t *end)
{
    uint32_t pc = r->n_prog - 1; /* the only RX_MATCH is the last instruction */
    if (!on_list(&r->now, pc)) return;
    size_t s = r->now.start[r->now.place[pc]];
    if (s == at || (*found && s > *start)) return; /* empty, or begins later */
    *found = true;
    *start = s;
    *end = at;
}

bool regex_find(regex *r, slice text, size_t from, size_t *start, size_t *end)
{
    return regex_find_watched(r, text, from, start, end, NULL, NULL);
}

bool regex_find_watched(regex *r, slice text, size_t from, size_t *start, size_t *end, regex_look_fn look, void *arg)
{
    bool found = false;
    size_t work = 0;
    r->now.n = 0;
    for (size_t at = from; at <= text.n; at++) {
        work += 1 + r->now.n;
        if (look && work >= REGEX_LOOK_WORK) {
            work = 0;
            look(arg);
        }
        if (!found) add(r, &r->now, 0, at, text, at);
        if (r->now.n == 0) break;
        note_match(r, at, &found, start, end);
        if (at == text.n) break;
        r->next.n = 0;
        for (uint32_t k = 0; k < r->now.n; k++) {
            const rx_inst *i = &r->prog[r->now.pc[k]];
            if (i->op != RX_SET || !rx_set_has(&r->sets[i->x], text.p[at])) continue;
            if (found && r->now.start[k] > *start) continue;
            add(r, &r->next, r->now.pc[k] + 1, r->now.start[k], text, at + 1);
        }
        rx_list was = r->now;
        r->now = r->next;
        r->next = was;
    }
    return found;
}
