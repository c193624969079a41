/* SPDX-License-Identifier: MIT */
/* stage.c: where a target writes what is to become an artifact. Its runtime opens the path in its own mount namespace
 * and as its own user, so this is the folder below the artifact root only when the target sees the same one and is the
 * same user; else a folder of its own in the target's file system, from which the file is moved. What a target wrote is
 * not trusted to be a file: it is opened without following links and must be a regular one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "artifacts/artifacts.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define TRIES  8
#define NAME   "lunette-"
#define DIGITS 24
/* of a folder that was made a moment ago the lock may not be taken yet */
#define YOUNG_S   60
#define SWEEP_MAX 256 /* private folders that are looked at */

int64_t art_free_bytes(int fd)
{
    struct statvfs v;
    if (fstatvfs(fd, &v) != 0) return -1;
    uint64_t blocks = geteuid() == 0 ? v.f_bfree : v.f_bavail;
    return blocks > (uint64_t)INT64_MAX / v.f_frsize ? INT64_MAX : (int64_t)(blocks * v.f_frsize);
}

static void stage_init(art_stage *s) { *s = (art_stage){.parent = -1, .dir = -1, .free_bytes = -1}; }

/* The root folder of a process, or -1 with errno. */
static int root_of(pid_t pid)
{
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Opens the absolute path below a process's root, no part of which may be a link. -1 with errno. */
static int descend(int root, const char *path)
{
    char part[NAME_MAX + 1];
    int at = openat(root, ".", FOLDER);
    for (const char *p = path; at >= 0;) {
        while (*p == '/')
            p++;
        size_t n = strcspn(p, "/");
        if (n == 0) return at;
        int sys = ENAMETOOLONG, down = -1;
        if (n < sizeof part) {
            memcpy(part, p, n);
            part[n] = '\0';
            down = strcmp(part, "..") == 0 ? (errno = ELOOP, -1) : openat(at, part, FOLDER);
            sys = errno;
        }
        close(at);
        at = down;
        errno = sys;
        p += n;
    }
    return -1;
}

static int no_root(err *e, int sys, pid_t pid)
{
    if (sys == ENOENT) return err_set(e, ERR_PROCESS_NOT_FOUND, "process %d is gone", (int)pid);
    int rc = err_sys(e, ERR_PERMISSION_DENIED, sys, "the file system of process %d cannot be looked into", (int)pid);
    err_hint(
        e, "run lunette as root or as the process's user; in a container share the process's /tmp, or add SYS_PTRACE");
    return rc;
}

/* Whether a name is of a private folder: the prefix, lunette- and 24 hexadecimal digits. */
static bool is_stage(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0 || strncmp(name + n, NAME, strlen(NAME)) != 0) return false;
    const char *digits = name + n + strlen(NAME);
    return strspn(digits, "0123456789abcdef") == DIGITS && digits[DIGITS] == '\0';
}

static void remove_files(int dir)
{
    int own = openat(dir, ".", FOLDER);
    DIR *list = own < 0 ? NULL : fdopendir(own);
    if (!list && own >= 0) close(own);
    if (!list) return;
    for (struct dirent *d; (d = readdir(list));) {
        struct stat st;
        if (fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode)) unlinkat(dir, d->d_name, 0);
    }
    closedir(list);
}

void art_stage_sweep(int parent, const char *prefix, uid_t uid, int older_s)
{
    int own = openat(parent, ".", FOLDER);
    DIR *list = own < 0 ? NULL : fdopendir(own);
    if (!list && own >= 0) close(own);
    if (!list) return;
    int seen = 0;
    for (struct dirent *d; seen < SWEEP_MAX && (d = readdir(list));) {
        if (!is_stage(d->d_name, prefix)) continue;
        seen++;
        int dir = openat(parent, d->d_name, FOLDER);
        struct stat st;
        if (dir < 0) continue;
        bool left = fstat(dir, &st) == 0 && (st.st_uid == uid || st.st_uid == geteuid()) &&
                    (st.st_mode & 07777) == 0700 && st.st_ctime + older_s < time(NULL) &&
                    flock(dir, LOCK_EX | LOCK_NB) == 0;
        if (left) {
            remove_files(dir);
            unlinkat(parent, d->d_name, AT_REMOVEDIR);
        }
        close(dir);
    }
    closedir(list);
}

