/* SPDX-License-Identifier: MIT */
/* sourcelink.c: a JSON map from paths to addresses; a wildcard ends a path, and stands in its address. */
#include "symbols/sourcelink.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/json.h"

static slice copy_of(arena *a, slice s)
{
    char *p = arena_str(a, s);
    return p ? slice_of(p, s.n) : (slice){0};
}

/* Keeps one pair. False: no memory. A wildcard in one but not in the other, or inside the path, is no map. */
static bool keep(buf *links, slice path, slice url, arena *a)
{
    const uint8_t *in_path = path.n ? memchr(path.p, '*', path.n) : NULL;
    const uint8_t *in_url = url.n ? memchr(url.p, '*', url.n) : NULL;
    sym_link k = {.wildcard = in_path != NULL};
    bool at_end = in_path == path.p + path.n - 1;
    if (path.n == 0 || (in_path && !at_end) || (in_url && !in_path)) return true;
    if (!slice_starts(url, SLICE_LIT("http://")) && !slice_starts(url, SLICE_LIT("https://"))) return true;
    k.path = copy_of(a, slice_of(path.p, path.n - (in_path ? 1 : 0)));
    slice all = copy_of(a, url);
    if (!k.path.p || !all.p) return false;
    size_t before = in_url ? (size_t)(in_url - url.p) : url.n;
    k.url = slice_of(all.p, before);
    k.rest = in_url ? slice_of(all.p + before + 1, url.n - before - 1) : (slice){0};
    return links->n / sizeof k >= SYM_LINKS_MAX || buf_put(links, &k, sizeof k);
}

static bool read_documents(jsonr *r, buf *links, arena *a)
{
    if (jsonr_next(r) != JSON_OBJECT) return true;
    while (jsonr_next(r) == JSON_KEY) {
        char *path = slice_dup(r->str);
        size_t n = r->str.n;
        bool ok = path != NULL;
        if (ok && jsonr_next(r) == JSON_STR) ok = keep(links, slice_of(path, n), r->str, a);
        free(path);
        if (!ok) return false;
    }
    return true;
}

static int longest_first(const void *a, const void *b)
{
    size_t x = ((const sym_link *)a)->path.n, y = ((const sym_link *)b)->path.n;
    return x > y ? -1 : x < y;
}

bool sym_links_read(sym_links *l, slice json, arena *a)
{
    jsonr r;
    buf links;
    bool ok = true;
    *l = (sym_links){0};
    if (json.n >= 3 && memcmp(json.p, "\xef\xbb\xbf", 3) == 0) json = slice_of(json.p + 3, json.n - 3);
    if (json.n == 0) return true;
    jsonr_init(&r, json);
    buf_init(&links, 0);
    if (jsonr_next(&r) == JSON_OBJECT) {
        while (ok && jsonr_next(&r) == JSON_KEY) {
            if (slice_eq_str(r.str, "documents")) {
                ok = read_documents(&r, &links, a);
                break;
            }
            if (!jsonr_skip(&r)) break;
        }
    }
    ok = ok && r.e.kind != ERR_NO_MEMORY && !r.scratch.failed;
    if (ok && links.n) {
        l->list = arena_dup(a, links.p, links.n);
        l->n = l->list ? links.n / sizeof *l->list : 0;
        ok = l->list != NULL;
        if (ok) qsort(l->list, l->n, sizeof *l->list, longest_first);
    }
    buf_fini(&links);
    jsonr_fini(&r);
    return ok;
}

/* Paths compare without case, and "\" is "/". */
static bool same_start(slice path, slice start)
{
    if (path.n < start.n) return false;
    for (size_t i = 0; i < start.n; i++) {
        int x = path.p[i] == '\\' ? '/' : tolower(path.p[i]), y = start.p[i] == '\\' ? '/' : tolower(start.p[i]);
        if (x != y) return false;
    }
    return true;
}

/* As a part of an address: what is no letter, digit or one of "-._~" is escaped, but for the separators. */
static void put_escaped(slice s, buf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = s.p[i];
        if (c == '\\' || c == '/')
            buf_u8(out, '/');
        else if (c < 128 && (isalnum(c) || (c && strchr("-._~", c))))
            buf_u8(out, c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

bool sym_links_url(const sym_links *l, slice path, buf *out)
{
    for (size_t i = 0; i < l->n; i++) {
        const sym_link *k = &l->list[i];
        if (!same_start(path, k->path) || (!k->wildcard && path.n != k->path.n)) continue;
        size_t before = out->n;
        buf_slice(out, k->url);
        if (k->wildcard) put_escaped(slice_of(path.p + k->path.n, path.n - k->path.n), out);
        buf_slice(out, k->rest);
        if (!out->failed) return true;
        out->n = before;
        return false;
    }
    return false;
}
