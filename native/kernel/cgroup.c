/* SPDX-License-Identifier: MIT */
/* cgroup.c: the control group of a process, read from our own mounts or, for one in another container, through
 * /proc/PID/root. */
#include <stdio.h>
#include <stdlib.h>

#include "kernel/kn_internal.h"

/* ---- where the files are ---- */
typedef struct place {
    char dir[KN_PATH_MAX]; /* the process's cgroup, below root */
    size_t mount_len;      /* length of the mount point's part of dir: no file is looked for above it */
} place;

/* The cgroup path relative to what the mount shows; NULL when the mount does not show it. */
static const char *below(const char *path, const char *mount_root)
{
    size_t n = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    if (strncmp(path, mount_root, n) != 0 || (path[n] && path[n] != '/')) return NULL;
    return strncmp(path + n, "/..", 3) == 0 ? NULL
                                            : path + n; /* "/../x" names a group beside the root of our namespace */
}

static bool place_in(const char *root, slice mountinfo, const char *controller, const char *path, const char *prefix,
                     place *out)
{
    kn_mount m;
    if (!kn_find_mount(mountinfo, controller, &m)) return false;
    const char *rel = below(path, m.root);
    if (!rel) return false;
    int n = snprintf(out->dir, sizeof out->dir, "%s%s", prefix, m.point);
    if (n < 0 || (size_t)n >= sizeof out->dir) return false;
    out->mount_len = (size_t)n;
    if (strcmp(rel, "/") != 0) {
        size_t left = sizeof out->dir - (size_t)n;
        if (strlen(rel) >= left) return false;
        memcpy(out->dir + n, rel, strlen(rel) + 1);
    }
    return kn_exists(root, out->dir);
}

/* Looks in our own mounts, then in the target's, through its root folder. */
static bool find_place(const char *root, int pid, const char *controller, const char *path, place *out)
{
    buf b;
    char prefix[32];
    buf_init(&b, 0);
    bool found = kn_read(root, "/proc/self/mountinfo", KN_ENVIRON_MAX, &b, NULL) >= 0 &&
                 place_in(root, buf_view(&b), controller, path, "", out);
    if (!found) {
        buf_reset(&b);
        snprintf(prefix, sizeof prefix, "/proc/%d/root", pid);
        found = kn_read_pid(root, pid, "mountinfo", KN_ENVIRON_MAX, &b, NULL) >= 0 &&
                place_in(root, buf_view(&b), controller, path, prefix, out);
    }
    buf_fini(&b);
    return found;
}

/* Cuts the last part of dir; false at the mount point. */
static bool up(place *p)
{
    size_t n = strlen(p->dir);
    if (n <= p->mount_len) return false;
    while (n > p->mount_len && p->dir[n - 1] != '/')
        n--;
    p->dir[n > p->mount_len ? n - 1 : n] = 0;
    return true;
}

/* ---- one file at a time ---- */
typedef struct ctx {
    const char *root;
    kn_cgroup *out;
    buf b;
} ctx;

static bool read_at(ctx *c, const char *dir, const char *name, bool tell)
{
    char rel[KN_PATH_MAX];
    err e = {0};
    buf_reset(&c->b);
    int n = snprintf(rel, sizeof rel, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= sizeof rel) return false;
    int rc = kn_read(c->root, rel, KN_SMALL_MAX, &c->b, &e);
    if (rc < 0 && tell) {
        const char *why = rc == -ERR_NOT_FOUND           ? "missing"
                          : rc == -ERR_PERMISSION_DENIED ? "not readable (permission)"
                                                         : "not readable";
        kn_note(&c->out->notes, "%s is %s in the process's cgroup", name, why);
    }
    return rc >= 0;
}

static kn_num number_at(ctx *c, const char *dir, const char *name, bool tell)
{
    kn_num v = {0};
    if (read_at(c, dir, name, tell)) v.known = kn__i64(kn__trim(buf_view(&c->b)), &v.v) && v.v >= 0;
    return v;
}

