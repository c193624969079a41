/* SPDX-License-Identifier: MIT */
/* fork.c: the image of a target: made, read, ended. */
#include "memory/fork.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/kernel.h"
#include "memory/fork_own.h"

#define CARRIERS_MAX 8 /* threads that are asked */

/* ---- whether it can be done ---- */

static int refuse(mem_target *t, const char *why, err *e)
{
    int rc = err_set(e, ERR_NOT_SUPPORTED, "process %d %s: it is not forked", (int)t->pid, why);
    err_hint(e, "Use freeze=\"copy\", which makes the target execute nothing.");
    return rc;
}

static bool has_shadow_stack(pid_t pid)
{
    char path[64];
    buf b;
    err quiet = {0};
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    buf_init(&b, 0);
    bool yes = mem__slurp(path, 65536, &b, &quiet) >= 0 && memmem(b.p, b.n, "features:\tshstk", 15) != NULL;
    buf_fini(&b);
    return yes;
}

static int check_process(mem_target *t, err *e)
{
    kn_status s;
    int rc = kn_status_of("", t->pid, &s, e);
    if (rc < 0) return rc;
    if (s.tracer_pid > 0) {
        rc = err_set(e, ERR_PERMISSION_DENIED, "process %d is traced by process %d already", (int)t->pid, s.tracer_pid);
        err_hint(e, "end that debugger, profiler or other worker, or ask again when it is done");
        return rc;
    }
    if (s.seccomp.known && s.seccomp.v != 0)
        return refuse(t, "runs under a seccomp filter, which may kill it for a clone", e);
    if (s.state == 'T' || s.state == 't') return refuse(t, "is stopped", e);
    if (has_shadow_stack(t->pid)) return refuse(t, "uses a shadow stack", e);
    return 0;
}

int mem_fork_prepare(mem_target *t, err *e)
{
    if (!t->live) return err_set(e, ERR_NOT_SUPPORTED, "a dump cannot be forked");
    if (t->fork) return 0;
    t->fork = mem_calloc(1, sizeof *t->fork);
    if (!t->fork) return err_set(e, ERR_NO_MEMORY, "no memory for a fork");
    t->fork->mem_fd = t->fork->guard_fd = -1;
    int rc = check_process(t, e);
    if (rc >= 0) rc = mem__fork_code(t, e);
    if (rc >= 0) rc = mem__fork_memory(t, e);
    if (rc >= 0) rc = mem__guard_start(t, e);
    if (rc < 0) mem__fork_free(t);
    return rc;
}

const mem_fork_memory *mem_fork_memory_of(const mem_target *t) { return t->fork ? &t->fork->memory : NULL; }
bool mem_forked(const mem_target *t) { return t->image != 0; }
int64_t mem_fork_ns(const mem_target *t) { return t->fork ? t->fork->ns : 0; }

/* ---- registers ---- */

static int save_registers(mem_target *t, err *e)
{
    mem__fork *f = t->fork;
    mem__saved *p = mem_realloc(f->saved, (t->n_tasks + 1) * sizeof *p);
    if (!p) return err_set(e, ERR_NO_MEMORY, "no memory for the registers of %zu threads", t->n_tasks);
    f->saved = p;
    f->n_saved = 0;
    for (size_t i = 0; i < t->n_tasks; i++) {
        err quiet = {0};
        p[f->n_saved].tid = t->tasks[i].t.tid;
        if (t->tasks[i].t.stopped && mem_registers_of(t, t->tasks[i].t.tid, &p[f->n_saved].r, &quiet) == 0)
            f->n_saved++;
    }
    return 0;
}

int mem__saved_registers(const mem_target *t, pid_t tid, mem_registers *out, err *e)
{
    const mem__fork *f = t->fork;
    size_t lo = 0, hi = f->n_saved;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (f->saved[mid].tid < tid)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == f->n_saved || f->saved[lo].tid != tid)
        return err_set(e, ERR_NOT_FOUND, "thread %d was not there, or did not stand", (int)tid);
    *out = f->saved[lo].r;
    return 0;
}

/* ---- the child ---- */

/* It is born standing. From here on it dies with us. */
static bool adopt(pid_t child)
{
    int status = 0;
    bool held = ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(long)PTRACE_O_EXITKILL) == 0;
    while (waitpid(child, &status, __WALL) < 0)
        if (errno != EINTR) return false;
    if (!WIFSTOPPED(status)) return false;
    return held || ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(long)PTRACE_O_EXITKILL) == 0;
}

