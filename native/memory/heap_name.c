/* SPDX-License-Identifier: MIT */
/* heap_name.c: type arguments go from the end of a name to where their number stands: A`1+B`1[[X, m],[Y, m]] is
 * A<X>+B<Y>. */
#include "memory/heap_name.h"

#define ARGUMENTS_MAX 256

typedef struct parser {
    slice s;
    size_t at;
    buf *out;
} parser;

static uint8_t peek(const parser *p, size_t ahead) { return p->at + ahead < p->s.n ? p->s.p[p->at + ahead] : 0; }

/* Does an argument list begin here? "[[" ; "[]" and "[,]" are of an array. */
static bool at_arguments(const parser *p) { return peek(p, 0) == '[' && peek(p, 1) == '['; }

/* The end of a name: what stands before its arguments, its rank, or the assembly. A bracket, a comma. */
static slice plain_name(parser *p)
{
    size_t from = p->at;
    while (p->at < p->s.n && p->s.p[p->at] != '[' && p->s.p[p->at] != ']' && p->s.p[p->at] != ',')
        p->at += p->s.p[p->at] == '\\' && p->at + 1 < p->s.n ? 2 : 1;
    return slice_of(p->s.p + from, p->at - from);
}

static bool type_of(parser *p, unsigned depth);

/* "[X, assembly]": X goes to out. */
static bool argument(parser *p, unsigned depth)
{
    if (peek(p, 0) != '[') return false;
    p->at++;
    if (!type_of(p, depth + 1)) return false;
    while (p->at < p->s.n && p->s.p[p->at] != ']')
        p->at++; /* ", assembly" */
    if (peek(p, 0) != ']') return false;
    p->at++;
    return true;
}

/* How many arguments "`N" at s[i] asks for; *next is behind it. 0: it is none. */
static unsigned arity_at(slice s, size_t i, size_t *next)
{
    unsigned n = 0;
    size_t at = i + 1;
    while (at < s.n && s.p[at] >= '0' && s.p[at] <= '9' && n < ARGUMENTS_MAX)
        n = n * 10 + (s.p[at++] - '0');
    *next = at;
    return s.p[i] == '`' && at > i + 1 ? n : 0;
}

static bool name_with_arguments(parser *p, slice name, unsigned depth)
{
    p->at++; /* the outer bracket */
    bool first = true;
    for (size_t i = 0; i < name.n;) {
        size_t next = i + 1;
        unsigned n = arity_at(name, i, &next);
        if (!n) {
            buf_u8(p->out, name.p[i++]);
            continue;
        }
        for (unsigned k = 0; k < n; k++) {
            if (!first && peek(p, 0) == ',') p->at++;
            first = false;
            buf_str(p->out, k ? ", " : "<");
            if (!argument(p, depth)) return false;
        }
        buf_u8(p->out, '>');
        i = next;
    }
    if (peek(p, 0) != ']') return false; /* more arguments than places */
    p->at++;
    return true;
}

static bool type_of(parser *p, unsigned depth)
{
    if (depth > HEAP_NAME_DEPTH) return false;
    slice name = plain_name(p);
    if (!name.n) return false;
    if (at_arguments(p)) {
        if (!name_with_arguments(p, name, depth)) return false;
    } else {
        buf_slice(p->out, name);
    }
    while (peek(p, 0) == '[' && !at_arguments(p)) { /* ranks */
        size_t from = p->at;
        while (p->at < p->s.n && p->s.p[p->at] != ']')
            p->at++;
        if (peek(p, 0) != ']') return false;
        p->at++;
        buf_put(p->out, p->s.p + from, p->at - from);
    }
    while (peek(p, 0) == '*' || peek(p, 0) == '&')
        buf_u8(p->out, p->s.p[p->at++]);
    return true;
}

bool heap_name_of(slice raw, buf *out)
{
    size_t before = out->n;
    parser p = {.s = raw, .out = out};
    if (type_of(&p, 0) && p.at == raw.n && !out->failed) return true;
    if (out->failed) return false;
    out->n = before;
    return buf_slice(out, raw);
}
