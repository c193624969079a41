/* SPDX-License-Identifier: MIT */
/* fake.h: a diagnostics server whose behaviour each test writes itself, and what a test of leaks needs. */
#ifndef LUNETTE_TESTS_IPC_FAKE_H
#define LUNETTE_TESTS_IPC_FAKE_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <stdatomic.h>

#include "ipc/ipc_internal.h"

typedef struct fake fake;
/* One connection, on a thread of its own: fd has delivered the whole request. The connection is closed when it returns.
 */
typedef void (*fake_serve)(fake *f, int fd, const ipc_request *r, slice raw);
struct fake {
    char dir[32];
    char path[104];
    uint64_t key;
    int listener;
    fake_serve serve;
    bool raw; /* do not read a request: serve at once, r is NULL */
    void *arg;
    pthread_t thread;
    _Atomic int connections, stops, open;
    _Atomic bool over;
};
/* Listens as this very process would, in a new folder; key 0: the right one (the start time of this process). */
void fake_start(fake *f, fake_serve serve, void *arg, uint64_t key);
void fake_stop(fake *f);
/* The endpoint that leads to it. */
ipc_endpoint fake_endpoint(const fake *f);

/* What servers say. */
void fake_write(int fd, const void *p, size_t n);                         /* ignores a broken pipe */
void fake_write_slowly(int fd, const void *p, size_t n);                  /* one byte a write */
size_t fake_answer(uint8_t *out, bool ok, const void *payload, size_t n); /* builds a message; returns its size */
void fake_ok(int fd, const void *payload, size_t n);
void fake_error(int fd, uint32_t hresult);
void fake_wait_closed(int fd); /* until the client closes */
/* The payload of ProcessInfo's answer in form 1..3. */
size_t fake_info(uint8_t *out, int form);

uint64_t own_start_time(void);
/* Call it first in main: a thread sanitizer starts a thread of its own with the first of ours. */
void fake_warm_up(void);
int count_fds(void);
int count_threads(void);
/* Waits (bounded) until both are no more than they were. */
void assert_nothing_leaked(int fds, int threads);

#endif