static kn_limit limit_at(ctx *c, const char *dir, const char *name, bool tell)
{
    kn_limit v = {0};
    if (read_at(c, dir, name, tell)) v = kn_parse_limit(buf_view(&c->b));
    return v;
}

static kn_num as_num(kn_limit l) { return (kn_num){l.known && !l.unlimited && l.v <= INT64_MAX, (int64_t)l.v}; }

/* ---- version 2 ---- */
static void throttling_at(ctx *c, const char *dir)
{
    if (!read_at(c, dir, "cpu.stat", false)) return;
    slice text = buf_view(&c->b);
    c->out->nr_periods = kn_keyed(text, "nr_periods");
    c->out->nr_throttled = kn_keyed(text, "nr_throttled");
    c->out->throttled_usec = kn_keyed(text, "throttled_usec");
}

/* A quota of any ancestor holds for the process too: the tightest one counts, with the throttling that it caused. */
static void v2_cpu(ctx *c, const place *leaf)
{
    kn_cgroup *o = c->out;
    if (read_at(c, leaf->dir, "cpu.stat", true)) {
        o->usage_usec = kn_keyed(buf_view(&c->b), "usage_usec");
        o->has_cpu = o->usage_usec.known;
        throttling_at(c, leaf->dir);
    }
    place p = *leaf;
    for (int level = 0; level < KN_LEVELS_MAX; level++) {
        kn_num quota, period;
        bool ok = read_at(c, p.dir, "cpu.max", level == 0) && kn_parse_cpu_max(buf_view(&c->b), &quota, &period) &&
                  quota.known;
        bool tighter = ok && (!o->quota_usec.known ||
                              (double)quota.v / (double)period.v < (double)o->quota_usec.v / (double)o->period_usec.v);
        if (tighter) {
            o->quota_usec = quota;
            o->period_usec = period;
            if (level > 0) {
                kn_note(&o->notes, "the CPU quota and its throttling are those of the ancestor cgroup %.120s",
                        p.dir + p.mount_len);
                throttling_at(c, p.dir);
            }
        }
        if (!up(&p)) break;
    }
}

static void v2_memory(ctx *c, const place *leaf)
{
    kn_cgroup *o = c->out;
    o->mem_current = number_at(c, leaf->dir, "memory.current", true);
    o->has_memory = o->mem_current.known;
    o->mem_high = as_num(limit_at(c, leaf->dir, "memory.high", true));
    if (read_at(c, leaf->dir, "memory.events", true)) {
        o->oom_kills = kn_keyed(buf_view(&c->b), "oom_kill");
        o->max_hits = kn_keyed(buf_view(&c->b), "max");
    }
    place p = *leaf;
    for (int level = 0; level < KN_LEVELS_MAX; level++) {
        kn_num max = as_num(limit_at(c, p.dir, "memory.max", level == 0));
        if (max.known && max.v > 0 && (!o->mem_max.known || max.v < o->mem_max.v)) {
            kn_num current = number_at(c, p.dir, "memory.current", false);
            o->mem_max = max;
            o->mem_fraction = (kn_frac){current.known, (double)current.v / (double)max.v};
            if (level > 0)
                kn_note(&o->notes, "the memory limit is that of the ancestor cgroup %.120s; the fraction is of its use",
                        p.dir + p.mount_len);
        }
        if (!up(&p)) break;
    }
}

static bool psi_at(ctx *c, const char *dir, const char *name, kn_psi *out)
{
    if (!read_at(c, dir, name, false)) return false;
    kn_parse_psi(buf_view(&c->b), out);
    return out->some10.known;
}

