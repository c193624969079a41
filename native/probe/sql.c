/* SPDX-License-Identifier: MIT */
/* sql.c: an SQL statement without its values. No dialect is known, so what may be a value in one of them is taken for
 * one: better a name too few than a value too many. */
#include <ctype.h>

#include "probe/engine.h"

#define LITERAL        "<redacted:literal>" /* as lunette.redaction has it */
#define IDENTIFIER_MAX 128u
#define WORD_MAX       16u /* longest word that means something here */

typedef struct lexer {
    const uint8_t *p, *end;
    uint8_t *out;
    uint32_t n, cap;
    bool full;            /* out holds no more */
    bool blank;           /* blanks, lines or comments since the last token */
    bool backticks;       /* names stand in backticks: then "…" is a text and a backslash escapes, as in MySQL */
    uint8_t before;       /* last character of the last token; 0: none yet */
    bool compared;        /* the last token was an operator or a word that a value follows */
    bool armed;           /* VALUES or IN came: a list of values may begin */
    uint32_t depth, list; /* parentheses; depth of the innermost list of values, 0: none */
    char word[WORD_MAX];  /* the last token, if it was a word: in capitals */
    char earlier[WORD_MAX];
} lexer;

static void put(lexer *l, const uint8_t *s, size_t n)
{
    if (l->full) return;
    size_t blank = l->blank && l->n;
    if (n + blank > l->cap - l->n) {
        l->full = true;
        return;
    }
    if (blank) l->out[l->n++] = ' ';
    l->blank = false;
    memcpy(l->out + l->n, s, n);
    l->n += (uint32_t)n;
}

static void token(lexer *l, const uint8_t *from, bool compared)
{
    put(l, from, (size_t)(l->p - from));
    l->before = l->p[-1];
    l->compared = compared;
    l->word[0] = 0;
}

static void literal(lexer *l)
{
    put(l, (const uint8_t *)LITERAL, sizeof LITERAL - 1);
    l->before = '\'';
    l->compared = false;
    l->word[0] = 0;
}

static uint8_t ahead(const lexer *l, size_t n) { return (size_t)(l->end - l->p) > n ? l->p[n] : 0; }

static bool is_word(uint8_t c) { return isalnum(c) || c == '_' || c == '@' || c == '#' || c == '$' || c >= 0x80; }

/* ---- what is left out -------------------------------------------------------------------------------------------- */
/* A comment may nest in some dialects; where it does not, more is left out than need be. */
static void comment(lexer *l)
{
    uint32_t open = 0;
    do {
        if (ahead(l, 0) == '/' && ahead(l, 1) == '*') {
            open++;
            l->p += 2;
        } else if (ahead(l, 0) == '*' && ahead(l, 1) == '/') {
            open--;
            l->p += 2;
        } else {
            l->p++;
        }
    } while (open && l->p < l->end);
    l->blank = true;
}

static void line(lexer *l)
{
    while (l->p < l->end && *l->p != '\n')
        l->p++;
    l->blank = true;
}

/* ---- texts and names in quotes ----------------------------------------------------------------------------------- */
/* Steps behind the closing quote; a doubled one is part of the text. A backslash before a quote ends the text in one
 * dialect and not in the other: unless it is known to escape, all that follows counts as text. False: no end. */
static bool quoted(lexer *l, uint8_t quote, bool escapes)
{
    for (l->p++; l->p < l->end; l->p++) {
        if (*l->p == '\\' && quote != ']' && (escapes || ahead(l, 1) == quote)) {
            if (!escapes) break;
            l->p++;
        } else if (*l->p == quote) {
            if (ahead(l, 1) != quote) {
                l->p++;
                return true;
            }
            l->p++;
        }
    }
    l->p = l->end;
    return false;
}

static bool looks_like_a_name(const uint8_t *from, const uint8_t *to)
{
    if (to == from || (size_t)(to - from) > IDENTIFIER_MAX) return false;
    for (const uint8_t *c = from; c < to; c++)
        if (!is_word(*c) && *c != ' ' && *c != '.' && *c != '-') return false;
    return true;
}

/* Double quotes: a name by the standard, a text in MySQL, and in SQLite where no such name exists. */
static void double_quoted(lexer *l)
{
    const uint8_t *from = l->p;
    bool listed = l->list && (l->before == '(' || l->before == ',');
    bool closed = quoted(l, '"', l->backticks), part = l->before == '.' || ahead(l, 0) == '.';
    bool value = l->backticks || ((l->compared || listed) && !part);
    if (closed && !value && looks_like_a_name(from + 1, l->p - 1)) {
        token(l, from, false);
        return;
    }
    literal(l);
}

static void name_in(lexer *l, uint8_t quote)
{
    const uint8_t *from = l->p;
    if (quoted(l, quote, false) && looks_like_a_name(from + 1, l->p - 1))
        token(l, from, false);
    else
        literal(l);
}

