/* SPDX-License-Identifier: MIT */
/* runtime.c: which processes run .NET, told from what they have mapped and from their program file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/utf.h"
#include "kernel/kn_internal.h"

const char *kn_runtime_name(kn_runtime r)
{
    switch (r) {
    case KN_RT_CORECLR: return "coreclr";
    case KN_RT_SINGLE_FILE: return "single-file";
    case KN_RT_NATIVE_AOT: return "nativeaot";
    case KN_RT_MONO: return "mono";
    case KN_RT_NONE: break;
    }
    return "none";
}

/* ---- maps
 * -----------------------------------------------------------------------------------------------------------------------
 */
void kn_maps_line(slice line, kn_maps *m)
{
    const uint8_t *path = line.n ? memchr(line.p, '/', line.n) : NULL; /* no field before the path holds a slash */
    if (!path) return;
    slice p = slice_of(path, (size_t)(line.p + line.n - path));
    if (kn__has(p, "/libcoreclr.so")) {
        if (!m->coreclr) kn__copy(p, m->coreclr_path, sizeof m->coreclr_path);
        m->coreclr = true;
    }
    m->clrjit = m->clrjit || kn__has(p, "/libclrjit.so");
    m->hostpolicy = m->hostpolicy || kn__has(p, "/libhostpolicy.so");
    m->mono = m->mono || kn__has(p, "/libmonosgen-2.0.so") || kn__has(p, "/libcoreclr_mono.so");
}

void kn_parse_maps(slice text, kn_maps *m)
{
    slice line;
    while (kn__line(&text, &line))
        kn_maps_line(line, m);
}

static void maps_walk(void *arg, slice line) { kn_maps_line(line, arg); }

int kn_maps_of(const char *root, int pid, kn_maps *out, err *e)
{
    char rel[64];
    *out = (kn_maps){0};
    snprintf(rel, sizeof rel, "/proc/%d/maps", pid);
    int rc = kn__pid_error(root, pid, kn__each_line(root, rel, KN_MAPS_MAX, maps_walk, out, e), e);
    return rc < 0 ? rc : 0;
}

/* ---- ELF
 * ------------------------------------------------------------------------------------------------------------------------
 */
/* System V ABI, ELF-64: only what is needed to read section names and the dynamic string table. */
enum { ELF_EHDR = 64, ELF_SHDR = 64, ELF_SECTIONS_MAX = 256, ELF_NAMES_MAX = 64 << 10, ELF_STRINGS_MAX = 1 << 20 };
typedef struct elf_section {
    uint32_t name;
    uint64_t offset, size;
} elf_section;

static elf_section section_at(const uint8_t *sh, unsigned i)
{
    cursor c = cursor_of(slice_of(sh + (size_t)i * ELF_SHDR, ELF_SHDR), 0);
    elf_section s = {.name = cursor_u32(&c)};
    cursor_skip(&c, 20); /* type, flags, address */
    s.offset = cursor_u64(&c);
    s.size = cursor_u64(&c);
    return s;
}

/* Reads a section, at most max bytes of it; empty when it cannot be. */
static slice load(kn_pread_fn rd, void *arg, elf_section s, size_t max, uint8_t *to)
{
    size_t n = s.size < max ? (size_t)s.size : max;
    long got = rd(arg, s.offset, to, n);
    return slice_of(to, got > 0 ? (size_t)got : 0);
}

static bool name_is(slice names, uint32_t at, const char *want)
{
    size_t n = strlen(want) + 1;
    return at < names.n && names.n - at >= n && memcmp(names.p + at, want, n) == 0;
}

static bool exports(slice strings, const char *symbol)
{
    return strings.n && memmem(strings.p, strings.n, symbol, strlen(symbol) + 1) != NULL;
}

static kn_runtime judge(kn_pread_fn rd, void *arg, const uint8_t *sh, unsigned n, unsigned names_at, uint8_t *mem)
{
    slice names = load(rd, arg, section_at(sh, names_at), ELF_NAMES_MAX, mem), strings = {0};
    for (unsigned i = 0; i < n; i++) {
        elf_section s = section_at(sh, i);
        /* The compiler of NativeAOT puts managed code in a section of its own. */
        if (name_is(names, s.name, "__managedcode")) return KN_RT_NATIVE_AOT;
        if (name_is(names, s.name, ".dynstr")) strings = load(rd, arg, s, ELF_STRINGS_MAX, mem + ELF_NAMES_MAX);
    }
    /* Exported for debuggers: by a NativeAOT program, and by a host that has the whole CoreCLR linked in. */
    if (exports(strings, "DotNetRuntimeDebugHeader") && !exports(strings, "DotNetRuntimeInfo")) return KN_RT_NATIVE_AOT;
    return exports(strings, "DotNetRuntimeInfo") ? KN_RT_SINGLE_FILE : KN_RT_NONE;
}

