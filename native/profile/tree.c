/* SPDX-License-Identifier: MIT */
/* tree.c: a bounded part of the tree, merged from any number of places in it and in either direction. A node of the
 * answer stands for a set of nodes of the tree; its children are found only when it gets into the answer, and of all
 * that wait for a place the heaviest comes next. */
#include <stdlib.h>

#include "profile/profile_internal.h"

/* A node of the tree in a set: where it stands, and whose samples it is there for (upside down: of the node at which
 * the walk began; else of itself). */
typedef struct place {
    uint32_t at, of;
} place;

typedef struct group {
    uint32_t frame, parent, depth;
    uint32_t from, n;              /* of places */
    uint32_t children, n_children; /* groups; they follow each other */
    uint32_t shown;                /* in the answer, from 1; 0: not */
    uint32_t hidden;               /* children that are too deep */
    profile_counts counts;
} group;

typedef struct walk {
    const profile *p;
    const profile_tree_query *q;
    bool own; /* upside down from every leaf: only samples of the beginning itself count */
    place *places;
    uint32_t n_places, cap_places;
    group *groups;
    uint32_t n_groups, cap_groups;
    uint32_t *heap, n_heap, cap_heap;
    uint32_t *slot; /* by frame: group of the expansion that is going on, + 1 */
} walk;

static bool room(void **array, uint32_t need, uint32_t *cap, size_t each)
{
    if (need <= *cap) return true;
    uint32_t to = *cap + *cap / 2;
    if (to < need) to = need < 256 ? 256 : need;
    void *grown = mem_realloc(*array, to * each);
    if (!grown) return false;
    *array = grown;
    *cap = to;
    return true;
}

static int64_t worth(const walk *w, uint32_t g)
{
    const profile_counts *c = &w->groups[g].counts;
    return w->q->by_weight ? c->inclusive_weight : c->inclusive;
}

/* Is a to come before b? */
static bool before(const walk *w, uint32_t a, uint32_t b)
{
    int64_t x = worth(w, a), y = worth(w, b);
    return x != y ? x > y : a < b;
}