/* The machine's own pressure, where the cgroup has none of its own. */
static void host_psi(ctx *c, const char *why)
{
    kn_cgroup *o = c->out;
    bool cpu = psi_at(c, "/proc/pressure", "cpu", &o->cpu_psi),
         mem = psi_at(c, "/proc/pressure", "memory", &o->mem_psi), io = psi_at(c, "/proc/pressure", "io", &o->io_psi);
    o->has_psi = o->psi_is_host = cpu || mem || io;
    if (o->has_psi)
        kn_note(&o->notes, "pressure is that of the whole machine: %s", why);
    else
        kn_note(&o->notes,
                "no pressure files (PSI): %s, and /proc/pressure is not readable (kernel without PSI, or psi=0)", why);
}

static void v2_psi(ctx *c, const place *leaf)
{
    kn_cgroup *o = c->out;
    bool cpu = psi_at(c, leaf->dir, "cpu.pressure", &o->cpu_psi),
         mem = psi_at(c, leaf->dir, "memory.pressure", &o->mem_psi),
         io = psi_at(c, leaf->dir, "io.pressure", &o->io_psi);
    o->has_psi = cpu || mem || io;
    if (!o->has_psi) {
        host_psi(c, "the process's cgroup has no pressure files");
        return;
    }
    if (!cpu) kn_note(&o->notes, "cpu.pressure is missing in the process's cgroup");
    if (!mem) kn_note(&o->notes, "memory.pressure is missing in the process's cgroup");
    if (!io) kn_note(&o->notes, "io.pressure is missing in the process's cgroup");
}

static void read_v2(ctx *c, const place *leaf)
{
    kn_cgroup *o = c->out;
    char type[KN_PATH_MAX + 16];
    snprintf(type, sizeof type, "%s/cgroup.type", leaf->dir);
    /* The true root has no cgroup.type: one at "/" is the root of a container's own cgroup namespace. */
    o->in_container = strcmp(o->path, "/") != 0 || kn_exists(c->root, type);
    if (!o->in_container) kn_note(&o->notes, "the process is in the root cgroup: there is no limit to read");
    v2_cpu(c, leaf);
    v2_memory(c, leaf);
    o->pids_current = number_at(c, leaf->dir, "pids.current", true);
    o->pids_max = as_num(limit_at(c, leaf->dir, "pids.max", true));
    o->has_pids = o->pids_current.known;
    v2_psi(c, leaf);
}

/* ---- version 1 ---- */
#define V1_UNLIMITED ((int64_t)1 << 62) /* memory.limit_in_bytes without a limit is the largest page multiple */

static void v1_cpu(ctx *c, int pid, const kn_cgroup_ids *ids)
{
    kn_cgroup *o = c->out;
    place p;
    if (ids->cpuacct[0] && find_place(c->root, pid, "cpuacct", ids->cpuacct, &p)) {
        kn_num ns = number_at(c, p.dir, "cpuacct.usage", true);
        o->usage_usec = (kn_num){ns.known, ns.v / 1000};
        o->has_cpu = ns.known;
    }
    if (!ids->cpu[0] || !find_place(c->root, pid, "cpu", ids->cpu, &p)) return;
    if (read_at(c, p.dir, "cpu.stat", true)) {
        o->nr_periods = kn_keyed(buf_view(&c->b), "nr_periods");
        o->nr_throttled = kn_keyed(buf_view(&c->b), "nr_throttled");
        kn_num ns = kn_keyed(buf_view(&c->b), "throttled_time");
        o->throttled_usec = (kn_num){ns.known, ns.v / 1000};
    }
    o->quota_usec = number_at(c, p.dir, "cpu.cfs_quota_us", false); /* -1 without a quota: unknown here */
    o->period_usec = number_at(c, p.dir, "cpu.cfs_period_us", false);
    if (!o->period_usec.known || o->period_usec.v == 0) o->quota_usec.known = false;
}

