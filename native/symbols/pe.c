/* SPDX-License-Identifier: MIT */
/* pe.c: headers, sections, the CLI header and the debug directory. */
#include "symbols/pe.h"

#include <zlib.h>

enum {
    DOS_SIZE = 64,
    DOS_NEW_HEADER = 0x3c,
    COFF_SIZE = 24, /* with the signature */
    SECTION_SIZE = 40,
    MAGIC_32 = 0x10b,
    MAGIC_64 = 0x20b,
    DIR_DEBUG = 6,
    DIR_CLI = 14,
    CLI_SIZE = 24, /* as far as we read */
    DEBUG_SIZE = 28,
    DEBUG_CODEVIEW = 2,
    DEBUG_REPRODUCIBLE = 16,
    DEBUG_EMBEDDED = 17,
    DEBUG_CHECKSUM = 19,
    CODEVIEW_HEAD = 24,
    EMBEDDED_HEAD = 8,
    PORTABLE_MINOR = 0x504d, /* "PM" */
    TEXT_MAX = 4096,
};
#define MZ            0x5a4d
#define PE_MAGIC      0x4550u
#define RSDS          0x53445352u
#define MPDB          0x4244504du
#define INFLATE_RATIO 1040u /* deflate's best is 1032 to 1: a larger claim is a lie */

typedef struct directory {
    uint32_t rva, size;
} directory;

size_t sym_pe_room(const sym_pe *pe, uint32_t rva)
{
    for (uint32_t i = 0; i < pe->n_sections; i++) {
        const sym_pe_section *s = &pe->sections[i];
        if (rva >= s->rva && rva - s->rva < s->size) return s->size - (rva - s->rva);
    }
    return 0;
}

int sym_pe_at(const sym_pe *pe, uint32_t rva, size_t n, arena *a, slice *out, const char *what, err *e)
{
    for (uint32_t i = 0; i < pe->n_sections; i++) {
        const sym_pe_section *s = &pe->sections[i];
        if (rva < s->rva || rva - s->rva >= s->size) continue;
        uint32_t into = rva - s->rva;
        if (s->size - into < n)
            return err_at(e, ERR_MALFORMED, s->offset + (int64_t)into, "%s reaches past its section", what);
        return sym_input_get(pe->in, (uint64_t)s->offset + into, n, a, out, what, e);
    }
    return err_set(e, ERR_MALFORMED, "%s, at address 0x%x, is in no section", what, rva);
}

/* ---- headers ---- */

static int read_sections(sym_pe *pe, uint64_t at, uint32_t n, arena *a, err *e)
{
    slice raw;
    if (n > SYM_PE_SECTIONS_MAX) return err_at(e, ERR_MALFORMED, (int64_t)at, "%u sections are too many", n);
    int rc = sym_input_get(pe->in, at, (size_t)n * SECTION_SIZE, a, &raw, "the section table", e);
    if (rc < 0) return rc;
    cursor c = cursor_of(raw, (int64_t)at);
    for (uint32_t i = 0; i < n; i++) {
        cursor_skip(&c, 8); /* name */
        uint32_t virtual_size = cursor_u32(&c), rva = cursor_u32(&c), size = cursor_u32(&c), offset = cursor_u32(&c);
        cursor_skip(&c, 16);
        if (virtual_size && virtual_size < size) size = virtual_size;
        if (size > UINT32_MAX - rva) size = UINT32_MAX - rva;
        pe->sections[pe->n_sections++] = (sym_pe_section){rva, size, offset};
    }
    return 0;
}

static int read_optional(sym_pe *pe, slice raw, int64_t at, directory *debug, directory *cli, err *e)
{
    cursor c = cursor_of(raw, at);
    uint16_t magic = cursor_u16(&c);
    if (magic != MAGIC_32 && magic != MAGIC_64)
        return err_at(e, ERR_MALFORMED, at, "the optional header begins with 0x%x", magic);
    pe->plus = magic == MAGIC_64;
    cursor_skip(&c, pe->plus ? 106 : 90);
    uint32_t n = cursor_u32(&c);
    for (uint32_t i = 0; i < n && i <= DIR_CLI; i++) {
        directory d = {cursor_u32(&c), cursor_u32(&c)};
        if (i == DIR_DEBUG) *debug = d;
        if (i == DIR_CLI) *cli = d;
    }
    if (!cursor_ok(&c)) return err_at(e, ERR_MALFORMED, cursor_offset(&c), "the optional header is too short");
    return 0;
}