static bool push(walk *w, uint32_t g)
{
    if (!room((void **)&w->heap, w->n_heap + 1, &w->cap_heap, sizeof *w->heap)) return false;
    uint32_t at = w->n_heap++;
    for (; at > 0 && before(w, g, w->heap[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = g;
    return true;
}

static uint32_t pop(walk *w)
{
    uint32_t top = w->heap[0], last = w->heap[--w->n_heap], at = 0;
    for (uint32_t kid; (kid = 2 * at + 1) < w->n_heap; at = kid) {
        if (kid + 1 < w->n_heap && before(w, w->heap[kid + 1], w->heap[kid])) kid++;
        if (!before(w, w->heap[kid], last)) break;
        w->heap[at] = w->heap[kid];
    }
    w->heap[at] = last;
    return top;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

/* What a place brings: upside down, all below the node at which the walk began (or its own samples only). */
static profile_counts counts_of(const walk *w, place x)
{
    profile_counts c = pf_counts(w->p, x.of);
    if (!w->own) return c;
    c.inclusive = c.exclusive;
    c.inclusive_weight = c.exclusive_weight;
    return c;
}

static void add(profile_counts *to, profile_counts c)
{
    to->inclusive += c.inclusive;
    to->inclusive_weight += c.inclusive_weight;
    to->exclusive += c.exclusive;
    to->exclusive_weight += c.exclusive_weight;
    to->running += c.running;
    to->waiting += c.waiting;
}

/* Upside down a caller's own samples are those of stacks that begin there. */
static void count_place(const walk *w, group *g, place x)
{
    profile_counts c = counts_of(w, x);
    if (w->q->callers && g->depth > (w->own ? 1 : 0)) {
        bool entry = w->p->parent[x.at] == 0;
        c.exclusive = entry ? c.inclusive : 0;
        c.exclusive_weight = entry ? c.inclusive_weight : 0;
        if (!entry) c.running = c.waiting = 0;
    }
    add(&g->counts, c);
}

/* ---- expansion --------------------------------------------------------------------------------------------------- */

/* Calls fn for each next place of a group. False: fn did. */
static bool each_next(walk *w, const group *g, bool (*fn)(walk *, place, void *), void *arg)
{
    const profile *p = w->p;
    for (uint32_t i = 0; i < g->n; i++) {
        place x = w->places[g->from + i];
        if (!w->q->callers) {
            for (uint32_t c = x.at + 1; c < x.at + p->size[x.at]; c += p->size[c])
                if (!fn(w, (place){c, c}, arg)) return false;
        } else if (p->parent[x.at] != 0) {
            if (!fn(w, (place){p->parent[x.at], x.of}, arg)) return false;
        }
    }
    return true;
}

/* First pass: a group for each frame, and how many places it has. */
static bool note(walk *w, place x, void *arg)
{
    uint32_t frame = w->p->frame[x.at];
    if (!w->slot[frame]) {
        if (!room((void **)&w->groups, w->n_groups + 1, &w->cap_groups, sizeof *w->groups)) return false;
        uint32_t parent = *(const uint32_t *)arg;
        w->groups[w->n_groups] = (group){.frame = frame, .parent = parent, .depth = w->groups[parent].depth + 1};
        w->slot[frame] = ++w->n_groups;
    }
    w->groups[w->slot[frame] - 1].n++;
    return true;
}

/* Second pass: the places themselves. */
static bool fill(walk *w, place x, void *arg)
{
    (void)arg;
    group *g = &w->groups[w->slot[w->p->frame[x.at]] - 1];
    w->places[g->from + g->n++] = x;
    count_place(w, g, x);
    return true;
}

/* Makes the children of a group, and lets them wait for a place. */
static bool expand(walk *w, uint32_t at)
{
    uint32_t first = w->n_groups;
    group g = w->groups[at];
    bool ok = each_next(w, &g, note, &at);
    uint64_t more = 0;
    for (uint32_t i = first; i < w->n_groups; i++) {
        w->groups[i].from = w->n_places + (uint32_t)more;
        more += w->groups[i].n;
        w->groups[i].n = 0;
    }
    ok = ok && w->n_places + more < UINT32_MAX / 2 &&
         room((void **)&w->places, w->n_places + (uint32_t)more, &w->cap_places, sizeof *w->places);
    if (ok) {
        w->n_places += (uint32_t)more;
        (void)each_next(w, &g, fill, NULL);
    }
    for (uint32_t i = first; i < w->n_groups; i++)
        w->slot[w->groups[i].frame] = 0;
    w->groups[at].children = first;
    w->groups[at].n_children = w->n_groups - first;
    for (uint32_t i = first; ok && i < w->n_groups; i++)
        ok = push(w, i);
    return ok;
}

/* ---- where it begins --------------------------------------------------------------------------------------------- */

static bool begin_at(walk *w, place x, group *g)
{
    if (!room((void **)&w->places, w->n_places + 1, &w->cap_places, sizeof *w->places)) return false;
    w->places[w->n_places++] = x;
    g->n++;
    count_place(w, g, x);
    return true;
}

/* The set of the root: the root itself; of a frame its outermost nodes; upside down from the root every node with
 * samples of its own (whose groups are the first level). */
static bool begin(walk *w)
{
    const profile *p = w->p;
    group g = {.frame = w->q->root_frame};
    if (!room((void **)&w->groups, 1, &w->cap_groups, sizeof *w->groups)) return false;
    if (w->q->root_frame == 0) {
        if (!begin_at(w, (place){0, 0}, &g)) return false;
    } else {
        for (uint32_t i = 1; i < p->n;) {
            bool hit = p->frame[i] == w->q->root_frame;
            if (hit && !begin_at(w, (place){i, i}, &g)) return false;
            i += hit ? p->size[i] : 1;
        }
        /* its own samples in recursion lie below the outermost nodes */
    }
    w->groups[0] = g;
    w->n_groups = 1;
    return true;
}

static bool begin_leaves(walk *w)
{
    const profile *p = w->p;
    uint32_t root = 0;
    w->own = true;
    for (uint32_t i = 1; i < p->n; i++)
        if (p->own[PF_SAMPLES][i] > 0 && !note(w, (place){i, i}, &root)) return false;
    uint32_t n = 0;
    for (uint32_t i = 1; i < w->n_groups; i++) {
        w->groups[i].from = n;
        n += w->groups[i].n;
        w->groups[i].n = 0;
    }
    if (!room((void **)&w->places, n, &w->cap_places, sizeof *w->places)) return false;
    w->n_places = n;
    for (uint32_t i = 1; i < p->n; i++)
        if (p->own[PF_SAMPLES][i] > 0) (void)fill(w, (place){i, i}, NULL);
    w->groups[0].children = 1;
    w->groups[0].n_children = w->n_groups - 1;
    for (uint32_t i = 1; i < w->n_groups; i++) {
        w->slot[w->groups[i].frame] = 0;
        if (!push(w, i)) return false;
    }
    return true;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static int heavier(const void *a, const void *b, void *arg)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    const walk *w = arg;
    int64_t v = worth(w, x), u = worth(w, y);
    if (v != u) return v > u ? -1 : 1;
    return w->groups[x].frame < w->groups[y].frame ? -1 : w->groups[x].frame > w->groups[y].frame;
}

/* The groups that were taken, in preorder. */
static bool answer(walk *w, uint32_t taken, profile_tree *out)
{
    out->nodes = mem_alloc(taken * sizeof *out->nodes);
    uint32_t *waiting = mem_alloc((taken + 1) * sizeof *waiting), *row = mem_alloc((taken + 1) * sizeof *row);
    bool ok = out->nodes && waiting && row;
    uint32_t n = 0;
    if (ok) waiting[n++] = 0;
    while (ok && n > 0) {
        uint32_t at = waiting[--n], kids = 0;
        group *g = &w->groups[at];
        g->shown = out->n + 1;
        for (uint32_t i = 0; i < g->n_children; i++)
            if (w->groups[g->children + i].shown) row[kids++] = g->children + i;
        qsort_r(row, kids, sizeof *row, heavier, w);
        for (uint32_t i = kids; i > 0; i--)
            waiting[n++] = row[i - 1];
        out->nodes[out->n++] = (profile_tree_node){.frame = g->frame,
                                                   .parent = at ? w->groups[g->parent].shown - 1 : 0,
                                                   .depth = g->depth,
                                                   .counts = g->counts,
                                                   .left_out = g->n_children - kids + g->hidden};
    }
    free(waiting);
    free(row);
    return ok;
}

/* How many children a group that is not opened has. */
static bool tell_left(walk *w, place x, void *arg)
{
    uint32_t frame = w->p->frame[x.at], *n = arg;
    if (w->slot[frame]) return true;
    w->slot[frame] = 1;
    ++*n;
    return true;
}

static bool forget_left(walk *w, place x, void *arg)
{
    (void)arg;
    w->slot[w->p->frame[x.at]] = 0;
    return true;
}

static bool take(walk *w, uint32_t max_depth, uint32_t max_nodes, profile_tree *out)
{
    uint32_t taken = 1; /* the root */
    bool ok = true;
    w->groups[0].shown = 1;
    if (w->q->callers && w->q->root_frame == 0)
        ok = begin_leaves(w);
    else if (max_depth > 0)
        ok = expand(w, 0);
    while (ok && w->n_heap > 0 && taken < max_nodes) {
        uint32_t g = pop(w);
        w->groups[g].shown = 1;
        taken++;
        if (w->groups[g].depth < max_depth) {
            ok = expand(w, g);
            continue;
        }
        group at = w->groups[g];
        (void)each_next(w, &at, tell_left, &w->groups[g].hidden);
        (void)each_next(w, &at, forget_left, NULL);
        out->truncated = out->truncated || w->groups[g].hidden > 0;
    }
    out->truncated = out->truncated || w->n_heap > 0;
    return ok && answer(w, taken, out);
}

int profile_tree_of(const profile *p, const profile_tree_query *q, profile_tree *out, err *e)
{
    *out = (profile_tree){0};
    if (q->root_frame >= p->n_frames)
        return err_set(e, ERR_NOT_FOUND, "there is no method number %u in this profile", q->root_frame);
    uint32_t depth = q->max_depth && q->max_depth < PROFILE_TREE_DEPTH ? q->max_depth : PROFILE_TREE_DEPTH;
    uint32_t nodes = q->max_nodes && q->max_nodes < PROFILE_TREE_NODES ? q->max_nodes : PROFILE_TREE_NODES;
    walk w = {.p = p, .q = q, .slot = mem_calloc(p->n_frames, sizeof *w.slot)};
    bool ok = w.slot && begin(&w) && take(&w, depth, nodes, out);
    free(w.places);
    free(w.groups);
    free(w.heap);
    free(w.slot);
    if (ok) return 0;
    free(out->nodes);
    *out = (profile_tree){0};
    return err_set(e, ERR_NO_MEMORY, "no memory for a call tree");
}
