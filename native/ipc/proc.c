/* SPDX-License-Identifier: MIT */
/* proc.c: what /proc tells about one process: who it is, which namespaces it lives in, where its sockets would be, and
 * whether it is .NET. */
#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/ipc_internal.h"

#define STAT_MAX    4096
#define ENVIRON_FEW ((size_t)32 << 10) /* enough for most */
#define ENVIRON_MAX ((size_t)4 << 20)
#define MAPS_CHUNK  ((size_t)64 << 10)
#define MAPS_MAX    ((size_t)32 << 20)
#define MARK_MAX    32 /* longest mark looked for */
#define STRTAB_MAX  ((size_t)8 << 20)
#define PF_KTHREAD  0x00200000u

/* Reads at most max bytes of root/PID/name and a NUL. Returns bytes, or -errno. */
static ssize_t read_file(const char *root, pid_t pid, const char *name, uint8_t *out, size_t max)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%d/%s", root, pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    size_t n = 0;
    ssize_t got = 1;
    while (n < max && got > 0) {
        got = read(fd, out + n, max - n);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            n += (size_t)got;
    }
    int sys = got < 0 ? errno : 0;
    (void)close(fd);
    if (sys && n == 0) return -sys;
    out[n] = 0;
    return (ssize_t)n;
}

/* comm may hold spaces and parentheses: everything after the last ')' is numbers. */
static bool parse_stat(const char *text, ipc__proc *p)
{
    const char *at = strrchr(text, ')');
    if (!at || at[1] != ' ') return false;
    p->state = at[2];
    at += 3;
    unsigned long long v[20] = {0}; /* v[0] is token 2, ppid */
    for (int i = 0; i < 19; i++) {
        char *end;
        v[i] = strtoull(at, &end, 10); /* signed fields wrap; none of ours is */
        if (end == at) return false;
        at = end;
    }
    p->kernel_thread = (v[5] & PF_KTHREAD) != 0;
    p->start_time = v[18];
    return true;
}

static void parse_status(const char *text, ipc__proc *p)
{
    const char *line = strstr(text, "\nUid:");
    if (line) {
        char *end;
        p->uid = (uid_t)strtoul(line + 5, &end, 10);
        p->euid = (uid_t)strtoul(end, NULL, 10);
    }
    line = strstr(text, "\nNSpid:");
    if (!line) return;
    for (line += 7; *line == '\t' || *line == ' ';) {
        char *end;
        p->nspid = (pid_t)strtol(line, &end, 10);
        if (end == line) break;
        line = end;
    }
}

/* Is the namespace of that kind another than ours? 1 yes, 0 no, -1 not to be told. */
static int other_namespace(const char *root, pid_t pid, const char *kind)
{
    char path[256], theirs[64], ours[64];
    (void)snprintf(path, sizeof path, "%s/%d/ns/%s", root, pid, kind);
    ssize_t n = readlink(path, theirs, sizeof theirs - 1);
    (void)snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    ssize_t m = readlink(path, ours, sizeof ours - 1);
    if (n <= 0 || m <= 0) return -1;
    return n != m || memcmp(theirs, ours, (size_t)n) != 0;
}

/* CLR numbers in the environment are hexadecimal: "0", "00" and "0x0" all mean off. */
static bool is_zero(const char *v)
{
    char *end;
    return *v && strtoul(v, &end, 16) == 0 && *end == 0;
}

static void parse_environ(const char *text, size_t n, ipc__proc *p)
{
    static const char *const switches[] = {"DOTNET_EnableDiagnostics=", "COMPlus_EnableDiagnostics=",
                                           "DOTNET_EnableDiagnostics_IPC=", "COMPlus_EnableDiagnostics_IPC="};
    for (size_t at = 0; at < n; at += strlen(text + at) + 1) {
        const char *s = text + at;
        if (strncmp(s, "TMPDIR=", 7) == 0 && s[7] && !p->tmpdir) p->tmpdir = slice_dup(slice_str(s + 7));
        for (size_t i = 0; i < sizeof switches / sizeof *switches && !p->diagnostics_off; i++) {
            size_t len = strlen(switches[i]);
            if (strncmp(s, switches[i], len) != 0 || !is_zero(s + len)) continue;
            p->diagnostics_off = true;
            (void)snprintf(p->off_variable, sizeof p->off_variable, "%.*s", (int)(len - 1), s);
        }
    }
}

