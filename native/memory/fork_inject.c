/* SPDX-License-Identifier: MIT */
/* fork_inject.c: one system call, executed by a thread of the target that waits in the kernel.
 *
 * The thread is sent to a "syscall; ret" of the target's C library with its stack pointer at a signal frame that we
 * wrote below what it uses. As long as we live that frame is not looked at: the thread is caught behind the call and
 * given its own registers, so that the kernel repeats the call that it waited in as if nothing had been. Should we be
 * killed at any moment, the kernel lets the thread go, its `ret` leads to rt_sigreturn, and that takes everything from
 * the frame: general and vector registers, signal mask, and the call it waited in. Layout of the frame: System V ABI,
 * linux arch/x86/include/uapi/asm/sigcontext.h, ucontext.h. A child without a tracer returns to _exit. */
#include <cpuid.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "kernel/kernel.h"
#include "memory/fork_own.h"

#define CODE_MAX       ((size_t)16 << 20) /* of a C library */
#define XSTATE_MAX     16384u
#define RED_ZONE       128u
#define STOPS_MAX      64
#define TRIES          5
#define USER_CODE_64   0x33u
#define ERESTARTSYS    512
#define ERESTARTNOHAND 514
#define ERESTART_BLOCK 516
#define MASK_ALL       UINT64_MAX
#define XSAVE_HEADER   512u /* offset of the header: its first word says which states there are */
#define XSAVE_SOFT     464u /* offset of what is for software */
#define DYNAMIC_STATES 17u  /* from here on, a state needs a permission of its own (AMX) */

void (*mem__fork_hook)(mem__moment at);

/* ---- code that is needed ---- */

static uint64_t find_bytes(const uint8_t *p, size_t n, const char *what, size_t size, uint64_t base)
{
    const uint8_t *at = memmem(p, n, what, size);
    return at ? base + (uint64_t)(at - p) : 0;
}

static void scan(mem_target *t, const mem_mapping *m)
{
    size_t n = (size_t)(m->end - m->start);
    uint8_t *p = n <= CODE_MAX ? mem_alloc(n) : NULL;
    if (!p) return;
    n = mem_read(t, m->start, p, n);
    mem__fork *f = t->fork;
    if (!f->gate) f->gate = find_bytes(p, n, "\x0f\x05\xc3", 3, m->start);
    if (!f->restorer) f->restorer = find_bytes(p, n, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9, m->start);
    free(p);
}

static bool is_c_library(const char *path)
{
    const char *name = strrchr(path, '/');
    return name && (strcmp(name + 1, "libc.so.6") == 0 || strncmp(name + 1, "ld-musl-", 8) == 0 ||
                    strncmp(name + 1, "libc.musl-", 10) == 0 || strncmp(name + 1, "libc-2.", 7) == 0);
}

int mem__fork_code(mem_target *t, err *e)
{
    size_t n, n_modules;
    const mem_mapping *m = mem_mappings(t, &n);
    for (size_t i = 0; i < n; i++)
        if (m[i].prot & MEM_EXEC && is_c_library(m[i].path)) scan(t, &m[i]);
    const mem_module *mod = mem_modules(t, &n_modules);
    for (size_t i = 0; i < n_modules && !t->fork->leave; i++)
        if (is_c_library(mod[i].path) && !mem_symbol(t, &mod[i], "_exit", &t->fork->leave)) t->fork->leave = 0;
    if (t->fork->gate && t->fork->restorer && t->fork->leave) return 0;
    int rc =
        err_set(e, ERR_NOT_SUPPORTED, "the C library of process %d is not known: it cannot be forked", (int)t->pid);
    err_hint(e, "Use freeze=\"copy\".");
    return rc;
}

/* ---- a thread that fits ---- */

static bool get_registers(pid_t tid, struct user_regs_struct *r)
{
    struct iovec v = {r, sizeof *r};
    return ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)NT_PRSTATUS, &v) == 0 && v.iov_len == sizeof *r;
}

static bool set_registers(pid_t tid, struct user_regs_struct *r)
{
    struct iovec v = {r, sizeof *r};
    return ptrace(PTRACE_SETREGSET, tid, (void *)(uintptr_t)NT_PRSTATUS, &v) == 0;
}

