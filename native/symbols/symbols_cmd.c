/* SPDX-License-Identifier: MIT */
/* symbols_cmd.c: `lunette symbols FILE`. */
#include "symbols/symbols_cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/guid.h"
#include "base/json.h"
#include "symbols/listing.h"

enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
#define FLUSH_BYTES ((size_t)64 << 10)

typedef struct args {
    const char *file, *pdb;
    bool json, sym, lines;
} args;

typedef struct session {
    const args *a;
    sym_listing l;
    sym_row_space space;
    buf out, scratch;
    jsonw w;
    bool broken; /* stdout takes no more */
    int unwritten;
} session;

static const char help[] =
    "Usage: lunette symbols FILE [--pdb PDB] [--sym | --lines] [--json]\n"
    "\n"
    "Lists the methods of a .NET module (.dll, .exe) or of a PDB (portable, or Windows MSF 7): token, address, size "
    "of\n"
    "the IL in bytes, name with signature, and the file and line of the source.\n"
    "A module's PDB is looked for inside it, beside it, and where it was built; only the one with the id that the\n"
    "module names is taken. For a PDB, the module beside it gives names and signatures.\n"
    "The address is that of the IL in the module (RVA), or for a Windows PDB alone SEGMENT:OFFSET.\n"
    "\n"
    "  --pdb PDB   take this PDB\n"
    "  --lines     all sequence points of each method, too: IL offset, line, column, end, file\n"
    "  --sym       a symbol file: ADDRESS SIZE TOKEN NAME FILE:LINE, by address, separated by tabs\n"
    "  --json      one JSON object\n"
    "\n"
    "Exit code: 0 fine, 1 the file cannot be read or is damaged, 2 wrong usage.\n";

static int usage(const char *what, const char *which)
{
    fprintf(stderr, "lunette symbols: %s%s%s\nTry: lunette symbols --help\n", what, *which ? ": " : "", which);
    return EXIT_USAGE;
}

/* Returns -1 to go on, else the exit code. */
static int parse_args(args *a, int argc, char **argv)
{
    *a = (args){0};
    for (int i = 1; i < argc; i++) {
        const char *s = argv[i];
        if (strcmp(s, "--help") == 0 || strcmp(s, "-h") == 0) {
            fputs(help, stdout);
            return EXIT_FINE;
        }
        if (strcmp(s, "--json") == 0) {
            a->json = true;
        } else if (strcmp(s, "--sym") == 0) {
            a->sym = true;
        } else if (strcmp(s, "--lines") == 0) {
            a->lines = true;
        } else if (strcmp(s, "--pdb") == 0) {
            if (++i == argc) return usage("--pdb wants the name of a file", "");
            a->pdb = argv[i];
        } else if (s[0] == '-' && s[1]) {
            return usage("there is no option", s);
        } else if (a->file) {
            return usage("one file at a time; too many", s);
        } else {
            a->file = s;
        }
    }
    if (a->sym && (a->json || a->lines)) return usage("--sym goes with neither --json nor --lines", "");
    if (a->file) return -1;
    if (argc < 2) fputs(help, stderr);
    return argc < 2 ? EXIT_USAGE : usage("which file", "");
}

/* ---- output ---- */

static void flush_out(session *s)
{
    size_t done = 0;
    while (done < s->out.n && !s->broken) {
        ssize_t n = write(STDOUT_FILENO, s->out.p + done, s->out.n - done);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno != EINTR) {
            s->broken = true;
            s->unwritten = errno == EPIPE ? 0 : errno;
        }
    }
    buf_reset(&s->out);
}

