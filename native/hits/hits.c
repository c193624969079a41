/* SPDX-License-Identifier: MIT */
/* hits.c: one event a function; the frame of the function itself is left out of its stacks, so that the leaf is who
 * calls. */
#include "hits/hits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "naming/naming.h"
#include "offcpu/stacks.h"
#include "profile/code.h"

struct hits {
    atomic_uint refs;
    int pid;
    uint64_t period;
    bool counted_apart; /* event counts_at + i counts what event i samples */
    uint32_t counts_at;
    up_probes *probes;
    pthread_mutex_t lock; /* over the set's being there, which another thread may stop */
    perf_set *set;
    uw_space *space;
    naming *names;
    oc_stacks *stacks;        /* for what it remembers */
    profile_builder *builder; /* borrowed: it holds a reference to this */
    hl *ledger;               /* NULL: calls are what is asked for */
    uint32_t entries;         /* events of calls; then those of returns */
    uint8_t sorts[UP_PLACES_MAX];
    uint32_t entry_of[UP_PLACES_MAX]; /* of a return */
    profile_code code;                /* where its methods begin */
    hits_stats stats;
};

static void take_sample(hits *h, const perf_record *r)
{
    uint64_t ips[OC_FRAMES_MAX];
    uint32_t n = r->has_regs ? oc_stacks_user(h->stacks, h->space, r->tid, &r->regs, r->stack, ips) : 0;
    for (uint32_t i = 0; i < n; i++)
        ips[i] &= ~OC_EXACT;
    h->stats.samples++;
    if (r->spec < h->stats.n_functions) h->stats.functions[r->spec].samples++;
    profile_sample s = {.ips = ips + 1,
                        .n = n > 1 ? n - 1 : 0,
                        .thread = (uint32_t)r->tid,
                        .time = r->time,
                        .state = PROFILE_UNKNOWN,
                        .samples = r->period ? r->period : 1};
    if (!profile_add(h->builder, &s)) h->stats.dropped++;
}

/* ---- blocks that are not freed ----------------------------------------------------------------------------------- */

/* How a function of an allocator tells the size and the address: man malloc(3), posix_memalign(3). */
typedef enum sort { SORT_OTHER, SORT_MALLOC, SORT_CALLOC, SORT_REALLOC, SORT_POSIX, SORT_ALIGNED, SORT_FREE } sort;
static const struct {
    const char *name;
    sort sort;
} sorts[] = {{"malloc", SORT_MALLOC},
             {"calloc", SORT_CALLOC},
             {"realloc", SORT_REALLOC},
             {"posix_memalign", SORT_POSIX},
             {"aligned_alloc", SORT_ALIGNED},
             {"memalign", SORT_ALIGNED},
             {"free", SORT_FREE}};

static sort sort_of(const char *name)
{
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++)
        if (strcmp(name, sorts[i].name) == 0) return sorts[i].sort;
    return SORT_OTHER;
}

static void on_call(hits *h, const perf_record *r)
{
    uint64_t ips[OC_FRAMES_MAX];
    const uint64_t *a = r->regs.r;
    uint64_t di = a[UW_RDI], si = a[UW_RSI], sp = a[UW_RSP];
    sort s = h->sorts[r->spec];
    hl_block b = {.function = r->spec};
    if (s == SORT_FREE) {
        (void)hl_enter(h->ledger, HL_FREE, r->tid, sp, di, NULL);
        return;
    }
    uint32_t n = oc_stacks_user(h->stacks, h->space, r->tid, &r->regs, r->stack, ips);
    for (uint32_t i = 0; i < n; i++)
        ips[i] &= ~OC_EXACT;
    b.stack = n > 1 ? oc_stacks_put(h->stacks, NULL, 0, ips + 1, n - 1) : 0;
    b.bytes = s == SORT_MALLOC ? di : s == SORT_CALLOC ? di * si : s == SORT_POSIX ? a[UW_RDX] : si;
    bool addressed = s == SORT_REALLOC || s == SORT_POSIX;
    (void)hl_enter(h->ledger, s == SORT_REALLOC ? HL_REALLOC : HL_ALLOC, r->tid, sp, addressed ? di : 0, &b);
}