static int read_headers(sym_pe *pe, arena *a, directory *debug, directory *cli, err *e)
{
    slice raw;
    int rc = sym_input_get(pe->in, 0, DOS_SIZE, a, &raw, "the DOS header", e);
    if (rc < 0) return rc;
    cursor c = cursor_of(raw, 0);
    if (cursor_u16(&c) != MZ) return err_at(e, ERR_MALFORMED, 0, "this is no PE file: it does not begin with MZ");
    c = cursor_of(slice_of(raw.p + DOS_NEW_HEADER, 4), DOS_NEW_HEADER);
    uint64_t at = cursor_u32(&c);
    rc = sym_input_get(pe->in, at, COFF_SIZE, a, &raw, "the PE header", e);
    if (rc < 0) return rc;
    c = cursor_of(raw, (int64_t)at);
    if (cursor_u32(&c) != PE_MAGIC) return err_at(e, ERR_MALFORMED, (int64_t)at, "this is no PE file: no PE header");
    pe->machine = cursor_u16(&c);
    uint32_t n = cursor_u16(&c);
    cursor_skip(&c, 12);
    uint16_t optional = cursor_u16(&c);
    rc = sym_input_get(pe->in, at + COFF_SIZE, optional, a, &raw, "the optional header", e);
    if (rc == 0) rc = read_optional(pe, raw, (int64_t)(at + COFF_SIZE), debug, cli, e);
    if (rc == 0) rc = read_sections(pe, at + COFF_SIZE + optional, n, a, e);
    return rc;
}

static int read_cli(sym_pe *pe, directory cli, arena *a, err *e)
{
    slice raw;
    if (cli.rva == 0) return 0;
    int rc = sym_pe_at(pe, cli.rva, CLI_SIZE, a, &raw, "the CLI header", e);
    if (rc < 0) return rc;
    cursor c = cursor_of(raw, 0);
    cursor_skip(&c, 8);
    pe->metadata_rva = cursor_u32(&c);
    pe->metadata_size = cursor_u32(&c);
    cursor_skip(&c, 4);
    pe->entry_token = cursor_u32(&c);
    return 0;
}

/* ---- the debug directory: its entries name places in the file ---- */

typedef struct debug_entry {
    uint32_t stamp, type, size, at;
    uint16_t minor;
} debug_entry;

static void read_codeview(sym_pe *pe, const debug_entry *d, arena *a, err *e)
{
    slice raw;
    if (d->size < CODEVIEW_HEAD || pe->has_pdb) return;
    size_t n = d->size < CODEVIEW_HEAD + TEXT_MAX ? d->size : CODEVIEW_HEAD + TEXT_MAX;
    if (sym_input_get(pe->in, d->at, n, a, &raw, "a CodeView entry", e) < 0) return;
    cursor c = cursor_of(raw, d->at);
    if (cursor_u32(&c) != RSDS) return;
    slice guid = cursor_bytes(&c, 16);
    pe->pdb_age = cursor_u32(&c);
    slice path = cursor_bytes(&c, cursor_left(&c));
    if (!cursor_ok(&c) || !guid.p) return;
    memcpy(pe->pdb_guid, guid.p, 16);
    const uint8_t *nul = path.n ? memchr(path.p, 0, path.n) : NULL;
    if (nul) path.n = (size_t)(nul - path.p);
    char *copy = arena_str(a, path);
    pe->pdb_path = copy ? slice_of(copy, path.n) : (slice){0};
    pe->pdb_stamp = d->stamp;
    pe->pdb_is_portable = d->minor == PORTABLE_MINOR;
    pe->has_pdb = true;
}

static void read_checksum(sym_pe *pe, const debug_entry *d, arena *a, err *e)
{
    slice raw;
    if (d->size > TEXT_MAX || sym_input_get(pe->in, d->at, d->size, a, &raw, "a checksum", e) < 0) return;
    const uint8_t *nul = raw.n ? memchr(raw.p, 0, raw.n) : NULL;
    if (!nul) return;
    size_t name = (size_t)(nul - raw.p);
    pe->checksum_algorithm = slice_of(raw.p, name);
    pe->checksum = slice_of(nul + 1, raw.n - name - 1);
}

