/* SPDX-License-Identifier: MIT */
/* discover.c: from /proc to endpoints: which processes are .NET, and for each how it is reached or why it is not. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/ipc_internal.h"

const char *ipc_cause_name(ipc_cause c)
{
    switch (c) {
    case IPC_OK: return "ok";
    case IPC_PERMISSION: return "permission";
    case IPC_STALE_SOCKET: return "stale-socket";
    case IPC_NO_SOCKET: return "no-socket";
    case IPC_DIAGNOSTICS_DISABLED: return "diagnostics-disabled";
    case IPC_TMPDIR: return "tmpdir";
    case IPC_NAMESPACE: return "namespace";
    case IPC_NOT_ANSWERING: return "not-answering";
    case IPC_REFUSED: return "refused";
    case IPC_GARBAGE: return "garbage";
    }
    return "unknown";
}

void ipc__cause(ipc_endpoint *ep, ipc_cause cause, err_kind kind, const char *fmt, ...)
{
    if (ep->cause != IPC_OK) return;
    char text[sizeof ep->why.message];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ep->cause = cause;
    (void)err_set(&ep->why, kind, "%s", text);
}

void ipc_endpoint_fini(ipc_endpoint *ep)
{
    for (unsigned i = 0; i < ep->n_sockets; i++)
        free(ep->sockets[i].path);
    ipc_info_fini(&ep->info);
    ipc__port_unref(ep->port);
    *ep = (ipc_endpoint){0};
}

void ipc_endpoints_fini(ipc_endpoints *l)
{
    for (size_t i = 0; i < l->n; i++)
        ipc_endpoint_fini(&l->items[i]);
    free(l->items);
    *l = (ipc_endpoints){0};
}

int ipc__describe(const char *root, pid_t pid, const ipc_discover_cfg *cfg, ipc__folders *f, ipc_endpoint *ep, err *e)
{
    ipc__proc p;
    *ep = (ipc_endpoint){.pid = pid};
    int rc = ipc__proc_read(root, pid, &p, e);
    if (rc < 0) return rc;
    if (p.state == 'Z' || p.state == 'X') rc = err_set(e, ERR_PROCESS_EXITED, "process %d has ended", pid);
    ep->nspid = p.nspid;
    ep->start_time = p.start_time;
    ep->uid = p.uid;
    ep->same_namespace = !p.other_mounts && p.nspid == pid;
    ep->stopped = p.state == 'T' || p.state == 't';
    if (rc == 0 && !p.kernel_thread) {
        int seen = ipc__proc_runtime(root, pid, &ep->runtime);
        bool maybe = seen == -ERR_PERMISSION_DENIED && ipc__proc_named_dotnet(root, pid);
        ipc__find_sockets(f, root, cfg, &p, ep);
        rc = ep->n_sockets > 0 || ep->runtime != IPC_RUNTIME_UNKNOWN || maybe;
    }
    ipc__proc_fini(&p);
    if (rc <= 0) ipc_endpoint_fini(ep);
    return rc;
}

int ipc_resolve(pid_t pid, const ipc_discover_cfg *cfg, ipc_endpoint *out, err *e)
{
    *out = (ipc_endpoint){0};
    if (pid <= 0) return err_set(e, ERR_INVALID_ARGUMENT, "%d is no process id", pid);
    ipc__folders *f = ipc__folders_new();
    if (!f) return err_set(e, ERR_NO_MEMORY, "no memory to look for process %d", pid);
    int rc = ipc__describe(cfg && cfg->proc_root ? cfg->proc_root : "/proc", pid, cfg, f, out, e);
    ipc__folders_free(f);
    if (rc < 0) return rc;
    if (ipc__port_find(pid, out)) {
        out->pid = pid; /* all that /proc could tell may be that it is there */
        out->cause = IPC_OK;
        out->why = (err){0};
        return 0;
    }
    if (rc == 0) {
        rc = err_set(e, ERR_NOT_A_DOTNET_PROCESS,
                     "process %d is not a .NET process: it has no runtime loaded and no diagnostics socket", pid);
        err_hint(e, "list the .NET processes first");
        return rc;
    }
    if (out->cause == IPC_OK) return 0;
    if (e && e->kind == ERR_NONE) {
        *e = out->why;
        err_where(e, "process %d cannot be reached", pid);
    }
    return -(int)out->why.kind;
}

static int append(ipc_endpoints *l, size_t *cap, ipc_endpoint *ep, err *e)
{
    if (l->n == IPC_ENDPOINTS_MAX) {
        l->dropped++;
        ipc_endpoint_fini(ep);
        return 0;
    }
    if (l->n == *cap) {
        size_t more = *cap ? *cap * 2 : 16;
        ipc_endpoint *items = mem_realloc(l->items, more * sizeof *items);
        if (!items) {
            ipc_endpoint_fini(ep);
            return err_set(e, ERR_NO_MEMORY, "no memory for the list of processes");
        }
        l->items = items;
        *cap = more;
    }
    l->items[l->n++] = *ep;
    return 0;
}

static int by_pid(const void *a, const void *b)
{
    const ipc_endpoint *x = a, *y = b;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int describe_all(const char *root, DIR *d, const ipc_discover_cfg *cfg, const ipc_cancel *cancel,
                        ipc_endpoints *out, err *e)
{
    ipc__folders *f = ipc__folders_new();
    if (!f) return err_set(e, ERR_NO_MEMORY, "no memory to look for processes");
    size_t cap = 0;
    int rc = 0;
    struct dirent *de;
    for (unsigned seen = 0; rc == 0 && seen < IPC_PROCESSES_MAX && (de = readdir(d)) != NULL;) {
        if (!isdigit((unsigned char)de->d_name[0])) continue;
        seen++;
        if (ipc_cancel_fired(cancel)) rc = err_set(e, ERR_CANCELLED, "cancelled while looking for processes");
        ipc_endpoint ep;
        if (rc == 0 && ipc__describe(root, (pid_t)strtol(de->d_name, NULL, 10), cfg, f, &ep, NULL) > 0)
            rc = append(out, &cap, &ep, e);
    }
    ipc__folders_free(f);
    return rc;
}

void ipc__forget_gone(const char *root, ipc_endpoints *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        ipc__proc p = {0};
        bool gone =
            l->items[i].cause != IPC_OK && (ipc__proc_read(root, l->items[i].pid, &p, NULL) < 0 || p.state == 'Z' ||
                                            p.state == 'X' || p.start_time != l->items[i].start_time);
        ipc__proc_fini(&p);
        if (gone)
            ipc_endpoint_fini(&l->items[i]);
        else
            l->items[kept++] = l->items[i];
    }
    l->n = kept;
}

int ipc_discover(const ipc_discover_cfg *cfg, const ipc_cancel *cancel, ipc_endpoints *out, err *e)
{
    const char *root = cfg && cfg->proc_root ? cfg->proc_root : "/proc";
    *out = (ipc_endpoints){0};
    DIR *d = opendir(root);
    if (!d) return err_sys(e, ERR_IO, errno, "cannot read %s", root);
    int rc = describe_all(root, d, cfg, cancel, out, e);
    (void)closedir(d);
    if (out->n > 1) qsort(out->items, out->n, sizeof *out->items, by_pid);
    if (rc == 0)
        rc = ipc__probe_all(out->items, out->n, cfg && cfg->probe_ms > 0 ? cfg->probe_ms : IPC_PROBE_MS, cancel, e);
    if (rc == 0) ipc__forget_gone(root, out);
    if (rc < 0) ipc_endpoints_fini(out);
    return rc;
}
