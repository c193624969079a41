/* SPDX-License-Identifier: MIT */
/* jobs.c: the jobs of a worker process, one line each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/jobs.h"

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
