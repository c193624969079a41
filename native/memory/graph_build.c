/* SPDX-License-Identifier: MIT */
/* graph_build.c: objects and references as they come, by address; sorting and resolving is graph_seal.c's. */
#include "memory/graph_build.h"

#include <stdlib.h>

#define FIRST_CAP 1024

graph_builder *graph_builder_new(const graph_limits *lim, err *e)
{
    graph_builder *b = mem_calloc(1, sizeof *b);
    if (b) b->texts = strtab_new(0, GRAPH_MAX_TEXT);
    if (!b || !b->texts || strtab_intern(b->texts, slice_str("")) != 0) {
        graph_builder_free(b);
        (void)err_set(e, ERR_NO_MEMORY, "no memory for a graph of objects");
        return NULL;
    }
    if (lim) b->lim = *lim;
#define CAP(member, cap)                                                                                               \
    if (b->lim.member == 0 || b->lim.member > (cap)) b->lim.member = (cap)
    CAP(nodes, GRAPH_MAX_NODES);
    CAP(types, GRAPH_MAX_TYPES);
    CAP(roots, GRAPH_MAX_ROOTS);
    CAP(edges, GRAPH_MAX_EDGES);
#undef CAP
    if (b->lim.memory == 0) b->lim.memory = GRAPH_MAX_MEMORY;
    return b;
}

void graph__builder_drop(graph_builder *b)
{
    free(b->address);
    free(b->type);
    free(b->size);
    free(b->degree);
    free(b->target);
    free(b->big);
    free(b->types);
    free(b->roots);
    free(b->deps);
    b->address = b->target = NULL;
    b->type = b->size = b->degree = NULL;
    b->big = NULL;
    b->types = NULL;
    b->roots = NULL;
    b->deps = NULL;
    map64_fini(&b->by_id);
    strtab_free(b->texts);
    b->texts = NULL;
}

void graph_builder_free(graph_builder *b)
{
    if (!b) return;
    graph__builder_drop(b);
    free(b);
}

/* Room for one more of n in an array of cap items. */
static bool grow(graph_builder *b, void **p, size_t *cap, uint64_t n, size_t item)
{
    if (n < *cap) return true;
    size_t next = *cap ? *cap + *cap / 2 : FIRST_CAP;
    size_t more = (next - *cap) * item;
    if (b->memory + more > b->lim.memory) {
        b->over_memory = true;
        return false;
    }
    void *q = mem_realloc(*p, next * item);
    if (!q) {
        b->no_memory = true;
        return false;
    }
    b->memory += more;
    *p = q;
    *cap = next;
    return true;
}
#define GROW(b, member, cap, n) grow((b), (void **)&(b)->member, &(b)->cap, (n), sizeof *(b)->member)

static uint32_t text(graph_builder *b, slice s)
{
    if (s.n > GRAPH_NAME_MAX) {
        s.n = GRAPH_NAME_MAX;
        while (s.n && (s.p[s.n] & 0xC0) == 0x80)
            s.n--;
    }
    const uint8_t *nul = s.n ? memchr(s.p, 0, s.n) : NULL;
    if (nul) s.n = (size_t)(nul - s.p);
    uint32_t id = strtab_intern(b->texts, s);
    if (id != STRTAB_FULL) return id;
    b->dropped_texts++;
    return 0;
}

uint32_t graph_builder_type(graph_builder *b, uint64_t id)
{
    uint64_t known;
    if (b->n_types && b->last_id == id) return b->last_type;
    if (map64_get(&b->by_id, id, &known)) {
        b->last_id = id;
        b->last_type = (uint32_t)known;
        return b->last_type;
    }
    if (b->n_types >= b->lim.types || !GROW(b, types, cap_types, b->n_types)) return GRAPH_NONE;
    if (!map64_put(&b->by_id, id, b->n_types)) {
        b->no_memory = true;
        return GRAPH_NONE;
    }
    b->types[b->n_types] = (graph_stored_type){.id = id};
    b->last_id = id;
    b->last_type = b->n_types;
    return b->n_types++;
}

bool graph_builder_describe(graph_builder *b, uint32_t type, const graph_type_text *t)
{
    if (type >= b->n_types) return false;
    uint64_t dropped = b->dropped_texts;
    graph_stored_type *s = &b->types[type];
    s->name = text(b, t->name);
    s->module_name = text(b, t->module_name);
    s->module_path = text(b, t->module_path);
    s->token = t->token;
    s->flags = t->flags & ~(unsigned)GRAPH_TYPE_UNNAMED;
    s->has_mvid = t->mvid != NULL;
    if (t->mvid) memcpy(s->mvid, t->mvid, sizeof s->mvid);
    return dropped == b->dropped_texts;
}

static bool room_for_node(graph_builder *b)
{
    return GROW(b, address, cap_address, b->n_nodes) && GROW(b, type, cap_type, b->n_nodes) &&
           GROW(b, size, cap_size, b->n_nodes) && GROW(b, degree, cap_degree, b->n_nodes);
}

bool graph_builder_counted_node(graph_builder *b, uint64_t address, uint32_t type, uint64_t size, uint32_t n_edges)
{
    bool big = size >= GRAPH_SIZE_BIG;
    b->node_open = false;
    if (b->closed || b->totals || b->n_nodes >= b->lim.nodes || type >= b->n_types ||
        size > GRAPH_MAX_BYTES - b->bytes || !room_for_node(b) || (big && !GROW(b, big, cap_big, b->n_big))) {
        b->closed = true; /* a hole in the middle would give listed targets to other nodes */
        b->dropped_nodes++;
        return false;
    }
    uint32_t i = b->n_nodes++;
    b->address[i] = address;
    b->type[i] = type;
    b->size[i] = big ? GRAPH_SIZE_BIG : (uint32_t)size;
    b->degree[i] = n_edges;
    if (big) b->big[b->n_big++] = (graph_big){.node = i, .size = size};
    b->bytes += size;
    b->node_open = true;
    return true;
}

