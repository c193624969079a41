/* SPDX-License-Identifier: MIT */
/* methods_find.c: lives of bodies out of the map's rows, and the look-up of an address at a time.
 *
 * Rows of one start address in order of time tell a history: load, seen alive, unload. A life holds what the events
 * prove (first to last) and how far it may reach (from, to): back to the life before it, on to the next. Bodies that
 * overlap without an equal start can only be told apart by these times too, when they are looked up. */
#include <stdlib.h>

#include "clr/methods_internal.h"

/* ---- names of rows that came without ----------------------------------------------------------------------------- */

#define TWO_NAMES UINT64_MAX

/* For each id in names: 1 + the row that names it, or TWO_NAMES. */
static bool find_names(const clr_methods *m, map64 *names)
{
    for (size_t i = 0; i < m->n; i++)
        if (!clr__named(&m->rows[i]) && !map64_put(names, m->rows[i].method_id, 0)) return false;
    for (size_t i = 0; names->n && i < m->n; i++) {
        const clr__row *r = &m->rows[i];
        uint64_t have;
        if (!clr__named(r) || !map64_get(names, r->method_id, &have) || have == TWO_NAMES) continue;
        if (have && clr__same_text(m->rows[have - 1].text, r->text)) continue;
        map64_put(names, r->method_id, have ? TWO_NAMES : i + 1);
    }
    return true;
}

/* Gives rows without names those of their method; one that had two names in its time stays without. */
static bool lend_names(const clr_methods *m)
{
    map64 names = {0};
    bool ok = find_names(m, &names);
    for (size_t i = 0; ok && names.n && i < m->n; i++) {
        clr__row *r = &m->rows[i];
        uint64_t have;
        if (clr__named(r) || !map64_get(&names, r->method_id, &have) || have == 0 || have == TWO_NAMES) continue;
        r->text = m->rows[have - 1].text;
    }
    map64_fini(&names);
    return ok;
}

/* ---- lives ------------------------------------------------------------------------------------------------------- */

static int by_start_and_time(const void *a, const void *b)
{
    const clr__row *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->ts != y->ts) return x->ts < y->ts ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int64_t just_after(int64_t ts) { return ts < INT64_MAX ? ts + 1 : ts; }

/* The history of one start address while it is told. */
typedef struct history {
    const clr_methods *m;
    clr__index *ix;
    bool open;     /* the last life goes on */
    int64_t ended; /* when the one before could be gone */
} history;

static clr__life *last_life(const history *h) { return &h->ix->lives[h->ix->n - 1]; }

static bool same_body(const clr__row *a, const clr__row *b)
{
    return a->method_id == b->method_id && a->size == b->size &&
           (!clr__named(a) || !clr__named(b) || clr__same_text(a->text, b->text));
}

static void begin_life(history *h, uint32_t row)
{
    const clr__row *r = &h->m->rows[row];
    h->ix->lives[h->ix->n++] = (clr__life){
        .from = h->ended, .to = INT64_MAX, .first = r->ts, .last = r->ts, .row = row, .loaded = r->kind == CLR__LOAD};
    h->open = true;
}

static void end_life(history *h, int64_t at)
{
    last_life(h)->to = at;
    h->ended = at;
    h->open = false;
}

/* One more row of the address. */
static void tell(history *h, uint32_t row)
{
    const clr__row *rows = h->m->rows, *r = &rows[row];
    if (h->open && same_body(&rows[last_life(h)->row], r)) {
        clr__life *l = last_life(h);
        l->last = r->ts;
        if (clr__named(r)) l->row = row;
    } else {
        if (h->open && r->kind == CLR__LOAD) {
            end_life(h, r->ts); /* its unload was not seen */
        } else if (h->open) {   /* at some time before this row the body changed, unseen: unknown in between */
            end_life(h, just_after(last_life(h)->last));
            h->ended = r->ts;
        }
        begin_life(h, row);
    }
    if (r->kind == CLR__UNLOAD) end_life(h, just_after(r->ts));
}

static uint64_t end_of(const clr_methods *m, const clr__life *l)
{
    return m->rows[l->row].start + m->rows[l->row].size;
}

/* Depth is the logarithm of the number of lives. */
static uint64_t set_max_ends(const clr_methods *m, clr__life *lives, size_t lo, size_t hi)
{
    if (lo >= hi) return 0;
    size_t mid = lo + (hi - lo) / 2;
    uint64_t end = end_of(m, &lives[mid]);
    uint64_t left = set_max_ends(m, lives, lo, mid), right = set_max_ends(m, lives, mid + 1, hi);
    if (left > end) end = left;
    if (right > end) end = right;
    lives[mid].max_end = end;
    return end;
}

