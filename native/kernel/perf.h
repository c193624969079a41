/* SPDX-License-Identifier: MIT */
/* perf.h: events of the kernel by perf_event_open: what is to be opened (perf_spec), one ring a CPU, and a reader that
 * hands out records in the order of their time. No sample of the target needs a signal, a stop or a file. Times are
 * CLOCK_MONOTONIC nanoseconds, which are the ticks of EventPipe on Linux too. Formats: man perf_event_open(2),
 * include/uapi/linux/perf_event.h.
 *
 *     perf_spec s = perf_cpu_clock(997);  s.take = PERF_TAKE_KERNEL_CHAIN | PERF_TAKE_USER;
 *     perf_cfg cfg = {.pid = pid, .specs = &s, .n_specs = 1, .tasks = true};
 *     perf_set *p;
 *     if (perf_open(&cfg, &p, &e) < 0) ...               any thread; the error says what is missing and its remedy
 *     perf_run(p, deadline_ns, on_record, arg, &e);      on a worker: until the deadline, perf_stop or the target's end
 *     perf_stats_of(p, &stats);  perf_close(p); */
#ifndef LUNETTE_KERNEL_PERF_H
#define LUNETTE_KERNEL_PERF_H

#include "base/mem.h"
#include "unwind/uw.h"

#define PERF_SPECS_MAX       32u
#define PERF_THREADS_MAX     8192u
#define PERF_FDS_MAX         65536u            /* descriptors of one set: threads times CPUs times specs */
#define PERF_RING_BYTES      ((size_t)4 << 20) /* of each CPU; halved while the kernel refuses it */
#define PERF_STACK_BYTES     16384u            /* of each sample's user stack */
#define PERF_STACK_BYTES_MAX 65528u

/* ---- what is opened ---------------------------------------------------------------------------------------------- */

typedef enum perf_take {
    PERF_TAKE_KERNEL_CHAIN = 1, /* return addresses in the kernel (ORC or frame pointers, by the kernel itself) */
    PERF_TAKE_USER_CHAIN = 2,   /* return addresses of the program by frame pointers */
    PERF_TAKE_USER = 4,         /* its registers and the top of its stack, for native/unwind */
    PERF_TAKE_RAW = 8,          /* fields of a tracepoint */
    PERF_TAKE_REGS = 32,        /* its registers alone */
    PERF_TAKE_ADDR = 16,        /* the address of a fault or a breakpoint */
} perf_take;

/* One kind of event. Made by the functions below, then adjusted. */
typedef struct perf_spec {
    uint32_t type; /* PERF_TYPE_… or the number of a PMU */
    uint64_t config, config1, config2;
    uint32_t bp_type;
    uint64_t period;      /* one sample each so many events (cpu clock: nanoseconds); 0: counts only */
    unsigned take;        /* of perf_take */
    uint32_t stack_bytes; /* PERF_TAKE_USER; 0: PERF_STACK_BYTES */
    bool machine;         /* all processes on all CPUs; needs CAP_PERFMON. Else the threads of cfg.pid */
    bool no_kernel;       /* not while the kernel runs */
    bool switches;        /* also a record each time that a thread takes or leaves a processor */
    const char *filter;   /* of a tracepoint, or NULL; borrowed until perf_open returns */
    const char *path;     /* uprobes: the file; borrowed until perf_open returns */
    const char *what;     /* for errors: "sched:sched_switch"; borrowed until perf_open returns */
} perf_spec;

perf_spec perf_cpu_clock(uint32_t hz);
/* id as tracefs has it (tp_format.id). */
perf_spec perf_tracepoint(uint32_t id, uint64_t period);
perf_spec perf_software(uint64_t config, uint64_t period); /* PERF_COUNT_SW_… */
perf_spec perf_hardware(uint64_t config, uint64_t period); /* PERF_COUNT_HW_… */
/* An instruction of the process, by address; at most four at a time on x86. */
perf_spec perf_breakpoint(uint64_t address, uint64_t period);
/* A probe on an offset of a file by the kernel's uprobe PMU: gone with its descriptor, nothing stays in tracefs.
 * Threads that start later are not watched: they cannot inherit it. */
int perf_uprobe(const char *path, uint64_t file_offset, bool at_return, uint64_t period, perf_spec *out, err *e);

typedef struct perf_cfg {
    int pid; /* its threads, also those that start later; 0: only specs with machine */
    const perf_spec *specs;
    uint32_t n_specs;
    bool tasks;        /* also records of maps, names, forks and exits of the process */
    size_t ring_bytes; /* of each CPU, a power of two; 0: PERF_RING_BYTES */
} perf_cfg;

/* ---- records ----------------------------------------------------------------------------------------------------- */

typedef enum perf_kind {
    PERF_SAMPLE,
    PERF_MMAP,
    PERF_COMM,
    PERF_FORK,
    PERF_EXIT,
    PERF_LOST, /* n records of one CPU found no room before this one */
    PERF_THROTTLE,
    PERF_SWITCH,
    PERF_OTHER,
} perf_kind;

typedef struct perf_map {
    uint64_t start, size, file_offset, inode, inode_generation;
    uint32_t major, minor;
    uint32_t prot;
    slice path;     /* as the target has it; "//anon", "[vdso]" */
    slice build_id; /* empty: not told */
} perf_map;

