/* SPDX-License-Identifier: MIT */
/* frames.c: addresses become methods. Each different address is looked up once, unless its range had several methods:
 * then for each stack, by the stack's time. Addresses of one method, whatever its bodies, are one frame. */
#include <stdio.h>
#include <stdlib.h>

#include "profile/profile_internal.h"

/* An address as it occurs in stacks. */
typedef struct address {
    uint64_t ip, own, through;
    uint64_t method_id, rejit_id, start;
    const char *tier;
    uint32_t frame;   /* PF_NONE: reused; each of its methods has an entry of its own */
    uint32_t variant; /* 0: the only one; else its frame + 1 */
    uint32_t exact : 1, cold : 1;
} address;

/* What makes a method one and the same. Texts of the map of methods are interned: equal pointers are equal texts. */
typedef struct identity {
    const void *module, *type, *name, *signature;
    uint64_t ip;
    uint32_t token, kind;
} identity;

typedef struct cells {
    uint32_t *at; /* index + 1 */
    uint32_t slots;
} cells;

struct pf_namer {
    profile *p;
    profile_builder *b;
    address *addresses;
    uint32_t n_addresses, cap_addresses;
    cells by_ip;
    identity *identities; /* of the frames */
    uint32_t cap_frames;
    cells by_identity;
    uint32_t *module_of; /* by the map's index: index in the profile + 1 */
    uint32_t cap_module_of, cap_modules;
    strtab *groups, *namespaces, *modules;
    buf text;
};

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static bool room(void **array, uint32_t n, uint32_t *cap, size_t each)
{
    if (n < *cap) return true;
    uint32_t to = *cap ? *cap + *cap / 2 : 64;
    void *grown = mem_realloc(*array, to * each);
    if (!grown) return false;
    *array = grown;
    *cap = to;
    return true;
}

static bool cells_widen(cells *c, uint32_t n, uint64_t (*hash)(const pf_namer *, uint32_t), const pf_namer *w)
{
    if (n / 3 * 4 + 4 < c->slots) return true;
    uint32_t slots = c->slots ? 2 * c->slots : 512;
    uint32_t *at = mem_calloc(slots, sizeof *at);
    if (!at) return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = (uint32_t)hash(w, i) & (slots - 1);
        while (at[k])
            k = (k + 1) & (slots - 1);
        at[k] = i + 1;
    }
    free(c->at);
    *c = (cells){at, slots};
    return true;
}

static uint64_t hash_address(uint64_t ip, uint32_t exact, uint32_t variant)
{
    return hash_u64(ip ^ (uint64_t)exact << 62 ^ (uint64_t)variant << 40);
}

static uint64_t address_hash(const pf_namer *w, uint32_t i)
{
    return hash_address(w->addresses[i].ip, w->addresses[i].exact, w->addresses[i].variant);
}

static uint64_t hash_identity(const identity *d)
{
    uint64_t h = hash_u64((uintptr_t)d->name ^ (uint64_t)d->token << 32);
    return hash_u64(h ^ (uintptr_t)d->type ^ (uintptr_t)d->signature << 7 ^ (uintptr_t)d->module << 13 ^ d->ip);
}

static uint64_t identity_hash(const pf_namer *w, uint32_t i) { return hash_identity(&w->identities[i]); }

