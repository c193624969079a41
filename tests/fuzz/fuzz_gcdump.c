/* SPDX-License-Identifier: MIT */
/* fuzz_gcdump.c: the input is a stream of events, a .gcdump file or a graph as a worker writes it, behind a byte that
 * says which. Whatever comes, what is made of it can be walked, and its dominators add up. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/dominators.h"
#include "memory/gcdump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) abort();                                                                                          \
    } while (0)

static const graph_limits limits = {
    .nodes = 100000, .types = 10000, .roots = 10000, .edges = 200000, .memory = 64 << 20};

/* ---- what was made ----------------------------------------------------------------------------------------------- */

static void check_types(const graph *g)
{
    uint64_t count = 0, bytes = 0;
    for (uint32_t i = 0; i < graph_info_of(g)->types; i++) {
        graph_type t;
        graph_type_at(g, i, &t);
        REQUIRE(t.name.p[t.name.n] == 0 && t.module_name.p[t.module_name.n] == 0);
        count += t.count;
        bytes += t.bytes;
    }
    REQUIRE(count == graph_info_of(g)->nodes && bytes == graph_info_of(g)->bytes);
}

static void check_nodes(const graph *g)
{
    const graph_info *info = graph_info_of(g);
    uint64_t edges = 0;
    for (uint32_t i = 0; i < info->nodes; i++) {
        uint32_t n;
        const uint32_t *to = graph_targets(g, i, &n);
        REQUIRE(graph_type_of(g, i) < info->types);
        REQUIRE(graph_find(g, graph_address(g, i), false) == i);
        for (uint32_t k = 0; k < n; k++)
            REQUIRE(to[k] < info->nodes);
        edges += n;
    }
    REQUIRE(edges == info->edges);
}

static void check_tree(graph *g)
{
    err e = {0};
    graph_tiles tiles;
    graph_row rows[10];
    graph_tree *t = graph_tree_new(g, &e);
    graph_ways *w = graph_ways_new(g, &e);
    REQUIRE(t && w);
    uint64_t own = 0;
    uint32_t n = graph_info_of(g)->nodes, root, way[4];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = graph_dominator(t, i);
        REQUIRE((d == GRAPH_NONE) == (graph_distance(w, i) == GRAPH_NONE));
        if (d != GRAPH_NONE) REQUIRE(d == n || graph_retained(t, d) >= graph_retained(t, i));
        if (d != GRAPH_NONE) REQUIRE(graph_way(w, i, way, 4, &root) == graph_distance(w, i) + 1);
    }
    (void)graph_tree_top(t, GRAPH_NONE, GRAPH_NONE, rows, 10, NULL, NULL);
    REQUIRE(graph_tree_tiles(t, 100, 0, &tiles, &e) == 0);
    for (uint32_t i = 1; i < tiles.n; i++)
        own += tiles.rows[i].own;
    REQUIRE(own <= graph_tree_info_of(t)->reached_bytes);
    free(tiles.rows);
    graph_tree_unref(t);
    graph_ways_unref(w);
}

static void check(graph *g, bool totals)
{
    if (!g) return;
    check_nodes(g);
    if (totals) check_types(g);
    check_tree(g);
    graph_unref(g);
}

/* ---- the three inputs -------------------------------------------------------------------------------------------- */

typedef struct run {
    nt_tap *tap;
    nt_reader *r;
} run;

static int on_kind(void *arg, nt_kind *k)
{
    run *x = arg;
    k->user = x->tap->ops->kind(x->tap, k);
    k->muted = !k->user;
    return 0;
}

static int on_event(void *arg, const nt_event *ev)
{
    run *x = arg;
    x->tap->ops->event(x->tap, ev->kind->user, x->r, ev);
    return 0;
}

static void stream(slice in)
{
    err e = {0};
    gcdump_quality q;
    nt_options o = nt_options_default();
    gcdump *d = gcdump_new(&limits, &e);
    run x = {.tap = gcdump_tap(d)};
    x.r = nt_new(&o, &(nt_sink){.kind = on_kind, .event = on_event}, &x, &e);
    if (nt_feed(x.r, in.p, in.n, &e) >= 0) (void)nt_finish(x.r, &e);
    x.tap->ops->end(x.tap, x.r);
    err_clear(&e);
    check(gcdump_graph(d, &q, &e), true);
    nt_free(x.r);
    gcdump_unref(d);
}

static void file(slice in)
{
    err e = {0};
    gcdump_file_info info;
    check(gcdump_read(in, &limits, &info, &e), true);
}

static void written(slice in)
{
    err e = {0};
    int fd = memfd_create("graph", MFD_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, in.p, in.n) == (ssize_t)in.n) check(graph_open(fd, &e), false);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 1 << 20) return 0;
    slice in = slice_of(data + 1, size - 1);
    if (data[0] % 3 == 0)
        stream(in);
    else if (data[0] % 3 == 1)
        file(in);
    else
        written(in);
    return 0;
}
