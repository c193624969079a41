/* SPDX-License-Identifier: MIT */
/* uprobe_find.c: which library of a process has a function, and where. A container has files of its own: they are
 * opened below /proc/PID/root, or, where the file there is another one by now, by the map itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "kernel/kn_internal.h"
#include "kernel/uprobe.h"
#include "symbols/elf.h"

#define MAPS_MAX ((size_t)16 << 20)

typedef struct library {
    char path[UP_PATH_MAX]; /* as we open it */
    char name[128];
    uint64_t start, file_offset; /* of its executable map */
    bool c_library;
} library;

typedef struct search {
    int pid;
    library *libraries;
    uint32_t n;
} search;

static slice base_name(slice path)
{
    size_t i = path.n;
    while (i && path.p[i - 1] != '/')
        i--;
    return slice_of(path.p + i, path.n - i);
}

static bool is_c_library(slice name)
{
    return slice_starts(name, SLICE_LIT("libc.so")) || slice_starts(name, SLICE_LIT("libc-2.")) ||
           slice_starts(name, SLICE_LIT("ld-musl")) || slice_starts(name, SLICE_LIT("libc.musl"));
}

/* Allocators that are put before the C library's. */
static bool is_allocator(slice name)
{
    return kn__has(name, "jemalloc") || kn__has(name, "tcmalloc") || kn__has(name, "mimalloc") ||
           kn__has(name, "snmalloc") || kn__has(name, "hoard") || kn__has(name, "scudo");
}

/* "START-END PERMS OFFSET MAJOR:MINOR INODE PATH" of the process's maps. */
static void take_map(void *arg, slice line)
{
    search *s = arg;
    uint64_t start, end, offset, inode;
    slice range = kn__word(&line), perms = kn__word(&line), at = kn__word(&line);
    (void)kn__word(&line); /* the device */
    slice ino = kn__word(&line), path = kn__trim(line);
    const uint8_t *dash = memchr(range.p, '-', range.n);
    if (!dash || !kn__hex(slice_of(range.p, (size_t)(dash - range.p)), &start) || !kn__hex(at, &offset)) return;
    if (!kn__hex(slice_of(dash + 1, range.n - (size_t)(dash + 1 - range.p)), &end) || !kn__u64(ino, &inode)) return;
    if (path.n == 0 || path.p[0] != '/' || !kn__has(perms, "x") || s->n == UP_LIBRARIES_MAX) return;
    slice name = base_name(path);
    if (!is_c_library(name) && !is_allocator(name)) return;
    library *l = &s->libraries[s->n];
    struct stat st;
    int n = snprintf(l->path, sizeof l->path, "/proc/%d/root%.*s", s->pid, (int)path.n, (const char *)path.p);
    bool same = n > 0 && (size_t)n < sizeof l->path && stat(l->path, &st) == 0 && st.st_ino == inode;
    if (!same)
        snprintf(l->path, sizeof l->path, "/proc/%d/map_files/%llx-%llx", s->pid, (unsigned long long)start,
                 (unsigned long long)end);
    (void)kn__copy(name, l->name, sizeof l->name);
    l->start = start;
    l->file_offset = offset;
    l->c_library = is_c_library(name);
    s->n++;
}

/* What a library has of the names, into out. */
static uint32_t look_in(const library *l, const char *const *names, uint32_t n, up_place *out)
{
    uint64_t offsets[UP_PLACES_MAX];
    sym_elf *elf;
    err ignored = {0};
    uint32_t found = 0;
    if (sym_elf_open(l->path, NULL, &elf, &ignored) < 0) return 0;
    sym_elf_named(elf, names, n, offsets);
    sym_elf_close(elf);
    for (uint32_t i = 0; i < n; i++) {
        bool known = offsets[i] == 0;
        for (uint32_t k = 0; k < found; k++)
            known |= out[k].offset == offsets[i];
        if (known) continue;
        up_place *p = &out[found++];
        *p = (up_place){.function = i, .offset = offsets[i], .address = offsets[i] - l->file_offset + l->start};
        memcpy(p->path, l->path, sizeof p->path);
        memcpy(p->library, l->name, sizeof p->library);
    }
    return found;
}

int up_find(int pid, const char *const *names, uint32_t n, up_place *out, uint32_t *found, err *e)
{
    char rel[48];
    search s = {.pid = pid, .libraries = mem_calloc(UP_LIBRARIES_MAX, sizeof(library))};
    if (!s.libraries) return err_set(e, ERR_NO_MEMORY, "no memory for the libraries of process %d", pid);
    BUG_IF(n > UP_PLACES_MAX, e);
    snprintf(rel, sizeof rel, "/proc/%d/maps", pid);
    int rc = kn__each_line("", rel, MAPS_MAX, take_map, &s, e);
    *found = 0;
    for (int c_library = 0; rc >= 0 && c_library < 2 && !*found; c_library++)
        for (uint32_t i = 0; i < s.n && !*found; i++)
            if (s.libraries[i].c_library == (c_library == 1)) *found = look_in(&s.libraries[i], names, n, out);
    free(s.libraries);
    if (rc < 0) return kn__pid_error("", pid, rc, e);
    if (*found) return 0;
    (void)err_set(e, ERR_NOT_SUPPORTED, "process %d has no C library in which %s could be found", pid,
                  n ? names[0] : "it");
    err_hint(e, "a program that is linked statically has no functions to put probes on by name");
    return -ERR_NOT_SUPPORTED;
}
