/* SPDX-License-Identifier: MIT */
/* Messages on standard input and output. Neither descriptor is switched to non-blocking (they may be shared with a
 * terminal or a parent): input is read when epoll says so, output goes in pieces that a pipe takes without blocking. */
#include "transport/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

struct stdio_link {
    loop *l;
    stdio_cfg cfg;
    loop_fd *in_watch, *out_watch;
    int out_fd;
    bool out_is_pipe, out_is_socket;
    bool skipping, eof, broken, freed, reading;
    bool posted;    /* read_file is due: the loop holds us */
    size_t scanned; /* bytes of in that hold no LF */
    buf in, out;
    size_t out_off; /* bytes of out that are written already */
};

static void link_eof(stdio_link *s)
{
    if (s->eof) return;
    s->eof = true;
    loop_fd_del(s->in_watch);
    s->in_watch = NULL;
    if (s->cfg.on_eof) s->cfg.on_eof(s->cfg.arg);
}

static void give_line(stdio_link *s, const uint8_t *p, size_t n)
{
    if (n > 0 && p[n - 1] == '\r') n--;
    if (s->skipping) {
        s->skipping = false;
        s->cfg.on_line(s->cfg.arg, (slice){0}, true);
    } else if (n > 0) {
        s->cfg.on_line(s->cfg.arg, slice_of(p, n), false);
    }
}

static void split_lines(stdio_link *s)
{
    size_t start = 0;
    while (!s->freed) {
        const uint8_t *from = s->in.p + s->scanned;
        const uint8_t *lf = s->scanned < s->in.n ? memchr(from, '\n', s->in.n - s->scanned) : NULL;
        if (!lf) break;
        size_t end = (size_t)(lf - s->in.p);
        s->scanned = end + 1;
        give_line(s, s->in.p + start, end - start);
        start = end + 1;
    }
    if (s->freed) return;
    buf_consume(&s->in, start);
    s->scanned = s->in.n;
    if (s->in.n <= s->cfg.line_max) return;
    s->skipping = true;
    buf_reset(&s->in);
    s->scanned = 0;
}

/* One read; false when there is nothing more for now, or for ever. */
static bool read_some(stdio_link *s)
{
    uint8_t *room = buf_reserve(&s->in, 65536);
    ssize_t n = room ? read(STDIN_FILENO, room, 65536) : -1;
    if (n < 0) {
        if (errno == EINTR || errno == EAGAIN) return false;
        link_eof(s);
        return false;
    }
    if (n == 0) {
        if (s->in.n > 0) give_line(s, s->in.p, s->in.n);
        if (!s->freed) link_eof(s);
        return false;
    }
    s->in.n += (size_t)n;
    split_lines(s);
    return !s->freed && !s->eof;
}

static void on_readable(void *arg, uint32_t events)
{
    stdio_link *s = arg;
    (void)events;
    s->reading = true;
    read_some(s);
    s->reading = false;
    if (s->freed) stdio_free(s);
}

/* Regular files cannot be watched; they never block either. */
static void read_file(void *arg)
{
    stdio_link *s = arg;
    s->posted = false;
    s->reading = true;
    bool more = !s->freed && read_some(s);
    s->reading = false;
    if (s->freed)
        stdio_free(s);
    else if (more && !(s->posted = loop_post(s->l, read_file, s)))
        link_eof(s);
}

/* ---- output ---- */
static size_t out_left(const stdio_link *s) { return s->out.n - s->out_off; }

