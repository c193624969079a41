/* SPDX-License-Identifier: MIT */
/* sql.c: an SQL statement without its values. No dialect is known, so what may be a value in one of them is taken for
 * one: better a name too few than a value too many. Where a text cannot be told from what is between texts (a quote too
 * many, or one too few), all from the first text on is left out. */
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
    bool quoted_names;    /* some "…" is certainly a name; if none is, all are texts */
    bool texts;           /* a text was left out */
    uint32_t clean;       /* bytes of out up to behind the first text */
    bool closed;          /* the last token was a text, and its end was there */
    bool called;          /* the last word is compared with something: as a function, its arguments may be texts */
    uint32_t call;        /* depth of the arguments of such a function, 0: none */
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
    l->closed = l->called = false;
}

static void literal(lexer *l)
{
    put(l, (const uint8_t *)LITERAL, sizeof LITERAL - 1);
    l->before = '\'';
    l->compared = false;
    l->word[0] = 0;
    l->closed = l->called = false;
}

/* A text in quotes that has, or has not, an end. */
static void text(lexer *l, bool closed)
{
    literal(l);
    if (!l->texts) l->clean = l->n;
    l->texts = true;
    l->closed = closed;
}

/* What is a text and what is not cannot be told: nothing from the first text on is kept. */
static void unclean(lexer *l)
{
    if (!l->texts) text(l, false);
    l->n = l->clean;
    l->full = false;
    l->p = l->end;
}

static uint8_t ahead(const lexer *l, size_t n) { return (size_t)(l->end - l->p) > n ? l->p[n] : 0; }

static bool is_word(uint8_t c) { return isalnum(c) || c == '_' || c == '@' || c == '#' || c == '$' || c >= 0x80; }

/* ---- comments ---------------------------------------------------------------------------------------------------- */
/* Steps over a comment. One without an end, or with an odd quote in it behind a text, may be part of a text itself. */
static void left_out(lexer *l, const uint8_t *from, bool closed)
{
    uint32_t quotes = 0;
    for (const uint8_t *c = from; c < l->p; c++)
        quotes += *c == '\'';
    l->blank = true;
    if (l->texts && (!closed || quotes % 2)) unclean(l);
}

/* A comment may nest in some dialects; where it does not, more is left out than need be. */
static void comment(lexer *l)
{
    const uint8_t *from = l->p;
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
    left_out(l, from, !open);
}

static void line(lexer *l)
{
    const uint8_t *from = l->p;
    while (l->p < l->end && *l->p != '\n')
        l->p++;
    left_out(l, from, true);
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
    bool listed = (l->list || l->call) && (l->before == '(' || l->before == ',');
    bool closed = quoted(l, '"', l->backticks), part = l->before == '.' || ahead(l, 0) == '.';
    bool value = l->backticks || !l->quoted_names || ((l->compared || listed) && !part);
    if (!closed || is_word(ahead(l, 0)))
        unclean(l);
    else if (!value && looks_like_a_name(from + 1, l->p - 1))
        token(l, from, false);
    else
        text(l, closed);
}

static void name_in(lexer *l, uint8_t quote)
{
    const uint8_t *from = l->p;
    bool closed = quoted(l, quote, false);
    if (!closed || is_word(ahead(l, 0)))
        unclean(l);
    else if (looks_like_a_name(from + 1, l->p - 1))
        token(l, from, false);
    else
        text(l, closed);
}

/* '…' with what stands before it at once. */
static void single_quoted(lexer *l, bool escapes)
{
    bool closed = quoted(l, '\'', escapes);
    text(l, closed);
    if (!closed) unclean(l);
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
        text(l, true);
        return true;
    }
    unclean(l);
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

/* Words that may stand behind a text. Any other is part of a text whose quotes are not where they seem to be. */
static bool goes_on(const char *word)
{
    static const char *const list[] = {
        "AND",    "OR",     "XOR",     "NOT",       "AS",      "IS",        "IN",      "LIKE",     "ILIKE",  "BETWEEN",
        "GLOB",   "REGEXP", "RLIKE",   "MATCH",     "SIMILAR", "ESCAPE",    "UESCAPE", "COLLATE",  "THEN",   "ELSE",
        "END",    "WHEN",   "FROM",    "WHERE",     "GROUP",   "ORDER",     "HAVING",  "LIMIT",    "OFFSET", "FETCH",
        "UNION",  "EXCEPT", "MINUS",   "INTERSECT", "ON",      "USING",     "JOIN",    "INNER",    "LEFT",   "RIGHT",
        "FULL",   "CROSS",  "NATURAL", "RETURNING", "OUTPUT",  "FOR",       "WITH",    "OPTION",   "ASC",    "DESC",
        "NULLS",  "AT",     "OVER",    "DIV",       "MOD",     "SET",       "INTO",    "VALUES",   "SELECT", "INSERT",
        "UPDATE", "DELETE", "MERGE",   "DECLARE",   "EXEC",    "EXECUTE",   "IF",      "BEGIN",    "COMMIT", "RETURN",
        "PRINT",  "GO",     "NULL",    "DEFAULT",   "PRIMARY", "UNIQUE",    "CHECK",   "LANGUAGE", "TO",     "YEAR",
        "MONTH",  "DAY",    "HOUR",    "MINUTE",    "SECOND",  "SEPARATOR", NULL};
    return any_of(word, list);
}

