/* SPDX-License-Identifier: MIT */
/* mvid.c: the first row of the Module table and its entry in #GUID: a few hundred bytes of perhaps many megabytes. */
#include "symbols/mvid.h"

enum { ROOT_MAX = 1024, TABLES_HEAD = 24, TABLES_MAX = 64, ROW_MAX = 10, VERSION_MAX = 256, STREAMS_MAX = 16 };
enum { HEAP_STRINGS = 1, HEAP_GUIDS = 2, EXTRA_DATA = 0x40 };

typedef struct place {
    uint32_t at, size;
} place;

/* Where a stream is, in bytes from the root; size 0: there is none. */
static void find_streams(slice root, place *tables, place *guids)
{
    cursor c = cursor_of(root, 0);
    cursor_skip(&c, 12);
    uint32_t version = cursor_u32(&c);
    cursor_skip(&c, version <= VERSION_MAX ? version : root.n);
    cursor_skip(&c, 2);
    uint16_t n = cursor_u16(&c);
    for (int i = 0; i < n && i < STREAMS_MAX && cursor_ok(&c); i++) {
        place p = {cursor_u32(&c), cursor_u32(&c)};
        const uint8_t *name = c.p, *nul = cursor_left(&c) ? memchr(c.p, 0, cursor_left(&c)) : NULL;
        if (!nul) return;
        size_t length = (size_t)(nul - name);
        cursor_skip(&c, (length + 4) & ~(size_t)3);
        slice text = slice_of(name, length);
        if (slice_eq_str(text, "#~") || slice_eq_str(text, "#-")) *tables = p;
        if (slice_eq_str(text, "#GUID")) *guids = p;
    }
}

/* The index into #GUID of the first row of table 0. */
static uint32_t guid_index(slice head)
{
    cursor c = cursor_of(head, 0);
    cursor_skip(&c, 6);
    uint8_t heaps = cursor_u8(&c);
    cursor_skip(&c, 1);
    uint64_t valid = cursor_u64(&c);
    cursor_skip(&c, 8);
    uint32_t rows = 0;
    for (int i = 0; i < TABLES_MAX; i++) {
        if (!(valid >> i & 1)) continue;
        uint32_t n = cursor_u32(&c);
        if (i == 0) rows = n;
    }
    if (heaps & EXTRA_DATA) cursor_skip(&c, 4);
    cursor_skip(&c, heaps & HEAP_STRINGS ? 6 : 4); /* generation, name */
    uint32_t index = heaps & HEAP_GUIDS ? cursor_u32(&c) : cursor_u16(&c);
    return cursor_ok(&c) && rows ? index : 0;
}

int sym_pe_mvid(const sym_pe *pe, uint8_t mvid[16], err *e)
{
    arena a = {0};
    slice root, head, guid;
    place tables = {0}, guids = {0};
    uint32_t index = 0;
    int rc = pe->metadata_rva ? 0 : err_set(e, ERR_MALFORMED, "this is no .NET module: it has no CLI header");
    size_t room = sym_pe_room(pe, pe->metadata_rva);
    if (rc == 0) rc = sym_pe_at(pe, pe->metadata_rva, room < ROOT_MAX ? room : ROOT_MAX, &a, &root, "the metadata", e);
    if (rc < 0) goto out;
    find_streams(root, &tables, &guids);
    size_t n = TABLES_HEAD + TABLES_MAX * 4 + 4 + ROW_MAX;
    if (tables.at < room) {
        if (n > room - tables.at) n = room - tables.at;
        rc = sym_pe_at(pe, pe->metadata_rva + tables.at, n, &a, &head, "the metadata tables", e);
        if (rc < 0) goto out;
        index = guid_index(head);
    }
    if (index == 0 || index > guids.size / 16 || guids.at >= room || (uint64_t)index * 16 > room - guids.at) {
        rc = err_set(e, ERR_MALFORMED, "the module's metadata has no MVID");
        goto out;
    }
    rc = sym_pe_at(pe, pe->metadata_rva + guids.at + (index - 1) * 16, 16, &a, &guid, "the MVID", e);
    if (rc == 0) memcpy(mvid, guid.p, 16);
out:
    arena_free(&a);
    return rc;
}
