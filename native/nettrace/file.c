/* SPDX-License-Identifier: MIT */
/* file.c: feeds a file to a reader: a bare .nettrace file, or the first .nettrace member of a zip archive, inflated as
 * it goes. Zip format: PKWARE APPNOTE 6.3 (local headers, data descriptors are not needed: sizes come from the central
 * directory). */
#include "nettrace/nt_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#define CHUNK             ((size_t)256 << 10)
#define HEADS             ((size_t)4 << 10)
#define ZIP_END_BYTES     22
#define ZIP_COMMENT_MAX   65535
#define ZIP_ENTRY_BYTES   46
#define ZIP_LOCAL_BYTES   30
#define ZIP_DIRECTORY_MAX ((uint64_t)16 << 20)
#define ZIP_MEMBERS_MAX   65535

typedef struct source {
    int fd;
    uint64_t size, done;
    uint8_t *in, *out; /* CHUNK bytes each; out only for archives */
    int (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
} source;

static int told(source *s, err *e)
{
    if (s->progress && s->progress(s->progress_arg, s->done, s->size) != 0)
        return err_set(e, ERR_CANCELLED, "reading the trace was cancelled");
    return 0;
}

/* Up to n bytes; 0 at the end of the file. */
static ssize_t read_some(source *s, uint8_t *to, size_t n, err *e)
{
    ssize_t got;
    do
        got = read(s->fd, to, n);
    while (got < 0 && errno == EINTR);
    if (got < 0) return err_sys(e, ERR_IO, errno, "reading the trace failed");
    s->done += (uint64_t)got;
    return got;
}

/* Reads the rest of the block that is due straight into its place, and a little more, which holds the next block's
 * head. */
static ssize_t read_in_place(source *s, nt_reader *r, uint64_t most, err *e)
{
    size_t room;
    uint8_t *place = nt__room(r, &room);
    struct iovec parts[2] = {{place, room < most ? room : (size_t)most}, {s->in, room ? HEADS : CHUNK}};
    if (parts[1].iov_len > most - parts[0].iov_len) parts[1].iov_len = (size_t)(most - parts[0].iov_len);
    ssize_t got;
    do
        got = readv(s->fd, parts, 2);
    while (got < 0 && errno == EINTR);
    if (got < 0) return err_sys(e, ERR_IO, errno, "reading the trace failed");
    s->done += (uint64_t)got;
    size_t placed = (size_t)got < parts[0].iov_len ? (size_t)got : parts[0].iov_len;
    int rc = nt__commit(r, placed, e);
    if (rc >= 0) rc = nt_feed(r, s->in, (size_t)got - placed, e);
    return rc < 0 ? rc : got;
}

static int read_at(source *s, uint64_t at, uint8_t *to, size_t n, err *e)
{
    for (size_t have = 0; have < n;) {
        ssize_t got = pread(s->fd, to + have, n - have, (off_t)(at + have));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return err_sys(e, ERR_IO, errno, "reading the archive failed");
        if (got == 0) return err_at(e, ERR_TRUNCATED, (int64_t)(at + have), "the archive ends too early");
        have += (size_t)got;
    }
    return 0;
}

static int feed_plain(source *s, nt_reader *r, uint64_t bytes, err *e)
{
    while (bytes && !nt_ended(r)) {
        ssize_t got = read_in_place(s, r, bytes, e);
        if (got < 0) return (int)got;
        if (got == 0) break;
        bytes -= (uint64_t)got;
        int rc = told(s, e);
        if (rc < 0) return rc;
    }
    return nt_finish(r, e);
}

static int inflate_round(z_stream *z, source *s, nt_reader *r, err *e)
{
    z->next_out = s->out;
    z->avail_out = (uInt)CHUNK;
    int zrc = inflate(z, Z_NO_FLUSH);
    int rc = nt_feed(r, s->out, CHUNK - z->avail_out, e);
    if (rc < 0) return rc;
    if (zrc == Z_STREAM_END) return 1;
    if (zrc == Z_OK || (zrc == Z_BUF_ERROR && z->avail_in == 0)) return 0;
    return err_at(e, ERR_MALFORMED, (int64_t)s->done, "the archive's compressed data is damaged (zlib: %s)",
                  z->msg ? z->msg : "error");
}

static int feed_deflated(source *s, nt_reader *r, uint64_t bytes, err *e)
{
    z_stream z = {0};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return err_set(e, ERR_NO_MEMORY, "no memory to inflate the archive");
    int rc = 0;
    while (rc == 0 && bytes && !nt_ended(r)) {
        ssize_t got = read_some(s, s->in, bytes < CHUNK ? (size_t)bytes : CHUNK, e);
        if (got <= 0) {
            rc = got < 0 ? (int)got : 1;
            break;
        }
        bytes -= (uint64_t)got;
        z.next_in = s->in;
        z.avail_in = (uInt)got;
        do
            rc = inflate_round(&z, s, r, e);
        while (rc == 0 && (z.avail_in || z.avail_out == 0) && !nt_ended(r));
        if (rc >= 0 && told(s, e) < 0) rc = -ERR_CANCELLED;
    }
    inflateEnd(&z);
    return rc < 0 ? rc : nt_finish(r, e);
}

/* One member of the archive. */
typedef struct member {
    uint16_t method, flags;
    uint64_t packed, local_at;
} member;

static int open_member(source *s, const member *m, nt_reader *r, err *e)
{
    uint8_t head[ZIP_LOCAL_BYTES];
    int rc = read_at(s, m->local_at, head, sizeof head, e);
    if (rc < 0) return rc;
    if (memcmp(head, "PK\3\4", 4) != 0)
        return err_at(e, ERR_MALFORMED, (int64_t)m->local_at, "the archive has no member where its directory says");
    cursor c = cursor_of(slice_of(head + 26, 4), 0);
    uint64_t data = m->local_at + ZIP_LOCAL_BYTES + cursor_u16(&c);
    data += cursor_u16(&c);
    if (m->flags & 1) return err_set(e, ERR_NOT_SUPPORTED, "the trace in the archive is encrypted");
    if (lseek(s->fd, (off_t)data, SEEK_SET) < 0) return err_sys(e, ERR_IO, errno, "seeking in the archive failed");
    s->done = data;
    if (m->method == 0) return feed_plain(s, r, m->packed, e);
    if (m->method == Z_DEFLATED) return feed_deflated(s, r, m->packed, e);
    return err_set(e, ERR_NOT_SUPPORTED, "the archive uses compression method %u; stored and deflated can be read",
                   m->method);
}

static int find_member(source *s, slice directory, uint64_t at, nt_reader *r, err *e)
{
    cursor c = cursor_of(directory, (int64_t)at);
    for (unsigned i = 0; i < ZIP_MEMBERS_MAX && cursor_left(&c) >= ZIP_ENTRY_BYTES; i++) {
        member m;
        if (cursor_u32(&c) != 0x02014b50) break;
        cursor_skip(&c, 4);
        m.flags = cursor_u16(&c);
        m.method = cursor_u16(&c);
        cursor_skip(&c, 8);
        m.packed = cursor_u32(&c);
        cursor_skip(&c, 4);
        size_t name_len = cursor_u16(&c), extra = cursor_u16(&c), comment = cursor_u16(&c);
        cursor_skip(&c, 8);
        m.local_at = cursor_u32(&c);
        slice name = cursor_bytes(&c, name_len);
        cursor_skip(&c, extra + comment);
        if (!cursor_ok(&c)) break;
        if (!slice_ends(name, SLICE_LIT(".nettrace"))) continue;
        if (m.packed == UINT32_MAX || m.local_at == UINT32_MAX)
            return err_set(e, ERR_NOT_SUPPORTED, "the trace in the archive is over 4 GiB (zip64): unpack it first");
        return open_member(s, &m, r, e);
    }
    return err_set(e, ERR_NOT_FOUND, "the archive holds no .nettrace file");
}

static int feed_zip(source *s, nt_reader *r, err *e)
{
    size_t tail = s->size < ZIP_END_BYTES + ZIP_COMMENT_MAX ? (size_t)s->size : ZIP_END_BYTES + ZIP_COMMENT_MAX;
    int rc = read_at(s, s->size - tail, s->in, tail, e);
    if (rc < 0) return rc;
    size_t i = tail < ZIP_END_BYTES ? 0 : tail - ZIP_END_BYTES + 1;
    while (i > 0 && memcmp(s->in + i - 1, "PK\5\6", 4) != 0)
        i--;
    if (i == 0) return err_set(e, ERR_MALFORMED, "the archive has no directory: it is cut, or no zip file");
    cursor c = cursor_of(slice_of(s->in + i - 1, ZIP_END_BYTES), 0);
    cursor_skip(&c, 12);
    uint64_t size = cursor_u32(&c), at = cursor_u32(&c);
    if (size > ZIP_DIRECTORY_MAX || at + size > s->size)
        return err_set(e, ERR_MALFORMED, "the archive's directory lies outside of it");
    uint8_t *directory = mem_alloc(size ? (size_t)size : 1);
    if (!directory) return err_set(e, ERR_NO_MEMORY, "no memory for the archive's directory");
    rc = read_at(s, at, directory, (size_t)size, e);
    if (rc >= 0) rc = find_member(s, slice_of(directory, (size_t)size), at, r, e);
    free(directory);
    return rc;
}

static int read_source(source *s, nt_reader *r, err *e)
{
    uint8_t magic[4] = {0};
    bool seekable = lseek(s->fd, 0, SEEK_CUR) >= 0;
    s->in = mem_alloc(CHUNK);
    s->out = mem_alloc(CHUNK);
    if (!s->in || !s->out) return err_set(e, ERR_NO_MEMORY, "no memory to read the trace");
    if (seekable && s->size >= 4 && read_at(s, 0, magic, 4, e) < 0) return -(int)ERR_IO;
    if (memcmp(magic, "PK\3\4", 4) == 0) return feed_zip(s, r, e);
    return feed_plain(s, r, UINT64_MAX, e);
}

int nt_read_file(nt_reader *r, const char *path, int (*progress)(void *arg, uint64_t done, uint64_t total),
                 void *progress_arg, err *e)
{
    source s = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), .progress = progress, .progress_arg = progress_arg};
    if (s.fd < 0) {
        err_kind kind = errno == ENOENT ? ERR_NOT_FOUND : errno == EACCES ? ERR_PERMISSION_DENIED : ERR_IO;
        return err_sys(e, kind, errno, "cannot open %s", path);
    }
    struct stat st;
    int rc = 0;
    if (fstat(s.fd, &st) != 0)
        rc = err_sys(e, ERR_IO, errno, "cannot look at %s", path);
    else if (S_ISDIR(st.st_mode))
        rc = err_set(e, ERR_INVALID_ARGUMENT, "%s is a folder", path);
    else if (S_ISREG(st.st_mode))
        s.size = (uint64_t)st.st_size;
    if (rc == 0) rc = read_source(&s, r, e);
    free(s.in);
    free(s.out);
    close(s.fd);
    return rc;
}
