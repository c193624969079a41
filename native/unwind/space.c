/* SPDX-License-Identifier: MIT */
/* space.c: which file lies where in an address space. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include "unwind/uw_space.h"

enum { LINE_MAX_BYTES = 8192, FILES_MAX = 65536 };

static bool read_self(void *arg, uint64_t address, void *out, size_t n)
{
    (void)arg;
    memcpy(out, (const void *)(uintptr_t)address, n); /* the vDSO only, whose size its segments tell */
    return true;
}

bool uw_read_process(void *arg, uint64_t address, void *out, size_t n)
{
    struct iovec mine = {out, n}, its = {(void *)(uintptr_t)address, n};
    return process_vm_readv((pid_t)(intptr_t)arg, &mine, 1, &its, 1, 0) == (ssize_t)n;
}

/* ---- code, page by page ------------------------------------------------------------------------------------------ */

/* Code of a live process is asked for again and again: pages are kept. */
static bool read_code(void *arg, uint64_t address, void *out, size_t n)
{
    uw_space *s = arg;
    for (size_t done = 0; done < n;) {
        uint64_t page = (address + done) / UW__PAGE, from = (address + done) % UW__PAGE;
        uw__page *p = &s->pages[page % UW__PAGES];
        if (p->number != page + 1) {
            p->number = 0;
            if (!s->memory.read || !s->memory.read(s->memory.arg, page * UW__PAGE, p->bytes, UW__PAGE)) return false;
            p->number = page + 1;
        }
        size_t k = UW__PAGE - from < n - done ? UW__PAGE - from : n - done;
        memcpy((uint8_t *)out + done, p->bytes + from, k);
        done += k;
    }
    return true;
}

uw_space *uw_space_new(const uw_memory *memory)
{
    uw_space *s = mem_calloc(1, sizeof *s);
    if (!s) return NULL;
    if (memory) s->memory = *memory;
    if (s->memory.read) s->pages = mem_calloc(UW__PAGES, sizeof *s->pages);
    if (s->memory.read && !s->pages) {
        free(s);
        return NULL;
    }
    s->code = s->memory.read ? (uw_memory){read_code, s} : (uw_memory){0};
    return s;
}

void uw_space_free(uw_space *s)
{
    if (!s) return;
    for (uint32_t i = 0; i < s->n_files; i++) {
        uw__image_give(s->files[i].image);
        free(s->files[i].path);
        free(s->files[i].open);
    }
    free(s->files);
    free(s->maps);
    free(s->pages);
    free(s->methods);
    free(s->patches);
    map64_fini(&s->by_name);
    free(s);
}

