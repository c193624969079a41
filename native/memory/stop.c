/* SPDX-License-Identifier: MIT */
/* stop.c: the threads of a live target: listing, stopping, registers, letting go. PTRACE_SEIZE leaves no trace of its
 * own: no SIGSTOP is sent, and the kernel resumes what a tracer that died had stopped. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel/kernel.h"
#include "memory/memory_internal.h"

#define STOP_PASSES_MAX 100
#define STOP_LOOK_NS    5000000 /* how long to wait for a sign of a stop before looking anew */
#define LET_GO_LOOKS    100
#define LET_GO_LOOK_NS  1000000
#define TASK_TEXT_MAX   8192

/* ---- the table of threads, by tid ---- */

static size_t place_of(const mem_target *t, pid_t tid)
{
    size_t lo = 0, hi = t->n_tasks;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->tasks[mid].t.tid < tid)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

mem__task *mem__task_of(mem_target *t, pid_t tid)
{
    size_t i = place_of(t, tid);
    return i < t->n_tasks && t->tasks[i].t.tid == tid ? &t->tasks[i] : NULL;
}

/* The place for a thread, new or known. NULL: no memory, or too many. */
static mem__task *task_add(mem_target *t, pid_t tid)
{
    size_t i = place_of(t, tid);
    if (i < t->n_tasks && t->tasks[i].t.tid == tid) return &t->tasks[i];
    if (t->n_tasks == MEM_THREADS_MAX) return NULL;
    if (t->n_tasks == t->cap_tasks) {
        size_t cap = t->cap_tasks ? 2 * t->cap_tasks : 64;
        mem__task *p = mem_realloc(t->tasks, cap * sizeof *p);
        if (!p) return NULL;
        t->tasks = p;
        t->cap_tasks = cap;
    }
    memmove(&t->tasks[i + 1], &t->tasks[i], (t->n_tasks - i) * sizeof t->tasks[0]);
    t->n_tasks++;
    t->tasks[i] = (mem__task){.t = {.tid = tid, .ns_tid = tid}};
    return &t->tasks[i];
}

int mem__show_threads(mem_target *t, err *e)
{
    mem_thread *p = mem_realloc(t->threads, (t->n_tasks + 1) * sizeof *p);
    if (!p) return err_set(e, ERR_NO_MEMORY, "no memory for %zu threads", t->n_tasks);
    t->threads = p;
    for (size_t i = 0; i < t->n_tasks; i++)
        p[i] = t->tasks[i].t;
    return 0;
}

const mem_thread *mem_threads(const mem_target *t, size_t *n)
{
    *n = t->threads ? t->n_tasks : 0;
    return t->threads;
}

const mem_thread *mem_thread_of(const mem_target *t, pid_t ns_tid)
{
    for (size_t i = 0; t->threads && i < t->n_tasks; i++)
        if (t->threads[i].ns_tid == ns_tid) return &t->threads[i];
    return NULL;
}

/* ---- what /proc says of a thread ---- */

static bool task_file(const mem_target *t, pid_t tid, const char *name, buf *b)
{
    char path[96];
    err quiet = {0};
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)t->pid, (int)tid, name);
    buf_reset(b);
    return mem__slurp(path, TASK_TEXT_MAX, b, &quiet) >= 0 && b->n > 0;
}

static void describe(const mem_target *t, mem__task *k, buf *b)
{
    kn_stat st;
    err quiet = {0};
    if (task_file(t, k->t.tid, "stat", b) && kn_parse_stat(buf_view(b), &st, &quiet) >= 0) {
        snprintf(k->t.name, sizeof k->t.name, "%.15s", st.comm);
        k->t.state = st.state;
        k->t.cpu_ns = (st.utime + st.stime) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
    }
    uint64_t cpu;
    if (task_file(t, k->t.tid, "schedstat", b) && kn_parse_schedstat(buf_view(b), &cpu)) k->t.cpu_ns = cpu;
    kn_status status;
    if (t->other_namespace && task_file(t, k->t.tid, "status", b) && kn_parse_status(buf_view(b), &status, &quiet) >= 0)
        k->t.ns_tid = status.nspid;
}

