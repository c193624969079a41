/* SPDX-License-Identifier: MIT */
/* uprobe.c: the three ways to watch a place. */
#include "kernel/uprobe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/kernel.h"
#include "kernel/kn_internal.h"

enum { BREAKPOINTS = 4, GROUP_BYTES = 64, LINE_BYTES = 1024, NAME_MAX_BYTES = 127 };
#define FIRST_PID_NAMESPACE UINT64_C(4026531836) /* linux/proc_ns.h: PROC_PID_INIT_INO */

struct up_probes {
    int pid;
    up_way way;
    up_place *places;
    uint32_t n;
    unsigned serial;         /* of this set, among those of this process */
    char group[GROUP_BYTES]; /* of our events in tracefs; "": none were made */
    uint32_t made;           /* of them */
    bool crowded;            /* too many threads for uprobes of perf */
    uint32_t ids[UP_PLACES_MAX];
};

const char *up_way_name(up_way w)
{
    static const char *const names[] = {"tracefs-uprobe", "perf-uprobe", "hardware-breakpoint"};
    return names[w];
}

/* ---- tracefs ----------------------------------------------------------------------------------------------------- */

static atomic_uint serials;

static bool events_path(const char *root, char *out, size_t size)
{
    kn_host h;
    kn_host_of(root, NULL, &h);
    if (!h.tracefs[0]) return false;
    int n = snprintf(out, size, "%s%s/uprobe_events", root, h.tracefs);
    return n > 0 && (size_t)n < size;
}

/* One command a write, as the kernel wants it. 0 or an errno. */
static int command(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return errno;
    ssize_t n = write(fd, text, strlen(text));
    int sys = n < 0 ? errno : 0;
    close(fd);
    return sys;
}

static uint64_t start_of(const char *root, int pid)
{
    kn_stat s;
    return kn_stat_of(root, pid, &s, NULL) < 0 || s.state == 'Z' || s.state == 'X' ? 0 : s.start_time;
}

/* The namespace of a process's numbers, as the kernel calls it. 0: not known. */
static uint64_t namespace_of(const char *root, const char *pid)
{
    char path[KN_PATH_MAX], text[64];
    int n = snprintf(path, sizeof path, "%s/proc/%s/ns/pid", root, pid);
    ssize_t got = n > 0 && (size_t)n < sizeof path ? readlink(path, text, sizeof text - 1) : -1;
    if (got <= 0) return 0;
    text[got] = 0;
    return strncmp(text, "pid:[", 5) == 0 ? strtoull(text + 5, NULL, 10) : 0;
}

/* Whether a process may be in this namespace: also when that of one may not be read, as in a user namespace. */
static bool any_in(const char *root, uint64_t ns)
{
    char path[KN_PATH_MAX];
    snprintf(path, sizeof path, "%s/proc", root);
    DIR *d = opendir(path);
    if (!d) return true;
    bool any = false;
    for (struct dirent *x; !any && (x = readdir(d));) {
        if (x->d_name[0] < '1' || x->d_name[0] > '9') continue;
        errno = 0;
        uint64_t its = namespace_of(root, x->d_name);
        any = its == ns || (its == 0 && (errno == EACCES || errno == EPERM));
    }
    closedir(d);
    return any;
}

/* A number of another namespace says nothing here. Only from the first one all processes are seen: then one of a
 * namespace without any process is gone. */
static bool is_alive(void *root, const up_maker *m)
{
    uint64_t own = namespace_of(root, "self");
    if (m->ns == 0 || m->ns == own) {
        kn_stat s;
        int rc = kn_stat_of(root, m->pid, &s, NULL);
        if (rc < 0) return rc != -ERR_PROCESS_NOT_FOUND; /* what cannot be read is not known to be gone */
        return s.start_time == m->start && s.state != 'Z' && s.state != 'X';
    }
    return own != FIRST_PID_NAMESPACE || any_in(root, m->ns);
}

