/* SPDX-License-Identifier: MIT */
/* thread_waits.c: what the kernel knows of each thread's rest: its state, the function of the kernel that it sleeps in,
 * and the system call that it is in. Formats: man proc(5), /proc/PID/task/TID/{stat,wchan,syscall}. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel/kn_internal.h"

int kn_parse_syscall(slice text, kn_thread_wait *out)
{
    slice word = kn__word(&text);
    int64_t nr;
    out->has_syscall = false;
    if (!kn__i64(word, &nr) || nr < 0) return 0; /* "running", or -1: in none */
    out->has_syscall = true;
    out->syscall = (int)nr;
    for (int i = 0; i < KN_SYSCALL_ARGS; i++) {
        word = kn__word(&text);
        out->args[i] = 0;
        if (word.n > 2 && word.p[1] == 'x') (void)kn__hex(slice_of(word.p + 2, word.n - 2), &out->args[i]);
    }
    return 1;
}

static bool read_text(const char *root, int pid, int tid, const char *name, buf *out)
{
    char rel[80];
    (void)snprintf(rel, sizeof rel, "/proc/%d/task/%d/%s", pid, tid, name);
    buf_reset(out);
    return kn_read(root, rel, KN_SMALL_MAX, out, NULL) >= 0;
}

/* False: the thread ended meanwhile. */
static bool read_wait(const char *root, int pid, int tid, kn_thread_wait *out, buf *text)
{
    kn_stat s;
    if (!read_text(root, pid, tid, "stat", text) || kn_parse_stat(buf_view(text), &s, NULL) < 0) return false;
    *out = (kn_thread_wait){.tid = tid, .state = s.state};
    memcpy(out->name, s.comm, sizeof out->name);
    if (read_text(root, pid, tid, "wchan", text) && !slice_eq_str(buf_view(text), "0"))
        (void)kn__copy(kn__trim(buf_view(text)), out->wchan, sizeof out->wchan);
    if (read_text(root, pid, tid, "syscall", text)) (void)kn_parse_syscall(buf_view(text), out);
    return true;
}

int kn_thread_waits_of(const char *root, int pid, kn_thread_waits *out, err *e)
{
    char path[KN_PATH_MAX];
    *out = (kn_thread_waits){0};
    if (!kn__pid_path(root, pid, "task", path, sizeof path))
        return err_set(e, ERR_LIMIT, "a path is longer than %d bytes", KN_PATH_MAX);
    DIR *d = opendir(path);
    if (!d) {
        int sys = errno;
        err_kind kind = sys == ENOENT ? ERR_NOT_FOUND : sys == EACCES || sys == EPERM ? ERR_PERMISSION_DENIED : ERR_IO;
        return kn__pid_error(root, pid, err_sys(e, kind, sys, "cannot list %s", path), e);
    }
    buf text;
    buf_init(&text, 0);
    bool memory = true;
    for (struct dirent *ent; memory && (ent = readdir(d));) {
        uint64_t tid;
        if (!kn__u64(slice_str(ent->d_name), &tid) || tid > INT32_MAX) continue;
        if (out->n == KN_WAITS_MAX) {
            out->dropped++;
            continue;
        }
        if (out->n == out->cap) {
            size_t cap = out->cap ? out->cap * 2 : 32;
            kn_thread_wait *rows = mem_realloc(out->rows, cap * sizeof *rows);
            memory = rows != NULL;
            if (!rows) break;
            out->rows = rows;
            out->cap = cap;
        }
        out->n += read_wait(root, pid, (int)tid, &out->rows[out->n], &text);
    }
    buf_fini(&text);
    closedir(d);
    if (memory) return 0;
    kn_thread_waits_fini(out);
    return err_set(e, ERR_NO_MEMORY, "not enough memory for the threads of process %d", pid);
}

void kn_thread_waits_fini(kn_thread_waits *w)
{
    free(w->rows);
    *w = (kn_thread_waits){0};
}
