/* SPDX-License-Identifier: MIT */
/* code.c: what the instructions of a JIT tell where nothing else does. Such code has no call frame information, but
 * keeps frame pointers; between a method's first instruction and the one that sets rbp, and behind the one that takes
 * it back, the return address has to be found by what was pushed. x86-64, as .NET's JIT writes prologues and epilogues
 * (docs/design/coreclr/botr/clr-abi.md). */
#include "unwind/uw_internal.h"

enum { BEFORE = 48, BEHIND = 64, STEPS = 24 };

typedef struct text {
    uint8_t p[BEFORE + BEHIND];
    int from, n; /* ip lies at p[BEFORE]; bytes from to n are there */
} text;

/* One instruction of those that prologues and epilogues are made of. */
typedef enum op {
    OP_OTHER,
    OP_PUSH, /* reg */
    OP_POP,
    OP_SUB, /* value off rsp */
    OP_ADD,
    OP_SET_RBP, /* rbp = rsp + value */
    OP_LEA_RSP, /* rsp = rbp + value */
    OP_LEAVE,
    OP_RET,
    OP_JUMP,
    OP_PLAIN, /* touches neither rsp nor rbp */
} op;

typedef struct instruction {
    op op;
    int size, reg;
    int64_t value;
} instruction;

static int32_t read32(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The forms with REX.W that matter: 48 xx. n: bytes that are there. */
static instruction read_wide(const uint8_t *p, int n)
{
    if (n >= 4 && p[1] == 0x83 && p[2] == 0xec) return (instruction){OP_SUB, 4, 0, (int8_t)p[3]};
    if (n >= 7 && p[1] == 0x81 && p[2] == 0xec) return (instruction){OP_SUB, 7, 0, read32(p + 3)};
    if (n >= 4 && p[1] == 0x83 && p[2] == 0xc4) return (instruction){OP_ADD, 4, 0, (int8_t)p[3]};
    if (n >= 7 && p[1] == 0x81 && p[2] == 0xc4) return (instruction){OP_ADD, 7, 0, read32(p + 3)};
    if (n >= 3 && ((p[1] == 0x89 && p[2] == 0xe5) || (p[1] == 0x8b && p[2] == 0xec)))
        return (instruction){OP_SET_RBP, 3, 0, 0};
    if (n >= 5 && p[1] == 0x8d && p[2] == 0x6c && p[3] == 0x24) return (instruction){OP_SET_RBP, 5, 0, (int8_t)p[4]};
    if (n >= 8 && p[1] == 0x8d && p[2] == 0xac && p[3] == 0x24) return (instruction){OP_SET_RBP, 8, 0, read32(p + 4)};
    if (n >= 4 && p[1] == 0x8d && p[2] == 0x65) return (instruction){OP_LEA_RSP, 4, 0, (int8_t)p[3]};
    if (n >= 7 && p[1] == 0x8d && p[2] == 0xa5) return (instruction){OP_LEA_RSP, 7, 0, read32(p + 3)};
    if (n >= 3 && ((p[1] == 0x89 && p[2] == 0xec) || (p[1] == 0x8b && p[2] == 0xe5)))
        return (instruction){OP_LEA_RSP, 3, 0, 0};
    return (instruction){OP_OTHER, 0, 0, 0};
}

static instruction read_one(const uint8_t *p, int n)
{
    if (n < 1) return (instruction){OP_OTHER, 0, 0, 0};
    if (p[0] >= 0x50 && p[0] <= 0x57) return (instruction){OP_PUSH, 1, p[0] - 0x50, 0};
    if (p[0] >= 0x58 && p[0] <= 0x5f) return (instruction){OP_POP, 1, p[0] - 0x58, 0};
    if (p[0] == 0xc9) return (instruction){OP_LEAVE, 1, 0, 0};
    if (p[0] == 0xc3 || p[0] == 0xc2) return (instruction){OP_RET, 1, 0, 0};
    if (p[0] == 0xe9 || p[0] == 0xeb) return (instruction){OP_JUMP, p[0] == 0xe9 ? 5 : 2, 0, 0};
    if (n < 2) return (instruction){OP_OTHER, 0, 0, 0};
    if (p[0] == 0x41 && p[1] >= 0x50 && p[1] <= 0x57) return (instruction){OP_PUSH, 2, p[1] - 0x50 + 8, 0};
    if (p[0] == 0x41 && p[1] >= 0x58 && p[1] <= 0x5f) return (instruction){OP_POP, 2, p[1] - 0x58 + 8, 0};
    if (p[0] == 0xff && (p[1] == 0x25 || (p[1] >= 0xe0 && p[1] <= 0xe7))) return (instruction){OP_JUMP, 2, 0, 0};
    if (p[0] == 0x48 && p[1] == 0xff && n >= 3 && (p[2] & 0x38) == 0x20) return (instruction){OP_JUMP, 3, 0, 0};
    if (p[0] == 0x41 && p[1] == 0xff && n >= 3 && p[2] >= 0xe0 && p[2] <= 0xe7) return (instruction){OP_JUMP, 3, 0, 0};
    if (n >= 3 && p[0] == 0xc5 && p[2] == 0x77) return (instruction){OP_PLAIN, 3, 0, 0}; /* vzeroupper */
    if ((p[0] & 0xfe) == 0x48 && p[1] >= 0xb8 && p[1] <= 0xbf) return (instruction){OP_PLAIN, 10, 0, 0}; /* mov imm64 */
    if (n >= 7 && (p[0] == 0x48 || p[0] == 0x4c) && p[1] == 0x8b && (p[2] & 0xc7) == 0x05)
        return (instruction){OP_PLAIN, 7, 0, 0};                /* mov reg, [rip + x] */
    if (n >= 7 && p[0] == 0x85 && p[1] == 0x84 && p[2] == 0x24) /* test [rsp - page], eax: a large frame is touched */
        return (instruction){OP_PLAIN, 7, 0, 0};
    if (p[0] == 0x48) return read_wide(p, n);
    return (instruction){OP_OTHER, 0, 0, 0};
}

/* The number of DWARF of a register in an instruction. */
static int dwarf_of(int reg)
{
    static const uint8_t low[8] = {UW_RAX, UW_RCX, UW_RDX, UW_RBX, UW_RSP, UW_RBP, UW_RSI, UW_RDI};
    return reg < 8 ? low[reg] : reg;
}

static void nothing_saved(uw__leaf *out)
{
    for (int i = 0; i < UW_RIP; i++)
        out->at[i] = -1;
}

/* ---- epilogues and stubs ----------------------------------------------------------------------------------------- */

/* Goes from ip to a ret or a jump, if only instructions of an epilogue are between. OP_RET, OP_JUMP (a tail call, or a
 * stub that loads and jumps), or OP_OTHER: it is none. */
static op forward(const text *t, uw__leaf *out)
{
    int64_t sp = 0;
    bool moved = false;
    int at = BEFORE;
    nothing_saved(out);
    for (int i = 0; i < STEPS; i++) {
        instruction x = read_one(t->p + at, t->n - at);
        switch (x.op) {
        case OP_POP:
            out->at[dwarf_of(x.reg)] = sp;
            sp += 8;
            moved = true;
            break;
        case OP_ADD:
            sp += x.value;
            moved = true;
            break;
        case OP_PLAIN: moved = true; break;
        case OP_RET: out->ra_at = sp; return OP_RET;
        case OP_JUMP: out->ra_at = sp; return moved ? OP_JUMP : OP_OTHER;
        case OP_OTHER:
        case OP_PUSH:
        case OP_SUB:
        case OP_SET_RBP:
        case OP_LEA_RSP: /* rbp still holds the frame: it is for the frame pointer */
        case OP_LEAVE: return OP_OTHER;
        }
        at += x.size;
    }
    return OP_OTHER;
}

/* ---- prologues --------------------------------------------------------------------------------------------------- */

/* Goes from a start to ip. True: all instructions between are a prologue's, and rbp has not been set. */
static bool from_start(const text *t, int start, uw__leaf *out)
{
    int64_t depth = 0;
    int at = start;
    nothing_saved(out);
    for (int i = 0; i < STEPS && at < BEFORE; i++) {
        instruction x = read_one(t->p + at, BEFORE - at);
        if (x.op == OP_PUSH) {
            depth += 8;
            out->at[dwarf_of(x.reg)] = depth; /* from the top down, until the depth is known */
        } else if (x.op == OP_SUB) {
            depth += x.value;
        } else if (x.op != OP_PLAIN) {
            return false;
        }
        at += x.size;
    }
    if (at != BEFORE) return false;
    out->ra_at = depth;
    for (int i = 0; i < UW_RIP; i++)
        if (out->at[i] >= 0) out->at[i] = depth - out->at[i];
    return true;
}

/* Does a prologue go on at ip, up to the instruction that sets rbp? */
static bool goes_on(const text *t, bool first)
{
    int at = BEFORE;
    bool pushed = !first;
    for (int i = 0; i < STEPS; i++) {
        instruction x = read_one(t->p + at, t->n - at);
        if (x.op == OP_SET_RBP) return pushed;
        if (x.op == OP_PUSH)
            pushed = pushed || x.reg == 5;
        else if (x.op != OP_SUB && x.op != OP_PLAIN)
            return false;
        at += x.size;
    }
    return false;
}

/* Without the method's start: a push of rbp before ip from which a prologue leads there, and goes on. */
static bool backward(const text *t, uw__leaf *out)
{
    out->ra_at = 0;
    nothing_saved(out);
    if (t->p[BEFORE] == 0x55 && goes_on(t, true)) return true;
    if (!goes_on(t, false)) return false;
    for (int at = BEFORE - 1; at >= t->from; at--)
        if (t->p[at] == 0x55 && from_start(t, at, out)) return true;
    return false;
}

static bool read_around(const uw_memory *code, uint64_t ip, text *t)
{
    *t = (text){.from = 0, .n = BEFORE + BEHIND};
    if (!code || !code->read) return false;
    if (code->read(code->arg, ip - BEFORE, t->p, sizeof t->p)) return true;
    t->from = BEFORE; /* at the edge of a map */
    if (code->read(code->arg, ip, t->p + BEFORE, BEHIND)) return true;
    t->n = BEFORE + 16;
    return code->read(code->arg, ip, t->p + BEFORE, 16);
}

bool uw__code_leaf(const uw_memory *code, uint64_t ip, uint64_t start, uw__leaf *out)
{
    text t;
    if (!read_around(code, ip, &t)) return false;
    if (start && ip >= start && ip - start <= (uint64_t)(BEFORE - t.from)) {
        int at = BEFORE - (int)(ip - start);
        if (from_start(&t, at, out)) return true;
    } else if (!start && backward(&t, out)) {
        return true;
    }
    return forward(&t, out) != OP_OTHER;
}

bool uw__code_epilogue(const uw_memory *code, uint64_t ip, uw__leaf *out)
{
    text t = {.from = BEFORE, .n = BEFORE + 32};
    if (!code || !code->read || !code->read(code->arg, ip, t.p + BEFORE, 32)) return false;
    return forward(&t, out) == OP_RET;
}

bool uw__code_layout(const uw_memory *code, uint64_t start, uw__layout *out)
{
    uint8_t p[96];
    int n = (int)sizeof p, at = 0, first = -1;
    *out = (uw__layout){0};
    for (int i = 0; i < UW_RIP; i++)
        out->at[i] = -1;
    for (; n >= 16 && (!code->read || !code->read(code->arg, start, p, (size_t)n)); n /= 2)
        ;
    if (n < 16) return false;
    for (int i = 0; i < STEPS; i++) {
        instruction x = read_one(p + at, n - at);
        if (x.op == OP_PUSH) {
            out->depth += 8;
            out->at[dwarf_of(x.reg)] = out->depth;
            if (first < 0) first = x.reg;
        } else if (x.op == OP_SUB) {
            out->depth += x.value;
        } else if (x.op == OP_SET_RBP) {
            out->frame = out->known = first == 5 && x.value == out->depth - out->at[UW_RBP];
            out->length = (uint32_t)(at + x.size);
            return out->known;
        } else if (x.op != OP_PLAIN) {
            break;
        }
        at += x.size;
        if (x.op != OP_PLAIN) out->length = (uint32_t)at;
    }
    /* A push of rbp first, which then is not set: its prologue has something that is not known here. */
    out->known = first != 5 && out->depth >= 0;
    return out->known;
}

bool uw__code_after_call(const uw_memory *code, uint64_t address)
{
    uint8_t p[8];
    if (!code || !code->read || address < 8 || !code->read(code->arg, address - 8, p, 8)) return false;
    if (p[3] == 0xe8) return true;                                  /* call rel32 */
    if (p[6] == 0xff && (p[7] & 0xf8) == 0xd0) return true;         /* call reg */
    if (p[5] == 0xff && (p[6] & 0xf8) == 0x50) return true;         /* call [reg + 8] */
    if (p[6] == 0xff && (p[7] & 0xf8) == 0x10) return true;         /* call [reg] */
    return p[2] == 0xff && ((p[3] & 0xf8) == 0x90 || p[3] == 0x15); /* call [reg + 32], call [rip + 32] */
}

bool uw__code_patchpoint(const uw_memory *code, uint64_t address)
{
    uint8_t p[24]; /* behind it lies address */
    if (!code || !code->read || address < sizeof p || !code->read(code->arg, address - sizeof p, p, sizeof p))
        return false;
    int at = sizeof p;
    if (p[at - 5] == 0xe8) /* call rel32 */
        at -= 5;
    else if (p[at - 6] == 0xff && p[at - 5] == 0x15) /* call [rip + 32] */
        at -= 6;
    else
        return false;
    if (p[at - 5] == 0xbe) /* mov esi, 32 */
        at -= 5;
    else if ((p[at - 2] == 0x33 || p[at - 2] == 0x31) && p[at - 1] == 0xf6) /* xor esi, esi */
        at -= 2;
    else
        return false;
    bool is_near = p[at - 4] == 0x48 && p[at - 3] == 0x8d && p[at - 2] == 0x7d; /* lea rdi, [rbp + 8] */
    bool is_far = p[at - 7] == 0x48 && p[at - 6] == 0x8d && p[at - 5] == 0xbd;  /* lea rdi, [rbp + 32] */
    return is_near || is_far;
}
