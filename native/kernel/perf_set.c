/* SPDX-License-Identifier: MIT */
/* perf_set.c: the events of a process's threads and of the machine, one ring a CPU. An event of a thread is opened on
 * each CPU, since the kernel lets only such events be inherited by threads that start later and have a ring. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernel/kn_internal.h"
#include "kernel/perf_set.h"

enum { CPUS_MAX = 4096, ROUNDS = 16 };

/* ---- CPUs and threads -------------------------------------------------------------------------------------------- */

/* "0-3,8": numbers into out. */
static size_t read_cpus(int *out, size_t max)
{
    buf b;
    size_t n = 0;
    buf_init(&b, 0);
    if (kn_read("", "/sys/devices/system/cpu/online", KN_SMALL_MAX, &b, NULL) < 0 || !buf_u8(&b, 0)) b.n = 0;
    for (const char *p = b.n ? (const char *)b.p : ""; *p >= '0' && *p <= '9';) {
        char *end;
        unsigned long from = strtoul(p, &end, 10), to = from;
        if (*end == '-') to = strtoul(end + 1, &end, 10);
        for (unsigned long i = from; i <= to && n < max && i < CPUS_MAX; i++)
            out[n++] = (int)i;
        p = *end == ',' ? end + 1 : end;
    }
    buf_fini(&b);
    for (long i = 0; n == 0 && i < sysconf(_SC_NPROCESSORS_CONF) && i < (long)max; i++)
        out[i] = (int)i;
    return n ? n : (size_t)sysconf(_SC_NPROCESSORS_CONF);
}

/* Threads of the process that are not in known, into out (room for max). Negative errno. */
static int new_threads(int pid, const map64 *known, int *out, int max)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *d = opendir(path);
    if (!d) return errno == ENOENT ? -ESRCH : -errno;
    int n = 0;
    for (struct dirent *x; n < max && (x = readdir(d));) {
        uint64_t ignored;
        int tid = (int)strtol(x->d_name, NULL, 10);
        if (tid > 0 && !map64_get(known, (uint64_t)tid, &ignored)) out[n++] = tid;
    }
    closedir(d);
    return n;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void want_descriptors(uint64_t n)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0 || l.rlim_cur >= n + 1024) return;
    l.rlim_cur = l.rlim_max < n + 1024 ? l.rlim_max : n + 1024;
    (void)setrlimit(RLIMIT_NOFILE, &l);
}

static bool keep_fd(perf_set *p, int fd, uint32_t spec, bool counts)
{
    if (p->n_events == p->cap_events) {
        uint32_t to = p->cap_events ? 2 * p->cap_events : 64;
        perf__event *grown = to <= 2 * PERF_FDS_MAX ? mem_realloc(p->events, to * sizeof *grown) : NULL;
        if (!grown) return false;
        p->events = grown;
        p->cap_events = to;
    }
    p->events[p->n_events++] = (perf__event){.fd = fd, .spec = spec, .counts = counts};
    return true;
}

/* Gives the event a place in the ring of its CPU. 0 or -errno. */
static int into_ring(perf_set *p, int fd, perf__ring *r)
{
    if (r->base) return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->fd) == 0 ? 0 : -errno;
    size_t bytes = p->stats.ring_bytes;
    int rc = perf__ring_map(r, fd, r->cpu, bytes);
    if (rc == 0 && r->bytes < p->stats.ring_bytes) p->stats.ring_bytes = r->bytes;
    return rc;
}

/* A ring takes the mark at which it wakes us from the event that makes it. One that came out smaller than was asked for
 * would wake us when it is full: the mark is lowered, and the ring made once more. */
static bool lower_marks(perf_set *p, const perf__ring *r)
{
    uint32_t mark = (uint32_t)(r->bytes / PERF__RING_PARTS);
    if (!r->base || p->kinds[0].attr.wakeup_watermark <= mark) return false;
    for (uint32_t i = 0; i < p->n_kinds; i++)
        p->kinds[i].attr.wakeup_watermark = mark;
    return true;
}

