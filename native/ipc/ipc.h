/* SPDX-License-Identifier: MIT */
/* ipc.h: the client side of the .NET diagnostics IPC protocol: which processes of this host are .NET, how each is
 * reached, what can be asked of it, and EventPipe sessions. Everything is synchronous with an absolute deadline and a
 * cancel, so call it from a worker thread; a session has a thread of its own. Format: dotnet/diagnostics,
 * ipc-protocol.md, corrected by what live runtimes do. */
#ifndef LUNETTE_IPC_IPC_H
#define LUNETTE_IPC_IPC_H

#include <sys/types.h>

#include "base/clock.h"
#include "base/mem.h"

/* ---- cancel: one way to tell a blocked call, from any thread, to give up ----------------------------------------- */
typedef struct ipc_cancel {
    int fd; /* an eventfd that stays readable once fired; -1: never fires */
} ipc_cancel;
int ipc_cancel_init(ipc_cancel *c, err *e);
void ipc_cancel_fini(ipc_cancel *c);
void ipc_cancel_fire(ipc_cancel *c);        /* any thread, any number of times */
bool ipc_cancel_fired(const ipc_cancel *c); /* NULL is fine: false */

/* ---- messages ---------------------------------------------------------------------------------------------------- */
typedef enum ipc_command {
    IPC_DUMP1 = 0x0101,
    IPC_DUMP2 = 0x0102,
    IPC_DUMP3 = 0x0103,
    IPC_STOP_TRACING = 0x0201,
    IPC_COLLECT1 = 0x0202,
    IPC_COLLECT2,
    IPC_COLLECT3,
    IPC_COLLECT4,
    IPC_COLLECT5,
    IPC_COLLECT6,
    IPC_ATTACH_PROFILER = 0x0301,
    IPC_STARTUP_PROFILER = 0x0302,
    IPC_PROCESS_INFO = 0x0400,
    IPC_RESUME = 0x0401,
    IPC_ENVIRONMENT = 0x0402,
    IPC_SET_ENVIRONMENT = 0x0403,
    IPC_PROCESS_INFO2 = 0x0404,
    IPC_ENABLE_PERF_MAP = 0x0405,
    IPC_DISABLE_PERF_MAP = 0x0406,
    IPC_STARTUP_HOOK = 0x0407,
    IPC_PROCESS_INFO3 = 0x0408
} ipc_command;
const char *
ipc_command_name(unsigned command); /* "CollectTracing2"; "an unknown command" for one that is none. Never NULL */

#define IPC_HEADER_SIZE     20
#define IPC_MESSAGE_MAX     65535 /* header and payload: the size field is 16 bits */
#define IPC_PROVIDERS_MAX   1000  /* more kills an 8.0 runtime */
#define IPC_LEVEL_MAX       5
#define IPC_RUNDOWN_DEFAULT UINT64_C(0x80020139)
#define IPC_BUFFER_MB_MAX   4095 /* the runtime clamps below 4 GiB */

/* A request, made by one of the functions below and by nothing else. Some malformed requests kill the target (an empty
 * payload where one is due, a buffer size of 0, …): a builder refuses with ERR_INVALID_ARGUMENT or ERR_LIMIT and leaves
 * *m empty, and what it made is parsed back before it may leave. Text arguments are UTF-8 and are copied. */
typedef struct ipc_msg {
    buf b;
    unsigned command; /* 0: empty */
} ipc_msg;
void ipc_msg_init(ipc_msg *m);
void ipc_msg_fini(ipc_msg *m);

