/* SPDX-License-Identifier: MIT */
/* stacks.c: see stacks.h. */
#include "offcpu/stacks.h"

#include <stdlib.h>

enum { MEMOS = 4096 };

typedef struct entry {
    const uint64_t *ips; /* kernel, then user */
    uint64_t hash;
    uint16_t n_kernel, n_user;
} entry;

/* A stack that was unwound, and where its return addresses lay. */
typedef struct memo {
    int tid;
    uint64_t ip, sp;
    uint32_t n;
    uint64_t *ips;     /* n of them; ips[0] is where it stood */
    uint32_t *offsets; /* of the return address ips[i], from sp */
    uint32_t cap;
} memo;

struct oc_stacks {
    arena a;
    entry *entries;
    size_t n, cap;
    uint32_t *at; /* index + 1 */
    uint32_t slots;
    memo *memos;
    oc_stacks_stats stats;
};

oc_stacks *oc_stacks_new(void)
{
    oc_stacks *s = mem_calloc(1, sizeof *s);
    if (!s) return NULL;
    s->a.max = OC_STACK_BYTES_MAX;
    s->memos = mem_calloc(MEMOS, sizeof *s->memos);
    if (s->memos) return s;
    free(s);
    return NULL;
}

void oc_stacks_free(oc_stacks *s)
{
    if (!s) return;
    for (int i = 0; i < MEMOS; i++) {
        free(s->memos[i].ips);
        free(s->memos[i].offsets);
    }
    free(s->memos);
    free(s->entries);
    free(s->at);
    arena_free(&s->a);
    free(s);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const uint64_t *ips, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ ips[i]) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 32;
    }
    return h;
}

static bool widen(oc_stacks *s)
{
    uint32_t slots = s->slots ? s->slots * 2 : 1024;
    uint32_t *at = mem_calloc(slots, sizeof *at);
    if (!at) return false;
    for (size_t i = 0; i < s->n; i++) {
        uint32_t k = (uint32_t)s->entries[i].hash & (slots - 1);
        while (at[k])
            k = (k + 1) & (slots - 1);
        at[k] = (uint32_t)i + 1;
    }
    free(s->at);
    s->at = at;
    s->slots = slots;
    return true;
}

static bool same(const entry *x, const uint64_t *kernel, uint32_t n_kernel, const uint64_t *user, uint32_t n_user)
{
    return x->n_kernel == n_kernel && x->n_user == n_user &&
           (n_kernel == 0 || memcmp(x->ips, kernel, n_kernel * sizeof *kernel) == 0) &&
           (n_user == 0 || memcmp(x->ips + n_kernel, user, n_user * sizeof *user) == 0);
}

static bool grow(oc_stacks *s)
{
    if (s->n < s->cap) return true;
    size_t to = s->cap ? s->cap * 2 : 256;
    entry *grown = mem_realloc(s->entries, to * sizeof *grown);
    if (!grown) return false;
    s->entries = grown;
    s->cap = to;
    return true;
}

uint32_t oc_stacks_put(oc_stacks *s, const uint64_t *kernel, uint32_t n_kernel, const uint64_t *user, uint32_t n_user)
{
    if (n_kernel + n_user == 0) return 0;
    if (n_kernel > OC_KERNEL_MAX) n_kernel = OC_KERNEL_MAX;
    if (n_user > OC_FRAMES_MAX) n_user = OC_FRAMES_MAX;
    if ((s->n / 3 * 4 + 4 >= s->slots && !widen(s)) || s->n == OC_STACKS_MAX) {
        s->stats.dropped++;
        return 0;
    }
    uint64_t hash = mix(mix(n_kernel, kernel, n_kernel), user, n_user);
    uint32_t mask = s->slots - 1, k = (uint32_t)hash & mask;
    for (; s->at[k]; k = (k + 1) & mask) {
        const entry *x = &s->entries[s->at[k] - 1];
        if (x->hash == hash && same(x, kernel, n_kernel, user, n_user)) return s->at[k];
    }
    uint64_t *ips = grow(s) ? arena_alloc(&s->a, (n_kernel + n_user) * sizeof *ips) : NULL;
    if (!ips) {
        s->stats.dropped++;
        return 0;
    }
    if (n_kernel) memcpy(ips, kernel, n_kernel * sizeof *ips);
    if (n_user) memcpy(ips + n_kernel, user, n_user * sizeof *ips);
    s->entries[s->n] = (entry){.ips = ips, .hash = hash, .n_kernel = (uint16_t)n_kernel, .n_user = (uint16_t)n_user};
    s->at[k] = (uint32_t)++s->n;
    return (uint32_t)s->n;
}

