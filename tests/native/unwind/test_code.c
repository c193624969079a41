/* SPDX-License-Identifier: MIT */
/* test_code.c: prologues, epilogues and stubs as .NET's JIT writes them, and where the return address lies at each of
 * their instructions. */
#include "check.h"
#include "unwind/uw_internal.h"

#define START UINT64_C(0x10000)

typedef struct bytes {
    const uint8_t *p;
    size_t n;
} bytes;

/* Code with breakpoints before and behind it. */
static bool read_code(void *arg, uint64_t address, void *out, size_t n)
{
    const bytes *b = arg;
    if (address < START - 64 || address + n > START + b->n + 128) return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = address + i;
        ((uint8_t *)out)[i] = at >= START && at < START + b->n ? b->p[at - START] : 0xcc;
    }
    return true;
}

/* push rbp; push r15; push rbx; sub rsp,0x18; lea rbp,[rsp+0x28]; nop; add rsp,0x18; pop rbx; pop r15; pop rbp; ret */
static const uint8_t framed[] = {0x55, 0x41, 0x57, 0x53, 0x48, 0x83, 0xec, 0x18, 0x48, 0x8d, 0x6c, 0x24,
                                 0x28, 0x90, 0x48, 0x83, 0xc4, 0x18, 0x5b, 0x41, 0x5f, 0x5d, 0xc3};
/* push r14; push rbx; sub rsp,8; nop; call; add rsp,8; pop rbx; pop r14; ret */
static const uint8_t frameless[] = {0x41, 0x56, 0x53, 0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 0,   0,
                                    0,    0,    0x48, 0x83, 0xc4, 0x08, 0x5b, 0x41, 0x5e, 0xc3};
/* mov r10, 0x1122334455667788; jmp [rip] */
static const uint8_t stub[] = {0x49, 0xba, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xff, 0x25, 0, 0, 0, 0};
/* push rbp; mov rbp, rsp; call */
static const uint8_t plain[] = {0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0x5d, 0xc3};

typedef struct at_case {
    const char *what;
    const uint8_t *p;
    size_t n;
    unsigned offset;
    bool known;            /* the start */
    int64_t ra_at, rbp_at; /* ra_at -1: it is for the frame pointer */
} at_case;