typedef struct ipc_filter { /* of event ids, after keywords and level */
    bool enable;            /* true: only these; false: all but these */
    const uint32_t *ids;
    uint32_t n;
} ipc_filter;
typedef struct ipc_provider {
    const char *name; /* not empty */
    const char *args; /* "key=value;key2=value2"; NULL: none */
    uint64_t keywords;
    uint32_t level;           /* 0 LogAlways … 5 Verbose */
    const ipc_filter *filter; /* NULL: all events. Runtimes before 10 cannot: see ipc_session_end.filtered */
} ipc_provider;
typedef struct ipc_collect_cfg {
    const ipc_provider *providers;
    size_t n_providers;
    uint32_t buffer_mb;        /* 1..IPC_BUFFER_MB_MAX */
    uint32_t format;           /* 0 NetPerf, 1 NetTrace */
    uint64_t rundown_keywords; /* 0: no rundown; a runtime before 9 knows only none or the default */
    bool stacks;               /* false: as few stacks as the runtime allows */
    bool block_writers;        /* a full buffer blocks the target's threads instead of dropping; .NET 11 only */
} ipc_collect_cfg;

/* The commands without a payload: ProcessInfo 1-3, ResumeRuntime, GetProcessEnvironment, DisablePerfMap. */
int ipc_msg_plain(ipc_msg *m, ipc_command command, err *e);
/* version 1..3; path absolute, as the target sees it; type 1 mini, 2 heap, 3 triage, 4 full; flags 1 log, 2 verbose, 4
 * crash report (2 and 3 only). */
int ipc_msg_dump(ipc_msg *m, int version, const char *path, uint32_t type, uint32_t flags, err *e);
int ipc_msg_stop(ipc_msg *m, uint64_t session_id, err *e); /* the id is not 0 */
/* version 1..6. What the version cannot say is refused: a filter before 5, block_writers before 6. Rundown and stacks
 * are said as nearly as it can. */
int ipc_msg_collect(ipc_msg *m, int version, const ipc_collect_cfg *cfg, err *e);
int ipc_msg_attach_profiler(ipc_msg *m, uint32_t timeout_ms, const uint8_t guid[16], const char *path,
                            slice client_data, err *e);
int ipc_msg_startup_profiler(ipc_msg *m, const uint8_t guid[16], const char *path, err *e);
int ipc_msg_set_environment(ipc_msg *m, const char *name, const char *value,
                            err *e);                            /* value NULL removes the variable */
int ipc_msg_enable_perf_map(ipc_msg *m, uint32_t type, err *e); /* 1 all, 2 jitdump, 3 perf map */
int ipc_msg_startup_hook(ipc_msg *m, const char *path, err *e);

/* ---- requests as a server reads them (also the last gate before a request of ours leaves) ------------------------ */
typedef struct ipc_request {
    unsigned command;
    uint64_t session_id; /* StopTracing */
    bool stacks;         /* CollectTracing */
    uint32_t buffer_mb, format, n_providers;
    uint64_t rundown_keywords;
    slice providers; /* CollectTracing: the encoded providers, borrowed */
} ipc_request;
/* The whole size of a message that starts with these at least IPC_HEADER_SIZE bytes; negative: ERR_PROTOCOL (magic,
 * size). */
int ipc_header_size(slice head, err *e);
/* Reads one whole request strictly: every count, bound and limit. ERR_MALFORMED where a runtime would answer
 * BAD_ENCODING (or die), ERR_NOT_SUPPORTED for an unknown command, ERR_PROTOCOL for no request at all. */
int ipc_request_parse(slice message, ipc_request *out, err *e);

/* ---- answers ----------------------------------------------------------------------------------------------------- */
#define IPC_E_BAD_ENCODING    0x80131384u
#define IPC_E_UNKNOWN_COMMAND 0x80131385u
#define IPC_E_UNKNOWN_MAGIC   0x80131386u
#define IPC_E_UNKNOWN_ERROR   0x80131387u
#define IPC_E_NOT_SUPPORTED   0x80131515u
#define IPC_E_FAIL            0x80004005u
typedef struct ipc_answer {
    buf b;         /* the whole message */
    slice payload; /* of it, borrowed */
    bool ok;       /* false: an Error answer, hresult says which */
    uint32_t hresult;
} ipc_answer;
void ipc_answer_fini(ipc_answer *a);
/* Reads a whole answer out of a->b. ERR_PROTOCOL when it is none. An Error answer is no failure of this call. */
int ipc_answer_parse(ipc_answer *a, err *e);
/* Fills *e from an HRESULT that came as the answer to command: kind, name, and what to do about it. Returns -kind. */
int ipc_hresult_err(err *e, unsigned command, uint32_t hresult);
const char *ipc_hresult_name(uint32_t hresult); /* "CORDIAGIPC_E_BAD_ENCODING"; NULL for one that is not known */

