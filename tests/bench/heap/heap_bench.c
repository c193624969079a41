/* SPDX-License-Identifier: MIT */
/* heap_bench: what lunette says of a heap, in the words of tests/live/heap_peer (ClrMD), so that the two can be
 * compared line by line, and their times. heap_bench WHAT FILE_OR_PID [THREADS]; WHAT: types, segments, roots, edges,
 * graph. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "memory/heap.h"
#include "memory/heap_fields.h"

static int by_mt(const void *a, const void *b)
{
    const heap_type *x = *(heap_type *const *)a, *y = *(heap_type *const *)b;
    return x->mt < y->mt ? -1 : x->mt > y->mt;
}

static void print_types(heap *h)
{
    heap_types *ty = heap_types_in(h);
    size_t n = heap_types_count(ty);
    const heap_type **v = calloc(n + 1, sizeof *v);
    for (size_t i = 0; v && i < n; i++)
        v[i] = heap_type_at(ty, i);
    if (v) qsort(v, n, sizeof *v, by_mt);
    for (size_t i = 0; v && i < n; i++) {
        char name[8192];
        heap_sum s = heap_type_sum(v[i]);
        dac_method_table mt = {0};
        const heap_module *m = dac_get_method_table(heap_dac(h), v[i]->mt, &mt) ? heap_module_of(h, mt.module) : NULL;
        if (!s.count) continue;
        printf("%" PRIx64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%x\n", v[i]->mt, s.count, s.bytes,
               heap_type_text(h, v[i]->mt, name, sizeof name), m && m->path.n ? (const char *)m->path.p : "", mt.token);
    }
    free(v);
}

static void print_segments(heap *h)
{
    size_t n;
    const heap_region *r = heap_regions(h, &n);
    for (size_t i = 0; i < n; i++)
        printf("%u\t%s\t%" PRIx64 "\t%" PRIx64 "\t%" PRIu64 "\t%" PRIu64 "\n", r[i].heap, heap_gen_name(r[i].gen),
               r[i].start, r[i].end, r[i].objects, r[i].object_bytes);
}

static void print_roots(heap *h, const graph *g)
{
    size_t n, n_ready;
    char name[8192];
    const heap_root *r = heap_roots(h, &n);
    for (size_t i = 0; i < n; i++) {
        uint32_t node = graph_find(g, r[i].target, r[i].flags & GRAPH_INTERIOR);
        printf("root\t%s\t%" PRIx64 "\t%" PRIx64 "\t%d\t%d\n", graph_root_kind_name(r[i].kind),
               node == GRAPH_NONE ? r[i].target : graph_address(g, node), r[i].slot, (r[i].flags & GRAPH_INTERIOR) != 0,
               (r[i].flags & GRAPH_PINNED) != 0);
    }
    const heap_handle *x = heap_handles(h, &n);
    for (size_t i = 0; i < n; i++)
        printf("handle\t%s\t%" PRIx64 "\t%" PRIx64 "\t%" PRIx64 "\n", heap_handle_name(x[i].type), x[i].object,
               x[i].secondary, x[i].handle);
    const uint64_t *q = heap_finalizers(h, &n, &n_ready);
    for (size_t i = 0; i < n; i++) {
        uint32_t t = heap_type_of_object(h, q[i]);
        if (t != GRAPH_NONE) heap_type_text(h, heap_type_at(heap_types_in(h), t)->mt, name, sizeof name);
        printf("%s\t%s\t%" PRIx64 "\n", i < n_ready ? "freachable" : "finalizable", t == GRAPH_NONE ? "" : name, q[i]);
    }
    const heap_static *s = heap_statics(h, &n);
    for (size_t i = 0; i < n; i++)
        printf("static\t%s\t%s\t%" PRIx64 "\t%" PRIx64 "\t%u\n", heap_type_text(h, s[i].mt, name, sizeof name),
               s[i].name, s[i].target, s[i].slot, s[i].thread);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_edges(const graph *g)
{
    uint64_t *v = NULL;
    for (uint32_t i = 0; i < graph_info_of(g)->nodes; i++) {
        uint32_t n = 0;
        const uint32_t *to = graph_targets(g, i, &n);
        printf("%" PRIx64, graph_address(g, i));
        uint64_t *more = realloc(v, (n + 1) * sizeof *v);
        if (!more) break;
        v = more;
        for (uint32_t k = 0; k < n; k++)
            v[k] = graph_address(g, to[k]);
        qsort(v, n, sizeof *v, by_value);
        for (uint32_t k = 0; k < n; k++)
            printf("\t%" PRIx64, v[k]);
        printf("\n");
    }
    free(v);
}

static int fail(const err *e)
{
    fprintf(stderr, "%s: %s %s\n", err_kind_name(e->kind), e->message, e->hint);
    return 1;
}

static void tell(void *arg, const char *what)
{
    if (getenv("HEAP_BENCH_VERBOSE")) fprintf(stderr, "%.3f\t%s\n", (double)(mono_ns() - *(int64_t *)arg) / 1e9, what);
}

static double seconds_since(int64_t t0) { return (double)(mono_ns() - t0) / 1e9; }

int main(int argc, char **argv)
{
    if (argc < 3)
        return fprintf(stderr, "heap_bench types|totals|segments|roots|edges|graph FILE_OR_PID [THREADS]\n"), 2;
    err e = {0};
    mem_target *t = NULL;
    dac *d = NULL;
    heap *h = NULL;
    graph *g = NULL;
    heap_options o = {.threads = argc > 3 ? (unsigned)atoi(argv[3]) : 0,
                      .stacks = true,
                      .fork = getenv("HEAP_BENCH_FORK") != NULL,
                      .count = strcmp(argv[1], "totals") == 0};
    char *end;
    long pid = strtol(argv[2], &end, 10);
    int64_t t0 = mono_ns();
    o.progress = tell;
    o.arg = &t0;
    int rc = *end ? mem_open_core(argv[2], NULL, &t, &e) : mem_open_live((pid_t)pid, 0, &t, &e);
    if (rc < 0 || dac_open(t, NULL, &d, &e) < 0 || heap_open(d, &o, &h, &e) < 0) return fail(&e);
    double opened = seconds_since(t0);
    size_t n, k;
    heap_region *r = heap_regions(h, &n);
    const heap_context *c = heap_contexts(h, &k);
    bool whole = strcmp(argv[1], "edges") == 0 || strcmp(argv[1], "roots") == 0 || strcmp(argv[1], "graph") == 0;
    rc = o.count ? heap_totals_of(h, &g, &e)
         : whole ? heap_graph_of(h, strcmp(argv[1], "graph") == 0, NULL, NULL, &g, &e)
                 : heap_walk_stats(heap_types_in(h), r, n, c, k, o.threads ? o.threads : 2, &e);
    if (rc < 0) return fail(&e);
    double walked = seconds_since(t0) - opened;
    if (o.count || strcmp(argv[1], "types") == 0) print_types(h);
    if (strcmp(argv[1], "segments") == 0) print_segments(h);
    if (strcmp(argv[1], "roots") == 0) print_roots(h, g);
    if (strcmp(argv[1], "edges") == 0) print_edges(g);
    fflush(stdout);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    const heap_facts *f = heap_facts_of(h);
    fprintf(stderr,
            "seconds\t%.3f\nopened\t%.3f\nwalked\t%.3f\npeak_bytes\t%ld\nstop_ms\t%.3f\ncopy_ms\t%.3f\nroots_ms\t%."
            "3f\nexpected_ms\t%.3f\nheld\t%" PRIu64 "\n",
            seconds_since(t0), opened, walked, u.ru_maxrss * 1024, (double)f->stop_ns / 1e6,
            (double)f->stop_copy_ns / 1e6, (double)f->stop_roots_ns / 1e6, (double)f->estimate_ns / 1e6, f->bytes_held);
    if (g) {
        const graph_info *i = graph_info_of(g);
        fprintf(stderr, "nodes\t%u\nedges\t%" PRIu64 "\nroots\t%u\ndangling\t%" PRIu64 "\ndangling_roots\t%u\n",
                i->nodes, i->edges, i->roots, i->dangling_edges, i->dangling_roots);
    }
    for (size_t i = 0; heap_note(h, i); i++)
        fprintf(stderr, "note\t%s\n", heap_note(h, i));
    for (size_t i = 0; mem_note(t, i); i++)
        fprintf(stderr, "note\t%s\n", mem_note(t, i));
    graph_unref(g);
    heap_close(h);
    dac_close(d);
    mem_close(t);
    return 0;
}
