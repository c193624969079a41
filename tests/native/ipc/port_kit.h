/* SPDX-License-Identifier: MIT */
/* port_kit.h: runtimes in small that connect to a port, and what the tests of ports share. */
#ifndef LUNETTE_TESTS_IPC_PORT_KIT_H
#define LUNETTE_TESTS_IPC_PORT_KIT_H

#include "ipc/fake.h"
#include "ipc/port.h"

/* A runtime on a thread: connects, advertises, serves one command, connects again. Starts as {0} but for its options.
 */
#define BEFORE 1000 /* bytes of the stream once it runs */
#define AFTER  5000 /* … and while it stops */
typedef struct runtime {
    char path[108];
    uint8_t id;       /* all bytes of its cookie */
    bool slowly;      /* one byte a write */
    bool old;         /* does not know SetEnvironmentVariable */
    uint32_t refuses; /* CollectTracing is answered with this */
    int deaf_resumes; /* so many ResumeRuntime get no answer */
    ipc_cancel over;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned commands[32]; /* in order of arrival */
    int n, connections;
    uint8_t set[512]; /* the last SetEnvironmentVariable */
    size_t n_set;
    int stream; /* the thread's */
} runtime;
void runtime_start(runtime *r, const ipc_port *p, uint8_t id);
void runtime_end(runtime *r);
unsigned runtime_command(runtime *r, int n); /* waits until n commands came, and gives the n-th */

ipc_port *port_open(void);
ipc_port_runtime port_first(ipc_port *p); /* waits for it */
/* Waits until the port's numbers fit. */
void port_wait_stats(ipc_port *p, const char *what, bool (*fits)(const ipc_port_stats *s, unsigned n), unsigned n);
bool stats_rejected(const ipc_port_stats *s, unsigned n); /* at least n, as the others */
bool stats_resumed(const ipc_port_stats *s, unsigned n);
bool stats_runtimes(const ipc_port_stats *s, unsigned n);

int port_connect(const char *path); /* -1: nobody listens */
size_t port_advertise(uint8_t out[IPC_ADVERTISE_SIZE], uint8_t id, uint64_t pid);
/* A child process that advertises, which it has done when this returns, and then waits to be killed. */
pid_t port_child(const ipc_port *p, uint8_t id);
void port_kill_child(pid_t pid);

#endif
