/* SPDX-License-Identifier: MIT */
/* sockets.c: the folders in which diagnostics sockets may lie, each read once, and which of the files belong to a
 * process. A name proves nothing: the key must be the process's start time, the owner its user, and after connecting
 * the kernel says who listens. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc/ipc_internal.h"

typedef struct entry {
    pid_t pid;
    uint64_t key;
    bool router;
    uid_t uid;
    int64_t mtime_ns;
} entry;
typedef struct folder {
    dev_t dev;
    ino_t ino;
    entry *entries;
    size_t n;
} folder;
struct ipc__folders {
    folder *items;
    size_t n, cap;
};

ipc__folders *ipc__folders_new(void) { return mem_calloc(1, sizeof(ipc__folders)); }

void ipc__folders_free(ipc__folders *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->n; i++)
        free(f->items[i].entries);
    free(f->items);
    free(f);
}

/* Decimal digits without sign; NULL when there is none or it does not fit. */
static const char *read_number(const char *s, uint64_t *out)
{
    if (!isdigit((unsigned char)*s)) return NULL;
    char *end;
    errno = 0;
    *out = strtoull(s, &end, 10);
    return errno ? NULL : end;
}

bool ipc__socket_name(const char *name, pid_t *pid, uint64_t *key, bool *router)
{
    static const char prefix[] = "dotnet-diagnostic-", via[] = "dsrouter-";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    name += sizeof prefix - 1;
    *router = strncmp(name, via, sizeof via - 1) == 0;
    if (*router) name += sizeof via - 1;
    uint64_t n;
    name = read_number(name, &n);
    if (!name || *name != '-' || n > INT32_MAX || n == 0) return false;
    *pid = (pid_t)n;
    name = read_number(name + 1, key);
    return name && strcmp(name, "-socket") == 0;
}

static void folder_read(folder *f, DIR *d)
{
    size_t cap = 0;
    struct dirent *de;
    for (unsigned seen = 0;
         seen < IPC__FOLDER_ENTRIES_MAX && f->n < IPC__FOLDER_SOCKETS_MAX && (de = readdir(d)) != NULL; seen++) {
        entry en = {0};
        struct stat st;
        if (!ipc__socket_name(de->d_name, &en.pid, &en.key, &en.router)) continue;
        if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode)) continue;
        en.uid = st.st_uid;
        en.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        if (f->n == cap) {
            entry *more = mem_realloc(f->entries, (cap ? cap * 2 : 16) * sizeof *more);
            if (!more) return;
            f->entries = more;
            cap = cap ? cap * 2 : 16;
        }
        f->entries[f->n++] = en;
    }
}

/* The folder at path, read now or before. NULL with *sys: it cannot be read. */
static const folder *folder_get(ipc__folders *all, const char *path, int *sys)
{
    DIR *d = NULL;
    const folder *out = NULL;
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    *sys = fd < 0 ? errno : 0;
    if (fd < 0 || fstat(fd, &st) < 0) goto out;
    for (size_t i = 0; i < all->n && !out; i++)
        if (all->items[i].dev == st.st_dev && all->items[i].ino == st.st_ino) out = &all->items[i];
    if (out) goto out;
    if (all->n == all->cap) {
        size_t cap = all->cap ? all->cap * 2 : 8;
        folder *more = cap <= IPC__FOLDERS_MAX ? mem_realloc(all->items, cap * sizeof *more) : NULL;
        *sys = more ? 0 : ENOMEM;
        if (!more) goto out;
        all->items = more;
        all->cap = cap;
    }
    d = fdopendir(fd);
    *sys = d ? 0 : errno;
    if (!d) goto out;
    fd = -1;
    folder *f = &all->items[all->n++];
    *f = (folder){.dev = st.st_dev, .ino = st.st_ino};
    folder_read(f, d);
    out = f;
out:
    if (d) (void)closedir(d);
    ipc__close(&fd);
    return out;
}

/* ---- one process ------------------------------------------------------------------------------------------------- */
typedef struct search {
    ipc__folders *folders;
    const ipc__proc *p;
    ipc_endpoint *ep;
    unsigned stale, foreign;
    uint64_t stale_key;
    uid_t foreign_uid;
    struct {
        dev_t dev;
        ino_t ino;
    } seen[16]; /* the same folder under two names counts once */
    unsigned n_seen;
    bool memory;
} search;

/* Router before default when it is not older, as the official client has it; a right key before any other; then the
 * newest. */
