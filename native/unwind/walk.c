/* SPDX-License-Identifier: MIT */
/* walk.c: from a frame to its caller. */
#include "unwind/uw_space.h"

#define STACK_SPAN_MAX ((uint64_t)64 << 20) /* a frame is not larger */
#define TAKEN_OVER_MAX (UINT64_C(64) << 10) /* bytes of a method's first frame */
#define BIT(r)         (1u << (r))
/* What a callee has to give back as it was. */
#define KEPT (BIT(UW_RBX) | BIT(UW_RBP) | BIT(UW_R12) | BIT(UW_R13) | BIT(UW_R14) | BIT(UW_R15))
enum { SIGNALS_MAX = 16 };

static const char *const end_names[UW_ENDS] = {"root", "max", "memory", "noInfo", "loop"};
const char *uw_end_name(uw_end why) { return why < UW_ENDS ? end_names[why] : "?"; }

static bool stop(uw_end *end, uw_end why)
{
    *end = why;
    return false;
}

static void tell(const uw_regs *r, uw_how how, bool exact, uw_frame *out)
{
    *out = (uw_frame){.ip = r->r[UW_RIP],
                      .sp = r->r[UW_RSP],
                      .fp = r->known & BIT(UW_RBP) ? r->r[UW_RBP] : 0,
                      .how = how,
                      .exact = exact};
}

static bool is_code(uw_space *s, uint64_t address)
{
    const uw__map *m = uw__space_at(s, address);
    return m && m->executable;
}

/* ---- by call frame information ----------------------------------------------------------------------------------- */

static bool rule_value(const uw__rule *x, const uw_regs *old, uint64_t cfa, const uw_memory *m, uint64_t *out)
{
    uint64_t at;
    switch ((uw__kind)x->kind) {
    case UW__SAME:
    case UW__UNDEFINED: return false;
    case UW__OFFSET: return uw__read64(m, cfa + (uint64_t)x->offset, out);
    case UW__VAL_OFFSET: *out = cfa + (uint64_t)x->offset; return true;
    case UW__REGISTER: *out = old->r[x->reg]; return old->known >> x->reg & 1;
    case UW__EXPR: return uw__expr(x->expr, old, m, &cfa, &at) && uw__read64(m, at, out);
    case UW__VAL_EXPR: return uw__expr(x->expr, old, m, &cfa, out);
    }
    return false;
}

/* A row that needs all of its rules. */
static bool by_rules(const uw__rules *x, uw_regs *regs, const uw_memory *m, uint64_t *cfa, uw_end *end)
{
    uw_regs old = *regs;
    if (x->cfa_is_expr ? !uw__expr(x->cfa_expr, &old, m, NULL, cfa) : !(old.known >> x->cfa_reg & 1))
        return stop(end, UW_END_MEMORY);
    if (!x->cfa_is_expr) *cfa = old.r[x->cfa_reg] + (uint64_t)x->cfa_offset;
    regs->known &= KEPT;
    regs->r[UW_RSP] = *cfa;
    regs->known |= BIT(UW_RSP);
    for (unsigned k = 0; k < UW_REGS; k++) {
        const uw__rule *r = &x->reg[k];
        if (r->kind == UW__SAME) continue;
        uint64_t v = 0;
        bool ok = rule_value(r, &old, *cfa, m, &v);
        regs->r[k] = v;
        regs->known = ok ? regs->known | BIT(k) : regs->known & ~BIT(k);
    }
    const uw__rule *ra = &x->reg[x->ra];
    if (ra->kind == UW__UNDEFINED) return stop(end, UW_END_ROOT);
    if (!(regs->known >> x->ra & 1)) return stop(end, UW_END_MEMORY);
    regs->r[UW_RIP] = regs->r[x->ra];
    regs->known |= BIT(UW_RIP);
    return true;
}

static bool by_row(const uw__row *row, uw_regs *regs, const uw_memory *m, uw_end *end)
{
    uint64_t cfa, sp = regs->r[UW_RSP], v;
    if (row->full) {
        if (!by_rules(row->full, regs, m, &cfa, end)) return false;
        return row->signal || regs->r[UW_RSP] > sp || stop(end, UW_END_LOOP);
    }
    if (!(regs->known >> row->cfa_reg & 1)) return stop(end, UW_END_NO_INFO);
    cfa = regs->r[row->cfa_reg] + (uint64_t)(int64_t)row->cfa_offset;
    if (cfa <= sp && !row->signal) return stop(end, UW_END_LOOP);
    int32_t ra = row->at[UW__ROW_SAVED - 1];
    if (ra == UW__LOST || ra == UW__SAME_AS) return stop(end, UW_END_ROOT);
    if (!uw__read64(m, cfa + (uint64_t)(int64_t)ra, &v)) return stop(end, UW_END_MEMORY);
    regs->known &= KEPT;
    for (unsigned k = 0; k + 1 < UW__ROW_SAVED; k++) {
        unsigned reg = uw__saved[k];
        if (row->at[k] == UW__SAME_AS) continue;
        bool ok = row->at[k] != UW__LOST && uw__read64(m, cfa + (uint64_t)(int64_t)row->at[k], &regs->r[reg]);
        regs->known = ok ? regs->known | BIT(reg) : regs->known & ~BIT(reg);
    }
    regs->r[UW_RIP] = v;
    regs->r[UW_RSP] = cfa;
    regs->known |= BIT(UW_RIP) | BIT(UW_RSP);
    return true;
}

