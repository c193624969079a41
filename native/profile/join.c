/* SPDX-License-Identifier: MIT */
/* join.c: two profiles beside each other: methods joined by name, and both trees in one. */
#include <stdlib.h>

#include "profile/profile_internal.h"

static int no_memory(err *e) { return err_set(e, ERR_NO_MEMORY, "no memory to compare two profiles"); }

/* ---- methods by name --------------------------------------------------------------------------------------------- */

/* Two kinds of frame of one name are one method of two builds; an address is none. */
typedef struct names {
    const profile *p;
    uint32_t *cells, slots; /* frame + 1 */
    uint32_t *next;         /* by frame: another one of the same name, + 1 */
} names;

static uint64_t hash_name(const profile_frame *f) { return hash_bytes(f->method, hash_bytes(f->module, 7)); }

static bool same_name(const profile_frame *a, const profile_frame *b)
{
    return slice_eq(a->method, b->method) && slice_eq(a->module, b->module);
}

static uint32_t cell_of(const names *n, const profile_frame *f)
{
    uint32_t k = (uint32_t)hash_name(f) & (n->slots - 1);
    while (n->cells[k] && !same_name(&n->p->frames[n->cells[k] - 1], f))
        k = (k + 1) & (n->slots - 1);
    return k;
}

static void names_fini(names *n)
{
    free(n->cells);
    free(n->next);
}

static bool names_init(names *n, const profile *p)
{
    *n = (names){.p = p, .slots = 64};
    while (n->slots < 2 * (uint64_t)p->n_frames)
        n->slots *= 2;
    n->cells = mem_calloc(n->slots, sizeof *n->cells);
    n->next = mem_calloc(p->n_frames, sizeof *n->next);
    if (!n->cells || !n->next) {
        names_fini(n);
        return false;
    }
    for (uint32_t i = 0; i < p->n_frames; i++) {
        uint32_t k = cell_of(n, &p->frames[i]);
        n->next[i] = n->cells[k];
        n->cells[k] = i + 1;
    }
    return true;
}

/* The first frame of that name, + 1; 0: none. */
static uint32_t find(const names *n, const profile_frame *f) { return n->cells[cell_of(n, f)]; }

int profile_join(const profile *before, const profile *after, profile_pair **pairs, uint32_t *n, err *e)
{
    *n = 0;
    *pairs = mem_alloc(((size_t)before->n_frames + after->n_frames + 1) * sizeof **pairs);
    names old;
    bool *met = mem_calloc((size_t)before->n_frames + 1, sizeof *met);
    if (!*pairs || !met || !names_init(&old, before)) {
        free(met);
        free(*pairs);
        *pairs = NULL;
        return no_memory(e);
    }
    for (uint32_t i = 1; i < after->n_frames; i++) {
        if (after->frames[i].counts.inclusive <= 0) continue;
        uint32_t was = find(&old, &after->frames[i]);
        while (was && (met[was - 1] || before->frames[was - 1].counts.inclusive <= 0))
            was = old.next[was - 1];
        if (was) met[was - 1] = true;
        (*pairs)[(*n)++] = (profile_pair){.before = was ? was - 1 : PF_NONE, .after = i};
    }
    for (uint32_t i = 1; i < before->n_frames; i++)
        if (!met[i] && before->frames[i].counts.inclusive > 0)
            (*pairs)[(*n)++] = (profile_pair){.before = i, .after = PF_NONE};
    names_fini(&old);
    free(met);
    return 0;
}

/* ---- one tree of both -------------------------------------------------------------------------------------------- */

static slice keep(profile *p, slice text)
{
    const char *copy = arena_str(&p->a, text);
    return copy ? slice_of(copy, text.n) : SLICE_LIT("");
}

/* A frame of another profile as one more of p. Modules and namespaces keep the other's numbers, moved by these. */
static void copy_frame(profile *p, const profile_frame *f, uint32_t modules, uint32_t groups, uint32_t namespaces)
{
    profile_frame *to = &p->frames[p->n_frames++];
    *to = *f;
    to->module = keep(p, f->module);
    to->method = keep(p, f->method);
    if (f->type.n) to->type = slice_of(to->method.p + (f->type.p - f->method.p), f->type.n);
    if (f->name.n) to->name = slice_of(to->method.p + (f->name.p - f->method.p), f->name.n);
    to->signature = keep(p, f->signature);
    to->n_addresses = 0;
    to->addresses = NULL;
    if (f->module_index != PF_NONE) to->module_index += modules;
    to->group += groups;
    to->namespace_index += namespaces;
    to->wait = -1;
}

/* Groups of the second profile join those of the first by name; numbers by which both can be looked up. */
static bool copy_lists(profile *p, const profile *a, const profile *b)
{
    p->n_modules = a->n_modules + b->n_modules;
    p->n_groups = a->n_groups + b->n_groups;
    p->n_namespaces = a->n_namespaces + b->n_namespaces;
    p->modules = mem_calloc(p->n_modules + 1, sizeof *p->modules);
    p->groups = arena_alloc(&p->a, (p->n_groups + 1) * sizeof *p->groups);
    p->namespaces = arena_alloc(&p->a, (p->n_namespaces + 1) * sizeof *p->namespaces);
    if (!p->modules || !p->groups || !p->namespaces) return false;
    for (uint32_t i = 0; i < p->n_modules; i++) {
        profile_module *m = &p->modules[i];
        *m = i < a->n_modules ? a->modules[i] : b->modules[i - a->n_modules];
        m->name = keep(p, m->name);
        m->path = keep(p, m->path);
        m->pdb_path = keep(p, m->pdb_path);
    }
    for (uint32_t i = 0; i < p->n_groups; i++)
        p->groups[i] = keep(p, i < a->n_groups ? a->groups[i] : b->groups[i - a->n_groups]);
    for (uint32_t i = 0; i < p->n_namespaces; i++)
        p->namespaces[i] = keep(p, i < a->n_namespaces ? a->namespaces[i] : b->namespaces[i - a->n_namespaces]);
    return true;
}

