/* SPDX-License-Identifier: MIT */
/* fds.c: the descriptors of a process: counted, classed by their link, its TCP connections by state. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernel/kn_internal.h"

kn_fd_class kn_classify_fd(slice target, uint64_t *inode)
{
    if (slice_starts(target, SLICE_LIT("socket:["))) {
        uint64_t v = 0;
        if (target.n > 9 && target.p[target.n - 1] == ']' && kn__u64(slice_of(target.p + 8, target.n - 9), &v))
            *inode = v;
        return KN_FD_SOCKET;
    }
    if (slice_starts(target, SLICE_LIT("/"))) return KN_FD_REGULAR;
    if (slice_starts(target, SLICE_LIT("pipe:["))) return KN_FD_PIPE;
    /* A kernel may write an id after the name, as in anon_inode:[eventfd:12]. */
    return slice_starts(target, SLICE_LIT("anon_inode:[eventfd")) ? KN_FD_EVENTFD : KN_FD_OTHER;
}

/* Columns of /proc/net/tcp, counted from "0:": local, remote, st, queues, timer, retransmits, uid, timeout, inode. */
enum { TCP_LOCAL = 1, TCP_REMOTE = 2, TCP_STATE = 3, TCP_INODE = 9, TCP_COLUMNS = 10 };
enum { ST_ESTABLISHED = 0x01, ST_TIME_WAIT = 0x06, ST_CLOSE_WAIT = 0x08, ST_LISTEN = 0x0A };

/* "ADDRESS:PORT" in hexadecimal: the port, or 0. */
static uint64_t port_of(slice address)
{
    uint64_t port = 0;
    if (address.n < 5 || address.p[address.n - 5] != ':') return 0;
    return kn__hex(slice_of(address.p + address.n - 4, 4), &port) ? port : 0;
}

static void count_owned(const slice *col, uint64_t state, kn_tcp_count *c)
{
    if (state == ST_LISTEN)
        map64_put(&c->ports, port_of(col[TCP_LOCAL]), 1);
    else
        map64_put(&c->peers, hash_bytes(col[TCP_REMOTE], 0), 1);
    switch (state) {
    case ST_ESTABLISHED: c->n.established++; break;
    case ST_CLOSE_WAIT: c->n.close_wait++; break;
    case ST_LISTEN: c->n.listen++; break;
    case ST_TIME_WAIT: c->n.time_wait++; break;
    default: c->n.other++; break;
    }
}

void kn_tcp_line(slice line, bool owners, kn_tcp_count *c)
{
    slice col[TCP_COLUMNS];
    uint64_t state = 0, inode = 0, unused;
    for (int i = 0; i < TCP_COLUMNS; i++)
        col[i] = kn__word(&line);
    if (!kn__hex(col[TCP_STATE], &state) || !kn__u64(col[TCP_INODE], &inode)) return;
    if (owners) {
        if (inode && map64_get(c->own, inode, &unused)) count_owned(col, state, c);
    } else if (state == ST_TIME_WAIT && inode == 0) {
        bool ours = map64_get(&c->ports, port_of(col[TCP_LOCAL]), &unused) ||
                    map64_get(&c->peers, hash_bytes(col[TCP_REMOTE], 0), &unused);
        if (ours) c->n.time_wait++;
    }
}

void kn_parse_tcp(slice text, bool owners, kn_tcp_count *c)
{
    slice line;
    while (kn__line(&text, &line))
        kn_tcp_line(line, owners, c);
}

void kn_tcp_fini(kn_tcp_count *c)
{
    map64_fini(&c->ports);
    map64_fini(&c->peers);
}

/* ---- readers ---- */
/* Classes one descriptor; false when its link could not be read (it was closed meanwhile). */
static bool classify(int dir, const char *name, kn_fds *out, map64 *own)
{
    char target[KN_PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target);
    if (n < 0) return false;
    uint64_t inode = 0;
    kn_fd_class c = kn_classify_fd(slice_of(target, (size_t)n), &inode);
    out->by_class[c]++;
    if (inode) map64_put(own, inode, 1);
    return true;
}