/* Without memory PF_NONE. A new one has frame PF_NONE. */
static uint32_t address_at(pf_namer *w, uint64_t ip, uint32_t exact, uint32_t variant, bool *made)
{
    *made = false;
    if (!cells_widen(&w->by_ip, w->n_addresses, address_hash, w)) return PF_NONE;
    uint32_t mask = w->by_ip.slots - 1, k = (uint32_t)hash_address(ip, exact, variant) & mask;
    for (; w->by_ip.at[k]; k = (k + 1) & mask) {
        const address *a = &w->addresses[w->by_ip.at[k] - 1];
        if (a->ip == ip && a->exact == exact && a->variant == variant) return w->by_ip.at[k] - 1;
    }
    if (!room((void **)&w->addresses, w->n_addresses, &w->cap_addresses, sizeof *w->addresses)) return PF_NONE;
    w->addresses[w->n_addresses] = (address){.ip = ip, .exact = exact, .variant = variant, .frame = PF_NONE};
    w->by_ip.at[k] = w->n_addresses + 1;
    *made = true;
    return w->n_addresses++;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static slice keep(pf_namer *w, slice text)
{
    const char *copy = arena_str(&w->p->a, text);
    return copy ? slice_of(copy, text.n) : SLICE_LIT("");
}

/* An index for a text, from a table that has "" first. */
static uint32_t number(strtab *t, slice text)
{
    uint32_t id = strtab_intern(t, text);
    return id == STRTAB_FULL ? 0 : id;
}

/* The profile's module of one of the map; the same file loaded twice is one. PF_NONE: no memory. */
static uint32_t module_of(pf_namer *w, uint32_t index)
{
    profile *p = w->p;
    while (index >= w->cap_module_of) {
        uint32_t had = w->cap_module_of;
        if (!room((void **)&w->module_of, had, &w->cap_module_of, sizeof *w->module_of)) return PF_NONE;
        memset(w->module_of + had, 0, (w->cap_module_of - had) * sizeof *w->module_of);
    }
    if (w->module_of[index]) return w->module_of[index] - 1;
    clr_module c = clr_methods_module(w->b->methods, index);
    buf_reset(&w->text);
    if (!buf_slice(&w->text, c.name) || !buf_u8(&w->text, 0) || !buf_slice(&w->text, c.path) || !buf_u8(&w->text, 0) ||
        (c.has_pdb && !buf_put(&w->text, c.pdb_guid, 16)))
        return PF_NONE;
    uint32_t i = strtab_intern(w->modules, buf_view(&w->text)); /* numbers from 0 on, as the profile's */
    if (i == STRTAB_FULL) return PF_NONE;
    if (i == p->n_modules) {
        if (!room((void **)&p->modules, i, &w->cap_modules, sizeof *p->modules)) return PF_NONE;
        p->modules[i] = (profile_module){.name = keep(w, c.name),
                                         .path = keep(w, c.path),
                                         .has_pdb = c.has_pdb,
                                         .pdb_age = c.pdb_age,
                                         .pdb_path = keep(w, c.pdb_path)};
        if (c.has_pdb) memcpy(p->modules[i].pdb_guid, c.pdb_guid, 16);
        p->n_modules++;
    }
    w->module_of[index] = i + 1;
    return i;
}

/* The wait of a leaf by its plain name. */
static int32_t wait_of(pf_namer *w, const profile_frame *f)
{
    if (w->b->cfg.n_waits == 0) return -1;
    buf_reset(&w->text);
    bool ok = true;
    if (f->name.n) {
        ok = pf_plain_name(f->type, &w->text) && buf_u8(&w->text, '.') && pf_plain_name(f->name, &w->text);
    } else {
        const uint8_t *paren = f->method.n ? memchr(f->method.p, '(', f->method.n) : NULL;
        ok = pf_plain_name(slice_of(f->method.p, paren ? (size_t)(paren - f->method.p) : f->method.n), &w->text);
    }
    return ok ? pf_wait_of(w->b->waits, w->b->cfg.n_waits, buf_view(&w->text)) : -1;
}

/* PF_NONE: no memory. */
static uint32_t add_frame(pf_namer *w, const identity *d, profile_frame f)
{
    profile *p = w->p;
    uint32_t cap = w->cap_frames;
    if (!room((void **)&w->identities, p->n_frames, &cap, sizeof *w->identities)) return PF_NONE;
    if (!room((void **)&p->frames, p->n_frames, &w->cap_frames, sizeof *p->frames)) return PF_NONE;
    if (f.module.n == 0 && f.kind != PROFILE_FRAME_ROOT) f.module = SLICE_LIT("?");
    f.group = number(w->groups, f.module);
    f.namespace_index = number(w->namespaces, pf_namespace_of(f.type));
    slice owner, name;
    f.async = pf_async_parts(f.type, f.name, &owner, &name);
    f.wait = f.kind == PROFILE_FRAME_ROOT ? -1 : wait_of(w, &f);
    p->frames[p->n_frames] = f;
    w->identities[p->n_frames] = *d;
    return p->n_frames++;
}

/* The frame of an identity, or where a new one goes (*cell). False: no memory. */
static bool find_frame(pf_namer *w, const identity *d, uint32_t *frame, uint32_t *cell)
{
    if (!cells_widen(&w->by_identity, w->p->n_frames, identity_hash, w)) return false;
    uint32_t mask = w->by_identity.slots - 1, k = (uint32_t)hash_identity(d) & mask;
    *frame = PF_NONE;
    for (; w->by_identity.at[k]; k = (k + 1) & mask) {
        const identity *o = &w->identities[w->by_identity.at[k] - 1];
        if (o->name == d->name && o->type == d->type && o->signature == d->signature && o->module == d->module &&
            o->ip == d->ip && o->token == d->token && o->kind == d->kind) {
            *frame = w->by_identity.at[k] - 1;
            break;
        }
    }
    *cell = k;
    return true;
}

static uint32_t put_frame(pf_namer *w, const identity *d, uint32_t cell, profile_frame f)
{
    if (w->p->a.failed) return PF_NONE;
    uint32_t frame = add_frame(w, d, f);
    if (frame != PF_NONE) w->by_identity.at[cell] = frame + 1;
    return frame;
}

static uint32_t managed_frame(pf_namer *w, const clr_method *m)
{
    profile_frame_kind kind = m->dynamic ? PROFILE_FRAME_DYNAMIC : PROFILE_FRAME_MANAGED;
    identity d = {.module = m->module_path.n ? m->module_path.p : m->module.p,
                  .type = m->namespace_.p,
                  .name = m->name.p,
                  .signature = m->signature.p,
                  .token = m->token,
                  .kind = kind};
    uint32_t frame, cell;
    if (!find_frame(w, &d, &frame, &cell)) return PF_NONE;
    if (frame != PF_NONE) return frame;
    buf_reset(&w->text);
    if (!clr_method_name(m, &w->text)) return PF_NONE;
    profile_frame f = {.method = keep(w, buf_view(&w->text)), .token = m->token, .kind = kind};
    f.type = slice_of(f.method.p, m->namespace_.n);
    f.name = slice_of(f.method.p + m->namespace_.n + (m->namespace_.n ? 1 : 0), m->name.n);
    f.signature = keep(w, m->signature);
    if (m->module_index != PF_NONE) {
        f.module_index = module_of(w, m->module_index);
        if (f.module_index == PF_NONE) return PF_NONE;
        f.module = w->p->modules[f.module_index].name;
    } else { /* of clr_methods_entry */
        f.module_index = PF_NONE;
    }
    return put_frame(w, &d, cell, f);
}

static uint32_t unresolved_frame(pf_namer *w, uint64_t ip)
{
    identity d = {.ip = ip, .kind = PROFILE_FRAME_UNRESOLVED};
    uint32_t frame, cell;
    if (!find_frame(w, &d, &frame, &cell)) return PF_NONE;
    if (frame != PF_NONE) return frame;
    char text[24];
    int n = snprintf(text, sizeof text, "0x%llx", (unsigned long long)ip);
    profile_frame f = {.module = SLICE_LIT("?"),
                       .method = keep(w, slice_of(text, (size_t)n)),
                       .kind = PROFILE_FRAME_UNRESOLVED,
                       .module_index = PF_NONE};
    return put_frame(w, &d, cell, f);
}

/* A name that finds no room leaves the address. */
static uint32_t symbol_frame(pf_namer *w, uint64_t ip, slice module, slice method, bool kernel)
{
    profile_frame_kind kind = kernel ? PROFILE_FRAME_KERNEL : PROFILE_FRAME_NATIVE;
    uint32_t m = strtab_intern(w->b->store.text, module), n = strtab_intern(w->b->store.text, method);
    if (m == STRTAB_FULL || n == STRTAB_FULL) return unresolved_frame(w, ip);
    identity d = {.module = strtab_get(w->b->store.text, m).p, .name = strtab_get(w->b->store.text, n).p, .kind = kind};
    uint32_t frame, cell;
    if (!find_frame(w, &d, &frame, &cell)) return PF_NONE;
    if (frame != PF_NONE) return frame;
    profile_frame f = {.module = keep(w, module), .method = keep(w, method), .kind = kind, .module_index = PF_NONE};
    return put_frame(w, &d, cell, f);
}

/* ---- look-up ----------------------------------------------------------------------------------------------------- */

/* A return address may lie behind the end of its method; where a thread stood may be the first byte of one. */
static bool method_at(const pf_namer *w, uint64_t ip, uint32_t exact, int64_t ts, clr_method *m)
{
    uint64_t first = exact || ip == 0 ? ip : ip - 1, second = exact && ip ? ip - 1 : ip;
    return clr_methods_find(w->b->methods, first, ts, m) || clr_methods_find(w->b->methods, second, ts, m);
}

static bool is_reused(const pf_namer *w, uint64_t ip)
{
    return clr_methods_reused(w->b->methods, ip ? ip - 1 : 0) || clr_methods_reused(w->b->methods, ip);
}

static void set_body(address *a, const clr_method *m)
{
    a->method_id = m->method_id;
    a->rejit_id = m->rejit_id;
    a->start = m->start;
    a->tier = m->tier;
    a->cold = m->cold;
}

/* The frame of an address that no managed method is at. */
static uint32_t foreign_frame(pf_namer *w, uint64_t ip, bool exact, int64_t ts)
{
    profile_name name = {0};
    const profile_builder *b = w->b;
    clr_method m;
    if (b->resolve && b->resolve(b->resolve_arg, exact || ip == 0 ? ip : ip - 1, ts, &name) && name.method.n)
        return symbol_frame(w, ip, name.module, name.method, name.kernel);
    if (b->told && clr_methods_entry(b->methods, ip ? ip - 1 : 0, &m)) return managed_frame(w, &m);
    return unresolved_frame(w, ip);
}

/* The entry of a step's address; a new one is looked up unless its method depends on the time. PF_NONE: no memory. */
static uint32_t see(pf_namer *w, const pf_step *s)
{
    bool made;
    uint32_t at = address_at(w, s->ip, s->exact, 0, &made);
    if (at == PF_NONE || !made) return at;
    uint32_t frame;
    clr_method m;
    if (pf_is_symbol(s->ip)) {
        uint64_t i = s->ip & ~PF_SYMBOL_MASK;
        if (i >= w->b->store.n_symbols) {
            frame = unresolved_frame(w, s->ip);
        } else {
            pf_symbol y = w->b->store.symbols[i];
            frame = symbol_frame(w, s->ip, strtab_get(w->b->store.text, y.module),
                                 strtab_get(w->b->store.text, y.method), y.kernel);
        }
    } else if (is_reused(w, s->ip)) {
        return at;
    } else if (method_at(w, s->ip, s->exact, INT64_MAX, &m)) {
        frame = managed_frame(w, &m);
        set_body(&w->addresses[at], &m);
    } else {
        frame = foreign_frame(w, s->ip, s->exact, INT64_MAX);
    }
    w->addresses[at].frame = frame;
    return frame == PF_NONE ? PF_NONE : at;
}

bool pf_namer_see(pf_namer *w, const pf_step *s, bool *reused)
{
    uint32_t at = see(w, s);
    *reused = at != PF_NONE && w->addresses[at].frame == PF_NONE;
    return at != PF_NONE;
}

/* The entry for the method that was at a reused address from the first to the last time; none if that changed. */
static uint32_t at_times(pf_namer *w, const pf_step *s, int64_t first, int64_t last)
{
    clr_method m, later;
    bool known = method_at(w, s->ip, s->exact, first, &m);
    uint32_t frame = known ? managed_frame(w, &m) : PF_NONE;
    if (known && last != first && (!method_at(w, s->ip, s->exact, last, &later) || managed_frame(w, &later) != frame))
        known = false;
    if (!known) frame = foreign_frame(w, s->ip, s->exact, first);
    if (frame == PF_NONE) return PF_NONE;
    bool made;
    uint32_t at = address_at(w, s->ip, s->exact, frame + 1, &made);
    if (at == PF_NONE) return PF_NONE;
    w->addresses[at].frame = frame;
    if (made && known) set_body(&w->addresses[at], &m);
    return at;
}

uint32_t pf_namer_frame(pf_namer *w, const pf_step *s, int64_t first, int64_t last, uint64_t own, uint64_t through)
{
    uint32_t at = see(w, s);
    if (at != PF_NONE && w->addresses[at].frame == PF_NONE) at = at_times(w, s, first, last);
    if (at == PF_NONE) return PF_NONE;
    w->addresses[at].own += own;
    w->addresses[at].through += through;
    return w->addresses[at].frame;
}

profile_frame_kind pf_namer_kind(const pf_namer *w, uint32_t frame) { return w->p->frames[frame].kind; }
int32_t pf_namer_wait(const pf_namer *w, uint32_t frame) { return w->p->frames[frame].wait; }

/* ---- making and giving away -------------------------------------------------------------------------------------- */

pf_namer *pf_namer_new(profile *p, profile_builder *b)
{
    pf_namer *w = mem_calloc(1, sizeof *w);
    if (!w) return NULL;
    w->p = p;
    w->b = b;
    buf_init(&w->text, 0);
    w->groups = strtab_new(0, 0);
    w->namespaces = strtab_new(0, 0);
    w->modules = strtab_new(0, 0);
    uint32_t frame, cell;
    identity d = {.kind = PROFILE_FRAME_ROOT};
    profile_frame root = {.method = SLICE_LIT("<root>"), .kind = PROFILE_FRAME_ROOT, .module_index = PF_NONE};
    if (w->groups && w->namespaces && w->modules && find_frame(w, &d, &frame, &cell) &&
        put_frame(w, &d, cell, root) == 0)
        return w;
    pf_namer_free(w);
    return NULL;
}

void pf_namer_free(pf_namer *w)
{
    if (!w) return;
    free(w->addresses);
    free(w->by_ip.at);
    free(w->identities);
    free(w->by_identity.at);
    free(w->module_of);
    strtab_free(w->groups);
    strtab_free(w->namespaces);
    strtab_free(w->modules);
    buf_fini(&w->text);
    free(w);
}

static bool hotter(const address *a, const address *b)
{
    if (a->own != b->own) return a->own > b->own;
    return a->through != b->through ? a->through > b->through : a->ip < b->ip;
}

/* The IL offset of an address. A body's cold part has no map of its own. */
static uint32_t il_offset_of(const pf_namer *w, const address *a)
{
    uint64_t ip = a->ip - (a->exact ? 0 : 1);
    if (!w->b->il_maps || !a->method_id || a->cold || ip < a->start || ip - a->start > UINT32_MAX) return CLR_IL_NONE;
    return clr_il_maps_find(w->b->il_maps, a->method_id, a->rejit_id, (uint32_t)(ip - a->start));
}

/* The hottest addresses of one frame: of those at which it was the leaf, if it ever was. */
static bool hot_addresses(pf_namer *w, profile_frame *f, const uint32_t *list, uint32_t n)
{
    uint32_t top[PROFILE_HOT_ADDRESSES], kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = kept;
        while (at > 0 && hotter(&w->addresses[list[i]], &w->addresses[top[at - 1]]))
            at--;
        if (at == PROFILE_HOT_ADDRESSES) continue;
        if (kept < PROFILE_HOT_ADDRESSES) kept++;
        memmove(&top[at + 1], &top[at], (kept - 1 - at) * sizeof *top);
        top[at] = list[i];
    }
    bool leaf = kept > 0 && w->addresses[top[0]].own > 0;
    while (leaf && w->addresses[top[kept - 1]].own == 0)
        kept--;
    profile_address *out = arena_alloc(&w->p->a, (kept ? kept : 1) * sizeof *out);
    if (!out) return false;
    for (uint32_t i = 0; i < kept; i++) {
        const address *a = &w->addresses[top[i]];
        out[i] = (profile_address){.ip = a->ip,
                                   .samples = leaf ? a->own : a->through,
                                   .method_id = a->method_id,
                                   .rejit_id = a->rejit_id,
                                   .start = a->start,
                                   .il_offset = il_offset_of(w, a),
                                   .exact = a->exact};
    }
    f->addresses = out;
    f->n_addresses = kept;
    f->tier = kept ? w->addresses[top[0]].tier : NULL;
    return true;
}

