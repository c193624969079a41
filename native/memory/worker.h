/* SPDX-License-Identifier: MIT */
/* worker.h: jobs that may crash, hang or need ptrace, each in a process of its own: `lunette worker JOB`. Arguments
 * come as one JSON object on standard input; what the job makes goes into standard output, which is a memfd of the
 * starter's; standard error carries progress and, at the end, the error record. The process ends with whoever started
 * it, has limits on memory, CPU and time, a clean environment, and little that it may ask of the kernel. A job is one
 * line in jobs.c:
 *
 *     int job_threads(mem_job *j, err *e);
 *
 * that writes its result by job_json or to job_fd, and returns 0 or a negative status with *e filled. */
#ifndef LUNETTE_MEMORY_WORKER_H
#define LUNETTE_MEMORY_WORKER_H

#include "base/json.h"
#include "memory/target.h"

#define MEM_JOB_ARGS_MAX    ((size_t)4 << 20)
#define MEM_JOB_LINE_MAX    4096
#define MEM_JOB_MEMORY_MAX  ((uint64_t)4 << 30)  /* default of memoryMax, bytes */
#define MEM_JOB_RESULT_MAX  ((uint64_t)16 << 30) /* bytes of a result */
#define MEM_JOB_TIMEOUT_MS  120000               /* default of timeoutMs */
#define MEM_STOP_TIMEOUT_MS 5000 /* default of stopTimeoutMs: how long the stop of all threads may take */

typedef struct mem_job mem_job;

/* ---- for a job --------------------------------------------------------------------------------------------------- */
/* Members of the arguments' object; fallback where it is absent, null or of another kind. Texts are borrowed. */
const char *job_text(const mem_job *j, const char *key, const char *fallback);
int64_t job_int(const mem_job *j, const char *key, int64_t fallback);
bool job_bool(const mem_job *j, const char *key, bool fallback);
/* A member that is an object or a list, as JSON text; empty: absent. */
slice job_raw(const mem_job *j, const char *key);

/* Opens what the arguments name: "pid" (with "startTicks") or "dumpFilePath". It is closed after the job. */
int job_target(mem_job *j, mem_target **out, err *e);
/* mem_stop with the deadline of the arguments. */
int job_stop(mem_job *j, err *e);
/* Resumes the target, as soon as it is no longer needed still. */
void job_resume(mem_job *j);

/* How far it is, 0 to 1, and what it does: one line. Told at most some times a second, so it may be called often; text
 * that differs from the last one is told at once. It is also what an error says the job was at when it crashed. */
void job_progress(mem_job *j, double fraction, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Is it confined (confine.h)? Each is, but on kernels that lack the means. */
bool job_confined(const mem_job *j);

/* The result as JSON, streamed. */
jsonw *job_json(mem_job *j);
/* The result as bytes: an empty memfd at offset 0; mmap with MAP_SHARED is fine. */
int job_fd(const mem_job *j);

/* ---- the table, and the command ---------------------------------------------------------------------------------- */
typedef int (*mem_job_fn)(mem_job *j, err *e);
typedef struct mem_job_entry {
    const char *name;
    mem_job_fn run;
} mem_job_entry;
/* In jobs.c; ends with a NULL name. */
extern const mem_job_entry MEM_JOBS[];

/* `lunette worker JOB`. Exit code 0: done; 1: the error is on standard error; 2: usage. */
int worker_main(int argc, char **argv);

#endif
