/* SPDX-License-Identifier: MIT */
/* windows.c: the streams of a Windows PDB: info, string table, DBI, modules and their symbols. */
#include "symbols/windows.h"

#include <stdlib.h>

enum { STREAM_INFO = 1, STREAM_DBI = 3 };
enum { DBI_HEADER = 64, MODULE_HEAD = 64, TOKEN_MAP_INDEX = 6, MODULES_MAX = 1 << 20, NAMED_MAX = 4096 };
enum { S_GMANPROC = 0x112a, S_LMANPROC = 0x112b, MODULE_SIGNATURE = 4, MANPROC_FIXED = 36 };
enum { TOKEN_METHOD = 0x06, NAME_MAX_BYTES = 4096 };
#define NAMES_MAGIC 0xeffeeffeu

/* ---- the info stream, with the numbers of the named streams ---- */

typedef struct named {
    uint32_t names, source_link, srcsrv; /* MSF_NO_STREAM: none */
} named;

static slice text_at(slice pool, uint32_t at)
{
    if (at >= pool.n) return (slice){0};
    const uint8_t *nul = memchr(pool.p + at, 0, pool.n - at);
    return nul ? slice_of(pool.p + at, (size_t)(nul - (pool.p + at))) : (slice){0};
}

static void keep_named(named *n, slice name, uint32_t stream)
{
    if (slice_eq_str(name, "/names")) n->names = stream;
    if (slice_starts(name, SLICE_LIT("sourcelink"))) n->source_link = stream;
    if (slice_eq_str(name, "srcsrv")) n->srcsrv = stream;
}

static void read_named(cursor *c, named *n)
{
    slice pool = cursor_bytes(c, cursor_u32(c));
    uint32_t present = cursor_u32(c);
    cursor_skip(c, 4); /* capacity */
    cursor_skip(c, (size_t)cursor_u32(c) * 4);
    cursor_skip(c, (size_t)cursor_u32(c) * 4);
    for (uint32_t i = 0; i < present && i < NAMED_MAX && cursor_ok(c); i++) {
        uint32_t name = cursor_u32(c), stream = cursor_u32(c);
        if (cursor_ok(c)) keep_named(n, text_at(pool, name), stream);
    }
}

static int read_info(sym_windows *w, named *n, arena *a, err *e)
{
    slice raw;
    int rc = sym_msf_stream(&w->msf, STREAM_INFO, a, &raw, e);
    if (rc < 0) return rc;
    cursor c = cursor_of(raw, 0);
    cursor_skip(&c, 8); /* version, time stamp */
    w->age = cursor_u32(&c);
    slice guid = cursor_bytes(&c, sizeof w->guid);
    if (!cursor_ok(&c) || !guid.p) return err_set(e, ERR_TRUNCATED, "the info stream of the PDB is too short");
    memcpy(w->guid, guid.p, sizeof w->guid);
    read_named(&c, n);
    return 0;
}

static int read_names(sym_windows *w, uint32_t stream, arena *a, err *e)
{
    slice raw;
    int rc = sym_msf_stream(&w->msf, stream, a, &raw, e);
    if (rc < 0 || raw.n == 0) return rc;
    cursor c = cursor_of(raw, 0);
    if (cursor_u32(&c) != NAMES_MAGIC) return err_set(e, ERR_MALFORMED, "the string table of the PDB has no signature");
    cursor_skip(&c, 4);
    w->names = cursor_bytes(&c, cursor_u32(&c));
    return cursor_ok(&c) ? 0 : err_set(e, ERR_TRUNCATED, "the string table of the PDB is too short");
}

/* ---- DBI: the modules ---- */

static slice zero_text(cursor *c)
{
    const uint8_t *nul = cursor_left(c) ? memchr(c->p, 0, cursor_left(c)) : NULL;
    if (!nul) {
        cursor_fail(c);
        return (slice){0};
    }
    slice s = slice_of(c->p, (size_t)(nul - c->p));
    c->p = nul + 1;
    return s;
}

