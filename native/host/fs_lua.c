/* SPDX-License-Identifier: MIT */
/* fs_lua.c: lunette.fs: small files, at once (no wait). Failures are nil, err with the kind and errno. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/faces.h"
#include "host/host_internal.h"

#define HEAD_MAX 4096
#define LIST_MAX 65536 /* names of one directory */

static err_kind kind_of(int sys)
{
    switch (sys) {
    case ENOENT:
    case ENOTDIR: return ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS: return ERR_PERMISSION_DENIED;
    case ENOMEM: return ERR_NO_MEMORY;
    default: return ERR_IO;
    }
}

static int push_errno(lua_State *L, int sys, const char *what, const char *path)
{
    err e = {0};
    err_sys(&e, kind_of(sys), sys, "cannot %s %s", what, path);
    err_detail(&e, "%s", path);
    return host_push_err(L, &e);
}

/* A path without a NUL inside. */
static const char *check_path(lua_State *L, int idx)
{
    size_t n;
    const char *s = luaL_checklstring(L, idx, &n);
    luaL_argcheck(L, n > 0 && strlen(s) == n, idx, "must be a path");
    return s;
}

/* ---- read ---- */

/* Reads to the end of fd into *b, whose cap is one byte more than what is allowed. 0, or an errno. */
static int read_all(int fd, buf *b)
{
    for (;;) {
        uint8_t *p = buf_reserve(b, b->max - b->n < 65536 ? b->max - b->n : 65536);
        if (!p) return ENOMEM;
        ssize_t got = read(fd, p, b->max - b->n < 65536 ? b->max - b->n : 65536);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        b->n += (size_t)got;
        if (got == 0 || b->n == b->max) return 0;
    }
}

static int l_buf_gc(lua_State *L)
{
    buf_fini((buf *)lua_touserdata(L, 1));
    return 0;
}

/* A buffer that is freed whatever throws. Pushes its box. */
static buf *push_buf(lua_State *L, size_t max)
{
    buf *b = (buf *)lua_newuserdatauv(L, sizeof *b, 0); // … box
    buf_init(b, max);
    if (luaL_newmetatable(L, "lunette.buf")) { // … box mt
        lua_pushcfunction(L, l_buf_gc);        // … box mt fn
        lua_setfield(L, -2, "__gc");           // … box mt
    }
    lua_setmetatable(L, -2); // … box
    return b;
}

/* Opens a file for reading and never waits for it: a FIFO that nobody writes to would hold the loop for good. A
 * descriptor, or -1 with errno (EINVAL: it is no regular file). */
static int open_regular(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))) return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

/* fs.read(path, max_bytes) -> text, or nil, err (LimitExceeded when the file is longer). Regular files only. */
static int l_read(lua_State *L)
{
    const char *path = check_path(L, 1);
    lua_Integer max = luaL_checkinteger(L, 2);
    luaL_argcheck(L, max >= 0 && (size_t)max < BUF_MAX_DEFAULT, 2, "must be from 0 to 268435455 bytes");
    buf *b = push_buf(L, (size_t)max + 1);
    int fd = open_regular(path);
    if (fd < 0) return push_errno(L, errno, "open", path);
    int sys = read_all(fd, b);
    close(fd);
    if (sys) return push_errno(L, sys, "read", path);
    if (b->n > (size_t)max) {
        err e = {0};
        err_set(&e, ERR_LIMIT, "%s is longer than %lld bytes", path, (long long)max);
        err_detail(&e, "%s", path);
        return host_push_err(L, &e);
    }
    lua_pushlstring(L, (const char *)b->p, b->n);
    buf_fini(b);
    return 1;
}

/* fs.head(path, n) -> the first n bytes, or less when it has less; nil, err. Regular files only. */
static int l_head(lua_State *L)
{
    const char *path = check_path(L, 1);
    char head[HEAD_MAX];
    lua_Integer max = luaL_checkinteger(L, 2);
    luaL_argcheck(L, max >= 0 && max <= HEAD_MAX, 2, "must be from 0 to 4096 bytes");
    int fd = open_regular(path);
    if (fd < 0) return push_errno(L, errno, "open", path);
    ssize_t n = pread(fd, head, (size_t)max, 0);
    int sys = n < 0 ? errno : 0;
    close(fd);
    if (sys) return push_errno(L, sys, "read", path);
    lua_pushlstring(L, head, (size_t)n);
    return 1;
}

/* ---- write ---- */

/* Makes the folders of path (all of it, or all but its last name) with mode 0700. 0, or an errno. */
static int make_folders(const char *path, bool all)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof part) return ENAMETOOLONG;
    memcpy(part, path, n + 1);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST) return errno;
        *p = '/';
    }
    if (!all) return 0;
    if (mkdir(part, 0700) == 0) return 0;
    if (errno != EEXIST) return errno;
    struct stat st;
    if (stat(part, &st) != 0) return errno;
    return S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
}

static int write_all(int fd, const char *p, size_t n)
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

/* Writes a new file beside path and renames it over path, so that a reader sees the old or the new one, whole. 0, or an
 * errno. */
static int replace_file(const char *path, const char *data, size_t n)
{
    char temp[PATH_MAX];
    int len = snprintf(temp, sizeof temp, "%s.XXXXXX", path);
    if (len < 0 || (size_t)len >= sizeof temp) return ENAMETOOLONG;
    int fd = mkostemp(temp, O_CLOEXEC); /* 0600 */
    if (fd < 0) return errno;
    int sys = write_all(fd, data, n);
    if (!sys && fsync(fd) != 0 && errno != EINVAL) sys = errno;
    if (close(fd) != 0 && !sys) sys = errno;
    if (!sys && rename(temp, path) != 0) sys = errno;
    if (sys) unlink(temp);
    return sys;
}

