/* SPDX-License-Identifier: MIT */
/* live.c: the memory of a process that runs, or that we have stopped. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kernel/kernel.h"
#include "memory/memory_internal.h"

#define MAPS_TEXT_MAX ((size_t)256 << 20)
#define PIECES_A_CALL 256

/* ---- opening ---- */

static int start_time(pid_t pid, uint64_t *ticks, err *e)
{
    kn_stat st;
    int rc = kn_stat_of("", pid, &st, e);
    if (rc < 0) return rc;
    if (st.state == 'Z' || st.state == 'X') return err_set(e, ERR_PROCESS_EXITED, "process %d has ended", (int)pid);
    *ticks = st.start_time;
    return 0;
}

static int denied(mem_target *t, int sys, err *e)
{
    int rc = err_sys(e, ERR_PERMISSION_DENIED, sys, "the memory of process %d cannot be read", (int)t->pid);
    kn_host host;
    kn_status status;
    err quiet = {0};
    kn_host_of("", NULL, &host);
    bool known = kn_status_of("", t->pid, &status, &quiet) >= 0;
    if (host.ptrace_scope.known && host.ptrace_scope.v >= 3)
        err_hint(e, "kernel.yama.ptrace_scope is 3: nobody may attach; set it to 0 or 1 and start the machine anew");
    else if (known && status.euid != host.uid)
        err_hint(e, "the process belongs to user %u, we are user %u: run lunette as that user, or with CAP_SYS_PTRACE",
                 status.euid, host.uid);
    else if (host.ptrace_scope.known && host.ptrace_scope.v >= 1)
        err_hint(e,
                 "kernel.yama.ptrace_scope is %d: run lunette with CAP_SYS_PTRACE (container: cap_add: [SYS_PTRACE]), "
                 "or `sysctl kernel.yama.ptrace_scope=0`",
                 (int)host.ptrace_scope.v);
    else
        err_hint(e,
                 "it needs CAP_SYS_PTRACE: in a container add `securityContext: {capabilities: {add: [SYS_PTRACE]}}`");
    return rc;
}

static int open_mem(mem_target *t, err *e)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)t->pid);
    t->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (t->mem_fd >= 0) return 0;
    if (errno == EACCES || errno == EPERM) return denied(t, errno, e);
    if (errno == ENOENT || errno == ESRCH)
        return err_set(e, ERR_PROCESS_NOT_FOUND, "there is no process %d", (int)t->pid);
    return err_sys(e, ERR_IO, errno, "cannot open %s", path);
}

int mem_open_live(pid_t pid, uint64_t start_ticks, mem_target **out, err *e)
{
    uint64_t ticks = 0;
    int rc = 0;
    mem_target *t = mem__new(e);
    if (!t) return -ERR_NO_MEMORY;
    t->live = true;
    t->pid = pid;
    snprintf(t->name, sizeof t->name, "process %d", (int)pid);
    t->pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
    if (t->pidfd < 0) {
        rc = err_set(e, ERR_PROCESS_NOT_FOUND, "there is no process %d", (int)pid);
        goto out;
    }
    rc = start_time(pid, &ticks, e);
    if (rc >= 0 && start_ticks && ticks != start_ticks)
        rc = err_set(e, ERR_PROCESS_EXITED, "process %d has ended; another one has its number now", (int)pid);
    t->start_ticks = ticks;
    if (rc >= 0) rc = open_mem(t, e);
    kn_status status;
    err quiet = {0};
    if (rc >= 0 && kn_status_of("", pid, &status, &quiet) >= 0) t->other_namespace = status.n_nspid > 1;
    if (rc >= 0) rc = mem__read_maps(t, e);
    if (rc < 0) goto out;
    *out = t;
    t = NULL;
out:
    mem_close(t);
    return rc;
}

void mem__live_close(mem_target *t)
{
    if (t->pidfd >= 0) close(t->pidfd);
    if (t->mem_fd >= 0) close(t->mem_fd);
    t->pidfd = t->mem_fd = -1;
}

static bool has_no_memory(pid_t pid)
{
    char path[64], byte;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT || errno == ESRCH;
    ssize_t n = read(fd, &byte, 1);
    bool none = n == 0 || (n < 0 && errno == ESRCH);
    close(fd);
    return none;
}