/* Makes the private folder in s->parent; its name begins with prefix. 0, or an errno. */
static int make_private(art_stage *s, const char *prefix, uid_t uid)
{
    art_stage_sweep(s->parent, prefix, uid, YOUNG_S);
    for (int i = 0; i < TRIES; i++) {
        uint64_t r[2];
        if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r) return EIO;
        (void)snprintf(s->name, sizeof s->name, "%s" NAME "%016llx%08x", prefix, (unsigned long long)r[0],
                       (unsigned)r[1]);
        if (mkdirat(s->parent, s->name, 0700) == 0) break;
        if (errno != EEXIST) return errno;
        s->name[0] = '\0';
    }
    if (!s->name[0]) return EEXIST;
    s->dir = openat(s->parent, s->name, FOLDER);
    int sys = s->dir < 0 ? errno : 0;
    struct stat st;
    if (!sys && (fstat(s->dir, &st) != 0 || st.st_uid != geteuid()))
        sys = EPERM; /* somebody put another in its place */
    if (!sys)
        (void)flock(s->dir, LOCK_EX | LOCK_NB); /* see art_stage_sweep; a file system without locks has none to sweep */
    if (!sys && uid != geteuid() && fchown(s->dir, uid, (gid_t)-1) != 0) sys = errno;
    if (sys) art_stage_close(s, NULL);
    return sys;
}

int art_stage_open(pid_t pid, uid_t uid, const char *const *folders, art_stage *out, err *e)
{
    stage_init(out);
    int root = root_of(pid);
    if (root < 0) return no_root(e, errno, pid);
    int sys = ENOENT;
    const char *last = "";
    for (size_t i = 0; folders[i]; i++) {
        if (folders[i][0] != '/') continue;
        last = folders[i];
        out->parent = descend(root, last);
        sys = out->parent < 0 ? errno : make_private(out, "", uid);
        if (sys == 0) break;
        if (out->parent >= 0) close(out->parent);
        out->parent = -1;
    }
    close(root);
    if (sys) {
        int rc = err_sys(e, ERR_PERMISSION_DENIED, sys,
                         "process %d has no folder in which it and lunette can write a file; tried last: %s", (int)pid,
                         last);
        err_hint(e, "a read-only file system needs a writable /tmp or TMPDIR in the process's container");
        return rc;
    }
    size_t n = strlen(last);
    while (n > 1 && last[n - 1] == '/')
        n--;
    (void)snprintf(out->path, sizeof out->path, "%.*s/%s", n == 1 ? 0 : (int)n, last, out->name);
    out->free_bytes = art_free_bytes(out->dir);
    return 0;
}

/* Puts root, name and what lies in it together, in s->path. False when that is too long. */
static bool set_path(art_stage *s, const char *root, const char *name, const char *last)
{
    const char *const parts[] = {root, name, last};
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t n = strlen(parts[i]);
        if (n == 0) continue;
        if (at + n + 2 > sizeof s->path) return false;
        if (i > 0) s->path[at++] = '/';
        memcpy(s->path + at, parts[i], n);
        at += n;
    }
    s->path[at] = '\0';
    return true;
}

int art_stage_direct(pid_t pid, uid_t uid, const char *root, int root_fd, const char *name, art_stage *out, err *e)
{
    stage_init(out);
    char real[PATH_MAX] = "";
    int dir = art_folder(root_fd, name, e);
    if (dir < 0) return dir;
    int there = -1, top = uid == geteuid() && realpath(root, real) ? root_of(pid) : -1;
    struct stat ours, theirs;
    if (top >= 0 && set_path(out, real, name, "")) there = descend(top, out->path);
    bool same = there >= 0 && fstat(dir, &ours) == 0 && fstat(there, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
                ours.st_ino == theirs.st_ino;
    if (there >= 0) close(there);
    if (top >= 0) close(top);
    out->parent = dir;
    int sys = same ? make_private(out, ".", uid) : 0;
    if (!same || sys || !set_path(out, real, name, out->name)) {
        art_stage_close(out, NULL);
        return 0;
    }
    out->direct = true;
    out->free_bytes = art_free_bytes(out->dir);
    return 1;
}

int art_open_of(pid_t pid, const char *path, err *e)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (path[0] != '/' || !slash || n >= sizeof folder)
        return err_set(e, ERR_INVALID_ARGUMENT, "%s is no absolute path", path);
    memcpy(folder, path, n);
    folder[n] = '\0';
    int root = root_of(pid);
    if (root < 0) return no_root(e, errno, pid);
    int dir = descend(root, folder);
    int fd = dir < 0 ? -1 : openat(dir, slash + 1, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    int sys = errno;
    close(root);
    if (dir >= 0) close(dir);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) return fd;
    if (fd >= 0) close(fd);
    if (fd >= 0) return err_set(e, ERR_NOT_FOUND, "%s is no regular file", path);
    return err_sys(e, sys == ENOENT || sys == ELOOP ? ERR_NOT_FOUND : ERR_PERMISSION_DENIED, sys,
                   "%s of process %d cannot be opened", path, (int)pid);
}

