/* SPDX-License-Identifier: MIT */
/* result.c: addresses become frames, stacks of the same frames one stack, and sums are sorted. */
#include "offcpu/result.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kernel/kernel.h"

enum { FRAMES_OF_STACK = OC_FRAMES_MAX + OC_KERNEL_MAX };
#define FUTEX SLICE_LIT("futex")

/* What is added up of a pair of a group and something else. */
typedef struct part {
    uint32_t group, other;
    int64_t ns;
    uint64_t n;
} part;

typedef struct parts {
    part *rows;
    size_t n, cap;
    map64 at;
} parts;

/* A stack of frames. */
typedef struct grouped {
    oc_sum sum;
    int64_t state_ns[OC_STATES];
    oc_syncs sync;
} grouped;

typedef struct work {
    const oc *spans;
    const oc_stacks *stacks;
    naming *names;
    oc_result *r;
    strtab *frame_names; /* "module\0method"; numbers are those of frames */
    oc_frame *frames;
    size_t cap_frames;
    strtab *calls;
    oc_stacks *groups;            /* of frame numbers + 1 */
    uint32_t *group_of, *call_of; /* by stack; 0: not looked at yet; call_of: number + 1 */
    grouped *sums;                /* by group */
    parts by_call, by_waker, by_thread;
    buf text;
    err *e;
} work;

static int no_memory(work *w) { return err_set(w->e, ERR_NO_MEMORY, "not enough memory for the off-CPU result"); }

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static slice keep(work *w, slice s)
{
    const char *copy = arena_str(&w->r->a, s);
    return copy ? slice_of(copy, s.n) : SLICE_LIT("");
}

/* The number of a frame + 1; 0: no memory. */
static uint64_t frame_of(work *w, const naming_name *n)
{
    buf_reset(&w->text);
    if (!buf_slice(&w->text, n->module) || !buf_u8(&w->text, 0) || !buf_slice(&w->text, n->method)) return 0;
    uint32_t id = strtab_intern(w->frame_names, buf_view(&w->text));
    if (id == STRTAB_FULL) return 0;
    if (id < w->r->n_frames) return (uint64_t)id + 1;
    if (id >= w->cap_frames) {
        size_t to = w->cap_frames ? w->cap_frames * 2 : 256;
        oc_frame *grown = mem_realloc(w->frames, to * sizeof *grown);
        if (!grown) return 0;
        w->frames = grown;
        w->cap_frames = to;
    }
    w->frames[id] = (oc_frame){.module = keep(w, n->module), .method = keep(w, n->method), .kind = n->kind};
    if (n->kind == NAMING_MANAGED) {
        w->frames[id].token = n->managed.token;
        w->frames[id].module_path = keep(w, n->managed.module_path);
        w->frames[id].type = keep(w, n->managed.namespace_);
        w->frames[id].name = keep(w, n->managed.name);
        w->r->managed_named++;
    }
    if (n->kind == NAMING_UNKNOWN) w->r->unnamed++;
    w->r->n_frames = id + 1;
    return (uint64_t)id + 1;
}