typedef struct ipc_info { /* ProcessInfo; strings are UTF-8 on the heap, NULL when the answer's version has none or it
                             was empty */
    int command_version;  /* 1..3: which ProcessInfo answered */
    uint32_t version;     /* of ProcessInfo3's layout, else 0 */
    uint64_t process_id;  /* in the target's own PID namespace */
    uint8_t cookie[16];   /* GUID in memory order; all zero possible */
    char *command_line, *os, *arch, *entrypoint, *runtime_version, *rid;
} ipc_info;
void ipc_info_fini(ipc_info *i);
int ipc_info_parse(slice payload, int command_version, ipc_info *out, err *e);
/* The strings of a GetProcessEnvironment continuation, each "NAME=VALUE", UTF-8, NUL-terminated, one after the other
 * into *out. Returns their number. */
#define IPC_ENVIRONMENT_MAX ((size_t)16 << 20)
int ipc_environment_parse(slice continuation, buf *out, err *e);

/* ---- endpoints: a process and how to reach it -------------------------------------------------------------------- */
typedef enum ipc_cause {
    IPC_OK,
    IPC_PERMISSION,
    IPC_STALE_SOCKET,
    IPC_NO_SOCKET,
    IPC_DIAGNOSTICS_DISABLED,
    IPC_TMPDIR,
    IPC_NAMESPACE,
    IPC_NOT_ANSWERING,
    IPC_REFUSED,
    IPC_GARBAGE
} ipc_cause;
const char *ipc_cause_name(ipc_cause c); /* "stale-socket"; "ok" for IPC_OK */

typedef enum ipc_runtime { /* as the process's mappings and executable say */
                           IPC_RUNTIME_UNKNOWN,
                           IPC_RUNTIME_CORECLR,
                           IPC_RUNTIME_NATIVE_AOT,
                           IPC_RUNTIME_MONO
} ipc_runtime;

#define IPC_SOCKETS_PER_PROCESS 8
typedef struct ipc_socket {
    char *path; /* as seen from here, may be longer than a socket address: heap */
    uint64_t key;
    bool key_matches; /* key is the process's start time */
    bool router;      /* dotnet-dsrouter's socket for the device behind it */
    int64_t mtime_ns;
} ipc_socket;
typedef struct ipc_endpoint {
    struct ipc_port *port; /* a reference: the process connects to a port of ours (port.h), each command goes there */
    uint8_t cookie[16];    /* with port: of its runtime */
    pid_t pid;             /* here */
    pid_t nspid;           /* in its innermost PID namespace */
    uint64_t start_time;   /* field 22 of /proc/PID/stat, jiffies since boot */
    uid_t uid;
    bool same_namespace; /* mount and PID namespace are ours */
    ipc_runtime runtime;
    bool stopped;                                /* state T or t: by a signal or a debugger */
    ipc_socket sockets[IPC_SOCKETS_PER_PROCESS]; /* best first */
    unsigned n_sockets;
    ipc_cause cause; /* IPC_OK: reachable as far as known */
    err why;         /* message, hint and kind, when cause is not IPC_OK */
    ipc_info info;   /* after ipc_discover, when cause is IPC_OK */
} ipc_endpoint;
void ipc_endpoint_fini(ipc_endpoint *ep);

