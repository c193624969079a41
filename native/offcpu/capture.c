/* SPDX-License-Identifier: MIT */
/* capture.c: what is opened, and what each record does. The thread that leaves a processor brings its stack in a sample
 * of sched_switch, taken in its own context; that it left and came back is told by records of switches, which are small
 * and are there even where a sample found no room. */
#include "offcpu/capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernel/kernel.h"
#include "naming/naming.h"
#include "offcpu/place.h"
#include "offcpu/standing.h"
#include "offcpu/wakees.h"
#include "profile/code.h"

enum { SPEC_SWITCH, SPEC_WAKING, SPEC_WAKING_ALL, SPEC_CALLS, SPECS_MAX };
#define MORE_NS            INT64_C(10000000)
#define HARDIRQ_OR_SOFTIRQ 0x18                         /* TRACE_FLAG_HARDIRQ, TRACE_FLAG_SOFTIRQ of common_flags */
#define CONTEXT_MAX        UINT64_C(0xfffffffffffff001) /* from here on: PERF_CONTEXT_… marks */

/* What is known of a thread between its records. */
typedef struct live {
    uint32_t call;  /* the system call that it began last, by trace; 0: not known */
    int kernel_tid; /* nested: its number there; 0: not known */
    bool out_seen;  /* the sample of its switch has come, the record of it not yet */
    oc_place at;
    int64_t time;
} live;

struct oc_capture {
    int pid;
    perf_set *perf;
    uw_space *space;
    profile_code code; /* its builder is held */
    naming *names;
    oc *spans;
    oc_stacks *stacks;
    map64 live; /* tid -> index */
    live *lives;
    size_t n_lives, cap_lives;
    tp_format sched_switch, sched_waking, sys_enter;
    int f_state, f_out, f_wakee, f_flags, f_waker, f_id;
    int spec_of[SPECS_MAX]; /* index among the opened; -1: not opened */
    bool kernel_names, syscalls, filtered;
    oc_standing waiting;
    uint32_t standing; /* waited for the whole window */
    oc_wakees watched; /* threads that are in no filter yet, by the kernel's numbers */
    bool nested;       /* our pid namespace is not the kernel's: kernel_tids says whose number is whose */
    map64 kernel_tids; /* the kernel's number -> ours */
    int last;          /* the newest thread at the beginning: later ones are in the filter; -1: not known */
    uint32_t unwatched, filters;
    int64_t filtered_at;
    int64_t begin_ns;
    bool ran;
};

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* NULL: no memory. */
static live *live_of(oc_capture *c, int tid)
{
    uint64_t i;
    if (map64_get(&c->live, (uint64_t)tid, &i)) return &c->lives[i];
    if (c->n_lives == OC_THREADS_MAX) return NULL;
    if (c->n_lives == c->cap_lives) {
        size_t to = c->cap_lives ? c->cap_lives * 2 : 64;
        live *grown = mem_realloc(c->lives, to * sizeof *grown);
        if (!grown) return NULL;
        c->lives = grown;
        c->cap_lives = to;
    }
    if (!map64_put(&c->live, (uint64_t)tid, c->n_lives)) return NULL;
    c->lives[c->n_lives] = (live){0};
    return &c->lives[c->n_lives++];
}

static void name_thread(oc_capture *c, int tid)
{
    char rel[64];
    buf b;
    buf_init(&b, 0);
    snprintf(rel, sizeof rel, "/proc/%d/task/%d/comm", c->pid, tid);
    if (kn_read("", rel, KN_SMALL_MAX, &b, NULL) >= 0 && b.n) oc_name(c->spans, tid, slice_of(b.p, b.n - 1));
    buf_fini(&b);
}

/* Threads that the first filter does not have get events of their own, some together, and so often at most. */
static void watch_more(oc_capture *c, int64_t time)
{
    buf text;
    size_t n = c->watched.n;
    if (!n || time - c->filtered_at < MORE_NS || c->spec_of[SPEC_WAKING_ALL] < 0) return;
    buf_init(&text, 4096);
    if (c->filters < OC_FILTERS_MAX && oc_wakees_filter(&c->watched, -1, &text) &&
        perf_more(c->perf, (uint32_t)c->spec_of[SPEC_WAKING_ALL], (const char *)text.p))
        c->filters++;
    else
        c->unwatched += (uint32_t)n;
    buf_fini(&text);
    c->watched.n = 0;
    c->filtered_at = time;
}

