/* SPDX-License-Identifier: MIT */
/* names.c: stacks of a result get the names of their methods; stacks of the same methods become one. */
#include <stdio.h>
#include <stdlib.h>

#include "probe/result.h"

#define NAMES_BYTES ((size_t)64 << 20)

bool probe__names_init(pnames *w, const probe *p, const clr_methods *methods)
{
    *w = (pnames){.p = p, .methods = methods};
    w->a.max = NAMES_BYTES;
    buf_init(&w->key, 0);
    buf_init(&w->text, 0);
    w->seen = strtab_new(0, NAMES_BYTES);
    return w->seen != NULL;
}

void probe__names_fini(pnames *w)
{
    free(w->frame);
    free(w->stack);
    free(w->shown);
    map64_fini(&w->by_ip);
    strtab_free(w->seen);
    buf_fini(&w->key);
    buf_fini(&w->text);
    arena_free(&w->a);
}

/* A return address may lie behind the end of its method. */
static bool method_at(const pnames *w, uint64_t ip, int64_t ts, clr_method *m)
{
    return clr_methods_find(w->methods, ip - 1, ts, m) || clr_methods_find(w->methods, ip, ts, m);
}

static bool is_reused(const pnames *w, uint64_t ip)
{
    return w->methods && (clr_methods_reused(w->methods, ip - 1) || clr_methods_reused(w->methods, ip));
}

/* Dynamic methods come and go: a stack is kept once, so if its address had another method by its last event, the name
 * of either would be wrong for some. */
static bool changed(const pnames *w, uint64_t ip, const pstack *s, const clr_method *m)
{
    clr_method later;
    return !method_at(w, ip, s->last, &later) || later.start != m->start || later.method_id != m->method_id ||
           !slice_eq(later.name, m->name) || !slice_eq(later.namespace_, m->namespace_);
}

static void name_frame(pnames *w, pframe *f, const pstack *s, bool reused)
{
    clr_method m;
    f->ident = f->ip;
    if (!w->methods || !method_at(w, f->ip, s->ts, &m) || (reused && changed(w, f->ip, s, &m))) return;
    buf_reset(&w->text);
    if (!clr_method_name(&m, &w->text)) return;
    const char *name = arena_str(&w->a, buf_view(&w->text)), *module = arena_str(&w->a, m.module);
    if (!name || !module) return;
    f->name = slice_of(name, w->text.n);
    f->module = slice_of(module, m.module.n);
    /* the descriptors of dynamic methods are used again as well */
    f->ident = m.dynamic ? hash_bytes(f->name, m.start) : m.method_id ? m.method_id : m.start;
}

#define REUSED UINT64_MAX

/* One frame an address, but for addresses that had several methods: a frame for each stack then. */
static int64_t frame_of(pnames *w, uint64_t ip, const pstack *s)
{
    uint64_t found;
    bool known = map64_get(&w->by_ip, ip, &found);
    if (known && found != REUSED) return (int64_t)found;
    if (w->n_frame == w->cap_frame) {
        uint32_t cap = w->cap_frame ? 2 * w->cap_frame : 256;
        pframe *grown = mem_realloc(w->frame, cap * sizeof *grown);
        if (!grown) return -1;
        w->frame = grown;
        w->cap_frame = cap;
    }
    bool reused = known || is_reused(w, ip);
    pframe *f = &w->frame[w->n_frame];
    *f = (pframe){.ip = ip};
    name_frame(w, f, s, reused);
    if (!known && !map64_put(&w->by_ip, ip, reused ? REUSED : w->n_frame)) return -1;
    return w->n_frame++;
}

static bool skipped(const pnode *n, const pframe *f)
{
    for (uint32_t i = 0; i < n->n_skip; i++)
        if (slice_starts(f->name, n->skip[i])) return true;
    return false;
}

/* Frames [*from, *to) are what the group keeps: the leaf's machinery goes, and what lies below the depth. A stack that
 * is machinery altogether stays whole. */
static void cut(const pnames *w, const pnode *n, const uint32_t *frame, uint32_t count, uint32_t *from, uint32_t *to)
{
    *from = 0;
    *to = count;
    if (!n) return;
    while (*from < count && skipped(n, &w->frame[frame[*from]]))
        ++*from;
    if (*from == count) *from = 0;
    if (n->depth && *to - *from > n->depth) *to = *from + n->depth;
}

int64_t probe__named_stack(pnames *w, int64_t raw, const pnode *n)
{
    const pstack *s = &w->p->stacks.p[raw];
    uint32_t *frame = arena_alloc(&w->a, (s->n ? s->n : 1) * sizeof *frame), from, to;
    if (!frame) goto failed;
    for (uint32_t i = 0; i < s->n; i++) {
        int64_t f = frame_of(w, s->ip[i], s);
        if (f < 0) goto failed;
        frame[i] = (uint32_t)f;
    }
    cut(w, n, frame, s->n, &from, &to);
    buf_reset(&w->key);
    for (uint32_t i = from; i < to; i++)
        (void)buf_u64(&w->key, w->frame[frame[i]].ident);
    uint32_t before = strtab_count(w->seen), id = strtab_intern(w->seen, buf_view(&w->key));
    if (id == STRTAB_FULL) goto failed;
    if (id < before) return id;
    if (id >= w->cap_stack) {
        uint32_t cap = w->cap_stack ? 2 * w->cap_stack : 64;
        pnamed *grown = mem_realloc(w->stack, cap * sizeof *grown);
        if (!grown) goto failed;
        w->stack = grown;
        w->cap_stack = cap;
    }
    w->stack[id] = (pnamed){.n = to - from, .frame = frame + from};
    return id;
failed:
    w->failed = true;
    return -1;
}

int64_t probe__stack_number(pnames *w, int64_t id)
{
    if (id < 0) return 0; /* failed already */
    if (w->stack[id].number) return w->stack[id].number;
    if (w->n_shown == w->cap_shown) {
        uint32_t cap = w->cap_shown ? 2 * w->cap_shown : 64;
        uint32_t *grown = mem_realloc(w->shown, cap * sizeof *grown);
        if (!grown) {
            w->failed = true;
            return 0;
        }
        w->shown = grown;
        w->cap_shown = cap;
    }
    w->shown[w->n_shown++] = (uint32_t)id;
    return w->stack[id].number = w->n_shown;
}

void probe__put_stacks(pnames *w, buf *out)
{
    tlv_mark(out, TLV_LIST);
    for (uint32_t i = 0; i < w->n_shown; i++) {
        const pnamed *s = &w->stack[w->shown[i]];
        tlv_mark(out, TLV_TABLE);
        tlv_key(out, "frames");
        tlv_mark(out, TLV_LIST);
        for (uint32_t k = 0; k < s->n; k++) {
            const pframe *f = &w->frame[s->frame[k]];
            char address[24];
            int n = snprintf(address, sizeof address, "0x%llx", (unsigned long long)f->ip);
            tlv_mark(out, TLV_TABLE);
            if (f->name.n) {
                tlv_key(out, "name");
                tlv_text(out, f->name);
            }
            if (f->module.n) {
                tlv_key(out, "module");
                tlv_text(out, f->module);
            }
            tlv_key(out, "address");
            tlv_text(out, slice_of(address, (size_t)n));
            tlv_mark(out, TLV_END);
        }
        tlv_mark(out, TLV_END);
        tlv_mark(out, TLV_END);
    }
    tlv_mark(out, TLV_END);
}