bool mem_gone(const mem_target *t)
{
    if (!t->live) return false;
    struct pollfd p = {.fd = t->pidfd, .events = POLLIN};
    if (poll(&p, 1, 0) > 0) return true;
    if (t->n_maps == 0) return has_no_memory(t->pid);
    /* A program that replaced itself (execve) has other memory than the descriptor's: that reads as ended. */
    uint8_t byte;
    return pread(t->mem_fd, &byte, 1, (off_t)t->maps[0].start) == 0;
}

bool mem_going(const mem_target *t) { return mem_gone(t) || (t->live && has_no_memory(t->pid)); }

int mem__read_maps(mem_target *t, err *e)
{
    char path[64];
    buf text;
    buf_init(&text, MAPS_TEXT_MAX);
    snprintf(path, sizeof path, "/proc/%d/maps", (int)t->pid);
    arena a = {0};
    mem_mapping *maps = NULL;
    size_t n = 0;
    int rc = mem__slurp(path, MAPS_TEXT_MAX - 65536, &text, e);
    if (rc >= 0) rc = mem__parse_maps(buf_view(&text), &a, &maps, &n, e);
    buf_fini(&text);
    if (rc >= 0 && n == 0) rc = err_set(e, ERR_PROCESS_EXITED, "process %d has no memory: it has ended", (int)t->pid);
    if (rc < 0) {
        if (e && e->kind == ERR_NOT_FOUND) e->kind = ERR_PROCESS_EXITED;
        arena_free(&a);
        return rc == -ERR_NOT_FOUND ? -ERR_PROCESS_EXITED : rc;
    }
    arena_free(&t->maps_arena);
    t->maps_arena = a;
    t->maps = maps;
    t->n_maps = n;
    t->modules_read = false;
    return 0;
}

int mem_refresh(mem_target *t, err *e) { return t->live ? mem__read_maps(t, e) : 0; }

/* ---- reading ---- */

static size_t by_file(mem_target *t, uint64_t address, uint8_t *to, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(t->image ? t->image_fd : t->mem_fd, to + done, n - done, (off_t)(address + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}

size_t mem__live_read(mem_target *t, uint64_t address, void *to, size_t n)
{
    size_t done = 0;
    while (done < n && !t->no_readv) {
        struct iovec local = {(uint8_t *)to + done, n - done};
        struct iovec remote = {(void *)(uintptr_t)(address + done), n - done};
        ssize_t got = process_vm_readv(t->image ? t->image : t->pid, &local, 1, &remote, 1, 0);
        if (got < 0 && (errno == EPERM || errno == ENOSYS)) t->no_readv = true;
        if (got <= 0) break;
        done += (size_t)got;
    }
    if (done < n && t->no_readv) done += by_file(t, address + done, (uint8_t *)to + done, n - done);
    return done;
}

/* Up to PIECES_A_CALL in one call; what that leaves short is asked for one by one. */
static void read_some(mem_target *t, mem_piece *p, size_t n)
{
    struct iovec local[PIECES_A_CALL], remote[PIECES_A_CALL];
    size_t whole = 0;
    for (size_t i = 0; i < n; i++) {
        local[i] = (struct iovec){p[i].to, p[i].n};
        remote[i] = (struct iovec){(void *)(uintptr_t)p[i].address, p[i].n};
    }
    ssize_t got = t->no_readv ? -1 : process_vm_readv(t->image ? t->image : t->pid, local, n, remote, n, 0);
    size_t left = got > 0 ? (size_t)got : 0;
    for (; whole < n && left >= p[whole].n; whole++) {
        p[whole].got = p[whole].n;
        left -= p[whole].n;
    }
    for (size_t i = whole; i < n; i++)
        p[i].got = mem_read(t, p[i].address, p[i].to, p[i].n);
}

void mem_read_pieces(mem_target *t, mem_piece *pieces, size_t n)
{
    if (!t->live) {
        for (size_t i = 0; i < n; i++)
            pieces[i].got = mem_read(t, pieces[i].address, pieces[i].to, pieces[i].n);
        return;
    }
    for (size_t at = 0; at < n; at += PIECES_A_CALL)
        read_some(t, pieces + at, n - at < PIECES_A_CALL ? n - at : PIECES_A_CALL);
}
