/* SPDX-License-Identifier: MIT */
/* test_walk.c: the stacks of this very program, whose functions are known, against glibc's own backtrace. */
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"
#include "unwind/uw.h"

#define FRAMES 128
enum { DEPTH = 20 };

typedef struct taken {
    uw_frame frames[FRAMES];
    uint32_t n;
    uw_end end;
    void *theirs[FRAMES];
    int n_theirs;
    uw_stats stats;
} taken;

static taken got;

static uw_regs regs_of(const ucontext_t *u)
{
    const greg_t *g = u->uc_mcontext.gregs;
    return (uw_regs){.known = UW_ALL,
                     .r = {(uint64_t)g[REG_RAX], (uint64_t)g[REG_RDX], (uint64_t)g[REG_RCX], (uint64_t)g[REG_RBX],
                           (uint64_t)g[REG_RSI], (uint64_t)g[REG_RDI], (uint64_t)g[REG_RBP], (uint64_t)g[REG_RSP],
                           (uint64_t)g[REG_R8], (uint64_t)g[REG_R9], (uint64_t)g[REG_R10], (uint64_t)g[REG_R11],
                           (uint64_t)g[REG_R12], (uint64_t)g[REG_R13], (uint64_t)g[REG_R14], (uint64_t)g[REG_R15],
                           (uint64_t)g[REG_RIP]}};
}

static void walk(const uw_regs *regs)
{
    uw_memory m = {uw_read_process, (void *)(intptr_t)getpid()};
    uw_space *s = uw_space_new(&m);
    err e = {0};
    assert_non_null(s);
    assert_int_equal(uw_space_load(s, getpid(), &e), 0);
    got.n = uw_walk(s, regs, NULL, got.frames, FRAMES, &got.end);
    uw_space_stats(s, &got.stats);
    uw_space_free(s);
}

/* The caller's stack by both. */
__attribute__((noinline)) static void take(void)
{
    ucontext_t u;
    getcontext(&u);
    uw_regs r = regs_of(&u);
    walk(&r);
    got.n_theirs = backtrace(got.theirs, FRAMES);
}

__attribute__((noinline)) static int go_down(int n, void (*at_the_bottom)(void))
{
    volatile int local[8] = {n};
    if (n == 0)
        at_the_bottom();
    else
        local[1] = go_down(n - 1, at_the_bottom);
    return local[0] + local[1];
}

/* Frames from the first return address on are the same; a sanitizer's backtrace has some of its own before. */
static void same_returns(void)
{
    int more = got.n_theirs - (int)(got.n - 1);
    assert_in_range(more, 1, 4);
    for (uint32_t i = 1; i < got.n; i++)
        assert_int_equal(got.frames[i].ip, (uintptr_t)got.theirs[more + (int)i - 1]);
}

static void every_frame_is_the_one_that_glibc_finds(void **state)
{
    (void)state;
    go_down(DEPTH, take);
    assert_int_equal(got.end, UW_END_ROOT);
    assert_true(got.n > DEPTH);
    assert_true(got.frames[0].exact);
    assert_int_equal(got.frames[1].how, UW_CFI);
    same_returns();
}

static void *in_thread(void *arg)
{
    (void)arg;
    go_down(3, take);
    return NULL;
}

static void a_thread_ends_at_its_beginning(void **state)
{
    (void)state;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, in_thread, NULL), 0);
    pthread_join(t, NULL);
    assert_int_equal(got.end, UW_END_ROOT);
    same_returns();
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static void on_signal(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info, (void)context;
    take();
}

__attribute__((noinline)) static void interrupted(void) { raise(SIGUSR1); }

static void through_a_signal(int flags)
{
    struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags}, old;
    sigaction(SIGUSR1, &a, &old);
    go_down(2, interrupted);
    sigaction(SIGUSR1, &old, NULL);
    assert_int_equal(got.end, UW_END_ROOT);
    uint32_t signals = 0;
    for (uint32_t i = 1; i < got.n; i++) {
        signals += got.frames[i].how == UW_SIGNAL;
        assert_int_equal(got.frames[i].exact, got.frames[i].how == UW_SIGNAL);
    }
    assert_int_equal(signals, 1);
    same_returns();
}

static void a_signal_handler_is_passed(void **state)
{
    (void)state;
    through_a_signal(0);
}

static void a_handler_on_a_stack_of_its_own_is_passed(void **state)
{
    (void)state;
    static char own[1 << 18];
    stack_t s = {.ss_sp = own, .ss_size = sizeof own}, old;
    assert_int_equal(sigaltstack(&s, &old), 0);
    through_a_signal(SA_ONSTACK);
    sigaltstack(&old, NULL);
}

/* ---- what is missing --------------------------------------------------------------------------------------------- */

static uint64_t limit;

static bool read_below(void *arg, uint64_t address, void *out, size_t n)
{
    return address + n <= limit && uw_read_process(arg, address, out, n);
}

static void take_half(void)
{
    ucontext_t u;
    getcontext(&u);
    uw_regs r = regs_of(&u);
    uw_memory all = {uw_read_process, (void *)(intptr_t)getpid()}, half = {read_below, (void *)(intptr_t)getpid()};
    uw_space *s = uw_space_new(&all);
    assert_int_equal(uw_space_load(s, getpid(), NULL), 0);
    uint32_t n = uw_walk(s, &r, NULL, got.frames, FRAMES, &got.end);
    limit = got.frames[n / 2].sp;
    uw_end end;
    uint32_t less = uw_walk(s, &r, &half, got.frames, FRAMES, &end);
    assert_int_equal(end, UW_END_MEMORY);
    assert_in_range(less, n / 2, n / 2 + 1);
    uw_frame one[1];
    assert_int_equal(uw_walk(s, &r, NULL, one, 1, &end), 1);
    assert_int_equal(end, UW_END_MAX);
    uw_space_free(s);
}

static void where_the_stack_cannot_be_read_it_ends(void **state)
{
    (void)state;
    go_down(DEPTH, take_half);
}

static void a_map_hides_what_lay_there(void **state)
{
    (void)state;
    uw_space *s = uw_space_new(NULL);
    uw_module m;
    assert_true(uw_space_map(s, &(uw_map){0x10000, 0x20000, 0, true, SLICE_LIT("/nowhere/a.so"), NULL}));
    assert_true(uw_space_map(s, &(uw_map){0x14000, 0x18000, 0x1000, true, SLICE_LIT("/nowhere/b.so"), NULL}));
    assert_true(uw_space_find(s, 0x13fff, &m) && slice_eq_str(m.path, "/nowhere/a.so") && m.end == 0x14000);
    assert_true(uw_space_find(s, 0x14000, &m) && slice_eq_str(m.path, "/nowhere/b.so") && m.file_offset == 0x1000);
    assert_true(uw_space_find(s, 0x18000, &m) && slice_eq_str(m.path, "/nowhere/a.so") && m.file_offset == 0x8000);
    uw_space_unmap(s, 0x12000, 0x19000);
    assert_false(uw_space_find(s, 0x15000, &m));
    assert_true(uw_space_find(s, 0x11fff, &m) && uw_space_find(s, 0x19000, &m));
    assert_int_equal(m.file_offset, 0x9000);
    uw_space_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_frame_is_the_one_that_glibc_finds),
        cmocka_unit_test(a_thread_ends_at_its_beginning),
        cmocka_unit_test(a_signal_handler_is_passed),
        cmocka_unit_test(a_handler_on_a_stack_of_its_own_is_passed),
        cmocka_unit_test(where_the_stack_cannot_be_read_it_ends),
        cmocka_unit_test(a_map_hides_what_lay_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