static bool give_addresses(pf_namer *w)
{
    profile *p = w->p;
    uint32_t *from = mem_calloc(p->n_frames + 2, sizeof *from);
    uint32_t *list = mem_alloc((w->n_addresses + 1) * sizeof *list);
    bool ok = from && list;
    for (uint32_t i = 0; ok && i < w->n_addresses; i++)
        if (w->addresses[i].frame != PF_NONE && !pf_is_symbol(w->addresses[i].ip)) from[w->addresses[i].frame + 2]++;
    for (uint32_t i = 0; ok && i < p->n_frames; i++)
        from[i + 2] += from[i + 1]; /* from[f + 1]: where the list of f goes on */
    for (uint32_t i = 0; ok && i < w->n_addresses; i++)
        if (w->addresses[i].frame != PF_NONE && !pf_is_symbol(w->addresses[i].ip))
            list[from[w->addresses[i].frame + 1]++] = i;
    for (uint32_t i = 0; ok && i < p->n_frames; i++)
        ok = hot_addresses(w, &p->frames[i], list + from[i], from[i + 1] - from[i]);
    free(from);
    free(list);
    return ok;
}

static bool give_texts(pf_namer *w, const strtab *t, slice **out, uint32_t *n)
{
    *n = strtab_count(t);
    *out = arena_alloc(&w->p->a, *n * sizeof **out);
    for (uint32_t i = 0; *out && i < *n; i++)
        (*out)[i] = keep(w, strtab_get(t, i));
    return *out && !w->p->a.failed;
}

bool pf_namer_finish(pf_namer *w)
{
    profile *p = w->p;
    return give_addresses(w) && give_texts(w, w->groups, &p->groups, &p->n_groups) &&
           give_texts(w, w->namespaces, &p->namespaces, &p->n_namespaces);
}