/* Does it wait in a call that the kernel would repeat? 2: with the same arguments; 1: by what it remembers. */
static int rank_of(mem_target *t, const struct user_regs_struct *r)
{
    uint8_t code[2];
    int64_t result = (int64_t)r->rax;
    if (r->cs != USER_CODE_64 || (int64_t)r->orig_rax < 0) return 0;
    if (!mem_get(t, r->rip - 2, code, 2) || code[0] != 0x0f || code[1] != 0x05) return 0;
    if (result <= -ERESTARTSYS && result >= -ERESTARTNOHAND) return 2;
    return result == -ERESTART_BLOCK ? 1 : 0;
}

int mem__carrier_rank(mem_target *t, pid_t tid)
{
    struct user_regs_struct r;
    return get_registers(tid, &r) ? rank_of(t, &r) : 0;
}

/* ---- the frame ---- */

typedef struct frame { /* struct rt_sigframe */
    uint64_t back;     /* where `ret` leads: rt_sigreturn */
    uint64_t flags, link;
    uint64_t stack_at;
    uint32_t stack_flags, pad;
    uint64_t stack_size;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
    uint16_t cs, gs, fs, ss;
    uint64_t error, trap, old_mask, cr2, floating, reserved[8];
    uint64_t mask;
    uint8_t info[128];
    uint64_t child_back; /* not of the frame: the whole stack of the child */
    uint64_t child_more;
} frame;
_Static_assert(offsetof(frame, r8) == 8 + 40, "uc_mcontext");
_Static_assert(offsetof(frame, mask) == 8 + 40 + 256, "uc_sigmask");

typedef struct carrier {
    pid_t tid;
    struct user_regs_struct own;
    uint64_t mask;
    uint64_t at; /* of the frame, in the target */
    int late;    /* a signal that came meanwhile and cannot be blocked */
    size_t xsize;
    uint8_t xstate[XSTATE_MAX + 64];
    frame f;
} carrier;

/* Bytes of the states that every program may use: what the kernel takes back from a frame without a permission. */
static size_t common_xstate(void)
{
    uint32_t a, b, c, d;
    size_t most = XSAVE_HEADER + 64;
    if (!__get_cpuid_count(0xd, 0, &a, &b, &c, &d)) return 0;
    uint64_t there = a;
    for (uint32_t i = 2; i < DYNAMIC_STATES; i++)
        if (there >> i & 1 && __get_cpuid_count(0xd, i, &a, &b, &c, &d) && a + b > most) most = a + b;
    return most;
}

/* The vector registers, as a frame wants them: marked before and behind. */
static void take_xstate(carrier *c)
{
    struct iovec v = {c->xstate, XSTATE_MAX};
    size_t common = common_xstate();
    c->xsize = 0;
    if (ptrace(PTRACE_GETREGSET, c->tid, (void *)(uintptr_t)NT_X86_XSTATE, &v) != 0) return;
    if (v.iov_len < XSAVE_HEADER + 64 || !common) return;
    c->xsize = v.iov_len < common ? v.iov_len : common;
    uint64_t states;
    memcpy(&states, c->xstate + XSAVE_HEADER, 8);
    states &= (UINT64_C(1) << DYNAMIC_STATES) - 1;
    uint32_t soft[12] = {0x46505853, (uint32_t)c->xsize + 4, (uint32_t)states | 3, 0, (uint32_t)c->xsize};
    memcpy(c->xstate + XSAVE_HEADER, &states, 8);
    memcpy(c->xstate + XSAVE_SOFT, soft, sizeof soft);
    memcpy(c->xstate + c->xsize, &(uint32_t){0x46505845}, 4);
}

static void fill_frame(const mem_target *t, carrier *c, uint64_t xstate_at)
{
    const struct user_regs_struct *r = &c->own;
    int64_t result = (int64_t)r->rax;
    bool again = result <= -ERESTARTSYS && result >= -ERESTARTNOHAND;
    uint64_t rax = again ? r->orig_rax : result == -ERESTART_BLOCK ? (uint64_t)-EINTR : r->rax;
    c->f = (frame){.back = t->fork->restorer,
                   .flags = c->xsize ? 7 : 6, /* UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS */
                   .stack_flags = 7,          /* none that there is: its alternate stack stays as it is */
                   .r8 = r->r8,
                   .r9 = r->r9,
                   .r10 = r->r10,
                   .r11 = r->r11,
                   .r12 = r->r12,
                   .r13 = r->r13,
                   .r14 = r->r14,
                   .r15 = r->r15,
                   .rdi = r->rdi,
                   .rsi = r->rsi,
                   .rbp = r->rbp,
                   .rbx = r->rbx,
                   .rdx = r->rdx,
                   .rax = rax,
                   .rcx = r->rcx,
                   .rsp = r->rsp,
                   .rip = again ? r->rip - 2 : r->rip,
                   .eflags = r->eflags,
                   .cs = (uint16_t)r->cs,
                   .ss = (uint16_t)r->ss,
                   .floating = c->xsize ? xstate_at : 0,
                   .mask = c->mask,
                   .child_back = t->fork->leave};
}

