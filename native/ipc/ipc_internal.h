/* SPDX-License-Identifier: MIT */
/* ipc_internal.h: what the files of this folder share. No other folder includes it (tests of this folder may). */
#ifndef LUNETTE_IPC_INTERNAL_H
#define LUNETTE_IPC_INTERNAL_H

#include "ipc/ipc.h"

extern const char ipc__magic[14]; /* "DOTNET_IPC_V1" and its NUL */

/* ---- conn.c ------------------------------------------------------------------------------------------------------ */
/* Waits until fd has one of events, the deadline passes (-ERR_TIMEOUT, without a story) or the cancel fires
 * (-ERR_CANCELLED). */
int ipc__wait(int fd, short events, int64_t deadline_ns, const ipc_cancel *c);
/* Begins to connect without blocking: 1 connected, 0 the listener's backlog is full (try again soon), negative: failed,
 * e filled, with the cure for ep's process, and *sys the errno. *out is a non-blocking socket whenever the result is 1.
 */
int ipc__connect_start(const ipc_endpoint *ep, const char *path, int *out, int *sys, err *e);
/* Connects to the best socket of ep that answers and belongs to its process. */
int ipc__connect(const ipc_endpoint *ep, int64_t deadline_ns, const ipc_cancel *c, int *out, err *e);
/* Is the listener behind fd the process that the file's name claims? The kernel's word, not the file's. */
int ipc__check_peer(int fd, const ipc_endpoint *ep, const ipc_socket *s, err *e);
/* Sends a whole built message. */
int ipc__send(int fd, const ipc_msg *m, int64_t deadline_ns, const ipc_cancel *c, err *e);
/* Reads exactly n bytes onto the end of b. -ERR_PROCESS_EXITED at EOF and on a broken connection. */
int ipc__recv(int fd, buf *b, size_t n, int64_t deadline_ns, const ipc_cancel *c, err *e);
int ipc__recv_answer(int fd, ipc_answer *a, int64_t deadline_ns, const ipc_cancel *c, err *e);
/* Goes on with an answer of which some bytes, or none, are there. */
int ipc__recv_rest(int fd, ipc_answer *a, int64_t deadline_ns, const ipc_cancel *c, err *e);
void ipc__close(int *fd);
/* answer.c: a string of an answer as UTF-8 on the heap; *out NULL for the absent and the empty one. False: no memory.
 */
bool ipc__read_text(cursor *c, char **out);
/* client.c: what to do about a target that does not answer in time: it may be stopped, as /proc tells, or busy. */
void ipc__late_hint(const ipc_endpoint *ep, err *e);

/* ---- port.c: a runtime that connects to a port of ours (ep->port is set) ------------------------------------------
 */
struct ipc_port *ipc__port_ref(struct ipc_port *p); /* NULL is fine, in both */
void ipc__port_unref(struct ipc_port *p);
/* Sets ep->port (a reference) and ep->cookie when the process is connected to a port of ours. */
bool ipc__port_find(pid_t pid, ipc_endpoint *ep);
/* Takes the runtime's idle connection, which is good for one command: 1 with *out, 0 when there is none right now,
 * negative when there will be none. */
int ipc__port_try(const ipc_endpoint *ep, int *out, err *e);
/* As try, but waits for the connection. */
int ipc__port_take(const ipc_endpoint *ep, int64_t deadline_ns, const ipc_cancel *c, int *out, err *e);
/* A session is armed: the runtime, if it is held, may go on. */
void ipc__port_armed(const ipc_endpoint *ep);

/* ---- proc.c: one process, as /proc tells it ---------------------------------------------------------------------- */
typedef struct ipc__proc {
    pid_t pid, nspid;
    uint64_t start_time;
    uid_t uid, euid;
    char state; /* of /proc/PID/stat */
    bool kernel_thread;
    bool other_mounts;     /* its mount namespace is known to be another than ours */
    bool other_time;       /* its time namespace is, or may be, another */
    bool environ_known;    /* environ could be read */
    bool diagnostics_off;  /* environ switches the diagnostics off */
    char off_variable[64]; /* the variable that does */
    char *tmpdir;          /* its TMPDIR, on the heap; NULL: none or not known */
} ipc__proc;
/* -ERR_PROCESS_NOT_FOUND when it is gone. Nothing to free on failure. */
int ipc__proc_read(const char *root, pid_t pid, ipc__proc *out, err *e);
void ipc__proc_fini(ipc__proc *p);
bool ipc__proc_stopped(pid_t pid); /* by a signal or a debugger, right now */
/* What the process's mappings and executable say. -ERR_PERMISSION_DENIED when they cannot be read. */
int ipc__proc_runtime(const char *root, pid_t pid, ipc_runtime *out);
/* Does this ELF file export a runtime's mark? For single-file and NativeAOT programs. */
ipc_runtime ipc__elf_runtime(const char *path);
/* Is its command "dotnet"? The one mark of a process that may not be looked into. */
bool ipc__proc_named_dotnet(const char *root, pid_t pid);

/* ---- sockets.c: the folders in which sockets may lie ------------------------------------------------------------- */
#define IPC__FOLDER_ENTRIES_MAX 262144 /* directory entries read of one folder */
#define IPC__FOLDER_SOCKETS_MAX 8192   /* sockets kept of one folder */
#define IPC__FOLDERS_MAX        4096
typedef struct ipc__folders ipc__folders; /* folders already read, so that a host of containers is read once each */
ipc__folders *ipc__folders_new(void);
void ipc__folders_free(ipc__folders *f);
/* Fills ep->sockets, best first; when none is usable, says in ep->cause and ep->why what is known about that. */
void ipc__find_sockets(ipc__folders *f, const char *root, const ipc_discover_cfg *cfg, const ipc__proc *p,
                       ipc_endpoint *ep);
/* Parses "dotnet-diagnostic-PID-KEY-socket" (or …-dsrouter-PID-KEY-…). False: another name. */
bool ipc__socket_name(const char *name, pid_t *pid, uint64_t *key, bool *router);

/* ---- discover.c, probe.c ----------------------------------------------------------------------------------------- */
/* Builds ep from /proc without talking to it. 1: a .NET process (cause says whether it can be reached), 0: not .NET,
 * negative: gone. */
int ipc__describe(const char *root, pid_t pid, const ipc_discover_cfg *cfg, ipc__folders *f, ipc_endpoint *ep, err *e);
/* Drops the unreachable ones that ended (or whose pid is another process's) meanwhile: they are no longer there to be
 * reached. */
void ipc__forget_gone(const char *root, ipc_endpoints *l);
/* Sets cause, kind, message; the first one wins. */
void ipc__cause(ipc_endpoint *ep, ipc_cause cause, err_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Asks all endpoints whose cause is IPC_OK for ProcessInfo, at once; the answer or the cause goes into each. */
int ipc__probe_all(ipc_endpoint *eps, size_t n, int64_t probe_ms, const ipc_cancel *c, err *e);

#endif
