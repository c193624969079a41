/* SPDX-License-Identifier: MIT */
/* builder.c: what a stream's events mean for a profile, and samples of others. Runs on the reader's thread. */
#include <stddef.h>
#include <stdlib.h>

#include "profile/profile_internal.h"

#define SAMPLER "Microsoft-DotNETCore-SampleProfiler"
#define RUNTIME "Microsoft-Windows-DotNETRuntime"
#define RUNDOWN "Microsoft-Windows-DotNETRuntimeRundown"

#define METHODS_MAX_BYTES ((size_t)64 << 20)
#define TYPE_NAME_MAX     ((size_t)4096) /* bytes of UTF-16 */
/* AllocationSampled: each byte is drawn with this probability (docs of the runtime: one in 100 KiB). */
#define DRAWN (1.0 / 102400)
/* All weights together stay below this, so that no sum of them overflows; an event that would pass it is damaged. */
#define WEIGHT_MAX (UINT64_C(1) << 62)
/* No object is larger than what a program can address; more comes from a damaged stream. */
#define AMOUNT_MAX ((uint64_t)1 << 47)

typedef enum use_of { OF_METHODS, OF_IL, OF_SAMPLE, OF_TICK, OF_DRAWN } use_of;

struct pf_use {
    use_of of;
    int code; /* of the map of methods or of IL maps */
    bool rundown;
    int heap, amount, type; /* fields of an allocation; -1: not in this version */
};

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void builder_free(profile_builder *b)
{
    if (b->resolve_release) b->resolve_release(b->resolve_arg);
    pf_store_fini(&b->store);
    clr_methods_free(b->methods);
    clr_il_maps_free(b->il_maps);
    free(b->seen);
    free(b->last);
    arena_free(&b->a);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

profile_builder *profile_builder_ref(profile_builder *b)
{
    atomic_fetch_add(&b->refs, 1);
    return b;
}

void profile_builder_unref(profile_builder *b)
{
    if (b && atomic_fetch_sub(&b->refs, 1) == 1) builder_free(b);
}

static bool copy_waits(profile_builder *b)
{
    size_t n = b->cfg.n_waits;
    if (n == 0) return true;
    b->waits = arena_alloc(&b->a, n * sizeof *b->waits);
    profile_wait *copy = arena_alloc(&b->a, n * sizeof *copy);
    if (!b->waits || !copy) return false;
    for (size_t i = 0; i < n; i++) {
        slice name = slice_str(b->cfg.waits[i].name);
        bool prefix = name.n > 0 && name.p[name.n - 1] == '*';
        copy[i].name = arena_str(&b->a, name);
        copy[i].reason = arena_str(&b->a, slice_str(b->cfg.waits[i].reason));
        if (!copy[i].name || !copy[i].reason) return false;
        b->waits[i] = (pf_wait_rule){
            .name = slice_of(copy[i].name, name.n - (prefix ? 1 : 0)), .prefix = prefix, .reason = (int32_t)i};
        for (size_t k = 0; k < i; k++)
            if (strcmp(copy[k].reason, copy[i].reason) == 0 && b->waits[i].reason == (int32_t)i)
                b->waits[i].reason = b->waits[k].reason;
    }
    b->cfg.waits = copy;
    return true;
}

/* ---- the tap ----------------------------------------------------------------------------------------------------- */

static profile_builder *of_tap(nt_tap *t) { return (profile_builder *)t; }
static void tap_ref(nt_tap *t) { (void)profile_builder_ref(of_tap(t)); }
static void tap_unref(nt_tap *t) { profile_builder_unref(of_tap(t)); }

static profile_builder *of_names(nt_tap *t)
{
    return (profile_builder *)(void *)((char *)t - offsetof(profile_builder, names));
}
static void names_ref(nt_tap *t) { (void)profile_builder_ref(of_names(t)); }
static void names_unref(nt_tap *t) { profile_builder_unref(of_names(t)); }

static int field_of(const nt_kind *k, const char *name)
{
    return k->schema ? nt_field_index(k->schema, slice_str(name)) : -1;
}

static bool is_kind(const nt_kind *k, const char *provider, uint32_t id)
{
    return k->id == id && slice_eq_str(k->provider, provider);
}

/* What a kind tells of methods; code 0: nothing. */
static pf_use names_use(const nt_kind *k)
{
    pf_use u = {.of = OF_METHODS, .code = clr_methods_kind(k), .heap = -1, .amount = -1, .type = -1};
    u.rundown = slice_eq_str(k->provider, RUNDOWN);
    if (!u.code && (u.code = clr_il_maps_kind(k)) != 0) u.of = OF_IL;
    return u;
}

static pf_use *keep_use(profile_builder *b, const pf_use *u)
{
    pthread_mutex_lock(&b->lock);
    pf_use *kept = arena_dup(&b->a, u, sizeof *u);
    if (!kept) b->bad++;
    pthread_mutex_unlock(&b->lock);
    return kept;
}

static void *names_kind(nt_tap *t, nt_kind *k)
{
    pf_use u = names_use(k);
    return u.code ? keep_use(of_names(t), &u) : NULL;
}

static void *tap_kind(nt_tap *t, nt_kind *k)
{
    profile_builder *b = of_tap(t);
    pf_use u = names_use(k);
    if (u.code) {
        /* as it is */
    } else if (b->cfg.kind == PROFILE_CPU && is_kind(k, SAMPLER, 0)) {
        u.of = OF_SAMPLE;
    } else if (b->cfg.kind == PROFILE_ALLOCATION && is_kind(k, RUNTIME, b->cfg.sampled ? 303 : 10)) {
        u.of = b->cfg.sampled ? OF_DRAWN : OF_TICK;
        u.heap = field_of(k, "AllocationKind");
        u.type = field_of(k, "TypeName");
        u.amount = field_of(k, b->cfg.sampled ? "ObjectSize" : "AllocationAmount64");
        if (u.amount < 0) u.amount = field_of(k, "AllocationAmount");
    } else {
        return NULL;
    }
    return keep_use(b, &u);
}

void pf_builder_want(profile_builder *b)
{
    const pf_store *s = &b->store;
    uint64_t none = 0, *ips = NULL;
    size_t n = 0;
    map64 seen = {0};
    bool ok = true;
    for (uint32_t i = 1; ok && i < s->n_steps; i++)
        if (!pf_is_symbol(s->steps[i].ip)) ok = map64_put(&seen, s->steps[i].ip, 0);
    if (ok && seen.n) ips = mem_alloc(seen.n * 2 * sizeof *ips);
    size_t it = 0;
    uint64_t ip, value;
    while (ips && map64_next(&seen, &it, &ip, &value)) {
        ips[n++] = ip;
        ips[n++] = ip ? ip - 1 : 0; /* a return address may lie behind the end of its method */
    }
    map64_fini(&seen);
    if (ok) (void)clr_methods_want(b->methods, ips ? ips : &none, ips ? n : 1);
    free(ips);
    b->wanted = true;
}

static void take_method(profile_builder *b, const pf_use *u, const nt_event *ev)
{
    /* Before the first row of the rundown, which may be one of a hundred thousand. It is the last thing of a stream; if
     * nothing has come yet, this one is different, and all are kept. */
    if (u->rundown && !b->began) {
        b->began = true;
        if (b->store.n_steps > 1) pf_builder_want(b);
    }
    if (clr_methods_event(b->methods, u->code, ev) == -ERR_LIMIT) {
        pf_builder_want(b); /* gives the room of all others back */
        (void)clr_methods_event(b->methods, u->code, ev);
    }
}

/* Without room frames have no lines: what it dropped is counted there. */
static void take_il_map(profile_builder *b, const pf_use *u, const nt_event *ev)
{
    if (!b->il_maps) b->il_maps = clr_il_maps_new(0);
    if (b->il_maps) (void)clr_il_maps_event(b->il_maps, u->code, ev);
}

/* On the thread of another session: which addresses matter is known only once the stacks have all come. */
static void names_event(nt_tap *t, void *use, const nt_reader *r, const nt_event *ev)
{
    profile_builder *b = of_names(t);
    const pf_use *u = use;
    (void)r;
    pthread_mutex_lock(&b->lock);
    if (b->methods && u->of == OF_METHODS) {
        if (atomic_load(&b->ended) && !b->wanted) pf_builder_want(b);
        (void)clr_methods_event(b->methods, u->code, ev);
    } else if (b->methods) {
        take_il_map(b, u, ev);
    }
    pthread_mutex_unlock(&b->lock);
}

static void names_end(nt_tap *t, const nt_reader *r)
{
    (void)t;
    (void)r;
}

static uint32_t thread_of(profile_builder *b, uint64_t thread)
{
    if (b->thread_index == PF_NONE || b->thread != thread) {
        b->thread_index = pf_store_thread(&b->store, thread);
        b->thread = thread;
    }
    return b->thread_index;
}

/* The stack of an event; 0 (and counted) when it has none or finds no room. */
static uint32_t step_of(profile_builder *b, const nt_reader *r, const nt_event *ev, bool exact)
{
    const nt_trace *t = nt_trace_info(r);
    uint32_t pointer = t && t->pointer_size == 4 ? 4 : 8;
    slice ips = nt_stack(r, ev);
    if (ips.n < pointer) return 0;
    if (ips.n / pointer > PROFILE_DEPTH_MAX) b->store.cut++;
    b->store.streamed = true;
    return pf_store_stack(&b->store, ips, pointer, exact);
}

/* What is remembered of a stack's number; NULL: nothing can be. */
static pf_seen *seen_of(profile_builder *b, uint32_t stack)
{
    if (stack >= PF_SEEN_MAX) return NULL;
    while (stack >= b->cap_seen) {
        uint32_t had = b->cap_seen;
        if (!pf_store_room(&b->store, (void **)&b->seen, had, &b->cap_seen, sizeof *b->seen, 1024)) return NULL;
        memset(b->seen + had, 0, (b->cap_seen - had) * sizeof *b->seen);
    }
    return &b->seen[stack];
}

static void totals(profile_builder *b, uint64_t samples, uint64_t weight, uint32_t step)
{
    pf_store *s = &b->store;
    s->samples += samples;
    s->weight += weight;
    if (step == 0) s->no_stack += samples;
    if (step == PF_NONE) s->dropped += samples;
    atomic_store_explicit(&b->seen_samples, s->samples, memory_order_relaxed);
    atomic_store_explicit(&b->seen_stacks, s->stacks, memory_order_relaxed);
    atomic_store_explicit(&b->seen_threads, s->n_threads, memory_order_relaxed);
    atomic_store_explicit(&b->seen_memory, s->memory, memory_order_relaxed);
}

/* One sample at a step. PF_NONE: it found no place, and is the root's (whoever builds the tree adds what is missing to
 * the sum). */
static uint32_t count(profile_builder *b, uint32_t step, uint64_t thread, uint32_t what, uint64_t samples,
                      uint64_t weight, int64_t time)
{
    uint32_t t = thread_of(b, thread);
    totals(b, samples, weight, t == PF_NONE ? PF_NONE : step);
    if (t == PF_NONE) return PF_NONE;
    return pf_store_count(&b->store, step == PF_NONE ? 0 : step, t, what, samples, weight, time);
}

/* The time since the thread's last sample is that one's. */
static void pass_time(profile_builder *b, const nt_reader *r, uint32_t thread, uint32_t at, int64_t ts)
{
    if (thread == PF_NONE) return;
    while (thread >= b->cap_last) {
        uint32_t had = b->cap_last;
        if (!pf_store_room(&b->store, (void **)&b->last, had, &b->cap_last, sizeof *b->last, 64)) return;
        memset(b->last + had, 0, (b->cap_last - had) * sizeof *b->last);
    }
    if (!b->gap_max) {
        const nt_trace *t = nt_trace_info(r);
        int64_t frequency = t && t->frequency > 0 ? t->frequency : 1000000000;
        b->gap_max = (int64_t)((__int128)frequency * PROFILE_GAP_MAX_NS / 1000000000);
    }
    pf_last *l = &b->last[thread];
    int64_t gap = l->count && ts > l->time ? (int64_t)((uint64_t)ts - (uint64_t)l->time) : 0;
    if (gap < 0 || gap > b->gap_max) gap = b->gap_max;
    if ((uint64_t)gap > WEIGHT_MAX - b->store.weight) gap = 0;
    if (gap > 0) b->store.counts[l->count - 1].weight += (uint64_t)gap;
    b->store.weight += (uint64_t)gap;
    *l = (pf_last){.time = ts, .count = at == PF_NONE ? 0 : at + 1};
}

static void take_sample(profile_builder *b, const nt_reader *r, const nt_event *ev)
{
    cursor c = cursor_of(ev->payload, 0);
    uint32_t type = cursor_u32(&c);
    if (!cursor_ok(&c) || type > 2) {
        b->bad++;
        return;
    }
    b->store.by_type[type]++;
    b->store.weighted = b->in_ticks = true;
    uint32_t what = PF_WHAT(PROFILE_UNKNOWN, type), epoch = nt_stack_epoch(r) + 1;
    pf_seen *seen = seen_of(b, ev->stack);
    if (seen && seen->epoch == epoch && seen->what == what) {
        if (seen->count != PF_NONE && seen->thread == thread_of(b, ev->thread)) {
            totals(b, 1, 0, seen->step);
            pf_store_again(&b->store, seen->count, 1, 0, ev->ts);
            pass_time(b, r, seen->thread, seen->count, ev->ts);
            return;
        }
        seen->count = count(b, seen->step, ev->thread, what, 1, 0, ev->ts);
        seen->thread = b->thread_index;
        pass_time(b, r, seen->thread, seen->count, ev->ts);
        return;
    }
    uint32_t step = step_of(b, r, ev, type == 2);
    uint32_t at = count(b, step, ev->thread, what, 1, 0, ev->ts);
    if (seen) *seen = (pf_seen){.epoch = epoch, .step = step, .thread = b->thread_index, .what = what, .count = at};
    pass_time(b, r, b->thread_index, at, ev->ts);
}

/* ---- allocations ------------------------------------------------------------------------------------------------- */

static uint64_t number(const nt_kind *k, slice payload, int field, uint64_t otherwise)
{
    nt_value v;
    if (field < 0 || !nt_get(k->schema, payload, (uint32_t)field, &v)) return otherwise;
    return v.type == NT_INT || v.type == NT_UINT ? v.u : otherwise;
}

static uint32_t type_of(profile_builder *b, const nt_kind *k, slice payload, int field)
{
    nt_value v;
    char text[TYPE_NAME_MAX / 2 * 3];
    size_t n = 0;
    if (field >= 0 && nt_get(k->schema, payload, (uint32_t)field, &v) && v.type == NT_STR16) {
        if (v.raw.n > TYPE_NAME_MAX) v.raw.n = TYPE_NAME_MAX;
        n = nt_utf8(v.raw, text, sizeof text);
    }
    if (n == 4 && memcmp(text, "NULL", 4) == 0) n = 0; /* NativeAOT writes this: it has no names of types */
    return pf_store_type(&b->store, n ? slice_of(text, n) : SLICE_LIT("<unknown>"));
}

/* e^x - 1 and the logarithm are not worth the mathematics library: (1 - p)^n by squaring. */
static double power(double base, uint64_t n)
{
    double r = 1;
    for (; n && r > 1e-300; n >>= 1, base *= base)
        if (n & 1) r *= base;
    return r;
}

static void take_allocation(profile_builder *b, const pf_use *u, const nt_reader *r, const nt_event *ev)
{
    uint64_t amount = number(ev->kind, ev->payload, u->amount, UINT64_MAX);
    uint64_t heap = number(ev->kind, ev->payload, u->heap, PROFILE_SMALL);
    if (amount > AMOUNT_MAX) {
        b->bad++;
        return;
    }
    double objects = 0, bytes = (double)amount;
    if (u->of == OF_DRAWN && amount > 0) { /* what one drawn object stands for */
        objects = 1 / (1 - power(1 - DRAWN, amount));
        bytes *= objects;
        amount = (uint64_t)(bytes + 0.5);
    }
    if (amount > WEIGHT_MAX - b->store.weight) {
        b->bad++;
        return;
    }
    uint32_t type = type_of(b, ev->kind, ev->payload, u->type);
    (void)count(b, step_of(b, r, ev, false), ev->thread, type, 1, amount, ev->ts);
    b->store.weighted = true;
    if (type == PF_NONE) return;
    pf_type *t = &b->store.types[type];
    t->events++;
    t->bytes += amount;
    t->objects += objects;
    t->by_kind[heap < PROFILE_HEAPS ? heap : PROFILE_SMALL]++;
}

static void tap_event(nt_tap *t, void *use, const nt_reader *r, const nt_event *ev)
{
    profile_builder *b = of_tap(t);
    const pf_use *u = use;
    pthread_mutex_lock(&b->lock);
    switch (u->of) {
    case OF_METHODS: take_method(b, u, ev); break;
    case OF_IL: take_il_map(b, u, ev); break;
    case OF_SAMPLE: take_sample(b, r, ev); break;
    case OF_TICK:
    case OF_DRAWN: take_allocation(b, u, r, ev); break;
    }
    pthread_mutex_unlock(&b->lock);
}

static void tap_end(nt_tap *t, const nt_reader *r)
{
    profile_builder *b = of_tap(t);
    const nt_trace *trace = nt_trace_info(r);
    b->have_trace = trace != NULL;
    if (trace) b->trace = *trace;
    free(b->seen);
    free(b->last);
    b->seen = NULL;
    b->last = NULL;
    b->cap_seen = b->cap_last = 0;
    atomic_store(&b->ended, true);
}

static const nt_tap_ops tap_ops = {
    .kind = tap_kind, .event = tap_event, .end = tap_end, .ref = tap_ref, .unref = tap_unref};
static const nt_tap_ops names_ops = {
    .kind = names_kind, .event = names_event, .end = names_end, .ref = names_ref, .unref = names_unref};

profile_builder *profile_builder_new(const profile_cfg *cfg, err *e)
{
    if (cfg->n_waits > PROFILE_WAITS_MAX) {
        (void)err_set(e, ERR_LIMIT, "%zu names of waits are more than %d", cfg->n_waits, PROFILE_WAITS_MAX);
        return NULL;
    }
    profile_builder *b = mem_calloc(1, sizeof *b);
    if (!b) goto failed;
    atomic_init(&b->refs, 1);
    pthread_mutex_init(&b->lock, NULL);
    b->tap.ops = &tap_ops;
    b->names.ops = &names_ops;
    b->cfg = *cfg;
    b->thread_index = PF_NONE;
    b->methods = clr_methods_new(METHODS_MAX_BYTES);
    if (b->methods && copy_waits(b) && pf_store_init(&b->store, cfg->max_bytes ? cfg->max_bytes : PROFILE_MAX_BYTES))
        return b;
    profile_builder_unref(b);
failed:
    (void)err_set(e, ERR_NO_MEMORY, "no memory for a profile");
    return NULL;
}

nt_tap *profile_builder_tap(profile_builder *b) { return &b->tap; }
nt_tap *profile_builder_names(profile_builder *b) { return &b->names; }
clr_methods *profile_builder_methods(profile_builder *b) { return b->methods; }

void profile_progress_of(const profile_builder *b, profile_progress *out)
{
    *out = (profile_progress){.samples = atomic_load_explicit(&b->seen_samples, memory_order_relaxed),
                              .stacks = atomic_load_explicit(&b->seen_stacks, memory_order_relaxed),
                              .threads = atomic_load_explicit(&b->seen_threads, memory_order_relaxed),
                              .memory = atomic_load_explicit(&b->seen_memory, memory_order_relaxed),
                              .ended = atomic_load(&b->ended)};
}

/* ---- samples of others ------------------------------------------------------------------------------------------- */

void profile_set_resolver(profile_builder *b, profile_resolve_fn fn, void *arg)
{
    profile_own_resolver(b, fn, arg, NULL);
}

void profile_own_resolver(profile_builder *b, profile_resolve_fn fn, void *arg, void (*release)(void *arg))
{
    if (b->resolve_release) b->resolve_release(b->resolve_arg);
    b->resolve = fn;
    b->resolve_arg = arg;
    b->resolve_release = release;
}

bool profile_builder_code(profile_builder *b, uint64_t ip, uint64_t *start)
{
    clr_method m;
    pthread_mutex_lock(&b->lock);
    bool found = clr_methods_find(b->methods, ip, INT64_MAX, &m) && !m.cold;
    if (found) *start = m.start;
    pthread_mutex_unlock(&b->lock);
    return found;
}

void profile_builder_end(profile_builder *b) { atomic_store(&b->ended, true); }

static bool add(profile_builder *b, const profile_sample *s)
{
    if (s->weight > WEIGHT_MAX - b->store.weight) {
        b->bad++;
        return false;
    }
    uint32_t n = s->n > PROFILE_DEPTH_MAX ? PROFILE_DEPTH_MAX : s->n;
    if (n < s->n) b->store.cut++;
    uint32_t step = pf_store_stack(&b->store, slice_of(s->ips, n * sizeof *s->ips), 8, s->leaf_exact);
    uint32_t what = PF_WHAT(s->state, 0);
    if (b->cfg.kind == PROFILE_ALLOCATION) {
        what = pf_store_type(&b->store, s->what.n ? s->what : SLICE_LIT("<unknown>"));
        if (what != PF_NONE) {
            pf_type *t = &b->store.types[what];
            t->events += s->samples;
            t->bytes += s->weight;
            t->by_kind[s->flavour < PROFILE_HEAPS ? s->flavour : PROFILE_SMALL] += s->samples;
        }
    }
    if (s->weight) b->store.weighted = true;
    if (s->state != PROFILE_UNKNOWN) b->store.states = true;
    return count(b, step, s->thread, what, s->samples, s->weight, s->time) != PF_NONE && step != PF_NONE;
}

bool profile_add(profile_builder *b, const profile_sample *s)
{
    pthread_mutex_lock(&b->lock);
    bool kept = add(b, s);
    pthread_mutex_unlock(&b->lock);
    return kept;
}
