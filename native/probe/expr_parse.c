/* SPDX-License-Identifier: MIT */
/* expr_parse.c: the text of an expression becomes a tree (docs/design/probe.md, Expressions). Recursive descent. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "probe/engine.h"

#define DEPTH_MAX 48
#define TEXT_MAX  4096

typedef enum tok_type { T_END, T_NUMBER, T_TEXT, T_NAME, T_FIELD, T_AT, T_OP, T_BAD } tok_type;

typedef struct tok {
    tok_type type;
    slice s;  /* T_NAME, T_FIELD, T_AT: the name; T_TEXT: between the quotes */
    pv value; /* T_NUMBER */
    char op[3];
} tok;

typedef struct parser {
    pscope *s;
    const char *text, *at;
    tok t;
    int depth;
    int lets;   /* names of `let` that are being opened */
    bool start; /* names mean the start of the pair: the text of a let behind "start." */
    bool failed;
} parser;

static const px *parse_or(parser *p);

static const px *fail(parser *p, const char *fmt, const char *arg)
{
    if (p->failed) return NULL;
    p->failed = true;
    char what[256];
    (void)snprintf(what, sizeof what, fmt, arg);
    (void)err_set(p->s->e, ERR_INVALID_ARGUMENT, "%s: in the expression \"%.120s\" at character %d: %s", p->s->place,
                  p->text, (int)(p->at - p->text) + 1, what);
    return NULL;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */
static bool name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void read_number(parser *p)
{
    const char *s = p->at;
    char *end;
    bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    errno = 0;
    unsigned long long whole = strtoull(s, &end, hex ? 16 : 10);
    bool is_float = !hex && (*end == '.' || *end == 'e' || *end == 'E');
    p->t.type = T_NUMBER;
    if (is_float) {
        p->t.value = pv_float(strtod(s, &end));
    } else if (errno == ERANGE) {
        p->t.type = T_BAD;
    } else {
        p->t.value = pv_int((int64_t)whole);
    }
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"us", 1e3}, {"ms", 1e6}, {"ns", 1}, {"s", 1e9}};
    for (size_t i = 0; !hex && i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i].unit);
        if (strncmp(end, units[i].unit, n) != 0 || name_char(end[n])) continue;
        double v = is_float ? p->t.value.f : (double)p->t.value.i;
        if (v * units[i].ns > 9e18) break;
        p->t.value = pv_int(llround(v * units[i].ns));
        end += n;
        break;
    }
    if (name_char(*end) || p->t.type == T_BAD) p->t.type = T_BAD;
    p->at = end;
}

static void next(parser *p)
{
    while (*p->at == ' ' || *p->at == '\n' || *p->at == '\t')
        p->at++;
    const char *s = p->at;
    p->t = (tok){.type = T_END};
    if (!*s) return;
    if (isdigit((unsigned char)*s)) {
        read_number(p);
        return;
    }
    if (*s == '"' || *s == '\'' || *s == '`') {
        const char *end = strchr(s + 1, *s);
        p->t.type = !end ? T_BAD : *s == '`' ? T_FIELD : T_TEXT;
        if (end) p->t.s = slice_of(s + 1, (size_t)(end - s - 1));
        p->at = end ? end + 1 : s;
        return;
    }
    bool at = *s == '@';
    if (at || name_start(*s)) {
        const char *end = s + 1;
        while (name_char(*end) || (!at && *end == '.' && name_start(end[1])))
            end++;
        p->t.type = at ? T_AT : T_NAME;
        p->t.s = at ? slice_of(s + 1, (size_t)(end - s - 1)) : slice_of(s, (size_t)(end - s));
        p->at = end;
        return;
    }
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<<", ">>", "//", "<", ">", "+",
                                      "-",  "*",  "/",  "%",  "|",  "&",  "(",  ")", ",", "."};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        size_t n = strlen(ops[i]);
        if (strncmp(s, ops[i], n) != 0) continue;
        p->t.type = T_OP;
        memcpy(p->t.op, ops[i], n + 1);
        p->at = s + n;
        return;
    }
    p->t.type = T_BAD;
}

static bool is_op(const parser *p, const char *op) { return p->t.type == T_OP && strcmp(p->t.op, op) == 0; }
static bool is_word(const parser *p, const char *w) { return p->t.type == T_NAME && slice_eq_str(p->t.s, w); }

/* ---- nodes ------------------------------------------------------------------------------------------------------- */
static px *node(parser *p, px_op op)
{
    if (++p->s->nodes > PROBE_EXPRS_MAX) return (px *)fail(p, "the program has too many expressions%s", "");
    px *x = arena_alloc(&p->s->p->a, sizeof *x);
    if (!x) return (px *)fail(p, "not enough memory%s", "");
    x->op = (uint8_t)op;
    return x;
}

