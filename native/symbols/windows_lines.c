/* SPDX-License-Identifier: MIT */
/* windows_lines.c: the lines of a method in a Windows PDB: the C13 blocks of its module. Format: LLVM documentation,
 * "Module Information Stream"; Microsoft/microsoft-pdb, cvinfo.h (CV_DebugSLinesHeader_t and below). */
#include "symbols/windows.h"

#include <stdlib.h>

enum { C13_LINES = 0xf2, C13_CHECKSUMS = 0xf4, HAS_COLUMNS = 1, FILE_HEAD = 12, LINE_SIZE = 8, COLUMN_SIZE = 4 };
enum { LINE_MASK = 0xffffff, END_MASK = 0x7f, POINTS_MAX = 1 << 20 };

typedef struct sym_windows_block {
    uint32_t segment, offset; /* of the code */
    slice lines;              /* behind the header */
    bool columns;
} block;

static slice next_subsection(cursor *c, uint32_t *kind)
{
    *kind = cursor_u32(c);
    uint32_t size = cursor_u32(c), pad = (4 - size % 4) % 4;
    slice body = cursor_bytes(c, size);
    if (cursor_ok(c)) cursor_skip(c, pad < cursor_left(c) ? pad : cursor_left(c));
    return body;
}

static bool keep_block(buf *blocks, slice body)
{
    cursor c = cursor_of(body, 0);
    block b = {.offset = cursor_u32(&c)};
    b.segment = cursor_u16(&c);
    b.columns = cursor_u16(&c) & HAS_COLUMNS;
    cursor_skip(&c, 4); /* size of the code */
    b.lines = cursor_bytes(&c, cursor_left(&c));
    return !cursor_ok(&c) || buf_put(blocks, &b, sizeof b);
}

static int by_place(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->segment != y->segment) return x->segment < y->segment ? -1 : 1;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->lines.p < y->lines.p ? -1 : x->lines.p > y->lines.p;
}

static int index_blocks(sym_windows_kept *k, slice c13, err *e)
{
    buf blocks;
    cursor c = cursor_of(c13, 0);
    int rc = 0;
    buf_init(&blocks, 0);
    while (cursor_left(&c) >= 8) {
        uint32_t kind;
        slice body = next_subsection(&c, &kind);
        if (!cursor_ok(&c)) break;
        if (kind == C13_CHECKSUMS) k->checksums = body;
        if (kind == C13_LINES && !keep_block(&blocks, body)) blocks.failed = true;
    }
    k->n = blocks.n / sizeof *k->blocks;
    k->blocks = arena_dup(&k->a, blocks.p, blocks.n);
    if (blocks.failed || !k->blocks)
        rc = err_set(e, ERR_NO_MEMORY, "no memory for the lines of a PDB");
    else
        qsort(k->blocks, k->n, sizeof *k->blocks, by_place);
    buf_fini(&blocks);
    return rc;
}

static int keep_module(sym_windows *w, uint32_t module, err *e)
{
    const sym_windows_module *m = &w->modules[module];
    sym_windows_kept *k = &w->kept;
    slice raw;
    if (k->filled && k->module == module) return 0;
    arena_reset(&k->a);
    *k = (sym_windows_kept){.a = k->a, .module = module};
    int rc = sym_msf_stream(&w->msf, m->stream, &k->a, &raw, e);
    if (rc < 0) return rc;
    uint64_t at = (uint64_t)m->symbol_bytes + m->c11_bytes;
    if (at > raw.n || m->c13_bytes > raw.n - at)
        return err_set(e, ERR_TRUNCATED, "the lines of a module of the PDB are too short");
    rc = index_blocks(k, m->c13_bytes ? slice_of(raw.p + at, m->c13_bytes) : (slice){0}, e);
    k->filled = rc == 0;
    return rc;
}

void sym_windows_fini(sym_windows *w)
{
    arena_free(&w->kept.a);
    w->kept = (sym_windows_kept){0};
}

/* The document of a file id (an offset in the checksums). */
static uint32_t document_of(slice checksums, uint32_t id)
{
    if (id > checksums.n || checksums.n - id < 4) return 0;
    cursor c = cursor_of(slice_of(checksums.p + id, 4), 0);
    return cursor_u32(&c) + 1;
}

/* The lines in one file. False: no memory. */
static bool take_file(slice checksums, cursor *c, bool columns, buf *points)
{
    uint32_t document = document_of(checksums, cursor_u32(c)), n = cursor_u32(c), size = cursor_u32(c);
    uint32_t each = LINE_SIZE + (columns ? COLUMN_SIZE : 0);
    slice body = size >= FILE_HEAD ? cursor_bytes(c, size - FILE_HEAD) : (slice){0};
    if (n > body.n / each) cursor_fail(c);
    if (!cursor_ok(c) || n == 0) return true;
    cursor lines = cursor_of(slice_of(body.p, (size_t)n * LINE_SIZE), 0);
    cursor cols = cursor_of(slice_of(body.p + (size_t)n * LINE_SIZE, columns ? (size_t)n * COLUMN_SIZE : 0), 0);
    for (uint32_t i = 0; i < n; i++) {
        sym_point p = {.document = document, .il_offset = cursor_u32(&lines)};
        uint32_t packed = cursor_u32(&lines);
        p.line = packed & LINE_MASK;
        p.end_line = p.line + (packed >> 24 & END_MASK);
        if (columns) {
            p.column = cursor_u16(&cols);
            p.end_column = cursor_u16(&cols);
        }
        if (sym_point_hidden(&p)) p = (sym_point){p.il_offset, document, SYM_HIDDEN_LINE, SYM_HIDDEN_LINE, 0, 0};
        if (points->n / sizeof p >= POINTS_MAX || !buf_put(points, &p, sizeof p)) return false;
    }
    return true;
}

static bool take_block(const sym_windows_kept *k, const block *b, buf *points)
{
    cursor c = cursor_of(b->lines, 0);
    while (cursor_left(&c) >= FILE_HEAD)
        if (!take_file(k->checksums, &c, b->columns, points)) return false;
    return true;
}

static int place_cmp(const block *b, const sym_windows_method *m)
{
    if (b->segment != m->segment) return b->segment < m->segment ? -1 : 1;
    return b->offset < m->offset ? -1 : b->offset > m->offset;
}

static bool take_method(const sym_windows_kept *k, const sym_windows_method *m, buf *points)
{
    size_t low = 0, high = k->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (place_cmp(&k->blocks[mid], m) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < k->n && place_cmp(&k->blocks[low], m) == 0; low++)
        if (!take_block(k, &k->blocks[low], points)) return false;
    return true;
}

static int by_offset(const void *a, const void *b)
{
    const sym_point *x = a, *y = b;
    return x->il_offset < y->il_offset ? -1 : x->il_offset > y->il_offset;
}

int sym_windows_points(sym_windows *w, const sym_windows_method *m, arena *a, sym_point **out, size_t *n, err *e)
{
    buf points;
    *out = NULL;
    *n = 0;
    int rc = keep_module(w, m->module, e);
    if (rc < 0) return rc;
    buf_init(&points, 0);
    bool ok = take_method(&w->kept, m, &points);
    if (ok && points.n) {
        *out = arena_dup(a, points.p, points.n);
        *n = *out ? points.n / sizeof **out : 0;
        ok = *out != NULL;
    }
    if (*n) qsort(*out, *n, sizeof **out, by_offset);
    buf_fini(&points);
    return ok ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for the lines of a method");
}
