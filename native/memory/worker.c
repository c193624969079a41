/* SPDX-License-Identifier: MIT */
/* worker.c: the process of one job: its limits, arguments, progress, result and error. */
#include "memory/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf.h"
#include "memory/confine.h"

#define MEMBERS_MAX       256
#define RESULT_FLUSH      65536
#define PROGRESS_EVERY_NS 200000000
#define ADDRESS_SLACK     ((uint64_t)16 << 30) /* mapped libraries, stacks, thread arenas */
#define SECONDS_SLACK     5
#define WORKER_NICE       (-10)

typedef struct member {
    char *key;
    json_tok kind;
    char *text; /* of a string, or the JSON of an object or list */
    int64_t i;
} member;

struct mem_job {
    arena a;
    member members[MEMBERS_MAX];
    size_t n;
    int result_fd, progress_fd;
    mem_target *target;
    buf out;
    jsonw json;
    bool json_begun;
    bool confined;
    int64_t told_ns;
    char told[256];
};

/* ---- arguments ---- */

static const member *find(const mem_job *j, const char *key)
{
    for (size_t i = 0; i < j->n; i++)
        if (strcmp(j->members[i].key, key) == 0) return &j->members[i];
    return NULL;
}

const char *job_text(const mem_job *j, const char *key, const char *fallback)
{
    const member *m = find(j, key);
    return m && m->kind == JSON_STR ? m->text : fallback;
}

int64_t job_int(const mem_job *j, const char *key, int64_t fallback)
{
    const member *m = find(j, key);
    if (m && m->kind == JSON_STR && *m->text) { /* numbers past 2^53 come as texts */
        char *end;
        long long v = strtoll(m->text, &end, 0);
        return *end ? fallback : v;
    }
    return m && (m->kind == JSON_INT || m->kind == JSON_NUM) ? m->i : fallback;
}

bool job_bool(const mem_job *j, const char *key, bool fallback)
{
    const member *m = find(j, key);
    return m && (m->kind == JSON_TRUE || m->kind == JSON_FALSE) ? m->kind == JSON_TRUE : fallback;
}

slice job_raw(const mem_job *j, const char *key)
{
    const member *m = find(j, key);
    return m && (m->kind == JSON_OBJECT || m->kind == JSON_ARRAY) ? slice_str(m->text) : (slice){0};
}

/* Reads one value after its key. False: malformed, or no memory. */
static bool read_value(mem_job *j, jsonr *r, member *m)
{
    jsonr at = *r; /* to skip a nested value from its beginning */
    const uint8_t *from = r->p;
    m->kind = jsonr_next(r);
    switch (m->kind) {
    case JSON_ERROR: return false;
    case JSON_STR: m->text = arena_str(&j->a, r->str); return m->text != NULL;
    case JSON_INT: m->i = r->i; return true;
    case JSON_NUM: m->i = r->num >= -9e18 && r->num <= 9e18 ? (int64_t)r->num : 0; return true;
    case JSON_OBJECT:
    case JSON_ARRAY:
        at.scratch = r->scratch;
        *r = at;
        if (!jsonr_skip(r)) return false;
        while (from < r->p && (*from == ':' || *from == ' ' || *from == '\n' || *from == '\t' || *from == '\r'))
            from++;
        m->text = arena_str(&j->a, slice_of(from, (size_t)(r->p - from)));
        return m->text != NULL;
    default: return true;
    }
}

static int read_members(mem_job *j, slice text, err *e)
{
    jsonr r;
    jsonr_init(&r, text);
    bool ok = jsonr_next(&r) == JSON_OBJECT;
    json_tok tok = JSON_KEY;
    while (ok && (tok = jsonr_next(&r)) == JSON_KEY) {
        if (j->n == MEMBERS_MAX) break;
        member *m = &j->members[j->n];
        m->key = arena_str(&j->a, r.str);
        ok = m->key && read_value(j, &r, m);
        if (ok) j->n++;
    }
    ok = ok && tok == JSON_OBJECT_END && jsonr_next(&r) == JSON_END;
    jsonr_fini(&r);
    return ok ? 0 : err_set(e, ERR_INVALID_ARGUMENT, "the arguments of a job must be one JSON object");
}

