/* SPDX-License-Identifier: MIT */
/* child.c: child processes, watched by pidfd: no SIGCHLD handler, and nobody else's child is reaped. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop_internal.h"

extern char **environ;

struct loop_child {
    loop *l;
    pid_t pid;
    bool own_group;
    int pidfd;
    loop_fd *watch;
    loop_timer *deadline;
    loop_child_fn done;
    void *arg;
    loop_child *prev, *next;
};

/* ---- starting -----------------------------------------------------------------------------------------------------
 */

/* A copy above 2, so that no dup2 of ours overwrites a descriptor that a later one needs; the descriptor itself when it
 * is above 2 already. */
static int lift(int fd, int *copy)
{
    if (fd < 0 || fd > 2) return fd;
    *copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return *copy;
}

/* The child's descriptors: 0 to 2 as asked, nothing above. */
static int plan_descriptors(posix_spawn_file_actions_t *fa, const int from[3])
{
    int sys = 0;
    for (int i = 0; i < 3 && sys == 0; i++) {
        if (from[i] >= 0)
            sys = posix_spawn_file_actions_adddup2(fa, from[i], i);
        else if (i < 2)
            sys = posix_spawn_file_actions_addopen(fa, i, "/dev/null", i == 0 ? O_RDONLY : O_WRONLY, 0);
    }
    return sys ? sys : posix_spawn_file_actions_addclosefrom_np(fa, 3);
}

/* Signals in the child are as in a fresh process: nothing blocked, nothing ignored. */
static int plan_signals(posix_spawnattr_t *attr)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int sys = posix_spawnattr_setsigmask(attr, &none);
    if (!sys) sys = posix_spawnattr_setsigdefault(attr, &all);
    return sys ? sys : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int spawn_plain(const loop_child_cfg *cfg, const int from[3], pid_t *pid)
{
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_init(&fa);
    posix_spawnattr_init(&attr);
    int sys = plan_descriptors(&fa, from);
    if (!sys) sys = plan_signals(&attr);
    char *const *argv = (char *const *)cfg->argv, *const *envp = (char *const *)cfg->envp;
    if (!sys) sys = posix_spawn(pid, cfg->argv[0], &fa, &attr, argv, envp ? envp : environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&fa);
    return sys;
}

static int spawn(const loop_child_cfg *cfg, pid_t *pid)
{
    int copies[3] = {-1, -1, -1};
    const int wanted[3] = {cfg->stdin_fd, cfg->stdout_fd, cfg->stderr_fd};
    int from[3], sys = 0;
    for (int i = 0; i < 3 && sys == 0; i++) {
        from[i] = lift(wanted[i], &copies[i]);
        if (wanted[i] >= 0 && from[i] < 0) sys = errno;
    }
    if (!sys)
        sys = cfg->cwd || cfg->own_group || cfg->dies_with_us ? loop__fork_child(cfg, from, pid)
                                                              : spawn_plain(cfg, from, pid);
    for (int i = 0; i < 3; i++) {
        if (copies[i] >= 0) close(copies[i]);
    }
    return sys;
}

static err_kind kind_of(int sys)
{
    switch (sys) {
    case ENOENT: return ERR_NOT_FOUND;
    case EACCES:
    case EPERM: return ERR_PERMISSION_DENIED;
    case ENOMEM: return ERR_NO_MEMORY;
    default: return ERR_IO;
    }
}

/* ---- ending -------------------------------------------------------------------------------------------------------
 */

static void forget(loop_child *c)
{
    loop_fd_del(c->watch);
    c->watch = NULL;
    loop_timer_del(c->deadline);
    c->deadline = NULL;
    if (c->prev)
        c->prev->next = c->next;
    else if (c->l->children == c)
        c->l->children = c->next;
    if (c->next) c->next->prev = c->prev;
    if (c->pidfd >= 0) close(c->pidfd);
    c->pidfd = -1;
}

/* Reaps a child that has ended and tells its owner. */
static void finish(loop_child *c)
{
    siginfo_t si = {0};
    int rc;
    if (c->own_group) { /* while it is a zombie, its number is no other group's */
        if (waitid(P_PIDFD, (id_t)c->pidfd, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid != 0)
            kill(-c->pid, SIGKILL);
        si = (siginfo_t){0};
    }
    do
        rc = waitid(P_PIDFD, (id_t)c->pidfd, &si, WEXITED | WNOHANG);
    while (rc < 0 && errno == EINTR);
    if (rc == 0 && si.si_pid == 0) return; /* not yet */
    bool exited = rc == 0 && si.si_code == CLD_EXITED;
    int code = exited ? si.si_status : -1;
    int signo = rc == 0 && !exited ? si.si_status : 0; /* reaped by somebody else: neither is known */
    forget(c);
    if (c->done) c->done(c->arg, code, signo);
    free(c);
}

static void on_ended(void *arg, uint32_t events)
{
    (void)events;
    finish(arg);
}

static void on_deadline(void *arg)
{
    loop_child *c = arg;
    c->deadline = NULL; /* fired: gone */
    loop_child_kill(c, SIGKILL);
}

/* Attaches the loop to a child that runs. */
static int watch(loop_child *c, int64_t deadline_ns, err *e)
{
    c->pidfd = pidfd_open(c->pid, 0);
    if (c->pidfd < 0) return err_sys(e, ERR_IO, errno, "pidfd_open of child %d", (int)c->pid);
    int rc = loop_fd_add(c->l, c->pidfd, EPOLLIN, on_ended, c, &c->watch, e);
    if (rc < 0) return rc;
    if (deadline_ns == DEADLINE_NEVER) return 0;
    c->deadline = loop_timer_at(c->l, deadline_ns, on_deadline, c);
    return c->deadline ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for a child's deadline");
}

int loop_child_start(loop *l, const loop_child_cfg *cfg, loop_child_fn done, void *arg, loop_child **out, err *e)
{
    loop_child *c = mem_calloc(1, sizeof *c);
    if (!c) return err_set(e, ERR_NO_MEMORY, "no memory for a child process");
    *c = (loop_child){.l = l, .pidfd = -1, .own_group = cfg->own_group, .done = done, .arg = arg};
    int sys = spawn(cfg, &c->pid);
    if (sys) {
        free(c);
        return err_sys(e, kind_of(sys), sys, "start %s", cfg->argv[0]);
    }
    int rc = watch(c, cfg->deadline_ns, e);
    if (rc < 0) { /* our child, not yet waited for: its pid cannot be another's */
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        forget(c);
        free(c);
        return rc;
    }
    c->next = l->children;
    if (c->next) c->next->prev = c;
    l->children = c;
    if (out) *out = c;
    return 0;
}

void loop_child_kill(loop_child *c, int signo)
{
    if (!c || c->pidfd < 0) return;
    if (c->own_group)
        kill(-c->pid, signo); /* not reaped yet, so the number is still its own */
    else
        pidfd_send_signal(c->pidfd, signo, NULL, 0);
}

pid_t loop_child_pid(const loop_child *c) { return c->pid; }

void loop__kill_children(loop *l)
{
    while (l->children) {
        loop_child *c = l->children;
        loop_child_kill(c, SIGKILL); // NOLINT(clang-analyzer-unix.Malloc): finish() took the last one off the list
        struct pollfd pf = {.fd = c->pidfd, .events = POLLIN};
        poll(&pf, 1, -1);
        finish(c);
    }
}