#define IPC_PROCESSES_MAX 32768 /* of a host, that one discovery looks at */
#define IPC_ENDPOINTS_MAX 4096  /* .NET processes that it reports */
typedef struct ipc_discover_cfg {
    const char *const *tmpdirs; /* more folders to look in, NULL-terminated; may be NULL */
    int64_t probe_ms;           /* each endpoint's time to answer; 0: IPC_PROBE_MS */
    const char *proc_root;      /* NULL: "/proc" */
} ipc_discover_cfg;
#define IPC_PROBE_MS 2000
typedef struct ipc_endpoints {
    ipc_endpoint *items; /* by pid */
    size_t n;
    unsigned dropped; /* .NET processes beyond IPC_ENDPOINTS_MAX */
} ipc_endpoints;
/* Every .NET process of the host, reachable or not, each probed with ProcessInfo, all at once. Fails only when /proc
 * itself cannot be read. */
int ipc_discover(const ipc_discover_cfg *cfg, const ipc_cancel *cancel, ipc_endpoints *out, err *e);
void ipc_endpoints_fini(ipc_endpoints *l);
/* How one process is reached, without talking to it: through a port of ours if it is connected to one, else by its own
 * socket. ERR_PROCESS_NOT_FOUND, ERR_NOT_A_DOTNET_PROCESS,
 * ERR_PERMISSION_DENIED or ERR_ENDPOINT_UNAVAILABLE with the cause as ep->cause. *out is to be freed in every case. */
int ipc_resolve(pid_t pid, const ipc_discover_cfg *cfg, ipc_endpoint *out, err *e);

/* ---- asking ------------------------------------------------------------------------------------------------------ */
#define IPC_CALL_MS 5000 /* a sensible deadline for the quick commands */
/* One request, one answer, on a connection of its own: the request is complete before the connection is made, since a
 * half-open client blocks the target's only diagnostics thread. An Error answer gives ERR_… by ipc_hresult_err, with
 * out filled. keep_fd (may be NULL): on success the connection, now yours, from which a continuation can be read;
 * also with ERR_CANCELLED and ERR_TIMEOUT once the request has been sent: out then has what came of the answer. */
int ipc_call(const ipc_endpoint *ep, const ipc_msg *m, int64_t deadline_ns, const ipc_cancel *c, ipc_answer *out,
             int *keep_fd, err *e);
/* Version 3, then 2, then 1, by the answer. */
int ipc_process_info(const ipc_endpoint *ep, int64_t deadline_ns, const ipc_cancel *c, ipc_info *out, err *e);
/* Text as of ipc_environment_parse; returns the number of variables. */
int ipc_environment(const ipc_endpoint *ep, int64_t deadline_ns, const ipc_cancel *c, buf *out, err *e);
typedef struct ipc_dump_cfg {
    const char *path;  /* absolute, as the target sees it; its user writes there */
    uint32_t type;     /* 1 mini, 2 heap, 3 triage, 4 full */
    bool crash_report; /* PATH.crashreport.json, too; runtimes before 6 cannot */
} ipc_dump_cfg;
/* GenerateCoreDump3, then 2, then 1, by the answer; *version is the form that was answered. Returns when the runtime's
 * createdump has ended: seconds to minutes. 0 is no proof of a file. A call that is given up leaves createdump running.
 * ERR_NOT_SUPPORTED and ERR_IO with createdump's own words. */
int ipc_dump(const ipc_endpoint *ep, const ipc_dump_cfg *cfg, int64_t deadline_ns, const ipc_cancel *c, int *version,
             err *e);
/* On the default port: releases a runtime that waits at its own default port, and is a harmless OK for a running one.
 */
int ipc_resume(const ipc_endpoint *ep, int64_t deadline_ns, const ipc_cancel *c, err *e);

