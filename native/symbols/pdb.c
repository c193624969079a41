/* SPDX-License-Identifier: MIT */
/* pdb.c: what both formats of PDBs have in common. */
#include "symbols/pdb.h"

#include "base/utf.h"
#include "symbols/portable.h"
#include "symbols/srcsrv.h"

enum { TOKEN_METHOD = 0x06, POINTS_MAX = 1 << 20 };

static int read_windows(sym_pdb *p, slice bytes, arena *a, err *e)
{
    int rc = sym_windows_read(&p->win, bytes, a, e);
    if (rc < 0) return rc;
    p->windows = true;
    memcpy(p->guid, p->win.guid, sizeof p->guid);
    p->age = p->win.age;
    p->dbi_age = p->win.dbi_age;
    return 0;
}

static int read_portable(sym_pdb *p, slice bytes, err *e)
{
    int rc = sym_md_read(&p->md, bytes, 0, e);
    if (rc < 0) return rc;
    if (!p->md.is_pdb) return err_set(e, ERR_MALFORMED, "this is metadata without a #Pdb stream, so no PDB");
    memcpy(p->guid, p->md.pdb_id, sizeof p->guid);
    cursor c = cursor_of(slice_of(p->md.pdb_id + sizeof p->guid, 4), 0);
    p->stamp = cursor_u32(&c);
    return 0;
}

int sym_pdb_read(sym_pdb *p, slice bytes, arena *a, err *e)
{
    *p = (sym_pdb){0};
    bool portable = bytes.n >= 4 && memcmp(bytes.p, "BSJB", 4) == 0;
    if (!portable && !sym_msf_is(bytes))
        return err_at(e, ERR_MALFORMED, 0, "this is no PDB: neither a portable one (BSJB) nor one of MSF 7.00");
    int rc = portable ? read_portable(p, bytes, e) : read_windows(p, bytes, a, e);
    if (rc < 0) return rc;
    slice json = portable ? sym_portable_source_link(&p->md) : p->win.source_link;
    bool ok = sym_links_read(&p->links, json, a);
    if (ok && p->links.n == 0 && !portable) ok = sym_srcsrv_read(&p->links, p->win.srcsrv, a);
    return ok ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for a SourceLink map");
}

void sym_pdb_fini(sym_pdb *p) { sym_windows_fini(&p->win); }

uint32_t sym_pdb_method_rows(const sym_pdb *p) { return p->windows ? 0 : md_rows(&p->md, MD_METHOD_DEBUG); }

static int portable_points(const sym_md *md, uint32_t row, buf *points, err *e)
{
    sym_portable_walk w;
    sym_point p;
    if (!sym_portable_points(md, row, &w)) return 0;
    while (sym_portable_next(&w, &p) && points->n / sizeof p < POINTS_MAX)
        if (!buf_put(points, &p, sizeof p)) return err_set(e, ERR_NO_MEMORY, "no memory for the lines of a method");
    return 0;
}

int sym_pdb_points(sym_pdb *p, uint32_t token, arena *a, sym_point **out, size_t *n, err *e)
{
    *out = NULL;
    *n = 0;
    if (token >> 24 != TOKEN_METHOD) return 0;
    if (p->windows) {
        const sym_windows_method *m = sym_windows_find(&p->win, token);
        return m ? sym_windows_points(&p->win, m, a, out, n, e) : 0;
    }
    buf points;
    buf_init(&points, 0);
    int rc = portable_points(&p->md, token & 0xffffff, &points, e);
    if (rc == 0 && points.n) {
        *out = arena_dup(a, points.p, points.n);
        *n = points.n / sizeof **out;
        if (!*out) rc = err_set(e, ERR_NO_MEMORY, "no memory for the lines of a method");
    }
    buf_fini(&points);
    return rc;
}

static void pick_of(const sym_point *points, size_t n, sym_pick *k)
{
    for (size_t i = 0; i < n; i++)
        if (!sym_pick_offer(k, &points[i])) break;
}

static int pick_windows(sym_pdb *p, uint32_t token, sym_pick *k, err *e)
{
    arena a = {0};
    sym_point *points;
    size_t n;
    int rc = sym_pdb_points(p, token, &a, &points, &n, e);
    if (rc == 0) pick_of(points, n, k);
    arena_free(&a);
    return rc;
}

int sym_pdb_pick(sym_pdb *p, uint32_t token, sym_pick *k, err *e)
{
    int rc = 0;
    bool unknown = k->il_offset == SYM_IL_UNKNOWN;
    *k = (sym_pick){.il_offset = unknown ? 0 : k->il_offset};
    if (p->windows) {
        rc = pick_windows(p, token, k, e);
    } else if (token >> 24 == TOKEN_METHOD) {
        sym_portable_walk w;
        sym_point point;
        if (sym_portable_points(&p->md, token & 0xffffff, &w))
            while (sym_portable_next(&w, &point) && sym_pick_offer(k, &point)) {
            }
    }
    if (unknown) k->exact = false;
    return rc;
}

bool sym_pdb_document(const sym_pdb *p, uint32_t document, buf *out)
{
    if (p->windows) {
        slice name = sym_windows_document(&p->win, document);
        return name.n && utf8_sanitize(name, out);
    }
    buf raw;
    buf_init(&raw, 0);
    bool ok = sym_portable_document(&p->md, document, &raw) && utf8_sanitize(buf_view(&raw), out);
    buf_fini(&raw);
    return ok;
}
