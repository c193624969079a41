/* SPDX-License-Identifier: MIT */
/* oncpu.c: samples of the CPU clock into a profile. A stack is taken from the registers and the bytes that came with a
 * sample; where these end the kernel's own walk along frame pointers, which reaches further but misses frames without
 * one, tells the rest. */
#include "oncpu/oncpu.h"

#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "naming/naming.h"
#include "profile/code.h"

#define KERNEL_HALF (UINT64_C(1) << 63)

#define MET_MAX 1024u

struct oncpu {
    atomic_uint refs;
    int pid;
    perf_set *set;
    uw_space *space;
    naming *names;
    profile_builder *builder; /* borrowed after oncpu_run: it holds a reference to this */
    profile_code code;        /* where its methods begin */
    uint64_t met[MET_MAX];    /* addresses whose file has been opened for its symbols */
    bool opened[NAMING_FILES_MAX];
    oncpu_stats stats;
    uw_frame frames[ONCPU_FRAMES_MAX];
    uint64_t ips[2 * ONCPU_FRAMES_MAX];
};

/* ---- stacks ------------------------------------------------------------------------------------------------------ */

typedef struct bytes {
    uint64_t at;
    slice s;
} bytes;

static bool read_bytes(void *arg, uint64_t address, void *out, size_t n)
{
    const bytes *b = arg;
    if (address < b->at || address - b->at > b->s.n || n > b->s.n - (address - b->at)) return false;
    memcpy(out, b->s.p + (address - b->at), n);
    return true;
}

/* The parts of a chain: kernel frames, then the program's. */
typedef struct chain {
    const uint64_t *kernel, *user;
    uint32_t n_kernel, n_user;
} chain;

static chain split(const perf_record *r)
{
    chain c = {0};
    const uint64_t **part = NULL;
    uint32_t *n = NULL;
    for (uint32_t i = 0; i < r->n_chain; i++) {
        uint64_t ip = r->chain[i];
        if (ip >= PERF_CONTEXT_MAX) { /* a mark */
            part = ip == PERF_CONTEXT_KERNEL ? &c.kernel : ip == PERF_CONTEXT_USER ? &c.user : NULL;
            n = ip == PERF_CONTEXT_KERNEL ? &c.n_kernel : &c.n_user;
        } else if (part) {
            if (!*n) *part = &r->chain[i];
            ++*n;
        }
    }
    return c;
}

/* The rest of a stack whose bytes ended, from the kernel's chain: behind the frame that both have. */
static uint32_t join(oncpu *c, uint32_t n_frames, const chain *k, uint64_t *out, uint32_t max)
{
    for (uint32_t f = n_frames; f > 0; f--)
        for (uint32_t i = 0; i < k->n_user; i++) {
            if (k->user[i] != c->frames[f - 1].ip) continue;
            uint32_t n = 0;
            for (uint32_t at = i + 1; at < k->n_user && n < max && k->user[at]; at++)
                out[n++] = k->user[at];
            if (n) c->stats.joined++;
            /* Frames behind the common one are the same, or there would be a common one behind it. */
            return n;
        }
    return 0;
}

/* Opens the files of a stack for their symbols while the process is there: its root goes with it. */
static void open_files(oncpu *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t ip = c->frames[i].ip, *met = &c->met[hash_u64(ip) % MET_MAX];
        uw_module m;
        naming_name ignored;
        if (*met == ip) continue;
        *met = ip;
        if (!uw_space_find(c->space, ip, &m) || m.index >= NAMING_FILES_MAX || c->opened[m.index]) continue;
        c->opened[m.index] = true;
        (void)naming_find(c->names, ip, 0, &ignored);
    }
}

static uint32_t user_stack(oncpu *c, const perf_record *r, const chain *k, uint64_t *out, uint32_t max)
{
    uw_end end = UW_END_MEMORY;
    bytes b = {r->regs.r[UW_RSP], r->stack};
    uw_memory stack = {read_bytes, &b};
    uint32_t n = 0, walked = 0;
    if (r->has_regs) {
        walked = uw_walk(c->space, &r->regs, &stack, c->frames, ONCPU_FRAMES_MAX, &end);
        open_files(c, walked);
        for (; n < walked && n < max; n++)
            out[n] = c->frames[n].ip;
    } else {
        c->stats.no_user++;
    }
    if (end == UW_END_ROOT) return n;
    uint32_t more = walked ? join(c, walked, k, out + n, max - n) : 0;
    if (!more) c->stats.broken++;
    return n + more;
}

static void take_sample(oncpu *c, const perf_record *r)
{
    chain k = split(r);
    uint32_t n = 0;
    bool kernel = r->ip >= KERNEL_HALF;
    c->stats.in_kernel += kernel;
    if (!c->stats.kernel_names && (kernel || k.n_kernel)) {
        c->ips[n++] = KERNEL_HALF; /* addresses without names tell nothing but where the kernel was loaded */
        k.n_kernel = 0;
    }
    for (uint32_t i = 0; i < k.n_kernel && n < ONCPU_FRAMES_MAX; i++)
        c->ips[n++] = k.kernel[i];
    if (n == 0 && kernel) c->ips[n++] = r->ip; /* its stack was refused, not the place */
    int64_t began = mono_ns();
    n += user_stack(c, r, &k, c->ips + n, 2 * ONCPU_FRAMES_MAX - n);
    c->stats.unwind_ns += mono_ns() - began;
    profile_sample s = {.ips = c->ips,
                        .n = n,
                        .leaf_exact = true,
                        .thread = (uint32_t)r->tid,
                        .time = r->time,
                        .state = PROFILE_RUNNING,
                        .samples = 1,
                        .weight = r->period};
    if (!profile_add(c->builder, &s)) c->stats.dropped++;
}

