/* SPDX-License-Identifier: MIT */
/* counting.c: one descriptor a thread and metric, opened enabled; a window is the difference of two readings. A metric
 * that the first thread cannot have is tried for no other. */
#include "kernel/counting.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernel/kn_internal.h"

#define KN_CACHE_DTLB (PERF_COUNT_HW_CACHE_DTLB | PERF_COUNT_HW_CACHE_OP_READ << 8)
#define KN_CACHE_MISS (PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

/* One thread of the beginning. */
typedef struct counted {
    int tid;
    int fds[KN_METRIC_COUNT];          /* -1: none */
    uint64_t base[KN_METRIC_COUNT][3]; /* value, enabled, running at the beginning */
    uint64_t switches, migrations;     /* of /proc, at the beginning */
    bool has_switches, has_migrations;
} counted;

/* What the process did so far, of /proc/PID/stat. */
typedef struct totals {
    bool known;
    uint64_t cpu_ns, minor, major;
} totals;

struct kn_counting {
    int pid;
    counted *rows;
    size_t n;
    int sys[KN_METRIC_COUNT]; /* why it is not to be had; 0: it is */
    bool user_only[KN_METRIC_COUNT];
    uint32_t files, files_max, uncounted, raced;
    totals base;
    int64_t began_ns;
};

typedef struct metric_def {
    const char *name;
    uint32_t type;
    uint64_t config;
} metric_def;
static const metric_def metrics[KN_METRIC_COUNT] = {
#define X(id, name, type, config) {name, type, config},
    KN_METRICS(X)
#undef X
};

const char *kn_metric_name(kn_metric m) { return metrics[m].name; }

/* ---- /proc ------------------------------------------------------------------------------------------------------- */

bool kn_parse_sched(slice text, const char *key, uint64_t *out)
{
    slice line, prefix = slice_str(key);
    while (kn__line(&text, &line)) {
        if (!slice_starts(line, prefix) || line.n == prefix.n) continue;
        slice rest = slice_of(line.p + prefix.n, line.n - prefix.n);
        const uint8_t *colon = memchr(rest.p, ':', rest.n);
        if (!colon || kn__trim(slice_of(rest.p, (size_t)(colon - rest.p))).n) continue; /* a longer key */
        return kn__u64(kn__trim(slice_of(colon + 1, rest.n - (size_t)(colon + 1 - rest.p))), out);
    }
    return false;
}

static bool read_task(int pid, int tid, const char *name, buf *text)
{
    char rel[80];
    snprintf(rel, sizeof rel, "/proc/%d/task/%d/%s", pid, tid, name);
    buf_reset(text);
    return kn_read("", rel, KN_SMALL_MAX, text, NULL) >= 0;
}

static bool task_switches(int pid, int tid, buf *text, uint64_t *out)
{
    if (!read_task(pid, tid, "status", text)) return false;
    uint64_t forced = 0;
    return kn_parse_sched(buf_view(text), "voluntary_ctxt_switches", out) &&
           kn_parse_sched(buf_view(text), "nonvoluntary_ctxt_switches", &forced) && (*out += forced, true);
}

static bool task_migrations(int pid, int tid, buf *text, uint64_t *out)
{
    return read_task(pid, tid, "sched", text) && kn_parse_sched(buf_view(text), "se.nr_migrations", out);
}

static totals totals_of(int pid)
{
    kn_stat s;
    if (kn_stat_of("", pid, &s, NULL) < 0) return (totals){0};
    long hz = sysconf(_SC_CLK_TCK);
    return (totals){.known = true,
                    .cpu_ns = (s.utime + s.stime) * (UINT64_C(1000000000) / (uint64_t)(hz > 0 ? hz : 100)),
                    .minor = s.minflt,
                    .major = s.majflt};
}

/* ---- perf -------------------------------------------------------------------------------------------------------- */

static int open_one(const metric_def *m, int tid, bool user_only)
{
    struct perf_event_attr a = {.type = m->type,
                                .size = sizeof a,
                                .config = m->config,
                                .inherit = 1,
                                .inherit_thread = 1, /* what a process starts is another process */
                                .exclude_kernel = user_only,
                                .exclude_hv = 1,
                                .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING};
    long fd = syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 && errno == EINVAL) { /* Linux before 5.13 */
        a.inherit_thread = 0;
        fd = syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    }
    return (int)fd;
}

/* Software events happen inside the kernel: without its part they would count nothing, or too little. */
static bool may_be_user_only(kn_metric m) { return metrics[m].type != PERF_TYPE_SOFTWARE || m == KN_METRIC_TASK_CLOCK; }