/* ---- sessions ---------------------------------------------------------------------------------------------------- */
typedef enum ipc_end_reason {
    IPC_END_STOPPED,   /* we asked, the stream ended */
    IPC_END_BY_TARGET, /* the target closed the stream: it exited, or was killed (the stream then lacks its end tag) */
    IPC_END_RESET,     /* the connection broke */
    IPC_END_DEADLINE,  /* stop's deadline passed before the stream ended */
    IPC_END_ABORTED,   /* ipc_session_abort */
    IPC_END_CONSUMER   /* on_bytes asked for the end */
} ipc_end_reason;
const char *ipc_end_reason_name(ipc_end_reason r);
typedef struct ipc_session_end {
    ipc_end_reason reason;
    uint64_t bytes;      /* handed to on_bytes */
    int64_t duration_ns; /* from the OK to the end */
    bool stop_sent, stop_answered;
    err why; /* set for RESET and DEADLINE, and when the stop request itself failed while the stream was still open */
} ipc_session_end;

typedef struct ipc_session ipc_session;
typedef struct ipc_session_cfg {
    ipc_collect_cfg collect;
    /* On the session's thread. Bytes as they come; any split. Negative: the session is stopped and what still comes is
     * thrown away. */
    int (*on_bytes)(void *arg, slice bytes);
    /* On the session's thread, once after each burst of bytes, when the stream has been silent for IPC_PAUSE_MS; may be
     * NULL. The runtime writes every 100 ms what there is, so a burst is over by then. */
    void (*on_pause)(void *arg);
    /* On the session's thread, once, last: after it the session touches arg no more. */
    void (*on_end)(void *arg, const ipc_session_end *end);
    void *arg;
} ipc_session_cfg;
#define IPC_PAUSE_MS 250
/* Starts CollectTracing, newest form first and older ones by the runtime's answer (unknown command, nothing else), then
 * reads on a thread. The deadline is for the start: the answer comes after the target's own provider callbacks have
 * run, which can hang. A start that is given up is stopped by itself when its answer comes within IPC_LATE_MS. On
 * failure no callback is or will be called. A runtime that is held at a port of ours goes on as soon as the session is
 * armed. */
#define IPC_LATE_MS 5000
int ipc_session_open(const ipc_endpoint *ep, const ipc_session_cfg *cfg, int64_t deadline_ns, const ipc_cancel *c,
                     ipc_session **out, err *e);
/* Asks for the end: StopTracing on a second connection while the stream is drained. At the deadline the stream is
 * closed and the end says so. Returns at once; a later call can only bring the deadline nearer. Any thread. A session
 * with meters (System.Diagnostics.Metrics) is not stopped around its first collection, from 1 s before to 0.7 s after
 * it, as far as the deadline leaves a second: the runtime could lock itself up. */
void ipc_session_stop(ipc_session *s, int64_t deadline_ns);
/* As stop with IPC_ABORT_MS, and nothing more goes to on_bytes. Long enough for a busy target to end several sessions,
 * which it does one after another, a tenth of a second each: one whose stream is closed before ends itself on a thread
 * of its own, and beside another one's end the runtime may lock itself up (.NET 10, counters). */
#define IPC_ABORT_MS 5000
void ipc_session_abort(ipc_session *s);
/* Waits for on_end to have returned. False: not within the deadline. Not from a callback. */
bool ipc_session_wait(ipc_session *s, int64_t deadline_ns);
/* Gives the session up: abort if it still runs. Returns at once, arg must live until on_end. NULL is fine. */
void ipc_session_free(ipc_session *s);
int ipc_session_version(const ipc_session *s);   /* CollectTracing 2..6: which form the runtime took */
bool ipc_session_filtered(const ipc_session *s); /* the runtime applies the event filters; false: the reader has to */
unsigned ipc_sessions_live(void);                /* sessions whose thread still runs, in the whole process */
/* Waits for all of them, for the end of a program; false: not within the deadline. */
bool ipc_sessions_wait(int64_t deadline_ns);

#endif