static void take_map(oncpu *c, const perf_map *m)
{
    char open[4200];
    uw_map x = {.start = m->start,
                .end = m->start + m->size,
                .file_offset = m->file_offset,
                .executable = (m->prot & PROT_EXEC) != 0,
                .path = m->path};
    if (m->path.n && m->path.p[0] == '/') {
        snprintf(open, sizeof open, "/proc/%d/root%.*s", c->pid, (int)m->path.n, (const char *)m->path.p);
        x.open = open;
    }
    (void)uw_space_map(c->space, &x);
}

static void on_record(void *arg, const perf_record *r)
{
    oncpu *c = arg;
    if (r->kind == PERF_SAMPLE && r->pid == c->pid)
        take_sample(c, r);
    else if (r->kind == PERF_MMAP && r->pid == c->pid)
        take_map(c, &r->map);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool resolve(void *arg, uint64_t ip, int64_t time, profile_name *out)
{
    oncpu *c = arg;
    naming_name n;
    if (ip == KERNEL_HALF) {
        *out = (profile_name){.module = SLICE_LIT("[kernel]"), .method = SLICE_LIT("(not named)"), .kernel = true};
        return true;
    }
    if (!naming_find(c->names, ip, time, &n)) return false;
    *out = (profile_name){.module = n.module, .method = n.method, .kernel = n.kind == NAMING_KERNEL};
    return true;
}

static void let_go(void *arg) { oncpu_unref(arg); }

/* ---- the whole --------------------------------------------------------------------------------------------------- */

int oncpu_open(const oncpu_cfg *cfg, oncpu **out, err *e)
{
    oncpu *c = mem_calloc(1, sizeof *c);
    err kernel = {0};
    if (!c) return err_set(e, ERR_NO_MEMORY, "no memory for samples");
    atomic_init(&c->refs, 1);
    c->pid = cfg->pid;
    c->stats.hz = cfg->hz ? cfg->hz : ONCPU_HZ;
    if (c->stats.hz > ONCPU_HZ_MAX) c->stats.hz = ONCPU_HZ_MAX;
    uw_memory code = {uw_read_process, (void *)(intptr_t)cfg->pid};
    c->space = uw_space_new(&code);
    c->names = c->space ? naming_new(c->space, cfg->pid) : NULL;
    if (!c->names) {
        oncpu_unref(c);
        return err_set(e, ERR_NO_MEMORY, "no memory for samples");
    }
    c->stats.kernel_names = naming_kernel(c->names, &kernel) == 0;
    snprintf(c->stats.kernel_why, sizeof c->stats.kernel_why, "%s", kernel.message);
    perf_spec s = perf_cpu_clock(c->stats.hz);
    s.take = PERF_TAKE_KERNEL_CHAIN | PERF_TAKE_USER_CHAIN | PERF_TAKE_USER;
    s.stack_bytes = cfg->stack_bytes ? cfg->stack_bytes : ONCPU_STACK_BYTES;
    perf_cfg p = {.pid = cfg->pid, .specs = &s, .n_specs = 1, .tasks = true};
    int rc = perf_open(&p, &c->set, e);
    if (rc == 0) rc = uw_space_load(c->space, cfg->pid, e); /* later than the events, so that no map is missed */
    if (rc < 0) {
        oncpu_unref(c);
        return rc;
    }
    c->builder = cfg->builder;
    c->code.builder = cfg->builder;
    uw_space_code(c->space, profile_code_at, &c->code);
    profile_own_resolver(c->builder, resolve, oncpu_ref(c), let_go);
    *out = c;
    return 0;
}

int oncpu_run(oncpu *c, int64_t until_ns, err *e)
{
    int rc = perf_run(c->set, until_ns, on_record, c, e);
    uw_stats u;
    uw_space_stats(c->space, &u);
    perf_stats_of(c->set, &c->stats.perf);
    c->stats.by_cfi = u.by_cfi;
    c->stats.by_frame_pointer = u.by_frame_pointer;
    c->stats.by_code = u.by_code;
    c->stats.guesses = u.guesses;
    naming_stats s;
    (void)naming_jit_map(c->names); /* while the process is there */
    naming_stats_of(c->names, &s);
    c->stats.jit_map = (uint32_t)s.jit_functions;
    return rc;
}

void oncpu_stop(oncpu *c) { perf_stop(c->set); }
void oncpu_stats_of(const oncpu *c, oncpu_stats *out) { *out = c->stats; }

oncpu *oncpu_ref(oncpu *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

void oncpu_unref(oncpu *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1) return;
    perf_close(c->set);
    naming_free(c->names);
    uw_space_free(c->space);
    profile_code_fini(&c->code);
    free(c);
}
