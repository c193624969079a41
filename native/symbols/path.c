/* SPDX-License-Identifier: MIT */
/* path.c: symbol paths, and the gate that a server has to pass. */
#include "symbols/curl.h"
#include "symbols/path_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- hosts: read by the same library that will connect to them ---- */

typedef struct place {
    char *scheme, *host, *port;
} place;

static void place_free(place *p)
{
    const sym_curl *curl = sym_curl_get(NULL);
    if (curl) {
        curl->free(p->scheme);
        curl->free(p->host);
        curl->free(p->port);
    }
    *p = (place){0};
}

static bool place_of(const char *url, place *p)
{
    const sym_curl *curl = sym_curl_get(NULL);
    *p = (place){0};
    if (!curl) return false;
    CURLU *u = curl->url();
    bool ok = u && curl->url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl->url_get(u, CURLUPART_SCHEME, &p->scheme, 0) == CURLUE_OK &&
              curl->url_get(u, CURLUPART_HOST, &p->host, 0) == CURLUE_OK &&
              curl->url_get(u, CURLUPART_PORT, &p->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    curl->url_cleanup(u);
    ok = ok && (strcasecmp(p->scheme, "http") == 0 || strcasecmp(p->scheme, "https") == 0) && *p->host;
    if (!ok) place_free(p);
    return ok;
}

/* A name without the brackets of an IPv6 address. */
static bool same_name(const char *host, const char *name)
{
    size_t n = strlen(host);
    bool brackets = n > 2 && host[0] == '[' && host[n - 1] == ']';
    if (brackets) return n - 2 == strlen(name) && strncasecmp(host + 1, name, n - 2) == 0;
    return strcasecmp(host, name) == 0;
}

static bool listed(const sym_path *p, const place *at)
{
    long port = strtol(at->port, NULL, 10);
    for (size_t i = 0; i < p->n_hosts; i++)
        if (same_name(at->host, p->hosts[i].name) && (p->hosts[i].port == 0 || p->hosts[i].port == port)) return true;
    return false;
}

bool sym_path__allows(const sym_path *p, const char *url, bool *secure)
{
    place at;
    if (!place_of(url, &at)) return false;
    if (secure) *secure = strcasecmp(at.scheme, "https") == 0;
    bool ok = p->any_host || listed(p, &at);
    place_free(&at);
    return ok;
}

/* "name", "name:port", "[address]" or "[address]:port". */
static bool add_host(sym_path *p, const char *text, size_t cap)
{
    sym__host *h = &p->hosts[p->n_hosts];
    char *name = arena_str(&p->a, slice_str(text));
    if (!name || p->n_hosts >= cap) return false;
    char *end = *name == '[' ? strchr(name, ']') : NULL;
    char *colon = strchr(end ? end : name, ':');
    bool bare_address = !end && colon && strchr(colon + 1, ':'); /* an IPv6 address without brackets */
    if (colon && !bare_address) {
        h->port = strtol(colon + 1, NULL, 10);
        *colon = '\0';
    }
    if (end) {
        *end = '\0';
        name++;
    }
    h->name = name;
    p->n_hosts++;
    return true;
}

/* ---- the text ---- */

static bool is_url(slice s)
{
    return (s.n >= 7 && strncasecmp((const char *)s.p, "http://", 7) == 0) ||
           (s.n >= 8 && strncasecmp((const char *)s.p, "https://", 8) == 0);
}

static slice trim(slice s)
{
    while (s.n && isspace(s.p[0]))
        s = slice_of(s.p + 1, s.n - 1);
    while (s.n && isspace(s.p[s.n - 1]))
        s.n--;
    return s;
}

static bool is_word(slice s, const char *word)
{
    return s.n == strlen(word) && strncasecmp((const char *)s.p, word, s.n) == 0;
}

/* The next piece of *s up to a separator. */
static slice cut(slice *s, char separator)
{
    const uint8_t *end = s->n ? memchr(s->p, separator, s->n) : NULL;
    slice piece = end ? slice_of(s->p, (size_t)(end - s->p)) : *s;
    *s = end ? slice_of(end + 1, s->n - piece.n - 1) : (slice){0};
    return trim(piece);
}

static int add_part(sym_path *p, slice text, const sym_gate *gate, err *e)
{
    bool server = is_url(text);
    while (text.n > 1 && text.p[text.n - 1] == '/')
        text.n--;
    if (p->n == SYM_PATH_MAX_PARTS)
        return err_set(e, ERR_INVALID_ARGUMENT, "a symbol path has at most %d parts", SYM_PATH_MAX_PARTS);
    char *copy = arena_str(&p->a, text);
    if (!copy) return err_set(e, ERR_NO_MEMORY, "no memory for a symbol path");
    if (server) {
        place at;
        if (!sym_curl_get(e)) return -ERR_NOT_SUPPORTED;
        if (!place_of(copy, &at)) {
            err_detail(e, "%s", copy);
            return err_set(e, ERR_INVALID_ARGUMENT, "the symbol path names %.200s, which is no address", copy);
        }
        bool by_list = listed(p, &at);
        bool ok = gate->any_host || gate->trusted || by_list;
        p->by_hosts = p->by_hosts || (by_list && !gate->any_host && !gate->trusted);
        if (ok && gate->trusted && !by_list) {
            char full[300];
            snprintf(full, sizeof full, "%s:%s", at.host, at.port);
            ok = add_host(p, full, gate->n_hosts + SYM_PATH_MAX_PARTS);
        }
        place_free(&at);
        if (!ok) {
            err_set(e, ERR_PERMISSION_DENIED, "the symbol server %.200s is not allowed", copy);
            err_detail(e, "%s", copy);
            return -ERR_PERMISSION_DENIED;
        }
        p->n_servers++;
    }
    p->parts[p->n++] = (sym__part){.is_server = server, .text = copy};
    return 0;
}

/* One part between semicolons. The words srv, symsrv and cache, and the name of a library, say nothing to us: what
 * follows is folders and servers, in order. */
static int add_segment(sym_path *p, slice segment, const sym_gate *gate, err *e)
{
    slice rest = segment;
    for (bool first = true; rest.n; first = false) {
        slice piece = cut(&rest, '*');
        bool word = first && (is_word(piece, "srv") || is_word(piece, "symsrv") || is_word(piece, "cache"));
        bool library = piece.n > 4 && strncasecmp((const char *)piece.p + piece.n - 4, ".dll", 4) == 0;
        if (piece.n == 0 || word || library) continue;
        int rc = add_part(p, piece, gate, e);
        if (rc < 0) return rc;
    }
    return 0;
}

int sym_path_new(slice text, const sym_gate *gate, sym_path **out, err *e)
{
    if (text.n > SYM_PATH_MAX_BYTES || (text.n && memchr(text.p, 0, text.n)))
        return err_set(e, ERR_INVALID_ARGUMENT, "a symbol path is text of at most %zu bytes", SYM_PATH_MAX_BYTES);
    sym_path *p = mem_calloc(1, sizeof *p);
    if (!p) return err_set(e, ERR_NO_MEMORY, "no memory for a symbol path");
    atomic_init(&p->holders, 1);
    p->any_host = gate->any_host;
    size_t cap = gate->n_hosts + SYM_PATH_MAX_PARTS;
    p->hosts = arena_alloc(&p->a, cap * sizeof *p->hosts);
    p->cache = gate->cache ? arena_str(&p->a, slice_str(gate->cache)) : NULL;
    bool ok = p->hosts && (!gate->cache || p->cache);
    for (size_t i = 0; ok && i < gate->n_hosts; i++)
        ok = add_host(p, gate->hosts[i], cap);
    int rc = ok ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for a symbol path");
    while (rc == 0 && text.n)
        rc = add_segment(p, cut(&text, ';'), gate, e);
    if (rc < 0) {
        sym_path_unref(p);
        return rc;
    }
    *out = p;
    return 0;
}

sym_path *sym_path_ref(sym_path *p)
{
    atomic_fetch_add(&p->holders, 1);
    return p;
}

void sym_path_unref(sym_path *p)
{
    if (!p || atomic_fetch_sub(&p->holders, 1) > 1) return;
    arena_free(&p->a);
    free(p);
}

bool sym_path_by_hosts(const sym_path *p) { return p->by_hosts; }
size_t sym_path_servers(const sym_path *p) { return p->n_servers; }
