/* SPDX-License-Identifier: MIT */
/* path.c: from what a caller names to a descriptor below the artifact root. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artifacts/artifacts.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

static int refuse(err *e, const char *path, const char *why)
{
    int rc = err_set(e, ERR_INVALID_ARTIFACT_PATH, "%s", why);
    err_detail(e, "%s", path);
    return rc;
}

static int missing(err *e, const char *path)
{
    int rc = err_set(e, ERR_ARTIFACT_NOT_FOUND, "there is no such file below the artifact root");
    err_detail(e, "%s", path);
    return rc;
}

static int failed(err *e, int sys, const char *what, const char *path)
{
    switch (sys) {
    case ENOENT: return missing(e, path);
    case ELOOP:
    case ENOTDIR: return refuse(e, path, "the path goes through a link, or through something that is no folder");
    default: break;
    }
    char text[PATH_MAX];
    snprintf(text, sizeof text, "cannot %s %s", what, path);
    return err_unwritten(e, sys, text);
}

/* mkdir -p with 0700. 0, or an errno. */
static int make_all(const char *path)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) return ENAMETOOLONG;
    memcpy(part, path, n + 1);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/') continue;
        char was = *p;
        *p = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST) return errno;
        *p = was;
        if (!was) return 0;
    }
}

int art_root(const char *root, err *e)
{
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        int sys = make_all(root);
        if (sys) {
            int made = err_sys(e, ERR_PERMISSION_DENIED, sys, "the artifact root %s cannot be made", root);
            err_hint(e, "set MCP_ARTIFACT_ROOT to a folder that can be written to");
            return made;
        }
        fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd >= 0) return fd;
    int rc = err_sys(e, errno == EACCES ? ERR_PERMISSION_DENIED : ERR_IO, errno,
                     "the artifact root %s cannot be opened", root);
    err_hint(e, "set MCP_ARTIFACT_ROOT to a folder that can be written to");
    return rc;
}

static bool has_up(const char *path)
{
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') return true;
        p += n + (p[n] == '/');
    }
    return false;
}

/* What comes behind "ROOT/" in a path, or NULL when it is not below it. */
static const char *behind(const char *root, const char *path)
{
    size_t n = strlen(root);
    if (strncmp(path, root, n) != 0 || path[n] != '/') return NULL;
    return path + n + 1;
}

int art_name(const char *root, const char *path, bool absolute, char out[PATH_MAX], err *e)
{
    char real_root[PATH_MAX], whole[PATH_MAX], real[PATH_MAX];
    if (!*path) return refuse(e, path, "the path is empty");
    if (has_up(path)) return refuse(e, path, "the path goes up with '..'");
    if (*path == '/' && !absolute) return refuse(e, path, "the path is absolute; it is relative to the artifact root");
    if (!realpath(root, real_root)) {
        if (errno == ENOENT && *path != '/') return missing(e, path);
        return refuse(e, path, "the path is not below the artifact root");
    }
    const char *before = *path == '/' ? "" : real_root;
    int n = snprintf(whole, sizeof whole, "%s%s%s", before, *before ? "/" : "", path);
    if (n < 0 || (size_t)n >= sizeof whole) return refuse(e, path, "the path is too long");
    if (!realpath(whole, real)) {
        int sys = errno; /* whether a file outside exists is not told */
        if (!behind(real_root, whole) && !behind(root, whole))
            return refuse(e, path, "the path is not below the artifact root");
        return sys == ENOENT ? missing(e, path) : failed(e, sys, "open", path);
    }
    const char *rest = behind(real_root, real);
    if (!rest) return refuse(e, path, "the path leads out of the artifact root");
    memcpy(out, rest, strlen(rest) + 1);
    return 0;
}

/* Walks the folders of name, all but the last part (or all of them). Makes what lacks, when make. The result is a
 * descriptor, also for none; *last points into name. */
static int walk(int root, const char *name, bool whole, bool make, const char **last, err *e)
{
    char part[NAME_MAX + 1];
    int at = openat(root, ".", FOLDER);
    if (at < 0) return failed(e, errno, "open", "the artifact root");
    const char *p = name;
    for (int depth = 0;; depth++) {
        while (*p == '/')
            p++;
        size_t n = strcspn(p, "/");
        const char *next = p + n;
        while (*next == '/')
            next++;
        if (n == 0 || (!whole && !*next)) break;
        if (n >= sizeof part || depth >= ART_DEPTH_MAX) {
            close(at);
            return refuse(e, name, "the path is too long or too deep");
        }
        memcpy(part, p, n);
        part[n] = '\0';
        int down = -1;
        errno = ELOOP;
        if (strcmp(part, "..") != 0 && (!make || mkdirat(at, part, 0700) == 0 || errno == EEXIST))
            down = openat(at, part, FOLDER);
        int sys = down < 0 ? errno : 0;
        close(at);
        if (sys) return failed(e, sys, make ? "make" : "open", name);
        at = down;
        p = next;
    }
    if (last) *last = p;
    return at;
}

int art_open(int root, const char *name, err *e)
{
    const char *last = "";
    int folder = walk(root, name, false, false, &last, e);
    if (folder < 0) return folder;
    int fd = *last && strcmp(last, "..") != 0
                 ? openat(folder, last, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
                 : (errno = ELOOP, -1);
    int sys = errno;
    close(folder);
    if (fd < 0) return failed(e, sys, "open", name);
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) return fd;
    close(fd);
    return refuse(e, name, "it is no regular file");
}

static int write_all(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        p += put;
        n -= (size_t)put;
    }
    return 0;
}

int art_write(int root, const char *name, const void *p, size_t n, err *e)
{
    const char *last = "";
    char temp[64];
    uint64_t r = 0;
    int folder = walk(root, name, false, true, &last, e);
    if (folder < 0) return folder;
    int sys = getrandom(&r, sizeof r, 0) == (ssize_t)sizeof r ? 0 : EIO, fd = -1;
    (void)snprintf(temp, sizeof temp, ".%016llx.part", (unsigned long long)r);
    if (!sys && (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)) sys = EISDIR;
    if (!sys && (fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
        sys = errno;
    if (!sys) {
        sys = write_all(fd, p, n);
        if (close(fd) != 0 && !sys) sys = errno;
        if (!sys && renameat(folder, temp, folder, last) != 0) sys = errno;
        if (sys) unlinkat(folder, temp, 0);
    }
    close(folder);
    return sys ? failed(e, sys, "write", name) : 0;
}

int art_folder(int root, const char *name, err *e) { return walk(root, name, true, true, NULL, e); }

int art_remove(int root, const char *name, art_info *out, err *e)
{
    const char *last = "";
    int folder = walk(root, name, false, false, &last, e);
    if (folder < 0) return folder;
    struct stat st;
    int rc = 0;
    if (fstatat(folder, last, &st, AT_SYMLINK_NOFOLLOW) != 0)
        rc = failed(e, errno, "look at", name);
    else if (!S_ISREG(st.st_mode))
        rc = refuse(e, name, "it is no regular file");
    else if (unlinkat(folder, last, 0) != 0)
        rc = failed(e, errno, "remove", name);
    else
        *out = (art_info){st.st_size, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
    close(folder);
    return rc;
}
