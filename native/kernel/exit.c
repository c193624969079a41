/* SPDX-License-Identifier: MIT */
/* exit.c: how a process that is not our child ended. A pidfd keeps the right process for good, whoever gets its id
 * next; what it tells of the exit depends on the kernel: uapi/linux/pidfd.h (PIDFD_GET_INFO, exit status since 6.15),
 * and man proc(5), field 52 of stat, while the process is a zombie. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/kn_internal.h"

/* struct pidfd_info of the kernel, as of its first version with an exit status. */
typedef struct pidfd_info_v0 {
    uint64_t mask, cgroup_id;
    uint32_t pid, tgid, ppid, id[8];
    int32_t exit_code;
} pidfd_info_v0;
static_assert(sizeof(pidfd_info_v0) == 64, "PIDFD_INFO_SIZE_VER0");
#define INFO_EXIT UINT64_C(8)                    /* PIDFD_INFO_EXIT */
#define GET_INFO  _IOWR(0xFF, 11, pidfd_info_v0) /* PIDFD_GET_INFO */

int kn_watch_open(int pid, err *e)
{
    int fd = pidfd_open(pid, 0);
    if (fd >= 0) return fd;
    int sys = errno;
    err_kind kind = sys == ESRCH ? ERR_PROCESS_NOT_FOUND : sys == ENOSYS ? ERR_NOT_SUPPORTED : ERR_IO;
    return err_sys(e, kind, sys, "process %d cannot be watched", pid);
}

int kn_signal(int pid, uint64_t start_time, int signo, err *e)
{
    kn_stat s;
    int fd = pidfd_open(pid, 0), sys = errno, rc = 0;
    if (fd < 0 && (sys == ESRCH || sys == EINVAL)) return 0;
    if (fd < 0)
        return err_sys(e, sys == ENOSYS ? ERR_NOT_SUPPORTED : ERR_IO, sys, "process %d cannot be held to signal it",
                       pid);
    /* The descriptor holds one process: what its id has now is that one, while it lives. */
    if (kn_stat_of("", pid, &s, NULL) >= 0 && s.start_time == start_time) {
        rc = pidfd_send_signal(fd, signo, NULL, 0) == 0 ? 1 : 0;
        sys = errno;
        if (rc == 0 && sys != ESRCH)
            rc = err_sys(e, sys == EPERM ? ERR_PERMISSION_DENIED : ERR_IO, sys, "process %d cannot be sent signal %d",
                         pid, signo);
    }
    close(fd);
    return rc;
}

void kn_exit_of_status(int status, kn_exit *out)
{
    *out = (kn_exit){.known = true};
    if (WIFSIGNALED(status)) {
        out->signal = WTERMSIG(status);
        out->core = WCOREDUMP(status);
    } else {
        out->code = WEXITSTATUS(status);
    }
}

/* True: the kernel kept the status with the pidfd. */
static bool status_of_pidfd(int fd, int *status)
{
    pidfd_info_v0 info = {.mask = INFO_EXIT};
    if (ioctl(fd, GET_INFO, &info) < 0 || !(info.mask & INFO_EXIT)) return false;
    *status = info.exit_code;
    return true;
}

bool kn_parse_zombie(slice stat, int *status)
{
    enum { EXIT_CODE = 52 - 3 }; /* counted from the state, which follows the name */
    size_t at = stat.n;
    while (at > 0 && stat.p[at - 1] != ')')
        at--;
    slice rest = slice_of(stat.p + at, stat.n - at), word = kn__word(&rest);
    if (at == 0 || !slice_eq_str(word, "Z")) return false;
    for (int i = 1; i <= EXIT_CODE; i++)
        word = kn__word(&rest);
    int64_t v;
    if (!kn__i64(kn__trim(word), &v) || v < 0 || v > 0xFFFF) return false;
    *status = (int)v;
    return true;
}

/* To those that may not trace the process the kernel shows 0, so a 0 counts only when the process is ours. */
static bool zero_is_true(int pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d", pid);
    return stat(path, &st) == 0 && st.st_uid == geteuid();
}

static bool status_of_zombie(int pid, int *status)
{
    buf b;
    buf_init(&b, 0);
    bool ok = kn_read_pid("", pid, "stat", KN_SMALL_MAX, &b, NULL) >= 0 && kn_parse_zombie(buf_view(&b), status) &&
              (*status != 0 || zero_is_true(pid));
    buf_fini(&b);
    return ok;
}

bool kn_watch_ended(int fd, int pid, kn_exit *out)
{
    int status;
    struct pollfd pf = {.fd = fd, .events = POLLIN};
    *out = (kn_exit){0};
    if (poll(&pf, 1, 0) <= 0) return false;
    if (status_of_pidfd(fd, &status)) {
        kn_exit_of_status(status, out);
        return true;
    }
    bool found = status_of_zombie(pid, &status);
    /* reaped while we read: what we read may have been of another process with its id, and the kernel may know now */
    if (status_of_pidfd(fd, &status) || (found && pidfd_send_signal(fd, 0, NULL, 0) == 0))
        kn_exit_of_status(status, out);
    return true;
}
