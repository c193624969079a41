/* SPDX-License-Identifier: MIT */
/* proc_lua.c: the Lua face `lunette.proc` (docs/native-api-proc.md). What a target's memory lock can hold up runs on a
 * worker thread while the task waits; outside a task it runs at once. Absent values are left out of the tables, never
 * zero. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf.h"
#include "host/host.h"
#include "kernel/kernel.h"

/* ---- small pushes ---- */
/* Text of the kernel as valid UTF-8; s is at most KN_PATH_MAX bytes. The buffer is on the stack, since pushing may
 * throw. */
static void push_text(lua_State *L, const char *s)
{
    uint8_t mem[3 * KN_PATH_MAX];
    buf b = {.p = mem, .cap = sizeof mem, .max = sizeof mem};
    utf8_sanitize(slice_str(s), &b);
    lua_pushlstring(L, (const char *)b.p, b.n);
}

static void set_text(lua_State *L, const char *key, const char *s)
{
    if (!s[0]) return;
    push_text(L, s);
    lua_setfield(L, -2, key);
}

static void set_int(lua_State *L, const char *key, int64_t v)
{
    lua_pushinteger(L, (lua_Integer)v);
    lua_setfield(L, -2, key);
}

static void set_num(lua_State *L, const char *key, kn_num v)
{
    if (v.known) set_int(L, key, v.v);
}

static void set_frac(lua_State *L, const char *key, kn_frac v)
{
    if (!v.known) return;
    lua_pushnumber(L, v.v);
    lua_setfield(L, -2, key);
}

static void set_bool(lua_State *L, const char *key, bool v)
{
    lua_pushboolean(L, v);
    lua_setfield(L, -2, key);
}

/* A mask as "0x…", since it can pass 2^53. */
static void set_mask(lua_State *L, const char *key, uint64_t v)
{
    char text[19];
    snprintf(text, sizeof text, "0x%" PRIx64, v);
    lua_pushstring(L, text);
    lua_setfield(L, -2, key);
}

/* A limit: a number, or "unlimited". */
static void set_limit(lua_State *L, const char *key, kn_limit v)
{
    if (!v.known) return;
    if (v.unlimited || v.v > INT64_MAX)
        lua_pushliteral(L, "unlimited");
    else
        lua_pushinteger(L, (lua_Integer)v.v);
    lua_setfield(L, -2, key);
}

static void set_notes(lua_State *L, const kn_notes *notes)
{
    lua_createtable(L, (int)notes->n + 1, 0); // t notes
    for (uint32_t i = 0; i < notes->n; i++) {
        push_text(L, notes->text[i]);
        lua_rawseti(L, -2, i + 1);
    }
    if (notes->dropped) {
        lua_pushfstring(L, "%d more notes were left out", (int)notes->dropped);
        lua_rawseti(L, -2, notes->n + 1);
    }
    lua_setfield(L, -2, "notes"); // t
}

/* ---- arguments ---- */
static const char *root_of(lua_State *L) { return lua_tostring(L, lua_upvalueindex(1)); }

static int check_pid(lua_State *L, int idx)
{
    lua_Integer pid = luaL_checkinteger(L, idx);
    luaL_argcheck(L, pid >= 1 && pid <= INT32_MAX, idx, "a process id is between 1 and 2147483647");
    return (int)pid;
}

/* ---- jobs: what may be held up ---- */
typedef enum job_op { JOB_CMDLINE, JOB_ENVIRON, JOB_ROLLUP, JOB_FDS, JOB_CGROUP } job_op;
typedef struct job {
    job_op op;
    int pid, rc;
    bool more; /* the text was cut at its cap */
    err e;
    future *f;
    buf text; /* cmdline, environ: items, each with a NUL, valid UTF-8 */
    union {
        kn_rollup rollup;
        kn_fds fds;
        kn_cgroup cgroup;
    } u;
    char root[KN_PATH_MAX];
} job;

static void job_free(void *p)
{
    job *j = p;
    if (!j) return;
    buf_fini(&j->text);
    free(j);
}

