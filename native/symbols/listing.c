/* SPDX-License-Identifier: MIT */
/* listing.c: rows for `lunette symbols`. */
#include "symbols/listing.h"

#include <limits.h>
#include <stdio.h>

#include "base/utf.h"

enum { TINY = 2, FAT = 3, HEADER_KIND = 3, FAT_HEADER = 12, TOKEN_METHOD = 0x06000000 };

/* ---- opening ---- */

/* All bytes of a file, in the listing's arena. */
static int load(sym_listing *l, const char *file, slice *out, err *e)
{
    sym_input in;
    int rc = sym_input_open(&in, file, e);
    if (rc < 0) return rc;
    rc = sym_input_get(&in, 0, in.size, &l->a, out, file, e);
    sym_input_close(&in);
    return rc;
}

static int read_metadata(sym_listing *l, err *e)
{
    slice bytes;
    if (l->pe.metadata_rva == 0) {
        err_hint(e, "Only modules of .NET have methods with tokens; this one is native.");
        return err_set(e, ERR_MALFORMED, "%s is no .NET module: it has no CLI header", l->module_file);
    }
    int rc = sym_pe_at(&l->pe, l->pe.metadata_rva, l->pe.metadata_size, &l->a, &bytes, "the metadata", e);
    if (rc == 0) rc = sym_md_read(&l->md, bytes, 0, e);
    if (rc == 0) rc = sym_names_init(&l->names, &l->md, &l->a, e);
    if (rc < 0) return rc;
    const uint8_t *mvid = md_guid(&l->md, md_get(&l->md, MD_MODULE, 1, MODULE_MVID));
    l->has_mvid = mvid != NULL;
    if (mvid) memcpy(l->mvid, mvid, sizeof l->mvid);
    l->has_module = true;
    return 0;
}

static int read_module(sym_listing *l, const char *file, slice bytes, err *e)
{
    l->module_file = file;
    sym_input_memory(&l->in, bytes);
    int rc = sym_pe_read(&l->pe, &l->in, &l->a, e);
    return rc < 0 ? rc : read_metadata(l, e);
}

static int open_module(sym_listing *l, slice bytes, const char *pdb_file, err *e)
{
    int rc = read_module(l, l->file, bytes, e);
    if (rc < 0) return rc;
    sym_sought s = {.file = pdb_file};
    sym_sought_of_pe(&s, &l->pe, l->file);
    rc = sym_find(&s, &l->pdb, e);
    l->has_pdb = rc == 0 && l->pdb.format != SYM_FORMAT_NONE;
    if (rc == 0 && pdb_file && !l->has_pdb) return err_set(e, ERR_NOT_FOUND, "%s", l->pdb.why);
    return rc;
}

/* The module of a PDB, for the names: beside it, and of the same id. What is not there, or another one, is none. */
static bool try_module(sym_listing *l, const char *path)
{
    slice bytes;
    err e = {0};
    sym_sought s = {0};
    if (load(l, path, &bytes, &e) < 0) return false;
    const char *copy = arena_str(&l->a, slice_str(path));
    if (!copy || read_module(l, copy, bytes, &e) < 0) goto none;
    sym_sought_of_pe(&s, &l->pe, copy);
    if (sym_pdb_is(&s, &l->pdb.pdb)) return true;
none:
    l->has_module = l->has_mvid = false;
    return false;
}

static int open_pdb(sym_listing *l, err *e)
{
    static const char *const endings[] = {".dll", ".exe"};
    char path[PATH_MAX];
    slice bytes;
    sym_found *f = &l->pdb;
    int rc = load(l, l->file, &bytes, e);
    if (rc == 0) rc = sym_pdb_read(&f->pdb, bytes, &f->a, e);
    if (rc < 0) return rc;
    f->format = f->pdb.windows ? SYM_FORMAT_WINDOWS : SYM_FORMAT_PORTABLE;
    f->file = l->file;
    l->has_pdb = true;
    const char *dot = strrchr(l->file, '.');
    int stem = dot && !strchr(dot, '/') ? (int)(dot - l->file) : (int)strlen(l->file);
    for (int i = 0; i < 2; i++) {
        int n = snprintf(path, sizeof path, "%.*s%s", stem, l->file, endings[i]);
        if (n > 0 && (size_t)n < sizeof path && try_module(l, path)) break;
    }
    return 0;
}

int sym_listing_open(sym_listing *l, const char *file, const char *pdb_file, err *e)
{
    slice head;
    sym_input in;
    *l = (sym_listing){.file = file};
    int rc = sym_input_open(&in, file, e);
    if (rc < 0) return rc;
    rc = sym_input_get(&in, 0, in.size < 2 ? in.size : 2, &l->a, &head, file, e);
    sym_input_close(&in);
    if (rc < 0) return rc;
    if (!slice_eq(head, SLICE_LIT("MZ"))) return open_pdb(l, e);
    slice bytes;
    rc = load(l, file, &bytes, e);
    return rc < 0 ? rc : open_module(l, bytes, pdb_file, e);
}