uint32_t oc_stacks_count(const oc_stacks *s) { return (uint32_t)s->n; }

const uint64_t *oc_stacks_get(const oc_stacks *s, uint32_t id, uint32_t *n_kernel, uint32_t *n_user)
{
    if (id == 0 || id > s->n) return NULL;
    const entry *x = &s->entries[id - 1];
    *n_kernel = x->n_kernel;
    *n_user = x->n_user;
    return x->ips;
}

void oc_stacks_stats_of(const oc_stacks *s, oc_stacks_stats *out)
{
    *out = s->stats;
    out->bytes = s->a.used;
}

/* ---- unwinding --------------------------------------------------------------------------------------------------- */

typedef struct sampled {
    slice stack;
    uint64_t sp;
} sampled;

static bool read_stack(void *arg, uint64_t address, void *out, size_t n)
{
    const sampled *m = arg;
    if (address < m->sp || address - m->sp > m->stack.n || m->stack.n - (address - m->sp) < n) return false;
    memcpy(out, m->stack.p + (address - m->sp), n);
    return true;
}

static memo *memo_of(oc_stacks *s, int tid, uint64_t ip, uint64_t sp)
{
    return &s->memos[hash_u64(ip ^ sp << 1 ^ (uint64_t)(uint32_t)tid << 44) % MEMOS];
}

static bool still_holds(const memo *m, slice stack)
{
    for (uint32_t i = 1; i < m->n; i++) {
        uint64_t v;
        if (m->offsets[i] + sizeof v > stack.n) return false;
        memcpy(&v, stack.p + m->offsets[i], sizeof v);
        if (v != (m->ips[i] & ~OC_EXACT)) return false;
    }
    return true;
}

static bool memo_room(memo *m, uint32_t n)
{
    if (n <= m->cap) return true;
    uint64_t *ips = mem_realloc(m->ips, n * sizeof *ips);
    if (!ips) return false;
    m->ips = ips;
    uint32_t *offsets = mem_realloc(m->offsets, n * sizeof *offsets);
    if (!offsets) return false;
    m->offsets = offsets;
    m->cap = n;
    return true;
}

/* Where the return address of each frame lay: right below the stack pointer of its frame. False: not so for one of
 * them, and the stack is not remembered. */
static bool find_slots(memo *m, const uw_frame *f, uint32_t n, uint64_t sp, slice stack)
{
    for (uint32_t i = 1; i < n; i++) {
        uint64_t at = f[i].sp - sizeof(uint64_t) - sp, v;
        if (f[i].exact || f[i].sp < sp + sizeof v || at + sizeof v > stack.n) return false;
        memcpy(&v, stack.p + at, sizeof v);
        if (v != f[i].ip) return false;
        m->offsets[i] = (uint32_t)at;
    }
    return true;
}

static void remember(memo *m, int tid, const uw_frame *f, uint32_t n, uint64_t sp, slice stack, const uint64_t *ips)
{
    m->n = 0;
    if (!memo_room(m, n) || !find_slots(m, f, n, sp, stack)) return;
    memcpy(m->ips, ips, n * sizeof *ips);
    m->tid = tid;
    m->ip = f[0].ip;
    m->sp = sp;
    m->n = n;
}

uint32_t oc_stacks_user(oc_stacks *s, uw_space *space, int tid, const uw_regs *regs, slice stack, uint64_t *out)
{
    uint64_t ip = regs->r[UW_RIP], sp = regs->r[UW_RSP];
    memo *m = memo_of(s, tid, ip, sp);
    if (m->n && m->tid == tid && m->ip == ip && m->sp == sp && still_holds(m, stack)) {
        s->stats.remembered++;
        memcpy(out, m->ips, m->n * sizeof *out);
        return m->n;
    }
    uw_frame frames[OC_FRAMES_MAX];
    uw_end end;
    sampled bytes = {stack, sp};
    uint32_t n = uw_walk(space, regs, &(uw_memory){read_stack, &bytes}, frames, OC_FRAMES_MAX, &end);
    s->stats.walked++;
    if (end == UW_END_MEMORY || end == UW_END_MAX) s->stats.cut++;
    if (end == UW_END_NO_INFO || end == UW_END_LOOP) s->stats.lost++;
    for (uint32_t i = 0; i < n; i++)
        out[i] = frames[i].ip | (frames[i].exact || i == 0 ? OC_EXACT : 0);
    remember(m, tid, frames, n, sp, stack, out);
    return n;
}