static int list_fds(DIR *d, kn_fds *out, map64 *own)
{
    /* readdir tells its end from a failure by errno alone. */
    for (struct dirent *ent; out->count < KN_FD_MAX && (errno = 0, ent = readdir(d));) {
        uint64_t fd;
        if (!kn__u64(slice_str(ent->d_name), &fd)) continue;
        if (out->count < KN_FD_CLASSIFY && !classify(dirfd(d), ent->d_name, out, own)) {
            if (errno == ENOENT) continue; /* closed between readdir and readlink: not there any more */
            out->unclassified++;
            out->by_class[KN_FD_OTHER]++;
        } else if (out->count >= KN_FD_CLASSIFY) {
            out->unclassified++;
            out->by_class[KN_FD_OTHER]++;
        }
        out->count++;
    }
    return errno;
}

typedef struct tcp_walk {
    kn_tcp_count *count;
    bool owners;
} tcp_walk;
static void tcp_walk_line(void *arg, slice line)
{
    tcp_walk *w = arg;
    kn_tcp_line(line, w->owners, w->count);
}

static void read_table(const char *root, int pid, const char *name, tcp_walk *w, kn_fds *out)
{
    char rel[64];
    err e = {0};
    snprintf(rel, sizeof rel, "/proc/%d/%s", pid, name);
    int rc = kn__each_line(root, rel, KN_TCP_MAX, tcp_walk_line, w, &e);
    if (rc >= 0) out->has_tcp = true;
    if (!w->owners) return; /* told by the first pass */
    if (rc > 0) kn_note(&out->notes, "%s is longer than %u MB: TCP states are a lower bound", name, KN_TCP_MAX >> 20);
    /* A kernel without IPv6 has no tcp6; that is no loss. */
    if (rc < 0 && !(rc == -ERR_NOT_FOUND && strcmp(name, "net/tcp6") == 0))
        kn_note(&out->notes, "TCP states of %s: %s", name, e.message);
}

/* The tables of the process's own network namespace. */
static void read_tcp(const char *root, int pid, const map64 *own, kn_fds *out)
{
    kn_tcp_count count = {.own = own, .ports.max = KN_FD_CLASSIFY, .peers.max = KN_FD_CLASSIFY};
    for (int pass = 0; pass < 2; pass++) {
        tcp_walk w = {&count, pass == 0};
        read_table(root, pid, "net/tcp", &w, out);
        read_table(root, pid, "net/tcp6", &w, out);
    }
    out->tcp = count.n;
    kn_tcp_fini(&count);
}

int kn_fds_of(const char *root, int pid, kn_fds *out, err *e)
{
    char path[KN_PATH_MAX];
    *out = (kn_fds){0};
    if (!kn__pid_path(root, pid, "fd", path, sizeof path))
        return err_set(e, ERR_LIMIT, "a path is longer than %d bytes", KN_PATH_MAX);
    DIR *d = opendir(path);
    if (!d) {
        int sys = errno;
        err_kind kind = sys == ENOENT ? ERR_NOT_FOUND : sys == EACCES || sys == EPERM ? ERR_PERMISSION_DENIED : ERR_IO;
        return kn__pid_error(root, pid, err_sys(e, kind, sys, "cannot list %s", path), e);
    }
    map64 own = {.max = KN_FD_CLASSIFY};
    int sys = list_fds(d, out, &own);
    closedir(d);
    if (sys) kn_note(&out->notes, "the descriptor list ended early (%s): counts are a lower bound", strerror(sys));
    if (out->unclassified)
        kn_note(&out->notes,
                "%u of %u descriptors were not classified (at most %d are) and count as other; TCP states cover the "
                "classified ones",
                out->unclassified, out->count, KN_FD_CLASSIFY);
    read_tcp(root, pid, &own, out);
    map64_fini(&own);
    return 0;
}