static int read_arguments(mem_job *j, err *e)
{
    buf text;
    int rc = 0;
    buf_init(&text, MEM_JOB_ARGS_MAX);
    for (;;) {
        uint8_t *p = buf_reserve(&text, 16384);
        if (!p) {
            rc = err_set(e, ERR_LIMIT, "the arguments of a job are larger than %zu bytes", MEM_JOB_ARGS_MAX);
            break;
        }
        ssize_t n = read(STDIN_FILENO, p, 16384);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) rc = err_sys(e, ERR_IO, errno, "cannot read the arguments of a job");
        if (n <= 0) break;
        text.n += (size_t)n;
    }
    if (rc >= 0) rc = read_members(j, buf_view(&text), e);
    buf_fini(&text);
    return rc;
}

/* ---- limits ---- */

static void limit(int what, uint64_t bytes)
{
    struct rlimit l;
    if (getrlimit(what, &l) != 0) return;
    l.rlim_cur = l.rlim_max != RLIM_INFINITY && bytes > l.rlim_max ? l.rlim_max : (rlim_t)bytes;
    setrlimit(what, &l);
}

static void set_limits(const mem_job *j)
{
    uint64_t timeout_ms = (uint64_t)job_int(j, "timeoutMs", MEM_JOB_TIMEOUT_MS);
    struct rlimit none = {0};
    setrlimit(RLIMIT_CORE, &none);
    limit(RLIMIT_CPU, (uint64_t)job_int(j, "cpuMs", (int64_t)timeout_ms) / 1000 + 1);
    limit(RLIMIT_FSIZE, MEM_JOB_RESULT_MAX);
    alarm((unsigned)(timeout_ms / 1000) + SECONDS_SLACK); /* should nobody be there to end us */
#ifndef __SANITIZE_ADDRESS__                              /* whose shadow memory is larger than any limit */
    uint64_t memory = (uint64_t)job_int(j, "memoryMax", (int64_t)MEM_JOB_MEMORY_MAX), mapped = 0;
    struct stat st;
    const char *core = job_text(j, "dumpFilePath", NULL);
    if (core && stat(core, &st) == 0 && st.st_size > 0) mapped = (uint64_t)st.st_size;
    limit(RLIMIT_DATA, memory);
    limit(RLIMIT_AS, memory + mapped + ADDRESS_SLACK);
#endif
}

/* The least that the job can do with: it is decided before a byte of the target is looked at. */
static confine_may needs(const mem_job *j)
{
    if (job_text(j, "dumpFilePath", NULL)) return CONFINE_DUMP;
    return strcmp(job_text(j, "freeze", "copy"), "fork") == 0 ? CONFINE_FORK : CONFINE_ATTACH;
}

/* ---- telling ---- */