static const px *with(parser *p, px_op op, const px *a, const px *b)
{
    if (!a || (op != PX_NOT && op != PX_NEG && !b)) return NULL;
    px *x = node(p, op);
    if (!x) return NULL;
    x->arg[0] = a;
    x->arg[1] = b;
    x->n = b ? 2 : 1;
    return x;
}

static const px *literal(parser *p, pv v)
{
    px *x = node(p, PX_LITERAL);
    if (x) x->value = v;
    return x;
}

static const px *text_literal(parser *p, slice s)
{
    const char *copy = arena_str(&p->s->p->a, s);
    if (!copy) return fail(p, "not enough memory%s", "");
    pv v = {.type = PV_TEXT8, .n = (uint32_t)s.n};
    v.p = (const uint8_t *)copy;
    return literal(p, v);
}

static const struct {
    const char *name;
    px_op op;
} PROPERTIES[] = {{"time", PX_TIME},         {"unix", PX_UNIX},         {"thread", PX_THREAD},
                  {"activity", PX_ACTIVITY}, {"related", PX_RELATED},   {"stack", PX_STACK},
                  {"event", PX_EVENT},       {"provider", PX_PROVIDER}, {"id", PX_ID},
                  {"version", PX_VERSION},   {"level", PX_LEVEL},       {"size", PX_SIZE},
                  {"duration", PX_DURATION}};

static const px *property(parser *p, slice name)
{
    for (size_t i = 0; i < sizeof PROPERTIES / sizeof *PROPERTIES; i++) {
        if (!slice_eq_str(name, PROPERTIES[i].name)) continue;
        if (PROPERTIES[i].op == PX_DURATION && (!p->s->pair || p->start))
            return fail(p, "@duration is only known below a pair%s", "");
        if (PROPERTIES[i].op == PX_STACK) p->s->p->uses_stacks = true;
        return node(p, PROPERTIES[i].op);
    }
    char word[64];
    (void)snprintf(word, sizeof word, "%.*s", (int)(name.n < 60 ? name.n : 60), (const char *)name.p);
    return fail(
        p,
        "there is no @%s (there are @time @unix @thread @activity @related @stack @provider @event @id @version "
        "@level @size @duration)",
        word);
}

static const px *field(parser *p, slice name)
{
    if (name.n == 0) return fail(p, "a name is empty%s", "");
    uint32_t ref = probe__field(p->s->p, name);
    if (ref == UINT32_MAX) return fail(p, "not enough memory%s", "");
    px *x = node(p, PX_FIELD);
    if (x) x->ref = ref;
    return x;
}

/* The text of a let, in the same surroundings. */
static const px *opened(parser *p, const char *text, bool start)
{
    if (p->lets >= 16) return fail(p, "names of 'let' are made of each other without end%s", "");
    parser inner = {.s = p->s, .text = text, .at = text, .lets = p->lets + 1, .start = start, .depth = p->depth};
    next(&inner);
    const px *x = parse_or(&inner);
    if (x && inner.t.type != T_END) x = fail(&inner, "something is left over at the end%s", "");
    p->failed |= inner.failed;
    return x;
}

static const char *let_of(const parser *p, slice name)
{
    const probe_row *let = &p->s->program->let;
    for (size_t i = 0; i < let->n; i++)
        if (slice_eq_str(name, let->p[i].name)) return let->p[i].text;
    return NULL;
}

/* Something of the start: kept when the start comes, so it is a number in the pair's list. */
static const px *captured(parser *p, const px *inner, slice text)
{
    pcapture *c = p->s->captures;
    if (!inner) return NULL;
    uint32_t i = 0;
    while (i < c->n && !slice_eq(c->text[i], text))
        i++;
    if (i == c->n) {
        if (c->n == PROBE_COLUMNS_MAX) return fail(p, "too many values of a pair's start are used%s", "");
        char *copy = arena_str(&p->s->p->a, text);
        if (!copy) return fail(p, "not enough memory%s", "");
        c->text[c->n] = slice_of(copy, text.n);
        c->e[c->n++] = inner;
    }
    px *x = node(p, PX_CAPTURED);
    if (x) x->ref = i;
    return x;
}