/* Writes one piece if that cannot block: bytes written, 0 when it would, -1 when the reader is gone. */
static ssize_t write_piece(stdio_link *s)
{
    const uint8_t *from = s->out.p + s->out_off;
    ssize_t n;
    if (s->out_is_socket) {
        n = send(s->out_fd, from, out_left(s), MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
        struct pollfd p = {.fd = s->out_fd, .events = POLLOUT};
        if (poll(&p, 1, 0) <= 0) return 0;
        n = write(s->out_fd, from, s->out_is_pipe && out_left(s) > PIPE_BUF ? PIPE_BUF : out_left(s));
    }
    if (n >= 0) return n;
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static void write_some(stdio_link *s)
{
    while (out_left(s) > 0 && !s->broken) {
        ssize_t n = write_piece(s);
        if (n == 0) break;
        if (n < 0)
            s->broken = true;
        else
            s->out_off += (size_t)n;
    }
    if (s->out_off < s->out.n && s->out_off < s->out.n / 2) return;
    buf_consume(&s->out, s->out_off);
    s->out_off = 0;
}

static void on_writable(void *arg, uint32_t events);

static void watch_output(stdio_link *s)
{
    err e = {0};
    if (out_left(s) == 0 || s->broken) {
        loop_fd_del(s->out_watch);
        s->out_watch = NULL;
    } else if (!s->out_watch && loop_fd_add(s->l, s->out_fd, EPOLLOUT, on_writable, s, &s->out_watch, &e) < 0) {
        s->broken = true;
    }
    if (s->broken) link_eof(s);
}

static void on_writable(void *arg, uint32_t events)
{
    stdio_link *s = arg;
    (void)events;
    write_some(s);
    watch_output(s);
}

int stdio_write(stdio_link *s, slice line, err *e)
{
    if (s->broken) return err_set(e, ERR_CANCELLED, "nobody reads the standard output any more");
    if (!buf_slice(&s->out, line) || !buf_u8(&s->out, '\n')) {
        s->broken = true;
        watch_output(s);
        return err_set(e, ERR_LIMIT, "the client left more than %zu bytes of output unread", STDIO_BACKLOG_MAX);
    }
    write_some(s);
    watch_output(s);
    return s->broken ? err_set(e, ERR_CANCELLED, "nobody reads the standard output any more") : 0;
}

bool stdio_flush(stdio_link *s, int ms)
{
    int64_t deadline = deadline_in_ms(ms);
    while (out_left(s) > 0 && !s->broken) {
        write_some(s);
        struct pollfd p = {.fd = s->out_fd, .events = POLLOUT};
        if (out_left(s) > 0 && poll(&p, 1, deadline_poll_ms(deadline)) <= 0) break;
    }
    return out_left(s) == 0;
}

static int claim_output(stdio_link *s, err *e)
{
    struct stat st;
    s->out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (s->out_fd < 0) return err_sys(e, ERR_IO, errno, "standard output is not open");
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return err_sys(e, ERR_IO, errno, "cannot lead stray output to standard error");
    if (fstat(s->out_fd, &st) < 0) return err_sys(e, ERR_IO, errno, "cannot look at standard output");
    s->out_is_pipe = !S_ISREG(st.st_mode);
    s->out_is_socket = S_ISSOCK(st.st_mode);
    return 0;
}

static int claim_input(stdio_link *s, err *e)
{
    struct stat st;
    if (fstat(STDIN_FILENO, &st) < 0) return err_sys(e, ERR_IO, errno, "standard input is not open");
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        int rc = loop_fd_add(s->l, STDIN_FILENO, EPOLLIN, on_readable, s, &s->in_watch, e);
        if (rc == 0 || !e || e->sys != EPERM) return rc;
        err_clear(e); /* /dev/null and its like cannot be watched, but do not block */
    }
    s->posted = loop_post(s->l, read_file, s);
    return s->posted ? 0 : err_set(e, ERR_NO_MEMORY, "no memory to read standard input");
}

int stdio_start(loop *l, const stdio_cfg *cfg, stdio_link **out, err *e)
{
    stdio_link *s = mem_calloc(1, sizeof *s);
    if (!s) return err_set(e, ERR_NO_MEMORY, "no memory for standard input and output");
    s->l = l;
    s->cfg = *cfg;
    s->out_fd = -1;
    if (!s->cfg.line_max) s->cfg.line_max = STDIO_LINE_MAX_DEFAULT;
    buf_init(&s->in, s->cfg.line_max + (size_t)2 * 65536);
    buf_init(&s->out, STDIO_BACKLOG_MAX);
    int rc = claim_output(s, e);
    if (rc == 0) rc = claim_input(s, e);
    if (rc < 0) {
        stdio_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void stdio_free(stdio_link *s)
{
    if (!s) return;
    loop_fd_del(s->in_watch);
    loop_fd_del(s->out_watch);
    s->in_watch = s->out_watch = NULL;
    s->freed = true;
    if (s->reading || s->posted) return; /* our caller's caller frees it, or read_file does */
    if (s->out_fd >= 0) close(s->out_fd);
    buf_fini(&s->in);
    buf_fini(&s->out);
    free(s);
}