static void read_module(cursor *c, sym_windows_module *m)
{
    const uint8_t *start = c->p;
    cursor_skip(c, 34);
    m->stream = cursor_u16(c);
    m->symbol_bytes = cursor_u32(c);
    m->c11_bytes = cursor_u32(c);
    m->c13_bytes = cursor_u32(c);
    cursor_skip(c, MODULE_HEAD - 48);
    m->name = zero_text(c);
    zero_text(c); /* object file */
    if (cursor_ok(c)) cursor_skip(c, (4 - (size_t)(c->p - start) % 4) % 4);
}

static int read_modules(sym_windows *w, slice raw, arena *a, err *e)
{
    cursor c = cursor_of(raw, DBI_HEADER);
    uint32_t cap = (uint32_t)(raw.n / MODULE_HEAD);
    if (cap > MODULES_MAX) return err_set(e, ERR_LIMIT, "the PDB has more than %d modules", MODULES_MAX);
    w->modules = arena_alloc(a, (size_t)cap * sizeof *w->modules + 1);
    if (!w->modules) return err_set(e, ERR_NO_MEMORY, "no memory for %u modules", cap);
    while (cursor_left(&c) >= MODULE_HEAD && w->n_modules < cap) {
        read_module(&c, &w->modules[w->n_modules]);
        if (!cursor_ok(&c))
            return err_at(e, ERR_TRUNCATED, cursor_offset(&c), "the PDB's list of modules ends inside one");
        w->n_modules++;
    }
    return 0;
}

typedef struct token_map {
    slice bytes; /* rows of method tokens when the PDB was made -> now */
} token_map;

static int read_dbi(sym_windows *w, token_map *map, arena *a, err *e)
{
    slice raw;
    int rc = sym_msf_stream(&w->msf, STREAM_DBI, a, &raw, e);
    if (rc < 0) return rc;
    cursor c = cursor_of(raw, 0);
    cursor_skip(&c, 8);
    w->dbi_age = cursor_u32(&c);
    cursor_skip(&c, 12);
    uint32_t modules = cursor_u32(&c), skip = 0;
    for (int i = 0; i < 4; i++)
        skip += cursor_u32(&c); /* sections, their map, sources, type servers */
    cursor_skip(&c, 4);
    uint32_t headers = cursor_u32(&c);
    skip += cursor_u32(&c); /* edit and continue */
    cursor_skip(&c, 8);
    slice list = cursor_bytes(&c, modules);
    if (!cursor_ok(&c)) return err_set(e, ERR_TRUNCATED, "the DBI stream of the PDB is too short");
    cursor_skip(&c, skip);
    cursor h = cursor_of(cursor_bytes(&c, headers), 0);
    cursor_skip(&h, (size_t)TOKEN_MAP_INDEX * 2);
    uint16_t stream = cursor_u16(&h);
    if (cursor_ok(&h) && stream != MSF_NO_STREAM && stream) rc = sym_msf_stream(&w->msf, stream, a, &map->bytes, e);
    return rc < 0 ? rc : read_modules(w, list, a, e);
}

/* ---- the symbols of the modules ---- */

typedef struct collector {
    sym_windows *w;
    token_map map;
    arena *a;
    buf methods; /* of sym_windows_method */
} collector;

static uint32_t mapped(const token_map *map, uint32_t token)
{
    size_t at = (size_t)(token & 0xffffff) * 4;
    if (map->bytes.n == 0 || at + 4 > map->bytes.n) return token;
    cursor c = cursor_of(slice_of(map->bytes.p + at, 4), 0);
    return (token & 0xff000000) | (cursor_u32(&c) & 0xffffff);
}

static bool keep_method(collector *k, uint32_t module, slice record)
{
    sym_windows_method m = {.module = module};
    cursor c = cursor_of(record, 0);
    cursor_skip(&c, 12); /* parent, end, next */
    m.size = cursor_u32(&c);
    cursor_skip(&c, 8);
    m.token = cursor_u32(&c);
    m.offset = cursor_u32(&c);
    m.segment = cursor_u16(&c);
    cursor_skip(&c, 3);
    slice name = zero_text(&c);
    if (!cursor_ok(&c) || m.token >> 24 != TOKEN_METHOD) return true; /* a damaged record is one method less */
    m.token = mapped(&k->map, m.token);
    if (name.n > NAME_MAX_BYTES) name.n = NAME_MAX_BYTES;
    char *copy = arena_str(k->a, name);
    m.name = slice_of(copy, copy ? name.n : 0);
    return copy && buf_put(&k->methods, &m, sizeof m);
}

