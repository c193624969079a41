/* SPDX-License-Identifier: MIT */
/* target.c: what a live target and a core have in common. */
#include "memory/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory_internal.h"

mem_target *mem__new(err *e)
{
    mem_target *t = mem_calloc(1, sizeof *t);
    if (!t) {
        (void)err_set(e, ERR_NO_MEMORY, "no memory for a target");
        return NULL;
    }
    t->pidfd = t->mem_fd = t->fd = t->image_fd = -1;
    return t;
}

void mem__note(mem_target *t, const char *fmt, ...)
{
    if (t->n_notes == MEM_NOTES_MAX) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->notes[t->n_notes], MEM_NOTE_LEN, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < t->n_notes; i++)
        if (strcmp(t->notes[i], t->notes[t->n_notes]) == 0) return;
    t->n_notes++;
}

const char *mem_note(const mem_target *t, size_t i) { return i < t->n_notes ? t->notes[i] : NULL; }

void mem_close(mem_target *t)
{
    if (!t) return;
    mem_resume(t);
    mem__fork_free(t);
    if (t->live) mem__live_close(t);
    mem__files_close(t);
    if (t->map) munmap((void *)(uintptr_t)t->map, t->size);
    if (t->fd >= 0) close(t->fd);
    free(t->loads);
    free(t->files);
    free(t->tasks);
    free(t->threads);
    arena_free(&t->maps_arena);
    arena_free(&t->modules_arena);
    free(t);
}

bool mem_is_live(const mem_target *t) { return t->live; }
pid_t mem_pid(const mem_target *t) { return t->pid; }
pid_t mem_memory_pid(const mem_target *t) { return t->image ? t->image : t->pid; }
bool mem_stopped(const mem_target *t) { return t->stopped || t->image; }

int64_t mem_stop_ns(const mem_target *t) { return t->stop_ns + (t->stop_began ? mono_ns() - t->stop_began : 0); }

/* ---- memory ---- */

size_t mem_read(mem_target *t, uint64_t address, void *to, size_t n)
{
    if (n == 0 || address + n < address) return 0;
    return t->live ? mem__live_read(t, address, to, n) : mem__core_read(t, address, to, n);
}

const mem_mapping *mem_mappings(const mem_target *t, size_t *n)
{
    *n = t->n_maps;
    return t->maps;
}

const mem_mapping *mem_mapping_of(const mem_target *t, uint64_t address)
{
    size_t lo = 0, hi = t->n_maps;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->maps[mid].end <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->n_maps && t->maps[lo].start <= address ? &t->maps[lo] : NULL;
}

bool mem_file_path(const mem_target *t, const char *path, char *out, size_t size)
{
    int n = t->live ? snprintf(out, size, "/proc/%d/root%s", (int)t->pid, path)
                    : snprintf(out, size, "%s%s", t->files_root, path);
    return n > 0 && (size_t)n < size;
}

/* ---- the text of /proc/PID/maps ---- */

static bool hex(slice *s, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    for (; i < s->n && i < 16; i++) {
        uint8_t c = s->p[i];
        unsigned d = c >= '0' && c <= '9' ? c - (unsigned)'0' : c >= 'a' && c <= 'f' ? c - (unsigned)'a' + 10u : 16u;
        if (d > 15) break;
        v = v << 4 | d;
    }
    *s = slice_of(s->p + i, s->n - i);
    *out = v;
    return i > 0;
}

static bool eat(slice *s, char c)
{
    if (s->n == 0 || s->p[0] != (uint8_t)c) return false;
    *s = slice_of(s->p + 1, s->n - 1);
    return true;
}

/* "START-END rwxp OFFSET DEV INODE   PATH" */
static bool parse_line(slice line, mem_mapping *m, slice *path)
{
    *m = (mem_mapping){0};
    if (!hex(&line, &m->start) || !eat(&line, '-') || !hex(&line, &m->end) || !eat(&line, ' ') || line.n < 5)
        return false;
    if (line.p[0] == 'r') m->prot |= MEM_READ;
    if (line.p[1] == 'w') m->prot |= MEM_WRITE;
    if (line.p[2] == 'x') m->prot |= MEM_EXEC;
    if (line.p[3] == 's') m->prot |= MEM_SHARED;
    line = slice_of(line.p + 5, line.n - 5);
    if (!hex(&line, &m->offset)) return false;
    for (int word = 0; word < 2; word++) { /* device and inode */
        while (eat(&line, ' '))
            ;
        while (line.n > 0 && line.p[0] != ' ')
            line = slice_of(line.p + 1, line.n - 1);
    }
    while (eat(&line, ' '))
        ;
    *path = line;
    m->held = m->end - m->start;
    return m->end > m->start;
}

int mem__parse_maps(slice text, arena *a, mem_mapping **out, size_t *n, err *e)
{
    size_t lines = 0, done = 0;
    for (size_t i = 0; i < text.n; i++)
        lines += text.p[i] == '\n';
    if (lines > MEM_MAPPINGS_MAX) lines = MEM_MAPPINGS_MAX;
    mem_mapping *maps = arena_alloc(a, (lines + 1) * sizeof *maps);
    if (!maps) return err_set(e, ERR_NO_MEMORY, "no memory for %zu mappings", lines);
    const char *last = "";
    while (text.n > 0 && done < lines) {
        const uint8_t *end = memchr(text.p, '\n', text.n);
        size_t len = end ? (size_t)(end - text.p) : text.n;
        slice path, line = slice_of(text.p, len);
        text = slice_of(text.p + len + (end ? 1 : 0), text.n - len - (end ? 1 : 0));
        mem_mapping *m = &maps[done];
        if (!parse_line(line, m, &path)) continue;
        if (slice_ends(path, SLICE_LIT(" (deleted)"))) {
            m->deleted = true;
            path.n -= sizeof " (deleted)" - 1;
        }
        if (!slice_eq_str(path, last)) last = path.n ? arena_str(a, path) : "";
        if (!last) return err_set(e, ERR_NO_MEMORY, "no memory for the paths of mappings");
        m->path = last;
        done++;
    }
    *out = maps;
    *n = done;
    return 0;
}

int mem__slurp(const char *path, size_t max, buf *out, err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    if (fd < 0) {
        err_kind kind = errno == ENOENT || errno == ESRCH   ? ERR_NOT_FOUND
                        : errno == EACCES || errno == EPERM ? ERR_PERMISSION_DENIED
                                                            : ERR_IO;
        return err_sys(e, kind, errno, "cannot open %s", path);
    }
    while (out->n < max) {
        uint8_t *p = buf_reserve(out, 65536);
        if (!p) {
            rc = err_set(e, ERR_NO_MEMORY, "no memory for %s", path);
            break;
        }
        ssize_t n = read(fd, p, 65536);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) rc = err_sys(e, errno == ESRCH ? ERR_NOT_FOUND : ERR_IO, errno, "cannot read %s", path);
        if (n <= 0) break;
        out->n += (size_t)n;
    }
    close(fd);
    return rc;
}