static bool build(const clr_methods *m)
{
    clr__index *ix = m->index;
    if (ix->fresh) return true;
    ix->n = 0;
    if (ix->cap < m->n) {
        clr__life *lives = mem_realloc(ix->lives, m->n * sizeof *lives);
        if (!lives) return false;
        ix->lives = lives;
        ix->cap = m->n;
    }
    if (!lend_names(m)) return false;
    if (m->n) qsort(m->rows, m->n, sizeof *m->rows, by_start_and_time);
    history h = {.m = m, .ix = ix, .ended = INT64_MIN};
    uint64_t at = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (m->rows[i].kind == CLR__NAME || m->rows[i].kind == CLR__ENTRY) continue;
        if (m->rows[i].start != at) {
            at = m->rows[i].start;
            h.open = false;
            h.ended = INT64_MIN;
        }
        tell(&h, (uint32_t)i);
    }
    set_max_ends(m, ix->lives, 0, ix->n);
    ix->fresh = true;
    return true;
}

/* ---- look-up ----------------------------------------------------------------------------------------------------- */

/* How sure it is that a life held the address at the time, best last. */
typedef enum rank { NONE, BEFORE_LOAD, BEFORE, AFTER, SURE, RANKS } rank;

typedef struct pick {
    const clr_methods *m;
    uint64_t ip;
    int64_t ts;
    uint32_t seen;
    const clr__life *any;
    bool several; /* not all of the same method */
    struct {
        const clr__life *life; /* the nearest */
        bool unclear;          /* another one as near, of another method */
    } of[RANKS];
} pick;

static rank rank_of(const clr__life *l, int64_t ts)
{
    if (ts == INT64_MAX) return AFTER; /* the latest that was there, gone or not */
    if (ts < l->from || ts >= l->to) return NONE;
    if (ts < l->first) return l->loaded ? BEFORE_LOAD : BEFORE;
    return ts > l->last ? AFTER : SURE;
}

static bool same_method(const clr_methods *m, const clr__life *a, const clr__life *b)
{
    const clr__row *x = &m->rows[a->row], *y = &m->rows[b->row];
    return clr__named(x) && clr__named(y) && clr__same_text(x->text, y->text);
}

/* Above 0: a is nearer to the time than b. */
static int nearer(rank r, const clr__life *a, const clr__life *b)
{
    if (r == SURE) return 0;
    int64_t x = r == AFTER ? a->last : b->first, y = r == AFTER ? b->last : a->first;
    return x < y ? -1 : x > y;
}

static void consider(pick *p, const clr__life *l)
{
    if (p->any && !same_method(p->m, p->any, l)) p->several = true;
    p->any = l;
    rank r = rank_of(l, p->ts);
    const clr__life *best = p->of[r].life;
    int order = best ? nearer(r, l, best) : 1;
    if (order > 0) {
        p->of[r].life = l;
        p->of[r].unclear = false;
    } else if (order == 0 && !same_method(p->m, best, l)) {
        p->of[r].unclear = true;
    }
}

/* NULL: nobody, or more than one could have been there. */
static const clr__life *decide(const pick *p)
{
    rank r = SURE;
    while (r > NONE && !p->of[r].life)
        r--;
    if (r == NONE || p->of[r].unclear) return NULL;
    /* last seen before, and another seen after, and no load that says since when: either */
    bool either = r == AFTER && p->of[BEFORE].life && !same_method(p->m, p->of[AFTER].life, p->of[BEFORE].life);
    return either ? NULL : p->of[r].life;
}

static void visit(pick *p, size_t lo, size_t hi)
{
    const clr__life *lives = p->m->index->lives;
    while (lo < hi && p->seen <= CLR_METHOD_LIVES_MAX) {
        size_t mid = lo + (hi - lo) / 2;
        if (lives[mid].max_end <= p->ip) return;
        visit(p, lo, mid);
        if (p->m->rows[lives[mid].row].start > p->ip) return;
        if (end_of(p->m, &lives[mid]) > p->ip && p->seen++ < CLR_METHOD_LIVES_MAX) consider(p, &lives[mid]);
        lo = mid + 1;
    }
}