static int read_items(job *j, const char *name, size_t max)
{
    buf raw;
    slice item;
    buf_init(&raw, 0);
    int rc = kn_read_pid(j->root, j->pid, name, max, &raw, &j->e);
    j->more = rc > 0;
    for (slice rest = buf_view(&raw); rc >= 0 && kn_next_z(&rest, &item);) {
        utf8_sanitize(item, &j->text);
        buf_u8(&j->text, 0);
    }
    buf_fini(&raw);
    return rc < 0 ? rc : 0;
}

static int read_rollup(job *j)
{
    buf raw;
    buf_init(&raw, 0);
    int rc = kn_read_pid(j->root, j->pid, "smaps_rollup", KN_SMALL_MAX, &raw, &j->e);
    if (rc >= 0) rc = kn_parse_rollup(buf_view(&raw), &j->u.rollup, &j->e);
    buf_fini(&raw);
    return rc;
}

static void job_work(void *p)
{
    job *j = p;
    switch (j->op) {
    case JOB_CMDLINE: j->rc = read_items(j, "cmdline", KN_CMDLINE_MAX); break;
    case JOB_ENVIRON: j->rc = read_items(j, "environ", KN_ENVIRON_MAX); break;
    case JOB_ROLLUP: j->rc = read_rollup(j); break;
    case JOB_FDS: j->rc = kn_fds_of(j->root, j->pid, &j->u.fds, &j->e); break;
    case JOB_CGROUP: j->rc = kn_cgroup_of(j->root, j->pid, &j->u.cgroup, &j->e); break;
    }
}

static void push_items(lua_State *L, const job *j)
{
    slice rest = buf_view(&j->text), item;
    lua_newtable(L); // items
    for (lua_Integer i = 1; kn_next_z(&rest, &item); i++) {
        lua_pushlstring(L, (const char *)item.p, item.n);
        lua_rawseti(L, -2, i);
    }
    if (j->more) set_bool(L, "truncated", true);
}

static void push_rollup(lua_State *L, const kn_rollup *r)
{
    lua_createtable(L, 0, 5); // t
    set_num(L, "rss_bytes", r->rss);
    set_num(L, "pss_bytes", r->pss);
    set_num(L, "anonymous_bytes", r->anonymous);
    set_num(L, "swap_bytes", r->swap);
    set_num(L, "private_dirty_bytes", r->private_dirty);
}

static void push_fds(lua_State *L, const kn_fds *f)
{
    static const char *const names[KN_FD_CLASSES] = {"sockets", "regular", "pipes", "eventfds", "other"};
    lua_createtable(L, 0, 9); // t
    set_int(L, "count", f->count);
    for (int i = 0; i < KN_FD_CLASSES; i++)
        set_int(L, names[i], f->by_class[i]);
    set_int(L, "unclassified", f->unclassified);
    set_notes(L, &f->notes);
    if (!f->has_tcp) return;
    lua_createtable(L, 0, 5); // t tcp
    set_int(L, "established", f->tcp.established);
    set_int(L, "time_wait", f->tcp.time_wait);
    set_int(L, "close_wait", f->tcp.close_wait);
    set_int(L, "listen", f->tcp.listen);
    set_int(L, "other", f->tcp.other);
    lua_setfield(L, -2, "tcp"); // t
}

static void set_psi(lua_State *L, const char *key, const kn_psi *p)
{
    lua_createtable(L, 0, 4); // t psi
    set_frac(L, "some_avg10", p->some10);
    set_frac(L, "some_avg60", p->some60);
    set_frac(L, "full_avg10", p->full10);
    set_frac(L, "full_avg60", p->full60);
    lua_setfield(L, -2, key); // t
}

