/* SPDX-License-Identifier: MIT */
/* calls.c: names of system calls: by number (x86-64), and by the function of the kernel that is their entry. */
#include <stdio.h>
#include <sys/syscall.h>

#include "offcpu/result.h"

#define CALL(name)                                                                                                     \
    {                                                                                                                  \
        SYS_##name, #name                                                                                              \
    }
static const struct {
    uint32_t nr;
    const char *name;
} calls[] = {
    CALL(read),
    CALL(write),
    CALL(poll),
    CALL(select),
    CALL(pselect6),
    CALL(ppoll),
    CALL(readv),
    CALL(writev),
    CALL(pread64),
    CALL(pwrite64),
    CALL(preadv),
    CALL(pwritev),
    CALL(preadv2),
    CALL(pwritev2),
    CALL(futex),
    CALL(nanosleep),
    CALL(clock_nanosleep),
    CALL(epoll_wait),
    CALL(epoll_pwait),
    CALL(epoll_pwait2),
    CALL(accept),
    CALL(accept4),
    CALL(connect),
    CALL(recvfrom),
    CALL(recvmsg),
    CALL(recvmmsg),
    CALL(sendto),
    CALL(sendmsg),
    CALL(sendmmsg),
    CALL(wait4),
    CALL(waitid),
    CALL(pause),
    CALL(rt_sigtimedwait),
    CALL(rt_sigsuspend),
    CALL(sched_yield),
    CALL(fsync),
    CALL(fdatasync),
    CALL(sync_file_range),
    CALL(msync),
    CALL(mmap),
    CALL(munmap),
    CALL(mprotect),
    CALL(madvise),
    CALL(mremap),
    CALL(brk),
    CALL(open),
    CALL(openat),
    CALL(openat2),
    CALL(close),
    CALL(stat),
    CALL(fstat),
    CALL(lstat),
    CALL(newfstatat),
    CALL(statx),
    CALL(access),
    CALL(faccessat),
    CALL(getdents64),
    CALL(flock),
    CALL(fcntl),
    CALL(fallocate),
    CALL(ftruncate),
    CALL(rename),
    CALL(unlink),
    CALL(unlinkat),
    CALL(mkdir),
    CALL(ioctl),
    CALL(sendfile),
    CALL(splice),
    CALL(copy_file_range),
    CALL(clone),
    CALL(clone3),
    CALL(fork),
    CALL(vfork),
    CALL(execve),
    CALL(exit),
    CALL(exit_group),
    CALL(kill),
    CALL(tgkill),
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(rt_sigreturn),
    CALL(membarrier),
    CALL(io_uring_enter),
    CALL(io_getevents),
    CALL(io_submit),
    CALL(semop),
    CALL(semtimedop),
    CALL(msgrcv),
    CALL(msgsnd),
    CALL(mq_timedreceive),
    CALL(mq_timedsend),
    CALL(process_vm_readv),
    CALL(getrandom),
    CALL(sched_setaffinity),
    CALL(ptrace),
    CALL(timerfd_settime),
    CALL(eventfd2),
    CALL(socket),
    CALL(shutdown),
    CALL(restart_syscall),
    CALL(lseek),
    CALL(pipe2),
    CALL(dup3),
    CALL(setsockopt),
    CALL(getsockopt),
    CALL(prctl),
#ifdef SYS_futex_waitv
    CALL(futex_waitv),
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