bool up_is_stale(slice line, bool (*alive)(void *arg, const up_maker *m), void *arg, char *out, size_t size)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    char text[LINE_BYTES], *end;
    if (!kn__copy(line, text, sizeof text) || (text[0] != 'p' && text[0] != 'r')) return false;
    if (strncmp(text + 1, ":" UP_GROUP "_", strlen(":" UP_GROUP "_")) != 0) return false;
    const char *at = text + 1 + strlen(":" UP_GROUP "_");
    long pid = strtol(at, &end, 10);
    if (end == at || *end != '_' || pid <= 0 || pid > INT32_MAX) return false;
    at = end + 1;
    unsigned long long start = strtoull(at, &end, 10), ns = 0;
    if (end == at) return false;
    if (*end == '_') {
        at = end + 1;
        ns = strtoull(at, &end, 10);
        if (end == at) return false;
    }
    if (*end != '/') return false;
    char *name_at = end + 1;
    size_t name = strspn(name_at, letters);
    if (name == 0 || name > NAME_MAX_BYTES) return false;
    if (alive(arg, &(up_maker){.pid = (int)pid, .start = start, .ns = ns})) return false;
    *end = 0;
    int n = snprintf(out, size, "-%s/%.*s", text + 1, (int)name, name_at);
    return n > 0 && (size_t)n < size;
}

static uint32_t each_stale(const char *root, bool removes, buf *told)
{
    char path[KN_PATH_MAX], remove[256];
    buf b;
    uint32_t n = 0;
    slice line;
    buf_init(&b, 0);
    if (events_path(root, path, sizeof path) && kn_read("", path, KN_ENVIRON_MAX, &b, NULL) >= 0)
        for (slice rest = buf_view(&b); kn__line(&rest, &line);) {
            if (!up_is_stale(line, is_alive, (void *)(uintptr_t)root, remove, sizeof remove)) continue;
            if (removes && command(path, remove) != 0) continue;
            if (told) buf_printf(told, "%s\n", remove);
            n++;
        }
    buf_fini(&b);
    return n;
}

uint32_t up_sweep(const char *root) { return each_stale(root, true, NULL); }
uint32_t up_stale(const char *root, buf *told) { return each_stale(root, false, told); }

static void remove_events(up_probes *p)
{
    char path[KN_PATH_MAX], text[128];
    if (!p->group[0] || !events_path("", path, sizeof path)) return;
    for (uint32_t i = 0; i < p->made; i++) {
        snprintf(text, sizeof text, "-:%s/s%up%u", p->group, p->serial, i);
        (void)command(path, text);
    }
    p->made = 0;
}

static int read_id(const up_probes *p, const char *events, uint32_t i, uint32_t *out)
{
    char path[KN_PATH_MAX];
    int64_t id = 0;
    int cut = (int)(strlen(events) - strlen("/uprobe_events"));
    snprintf(path, sizeof path, "%.*s/events/%s/s%up%u/id", cut, events, p->group, p->serial, i);
    if (kn_read_num("", path, &id, NULL) < 0) return -1;
    *out = (uint32_t)id;
    return 0;
}

/* Makes an event for each place; all or none. */
static bool make_events(up_probes *p)
{

    char path[KN_PATH_MAX], text[UP_PATH_MAX + 128];
    if (!events_path("", path, sizeof path) || access(path, W_OK) != 0) return false;
    (void)up_sweep("");
    p->serial = atomic_fetch_add(&serials, 1);
    snprintf(p->group, sizeof p->group, UP_GROUP "_%d_%llu_%llu", (int)getpid(),
             (unsigned long long)start_of("", getpid()), (unsigned long long)namespace_of("", "self"));
    for (uint32_t i = 0; i < p->n; i++) {
        snprintf(text, sizeof text, "%c:%s/s%up%u %s:0x%llx", p->places[i].at_return ? 'r' : 'p', p->group, p->serial,
                 i, p->places[i].path, (unsigned long long)p->places[i].offset);
        if (command(path, text) != 0) break;
        p->made = i + 1;
        if (read_id(p, path, i, &p->ids[i]) < 0) break;
        if (i + 1 == p->n) return true;
    }
    remove_events(p);
    return false;
}

/* ---- the other two ----------------------------------------------------------------------------------------------- */

/* Opens the event on one thread and closes it. 0 or an errno. */
static int try(const perf_spec *s, int pid)
{
    struct perf_event_attr a = {.type = s->type,
                                .size = sizeof a,
                                .config = s->config,
                                .config1 = s->config1,
                                .config2 = s->config2,
                                .bp_type = s->bp_type,
                                .sample_period = 1,
                                .disabled = 1,
                                .exclude_kernel = 1,
                                .exclude_hv = 1};
    long fd = syscall(SYS_perf_event_open, &a, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) return errno;
    close((int)fd);
    return 0;
}

static int try_perf(const up_probes *p, err *e)
{
    perf_spec s;
    int rc = perf_uprobe(p->places[0].path, p->places[0].offset, false, 1, &s, e);
    if (rc < 0) return rc;
    int sys = try(&s, p->pid);
    return sys ? perf_explain("", &s, p->pid, sys, e) : 0;
}

