/* SPDX-License-Identifier: MIT */
/* known.c: a native library that does known amounts of what the kernel's samplers look at, and tells what it did. Each
 * function returns when it is done; results go into out[], whose places are named beside each. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define API  __attribute__((visibility("default"), noinline))
#define SITE __attribute__((noinline))

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void nap(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

static void burn(int64_t ns)
{
    int64_t end = now() + ns;
    while (now() < end) {
    }
}

/* ---- allocations: N, 2N and N/2 calls from three sites ---- */

SITE static void *known_site_malloc(void)
{
    void *p = malloc(64);
    *(volatile char *)p = 1; /* no tail call, and no call left out */
    return p;
}

SITE static void *known_site_calloc(void)
{
    void *p = calloc(2, 100);
    *(volatile char *)p = 1;
    return p;
}

SITE static void *known_site_realloc(void *p)
{
    p = realloc(p, 4096);
    *(volatile char *)p = 1;
    return p;
}

/* out: malloc, calloc, realloc, kept (blocks never freed: every tenth of malloc's) */
API void known_allocs(int n, int64_t *out)
{
    memset(out, 0, 4 * sizeof *out);
    for (int i = 0; i < n; i++) {
        void *a = known_site_malloc(), *b = known_site_calloc(), *c = known_site_calloc();
        out[0]++;
        out[1] += 2;
        if (i % 2) {
            b = known_site_realloc(b);
            out[2]++;
        }
        free(b);
        free(c);
        if (i % 10 == 0)
            out[3]++;
        else
            free(a);
    }
}

/* ---- blocks that are not freed: n of 48 bytes, n / 2 that grew from 100 to 3000, n / 4 of 256 on a boundary ---- */

SITE static void *known_leak_small(void)
{
    void *p = malloc(48);
    *(volatile char *)p = 1;
    return p;
}

SITE static void *known_leak_grown(void *p)
{
    p = realloc(p, 3000);
    *(volatile char *)p = 1;
    return p;
}

SITE static void *known_leak_aligned(void)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, 256) != 0) return NULL;
    *(volatile char *)p = 1;
    return p;
}

/* One of 500 bytes is kept until the next run: its free has no allocation within a window. out: small, grown, aligned,
 * freed (blocks of two other sites) */
API void known_leaks(int n, int64_t *out)
{
    static void *until_next;
    memset(out, 0, 4 * sizeof *out);
    free(until_next);
    until_next = malloc(500);
    for (int i = 0; i < n; i++) {
        (void)known_leak_small();
        out[0]++;
        if (i % 2) {
            (void)known_leak_grown(calloc(1, 100));
            out[1]++;
        }
        if (i % 4 == 3) {
            (void)known_leak_aligned();
            out[2]++;
        }
        free(known_site_realloc(known_site_malloc()));
        out[3] += 2;
    }
}

/* ---- mutexes: one holds, another wants ---- */

typedef struct fight {
    pthread_mutex_t mutex;
    pthread_barrier_t start;
    int n;
    int64_t hold_ns, waited_ns, waits, locks;
} fight;

SITE static void known_wait_for_mutex(fight *f)
{
    int64_t began = now();
    pthread_mutex_lock(&f->mutex);
    f->waited_ns += now() - began;
    f->waits++;
    pthread_mutex_unlock(&f->mutex);
}

static void *fight_waiter(void *arg)
{
    fight *f = arg;
    prctl(PR_SET_NAME, "known-waiter");
    for (int i = 0; i < f->n; i++) {
        pthread_barrier_wait(&f->start); /* the mutex is held now */
        known_wait_for_mutex(f);
        pthread_barrier_wait(&f->start);
    }
    return NULL;
}

/* n times a mutex is held for hold_ms while another thread wants it. out: waited ns, waits, calls of lock */
API void known_fights(int n, int hold_ms, int64_t *out)
{
    fight f = {.n = n, .hold_ns = (int64_t)hold_ms * 1000000};
    pthread_t t;
    pthread_mutex_init(&f.mutex, NULL);
    pthread_barrier_init(&f.start, NULL, 2);
    pthread_create(&t, NULL, fight_waiter, &f);
    for (int i = 0; i < n; i++) {
        pthread_mutex_lock(&f.mutex);
        f.locks++;
        pthread_barrier_wait(&f.start);
        nap(f.hold_ns);
        pthread_mutex_unlock(&f.mutex);
        pthread_barrier_wait(&f.start);
    }
    pthread_join(t, NULL);
    out[0] = f.waited_ns;
    out[1] = f.waits;
    out[2] = f.locks + f.waits;
}

/* n calls of lock and of unlock without anybody else. out: calls of lock */
SITE static void known_lock_site(pthread_mutex_t *m)
{
    pthread_mutex_lock(m);
    pthread_mutex_unlock(m);
}

