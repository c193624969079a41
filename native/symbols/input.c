/* SPDX-License-Identifier: MIT */
/* input.c: bytes of a file, by pread. */
#include "symbols/input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

void sym_input_memory(sym_input *in, slice bytes) { *in = (sym_input){.fd = -1, .mem = bytes, .size = bytes.n}; }

static err_kind kind_of(int sys)
{
    switch (sys) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP: return ERR_NOT_FOUND;
    case EACCES:
    case EPERM: return ERR_PERMISSION_DENIED;
    case ENOMEM: return ERR_NO_MEMORY;
    default: return ERR_IO;
    }
}

static int refuse(sym_input *in, int rc)
{
    sym_input_close(in);
    return rc;
}

int sym_input_open(sym_input *in, const char *path, err *e)
{
    struct stat st;
    *in = (sym_input){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
    if (in->fd < 0) return err_sys(e, kind_of(errno), errno, "cannot open %s", path);
    if (fstat(in->fd, &st) != 0) {
        int sys = errno;
        return refuse(in, err_sys(e, kind_of(sys), sys, "cannot look at %s", path));
    }
    if (!S_ISREG(st.st_mode)) return refuse(in, err_set(e, ERR_NOT_FOUND, "%s is not a file", path));
    if ((uint64_t)st.st_size > SYM_INPUT_MAX)
        return refuse(in, err_set(e, ERR_LIMIT, "%s has %lld bytes; %llu are the most", path, (long long)st.st_size,
                                  (unsigned long long)SYM_INPUT_MAX));
    in->size = (uint64_t)st.st_size;
    in->dev = st.st_dev;
    in->ino = st.st_ino;
    in->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return 0;
}

void sym_input_close(sym_input *in)
{
    if (in->fd >= 0) close(in->fd);
    in->fd = -1;
    in->size = 0;
}

static int read_at(const sym_input *in, uint64_t off, uint8_t *p, size_t n, const char *what, err *e)
{
    for (size_t got = 0; got < n;) {
        ssize_t k = pread(in->fd, p + got, n - got, (off_t)(off + got));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return err_sys(e, ERR_IO, errno, "cannot read %s", what);
        if (k == 0) return err_at(e, ERR_TRUNCATED, (int64_t)(off + got), "the file ends inside %s", what);
        got += (size_t)k;
    }
    return 0;
}

int sym_input_get(const sym_input *in, uint64_t off, size_t n, arena *a, slice *out, const char *what, err *e)
{
    if (off > in->size || in->size - off < n)
        return err_at(e, ERR_TRUNCATED, (int64_t)in->size, "the file ends before or inside %s", what);
    if (in->fd < 0) {
        *out = n ? slice_of(in->mem.p + off, n) : (slice){0};
        return 0;
    }
    uint8_t *p = arena_alloc(a, n ? n : 1);
    if (!p) return err_set(e, ERR_NO_MEMORY, "no memory for %zu bytes of %s", n, what);
    int rc = read_at(in, off, p, n, what, e);
    if (rc == 0) *out = slice_of(p, n);
    return rc;
}