/* $tag$ … $tag$; false: no such text begins here. */
static bool dollar_quoted(lexer *l)
{
    const uint8_t *tag_end = l->p + 1;
    while (tag_end < l->end && (isalnum(*tag_end) || *tag_end == '_' || *tag_end >= 0x80))
        tag_end++;
    if (tag_end == l->end || *tag_end != '$') return false;
    size_t n = (size_t)(++tag_end - l->p);
    const uint8_t *tag = l->p;
    for (l->p = tag_end; (size_t)(l->end - l->p) >= n; l->p++) {
        if (memcmp(l->p, tag, n) != 0) continue;
        l->p += n;
        literal(l);
        return true;
    }
    l->p = l->end;
    literal(l);
    return true;
}

/* ---- words and numbers ------------------------------------------------------------------------------------------- */
static void remember(lexer *l, const uint8_t *from)
{
    size_t n = (size_t)(l->p - from);
    memcpy(l->earlier, l->word, sizeof l->earlier);
    if (n >= sizeof l->word) n = 0;
    for (size_t i = 0; i < n; i++)
        l->word[i] = (char)toupper(from[i]);
    l->word[n] = 0;
}

static bool any_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0) return true;
    return false;
}

static void word(lexer *l)
{
    static const char *const lists[] = {"VALUES", "VALUE", "IN", NULL};
    static const char *const values_follow[] = {"LIKE",    "ILIKE",  "GLOB", "REGEXP", "RLIKE",    "MATCH", "SIMILAR",
                                                "BETWEEN", "ESCAPE", "THEN", "ELSE",   "PASSWORD", "TO",    NULL};
    const uint8_t *from = l->p;
    while (l->p < l->end && is_word(*l->p))
        l->p++;
    if (ahead(l, 0) == '\'' && (l->p - from == 1 || *from == '_')) { /* N'…', E'…', x'…', _utf8'…' */
        bool escapes = l->backticks || *from == 'E' || *from == 'e';
        (void)quoted(l, '\'', escapes);
        literal(l);
        return;
    }
    char last[WORD_MAX];
    memcpy(last, l->word, sizeof last);
    if (strcmp(l->word, "BY") == 0 && strcmp(l->earlier, "IDENTIFIED") == 0) {
        literal(l);
        return;
    }
    put(l, from, (size_t)(l->p - from));
    memcpy(l->word, last, sizeof last);
    remember(l, from);
    l->before = l->p[-1];
    l->compared = any_of(l->word, values_follow);
    l->armed = any_of(l->word, lists);
    if (strcmp(l->word, "SELECT") == 0) l->list = 0;
}

static void number(lexer *l)
{
    while (l->p < l->end &&
           (is_word(*l->p) || *l->p == '.' ||
            ((*l->p == '+' || *l->p == '-') && (l->p[-1] == 'e' || l->p[-1] == 'E') && isdigit(ahead(l, 1)))))
        l->p++;
    literal(l);
}

static void punctuation(lexer *l)
{
    const uint8_t *from = l->p;
    uint8_t c = *l->p++;
    bool was_armed = l->armed;
    if (c == '(') {
        l->depth++;
        if (l->armed) l->list = l->depth;
    } else if (c == ')') {
        if (l->list && l->depth <= l->list) {
            l->list = 0;
            was_armed = true; /* a further row of values may follow */
        }
        if (l->depth) l->depth--;
    } else if (c != ',') {
        was_armed = false;
    }
    if ((c == ':' || c == '?') && isdigit(ahead(l, 0))) /* a parameter by number */
        while (isdigit(ahead(l, 0)))
            l->p++;
    token(l, from, c == '=' || c == '<' || c == '>' || c == '~');
    l->armed = was_armed;
}

static void step(lexer *l)
{
    uint8_t c = *l->p, next = ahead(l, 1);
    if (isspace(c) || c < 0x20) {
        l->p++;
        l->blank = true;
    } else if ((c == '-' && next == '-') || (c == '#' && l->backticks))
        line(l);
    else if (c == '/' && next == '*')
        comment(l);
    else if (c == '\'') {
        (void)quoted(l, '\'', l->backticks);
        literal(l);
    } else if (c == '"')
        double_quoted(l);
    else if (c == '`')
        name_in(l, '`');
    else if (c == '[' && (isalpha(next) || next == '_' || next == '#' || next >= 0x80))
        name_in(l, ']');
    else if (c == '$' && dollar_quoted(l))
        return;
    else if (isdigit(c) ||
             (c == '.' && isdigit(next) && !is_word(l->before) && (!l->before || !strchr(")]\"`", l->before))))
        number(l);
    else if (is_word(c))
        word(l);
    else
        punctuation(l);
}

uint32_t probe__sql_plain(slice sql, uint8_t *out, uint32_t cap)
{
    static const uint8_t more[] = "...";
    if (!sql.n) return 0; /* and then it may point nowhere */
    lexer l = {.p = sql.p, .end = sql.p + sql.n, .out = out, .cap = cap - (sizeof more - 1)};
    l.backticks = memchr(sql.p, '`', sql.n) != NULL;
    while (l.p < l.end && !l.full)
        step(&l);
    if (l.full) {
        memcpy(out + l.n, more, sizeof more - 1);
        l.n += sizeof more - 1;
    }
    return l.n;
}
