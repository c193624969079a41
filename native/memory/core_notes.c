/* SPDX-License-Identifier: MIT */
/* core_notes.c: what the notes of a core tell: threads and their registers, mapped files, the process's number.
 * Layouts: <sys/procfs.h> of glibc, x86-64. createdump fills the note's name beyond its NUL: only "CORE" counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

#include "memory/memory_internal.h"

#define AUXV_MAX 256

typedef struct notes {
    mem_target *t;
    uint64_t vdso;
    size_t cap;  /* of tasks */
    pid_t group; /* pr_pgrp of the first thread */
    bool has_psinfo;
    slice files;
} notes;

static int take_status(notes *n, slice d, uint64_t at, err *e)
{
    mem_target *t = n->t;
    struct elf_prstatus s;
    if (d.n < sizeof s) return err_at(e, ERR_MALFORMED, (int64_t)at, "%s: a thread's note has %zu bytes", t->name, d.n);
    memcpy(&s, d.p, sizeof s);
    if (t->n_tasks == MEM_THREADS_MAX) {
        mem__note(t, "the core has over %u threads; the rest is left out", MEM_THREADS_MAX);
        return 0;
    }
    if (t->n_tasks == n->cap) {
        size_t cap = n->cap ? 2 * n->cap : 64;
        mem__task *p = mem_realloc(t->tasks, cap * sizeof *p);
        if (!p) return err_set(e, ERR_NO_MEMORY, "no memory for threads");
        t->tasks = p;
        n->cap = t->cap_tasks = cap;
    }
    if (t->n_tasks == 0) n->group = s.pr_pgrp;
    t->tasks[t->n_tasks++] =
        (mem__task){.t = {.tid = s.pr_pid, .ns_tid = s.pr_pid, .stopped = true, .signal = s.pr_cursig},
                    .regs = at + offsetof(struct elf_prstatus, pr_reg)};
    return 0;
}

static void take_psinfo(notes *n, slice d)
{
    struct elf_prpsinfo p;
    if (d.n < sizeof p) return;
    memcpy(&p, d.p, sizeof p);
    n->has_psinfo = true;
    n->t->pid = p.pr_pid;
}

static void take_auxv(notes *n, slice d)
{
    cursor c = cursor_of(d, 0);
    for (int i = 0; i < AUXV_MAX && cursor_left(&c) >= 16; i++) {
        uint64_t type = cursor_u64(&c), value = cursor_u64(&c);
        if (type == AT_NULL) break;
        if (type == AT_SYSINFO_EHDR) n->vdso = value;
    }
}

static int take_note(notes *n, uint32_t type, slice d, uint64_t at, err *e)
{
    mem_target *t = n->t;
    switch (type) {
    case NT_PRSTATUS: return take_status(n, d, at, e);
    case NT_FPREGSET:
        if (t->n_tasks > 0 && d.n >= sizeof(struct user_fpregs_struct)) t->tasks[t->n_tasks - 1].fpregs = at;
        return 0;
    case NT_PRPSINFO: take_psinfo(n, d); return 0;
    case NT_AUXV: take_auxv(n, d); return 0;
    case NT_FILE: n->files = d; return 0;
    default: return 0;
    }
}

/* count, page size, count × {start, end, offset in pages}, count × NUL-terminated path */
static int take_files(notes *n, err *e)
{
    mem_target *t = n->t;
    cursor c = cursor_of(n->files, 0);
    uint64_t count = cursor_u64(&c), page = cursor_u64(&c);
    if (n->files.n == 0) return 0;
    if (!cursor_ok(&c) || count > MEM_MAPPINGS_MAX || count * 24 > cursor_left(&c) || page == 0)
        return err_set(e, ERR_MALFORMED, "%s: the list of mapped files is damaged", t->name);
    cursor names = c;
    cursor_skip(&names, (size_t)count * 24);
    t->maps = arena_alloc(&t->maps_arena, ((size_t)count + 1) * sizeof *t->maps);
    if (!t->maps) return err_set(e, ERR_NO_MEMORY, "no memory for mappings");
    const char *last = "";
    for (uint64_t i = 0; i < count; i++) {
        mem_mapping m = {.start = cursor_u64(&c), .end = cursor_u64(&c), .offset = cursor_u64(&c)};
        if (__builtin_mul_overflow(m.offset, page, &m.offset)) m.offset = 0;
        size_t left = cursor_left(&names);
        const uint8_t *nul = left ? memchr(names.p, 0, left) : NULL;
        if (!nul) break;
        slice path = cursor_bytes(&names, (size_t)(nul - names.p));
        cursor_skip(&names, 1);
        if (m.end <= m.start) continue;
        m.deleted = slice_ends(path, SLICE_LIT(" (deleted)"));
        if (m.deleted) path.n -= sizeof " (deleted)" - 1;
        if (!slice_eq_str(path, last)) last = arena_str(&t->maps_arena, path);
        if (!last) return err_set(e, ERR_NO_MEMORY, "no memory for the paths of mappings");
        m.path = last;
        t->maps[t->n_maps++] = m;
    }
    return 0;
}

static int by_tid(const void *a, const void *b)
{
    const mem__task *x = a, *y = b;
    return x->t.tid < y->t.tid ? -1 : x->t.tid > y->t.tid;
}

static void drop_doubles(mem_target *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->n_tasks; i++)
        if (kept == 0 || t->tasks[kept - 1].t.tid != t->tasks[i].t.tid) t->tasks[kept++] = t->tasks[i];
    t->n_tasks = kept;
}

int mem__core_notes(mem_target *t, uint64_t offset, uint64_t size, uint64_t *vdso, err *e)
{
    notes n = {.t = t};
    cursor c = cursor_of(slice_of(t->map + offset, (size_t)size), (int64_t)offset);
    int rc = 0;
    while (rc >= 0 && cursor_left(&c) >= 12) {
        uint32_t name = cursor_u32(&c), desc = cursor_u32(&c), type = cursor_u32(&c);
        slice who = cursor_bytes(&c, name);
        cursor_skip(&c, cursor_left(&c) < (-name & 3u) ? cursor_left(&c) : -name & 3u);
        uint64_t at = (uint64_t)cursor_offset(&c);
        slice d = cursor_bytes(&c, desc);
        if (!cursor_ok(&c)) {
            mem__note(t, "the notes of the core end in the middle of one");
            break;
        }
        cursor_skip(&c, cursor_left(&c) < (-desc & 3u) ? cursor_left(&c) : -desc & 3u);
        if (who.n >= 5 && memcmp(who.p, "CORE", 5) == 0) rc = take_note(&n, type, d, at, e);
    }
    if (rc < 0) return rc;
    *vdso = n.vdso;
    rc = take_files(&n, e);
    if (rc < 0) return rc;
    if (t->n_tasks == 0) mem__note(t, "the core has no threads");
    if (!n.has_psinfo && t->n_tasks > 0) t->pid = n.group; /* createdump puts the process's number there */
    if (t->n_tasks > 0) qsort(t->tasks, t->n_tasks, sizeof *t->tasks, by_tid);
    drop_doubles(t);
    return 0;
}
