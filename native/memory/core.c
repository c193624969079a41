/* SPDX-License-Identifier: MIT */
/* core.c: an ELF core file as a target: its header, its pieces of memory, reading them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "memory/memory_internal.h"

#define CREATEDUMP_MARK_AT 0x00007ffffff10000u
#define CREATEDUMP_MARK    "DIAGINFOHEADER"
#define NOTES_SIZE_MAX     ((uint64_t)64 << 20)
#define READ_PAST          ((size_t)64 << 10) /* larger reads are of the file, not of its map */

/* ---- the header ---- */

static bool inside(const mem_target *t, uint64_t offset, uint64_t n)
{
    return offset <= t->size && n <= t->size - offset;
}

static int read_header(const mem_target *t, Elf64_Ehdr *h, uint64_t *phdrs, err *e)
{
    if (!inside(t, 0, sizeof *h))
        return err_at(e, ERR_TRUNCATED, (int64_t)t->size, "%s is too short for an ELF file", t->name);
    memcpy(h, t->map, sizeof *h);
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0) return err_at(e, ERR_MALFORMED, 0, "%s is no ELF file", t->name);
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != EM_X86_64)
        return err_set(e, ERR_NOT_SUPPORTED, "%s is of another machine than x86-64 (ELF machine %u)", t->name,
                       h->e_machine);
    if (h->e_type != ET_CORE) return err_at(e, ERR_MALFORMED, 16, "%s is an ELF file, but no core", t->name);
    *phdrs = h->e_phnum;
    Elf64_Shdr first;
    if (h->e_phnum == PN_XNUM) {
        if (!inside(t, h->e_shoff, sizeof first))
            return err_at(e, ERR_TRUNCATED, (int64_t)t->size, "%s ends before its section header", t->name);
        memcpy(&first, t->map + h->e_shoff, sizeof first);
        *phdrs = first.sh_info;
    }
    if (h->e_phentsize != sizeof(Elf64_Phdr))
        return err_at(e, ERR_MALFORMED, 54, "%s: program headers of %u bytes", t->name, h->e_phentsize);
    if (*phdrs > MEM_MAPPINGS_MAX)
        return err_set(e, ERR_LIMIT, "%s has %llu program headers", t->name, (unsigned long long)*phdrs);
    if (!inside(t, h->e_phoff, *phdrs * sizeof(Elf64_Phdr)))
        return err_at(e, ERR_TRUNCATED, (int64_t)t->size, "%s ends inside its program headers", t->name);
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const mem__load *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Pieces that overlap are cut: the first one keeps what it has. */
static void cut_overlaps(mem_target *t)
{
    size_t kept = 0;
    uint64_t reached = 0;
    for (size_t i = 0; i < t->n_loads; i++) {
        mem__load l = t->loads[i];
        uint64_t cut = reached > l.start ? reached - l.start : 0;
        if (cut >= l.memory) continue;
        l.start += cut;
        l.memory -= cut;
        l.offset += cut;
        l.size = l.size > cut ? l.size - cut : 0;
        reached = l.start + l.memory;
        t->loads[kept++] = l;
    }
    t->n_loads = kept;
}

typedef struct ranges {
    uint64_t notes_at, notes_size;
    uint64_t lost; /* bytes that the file should have beyond its end */
} ranges;

static void take_load(mem_target *t, const Elf64_Phdr *p, ranges *r)
{
    if (p->p_memsz == 0 || p->p_vaddr + p->p_memsz < p->p_vaddr) return;
    mem__load l = {.start = p->p_vaddr,
                   .memory = p->p_memsz,
                   .offset = p->p_offset,
                   .flags = p->p_flags,
                   .size = p->p_filesz < p->p_memsz ? p->p_filesz : p->p_memsz};
    uint64_t there = l.offset < t->size ? t->size - l.offset : 0;
    if (l.size > there) {
        r->lost += l.size - there;
        l.size = there;
    }
    t->loads[t->n_loads++] = l;
}

static int read_pieces(mem_target *t, ranges *r, err *e)
{
    Elf64_Ehdr h;
    uint64_t n = 0;
    int rc = read_header(t, &h, &n, e);
    if (rc < 0) return rc;
    t->loads = mem_calloc((size_t)n + 1, sizeof *t->loads);
    if (!t->loads) return err_set(e, ERR_NO_MEMORY, "no memory for %llu program headers", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        Elf64_Phdr p;
        memcpy(&p, t->map + h.e_phoff + i * sizeof p, sizeof p);
        if (p.p_type == PT_LOAD) take_load(t, &p, r);
        if (p.p_type == PT_NOTE && r->notes_size == 0) {
            r->notes_at = p.p_offset;
            r->notes_size = p.p_filesz;
        }
    }
    if (t->n_loads > 0) qsort(t->loads, t->n_loads, sizeof *t->loads, by_start);
    cut_overlaps(t);
    if (!inside(t, r->notes_at, r->notes_size))
        return err_at(e, ERR_TRUNCATED, (int64_t)t->size, "%s ends inside its notes", t->name);
    if (r->notes_size > NOTES_SIZE_MAX)
        return err_set(e, ERR_LIMIT, "%s has notes of %llu bytes", t->name, (unsigned long long)r->notes_size);
    return 0;
}