static void set_cgroup_cpu(lua_State *L, const kn_cgroup *g)
{
    lua_createtable(L, 0, 7); // t cpu
    set_num(L, "usage_usec", g->usage_usec);
    set_num(L, "nr_periods", g->nr_periods);
    set_num(L, "nr_throttled", g->nr_throttled);
    set_num(L, "throttled_usec", g->throttled_usec);
    if (g->quota_usec.known && g->period_usec.known) {
        set_num(L, "quota_usec", g->quota_usec);
        set_num(L, "period_usec", g->period_usec);
    }
    lua_setfield(L, -2, "cpu"); // t
}

static void set_cgroup_memory(lua_State *L, const kn_cgroup *g)
{
    lua_createtable(L, 0, 6); // t memory
    set_num(L, "current_bytes", g->mem_current);
    set_num(L, "max_bytes", g->mem_max);
    set_num(L, "high_bytes", g->mem_high);
    set_num(L, "oom_kills", g->oom_kills);
    set_num(L, "max_hits", g->max_hits);
    set_frac(L, "usage_fraction", g->mem_fraction);
    lua_setfield(L, -2, "memory"); // t
}

static void push_cgroup(lua_State *L, const kn_cgroup *g)
{
    static const char *const versions[] = {"None", "V1", "V2"};
    lua_createtable(L, 0, 12); // t
    lua_pushstring(L, versions[g->version]);
    lua_setfield(L, -2, "version");
    set_bool(L, "hybrid", g->hybrid);
    set_bool(L, "in_container", g->in_container);
    set_text(L, "path", g->path);
    set_num(L, "oom_score", g->oom_score);
    set_notes(L, &g->notes);
    if (g->has_cpu || g->quota_usec.known) set_cgroup_cpu(L, g);
    if (g->has_memory) set_cgroup_memory(L, g);
    if (g->has_pids) {
        lua_createtable(L, 0, 2); // t pids
        set_num(L, "current", g->pids_current);
        set_num(L, "max", g->pids_max);
        lua_setfield(L, -2, "pids"); // t
    }
    set_bool(L, "psi", g->has_psi);
    if (!g->has_psi) return;
    set_bool(L, "psi_is_host", g->psi_is_host);
    set_psi(L, "cpu_pressure", &g->cpu_psi);
    set_psi(L, "memory_pressure", &g->mem_psi);
    set_psi(L, "io_pressure", &g->io_psi);
}

static int push_job(lua_State *L, const job *j)
{
    if (j->rc < 0) return host_push_err(L, &j->e);
    switch (j->op) {
    case JOB_CMDLINE:
    case JOB_ENVIRON: push_items(L, j); break;
    case JOB_ROLLUP: push_rollup(L, &j->u.rollup); break;
    case JOB_FDS: push_fds(L, &j->u.fds); break;
    case JOB_CGROUP: push_cgroup(L, &j->u.cgroup); break;
    }
    return 1;
}

/* A userdata that owns a job while its results are pushed, since pushing may throw. */
#define JOB_TYPE "lunette.proc.job"
static int l_job_gc(lua_State *L)
{
    job **box = luaL_checkudata(L, 1, JOB_TYPE);
    job_free(*box);
    *box = NULL;
    return 0;
}

static job **push_box(lua_State *L)
{
    job **box = lua_newuserdatauv(L, sizeof *box, 0); // box
    *box = NULL;
    luaL_setmetatable(L, JOB_TYPE);
    return box;
}

static int push_boxed(lua_State *L, job **box)
{
    int n = push_job(L, *box); // box results…
    job_free(*box);
    *box = NULL;
    return n;
}

static int push_future(lua_State *L, future *f, void *arg)
{
    (void)arg;
    job **box = push_box(L); // box
    *box = future_take(f);
    return push_boxed(L, box);
}

static void job_done(void *p)
{
    job *j = p;
    future *f = j->f;
    j->f = NULL;
    future_resolve(f, j, job_free); /* frees the job at once when nobody waits any more */
    future_unref(f);
}

static job *job_new(lua_State *L, job_op op, int pid)
{
    size_t n;
    const char *root = lua_tolstring(L, lua_upvalueindex(1), &n);
    job *j = mem_calloc(1, sizeof *j);
    if (!j) return NULL;
    j->op = op;
    j->pid = pid;
    memcpy(j->root, root, n + 1); /* l_at has checked that it fits */
    buf_init(&j->text, 0);
    return j;
}