/* False: no memory. */
static bool read_debug_entry(sym_pe *pe, cursor *c, arena *a)
{
    err e = {0}; /* an entry that is damaged is as good as none */
    debug_entry d = {0};
    cursor_skip(c, 4);
    d.stamp = cursor_u32(c);
    cursor_skip(c, 2); /* major */
    d.minor = cursor_u16(c);
    d.type = cursor_u32(c);
    d.size = cursor_u32(c);
    cursor_skip(c, 4); /* RVA: the file is not mapped */
    d.at = cursor_u32(c);
    switch (d.type) {
    case DEBUG_CODEVIEW: read_codeview(pe, &d, a, &e); break;
    case DEBUG_REPRODUCIBLE: pe->reproducible = true; break;
    case DEBUG_EMBEDDED:
        pe->has_embedded = d.size > EMBEDDED_HEAD;
        pe->embedded_at = d.at;
        pe->embedded_size = d.size;
        break;
    case DEBUG_CHECKSUM: read_checksum(pe, &d, a, &e); break;
    default: break;
    }
    return e.kind != ERR_NO_MEMORY && !a->failed;
}

int sym_pe_read(sym_pe *pe, const sym_input *in, arena *a, err *e)
{
    directory debug = {0}, cli = {0};
    slice raw;
    err ignored = {0};
    *pe = (sym_pe){.in = in};
    int rc = read_headers(pe, a, &debug, &cli, e);
    if (rc == 0) rc = read_cli(pe, cli, a, e);
    if (rc < 0) return rc;
    uint32_t n = debug.size / DEBUG_SIZE;
    if (n > SYM_PE_DEBUG_MAX) n = SYM_PE_DEBUG_MAX;
    if (n == 0 || sym_pe_at(pe, debug.rva, (size_t)n * DEBUG_SIZE, a, &raw, "the debug directory", &ignored) < 0)
        return ignored.kind == ERR_NO_MEMORY ? err_set(e, ERR_NO_MEMORY, "%s", ignored.message) : 0;
    cursor c = cursor_of(raw, 0);
    for (uint32_t i = 0; i < n; i++)
        if (!read_debug_entry(pe, &c, a)) return err_set(e, ERR_NO_MEMORY, "no memory for the debug directory");
    return 0;
}

/* ---- the embedded PDB: "MPDB", its size, and a raw deflate stream ---- */

static int inflate_all(slice in, uint8_t *out, uint32_t n, err *e)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)in.p, .avail_in = (uInt)in.n, .avail_out = n};
    z.next_out = out;
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return err_set(e, ERR_NO_MEMORY, "no memory to decompress a PDB");
    int rc = inflate(&z, Z_FINISH);
    bool whole = z.avail_out == 0 && (rc == Z_STREAM_END || rc == Z_OK || rc == Z_BUF_ERROR);
    inflateEnd(&z);
    return whole ? 0 : err_set(e, ERR_MALFORMED, "the PDB inside the module cannot be decompressed");
}

int sym_pe_embedded(const sym_pe *pe, arena *a, slice *out, err *e)
{
    slice raw;
    arena packed = {0};
    int rc = sym_input_get(pe->in, pe->embedded_at, pe->embedded_size, &packed, &raw, "the embedded PDB", e);
    if (rc < 0) goto out;
    cursor c = cursor_of(raw, pe->embedded_at);
    uint32_t magic = cursor_u32(&c), n = cursor_u32(&c);
    slice body = cursor_bytes(&c, cursor_left(&c));
    if (magic != MPDB || n == 0 || n > SYM_PE_EMBEDDED_MAX || n / INFLATE_RATIO > body.n) {
        rc = err_at(e, ERR_MALFORMED, pe->embedded_at, "the PDB inside the module has a wrong header");
        goto out;
    }
    uint8_t *p = arena_alloc(a, n);
    rc = p ? inflate_all(body, p, n, e) : err_set(e, ERR_NO_MEMORY, "no memory for a PDB of %u bytes", n);
    if (rc == 0) *out = slice_of(p, n);
out:
    arena_free(&packed);
    return rc;
}
