/* SPDX-License-Identifier: MIT */
/* fuzz_symbols_pdb.c: any bytes as a PDB, portable or Windows: no crash, bounded work; points in order of IL offset,
 * and what is picked is one of them; documents and addresses valid UTF-8. */
#include <stdlib.h>

#include "base/utf.h"
#include "symbols/pdb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) abort();                                                                                          \
    } while (0)

enum { METHODS = 64 };

static void check_point(sym_pdb *p, const sym_point *at, buf *text)
{
    buf_reset(text);
    if (!sym_pdb_document(p, at->document, text)) return;
    REQUIRE(utf8_valid(buf_view(text)) && text->n);
    buf url;
    buf_init(&url, 0);
    if (!sym_links_url(&p->links, buf_view(text), &url)) REQUIRE(url.n == 0);
    buf_fini(&url);
}

static void check_method(sym_pdb *p, uint32_t token, arena *a, buf *text)
{
    sym_point *points;
    size_t n;
    err e = {0};
    if (sym_pdb_points(p, token, a, &points, &n, &e) < 0) return;
    for (uint32_t il = 0; il < 64; il += 7) {
        sym_pick k = {.il_offset = il};
        bool one = false;
        if (sym_pdb_pick(p, token, &k, &e) < 0 || !k.found) continue;
        for (size_t i = 0; i < n && !one; i++)
            one = memcmp(&points[i], &k.best, sizeof k.best) == 0;
        REQUIRE(one && !sym_point_hidden(&k.best));
        check_point(p, &k.best, text);
    }
    for (size_t i = 1; p->windows && i < n; i++)
        REQUIRE(points[i - 1].il_offset <= points[i].il_offset);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arena a = {0};
    err e = {0};
    sym_pdb p;
    buf text;
    buf_init(&text, 0);
    if (sym_pdb_read(&p, slice_of(data, size), &a, &e) == 0) {
        for (uint32_t i = 0; i < METHODS && i < p.win.n_methods; i++)
            check_method(&p, p.win.methods[i].token, &a, &text);
        for (uint32_t i = 0; i < METHODS && i <= sym_pdb_method_rows(&p); i++)
            check_method(&p, 0x06000000 | i, &a, &text);
    } else {
        REQUIRE(e.kind == ERR_MALFORMED || e.kind == ERR_TRUNCATED || e.kind == ERR_LIMIT);
    }
    sym_pdb_fini(&p);
    buf_fini(&text);
    arena_free(&a);
    return 0;
}