/* Opens one event on one CPU. 0, or -errno with nothing left open. */
static int open_one(perf_set *p, uint32_t spec, int tid, perf__ring *r)
{
    perf__kind *k = &p->kinds[spec];
    bool makes_ring = !r->base;
    bool counts = k->attr.sample_period == 0 && !k->tracks;
    int fd = perf__open(&k->attr, tid, r->cpu);
    if ((fd == -EACCES || fd == -EPERM) && !k->attr.exclude_kernel && !k->spec.machine) { /* perf_event_paranoid is 2 */
        k->attr.exclude_kernel = k->attr.exclude_callchain_kernel = 1;
        int again = perf__open(&k->attr, tid, r->cpu);
        if (again >= 0) {
            p->stats.no_kernel = true;
            fd = again;
        } else {
            k->attr.exclude_kernel = k->spec.no_kernel;
            if (again != -EACCES && again != -EPERM)
                fd = again; /* it ended, or its probe is gone: no matter of rights */
        }
    }
    if (fd < 0) return fd;
    uint64_t id = 0;
    int rc = counts ? 0 : into_ring(p, fd, r);
    if (rc == 0 && makes_ring && lower_marks(p, r)) {
        int cpu = r->cpu;
        perf__ring_unmap(r);
        r->cpu = cpu;
        close(fd);
        fd = perf__open(&k->attr, tid, cpu);
        if (fd < 0) return fd;
        rc = into_ring(p, fd, r);
    }
    if (rc == 0 && k->spec.filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, k->spec.filter) < 0) rc = -errno;
    if (rc == 0 && ioctl(fd, PERF_EVENT_IOC_ID, &id) < 0) rc = -errno;
    if (rc == 0 && (!map64_put(&p->by_id, id, spec) || !keep_fd(p, fd, spec, counts))) rc = -ENOMEM;
    if (rc == 0) return 0;
    if (r->base && r->fd == fd) perf__ring_unmap(r);
    close(fd);
    return rc;
}

/* All specs of one sort on all CPUs. 0 or -errno; *at is the spec at fault. */
static int open_task(perf_set *p, int tid, bool machine, uint32_t *at)
{
    for (uint32_t i = 0; i < p->n_kinds; i++) {
        if (p->kinds[i].spec.machine != machine) continue;
        for (uint32_t c = 0; c < p->n_rings; c++) {
            int rc = p->n_events < PERF_FDS_MAX ? open_one(p, i, tid, &p->rings[c]) : -EMFILE;
            if (rc == -ENODEV) continue; /* a CPU that went meanwhile; hardware counters on some only */
            *at = i;
            if (rc < 0) return rc;
        }
    }
    return 0;
}

/* Threads that started from one whose events were open: they have inherited theirs. */
static void note_forks(perf_set *p)
{
    for (uint32_t c = 0; c < p->n_rings; c++) {
        perf__ring look = p->rings[c]; /* a copy: nothing is taken */
        uint64_t ignored = 0;
        for (perf__ring_look(&look); perf__ring_peek(&look, &ignored); perf__ring_pass(&look)) {
            perf_record r;
            if (perf_decode(look.next, perf__layout_of, p, &r) && r.kind == PERF_FORK)
                (void)map64_put(&p->threads, (uint64_t)r.tid, 1);
        }
    }
}

static int open_threads(perf_set *p, uint32_t *at)
{
    int *tids = mem_alloc(PERF_THREADS_MAX * sizeof *tids);
    if (!tids) return -ENOMEM;
    int rc = 0;
    for (int round = 0; round < ROUNDS && rc >= 0; round++) {
        note_forks(p);
        int n = new_threads(p->pid, &p->threads, tids, (int)PERF_THREADS_MAX);
        if (n < 0) rc = n;
        if (n <= 0) break;
        for (int i = 0; i < n && rc >= 0; i++) {
            if (!map64_put(&p->threads, (uint64_t)tids[i], 1)) rc = -ENOMEM;
            if (rc == 0) rc = open_task(p, tids[i], false, at);
            if (rc == 0) p->stats.threads++;
            if (rc == -ESRCH) rc = 0; /* it ended */
            if ((rc == -EMFILE || rc == -ENFILE) && p->stats.threads > 0) {
                p->stats.threads_missing++;
                rc = 0;
            }
        }
    }
    free(tids);
    return rc < 0 ? rc : p->stats.threads ? 0 : -ESRCH;
}

/* ---- the set ----------------------------------------------------------------------------------------------------- */

const perf_layout *perf__layout_of(void *arg, uint64_t id)
{
    const perf_set *p = arg;
    uint64_t spec;
    if (!map64_get(&p->by_id, id, &spec) || spec >= p->n_kinds) return NULL;
    return &p->kinds[spec].layout;
}

static void add_kind(perf_set *p, const perf_spec *s, bool tasks)
{
    perf__kind *k = &p->kinds[p->n_kinds];
    k->spec = *s;
    k->tracks = tasks;
    perf__attr(s, tasks, p->stats.ring_bytes, &k->attr);
    k->layout = (perf_layout){.sample_type = k->attr.sample_type,
                              .user_regs = k->attr.sample_regs_user,
                              .period = s->period,
                              .spec = p->n_kinds};
    p->n_kinds++;
}

/* Maps and names come with the first sampled event of the process, or one that is there for them only. */
static void make_kinds(perf_set *p, const perf_cfg *cfg)
{
    bool tracked = !cfg->tasks || !cfg->pid;
    for (uint32_t i = 0; i < cfg->n_specs; i++) {
        bool tracks = !tracked && !cfg->specs[i].machine && cfg->specs[i].period;
        add_kind(p, &cfg->specs[i], tracks);
        if (tracks) tracked = true;
    }
    perf_spec dummy = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY, .no_kernel = true, .what = "maps"};
    if (!tracked) add_kind(p, &dummy, true);
}

