/* SPDX-License-Identifier: MIT */
/* match.c: see match.h. What a pattern means is the reference manual's (Lua 5.4, section 6.4.1); what it leaves open is
 * as in stock Lua, against which a test compares it. */
#include "host/match.h"

#include <ctype.h>
#include <string.h>

static const char *try_at(matcher *m, const char *s, const char *p);

static inline unsigned char byte_of(char c) { return (unsigned char)c; }

/* ---- one character ---- */

static bool in_class(int c, int cl)
{
    bool in;
    switch (tolower(cl)) {
    case 'a': in = isalpha(c); break;
    case 'c': in = iscntrl(c); break;
    case 'd': in = isdigit(c); break;
    case 'g': in = isgraph(c); break;
    case 'l': in = islower(c); break;
    case 'p': in = ispunct(c); break;
    case 's': in = isspace(c); break;
    case 'u': in = isupper(c); break;
    case 'w': in = isalnum(c); break;
    case 'x': in = isxdigit(c); break;
    case 'z': in = c == 0; break; /* not in the manual any more, but in the library */
    default: return cl == c;
    }
    return isupper(cl) ? !in : in;
}

/* Is c in the set from p (at its '[') to last (at its ']')? */
static bool in_set(int c, const char *p, const char *last)
{
    bool in = true;
    if (p[1] == '^') {
        in = false;
        p++;
    }
    while (++p < last) {
        if (*p == MATCH_ESC) {
            p++;
            if (in_class(c, byte_of(*p))) return in;
        } else if (p[1] == '-' && p + 2 < last) {
            p += 2;
            if (byte_of(p[-2]) <= c && c <= byte_of(*p)) return in;
        } else if (byte_of(*p) == c) {
            return in;
        }
    }
    return !in;
}

/* The end of the single-character item at p. */
static const char *item_end(const matcher *m, const char *p)
{
    char first = *p++;
    if (first == MATCH_ESC) {
        if (p == m->pat_end) luaL_error(m->L, "malformed pattern (ends with '%%')");
        return p + 1;
    }
    if (first != '[') return p;
    if (*p == '^') p++;
    do { /* a ']' that comes first is a member */
        if (p == m->pat_end) luaL_error(m->L, "malformed pattern (missing ']')");
        if (*p++ == MATCH_ESC && p < m->pat_end) p++;
    } while (*p != ']');
    return p + 1;
}

/* Does the character at s match the item from p to end? */
static inline bool matches(const matcher *m, const char *s, const char *p, const char *end)
{
    if (s >= m->text_end) return false;
    switch (*p) {
    case '.': return true;
    case MATCH_ESC: return in_class(byte_of(*s), byte_of(p[1]));
    case '[': budget__poll(m->h, m->L); return in_set(byte_of(*s), p, end - 1);
    default: return *p == *s;
    }
}

/* ---- repetitions ---- */

static const char *longest(matcher *m, const char *s, const char *p, const char *end)
{
    ptrdiff_t n = 0;
    while (matches(m, s + n, p, end))
        n++;
    for (; n >= 0; n--) {
        const char *found = try_at(m, s + n, end + 1);
        if (found) return found;
    }
    return NULL;
}

static const char *shortest(matcher *m, const char *s, const char *p, const char *end)
{
    for (;; s++) {
        const char *found = try_at(m, s, end + 1);
        if (found) return found;
        if (!matches(m, s, p, end)) return NULL;
    }
}

/* ---- captures, %b, %f ---- */

static const char *open_capture(matcher *m, const char *s, const char *p, ptrdiff_t what)
{
    if (m->level >= MATCH_CAPTURES) luaL_error(m->L, "too many captures");
    m->capture[m->level].at = s;
    m->capture[m->level].n = what;
    m->level++;
    const char *found = try_at(m, s, p);
    if (!found) m->level--;
    return found;
}

static const char *close_capture(matcher *m, const char *s, const char *p)
{
    int i = m->level - 1;
    while (i >= 0 && m->capture[i].n != MATCH_UNFINISHED)
        i--;
    if (i < 0) luaL_error(m->L, "invalid pattern capture");
    m->capture[i].n = s - m->capture[i].at;
    const char *found = try_at(m, s, p);
    if (!found) m->capture[i].n = MATCH_UNFINISHED;
    return found;
}

static const char *repeated_capture(const matcher *m, const char *s, int digit)
{
    int i = digit - '1';
    if (i < 0 || i >= m->level || m->capture[i].n == MATCH_UNFINISHED)
        luaL_error(m->L, "invalid capture index %%%d", i + 1);
    ptrdiff_t n = m->capture[i].n;
    if (n < 0 || m->text_end - s < n || memcmp(m->capture[i].at, s, (size_t)n) != 0) return NULL;
    return s + n;
}

