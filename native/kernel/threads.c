/* SPDX-License-Identifier: MIT */
/* threads.c: CPU time of a process's threads by name. Formats: man proc(5), Documentation/scheduler/sched-stats.rst. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernel/kn_internal.h"

bool kn_parse_schedstat(slice text, uint64_t *cpu_ns) { return kn__u64(kn__word(&text), cpu_ns); }

static bool read_text(const char *root, int pid, int tid, const char *name, buf *out)
{
    char rel[80];
    snprintf(rel, sizeof rel, "/proc/%d/task/%d/%s", pid, tid, name);
    buf_reset(out);
    return kn_read(root, rel, KN_SMALL_MAX, out, NULL) >= 0;
}

static bool has_prefix(slice name, slice prefixes)
{
    slice prefix;
    if (prefixes.n == 0) return true;
    while (kn_next_z(&prefixes, &prefix))
        if (slice_starts(name, prefix)) return true;
    return false;
}

/* Ticks of the clock that /proc counts in, as nanoseconds. */
static uint64_t ticks_ns(uint64_t ticks)
{
    long hz = sysconf(_SC_CLK_TCK);
    return ticks * (UINT64_C(1000000000) / (uint64_t)(hz > 0 ? hz : 100));
}

/* False: the thread ended meanwhile, or may not be read. */
static bool read_thread(const char *root, int pid, int tid, kn_thread *out, buf *text)
{
    kn_stat s;
    if (!read_text(root, pid, tid, "stat", text) || kn_parse_stat(buf_view(text), &s, NULL) < 0) return false;
    *out = (kn_thread){.tid = tid, .start_time = s.start_time, .cpu_ns = ticks_ns(s.utime + s.stime)};
    memcpy(out->name, s.comm, sizeof out->name);
    uint64_t ns;
    out->precise = read_text(root, pid, tid, "schedstat", text) && kn_parse_schedstat(buf_view(text), &ns);
    if (out->precise) out->cpu_ns = ns;
    return true;
}

static bool keep(kn_threads *out, const kn_thread *t)
{
    if (out->n == KN_THREADS_MAX) {
        out->dropped++;
        return true;
    }
    if (out->n == out->cap) {
        size_t cap = out->cap ? out->cap * 2 : 16;
        kn_thread *rows = mem_realloc(out->rows, cap * sizeof *rows);
        if (!rows) return false;
        out->rows = rows;
        out->cap = cap;
    }
    out->rows[out->n++] = *t;
    return true;
}

static int by_tid(const void *a, const void *b)
{
    const kn_thread *x = a, *y = b;
    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static bool list_threads(DIR *d, const char *root, int pid, slice prefixes, kn_threads *out)
{
    buf text;
    bool ok = true;
    buf_init(&text, 0);
    for (struct dirent *ent; ok && (ent = readdir(d));) {
        uint64_t tid;
        kn_thread t;
        if (!kn__u64(slice_str(ent->d_name), &tid) || tid > INT32_MAX) continue;
        if (!read_text(root, pid, (int)tid, "comm", &text) || !has_prefix(kn__trim(buf_view(&text)), prefixes))
            continue;
        if (read_thread(root, pid, (int)tid, &t, &text)) ok = keep(out, &t);
    }
    buf_fini(&text);
    return ok;
}

int kn_threads_of(const char *root, int pid, slice prefixes, kn_threads *out, err *e)
{
    char path[KN_PATH_MAX];
    *out = (kn_threads){0};
    if (!kn__pid_path(root, pid, "task", path, sizeof path))
        return err_set(e, ERR_LIMIT, "a path is longer than %d bytes", KN_PATH_MAX);
    DIR *d = opendir(path);
    if (!d) {
        int sys = errno;
        err_kind kind = sys == ENOENT ? ERR_NOT_FOUND : sys == EACCES || sys == EPERM ? ERR_PERMISSION_DENIED : ERR_IO;
        return kn__pid_error(root, pid, err_sys(e, kind, sys, "cannot list %s", path), e);
    }
    bool ok = list_threads(d, root, pid, prefixes, out);
    closedir(d);
    if (!ok) {
        kn_threads_fini(out);
        return err_set(e, ERR_NO_MEMORY, "not enough memory for the threads of process %d", pid);
    }
    if (out->n) qsort(out->rows, out->n, sizeof *out->rows, by_tid);
    return 0;
}

void kn_threads_fini(kn_threads *t)
{
    free(t->rows);
    *t = (kn_threads){0};
}
