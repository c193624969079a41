/* SPDX-License-Identifier: MIT */
/* windows_kit.c: the streams 1 (info), 3 (DBI), 5 (names), 6 (SourceLink), 7 (token map) and from 8 on the modules. */
#include "windows_kit.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES = 5, LINK = 6, MAP = 7, MODULES = 8, STREAMS_MAX = 64, FILES_MAX = 16 };

static void pad(buf *b, size_t to)
{
    while (b->n % to)
        buf_u8(b, 0);
}

static void patch32(buf *b, size_t at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        b->p[at + (size_t)i] = (uint8_t)(v >> (8 * i));
}

static void text(buf *b, const char *s) { buf_put(b, s, strlen(s) + 1); }

/* ---- the container ---- */

void kit_msf(const slice *streams, uint32_t n, uint32_t block_size, bool scattered, buf *out)
{
    static const char magic[32] = "Microsoft C/C++ MSF 7.00\r\n\x1a"
                                  "DS\0\0";
    buf directory, map;
    uint32_t blocks = 0, next, step = scattered ? 2 : 1;
    buf_init(&directory, 0);
    buf_init(&map, 0);
    for (uint32_t i = 0; i < n; i++)
        blocks += (uint32_t)((streams[i].n + block_size - 1) / block_size);
    uint32_t data = 3, total = data + blocks * step;
    buf_u32(&directory, n);
    for (uint32_t i = 0; i < n; i++)
        buf_u32(&directory, streams[i].p ? (uint32_t)streams[i].n : UINT32_MAX);
    next = data;
    for (uint32_t i = 0; i < n; i++)
        for (size_t at = 0; at < streams[i].n; at += block_size, next += step)
            buf_u32(&directory, next);
    uint32_t directory_at = total, directory_blocks = (uint32_t)((directory.n + block_size - 1) / block_size);
    for (uint32_t i = 0; i < directory_blocks; i++)
        buf_u32(&map, directory_at + i);
    uint32_t map_at = directory_at + directory_blocks;
    buf_put(out, magic, sizeof magic);
    buf_u32(out, block_size);
    buf_u32(out, 1);
    buf_u32(out, map_at + 1);
    buf_u32(out, (uint32_t)directory.n);
    buf_u32(out, 0);
    buf_u32(out, map_at);
    while (out->n < (size_t)data * block_size)
        buf_u8(out, 0);
    for (uint32_t i = 0; i < n; i++)
        for (size_t at = 0; at < streams[i].n; at += block_size) {
            size_t part = streams[i].n - at < block_size ? streams[i].n - at : block_size;
            buf_put(out, streams[i].p + at, part);
            pad(out, block_size);
            for (uint32_t k = 0; scattered && k < block_size; k++)
                buf_u8(out, 0xdd);
        }
    buf_slice(out, buf_view(&directory));
    pad(out, block_size);
    buf_slice(out, buf_view(&map));
    pad(out, block_size);
    buf_fini(&directory);
    buf_fini(&map);
}

/* ---- the streams ---- */

static void info_stream(const kit_pdb *k, buf *b)
{
    static const char names[] = "/names\0sourcelink$1\0srcsrv\0";
    bool more = k->source_link || k->srcsrv;
    buf_u32(b, 20000404);
    buf_u32(b, 1);
    buf_u32(b, k->age);
    buf_put(b, k->guid, 16);
    buf_u32(b, sizeof names - 1);
    buf_put(b, names, sizeof names - 1);
    buf_u32(b, more ? 2 : 1); /* present */
    buf_u32(b, 4);
    buf_u32(b, 1);
    buf_u32(b, more ? 3 : 1);
    buf_u32(b, 0);
    buf_u32(b, 0);
    buf_u32(b, NAMES);
    if (more) {
        buf_u32(b, k->source_link ? 7 : 20);
        buf_u32(b, LINK);
    }
}

static void names_stream(const kit_pdb *k, buf *b, uint32_t *at)
{
    buf pool;
    buf_init(&pool, 0);
    buf_u8(&pool, 0);
    for (int i = 0; i < k->n_files; i++) {
        at[i] = (uint32_t)pool.n;
        text(&pool, k->files[i]);
    }
    buf_u32(b, 0xeffeeffe);
    buf_u32(b, 1);
    buf_u32(b, (uint32_t)pool.n);
    buf_slice(b, buf_view(&pool));
    buf_u32(b, 0);
    buf_u32(b, 0);
    buf_fini(&pool);
}

static void symbol(const kit_method *m, buf *b)
{
    size_t start = b->n;
    buf_u16(b, 0);
    buf_u16(b, m->local ? 0x112b : 0x112a);
    for (int i = 0; i < 3; i++)
        buf_u32(b, 0);
    buf_u32(b, m->size);
    buf_u32(b, 0);
    buf_u32(b, m->size);
    buf_u32(b, m->token);
    buf_u32(b, m->offset);
    buf_u16(b, (uint16_t)m->segment);
    buf_u8(b, 0);
    buf_u16(b, 0);
    text(b, m->name);
    pad(b, 4);
    size_t n = b->n - start - 2;
    b->p[start] = (uint8_t)n;
    b->p[start + 1] = (uint8_t)(n >> 8);
    buf_u16(b, 2); /* S_END */
    buf_u16(b, 6);
}

