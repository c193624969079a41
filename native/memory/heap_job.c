/* SPDX-License-Identifier: MIT */
/* heap_job.c: the jobs `heap` and `heap-object` of a worker. The first writes the graph (graph_write) and, behind it,
 * the details as JSON; the second one object as JSON. */
#include "memory/fork.h"
#include "memory/heap_details.h"
#include "memory/jobs.h"

#include <stdlib.h>
#include <string.h>

static void tell(void *arg, const char *what) { job_progress(arg, 0.05, "%s", what); }

static int open_heap(mem_job *j, heap_options *o, dac **d, heap **h, err *e)
{
    mem_target *t = NULL;
    int rc = job_target(j, &t, e);
    if (rc == 0) rc = dac_open(t, job_text(j, "dacPath", NULL), d, e);
    if (rc < 0) return rc;
    o->progress = tell;
    o->arg = j;
    o->memory = (uint64_t)job_int(j, "copyMax", 0);
    o->pause_ns = job_int(j, "pauseMs", HEAP_PAUSE_NS / 1000000) * 1000000;
    return heap_open(*d, o, h, e);
}

int job_heap(mem_job *j, err *e)
{
    heap_wanted want = {.statics = job_bool(j, "statics", false),
                        .delegates = job_bool(j, "delegates", false),
                        .strings = job_bool(j, "strings", false)};
    heap_options o = {.stacks = job_bool(j, "roots", true),
                      .fork = strcmp(job_text(j, "freeze", "copy"), "fork") == 0,
                      .list = 1u << HEAP_TIMER_QUEUE_TIMER | 1u << HEAP_ASYNC_BOX | 1u << HEAP_LOAD_CONTEXT};
    if (want.strings) o.list |= 1u << HEAP_STRING;
    if (want.delegates) o.list |= 1u << HEAP_DELEGATE;
    dac *d = NULL;
    heap *h = NULL;
    graph *g = NULL;
    heap_details *details = NULL;
    int rc = open_heap(j, &o, &d, &h, e);
    if (rc < 0) goto out;
    rc = -ERR_NO_MEMORY;
    details = heap_details_new(h, e);
    if (!details) goto out;
    job_progress(j, 0.2, "walking the heap");
    rc = heap_graph_of(h, job_bool(j, "roots", true), heap_details_see, details, &g, e);
    if (rc < 0) goto out;
    if (o.fork) rc = mem_fork_check(dac_target(d), e);
    if (rc < 0) goto out;
    job_progress(j, 0.7, "writing the graph");
    rc = graph_write(g, job_fd(j), e);
    if (rc < 0) goto out;
    job_progress(j, 0.85, "writing what else there is");
    heap_details_write(details, &want, job_json(j));
    if (o.fork) rc = mem_fork_check(dac_target(d), e);
out:
    graph_unref(g);
    heap_details_free(details);
    heap_close(h);
    dac_close(d);
    return rc;
}

int job_heap_object(mem_job *j, err *e)
{
    dac *d = NULL;
    heap *h = NULL;
    heap_options o = {.in_place = true};
    uint64_t address = strtoull(job_text(j, "address", "0"), NULL, 0);
    int rc = open_heap(j, &o, &d, &h, e);
    if (rc == 0 && !heap_object_write(h, address, job_json(j))) {
        rc = err_set(e, ERR_NOT_FOUND, "no object begins at 0x%llx", (unsigned long long)address);
        err_hint(e, "Addresses of objects are in retention-paths, retained and dominators; a collection may have moved "
                    "an object since.");
    }
    heap_close(h);
    dac_close(d);
    return rc;
}
