/* SPDX-License-Identifier: MIT */
/* job.c: a job's way from its box to a worker thread, into a future, and into the box of the one who waited. */
#include "host/job.h"

#include <stdlib.h>

#include "base/mem.h"

#define JOB_TYPE "lunette.host.job"

static void job_free(void *arg)
{
    host_job *j = arg;
    if (!j) return;
    if (j->ops->fini) j->ops->fini(j);
    free(j);
}

static int l_gc(lua_State *L)
{
    host_job **box = luaL_checkudata(L, 1, JOB_TYPE);
    host_job *j = *box;
    *box = NULL;
    job_free(j);
    return 0;
}

static host_job **push_box(lua_State *L)
{
    host_job **box = lua_newuserdatauv(L, sizeof(host_job *), 0); // box
    *box = NULL;
    if (luaL_newmetatable(L, JOB_TYPE)) { // box meta
        lua_pushcfunction(L, l_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2); // box
    return box;
}

void *host_job_new(lua_State *L, size_t n, const host_job_class *ops)
{
    host_job **box = push_box(L); // box
    host_job *j = *box = mem_calloc(1, n);
    if (!j) {
        luaL_error(L, "not enough memory");
        return NULL;
    }
    j->ops = ops;
    j->box = box;
    return j;
}

/* What came of the job in the box, which is empty then. */
static int push_result(lua_State *L, host_job **box)
{
    host_job *j = *box;
    if (j->ops->ended) j->ops->ended(L, j);
    int n = j->rc < 0 ? host_push_err(L, &j->e) : j->ops->push(L, j);
    *box = NULL;
    job_free(j);
    return n;
}

static int push_waited(lua_State *L, future *f, void *arg)
{
    (void)arg;
    host_job **box = push_box(L); // box
    *box = future_take(f);
    return push_result(L, box);
}

static void work(void *arg)
{
    host_job *j = arg;
    j->rc = j->ops->work(j);
}

static void done(void *arg)
{
    host_job *j = arg;
    future *f = j->f;
    j->f = NULL;
    future_resolve(f, j, job_free); /* frees it at once when nobody waits any more */
    future_unref(f);
}

static void stop(void *arg)
{
    host_job *j = arg;
    if (j->ops->stop) j->ops->stop(j);
}

int host_job_run(lua_State *L, void *job)
{
    host_job *j = job, **box = j->box;
    future *f = future_new(host_loop(L), stop, j);
    if (f) j->f = future_ref(f);
    *box = NULL; /* the worker's */
    if (f && loop_work(host_loop(L), work, done, j)) return host_await(L, f, -1, push_waited, NULL);
    *box = j;
    future_unref(j->f);
    future_unref(f);
    j->f = NULL;
    j->rc = err_set(&j->e, ERR_NO_MEMORY, "no memory or thread for this call");
    return push_result(L, box);
}

int host_job_run_anywhere(lua_State *L, void *job)
{
    host_job *j = job;
    if (task_current(L)) return host_job_run(L, j);
    work(j);
    return push_result(L, j->box);
}