static void v1_memory(ctx *c, int pid, const kn_cgroup_ids *ids)
{
    kn_cgroup *o = c->out;
    place p;
    if (!ids->memory[0] || !find_place(c->root, pid, "memory", ids->memory, &p)) {
        kn_note(&o->notes, "the files of the v1 memory controller are not reachable from here");
        return;
    }
    o->mem_current = number_at(c, p.dir, "memory.usage_in_bytes", true);
    o->has_memory = o->mem_current.known;
    kn_num max = number_at(c, p.dir, "memory.limit_in_bytes", true);
    if (max.known && max.v > 0 && max.v < V1_UNLIMITED) {
        o->mem_max = max;
        o->mem_fraction = (kn_frac){o->mem_current.known, (double)o->mem_current.v / (double)max.v};
    }
    if (read_at(c, p.dir, "memory.oom_control", false)) o->oom_kills = kn_keyed(buf_view(&c->b), "oom_kill");
    o->max_hits = number_at(c, p.dir, "memory.failcnt", false);
}

static void read_v1(ctx *c, int pid, const kn_cgroup_ids *ids)
{
    kn_cgroup *o = c->out;
    place p;
    kn_note(&o->notes,
            "cgroup v1%s: inContainer is told for cgroup v2 only; the values are those of the v1 controllers",
            ids->hybrid ? " (hybrid: a v2 hierarchy without controllers beside it)" : "");
    v1_cpu(c, pid, ids);
    v1_memory(c, pid, ids);
    if (ids->pids[0] && find_place(c->root, pid, "pids", ids->pids, &p)) {
        o->pids_current = number_at(c, p.dir, "pids.current", false);
        o->pids_max = as_num(limit_at(c, p.dir, "pids.max", false));
        o->has_pids = o->pids_current.known;
    }
    host_psi(c, "cgroup v1 has no pressure files");
}

/* ---- public ---- */
static void read_oom_score(const char *root, int pid, kn_cgroup *out)
{
    char rel[48];
    err e = {0};
    snprintf(rel, sizeof rel, "/proc/%d/oom_score", pid);
    out->oom_score.known = kn_read_num(root, rel, &out->oom_score.v, &e) == 0;
    if (!out->oom_score.known) kn_note(&out->notes, "oom_score: %s", e.message);
}

static void read_version(ctx *c, int pid, const kn_cgroup_ids *ids)
{
    kn_cgroup *o = c->out;
    place leaf;
    switch (ids->version) {
    case KN_CGROUP_NONE:
        kn_note(&o->notes, "the process is in no cgroup that this kernel shows: no limit is visible");
        break;
    case KN_CGROUP_V1:
        kn__copy(slice_str(ids->memory[0] ? ids->memory : ids->cpu), o->path, sizeof o->path);
        read_v1(c, pid, ids);
        break;
    case KN_CGROUP_V2:
        kn__copy(slice_str(ids->v2), o->path, sizeof o->path);
        if (find_place(c->root, pid, NULL, ids->v2, &leaf))
            read_v2(c, &leaf);
        else {
            o->in_container = strcmp(o->path, "/") != 0;
            kn_note(&o->notes,
                    "cgroup v2 %.120s is not mounted where we could read it: mount /sys/fs/cgroup read-only into this "
                    "container, or share the target's",
                    o->path);
        }
        break;
    }
}

int kn_cgroup_of(const char *root, int pid, kn_cgroup *out, err *e)
{
    kn_cgroup_ids ids = {0};
    ctx c = {.root = root, .out = out};
    *out = (kn_cgroup){0};
    buf_init(&c.b, 0);
    int rc = kn_read_pid(root, pid, "cgroup", KN_SMALL_MAX, &c.b, e);
    if (rc == -ERR_PROCESS_NOT_FOUND) goto out;
    if (rc >= 0) {
        kn_parse_cgroup_ids(buf_view(&c.b), &ids);
    } else if (rc != -ERR_NOT_FOUND) {
        kn_note(&out->notes, "/proc/%d/cgroup is not readable", pid);
    }
    if (e) err_clear(e);
    out->version = ids.version;
    out->hybrid = ids.hybrid;
    read_version(&c, pid, &ids);
    read_oom_score(root, pid, out);
    rc = 0;
out:
    buf_fini(&c.b);
    return rc;
}