void uw_space_code(uw_space *s, uw_code_fn fn, void *arg)
{
    s->code_fn = fn;
    s->code_arg = arg;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool is_file(slice path)
{
    return path.n > 1 && path.p[0] == '/' && path.p[1] != '/' && !slice_starts(path, SLICE_LIT("/memfd:"));
}

/* The number of a file; UINT32_MAX: none, or no room. */
static uint32_t file_of(uw_space *s, const uw_map *m)
{
    bool vdso = slice_eq_str(m->path, "[vdso]");
    if (!is_file(m->path) && !vdso) return UINT32_MAX;
    uint64_t key = hash_bytes(m->path, 0), at;
    if (map64_get(&s->by_name, key, &at) && slice_eq_str(m->path, s->files[at].path)) return (uint32_t)at;
    if (s->n_files == FILES_MAX) return UINT32_MAX;
    if (s->n_files == s->cap_files) {
        uint32_t to = s->cap_files ? 2 * s->cap_files : 64;
        uw__file *grown = mem_realloc(s->files, to * sizeof *grown);
        if (!grown) return UINT32_MAX;
        s->files = grown;
        s->cap_files = to;
    }
    uw__file f = {.path = slice_dup(m->path), .vdso = vdso, .base = m->start - m->file_offset};
    f.open = m->open ? slice_dup(slice_str(m->open)) : NULL;
    if (!f.path || (m->open && !f.open) || !map64_put(&s->by_name, key, s->n_files)) {
        free(f.path);
        free(f.open);
        return UINT32_MAX;
    }
    s->files[s->n_files] = f;
    return s->n_files++;
}

/* The image of a file, read when it is first needed. NULL: it has none. */
uw__image *uw__space_image(uw_space *s, uint32_t file)
{
    uw__file *f = &s->files[file];
    err ignored = {0};
    if (f->looked) return f->image;
    f->looked = true;
    if (!f->vdso) f->image = uw__image_take(f->open ? f->open : f->path, &ignored);
    if (!f->image && s->memory.read) { /* the vDSO; a file that is gone: as far as it is loaded */
        uw__source src = {.fd = -1, .memory = &s->memory, .base = f->base};
        err_clear(&ignored);
        f->image = uw__image_read(&src, &ignored);
    }
    if (!f->image && f->vdso) { /* ours is the same */
        uw_memory own = {read_self, NULL};
        uw__source src = {.fd = -1, .memory = &own, .base = getauxval(AT_SYSINFO_EHDR)};
        if (src.base) f->image = uw__image_read(&src, &ignored);
    }
    s->stats.images += f->image != NULL;
    s->stats.images_bad += f->image == NULL;
    return f->image;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* The first map that ends behind an address. */
static uint32_t first_behind(const uw_space *s, uint64_t address)
{
    uint32_t low = 0, high = s->n_maps;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (s->maps[mid].end <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool insert(uw_space *s, uint32_t at, const uw__map *m)
{
    if (s->n_maps == UW_MAPS_MAX) return false;
    if (s->n_maps == s->cap_maps) {
        uint32_t to = s->cap_maps ? 2 * s->cap_maps : 256;
        uw__map *grown = mem_realloc(s->maps, to * sizeof *grown);
        if (!grown) return false;
        s->maps = grown;
        s->cap_maps = to;
    }
    memmove(&s->maps[at + 1], &s->maps[at], (s->n_maps - at) * sizeof *s->maps);
    s->maps[at] = *m;
    s->n_maps++;
    return true;
}

/* Makes room: what lies in the range goes, also parts. False: no memory for a second part. */
static bool cut(uw_space *s, uint64_t start, uint64_t end)
{
    uint32_t i = first_behind(s, start), gone = 0;
    s->last = 0;
    if (i < s->n_maps && s->maps[i].start < start) {
        uw__map *m = &s->maps[i], rest = *m;
        m->end = start;
        if (rest.end > end) {
            rest.file_offset += end - rest.start;
            rest.start = end;
            return insert(s, i + 1, &rest);
        }
        i++;
    }
    while (i + gone < s->n_maps && s->maps[i + gone].end <= end)
        gone++;
    if (i + gone < s->n_maps && s->maps[i + gone].start < end) {
        s->maps[i + gone].file_offset += end - s->maps[i + gone].start;
        s->maps[i + gone].start = end;
    }
    if (gone) memmove(&s->maps[i], &s->maps[i + gone], (s->n_maps - i - gone) * sizeof *s->maps);
    s->n_maps -= gone;
    return true;
}

void uw_space_unmap(uw_space *s, uint64_t start, uint64_t end)
{
    if (start < end) (void)cut(s, start, end);
}

bool uw_space_map(uw_space *s, const uw_map *m)
{
    if (m->start >= m->end) return true;
    if (!cut(s, m->start, m->end)) return false;
    uw__map x = {.start = m->start,
                 .end = m->end,
                 .file_offset = m->file_offset,
                 .executable = m->executable,
                 .file = file_of(s, m)};
    memset(s->recent, 0, sizeof s->recent);
    for (uint32_t i = 0; s->pages && i < UW__PAGES; i++) /* what was read there is gone */
        if (s->pages[i].number > m->start / UW__PAGE && s->pages[i].number <= (m->end - 1) / UW__PAGE + 1)
            s->pages[i].number = 0;
    return insert(s, first_behind(s, m->start), &x);
}

const uw__map *uw__space_at(uw_space *s, uint64_t address)
{
    if (s->last < s->n_maps && address >= s->maps[s->last].start && address < s->maps[s->last].end)
        return &s->maps[s->last];
    uint32_t i = first_behind(s, address);
    if (i == s->n_maps || address < s->maps[i].start) return NULL;
    s->last = i;
    return &s->maps[i];
}

bool uw_space_find(uw_space *s, uint64_t address, uw_module *out)
{
    const uw__map *m = uw__space_at(s, address);
    if (!m) return false;
    *out = (uw_module){
        .start = m->start, .end = m->end, .file_offset = m->file_offset, .executable = m->executable, .index = m->file};
    if (m->file == UINT32_MAX) return true;
    const uw__file *f = &s->files[m->file];
    out->path = slice_str(f->path);
    out->open = f->open ? f->open : f->path;
    out->is_file = !f->vdso;
    if (f->image) out->build_id = slice_of(f->image->build_id, f->image->build_id_n);
    return true;
}

/* A hexadecimal number, and the sign behind it. */
static bool read_hex(char **p, char behind, uint64_t *out)
{
    char *end;
    *out = strtoull(*p, &end, 16);
    if (end == *p || *end != behind) return false;
    *p = end + 1;
    return true;
}

static char *next_word(char *p)
{
    p += strcspn(p, " \n");
    return p + strspn(p, " ");
}

/* A line of /proc/PID/maps: "start-end perms offset major:minor inode path". */
static bool load_line(uw_space *s, int pid, char *line)
{
    uint64_t start, end, offset;
    char *p = line;
    if (!read_hex(&p, '-', &start) || !read_hex(&p, ' ', &end)) return true;
    const char *perms = p;
    p = next_word(p);
    if (p - perms < 5 || !read_hex(&p, ' ', &offset)) return true;
    bool executable = perms[2] == 'x';
    char *path = next_word(next_word(p)), open[LINE_MAX_BYTES];
    path[strcspn(path, "\n")] = 0;
    uw_map m = {.start = start, .end = end, .file_offset = offset, .executable = executable, .path = slice_str(path)};
    if (executable && is_file(m.path)) {
        /* A file that was deleted, or whose path is told from outside of a chroot, is reached by its map, if we may. */
        snprintf(open, sizeof open, "/proc/%d/root%s", pid, path);
        if (access(open, F_OK) != 0)
            snprintf(open, sizeof open, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, start, end);
        m.open = open;
    }
    return !executable || uw_space_map(s, &m);
}

int uw_space_load(uw_space *s, int pid, err *e)
{
    char name[64], line[LINE_MAX_BYTES];
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *f = fopen(name, "re");
    if (!f) {
        int sys = errno;
        return err_sys(e, sys == ENOENT ? ERR_PROCESS_NOT_FOUND : ERR_PERMISSION_DENIED, sys,
                       "cannot read the maps of process %d", pid);
    }
    bool ok = true;
    while (ok && fgets(line, sizeof line, f))
        ok = load_line(s, pid, line);
    fclose(f);
    return ok ? 0 : err_set(e, ERR_LIMIT, "process %d has more maps than can be kept", pid);
}