static void put_guid(const uint8_t guid[16], char out[37])
{
    char hex[33];
    guid_hex(guid, hex);
    snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

static const char *format_name(sym_format f)
{
    switch (f) {
    case SYM_FORMAT_NONE: return "none";
    case SYM_FORMAT_PORTABLE: return "portable";
    case SYM_FORMAT_EMBEDDED: return "embedded";
    case SYM_FORMAT_WINDOWS: return "windows";
    }
    return "";
}

/* A text of the file on one line: what would move the terminal's cursor is left out. */
static void put_text(buf *o, slice text)
{
    for (size_t i = 0; i < text.n; i++)
        buf_u8(o, text.p[i] < ' ' || text.p[i] == 127 ? '?' : text.p[i]);
}

static void put_address(buf *o, const sym_row *r)
{
    if (r->rva)
        buf_printf(o, "%08x", r->rva);
    else if (r->segment)
        buf_printf(o, "%04x:%08x", r->segment, r->offset);
}

/* "int Ns.Type.Method(string)": the name goes between the return type and the parameters. */
static void put_method(buf *o, const sym_row *r)
{
    const uint8_t *gap = NULL;
    for (size_t i = 0; i + 1 < r->signature.n && !gap; i++)
        if (r->signature.p[i] == ' ' && r->signature.p[i + 1] == '(') gap = r->signature.p + i;
    size_t before = gap ? (size_t)(gap - r->signature.p) : 0;
    if (gap) {
        put_text(o, slice_of(r->signature.p, before));
        buf_u8(o, ' ');
    }
    put_text(o, r->name.n ? r->name : SLICE_LIT("?"));
    if (gap) put_text(o, slice_of(gap + 1, r->signature.n - before - 1));
}

static void row_text(session *s, const sym_row *r)
{
    buf *o = &s->out, *t = &s->scratch;
    buf_reset(t);
    put_address(t, r);
    buf_printf(o, "%08x  %-*.*s  %8u  ", r->token, s->l.has_module ? 8 : 13, (int)t->n, t->n ? (char *)t->p : "",
               r->size);
    put_method(o, r);
    if (r->has_line) {
        buf_str(o, "  ");
        put_text(o, r->file);
        buf_printf(o, ":%u", r->first.line);
    }
    buf_u8(o, '\n');
    for (size_t i = 0; s->a->lines && i < r->n_points; i++) {
        const sym_point *p = &r->points[i];
        if (sym_point_hidden(p)) {
            buf_printf(o, "    IL_%04x  hidden\n", p->il_offset);
            continue;
        }
        buf_reset(t);
        sym_pdb_document(&s->l.pdb.pdb, p->document, t);
        buf_printf(o, "    IL_%04x  %u,%u-%u,%u  ", p->il_offset, p->line, p->column, p->end_line, p->end_column);
        put_text(o, buf_view(t));
        buf_u8(o, '\n');
    }
}

static void row_sym(session *s, const sym_row *r)
{
    buf *o = &s->out;
    put_address(o, r);
    buf_printf(o, "\t%x\t%08x\t", r->size, r->token);
    put_method(o, r);
    buf_u8(o, '\t');
    if (r->has_line) {
        put_text(o, r->file);
        buf_printf(o, ":%u", r->first.line);
    }
    buf_u8(o, '\n');
}

/* ---- JSON ---- */

static void str_member(jsonw *w, const char *key, slice v)
{
    jsonw_key_lit(w, key);
    jsonw_str(w, v);
}

static void uint_member(jsonw *w, const char *key, uint64_t v)
{
    jsonw_key_lit(w, key);
    jsonw_uint(w, v);
}

static void hex_member(jsonw *w, const char *key, uint64_t v)
{
    jsonw_key_lit(w, key);
    jsonw_hex(w, v);
}

static void points_json(session *s, const sym_row *r)
{
    jsonw *w = &s->w;
    jsonw_key_lit(w, "lines");
    jsonw_array(w);
    for (size_t i = 0; i < r->n_points; i++) {
        const sym_point *p = &r->points[i];
        jsonw_object(w);
        uint_member(w, "il", p->il_offset);
        if (sym_point_hidden(p)) {
            jsonw_key_lit(w, "hidden");
            jsonw_bool(w, true);
        } else {
            uint_member(w, "line", p->line);
            uint_member(w, "column", p->column);
            uint_member(w, "endLine", p->end_line);
            uint_member(w, "endColumn", p->end_column);
            buf_reset(&s->scratch);
            sym_pdb_document(&s->l.pdb.pdb, p->document, &s->scratch);
            str_member(w, "file", buf_view(&s->scratch));
        }
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void row_json(session *s, const sym_row *r)
{
    char token[12];
    jsonw *w = &s->w;
    jsonw_object(w);
    snprintf(token, sizeof token, "0x%08x", r->token);
    str_member(w, "token", slice_str(token));
    if (r->name.n) str_member(w, "name", r->name);
    if (r->signature.n) str_member(w, "signature", r->signature);
    if (r->rva) hex_member(w, "rva", r->rva);
    if (r->segment) {
        uint_member(w, "segment", r->segment);
        hex_member(w, "offset", r->offset);
    }
    if (r->size) uint_member(w, "size", r->size);
    if (r->has_line) {
        str_member(w, "file", r->file);
        uint_member(w, "line", r->first.line);
        buf_reset(&s->scratch);
        if (sym_listing_url(&s->l, r->file, &s->scratch)) str_member(w, "url", buf_view(&s->scratch));
    }
    if (s->a->lines) points_json(s, r);
    jsonw_end_object(w);
}

static void head_json(session *s)
{
    char guid[37];
    const sym_listing *l = &s->l;
    jsonw *w = &s->w;
    jsonw_init(w, &s->out);
    jsonw_object(w);
    str_member(w, "file", slice_str(l->file));
    if (l->has_module) str_member(w, "module", slice_str(l->module_file));
    if (l->has_mvid) {
        put_guid(l->mvid, guid);
        str_member(w, "mvid", slice_str(guid));
    }
    str_member(w, "pdbFormat", slice_str(format_name(l->pdb.format)));
    if (l->has_pdb) {
        put_guid(l->pdb.pdb.guid, guid);
        str_member(w, "pdbFile", slice_str(l->pdb.file));
        str_member(w, "pdbGuid", slice_str(guid));
        if (l->pdb.pdb.windows) uint_member(w, "pdbAge", l->pdb.pdb.age);
    } else {
        str_member(w, "note", slice_str(l->pdb.why));
    }
    jsonw_key_lit(w, "methods");
    jsonw_array(w);
}

static void tail_json(session *s)
{
    jsonw_end_array(&s->w);
    jsonw_end_object(&s->w);
    buf_u8(&s->out, '\n');
}

static void head_text(session *s)
{
    char guid[37];
    const sym_listing *l = &s->l;
    buf *o = &s->out;
    buf_printf(o, "%s: %u methods", l->file, sym_listing_rows(l));
    if (l->has_mvid) {
        put_guid(l->mvid, guid);
        buf_printf(o, ", MVID %s", guid);
    }
    if (l->has_pdb) {
        put_guid(l->pdb.pdb.guid, guid);
        buf_printf(o, "\n%s PDB %s, id %s", format_name(l->pdb.format), l->pdb.file, guid);
        if (l->pdb.pdb.windows) buf_printf(o, ", age %u", l->pdb.pdb.age);
        if (!l->has_module) buf_str(o, "\nno module of this id lies beside it: put it there for names and signatures");
    } else {
        buf_printf(o, "\nno lines: %s", l->pdb.why);
    }
    buf_printf(o, "\n\nTOKEN     %-*s  %8s  METHOD  FILE:LINE\n", l->has_module ? 8 : 13, "ADDRESS", "SIZE");
}

/* ---- the list ---- */

typedef struct place {
    uint64_t address;
    uint32_t row;
} place;

static int by_address(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->address != y->address) return x->address < y->address ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* The rows with an address, by it. */
static int sorted_rows(session *s, buf *places, err *e)
{
    sym_listing *l = &s->l;
    for (uint32_t i = 0; i < sym_listing_rows(l); i++) {
        uint64_t at = 0;
        if (l->has_module)
            at = md_get(&l->md, MD_METHOD_DEF, i + 1, METHOD_RVA);
        else if (l->pdb.pdb.windows)
            at = (uint64_t)l->pdb.pdb.win.methods[i].segment << 32 | l->pdb.pdb.win.methods[i].offset;
        place p = {at, i};
        if (at && !buf_put(places, &p, sizeof p)) return err_set(e, ERR_NO_MEMORY, "no memory for %u methods", i);
    }
    if (places->n) qsort(places->p, places->n / sizeof(place), sizeof(place), by_address);
    return 0;
}

static int show_row(session *s, uint32_t i, err *e)
{
    sym_row row;
    int rc = sym_listing_row(&s->l, i, s->a->lines, &s->space, &row, e);
    if (rc < 0) return rc;
    if (s->a->json)
        row_json(s, &row);
    else if (s->a->sym)
        row_sym(s, &row);
    else
        row_text(s, &row);
    if (s->out.n >= FLUSH_BYTES) flush_out(s);
    return 0;
}

static int show_sym(session *s, err *e)
{
    buf places;
    buf_init(&places, 0);
    int rc = sorted_rows(s, &places, e);
    const place *list = (const place *)(const void *)places.p;
    for (size_t i = 0; rc == 0 && i < places.n / sizeof *list && !s->broken; i++)
        rc = show_row(s, list[i].row, e);
    buf_fini(&places);
    return rc;
}

static int show(session *s, err *e)
{
    int rc = 0;
    if (s->a->sym) return show_sym(s, e);
    if (s->a->json)
        head_json(s);
    else
        head_text(s);
    for (uint32_t i = 0, n = sym_listing_rows(&s->l); rc == 0 && i < n && !s->broken; i++)
        rc = show_row(s, i, e);
    if (s->a->json) tail_json(s);
    return rc;
}

static int run(const args *a)
{
    err e = {0};
    session s = {.a = a};
    buf *const bufs[] = {&s.out, &s.scratch, &s.space.name, &s.space.signature, &s.space.file};
    int code = EXIT_FINE;
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        buf_init(bufs[i], 0);
    int rc = sym_listing_open(&s.l, a->file, a->pdb, &e);
    if (rc == 0) rc = show(&s, &e);
    flush_out(&s);
    if (s.unwritten) {
        fprintf(stderr, "lunette symbols: cannot write to standard output: %s\n", strerror(s.unwritten));
        code = EXIT_FAILED;
    }
    if (rc < 0) {
        fprintf(stderr, "lunette symbols: %s: %s\n", a->file, e.message);
        if (*e.hint) fprintf(stderr, "%s\n", e.hint);
        code = EXIT_FAILED;
    }
    sym_listing_close(&s.l);
    arena_free(&s.space.points);
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        buf_fini(bufs[i]);
    return code;
}

int symbols_main(int argc, char **argv)
{
    args a;
    int rc = parse_args(&a, argc, argv);
    return rc >= 0 ? rc : run(&a);
}