/* Calls fn for each thread that is there. False: no such process. */
typedef int (*task_fn)(mem_target *t, pid_t tid, void *arg, err *e);
static int each_task(mem_target *t, task_fn fn, void *arg, err *e)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)t->pid);
    DIR *d = opendir(path);
    if (!d) return err_set(e, ERR_PROCESS_EXITED, "process %d has ended", (int)t->pid);
    int rc = 0;
    struct dirent *entry;
    while (rc >= 0 && (entry = readdir(d)) != NULL) {
        long tid = strtol(entry->d_name, NULL, 10);
        if (tid > 0) rc = fn(t, (pid_t)tid, arg, e);
    }
    closedir(d);
    return rc;
}

static int list_one(mem_target *t, pid_t tid, void *arg, err *e)
{
    (void)arg;
    if (task_add(t, tid)) return 0;
    return t->n_tasks == MEM_THREADS_MAX
               ? err_set(e, ERR_LIMIT, "process %d has over %u threads", (int)t->pid, MEM_THREADS_MAX)
               : err_set(e, ERR_NO_MEMORY, "no memory for threads");
}

int mem__list_tasks(mem_target *t, err *e)
{
    t->n_tasks = 0;
    int rc = each_task(t, list_one, NULL, e);
    buf b;
    buf_init(&b, 0);
    for (size_t i = 0; rc >= 0 && i < t->n_tasks; i++)
        describe(t, &t->tasks[i], &b);
    buf_fini(&b);
    return rc;
}

int mem_list_threads(mem_target *t, err *e)
{
    if (!t->live || t->stopped) return 0;
    int rc = mem__list_tasks(t, e);
    return rc < 0 ? rc : mem__show_threads(t, e);
}

/* ---- stopping ---- */

typedef struct pass {
    size_t added, refused;
    pid_t refused_tid;
    int refused_errno;
} pass;

static bool is_dead(const mem_target *t, pid_t tid)
{
    buf b;
    kn_stat st;
    err quiet = {0};
    buf_init(&b, 0);
    bool dead = !task_file(t, tid, "stat", &b) || kn_parse_stat(buf_view(&b), &st, &quiet) < 0 || st.state == 'Z' ||
                st.state == 'X';
    buf_fini(&b);
    return dead;
}

static int seize_one(mem_target *t, pid_t tid, void *arg, err *e)
{
    pass *p = arg;
    mem__task *k = mem__task_of(t, tid);
    if (k && k->seized) return 0;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) {
        int sys = errno;
        if (sys == ESRCH || is_dead(t, tid)) return 0;
        p->refused++;
        p->refused_tid = tid;
        p->refused_errno = sys;
        return 0;
    }
    k = task_add(t, tid);
    if (!k) {
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
        return err_set(e, ERR_LIMIT, "process %d has too many threads to be stopped", (int)t->pid);
    }
    if (!t->stop_began) t->stop_began = mono_ns();
    k->seized = true;
    k->t.stopped = false;
    k->pending = 0;
    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL); /* ESRCH: it ends */
    p->added++;
    return 0;
}

/* What a wait has told of a thread. */
static void note_stop(mem__task *k, int status)
{
    if (!WIFSTOPPED(status)) { /* it has ended */
        k->seized = k->t.stopped = false;
        return;
    }
    k->t.stopped = true;
    /* Another signal came first: it is in our hands, and must go on when we let go. */
    if (status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP) k->pending = WSTOPSIG(status);
}

