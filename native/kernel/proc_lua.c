/* SPDX-License-Identifier: MIT */
/* proc_lua.c: the Lua face `lunette.proc` (docs/native-api-proc.md). What a target's memory lock can hold up runs on a
 * worker thread while the task waits; outside a task it runs at once. Absent values are left out of the tables, never
 * zero. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf.h"
#include "host/job.h"
#include "kernel/proc_push_lua.h"

/* ---- arguments ---- */
static const char *root_of(lua_State *L) { return lua_tostring(L, lua_upvalueindex(1)); }

static int check_pid(lua_State *L, int idx)
{
    lua_Integer pid = luaL_checkinteger(L, idx);
    luaL_argcheck(L, pid >= 1 && pid <= INT32_MAX, idx, "a process id is between 1 and 2147483647");
    return (int)pid;
}

/* ---- jobs: what may be held up ---- */
typedef enum job_op {
    JOB_CMDLINE,
    JOB_ENVIRON,
    JOB_ROLLUP,
    JOB_FDS,
    JOB_CGROUP,
    JOB_THREADS,
    JOB_MAPS,
    JOB_WAITS
} job_op;
typedef struct job {
    host_job job;
    job_op op;
    int pid;
    bool more; /* the text was cut at its cap */
    buf text;  /* cmdline, environ: items, each with a NUL, valid UTF-8; threads: the prefixes */
    union {
        kn_rollup rollup;
        kn_fds fds;
        kn_cgroup cgroup;
        kn_threads threads;
        kn_maps maps;
        kn_thread_waits waits;
    } u;
    char root[KN_PATH_MAX];
} job;

static void job_fini(void *p)
{
    job *j = p;
    buf_fini(&j->text);
    if (j->op == JOB_THREADS) kn_threads_fini(&j->u.threads);
    if (j->op == JOB_WAITS) kn_thread_waits_fini(&j->u.waits);
}

static int read_items(job *j, const char *name, size_t max)
{
    buf raw;
    slice item;
    buf_init(&raw, 0);
    int rc = kn_read_pid(j->root, j->pid, name, max, &raw, &j->job.e);
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
    int rc = kn_read_pid(j->root, j->pid, "smaps_rollup", KN_SMALL_MAX, &raw, &j->job.e);
    if (rc >= 0) rc = kn_parse_rollup(buf_view(&raw), &j->u.rollup, &j->job.e);
    buf_fini(&raw);
    return rc;
}

static int read_maps(job *j)
{
    buf raw;
    buf_init(&raw, 0);
    int rc = kn_read_pid(j->root, j->pid, "maps", KN_MAPS_MAX, &raw, &j->job.e);
    j->more = rc > 0;
    if (j->more) { /* the last line may be cut */
        while (raw.n > 0 && raw.p[raw.n - 1] != '\n')
            raw.n--;
    }
    if (rc >= 0) rc = kn_parse_maps(buf_view(&raw), &j->u.maps, &j->text, &j->job.e);
    buf_fini(&raw);
    return rc;
}

static int job_work(void *p)
{
    job *j = p;
    switch (j->op) {
    case JOB_CMDLINE: return read_items(j, "cmdline", KN_CMDLINE_MAX);
    case JOB_ENVIRON: return read_items(j, "environ", KN_ENVIRON_MAX);
    case JOB_ROLLUP: return read_rollup(j);
    case JOB_FDS: return kn_fds_of(j->root, j->pid, &j->u.fds, &j->job.e);
    case JOB_CGROUP: return kn_cgroup_of(j->root, j->pid, &j->u.cgroup, &j->job.e);
    case JOB_THREADS: return kn_threads_of(j->root, j->pid, buf_view(&j->text), &j->u.threads, &j->job.e);
    case JOB_MAPS: return read_maps(j);
    case JOB_WAITS: return kn_thread_waits_of(j->root, j->pid, &j->u.waits, &j->job.e);
    }
    return 0;
}

static void push_items(lua_State *L, const job *j)
{
    slice rest = buf_view(&j->text), item;
    lua_newtable(L); // items
    for (lua_Integer i = 1; kn_next_z(&rest, &item); i++) {
        lua_pushlstring(L, (const char *)item.p, item.n);
        lua_rawseti(L, -2, i);
    }
    if (j->more) host_set_bool(L, "truncated", true);
}

