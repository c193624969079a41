/* SPDX-License-Identifier: MIT */
/* collect.c: stacks as a tree of addresses, and how often each was seen on which thread. Everything is charged to one
 * cap; what finds no room is refused, and whoever asked counts it. */
#include <stdlib.h>
#include <unistd.h>

#include "profile/profile_internal.h"

#define FIRST_STEPS  1024u
#define FIRST_COUNTS 256u
#define TEXT_MAX     ((size_t)32 << 20)

static bool charge(pf_store *s, size_t n)
{
    if (n > s->max - s->memory) return false;
    s->memory += n;
    return true;
}

bool pf_store_room(pf_store *s, void **array, uint32_t n, uint32_t *cap, size_t each, uint32_t first)
{
    if (n < *cap) return true;
    uint32_t more = *cap ? *cap / 2 + 1 : first;
    if (*cap > UINT32_MAX / 2 || !charge(s, more * each)) return false;
    void *grown = mem_realloc(*array, (*cap + more) * each);
    if (!grown) {
        s->memory -= more * each;
        return false;
    }
    *array = grown;
    *cap += more;
    return true;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static uint32_t step_hash(uint32_t parent, uint64_t ip, uint32_t exact)
{
    uint64_t h = (ip ^ (uint64_t)parent << 33 ^ exact) * UINT64_C(0x9E3779B97F4A7C15);
    h ^= h >> 29;
    h *= UINT64_C(0xBF58476D1CE4E5B9);
    return (uint32_t)(h >> 32);
}

/* False: no memory, or over the cap. */
static bool widen_steps(pf_store *s)
{
    uint32_t slots = s->step_slots ? 2 * s->step_slots : 2 * FIRST_STEPS, mask = slots - 1;
    if (slots == 0 || !charge(s, slots * sizeof *s->step_cells)) return false;
    uint64_t *cells = mem_calloc(slots, sizeof *cells);
    if (!cells) {
        s->memory -= slots * sizeof *cells;
        return false;
    }
    for (uint32_t i = 0; i < s->step_slots; i++) {
        if (!s->step_cells[i]) continue;
        uint32_t k = (uint32_t)(s->step_cells[i] >> 32) & mask;
        while (cells[k])
            k = (k + 1) & mask;
        cells[k] = s->step_cells[i];
    }
    free(s->step_cells);
    s->memory -= s->step_slots * sizeof *cells;
    s->step_cells = cells;
    s->step_slots = slots;
    return true;
}

uint32_t pf_store_step(pf_store *s, uint32_t parent, uint64_t ip, bool exact)
{
    if ((s->n_steps + 1) / 3 * 4 >= s->step_slots && !widen_steps(s)) return PF_NONE;
    uint32_t hash = step_hash(parent, ip, exact), mask = s->step_slots - 1, k = hash & mask;
    for (; s->step_cells[k]; k = (k + 1) & mask) {
        if ((uint32_t)(s->step_cells[k] >> 32) != hash) continue;
        uint32_t i = (uint32_t)s->step_cells[k];
        const pf_step *p = &s->steps[i];
        if (p->ip == ip && p->parent == parent && p->exact == exact) return i;
    }
    if (!pf_store_room(s, (void **)&s->steps, s->n_steps, &s->cap_steps, sizeof *s->steps, FIRST_STEPS)) return PF_NONE;
    s->steps[s->n_steps] = (pf_step){.ip = ip, .parent = parent, .exact = exact};
    s->step_cells[k] = (uint64_t)hash << 32 | s->n_steps;
    return s->n_steps++;
}

static bool widen_known(pf_store *s)
{
    uint32_t slots = s->known_slots ? 2 * s->known_slots : 512, mask = slots - 1;
    if (slots == 0 || !charge(s, slots * sizeof *s->known)) return false;
    pf_known *known = mem_calloc(slots, sizeof *known);
    if (!known) {
        s->memory -= slots * sizeof *known;
        return false;
    }
    for (uint32_t i = 0; i < s->known_slots; i++) {
        if (!s->known[i].step) continue;
        uint32_t k = (uint32_t)s->known[i].a & mask;
        while (known[k].step)
            k = (k + 1) & mask;
        known[k] = s->known[i];
    }
    free(s->known);
    s->memory -= s->known_slots * sizeof *known;
    s->known = known;
    s->known_slots = slots;
    return true;
}

static uint32_t make_stack(pf_store *s, slice ips, uint32_t pointer, bool exact)
{
    size_t n = ips.n / pointer;
    uint32_t step = 0, before = s->n_steps;
    for (size_t i = n > PROFILE_DEPTH_MAX ? PROFILE_DEPTH_MAX : n; i > 0; i--) {
        uint64_t ip = 0;
        memcpy(&ip, ips.p + (i - 1) * pointer, pointer);
        step = pf_store_step(s, step, ip, exact && i == 1);
        if (step == PF_NONE) return PF_NONE;
    }
    if (s->n_steps != before) s->stacks++;
    return step;
}

/* A stack is walked step by step when it is new, which costs a look-up a frame; later a look at its hash is enough. */
uint32_t pf_store_stack(pf_store *s, slice ips, uint32_t pointer, bool exact)
{
    if (ips.n < pointer) return 0;
    uint64_t a = hash_bytes(ips, s->key[0] + exact), b = hash_bytes(ips, s->key[1] ^ exact);
    bool room = (s->n_known + 1) / 3 * 4 < s->known_slots || widen_known(s);
    uint32_t mask = s->known_slots - 1, k = (uint32_t)a & mask;
    for (; s->known_slots && s->known[k].step; k = (k + 1) & mask)
        if (s->known[k].a == a && s->known[k].b == b) return s->known[k].step;
    uint32_t step = make_stack(s, ips, pointer, exact);
    if (!room || step == PF_NONE || step == 0) return step;
    s->known[k] = (pf_known){a, b, step};
    s->n_known++;
    return step;
}

/* ---- threads, types, symbols ------------------------------------------------------------------------------------- */

uint32_t pf_store_thread(pf_store *s, uint64_t thread)
{
    uint64_t at;
    if (map64_get(&s->thread_at, thread, &at)) return (uint32_t)at;
    if (!pf_store_room(s, (void **)&s->threads, s->n_threads, &s->cap_threads, sizeof *s->threads, 64)) return PF_NONE;
    if (!charge(s, 48) || !map64_put(&s->thread_at, thread, s->n_threads)) return PF_NONE;
    s->threads[s->n_threads] = thread;
    return s->n_threads++;
}

/* STRTAB_FULL: no room. */
static uint32_t intern(pf_store *s, slice text)
{
    uint32_t before = strtab_count(s->text);
    if (text.n + 64 > s->max - s->memory) return strtab_find(s->text, text);
    uint32_t id = strtab_intern(s->text, text);
    if (strtab_count(s->text) != before) s->memory += text.n + 64;
    return id;
}

uint32_t pf_store_type(pf_store *s, slice name)
{
    uint32_t text = intern(s, name);
    if (text == STRTAB_FULL) return PF_NONE;
    while (text >= s->cap_type_at) {
        uint32_t had = s->cap_type_at;
        if (!pf_store_room(s, (void **)&s->type_at, had, &s->cap_type_at, sizeof *s->type_at, 256)) return PF_NONE;
        memset(s->type_at + had, 0, (s->cap_type_at - had) * sizeof *s->type_at);
    }
    if (s->type_at[text]) return s->type_at[text] - 1;
    if (!pf_store_room(s, (void **)&s->types, s->n_types, &s->cap_types, sizeof *s->types, 64)) return PF_NONE;
    s->types[s->n_types] = (pf_type){.name = text};
    s->type_at[text] = s->n_types + 1;
    return s->n_types++;
}

uint64_t profile_symbol(profile_builder *b, slice module, slice method, bool kernel)
{
    pf_store *s = &b->store;
    uint32_t m = intern(s, module), f = intern(s, method);
    if (m == STRTAB_FULL || f == STRTAB_FULL) return UINT64_MAX;
    uint64_t at, key = (uint64_t)m << 33 | (uint64_t)f << 1 | kernel;
    if (map64_get(&s->symbol_at, key, &at)) return PF_SYMBOL_BITS | at;
    if (!pf_store_room(s, (void **)&s->symbols, s->n_symbols, &s->cap_symbols, sizeof *s->symbols, 64) ||
        !charge(s, 48) || !map64_put(&s->symbol_at, key, s->n_symbols))
        return UINT64_MAX;
    s->symbols[s->n_symbols] = (pf_symbol){.module = m, .method = f, .kernel = kernel};
    return PF_SYMBOL_BITS | s->n_symbols++;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

static uint32_t count_hash(uint32_t step, uint32_t thread, uint32_t what)
{
    uint64_t h = ((uint64_t)step << 32 ^ (uint64_t)thread << 11 ^ what) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32);
}

static bool widen_counts(pf_store *s)
{
    uint32_t slots = s->count_slots ? 2 * s->count_slots : 2 * FIRST_COUNTS, mask = slots - 1;
    if (slots == 0 || !charge(s, slots * sizeof *s->count_cells)) return false;
    uint32_t *cells = mem_calloc(slots, sizeof *cells);
    if (!cells) {
        s->memory -= slots * sizeof *cells;
        return false;
    }
    for (uint32_t i = 0; i < s->n_counts; i++) {
        const pf_count *c = &s->counts[i];
        uint32_t k = count_hash(c->step, c->thread, c->what) & mask;
        while (cells[k])
            k = (k + 1) & mask;
        cells[k] = i + 1;
    }
    free(s->count_cells);
    s->memory -= s->count_slots * sizeof *cells;
    s->count_cells = cells;
    s->count_slots = slots;
    return true;
}

uint32_t pf_store_count(pf_store *s, uint32_t step, uint32_t thread, uint32_t what, uint64_t samples, uint64_t weight,
                        int64_t time)
{
    if ((s->n_counts + 1) / 3 * 4 >= s->count_slots && !widen_counts(s)) return PF_NONE;
    uint32_t mask = s->count_slots - 1, k = count_hash(step, thread, what) & mask;
    for (; s->count_cells[k]; k = (k + 1) & mask) {
        uint32_t i = s->count_cells[k] - 1;
        const pf_count *c = &s->counts[i];
        if (c->step != step || c->thread != thread || c->what != what) continue;
        pf_store_again(s, i, samples, weight, time);
        return i;
    }
    if (!pf_store_room(s, (void **)&s->counts, s->n_counts, &s->cap_counts, sizeof *s->counts, FIRST_COUNTS))
        return PF_NONE;
    s->counts[s->n_counts] = (pf_count){.step = step,
                                        .thread = thread,
                                        .what = what,
                                        .samples = samples,
                                        .weight = weight,
                                        .first = time,
                                        .last = time};
    s->count_cells[k] = ++s->n_counts;
    return s->n_counts - 1;
}

/* ---- the store --------------------------------------------------------------------------------------------------- */

bool pf_store_init(pf_store *s, size_t max)
{
    *s = (pf_store){.max = max};
    if (getentropy(s->key, sizeof s->key) < 0) s->key[0] = (uintptr_t)s; /* never on a kernel that we run on */
    s->text = strtab_new(0, max < TEXT_MAX ? max : TEXT_MAX);
    if (!s->text || !pf_store_room(s, (void **)&s->steps, 0, &s->cap_steps, sizeof *s->steps, FIRST_STEPS))
        return false;
    s->steps[0] = (pf_step){0};
    s->n_steps = 1;
    return true;
}

void pf_store_fini(pf_store *s)
{
    free(s->steps);
    free(s->step_cells);
    free(s->known);
    free(s->counts);
    free(s->count_cells);
    free(s->threads);
    free(s->types);
    free(s->type_at);
    free(s->symbols);
    map64_fini(&s->thread_at);
    map64_fini(&s->symbol_at);
    strtab_free(s->text);
    *s = (pf_store){0};
}