static bool try_breakpoint(const up_probes *p)
{
    perf_spec s = perf_breakpoint(p->places[0].address, 1);
    return try(&s, p->pid) == 0;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static bool is_way(const char *only, up_way w) { return !only || strcmp(only, up_way_name(w)) == 0; }

/* Events of tracefs that are there when they are opened: somebody may remove those whose maker it does not see, and
 * then they are made once more. Whatever else perf has against them is told by who opens them. */
static bool make_lasting(up_probes *p)
{
    for (int round = 0; round < 2 && make_events(p); round++) {
        p->way = UP_TRACEFS;
        perf_spec s = up_spec(p, 0, 1);
        int sys = try(&s, p->pid);
        if (sys != EINVAL && sys != ENOENT) return true;
        remove_events(p);
    }
    return false;
}

bool up_too_many(uint32_t places, uint64_t threads, uint64_t cpus)
{
    return places * (threads ? threads : 1) * (cpus ? cpus : 1) > UP_PERF_EVENTS_MAX;
}

static bool is_crowded(const up_probes *p, err *e)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    kn_stat s;
    if (kn_stat_of("", p->pid, &s, NULL) < 0 || !up_too_many(p->n, s.threads, cpus > 0 ? (uint64_t)cpus : 1))
        return false;
    (void)err_set(e, ERR_NOT_SUPPORTED,
                  "the %llu threads of process %d are too many for uprobes of perf_event_open: the kernel makes one of "
                  "each function, thread and processor, and takes a tenth of a second to remove it",
                  (unsigned long long)s.threads, p->pid);
    err_hint(e, "make the tracing files writable, whose probes are one a function: sudo mount -t tracefs nodev "
                "/sys/kernel/tracing; Docker: -v /sys/kernel/tracing:/sys/kernel/tracing");
    return true;
}

static bool choose(up_probes *p, const char *only, err *e)
{
    err first = {0};
    if (is_way(only, UP_TRACEFS) && make_lasting(p)) return true;
    if (is_way(only, UP_PERF) && try_perf(p, &first) == 0) {
        p->way = UP_PERF;
        p->crowded = !only && is_crowded(p, &first);
        if (!p->crowded) return true;
    }
    bool returns = false;
    for (uint32_t i = 0; i < p->n; i++)
        returns |= p->places[i].at_return;
    if (is_way(only, UP_BREAKPOINT) && !returns && try_breakpoint(p)) {
        p->way = UP_BREAKPOINT;
        if (p->n > BREAKPOINTS) p->n = BREAKPOINTS;
        return true;
    }
    if (first.kind == ERR_NONE)
        (void)err_set(&first, ERR_NOT_SUPPORTED, "no way to put probes on functions is open here");
    if (e && e->kind == ERR_NONE) *e = first;
    return false;
}

int up_open(int pid, const up_place *places, uint32_t n, const char *only, up_probes **out, err *e)
{
    BUG_IF(n == 0 || n > UP_PLACES_MAX, e);
    up_probes *p = mem_calloc(1, sizeof *p);
    if (p) p->places = mem_calloc(n, sizeof *places);
    if (!p || !p->places) {
        free(p);
        return err_set(e, ERR_NO_MEMORY, "no memory for probes");
    }
    memcpy(p->places, places, n * sizeof *places);
    p->pid = pid;
    p->n = n;
    if (choose(p, only, e)) {
        *out = p;
        return 0;
    }
    up_close(p);
    return -(int)(e ? e->kind : ERR_NOT_SUPPORTED);
}

up_way up_way_of(const up_probes *p) { return p->way; }
bool up_crowded(const up_probes *p) { return p->crowded; }
uint32_t up_count(const up_probes *p) { return p->n; }

perf_spec up_spec(const up_probes *p, uint32_t place, uint64_t period)
{
    perf_spec s = {0};
    err ignored = {0};
    switch (p->way) {
    case UP_PERF:
        (void)perf_uprobe(p->places[place].path, p->places[place].offset, p->places[place].at_return, period, &s,
                          &ignored);
        break;
    case UP_TRACEFS:
        s = perf_tracepoint(p->ids[place], period);
        s.take = 0;
        s.what = "a uprobe of tracefs";
        break;
    case UP_BREAKPOINT:
        s = perf_breakpoint(p->places[place].address, period);
        s.no_kernel = true;
        break;
    }
    return s;
}

void up_close(up_probes *p)
{
    if (!p) return;
    remove_events(p);
    free(p->places);
    free(p);
}