/* Words that stand right before the quote of a text and are no part of it. */
static bool begins_a_text(const uint8_t *from, size_t n)
{
    return n == 1 || *from == '_'; /* N'…', E'…', x'…', _utf8'…' */
}

static void word(lexer *l)
{
    static const char *const lists[] = {"VALUES", "VALUE", "IN", NULL};
    static const char *const values_follow[] = {"LIKE",    "ILIKE",  "GLOB", "REGEXP", "RLIKE",    "MATCH", "SIMILAR",
                                                "BETWEEN", "ESCAPE", "THEN", "ELSE",   "PASSWORD", "TO",    NULL};
    const uint8_t *from = l->p;
    while (l->p < l->end && is_word(*l->p))
        l->p++;
    size_t n = (size_t)(l->p - from);
    bool quote = ahead(l, 0) == '\'' || ahead(l, 0) == '"', behind = l->closed, compared = l->compared;
    if (ahead(l, 0) == '\'' && !behind && begins_a_text(from, n)) {
        single_quoted(l, l->backticks || *from == 'E' || *from == 'e');
        return;
    }
    if (strcmp(l->word, "BY") == 0 && strcmp(l->earlier, "IDENTIFIED") == 0) {
        literal(l);
        return;
    }
    remember(l, from);
    if ((behind && !goes_on(l->word)) || (quote && !goes_on(l->word) && !any_of(l->word, values_follow)) ||
        memmem(from, n, "$$", 2)) {
        unclean(l);
        return;
    }
    put(l, from, n);
    l->closed = false;
    l->called = compared;
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
    bool behind = l->closed;
    literal(l);
    l->closed = behind;
}

static void punctuation(lexer *l)
{
    const uint8_t *from = l->p;
    uint8_t c = *l->p++;
    bool was_armed = l->armed, called = l->called;
    if (c == '(') {
        l->depth++;
        if (called) l->call = l->depth;
        if (l->armed) l->list = l->depth;
    } else if (c == ')') {
        if (l->list && l->depth <= l->list) {
            l->list = 0;
            was_armed = true; /* a further row of values may follow */
        }
        if (l->call && l->depth <= l->call) l->call = 0;
        if (l->depth) l->depth--;
    } else if (c != ',') {
        was_armed = false;
    }
    if ((c == ':' || c == '?') && isdigit(ahead(l, 0))) /* a parameter by number */
        while (isdigit(ahead(l, 0)))
            l->p++;
    token(l, from, c == '=' || c == '<' || c == '>' || c == '~' || c == '|' || c == '+');
    l->armed = was_armed;
}

static void step(lexer *l)
{
    uint8_t c = *l->p, next = ahead(l, 1);
    if (isspace(c) || c < 0x20) {
        l->p++;
        l->blank = true;
    } else if ((c == '-' && next == '-') || (c == '#' && (l->backticks || isspace(next))))
        line(l);
    else if (c == '/' && next == '*')
        comment(l);
    else if (c == '\'')
        single_quoted(l, l->backticks);
    else if (c == '"')
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

/* Whether some "…" is certainly a name: part of a longer one, or behind a word that a name follows. */
static bool has_quoted_names(slice sql)
{
    static const char *const names_follow[] = {"FROM", "JOIN", "INTO", "UPDATE", "TABLE", "INDEX", NULL};
    for (size_t i = 0; i < sql.n; i++) {
        if (sql.p[i] != '"') continue;
        if ((i && sql.p[i - 1] == '.') || (i + 1 < sql.n && sql.p[i + 1] == '.')) return true;
        size_t end = i, from;
        while (end && isspace(sql.p[end - 1]))
            end--;
        for (from = end; from && end - from < WORD_MAX && isalpha(sql.p[from - 1]);)
            from--;
        char name[WORD_MAX] = {0};
        for (size_t k = from; k < end && k - from < WORD_MAX - 1; k++)
            name[k - from] = (char)toupper(sql.p[k]);
        if (any_of(name, names_follow)) return true;
    }
    return false;
}

uint32_t probe__sql_plain(slice sql, uint8_t *out, uint32_t cap)
{
    static const uint8_t more[] = "...";
    if (!sql.n) return 0; /* and then it may point nowhere */
    lexer l = {.p = sql.p, .end = sql.p + sql.n, .out = out, .cap = cap - (sizeof more - 1)};
    l.backticks = memchr(sql.p, '`', sql.n) != NULL;
    l.quoted_names = !l.backticks && has_quoted_names(sql);
    while (l.p < l.end && !l.full)
        step(&l);
    if (l.full) {
        memcpy(out + l.n, more, sizeof more - 1);
        l.n += sizeof more - 1;
    }
    return l.n;
}
