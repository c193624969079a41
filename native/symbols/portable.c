/* SPDX-License-Identifier: MIT */
/* portable.c: the blobs of a portable PDB. */
#include "symbols/portable.h"

#include "base/utf.h"

enum { NAME_PARTS_MAX = 1024, NAME_MAX_BYTES = 4096, PARENT_MODULE = 7, PARENT_BITS = 5 };

/* CC110556-A091-4D38-9FEC-25AB9A351A6A */
static const uint8_t SOURCE_LINK[16] = {0x56, 0x05, 0x11, 0xcc, 0x91, 0xa0, 0x38, 0x4d,
                                        0x9f, 0xec, 0x25, 0xab, 0x9a, 0x35, 0x1a, 0x6a};

bool sym_portable_points(const sym_md *md, uint32_t method, sym_portable_walk *w)
{
    slice blob = md_blob(md, md_get(md, MD_METHOD_DEBUG, method, DEBUG_POINTS));
    *w = (sym_portable_walk){.c = cursor_of(blob, 0)};
    if (blob.n == 0) return false;
    md_compressed(&w->c); /* signature of the locals */
    w->document = md_get(md, MD_METHOD_DEBUG, method, DEBUG_DOCUMENT);
    if (w->document == 0) w->document = md_compressed(&w->c);
    return cursor_ok(&w->c);
}

/* The offset of the next point; a zero step, but for the first, says that another document begins. */
static void next_offset(sym_portable_walk *w)
{
    uint32_t step = md_compressed(&w->c);
    while (w->begun && step == 0 && cursor_ok(&w->c)) {
        w->document = md_compressed(&w->c);
        step = md_compressed(&w->c);
    }
    w->il_offset = w->begun ? w->il_offset + step : step;
    w->begun = true;
}

bool sym_portable_next(sym_portable_walk *w, sym_point *out)
{
    if (cursor_left(&w->c) == 0 || !cursor_ok(&w->c)) return false;
    next_offset(w);
    uint32_t lines = md_compressed(&w->c);
    int32_t columns = lines ? md_compressed_signed(&w->c) : (int32_t)md_compressed(&w->c);
    *out = (sym_point){.il_offset = w->il_offset, .document = w->document};
    if (lines == 0 && columns == 0) {
        out->line = out->end_line = SYM_HIDDEN_LINE;
        return cursor_ok(&w->c);
    }
    if (w->has_line) {
        w->line += (uint32_t)md_compressed_signed(&w->c);
        w->column += (uint32_t)md_compressed_signed(&w->c);
    } else {
        w->line = md_compressed(&w->c);
        w->column = md_compressed(&w->c);
        w->has_line = true;
    }
    out->line = w->line;
    out->column = w->column;
    out->end_line = w->line + lines;
    out->end_column = w->column + (uint32_t)columns;
    return cursor_ok(&w->c);
}

bool sym_portable_document(const sym_md *md, uint32_t document, buf *out)
{
    slice name = md_blob(md, md_get(md, MD_DOCUMENT, document, DOCUMENT_NAME));
    cursor c = cursor_of(name, 0);
    uint8_t separator = cursor_u8(&c);
    size_t before = out->n;
    for (int i = 0; cursor_ok(&c) && cursor_left(&c); i++) {
        slice part = md_blob(md, md_compressed(&c));
        if (i == NAME_PARTS_MAX || out->n - before + part.n > NAME_MAX_BYTES) return false;
        if (i && separator) buf_u8(out, separator);
        buf_slice(out, part);
    }
    return cursor_ok(&c) && out->n > before && !out->failed;
}

slice sym_portable_source_link(const sym_md *md)
{
    uint32_t module = 1u << PARENT_BITS | PARENT_MODULE;
    for (uint32_t row = md_lower_bound(md, MD_CUSTOM_DEBUG, CUSTOM_PARENT, module);
         row <= md_rows(md, MD_CUSTOM_DEBUG) && md_get(md, MD_CUSTOM_DEBUG, row, CUSTOM_PARENT) == module; row++) {
        const uint8_t *kind = md_guid(md, md_get(md, MD_CUSTOM_DEBUG, row, CUSTOM_KIND));
        if (kind && memcmp(kind, SOURCE_LINK, sizeof SOURCE_LINK) == 0)
            return md_blob(md, md_get(md, MD_CUSTOM_DEBUG, row, CUSTOM_VALUE));
    }
    return (slice){0};
}