/* The lines of a method that are in one file. */
static void file_block(const kit_pdb *k, const kit_method *m, int file, buf *b)
{
    size_t start = b->n, n = 0;
    buf_u32(b, (uint32_t)file * 8);
    buf_u32(b, 0);
    buf_u32(b, 0);
    for (int i = 0; i < m->n_lines; i++) {
        if (m->lines[i].file != file) continue;
        buf_u32(b, m->lines[i].il);
        buf_u32(b, m->lines[i].line | m->lines[i].end_delta << 24);
        n++;
    }
    for (int i = 0; k->columns && i < m->n_lines; i++) {
        if (m->lines[i].file != file) continue;
        buf_u16(b, m->lines[i].column);
        buf_u16(b, m->lines[i].end_column);
    }
    if (n == 0) {
        b->n = start;
        return;
    }
    patch32(b, start + 4, (uint32_t)n);
    patch32(b, start + 8, (uint32_t)(b->n - start));
}

static void lines(const kit_pdb *k, const kit_method *m, buf *b)
{
    buf_u32(b, 0xf2);
    size_t size_at = b->n;
    buf_u32(b, 0);
    buf_u32(b, m->offset);
    buf_u16(b, (uint16_t)m->segment);
    buf_u16(b, k->columns ? 1 : 0);
    buf_u32(b, m->size);
    for (int f = 0; f < k->n_files; f++)
        file_block(k, m, f, b);
    patch32(b, size_at, (uint32_t)(b->n - size_at - 4));
}

static void checksums(const kit_pdb *k, const uint32_t *names, buf *b)
{
    buf_u32(b, 0xf4);
    buf_u32(b, (uint32_t)k->n_files * 8);
    for (int i = 0; i < k->n_files; i++) {
        buf_u32(b, names[i]);
        buf_u32(b, 0); /* no checksum, no kind, aligned */
    }
}

static void module_stream(const kit_pdb *k, int module, const uint32_t *names, buf *b, uint32_t *symbol_bytes)
{
    buf_u32(b, 4);
    for (int i = 0; i < k->n_methods; i++)
        if (k->methods[i].module == module) symbol(&k->methods[i], b);
    *symbol_bytes = (uint32_t)b->n;
    checksums(k, names, b);
    for (int i = 0; i < k->n_methods; i++)
        if (k->methods[i].module == module && k->methods[i].n_lines) lines(k, &k->methods[i], b);
}

static void module_entry(const char *name, uint32_t stream, uint32_t symbol_bytes, uint32_t total, buf *b)
{
    for (int i = 0; i < 34; i++)
        buf_u8(b, 0);
    buf_u16(b, (uint16_t)stream);
    buf_u32(b, symbol_bytes);
    buf_u32(b, 0);
    buf_u32(b, total - symbol_bytes);
    for (int i = 0; i < 16; i++)
        buf_u8(b, 0);
    text(b, name);
    text(b, "object");
    pad(b, 4);
}

static void dbi_stream(const kit_pdb *k, slice modules, buf *b)
{
    buf_u32(b, UINT32_MAX);
    buf_u32(b, 19990903);
    buf_u32(b, k->dbi_age);
    for (int i = 0; i < 6; i++)
        buf_u16(b, 0);
    buf_u32(b, (uint32_t)modules.n);
    for (int i = 0; i < 5; i++)
        buf_u32(b, 0);
    buf_u32(b, 22); /* optional headers */
    for (int i = 0; i < 3; i++)
        buf_u32(b, 0);
    buf_slice(b, modules);
    for (int i = 0; i < 11; i++)
        buf_u16(b, i == 6 && k->token_map ? MAP : 0xffff);
}

void kit_windows(const kit_pdb *k, buf *out)
{
    buf s[STREAMS_MAX], entries;
    slice views[STREAMS_MAX] = {{0}};
    uint32_t names[FILES_MAX] = {0}, n = MODULES + (uint32_t)k->n_modules;
    for (int i = 0; i < STREAMS_MAX; i++)
        buf_init(&s[i], 0);
    buf_init(&entries, 0);
    info_stream(k, &s[1]);
    names_stream(k, &s[NAMES], names);
    if (k->source_link || k->srcsrv) buf_str(&s[LINK], k->source_link ? k->source_link : k->srcsrv);
    for (int i = 0; i < k->n_token_map; i++)
        buf_u32(&s[MAP], k->token_map[i]);
    for (int i = 0; i < k->n_modules; i++) {
        uint32_t symbol_bytes = 0;
        buf *m = &s[MODULES + i];
        module_stream(k, i, names, m, &symbol_bytes);
        module_entry(k->modules[i], MODULES + (uint32_t)i, symbol_bytes, (uint32_t)m->n, &entries);
    }
    dbi_stream(k, buf_view(&entries), &s[3]);
    for (uint32_t i = 0; i < n; i++)
        views[i] = buf_view(&s[i]);
    kit_msf(views, n, k->block_size, k->scattered, out);
    for (int i = 0; i < STREAMS_MAX; i++)
        buf_fini(&s[i]);
    buf_fini(&entries);
}
