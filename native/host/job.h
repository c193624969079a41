/* SPDX-License-Identifier: MIT */
/* job.h: what a native face has done on a worker thread while a task waits for it. The face's own struct begins with a
 * host_job, and one box of Lua's owns it whenever no worker has it, so that nothing is lost when something throws:
 *
 *     static const host_job_class READING = {.work = reading_work, .push = reading_push, .fini = reading_fini};
 *     reading *r = host_job_new(L, sizeof *r, &READING);   // … box
 *     r->path = l_dup(L, 1);
 *     return host_job_run(L, r);
 */
#ifndef LUNETTE_HOST_JOB_H
#define LUNETTE_HOST_JOB_H

#include "host/host.h"

/* Each gets the job. All but work run on the loop's thread; all but work and push may be NULL. */
typedef struct host_job_class {
    int (*work)(void *job);                 /* on a worker thread: 0, or negative with job->e filled */
    int (*push)(lua_State *L, void *job);   /* pushes what came of it and returns how many; may throw */
    void (*fini)(void *job);                /* lets go of what it holds; its own memory goes after it */
    void (*stop)(void *job);                /* nobody waits any more while work goes on; NULL: what comes is let go */
    void (*ended)(lua_State *L, void *job); /* before push, and of a failure too, but not when nobody waited */
} host_job_class;

typedef struct host_job {
    const host_job_class *ops;
    err e;
    /* Private part. */
    int rc;
    struct host_job **box; /* that owns it until it runs */
    future *f;             /* while it runs */
} host_job;

/* A job of n bytes, all zero behind its host_job, in a box that it pushes. Throws without memory. */
void *host_job_new(lua_State *L, size_t n, const host_job_class *ops);
/* Has it done and waits: `return host_job_run(L, j);`. Results of push, or nil, err. Throws where a task may not wait.
 */
int host_job_run(lua_State *L, void *job);
/* The same, but outside a task it is done at once, on this thread. */
int host_job_run_anywhere(lua_State *L, void *job);

#endif
