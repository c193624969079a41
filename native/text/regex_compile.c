/* SPDX-License-Identifier: MIT */
/* regex_compile.c: a pattern becomes a tree, the tree a program. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/regex_internal.h"

#define SETS_MAX   512u
#define NODES_MAX  2048u
#define VISITS_MAX 65536u
#define NO_MAX     UINT32_MAX /* {n,}, *, + */

typedef enum node_kind { N_EMPTY, N_SET, N_CAT, N_ALT, N_REPEAT, N_ASSERT } node_kind;

typedef struct node {
    node_kind kind;
    uint32_t a, b;     /* children; SET: a is the set */
    uint32_t min, max; /* REPEAT */
    rx_op op;          /* ASSERT */
} node;

typedef struct parser {
    slice text;
    size_t at;
    bool ignore_case;
    uint32_t depth;
    node *nodes;
    uint32_t n_nodes;
    uint32_t visits; /* of nodes while the program is written */
    regex *r;
    err *e;
} parser;

/* ---- faults ---- */

static uint32_t fault(parser *p, const char *what)
{
    err_at(p->e, ERR_INVALID_ARGUMENT, (int64_t)p->at, "regular expression, at byte %zu: %s", p->at, what);
    return 0;
}

static uint32_t over(parser *p, const char *what)
{
    err_set(p->e, ERR_LIMIT, "regular expression: %s", what);
    return 0;
}

static bool failed(const parser *p) { return p->e->kind != ERR_NONE; }

/* ---- reading ---- */

static bool more(const parser *p) { return p->at < p->text.n; }
static uint8_t peek(const parser *p) { return p->text.p[p->at]; }
static bool accept(parser *p, char c)
{
    if (!more(p) || peek(p) != (uint8_t)c) return false;
    p->at++;
    return true;
}
static bool accept_text(parser *p, const char *s)
{
    size_t n = strlen(s);
    if (p->text.n - p->at < n || memcmp(p->text.p + p->at, s, n) != 0) return false;
    p->at += n;
    return true;
}

/* ---- nodes and sets; index 0 of both means failure ---- */

static uint32_t new_node(parser *p, node n)
{
    if (p->n_nodes >= NODES_MAX) return over(p, "too complex");
    p->nodes[p->n_nodes] = n;
    return p->n_nodes++;
}

static void set_add(rx_set *s, uint8_t c) { s->bits[c >> 6] |= UINT64_C(1) << (c & 63); }
static void set_range(rx_set *s, unsigned from, unsigned to)
{
    for (unsigned c = from; c <= to; c++)
        set_add(s, (uint8_t)c);
}
static void set_invert(rx_set *s)
{
    for (int i = 0; i < 4; i++)
        s->bits[i] = ~s->bits[i];
}
static void set_merge(rx_set *s, const rx_set *other)
{
    for (int i = 0; i < 4; i++)
        s->bits[i] |= other->bits[i];
}
static void set_fold(rx_set *s)
{
    for (unsigned i = 0; i < 26; i++) {
        uint8_t small = (uint8_t)('a' + i), capital = (uint8_t)('A' + i);
        if (rx_set_has(s, small)) set_add(s, capital);
        if (rx_set_has(s, capital)) set_add(s, small);
    }
}

static uint32_t set_node(parser *p, rx_set set, bool inverted)
{
    if (p->ignore_case) set_fold(&set);
    if (inverted) set_invert(&set);
    if (p->r->n_sets >= SETS_MAX) return over(p, "too many classes");
    p->r->sets[p->r->n_sets] = set;
    return new_node(p, (node){.kind = N_SET, .a = p->r->n_sets++});
}

