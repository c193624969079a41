/* SPDX-License-Identifier: MIT */
/* metadata.c: the root, the streams, the layout of the tables, and the heaps. */
#include "symbols/metadata.h"

#include <stdio.h>

#define ROOT_MAGIC 0x424a5342u /* "BSJB" */
enum { STREAMS_MAX = 16, VERSION_MAX = 256, STREAM_NAME_MAX = 32, WIDE_ROWS = 0x10000, TABLE_NUMBERS = 64 };
enum { HEAP_STRINGS = 1, HEAP_GUIDS = 2, HEAP_BLOBS = 4, EXTRA_DATA = 0x40 };

/* ---- layout: a letter a column ----
 * 1 2 4: a number of so many bytes. S G B: index into #Strings, #GUID, #Blob. Capitals from 'a' on of CODED: a coded
 * index. A table's number as two hexadecimal digits after 'T': a row of it. */
static const char *const LAYOUT[MD_TABLES] = {
    [0x00] = "2SGGG",     [0x01] = "hSS",    [0x02] = "4SSaT04T06", [0x03] = "T04",
    [0x04] = "2SB",       [0x05] = "T06",    [0x06] = "422SBT08",   [0x07] = "T08",
    [0x08] = "22S",       [0x09] = "T02a",   [0x0a] = "fSB",        [0x0b] = "2bB",
    [0x0c] = "cgB",       [0x0d] = "dB",     [0x0e] = "2eB",        [0x0f] = "24T02",
    [0x10] = "4T04",      [0x11] = "B",      [0x12] = "T02T14",     [0x13] = "T14",
    [0x14] = "2Sa",       [0x15] = "T02T17", [0x16] = "T17",        [0x17] = "2SB",
    [0x18] = "2T06i",     [0x19] = "T02jj",  [0x1a] = "S",          [0x1b] = "B",
    [0x1c] = "2kST1a",    [0x1d] = "4T04",   [0x1e] = "44",         [0x1f] = "4",
    [0x20] = "422224BSS", [0x21] = "4",      [0x22] = "444",        [0x23] = "22224BSSB",
    [0x24] = "4T23",      [0x25] = "444T23", [0x26] = "4SB",        [0x27] = "44SSl",
    [0x28] = "44Sl",      [0x29] = "T02T02", [0x2a] = "22mS",       [0x2b] = "jB",
    [0x2c] = "T2aa",      [0x30] = "BGBG",   [0x31] = "T30B",       [0x32] = "T06T35T33T3444",
    [0x33] = "22S",       [0x34] = "SB",     [0x35] = "T35B",       [0x36] = "T06T06",
    [0x37] = "nGB",
};

/* The tables that a coded index may point to, and the bits of its tag (II.24.2.6). */
typedef struct coded {
    uint8_t bits;
    uint8_t n;
    uint8_t tables[27];
} coded;
static const coded CODED[] = {
    /* a TypeDefOrRef */ {2, 3, {0x02, 0x01, 0x1b}},
    /* b HasConstant */ {2, 3, {0x04, 0x08, 0x17}},
    /* c HasCustomAttribute */
    {5, 22, {0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14,
             0x11, 0x1a, 0x1b, 0x20, 0x23, 0x26, 0x27, 0x28, 0x2a, 0x2c, 0x2b}},
    /* d HasFieldMarshal */ {1, 2, {0x04, 0x08}},
    /* e HasDeclSecurity */ {2, 3, {0x02, 0x06, 0x20}},
    /* f MemberRefParent */ {3, 5, {0x02, 0x01, 0x1a, 0x06, 0x1b}},
    /* g CustomAttributeType */ {3, 2, {0x06, 0x0a}},
    /* h ResolutionScope */ {2, 4, {0x00, 0x1a, 0x23, 0x01}},
    /* i HasSemantics */ {1, 2, {0x14, 0x17}},
    /* j MethodDefOrRef */ {1, 2, {0x06, 0x0a}},
    /* k MemberForwarded */ {1, 2, {0x04, 0x06}},
    /* l Implementation */ {2, 3, {0x26, 0x23, 0x27}},
    /* m TypeOrMethodDef */ {1, 2, {0x02, 0x06}},
    /* n HasCustomDebugInformation */
    {5, 27, {0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e, 0x17, 0x14, 0x11, 0x1a, 0x1b,
             0x20, 0x23, 0x26, 0x27, 0x28, 0x2a, 0x2c, 0x2b, 0x30, 0x32, 0x33, 0x34, 0x35}},
};

static uint32_t rows_of(const sym_md *md, int table)
{
    uint32_t own = md->tables[table].rows;
    return own ? own : md->foreign_rows[table];
}

