/* SPDX-License-Identifier: MIT */
/* graph_file.c: a graph as a file, from a worker to the server. The layout is this version's own and never kept:
 *     header, address u64[nodes], big, types, roots, first u32[nodes + 1], edge u32[edges], type, size u32[nodes], text
 * in which each array begins at a multiple of 8. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/graph_internal.h"

#define MAGIC UINT64_C(0x3248505247454e4c) /* "LNEGRPH2" */

typedef struct header {
    uint64_t magic, bytes; /* of the whole file */
    graph_info info;
    uint64_t n_big, n_text;
} header;

typedef struct part {
    void **at;
    uint64_t n;
    size_t item;
} part;
#define PARTS 9

static void list_parts(graph *g, part out[PARTS])
{
    const graph_info *i = &g->info;
    part parts[PARTS] = {
        {(void **)&g->address, i->nodes, sizeof *g->address},
        {(void **)&g->big, g->n_big, sizeof *g->big},
        {(void **)&g->types, i->types, sizeof *g->types},
        {(void **)&g->roots, i->roots, sizeof *g->roots},
        {(void **)&g->first, i->nodes + UINT64_C(1), 4},
        {(void **)&g->edge, i->edges, 4},
        {(void **)&g->type, i->nodes, 4},
        {(void **)&g->size, i->nodes, 4},
        {(void **)&g->text, g->n_text, 1},
    };
    memcpy(out, parts, sizeof parts);
}

