/* SPDX-License-Identifier: MIT */
/* piece.c: a piece of a file with the digest of the whole. A client fetches a file in many pieces and each answer holds
 * the same digest, so it is worked out once and remembered for as long as the file's stamp stays the same. */
#include <errno.h>
#include <nettle/sha2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artifacts/artifacts.h"

#define REMEMBERED 32 /* digests */
#define STEP       ((size_t)1 << 20)

typedef struct stamp {
    dev_t dev;
    ino_t ino;
    int64_t size, mtime_ns, ctime_ns;
} stamp;
static struct {
    pthread_mutex_t lock;
    unsigned next;
    struct {
        stamp of;
        char sha256[65];
    } known[REMEMBERED];
} digests = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t ns_of(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }
static stamp stamp_of(const struct stat *st)
{
    return (stamp){st->st_dev, st->st_ino, st->st_size, ns_of(st->st_mtim), ns_of(st->st_ctim)};
}
static bool same(const stamp *a, const stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

static bool recall(const stamp *of, char out[65])
{
    bool found = false;
    pthread_mutex_lock(&digests.lock);
    for (unsigned i = 0; i < REMEMBERED && !found; i++) {
        found = digests.known[i].sha256[0] && same(&digests.known[i].of, of);
        if (found) memcpy(out, digests.known[i].sha256, 65);
    }
    pthread_mutex_unlock(&digests.lock);
    return found;
}

static void remember(const stamp *of, const char sha256[65])
{
    pthread_mutex_lock(&digests.lock);
    digests.known[digests.next].of = *of;
    memcpy(digests.known[digests.next].sha256, sha256, 65);
    digests.next = (digests.next + 1) % REMEMBERED;
    pthread_mutex_unlock(&digests.lock);
}

/* Reads up to n bytes; fewer at the end of the file only. Negative: failed, with errno. */
static ssize_t read_at(int fd, uint8_t *p, size_t n, int64_t offset)
{
    size_t at = 0;
    while (at < n) {
        ssize_t got = pread(fd, p + at, n - at, offset + (int64_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        at += (size_t)got;
    }
    return (ssize_t)at;
}

static int digest(int fd, int64_t size, char out[65], err *e)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t *step = mem_alloc(STEP), sum[SHA256_DIGEST_SIZE];
    if (!step) return err_set(e, ERR_NO_MEMORY, "no memory to read a file");
    struct sha256_ctx h;
    sha256_init(&h);
    int rc = 0;
    for (int64_t at = 0; rc == 0 && at < size;) {
        ssize_t got = read_at(fd, step, STEP, at);
        if (got < 0) rc = err_sys(e, ERR_IO, errno, "the file cannot be read");
        if (got <= 0) break;
        sha256_update(&h, (size_t)got, step);
        at += got;
    }
    free(step);
    sha256_digest(&h, sizeof sum, sum);
    for (size_t i = 0; i < sizeof sum; i++) {
        out[2 * i] = hex[sum[i] >> 4];
        out[2 * i + 1] = hex[sum[i] & 15];
    }
    out[64] = '\0';
    return rc;
}

static int check(const struct stat *st, int64_t offset, int64_t limit, err *e)
{
    int rc = 0;
    if (st->st_size > limit) {
        rc = err_set(e, ERR_INVALID_ARGUMENT,
                     "the file has %lld bytes; at most %lld are handed out. Copy it from the host",
                     (long long)st->st_size, (long long)limit);
    } else if (offset > st->st_size) {
        rc = err_set(e, ERR_INVALID_ARGUMENT, "offset %lld is past the end of the file, which has %lld bytes",
                     (long long)offset, (long long)st->st_size);
        err_detail(e, "offset");
    }
    return rc;
}

int art_read(int fd, int64_t offset, size_t max, int64_t limit, art_piece *out, err *e)
{
    struct stat st, after;
    if (fstat(fd, &st) != 0) return err_sys(e, ERR_IO, errno, "the file cannot be looked at");
    int rc = check(&st, offset, limit, e);
    if (rc < 0) return rc;
    stamp before = stamp_of(&st);
    size_t n = (uint64_t)(st.st_size - offset) < max ? (size_t)(st.st_size - offset) : max;
    buf_init(&out->bytes, n + 1);
    uint8_t *p = n ? buf_reserve(&out->bytes, n) : NULL;
    if (n && !p) return err_set(e, ERR_NO_MEMORY, "no memory for %zu bytes of a file", n);
    ssize_t got = n ? read_at(fd, p, n, offset) : 0;
    if (got < 0) return err_sys(e, ERR_IO, errno, "the file cannot be read");
    out->bytes.n = (size_t)got;
    out->size = st.st_size;
    bool known = recall(&before, out->sha256);
    if (!known) rc = digest(fd, st.st_size, out->sha256, e);
    if (rc < 0) return rc;
    if (fstat(fd, &after) != 0) return err_sys(e, ERR_IO, errno, "the file cannot be looked at");
    stamp now = stamp_of(&after);
    if (!same(&before, &now) || (size_t)got != n)
        return err_set(e, ERR_CONFLICT, "the file changed while it was read; begin again at offset 0");
    if (!known) remember(&before, out->sha256);
    return 0;
}

void art_piece_fini(art_piece *p) { buf_fini(&p->bytes); }