static const px *of_start(parser *p, slice name, bool at)
{
    if (!p->s->pair || p->start) return fail(p, "'start.' is only known below a pair%s", "");
    parser inner = *p;
    inner.start = true;
    const char *let = at ? NULL : let_of(p, name);
    const px *x = at ? property(&inner, name) : let ? opened(&inner, let, true) : field(&inner, name);
    p->failed |= inner.failed;
    char key[300];
    int n =
        snprintf(key, sizeof key, "%s%.*s", at ? "@" : "", (int)(name.n < 280 ? name.n : 280), (const char *)name.p);
    return captured(p, x, slice_of(key, (size_t)n));
}

/* ---- functions --------------------------------------------------------------------------------------------------- */
static const struct {
    const char *name;
    px_op op;
    uint8_t min, max;
} FUNCTIONS[] = {
    {"if", PX_IF, 3, 3},     {"coalesce", PX_COALESCE, 1, 4}, {"min", PX_MIN, 2, 2},      {"max", PX_MAX, 2, 2},
    {"abs", PX_ABS, 1, 1},   {"floor", PX_FLOOR, 1, 1},       {"exp", PX_EXP, 1, 1},      {"bit", PX_BIT, 2, 2},
    {"len", PX_LEN, 1, 1},   {"lower", PX_LOWER, 1, 1},       {"sql", PX_SQL, 1, 1},      {"starts", PX_STARTS, 2, 2},
    {"ends", PX_ENDS, 2, 2}, {"contains", PX_CONTAINS, 2, 2}, {"like", PX_LIKE, 2, 2},    {"enum", PX_ENUM, 1, 1},
    {"hex", PX_HEX, 1, 1},   {"number", PX_TO_NUMBER, 1, 1},  {"within", PX_WITHIN, 1, 1}};

/* within("name"): the name is looked up when events come, since the pair may be declared behind this. */
static const px *within(parser *p, px *x)
{
    const px *name = x->arg[0];
    if (name->op != PX_LITERAL || name->value.type != PV_TEXT8)
        return fail(p, "within() takes the name of a pair as a text%s", "");
    const slice s = slice_of(name->value.p, name->value.n);
    const probe_program *g = p->s->program;
    for (size_t i = 0; i < g->n_keep; i++)
        if (g->keep[i].op == PROBE_PAIR && g->keep[i].name && slice_eq_str(s, g->keep[i].name)) {
            x->value = name->value;
            return x;
        }
    char word[64];
    (void)snprintf(word, sizeof word, "%.*s", (int)(s.n < 60 ? s.n : 60), (const char *)s.p);
    return fail(p, "the program keeps no pair '%s' at its top", word);
}

static const px *call(parser *p, slice name)
{
    char word[64];
    (void)snprintf(word, sizeof word, "%.*s", (int)(name.n < 60 ? name.n : 60), (const char *)name.p);
    size_t i = 0;
    while (i < sizeof FUNCTIONS / sizeof *FUNCTIONS && strcmp(FUNCTIONS[i].name, word) != 0)
        i++;
    if (i == sizeof FUNCTIONS / sizeof *FUNCTIONS)
        return fail(
            p,
            "there is no function %s (there are if coalesce min max abs floor exp bit len lower starts ends contains "
            "like sql enum hex number within)",
            word);
    next(p); /* the bracket */
    px *x = node(p, FUNCTIONS[i].op);
    if (!x) return NULL;
    while (!is_op(p, ")")) {
        if (x->n == FUNCTIONS[i].max) return fail(p, "%s has too many arguments", word);
        if (!(x->arg[x->n++] = parse_or(p))) return NULL;
        if (is_op(p, ","))
            next(p);
        else if (!is_op(p, ")"))
            return fail(p, "a ')' is missing behind the arguments of %s", word);
    }
    if (x->n < FUNCTIONS[i].min) return fail(p, "%s has too few arguments", word);
    if (x->op == PX_ENUM && x->arg[0]->op != PX_FIELD) return fail(p, "enum() takes a field of the event itself%s", "");
    if (x->op == PX_WITHIN && !within(p, x)) return NULL;
    next(p);
    return x;
}

/* ---- the grammar ------------------------------------------------------------------------------------------------- */
static const px *parse_name(parser *p)
{
    slice name = p->t.s;
    bool start = slice_eq_str(name, "start") && *p->at == '.';
    if (start) { /* start.@time, start.`odd name` */
        p->at++;
        next(p);
        slice inner = p->t.s;
        bool at = p->t.type == T_AT;
        if (!at && p->t.type != T_FIELD) return fail(p, "a name must follow 'start.'%s", "");
        const px *x = of_start(p, inner, at);
        next(p);
        return x;
    }
    next(p);
    if (is_op(p, "(")) return call(p, name);
    if (slice_starts(name, SLICE_LIT("start.")) && p->s->pair && !p->start)
        return of_start(p, slice_of(name.p + 6, name.n - 6), false);
    if (slice_eq_str(name, "true") || slice_eq_str(name, "false"))
        return literal(p, pv_bool(slice_eq_str(name, "true")));
    if (slice_eq_str(name, "null")) return literal(p, pv_null());
    const char *let = let_of(p, name);
    return let ? opened(p, let, p->start) : field(p, name);
}

