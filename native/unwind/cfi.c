/* SPDX-License-Identifier: MIT */
/* cfi.c: call frame information: CIEs, FDEs and their programs. Format: DWARF 5 section 6.4 and 7.24; LSB 5.0
 * (Exception Frames) for .eh_frame and its augmentation. */
#include "unwind/uw_internal.h"

enum { REMEMBER_MAX = 16, PROGRAM_STEPS_MAX = 1 << 16 };

enum {
    PE_OMIT = 0xff,
    PE_INDIRECT = 0x80,
    PE_FORMAT = 0x0f,
    PE_RELATIVE = 0x70,
    PE_ABS = 0x00,
    PE_PC = 0x10,
    PE_DATA = 0x30,
};

const uint8_t uw__saved[UW__ROW_SAVED] = {UW_RBX, UW_RBP, UW_R12, UW_R13, UW_R14, UW_R15, UW_RIP};

typedef struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint8_t ra, encoding, lsda;
    bool augmented, signal;
    slice program;
    uint64_t program_at; /* offset in the section, for pc-relative operands */
} cie;

uint64_t uw__uleb(cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t b = cursor_u8(c);
        if (shift < 64) v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) return v;
        if (shift > 70) {
            cursor_fail(c);
            return 0;
        }
    }
}

int64_t uw__sleb(cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t b = cursor_u8(c);
        if (shift < 64) v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            if (shift + 7 < 64 && (b & 0x40)) v |= ~UINT64_C(0) << (shift + 7);
            return (int64_t)v;
        }
        if (shift > 70) {
            cursor_fail(c);
            return 0;
        }
    }
}

uint64_t uw__cfi_pointer(cursor *c, uint8_t encoding, uint64_t address, uint64_t data)
{
    if (encoding == PE_OMIT) return 0;
    uint64_t here = address + (uint64_t)cursor_offset(c), v;
    switch (encoding & PE_FORMAT) {
    case 0x00:
    case 0x04:
    case 0x0c: v = cursor_u64(c); break;
    case 0x01: v = uw__uleb(c); break;
    case 0x02: v = cursor_u16(c); break;
    case 0x03: v = cursor_u32(c); break;
    case 0x09: v = (uint64_t)uw__sleb(c); break;
    case 0x0a: v = (uint64_t)(int64_t)cursor_i16(c); break;
    case 0x0b: v = (uint64_t)(int64_t)cursor_i32(c); break;
    default: cursor_fail(c); return 0;
    }
    switch (encoding & PE_RELATIVE) {
    case PE_ABS: return v;
    case PE_PC: return v + here;
    case PE_DATA: return v + data;
    default: cursor_fail(c); return 0;
    }
}

/* An entry of the section at `at`: its bytes behind length and id. *id_at: where the id stands. False: the end, or
 * damage. */
typedef struct entry {
    cursor body;
    uint64_t id, id_at, next;
} entry;

static bool read_entry(const uw__section *s, uint64_t at, bool debug, entry *out)
{
    if (at >= s->n) return false;
    cursor c = cursor_of(slice_of(s->p + at, s->n - at), (int64_t)at);
    uint64_t n = cursor_u32(&c);
    bool wide = n == UINT32_MAX;
    if (wide) n = cursor_u64(&c);
    if (!cursor_ok(&c) || n == 0 || n > cursor_left(&c)) return false;
    uint64_t start = (uint64_t)cursor_offset(&c);
    cursor body = cursor_of(cursor_bytes(&c, (size_t)n), (int64_t)start);
    out->id_at = start;
    out->id = wide && debug ? cursor_u64(&body) : cursor_u32(&body);
    if (debug && !wide && out->id == UINT32_MAX) out->id = UINT64_MAX;
    out->body = body;
    out->next = start + n;
    return cursor_ok(&body);
}

static bool is_cie(const entry *x, bool debug) { return debug ? x->id == UINT64_MAX : x->id == 0; }

static void read_augmentation(cursor *c, const char *text, uint64_t address, cie *out)
{
    uint64_t n = uw__uleb(c);
    uint64_t from = (uint64_t)cursor_offset(c);
    cursor a = cursor_of(cursor_bytes(c, (size_t)n), (int64_t)from);
    out->augmented = true;
    for (const char *p = text + 1; *p; p++) {
        switch (*p) {
        case 'L': out->lsda = cursor_u8(&a); break;
        case 'R': out->encoding = cursor_u8(&a); break;
        case 'P': {
            uint8_t e = cursor_u8(&a);
            (void)uw__cfi_pointer(&a, e & (uint8_t)~PE_INDIRECT, address, 0);
            break;
        }
        case 'S': out->signal = true; break;
        case 'B': break;
        default: return; /* the rest is not needed: its length is known */
        }
    }
}