static const char *tier_of(uint32_t flags)
{
    static const char *const tiers[] = {"Unknown",
                                        "MinOptJitted",
                                        "Optimized",
                                        "QuickJitted",
                                        "OptimizedTier1",
                                        "OptimizedTier1OSR",
                                        "QuickJittedInstrumented",
                                        "OptimizedTier1Instrumented"};
    if (flags & 0x1) return "Unknown"; /* dynamic: compiled once, outside of tiering */
    if (!(flags & 0x8)) return "ReadyToRun";
    return tiers[flags >> 7 & 7];
}

static slice module_name(const clr_methods *m, const clr__module *mod)
{
    uint64_t text;
    if (mod->name != CLR__NO_TEXT) return strtab_get(m->text, mod->name);
    if (mod->assembly && map64_get(&m->assembly_names, mod->assembly, &text))
        return strtab_get(m->text, (uint32_t)text);
    return SLICE_LIT("");
}

static slice text_of(const clr_methods *m, uint32_t id)
{
    return id == CLR__NO_TEXT ? SLICE_LIT("") : strtab_get(m->text, id);
}

clr_module clr_methods_module(const clr_methods *m, uint32_t index)
{
    if (index >= m->n_modules) return (clr_module){0};
    const clr__module *mod = &m->modules[index];
    return (clr_module){.name = module_name(m, mod),
                        .path = text_of(m, mod->path),
                        .has_pdb = mod->has_pdb,
                        .pdb_guid = mod->pdb_guid,
                        .pdb_age = mod->pdb_age,
                        .pdb_path = text_of(m, mod->pdb_path)};
}

bool clr_methods_find(const clr_methods *m, uint64_t ip, int64_t ts, clr_method *out)
{
    if (!build(m)) return false;
    pick p = {.m = m, .ip = ip, .ts = ts};
    visit(&p, 0, m->index->n);
    const clr__life *life = p.seen > CLR_METHOD_LIVES_MAX ? NULL : decide(&p);
    if (!life) return false;
    const clr__row *r = &m->rows[life->row];
    const clr__module *mod = &m->modules[r->module];
    if (!clr__named(r)) return false;
    *out = (clr_method){.namespace_ = strtab_get(m->text, r->text.namespace_),
                        .name = strtab_get(m->text, r->text.name),
                        .signature = strtab_get(m->text, r->text.signature),
                        .module = module_name(m, mod),
                        .module_path = text_of(m, mod->path),
                        .start = r->start,
                        .size = r->size,
                        .method_id = r->method_id,
                        .module_id = mod->id,
                        .rejit_id = r->rejit_id,
                        .module_index = r->module,
                        .token = r->token,
                        .dynamic = r->flags & 0x1,
                        .cold = r->flags >> 28 == 1,
                        .tier = tier_of(r->flags)};
    return true;
}

bool clr_methods_reused(const clr_methods *m, uint64_t ip)
{
    if (!build(m)) return false;
    pick p = {.m = m, .ip = ip};
    visit(&p, 0, m->index->n);
    return p.several || p.seen > CLR_METHOD_LIVES_MAX;
}

/* The number of rows that begin at or before ip. */
static size_t rows_until(const clr_methods *m, uint64_t ip)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (m->rows[mid].start <= ip)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool clr_methods_entry(const clr_methods *m, uint64_t ip, clr_method *out)
{
    if (!m->entries || !build(m)) return false;
    size_t n = rows_until(m, ip);
    if (n == 0 || ip - m->rows[n - 1].start >= CLR_ENTRY_REACH) return false;
    const clr__row *r = &m->rows[n - 1];
    for (size_t i = n; i-- > 0 && m->rows[i].start == r->start;)
        if (m->rows[i].kind != CLR__ENTRY || !clr__same_text(m->rows[i].text, r->text)) return false;
    *out = (clr_method){.namespace_ = strtab_get(m->text, r->text.namespace_),
                        .name = strtab_get(m->text, r->text.name),
                        .signature = strtab_get(m->text, r->text.signature),
                        .start = r->start,
                        .method_id = r->method_id,
                        .module_index = UINT32_MAX,
                        .tier = "ReadyToRun"};
    return true;
}

bool clr_method_name(const clr_method *m, buf *out)
{
    const uint8_t *paren = m->signature.n ? memchr(m->signature.p, '(', m->signature.n) : NULL;
    if (m->namespace_.n) buf_slice(out, m->namespace_);
    if (m->namespace_.n) buf_u8(out, '.');
    buf_slice(out, m->name);
    if (paren) buf_slice(out, slice_of(paren, m->signature.n - (size_t)(paren - m->signature.p)));
    return !out->failed;
}
