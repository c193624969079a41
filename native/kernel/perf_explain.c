/* SPDX-License-Identifier: MIT */
/* perf_explain.c: why an event could not be opened, and what cures it. Rules: kernel/events/core.c
 * (perf_event_open), Documentation/admin-guide/perf-security.rst. */
#include <errno.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include "kernel/kernel.h"
#include "kernel/perf.h"

#define CAP(h, n) ((h)->has_caps && ((h)->cap_eff >> (n)&1))

static bool is_privileged(const kn_host *h) { return CAP(h, KN_CAP_PERFMON) || CAP(h, KN_CAP_SYS_ADMIN); }

/* The highest perf_event_paranoid at which this works without a capability. */
static int paranoid_needed(const perf_spec *s)
{
    if (s->type == PERF_TYPE_TRACEPOINT || s->machine) return s->take & PERF_TAKE_RAW ? -1 : 0;
    if (s->path) return -1;
    return s->no_kernel ? 2 : 1;
}

/* perf_event_open asks for the right to read it by ptrace, whatever perf_event_paranoid is. */
static bool is_of_another(const char *root, int pid)
{
    kn_status s;
    return pid > 0 && getuid() != 0 && kn_status_of(root, pid, &s, NULL) == 0 && s.uid != getuid();
}

static int denied(const char *root, const perf_spec *s, const kn_host *h, int pid, int sys, err *e)
{
    int need = paranoid_needed(s);
    int rc = err_sys(e, ERR_PERMISSION_DENIED, sys, "the kernel refuses %s", s->what);
    err_detail(e, "perf_event_open");
    if (is_privileged(h) && h->seccomp.known && h->seccomp.v == 2) {
        err_hint(e, "seccomp refuses perf_event_open although the capability is there. Docker: --security-opt "
                    "seccomp=unconfined, or a profile that allows perf_event_open; Kubernetes: "
                    "securityContext.seccompProfile.type: Unconfined.");
    } else if (is_privileged(h) && h->user_namespace) {
        err_hint(
            e, "the capability counts in a user namespace only, which perf_event_open does not accept: run lunette in "
               "the initial user namespace (Docker without userns-remap; no rootless container).");
    } else if (!is_privileged(h) && !s->machine && is_of_another(root, pid)) {
        err_hint(
            e,
            "process %d belongs to another user: run lunette as that user, or give it CAP_PERFMON (Docker: --cap-add "
            "PERFMON; Kubernetes: securityContext.capabilities.add: [\"PERFMON\"]).",
            pid);
    } else if (h->perf_event_paranoid.known && h->perf_event_paranoid.v > need) {
        err_hint(e,
                 "kernel.perf_event_paranoid is %lld and needs to be at most %d, or lunette needs CAP_PERFMON. Host: "
                 "sudo sysctl kernel.perf_event_paranoid=%d; Docker: --cap-add PERFMON; Kubernetes: "
                 "securityContext.capabilities.add: [\"PERFMON\"]; a binary: sudo setcap cap_perfmon+ep $(command -v "
                 "lunette).",
                 (long long)h->perf_event_paranoid.v, need, need);
    } else {
        err_hint(e, "CAP_PERFMON is missing (Docker: --cap-add PERFMON), or seccomp or another security module refuses "
                    "perf_event_open.");
    }
    return rc;
}

static int not_there(const perf_spec *s, int sys, err *e)
{
    int rc = err_sys(e, ERR_NOT_SUPPORTED, sys, "%s is not to be had on this machine", s->what);
    err_detail(e, "perf_event_open");
    if (sys == ENOSYS)
        err_hint(e, "the kernel has no perf events (CONFIG_PERF_EVENTS), or a sandbox such as gVisor stands in for it");
    else if (s->type == PERF_TYPE_HARDWARE || s->type == PERF_TYPE_HW_CACHE || s->type == PERF_TYPE_RAW)
        err_hint(
            e, "virtual machines often have no hardware counters: expose the PMU to the guest, or measure on the host");
    else if (s->type == PERF_TYPE_TRACEPOINT)
        err_hint(e, "the kernel was built without this tracepoint");
    return rc;
}

int perf_explain(const char *root, const perf_spec *s, int pid, int sys, err *e)
{
    kn_host h;
    kn_host_of(root, NULL, &h);
    int rc;
    switch (sys) {
    case EACCES:
    case EPERM: return denied(root, s, &h, pid, sys, e);
    case ESRCH: return err_sys(e, ERR_PROCESS_NOT_FOUND, sys, "process %d is gone", pid);
    case ENOENT:
        if (s->path) return err_sys(e, ERR_NOT_FOUND, sys, "the file of a probe is not there: %s", s->path);
        return not_there(s, sys, e);
    case ENOSYS:
    case ENODEV:
    case EINVAL:
    case EOPNOTSUPP: return not_there(s, sys, e);
    case EBUSY:
    case ENOSPC:
        rc = err_sys(e, ERR_BUSY, sys, "%s is in use by somebody else", s->what);
        if (s->type == PERF_TYPE_BREAKPOINT) err_hint(e, "x86 has four breakpoint registers; is a debugger attached?");
        return rc;
    case EMFILE:
    case ENFILE:
        rc = err_sys(e, ERR_LIMIT, sys, "no descriptors left for %s", s->what);
        err_hint(e, "each thread takes one descriptor a CPU: raise the limit of open files (ulimit -n 65536)");
        return rc;
    case ENOMEM: return err_sys(e, ERR_NO_MEMORY, sys, "no memory for %s", s->what);
    default: return err_sys(e, ERR_IO, sys, "cannot open %s", s->what);
    }
}
