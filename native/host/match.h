/* SPDX-License-Identifier: MIT */
/* match.h: Lua's patterns, matched in steps that the budget sees. The stock matcher runs unseen: a pattern that
 * backtracks over a long text holds the loop for as long as it likes. */
#ifndef LUNETTE_HOST_MATCH_H
#define LUNETTE_HOST_MATCH_H

#include <stddef.h>

#include "host/host_internal.h"

#define MATCH_CAPTURES   32  /* as in stock Lua */
#define MATCH_DEPTH      200 /* levels of matching inside matching; as in stock Lua */
#define MATCH_ESC        '%'
#define MATCH_UNFINISHED (-1) /* length of a capture that is open */
#define MATCH_POSITION   (-2) /* … of one that is a position */

/* One text and one pattern. Both are Lua strings that stay on the stack: a zero byte follows each. */
typedef struct matcher {
    host *h;
    lua_State *L;
    const char *text, *text_end;
    const char *pat_end;
    int depth; /* levels left */
    int level; /* captures begun */
    struct {
        const char *at;
        ptrdiff_t n;
    } capture[MATCH_CAPTURES];
} matcher;

void match__init(matcher *m, lua_State *L, const char *text, size_t n, const char *pat, size_t pat_n);
/* Matches the pattern from pat on at s exactly; the end of the match, or NULL. Forgets the captures of an earlier try.
 * Throws what stock Lua throws on a malformed pattern, and when the budget is used up. */
const char *match__at(matcher *m, const char *s, const char *pat);
/* Capture i of the match from s to e (capture 0 of a pattern without captures is the whole match): its length and *at,
 * or MATCH_POSITION, with *at where it is. */
ptrdiff_t match__get(const matcher *m, int i, const char *s, const char *e, const char **at);
/* Pushes it: text, or a position from 1. */
void match__push(matcher *m, int i, const char *s, const char *e);
/* Pushes all captures; whole: the match itself when there are none. Their number. */
int match__push_all(matcher *m, const char *s, const char *e, bool whole);

/* string_lua.c, table_lua.c: replace functions of the string and table libraries for the whole state. */
void string__install(lua_State *L);
void table__install(lua_State *L);

#endif