/* The first of equal texts stands for all of them, so that groups of both profiles are one. */
static bool unify(const slice *texts, uint32_t n, uint32_t *to)
{
    strtab *t = strtab_new(0, 0);
    uint32_t *first = mem_alloc((n + 1) * sizeof *first);
    bool ok = t && first;
    for (uint32_t i = 0; ok && i < n; i++) {
        uint32_t before = strtab_count(t), id = strtab_intern(t, texts[i]);
        ok = id != STRTAB_FULL;
        if (ok && id == before) first[id] = i;
        if (ok) to[i] = first[id];
    }
    strtab_free(t);
    free(first);
    return ok;
}

/* The frames of both; new_of: by frame of before. */
static bool copy_frames(profile *p, const profile *before, const profile *after, uint32_t *new_of)
{
    names now;
    p->frames = mem_calloc((size_t)before->n_frames + after->n_frames, sizeof *p->frames);
    uint32_t *group = mem_alloc((p->n_groups + 1) * sizeof *group);
    uint32_t *space = mem_alloc((p->n_namespaces + 1) * sizeof *space);
    bool ok = p->frames && group && space && names_init(&now, after);
    if (ok) {
        for (uint32_t i = 0; i < after->n_frames; i++)
            copy_frame(p, &after->frames[i], 0, 0, 0);
        for (uint32_t i = 0; i < before->n_frames; i++) {
            uint32_t is = find(&now, &before->frames[i]);
            new_of[i] = is ? is - 1 : p->n_frames;
            if (!is) copy_frame(p, &before->frames[i], after->n_modules, after->n_groups, after->n_namespaces);
        }
        names_fini(&now);
        ok = unify(p->groups, p->n_groups, group) && unify(p->namespaces, p->n_namespaces, space);
    }
    for (uint32_t i = 0; ok && i < p->n_frames; i++) {
        p->frames[i].group = group[p->frames[i].group];
        p->frames[i].namespace_index = space[p->frames[i].namespace_index];
    }
    free(group);
    free(space);
    return ok && !p->a.failed;
}

bool pf_copy_frames(profile *p, const profile *from, uint32_t more)
{
    static const profile nobody;
    p->frames = mem_calloc((size_t)from->n_frames + more, sizeof *p->frames);
    if (!p->frames || !copy_lists(p, from, &nobody)) return false;
    p->n_reasons = from->n_reasons;
    p->reasons = arena_alloc(&p->a, ((size_t)from->n_reasons + 1) * sizeof *p->reasons);
    for (int32_t i = 0; p->reasons && i < from->n_reasons; i++)
        p->reasons[i] = (const char *)keep(p, slice_str(from->reasons[i])).p;
    for (uint32_t i = 0; i < from->n_frames; i++) {
        copy_frame(p, &from->frames[i], 0, 0, 0);
        p->frames[i].wait = from->frames[i].wait;
    }
    return p->reasons && !p->a.failed;
}

/* Adds the nodes of a profile to a raw tree, its samples to this column and its weight to that. */
static bool add_tree(pf_raw *r, const profile *p, const uint32_t *frame_of, pf_column samples, pf_column weight)
{
    uint32_t *node = mem_calloc(p->n, sizeof *node);
    if (!node) return false;
    bool ok = true;
    for (uint32_t i = 0; ok && i < p->n; i++) {
        uint32_t frame = frame_of ? frame_of[p->frame[i]] : p->frame[i];
        if (i > 0) node[i] = pf_raw_child(r, node[p->parent[i]], frame);
        ok = node[i] != PF_NONE;
        if (!ok) break;
        r->own[samples][node[i]] += p->own[PF_SAMPLES][i];
        if (r->own[weight] && p->own[PF_WEIGHT]) r->own[weight][node[i]] += p->own[PF_WEIGHT][i];
    }
    free(node);
    return ok;
}

profile *profile_overlay(const profile *before, const profile *after, err *e)
{
    profile *p = pf_profile_new();
    uint32_t *new_of = mem_calloc((size_t)before->n_frames + 1, sizeof *new_of);
    pf_raw raw = {0};
    unsigned columns = 1u << PF_SAMPLES | 1u << PF_BEFORE;
    if (before->own[PF_WEIGHT] || after->own[PF_WEIGHT]) columns |= 1u << PF_WEIGHT | 1u << PF_BEFORE_WEIGHT;
    bool ok = p && new_of && copy_lists(p, after, before) && copy_frames(p, before, after, new_of) &&
              pf_raw_init(&raw, columns, after->n) && add_tree(&raw, after, NULL, PF_SAMPLES, PF_WEIGHT) &&
              add_tree(&raw, before, new_of, PF_BEFORE, PF_BEFORE_WEIGHT);
    if (ok) p->info = after->info;
    if (ok) p->info.memory = 0;
    ok = ok && pf_layout(p, &raw) && pf_count_frames(p);
    pf_raw_fini(&raw);
    free(new_of);
    if (!ok) {
        profile_unref(p);
        (void)no_memory(e);
        return NULL;
    }
    p->info.states = false;
    p->info.memory += sizeof *p + p->a.used + p->n_frames * sizeof *p->frames + p->n_modules * sizeof *p->modules;
    return p;
}