kn_runtime kn_elf_runtime(kn_pread_fn rd, void *arg)
{
    uint8_t head[ELF_EHDR];
    if (rd(arg, 0, head, sizeof head) != (long)sizeof head) return KN_RT_NONE;
    if (memcmp(head, "\177ELF\2\1", 6) != 0) return KN_RT_NONE; /* 64 bits, little-endian */
    cursor c = cursor_of(slice_of(head, sizeof head), 0);
    cursor_skip(&c, 40);
    uint64_t sh_at = cursor_u64(&c);
    cursor_skip(&c, 10);
    unsigned sh_size = cursor_u16(&c), n = cursor_u16(&c), names_at = cursor_u16(&c);
    if (sh_size != ELF_SHDR || n == 0 || n > ELF_SECTIONS_MAX || names_at >= n) return KN_RT_NONE;
    size_t table = (size_t)n * ELF_SHDR;
    uint8_t *mem = mem_alloc(table + ELF_NAMES_MAX + ELF_STRINGS_MAX);
    if (!mem) return KN_RT_NONE;
    kn_runtime r = KN_RT_NONE;
    if (rd(arg, sh_at, mem, table) == (long)table) r = judge(rd, arg, mem, n, names_at, mem + table);
    free(mem);
    return r;
}

static long pread_fd(void *arg, uint64_t off, void *to, size_t n)
{
    size_t got = 0;
    if (off > INT64_MAX - n) return -1;
    while (got < n) {
        ssize_t r = pread(*(int *)arg, (char *)to + got, n - got, (off_t)(off + got));
        if (r <= 0) return got ? (long)got : (long)r;
        got += (size_t)r;
    }
    return (long)got;
}

static kn_runtime exe_runtime(const char *root, int pid)
{
    char path[KN_PATH_MAX];
    if (!kn__pid_path(root, pid, "exe", path, sizeof path)) return KN_RT_NONE;
    int fd = kn__open(path, NULL);
    if (fd < 0) return KN_RT_NONE;
    kn_runtime r = kn_elf_runtime(pread_fd, &fd);
    close(fd);
    return r;
}

int kn_runtime_of(const char *root, int pid, kn_runtime *out, kn_maps *maps, err *e)
{
    *out = KN_RT_NONE;
    int rc = kn_maps_of(root, pid, maps, e);
    if (rc < 0) return rc;
    if (maps->mono)
        *out = KN_RT_MONO;
    else if (maps->coreclr)
        *out = KN_RT_CORECLR;
    else
        *out = exe_runtime(root, pid);
    return 0;
}

/* ---- scan: every process of the machine
 * ----------------------------------------------------------------------------------------- */
/* The arguments of a process joined by blanks, as valid UTF-8, in the scan's arena. */
static slice joined_cmdline(const char *root, int pid, arena *mem)
{
    buf raw, text;
    slice rest, item, out = {0};
    buf_init(&raw, 0);
    buf_init(&text, 0);
    if (kn_read_pid(root, pid, "cmdline", KN_CMDLINE_MAX, &raw, NULL) >= 0) {
        for (rest = buf_view(&raw); kn_next_z(&rest, &item);) {
            if (text.n) buf_u8(&text, ' ');
            utf8_sanitize(item, &text);
        }
        char *copy = arena_str(mem, buf_view(&text));
        if (copy) out = slice_of(copy, text.n);
    }
    buf_fini(&raw);
    buf_fini(&text);
    return out;
}

/* "dotnet" or ".../dotnet" as the first word: the muxer that runs a program. */
static bool named_dotnet(slice cmdline)
{
    slice rest = cmdline, w = kn__word(&rest);
    return slice_eq_str(w, "dotnet") || slice_ends(w, SLICE_LIT("/dotnet"));
}

/* True when pid belongs in the scan; *p is filled as far as the kernel lets us look. */
static bool look_at(const char *root, int pid, kn_scan *s, kn_proc *p)
{
    kn_maps maps;
    err e = {0};
    *p = (kn_proc){.pid = pid};
    int rc = kn_runtime_of(root, pid, &p->runtime, &maps, &e);
    if (rc == -ERR_PERMISSION_DENIED) {
        s->denied++;
        p->maps_denied = true;
    }
    if (p->runtime == KN_RT_NONE && !p->maps_denied) return false;
    p->cmdline = joined_cmdline(root, pid, &s->mem);
    if (p->maps_denied && !named_dotnet(p->cmdline)) return false;
    kn_status st;
    kn_stat stat;
    if (kn_status_of(root, pid, &st, NULL) < 0 || kn_stat_of(root, pid, &stat, NULL) < 0)
        return false; /* it just ended */
    p->nspid = st.nspid;
    p->n_nspid = st.n_nspid;
    p->uid = st.euid;
    p->state = stat.state;
    p->start_time = stat.start_time;
    return stat.state != 'Z';
}

int kn_scan_dotnet(const char *root, kn_scan *out, err *e)
{
    *out = (kn_scan){.mem.max = (size_t)32 << 20};
    size_t n = 0;
    int *pids = mem_calloc(KN_PIDS_MAX, sizeof *pids), rc = -ERR_NO_MEMORY;
    out->rows = mem_calloc(KN_SCAN_MAX, sizeof *out->rows);
    if (!pids || !out->rows)
        err_set(e, ERR_NO_MEMORY, "no memory to list the processes");
    else
        rc = kn_pids(root, pids, KN_PIDS_MAX, &n, &out->dropped, e);
    for (size_t i = 0; rc >= 0 && i < n; i++) {
        kn_proc p;
        out->seen++;
        if (!look_at(root, pids[i], out, &p)) continue;
        if (out->n < KN_SCAN_MAX)
            out->rows[out->n++] = p;
        else
            out->dropped++;
    }
    free(pids);
    if (rc < 0) kn_scan_fini(out);
    return rc < 0 ? rc : 0;
}

void kn_scan_fini(kn_scan *s)
{
    arena_free(&s->mem);
    free(s->rows);
    s->rows = NULL;
    s->n = 0;
}