static int read_symbols(collector *k, uint32_t module, err *e)
{
    const sym_windows_module *m = &k->w->modules[module];
    arena scratch = {0};
    slice raw;
    int rc = 0;
    if (m->stream == MSF_NO_STREAM || m->symbol_bytes == 0) return 0;
    rc = sym_msf_stream(&k->w->msf, m->stream, &scratch, &raw, e);
    if (rc < 0) goto out;
    if (raw.n < m->symbol_bytes) {
        rc = err_set(e, ERR_TRUNCATED, "the symbols of a module of the PDB are too short");
        goto out;
    }
    cursor c = cursor_of(slice_of(raw.p, m->symbol_bytes), 0);
    cursor_skip(&c, 4); /* signature */
    while (cursor_left(&c) >= 4) {
        uint16_t size = cursor_u16(&c), kind = cursor_u16(&c);
        slice record = cursor_bytes(&c, size >= 2 ? size - 2u : 0);
        if (size < 2) break;
        if ((kind == S_GMANPROC || kind == S_LMANPROC) && !keep_method(k, module, record)) {
            rc = err_set(e, ERR_NO_MEMORY, "no memory for the methods of the PDB");
            goto out;
        }
    }
out:
    arena_free(&scratch);
    return rc;
}

static int by_token(const void *a, const void *b)
{
    const sym_windows_method *x = a, *y = b;
    if (x->token != y->token) return x->token < y->token ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int read_methods(collector *k, err *e)
{
    int rc = 0;
    uint64_t total = 0;
    for (uint32_t i = 0; rc == 0 && i < k->w->n_modules; i++) {
        total += k->w->modules[i].symbol_bytes;
        if (total > k->w->msf.file.n)
            return err_set(e, ERR_MALFORMED, "the PDB's modules have more symbols than the PDB");
        rc = read_symbols(k, i, e);
    }
    if (rc < 0) return rc;
    size_t n = k->methods.n / sizeof(sym_windows_method);
    k->w->methods = arena_dup(k->a, k->methods.p, k->methods.n);
    if (!k->w->methods) return err_set(e, ERR_NO_MEMORY, "no memory for %zu methods", n);
    k->w->n_methods = (uint32_t)n;
    qsort(k->w->methods, n, sizeof *k->w->methods, by_token);
    return 0;
}

int sym_windows_read(sym_windows *w, slice file, arena *a, err *e)
{
    named n = {MSF_NO_STREAM, MSF_NO_STREAM, MSF_NO_STREAM};
    collector k = {.w = w, .a = a};
    *w = (sym_windows){0};
    buf_init(&k.methods, 0);
    int rc = sym_msf_read(&w->msf, file, a, e);
    if (rc == 0) rc = read_info(w, &n, a, e);
    if (rc == 0) rc = read_names(w, n.names, a, e);
    if (rc == 0) rc = sym_msf_stream(&w->msf, n.source_link, a, &w->source_link, e);
    if (rc == 0) rc = sym_msf_stream(&w->msf, n.srcsrv, a, &w->srcsrv, e);
    if (rc == 0) rc = read_dbi(w, &k.map, a, e);
    if (rc == 0) rc = read_methods(&k, e);
    buf_fini(&k.methods);
    return rc;
}

const sym_windows_method *sym_windows_find(const sym_windows *w, uint32_t token)
{
    uint32_t low = 0, high = w->n_methods;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (w->methods[mid].token < token)
            low = mid + 1;
        else
            high = mid;
    }
    return low < w->n_methods && w->methods[low].token == token ? &w->methods[low] : NULL;
}

slice sym_windows_document(const sym_windows *w, uint32_t document)
{
    return document ? text_at(w->names, document - 1) : (slice){0};
}