API void known_locks(int n, int64_t *out)
{
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < n; i++)
        known_lock_site(&m);
    out[0] = n;
}

/* ---- waits ---- */

/* Sleeps 30 ms and works 70 ms, n times. out: slept ns, sleeps, whole ns */
API void known_sleeps(int n, int64_t *out)
{
    int64_t began = now();
    memset(out, 0, 3 * sizeof *out);
    for (int i = 0; i < n; i++) {
        int64_t from = now();
        nap(30000000);
        out[0] += now() - from;
        out[1]++;
        burn(70000000);
    }
    out[2] = now() - began;
}

/* Waits n times in a futex until its time is over. out: waited ns, waits */
API void known_futexes(int n, int wait_ms, int64_t *out)
{
    uint32_t word = 0;
    struct timespec t = {.tv_sec = wait_ms / 1000, .tv_nsec = (long)(wait_ms % 1000) * 1000000};
    memset(out, 0, 2 * sizeof *out);
    for (int i = 0; i < n; i++) {
        int64_t from = now();
        (void)syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &t, NULL, 0);
        out[0] += now() - from;
        out[1]++;
    }
}

typedef struct slow {
    int fd, n;
    int64_t gap_ns;
} slow;

static void *slow_writer(void *arg)
{
    slow *s = arg;
    prctl(PR_SET_NAME, "known-writer");
    for (int i = 0; i < s->n; i++) {
        nap(s->gap_ns);
        (void)!write(s->fd, "x", 1);
    }
    return NULL;
}

/* Reads n bytes of a pipe into which another thread writes one each gap_ms. out: waited ns, reads */
API void known_pipe(int n, int gap_ms, int64_t *out)
{
    int fds[2];
    char c;
    pthread_t t;
    memset(out, 0, 2 * sizeof *out);
    if (pipe(fds) != 0) return;
    slow s = {.fd = fds[1], .n = n, .gap_ns = (int64_t)gap_ms * 1000000};
    pthread_create(&t, NULL, slow_writer, &s);
    for (int i = 0; i < n; i++) {
        int64_t from = now();
        (void)!read(fds[0], &c, 1);
        out[0] += now() - from;
        out[1]++;
    }
    pthread_join(t, NULL);
    close(fds[0]);
    close(fds[1]);
}

/* Waits n times in poll until its time is over. out: waited ns, waits */
API void known_polls(int n, int wait_ms, int64_t *out)
{
    int fds[2];
    memset(out, 0, 2 * sizeof *out);
    if (pipe(fds) != 0) return;
    for (int i = 0; i < n; i++) {
        struct pollfd p = {.fd = fds[0], .events = POLLIN};
        int64_t from = now();
        (void)poll(&p, 1, wait_ms);
        out[0] += now() - from;
        out[1]++;
    }
    close(fds[0]);
    close(fds[1]);
}

/* The same in epoll_wait. */
API void known_epolls(int n, int wait_ms, int64_t *out)
{
    int fds[2], epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN};
    memset(out, 0, 2 * sizeof *out);
    if (epoll < 0 || pipe(fds) != 0) return;
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &ev);
    for (int i = 0; i < n; i++) {
        int64_t from = now();
        (void)epoll_wait(epoll, &ev, 1, wait_ms);
        out[0] += now() - from;
        out[1]++;
    }
    close(fds[0]);
    close(fds[1]);
    close(epoll);
}

/* ---- faults and switches ---- */

/* Touches n fresh pages. out: pages */
API void known_faults(int n, int64_t *out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)n * page;
    volatile char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    out[0] = 0;
    if (p == MAP_FAILED) return;
    madvise((void *)p, bytes, MADV_NOHUGEPAGE);
    for (int i = 0; i < n; i++) {
        p[(size_t)i * page] = 1;
        out[0]++;
    }
    munmap((void *)p, bytes);
}

typedef struct table {
    int in, out, n;
} table;

static void *pong(void *arg)
{
    table *t = arg;
    char c;
    prctl(PR_SET_NAME, "known-pong");
    for (int i = 0; i < t->n; i++)
        if (read(t->in, &c, 1) != 1 || write(t->out, &c, 1) != 1) break;
    return NULL;
}

/* A byte goes to another thread and back, n times: each waits n times. out: rounds, ns */
API void known_pingpong(int n, int64_t *out)
{
    int a[2], b[2];
    char c = 1;
    pthread_t t;
    if (pipe(a) != 0 || pipe(b) != 0) return;
    table x = {.in = a[0], .out = b[1], .n = n};
    pthread_create(&t, NULL, pong, &x);
    int64_t began = now();
    for (int i = 0; i < n; i++)
        if (write(a[1], &c, 1) != 1 || read(b[0], &c, 1) != 1) break;
    out[0] = n;
    out[1] = now() - began;
    pthread_join(t, NULL);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}