static bool better(const ipc_socket *a, const ipc_socket *b)
{
    if (a->key_matches != b->key_matches) return a->key_matches;
    if (a->mtime_ns != b->mtime_ns) return a->mtime_ns > b->mtime_ns;
    return a->router && !b->router;
}

static void keep(search *s, const char *dir, const entry *en, bool key_matches)
{
    ipc_endpoint *ep = s->ep;
    char name[128];
    (void)snprintf(name, sizeof name, "dotnet-diagnostic-%s%d-%llu-socket", en->router ? "dsrouter-" : "", en->pid,
                   (unsigned long long)en->key);
    ipc_socket k = {.key = en->key, .key_matches = key_matches, .router = en->router, .mtime_ns = en->mtime_ns};
    size_t n = strlen(dir) + 1 + strlen(name) + 1;
    if (ep->n_sockets == IPC_SOCKETS_PER_PROCESS) return;
    k.path = mem_alloc(n);
    if (!k.path) {
        s->memory = false;
        return;
    }
    (void)snprintf(k.path, n, "%s/%s", dir, name);
    unsigned i = ep->n_sockets++;
    for (; i > 0 && better(&k, &ep->sockets[i - 1]); i--)
        ep->sockets[i] = ep->sockets[i - 1];
    ep->sockets[i] = k;
}

/* Looks through one folder. Returns 0 or the errno that kept it shut. */
static int look(search *s, const char *dir)
{
    int sys;
    const ipc__proc *p = s->p;
    const folder *f = folder_get(s->folders, dir, &sys);
    if (!f) return sys;
    for (unsigned i = 0; i < s->n_seen; i++)
        if (s->seen[i].dev == f->dev && s->seen[i].ino == f->ino) return 0;
    if (s->n_seen < sizeof s->seen / sizeof *s->seen) {
        s->seen[s->n_seen].dev = f->dev;
        s->seen[s->n_seen++].ino = f->ino;
    }
    for (size_t i = 0; i < f->n; i++) {
        const entry *en = &f->entries[i];
        if (en->pid != p->nspid) continue;
        bool matches = en->key == p->start_time;
        if (!matches && en->key != 0 && !p->other_time) { /* another process had this pid */
            s->stale++;
            s->stale_key = en->key;
        } else if (en->uid != p->uid && en->uid != p->euid && en->uid != 0) {
            s->foreign++;
            s->foreign_uid = en->uid;
        } else
            keep(s, dir, en, matches);
    }
    return 0;
}

/* root/PID/root in front of an absolute path, root/PID/cwd of a relative one; *out is heap. */
static char *inside(const char *root, const ipc__proc *p, const char *dir)
{
    char prefix[256] = "";
    if (dir[0] != '/')
        (void)snprintf(prefix, sizeof prefix, "%s/%d/cwd/", root, p->pid);
    else if (p->other_mounts)
        (void)snprintf(prefix, sizeof prefix, "%s/%d/root", root, p->pid);
    size_t n = strlen(prefix) + strlen(dir) + 1;
    char *out = mem_alloc(n);
    if (!out) return NULL;
    (void)snprintf(out, n, "%s%s", prefix, dir);
    for (size_t len = strlen(out); len > 1 && out[len - 1] == '/'; len--)
        out[len - 1] = 0;
    return out;
}

static int look_inside(search *s, const char *root, const char *dir)
{
    char *path = inside(root, s->p, dir);
    if (!path) {
        s->memory = false;
        return ENOMEM;
    }
    int sys = look(s, path);
    free(path);
    return sys;
}

/* The length that the socket's path has for the target itself. */
static size_t path_length(const ipc__proc *p)
{
    const char *dir = p->tmpdir ? p->tmpdir : "/tmp";
    size_t n = strlen(dir);
    bool slash = n > 0 && dir[n - 1] == '/';
    return n + !slash +
           (size_t)snprintf(NULL, 0, "dotnet-diagnostic-%d-%llu-socket", p->nspid, (unsigned long long)p->start_time);
}

