/* SPDX-License-Identifier: MIT */
/* graph_index.c: addresses to nodes in about two cache misses. Where objects lie, memory is cut into chunks of a few
 * objects each; a table says which node is the first of each chunk. */
#include <stdlib.h>

#include "memory/graph_internal.h"

#define SPAN_GAP      (UINT64_C(1) << 20) /* an emptier place ends a span: it has no chunks */
#define CHUNK_SHIFT   8                   /* 256 bytes: about four objects */
#define CHUNKS_A_NODE 4                   /* a sparse heap gets bigger chunks, so that the table stays small */

static size_t count_spans(const uint64_t *address, uint32_t n)
{
    size_t spans = n ? 1 : 0;
    for (uint32_t i = 1; i < n; i++)
        spans += address[i] - address[i - 1] > SPAN_GAP;
    return spans;
}

static void set_spans(graph_index *x)
{
    graph_span *s = x->spans;
    for (uint32_t i = 0; i < x->n; i++) {
        bool begins = i == 0 || x->address[i] - x->address[i - 1] > SPAN_GAP;
        if (begins && i) s++;
        if (begins) s->base = x->address[i];
        s->end = x->address[i];
    }
}

/* Chunks of a shift, the closing one of each span included; sets where each span's begin. */
static uint64_t lay_chunks(graph_index *x, unsigned shift)
{
    uint64_t total = 0;
    for (size_t i = 0; i < x->n_spans; i++) {
        graph_span *s = &x->spans[i];
        s->chunk = total;
        total += (s->end >> shift) - (s->base >> shift) + 2;
    }
    return total;
}

static void fill_chunks(graph_index *x)
{
    uint32_t node = 0;
    for (size_t i = 0; i < x->n_spans; i++) {
        const graph_span *s = &x->spans[i];
        uint64_t from = s->base >> x->shift, to = s->end >> x->shift;
        for (uint64_t c = from; c <= to; c++) {
            x->chunks[s->chunk + (c - from)] = node;
            while (node < x->n && x->address[node] <= s->end && x->address[node] >> x->shift == c)
                node++;
        }
        x->chunks[s->chunk + (to - from) + 1] = node;
    }
}

int graph__index_build(graph_index *x, const uint64_t *address, uint32_t n, err *e)
{
    *x = (graph_index){.address = address, .n = n, .shift = CHUNK_SHIFT, .n_spans = count_spans(address, n)};
    if (n == 0) return 0;
    x->spans = mem_calloc(x->n_spans, sizeof *x->spans);
    if (!x->spans) return err_set(e, ERR_NO_MEMORY, "no memory to sort %u objects", n);
    set_spans(x);
    uint64_t total = lay_chunks(x, x->shift), most = (uint64_t)CHUNKS_A_NODE * n + 2 * x->n_spans;
    while (total > most)
        total = lay_chunks(x, ++x->shift);
    x->chunks = mem_alloc(total * sizeof *x->chunks);
    if (!x->chunks) {
        graph__index_fini(x);
        return err_set(e, ERR_NO_MEMORY, "no memory to sort %u objects", n);
    }
    fill_chunks(x);
    return 0;
}

void graph__index_fini(graph_index *x)
{
    free(x->spans);
    free(x->chunks);
    *x = (graph_index){0};
}

static const graph_span *span_of(graph_index *x, uint64_t address)
{
    const graph_span *s = x->spans + x->last;
    if (address >= s->base && address <= s->end) return s;
    size_t lo = 0, hi = x->n_spans;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (x->spans[mid].end < address)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == x->n_spans || address < x->spans[lo].base) return NULL;
    x->last = lo;
    return x->spans + lo;
}

uint32_t graph__index_find(graph_index *x, uint64_t address)
{
    if (x->n == 0) return GRAPH_NONE;
    const graph_span *s = span_of(x, address);
    if (!s) return GRAPH_NONE;
    const uint32_t *c = x->chunks + s->chunk + ((address >> x->shift) - (s->base >> x->shift));
    uint32_t lo = c[0], hi = c[1];
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (x->address[mid] < address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < c[1] && x->address[lo] == address ? lo : GRAPH_NONE;
}