static int make_rings(perf_set *p, err *e)
{
    int *cpus = mem_alloc(CPUS_MAX * sizeof *cpus);
    p->n_rings = cpus ? (uint32_t)read_cpus(cpus, CPUS_MAX) : 0;
    p->rings = p->n_rings ? mem_calloc(p->n_rings, sizeof *p->rings) : NULL;
    for (uint32_t i = 0; p->rings && i < p->n_rings; i++)
        p->rings[i] = (perf__ring){.fd = -1, .cpu = cpus[i]};
    free(cpus);
    if (!p->rings) return err_set(e, ERR_NO_MEMORY, "no memory for the rings of %u CPUs", p->n_rings);
    p->stats.cpus = p->n_rings;
    return 0;
}

int perf_open(const perf_cfg *cfg, perf_set **out, err *e)
{
    if (cfg->n_specs == 0 || cfg->n_specs > PERF_SPECS_MAX)
        return err_set(e, ERR_INVALID_ARGUMENT, "a set has 1 to %u sorts of events", PERF_SPECS_MAX);
    perf_set *p = mem_calloc(1, sizeof *p);
    if (!p) return err_set(e, ERR_NO_MEMORY, "no memory for a set of events");
    uint32_t at = 0;
    p->pid = cfg->pid;
    p->stats.ring_bytes = cfg->ring_bytes ? cfg->ring_bytes : PERF_RING_BYTES;
    p->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = p->stop_fd < 0 ? err_sys(e, ERR_IO, errno, "no descriptor to stop the events by") : make_rings(p, e);
    if (rc < 0) goto out;
    make_kinds(p, cfg);
    want_descriptors((uint64_t)p->n_rings * p->n_kinds * 256);
    int sys = open_task(p, -1, true, &at);
    if (sys == 0 && cfg->pid) sys = open_threads(p, &at);
    p->stats.fds = p->n_events;
    for (uint32_t i = 0; i < p->n_kinds; i++) /* borrowed until here */
        p->kinds[i].spec.filter = p->kinds[i].spec.path = NULL;
    if (sys < 0) rc = perf_explain("", at < cfg->n_specs ? &cfg->specs[at] : &p->kinds[at].spec, cfg->pid, -sys, e);
    if (rc == 0 && p->n_events == 0) rc = perf_explain("", &cfg->specs[0], cfg->pid, ENODEV, e);
out:
    if (rc < 0) {
        perf_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

void perf_close(perf_set *p)
{
    if (!p) return;
    for (uint32_t i = 0; i < p->n_rings; i++)
        perf__ring_unmap(&p->rings[i]);
    for (uint32_t i = 0; i < p->n_events; i++)
        close(p->events[i].fd);
    if (p->stop_fd >= 0) close(p->stop_fd);
    map64_fini(&p->by_id);
    map64_fini(&p->threads);
    free(p->events);
    free(p->rings);
    free(p);
}

void perf_stop(perf_set *p)
{
    uint64_t one = 1;
    ssize_t ignored = write(p->stop_fd, &one, sizeof one);
    (void)ignored;
}

void perf_stats_of(const perf_set *p, perf_stats *out) { *out = p->stats; }

bool perf_more(perf_set *p, uint32_t spec, const char *filter)
{
    int rc = spec < p->n_kinds && p->kinds[spec].spec.machine ? 0 : -EINVAL;
    if (rc < 0) return false;
    p->kinds[spec].spec.filter = filter;
    for (uint32_t c = 0; c < p->n_rings && rc == 0; c++) {
        rc = p->n_events < PERF_FDS_MAX && p->rings[c].base ? open_one(p, spec, -1, &p->rings[c]) : -EMFILE;
        if (rc == -ENODEV) rc = 0;
    }
    p->kinds[spec].spec.filter = NULL;
    return rc == 0;
}

/* Counters of the processor may have to share it. */
static bool may_share(uint32_t type)
{
    return type != PERF_TYPE_SOFTWARE && type != PERF_TYPE_TRACEPOINT && type <= PERF_TYPE_RAW;
}

bool perf_count(perf_set *p, uint32_t spec, uint64_t *value)
{
    bool any = false;
    uint64_t sum = 0;
    double enabled = 0, running = 0;
    for (uint32_t i = 0; i < p->n_events; i++) {
        uint64_t v[3]; /* value, time enabled, time running */
        if (p->events[i].spec != spec) continue;
        if (read(p->events[i].fd, v, sizeof v) != sizeof v) continue;
        sum += v[0];
        enabled += (double)v[1];
        running += (double)v[2];
        any = true;
    }
    if (!any) return false;
    *value = sum;
    /* Each thread has one event a CPU: enabled while the thread runs anywhere, running while it runs there. */
    double share = p->n_rings && running > 0 ? running / (enabled / p->n_rings) : 1;
    if (may_share(p->kinds[spec].spec.type) && share > 0 && share < 0.999) *value = (uint64_t)((double)sum / share);
    return true;
}