static const char *balanced(const matcher *m, const char *s, const char *p)
{
    if (p >= m->pat_end - 1) luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
    if (s >= m->text_end || *s != *p) return NULL;
    ptrdiff_t open = 1;
    while (++s < m->text_end) {
        if (*s == p[1]) {
            if (--open == 0) return s + 1;
        } else if (*s == *p) {
            open++;
        }
    }
    return NULL;
}

/* %f[set]: p is at the set. The end of the item, or NULL. */
static const char *frontier(const matcher *m, const char *s, const char *p)
{
    if (*p != '[') luaL_error(m->L, "missing '[' after '%%f' in pattern");
    const char *end = item_end(m, p);
    int before = s == m->text ? 0 : byte_of(s[-1]);
    int here = s < m->text_end ? byte_of(*s) : 0;
    return !in_set(before, p, end - 1) && in_set(here, p, end - 1) ? end : NULL;
}

/* ---- a pattern ---- */

/* An item of its own kind after a '%': moves *s and *p past it. 0: it is an ordinary one; 1: matched; -1: not. */
static int special(const matcher *m, const char **s, const char **p)
{
    switch ((*p)[1]) {
    case 'b':
        *s = balanced(m, *s, *p + 2);
        *p += 4;
        return *s ? 1 : -1;
    case 'f': *p = frontier(m, *s, *p + 2); return *p ? 1 : -1;
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        *s = repeated_capture(m, *s, byte_of((*p)[1]));
        *p += 2;
        return *s ? 1 : -1;
    default: return 0;
    }
}

static const char *walk(matcher *m, const char *s, const char *p)
{
    while (p != m->pat_end) {
        budget__poll(m->h, m->L);
        if (*p == '(')
            return p[1] == ')' ? open_capture(m, s, p + 2, MATCH_POSITION)
                               : open_capture(m, s, p + 1, MATCH_UNFINISHED);
        if (*p == ')') return close_capture(m, s, p + 1);
        if (*p == '$' && p + 1 == m->pat_end) return s == m->text_end ? s : NULL;
        if (*p == MATCH_ESC) {
            int done = special(m, &s, &p);
            if (done < 0) return NULL;
            if (done) continue;
        }
        const char *end = item_end(m, p);
        bool here = matches(m, s, p, end);
        switch (*end) { /* a zero byte follows the pattern */
        case '?': {
            const char *found = here ? try_at(m, s + 1, end + 1) : NULL;
            if (found) return found;
            p = end + 1;
            break;
        }
        case '+': return here ? longest(m, s + 1, p, end) : NULL;
        case '*': return longest(m, s, p, end);
        case '-': return shortest(m, s, p, end);
        default:
            if (!here) return NULL;
            s++;
            p = end;
        }
    }
    return s;
}

static const char *try_at(matcher *m, const char *s, const char *p)
{
    if (m->depth == 0) luaL_error(m->L, "pattern too complex");
    m->depth--;
    s = walk(m, s, p);
    m->depth++;
    return s;
}

/* ---- what the others call ---- */

void match__init(matcher *m, lua_State *L, const char *text, size_t n, const char *pat, size_t pat_n)
{
    m->h = host_of(L);
    m->L = L;
    m->text = text;
    m->text_end = text + n;
    m->pat_end = pat + pat_n;
    m->depth = MATCH_DEPTH;
    m->level = 0;
}

const char *match__at(matcher *m, const char *s, const char *pat)
{
    m->level = 0;
    m->depth = MATCH_DEPTH;
    return try_at(m, s, pat);
}

ptrdiff_t match__get(const matcher *m, int i, const char *s, const char *e, const char **at)
{
    if (i >= m->level) {
        if (i != 0) luaL_error(m->L, "invalid capture index %%%d", i + 1);
        *at = s;
        return e - s;
    }
    if (m->capture[i].n == MATCH_UNFINISHED) luaL_error(m->L, "unfinished capture");
    *at = m->capture[i].at;
    return m->capture[i].n;
}

void match__push(matcher *m, int i, const char *s, const char *e)
{
    const char *at;
    ptrdiff_t n = match__get(m, i, s, e, &at);
    if (n == MATCH_POSITION)
        lua_pushinteger(m->L, at - m->text + 1);
    else
        lua_pushlstring(m->L, at, (size_t)n);
}

int match__push_all(matcher *m, const char *s, const char *e, bool whole)
{
    int n = m->level == 0 && whole ? 1 : m->level;
    luaL_checkstack(m->L, n, "too many captures");
    for (int i = 0; i < n; i++)
        match__push(m, i, s, e);
    return n;
}