static int run(lua_State *L, job_op op, int pid)
{
    job **box = push_box(L); // box
    *box = job_new(L, op, pid);
    if (!*box) return luaL_error(L, "not enough memory");
    if (!task_current(L)) {
        job_work(*box);
        return push_boxed(L, box);
    }
    job *j = *box;
    future *f = future_new(host_loop(L), NULL, NULL); /* no cancel hook: the work is short, its result is thrown away */
    if (!f) return luaL_error(L, "not enough memory");
    j->f = future_ref(f);
    *box = NULL; /* the job is the worker's now */
    if (!loop_work(host_loop(L), job_work, job_done, j)) {
        *box = j;
        future_unref(j->f);
        future_unref(f);
        return luaL_error(L, "not enough memory");
    }
    return host_await(L, f, -1, push_future, NULL);
}

static int l_cmdline(lua_State *L) { return run(L, JOB_CMDLINE, check_pid(L, 1)); }
static int l_environ(lua_State *L) { return run(L, JOB_ENVIRON, check_pid(L, 1)); }
static int l_smaps_rollup(lua_State *L) { return run(L, JOB_ROLLUP, check_pid(L, 1)); }
static int l_fds(lua_State *L) { return run(L, JOB_FDS, check_pid(L, 1)); }
static int l_cgroup(lua_State *L) { return run(L, JOB_CGROUP, check_pid(L, 1)); }

/* ---- what the kernel answers at once ---- */
static int l_stat(lua_State *L)
{
    kn_stat s;
    err e = {0};
    if (kn_stat_of(root_of(L), check_pid(L, 1), &s, &e) < 0) return host_push_err(L, &e);
    const char state[2] = {s.state, 0};
    lua_createtable(L, 0, 12); // t
    set_int(L, "pid", s.pid);
    set_int(L, "ppid", s.ppid);
    set_text(L, "state", state);
    set_text(L, "comm", s.comm);
    set_int(L, "minor_faults", (int64_t)s.minflt);
    set_int(L, "major_faults", (int64_t)s.majflt);
    set_int(L, "user_ticks", (int64_t)s.utime);
    set_int(L, "system_ticks", (int64_t)s.stime);
    set_int(L, "threads", (int64_t)s.threads);
    set_int(L, "start_time", (int64_t)s.start_time);
    set_int(L, "vsize_bytes", (int64_t)s.vsize);
    set_int(L, "rss_bytes", s.rss_pages > INT64_MAX >> 16 ? INT64_MAX : s.rss_pages * sysconf(_SC_PAGESIZE));
    return 1;
}

static int l_status(lua_State *L)
{
    kn_status s;
    err e = {0};
    if (kn_status_of(root_of(L), check_pid(L, 1), &s, &e) < 0) return host_push_err(L, &e);
    const char state[2] = {s.state, 0};
    lua_createtable(L, 0, 18); // t
    set_text(L, "name", s.name);
    set_text(L, "state", state);
    set_int(L, "uid", s.uid);
    set_int(L, "euid", s.euid);
    set_int(L, "gid", s.gid);
    set_int(L, "nspid", s.nspid);
    set_int(L, "pid_namespaces", s.n_nspid);
    set_int(L, "tracer_pid", s.tracer_pid);
    set_num(L, "threads", s.threads);
    set_num(L, "rss_bytes", s.rss_bytes);
    set_num(L, "anon_bytes", s.anon_bytes);
    set_num(L, "swap_bytes", s.swap_bytes);
    set_num(L, "peak_rss_bytes", s.hwm_bytes);
    set_num(L, "seccomp", s.seccomp);
    set_num(L, "no_new_privs", s.no_new_privs);
    if (!s.has_caps) return 1;
    set_mask(L, "cap_eff", s.cap_eff);
    set_mask(L, "cap_bnd", s.cap_bnd);
    return 1;
}