/* An errno, or 0 with the descriptor in the row. */
static int open_metric(kn_counting *c, counted *row, kn_metric m)
{
    int fd = open_one(&metrics[m], row->tid, c->user_only[m]);
    if (fd < 0 && (errno == EACCES || errno == EPERM) && !c->user_only[m] && may_be_user_only(m)) {
        fd = open_one(&metrics[m], row->tid, true);
        if (fd >= 0) c->user_only[m] = true;
    }
    if (fd < 0) return errno;
    row->fds[m] = fd;
    c->files++;
    return 0;
}

static bool read_one(int fd, uint64_t out[3]) { return read(fd, out, 3 * sizeof *out) == (ssize_t)(3 * sizeof *out); }

/* False: there was no room for the thread. A thread that ends meanwhile is fine. */
static bool open_thread(kn_counting *c, counted *row, bool first)
{
    for (int m = 0; m < KN_METRIC_COUNT; m++) {
        if (c->sys[m]) continue;
        if (c->files >= c->files_max) return false;
        int sys = open_metric(c, row, (kn_metric)m);
        if (sys == ESRCH) return true;
        if (sys == EMFILE || sys == ENFILE) return false;
        if (sys && first) c->sys[m] = sys;
    }
    return true;
}

/* Descriptors that we may have: the soft limit is raised to what the hard one allows. */
static uint32_t files_max(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0) return 512;
    rlim_t wanted = KN_COUNTING_FILES_MAX + 1024u;
    if (l.rlim_cur < wanted) {
        rlim_t was = l.rlim_cur;
        l.rlim_cur = l.rlim_max < wanted ? l.rlim_max : wanted;
        if (setrlimit(RLIMIT_NOFILE, &l) != 0) l.rlim_cur = was;
    }
    rlim_t left = l.rlim_cur > 512 ? l.rlim_cur - 256 : l.rlim_cur / 2; /* the rest of the program needs some */
    return left < KN_COUNTING_FILES_MAX ? (uint32_t)left : KN_COUNTING_FILES_MAX;
}

/* The values at the beginning: of perf for what it counts, of /proc for the rest. */
static void read_bases(kn_counting *c)
{
    buf text;
    buf_init(&text, 0);
    for (size_t i = 0; i < c->n; i++) {
        counted *row = &c->rows[i];
        if (c->sys[KN_METRIC_CONTEXT_SWITCHES])
            row->has_switches = task_switches(c->pid, row->tid, &text, &row->switches);
        if (c->sys[KN_METRIC_MIGRATIONS])
            row->has_migrations = task_migrations(c->pid, row->tid, &text, &row->migrations);
        for (int m = 0; m < KN_METRIC_COUNT; m++)
            if (row->fds[m] >= 0 && !read_one(row->fds[m], row->base[m])) memset(row->base[m], 0, sizeof row->base[m]);
    }
    c->base = totals_of(c->pid);
    c->began_ns = clock_ns(CLOCK_MONOTONIC);
    buf_fini(&text);
}

static bool has_tid(const kn_counting *c, int tid)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->rows[i].tid == tid) return true;
    return false;
}

/* Threads that are there now and were not when the list was made. */
static void count_raced(kn_counting *c)
{
    kn_threads now;
    if (kn_threads_of("", c->pid, slice_of(NULL, 0), &now, NULL) < 0) return;
    for (size_t i = 0; i < now.n; i++)
        if (!has_tid(c, now.rows[i].tid)) c->raced++;
    c->raced = c->raced > c->uncounted ? c->raced - c->uncounted : 0;
    kn_threads_fini(&now);
}

static int open_all(kn_counting *c, const kn_threads *t, err *e)
{
    c->rows = mem_calloc(t->n ? t->n : 1, sizeof *c->rows);
    if (!c->rows) return err_set(e, ERR_NO_MEMORY, "not enough memory for the counters of process %d", c->pid);
    c->uncounted = t->dropped;
    for (size_t i = 0; i < t->n; i++) {
        counted *row = &c->rows[c->n];
        row->tid = t->rows[i].tid;
        memset(row->fds, 0xff, sizeof row->fds);
        c->n++;
        if (c->n <= KN_COUNTING_THREADS_MAX && open_thread(c, row, c->n == 1)) continue;
        c->uncounted += (uint32_t)(t->n - i);
        break;
    }
    return 0;
}