/* The row of an address; NULL: nothing tells. */
static const uw__row *row_of(uw_space *s, const uw__map *m, uint64_t pc)
{
    uw__recent *recent = &s->recent[hash_u64(pc) % UW__RECENT];
    if (recent->row && recent->pc == pc) return recent->row->missing ? NULL : recent->row;
    uint64_t address;
    uw__image *i = m->file != UINT32_MAX ? uw__space_image(s, m->file) : NULL;
    if (!i || !uw__image_address(i, pc - m->start + m->file_offset, &address)) return NULL;
    const uw__row *row = uw__image_row(i, address);
    *recent = (uw__recent){pc, row};
    return row->missing ? NULL : row;
}

/* ---- without it -------------------------------------------------------------------------------------------------- */

static void returned(uw_regs *r, uint64_t ip, uint64_t sp, unsigned known)
{
    r->r[UW_RIP] = ip;
    r->r[UW_RSP] = sp;
    r->known = (r->known & known) | BIT(UW_RIP) | BIT(UW_RSP);
}

/* Takes what lies where the instructions say. */
static bool by_leaf(uw_space *s, const uw__leaf *x, uw_regs *regs, const uw_memory *m)
{
    uint64_t sp = regs->r[UW_RSP], ra;
    uw_regs next = *regs;
    if (x->ra_at < 0 || !uw__read64(m, sp + (uint64_t)x->ra_at, &ra) || !is_code(s, ra - 1)) return false;
    for (unsigned k = 0; k < UW_RIP; k++) {
        if (x->at[k] < 0 || !(KEPT >> k & 1)) continue;
        if (!uw__read64(m, sp + (uint64_t)x->at[k], &next.r[k])) return false;
        next.known |= BIT(k);
    }
    *regs = next;
    returned(regs, ra, sp + (uint64_t)x->ra_at + 8, KEPT);
    return true;
}

/* At a place where the instructions tell how far away the return address is. */
static bool by_code(uw_space *s, uw_regs *regs, const uw_memory *m)
{
    uw__leaf x;
    return uw__code_leaf(&s->code, regs->r[UW_RIP], 0, &x) && by_leaf(s, &x, regs, m);
}

static const uw__layout *layout_of(uw_space *s, uint64_t start)
{
    if (!s->methods) s->methods = mem_calloc(UW__METHODS, sizeof *s->methods);
    if (!s->methods) return NULL;
    uw__method *x = &s->methods[hash_u64(start) % UW__METHODS];
    if (x->start != start) {
        x->start = start;
        (void)uw__code_layout(&s->code, start, &x->layout);
    }
    return &x->layout;
}

/* In a method of a JIT whose start is known: by its prologue. False also where the frame pointer tells it. */
static bool by_method(uw_space *s, uw_regs *regs, bool exact, const uw_memory *m)
{
    uint64_t ip = regs->r[UW_RIP], start;
    if (!s->code_fn || !s->code_fn(s->code_arg, exact ? ip : ip - 1, &start) || start > ip) return false;
    const uw__layout *l = layout_of(s, start);
    uw__leaf x = {0};
    if (!l) return false;
    if (exact && (!l->known || ip - start < l->length || uw__code_epilogue(&s->code, ip, &x)))
        return uw__code_leaf(&s->code, ip, start, &x) && by_leaf(s, &x, regs, m);
    if (!l->known || l->frame) return false;
    x.ra_at = l->depth;
    for (int k = 0; k < UW_RIP; k++)
        x.at[k] = l->at[k] < 0 ? -1 : l->depth - l->at[k];
    uw_regs next = *regs;
    if (!by_leaf(s, &x, &next, m) || !uw__code_after_call(&s->code, next.r[UW_RIP])) return false;
    *regs = next;
    return true;
}

/* In an epilogue whose call frame information may be that of the body (NativeAOT). */
static bool by_epilogue(uw_space *s, uw_regs *regs, const uw_memory *m)
{
    uw__leaf x;
    uw_regs next = *regs;
    if (!uw__code_epilogue(&s->code, regs->r[UW_RIP], &x) || !by_leaf(s, &x, &next, m)) return false;
    if (!uw__code_after_call(&s->code, next.r[UW_RIP])) return false;
    *regs = next;
    return true;
}

static bool is_patchpoint(uw_space *s, uint64_t ra)
{
    if (!s->patches) s->patches = mem_calloc(UW__METHODS, sizeof *s->patches);
    if (!s->patches) return false;
    uint64_t *had = &s->patches[hash_u64(ra) % UW__METHODS];
    if (*had >> 1 != ra) *had = ra << 1 | uw__code_patchpoint(&s->code, ra);
    return *had & 1;
}