static bool read_cie(const uw__section *s, uint64_t at, bool debug, cie *out)
{
    entry x;
    char text[8] = {0};
    if (!read_entry(s, at, debug, &x) || !is_cie(&x, debug)) return false;
    cursor *c = &x.body;
    *out = (cie){.encoding = PE_ABS, .lsda = PE_OMIT};
    uint8_t version = cursor_u8(c);
    if (version != 1 && version != 3 && version != 4) return false;
    size_t n = 0;
    for (uint8_t b; (b = cursor_u8(c)) != 0;) {
        if (n + 1 >= sizeof text) return false;
        text[n++] = (char)b;
    }
    if (version == 4) { /* addresses of 8 bytes, no segments */
        uint8_t pointer = cursor_u8(c), segment = cursor_u8(c);
        if (pointer != 8 || segment != 0) return false;
    }
    out->code_align = uw__uleb(c);
    out->data_align = uw__sleb(c);
    uint64_t ra = version == 1 ? cursor_u8(c) : uw__uleb(c);
    if (text[0] == 'z')
        read_augmentation(c, text, s->address, out);
    else if (text[0])
        return false;
    if (!cursor_ok(c) || ra >= UW_REGS) return false;
    out->ra = (uint8_t)ra;
    out->program_at = (uint64_t)cursor_offset(c);
    out->program = slice_of(c->p, cursor_left(c));
    return true;
}

typedef struct fde {
    cie of;
    uint64_t start, size;
    slice program;
    uint64_t program_at;
} fde;

static bool read_fde(const uw__section *s, const entry *x, bool debug, fde *out)
{
    cursor c = x->body;
    uint64_t at = debug ? x->id : x->id_at - x->id;
    if ((!debug && x->id > x->id_at) || !read_cie(s, at, debug, &out->of)) return false;
    uint8_t encoding = out->of.encoding & (uint8_t)~PE_INDIRECT;
    out->start = uw__cfi_pointer(&c, encoding, s->address, 0);
    out->size = uw__cfi_pointer(&c, encoding & PE_FORMAT, 0, 0);
    if (out->of.augmented) {
        uint64_t n = uw__uleb(&c);
        cursor_skip(&c, (size_t)n);
    }
    out->program_at = (uint64_t)cursor_offset(&c);
    out->program = slice_of(c.p, cursor_left(&c));
    return cursor_ok(&c);
}