/* posix_memalign writes its block where the caller wants it, mostly into a variable on the stack, which the sample has.
 */
static uint64_t written(const hits *h, const perf_record *r, uint64_t where)
{
    uint64_t v = 0, sp = r->regs.r[UW_RSP];
    if (where >= sp && r->stack.n >= sizeof v && where - sp <= r->stack.n - sizeof v)
        memcpy(&v, r->stack.p + (where - sp), sizeof v);
    else if (!uw_read_process((void *)(intptr_t)h->pid, where, &v, sizeof v))
        v = 0;
    return v;
}

static void on_return(hits *h, const perf_record *r)
{
    uint64_t sp = r->regs.r[UW_RSP] - sizeof(uint64_t), got = r->regs.r[UW_RAX], where;
    if (h->sorts[h->entry_of[r->spec]] == SORT_POSIX && hl_pending(h->ledger, r->tid, sp, &where))
        got = (int)got == 0 ? written(h, r, where) : 0;
    hl_leave(h->ledger, r->tid, sp, got);
}

static void take_step(hits *h, const perf_record *r)
{
    if (!r->has_regs || r->spec >= UP_PLACES_MAX) return;
    h->stats.samples += r->spec < h->entries;
    if (r->spec >= h->entries) {
        on_return(h, r);
    } else {
        h->stats.functions[r->spec].samples++;
        on_call(h, r);
    }
}

static void add_site(void *arg, const hl_block *b, uint64_t blocks, uint64_t bytes)
{
    hits *h = arg;
    uint32_t n_kernel = 0, n = 0;
    const uint64_t *ips = oc_stacks_get(h->stacks, b->stack, &n_kernel, &n);
    naming_name ignored;
    for (uint32_t i = 0; i < n; i++)
        (void)naming_find(h->names, ips[i], 0, &ignored); /* opens its file, while the process is there */
    profile_sample s = {.ips = ips,
                        .n = n,
                        .state = PROFILE_UNKNOWN,
                        .samples = blocks,
                        .weight = bytes,
                        .what = slice_str(h->stats.functions[b->function].name)};
    if (!profile_add(h->builder, &s)) h->stats.dropped += blocks;
}

static int close_ledger(hits *h, err *e)
{
    hl_totals_of(h->ledger, &h->stats.ledger);
    h->stats.has_ledger = true;
    return hl_sites(h->ledger, add_site, h) ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for what was not freed");
}

static void take_map(hits *h, const perf_map *m)
{
    char open[4200];
    int n = snprintf(open, sizeof open, "/proc/%d/root%.*s", h->pid, (int)m->path.n, (const char *)m->path.p);
    uw_map x = {.start = m->start,
                .end = m->start + m->size,
                .file_offset = m->file_offset,
                .executable = m->prot & 4,
                .path = m->path,
                .open = m->path.n && m->path.p[0] == '/' && n > 0 && (size_t)n < sizeof open ? open : NULL};
    (void)uw_space_map(h->space, &x);
}

static void on_record(void *arg, const perf_record *r)
{
    hits *h = arg;
    if (r->kind == PERF_SAMPLE && r->pid == h->pid && h->ledger)
        take_step(h, r);
    else if (r->kind == PERF_SAMPLE && r->pid == h->pid)
        take_sample(h, r);
    else if (r->kind == PERF_MMAP && r->pid == h->pid)
        take_map(h, &r->map);
}

static bool resolve(void *arg, uint64_t ip, int64_t time, profile_name *out)
{
    naming_name n;
    const hits *h = arg;
    if (!naming_find(h->names, ip, time, &n)) return false;
    *out = (profile_name){.module = n.module, .method = n.method, .kernel = n.kind == NAMING_KERNEL};
    return true;
}