/* What the scheduler itself does below the place that waits. */
static bool is_scheduler(slice method)
{
    static const char *const own[] = {"__schedule",
                                      "schedule",
                                      "schedule_timeout",
                                      "__traceiter_sched_switch",
                                      "preempt_schedule_common",
                                      "__cond_resched",
                                      "schedule_preempt_disabled",
                                      "io_schedule",
                                      "io_schedule_timeout",
                                      "schedule_hrtimeout_range_clock",
                                      "schedule_hrtimeout_range",
                                      "schedule_hrtimeout"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (slice_eq_str(method, own[i])) return true;
    return false;
}

/* Names the kernel's part: frames into out (leaf first), the call into *call. -1: no memory. Where the kernel hides its
 * names its addresses tell nothing but where it was loaded, so they are left out, and the stack ends with who calls it
 * (with one frame for all, where nobody is known to). */
static int name_kernel(work *w, const uint64_t *ips, uint32_t n, uint64_t *out, slice *call, bool alone)
{
    static const naming_name hidden = {.kind = NAMING_KERNEL,
                                       .module = {(const uint8_t *)"[kernel]", 8},
                                       .method = {(const uint8_t *)"(not named)", 11}};
    naming_stats known;
    int used = 0;
    naming_stats_of(w->names, &known);
    if (!known.kernel) return n == 0 || !alone ? 0 : (out[0] = frame_of(w, &hidden)) ? 1 : -1;
    for (uint32_t i = 0; i < n; i++) {
        naming_name name;
        (void)naming_find(w->names, i ? ips[i] - 1 : ips[i], INT64_MAX, &name);
        slice c = name.symbol ? oc_call_of_function(name.method) : (slice){0};
        if (c.n) *call = c;
        if (used == 0 && name.symbol && i + 1 < n && is_scheduler(name.method)) continue;
        if (!(out[used++] = frame_of(w, &name))) return -1;
    }
    return used;
}

static int name_user(work *w, const uint64_t *ips, uint32_t n, uint64_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        naming_name name;
        uint64_t ip = ips[i] & ~OC_EXACT;
        (void)naming_find(w->names, ips[i] & OC_EXACT || ip == 0 ? ip : ip - 1, INT64_MAX, &name);
        if (!(out[i] = frame_of(w, &name))) return -1;
    }
    return (int)n;
}