/* Each file once, in the order of addresses. */
static void push_maps(lua_State *L, const job *j)
{
    slice rest = buf_view(&j->text), item;
    lua_createtable(L, 0, 4); // maps
    host_set_count(L, "readable_bytes", j->u.maps.readable_bytes);
    host_set_count(L, "writable_bytes", j->u.maps.writable_bytes);
    lua_newtable(L); // maps files
    lua_newtable(L); // maps files seen
    for (lua_Integer n = 0; kn_next_z(&rest, &item);) {
        lua_pushlstring(L, (const char *)item.p, item.n); // maps files seen file
        lua_pushvalue(L, -1);                             // maps files seen file file
        if (lua_rawget(L, -3) == LUA_TNIL) {              // maps files seen file nil
            lua_pushvalue(L, -2);                         // maps files seen file nil file
            lua_pushboolean(L, 1);                        // maps files seen file nil file true
            lua_rawset(L, -5);                            // maps files seen file nil
            lua_pushvalue(L, -2);                         // maps files seen file nil file
            lua_rawseti(L, -5, ++n);                      // maps files seen file nil
        }
        lua_pop(L, 2); // maps files seen
    }
    lua_pop(L, 1);                // maps files
    lua_setfield(L, -2, "files"); // maps
    if (j->more) host_set_bool(L, "truncated", true);
}

static int push_job(lua_State *L, void *p)
{
    const job *j = p;
    switch (j->op) {
    case JOB_CMDLINE:
    case JOB_ENVIRON: push_items(L, j); break;
    case JOB_ROLLUP: pl__push_rollup(L, &j->u.rollup); break;
    case JOB_FDS: pl__push_fds(L, &j->u.fds); break;
    case JOB_CGROUP: pl__push_cgroup(L, &j->u.cgroup); break;
    case JOB_THREADS: pl__push_threads(L, &j->u.threads); break;
    case JOB_MAPS: push_maps(L, j); break;
    case JOB_WAITS: pl__push_waits(L, &j->u.waits); break;
    }
    return 1;
}

static const host_job_class READING = {.work = job_work, .push = push_job, .fini = job_fini};

static job *job_new(lua_State *L, job_op op, int pid)
{
    size_t n;
    const char *root = lua_tolstring(L, lua_upvalueindex(1), &n);
    job *j = host_job_new(L, sizeof *j, &READING); // … box
    j->op = op;
    j->pid = pid;
    memcpy(j->root, root, n + 1); /* l_at has checked that it fits */
    buf_init(&j->text, 0);
    return j;
}

static int run(lua_State *L, job_op op, int pid) { return host_job_run_anywhere(L, job_new(L, op, pid)); }

static int l_cmdline(lua_State *L) { return run(L, JOB_CMDLINE, check_pid(L, 1)); }
static int l_environ(lua_State *L) { return run(L, JOB_ENVIRON, check_pid(L, 1)); }
static int l_smaps_rollup(lua_State *L) { return run(L, JOB_ROLLUP, check_pid(L, 1)); }
static int l_thread_waits(lua_State *L) { return run(L, JOB_WAITS, check_pid(L, 1)); }
static int l_maps(lua_State *L) { return run(L, JOB_MAPS, check_pid(L, 1)); }
static int l_fds(lua_State *L) { return run(L, JOB_FDS, check_pid(L, 1)); }
static int l_cgroup(lua_State *L) { return run(L, JOB_CGROUP, check_pid(L, 1)); }

/* The names of argument 2, a text or a list of them, each with its NUL. */
static void take_prefixes(lua_State *L, buf *out)
{
    if (lua_type(L, 2) == LUA_TSTRING) {
        buf_put(out, lua_tostring(L, 2), lua_rawlen(L, 2) + 1);
        return;
    }
    for (lua_Integer i = 1; lua_rawgeti(L, 2, i) == LUA_TSTRING; i++) { // box name
        buf_put(out, lua_tostring(L, -1), lua_rawlen(L, -1) + 1);
        lua_pop(L, 1); // box
    }
    lua_pop(L, 1); // box
}