static uint8_t coded_width(const sym_md *md, const coded *k)
{
    uint32_t most = 0;
    for (int i = 0; i < k->n; i++)
        if (rows_of(md, k->tables[i]) > most) most = rows_of(md, k->tables[i]);
    return most < (uint32_t)WIDE_ROWS >> k->bits ? 2 : 4;
}

static int hex(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static void lay_out(sym_md *md, int table, uint8_t heaps)
{
    md_table *t = &md->tables[table];
    int column = 0;
    for (const char *p = LAYOUT[table]; p && *p; p++, column++) {
        uint8_t width = 0;
        switch (*p) {
        case '1':
        case '2':
        case '4': width = (uint8_t)(*p - '0'); break;
        case 'S': width = heaps & HEAP_STRINGS ? 4 : 2; break;
        case 'G': width = heaps & HEAP_GUIDS ? 4 : 2; break;
        case 'B': width = heaps & HEAP_BLOBS ? 4 : 2; break;
        case 'T':
            width = rows_of(md, hex(p[1]) << 4 | hex(p[2])) < WIDE_ROWS ? 2 : 4;
            p += 2;
            break;
        default: width = coded_width(md, &CODED[*p - 'a']); break;
        }
        t->at[column] = (uint8_t)t->row_size;
        t->wide[column] = width;
        t->row_size += width;
    }
}

/* ---- streams ---- */

typedef struct streams {
    slice tables, pdb;
    int64_t tables_at;
} streams;

static void keep_stream(sym_md *md, streams *s, const char *name, slice body, int64_t at)
{
    if (strcmp(name, "#Strings") == 0) md->strings = body;
    if (strcmp(name, "#GUID") == 0) md->guids = body;
    if (strcmp(name, "#Blob") == 0) md->blobs = body;
    if (strcmp(name, "#Pdb") == 0) s->pdb = body;
    if (strcmp(name, "#~") == 0 || strcmp(name, "#-") == 0) {
        s->tables = body;
        s->tables_at = at;
    }
}

static int read_stream_header(sym_md *md, streams *s, cursor *c, slice bytes, int64_t base, err *e)
{
    char name[STREAM_NAME_MAX] = "";
    int64_t at = cursor_offset(c);
    uint32_t offset = cursor_u32(c), size = cursor_u32(c);
    size_t n = 0;
    while (cursor_ok(c) && n < sizeof name && (name[n] = (char)cursor_u8(c)) != 0)
        n++;
    if (!cursor_ok(c) || n == sizeof name) return err_at(e, ERR_MALFORMED, at, "a metadata stream has no proper name");
    cursor_skip(c, (4 - (n + 1) % 4) % 4);
    if (offset > bytes.n || size > bytes.n - offset)
        return err_at(e, ERR_TRUNCATED, at, "the metadata stream %s lies outside the metadata", name);
    keep_stream(md, s, name, slice_of(bytes.p + offset, size), base + offset);
    return 0;
}

static int read_root(sym_md *md, streams *s, slice bytes, int64_t base, err *e)
{
    cursor c = cursor_of(bytes, base);
    if (cursor_u32(&c) != ROOT_MAGIC) return err_at(e, ERR_MALFORMED, base, "this is no metadata: no BSJB");
    cursor_skip(&c, 8);
    uint32_t version = cursor_u32(&c);
    if (version > VERSION_MAX) return err_at(e, ERR_MALFORMED, cursor_offset(&c), "the metadata's version is too long");
    cursor_skip(&c, version);
    cursor_skip(&c, 2);
    uint16_t n = cursor_u16(&c);
    if (n > STREAMS_MAX) return err_at(e, ERR_MALFORMED, cursor_offset(&c), "%u metadata streams are too many", n);
    for (int i = 0; i < n; i++) {
        int rc = read_stream_header(md, s, &c, bytes, base, e);
        if (rc < 0) return rc;
    }
    if (!cursor_ok(&c)) return err_at(e, ERR_TRUNCATED, cursor_offset(&c), "the metadata ends inside its header");
    return 0;
}

static int read_pdb_stream(sym_md *md, slice pdb, err *e)
{
    cursor c = cursor_of(pdb, 0);
    slice id = cursor_bytes(&c, sizeof md->pdb_id);
    md->pdb_entry = cursor_u32(&c);
    uint64_t tables = cursor_u64(&c);
    for (int i = 0; i < TABLE_NUMBERS; i++) {
        if (!(tables >> i & 1)) continue;
        uint32_t rows = cursor_u32(&c);
        if (i < MD_TABLES) md->foreign_rows[i] = rows;
    }
    if (!cursor_ok(&c)) return err_set(e, ERR_TRUNCATED, "the #Pdb stream is too short");
    memcpy(md->pdb_id, id.p, sizeof md->pdb_id);
    md->pdb_stream = id.p;
    md->is_pdb = true;
    return 0;
}

static int read_tables(sym_md *md, const streams *s, err *e)
{
    cursor c = cursor_of(s->tables, s->tables_at);
    cursor_skip(&c, 6);
    uint8_t heaps = cursor_u8(&c);
    cursor_skip(&c, 1);
    uint64_t valid = cursor_u64(&c);
    cursor_skip(&c, 8); /* which are sorted */
    for (int i = 0; i < TABLE_NUMBERS; i++) {
        if (!(valid >> i & 1)) continue;
        uint32_t rows = cursor_u32(&c);
        if (i >= MD_TABLES || !LAYOUT[i])
            return err_at(e, ERR_MALFORMED, cursor_offset(&c), "metadata table 0x%02x is not known", i);
        if (rows >= 1u << 24) return err_at(e, ERR_MALFORMED, cursor_offset(&c), "%u rows are too many", rows);
        md->tables[i].rows = rows;
    }
    if (heaps & EXTRA_DATA) cursor_skip(&c, 4);
    for (int i = 0; i < MD_TABLES; i++) {
        md_table *t = &md->tables[i];
        lay_out(md, i, heaps);
        t->p = cursor_bytes(&c, (size_t)t->rows * t->row_size).p;
        if (!cursor_ok(&c))
            return err_at(e, ERR_TRUNCATED, cursor_offset(&c), "the metadata ends inside table 0x%02x", i);
    }
    return 0;
}

int sym_md_read(sym_md *md, slice bytes, int64_t base, err *e)
{
    streams s = {0};
    *md = (sym_md){0};
    int rc = read_root(md, &s, bytes, base, e);
    if (rc == 0 && s.pdb.n) rc = read_pdb_stream(md, s.pdb, e);
    if (rc == 0 && s.tables.n == 0) rc = err_at(e, ERR_MALFORMED, base, "the metadata has no tables");
    if (rc == 0) rc = read_tables(md, &s, e);
    return rc;
}

/* ---- rows and heaps ---- */

uint32_t md_get(const sym_md *md, int table, uint32_t row, int column)
{
    const md_table *t = &md->tables[table];
    if (row == 0 || row > t->rows) return 0;
    const uint8_t *p = t->p + (size_t)(row - 1) * t->row_size + t->at[column];
    uint32_t v = p[0] | (uint32_t)p[1] << 8;
    if (t->wide[column] == 4) v |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return v;
}

uint32_t md_lower_bound(const sym_md *md, int table, int column, uint32_t key)
{
    uint32_t low = 1, high = md_rows(md, table) + 1;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (md_get(md, table, mid, column) < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

slice md_string(const sym_md *md, uint32_t index)
{
    if (index == 0 || index >= md->strings.n) return (slice){0};
    const uint8_t *p = md->strings.p + index;
    size_t room = md->strings.n - index;
    const uint8_t *nul = memchr(p, 0, room);
    return nul ? slice_of(p, (size_t)(nul - p)) : (slice){0};
}

slice md_blob(const sym_md *md, uint32_t index)
{
    if (index == 0 || index >= md->blobs.n) return (slice){0};
    cursor c = cursor_of(slice_of(md->blobs.p + index, md->blobs.n - index), 0);
    uint32_t n = md_compressed(&c);
    return cursor_bytes(&c, n);
}

const uint8_t *md_guid(const sym_md *md, uint32_t index)
{
    return index && index <= md->guids.n / 16 ? md->guids.p + (size_t)(index - 1) * 16 : NULL;
}

/* ---- compressed numbers ---- */

static uint32_t compressed(cursor *c, int *bits)
{
    uint8_t first = cursor_u8(c);
    if (first < 0x80) {
        *bits = 7;
        return first;
    }
    if (first < 0xc0) {
        *bits = 14;
        return (uint32_t)(first & 0x3f) << 8 | cursor_u8(c);
    }
    *bits = 29;
    if (first >= 0xe0) cursor_fail(c);
    uint32_t v = (uint32_t)(first & 0x1f) << 24;
    v |= (uint32_t)cursor_u8(c) << 16;
    v |= (uint32_t)cursor_u8(c) << 8;
    v |= cursor_u8(c);
    return cursor_ok(c) ? v : 0;
}

uint32_t md_compressed(cursor *c)
{
    int bits;
    return compressed(c, &bits);
}

/* The sign is the lowest bit, rotated there. */
int32_t md_compressed_signed(cursor *c)
{
    int bits;
    uint32_t v = compressed(c, &bits);
    int32_t n = (int32_t)(v >> 1);
    return v & 1 ? n - (int32_t)(1u << (bits - 1)) : n;
}