bool uw__cfi_list(const uw__section *s, bool debug, buf *fdes)
{
    entry x;
    for (uint64_t at = 0; read_entry(s, at, debug, &x); at = x.next) {
        fde f;
        if (is_cie(&x, debug) || !read_fde(s, &x, debug, &f) || f.size == 0 || at > UINT32_MAX) continue;
        uw__fde row = {.pc = f.start, .at = (uint32_t)at, .debug = debug};
        if (fdes->n / sizeof row >= UW__FDES_MAX) return true;
        if (!buf_put(fdes, &row, sizeof row)) return false;
    }
    return true;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

typedef struct machine {
    const fde *f;
    const uw__section *s;
    uw__rules now, first; /* first: what the CIE says */
    uw__rules kept[REMEMBER_MAX];
    uint32_t n_kept;
    uint64_t pc, wanted;
    bool done, bad;
} machine;

static slice expression(cursor *c)
{
    uint64_t n = uw__uleb(c);
    return cursor_bytes(c, (size_t)n);
}

static void set(machine *m, uint64_t reg, uw__kind kind, int64_t offset)
{
    if (reg < UW_REGS) m->now.reg[reg] = (uw__rule){.kind = (uint8_t)kind, .offset = offset};
}

static void set_expr(machine *m, cursor *c, uw__kind kind)
{
    uint64_t reg = uw__uleb(c);
    slice x = expression(c);
    if (reg < UW_REGS) m->now.reg[reg] = (uw__rule){.kind = (uint8_t)kind, .expr = x};
}

static void set_cfa(machine *m, uint64_t reg, int64_t offset)
{
    if (reg >= UW_REGS) m->bad = true;
    m->now.cfa_is_expr = false;
    m->now.cfa_reg = (uint8_t)reg;
    m->now.cfa_offset = offset;
}

static void advance(machine *m, uint64_t delta)
{
    uint64_t to = m->pc + delta * m->f->of.code_align;
    if (to > m->wanted || to < m->pc)
        m->done = true;
    else
        m->pc = to;
}

static void remember(machine *m, bool keep)
{
    if (keep ? m->n_kept == REMEMBER_MAX : m->n_kept == 0)
        m->bad = true;
    else if (keep)
        m->kept[m->n_kept++] = m->now;
    else
        m->now = m->kept[--m->n_kept];
}

static void restore(machine *m, uint64_t reg)
{
    if (reg < UW_REGS) m->now.reg[reg] = m->first.reg[reg];
}

static void set_loc(machine *m, cursor *c)
{
    uint64_t to = uw__cfi_pointer(c, m->f->of.encoding & (uint8_t)~PE_INDIRECT, m->s->address, 0);
    if (to > m->wanted)
        m->done = true;
    else
        m->pc = to;
}

/* The instructions without an operand in their first byte. */
static void extended(machine *m, uint8_t op, cursor *c)
{
    int64_t by = m->f->of.data_align;
    uint64_t reg;
    switch (op) {
    case 0x00: break;                            /* nop */
    case 0x01: set_loc(m, c); break;             /* set_loc */
    case 0x02: advance(m, cursor_u8(c)); break;  /* advance_loc1 */
    case 0x03: advance(m, cursor_u16(c)); break; /* advance_loc2 */
    case 0x04: advance(m, cursor_u32(c)); break; /* advance_loc4 */
    case 0x05:                                   /* offset_extended */
        reg = uw__uleb(c);
        set(m, reg, UW__OFFSET, (int64_t)(uw__uleb(c) * (uint64_t)by));
        break;
    case 0x06: restore(m, uw__uleb(c)); break;               /* restore_extended */
    case 0x07: set(m, uw__uleb(c), UW__UNDEFINED, 0); break; /* undefined */
    case 0x08: set(m, uw__uleb(c), UW__SAME, 0); break;      /* same_value */
    case 0x09:                                               /* register */
        reg = uw__uleb(c);
        if (reg < UW_REGS) m->now.reg[reg] = (uw__rule){.kind = UW__REGISTER};
        {
            uint64_t from = uw__uleb(c);
            if (from >= UW_REGS) m->bad = true;
            if (reg < UW_REGS) m->now.reg[reg].reg = (uint8_t)from;
        }
        break;
    case 0x0a: remember(m, true); break;  /* remember_state */
    case 0x0b: remember(m, false); break; /* restore_state */
    case 0x0c:                            /* def_cfa */
        reg = uw__uleb(c);
        set_cfa(m, reg, (int64_t)uw__uleb(c));
        break;
    case 0x0d: set_cfa(m, uw__uleb(c), m->now.cfa_offset); break; /* def_cfa_register */
    case 0x0e: m->now.cfa_offset = (int64_t)uw__uleb(c); break;   /* def_cfa_offset */
    case 0x0f:                                                    /* def_cfa_expression */
        m->now.cfa_expr = expression(c);
        m->now.cfa_is_expr = true;
        break;
    case 0x10: set_expr(m, c, UW__EXPR); break; /* expression */
    case 0x11:                                  /* offset_extended_sf */
        reg = uw__uleb(c);
        set(m, reg, UW__OFFSET, (int64_t)((uint64_t)uw__sleb(c) * (uint64_t)by));
        break;
    case 0x12: /* def_cfa_sf */
        reg = uw__uleb(c);
        set_cfa(m, reg, (int64_t)((uint64_t)uw__sleb(c) * (uint64_t)by));
        break;
    case 0x13: m->now.cfa_offset = (int64_t)((uint64_t)uw__sleb(c) * (uint64_t)by); break; /* def_cfa_offset_sf */
    case 0x14:                                                                             /* val_offset */
        reg = uw__uleb(c);
        set(m, reg, UW__VAL_OFFSET, (int64_t)(uw__uleb(c) * (uint64_t)by));
        break;
    case 0x15: /* val_offset_sf */
        reg = uw__uleb(c);
        set(m, reg, UW__VAL_OFFSET, (int64_t)((uint64_t)uw__sleb(c) * (uint64_t)by));
        break;
    case 0x16: set_expr(m, c, UW__VAL_EXPR); break; /* val_expression */
    case 0x2e: (void)uw__uleb(c); break;            /* GNU_args_size */
    case 0x2f:                                      /* GNU_negative_offset_extended */
        reg = uw__uleb(c);
        set(m, reg, UW__OFFSET, -(int64_t)(uw__uleb(c) * (uint64_t)by));
        break;
    default: m->bad = true;
    }
}

static void run(machine *m, slice program, uint64_t at)
{
    cursor c = cursor_of(program, (int64_t)at);
    int steps = 0;
    while (!m->done && !m->bad && cursor_left(&c) > 0 && steps++ < PROGRAM_STEPS_MAX) {
        uint8_t op = cursor_u8(&c), low = op & 0x3f;
        switch (op >> 6) {
        case 1: advance(m, low); break;
        case 2: set(m, low, UW__OFFSET, (int64_t)(uw__uleb(&c) * (uint64_t)m->f->of.data_align)); break;
        case 3: restore(m, low); break;
        default: extended(m, low, &c);
        }
    }
    if (!cursor_ok(&c)) m->bad = true;
}

bool uw__cfi_rules(const uw__section *s, bool debug, uint32_t at, uint64_t address, uw__rules *out)
{
    entry x;
    fde f;
    if (!read_entry(s, at, debug, &x) || is_cie(&x, debug) || !read_fde(s, &x, debug, &f)) return false;
    if (address < f.start || address - f.start >= f.size) return false;
    machine m = {.f = &f, .s = s, .pc = f.start, .wanted = UINT64_MAX};
    run(&m, f.of.program, f.of.program_at);
    m.first = m.now;
    m.pc = f.start;
    m.wanted = address;
    m.done = false;
    if (!m.bad) run(&m, f.program, f.program_at);
    if (m.bad) return false;
    *out = m.now;
    out->ra = f.of.ra;
    out->signal = f.of.signal;
    return true;
}