/* No socket: why, from what the environment and the folders said. sys: what kept the process's own folder shut. */
static void explain(const search *s, int sys)
{
    const ipc__proc *p = s->p;
    ipc_endpoint *ep = s->ep;
    const char *dir = p->tmpdir ? p->tmpdir : "/tmp";
    if (p->diagnostics_off) {
        ipc__cause(ep, IPC_DIAGNOSTICS_DISABLED, ERR_ENDPOINT_UNAVAILABLE, "%s=0 is set in the process",
                   p->off_variable);
        err_hint(&ep->why, "start it without %s, or set it to 1", p->off_variable);
    } else if (path_length(p) >= sizeof((struct sockaddr_un *)0)->sun_path) {
        ipc__cause(ep, IPC_TMPDIR, ERR_ENDPOINT_UNAVAILABLE,
                   "its TMPDIR is too long: the socket's path would have %zu bytes, at most 107 work", path_length(p));
        err_detail(&ep->why, "%s", dir);
        err_hint(&ep->why, "start it with a shorter TMPDIR");
    } else if (sys != 0 && p->other_mounts) {
        ipc__cause(ep, IPC_NAMESPACE, sys == EACCES || sys == EPERM ? ERR_PERMISSION_DENIED : ERR_ENDPOINT_UNAVAILABLE,
                   "it lives in another mount namespace (a container), whose %s cannot be read: %s", dir,
                   strerror(sys));
        err_hint(&ep->why,
                 "give lunette CAP_SYS_PTRACE, or run it in the same container, or share its /tmp as a volume");
    } else if (!p->environ_known && s->stale + s->foreign == 0) {
        ipc__cause(ep, IPC_PERMISSION, ERR_PERMISSION_DENIED,
                   "it belongs to uid %u, and what would tell where its socket lies cannot be read", p->uid);
        err_hint(&ep->why, "run lunette as uid %u or as root, or give it CAP_SYS_PTRACE", p->uid);
    } else if (sys != 0) {
        ipc__cause(ep, IPC_TMPDIR, sys == EACCES ? ERR_PERMISSION_DENIED : ERR_ENDPOINT_UNAVAILABLE,
                   "its TMPDIR cannot be read: %s", strerror(sys));
        err_detail(&ep->why, "%s", dir);
        err_hint(&ep->why, sys == ENOENT ? "start it with a TMPDIR that exists"
                                         : "run lunette as a user who can read that folder");
    }
}

/* As explain, when the folder could be read: it holds none, or none that is this process's. */
static void explain_rest(const search *s)
{
    ipc_endpoint *ep = s->ep;
    const char *dir = s->p->tmpdir ? s->p->tmpdir : "/tmp";
    if (s->foreign) {
        ipc__cause(ep, IPC_NO_SOCKET, ERR_ENDPOINT_UNAVAILABLE,
                   "the socket of its name in %s belongs to uid %u, the process to uid %u", dir, s->foreign_uid,
                   s->p->uid);
        err_hint(&ep->why, "somebody put it there: look at the file, remove it, and restart the process");
    } else if (s->stale) {
        ipc__cause(ep, IPC_STALE_SOCKET, ERR_ENDPOINT_UNAVAILABLE,
                   "the only socket of its pid in %s was left behind by an earlier process (start time %llu, not %llu)",
                   dir, (unsigned long long)s->stale_key, (unsigned long long)s->p->start_time);
        err_hint(&ep->why, "its own socket is gone or was never made: restart the process");
    } else if (ep->runtime == IPC_RUNTIME_NATIVE_AOT) {
        ipc__cause(ep, IPC_NO_SOCKET, ERR_ENDPOINT_UNAVAILABLE, "a NativeAOT program without a diagnostics socket");
        err_hint(&ep->why, "build it with <EventSourceSupport>true</EventSourceSupport>");
    } else {
        ipc__cause(ep, IPC_NO_SOCKET, ERR_ENDPOINT_UNAVAILABLE, "it has no diagnostics socket in %s", dir);
        err_hint(&ep->why,
                 "it may still be starting; else a cleaner of %s removed the socket, or the folder was not writable: "
                 "restart the process",
                 dir);
    }
}

void ipc__find_sockets(ipc__folders *f, const char *root, const ipc_discover_cfg *cfg, const ipc__proc *p,
                       ipc_endpoint *ep)
{
    search s = {.folders = f, .p = p, .ep = ep, .memory = true};
    int sys = look_inside(&s, root, p->tmpdir ? p->tmpdir : "/tmp");
    if (p->tmpdir) (void)look_inside(&s, root, "/tmp");
    if (!p->other_mounts) {
        const char *own = getenv("TMPDIR");
        if (own && *own == '/') (void)look(&s, own);
        for (const char *const *d = cfg ? cfg->tmpdirs : NULL; d && *d; d++)
            (void)look(&s, *d);
    }
    if (ep->n_sockets > 0) return;
    if (!s.memory) ipc__cause(ep, IPC_NO_SOCKET, ERR_NO_MEMORY, "no memory to look for its socket");
    explain(&s, sys);
    explain_rest(&s);
}
