/* SPDX-License-Identifier: MIT */
/* heap_job.c: the jobs `heap` and `heap-object` of a worker. The first writes the graph (graph_write) and, behind it,
 * the details as JSON; the second one object as JSON. */
#include "memory/fork.h"
#include "memory/heap_details.h"
#include "memory/jobs.h"

#include <stdlib.h>
#include <string.h>

#define WALK_TRIES 3

static void tell(void *arg, const char *what) { job_progress(arg, 0.05, "%s", what); }

static int open_dac(mem_job *j, dac **d, err *e)
{
    mem_target *t = NULL;
    int rc = job_target(j, &t, e);
    return rc == 0 ? dac_open(t, job_text(j, "dacPath", NULL), d, e) : rc;
}

static int open_heap(mem_job *j, heap_options *o, dac *d, heap **h, err *e)
{
    o->progress = tell;
    o->arg = j;
    o->memory = (uint64_t)job_int(j, "copyMax", 0);
    o->pause_ns = job_int(j, "pauseMs", HEAP_PAUSE_NS / 1000000) * 1000000;
    return heap_open(d, o, h, e);
}

typedef struct walked {
    heap *h;
    heap_details *details;
    graph *g;
} walked;

static void drop(walked *w)
{
    graph_unref(w->g);
    heap_details_free(w->details);
    heap_close(w->h);
    *w = (walked){0};
}

static int walk_once(mem_job *j, heap_options *o, dac *d, walked *w, err *e)
{
    int rc = open_heap(j, o, d, &w->h, e);
    if (rc < 0) return rc;
    w->details = heap_details_new(w->h, e);
    if (!w->details) return -ERR_NO_MEMORY;
    job_progress(j, 0.2, o->count ? "counting objects" : "walking the heap");
    if (o->count) return heap_totals_of(w->h, &w->g, e);
    return heap_graph_of(w->h, job_bool(j, "roots", true), heap_details_see, w->details, &w->g, e);
}

/* A thread that stood while it was given new memory leaves what lay there before in its copy. That is seen at the end
 * of a walk only, and gone a moment later: then the heap is copied once more. */
static int walk(mem_job *j, heap_options *o, dac *d, walked *w, err *e)
{
    int rc = walk_once(j, o, d, w, e);
    for (o->copies = 1; rc == 0 && o->copies < WALK_TRIES && heap_is_torn(w->h) && !o->fork;) {
        drop(w);
        o->copies++;
        rc = walk_once(j, o, d, w, e);
    }
    return rc;
}

int job_heap(mem_job *j, err *e)
{
    heap_wanted want = {.statics = job_bool(j, "statics", false),
                        .delegates = job_bool(j, "delegates", false),
                        .strings = job_bool(j, "strings", false),
                        .totals = job_bool(j, "totals", false)};
    heap_options o = {.stacks = job_bool(j, "roots", true) && !want.totals,
                      .count = want.totals,
                      .fork = strcmp(job_text(j, "freeze", "copy"), "fork") == 0,
                      .list = 1u << HEAP_TIMER_QUEUE_TIMER | 1u << HEAP_ASYNC_BOX | 1u << HEAP_LOAD_CONTEXT};
    if (want.strings) o.list |= 1u << HEAP_STRING;
    if (want.delegates) o.list |= 1u << HEAP_DELEGATE;
    dac *d = NULL;
    walked w = {0};
    int rc = open_dac(j, &d, e);
    if (rc == 0) rc = walk(j, &o, d, &w, e);
    if (rc == 0 && o.fork) rc = mem_fork_check(dac_target(d), e);
    if (rc < 0) goto out;
    job_progress(j, 0.7, "writing the graph");
    rc = graph_write(w.g, job_fd(j), e);
    if (rc < 0) goto out;
    job_progress(j, 0.85, "writing what else there is");
    heap_details_write(w.details, &want, job_json(j));
    if (o.fork) rc = mem_fork_check(dac_target(d), e);
out:
    drop(&w);
    dac_close(d);
    return rc;
}

int job_heap_object(mem_job *j, err *e)
{
    dac *d = NULL;
    heap *h = NULL;
    heap_options o = {.in_place = true};
    uint64_t address = strtoull(job_text(j, "address", "0"), NULL, 0);
    int rc = open_dac(j, &d, e);
    if (rc == 0) rc = open_heap(j, &o, d, &h, e);
    if (rc == 0 && !heap_object_write(h, address, job_json(j))) {
        rc = err_set(e, ERR_NOT_FOUND, "no object begins at 0x%llx", (unsigned long long)address);
        err_hint(e, "Addresses of objects are in retention-paths, retained and dominators; a collection may have moved "
                    "an object since.");
    }
    heap_close(h);
    dac_close(d);
    return rc;
}
