/* SPDX-License-Identifier: MIT */
/* fork_guard.c: what watches over an image: memory that is left to the target, and a process that ends the image when
 * there is too little, and reaps it should we be killed before we could. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/kernel.h"
#include "memory/fork_own.h"

#define LOOK_MS           20 /* between two looks at the memory */
#define REAP_MS           5  /* between two looks for the dead */
#define REAP_LOOKS        1000
#define QUIET_LOOKS       40  /* without anything to be found, before that is believed */
#define GUARD_S           900 /* it does not live longer */
#define WRITTEN           4   /* a quarter of what is shared is taken to be written meanwhile */
#define FLOOR_SHARE       32
#define FIELD_PPID        4
#define FIELD_EXIT_SIGNAL 38

/* ---- memory ---- */

static bool slurp(const char *path, buf *b)
{
    err quiet = {0};
    buf_reset(b);
    return mem__slurp(path, 1 << 20, b, &quiet) >= 0;
}

static uint64_t number_of(const char *dir, const char *name, buf *b)
{
    char path[FORK_DIR_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!slurp(path, b)) return UINT64_MAX;
    kn_limit l = kn_parse_limit(buf_view(b));
    return l.known && !l.unlimited ? l.v : UINT64_MAX;
}

/* Of one cgroup; pages of files that can be dropped count as left. UINT64_MAX: it has no limit. */
static uint64_t left_in(const char *dir, bool v1, buf *b)
{
    char path[FORK_DIR_MAX + 64];
    uint64_t limit = number_of(dir, v1 ? "memory.limit_in_bytes" : "memory.max", b);
    uint64_t used = number_of(dir, v1 ? "memory.usage_in_bytes" : "memory.current", b);
    if (limit >= (uint64_t)1 << 60 || used == UINT64_MAX) return UINT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    kn_num files = {0};
    if (slurp(path, b)) files = kn_keyed(buf_view(b), v1 ? "total_inactive_file" : "inactive_file");
    uint64_t dropped = files.known && files.v > 0 ? (uint64_t)files.v : 0;
    used = used > dropped ? used - dropped : 0;
    return limit > used ? limit - used : 0;
}

uint64_t mem__memory_left(const mem__fork *f)
{
    buf b;
    buf_init(&b, 0);
    uint64_t left = UINT64_MAX;
    if (slurp("/proc/meminfo", &b)) {
        kn_num kb = kn_keyed(buf_view(&b), "MemAvailable:");
        if (kb.known) left = (uint64_t)kb.v * 1024;
    }
    for (size_t i = 0; i < f->n_dirs; i++) {
        uint64_t here = left_in(f->dirs[i], f->v1, &b);
        if (here < left) left = here;
    }
    buf_fini(&b);
    return left;
}

/* The cgroups that the target's memory is charged to, from its own up. */
static void find_dirs(mem_target *t, buf *b)
{
    mem__fork *f = t->fork;
    char path[64], at[FORK_DIR_MAX];
    kn_cgroup_ids ids;
    kn_mount m;
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)t->pid);
    if (!slurp(path, b)) return;
    kn_parse_cgroup_ids(buf_view(b), &ids);
    f->v1 = ids.memory[0] != 0;
    const char *own = f->v1 ? ids.memory : ids.v2;
    if (!slurp("/proc/self/mountinfo", b) || !kn_find_mount(buf_view(b), f->v1 ? "memory" : NULL, &m)) return;
    size_t root = strcmp(m.root, "/") == 0 ? 0 : strlen(m.root);
    if (strncmp(own, m.root, root) != 0) root = 0;
    if ((size_t)snprintf(at, sizeof at, "%s%s", m.point, own + root) >= sizeof at) return;
    while (f->n_dirs < FORK_LEVELS_MAX && strlen(at) >= strlen(m.point)) {
        if (left_in(at, f->v1, b) != UINT64_MAX) snprintf(f->dirs[f->n_dirs++], FORK_DIR_MAX, "%s", at);
        char *slash = strrchr(at, '/');
        if (!slash || slash == at) break;
        *slash = 0;
    }
}

int mem__fork_memory(mem_target *t, err *e)
{
    mem_fork_memory *m = &t->fork->memory;
    kn_status s;
    buf b;
    int rc = kn_status_of("", t->pid, &s, e);
    if (rc < 0) return rc;
    buf_init(&b, 0);
    find_dirs(t, &b);
    buf_fini(&b);
    m->anonymous = s.anon_bytes.known ? (uint64_t)s.anon_bytes.v : s.rss_bytes.known ? (uint64_t)s.rss_bytes.v : 0;
    m->left = mem__memory_left(t->fork);
    m->floor = MEM_FORK_FLOOR + m->anonymous / FLOOR_SHARE;
    m->need = m->floor + m->anonymous / WRITTEN + m->anonymous / 512; /* and page tables */
    if (m->left >= m->need) return 0;
    rc = err_set(
        e, ERR_LIMIT,
        "process %d has %llu MB of its own: a fork may take %llu MB of it, with what must stay free, and %llu MB "
        "are left",
        (int)t->pid, (unsigned long long)(m->anonymous >> 20), (unsigned long long)(m->need >> 20),
        (unsigned long long)(m->left >> 20));
    err_hint(e, "Use freeze=\"copy\" (our memory instead of the target's), or source=\"gcdump\".");
    return rc;
}

/* ---- the dead ---- */