/* A body that took a method over while it ran lies above the frame of the first one, and has saved the frame pointer of
 * that one's caller. What it returns to is where the first one would have gone on, which it never does: the caller is
 * told by the first one's frame, the next that has the same frame pointer saved, before a return address. */
static uint64_t frame_taken_over(uw_space *s, const uw_memory *m, uint64_t from, uint64_t saved)
{
    uint64_t to = saved > from && saved - from < TAKEN_OVER_MAX ? saved : from + TAKEN_OVER_MAX, v, ra;
    for (uint64_t at = from; at < to && uw__read64(m, at, &v); at += 8)
        if (v == saved && uw__read64(m, at + 8, &ra) && is_code(s, ra - 1) && uw__code_after_call(&s->code, ra))
            return at;
    return 0;
}

static bool by_frame_pointer(uw_space *s, uw_regs *regs, const uw_memory *m, uw_end *end)
{
    uint64_t fp = regs->r[UW_RBP], sp = regs->r[UW_RSP], next, ra;
    if (!(regs->known & BIT(UW_RBP)) || fp < sp || fp - sp > STACK_SPAN_MAX || fp % 8) return stop(end, UW_END_NO_INFO);
    if (!uw__read64(m, fp, &next) || !uw__read64(m, fp + 8, &ra)) return stop(end, UW_END_MEMORY);
    if (ra == 0) return stop(end, UW_END_ROOT);
    if (!is_code(s, ra - 1)) return stop(end, UW_END_NO_INFO);
    if (is_patchpoint(s, ra)) {
        uint64_t first = frame_taken_over(s, m, fp + 16, next);
        if (first && uw__read64(m, first + 8, &ra)) fp = first;
    }
    regs->r[UW_RBP] = next;
    returned(regs, ra, fp + 16, BIT(UW_RBP));
    return true;
}

/* What lies on top of the stack is a return address when a call ends before it. */
static bool by_guess(uw_space *s, uw_regs *regs, const uw_memory *m)
{
    uint64_t sp = regs->r[UW_RSP], ra;
    if (!uw__read64(m, sp, &ra) || !is_code(s, ra - 1)) return false;
    if (s->code.read && !uw__code_after_call(&s->code, ra)) return false;
    returned(regs, ra, sp + 8, KEPT);
    return true;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static bool step(uw_space *s, uw_regs *regs, bool exact, const uw_memory *m, uw_frame *out, uw_end *end)
{
    uint64_t ip = regs->r[UW_RIP], pc = exact ? ip : ip - 1;
    if (ip == 0 && !exact) return stop(end, UW_END_ROOT);
    const uw__map *map = uw__space_at(s, pc);
    const uw__row *row = map && map->executable ? row_of(s, map, pc) : NULL;
    if (row && exact && by_epilogue(s, regs, m)) {
        s->stats.by_code++;
        tell(regs, UW_CODE, false, out);
        return true;
    }
    if (row) {
        if (!by_row(row, regs, m, end)) return false;
        s->stats.by_cfi++;
        tell(regs, row->signal ? UW_SIGNAL : UW_CFI, row->signal, out);
        return true;
    }
    uw_how how = UW_FRAME_POINTER;
    if (map && (by_method(s, regs, exact, m) || (exact && by_code(s, regs, m)))) {
        how = UW_CODE;
    } else if (exact && !map && by_guess(s, regs, m)) { /* a call of something that is no code */
        how = UW_GUESS;
    } else if (!by_frame_pointer(s, regs, m, end)) {
        if (!exact || *end == UW_END_ROOT || !by_guess(s, regs, m)) return false;
        how = UW_GUESS;
    }
    s->stats.by_code += how == UW_CODE;
    s->stats.guesses += how == UW_GUESS;
    s->stats.by_frame_pointer += how == UW_FRAME_POINTER;
    tell(regs, how, false, out);
    return true;
}

bool uw_step(uw_space *s, uw_regs *regs, bool exact, const uw_memory *stack, uw_frame *out, uw_end *end)
{
    uw_regs next = *regs;
    if (!step(s, &next, exact, stack ? stack : &s->memory, out, end)) return false;
    if (next.r[UW_RIP] == 0) return stop(end, UW_END_ROOT);
    *regs = next;
    return true;
}

uint32_t uw_walk(uw_space *s, const uw_regs *regs, const uw_memory *stack, uw_frame *out, uint32_t max, uw_end *end)
{
    uw_regs r = *regs;
    uint32_t n = 1, signals = 0;
    *end = UW_END_MAX;
    tell(&r, UW_START, true, &out[0]);
    while (n < max) {
        if (!uw_step(s, &r, out[n - 1].exact, stack, &out[n], end)) break;
        if (out[n].how == UW_SIGNAL && ++signals > SIGNALS_MAX) { /* those alone may go to lower addresses */
            *end = UW_END_LOOP;
            break;
        }
        n++;
    }
    s->stats.walks++;
    s->stats.frames += n;
    s->stats.ends[*end]++;
    return n;
}

void uw_space_stats(const uw_space *s, uw_stats *out)
{
    *out = s->stats;
    for (uint32_t i = 0; i < s->n_files; i++)
        if (s->files[i].image) out->image_bytes += uw__image_bytes(s->files[i].image);
}