static void watch(oc_capture *c, int kernel_tid)
{
    if (!oc_wakees_add(&c->watched, kernel_tid)) c->unwatched++;
}

/* In a namespace: a switch of a thread tells its number in the kernel. */
static void learn(oc_capture *c, live *t, const perf_record *r)
{
    int number = (int)tp_int(&c->sched_switch, c->f_out, r->raw);
    if (t->kernel_tid == number || number <= 0) return;
    if (map64_put(&c->kernel_tids, (uint64_t)number, (uint64_t)r->tid)) t->kernel_tid = number;
    watch(c, number);
}

static void forget(oc_capture *c, int tid)
{
    uint64_t i;
    if (map64_get(&c->live, (uint64_t)tid, &i) && c->lives[i].kernel_tid)
        (void)map64_del(&c->kernel_tids, (uint64_t)c->lives[i].kernel_tid);
    (void)map64_del(&c->live, (uint64_t)tid);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static uint32_t stack_of(oc_capture *c, const perf_record *r)
{
    uint64_t kernel[OC_KERNEL_MAX], user[OC_FRAMES_MAX];
    uint32_t n_kernel = 0, n_user = 0;
    for (uint32_t i = 0; i < r->n_chain && n_kernel < OC_KERNEL_MAX; i++)
        if (r->chain[i] < CONTEXT_MAX) kernel[n_kernel++] = r->chain[i];
    if (r->has_regs) n_user = oc_stacks_user(c->stacks, c->space, r->tid, &r->regs, r->stack, user);
    return oc_stacks_put(c->stacks, kernel, n_kernel, user, n_user);
}

static void on_switch_sample(oc_capture *c, const perf_record *r)
{
    live *t = live_of(c, r->tid);
    if (!t) return;
    oc_state state = oc_state_of(tp_int(&c->sched_switch, c->f_state, r->raw));
    if (c->nested) learn(c, t, r);
    t->at = (oc_place){.state = (uint8_t)state};
    if (state != OC_RUNNABLE && state != OC_DEAD) {
        bool in_call = r->has_regs && r->regs.r[UW_RAX] == OC_IN_SYSCALL;
        t->at.stack = stack_of(c, r);
        t->at.sync = r->has_regs ? (uint8_t)oc_sync_of(&r->regs) : OC_SYNC_NONE;
        t->at.call = in_call ? (uint16_t)t->call : 0;
    }
    t->out_seen = true;
    t->time = r->time;
    oc_out(c->spans, r->tid, r->time, t->at);
}

static void on_switch(oc_capture *c, const perf_record *r)
{
    live *t = live_of(c, r->tid);
    if (!t || r->time < c->begin_ns) return;
    if (!r->out) {
        t->out_seen = false;
        oc_in(c->spans, r->tid, r->time);
    } else if (t->out_seen) {
        t->out_seen = false;
    } else { /* its sample found no room */
        oc_out(c->spans, r->tid, r->time, (oc_place){.state = r->preempted ? OC_RUNNABLE : OC_SLEEP});
    }
}

static void on_waking(oc_capture *c, const perf_record *r)
{
    int64_t wakee = tp_int(&c->sched_waking, c->f_wakee, r->raw);
    int64_t flags = tp_int(&c->sched_waking, c->f_flags, r->raw), waker = tp_int(&c->sched_waking, c->f_waker, r->raw);
    oc_waker w = {.kind = r->pid == c->pid ? OC_WAKER_THREAD : OC_WAKER_OTHER, .tid = r->tid};
    uint64_t ours = (uint64_t)wakee;
    if (c->nested && !map64_get(&c->kernel_tids, (uint64_t)wakee, &ours)) return;
    if (flags & HARDIRQ_OR_SOFTIRQ || waker == 0) w = (oc_waker){.kind = OC_WAKER_INTERRUPT};
    oc_waking(c->spans, (int)ours, r->time, &w);
}

static void on_call(oc_capture *c, const perf_record *r)
{
    live *t = live_of(c, r->tid);
    int64_t nr = tp_int(&c->sys_enter, c->f_id, r->raw);
    if (t) t->call = nr >= 0 && nr < UINT16_MAX - 1 ? (uint32_t)nr + 1 : 0;
}

static void on_map(oc_capture *c, const perf_record *r)
{
    char open[4200];
    if (r->pid != c->pid) return;
    int n = snprintf(open, sizeof open, "/proc/%d/root%.*s", c->pid, (int)r->map.path.n, (const char *)r->map.path.p);
    bool file = r->map.path.n && r->map.path.p[0] == '/' && r->map.path.p[r->map.path.n > 1] != '/';
    uw_map m = {.start = r->map.start,
                .end = r->map.start + r->map.size,
                .file_offset = r->map.file_offset,
                .executable = r->map.prot & 4,
                .path = r->map.path,
                .open = file && n > 0 && (size_t)n < sizeof open ? open : NULL};
    (void)uw_space_map(c->space, &m);
}

/* Of the target, or of a thread of it that ends and has no process any more: what it starts inherits its events on
 * Linux before 5.13, and is another process. */
static bool is_ours(const oc_capture *c, const perf_record *r) { return r->pid == c->pid || r->pid <= 0; }

static void on_sample(oc_capture *c, const perf_record *r)
{
    bool waking = (int)r->spec == c->spec_of[SPEC_WAKING] || (int)r->spec == c->spec_of[SPEC_WAKING_ALL];
    if (waking) on_waking(c, r);
    if (waking || !is_ours(c, r)) return;
    if ((int)r->spec == c->spec_of[SPEC_SWITCH]) on_switch_sample(c, r);
    if ((int)r->spec == c->spec_of[SPEC_CALLS]) on_call(c, r);
}

static void on_record(void *arg, const perf_record *r)
{
    oc_capture *c = arg;
    if (c->watched.n) watch_more(c, r->time);
    switch (r->kind) {
    case PERF_SAMPLE: on_sample(c, r); break;
    case PERF_SWITCH:
        if (is_ours(c, r)) on_switch(c, r);
        break;
    case PERF_MMAP: on_map(c, r); break;
    case PERF_COMM:
        if (r->pid == c->pid) oc_name(c->spans, r->tid, r->comm);
        break;
    case PERF_FORK:
        if (r->pid != c->pid) break;
        name_thread(c, r->tid);
        if (!c->nested && (c->last < 0 || r->tid <= c->last)) watch(c, r->tid); /* numbers began anew */
        break;
    case PERF_EXIT:
        if (r->pid != c->pid) break;
        oc_exit(c->spans, r->tid);
        forget(c, r->tid);
        break;
    case PERF_LOST:
    case PERF_THROTTLE:
    case PERF_OTHER: break;
    }
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static size_t ring_bytes(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = OC_RING_BYTES;
    while (n > OC_RING_MIN && n * (size_t)(cpus > 0 ? cpus : 1) > OC_RINGS_BYTES)
        n /= 2;
    return n;
}

static int load_formats(oc_capture *c, bool syscalls, err *e)
{
    err ignored = {0};
    int rc = tp_load("", "sched", "sched_switch", &c->sched_switch, e);
    if (rc == 0) rc = tp_load("", "sched", "sched_waking", &c->sched_waking, e);
    if (rc < 0) return rc;
    if (syscalls) c->syscalls = tp_load("", "raw_syscalls", "sys_enter", &c->sys_enter, &ignored) == 0;
    c->f_state = tp_field_of(&c->sched_switch, "prev_state");
    c->f_out = tp_field_of(&c->sched_switch, "prev_pid");
    c->f_wakee = tp_field_of(&c->sched_waking, "pid");
    c->f_waker = tp_field_of(&c->sched_waking, "common_pid");
    c->f_flags = tp_field_of(&c->sched_waking, "common_flags");
    c->f_id = c->syscalls ? tp_field_of(&c->sys_enter, "id") : -1;
    if (c->f_id < 0) c->syscalls = false; /* a kernel without CONFIG_FTRACE_SYSCALLS: the calls have no names */
    if (c->f_state < 0 || c->f_out < 0 || c->f_wakee < 0 || c->f_waker < 0)
        return err_set(e, ERR_NOT_SUPPORTED, "this kernel writes sched_switch or sched_waking in a way not known here");
    return 0;
}

/* The threads of the beginning, and their names. */
static void list_threads(oc_capture *c)
{
    kn_threads t;
    if (kn_threads_of("", c->pid, slice_of(NULL, 0), &t, NULL) < 0) return;
    for (size_t i = 0; i < t.n; i++) {
        oc_name(c->spans, t.rows[i].tid, slice_str(t.rows[i].name));
        if (!c->nested) watch(c, t.rows[i].tid);
    }
    kn_threads_fini(&t);
}

static uint32_t add_spec(oc_capture *c, perf_spec *specs, uint32_t n, int which, perf_spec s)
{
    c->spec_of[which] = (int)n;
    specs[n] = s;
    return n + 1;
}

static int open_events(oc_capture *c, const oc_cfg *cfg, err *e)
{
    perf_spec specs[SPECS_MAX];
    uint32_t n = 0;
    buf filter;
    buf_init(&filter, 4096);
    for (int i = 0; i < SPECS_MAX; i++)
        c->spec_of[i] = -1;
    perf_spec s = perf_tracepoint(c->sched_switch.id, 1);
    s.take |= PERF_TAKE_KERNEL_CHAIN | PERF_TAKE_USER;
    s.stack_bytes = cfg && cfg->stack_bytes ? cfg->stack_bytes : OC_STACK_BYTES;
    s.switches = true;
    s.what = "sched:sched_switch";
    n = add_spec(c, specs, n, SPEC_SWITCH, s);
    s = perf_tracepoint(c->sched_waking.id, 1);
    s.what = "sched:sched_waking";
    n = add_spec(c, specs, n, SPEC_WAKING, s);
    c->last = oc_last_tid();
    list_threads(c);
    /* In a namespace no number is known before the first switch: nobody's wake-ups are told until then. */
    c->filtered = c->nested ? buf_printf(&filter, "pid==0") : oc_wakees_filter(&c->watched, c->last, &filter);
    c->watched.n = 0;
    if (c->filtered) {
        s.machine = true;
        s.filter = (const char *)filter.p;
        n = add_spec(c, specs, n, SPEC_WAKING_ALL, s);
    }
    if (c->syscalls) {
        s = perf_tracepoint(c->sys_enter.id, 1);
        s.what = "raw_syscalls:sys_enter";
        n = add_spec(c, specs, n, SPEC_CALLS, s);
    }
    perf_cfg p = {.pid = c->pid, .specs = specs, .n_specs = n, .tasks = true, .ring_bytes = ring_bytes()};
    int rc = perf_open(&p, &c->perf, e);
    buf_fini(&filter);
    return rc;
}

int oc_open(int pid, const oc_cfg *cfg, oc_capture **out, err *e)
{
    err ignored = {0};
    uw_memory memory = {uw_read_process, (void *)(intptr_t)pid};
    oc_capture *c = mem_calloc(1, sizeof *c);
    if (!c) return err_set(e, ERR_NO_MEMORY, "no memory for an off-CPU capture");
    c->pid = pid;
    c->nested = oc_is_nested();
    c->spans = oc_new();
    c->stacks = oc_stacks_new();
    c->space = uw_space_new(&memory);
    c->names = c->space ? naming_new(c->space, pid) : NULL;
    int rc = c->spans && c->stacks && c->names ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for an off-CPU capture");
    if (rc == 0) c->kernel_names = naming_kernel(c->names, &ignored) == 0;
    if (rc == 0) rc = load_formats(c, (cfg && cfg->syscalls) || !c->kernel_names, e);
    if (rc == 0) rc = open_events(c, cfg, e);
    if (rc == 0 && cfg && cfg->builder) {
        c->code.builder = profile_builder_ref(cfg->builder);
        uw_space_code(c->space, profile_code_at, &c->code);
    }
    if (rc == 0) (void)uw_space_load(c->space, pid, &ignored); /* what comes later comes as records */
    if (rc < 0) {
        oc_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

/* ---- the window ---------------------------------------------------------------------------------------------------
 */

int oc_run(oc_capture *c, int64_t until_ns, err *e)
{
    int was = getpriority(PRIO_PROCESS, (id_t)gettid()); /* on Linux of this thread alone */
    c->begin_ns = perf_begin(c->perf);
    c->waiting =
        (oc_standing){.pid = c->pid, .space = c->space, .names = c->names, .stacks = c->stacks, .spans = c->spans};
    oc_standing_begin(&c->waiting, c->begin_ns);
    c->ran = true;
    bool raised = was > OC_NICE && setpriority(PRIO_PROCESS, (id_t)gettid(), OC_NICE) == 0;
    int rc = perf_run(c->perf, until_ns, on_record, c, e);
    if (raised) (void)setpriority(PRIO_PROCESS, (id_t)gettid(), was);
    perf_stats st;
    perf_stats_of(c->perf, &st);
    if (!st.target_ended) c->standing = oc_standing_end(&c->waiting);
    oc_end(c->spans, st.end_ns ? st.end_ns : mono_ns());
    return rc;
}

void oc_stop(oc_capture *c) { perf_stop(c->perf); }

/* Code of the runtime that it has not told of, or whose place it may give to other code. */
static bool is_unsure(const naming_name *n)
{
    if (n->kind == NAMING_MANAGED) return n->managed.dynamic && !slice_starts(n->managed.name, SLICE_LIT("IL_STUB"));
    if (n->kind == NAMING_UNKNOWN) return true;
    bool image = n->module.n > 4 && slice_eq_str(slice_of(n->module.p + n->module.n - 4, 4), ".dll");
    return n->kind == NAMING_NATIVE && !n->symbol && image;
}

uint32_t oc_unnamed(oc_capture *c, clr_methods *methods)
{
    map64 seen = {0};
    uint32_t n = 0;
    naming_methods(c->names, methods);
    for (uint32_t id = 1; n == 0 && id <= oc_stacks_count(c->stacks); id++) {
        uint32_t n_kernel, n_user;
        const uint64_t *ips = oc_stacks_get(c->stacks, id, &n_kernel, &n_user);
        for (uint32_t i = 0; n == 0 && i < n_user; i++) {
            uint64_t ip = ips[n_kernel + i], ignored;
            naming_name name;
            if (map64_get(&seen, ip, &ignored)) continue;
            if (!map64_put(&seen, ip, 1)) n = 1;
            uint64_t at = ip & OC_EXACT || ip == 0 ? ip & ~OC_EXACT : ip - 1; /* of a return address, its call */
            (void)naming_find(c->names, at, INT64_MAX, &name);
            if (is_unsure(&name)) n = 1;
        }
    }
    map64_fini(&seen);
    return n;
}

int oc_finish(oc_capture *c, clr_methods *methods, oc_result **out, err *e)
{
    perf_stats st;
    BUG_IF(!c->ran, e);
    if (methods)
        naming_methods(c->names, methods);
    else
        (void)naming_jit_map(c->names);
    int rc = oc_result_make(c->spans, c->stacks, c->names, out, e);
    if (rc < 0) return rc;
    oc_result *r = *out;
    perf_stats_of(c->perf, &st);
    r->lost = st.lost;
    r->samples = st.samples;
    r->records = st.records;
    r->late = st.late;
    r->damaged = st.damaged;
    r->threads_missing = st.threads_missing;
    r->fds = st.fds;
    r->standing = c->standing;
    r->begin_ns = st.begin_ns;
    r->end_ns = st.end_ns;
    r->target_ended = st.target_ended;
    r->filtered_wakers = c->filtered && !c->unwatched;
    r->kernel_names = c->kernel_names;
    r->syscalls_traced = c->syscalls;
    return 0;
}

void oc_close(oc_capture *c)
{
    if (!c) return;
    perf_close(c->perf);
    naming_free(c->names);
    uw_space_free(c->space);
    profile_code_fini(&c->code);
    profile_builder_unref(c->code.builder);
    oc_stacks_free(c->stacks);
    oc_free(c->spans);
    map64_fini(&c->live);
    map64_fini(&c->kernel_tids);
    oc_wakees_fini(&c->watched);
    oc_standing_fini(&c->waiting);
    free(c->lives);
    free(c);
}
