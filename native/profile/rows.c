/* SPDX-License-Identifier: MIT */
/* rows.c: ranked lists of methods, modules and namespaces, the hot path, and methods by a part of their name. */
#include <stdlib.h>
#include <strings.h>

#include "profile/profile_internal.h"

static int no_memory(err *e) { return err_set(e, ERR_NO_MEMORY, "no memory for an answer from a profile"); }

/* ---- ranking ----------------------------------------------------------------------------------------------------- */

typedef struct ranking {
    profile_rank rank;
    bool states;
} ranking;

static int64_t worth(const ranking *r, const profile_counts *c)
{
    switch (r->rank) {
    case PROFILE_BY_INCLUSIVE: return c->inclusive;
    case PROFILE_BY_RUNNING: return r->states ? c->running : c->exclusive;
    case PROFILE_BY_WEIGHT: return c->exclusive_weight;
    case PROFILE_BY_INCLUSIVE_WEIGHT: return c->inclusive_weight;
    default: return c->exclusive;
    }
}

static int by_worth(const void *a, const void *b, void *arg)
{
    const profile_row *x = a, *y = b;
    int64_t v = worth(arg, &x->counts), w = worth(arg, &y->counts);
    if (v != w) return v > w ? -1 : 1;
    if (x->counts.inclusive != y->counts.inclusive) return x->counts.inclusive > y->counts.inclusive ? -1 : 1;
    if (x->counts.exclusive != y->counts.exclusive) return x->counts.exclusive > y->counts.exclusive ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

int pf_rank(const profile *p, const profile_counts *counts, uint32_t keys, profile_rank rank, uint32_t max,
            bool (*keep)(const profile *p, uint32_t key), profile_rows *out, err *e)
{
    *out = (profile_rows){0};
    for (uint32_t i = 0; i < keys; i++)
        if (counts[i].inclusive > 0 && (!keep || keep(p, i))) out->all++;
    out->rows = mem_alloc((out->all ? out->all : 1) * sizeof *out->rows);
    if (!out->rows) return no_memory(e);
    for (uint32_t i = 0; i < keys; i++)
        if (counts[i].inclusive > 0 && (!keep || keep(p, i)))
            out->rows[out->n++] = (profile_row){.key = i, .counts = counts[i]};
    ranking r = {.rank = rank, .states = p->info.states};
    qsort_r(out->rows, out->n, sizeof *out->rows, by_worth, &r);
    if (out->n > max) out->n = max;
    return 0;
}

static bool no_root(const profile *p, uint32_t frame) { return p->frames[frame].kind != PROFILE_FRAME_ROOT; }

int profile_top(const profile *p, profile_rank rank, uint32_t max, profile_rows *out, err *e)
{
    *out = (profile_rows){0};
    profile_counts *counts = mem_alloc((p->n_frames ? p->n_frames : 1) * sizeof *counts);
    if (!counts) return no_memory(e);
    for (uint32_t i = 0; i < p->n_frames; i++)
        counts[i] = p->frames[i].counts;
    int rc = pf_rank(p, counts, p->n_frames, rank, max, no_root, out, e);
    free(counts);
    return rc;
}

/* Rows of whatever the frames are put together by. The root is in no group, although its frame has a number there. */
static int by_group(const profile *p, uint32_t keys, const uint32_t *key_of, profile_rank rank, uint32_t max,
                    profile_rows *out, err *e)
{
    pf_tally t;
    if (!pf_tally_init(&t, keys)) return no_memory(e);
    for (uint32_t i = 1; i < p->n; i++)
        pf_tally_add(&t, p, key_of[p->frame[i]], i);
    int rc = pf_rank(p, t.counts, keys, rank, max, NULL, out, e);
    pf_tally_fini(&t);
    return rc;
}

int profile_by_module(const profile *p, profile_rank rank, uint32_t max, profile_rows *out, err *e)
{
    *out = (profile_rows){0};
    uint32_t *key = mem_alloc((p->n_frames ? p->n_frames : 1) * sizeof *key);
    if (!key) return no_memory(e);
    for (uint32_t i = 0; i < p->n_frames; i++)
        key[i] = p->frames[i].group;
    int rc = by_group(p, p->n_groups, key, rank, max, out, e);
    free(key);
    return rc;
}

int profile_by_namespace(const profile *p, profile_rank rank, uint32_t max, profile_rows *out, err *e)
{
    *out = (profile_rows){0};
    uint32_t *key = mem_alloc((p->n_frames ? p->n_frames : 1) * sizeof *key);
    if (!key) return no_memory(e);
    for (uint32_t i = 0; i < p->n_frames; i++)
        key[i] = p->frames[i].namespace_index;
    int rc = by_group(p, p->n_namespaces, key, rank, max, out, e);
    free(key);
    return rc;
}

/* ---- the hot path ------------------------------------------------------------------------------------------------ */

int profile_hot_path(const profile *p, double threshold_percent, profile_rows *out, err *e)
{
    *out = (profile_rows){0};
    uint32_t cap = 0;
    for (uint32_t at = 0; p->size[at] > 1;) {
        uint32_t child = at + 1; /* the heaviest comes first */
        int64_t here = p->sum[PF_SAMPLES][at], next = p->sum[PF_SAMPLES][child];
        if (next <= 0 || (double)next * 100 < threshold_percent * (double)here) break;
        if (out->n == cap) {
            cap = cap ? 2 * cap : 64;
            profile_row *grown = mem_realloc(out->rows, cap * sizeof *grown);
            if (!grown) {
                free(out->rows);
                *out = (profile_rows){0};
                return no_memory(e);
            }
            out->rows = grown;
        }
        out->rows[out->n++] = (profile_row){.key = child, .counts = pf_counts(p, child)};
        at = child;
    }
    out->all = out->n;
    return 0;
}

/* ---- by name ----------------------------------------------------------------------------------------------------- */

static bool contains(slice s, slice part, bool any_case)
{
    if (!any_case) return part.n <= s.n && memmem(s.p, s.n, part.p, part.n) != NULL;
    for (size_t i = 0; i + part.n <= s.n; i++)
        if (strncasecmp((const char *)s.p + i, (const char *)part.p, part.n) == 0) return true;
    return false;
}

/* Of "module!method", without putting it together where the text has no mark. */
static bool matches(const profile_frame *f, slice text, bool any_case)
{
    if (contains(f->method, text, any_case)) return true;
    const uint8_t *mark = memchr(text.p, '!', text.n);
    if (!mark) return false;
    slice module = slice_of(text.p, (size_t)(mark - text.p)), method = slice_of(mark + 1, text.n - module.n - 1);
    if (module.n > f->module.n || method.n > f->method.n) return false;
    const char *end = (const char *)f->module.p + f->module.n - module.n, *begin = (const char *)f->method.p;
    if (any_case)
        return strncasecmp(end, (const char *)module.p, module.n) == 0 &&
               strncasecmp(begin, (const char *)method.p, method.n) == 0;
    return memcmp(end, module.p, module.n) == 0 && memcmp(begin, method.p, method.n) == 0;
}

int profile_match(const profile *p, slice text, uint32_t max, profile_rows *out, err *e)
{
    *out = (profile_rows){0};
    profile_counts *counts = mem_calloc(p->n_frames ? p->n_frames : 1, sizeof *counts);
    if (!counts) return no_memory(e);
    bool any = false;
    for (int any_case = 0; any_case < 2 && !any && text.n > 0; any_case++)
        for (uint32_t i = 1; i < p->n_frames; i++) {
            if (p->frames[i].counts.inclusive <= 0 || !matches(&p->frames[i], text, any_case)) continue;
            counts[i] = p->frames[i].counts;
            any = true;
        }
    int rc = pf_rank(p, counts, p->n_frames, PROFILE_BY_INCLUSIVE, max, no_root, out, e);
    free(counts);
    return rc;
}

/* ---- callers and callees ----------------------------------------------------------------------------------------- */

int profile_edges_of(const profile *p, uint32_t frame, uint32_t max, profile_edges *out, err *e)
{
    *out = (profile_edges){0};
    if (frame == 0 || frame >= p->n_frames)
        return err_set(e, ERR_NOT_FOUND, "there is no method number %u in this profile", frame);
    pf_tally callers = {0}, callees = {0};
    int rc = pf_tally_init(&callers, p->n_frames) && pf_tally_init(&callees, p->n_frames) ? 0 : no_memory(e);
    for (uint32_t i = 1; rc == 0 && i < p->n; i++) {
        uint32_t up = p->parent[i];
        if (p->frame[i] == frame) pf_tally_add(&callers, p, p->frame[up], i); /* own samples: the focus's */
        if (p->frame[up] == frame) pf_tally_add(&callees, p, p->frame[i], i);
    }
    out->focus = p->frames[frame].counts;
    if (rc == 0) rc = pf_rank(p, callers.counts, p->n_frames, PROFILE_BY_INCLUSIVE, max, NULL, &out->callers, e);
    if (rc == 0) rc = pf_rank(p, callees.counts, p->n_frames, PROFILE_BY_INCLUSIVE, max, NULL, &out->callees, e);
    pf_tally_fini(&callers);
    pf_tally_fini(&callees);
    if (rc < 0) profile_edges_fini(out);
    return rc;
}

void profile_edges_fini(profile_edges *x)
{
    free(x->callers.rows);
    free(x->callees.rows);
    *x = (profile_edges){0};
}
