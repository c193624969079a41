/* SPDX-License-Identifier: MIT */
/* signal.c: signals as events, by signalfd. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "loop/loop_internal.h"

static void on_signal(void *arg, uint32_t events)
{
    (void)events;
    loop *l = arg;
    struct signalfd_siginfo si;
    while (l->signal_fd >= 0 && read(l->signal_fd, &si, sizeof si) == (ssize_t)sizeof si) {
        int signo = (int)si.ssi_signo;
        l->signal_by_kernel = si.ssi_code == SI_KERNEL;
        if (signo > 0 && signo < LOOP_SIGNALS && l->signal_fn[signo]) l->signal_fn[signo](l->signal_arg[signo], signo);
    }
}

int loop_signal(loop *l, int signo, void (*fn)(void *arg, int signo), void *arg, err *e)
{
    BUG_IF(signo <= 0 || signo >= LOOP_SIGNALS || !fn, e);
    sigset_t wanted = l->signals, one;
    sigaddset(&wanted, signo);
    int fd = signalfd(l->signal_fd, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) return err_sys(e, ERR_IO, errno, "signalfd for signal %d", signo);
    l->signal_fd = fd;
    if (!l->signal_watch) {
        int rc = loop_fd_add(l, fd, EPOLLIN, on_signal, l, &l->signal_watch, e);
        if (rc < 0) {
            close(fd);
            l->signal_fd = -1;
            return rc;
        }
    }
    sigset_t before;
    sigemptyset(&one);
    sigaddset(&one, signo);
    pthread_sigmask(SIG_BLOCK, &one, &before);
    if (!sigismember(&before, signo)) sigaddset(&l->signals, signo);
    l->signal_fn[signo] = fn;
    l->signal_arg[signo] = arg;
    return 0;
}

bool loop_signal_by_kernel(const loop *l) { return l->signal_by_kernel; }

void loop__free_signals(loop *l)
{
    if (l->signal_fd < 0) return;
    struct signalfd_siginfo si;
    while (read(l->signal_fd, &si, sizeof si) == (ssize_t)sizeof si) /* a second SIGTERM must not undo a clean end */
        ;
    loop_fd_del(l->signal_watch);
    l->signal_watch = NULL;
    close(l->signal_fd);
    l->signal_fd = -1;
    pthread_sigmask(SIG_UNBLOCK, &l->signals, NULL);
}