static void let_go(void *arg) { hits_unref(arg); }

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int open_events(hits *h, err *e)
{
    perf_spec specs[2 * UP_PLACES_MAX];
    uint32_t n = up_count(h->probes);
    /* What samples is held back when there is too much of it, and does not count meanwhile. */
    h->counted_apart = h->stats.way == UP_TRACEFS;
    for (uint32_t i = 0; i < n; i++) {
        specs[i] = up_spec(h->probes, i, h->period);
        bool bare = h->ledger && (i >= h->entries ? h->sorts[h->entry_of[i]] != SORT_POSIX : h->sorts[i] == SORT_FREE);
        specs[i].take |= bare ? PERF_TAKE_REGS : PERF_TAKE_USER;
        specs[i].stack_bytes = HITS_STACK_BYTES;
    }
    for (uint32_t i = 0; h->counted_apart && i < h->entries; i++)
        specs[n + i] = up_spec(h->probes, i, 0);
    h->counts_at = h->counted_apart ? n : 0;
    if (h->counted_apart) n += h->entries;
    perf_cfg p = {.pid = h->pid, .specs = specs, .n_specs = n, .tasks = true, .ring_bytes = HITS_RING_BYTES};
    return perf_open(&p, &h->set, e);
}

/* The returns of what allocates, behind the calls. */
static int add_returns(hits *h, const hits_cfg *cfg, up_place *places, uint32_t *n, err *e)
{
    bool frees = false;
    h->entries = *n;
    for (uint32_t i = 0; i < h->entries; i++) {
        h->sorts[i] = (uint8_t)sort_of(cfg->functions[places[i].function]);
        frees |= h->sorts[i] == SORT_FREE;
        if (h->sorts[i] == SORT_FREE) continue;
        if (h->sorts[i] == SORT_OTHER || *n == UP_PLACES_MAX)
            return err_set(e, ERR_INVALID_ARGUMENT, "what is not freed is told of the functions of malloc(3) only");
        h->entry_of[*n] = i;
        places[*n] = places[i];
        places[(*n)++].at_return = true;
    }
    if (!frees) return err_set(e, ERR_NOT_SUPPORTED, "process %d has no function free beside its malloc", cfg->pid);
    h->ledger = hl_new();
    return h->ledger ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for the blocks of process %d", cfg->pid);
}

static int open_probes(hits *h, const hits_cfg *cfg, err *e)
{
    up_place places[UP_PLACES_MAX];
    uint32_t n = 0;
    int rc = up_find(cfg->pid, cfg->functions, cfg->n_functions, places, &n, e);
    if (rc == 0 && cfg->outstanding) rc = add_returns(h, cfg, places, &n, e);
    if (rc == 0) rc = up_open(cfg->pid, places, n, cfg->outstanding ? "tracefs-uprobe" : cfg->way, &h->probes, e);
    if (rc < 0) return rc;
    h->stats.way = up_way_of(h->probes);
    h->stats.crowded = up_crowded(h->probes);
    h->stats.left_out = n - up_count(h->probes);
    if (!cfg->outstanding) h->entries = up_count(h->probes);
    h->stats.n_functions = h->entries;
    for (uint32_t i = 0; i < h->stats.n_functions; i++) {
        h->stats.functions[i].function = places[i].function;
        snprintf(h->stats.functions[i].name, sizeof h->stats.functions[i].name, "%s",
                 cfg->functions[places[i].function]);
        memcpy(h->stats.functions[i].library, places[i].library, sizeof places[i].library);
    }
    return open_events(h, e);
}

