/* SPDX-License-Identifier: MIT */
/* fork.c: starts a child with what posix_spawn has no word for: a working folder, a process group, and death together
 * with us. Between fork and exec only async-signal-safe calls are made: other threads of ours may hold any lock. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/loop_internal.h"

extern char **environ;

static bool set_descriptors(const int from[3])
{
    for (int i = 0; i < 3; i++) {
        int fd = from[i];
        if (fd < 0 && i == 2) continue; /* inherited */
        if (fd < 0) fd = open("/dev/null", i == 0 ? O_RDONLY : O_WRONLY);
        if (fd < 0 || dup2(fd, i) < 0) return false; /* a copy, without close-on-exec */
    }
    (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); /* an older kernel: ours are all close-on-exec anyway */
    return true;
}

static void set_signals(void)
{
    sigset_t none;
    for (int s = 1; s < NSIG; s++)
        (void)signal(s, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child. Does not return; tells through `tell` why it could not start the program. */
static void become(const loop_child_cfg *cfg, const int from[3], pid_t parent, int tell)
{
    bool ready = !cfg->own_group || setpgid(0, 0) == 0;
    if (ready && cfg->dies_with_us) ready = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    if (ready && cfg->dies_with_us && getppid() != parent) _exit(127); /* it died before we could ask */
    if (ready && cfg->cwd) ready = chdir(cfg->cwd) == 0;
    if (ready && set_descriptors(from)) {
        set_signals();
        (void)execve(cfg->argv[0], (char *const *)cfg->argv, cfg->envp ? (char *const *)cfg->envp : environ);
    }
    int sys = errno;
    _exit(write(tell, &sys, sizeof sys) < 0 ? 126 : 127);
}

int loop__fork_child(const loop_child_cfg *cfg, const int from[3], pid_t *pid)
{
    int tell[2];
    if (pipe2(tell, O_CLOEXEC) < 0) return errno;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of ours runs in the child */
    pid_t parent = getpid();
    *pid = fork();
    if (*pid == 0) become(cfg, from, parent, tell[1]);
    int sys = *pid < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)close(tell[1]);
    ssize_t n = 0;
    int why = 0;
    if (sys == 0) {
        do
            n = read(tell[0], &why, sizeof why); /* ends with the exec */
        while (n < 0 && errno == EINTR);
    }
    (void)close(tell[0]);
    if (n != (ssize_t)sizeof why) return sys;
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return why;
}