static uint64_t padded(uint64_t n) { return (n + 7) & ~UINT64_C(7); }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int put(int fd, const void *p, size_t n, err *e)
{
    const char *c = p;
    while (n) {
        ssize_t k = write(fd, c, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return err_sys(e, ERR_IO, k < 0 ? errno : ENOSPC, "the graph of objects cannot be written");
        c += k;
        n -= (size_t)k;
    }
    return 0;
}

int graph_write(const graph *g, int fd, err *e)
{
    graph copy = {.info = g->info,
                  .address = g->address,
                  .type = g->type,
                  .size = g->size,
                  .first = g->first,
                  .edge = g->edge,
                  .big = g->big,
                  .types = g->types,
                  .roots = g->roots,
                  .text = g->text,
                  .n_big = g->n_big,
                  .n_text = g->n_text};
    part parts[PARTS];
    list_parts(&copy, parts);
    header h = {.magic = MAGIC, .bytes = padded(sizeof h), .info = g->info, .n_big = g->n_big, .n_text = g->n_text};
    for (int i = 0; i < PARTS; i++)
        h.bytes += padded(parts[i].n * parts[i].item);
    if (lseek(fd, 0, SEEK_SET) < 0 || ftruncate(fd, 0) < 0)
        return err_sys(e, ERR_IO, errno, "the graph of objects cannot be written");
    static const char zeros[8];
    int rc = put(fd, &h, sizeof h, e);
    if (rc == 0) rc = put(fd, zeros, padded(sizeof h) - sizeof h, e);
    for (int i = 0; rc == 0 && i < PARTS; i++) {
        uint64_t n = parts[i].n * parts[i].item;
        rc = put(fd, *parts[i].at, n, e);
        if (rc == 0) rc = put(fd, zeros, padded(n) - n, e);
    }
    return rc;
}

uint64_t graph_written(int fd)
{
    uint64_t head[2];
    return pread(fd, head, sizeof head, 0) == sizeof head && head[0] == MAGIC ? head[1] : 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int broken(const char *what, err *e) { return err_set(e, ERR_MALFORMED, "a graph of objects: %s", what); }

static bool sealed(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && seals & F_SEAL_WRITE && seals & F_SEAL_SHRINK;
}

static int take(graph *g, int fd, err *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return err_sys(e, ERR_IO, errno, "a graph of objects");
    if (st.st_size < (off_t)sizeof(header))
        return err_set(e, ERR_TRUNCATED, "a graph of objects: shorter than its header");
    g->map_len = (size_t)st.st_size;
    if (sealed(fd)) {
        void *p = mmap(NULL, g->map_len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            return err_sys(e, ERR_NO_MEMORY, errno, "a graph of %zu bytes cannot be mapped", g->map_len);
        g->map = p;
        g->mapped = true;
        return 0;
    }
    g->map = mem_alloc(g->map_len);
    if (!g->map) return err_set(e, ERR_NO_MEMORY, "no memory for a graph of %zu bytes", g->map_len);
    for (size_t at = 0; at < g->map_len;) {
        ssize_t k = pread(fd, (char *)g->map + at, g->map_len - at, (off_t)at);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return err_sys(e, ERR_IO, k < 0 ? errno : EIO, "a graph of objects cannot be read");
        at += (size_t)k;
    }
    return 0;
}

static int place(graph *g, err *e)
{
    header h;
    memcpy(&h, g->map, sizeof h);
    if (h.magic != MAGIC) return broken("not written by this version", e);
    if (h.bytes > g->map_len || h.bytes < padded(sizeof h) || h.info.nodes > GRAPH_MAX_NODES ||
        h.info.edges > GRAPH_MAX_EDGES || h.info.types > GRAPH_MAX_TYPES || h.info.roots > GRAPH_MAX_ROOTS ||
        h.n_big > h.info.nodes || h.n_text > 2 * GRAPH_MAX_TEXT || h.n_text == 0)
        return broken("impossible figures", e);
    g->info = h.info;
    g->n_big = h.n_big;
    g->n_text = h.n_text;
    part parts[PARTS];
    list_parts(g, parts);
    uint64_t at = padded(sizeof h);
    for (int i = 0; i < PARTS; i++) {
        uint64_t n = padded(parts[i].n * parts[i].item);
        if (n > h.bytes - at) return broken("an array goes past its end", e);
        *parts[i].at = (char *)g->map + at;
        at += n;
    }
    return 0;
}

/* What was only counted adds up by type. */
static int check_totals(const graph *g, err *e)
{
    const graph_info *i = &g->info;
    uint64_t count = 0, bytes = 0;
    if (i->nodes || i->edges || i->roots) return broken("objects beside counted ones", e);
    for (uint32_t k = 0; k < i->types; k++) {
        const graph_stored_type *t = &g->types[k];
        if (t->bytes > GRAPH_MAX_BYTES || t->count > t->bytes) return broken("a type of impossible sizes", e);
        count += t->count;
        bytes += t->bytes;
        if (bytes > GRAPH_MAX_BYTES) return broken("types of impossible sizes", e);
    }
    return count == i->objects && bytes == i->bytes ? 0 : broken("types that do not add up", e);
}

static int check_nodes(const graph *g, err *e)
{
    const graph_info *i = &g->info;
    if (i->totals_only) return check_totals(g, e);
    if (i->objects != i->nodes) return broken("objects that are no nodes", e);
    uint64_t big = 0, bytes = 0;
    if (g->first[0] != 0 || g->first[i->nodes] != i->edges) return broken("references outside of their array", e);
    for (uint32_t n = 0; n < i->nodes; n++) {
        if (n && g->address[n] <= g->address[n - 1]) return broken("objects not in order", e);
        if (g->type[n] >= i->types || g->first[n] > g->first[n + 1]) return broken("an object without a type", e);
        if (g->size[n] != GRAPH_SIZE_BIG) {
            bytes += g->size[n];
            continue;
        }
        if (big >= g->n_big || g->big[big].node != n) return broken("an object without a size", e);
        if (g->big[big].size > GRAPH_MAX_BYTES) return broken("an object of an impossible size", e);
        bytes += g->big[big++].size;
        if (bytes > GRAPH_MAX_BYTES) return broken("objects of impossible sizes", e);
    }
    if (bytes != i->bytes) return broken("sizes that do not add up", e);
    for (uint64_t k = 0; k < i->edges; k++)
        if (g->edge[k] >= i->nodes) return broken("a reference to nowhere", e);
    return 0;
}

static int check_tables(const graph *g, err *e)
{
    if (g->text[g->n_text - 1] != 0) return broken("text without an end", e);
    for (uint32_t i = 0; i < g->info.types; i++) {
        const graph_stored_type *t = &g->types[i];
        if (t->name >= g->n_text || t->module_name >= g->n_text || t->module_path >= g->n_text)
            return broken("a type without a name", e);
    }
    for (uint32_t i = 0; i < g->info.roots; i++) {
        const graph_stored_root *r = &g->roots[i];
        if (r->node >= g->info.nodes || r->name >= g->n_text || r->kind >= GRAPH_ROOT_KIND_COUNT)
            return broken("a root of nothing", e);
    }
    return 0;
}

graph *graph_open(int fd, err *e)
{
    graph *g = graph__new();
    if (!g) {
        (void)err_set(e, ERR_NO_MEMORY, "no memory for a graph of objects");
        return NULL;
    }
    int rc = take(g, fd, e);
    if (rc == 0) rc = place(g, e);
    if (rc == 0) rc = check_nodes(g, e);
    if (rc == 0) rc = check_tables(g, e);
    if (rc == 0) return g;
    graph_unref(g);
    return NULL;
}