void ipc__proc_fini(ipc__proc *p)
{
    free(p->tmpdir);
    p->tmpdir = NULL;
}

/* False: no memory. */
static bool read_environ(const char *root, pid_t pid, ipc__proc *p)
{
    for (size_t size = ENVIRON_FEW;; size = ENVIRON_MAX) {
        uint8_t *text = mem_alloc(size + 1);
        if (!text) return false;
        ssize_t n = read_file(root, pid, "environ", text, size);
        bool again = n == (ssize_t)size && size < ENVIRON_MAX;
        if (!again) p->environ_known = n >= 0;
        if (!again && n > 0) parse_environ((char *)text, (size_t)n, p);
        free(text);
        if (!again) return true;
    }
}

int ipc__proc_read(const char *root, pid_t pid, ipc__proc *out, err *e)
{
    ipc__proc p = {.pid = pid, .nspid = pid};
    uint8_t text[STAT_MAX + 1];
    if (read_file(root, pid, "stat", text, STAT_MAX) <= 0 || !parse_stat((char *)text, &p))
        return err_set(e, ERR_PROCESS_NOT_FOUND, "there is no process %d", pid);
    if (read_file(root, pid, "status", text, STAT_MAX) > 0) parse_status((char *)text, &p);
    if (!p.kernel_thread) {
        int mounts = other_namespace(root, pid, "mnt");
        p.other_mounts = mounts > 0 || (mounts < 0 && p.nspid != pid);
        p.other_time = other_namespace(root, pid, "time") != 0;
        if (!read_environ(root, pid, &p)) return err_set(e, ERR_NO_MEMORY, "no memory to look at process %d", pid);
    }
    *out = p;
    return 0;
}

bool ipc__proc_stopped(pid_t pid)
{
    uint8_t text[STAT_MAX + 1];
    ipc__proc p = {0};
    return read_file("/proc", pid, "stat", text, STAT_MAX) > 0 && parse_stat((char *)text, &p) &&
           (p.state == 'T' || p.state == 't');
}

/* ---- is it .NET -------------------------------------------------------------------------------------------------- */
static bool holds(const uint8_t *p, size_t n, const char *mark) { return memmem(p, n, mark, strlen(mark)) != NULL; }

static ipc_runtime mapped_mark(const uint8_t *p, size_t n)
{
    if (holds(p, n, "/libcoreclr.so") || holds(p, n, "/libclrjit.so") || holds(p, n, "memfd:doublemapper"))
        return IPC_RUNTIME_CORECLR;
    return holds(p, n, "/libmonosgen-2.0.so") ? IPC_RUNTIME_MONO : IPC_RUNTIME_UNKNOWN;
}

/* Looks for the marks in root/PID/maps, a chunk at a time with the end of the one before. Negative: -errno. */
static int maps_runtime(const char *root, pid_t pid, ipc_runtime *out)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%d/maps", root, pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    uint8_t *p = mem_alloc(MARK_MAX + MAPS_CHUNK);
    size_t kept = 0, total = 0;
    int rc = p ? 0 : -ENOMEM;
    *out = IPC_RUNTIME_UNKNOWN;
    while (rc == 0 && *out == IPC_RUNTIME_UNKNOWN && total < MAPS_MAX) {
        ssize_t n = read(fd, p + kept, MAPS_CHUNK);
        if (n < 0 && errno != EINTR) rc = -errno;
        if (n == 0) break;
        if (n < 0) continue;
        total += (size_t)n;
        *out = mapped_mark(p, kept + (size_t)n);
        size_t have = kept + (size_t)n;
        kept = have < MARK_MAX ? have : MARK_MAX;
        memmove(p, p + have - kept, kept);
    }
    free(p);
    (void)close(fd);
    return rc;
}