/* fs.write_private(path, data) -> true, or nil, err */
static int l_write_private(lua_State *L)
{
    size_t n;
    const char *path = check_path(L, 1);
    const char *data = luaL_checklstring(L, 2, &n);
    int sys = make_folders(path, false);
    if (!sys) sys = replace_file(path, data, n);
    if (sys) return push_errno(L, sys, "write", path);
    lua_pushboolean(L, 1);
    return 1;
}

/* fs.mkdirs(path) -> true, or nil, err: new folders are 0700 */
static int l_mkdirs(lua_State *L)
{
    const char *path = check_path(L, 1);
    int sys = make_folders(path, true);
    if (sys) return push_errno(L, sys, "make folder", path);
    lua_pushboolean(L, 1);
    return 1;
}

/* fs.remove(path) -> true, or nil, err: a file, a link or an empty folder */
static int l_remove(lua_State *L)
{
    const char *path = check_path(L, 1);
    if (remove(path) != 0) return push_errno(L, errno, "remove", path);
    lua_pushboolean(L, 1);
    return 1;
}

/* ---- look ---- */

static int l_dir_gc(lua_State *L)
{
    DIR **box = (DIR **)lua_touserdata(L, 1);
    if (*box) closedir(*box);
    *box = NULL;
    return 0;
}

/* An open directory that is closed whatever throws. Pushes its box; *NULL with errno set when it cannot be opened. */
static DIR **push_dir(lua_State *L, const char *path)
{
    DIR **box = (DIR **)lua_newuserdatauv(L, sizeof *box, 0); // … box
    *box = NULL;
    if (luaL_newmetatable(L, "lunette.dir")) { // … box mt
        lua_pushcfunction(L, l_dir_gc);        // … box mt fn
        lua_setfield(L, -2, "__gc");           // … box mt
    }
    lua_setmetatable(L, -2); // … box
    *box = opendir(path);
    return box;
}

static void sort_names(lua_State *L)
{
    lua_getglobal(L, "table");   // … list table
    lua_getfield(L, -1, "sort"); // … list table sort
    lua_pushvalue(L, -3);        // … list table sort list
    lua_call(L, 1, 0);           // … list table
    lua_pop(L, 1);               // … list
}

/* fs.list(dir) -> names sorted, without "." and "..", or nil, err. The list's field dropped counts names over 65536. */
static int l_list(lua_State *L)
{
    const char *path = check_path(L, 1);
    lua_settop(L, 1);              // path
    DIR **box = push_dir(L, path); // path box
    if (!*box) return push_errno(L, errno, "list", path);
    lua_newtable(L); // path box list
    lua_Integer n = 0, dropped = 0;
    errno = 0;
    for (struct dirent *d; (d = readdir(*box)); errno = 0) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
        if (n == LIST_MAX) {
            dropped++;
            continue;
        }
        lua_pushstring(L, d->d_name); // path box list name
        lua_rawseti(L, 3, ++n);       // path box list
    }
    int sys = errno;
    closedir(*box);
    *box = NULL;
    if (sys) return push_errno(L, sys, "list", path);
    sort_names(L);
    if (dropped) {
        lua_pushinteger(L, dropped);   // path box list dropped
        lua_setfield(L, 3, "dropped"); // path box list
    }
    return 1;
}

static const char *kind_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return "file";
    case S_IFDIR: return "directory";
    case S_IFLNK: return "link";
    case S_IFSOCK: return "socket";
    case S_IFIFO: return "fifo";
    case S_IFCHR:
    case S_IFBLK: return "device";
    default: return "other";
    }
}

/* fs.stat(path) -> {kind, size, mode, uid, mtime_ns}, or nil, err. Does not follow a link at the end. */
static int l_stat(lua_State *L)
{
    const char *path = check_path(L, 1);
    struct stat st;
    if (lstat(path, &st) != 0) return push_errno(L, errno, "look at", path);
    lua_createtable(L, 0, 5);                 // path stat
    lua_pushstring(L, kind_name(st.st_mode)); // path stat kind
    lua_setfield(L, -2, "kind");              // path stat
    host_set_int(L, "size", st.st_size);
    host_set_int(L, "mode", st.st_mode & 07777);
    host_set_int(L, "uid", st.st_uid);
    host_set_int(L, "mtime_ns", (lua_Integer)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    return 1;
}

/* fs.realpath(path) -> the absolute path without links, or nil, err */
static int l_realpath(lua_State *L)
{
    const char *path = check_path(L, 1);
    char real[PATH_MAX];
    if (!realpath(path, real)) return push_errno(L, errno, "resolve", path);
    lua_pushstring(L, real);
    return 1;
}

static const luaL_Reg FS_FUNCS[] = {{"read", l_read},     {"head", l_head},     {"write_private", l_write_private},
                                    {"list", l_list},     {"stat", l_stat},     {"realpath", l_realpath},
                                    {"mkdirs", l_mkdirs}, {"remove", l_remove}, {NULL, NULL}};

int luaopen_lunette_fs(lua_State *L)
{
    luaL_newlib(L, FS_FUNCS);
    return 1;
}