/* Waits until the thread stands, or has ended. SIGCHLD is blocked here, so that its coming can be waited for. */
static void await_stop(mem__task *k, int64_t deadline_ns)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    while (k->seized && !k->t.stopped) {
        int status = 0;
        pid_t got = waitpid(k->t.tid, &status, __WALL | WNOHANG);
        if (got == k->t.tid)
            note_stop(k, status);
        else if (got < 0 && errno != EINTR)
            k->seized = false;
        else {
            if (mono_ns() >= deadline_ns) return;
            struct timespec look = {.tv_nsec = STOP_LOOK_NS};
            sigtimedwait(&child, NULL, &look);
        }
    }
}

/* The first thread is the last one: that of a process which is killed meanwhile ends when all others have. */
static void await_stops(mem_target *t, int64_t deadline_ns)
{
    mem__task *first = NULL;
    for (size_t i = 0; i < t->n_tasks; i++) {
        if (t->tasks[i].t.tid == t->pid)
            first = &t->tasks[i];
        else
            await_stop(&t->tasks[i], deadline_ns);
    }
    if (first) await_stop(first, deadline_ns);
}

static int refused(const mem_target *t, const pass *p, err *e)
{
    kn_status status;
    kn_host host;
    err quiet = {0};
    bool known = kn_status_of("", t->pid, &status, &quiet) >= 0;
    if (known && status.tracer_pid > 0 && status.tracer_pid != getpid()) {
        int rc = err_set(e, ERR_PERMISSION_DENIED, "process %d is traced by process %d already", (int)t->pid,
                         status.tracer_pid);
        err_hint(e, "end that debugger, profiler or other worker, or ask again when it is done");
        return rc;
    }
    int rc = err_sys(e, ERR_PERMISSION_DENIED, p->refused_errno, "thread %d of process %d cannot be attached",
                     (int)p->refused_tid, (int)t->pid);
    kn_host_of("", NULL, &host);
    if (host.ptrace_scope.known && host.ptrace_scope.v > 0)
        err_hint(e, "kernel.yama.ptrace_scope is %d: it needs CAP_SYS_PTRACE (container: cap_add: [SYS_PTRACE])",
                 (int)host.ptrace_scope.v);
    else
        err_hint(
            e, "run lunette as the target's user, or with CAP_SYS_PTRACE (container: cap_add: [SYS_PTRACE]); a seccomp "
               "profile may forbid ptrace too");
    return rc;
}

static int stop_all(mem_target *t, int64_t deadline_ns, err *e)
{
    for (int i = 0; i < STOP_PASSES_MAX; i++) {
        pass p = {0};
        int rc = each_task(t, seize_one, &p, e);
        if (rc < 0) return rc;
        await_stops(t, deadline_ns);
        if (p.refused > 0) return refused(t, &p, e);
        if (p.added == 0) return 0;
        if (mono_ns() >= deadline_ns) break;
    }
    mem__note(t, "the threads of process %d could not all be stopped in time", (int)t->pid);
    return 0;
}

static void drop_ended(mem_target *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->n_tasks; i++)
        if (t->tasks[i].seized) t->tasks[kept++] = t->tasks[i];
    t->n_tasks = kept;
}

static int count_stopped(mem_target *t, err *e)
{
    size_t standing = 0;
    buf b;
    buf_init(&b, 0);
    for (size_t i = 0; i < t->n_tasks; i++) {
        standing += t->tasks[i].t.stopped;
        if (!t->tasks[i].t.state) describe(t, &t->tasks[i], &b); /* it began after we had listed them */
    }
    buf_fini(&b);
    if (standing == t->n_tasks && standing > 0) return 0;
    if (t->n_tasks == 0) return err_set(e, ERR_PROCESS_EXITED, "process %d has ended", (int)t->pid);
    if (standing == 0 && mem_gone(t)) return err_set(e, ERR_PROCESS_EXITED, "process %d has ended", (int)t->pid);
    if (standing == 0) return err_set(e, ERR_TIMEOUT, "no thread of process %d stopped in time", (int)t->pid);
    mem__note(t, "%zu of %zu threads sleep where they cannot be stopped (state D): their registers are not known",
              t->n_tasks - standing, t->n_tasks);
    return 0;
}