/* The set of \d, \w, \s and their capitals; false when c is none of them. */
static bool class_set(uint8_t c, rx_set *out)
{
    rx_set s = {{0}};
    uint8_t small = c | 0x20;
    if (small == 'd') {
        set_range(&s, '0', '9');
    } else if (small == 'w') {
        for (unsigned i = 0; i < 256; i++)
            if (rx_is_word((uint8_t)i)) set_add(&s, (uint8_t)i);
    } else if (small == 's') {
        set_range(&s, '\t', '\r');
        set_add(&s, ' ');
    } else {
        return false;
    }
    if (c != small) set_invert(&s);
    *out = s;
    return true;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of an escape whose letter was read; false with a fault when it is none. */
static bool escaped_byte(parser *p, uint8_t c, uint8_t *out)
{
    static const char CONTROL[] = "t\tn\nr\rf\fv\va\ae\033";
    for (const char *k = CONTROL; *k; k += 2) {
        if ((uint8_t)*k != c) continue;
        *out = (uint8_t)k[1];
        return true;
    }
    if (c == 'x') {
        int hi = p->text.n - p->at >= 2 ? hex_digit(p->text.p[p->at]) : -1;
        int lo = hi >= 0 ? hex_digit(p->text.p[p->at + 1]) : -1;
        if (lo < 0) return fault(p, "\\x needs two hex digits") != 0;
        p->at += 2;
        *out = (uint8_t)(hi * 16 + lo);
        return true;
    }
    if (rx_is_word(c)) return fault(p, "this escape does not exist here") != 0;
    *out = c;
    return true;
}

/* ---- the grammar: alternatives of sequences of repeated atoms ---- */

static uint32_t parse_alternatives(parser *p);

/* One member of a bracket: a class, or a byte in *low. -1: fault, 0: class, 1: byte. */
static int bracket_member(parser *p, rx_set *s, uint8_t *low)
{
    uint8_t c = p->text.p[p->at++];
    if (c != '\\') {
        *low = c;
        return 1;
    }
    rx_set class;
    if (!more(p)) return (int)fault(p, "the pattern ends in a backslash") - 1;
    c = p->text.p[p->at++];
    if (class_set(c, &class)) {
        set_merge(s, &class);
        return 0;
    }
    if (c == 'b') {
        *low = '\b';
        return 1;
    }
    return escaped_byte(p, c, low) ? 1 : -1;
}

static uint32_t parse_bracket(parser *p)
{
    rx_set s = {{0}};
    bool inverted = accept(p, '^');
    for (bool first = true; more(p) && (first || peek(p) != ']'); first = false) {
        uint8_t low, high;
        int kind = bracket_member(p, &s, &low);
        if (kind < 0) return 0;
        if (kind == 0) continue;
        high = low;
        if (p->text.n - p->at >= 2 && peek(p) == '-' && p->text.p[p->at + 1] != ']') {
            p->at++;
            if (bracket_member(p, &s, &high) != 1) return failed(p) ? 0 : fault(p, "a range ends in a class");
            if (high < low) return fault(p, "a range runs backwards");
        }
        set_range(&s, low, high);
    }
    if (!accept(p, ']')) return fault(p, "a bracket is not closed");
    return set_node(p, s, inverted);
}

static uint32_t parse_group(parser *p)
{
    if (accept(p, '?') && !accept(p, ':')) return fault(p, "of the groups with ?, only (?:…) exists");
    if (++p->depth > REGEX_NESTING_MAX) return over(p, "groups are nested too deeply");
    uint32_t inside = parse_alternatives(p);
    p->depth--;
    if (failed(p)) return 0;
    return accept(p, ')') ? inside : fault(p, "a group is not closed");
}

static uint32_t parse_escape(parser *p)
{
    if (!more(p)) return fault(p, "the pattern ends in a backslash");
    uint8_t c = p->text.p[p->at++], byte;
    rx_set s = {{0}};
    if (class_set(c, &s)) return set_node(p, s, false);
    if (c == 'b') return new_node(p, (node){.kind = N_ASSERT, .op = RX_WORD});
    if (c == 'B') return new_node(p, (node){.kind = N_ASSERT, .op = RX_NOT_WORD});
    if (!escaped_byte(p, c, &byte)) return 0;
    set_add(&s, byte);
    return set_node(p, s, false);
}

static uint32_t parse_atom(parser *p)
{
    rx_set s = {{0}};
    uint8_t c = p->text.p[p->at++];
    switch (c) {
    case '(': return parse_group(p);
    case '[': return parse_bracket(p);
    case '\\': return parse_escape(p);
    case '^': return new_node(p, (node){.kind = N_ASSERT, .op = RX_BEGIN});
    case '$': return new_node(p, (node){.kind = N_ASSERT, .op = RX_END});
    case '.': set_add(&s, '\n'); return set_node(p, s, true);
    case '*':
    case '+':
    case '?': p->at--; return fault(p, "nothing to repeat");
    default: set_add(&s, c); return set_node(p, s, false);
    }
}

static bool parse_number(parser *p, uint32_t *out)
{
    uint32_t n = 0;
    size_t from = p->at;
    for (; more(p) && peek(p) >= '0' && peek(p) <= '9'; p->at++)
        if (n <= REGEX_REPEAT_MAX) n = n * 10 + (peek(p) - '0'); /* larger stays larger */
    *out = n;
    return p->at > from;
}

/* {n}, {n,}, {n,m}; false and nothing read when it is text that only begins like one. */
static bool parse_counts(parser *p, uint32_t *min, uint32_t *max)
{
    size_t from = p->at++;
    bool good = parse_number(p, min);
    *max = *min;
    if (good && accept(p, ',') && !parse_number(p, max)) *max = NO_MAX;
    if (good && accept(p, '}')) return true;
    p->at = from;
    return false;
}

static uint32_t parse_repeated(parser *p)
{
    uint32_t atom = parse_atom(p);
    while (!failed(p) && more(p)) {
        uint32_t min = 0, max = NO_MAX;
        uint8_t c = peek(p);
        if (c == '{') {
            if (!parse_counts(p, &min, &max)) break;
        } else if (c == '*' || c == '+' || c == '?') {
            p->at++;
            min = c == '+';
            max = c == '?' ? 1 : NO_MAX;
        } else {
            break;
        }
        accept(p, '?'); /* as few as possible: of no meaning where the longest counts */
        if (min > REGEX_REPEAT_MAX || (max != NO_MAX && max > REGEX_REPEAT_MAX)) return over(p, "a count is too large");
        if (max < min) return fault(p, "a count runs backwards");
        atom = new_node(p, (node){.kind = N_REPEAT, .a = atom, .min = min, .max = max});
    }
    return failed(p) ? 0 : atom;
}

static uint32_t parse_sequence(parser *p)
{
    uint32_t left = new_node(p, (node){.kind = N_EMPTY});
    while (!failed(p) && more(p) && peek(p) != '|' && peek(p) != ')') {
        uint32_t right = parse_repeated(p);
        if (!failed(p)) left = new_node(p, (node){.kind = N_CAT, .a = left, .b = right});
    }
    return left;
}

static uint32_t parse_alternatives(parser *p)
{
    uint32_t left = parse_sequence(p);
    while (!failed(p) && accept(p, '|')) {
        uint32_t right = parse_sequence(p);
        if (!failed(p)) left = new_node(p, (node){.kind = N_ALT, .a = left, .b = right});
    }
    return left;
}

/* ---- the program ---- */

static uint32_t emit(parser *p, rx_inst i)
{
    if (p->r->n_prog >= REGEX_PROGRAM_MAX) return over(p, "too long when its repetitions are written out");
    p->r->prog[p->r->n_prog] = i;
    return p->r->n_prog++;
}

static void emit_node(parser *p, uint32_t at);

static void emit_alternatives(parser *p, const node *n)
{
    regex *r = p->r;
    uint32_t split = emit(p, (rx_inst){.op = RX_SPLIT});
    if (failed(p)) return;
    r->prog[split].x = r->n_prog;
    emit_node(p, n->a);
    uint32_t jump = emit(p, (rx_inst){.op = RX_JUMP});
    if (failed(p)) return;
    r->prog[split].y = r->n_prog;
    emit_node(p, n->b);
    r->prog[jump].x = r->n_prog;
}

/* x* as: L: split M, out; M: x; jump L; out: */
static void emit_star(parser *p, uint32_t inside)
{
    regex *r = p->r;
    uint32_t split = emit(p, (rx_inst){.op = RX_SPLIT});
    if (failed(p)) return;
    r->prog[split].x = r->n_prog;
    emit_node(p, inside);
    emit(p, (rx_inst){.op = RX_JUMP, .x = split});
    r->prog[split].y = r->n_prog;
}

/* Up to `times` more: each copy may be left out, and then all behind it. */
static void emit_optional(parser *p, uint32_t inside, uint32_t times)
{
    regex *r = p->r;
    uint32_t first = r->n_prog, last = 0;
    for (uint32_t i = 0; i < times && !failed(p); i++) {
        uint32_t split = emit(p, (rx_inst){.op = RX_SPLIT});
        if (failed(p)) return;
        r->prog[split].x = r->n_prog;
        r->prog[split].y = last; /* a chain of the splits, until the end is known */
        last = split;
        emit_node(p, inside);
    }
    for (uint32_t split = last; times && !failed(p);) {
        uint32_t before = r->prog[split].y;
        r->prog[split].y = r->n_prog;
        if (split == first) break;
        split = before;
    }
}

static void emit_repeat(parser *p, const node *n)
{
    for (uint32_t i = 0; i < n->min && !failed(p); i++)
        emit_node(p, n->a);
    if (failed(p)) return;
    if (n->max == NO_MAX)
        emit_star(p, n->a);
    else
        emit_optional(p, n->a, n->max - n->min);
}

static void emit_node(parser *p, uint32_t at)
{
    if (failed(p)) return;
    if (++p->visits > VISITS_MAX) { /* repetitions of nothing emit nothing, and would go on for long */
        over(p, "too long when its repetitions are written out");
        return;
    }
    const node *n = &p->nodes[at];
    switch (n->kind) {
    case N_EMPTY: break;
    case N_SET: emit(p, (rx_inst){.op = RX_SET, .x = n->a}); break;
    case N_ASSERT: emit(p, (rx_inst){.op = n->op}); break;
    case N_CAT:
        emit_node(p, n->a);
        emit_node(p, n->b);
        break;
    case N_ALT: emit_alternatives(p, n); break;
    case N_REPEAT: emit_repeat(p, n); break;
    }
}

int rx__compile(slice pattern, regex *r, err *e)
{
    parser p = {.text = pattern, .r = r, .e = e, .n_nodes = 1};
    r->prog = mem_calloc(REGEX_PROGRAM_MAX, sizeof *r->prog);
    r->sets = mem_calloc(SETS_MAX, sizeof *r->sets);
    p.nodes = mem_calloc(NODES_MAX, sizeof *p.nodes);
    if (!r->prog || !r->sets || !p.nodes) {
        err_set(e, ERR_NO_MEMORY, "no memory for a regular expression");
        goto out;
    }
    p.ignore_case = accept_text(&p, "(?i)");
    uint32_t top = parse_alternatives(&p);
    if (!failed(&p) && more(&p)) fault(&p, "a group is closed that was not opened");
    emit_node(&p, top);
    if (!failed(&p)) emit(&p, (rx_inst){.op = RX_MATCH});
out:
    free(p.nodes);
    return e->kind ? -(int)e->kind : 0;
}