static void tell(const mem_job *j, const char *line, size_t n)
{
    while (n > 0) {
        ssize_t put = write(j->progress_fd, line, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return; /* nobody listens */
        line += put;
        n -= (size_t)put;
    }
}

void job_progress(mem_job *j, double fraction, const char *fmt, ...)
{
    char text[sizeof j->told], line[sizeof text + 64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
    int64_t now = mono_ns();
    if (now - j->told_ns < PROGRESS_EVERY_NS && strcmp(text, j->told) == 0) return;
    j->told_ns = now;
    memcpy(j->told, text, sizeof text);
    int n = snprintf(line, sizeof line, "p %.4f %s\n", fraction < 0 ? 0 : fraction > 1 ? 1 : fraction, text);
    tell(j, line, (size_t)n);
}

static void tell_error(const mem_job *j, const err *e)
{
    buf b;
    jsonw w;
    buf_init(&b, 0);
    buf_str(&b, "e ");
    jsonw_init(&w, &b);
    jsonw_object(&w);
    jsonw_key_lit(&w, "kind");
    jsonw_cstr(&w, err_kind_name(e->kind));
    jsonw_key_lit(&w, "message");
    jsonw_cstr(&w, e->message);
    jsonw_key_lit(&w, "detail");
    jsonw_cstr(&w, e->detail);
    jsonw_key_lit(&w, "hint");
    jsonw_cstr(&w, e->hint);
    jsonw_key_lit(&w, "sys");
    jsonw_int(&w, e->sys);
    jsonw_key_lit(&w, "hresult");
    jsonw_uint(&w, e->hresult);
    if (e->has_offset) {
        jsonw_key_lit(&w, "offset");
        jsonw_int(&w, e->offset);
    }
    jsonw_end_object(&w);
    buf_u8(&b, '\n');
    tell(j, (const char *)b.p, b.n);
    buf_fini(&b);
}

/* ---- the result ---- */

static int write_out(void *arg, buf *out)
{
    const mem_job *j = arg;
    for (size_t done = 0; done < out->n;) {
        ssize_t put = write(j->result_fd, out->p + done, out->n - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return -1;
        done += (size_t)put;
    }
    buf_reset(out);
    return 0;
}

jsonw *job_json(mem_job *j)
{
    if (!j->json_begun) {
        j->json_begun = true;
        buf_init(&j->out, 0);
        jsonw_init(&j->json, &j->out);
        j->json.flush = write_out;
        j->json.flush_arg = j;
        j->json.flush_at = RESULT_FLUSH;
    }
    return &j->json;
}

bool job_confined(const mem_job *j) { return j->confined; }

int job_fd(const mem_job *j) { return j->result_fd; }

static int finish_json(mem_job *j, err *e)
{
    if (!j->json_begun) return 0;
    bool ok = jsonw_done(&j->json) && write_out(j, &j->out) >= 0;
    return ok ? 0 : err_set(e, ERR_IO, "the result could not be written");
}

/* ---- the target ---- */

int job_target(mem_job *j, mem_target **out, err *e)
{
    const char *core = job_text(j, "dumpFilePath", NULL);
    int64_t pid = job_int(j, "pid", 0);
    int rc = 0;
    if (!j->target) {
        job_progress(j, 0.01, "opening %s", core ? "the dump" : "the process");
        rc = core ? mem_open_core(core, job_text(j, "filesRoot", NULL), &j->target, e)
                  : mem_open_live((pid_t)pid, (uint64_t)job_int(j, "startTicks", 0), &j->target, e);
    }
    *out = j->target;
    return rc;
}

int job_stop(mem_job *j, err *e)
{
    if (mem_is_live(j->target)) job_progress(j, 0.02, "stopping the process");
    return mem_stop(j->target, deadline_in_ms(job_int(j, "stopTimeoutMs", MEM_STOP_TIMEOUT_MS)), e);
}

void job_resume(mem_job *j)
{
    if (j->target) mem_resume(j->target);
}

/* ---- the command ---- */

static const mem_job_entry *entry_of(const char *name)
{
    for (const mem_job_entry *m = MEM_JOBS; m->name; m++)
        if (strcmp(m->name, name) == 0) return m;
    return NULL;
}

/* What foreign code prints must not become part of the result. */
static void move_streams(mem_job *j)
{
    j->result_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    j->progress_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0 || j->result_fd < 0 || j->progress_fd < 0) _exit(EXIT_FAILURE);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    close(null);
}

int worker_main(int argc, char **argv)
{
    const mem_job_entry *m = argc == 2 ? entry_of(argv[1]) : NULL;
    if (!m) {
        fputs("usage: lunette worker JOB < ARGUMENTS.json > RESULT\nOne bounded job in a process of its own; the "
              "server starts these.\n",
              stderr);
        return 2;
    }
    err e = {0};
    mem_job *j = mem_calloc(1, sizeof *j);
    if (!j) return EXIT_FAILURE;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    (void)setpriority(PRIO_PROCESS, 0, WORKER_NICE); /* where we may: what it stops, waits for it */
    move_streams(j);
    int rc = read_arguments(j, &e);
    if (rc >= 0) {
        set_limits(j);
        j->confined = confine(needs(j));
        rc = m->run(j, &e);
    }
    if (rc < 0 && j->target && mem_going(j->target)) { /* whatever failed, failed for that */
        e = (err){0};
        rc = err_set(&e, ERR_PROCESS_EXITED, "process %d ended while it was looked at", (int)mem_pid(j->target));
    }
    mem_close(j->target);
    j->target = NULL;
    if (rc >= 0) rc = finish_json(j, &e);
    if (rc < 0) {
        if (e.kind == ERR_NONE) (void)err_set(&e, (err_kind)-rc, "the job failed without a word");
        tell_error(j, &e);
    }
    /* No clean-up beyond this: the library of the runtime does not like to be unloaded. */
    _exit(rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
