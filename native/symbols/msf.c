/* SPDX-License-Identifier: MIT */
/* msf.c: the superblock, the stream directory, and streams put together. */
#include "symbols/msf.h"

static const char MAGIC[32] = "Microsoft C/C++ MSF 7.00\r\n\x1a"
                              "DS\0\0";
enum { SUPER_SIZE = 56, BLOCK_MIN = 512, BLOCK_MAX = 65536, NO_SIZE = -1 };

bool sym_msf_is(slice file) { return file.n >= sizeof MAGIC && memcmp(file.p, MAGIC, sizeof MAGIC) == 0; }

static uint32_t blocks_of(const sym_msf *m, uint32_t bytes)
{
    return bytes / m->block_size + (bytes % m->block_size != 0);
}

/* The bytes of n_bytes in the listed blocks. */
static int gather(const sym_msf *m, const uint32_t *blocks, uint32_t n_bytes, arena *a, slice *out, err *e)
{
    uint32_t n = blocks_of(m, n_bytes);
    bool in_a_row = true;
    *out = (slice){0};
    if (n_bytes == 0) return 0;
    if (n_bytes > m->file.n) return err_at(e, ERR_MALFORMED, 0, "a stream of the PDB is larger than the PDB");
    for (uint32_t i = 0; i < n; i++) {
        if (blocks[i] >= m->n_blocks)
            return err_at(e, ERR_MALFORMED, 0, "block %u of the PDB is outside of it", blocks[i]);
        in_a_row = in_a_row && blocks[i] == blocks[0] + i;
    }
    if (in_a_row) {
        uint64_t from = (uint64_t)blocks[0] * m->block_size;
        if (from + n_bytes > m->file.n) return err_at(e, ERR_TRUNCATED, (int64_t)from, "the PDB ends inside a stream");
        *out = slice_of(m->file.p + from, n_bytes);
        return 0;
    }
    uint8_t *p = arena_alloc(a, n_bytes);
    if (!p) return err_set(e, ERR_NO_MEMORY, "no memory for a stream of %u bytes", n_bytes);
    for (uint32_t i = 0, at = 0; i < n; i++) {
        uint32_t part = n_bytes - at < m->block_size ? n_bytes - at : m->block_size;
        uint64_t from = (uint64_t)blocks[i] * m->block_size;
        if (from + part > m->file.n) return err_at(e, ERR_TRUNCATED, (int64_t)from, "the PDB ends inside a stream");
        memcpy(p + at, m->file.p + from, part);
        at += part;
    }
    *out = slice_of(p, n_bytes);
    return 0;
}

/* A list of numbers, aligned. */
static const uint32_t *numbers(arena *a, slice bytes) { return arena_dup(a, bytes.p, bytes.n); }

static int read_directory(sym_msf *m, slice raw, arena *a, err *e)
{
    cursor c = cursor_of(raw, 0);
    m->n_streams = cursor_u32(&c);
    if (m->n_streams > MSF_STREAMS_MAX) return err_set(e, ERR_MALFORMED, "%u streams are too many", m->n_streams);
    uint32_t *sizes = arena_alloc(a, (size_t)m->n_streams * sizeof *sizes + 1);
    const uint32_t **blocks = arena_alloc(a, (size_t)m->n_streams * sizeof *blocks + 1);
    if (!sizes || !blocks) return err_set(e, ERR_NO_MEMORY, "no memory for %u streams", m->n_streams);
    for (uint32_t i = 0; i < m->n_streams; i++) {
        int32_t size = cursor_i32(&c);
        sizes[i] = size == NO_SIZE ? 0 : (uint32_t)size;
    }
    for (uint32_t i = 0; i < m->n_streams; i++) {
        slice list = cursor_bytes(&c, (size_t)blocks_of(m, sizes[i]) * sizeof(uint32_t));
        if (!cursor_ok(&c)) return err_set(e, ERR_TRUNCATED, "the directory of the PDB is too short");
        blocks[i] = numbers(a, list);
        if (!blocks[i]) return err_set(e, ERR_NO_MEMORY, "no memory for the blocks of a stream");
    }
    m->sizes = sizes;
    m->blocks = blocks;
    return 0;
}

int sym_msf_read(sym_msf *m, slice file, arena *a, err *e)
{
    *m = (sym_msf){.file = file};
    if (!sym_msf_is(file) || file.n < SUPER_SIZE)
        return err_at(e, ERR_MALFORMED, 0, "this is no PDB of the kind MSF 7.00");
    cursor c = cursor_of(slice_of(file.p + sizeof MAGIC, SUPER_SIZE - sizeof MAGIC), sizeof MAGIC);
    m->block_size = cursor_u32(&c);
    cursor_skip(&c, 4); /* which free block map is in use */
    m->n_blocks = cursor_u32(&c);
    uint32_t directory = cursor_u32(&c);
    cursor_skip(&c, 4);
    uint32_t map = cursor_u32(&c);
    bool power = m->block_size && (m->block_size & (m->block_size - 1)) == 0;
    if (!power || m->block_size < BLOCK_MIN || m->block_size > BLOCK_MAX)
        return err_at(e, ERR_MALFORMED, sizeof MAGIC, "a PDB has no blocks of %u bytes", m->block_size);
    uint64_t list_at = (uint64_t)map * m->block_size, list_size = (uint64_t)blocks_of(m, directory) * 4;
    if (directory > file.n || list_at > file.n || list_size > file.n - list_at)
        return err_at(e, ERR_TRUNCATED, (int64_t)file.n, "the PDB ends before its directory");
    const uint32_t *list = numbers(a, slice_of(file.p + list_at, list_size));
    slice raw;
    if (!list) return err_set(e, ERR_NO_MEMORY, "no memory for the directory of a PDB");
    int rc = gather(m, list, directory, a, &raw, e);
    return rc < 0 ? rc : read_directory(m, raw, a, e);
}

int sym_msf_stream(const sym_msf *m, uint32_t stream, arena *a, slice *out, err *e)
{
    *out = (slice){0};
    if (stream >= m->n_streams) return 0;
    return gather(m, m->blocks[stream], m->sizes[stream], a, out, e);
}
