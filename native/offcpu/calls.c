/* SPDX-License-Identifier: MIT */
/* calls.c: names of system calls: by number (x86-64), and by the function of the kernel that is their entry. */
#include <stdio.h>
#include <sys/syscall.h>

#include "offcpu/result.h"

#define CALLS(X)                                                                                                       \
    X(read)                                                                                                            \
    X(write)                                                                                                           \
    X(poll)                                                                                                            \
    X(select)                                                                                                          \
    X(pselect6)                                                                                                        \
    X(ppoll)                                                                                                           \
    X(readv)                                                                                                           \
    X(writev) X(pread64) X(pwrite64) X(preadv) X(pwritev) X(preadv2) X(pwritev2) X(futex) X(nanosleep)                 \
        X(clock_nanosleep) X(epoll_wait) X(epoll_pwait) X(epoll_pwait2) X(accept) X(accept4) X(connect) X(recvfrom)    \
            X(recvmsg) X(recvmmsg) X(sendto) X(sendmsg) X(sendmmsg) X(wait4) X(waitid) X(pause) X(rt_sigtimedwait)     \
                X(rt_sigsuspend) X(sched_yield) X(fsync) X(fdatasync) X(sync_file_range) X(msync) X(mmap) X(munmap)    \
                    X(mprotect) X(madvise) X(mremap) X(brk) X(open) X(openat) X(openat2) X(close) X(stat) X(fstat)     \
                        X(lstat) X(newfstatat) X(statx) X(access) X(faccessat) X(getdents64) X(flock) X(fcntl)         \
                            X(fallocate) X(ftruncate) X(rename) X(unlink) X(unlinkat) X(mkdir) X(ioctl) X(sendfile)    \
                                X(splice) X(copy_file_range) X(clone) X(clone3) X(fork) X(vfork) X(execve) X(exit)     \
                                    X(exit_group) X(kill) X(tgkill) X(rt_sigaction) X(rt_sigprocmask) X(rt_sigreturn)  \
                                        X(membarrier) X(io_uring_enter) X(io_getevents) X(io_submit) X(semop)          \
                                            X(semtimedop) X(msgrcv) X(msgsnd) X(mq_timedreceive) X(mq_timedsend)       \
                                                X(process_vm_readv) X(getrandom) X(sched_setaffinity) X(ptrace)        \
                                                    X(timerfd_settime) X(eventfd2) X(socket) X(shutdown)               \
                                                        X(restart_syscall) X(lseek) X(pipe2) X(dup3) X(setsockopt)     \
                                                            X(getsockopt) X(prctl)

static const struct {
    uint32_t nr;
    const char *name;
} calls[] = {
#define X(name) {SYS_##name, #name},
    CALLS(X)
#undef X
#ifdef SYS_futex_waitv
        {SYS_futex_waitv, "futex_waitv"},
#endif
};

slice oc_call_name(uint32_t nr, char text[24])
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].nr == nr) return slice_str(calls[i].name);
    int n = snprintf(text, 24, "syscall_%u", nr);
    return slice_of(text, n < 0 ? 0 : (size_t)n);
}

slice oc_call_of_function(slice name)
{
    static const char *const prefixes[] = {"__x64_sys_", "__ia32_sys_", "__se_sys_", "__do_sys_", "ksys_", "__sys_"};
    static const struct {
        const char *function, *call;
    } entries[] = {
        {"do_sys_poll", "poll"},
        {"do_epoll_wait", "epoll_wait"},
        {"do_futex", "futex"},
        {"do_sys_openat2", "openat"},
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        slice prefix = slice_str(prefixes[i]);
        if (!slice_starts(name, prefix)) continue;
        slice call = slice_of(name.p + prefix.n, name.n - prefix.n);
        const uint8_t *dot = memchr(call.p, '.', call.n); /* "….isra.0", "….constprop.0" */
        if (dot) call.n = (size_t)(dot - call.p);
        if (slice_starts(call, SLICE_LIT("new"))) call = slice_of(call.p + 3, call.n - 3);
        return call;
    }
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (slice_eq_str(name, entries[i].function)) return slice_str(entries[i].call);
    return (slice){0};
}