static bool put(mem_target *t, uint64_t address, void *from, size_t n)
{
    struct iovec local = {from, n}, remote = {(void *)(uintptr_t)address, n};
    return process_vm_writev(t->pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* Below the red zone of the thread's stack, within what is mapped. */
static bool write_frame(mem_target *t, carrier *c)
{
    take_xstate(c);
    uint64_t xstate_at = (c->own.rsp - RED_ZONE - (c->xsize + 4)) & ~UINT64_C(63);
    c->at = ((xstate_at - sizeof c->f) & ~UINT64_C(15)) - 8; /* as the kernel places it */
    const mem_mapping *m = mem_mapping_of(t, c->own.rsp);
    if (!m || !(m->prot & MEM_WRITE) || c->at < m->start + MEM_PAGE) return false;
    fill_frame(t, c, xstate_at);
    return (!c->xsize || put(t, xstate_at, c->xstate, c->xsize + 4)) && put(t, c->at, &c->f, sizeof c->f);
}

/* ---- the call ---- */

enum { STOP_GONE = -1, STOP_OTHER, STOP_CALL, STOP_CHILD, STOP_TRAP };

/* Lets the thread go until it stops again. */
static int run_to_stop(carrier *c, enum __ptrace_request how)
{
    int status = 0;
    if (ptrace(how, c->tid, NULL, NULL) != 0) return STOP_GONE;
    while (waitpid(c->tid, &status, __WALL) < 0)
        if (errno != EINTR) return STOP_GONE;
    if (!WIFSTOPPED(status)) return STOP_GONE;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) return STOP_CALL;
    if (status >> 16 == PTRACE_EVENT_CLONE) return STOP_CHILD;
    if (status >> 16 == PTRACE_EVENT_STOP) return STOP_TRAP;
    if (status >> 16 == 0) c->late = WSTOPSIG(status);
    return STOP_OTHER;
}

/* Runs until a stop of that kind; of a child that appears on the way, note is taken. */
static bool run_to(carrier *c, int kind, enum __ptrace_request how, mem__called *out)
{
    for (int i = 0; i < STOPS_MAX; i++) {
        int got = run_to_stop(c, how);
        if (got == kind) return true;
        if (got == STOP_GONE) return false;
        unsigned long child = 0;
        if (got == STOP_CHILD && ptrace(PTRACE_GETEVENTMSG, c->tid, NULL, &child) == 0) out->child = (pid_t)child;
        if (out->child) mem__moment_is(MEM_AT_CHILD);
        if (c->late == SIGSEGV || c->late == SIGBUS || c->late == SIGILL) return false;
    }
    return false;
}

/* Its own registers and mask. In this order: registers of ours with its mask are safe, as the frame has both. */
static bool give_back(carrier *c)
{
    bool ok = ptrace(PTRACE_SETSIGMASK, c->tid, sizeof c->mask, &c->mask) == 0;
    mem__moment_is(MEM_AT_MASK_BACK);
    return set_registers(c->tid, &c->own) && ok;
}

/* The thread stands in a trap. One attempt; true with the result. */
static bool attempt(const mem_target *t, carrier *c, const mem__call *call, mem__called *out)
{
    uint64_t all = MASK_ALL;
    struct user_regs_struct r = c->own;
    r.rip = t->fork->gate;
    r.rsp = c->at;
    r.rax = (uint64_t)call->number;
    r.orig_rax = UINT64_MAX;
    r.rdi = call->a[0];
    r.rsi = call->forks ? c->at + offsetof(frame, child_back) : call->a[1];
    r.rdx = call->a[2];
    r.r10 = call->a[3];
    r.r8 = 0;
    if (!set_registers(c->tid, &r)) return false;
    mem__moment_is(MEM_AT_REGISTERS);
    if (ptrace(PTRACE_SETSIGMASK, c->tid, sizeof all, &all) != 0) return false;
    mem__moment_is(MEM_AT_MASK);
    if (!run_to(c, STOP_CALL, PTRACE_SYSCALL, out)) return false;
    mem__moment_is(MEM_AT_ENTRY);
    if (!run_to(c, STOP_CALL, PTRACE_SYSCALL, out)) return false;
    mem__moment_is(MEM_AT_EXIT);
    bool ok = get_registers(c->tid, &r);
    out->result = (int64_t)r.rax;
    ptrace(PTRACE_INTERRUPT, c->tid, NULL, NULL);
    ok = run_to(c, STOP_TRAP, PTRACE_CONT, out) && ok;
    mem__moment_is(MEM_AT_TRAP);
    return ok;
}

int mem__inject(mem_target *t, pid_t tid, const mem__call *call, mem__called *out, err *e)
{
    long options = PTRACE_O_TRACESYSGOOD | (call->forks ? PTRACE_O_TRACECLONE : 0);
    carrier *c = mem_calloc(1, sizeof *c);
    *out = (mem__called){0};
    if (!c) return err_set(e, ERR_NO_MEMORY, "no memory for the registers of a thread");
    c->tid = tid;
    int rc = 0;
    if (!get_registers(tid, &c->own) || !rank_of(t, &c->own) ||
        ptrace(PTRACE_GETSIGMASK, tid, sizeof c->mask, &c->mask) != 0 || !write_frame(t, c) ||
        ptrace(PTRACE_SETOPTIONS, tid, NULL, (void *)options) != 0) {
        rc = err_set(e, ERR_BUSY, "thread %d of process %d cannot lend a system call", (int)tid, (int)t->pid);
        goto out;
    }
    bool done = false;
    for (int i = 0; i < TRIES; i++) {
        done = attempt(t, c, call, out);
        if (!done || out->child || out->result > -ERESTARTSYS || out->result < -ERESTART_BLOCK) break;
    }
    bool back = give_back(c);
    ptrace(PTRACE_SETOPTIONS, tid, NULL, NULL);
    if (c->late == SIGSTOP) syscall(SYS_tgkill, t->pid, tid, SIGSTOP); /* it was taken away: it comes again */
    if (!done || !back)
        rc = err_set(e, mem_gone(t) ? ERR_PROCESS_EXITED : ERR_IO, "thread %d of process %d did not execute the call",
                     (int)tid, (int)t->pid);
out:
    free(c);
    return rc;
}

/* ---- by any thread, the others running ---- */

/* Stops one thread that sleeps. The signal that it came with is in *pending. */
static bool hold(pid_t tid, int *pending)
{
    int status = 0;
    *pending = 0;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) return false;
    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
    while (waitpid(tid, &status, __WALL) < 0)
        if (errno != EINTR) return false;
    if (!WIFSTOPPED(status)) return false;
    if (status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP) *pending = WSTOPSIG(status);
    return true;
}

