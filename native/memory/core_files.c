/* SPDX-License-Identifier: MIT */
/* core_files.c: pages that a core leaves out because a file has them: read-only parts of ELF modules, when the file has
 * the build id that the core remembers; of other files (managed assemblies) when they are older than the core. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/memory_internal.h"

typedef struct image {
    mem_target *t;
    uint64_t base;
    const mem__file *f;
} image;

/* Of the core alone. */
static bool get_core(void *arg, uint64_t offset, void *to, size_t n)
{
    image *i = arg;
    const uint8_t *p = mem_at(i->t, i->base + offset, n);
    if (p) memcpy(to, p, n);
    return p != NULL;
}

static bool get_file(void *arg, uint64_t offset, void *to, size_t n)
{
    image *i = arg;
    if (offset > i->f->n || n > i->f->n - offset) return false;
    memcpy(to, i->f->p + offset, n);
    return true;
}

/* The first mapping of a path: where the file's beginning is, and where the record of the file is kept. */
static size_t first_of(const mem_target *t, const mem_mapping *m)
{
    size_t first = (size_t)(m - t->maps);
    for (size_t i = first; i-- > 0;)
        if (t->maps[i].path == m->path || strcmp(t->maps[i].path, m->path) == 0) first = i;
    return first;
}

/* The image of an address is the nearest one below of the same path that begins at the file's beginning. */
static uint64_t base_of(const mem_target *t, const mem_mapping *m)
{
    for (size_t i = (size_t)(m - t->maps) + 1; i-- > 0;)
        if (t->maps[i].offset == 0 && strcmp(t->maps[i].path, m->path) == 0) return t->maps[i].start;
    return 0;
}

static bool is_elf(const mem__file *f) { return f->n > SELFMAG && memcmp(f->p, ELFMAG, SELFMAG) == 0; }

/* 1: the same file; 0: another one; -1: the core does not tell. */
static int same_build(mem_target *t, const mem__file *f, uint64_t base)
{
    uint8_t ours[MEM_BUILD_ID_MAX], theirs[MEM_BUILD_ID_MAX];
    image core = {t, base, f}, file = {t, base, f};
    mem__elf *m = mem_alloc(sizeof *m);
    int same = -1;
    if (!m) return -1;
    size_t n_ours = mem__elf_read(m, 0, get_file, &file) ? mem__build_id(m, false, get_file, &file, ours) : 0;
    if (mem__elf_read(m, base, get_core, &core)) {
        size_t n_theirs = mem__build_id(m, true, get_core, &core, theirs);
        if (n_theirs > 0) same = n_theirs == n_ours && memcmp(ours, theirs, n_ours) == 0;
    }
    free(m);
    return same;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void consider(mem_target *t, const mem_mapping *m, mem__file *f, const struct stat *st)
{
    int same = is_elf(f) ? same_build(t, f, base_of(t, m)) : -1;
    bool older = st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec <= t->mtime_ns;
    if (same == 1) return;
    if (same < 0 && older) {
        mem__note(t,
                  "pages of files that the core leaves out and does not identify (%s, …) were taken from disk, since "
                  "these are "
                  "older than the core",
                  "such as managed assemblies");
        return;
    }
    mem__note(t, "%s on this machine is another one than the core's: its pages are missing", base_name(m->path));
    munmap((void *)(uintptr_t)f->p, f->n);
    f->p = NULL;
}

static void open_file(mem_target *t, const mem_mapping *m, mem__file *f)
{
    char path[1024];
    struct stat st;
    f->tried = true;
    if (m->path[0] != '/' || m->deleted || t->files_open == MEM_FILES_OPEN ||
        !mem_file_path(t, m->path, path, sizeof path))
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) {
            f->p = p;
            f->n = (size_t)st.st_size;
            consider(t, m, f, &st);
            if (f->p) t->files_open++;
        }
    }
    close(fd);
}

/* Whether the file's bytes at this offset are those of memory: nobody wrote them. */
static bool unwritten(const mem_target *t, const mem_mapping *m, const mem__file *f, uint64_t offset)
{
    const mem__load *l = mem__load_of(t, m->start);
    if (l && l->flags & PF_W) return false;
    if (!is_elf(f)) return true;
    Elf64_Ehdr h;
    memcpy(&h, f->p, sizeof h);
    for (uint32_t i = 0; i < h.e_phnum && i < MEM_ELF_PHDRS; i++) {
        Elf64_Phdr p;
        uint64_t at = h.e_phoff + i * sizeof p;
        if (at > f->n || sizeof p > f->n - at) return false;
        memcpy(&p, f->p + at, sizeof p);
        if (p.p_type == PT_LOAD && offset >= p.p_offset && offset - p.p_offset < p.p_filesz) return !(p.p_flags & PF_W);
    }
    return false;
}

size_t mem__file_read(mem_target *t, uint64_t address, void *to, size_t n)
{
    const mem_mapping *m = t->files ? mem_mapping_of(t, address) : NULL;
    if (!m || m->path[0] != '/') return 0;
    mem__file *f = &t->files[first_of(t, m)];
    if (!f->tried) open_file(t, m, f);
    uint64_t offset = m->offset + (address - m->start), room = m->end - address;
    if (!f->p || f->n < sizeof(Elf64_Ehdr) || offset >= f->n || !unwritten(t, m, f, offset)) return 0;
    if (room > f->n - offset) room = f->n - offset;
    if (room > n) room = n;
    memcpy(to, f->p + offset, (size_t)room);
    return (size_t)room;
}

void mem__files_close(mem_target *t)
{
    for (size_t i = 0; t->files && i < t->n_maps; i++)
        if (t->files[i].p) munmap((void *)(uintptr_t)t->files[i].p, t->files[i].n);
}