/* Everything is borrowed, good inside the callback only. */
typedef struct perf_record {
    perf_kind kind;
    uint32_t spec; /* index in cfg.specs; samples */
    uint32_t cpu;
    int pid, tid; /* in the reader's namespace of processes; 0 or -1: none */
    int64_t time; /* ns */
    uint64_t ip, addr, period;
    const uint64_t *chain; /* leaf first, with the PERF_CONTEXT_… marks between */
    uint32_t n_chain;
    bool has_regs;
    uw_regs regs;
    slice stack; /* from regs' stack pointer up */
    slice raw;
    perf_map map;   /* PERF_MMAP */
    slice comm;     /* PERF_COMM */
    bool exec;      /* PERF_COMM: by execve */
    int ppid, ptid; /* PERF_FORK */
    uint64_t lost;  /* PERF_LOST */
    bool out;       /* PERF_SWITCH: it leaves the processor */
    bool preempted; /* PERF_SWITCH, out: it would go on */
} perf_record;

/* What the fields of a record's kind are laid out by; for perf_decode only. */
typedef struct perf_layout {
    uint64_t sample_type, user_regs;
    uint64_t period; /* of each sample, where it does not tell */
    uint32_t spec;
} perf_layout;
/* Reads one record with its header. layout_of finds the layout by the event's id, NULL: unknown. False: damaged. */
typedef const perf_layout *(*perf_layout_fn)(void *arg, uint64_t id);
bool perf_decode(slice record, perf_layout_fn layout_of, void *arg, perf_record *out);

/* ---- a set of events --------------------------------------------------------------------------------------------- */

typedef struct perf_set perf_set;

/* Opens the events; they count at once, but what came before perf_run began is left out (but for maps and tasks).
 * PermissionDenied, NotSupported, ProcessNotFound, ProcessExited, LimitExceeded: with what is missing and the remedy as
 * hint. */
int perf_open(const perf_cfg *cfg, perf_set **out, err *e);
/* Ends perf_run soon. Any thread, any time before perf_close; also before perf_run begins. */
void perf_stop(perf_set *p);
/* Begins the window, whose records wait in their rings until perf_run. Optional: perf_run does it. Its time. */
int64_t perf_begin(perf_set *p);
/* Reads until until_ns (monotonic), perf_stop, or the end of the process, then disables the events and reads the rest.
 * Once a set. fn runs on this thread. A fault of epoll is the only error. */
typedef void (*perf_record_fn)(void *arg, const perf_record *r);
int perf_run(perf_set *p, int64_t until_ns, perf_record_fn fn, void *arg, err *e);
/* Opens a tracepoint of the machine once more, with another filter, while records are taken: by the thread of perf_run.
 * (The filter of an event that is open cannot be changed.) False: refused, or PERF_FDS_MAX is met. */
bool perf_more(perf_set *p, uint32_t spec, const char *filter);
/* How many events there were, sampled or not, summed over threads and CPUs, by index of the spec; scaled when the
 * counter had to be shared. False: none counted. Any time but while perf_run runs; since perf_open. */
bool perf_count(perf_set *p, uint32_t spec, uint64_t *value);

typedef struct perf_stats {
    uint64_t samples, records;
    uint64_t lost;      /* records that found no room */
    uint64_t throttled; /* times that the kernel held a timer back */
    uint64_t damaged;   /* records that could not be read */
    uint64_t late;      /* records handed out after a younger one */
    uint32_t cpus, threads, fds;
    uint32_t threads_missing; /* threads that could not be opened */
    size_t ring_bytes;        /* of each CPU */
    int64_t begin_ns, end_ns; /* the window */
    bool no_kernel;           /* the kernel's part was refused: only user space is seen */
    bool target_ended;
    bool stopped; /* by perf_stop */
} perf_stats;
void perf_stats_of(const perf_set *p, perf_stats *out);
void perf_close(perf_set *p); /* after perf_run returned; NULL is fine */

/* What stands in the way, as an error with a remedy to paste: a sysctl, a capability, a mount, seccomp. sys is the
 * errno of perf_event_open. Returns its negative kind. */
int perf_explain(const char *root, const perf_spec *s, int pid, int sys, err *e);

/* ---- tracepoints ------------------------------------------------------------------------------------------------- */

#define TP_FIELDS_MAX 64u
typedef struct tp_field {
    char name[48], type[64];
    uint16_t offset, size;
    bool is_signed, is_array, is_dynamic; /* dynamic (__data_loc): four bytes of offset and length */
} tp_field;
typedef struct tp_format {
    char name[64];
    uint32_t id;
    uint32_t n;
    tp_field fields[TP_FIELDS_MAX];
} tp_format;
/* Text of events/SYSTEM/NAME/format. */
int tp_parse(slice text, tp_format *out, err *e);
/* Reads it from tracefs. NotFound: the kernel has no such event; PermissionDenied or NotSupported: tracefs is not
 * readable or not mounted, with the remedy. root: "" or a fixture. */
int tp_load(const char *root, const char *system, const char *name, tp_format *out, err *e);
/* Index of a field; -1: there is none. */
int tp_field_of(const tp_format *f, const char *name);
/* A number of a record's raw bytes, sign-extended when the field is signed; 0 when it lies outside. */
int64_t tp_int(const tp_format *f, int field, slice raw);
/* Text or bytes of an array field, fixed (up to its NUL) or dynamic; empty when it lies outside. Borrowed. */
slice tp_text(const tp_format *f, int field, slice raw);

#endif