static bool read_at(int fd, void *out, size_t n, uint64_t at)
{
    return at <= INT64_MAX && pread(fd, out, n, (off_t)at) == (ssize_t)n;
}

/* The dynamic string table's place in the file. False: none. */
static bool find_strtab(int fd, const Elf64_Ehdr *h, uint64_t *at, uint64_t *size)
{
    Elf64_Phdr dynamic = {0}, ph;
    Elf64_Dyn d;
    uint64_t address = 0;
    *size = 0;
    for (int i = 0; i < h->e_phnum; i++)
        if (read_at(fd, &ph, sizeof ph, h->e_phoff + (uint64_t)i * sizeof ph) && ph.p_type == PT_DYNAMIC) dynamic = ph;
    for (uint64_t i = 0; i < dynamic.p_filesz / sizeof d && i < 4096; i++) {
        if (!read_at(fd, &d, sizeof d, dynamic.p_offset + i * sizeof d) || d.d_tag == DT_NULL) break;
        if (d.d_tag == DT_STRTAB) address = d.d_un.d_ptr;
        if (d.d_tag == DT_STRSZ) *size = d.d_un.d_val;
    }
    if (address == 0 || *size == 0 || *size > STRTAB_MAX) return false;
    for (int i = 0; i < h->e_phnum; i++) {
        if (!read_at(fd, &ph, sizeof ph, h->e_phoff + (uint64_t)i * sizeof ph) || ph.p_type != PT_LOAD) continue;
        if (address < ph.p_vaddr || address - ph.p_vaddr >= ph.p_filesz) continue;
        *at = ph.p_offset + (address - ph.p_vaddr);
        return true;
    }
    return false;
}

ipc_runtime ipc__elf_runtime(const char *path)
{
    ipc_runtime found = IPC_RUNTIME_UNKNOWN;
    Elf64_Ehdr h;
    uint64_t at, size;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return found;
    if (read_at(fd, &h, sizeof h, 0) && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 && h.e_ident[EI_CLASS] == ELFCLASS64 &&
        h.e_ident[EI_DATA] == ELFDATA2LSB && h.e_phentsize == sizeof(Elf64_Phdr) && find_strtab(fd, &h, &at, &size)) {
        uint8_t *names = mem_alloc(size);
        if (names && read_at(fd, names, size, at)) {
            if (holds(names, size, "DotNetRuntimeDebugHeader"))
                found = IPC_RUNTIME_NATIVE_AOT;
            else if (holds(names, size, "DotNetRuntimeInfo"))
                found = IPC_RUNTIME_CORECLR; /* single-file: the runtime is inside */
        }
        free(names);
    }
    (void)close(fd);
    return found;
}

int ipc__proc_runtime(const char *root, pid_t pid, ipc_runtime *out)
{
    int rc = maps_runtime(root, pid, out);
    if (rc < 0) return rc == -EACCES || rc == -EPERM ? -ERR_PERMISSION_DENIED : -ERR_PROCESS_NOT_FOUND;
    if (*out != IPC_RUNTIME_UNKNOWN) return 0;
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%d/exe", root, pid);
    *out = ipc__elf_runtime(path);
    return 0;
}

bool ipc__proc_named_dotnet(const char *root, pid_t pid)
{
    char text[STAT_MAX + 1];
    if (read_file(root, pid, "cmdline", (uint8_t *)text, STAT_MAX) <= 0) return false;
    const char *slash = strrchr(text, '/');
    return strcmp(slash ? slash + 1 : text, "dotnet") == 0;
}
