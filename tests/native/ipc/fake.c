/* SPDX-License-Identifier: MIT */
/* fake.c: the fake diagnostics server. */
#include "ipc/fake.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/utf.h"

typedef struct conn {
    fake *f;
    int fd;
} conn;

uint64_t own_start_time(void)
{
    ipc__proc p;
    assert_int_equal(ipc__proc_read("/proc", getpid(), &p, NULL), 0);
    ipc__proc_fini(&p);
    return p.start_time;
}

static void *conn_main(void *arg)
{
    conn c = *(conn *)arg;
    free(arg);
    buf b;
    buf_init(&b, 0);
    ipc_request r = {0};
    bool whole = c.f->raw;
    if (!whole && ipc__recv(c.fd, &b, IPC_HEADER_SIZE, deadline_in_ms(5000), NULL, NULL) == 0) {
        int size = ipc_header_size(buf_view(&b), NULL);
        whole = size > 0 && ipc__recv(c.fd, &b, (size_t)size - IPC_HEADER_SIZE, deadline_in_ms(5000), NULL, NULL) == 0;
        if (whole) (void)ipc_request_parse(buf_view(&b), &r, NULL);
    }
    if (whole) {
        if (r.command == IPC_STOP_TRACING) c.f->stops++;
        c.f->serve(c.f, c.fd, c.f->raw ? NULL : &r, buf_view(&b));
    }
    buf_fini(&b);
    (void)close(c.fd);
    c.f->open--;
    return NULL;
}

static void *fake_main(void *arg)
{
    fake *f = arg;
    while (!f->over) {
        struct pollfd p = {.fd = f->listener, .events = POLLIN};
        if (poll(&p, 1, 20) <= 0) continue;
        int fd = accept(f->listener, NULL, NULL);
        if (fd < 0) continue;
        f->connections++;
        f->open++;
        conn *c = malloc(sizeof *c);
        *c = (conn){f, fd};
        pthread_t t;
        pthread_attr_t a;
        pthread_attr_init(&a);
        pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
        if (pthread_create(&t, &a, conn_main, c) != 0) abort();
        pthread_attr_destroy(&a);
    }
    return NULL;
}

void fake_start(fake *f, fake_serve serve, void *arg, uint64_t key)
{
    bool raw = f->raw;
    *f = (fake){.serve = serve, .arg = arg, .raw = raw, .key = key ? key : own_start_time()};
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/lunette-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof f->path, "%s/dotnet-diagnostic-%d-%llu-socket", f->dir, getpid(),
                   (unsigned long long)f->key);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", f->path);
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(f->listener, 255), 0);
    assert_int_equal(pthread_create(&f->thread, NULL, fake_main, f), 0);
}

void fake_stop(fake *f)
{
    f->over = true;
    pthread_join(f->thread, NULL);
    for (int i = 0; f->open > 0 && i < 1000; i++)
        (void)poll(NULL, 0, 5);
    assert_int_equal(f->open, 0);
    (void)close(f->listener);
    (void)unlink(f->path);
    (void)rmdir(f->dir);
}

ipc_endpoint fake_endpoint(const fake *f)
{
    ipc_endpoint ep = {.pid = getpid(),
                       .nspid = getpid(),
                       .start_time = own_start_time(),
                       .uid = getuid(),
                       .same_namespace = true,
                       .n_sockets = 1};
    ep.sockets[0] = (ipc_socket){.path = slice_dup(slice_str(f->path)), .key = f->key, .key_matches = true};
    return ep;
}

void fake_write(int fd, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t w = send(fd, (const uint8_t *)p + at, n - at, MSG_NOSIGNAL);
        if (w < 0) return;
        at += (size_t)w;
    }
}

void fake_write_slowly(int fd, const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fake_write(fd, (const uint8_t *)p + i, 1);
}

size_t fake_answer(uint8_t *out, bool ok, const void *payload, size_t n)
{
    memcpy(out, "DOTNET_IPC_V1", 14);
    uint16_t size = (uint16_t)(IPC_HEADER_SIZE + n);
    memcpy(out + 14, &size, 2);
    memcpy(out + 16, ok ? "\xFF\x00\x00\x00" : "\xFF\xFF\x00\x00", 4);
    if (n) memcpy(out + IPC_HEADER_SIZE, payload, n);
    return size;
}

void fake_ok(int fd, const void *payload, size_t n)
{
    uint8_t m[4096];
    fake_write(fd, m, fake_answer(m, true, payload, n));
}

void fake_error(int fd, uint32_t hresult)
{
    uint8_t m[64];
    fake_write(fd, m, fake_answer(m, false, &hresult, sizeof hresult));
}

void fake_wait_closed(int fd)
{
    char c;
    while (recv(fd, &c, 1, 0) > 0)
        ;
}

static void put_text(buf *b, const char *s)
{
    buf_u32(b, (uint32_t)strlen(s) + 1);
    utf8_to_utf16le(slice_str(s), b);
    buf_u16(b, 0);
}

size_t fake_info(uint8_t *out, int form)
{
    buf b;
    buf_init(&b, 0);
    if (form == 3) buf_u32(&b, 1);
    buf_u64(&b, (uint64_t)getpid());
    for (int i = 0; i < 16; i++)
        buf_u8(&b, (uint8_t)(i + 1));
    put_text(&b, "/app/target --x");
    put_text(&b, "Linux");
    put_text(&b, "x64");
    if (form >= 2) {
        put_text(&b, "target");
        put_text(&b, "10.0.9");
    }
    if (form == 3) put_text(&b, "linux-x64");
    size_t n = b.n;
    memcpy(out, b.p, n);
    buf_fini(&b);
    return n;
}

static int count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    struct dirent *de;
    while ((de = readdir(d)) != NULL)
        if (de->d_name[0] != '.') n++;
    (void)closedir(d);
    return n - (strcmp(dir, "/proc/self/fd") == 0); /* the listing's own descriptor */
}

static void *nothing(void *arg) { return arg; }

void fake_warm_up(void)
{
    pthread_t t;
    if (pthread_create(&t, NULL, nothing, NULL) == 0) pthread_join(t, NULL);
}

int count_fds(void) { return count_entries("/proc/self/fd"); }

int count_threads(void) { return count_entries("/proc/self/task"); }

void assert_nothing_leaked(int fds, int threads)
{
    for (int i = 0; i < 400 && (count_fds() > fds || count_threads() > threads); i++)
        (void)poll(NULL, 0, 5);
    assert_in_range(count_fds(), 0, fds);
    assert_in_range(count_threads(), 0, threads); /* fewer: one of an earlier test was still on its way out */
}