bool graph_builder_node(graph_builder *b, uint64_t address, uint32_t type, uint64_t size)
{
    return graph_builder_counted_node(b, address, type, size, 0);
}

bool graph_builder_totals(graph_builder *b, uint32_t type, uint64_t count, uint64_t bytes)
{
    if (b->n_nodes || type >= b->n_types || bytes > GRAPH_MAX_BYTES - b->bytes || count > bytes) {
        b->dropped_nodes += count;
        return false;
    }
    b->totals = true;
    b->types[type].count += count;
    b->types[type].bytes += bytes;
    b->n_counted += count;
    b->bytes += bytes;
    return true;
}

bool graph_builder_target(graph_builder *b, uint64_t target)
{
    if (b->n_targets >= b->lim.edges || !GROW(b, target, cap_target, b->n_targets)) {
        b->dropped_edges++;
        return false;
    }
    b->target[b->n_targets++] = target;
    return true;
}

void graph_builder_forget_targets(graph_builder *b)
{
    b->n_targets = 0;
    if (b->n_nodes) memset(b->degree, 0, b->n_nodes * sizeof *b->degree);
}

bool graph_builder_edge(graph_builder *b, uint64_t target)
{
    if (target == 0) return true;
    if (!b->node_open) {
        b->dropped_edges++;
        return false;
    }
    if (!graph_builder_target(b, target)) return false;
    b->degree[b->n_nodes - 1]++;
    return true;
}

bool graph_builder_dependent(graph_builder *b, uint64_t key, uint64_t target)
{
    if (key == 0 || target == 0) return true;
    if (b->n_targets + b->n_deps >= b->lim.edges || !GROW(b, deps, cap_deps, b->n_deps)) {
        b->dropped_edges++;
        return false;
    }
    b->deps[b->n_deps++] = (graph_dep){key, target};
    return true;
}

bool graph_builder_root(graph_builder *b, graph_root_kind kind, unsigned flags, uint64_t slot, uint64_t target,
                        slice name)
{
    if (target == 0) return true;
    if (b->n_roots >= b->lim.roots || !GROW(b, roots, cap_roots, b->n_roots)) {
        b->dropped_roots++;
        return false;
    }
    b->roots[b->n_roots++] = (graph_raw_root){.slot = slot,
                                              .target = target,
                                              .name = name.n ? text(b, name) : 0,
                                              .kind = (uint16_t)kind,
                                              .flags = (uint16_t)flags};
    return true;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

static bool append_types(graph_builder *dst, const graph_builder *src, uint32_t *to)
{
    for (uint32_t i = 0; i < src->n_types; i++) {
        const graph_stored_type *s = &src->types[i];
        to[i] = graph_builder_type(dst, s->id);
        if (to[i] == GRAPH_NONE) return false;
        if (!s->name || dst->types[to[i]].name) continue;
        const graph_type_text t = {strtab_get(src->texts, s->name),
                                   strtab_get(src->texts, s->module_name),
                                   strtab_get(src->texts, s->module_path),
                                   s->has_mvid ? s->mvid : NULL,
                                   s->token,
                                   s->flags};
        (void)graph_builder_describe(dst, to[i], &t);
    }
    return true;
}

static void append_nodes(graph_builder *dst, const graph_builder *src, const uint32_t *to)
{
    uint64_t at = 0, big = 0;
    for (uint32_t i = 0; i < src->n_nodes; i++) {
        uint64_t size = src->size[i] == GRAPH_SIZE_BIG ? src->big[big++].size : src->size[i];
        (void)graph_builder_node(dst, src->address[i], to[src->type[i]], size);
        for (uint32_t k = 0; k < src->degree[i]; k++)
            (void)graph_builder_edge(dst, src->target[at++]);
    }
}

bool graph_builder_append(graph_builder *dst, graph_builder *src, err *e)
{
    uint32_t *to = mem_alloc((src->n_types + 1) * sizeof *to);
    bool fine = to && append_types(dst, src, to);
    if (!fine) {
        free(to);
        (void)err_set(e, ERR_NO_MEMORY, "no memory to join two graphs of objects");
        return false;
    }
    append_nodes(dst, src, to);
    for (uint64_t i = 0; i < src->n_deps; i++)
        (void)graph_builder_dependent(dst, src->deps[i].key, src->deps[i].target);
    for (uint32_t i = 0; i < src->n_roots; i++) {
        const graph_raw_root *r = &src->roots[i];
        (void)graph_builder_root(dst, (graph_root_kind)r->kind, r->flags, r->slot, r->target,
                                 strtab_get(src->texts, r->name));
    }
    dst->dropped_nodes += src->dropped_nodes;
    dst->dropped_edges += src->dropped_edges;
    dst->dropped_roots += src->dropped_roots;
    free(to);
    graph_limits lim = src->lim;
    graph__builder_drop(src);
    *src = (graph_builder){.lim = lim, .texts = strtab_new(0, GRAPH_MAX_TEXT)};
    if (src->texts) (void)strtab_intern(src->texts, slice_str(""));
    return true;
}

void graph_builder_progress(const graph_builder *b, graph_building *out)
{
    *out = (graph_building){.nodes = b->n_nodes,
                            .types = b->n_types,
                            .roots = b->n_roots,
                            .edges = b->n_targets,
                            .bytes = b->bytes,
                            .memory = b->memory};
}
