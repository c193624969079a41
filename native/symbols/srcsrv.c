/* SPDX-License-Identifier: MIT */
/* srcsrv.c: lines of variables, then lines of files whose fields (var1*var2*…) the variables use; SRCSRVTRG, with all
 * of it put in, is where a file is. */
#include "symbols/srcsrv.h"

#include <stdlib.h>
#include <strings.h>

enum { VARIABLES_MAX = 64, FIELDS_MAX = 10, DEPTH_MAX = 8, STEPS_MAX = 256, URL_MAX = 2048 };

typedef struct variable {
    slice name, value;
} variable;

typedef struct server {
    variable variables[VARIABLES_MAX];
    size_t n;
    slice fields[FIELDS_MAX]; /* of the file at hand */
    size_t n_fields;
    int steps; /* what was put in for it so far: variables that name each other have no end */
} server;

static bool same_word(slice a, slice b)
{
    return a.n == b.n && strncasecmp((const char *)a.p, (const char *)b.p, a.n) == 0;
}

static slice value_of(const server *s, slice name)
{
    if (name.n >= 4 && name.n <= 5 && same_word(slice_of(name.p, 3), SLICE_LIT("var"))) {
        size_t i = 0;
        for (size_t k = 3; k < name.n; k++)
            i = name.p[k] >= '0' && name.p[k] <= '9' ? i * 10 + (size_t)(name.p[k] - '0') : FIELDS_MAX + 1;
        return i >= 1 && i <= s->n_fields ? s->fields[i - 1] : (slice){0};
    }
    for (size_t i = 0; i < s->n; i++)
        if (same_word(s->variables[i].name, name)) return s->variables[i].value;
    return (slice){0};
}

/* What a function does to what stands in its parentheses, at the end of out from `at` on. */
static bool apply(server *s, slice function, buf *out, size_t at, int depth);

/* Appends the text with its variables put in. False: it is not what it should be, or too long. */
static bool expand(server *s, slice text, buf *out, int depth)
{
    if (depth > DEPTH_MAX || s->steps++ > STEPS_MAX) return false;
    for (size_t i = 0; i < text.n;) {
        if (text.p[i] != '%') {
            if (!buf_u8(out, text.p[i++])) return false;
            continue;
        }
        const uint8_t *end = memchr(text.p + i + 1, '%', text.n - i - 1);
        if (!end) return false;
        slice name = slice_of(text.p + i + 1, (size_t)(end - text.p) - i - 1);
        i = (size_t)(end - text.p) + 1;
        if (!same_word(slice_of(name.p, name.n < 2 ? name.n : 2), SLICE_LIT("fn"))) {
            if (!expand(s, value_of(s, name), out, depth + 1)) return false;
            continue;
        }
        const uint8_t *close = i < text.n && text.p[i] == '(' ? memchr(text.p + i, ')', text.n - i) : NULL;
        if (!close) return false;
        size_t at = out->n;
        if (!expand(s, slice_of(text.p + i + 1, (size_t)(close - text.p) - i - 1), out, depth + 1)) return false;
        if (!apply(s, name, out, at, depth)) return false;
        i = (size_t)(close - text.p) + 1;
    }
    return true;
}

static bool apply(server *s, slice function, buf *out, size_t at, int depth)
{
    if (same_word(function, SLICE_LIT("fnbksl"))) {
        for (size_t i = at; i < out->n; i++)
            if (out->p[i] == '/') out->p[i] = '\\';
        return true;
    }
    if (same_word(function, SLICE_LIT("fnfile"))) {
        size_t last = out->n;
        while (last > at && out->p[last - 1] != '/' && out->p[last - 1] != '\\')
            last--;
        if (last > at) memmove(out->p + at, out->p + last, out->n - last);
        out->n -= last - at;
        return true;
    }
    if (!same_word(function, SLICE_LIT("fnvar"))) return false;
    slice value = value_of(s, slice_of(out->p + at, out->n - at));
    out->n = at;
    return expand(s, value, out, depth + 1);
}

static slice next_line(slice *text)
{
    const uint8_t *end = text->n ? memchr(text->p, '\n', text->n) : NULL;
    size_t n = end ? (size_t)(end - text->p) : text->n;
    slice line = slice_of(text->p, n);
    *text = slice_of(text->p + n + (end ? 1 : 0), text->n - n - (end ? 1 : 0));
    while (line.n && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == ' '))
        line.n--;
    return line;
}

static void take_variable(server *s, slice line)
{
    const uint8_t *equals = line.n ? memchr(line.p, '=', line.n) : NULL;
    if (!equals || s->n == VARIABLES_MAX) return;
    size_t n = (size_t)(equals - line.p);
    s->variables[s->n++] = (variable){slice_of(line.p, n), slice_of(equals + 1, line.n - n - 1)};
}

/* False: no memory. */
static bool take_file(server *s, slice line, buf *url, buf *links, arena *a)
{
    s->n_fields = 0;
    while (line.n && s->n_fields < FIELDS_MAX) {
        const uint8_t *star = memchr(line.p, '*', line.n);
        size_t n = star ? (size_t)(star - line.p) : line.n;
        s->fields[s->n_fields++] = slice_of(line.p, n);
        line = slice_of(line.p + n + (star ? 1 : 0), line.n - n - (star ? 1 : 0));
    }
    if (s->n_fields == 0 || s->fields[0].n == 0 || links->n / sizeof(sym_link) >= SYM_LINKS_MAX) return true;
    buf_reset(url);
    s->steps = 0;
    if (!expand(s, value_of(s, SLICE_LIT("SRCSRVTRG")), url, 0)) return true;
    slice found = buf_view(url);
    if (!slice_starts(found, SLICE_LIT("http://")) && !slice_starts(found, SLICE_LIT("https://"))) return true;
    const char *path = arena_str(a, s->fields[0]), *copy = arena_str(a, found);
    if (!path || !copy) return false;
    sym_link k = {.path = slice_of(path, s->fields[0].n), .url = slice_of(copy, found.n)};
    return buf_put(links, &k, sizeof k);
}

bool sym_srcsrv_read(sym_links *l, slice text, arena *a)
{
    static const char head[] = "SRCSRV: ";
    enum { NOTHING, VARIABLES, FILES } part = NOTHING;
    server s = {0};
    buf url, links;
    bool ok = true;
    *l = (sym_links){0};
    buf_init(&url, URL_MAX);
    buf_init(&links, 0);
    while (ok && text.n) {
        slice line = next_line(&text);
        if (slice_starts(line, slice_str(head))) {
            slice what = slice_of(line.p + sizeof head - 1, line.n - (sizeof head - 1));
            part = slice_starts(what, SLICE_LIT("variables"))      ? VARIABLES
                   : slice_starts(what, SLICE_LIT("source files")) ? FILES
                                                                   : NOTHING;
        } else if (part == VARIABLES) {
            take_variable(&s, line);
        } else if (part == FILES) {
            ok = take_file(&s, line, &url, &links, a);
        }
    }
    if (ok && links.n) {
        l->list = arena_dup(a, links.p, links.n);
        l->n = l->list ? links.n / sizeof *l->list : 0;
        ok = l->list != NULL;
    }
    buf_fini(&url);
    buf_fini(&links);
    return ok;
}
