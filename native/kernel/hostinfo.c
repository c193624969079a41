/* SPDX-License-Identifier: MIT */
/* hostinfo.c: what this machine lets us do: capabilities, sysctls, perf, tracing files; and probes that ask the kernel
 * itself. */
#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/kn_internal.h"

static kn_num sysctl_num(const char *root, const char *rel)
{
    kn_num n = {0};
    n.known = kn_read_num(root, rel, &n.v, NULL) == 0;
    return n;
}

/* The initial user namespace maps every id to itself: "0 0 4294967295". */
static bool in_user_namespace(const char *root)
{
    buf b;
    buf_init(&b, 0);
    bool inside = false;
    if (kn_read(root, "/proc/self/uid_map", KN_SMALL_MAX, &b, NULL) >= 0) {
        slice rest = buf_view(&b);
        slice from = kn__word(&rest), to = kn__word(&rest), n = kn__word(&rest);
        inside = !(slice_eq_str(from, "0") && slice_eq_str(to, "0") && slice_eq_str(n, "4294967295"));
    }
    buf_fini(&b);
    return inside;
}

static void read_self(const char *root, kn_host *out)
{
    buf b;
    kn_status st;
    buf_init(&b, 0);
    if (kn_read(root, "/proc/self/status", KN_SMALL_MAX, &b, NULL) >= 0 &&
        kn_parse_status(buf_view(&b), &st, NULL) == 0) {
        out->uid = st.euid;
        out->has_caps = st.has_caps;
        out->cap_eff = st.cap_eff;
        out->seccomp = st.seccomp;
        out->no_new_privs = st.no_new_privs;
    }
    buf_fini(&b);
    out->user_namespace = in_user_namespace(root);
}

static void read_release(const char *root, kn_host *out)
{
    buf b;
    buf_init(&b, 0);
    if (kn_read(root, "/proc/sys/kernel/osrelease", KN_SMALL_MAX, &b, NULL) >= 0)
        kn__copy(kn__trim(buf_view(&b)), out->release, sizeof out->release);
    buf_fini(&b);
}

/* The first executable called perf on PATH. Relative parts of PATH are not trusted. */
static void find_perf(const char *root, const char *path_env, kn_host *out)
{
    char full[KN_PATH_MAX];
    slice rest = slice_str(path_env);
    while (rest.n) {
        const uint8_t *colon = memchr(rest.p, ':', rest.n);
        size_t n = colon ? (size_t)(colon - rest.p) : rest.n, used = colon ? n + 1 : n;
        int len = snprintf(full, sizeof full, "%s%.*s/perf", root, (int)n, (const char *)rest.p);
        if (n && rest.p[0] == '/' && len > 0 && (size_t)len < sizeof full && access(full, X_OK) == 0) {
            kn__copy(slice_str(full + strlen(root)), out->perf, sizeof out->perf);
            return;
        }
        rest = slice_of(rest.p + used, rest.n - used);
    }
}

static void find_tracefs(const char *root, kn_host *out)
{
    static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    char path[KN_PATH_MAX];
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s/events/sched/sched_switch/id", root, places[i]);
        if (access(path, R_OK) != 0) continue;
        kn__copy(slice_str(places[i]), out->tracefs, sizeof out->tracefs);
        snprintf(path, sizeof path, "%s%s/uprobe_events", root, places[i]);
        out->uprobe_events_writable = access(path, W_OK) == 0;
        return;
    }
}

static bool psi_readable(const char *root)
{
    buf b;
    buf_init(&b, 0);
    bool ok = kn_read(root, "/proc/pressure/cpu", KN_SMALL_MAX, &b, NULL) >= 0 &&
              b.n > 0; /* with psi=0 the file is there and its read fails */
    buf_fini(&b);
    return ok;
}

void kn_host_of(const char *root, const char *path_env, kn_host *out)
{
    *out = (kn_host){0};
    read_self(root, out);
    read_release(root, out);
    out->ptrace_scope = sysctl_num(root, "/proc/sys/kernel/yama/ptrace_scope");
    out->perf_event_paranoid = sysctl_num(root, "/proc/sys/kernel/perf_event_paranoid");
    out->kptr_restrict = sysctl_num(root, "/proc/sys/kernel/kptr_restrict");
    find_perf(root, path_env, out);
    find_tracefs(root, out);
    out->psi = psi_readable(root);
}

/* ---- probes: they ask the running kernel, so they know no root folder ---- */
static int try_open(uint32_t type, uint64_t config, int pid, int cpu, bool kernel)
{
    struct perf_event_attr a = {
        .type = type, .size = sizeof a, .config = config, .disabled = 1, .exclude_kernel = !kernel, .exclude_hv = 1};
    long fd = syscall(SYS_perf_event_open, &a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) return errno;
    close((int)fd);
    return 0;
}

static int try_sched_switch(void)
{
    static const char *const ids[] = {"/sys/kernel/tracing/events/sched/sched_switch/id",
                                      "/sys/kernel/debug/tracing/events/sched/sched_switch/id"};
    int64_t id = 0;
    int sys = ENOENT; /* that a file may not be read says more than that another one is not there */
    for (size_t i = 0; i < 2; i++) {
        err e = {0};
        if (kn_read_num("", ids[i], &id, &e) == 0) return try_open(PERF_TYPE_TRACEPOINT, (uint64_t)id, -1, 0, true);
        if (sys == ENOENT && e.sys) sys = e.sys;
    }
    return sys;
}

/* The kernel checks a uprobe's privilege before its path, so an open without a path tells: EINVAL or EFAULT means
 * allowed. */
static int try_uprobe(void)
{
    int64_t type = 0;
    if (kn_read_num("", "/sys/bus/event_source/devices/uprobe/type", &type, NULL) != 0) return ENOENT;
    int sys = try_open((uint32_t)type, 0, -1, 0, true);
    return sys == EINVAL || sys == EFAULT ? 0 : sys;
}

/* On an address that no program has code at. */
static int try_breakpoint(int pid)
{
    struct perf_event_attr a = {.type = PERF_TYPE_BREAKPOINT,
                                .size = sizeof a,
                                .bp_type = HW_BREAKPOINT_X,
                                .bp_addr = 0x1000,
                                .bp_len = sizeof(long),
                                .disabled = 1,
                                .exclude_kernel = 1,
                                .exclude_hv = 1};
    long fd = syscall(SYS_perf_event_open, &a, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) return errno;
    close((int)fd);
    return 0;
}

void kn_perf_probe_of(int pid, kn_perf_probe *out)
{
    out->cpu_clock = try_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, pid, -1, false);
    out->kernel_clock = try_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, pid, -1, true);
    out->hardware = try_open(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, pid, -1, false);
    out->sched_switch = try_sched_switch();
    out->uprobe = try_uprobe();
    out->breakpoint = try_breakpoint(pid);
}

int kn_attach_check(const char *root, int pid, err *e)
{
    char path[KN_PATH_MAX];
    if (!kn__pid_path(root, pid, "mem", path, sizeof path))
        return err_set(e, ERR_LIMIT, "a path is longer than %d bytes", KN_PATH_MAX);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    int sys = errno;
    err_kind kind = sys == ENOENT || sys == ESRCH   ? ERR_NOT_FOUND
                    : sys == EACCES || sys == EPERM ? ERR_PERMISSION_DENIED
                                                    : ERR_IO;
    return kn__pid_error(root, pid, err_sys(e, kind, sys, "the kernel refuses to let us attach to process %d", pid), e);
}