static const px *parse_primary(parser *p)
{
    tok t = p->t;
    const px *x;
    switch (t.type) {
    case T_NUMBER: next(p); return literal(p, t.value);
    case T_TEXT: next(p); return text_literal(p, t.s);
    case T_FIELD: next(p); return field(p, t.s);
    case T_AT: next(p); return property(p, t.s);
    case T_NAME: return parse_name(p);
    case T_OP:
        if (!is_op(p, "(")) break;
        next(p);
        x = parse_or(p);
        if (x && !is_op(p, ")")) return fail(p, "a ')' is missing%s", "");
        next(p);
        return x;
    case T_END: return fail(p, "something is missing at the end%s", "");
    case T_BAD: break;
    }
    return fail(p, "this is no expression%s", "");
}

static const px *parse_unary(parser *p)
{
    if (++p->depth > DEPTH_MAX) return fail(p, "it is nested too deep%s", "");
    const px *x;
    if (is_op(p, "-")) {
        next(p);
        x = with(p, PX_NEG, parse_unary(p), NULL);
    } else
        x = parse_primary(p);
    p->depth--;
    return x;
}

typedef struct level {
    const char *word;
    px_op op;
    int rank;
} level;
static const level LEVELS[] = {{"==", PX_EQ, 0},  {"!=", PX_NE, 0},   {"<=", PX_LE, 0},    {">=", PX_GE, 0},
                               {"<", PX_LT, 0},   {">", PX_GT, 0},    {"|", PX_BIT_OR, 1}, {"&", PX_BIT_AND, 2},
                               {"<<", PX_SHL, 3}, {">>", PX_SHR, 3},  {"+", PX_ADD, 4},    {"-", PX_SUB, 4},
                               {"*", PX_MUL, 5},  {"//", PX_IDIV, 5}, {"/", PX_DIV, 5},    {"%", PX_MOD, 5}};
#define RANKS 6

static const px *parse_binary(parser *p, int rank)
{
    if (rank == RANKS) return parse_unary(p);
    const px *x = parse_binary(p, rank + 1);
    while (x && p->t.type == T_OP) {
        const level *found = NULL;
        for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS && !found; i++)
            if (LEVELS[i].rank == rank && strcmp(p->t.op, LEVELS[i].word) == 0) found = &LEVELS[i];
        if (!found) break;
        next(p);
        x = with(p, found->op, x, parse_binary(p, rank + 1));
    }
    return x;
}

static const px *parse_not(parser *p)
{
    if (!is_word(p, "not")) return parse_binary(p, 0);
    if (++p->depth > DEPTH_MAX) return fail(p, "it is nested too deep%s", "");
    next(p);
    const px *x = with(p, PX_NOT, parse_not(p), NULL);
    p->depth--;
    return x;
}

static const px *parse_and(parser *p)
{
    const px *x = parse_not(p);
    while (x && is_word(p, "and")) {
        next(p);
        x = with(p, PX_AND, x, parse_not(p));
    }
    return x;
}

static const px *parse_or(parser *p)
{
    if (++p->depth > DEPTH_MAX) return fail(p, "it is nested too deep%s", "");
    const px *x = parse_and(p);
    while (x && is_word(p, "or")) {
        next(p);
        x = with(p, PX_OR, x, parse_and(p));
    }
    p->depth--;
    return x;
}

const px *probe__parse(pscope *s, const char *text)
{
    parser p = {.s = s, .text = text, .at = text};
    if (strlen(text) > TEXT_MAX) return fail(&p, "it is longer than 4096 bytes%s", "");
    next(&p);
    const px *x = parse_or(&p);
    if (x && p.t.type != T_END) return fail(&p, "something is left over%s", "");
    return x;
}

uint32_t probe__field(probe *p, slice name)
{
    for (uint32_t i = 0; i < p->n_field; i++)
        if (slice_eq(p->field[i], name)) return i;
    char *copy = arena_str(&p->a, name);
    slice *grown = mem_realloc(p->field, (p->n_field + 1) * sizeof *grown);
    if (grown) p->field = grown;
    if (!copy || !grown) return UINT32_MAX;
    p->field[p->n_field] = slice_of(copy, name.n);
    return p->n_field++;
}