/* ---- reading ---- */

const mem__load *mem__load_of(const mem_target *t, uint64_t address)
{
    size_t lo = 0, hi = t->n_loads;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->loads[mid].start + t->loads[mid].memory <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->n_loads && t->loads[lo].start <= address ? &t->loads[lo] : NULL;
}

const uint8_t *mem_at(const mem_target *t, uint64_t address, size_t n)
{
    if (t->live) return NULL;
    const mem__load *l = mem__load_of(t, address);
    if (!l) return NULL;
    uint64_t at = address - l->start;
    return at < l->size && n <= l->size - at ? t->map + l->offset + at : NULL;
}

void mem_let_go(const mem_target *t)
{
    if (t->map) madvise((void *)(uintptr_t)t->map, t->size, MADV_DONTNEED);
}

static size_t fetch_of_file(int fd, uint64_t offset, void *to, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, (uint8_t *)to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}

static size_t fetch_of_process(const mem_target *t, uint64_t address, void *to, size_t n)
{
    struct iovec local = {to, n}, remote = {(void *)(uintptr_t)address, n};
    ssize_t got = t->no_readv ? -1 : process_vm_readv(mem_memory_pid(t), &local, 1, &remote, 1, 0);
    if (got == (ssize_t)n) return n;
    size_t done = got > 0 ? (size_t)got : 0;
    return done + fetch_of_file(t->image ? t->image_fd : t->mem_fd, address + done, (uint8_t *)to + done, n - done);
}

size_t mem_fetch(const mem_target *t, uint64_t address, void *to, size_t n)
{
    if (t->live) return fetch_of_process(t, address, to, n);
    const mem__load *l = mem__load_of(t, address);
    if (!l || address - l->start >= l->size) return 0;
    uint64_t at = address - l->start, have = l->size - at;
    return fetch_of_file(t->fd, l->offset + at, to, n < have ? n : (size_t)have);
}

size_t mem__core_read(mem_target *t, uint64_t address, void *to, size_t n)
{
    size_t done = 0;
    while (done < n) {
        uint64_t a = address + done, room = n - done;
        const mem__load *l = mem__load_of(t, a);
        size_t got = 0;
        if (l && a - l->start < l->size) {
            uint64_t at = a - l->start, have = l->size - at;
            got = (size_t)(have < room ? have : room);
            if (got > READ_PAST) /* a page of the map costs more than a copy of it, and stays */
                got = mem_fetch(t, a, (uint8_t *)to + done, got);
            else
                memcpy((uint8_t *)to + done, t->map + l->offset + at, got);
        } else {
            /* Up to the next piece that the core has. */
            size_t next = l ? (size_t)(l - t->loads) + 1 : 0;
            if (!l)
                for (size_t lo = 0, hi = t->n_loads; lo < hi; next = lo) {
                    size_t mid = lo + (hi - lo) / 2;
                    if (t->loads[mid].start <= a)
                        lo = mid + 1;
                    else
                        hi = mid;
                }
            if (next < t->n_loads && t->loads[next].start - a < room) room = t->loads[next].start - a;
            got = mem__file_read(t, a, (uint8_t *)to + done, (size_t)room);
        }
        if (got == 0) break;
        done += got;
    }
    return done;
}

/* ---- mappings: those of the notes, and pieces that none of them covers ---- */