static int l_limits(lua_State *L)
{
    kn_limits l;
    buf b;
    err e = {0};
    int pid = check_pid(L, 1);
    buf_init(&b, 0);
    int rc = kn_read_pid(root_of(L), pid, "limits", KN_SMALL_MAX, &b, &e);
    if (rc >= 0) rc = kn_parse_limits(buf_view(&b), &l, &e);
    buf_fini(&b);
    if (rc < 0) return host_push_err(L, &e);
    lua_createtable(L, 0, 5); // t
    set_limit(L, "nofile_soft", l.nofile_soft);
    set_limit(L, "nofile_hard", l.nofile_hard);
    set_limit(L, "nproc_soft", l.nproc_soft);
    set_limit(L, "core_soft", l.core_soft);
    set_limit(L, "address_space_soft", l.as_soft);
    return 1;
}

static int l_io(lua_State *L)
{
    kn_io io;
    buf b;
    err e = {0};
    int pid = check_pid(L, 1);
    buf_init(&b, 0);
    int rc = kn_read_pid(root_of(L), pid, "io", KN_SMALL_MAX, &b, &e);
    if (rc >= 0) rc = kn_parse_io(buf_view(&b), &io, &e);
    buf_fini(&b);
    if (rc < 0) return host_push_err(L, &e);
    lua_createtable(L, 0, 6); // t
    set_num(L, "read_chars", io.rchar);
    set_num(L, "write_chars", io.wchar);
    set_num(L, "read_calls", io.syscr);
    set_num(L, "write_calls", io.syscw);
    set_num(L, "read_bytes", io.read_bytes);
    set_num(L, "write_bytes", io.write_bytes);
    return 1;
}

static int l_link(lua_State *L)
{
    static const char *const names[] = {"exe",    "cwd",     "root",      "ns/pid", "ns/mnt",
                                        "ns/net", "ns/user", "ns/cgroup", NULL};
    char target[KN_PATH_MAX];
    err e = {0};
    int pid = check_pid(L, 1), which = luaL_checkoption(L, 2, NULL, names);
    if (kn_link(root_of(L), pid, names[which], target, sizeof target, &e) < 0) return host_push_err(L, &e);
    push_text(L, target);
    return 1;
}