int hits_open(const hits_cfg *cfg, hits **out, err *e)
{
    BUG_IF(cfg->n_functions == 0 || cfg->n_functions > UP_PLACES_MAX || cfg->period == 0, e);
    int64_t began = mono_ns();
    uw_memory code = {uw_read_process, (void *)(intptr_t)cfg->pid};
    hits *h = mem_calloc(1, sizeof *h);
    if (!h) return err_set(e, ERR_NO_MEMORY, "no memory for the calls of process %d", cfg->pid);
    _Static_assert(2 * UP_PLACES_MAX <= PERF_SPECS_MAX, "one that samples and one that counts");
    atomic_init(&h->refs, 1);
    pthread_mutex_init(&h->lock, NULL);
    h->pid = cfg->pid;
    h->period = cfg->period;
    h->builder = cfg->builder;
    h->stacks = oc_stacks_new();
    h->space = uw_space_new(&code);
    h->names = h->space ? naming_new(h->space, cfg->pid) : NULL;
    int rc = h->stacks && h->names ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for the calls of process %d", cfg->pid);
    if (rc == 0) rc = open_probes(h, cfg, e);
    if (rc == 0) rc = uw_space_load(h->space, cfg->pid, e); /* later than the events, so that no map is missed */
    if (rc < 0) {
        hits_unref(h);
        return rc;
    }
    h->code.builder = h->builder;
    uw_space_code(h->space, profile_code_at, &h->code);
    h->stats.open_ns = mono_ns() - began;
    profile_own_resolver(h->builder, resolve, hits_ref(h), let_go);
    *out = h;
    return 0;
}

/* ---- closing in a thread of its own ------------------------------------------------------------------------------ */

typedef struct closing {
    perf_set *set;
    up_probes *probes;
} closing;

static void *close_both(void *arg)
{
    closing *c = arg;
    perf_close(c->set);
    up_close(c->probes);
    free(c);
    return NULL;
}

/* False: no memory or thread, and nothing was done. */
static bool close_aside(perf_set *set, up_probes *probes)
{
    pthread_t t;
    closing *c = mem_alloc(sizeof *c);
    if (!c) return false;
    *c = (closing){set, probes};
    if (pthread_create(&t, NULL, close_both, c) != 0) {
        free(c);
        return false;
    }
    pthread_detach(t);
    return true;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

int hits_run(hits *h, int64_t until_ns, err *e)
{
    uint64_t before[UP_PLACES_MAX] = {0};
    oc_stacks_stats st;
    uint32_t first = h->counts_at;
    for (uint32_t i = 0; i < h->stats.n_functions; i++)
        (void)perf_count(h->set, first + i, &before[i]);
    int rc = perf_run(h->set, until_ns, on_record, h, e);
    perf_stats_of(h->set, &h->stats.perf);
    for (uint32_t i = 0; i < h->stats.n_functions; i++) {
        uint64_t now = 0;
        if (perf_count(h->set, first + i, &now) && now > before[i]) h->stats.functions[i].calls = now - before[i];
        h->stats.calls += h->stats.functions[i].calls;
    }
    oc_stacks_stats_of(h->stacks, &st);
    h->stats.broken = st.lost + st.cut;
    if (h->ledger && rc == 0) rc = close_ledger(h, e);
    (void)naming_jit_map(h->names); /* while the process is there */
    int64_t began = mono_ns();
    pthread_mutex_lock(&h->lock);
    perf_set *set = h->set;
    h->set = NULL;
    pthread_mutex_unlock(&h->lock);
    if (h->stats.way == UP_PERF && close_aside(set, h->probes)) {
        h->probes = NULL; /* they are disabled; the kernel takes seconds to remove many of them */
        return rc;
    }
    perf_close(set); /* the program is free of the probes from here on */
    up_close(h->probes);
    h->probes = NULL;
    h->stats.close_ns = mono_ns() - began;
    return rc;
}

void hits_stop(hits *h)
{
    pthread_mutex_lock(&h->lock);
    if (h->set) perf_stop(h->set);
    pthread_mutex_unlock(&h->lock);
}

void hits_stats_of(const hits *h, hits_stats *out) { *out = h->stats; }

hits *hits_ref(hits *h)
{
    atomic_fetch_add(&h->refs, 1);
    return h;
}

void hits_unref(hits *h)
{
    if (!h || atomic_fetch_sub(&h->refs, 1) != 1) return;
    perf_close(h->set);
    up_close(h->probes);
    naming_free(h->names);
    uw_space_free(h->space);
    oc_stacks_free(h->stacks);
    hl_free(h->ledger);
    profile_code_fini(&h->code);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