void sym_listing_close(sym_listing *l)
{
    sym_found_fini(&l->pdb);
    arena_free(&l->a);
}

/* ---- rows ---- */

uint32_t sym_listing_rows(const sym_listing *l)
{
    if (l->has_module) return md_rows(&l->md, MD_METHOD_DEF);
    return l->pdb.pdb.windows ? l->pdb.pdb.win.n_methods : sym_pdb_method_rows(&l->pdb.pdb);
}

/* Bytes of IL of the body at an RVA (ECMA-335 II.25.4); 0: not told. */
static uint32_t il_size(const sym_pe *pe, uint32_t rva)
{
    slice head;
    err ignored = {0};
    arena none = {.max = 1}; /* the module is in memory: nothing is copied */
    size_t room = sym_pe_room(pe, rva);
    if (room == 0) return 0;
    if (sym_pe_at(pe, rva, room < FAT_HEADER ? room : FAT_HEADER, &none, &head, "a method", &ignored) < 0) return 0;
    if ((head.p[0] & HEADER_KIND) == TINY) return head.p[0] >> 2;
    if ((head.p[0] & HEADER_KIND) != FAT || head.n < FAT_HEADER) return 0;
    cursor c = cursor_of(slice_of(head.p + 4, 4), 0);
    return cursor_u32(&c);
}

static void name_by_module(const sym_listing *l, uint32_t row, sym_row_space *space, sym_row *out)
{
    out->token = TOKEN_METHOD | row;
    out->rva = md_get(&l->md, MD_METHOD_DEF, row, METHOD_RVA);
    out->size = out->rva ? il_size(&l->pe, out->rva) : 0;
    sym_method_name(&l->names, row, &space->name);
    sym_method_signature(&l->names, row, &space->signature);
}

static void name_by_pdb(const sym_listing *l, uint32_t i, sym_row_space *space, sym_row *out)
{
    if (!l->pdb.pdb.windows) {
        out->token = TOKEN_METHOD | (i + 1);
        return;
    }
    const sym_windows *w = &l->pdb.pdb.win;
    const sym_windows_method *m = &w->methods[i];
    out->token = m->token;
    slice type = w->modules[m->module].name;
    if (type.n) {
        utf8_sanitize(type, &space->name);
        buf_u8(&space->name, '.');
    }
    utf8_sanitize(m->name, &space->name);
}

static void place_by_pdb(const sym_listing *l, sym_row *out)
{
    const sym_windows_method *m = l->pdb.pdb.windows ? sym_windows_find(&l->pdb.pdb.win, out->token) : NULL;
    if (!m) return;
    out->segment = m->segment;
    out->offset = m->offset;
    if (!out->size) out->size = m->size;
}

static int find_lines(sym_listing *l, bool points, sym_row_space *space, sym_row *out, err *e)
{
    sym_pdb *p = &l->pdb.pdb;
    sym_point *list = NULL;
    arena_reset(&space->points);
    if (points || p->windows) {
        int rc = sym_pdb_points(p, out->token, &space->points, &list, &out->n_points, e);
        if (rc < 0) return rc;
        out->points = list;
        for (size_t i = 0; i < out->n_points && !out->has_line; i++) {
            out->has_line = !sym_point_hidden(&list[i]);
            out->first = list[i];
        }
    } else {
        sym_pick k = {.il_offset = SYM_IL_UNKNOWN};
        int rc = sym_pdb_pick(p, out->token, &k, e);
        if (rc < 0) return rc;
        out->has_line = k.found;
        out->first = k.best;
    }
    if (!out->has_line) return 0;
    if (space->document != out->first.document ||
        space->file.n == 0) { /* most rows are of the file of the one before */
        buf_reset(&space->file);
        sym_pdb_document(p, out->first.document, &space->file);
        space->document = out->first.document;
    }
    out->file = buf_view(&space->file);
    return 0;
}

int sym_listing_row(sym_listing *l, uint32_t i, bool points, sym_row_space *space, sym_row *out, err *e)
{
    *out = (sym_row){0};
    buf_reset(&space->name);
    buf_reset(&space->signature);
    if (l->has_module)
        name_by_module(l, i + 1, space, out);
    else
        name_by_pdb(l, i, space, out);
    int rc = 0;
    if (l->has_pdb) {
        place_by_pdb(l, out);
        rc = find_lines(l, points, space, out, e);
    }
    out->name = buf_view(&space->name);
    out->signature = buf_view(&space->signature);
    return rc;
}

bool sym_listing_url(const sym_listing *l, slice file, buf *out)
{
    return l->has_pdb && sym_links_url(&l->pdb.pdb.links, file, out);
}
