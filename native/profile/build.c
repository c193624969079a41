/* SPDX-License-Identifier: MIT */
/* build.c: from the collected stacks of addresses to the tree of methods. */
#include <stdlib.h>

#include "base/clock.h"
#include "profile/profile_internal.h"

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

profile *pf_profile_new(void)
{
    profile *p = mem_calloc(1, sizeof *p);
    if (p) atomic_init(&p->refs, 1);
    return p;
}

profile *profile_ref(profile *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

void profile_unref(profile *p)
{
    if (!p || atomic_fetch_sub(&p->refs, 1) != 1) return;
    free(p->parent);
    free(p->size);
    free(p->frame);
    for (int c = 0; c < PF_COLUMNS; c++)
        free(p->own[c]);
    for (int c = 0; c < PF_SUMMED; c++)
        free(p->sum[c]);
    free(p->frames);
    free(p->modules);
    free(p->threads);
    free(p->types);
    arena_free(&p->a);
    free(p);
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

typedef struct work {
    profile_builder *b;
    profile *p;
    pf_namer *namer;
    pf_raw raw;
    uint64_t *own, *through; /* by step: samples */
    int64_t *first, *last;   /* by step: when; NULL: no name depends on it */
    uint32_t *node;          /* by step: in raw */
} work;

static void work_fini(work *w)
{
    pf_namer_free(w->namer);
    pf_raw_fini(&w->raw);
    free(w->own);
    free(w->through);
    free(w->first);
    free(w->last);
    free(w->node);
}

static bool sum_steps(work *w)
{
    const pf_store *s = &w->b->store;
    w->own = mem_calloc(s->n_steps, sizeof *w->own);
    w->through = mem_calloc(s->n_steps, sizeof *w->through);
    if (!w->own || !w->through) return false;
    for (uint32_t i = 0; i < s->n_counts; i++)
        w->own[s->counts[i].step] += s->counts[i].samples;
    memcpy(w->through, w->own, s->n_steps * sizeof *w->own);
    for (uint32_t i = s->n_steps; i-- > 1;)
        w->through[s->steps[i].parent] += w->through[i];
    return true;
}

static bool time_steps(work *w)
{
    const pf_store *s = &w->b->store;
    w->first = mem_alloc(s->n_steps * sizeof *w->first);
    w->last = mem_alloc(s->n_steps * sizeof *w->last);
    if (!w->first || !w->last) return false;
    for (uint32_t i = 0; i < s->n_steps; i++) {
        w->first[i] = INT64_MAX;
        w->last[i] = INT64_MIN;
    }
    for (uint32_t i = 0; i < s->n_counts; i++) {
        const pf_count *c = &s->counts[i];
        if (c->first < w->first[c->step]) w->first[c->step] = c->first;
        if (c->last > w->last[c->step]) w->last[c->step] = c->last;
    }
    for (uint32_t i = s->n_steps; i-- > 1;) {
        uint32_t up = s->steps[i].parent;
        if (w->first[i] < w->first[up]) w->first[up] = w->first[i];
        if (w->last[i] > w->last[up]) w->last[up] = w->last[i];
    }
    return true;
}

/* All addresses are looked up; the times of stacks are needed only when some method's name depends on them. */
static bool see_steps(work *w)
{
    const pf_store *s = &w->b->store;
    bool any = false, reused;
    for (uint32_t i = 1; i < s->n_steps; i++) {
        if (!pf_namer_see(w->namer, &s->steps[i], &reused)) return false;
        any = any || reused;
    }
    return !any || time_steps(w);
}

static unsigned columns_of(const profile_builder *b)
{
    unsigned columns = 1u << PF_SAMPLES;
    if (b->store.weighted) columns |= 1u << PF_WEIGHT;
    if (b->store.states) columns |= 1u << PF_RUNNING;
    if (b->store.states || b->cfg.n_waits) columns |= 1u << PF_WAITING;
    return columns;
}

static bool merge_steps(work *w)
{
    const pf_store *s = &w->b->store;
    w->node = mem_calloc(s->n_steps, sizeof *w->node);
    if (!w->node || !pf_raw_init(&w->raw, columns_of(w->b), s->n_steps / 2)) return false;
    for (uint32_t i = 1; i < s->n_steps; i++) {
        int64_t first = w->first ? w->first[i] : 0, last = w->last ? w->last[i] : 0;
        uint32_t frame = pf_namer_frame(w->namer, &s->steps[i], first, last, w->own[i], w->through[i]);
        if (frame == PF_NONE) return false;
        if (pf_namer_kind(w->namer, frame) == PROFILE_FRAME_UNRESOLVED) w->p->info.unresolved += w->own[i];
        uint32_t node = w->node[i] = pf_raw_child(&w->raw, w->node[s->steps[i].parent], frame);
        if (node == PF_NONE) return false;
    }
    return true;
}

/* The state of a sample: as told, or by the name of its leaf. */
static profile_state state_of(const work *w, const pf_count *c)
{
    if (w->p->info.kind != PROFILE_CPU) return PROFILE_UNKNOWN;
    profile_state told = pf_state_of(c->what);
    if (told != PROFILE_UNKNOWN) return told;
    return pf_namer_wait(w->namer, w->raw.frame[w->node[c->step]]) >= 0 ? PROFILE_WAITING : PROFILE_UNKNOWN;
}

static int more_samples(const void *a, const void *b)
{
    const profile_thread *x = a, *y = b;
    if (x->counts.inclusive != y->counts.inclusive) return x->counts.inclusive > y->counts.inclusive ? -1 : 1;
    return x->thread < y->thread ? -1 : x->thread > y->thread;
}

/* A weight in the unit of the profile. */
static int64_t weight_of(const profile_builder *b, uint64_t weight)
{
    if (!b->in_ticks || !b->have_trace || b->trace.frequency <= 0) return (int64_t)weight;
    return (int64_t)((__int128)weight * 1000000000 / b->trace.frequency);
}

static bool add_counts(work *w)
{
    const pf_store *s = &w->b->store;
    profile *p = w->p;
    pf_raw *r = &w->raw;
    p->threads = mem_calloc(s->n_threads ? s->n_threads : 1, sizeof *p->threads);
    if (!p->threads) return false;
    p->n_threads = s->n_threads;
    for (uint32_t i = 0; i < s->n_threads; i++)
        p->threads[i].thread = s->threads[i];
    uint64_t samples = 0;
    int64_t weight = 0;
    for (uint32_t i = 0; i < s->n_counts; i++) {
        const pf_count *c = &s->counts[i];
        uint32_t node = w->node[c->step];
        int64_t n = (int64_t)c->samples, heavy = weight_of(w->b, c->weight);
        profile_counts *t = &p->threads[c->thread].counts;
        profile_state state = state_of(w, c);
        r->own[PF_SAMPLES][node] += n;
        if (r->own[PF_WEIGHT]) r->own[PF_WEIGHT][node] += heavy;
        if (state == PROFILE_RUNNING) r->own[PF_RUNNING][node] += n;
        if (state == PROFILE_WAITING) r->own[PF_WAITING][node] += n;
        if (state == PROFILE_RUNNING) t->running += n, p->info.running += c->samples;
        if (state == PROFILE_WAITING) t->waiting += n, p->info.waiting += c->samples;
        t->inclusive = t->exclusive += n;
        t->inclusive_weight = t->exclusive_weight += heavy;
        samples += c->samples;
        weight += heavy;
    }
    /* those for which there was no room at all */
    r->own[PF_SAMPLES][0] += (int64_t)(s->samples - samples);
    if (w->b->in_ticks)
        p->info.weight = (uint64_t)weight;
    else if (r->own[PF_WEIGHT])
        r->own[PF_WEIGHT][0] += (int64_t)s->weight - weight;
    if (p->n_threads) qsort(p->threads, p->n_threads, sizeof *p->threads, more_samples);
    return true;
}

static int more_bytes(const void *a, const void *b)
{
    const profile_type *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (x->events != y->events) return x->events > y->events ? -1 : 1;
    size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
    int order = n ? memcmp(x->name.p, y->name.p, n) : 0;
    return order ? order : x->name.n < y->name.n ? -1 : x->name.n > y->name.n;
}

static bool give_types(work *w)
{
    const pf_store *s = &w->b->store;
    profile *p = w->p;
    p->types = mem_calloc(s->n_types ? s->n_types : 1, sizeof *p->types);
    if (!p->types) return false;
    p->n_types = s->n_types;
    for (uint32_t i = 0; i < s->n_types; i++) {
        const pf_type *t = &s->types[i];
        slice name = strtab_get(s->text, t->name);
        const char *copy = arena_str(&p->a, name);
        if (!copy) return false;
        p->types[i] = (profile_type){
            .name = slice_of(copy, name.n), .events = t->events, .bytes = t->bytes, .objects = t->objects};
        memcpy(p->types[i].by_kind, t->by_kind, sizeof t->by_kind);
    }
    if (p->n_types) qsort(p->types, p->n_types, sizeof *p->types, more_bytes);
    return true;
}

static bool give_reasons(work *w)
{
    const profile_builder *b = w->b;
    profile *p = w->p;
    p->n_reasons = (int32_t)b->cfg.n_waits;
    p->reasons = arena_alloc(&p->a, (b->cfg.n_waits ? b->cfg.n_waits : 1) * sizeof *p->reasons);
    for (size_t i = 0; p->reasons && i < b->cfg.n_waits; i++)
        if (!(p->reasons[i] = arena_str(&p->a, slice_str(b->cfg.waits[i].reason)))) return false;
    return p->reasons != NULL;
}

/* Samples whose stack is as deep as a runtime tells stacks. Steps stand behind their parents. */
static uint64_t full_stacks(const pf_store *s)
{
    uint8_t *depth = s->streamed ? mem_calloc(s->n_steps, 1) : NULL;
    uint64_t samples = 0;
    if (!depth) return 0;
    for (uint32_t i = 1; i < s->n_steps; i++)
        depth[i] = (uint8_t)(depth[s->steps[i].parent] + (depth[s->steps[i].parent] < UINT8_MAX));
    for (uint32_t i = 0; i < s->n_counts; i++)
        if (depth[s->counts[i].step] == PROFILE_RUNTIME_DEPTH) samples += s->counts[i].samples;
    free(depth);
    return samples;
}

static void fill_info(profile *p, const profile_builder *b)
{
    const pf_store *s = &b->store;
    p->info.kind = b->cfg.kind;
    p->info.samples = s->samples;
    p->info.weight = s->weight;
    p->info.no_stack = s->no_stack;
    p->info.dropped = s->dropped;
    p->info.cut = s->cut;
    p->info.full = full_stacks(s);
    p->info.external = s->by_type[1];
    p->info.managed = s->by_type[2];
    p->info.bad = b->bad;
    p->info.methods_dropped = clr_methods_dropped(b->methods);
    p->info.weighted = s->weighted;
    p->info.states = s->states;
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (uint32_t i = 0; i < s->n_counts; i++) {
        if (s->counts[i].first < first) first = s->counts[i].first;
        if (s->counts[i].last > last) last = s->counts[i].last;
    }
    if (first > last) return;
    p->info.first_ns = b->have_trace ? nt_ns(&b->trace, first) : first;
    p->info.last_ns = b->have_trace ? nt_ns(&b->trace, last) : last;
}

static void count_memory(profile *p)
{
    p->info.memory += sizeof *p + p->a.used + p->n_frames * sizeof *p->frames + p->n_modules * sizeof *p->modules +
                      p->n_threads * sizeof *p->threads + p->n_types * sizeof *p->types;
}

/* What the builder collected is not needed any more. */
static void let_go(profile_builder *b)
{
    pf_store_fini(&b->store);
    clr_methods_free(b->methods);
    clr_il_maps_free(b->il_maps);
    b->methods = NULL;
    b->il_maps = NULL;
}

/* The address of a step has no method, whatever the time. */
static bool is_unknown(const clr_methods *m, const pf_step *s)
{
    clr_method f;
    uint64_t before = s->ip ? s->ip - 1 : 0;
    return !pf_is_symbol(s->ip) && !clr_methods_reused(m, before) && !clr_methods_reused(m, s->ip) &&
           !clr_methods_find(m, before, INT64_MAX, &f) && !clr_methods_find(m, s->ip, INT64_MAX, &f);
}

void profile_unnamed_of(profile_builder *b, profile_unnamed *out)
{
    map64 seen = {0};
    clr_method f;
    *out = (profile_unnamed){0};
    pthread_mutex_lock(&b->lock);
    if (b->methods && !b->wanted && b->store.n_steps > 1) pf_builder_want(b);
    for (uint32_t i = 1; b->methods && i < b->store.n_steps; i++) {
        const pf_step *s = &b->store.steps[i];
        uint64_t had;
        if (map64_get(&seen, s->ip, &had)) continue;
        if (!map64_put(&seen, s->ip, 0)) break;
        if (!is_unknown(b->methods, s)) continue;
        out->unknown++;
        if (clr_methods_entry(b->methods, s->ip ? s->ip - 1 : 0, &f)) out->begun++;
    }
    if (b->methods) out->dropped = clr_methods_dropped(b->methods);
    pthread_mutex_unlock(&b->lock);
    map64_fini(&seen);
}

void profile_names_told(profile_builder *b)
{
    pthread_mutex_lock(&b->lock);
    b->told = true;
    pthread_mutex_unlock(&b->lock);
}

/* Under the lock. */
static profile *build(profile_builder *b, err *e)
{
    int64_t began = mono_ns();
    work w = {.b = b, .p = pf_profile_new()};
    bool ok = w.p != NULL;
    if (!b->wanted && b->store.n_steps > 1) pf_builder_want(b);
    if (ok) fill_info(w.p, b);
    ok = ok && (w.namer = pf_namer_new(w.p, b)) && sum_steps(&w) && see_steps(&w);
    int64_t named = mono_ns();
    ok = ok && merge_steps(&w) && add_counts(&w) && give_types(&w) && give_reasons(&w) && pf_namer_finish(w.namer);
    ok = ok && pf_layout(w.p, &w.raw) && pf_count_frames(w.p);
    work_fini(&w);
    if (!ok) {
        profile_unref(w.p);
        (void)err_set(e, ERR_NO_MEMORY, "no memory for the call tree");
        return NULL;
    }
    b->built = true;
    let_go(b);
    count_memory(w.p);
    w.p->info.name_ns = named - began;
    w.p->info.build_ns = mono_ns() - began;
    return w.p;
}

profile *profile_build(profile_builder *b, err *e)
{
    if (b->built) {
        (void)err_set(e, ERR_CONFLICT, "this profile has been built already");
        return NULL;
    }
    pthread_mutex_lock(&b->lock);
    profile *p = build(b, e);
    pthread_mutex_unlock(&b->lock);
    return p;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

const profile_info *profile_info_of(const profile *p) { return &p->info; }
uint32_t profile_nodes(const profile *p) { return p->n; }
uint32_t profile_frames(const profile *p) { return p->n_frames; }
const profile_frame *profile_frame_at(const profile *p, uint32_t i) { return &p->frames[i]; }
uint32_t profile_modules(const profile *p) { return p->n_modules; }
const profile_module *profile_module_at(const profile *p, uint32_t i) { return &p->modules[i]; }
uint32_t profile_groups(const profile *p) { return p->n_groups; }
slice profile_group_at(const profile *p, uint32_t i) { return p->groups[i]; }
uint32_t profile_namespaces(const profile *p) { return p->n_namespaces; }
slice profile_namespace_at(const profile *p, uint32_t i) { return p->namespaces[i]; }
uint32_t profile_threads(const profile *p) { return p->n_threads; }
const profile_thread *profile_thread_at(const profile *p, uint32_t i) { return &p->threads[i]; }
uint32_t profile_types(const profile *p) { return p->n_types; }
const profile_type *profile_type_at(const profile *p, uint32_t i) { return &p->types[i]; }
profile_counts profile_node_counts(const profile *p, uint32_t i) { return pf_counts(p, i); }

profile_node profile_node_at(const profile *p, uint32_t i)
{
    return (profile_node){.parent = p->parent[i],
                          .size = p->size[i],
                          .frame = p->frame[i],
                          .inclusive = p->sum[PF_SAMPLES][i],
                          .exclusive = p->own[PF_SAMPLES][i]};
}

bool profile_has_before(const profile *p) { return p->own[PF_BEFORE] != NULL; }

profile_counts profile_node_before(const profile *p, uint32_t i)
{
    profile_counts c = {0};
    if (!p->own[PF_BEFORE]) return c;
    c.inclusive = p->sum[PF_BEFORE][i];
    c.exclusive = p->own[PF_BEFORE][i];
    if (p->own[PF_BEFORE_WEIGHT]) {
        c.inclusive_weight = p->sum[PF_BEFORE_WEIGHT][i];
        c.exclusive_weight = p->own[PF_BEFORE_WEIGHT][i];
    }
    return c;
}

const char *profile_wait_reason(const profile *p, int32_t wait)
{
    return wait >= 0 && wait < p->n_reasons ? p->reasons[wait] : NULL;
}

bool profile_async_name(const profile *p, uint32_t frame, buf *out)
{
    slice owner, name;
    const profile_frame *f = &p->frames[frame];
    if (!pf_async_parts(f->type, f->name, &owner, &name)) return false;
    return buf_slice(out, owner) && buf_u8(out, '.') && buf_slice(out, name) && buf_str(out, "() [async]");
}