int mem_stop(mem_target *t, int64_t deadline_ns, err *e)
{
    if (!t->live || t->stopped) return 0;
    if (mem_gone(t)) return err_set(e, ERR_PROCESS_EXITED, "process %d has ended", (int)t->pid);
    sigset_t child, before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &child, &before);
    int rc = mem__list_tasks(t, e);
    if (rc >= 0) {
        t->stopped = true; /* from now on there may be something to resume */
        rc = stop_all(t, deadline_ns, e);
        drop_ended(t);
    }
    if (rc >= 0) rc = count_stopped(t, e);
    if (rc >= 0) rc = mem__read_maps(t, e);
    if (rc >= 0) rc = mem__show_threads(t, e);
    if (rc < 0) mem_resume(t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* ---- letting go ---- */

/* A thread that was killed while we held it is a zombie of ours, and holds up its process's end until we take note. */
static void reap(pid_t tid)
{
    for (int i = 0; i < LET_GO_LOOKS; i++) {
        int status;
        pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if (got == tid && !WIFSTOPPED(status)) return;
        if (got < 0 && errno != EINTR) return;
        nanosleep(&(struct timespec){.tv_nsec = LET_GO_LOOK_NS}, NULL);
    }
}

/* A thread that did not stop in time cannot be let go before it does: the kernel asks for that. It is given its stop
 * and then left. */
static void detach(mem__task *k)
{
    if (!k->t.stopped) {
        int status = 0;
        for (int i = 0; i < LET_GO_LOOKS && !k->t.stopped && k->seized; i++) {
            pid_t got = waitpid(k->t.tid, &status, __WALL | WNOHANG);
            if (got == k->t.tid)
                note_stop(k, status);
            else if (got < 0 && errno != EINTR)
                k->seized = false;
            else
                nanosleep(&(struct timespec){.tv_nsec = LET_GO_LOOK_NS}, NULL);
        }
    }
    if (k->seized && ptrace(PTRACE_DETACH, k->t.tid, NULL, (void *)(uintptr_t)k->pending) != 0) reap(k->t.tid);
    k->seized = k->t.stopped = false;
    k->pending = 0;
}

void mem_resume(mem_target *t)
{
    if (!t->live || !t->stopped) return;
    for (size_t i = 0; i < t->n_tasks; i++) /* those that stand first: they wait for nobody */
        if (t->tasks[i].seized && t->tasks[i].t.stopped) detach(&t->tasks[i]);
    for (size_t i = 0; i < t->n_tasks; i++)
        if (t->tasks[i].seized) detach(&t->tasks[i]);
    if (t->stop_began) t->stop_ns += mono_ns() - t->stop_began;
    t->stop_began = 0;
    t->stopped = false;
    for (size_t i = 0; t->threads && i < t->n_tasks; i++)
        t->threads[i].stopped = false;
}

/* ---- registers ---- */

int mem_registers_of(mem_target *t, pid_t tid, mem_registers *out, err *e)
{
    *out = (mem_registers){0};
    if (t->image) return mem__saved_registers(t, tid, out, e);
    mem__task *k = mem__task_of(t, tid);
    if (!k || !k->t.stopped)
        return err_set(e, ERR_NOT_FOUND, "thread %d %s", (int)tid, k ? "does not stand still" : "is not there");
    if (!t->live) {
        memcpy(&out->general, t->map + k->regs, sizeof out->general);
        out->has_floating = k->fpregs != 0;
        if (k->fpregs) memcpy(&out->floating, t->map + k->fpregs, sizeof out->floating);
        return 0;
    }
    struct iovec general = {&out->general, sizeof out->general}, floating = {&out->floating, sizeof out->floating};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)NT_PRSTATUS, &general) != 0)
        return err_sys(e, errno == ESRCH ? ERR_NOT_FOUND : ERR_IO, errno, "cannot read the registers of thread %d",
                       (int)tid);
    out->has_floating = ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)NT_PRFPREG, &floating) == 0;
    return 0;
}
