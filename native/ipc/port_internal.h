/* SPDX-License-Identifier: MIT */
/* port_internal.h: what port.c (who owns and asks) and port_serve.c (the port's thread) share. */
#ifndef LUNETTE_IPC_PORT_INTERNAL_H
#define LUNETTE_IPC_PORT_INTERNAL_H

#include <pthread.h>

#include "ipc/ipc_internal.h"
#include "ipc/port.h"

#define PORT__TRIES 10 /* a runtime that answers something else so often is none */

typedef struct port__runtime {
    ipc_port_runtime is;
    int pidfd;                /* readable once the process has ended; -1: not to be had */
    int idle;                 /* a connection that advertised and carried no command yet; -1: none right now */
    int asked;                /* the connection on which SetEnvironmentVariable or ResumeRuntime was sent; -1: none */
    bool restoring, restored; /* the first of the two is under way; is done, or cannot be done */
    bool told;                /* ResumeRuntime was sent at least once */
    bool wanted;              /* to be resumed */
    unsigned tries;           /* how often it was asked */
    int64_t answer_by;        /* when the answer is late */
    uint8_t answer[64];
    size_t n_answer;
} port__runtime;

typedef struct port__pending { /* a connection that has not advertised yet */
    int fd;
    pid_t pid;
    int64_t deadline_ns;
    uint8_t message[IPC_ADVERTISE_SIZE];
    size_t n;
} port__pending;

typedef struct port__set port__set; /* what the thread polls */
typedef struct port__waiter {
    int fd; /* an eventfd, written at every change */
    struct port__waiter *next;
} port__waiter;

struct ipc_port {
    char folder[96], path[108];
    int listener, wake;
    pthread_t thread;
    port__set *set; /* the thread's */
    ipc_port *next; /* list of all ports, under its own lock */

    pthread_mutex_t lock; /* over what follows */
    bool restore;
    char *earlier; /* of the variable; NULL: none */
    unsigned refs; /* the owner's, and one for each endpoint */
    bool closed, quit;
    int64_t accept_again_ns; /* accepting failed for want of descriptors: not before; 0: now */
    port__pending pending[IPC_PORT_PENDING_MAX];
    unsigned n_pending;
    port__runtime *runtimes[IPC_PORT_RUNTIMES_MAX]; /* removed by the thread only, the first one never */
    unsigned n_runtimes;
    port__runtime *first;
    bool release_first;
    port__waiter *waiters;
    ipc_port_stats stats;
};

/* port_serve.c. Under the lock, but for the first two. */
void *port__main(void *port);                           /* the thread */
port__set *port__set_new(void);                         /* NULL: no memory */
void port__resume(const ipc_port *p, port__runtime *r); /* asks it to go on if that is wanted and can be done now */
void port__notify(ipc_port *p);                         /* something changed: waiters look again */
void port__runtime_free(port__runtime *r);

#endif
