/* SPDX-License-Identifier: MIT */
/* kernel.h: what Linux tells about processes and this host: /proc, cgroups, pressure, sysctls, capabilities, perf.
 * Parsers are pure functions over a slice; readers take a root folder ("" is the real system, a fixture's path in
 * tests) and never wait for anything but the kernel. A reader of /proc/PID/{cmdline,environ,maps,smaps_rollup} can be
 * held up by the target's memory lock: call those off the loop's thread. Formats: man proc(5), cgroups(7),
 * Documentation/admin-guide/cgroup-v2.rst, Documentation/accounting/psi.rst. */
#ifndef LUNETTE_KERNEL_KERNEL_H
#define LUNETTE_KERNEL_KERNEL_H

#include "base/mem.h"

#define KN_PATH_MAX    1024        /* bytes of a path with its NUL */
#define KN_PIDS_MAX    65536       /* processes listed */
#define KN_CMDLINE_MAX (64u << 10) /* bytes of a command line read */
#define KN_ENVIRON_MAX (1u << 20)  /* bytes of an environment read */
#define KN_SMALL_MAX   (64u << 10) /* bytes of any other file read */
#define KN_TCP_MAX     (64u << 20) /* bytes of a socket table read */
#define KN_FD_CLASSIFY 10000       /* descriptors whose link is read; the rest count as other */
#define KN_FD_MAX      2000000     /* descriptors counted */
#define KN_LEVELS_MAX  32          /* cgroups looked at from the leaf up */
#define KN_NOTES_MAX   24
#define KN_NOTE_LEN    224

/* A number that may be unknown: v means something only when known. */
typedef struct kn_num {
    bool known;
    int64_t v;
} kn_num;
typedef struct kn_frac {
    bool known;
    double v;
} kn_frac;