/* The group of a stack, named at its first use. 0: no memory. */
static uint32_t group_of(work *w, uint32_t stack)
{
    if (w->group_of[stack]) return w->group_of[stack];
    uint64_t frames[FRAMES_OF_STACK];
    uint32_t n_kernel = 0, n_user = 0;
    slice call = {0};
    const uint64_t *ips = oc_stacks_get(w->stacks, stack, &n_kernel, &n_user);
    int kernel = 0, user = 0;
    if (ips) {
        kernel = name_kernel(w, ips, n_kernel, frames, &call, n_user == 0);
        user = kernel < 0 ? -1 : name_user(w, ips + n_kernel, n_user, frames + kernel);
    } else {
        static const naming_name none = {
            .kind = NAMING_UNKNOWN, .module = {(const uint8_t *)"?", 1}, .method = {(const uint8_t *)"(no stack)", 10}};
        user = (frames[0] = frame_of(w, &none)) ? 1 : -1;
    }
    if (kernel < 0 || user < 0) return 0;
    uint32_t id = oc_stacks_put(w->groups, frames, (uint32_t)kernel, frames + kernel, (uint32_t)user);
    w->group_of[stack] = id;
    uint32_t c = call.n ? strtab_intern(w->calls, call) : STRTAB_FULL;
    w->call_of[stack] = c == STRTAB_FULL ? 0 : c + 1;
    return id;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static bool add_part(parts *p, uint32_t group, uint32_t other, int64_t ns, uint64_t n)
{
    uint64_t i, key = (uint64_t)group << 32 | other;
    if (map64_get(&p->at, key, &i)) {
        p->rows[i].ns += ns;
        p->rows[i].n += n;
        return true;
    }
    if (p->n == p->cap) {
        size_t to = p->cap ? p->cap * 2 : 256;
        part *grown = mem_realloc(p->rows, to * sizeof *grown);
        if (!grown) return false;
        p->rows = grown;
        p->cap = to;
    }
    if (!map64_put(&p->at, key, p->n)) return false;
    p->rows[p->n++] = (part){group, other, ns, n};
    return true;
}

static void add_sum(oc_sum *to, const oc_sum *s)
{
    to->ns += s->ns;
    to->n += s->n;
    to->censored_ns += s->censored_ns;
    to->censored += s->censored;
    to->delay_ns += s->delay_ns;
    if (s->longest_ns > to->longest_ns) to->longest_ns = s->longest_ns;
}

static void add_sync(oc_syncs *to, const oc_row *row)
{
    to->spans += row->sum.n;
    to->ns += row->sum.ns;
    to->censored += row->sum.censored;
    to->censored_ns += row->sum.censored_ns;
    if (row->at.sync != OC_SYNC_LOCK) return;
    to->locks += row->sum.n;
    to->locks_ns += row->sum.ns;
}

/* The number + 1 of a row's call: as it was traced, else by the kernel's functions. 0: none. */
static uint32_t call_of(work *w, const oc_row *row)
{
    char text[24];
    if (!row->at.call) return w->call_of[row->at.stack];
    uint32_t id = strtab_intern(w->calls, oc_call_name(row->at.call - 1u, text));
    return id == STRTAB_FULL ? 0 : id + 1;
}

static bool is_sync(slice call)
{
    return slice_eq(call, FUTEX) || slice_eq_str(call, "futex_waitv") || slice_eq_str(call, "futex_wait");
}

static int add_rows(work *w, oc_syncs *by_thread)
{
    size_t n;
    const oc_row *rows = oc_rows(w->spans, &n);
    for (size_t i = 0; i < n; i++) {
        const oc_row *row = &rows[i];
        uint32_t g = group_of(w, row->at.stack);
        if (!g) return no_memory(w);
        grouped *to = &w->sums[g];
        add_sum(&to->sum, &row->sum);
        to->state_ns[row->at.state] += row->sum.ns;
        uint32_t call = call_of(w, row);
        if (!add_part(&w->by_thread, g, row->thread, row->sum.ns, row->sum.n)) return no_memory(w);
        if (!call) continue;
        if (!add_part(&w->by_call, g, call - 1, row->sum.ns, row->sum.n)) return no_memory(w);
        if (!is_sync(strtab_get(w->calls, call - 1))) continue;
        add_sync(&to->sync, row);
        add_sync(&w->r->sync, row);
        add_sync(&by_thread[row->thread], row);
    }
    return 0;
}

static int add_wakes(work *w)
{
    size_t n;
    const oc_wake *wakes = oc_wakes(w->spans, &n);
    for (size_t i = 0; i < n; i++) {
        uint32_t g = group_of(w, wakes[i].stack);
        if (!g || !add_part(&w->by_waker, g, wakes[i].waker, wakes[i].ns, wakes[i].n)) return no_memory(w);
    }
    return 0;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static int by_group(const void *a, const void *b)
{
    const part *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->ns != y->ns) return x->ns > y->ns ? -1 : 1;
    return x->other < y->other ? -1 : x->other > y->other;
}

static void sort_parts(parts *p)
{
    if (p->n) qsort(p->rows, p->n, sizeof *p->rows, by_group);
}

static oc_state dominant(const int64_t ns[OC_STATES])
{
    oc_state best = OC_SLEEP;
    for (int s = 0; s < OC_STATES; s++)
        if (ns[s] > ns[best]) best = (oc_state)s;
    return best;
}

/* The parts of a group, which are sorted: *from is moved behind them. */
static size_t run_of(const parts *p, size_t *from, uint32_t g)
{
    while (*from < p->n && p->rows[*from].group < g)
        ++*from;
    size_t end = *from;
    while (end < p->n && p->rows[end].group == g)
        end++;
    size_t n = end - *from;
    *from = end;
    return n;
}

static void fill_calls(work *w, oc_stack_row *row, uint32_t g, size_t *from)
{
    size_t n = run_of(&w->by_call, from, g);
    const part *p = w->by_call.rows + (*from - n);
    row->n_calls = n > OC_CALLS_TOP ? OC_CALLS_TOP : (uint32_t)n;
    row->calls_dropped = (uint32_t)n - row->n_calls;
    w->r->calls_dropped += row->calls_dropped;
    for (uint32_t i = 0; i < row->n_calls; i++)
        row->calls[i] = (oc_call){keep(w, strtab_get(w->calls, p[i].other)), p[i].ns, p[i].n};
}

/* The name of a waker: of a thread of the target as it was seen, of others as it is now. */
static void name_waker(work *w, oc_waker *who)
{
    size_t n;
    char rel[48];
    const oc_thread *threads = oc_threads(w->spans, &n);
    for (size_t i = 0; who->kind == OC_WAKER_THREAD && i < n; i++)
        if (threads[i].tid == who->tid) memcpy(who->comm, threads[i].comm, sizeof who->comm);
    if (who->kind == OC_WAKER_INTERRUPT || who->comm[0]) return;
    snprintf(rel, sizeof rel, "/proc/%d/comm", who->tid);
    buf_reset(&w->text);
    if (kn_read("", rel, KN_SMALL_MAX, &w->text, NULL) < 0 || w->text.n < 2) return;
    size_t room = sizeof who->comm - 1, len = w->text.n - 1 < room ? w->text.n - 1 : room;
    memcpy(who->comm, w->text.p, len);
}

static void fill_wakers(work *w, oc_stack_row *row, uint32_t g, size_t *from)
{
    size_t n = run_of(&w->by_waker, from, g), all;
    const part *p = w->by_waker.rows + (*from - n);
    const oc_waker *wakers = oc_wakers(w->spans, &all);
    row->n_wakers = n > OC_WAKERS_TOP ? OC_WAKERS_TOP : (uint32_t)n;
    row->wakers_dropped = (uint32_t)n - row->n_wakers;
    for (uint32_t i = 0; i < row->n_wakers; i++) {
        row->wakers[i] = (oc_woken){wakers[p[i].other], p[i].ns, p[i].n};
        name_waker(w, &row->wakers[i].who);
    }
}

/* Frames root first. */
static bool fill_frames(work *w, oc_stack_row *row, uint32_t g)
{
    uint32_t n_kernel, n_user;
    const uint64_t *ids = oc_stacks_get(w->groups, g, &n_kernel, &n_user);
    uint32_t n = n_kernel + n_user, *frames = arena_alloc(&w->r->a, n * sizeof *frames);
    if (!frames) return false;
    for (uint32_t i = 0; i < n; i++)
        frames[n - 1 - i] = (uint32_t)(ids[i] - 1);
    row->frames = frames;
    row->n_frames = n;
    row->leaf = frames[n - 1];
    return true;
}

typedef struct ranked {
    uint32_t group;
    int64_t ns;
} ranked;

static int by_ns(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->ns != y->ns) return x->ns > y->ns ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

/* Fills rows in the order of groups, then puts them in that of time. rank_of: of a group, its row. */
static int make_stacks(work *w, uint32_t *rank_of)
{
    uint32_t n = oc_stacks_count(w->groups);
    ranked *order = mem_calloc(n ? n : 1, sizeof *order);
    w->r->stacks = arena_alloc(&w->r->a, n * sizeof *w->r->stacks + 1);
    if (!order || !w->r->stacks) {
        free(order);
        return no_memory(w);
    }
    uint32_t used = 0;
    for (uint32_t g = 1; g <= n; g++)
        if (w->sums[g].sum.n) order[used++] = (ranked){g, w->sums[g].sum.ns};
    if (used) qsort(order, used, sizeof *order, by_ns);
    for (uint32_t i = 0; i < used; i++)
        rank_of[order[i].group] = i + 1;
    free(order);
    w->r->n_stacks = used;
    size_t calls = 0, wakers = 0, threads = 0;
    for (uint32_t g = 1; g <= n; g++) {
        if (!rank_of[g]) continue;
        oc_stack_row *row = &w->r->stacks[rank_of[g] - 1];
        row->sum = w->sums[g].sum;
        row->sync = w->sums[g].sync;
        memcpy(row->state_ns, w->sums[g].state_ns, sizeof row->state_ns);
        row->dominant = dominant(row->state_ns);
        fill_calls(w, row, g, &calls);
        fill_wakers(w, row, g, &wakers);
        row->threads = (uint32_t)run_of(&w->by_thread, &threads, g);
        if (!fill_frames(w, row, g)) return no_memory(w);
    }
    return 0;
}

static int by_off(const void *a, const void *b)
{
    const oc_thread_row *x = a, *y = b;
    if (x->thread.off_ns != y->thread.off_ns) return x->thread.off_ns > y->thread.off_ns ? -1 : 1;
    return x->thread.tid < y->thread.tid ? -1 : x->thread.tid > y->thread.tid;
}

static int make_threads(work *w, const uint32_t *rank_of, const oc_syncs *syncs)
{
    size_t n, n_rows;
    const oc_thread *threads = oc_threads(w->spans, &n);
    const oc_row *rows = oc_rows(w->spans, &n_rows);
    oc_thread_row *out = arena_alloc(&w->r->a, n * sizeof *out + 1);
    int64_t *best = mem_calloc(n ? n : 1, sizeof *best);
    int64_t(*states)[OC_STATES] = mem_calloc(n ? n : 1, sizeof *states);
    bool ok = out && best && states;
    for (size_t i = 0; ok && i < n; i++)
        out[i] = (oc_thread_row){.thread = threads[i], .top = -1, .sync = syncs[i]};
    for (size_t i = 0; ok && i < n_rows; i++)
        states[rows[i].thread][rows[i].at.state] += rows[i].sum.ns;
    for (size_t i = 0; ok && i < w->by_thread.n; i++) {
        const part *p = &w->by_thread.rows[i];
        if (out[p->other].top >= 0 && p->ns <= best[p->other]) continue;
        best[p->other] = p->ns;
        out[p->other].top = (int64_t)rank_of[p->group] - 1;
    }
    for (size_t i = 0; ok && i < n; i++)
        out[i].dominant = dominant(states[i]);
    free(best);
    free(states);
    if (!ok) return no_memory(w);
    if (n) qsort(out, n, sizeof *out, by_off);
    w->r->threads = out;
    w->r->n_threads = (uint32_t)n;
    return 0;
}

static int fill(work *w)
{
    size_t n_threads;
    (void)oc_threads(w->spans, &n_threads);
    uint32_t n = oc_stacks_count(w->stacks) + 1;
    oc_syncs *syncs = mem_calloc(n_threads + 1, sizeof *syncs);
    uint32_t *rank_of = mem_calloc(n + 2, sizeof *rank_of);
    w->group_of = mem_calloc(n, sizeof *w->group_of);
    w->call_of = mem_calloc(n, sizeof *w->call_of);
    w->sums = mem_calloc(n + 2, sizeof *w->sums); /* no more groups than stacks, and the one without a stack */
    int rc = syncs && rank_of && w->group_of && w->call_of && w->sums ? add_rows(w, syncs) : no_memory(w);
    if (rc == 0) rc = add_wakes(w);
    sort_parts(&w->by_call);
    sort_parts(&w->by_waker);
    sort_parts(&w->by_thread);
    if (rc == 0) rc = make_stacks(w, rank_of);
    if (rc == 0) rc = make_threads(w, rank_of, syncs);
    if (rc == 0 && w->r->n_frames) {
        w->r->frames = arena_dup(&w->r->a, w->frames, w->r->n_frames * sizeof *w->frames);
        if (!w->r->frames) rc = no_memory(w);
    }
    free(syncs);
    free(rank_of);
    return rc;
}

static void parts_fini(parts *p)
{
    free(p->rows);
    map64_fini(&p->at);
}

int oc_result_make(const oc *spans, const oc_stacks *stacks, naming *n, oc_result **out, err *e)
{
    int64_t began = mono_ns();
    work w = {.spans = spans, .stacks = stacks, .names = n, .e = e};
    buf_init(&w.text, 0);
    w.r = mem_calloc(1, sizeof *w.r);
    w.frame_names = strtab_new(0, 0);
    w.calls = strtab_new(UINT16_MAX, 0);
    w.groups = oc_stacks_new();
    int rc = w.r && w.frame_names && w.calls && w.groups ? fill(&w) : no_memory(&w);
    if (rc == 0) {
        w.r->totals = *oc_totals_of(spans);
        oc_stacks_stats_of(stacks, &w.r->stacks_stats);
        naming_stats_of(n, &w.r->naming);
        w.r->build_ns = mono_ns() - began;
        *out = w.r;
        w.r = NULL;
    }
    oc_result_free(w.r);
    strtab_free(w.frame_names);
    strtab_free(w.calls);
    oc_stacks_free(w.groups);
    free(w.frames);
    free(w.group_of);
    free(w.call_of);
    free(w.sums);
    parts_fini(&w.by_call);
    parts_fini(&w.by_waker);
    parts_fini(&w.by_thread);
    buf_fini(&w.text);
    return rc;
}

void oc_result_free(oc_result *r)
{
    if (!r) return;
    arena_free(&r->a);
    free(r);
}
