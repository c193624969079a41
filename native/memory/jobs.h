/* SPDX-License-Identifier: MIT */
/* jobs.h: the jobs that jobs.c lists. */
#ifndef LUNETTE_MEMORY_JOBS_H
#define LUNETTE_MEMORY_JOBS_H

#include "memory/worker.h"

int job_method_code(mem_job *j, err *e); /* capture_method_bytes: method_code_job.c */
int job_settings(mem_job *j, err *e);    /* inspect_process(view="runtime-config"): settings_job.c */
int job_resolve(mem_job *j, err *e);     /* what lies at addresses: JSON */
int job_frame_vars(mem_job *j, err *e);  /* references in the frames of one thread: JSON */
int job_threads(mem_job *j, err *e);     /* every thread with its stack, locks, the pool: JSON */
int job_heap(mem_job *j, err *e);        /* inspect_heap live and dump: heap_job.c */
int job_heap_object(mem_job *j, err *e);

#endif