static int map_order(const void *a, const void *b)
{
    const mem_mapping *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static uint32_t prot_of(uint32_t flags)
{
    return (flags & PF_R ? MEM_READ : 0u) | (flags & PF_W ? MEM_WRITE : 0u) | (flags & PF_X ? MEM_EXEC : 0u);
}

/* The bytes from a's start on that the core has in one go. */
static uint64_t held_of(const mem_target *t, uint64_t start, uint64_t end)
{
    uint64_t at = start;
    while (at < end) {
        const mem__load *l = mem__load_of(t, at);
        if (!l || at - l->start >= l->size) break;
        at = l->start + l->size;
    }
    return (at < end ? at : end) - start;
}

static int join_maps(mem_target *t, uint64_t vdso, err *e)
{
    mem_mapping *all = arena_alloc(&t->maps_arena, (t->n_maps + t->n_loads + 1) * sizeof *all);
    if (!all) return err_set(e, ERR_NO_MEMORY, "no memory for mappings");
    size_t n = 0, at = 0;
    if (t->n_maps > 0) qsort(t->maps, t->n_maps, sizeof *t->maps, map_order);
    for (size_t i = 0; i < t->n_loads; i++) { /* pieces in order: before, inside and after those of the notes */
        const mem__load *l = &t->loads[i];
        while (at < t->n_maps && t->maps[at].end <= l->start)
            at++;
        uint64_t from = l->start, end = l->start + l->memory;
        for (size_t k = at; from < end; k++) {
            bool more = k < t->n_maps && t->maps[k].start < end;
            uint64_t until = more ? t->maps[k].start : end;
            if (from < until && n < t->n_maps + t->n_loads)
                all[n++] = (mem_mapping){
                    .start = from, .end = until, .prot = prot_of(l->flags), .path = from == vdso ? "[vdso]" : ""};
            if (!more) break;
            if (t->maps[k].end > from) from = t->maps[k].end;
        }
    }
    /* The protection of a file's mapping is that of the piece where it begins. */
    for (size_t i = 0; i < t->n_maps && n < t->n_maps + t->n_loads; i++) {
        const mem__load *l = mem__load_of(t, t->maps[i].start);
        t->maps[i].prot = l ? prot_of(l->flags) : MEM_PROT_UNKNOWN;
        all[n++] = t->maps[i];
    }
    if (n > 0) qsort(all, n, sizeof *all, map_order);
    for (size_t i = 0; i < n; i++)
        all[i].held = held_of(t, all[i].start, all[i].end);
    t->maps = all;
    t->n_maps = n;
    return 0;
}

/* ---- opening ---- */

static void note_completeness(mem_target *t, const ranges *r)
{
    uint8_t mark[16];
    const uint8_t *p = mem_at(t, CREATEDUMP_MARK_AT, sizeof mark);
    uint64_t missing = 0, all = 0;
    for (size_t i = 0; i < t->n_loads; i++) {
        all += t->loads[i].memory;
        missing += t->loads[i].memory - t->loads[i].size;
    }
    if (r->lost > 0)
        mem__note(t, "the core is cut short: %llu bytes that it should have lie beyond its end",
                  (unsigned long long)r->lost);
    if (!p && r->lost > 0) return; /* what was lost may have been the mark */
    if (!p || memcmp(p, CREATEDUMP_MARK, sizeof CREATEDUMP_MARK - 1) != 0) {
        mem__note(t,
                  "the core was not written by createdump: what .NET needs of it may be missing (coredump_filter 0x3f "
                  "or more keeps it)");
        if (missing > 0)
            mem__note(t, "of %llu MiB of memory the core leaves out %llu MiB", (unsigned long long)(all >> 20),
                      (unsigned long long)(missing >> 20));
    }
}

static int map_file(mem_target *t, err *e)
{
    struct stat st;
    if (fstat(t->fd, &st) != 0) return err_sys(e, ERR_IO, errno, "cannot look at %s", t->name);
    if (!S_ISREG(st.st_mode)) return err_set(e, ERR_INVALID_ARGUMENT, "%s is no regular file", t->name);
    if (st.st_size < (off_t)sizeof(Elf64_Ehdr))
        return err_at(e, ERR_TRUNCATED, st.st_size, "%s is too short for an ELF file", t->name);
    t->size = (size_t)st.st_size;
    t->mtime_ns = st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    void *p = mmap(NULL, t->size, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, t->fd, 0);
    if (p == MAP_FAILED) return err_sys(e, ERR_IO, errno, "cannot map %s", t->name);
    t->map = p;
    return 0;
}

int mem_open_core_fd(int fd, const char *name, const char *files_root, mem_target **out, err *e)
{
    ranges r = {0};
    uint64_t vdso = 0;
    mem_target *t = mem__new(e);
    if (!t) {
        close(fd);
        return -ERR_NO_MEMORY;
    }
    t->fd = fd;
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->files_root, sizeof t->files_root, "%s", files_root ? files_root : "");
    int rc = map_file(t, e);
    if (rc >= 0) rc = read_pieces(t, &r, e);
    if (rc >= 0) rc = mem__core_notes(t, r.notes_at, r.notes_size, &vdso, e);
    if (rc >= 0) rc = join_maps(t, vdso, e);
    if (rc >= 0) rc = mem__show_threads(t, e);
    if (rc >= 0) {
        t->files = mem_calloc(t->n_maps + 1, sizeof *t->files);
        if (!t->files) rc = err_set(e, ERR_NO_MEMORY, "no memory for the files of a core");
    }
    if (rc < 0) {
        mem_close(t);
        return rc;
    }
    note_completeness(t, &r);
    *out = t;
    return 0;
}

int mem_open_core(const char *path, const char *files_root, mem_target **out, err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        err_kind kind = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND
                        : errno == EACCES                   ? ERR_PERMISSION_DENIED
                                                            : ERR_IO;
        return err_sys(e, kind, errno, "cannot open the core %s", path);
    }
    return mem_open_core_fd(fd, path, files_root, out, e);
}