/* What could not be had and why, one sentence each; dropped counts those past the cap. */
typedef struct kn_notes {
    uint32_t n, dropped;
    char text[KN_NOTES_MAX][KN_NOTE_LEN];
} kn_notes;
void kn_note(kn_notes *notes, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- files ---- */
/* Reads ROOT/REL (rel starts with '/') into *out, at most max bytes. 0: all of it; 1: there was more. Only regular
 * files are read. Errors: ERR_NOT_FOUND, ERR_PROCESS_NOT_FOUND (the process ended meanwhile), ERR_PERMISSION_DENIED,
 * ERR_NOT_SUPPORTED (EOPNOTSUPP), ERR_IO. */
int kn_read(const char *root, const char *rel, size_t max, buf *out, err *e);
/* The same for /proc/PID/NAME; ERR_PROCESS_NOT_FOUND when there is no such process. */
int kn_read_pid(const char *root, int pid, const char *name, size_t max, buf *out, err *e);
/* The target of /proc/PID/NAME ("exe", "cwd", "ns/pid"), NUL-terminated in out. */
int kn_link(const char *root, int pid, const char *name, char *out, size_t size, err *e);
bool kn_exists(const char *root, const char *rel);
/* Process ids in ascending order into pids (room for max); *n are those stored, *dropped those that were not. */
int kn_pids(const char *root, int *pids, size_t max, size_t *n, size_t *dropped, err *e);
/* One integer file such as /proc/sys/kernel/perf_event_paranoid. */
int kn_read_num(const char *root, const char *rel, int64_t *out, err *e);

/* ---- a process: parsers ---- */
typedef struct kn_stat { /* /proc/PID/stat; times in clock ticks (sysconf(_SC_CLK_TCK)) */
    int pid, ppid;
    char state;
    char comm[64]; /* valid UTF-8 or not: as the kernel gives it */
    uint64_t minflt, majflt, utime, stime, start_time, threads, vsize;
    int64_t rss_pages;
} kn_stat;
int kn_parse_stat(slice text, kn_stat *out, err *e);

typedef struct kn_status { /* /proc/PID/status */
    char name[64];
    char state;
    uint32_t uid, euid, gid;
    int nspid;        /* innermost pid; equal to pid when there is one namespace only */
    uint32_t n_nspid; /* pid namespaces from ours down to the process's own */
    int tracer_pid;
    kn_num threads, rss_bytes, anon_bytes, swap_bytes, hwm_bytes;
    bool has_caps;
    uint64_t cap_eff, cap_prm, cap_bnd;
    kn_num seccomp, no_new_privs;
} kn_status;
int kn_parse_status(slice text, kn_status *out, err *e);

/* NUL-separated lists (cmdline, environ): pops one item; false at the end. The last one may lack its NUL. */
bool kn_next_z(slice *rest, slice *item);

typedef struct kn_rollup { /* smaps_rollup, bytes */
    kn_num rss, pss, anonymous, swap, private_dirty;
} kn_rollup;
int kn_parse_rollup(slice text, kn_rollup *out, err *e);

#define KN_MAPS_MAX (16u << 20) /* bytes of a maps file read */
typedef struct kn_maps {        /* /proc/PID/maps, bytes of address space */
    uint64_t readable_bytes, writable_bytes;
} kn_maps;
/* files (may be NULL): the paths of mapped files, each with its NUL; one may come several times. */
int kn_parse_maps(slice text, kn_maps *out, buf *files, err *e);

typedef struct kn_limit {
    bool known, unlimited;
    uint64_t v;
} kn_limit;
typedef struct kn_limits { /* /proc/PID/limits */
    kn_limit nofile_soft, nofile_hard, nproc_soft, core_soft, as_soft;
} kn_limits;
int kn_parse_limits(slice text, kn_limits *out, err *e);

typedef struct kn_io { /* /proc/PID/io, bytes and calls */
    kn_num rchar, wchar, syscr, syscw, read_bytes, write_bytes;
} kn_io;
int kn_parse_io(slice text, kn_io *out, err *e);

typedef enum kn_fd_class {
    KN_FD_SOCKET,
    KN_FD_REGULAR,
    KN_FD_PIPE,
    KN_FD_EVENTFD,
    KN_FD_OTHER,
    KN_FD_CLASSES
} kn_fd_class;
/* By the link's target: "socket:[INODE]" (fills *inode), an absolute path, "pipe:[", "anon_inode:[eventfd]", anything
 * else. */
kn_fd_class kn_classify_fd(slice target, uint64_t *inode);
typedef struct kn_tcp {
    uint32_t established, time_wait, close_wait, listen, other;
} kn_tcp;
/* Counts the lines of /proc/net/tcp or tcp6. A connection belongs to the process when its inode is a key of own. The
 * kernel keeps no inode, so no owner, for a connection in TIME_WAIT: it is counted when its local port is one that the
 * process listens on, or its peer one that the process is connected to; this needs what the owned lines tell, hence a
 * second pass (owners = false) over the same lines. */
typedef struct kn_tcp_count {
    const map64 *own;
    kn_tcp n;
    map64 ports, peers; /* filled by the first pass; at most KN_FD_CLASSIFY each */
} kn_tcp_count;
void kn_tcp_line(slice line, bool owners, kn_tcp_count *c);
void kn_parse_tcp(slice text, bool owners, kn_tcp_count *c);
void kn_tcp_fini(kn_tcp_count *c);

/* ---- a process: readers ---- */
int kn_stat_of(const char *root, int pid, kn_stat *out, err *e);
int kn_status_of(const char *root, int pid, kn_status *out, err *e);
typedef struct kn_fds {
    uint32_t count, by_class[KN_FD_CLASSES],
        unclassified; /* unclassified: past KN_FD_CLASSIFY or unreadable, in other too */
    bool has_tcp;
    kn_tcp tcp;
    kn_notes notes;
} kn_fds;
int kn_fds_of(const char *root, int pid, kn_fds *out, err *e);

/* ---- a process: its threads ---- */
#define KN_THREADS_MAX 4096 /* threads listed */
typedef struct kn_thread {
    int tid;
    char name[64];       /* as the kernel gives it: at most 15 bytes, valid UTF-8 or not */
    uint64_t start_time; /* clock ticks since boot */
    uint64_t cpu_ns;     /* user and system */
    bool precise;        /* cpu_ns is the scheduler's; else it comes in clock ticks (10 ms) */
} kn_thread;
typedef struct kn_threads {
    kn_thread *rows; /* by tid */
    size_t n, cap;
    uint32_t dropped; /* past KN_THREADS_MAX */
} kn_threads;
/* The threads whose name begins with one of prefixes (a NUL-separated list; empty: all). A thread that ends meanwhile
 * is left out. Free with kn_threads_fini. Errors as kn_read_pid, and ERR_NO_MEMORY. */
int kn_threads_of(const char *root, int pid, slice prefixes, kn_threads *out, err *e);
void kn_threads_fini(kn_threads *t);

/* What each thread of a process rests in, in the order of /proc. The call and its arguments need the right to ptrace.
 */
#define KN_WAITS_MAX    20000 /* threads */
#define KN_SYSCALL_ARGS 6
typedef struct kn_thread_wait {
    int tid;
    char state; /* R, S, D, T, t, … */
    char name[64];
    char wchan[64]; /* the kernel's function; "": none, or not told */
    bool has_syscall;
    int syscall; /* number of this machine */
    uint64_t args[KN_SYSCALL_ARGS];
} kn_thread_wait;
typedef struct kn_thread_waits {
    kn_thread_wait *rows;
    size_t n, cap, dropped;
} kn_thread_waits;
/* One line of /proc/PID/task/TID/syscall into has_syscall, syscall and args. 1: it is in a call. */
int kn_parse_syscall(slice text, kn_thread_wait *out);
int kn_thread_waits_of(const char *root, int pid, kn_thread_waits *out, err *e);
void kn_thread_waits_fini(kn_thread_waits *w);
/* Nanoseconds on a CPU, the first number of /proc/PID/task/TID/schedstat. */
bool kn_parse_schedstat(slice text, uint64_t *cpu_ns);

/* ---- a process: its end ---- */
typedef struct kn_exit {
    bool known; /* false: it ended, and this kernel did not tell how */
    int code;   /* of a normal end: 0 to 255 */
    int signal; /* that ended it, or 0 */
    bool core;  /* the kernel wrote a core file */
} kn_exit;
/* Starts to watch a process, which need not be ours. A descriptor to close, or ERR_PROCESS_NOT_FOUND, ERR_NOT_SUPPORTED
 * (before Linux 5.3), ERR_IO. A zombie can be watched still. */
int kn_watch_open(int pid, err *e);
/* False: it runs. True: it ended, *out says how. Unknown becomes known at times when asked again: a zombie hides its
 * status from strangers, and from Linux 6.15 on it can be had once the parent has taken note. Never blocks. */
bool kn_watch_ended(int fd, int pid, kn_exit *out);
/* Sends a signal to the process that has this id and began at start_time (of kn_stat), and to no other that has its id
 * by now. 1: it was sent; 0: there is no such process any more; ERR_PERMISSION_DENIED, ERR_NOT_SUPPORTED, ERR_IO. */
int kn_signal(int pid, uint64_t start_time, int signo, err *e);
/* A wait status (man wait(2)) in its parts. */
void kn_exit_of_status(int status, kn_exit *out);
/* The wait status in /proc/PID/stat of a zombie; false for a process that is none, or a text that is no stat. */
bool kn_parse_zombie(slice stat, int *status);

/* ---- cgroups ---- */
typedef enum kn_cgroup_version { KN_CGROUP_NONE, KN_CGROUP_V1, KN_CGROUP_V2 } kn_cgroup_version;
typedef struct kn_cgroup_ids { /* /proc/PID/cgroup */
    kn_cgroup_version version;
    bool hybrid; /* v1 controllers beside a v2 hierarchy */
    char v2[KN_PATH_MAX], cpu[KN_PATH_MAX], memory[KN_PATH_MAX], pids[KN_PATH_MAX],
        cpuacct[KN_PATH_MAX]; /* "": not there */
} kn_cgroup_ids;
void kn_parse_cgroup_ids(slice text, kn_cgroup_ids *out);
typedef struct kn_mount {
    char point[KN_PATH_MAX], root[KN_PATH_MAX];
} kn_mount;
/* Finds in a mountinfo text the mount of a cgroup2 hierarchy (controller NULL) or of a v1 controller. */
bool kn_find_mount(slice mountinfo, const char *controller, kn_mount *out);
/* "MAX PERIOD" of cpu.max: quota known only when there is one. False for a text that is none. */
bool kn_parse_cpu_max(slice text, kn_num *quota_usec, kn_num *period_usec);
/* The value of a key in "KEY VALUE" lines (cpu.stat, memory.events). */
kn_num kn_keyed(slice text, const char *key);
/* A number, or "max" (unlimited) of memory.max, pids.max. */
kn_limit kn_parse_limit(slice text);
typedef struct kn_psi {
    kn_frac some10, some60, full10, full60;
} kn_psi;
void kn_parse_psi(slice text, kn_psi *out);

typedef struct kn_cgroup {
    kn_cgroup_version version;
    bool hybrid, in_container;
    char path[KN_PATH_MAX]; /* "": none */
    bool has_cpu, has_memory, has_pids, has_psi, psi_is_host;
    kn_num usage_usec, nr_periods, nr_throttled, throttled_usec, quota_usec, period_usec;
    kn_num mem_current, mem_max, mem_high, oom_kills, max_hits;
    kn_frac mem_fraction; /* of the tightest limit, which may be an ancestor's */
    kn_num pids_current, pids_max;
    kn_psi cpu_psi, mem_psi, io_psi;
    kn_num oom_score;
    kn_notes notes;
} kn_cgroup;
/* Best effort: a file that is missing becomes a note. Fails only when there is no such process. */
int kn_cgroup_of(const char *root, int pid, kn_cgroup *out, err *e);

/* ---- this host and what we may do ---- */
#define KN_CAP_DAC_READ_SEARCH 2
#define KN_CAP_SYS_PTRACE      19
#define KN_CAP_SYS_ADMIN       21
#define KN_CAP_SYSLOG          34
#define KN_CAP_PERFMON         38
#define KN_CAP_BPF             39
typedef struct kn_host {
    uint32_t uid;
    uint64_t cap_eff;
    bool has_caps, user_namespace; /* user_namespace: our capabilities do not reach the whole host */
    kn_num seccomp, no_new_privs;
    kn_num ptrace_scope, perf_event_paranoid, kptr_restrict; /* unknown: the kernel has no such switch */
    char release[128];
    char perf[KN_PATH_MAX]; /* the perf program on PATH, or "" */
    char tracefs[64];       /* where the tracing files are readable, or "" */
    bool psi, uprobe_events_writable;
} kn_host;
/* path_env: the PATH to look perf up in (may be NULL). */
void kn_host_of(const char *root, const char *path_env, kn_host *out);

/* Would it work? Each opens the event and closes it at once: no sample is taken. 0, or an errno. */
typedef struct kn_perf_probe {
    int cpu_clock;    /* software clock on the process, in user space */
    int kernel_clock; /* the same, also in the kernel */
    int hardware;     /* hardware cycles on the process */
    int sched_switch; /* the scheduler's tracepoint, whole machine */
    int uprobe;       /* ENOENT: the kernel has no uprobe events; else what CAP_PERFMON decides */
    int breakpoint;   /* a hardware breakpoint of the process's user space */
} kn_perf_probe;
void kn_perf_probe_of(int pid, kn_perf_probe *out);
/* Whether we may ptrace-attach to the process: opens /proc/PID/mem, for which the kernel asks the same question, and
 * closes it. 0 or an error. */
int kn_attach_check(const char *root, int pid, err *e);

#endif