int64_t art_stage_size(const art_stage *s, const char *file)
{
    struct stat st;
    if (fstatat(s->dir, file, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) return -1;
    return st.st_size;
}

static int copy_bytes(int from, int to, err *e)
{
    static const size_t step = (size_t)1 << 20;
    for (;;) { /* the kernel does it where it can */
        ssize_t got = copy_file_range(from, NULL, to, NULL, step << 4, 0);
        if (got == 0) return 0;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) break;
    }
    uint8_t *p = mem_alloc(step);
    if (!p) return err_set(e, ERR_NO_MEMORY, "no memory to copy a file");
    int rc = 0;
    for (ssize_t got; rc == 0 && (got = read(from, p, step)) != 0;) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) rc = err_sys(e, ERR_IO, errno, "the file cannot be read");
        for (ssize_t at = 0, put; rc == 0 && at < got; at += put) {
            put = write(to, p + at, (size_t)(got - at));
            if (put < 0 && errno == EINTR) put = 0;
            if (put < 0) rc = err_unwritten(e, errno, "the file cannot be copied below the artifact root");
        }
    }
    free(p);
    return rc;
}

static int taken(err *e, const char *to)
{
    int rc = err_set(e, ERR_CONFLICT, "a file %s is there already", to);
    err_detail(e, "%s", to);
    return rc;
}

/* from is open at its start. */
static int copy_file(int from, int dest, const char *to, err *e)
{
    int fd = openat(dest, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST) return taken(e, to);
    if (fd < 0) return err_unwritten(e, errno, "the file cannot be made below the artifact root");
    int rc = copy_bytes(from, fd, e);
    if (close(fd) != 0 && rc == 0) rc = err_unwritten(e, errno, "the file cannot be copied below the artifact root");
    if (rc < 0) unlinkat(dest, to, 0);
    return rc;
}

/* Makes the file that was moved ours, for us alone. */
static int make_ours(int dest, const char *to, art_info *out, err *e)
{
    struct stat st;
    int fd = openat(dest, to, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int rc = 0;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        rc = err_set(e, ERR_IO, "what the process wrote is no regular file");
    else if (st.st_uid != geteuid() && fchown(fd, geteuid(), getegid()) != 0)
        rc = err_sys(e, ERR_PERMISSION_DENIED, errno, "the file cannot be made ours");
    else if (fchmod(fd, 0600) != 0)
        rc = err_sys(e, ERR_PERMISSION_DENIED, errno, "the file cannot be made private");
    else
        *out = (art_info){st.st_size, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
    if (fd >= 0) close(fd);
    if (rc < 0) unlinkat(dest, to, 0);
    return rc;
}

int art_stage_take(const art_stage *s, const char *file, int dest, const char *to, art_info *out, bool *copied, err *e)
{
    int from = openat(s->dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    int sys = errno, rc = 0;
    struct stat st;
    *copied = false;
    if (from < 0 && sys == ENOENT) return err_set(e, ERR_NOT_FOUND, "the process left no file");
    if (from < 0) return err_sys(e, ERR_PERMISSION_DENIED, sys, "what the process wrote cannot be opened");
    if (fstat(from, &st) != 0 || !S_ISREG(st.st_mode)) {
        rc = err_set(e, ERR_IO, "what the process wrote is no regular file");
    } else if (st.st_nlink > 1 || renameat2(s->dir, file, dest, to, RENAME_NOREPLACE) != 0) {
        if (st.st_nlink == 1 && errno == EEXIST) {
            rc = taken(e, to);
        } else {
            *copied = true;
            rc = copy_file(from, dest, to, e);
            if (rc == 0) unlinkat(s->dir, file, 0);
        }
    }
    close(from);
    return rc < 0 ? rc : make_ours(dest, to, out, e);
}

void art_stage_close(art_stage *s, const char *const *files)
{
    for (size_t i = 0; s->dir >= 0 && files && files[i]; i++)
        unlinkat(s->dir, files[i], 0);
    if (s->dir >= 0) close(s->dir);
    if (s->parent >= 0 && s->name[0]) unlinkat(s->parent, s->name, AT_REMOVEDIR);
    if (s->parent >= 0) close(s->parent);
    stage_init(s);
}