/* Its death, seen by us: only then can its parent take note. */
static void end_child(pid_t child)
{
    int status = 0;
    kill(child, SIGKILL);
    for (;;) {
        pid_t got = waitpid(child, &status, __WALL);
        if (got < 0 && errno != EINTR) return;
        if (got == child && !WIFSTOPPED(status)) return;
    }
}

static bool clone_by(mem_target *t, pid_t tid, err *e)
{
    mem__fork *f = t->fork;
    mem__called got;
    /* CLONE_FILES: a socket that the target closes is closed, though its image lives. No signal tells of its end. */
    const mem__call call = {.number = SYS_clone, .a = {CLONE_FILES}, .forks = true};
    int64_t begin = mono_ns();
    int rc = mem__inject(t, tid, &call, &got, e);
    f->ns = mono_ns() - begin;
    if (got.child) {
        f->child = got.child;
        f->ns_child = (pid_t)got.result;
        mem__guard_tell(f, f->child);
        mem__moment_is(MEM_AT_BACK);
        if (rc == 0 && adopt(f->child)) return true;
        end_child(f->child);
        f->lost = true;
        if (rc == 0) err_set(e, ERR_IO, "the image of process %d was not to be held", (int)t->pid);
        return false;
    }
    if (rc == 0) err_sys(e, ERR_BUSY, (int)-got.result, "process %d could not fork", (int)t->pid);
    return false;
}

int mem_fork(mem_target *t, err *e)
{
    mem__fork *f = t->fork;
    if (!f || !t->stopped) return err_set(e, ERR_INTERNAL, "mem_fork: not prepared, or the target runs");
    int rc = save_registers(t, e), asked = 0;
    if (rc < 0) return rc;
    err last = {0};
    for (int want = 2; want >= 1 && !t->image; want--)
        for (size_t i = 0; i < t->n_tasks && asked < CARRIERS_MAX && !t->image && !f->child; i++) {
            const mem__task *k = &t->tasks[i];
            if (!k->t.stopped || k->pending || mem__carrier_rank(t, k->t.tid) != want) continue;
            asked++;
            last = (err){0};
            if (!clone_by(t, k->t.tid, &last)) continue;
            char path[64];
            snprintf(path, sizeof path, "/proc/%d/mem", (int)f->child);
            f->mem_fd = t->image_fd = open(path, O_RDONLY | O_CLOEXEC);
            t->image = f->child;
            mem__moment_is(MEM_AT_IMAGE);
        }
    if (t->image) return 0;
    if (asked) {
        if (e) *e = last;
        return -(int)last.kind;
    }
    return err_set(e, ERR_BUSY, "no thread of process %d waits in the kernel in a way that can be borrowed",
                   (int)t->pid);
}

int mem_fork_check(mem_target *t, err *e)
{
    mem__fork *f = t->fork;
    if (!f || !f->child) return err_set(e, ERR_INTERNAL, "mem_fork_check: there is no image");
    int status = 0;
    if (!f->lost && waitpid(f->child, &status, __WALL | WNOHANG) == f->child && !WIFSTOPPED(status)) f->lost = true;
    if (!f->lost) return 0;
    if (mem_gone(t)) return err_set(e, ERR_PROCESS_EXITED, "process %d has ended", (int)t->pid);
    int rc = err_set(
        e, ERR_LIMIT, "the image of process %d was given up: %llu MB are left to the process, and %llu MB must be",
        (int)t->pid, (unsigned long long)(mem__memory_left(f) >> 20), (unsigned long long)(f->memory.floor >> 20));
    err_hint(e, "What the process wrote since the fork took that memory. Use freeze=\"copy\", or source=\"gcdump\".");
    return rc;
}

void mem_fork_drop(mem_target *t)
{
    mem__fork *f = t->fork;
    if (!f || !f->child) return;
    t->image = 0;
    t->image_fd = -1;
    if (f->mem_fd >= 0) close(f->mem_fd);
    f->mem_fd = -1;
    if (!f->lost) end_child(f->child);
    mem__moment_is(MEM_AT_DEATH);
    if (!mem__reap(t))
        mem__note(t,
                  "The image of process %d is dead, but the process could not be made to take note: a zombie stays "
                  "until it ends.",
                  (int)t->pid);
    f->child = f->ns_child = 0;
    f->lost = false;
}

void mem__fork_free(mem_target *t)
{
    if (!t->fork) return;
    mem_fork_drop(t);
    mem__guard_tell(t->fork, 0);
    free(t->fork->saved);
    free(t->fork);
    t->fork = NULL;
}