static int l_pids(lua_State *L)
{
    size_t n = 0, dropped = 0;
    err e = {0};
    int *pids = host_box(L, KN_PIDS_MAX * sizeof *pids); // box
    if (kn_pids(root_of(L), pids, KN_PIDS_MAX, &n, &dropped, &e) < 0) return host_push_err(L, &e);
    lua_createtable(L, (int)n, 1); // box list
    for (size_t i = 0; i < n; i++) {
        lua_pushinteger(L, pids[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    set_int(L, "dropped", (int64_t)dropped);
    return 1;
}

static void set_capabilities(lua_State *L, uint64_t mask)
{
    static const struct {
        int bit;
        const char *name;
    } caps[] = {{KN_CAP_DAC_READ_SEARCH, "dac_read_search"},
                {KN_CAP_SYS_PTRACE, "sys_ptrace"},
                {KN_CAP_SYS_ADMIN, "sys_admin"},
                {KN_CAP_SYSLOG, "syslog"},
                {KN_CAP_PERFMON, "perfmon"},
                {KN_CAP_BPF, "bpf"}};
    lua_createtable(L, 0, 6); // t caps
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        set_bool(L, caps[i].name, mask >> caps[i].bit & 1);
    lua_setfield(L, -2, "capabilities"); // t
}

static int l_host(lua_State *L)
{
    kn_host h;
    kn_host_of(root_of(L), luaL_optstring(L, 1, getenv("PATH")), &h);
    lua_createtable(L, 0, 16); // t
    set_int(L, "uid", h.uid);
    set_bool(L, "user_namespace", h.user_namespace);
    set_num(L, "seccomp", h.seccomp);
    set_num(L, "no_new_privs", h.no_new_privs);
    set_num(L, "ptrace_scope", h.ptrace_scope);
    set_num(L, "perf_event_paranoid", h.perf_event_paranoid);
    set_num(L, "kptr_restrict", h.kptr_restrict);
    set_text(L, "release", h.release);
    set_text(L, "perf", h.perf);
    set_text(L, "tracefs", h.tracefs);
    set_bool(L, "psi", h.psi);
    set_bool(L, "uprobe_events_writable", h.uprobe_events_writable);
    if (!h.has_caps) return 1;
    set_mask(L, "cap_eff", h.cap_eff);
    set_capabilities(L, h.cap_eff);
    return 1;
}

static void set_probe(lua_State *L, const char *key, int sys)
{
    lua_createtable(L, 0, 3); // t probe
    set_bool(L, "ok", sys == 0);
    if (sys) {
        set_int(L, "errno", sys);
        set_text(L, "message", strerror(sys));
    }
    lua_setfield(L, -2, key); // t
}

static int l_perf_probe(lua_State *L)
{
    kn_perf_probe p;
    kn_perf_probe_of(check_pid(L, 1), &p);
    lua_createtable(L, 0, 4); // t
    set_probe(L, "cpu_clock", p.cpu_clock);
    set_probe(L, "hardware", p.hardware);
    set_probe(L, "sched_switch", p.sched_switch);
    set_probe(L, "uprobe", p.uprobe);
    return 1;
}

static int l_can_attach(lua_State *L)
{
    err e = {0};
    if (kn_attach_check(root_of(L), check_pid(L, 1), &e) < 0) return host_push_err(L, &e);
    lua_pushboolean(L, 1);
    return 1;
}

static int l_clock(lua_State *L)
{
    buf b;
    kn_num boot = {0};
    buf_init(&b, 0);
    if (kn_read(root_of(L), "/proc/stat", KN_ENVIRON_MAX, &b, NULL) >= 0) boot = kn_keyed(buf_view(&b), "btime");
    buf_fini(&b);
    lua_createtable(L, 0, 4); // t
    set_num(L, "boot_unix_s", boot);
    set_int(L, "ticks_per_s", sysconf(_SC_CLK_TCK));
    set_int(L, "page_bytes", sysconf(_SC_PAGESIZE));
    set_int(L, "uptime_ms", clock_ns(CLOCK_BOOTTIME) / 1000000);
    return 1;
}

static int l_at(lua_State *L);
static const luaL_Reg functions[] = {{"at", l_at},
                                     {"pids", l_pids},
                                     {"stat", l_stat},
                                     {"status", l_status},
                                     {"cmdline", l_cmdline},
                                     {"environ", l_environ},
                                     {"link", l_link},
                                     {"smaps_rollup", l_smaps_rollup},
                                     {"limits", l_limits},
                                     {"io", l_io},
                                     {"fds", l_fds},
                                     {"cgroup", l_cgroup},
                                     {"host", l_host},
                                     {"perf_probe", l_perf_probe},
                                     {"can_attach", l_can_attach},
                                     {"clock", l_clock},
                                     {NULL, NULL}};

/* proc.at(root): the same functions over the files below another root folder. */
static int l_at(lua_State *L)
{
    size_t n;
    luaL_checklstring(L, 1, &n);
    luaL_argcheck(L, n < KN_PATH_MAX - 128, 1, "the path is too long");
    luaL_newlibtable(L, functions); // root lib
    lua_pushvalue(L, 1);            // root lib root
    luaL_setfuncs(L, functions, 1); // root lib
    return 1;
}

int luaopen_lunette_proc(lua_State *L);
int luaopen_lunette_proc(lua_State *L)
{
    luaL_newmetatable(L, JOB_TYPE); // mt
    lua_pushcfunction(L, l_job_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    luaL_newlibtable(L, functions); // lib
    lua_pushliteral(L, "");         // lib root
    luaL_setfuncs(L, functions, 1); // lib
    return 1;
}
