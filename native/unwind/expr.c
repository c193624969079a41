/* SPDX-License-Identifier: MIT */
/* expr.c: DWARF expressions, as far as call frame information has them. Format: DWARF 5 section 2.5. */
#include "unwind/uw_internal.h"

enum { STACK_MAX = 64, STEPS_MAX = 4096 };

typedef struct stack {
    uint64_t v[STACK_MAX];
    uint32_t n;
    bool bad;
} stack;

static void push(stack *s, uint64_t v)
{
    if (s->n == STACK_MAX)
        s->bad = true;
    else
        s->v[s->n++] = v;
}

static uint64_t pop(stack *s)
{
    if (s->n == 0) {
        s->bad = true;
        return 0;
    }
    return s->v[--s->n];
}

static void pick(stack *s, uint32_t from_top)
{
    if (from_top >= s->n)
        s->bad = true;
    else
        push(s, s->v[s->n - 1 - from_top]);
}

static void rotate(stack *s)
{
    uint64_t a = pop(s), b = pop(s), c = pop(s);
    push(s, a);
    push(s, c);
    push(s, b);
}

static void base(stack *s, const uw_regs *regs, uint64_t reg, int64_t offset)
{
    if (reg >= UW_REGS || !(regs->known >> reg & 1))
        s->bad = true;
    else
        push(s, regs->r[reg] + (uint64_t)offset);
}

static void load(stack *s, const uw_memory *m, uint8_t n)
{
    uint64_t v = 0;
    if (n == 0 || n > sizeof v || !m || !m->read || !m->read(m->arg, pop(s), &v, n)) s->bad = true;
    push(s, v);
}

static uint64_t two(stack *s, uint8_t op)
{
    uint64_t b = pop(s), a = pop(s);
    int64_t x = (int64_t)a, y = (int64_t)b;
    switch (op) {
    case 0x1a: return a & b;
    case 0x1b:
        if (y == 0 || (x == INT64_MIN && y == -1)) s->bad = true;
        return s->bad ? 0 : (uint64_t)(x / y);
    case 0x1c: return a - b;
    case 0x1d:
        if (b == 0) s->bad = true;
        return b ? a % b : 0;
    case 0x1e: return a * b;
    case 0x21: return a | b;
    case 0x22: return a + b;
    case 0x24: return b < 64 ? a << b : 0;
    case 0x25: return b < 64 ? a >> b : 0;
    case 0x26: return (uint64_t)(x >> (b < 64 ? b : 63));
    case 0x27: return a ^ b;
    case 0x29: return x == y;
    case 0x2a: return x >= y;
    case 0x2b: return x > y;
    case 0x2c: return x <= y;
    case 0x2d: return x < y;
    case 0x2e: return x != y;
    default: s->bad = true; return 0;
    }
}

static uint64_t constant(cursor *c, uint8_t op)
{
    switch (op) {
    case 0x08: return cursor_u8(c);
    case 0x09: return (uint64_t)(int64_t)(int8_t)cursor_u8(c);
    case 0x0a: return cursor_u16(c);
    case 0x0b: return (uint64_t)(int64_t)cursor_i16(c);
    case 0x0c: return cursor_u32(c);
    case 0x0d: return (uint64_t)(int64_t)cursor_i32(c);
    case 0x03:
    case 0x0e:
    case 0x0f: return cursor_u64(c);
    case 0x10: return uw__uleb(c);
    default: return (uint64_t)uw__sleb(c); /* 0x11 */
    }
}

/* Goes by a distance that must stay inside. */
static void jump(cursor *c, int16_t by)
{
    if (by < c->start - c->p || by > c->end - c->p)
        cursor_fail(c);
    else
        c->p += by;
}

static void step(stack *s, cursor *c, uint8_t op, const uw_regs *regs, const uw_memory *memory)
{
    uint64_t a;
    int16_t by;
    if (op >= 0x30 && op <= 0x4f) {
        push(s, op - 0x30u);
        return;
    }
    if (op >= 0x70 && op <= 0x8f) {
        base(s, regs, op - 0x70u, uw__sleb(c));
        return;
    }
    switch (op) {
    case 0x03:
    case 0x08 ... 0x11: push(s, constant(c, op)); break;
    case 0x06: load(s, memory, 8); break;
    case 0x12: pick(s, 0); break;
    case 0x13: (void)pop(s); break;
    case 0x14: pick(s, 1); break;
    case 0x15: pick(s, cursor_u8(c)); break;
    case 0x16:
        a = pop(s);
        {
            uint64_t b = pop(s);
            push(s, a);
            push(s, b);
        }
        break;
    case 0x17: rotate(s); break;
    case 0x19:
        a = pop(s);
        push(s, (int64_t)a < 0 ? 0 - a : a);
        break;
    case 0x1f: push(s, 0 - pop(s)); break;
    case 0x20: push(s, ~pop(s)); break;
    case 0x23: push(s, pop(s) + uw__uleb(c)); break;
    case 0x28:
        by = cursor_i16(c);
        if (pop(s)) jump(c, by);
        break;
    case 0x2f: jump(c, cursor_i16(c)); break;
    case 0x92:
        a = uw__uleb(c);
        base(s, regs, a, uw__sleb(c));
        break;
    case 0x94: load(s, memory, cursor_u8(c)); break;
    case 0x96: break;
    default: push(s, two(s, op));
    }
}

bool uw__expr(slice expr, const uw_regs *regs, const uw_memory *memory, const uint64_t *initial, uint64_t *out)
{
    stack s = {0};
    cursor c = cursor_of(expr, 0);
    if (initial) push(&s, *initial);
    for (int i = 0; cursor_left(&c) > 0 && !s.bad; i++) {
        if (i == STEPS_MAX) return false;
        step(&s, &c, cursor_u8(&c), regs, memory);
    }
    uint64_t v = pop(&s);
    if (s.bad || !cursor_ok(&c)) return false;
    *out = v;
    return true;
}
