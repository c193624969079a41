/* SPDX-License-Identifier: MIT */
/* files.c: bounded reading below a root folder, with failures told apart. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/kn_internal.h"

static err_kind kind_of(int sys)
{
    switch (sys) {
    case ENOENT:
    case ENOTDIR: return ERR_NOT_FOUND;
    case ESRCH: return ERR_PROCESS_NOT_FOUND;
    case EACCES:
    case EPERM: return ERR_PERMISSION_DENIED;
    case EOPNOTSUPP: return ERR_NOT_SUPPORTED;
    case ENOMEM: return ERR_NO_MEMORY;
    default: return ERR_IO;
    }
}

static int fail(err *e, int sys, const char *what, const char *path)
{
    return err_sys(e, kind_of(sys), sys, "cannot %s %s", what, path);
}

int kn__open(const char *path, err *e)
{
    /* Below /proc/PID/root the files belong to somebody else: a FIFO there must not hold us up, a device must not be
     * touched. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return fail(e, errno, "open", path);
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) return fd;
    close(fd);
    return err_set(e, ERR_NOT_SUPPORTED, "%s is not a regular file", path);
}

static bool join(const char *root, const char *rel, char *out, size_t size)
{
    int n = snprintf(out, size, "%s%s", root, rel);
    return n >= 0 && (size_t)n < size;
}

bool kn__pid_path(const char *root, int pid, const char *name, char *out, size_t size)
{
    int n = snprintf(out, size, "%s/proc/%d/%s", root, pid, name);
    return n >= 0 && (size_t)n < size;
}

/* One read into *out. 1: read something, 0: end, negative: failure. */
static int read_some(int fd, size_t max, buf *out, const char *path, err *e)
{
    size_t want = max - out->n < 16384 ? max - out->n : 16384;
    uint8_t *to = buf_reserve(out, want);
    if (!to) return err_set(e, ERR_NO_MEMORY, "no memory to read %s", path);
    ssize_t got;
    do {
        got = read(fd, to, want);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return fail(e, errno, "read", path);
    out->n += (size_t)got;
    return got > 0;
}

int kn_read(const char *root, const char *rel, size_t max, buf *out, err *e)
{
    char path[KN_PATH_MAX];
    if (!join(root, rel, path, sizeof path))
        return err_set(e, ERR_LIMIT, "a path is longer than %d bytes", KN_PATH_MAX);
    int fd = kn__open(path, e);
    if (fd < 0) return fd;
    int rc = 1;
    while (rc > 0 && out->n < max)
        rc = read_some(fd, max, out, path, e);
    if (rc > 0) { /* the cap is reached: is there more? */
        char one;
        rc = read(fd, &one, 1) > 0;
    }
    close(fd);
    return rc;
}

int kn__pid_error(const char *root, int pid, int rc, err *e)
{
    char rel[32];
    if (rc == -ERR_PERMISSION_DENIED)
        err_hint(
            e,
            "run lunette as the user of process %d, or as root with CAP_SYS_PTRACE (container: --cap-add SYS_PTRACE)",
            pid);
    if (rc != -ERR_NOT_FOUND && rc != -ERR_PROCESS_NOT_FOUND) return rc;
    snprintf(rel, sizeof rel, "/proc/%d", pid);
    if (rc == -ERR_NOT_FOUND && kn_exists(root, rel)) return rc;
    if (e) err_clear(e);
    return err_set(e, ERR_PROCESS_NOT_FOUND, "there is no process %d", pid);
}

int kn_read_pid(const char *root, int pid, const char *name, size_t max, buf *out, err *e)
{
    char rel[96];
    snprintf(rel, sizeof rel, "/proc/%d/%s", pid, name);
    return kn__pid_error(root, pid, kn_read(root, rel, max, out, e), e);
}

int kn_link(const char *root, int pid, const char *name, char *out, size_t size, err *e)
{
    char path[KN_PATH_MAX];
    if (!kn__pid_path(root, pid, name, path, sizeof path))
        return err_set(e, ERR_LIMIT, "a path is longer than %d bytes", KN_PATH_MAX);
    ssize_t n = readlink(path, out, size - 1);
    if (n < 0) return kn__pid_error(root, pid, fail(e, errno, "read the link", path), e);
    out[n] = 0;
    return 0;
}

bool kn_exists(const char *root, const char *rel)
{
    char path[KN_PATH_MAX];
    return join(root, rel, path, sizeof path) && access(path, F_OK) == 0;
}

int kn_read_num(const char *root, const char *rel, int64_t *out, err *e)
{
    buf b;
    buf_init(&b, 0);
    int rc = kn_read(root, rel, 64, &b, e);
    if (rc >= 0 && !kn__i64(kn__trim(buf_view(&b)), out)) rc = err_set(e, ERR_MALFORMED, "%s holds no number", rel);
    buf_fini(&b);
    return rc < 0 ? rc : 0;
}

static int by_number(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

int kn_pids(const char *root, int *pids, size_t max, size_t *n, size_t *dropped, err *e)
{
    char path[KN_PATH_MAX];
    if (!join(root, "/proc", path, sizeof path))
        return err_set(e, ERR_LIMIT, "a path is longer than %d bytes", KN_PATH_MAX);
    DIR *d = opendir(path);
    if (!d) return fail(e, errno, "list", path);
    *n = *dropped = 0;
    for (struct dirent *ent; (ent = readdir(d));) {
        uint64_t pid;
        if (!kn__u64(slice_str(ent->d_name), &pid) || pid == 0 || pid > INT32_MAX) continue;
        if (*n < max)
            pids[(*n)++] = (int)pid;
        else
            (*dropped)++;
    }
    closedir(d);
    qsort(pids, *n, sizeof *pids, by_number);
    return 0;
}

/* Hands on the complete lines of b and keeps the rest; a line without end is cut at KN_LINE_MAX and its tail is passed
 * over. */
static void hand_on(buf *b, bool *skipping, kn__line_fn fn, void *arg)
{
    slice rest = buf_view(b), line;
    size_t used = 0;
    while (rest.n && memchr(rest.p, '\n', rest.n)) {
        kn__line(&rest, &line);
        if (!*skipping) fn(arg, line);
        *skipping = false;
        used = b->n - rest.n;
    }
    buf_consume(b, used);
    if (b->n < KN_LINE_MAX) return;
    if (!*skipping) fn(arg, buf_view(b));
    *skipping = true;
    buf_reset(b);
}

int kn__each_line(const char *root, const char *rel, size_t max, kn__line_fn fn, void *arg, err *e)
{
    char path[KN_PATH_MAX];
    if (!join(root, rel, path, sizeof path))
        return err_set(e, ERR_LIMIT, "a path is longer than %d bytes", KN_PATH_MAX);
    int fd = kn__open(path, e);
    if (fd < 0) return fd;
    buf b;
    buf_init(&b, 0);
    bool skipping = false;
    size_t total = 0;
    int rc = 1;
    while (rc > 0 && total < max) {
        size_t before = b.n;
        rc = read_some(fd, b.n + 65536, &b, path, e);
        total += b.n - before;
        hand_on(&b, &skipping, fn, arg);
    }
    if (rc == 0 && b.n && !skipping) fn(arg, buf_view(&b)); /* a last line without its newline */
    buf_fini(&b);
    close(fd);
    return rc;
}
