/* SPDX-License-Identifier: MIT */
/* jobs.c: the jobs of a worker process, one line each. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <unistd.h>

#include "memory/jobs.h"

static void tried(jsonw *w, const char *what, long rc)
{
    int why = rc < 0 ? errno : 0;
    jsonw_key(w, slice_str(what));
    jsonw_int(w, why);
}

/* What somebody would try who took a worker over: 0 where it is let, or the number of the error. */
static void try_to_escape(mem_job *j)
{
    char name[] = "true";
    char *const argv[] = {name, NULL}, *const none[] = {NULL};
    const char *path = job_text(j, "path", "");
    jsonw *w = job_json(j);
    jsonw_object(w);
    jsonw_key_lit(w, "confined");
    jsonw_bool(w, job_confined(j));
    tried(w, "execve", execve("/bin/true", argv, none));
    tried(w, "socket", socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    tried(w, "create", open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    tried(w, "change", open(path, O_RDWR | O_CLOEXEC));
    tried(w, "unlink", unlink(path));
    tried(w, "kill", kill(getppid(), 0));
    tried(w, "poke", ptrace(PTRACE_POKEDATA, getppid(), NULL, NULL)); /* let, it finds no thread of ours: ESRCH */
    tried(w, "read", open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    pid_t child = fork();
    if (child == 0) _exit(0);
    tried(w, "fork", child);
    jsonw_end_object(w);
}

/* For tests of the worker itself: how it ends in each way. */
static int job_selftest(mem_job *j, err *e)
{
    const char *how = job_text(j, "how", "echo");
    job_progress(j, 0.5, "being %s", how);
    if (strcmp(how, "crash") == 0) abort();
    if (strcmp(how, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(how, "spin") == 0)
        for (volatile uint64_t i = 0;; i++)
            ;
    if (strcmp(how, "error") == 0)
        return err_set(e, ERR_NOT_FOUND, "nothing of \"%s\" is here", job_text(j, "what", ""));
    if (strcmp(how, "escape") == 0) {
        try_to_escape(j);
        return 0;
    }
    if (strcmp(how, "stop") == 0) { /* holds its target until it is killed */
        mem_target *t;
        int rc = job_target(j, &t, e);
        if (rc >= 0) rc = job_stop(j, e);
        if (rc < 0) return rc;
        job_progress(j, 0.9, "holding");
        for (;;)
            pause();
    }
    if (strcmp(how, "memory") == 0)
        for (size_t n = 0;; n += 16 << 20) {
            char *p = mem_alloc(16 << 20);
            if (!p) return err_set(e, ERR_NO_MEMORY, "memory ended after %zu MiB", n >> 20);
            for (size_t i = 0; i < 16 << 20; i += 4096)
                p[i] = 1;
        }
    jsonw *w = job_json(j);
    jsonw_object(w);
    jsonw_key_lit(w, "what");
    jsonw_cstr(w, job_text(j, "what", ""));
    jsonw_key_lit(w, "number");
    jsonw_int(w, job_int(j, "number", -1));
    jsonw_end_object(w);
    return 0;
}

const mem_job_entry MEM_JOBS[] = {
    {"selftest", job_selftest}, {"method-code", job_method_code}, {"settings", job_settings},
    {"threads", job_threads},   {"resolve", job_resolve},         {"frame-vars", job_frame_vars},
    {"heap", job_heap},         {"heap-object", job_heap_object}, {NULL, NULL},
};
