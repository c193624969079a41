/* SPDX-License-Identifier: MIT */
/* port.h: a reverse-connect diagnostics port: a socket of ours, to which a runtime connects that was started with
 * DOTNET_DiagnosticPorts=PATH. It waits there, before its first managed instruction, until it is told to go on. A port
 * has a thread of its own, which takes the connections, keeps one of each runtime, and resumes runtimes. The first
 * runtime is held; all later ones (children of the program inherit the variable) are resumed at once. Format:
 * dotnet/diagnostics, ipc-protocol.md, "Advertise". */
#ifndef LUNETTE_IPC_PORT_H
#define LUNETTE_IPC_PORT_H

#include "ipc/ipc.h"

#define IPC_ADVERTISE_SIZE    34
#define IPC_PORT_RUNTIMES_MAX 256  /* at once; a connection of one more is closed, and its runtime tries again */
#define IPC_PORT_PENDING_MAX  32   /* connections that have not advertised yet; the oldest gives way */
#define IPC_PORT_ADVERTISE_MS 1000 /* for a connection to advertise */
#define IPC_PORT_RESUME_MS    5000 /* for a runtime to answer ResumeRuntime; then it is asked again */
#define IPC_PORT_RESTORE_MS   1000 /* … and SetEnvironmentVariable; then it goes on without */
#define IPC_PORT_CLOSE_MS     500  /* that closing waits for a runtime that is between two connections */

typedef struct ipc_advertise {
    uint8_t cookie[16]; /* of this start of the runtime */
    uint64_t pid;       /* as the runtime sees itself */
} ipc_advertise;
/* Reads an advertise message; ERR_PROTOCOL when it is none, ERR_TRUNCATED when it is shorter. */
int ipc_advertise_parse(slice message, ipc_advertise *out, err *e);

typedef struct ipc_port ipc_port;
typedef struct ipc_port_cfg {
    const char *dir; /* where the private folder is made; NULL: TMPDIR, or /tmp. One whose path the variable cannot hold
                        (too long, or with a comma or semicolon) gives way to /tmp */
    bool restore; /* give DOTNET_DiagnosticPorts back its earlier value in each runtime before it goes on, so that the
                     programs that it starts do not wait at a port that may be closed by then (.NET 6 and later) */
    const char *earlier; /* that value, copied; NULL: there was none */
} ipc_port_cfg;
/* Listens on a socket (0600) in a new private folder (0700). cfg may be NULL: all zero. */
int ipc_port_open(const ipc_port_cfg *cfg, ipc_port **out, err *e);
/* For DOTNET_DiagnosticPorts. Borrowed. */
const char *ipc_port_path(const ipc_port *p);
/* Lets go whoever is still held, so that no runtime is left waiting for us, ends the listening, and removes socket and
 * folder. Sessions that were opened through the port go on. NULL is fine. */
void ipc_port_close(ipc_port *p);

typedef struct ipc_port_runtime {
    uint8_t cookie[16];
    pid_t pid;      /* here, as the kernel tells; 0: it lies outside our PID namespace */
    uint64_t nspid; /* as the runtime sees itself */
    bool resumed;   /* it answered ResumeRuntime */
    bool gone;      /* its process has ended */
} ipc_port_runtime;
typedef struct ipc_port_stats {
    unsigned runtimes; /* seen so far */
    unsigned resumed;  /* of these, told to go on */
    unsigned rejected; /* connections of another user, or that said something else */
    unsigned dropped;  /* connections closed because a limit was met */
    bool held;         /* the first runtime is there, and waits still */
} ipc_port_stats;
/* Waits for the first runtime. ERR_TIMEOUT, ERR_CANCELLED. */
int ipc_port_wait(ipc_port *p, int64_t deadline_ns, const ipc_cancel *c, ipc_port_runtime *out, err *e);
/* Tells the first runtime, now or when it comes, to go on. Returns at once; also done by the first session that is
 * opened through the port, once the runtime has armed it. */
void ipc_port_release(ipc_port *p);
/* The first runtime is not the one that is waited for: it is told to go on, and the next one to come is the first.
 * keep_variable: the variable stays in it although the port restores it, so that the programs it starts come here. */
void ipc_port_skip(ipc_port *p, bool keep_variable);
/* Waits until the first runtime has answered that it goes on. ERR_PROCESS_EXITED, ERR_TIMEOUT, ERR_CANCELLED. */
int ipc_port_wait_resumed(ipc_port *p, int64_t deadline_ns, const ipc_cancel *c, err *e);
ipc_port_stats ipc_port_stats_of(ipc_port *p);
/* How the first runtime is reached through the port: for ipc_call and ipc_session_open. It need not be described by
 * /proc. To be freed in every case. ERR_NOT_FOUND before it came. */
int ipc_port_endpoint(ipc_port *p, ipc_endpoint *out, err *e);

#endif