static int l_thread_cpu(lua_State *L)
{
    int pid = check_pid(L, 1);
    if (!lua_isnoneornil(L, 2) && lua_type(L, 2) != LUA_TSTRING) luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2); /* without names the box would be taken for them */
    job *j = job_new(L, JOB_THREADS, pid);
    if (!lua_isnoneornil(L, 2)) take_prefixes(L, &j->text);
    if (j->text.failed) return luaL_error(L, "not enough memory");
    return host_job_run_anywhere(L, j);
}

static int l_own_cpu(lua_State *L)
{
    lua_createtable(L, 0, 2); // t
    host_set_int(L, "process_ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    host_set_int(L, "thread_ns", clock_ns(CLOCK_THREAD_CPUTIME_ID));
    return 1;
}

/* ---- what the kernel answers at once ---- */
static int l_stat(lua_State *L)
{
    kn_stat s;
    err e = {0};
    if (kn_stat_of(root_of(L), check_pid(L, 1), &s, &e) < 0) return host_push_err(L, &e);
    const char state[2] = {s.state, 0};
    lua_createtable(L, 0, 12); // t
    host_set_int(L, "pid", s.pid);
    host_set_int(L, "ppid", s.ppid);
    pl__set_text(L, "state", state);
    pl__set_text(L, "comm", s.comm);
    host_set_count(L, "minor_faults", s.minflt);
    host_set_count(L, "major_faults", s.majflt);
    host_set_count(L, "user_ticks", s.utime);
    host_set_count(L, "system_ticks", s.stime);
    host_set_count(L, "threads", s.threads);
    host_set_count(L, "start_time", s.start_time);
    host_set_count(L, "vsize_bytes", s.vsize);
    host_set_int(L, "rss_bytes", s.rss_pages > INT64_MAX >> 16 ? INT64_MAX : s.rss_pages * sysconf(_SC_PAGESIZE));
    return 1;
}

/* proc.signal(pid, start_time, "KILL"|"CONT") -> whether it was there; or nil, err */
static int l_signal(lua_State *L)
{
    static const char *const names[] = {"KILL", "CONT", NULL};
    static const int numbers[] = {SIGKILL, SIGCONT};
    err e = {0};
    int rc =
        kn_signal(check_pid(L, 1), (uint64_t)luaL_checkinteger(L, 2), numbers[luaL_checkoption(L, 3, NULL, names)], &e);
    if (rc < 0) return host_push_err(L, &e);
    lua_pushboolean(L, rc);
    return 1;
}

static int l_watch(lua_State *L) { return pl__watch(L, check_pid(L, 1)); }

static int l_status(lua_State *L)
{
    kn_status s;
    err e = {0};
    if (kn_status_of(root_of(L), check_pid(L, 1), &s, &e) < 0) return host_push_err(L, &e);
    const char state[2] = {s.state, 0};
    lua_createtable(L, 0, 18); // t
    pl__set_text(L, "name", s.name);
    pl__set_text(L, "state", state);
    host_set_int(L, "uid", s.uid);
    host_set_int(L, "euid", s.euid);
    host_set_int(L, "gid", s.gid);
    host_set_int(L, "nspid", s.nspid);
    host_set_int(L, "pid_namespaces", s.n_nspid);
    host_set_int(L, "tracer_pid", s.tracer_pid);
    pl__set_num(L, "threads", s.threads);
    pl__set_num(L, "rss_bytes", s.rss_bytes);
    pl__set_num(L, "anon_bytes", s.anon_bytes);
    pl__set_num(L, "swap_bytes", s.swap_bytes);
    pl__set_num(L, "peak_rss_bytes", s.hwm_bytes);
    pl__set_num(L, "seccomp", s.seccomp);
    pl__set_num(L, "no_new_privs", s.no_new_privs);
    if (!s.has_caps) return 1;
    pl__set_mask(L, "cap_eff", s.cap_eff);
    pl__set_mask(L, "cap_bnd", s.cap_bnd);
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
    pl__set_limit(L, "nofile_soft", l.nofile_soft);
    pl__set_limit(L, "nofile_hard", l.nofile_hard);
    pl__set_limit(L, "nproc_soft", l.nproc_soft);
    pl__set_limit(L, "core_soft", l.core_soft);
    pl__set_limit(L, "address_space_soft", l.as_soft);
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
    pl__set_num(L, "read_chars", io.rchar);
    pl__set_num(L, "write_chars", io.wchar);
    pl__set_num(L, "read_calls", io.syscr);
    pl__set_num(L, "write_calls", io.syscw);
    pl__set_num(L, "read_bytes", io.read_bytes);
    pl__set_num(L, "write_bytes", io.write_bytes);
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
    pl__push_text(L, target);
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
    host_set_count(L, "dropped", dropped);
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
        host_set_bool(L, caps[i].name, mask >> caps[i].bit & 1);
    lua_setfield(L, -2, "capabilities"); // t
}

static int l_host(lua_State *L)
{
    kn_host h;
    kn_host_of(root_of(L), luaL_optstring(L, 1, getenv("PATH")), &h);
    lua_createtable(L, 0, 16); // t
    host_set_int(L, "uid", h.uid);
    host_set_bool(L, "user_namespace", h.user_namespace);
    pl__set_num(L, "seccomp", h.seccomp);
    pl__set_num(L, "no_new_privs", h.no_new_privs);
    pl__set_num(L, "ptrace_scope", h.ptrace_scope);
    pl__set_num(L, "perf_event_paranoid", h.perf_event_paranoid);
    pl__set_num(L, "kptr_restrict", h.kptr_restrict);
    pl__set_text(L, "release", h.release);
    pl__set_text(L, "perf", h.perf);
    pl__set_text(L, "tracefs", h.tracefs);
    host_set_bool(L, "psi", h.psi);
    host_set_bool(L, "uprobe_events_writable", h.uprobe_events_writable);
    if (!h.has_caps) return 1;
    pl__set_mask(L, "cap_eff", h.cap_eff);
    set_capabilities(L, h.cap_eff);
    return 1;
}

static void set_probe(lua_State *L, const char *key, int sys)
{
    lua_createtable(L, 0, 3); // t probe
    host_set_bool(L, "ok", sys == 0);
    if (sys) {
        host_set_int(L, "errno", sys);
        pl__set_text(L, "message", strerror(sys));
    }
    lua_setfield(L, -2, key); // t
}

static int l_perf_probe(lua_State *L)
{
    kn_perf_probe p;
    kn_perf_probe_of(check_pid(L, 1), &p);
    lua_createtable(L, 0, 5); // t
    set_probe(L, "cpu_clock", p.cpu_clock);
    set_probe(L, "kernel_clock", p.kernel_clock);
    set_probe(L, "hardware", p.hardware);
    set_probe(L, "sched_switch", p.sched_switch);
    set_probe(L, "uprobe", p.uprobe);
    set_probe(L, "breakpoint", p.breakpoint);
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
    pl__set_num(L, "boot_unix_s", boot);
    host_set_int(L, "ticks_per_s", sysconf(_SC_CLK_TCK));
    host_set_int(L, "page_bytes", sysconf(_SC_PAGESIZE));
    host_set_int(L, "uptime_ms", clock_ns(CLOCK_BOOTTIME) / 1000000);
    return 1;
}

static int l_at(lua_State *L);
static const luaL_Reg functions[] = {{"at", l_at},
                                     {"pids", l_pids},
                                     {"stat", l_stat},
                                     {"watch", l_watch},
                                     {"signal", l_signal},
                                     {"status", l_status},
                                     {"cmdline", l_cmdline},
                                     {"environ", l_environ},
                                     {"link", l_link},
                                     {"smaps_rollup", l_smaps_rollup},
                                     {"maps", l_maps},
                                     {"thread_waits", l_thread_waits},
                                     {"limits", l_limits},
                                     {"io", l_io},
                                     {"fds", l_fds},
                                     {"cgroup", l_cgroup},
                                     {"thread_cpu", l_thread_cpu},
                                     {"own_cpu", l_own_cpu},
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
    pl__watch_type(L);
    luaL_newlibtable(L, functions); // lib
    lua_pushliteral(L, "");         // lib root
    luaL_setfuncs(L, functions, 1); // lib
    return 1;
}