static bool sleeps(pid_t pid, pid_t tid)
{
    char path[64];
    buf b;
    kn_stat st;
    err quiet = {0};
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)tid);
    buf_init(&b, 0);
    bool yes =
        mem__slurp(path, 4096, &b, &quiet) >= 0 && kn_parse_stat(buf_view(&b), &st, &quiet) >= 0 && st.state == 'S';
    buf_fini(&b);
    return yes;
}

int mem__inject_somewhere(mem_target *t, const mem__call *call, mem__called *out, err *e)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)t->pid);
    DIR *d = opendir(path);
    if (!d) return err_set(e, ERR_PROCESS_EXITED, "process %d has ended", (int)t->pid);
    int rc =
        err_set(e, ERR_BUSY, "no thread of process %d waits in the kernel in a way that can be borrowed", (int)t->pid);
    struct dirent *entry;
    while (rc < 0 && (entry = readdir(d)) != NULL) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        int pending;
        if (tid <= 0 || !sleeps(t->pid, tid) || !hold(tid, &pending)) continue;
        err quiet = {0};
        if (!pending && mem__carrier_rank(t, tid)) rc = mem__inject(t, tid, call, out, &quiet);
        ptrace(PTRACE_DETACH, tid, NULL, (void *)(uintptr_t)pending);
    }
    closedir(d);
    if (rc == 0 && e) *e = (err){0};
    return rc;
}