/* Field n of a /proc/PID/stat, from 3 on: behind the name, which may hold anything. */
static long long field(const buf *b, int n)
{
    const char *p = memrchr(b->p, ')', b->n), *end = (const char *)b->p + b->n;
    for (int i = 2; p && i < n; i++) {
        p = memchr(p, ' ', (size_t)(end - p));
        if (p) p++;
    }
    return p && p < end ? strtoll(p, NULL, 10) : -1;
}

/* A process that we made the target fork: no other child of a program has no signal at its end and its program's
 * memory. *ns: its number as the target sees it. 0: not one; else its state. */
static char made_by_us(const mem_target *t, pid_t pid, buf *b, pid_t *ns)
{
    char path[64];
    kn_stat st;
    kn_status status;
    err quiet = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!slurp(path, b) || !buf_u8(b, 0)) return 0;
    b->n--;
    if (field(b, FIELD_PPID) != t->pid || field(b, FIELD_EXIT_SIGNAL) != 0) return 0;
    if (kn_parse_stat(buf_view(b), &st, &quiet) < 0 || st.start_time < t->fork->began_ticks) return 0;
    *ns = kn_status_of("", pid, &status, &quiet) >= 0 && status.nspid ? status.nspid : pid;
    return st.state;
}

static bool wait_for(mem_target *t, pid_t ns)
{
    const mem__call call = {.number = SYS_wait4, .a = {(uint64_t)(int64_t)ns, 0, WNOHANG | __WALL, 0}};
    mem__called got;
    err quiet = {0};
    return mem__inject_somewhere(t, &call, &got, &quiet) == 0 && (got.result == ns || got.result == -ECHILD);
}

/* One look: how many of ours there still are. */
static int look(mem_target *t, pid_t *v, int max)
{
    DIR *d = opendir("/proc");
    struct dirent *entry;
    int n = 0;
    buf b;
    buf_init(&b, 0);
    while (d && n < max && (entry = readdir(d)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10), ns;
        if (pid <= 0 || pid == t->pid) continue;
        char state = made_by_us(t, pid, &b, &ns);
        if (!state) continue;
        v[n++] = pid;
        if (state == 'Z') wait_for(t, ns);
    }
    buf_fini(&b);
    if (d) closedir(d);
    return n;
}

static void nap(int ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL); }

bool mem__reap(mem_target *t)
{
    mem__fork *f = t->fork;
    for (int i = 0; i < REAP_LOOKS && !mem_gone(t); i++) {
        if (f->ns_child && wait_for(t, f->ns_child)) return true;
        nap(REAP_MS);
    }
    return mem_gone(t);
}

/* ---- the guard ---- */

/* We are gone: what was made goes too. */
static void clean_up(mem_target *t)
{
    pid_t v[16];
    for (int i = 0, quiet = 0; i < REAP_LOOKS && quiet < QUIET_LOOKS && !mem_gone(t); i++) {
        quiet = look(t, v, 16) ? 0 : quiet + 1;
        nap(REAP_MS);
    }
}

static _Noreturn void guard(mem_target *t, int fd)
{
    mem__fork *f = t->fork;
    pid_t child = 0, message;
    prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    setsid();
    alarm(GUARD_S);
    f->guard_fd = -1;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, child ? LOOK_MS : -1);
        if (n == 0 && child && mem__memory_left(f) < f->memory.floor) {
            kill(child, SIGKILL);
            child = 0;
        }
        if (n <= 0) continue;
        ssize_t got = read(fd, &message, sizeof message);
        if (got < 0 && errno == EINTR) continue;
        if (got == (ssize_t)sizeof message && message == 0) _exit(EXIT_SUCCESS);
        if (got != (ssize_t)sizeof message) break;
        child = message;
    }
    clean_up(t);
    _exit(EXIT_SUCCESS);
}

/* All descriptors but those that the guard needs: whoever waits for the end of a stream of ours is not to wait for it.
 */
static void close_others(const mem_target *t, int fd)
{
    DIR *d = opendir("/proc/self/fd");
    struct dirent *entry;
    while (d && (entry = readdir(d)) != NULL) {
        int n = (int)strtol(entry->d_name, NULL, 10);
        if (n != fd && n != t->pidfd && n != t->mem_fd && n != dirfd(d) && entry->d_name[0] != '.') close(n);
    }
    if (d) closedir(d);
}

int mem__guard_start(mem_target *t, err *e)
{
    mem__fork *f = t->fork;
    int fds[2];
    kn_stat self;
    int rc = kn_stat_of("", (int)getpid(), &self, e);
    if (rc < 0) return rc;
    f->began_ticks = self.start_time;
    if (pipe2(fds, O_CLOEXEC) != 0) return err_sys(e, ERR_IO, errno, "no pipe for the guard of a fork");
    f->guard = fork();
    if (f->guard == 0) {
        close_others(t, fds[0]);
        guard(t, fds[0]);
    }
    close(fds[0]);
    if (f->guard < 0) {
        close(fds[1]);
        return err_sys(e, ERR_IO, errno, "no process for the guard of a fork");
    }
    f->guard_fd = fds[1];
    return 0;
}

void mem__guard_tell(mem__fork *f, pid_t child)
{
    if (f->guard_fd < 0) return;
    while (write(f->guard_fd, &child, sizeof child) < 0 && errno == EINTR)
        ;
    if (child) return;
    close(f->guard_fd);
    f->guard_fd = -1;
    while (waitpid(f->guard, NULL, 0) < 0 && errno == EINTR)
        ;
}