static void the_return_address_is_found_at_each_instruction(void **state)
{
    (void)state;
    static const at_case cases[] = {
        {"before the first push", framed, sizeof framed, 0, true, 0, -1},
        {"the same, start unknown", framed, sizeof framed, 0, false, 0, -1},
        {"rbp is pushed", framed, sizeof framed, 1, false, 8, 0},
        {"r15 is pushed", framed, sizeof framed, 3, false, 16, 8},
        {"room is made", framed, sizeof framed, 8, true, 0x30, 0x28},
        {"room is made, start unknown", framed, sizeof framed, 8, false, 0x30, 0x28},
        {"the body", framed, sizeof framed, 13, true, -1, 0},
        {"the epilogue begins", framed, sizeof framed, 14, false, 0x30, 0x28},
        {"rbx is back", framed, sizeof framed, 19, false, 16, 8},
        {"all is back", framed, sizeof framed, 22, false, 0, -1},
        {"a frameless prologue", frameless, sizeof frameless, 3, true, 16, -1},
        {"its epilogue", frameless, sizeof frameless, 17, true, 16, -1},
        {"a stub", stub, sizeof stub, 0, false, 0, -1},
        {"mov rbp, rsp comes next", plain, sizeof plain, 1, false, 8, 0},
        {"behind a call", plain, sizeof plain, 9, false, 8, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const at_case *c = &cases[i];
        bytes b = {c->p, c->n};
        uw_memory m = {read_code, &b};
        uw__leaf x;
        bool found = uw__code_leaf(&m, START + c->offset, c->known && c->offset ? START : 0, &x);
        if (found != (c->ra_at >= 0)) fail_msg("%s: %d", c->what, found);
        if (!found) continue;
        if (x.ra_at != c->ra_at || x.at[UW_RBP] != c->rbp_at)
            fail_msg("%s: return address at %lld, rbp at %lld", c->what, (long long)x.ra_at, (long long)x.at[UW_RBP]);
    }
}

static uw__layout layout_of(const uint8_t *p, size_t n)
{
    bytes b = {p, n};
    uw_memory m = {read_code, &b};
    uw__layout l;
    (void)uw__code_layout(&m, START, &l);
    return l;
}

static void a_prologue_tells_whether_there_is_a_frame(void **state)
{
    (void)state;
    uw__layout l = layout_of(framed, sizeof framed);
    assert_true(l.known && l.frame);
    assert_int_equal(l.length, 13);
    l = layout_of(plain, sizeof plain);
    assert_true(l.known && l.frame);
    l = layout_of(frameless, sizeof frameless);
    assert_true(l.known && !l.frame);
    assert_int_equal(l.depth, 24);
    assert_int_equal(l.length, 7);
    assert_int_equal(l.at[UW_RBX], 16);
    assert_int_equal(l.at[UW_R14], 8);
    assert_int_equal(l.at[UW_RBP], -1);
    /* push rbp; lea r11,[rsp-0x3000]: pages are probed by a call, which is not understood */
    static const uint8_t probed[] = {0x55, 0x4c, 0x8d, 0x9c, 0x24, 0x00, 0xd0, 0xff, 0xff, 0xe8, 0, 0, 0, 0};
    assert_false(layout_of(probed, sizeof probed).known);
}

static void a_call_is_seen_before_its_return_address(void **state)
{
    (void)state;
    bytes b = {frameless, sizeof frameless};
    uw_memory m = {read_code, &b};
    assert_true(uw__code_after_call(&m, START + 13));
    assert_false(uw__code_after_call(&m, START + 12));
    assert_false(uw__code_after_call(&m, 4));
}

static bool asks(const char *before, size_t n)
{
    uint8_t code[64];
    memset(code, 0x90, sizeof code);
    memcpy(code + sizeof code - n, before, n);
    bytes b = {code, sizeof code};
    uw_memory m = {read_code, &b};
    return uw__code_patchpoint(&m, START + sizeof code);
}
#define ASKS(s) asks(s, sizeof(s) - 1)

static void a_loop_that_may_go_on_elsewhere_is_known_by_its_call(void **state)
{
    (void)state;
    assert_true(ASKS("\x48\x8d\x7d\x90\xbe\x55\0\0\0\xe8\1\2\3\4"));
    assert_true(ASKS("\x48\x8d\xbd\x70\xff\xff\xff\xbe\x55\0\0\0\xff\x15\1\2\3\4"));
    assert_true(ASKS("\x48\x8d\x7d\x90\x33\xf6\xe8\1\2\3\4"));
    assert_false(ASKS("\x48\x8d\x7c\x24\xbe\x55\0\0\0\xe8\1\2\3\4"));         /* lea rdi, [rsp + ..] */
    assert_false(ASKS("\x48\x8d\x7d\x90\xba\x55\0\0\0\xe8\1\2\3\4"));         /* mov edx */
    assert_false(ASKS("\x48\x8d\x7d\x90\xbe\x55\0\0\0\x90\x90\x90\xff\xd0")); /* no such call */
    bytes b = {frameless, sizeof frameless};
    uw_memory m = {read_code, &b};
    assert_false(uw__code_patchpoint(&m, START + 13)); /* less than that can be read */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_return_address_is_found_at_each_instruction),
        cmocka_unit_test(a_prologue_tells_whether_there_is_a_frame),
        cmocka_unit_test(a_call_is_seen_before_its_return_address),
        cmocka_unit_test(a_loop_that_may_go_on_elsewhere_is_known_by_its_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