int kn_counting_open(int pid, kn_counting **out, err *e)
{
    kn_threads t = {0};
    kn_counting *c = NULL;
    int rc = kn_threads_of("", pid, slice_of(NULL, 0), &t, e);
    if (rc < 0) return rc;
    c = mem_calloc(1, sizeof *c);
    if (!c) {
        rc = err_set(e, ERR_NO_MEMORY, "not enough memory for the counters of process %d", pid);
        goto out;
    }
    *c = (kn_counting){.pid = pid, .files_max = files_max()};
    rc = open_all(c, &t, e);
    if (rc < 0) goto out;
    count_raced(c);
    read_bases(c);
    if (c->files == 0 && !c->base.known) {
        rc = err_sys(e, ERR_PERMISSION_DENIED, c->sys[0] ? c->sys[0] : EACCES,
                     "neither perf_event_open nor /proc tells anything of process %d", pid);
        goto out;
    }
    *out = c;
    c = NULL;
out:
    kn_counting_close(c);
    kn_threads_fini(&t);
    return rc;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

double kn_count_scaled(const uint64_t before[3], const uint64_t after[3], double *share)
{
    double value = (double)(after[0] - before[0]), enabled = (double)(after[1] - before[1]),
           running = (double)(after[2] - before[2]);
    *share = enabled > 0 ? running / enabled : 1;
    if (*share <= 0 || *share >= 1) {
        *share = *share >= 1 ? 1 : 0;
        return *share > 0 ? value : 0;
    }
    return value / *share;
}

static void add_perf(kn_counting *c, kn_metric m, kn_count *out)
{
    double lowest = 1;
    out->source = KN_COUNT_PERF;
    out->user_only = c->user_only[m];
    for (size_t i = 0; i < c->n; i++) {
        uint64_t now[3];
        double share;
        if (c->rows[i].fds[m] < 0 || !read_one(c->rows[i].fds[m], now)) continue;
        out->value += kn_count_scaled(c->rows[i].base[m], now, &share);
        if (now[1] > c->rows[i].base[m][1] && share < lowest) lowest = share;
    }
    out->share = lowest;
}

/* The sum over threads of a number of /proc; those that ended have taken theirs along. */
static void add_tasks(kn_counting *c, kn_metric m, kn_count *out)
{
    buf text;
    buf_init(&text, 0);
    for (size_t i = 0; i < c->n; i++) {
        const counted *row = &c->rows[i];
        bool switches = m == KN_METRIC_CONTEXT_SWITCHES;
        uint64_t was = switches ? row->switches : row->migrations, now = 0;
        if (!(switches ? row->has_switches : row->has_migrations)) continue;
        if (!(switches ? task_switches : task_migrations)(c->pid, row->tid, &text, &now) || now < was) continue;
        out->source = KN_COUNT_PROC;
        out->value += (double)(now - was);
    }
    out->at_least = true; /* a thread may have begun and ended meanwhile */
    out->share = 1;
    buf_fini(&text);
}

static void add_totals(const kn_counting *c, kn_metric m, const totals *now, kn_count *out)
{
    if (!c->base.known || !now->known) return;
    const totals *was = &c->base;
    uint64_t minor = now->minor - was->minor, major = now->major - was->major;
    out->source = KN_COUNT_PROC;
    out->share = 1;
    out->value = m == KN_METRIC_TASK_CLOCK     ? (double)(now->cpu_ns - was->cpu_ns)
                 : m == KN_METRIC_MINOR_FAULTS ? (double)minor
                 : m == KN_METRIC_MAJOR_FAULTS ? (double)major
                                               : (double)(minor + major);
}

static void read_metric(kn_counting *c, kn_metric m, const totals *now, kn_count *out)
{
    *out = (kn_count){.sys = c->sys[m]};
    if (!c->sys[m] && c->files) {
        add_perf(c, m, out);
        return;
    }
    if (m == KN_METRIC_CONTEXT_SWITCHES || m == KN_METRIC_MIGRATIONS)
        add_tasks(c, m, out);
    else if (metrics[m].type == PERF_TYPE_SOFTWARE)
        add_totals(c, m, now, out);
}

int kn_counting_read(kn_counting *c, kn_counts *out, err *e)
{
    kn_threads alive;
    totals now = totals_of(c->pid);
    if (c->files == 0 && !now.known) return err_set(e, ERR_PROCESS_NOT_FOUND, "process %d has ended", c->pid);
    *out = (kn_counts){.elapsed_ns = clock_ns(CLOCK_MONOTONIC) - c->began_ns,
                       .threads = (uint32_t)c->n,
                       .uncounted = c->uncounted,
                       .raced = c->raced};
    for (int m = 0; m < KN_METRIC_COUNT; m++)
        read_metric(c, (kn_metric)m, &now, &out->by[m]);
    out->ended = (int64_t)c->n;
    if (kn_threads_of("", c->pid, slice_of(NULL, 0), &alive, NULL) < 0) return 0;
    for (size_t i = 0; i < alive.n; i++)
        out->ended -= has_tid(c, alive.rows[i].tid);
    kn_threads_fini(&alive);
    return 0;
}

void kn_counting_close(kn_counting *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->n; i++)
        for (int m = 0; m < KN_METRIC_COUNT; m++)
            if (c->rows[i].fds[m] >= 0) close(c->rows[i].fds[m]);
    free(c->rows);
    free(c);
}
