/* SPDX-License-Identifier: MIT */
/* memory_lua.c: lunette.memory: jobs in worker processes: starting, progress, ending, and their results. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf.h"
#include "host/host_internal.h"
#include "memory/confine.h"
#include "memory/memory_lua.h"
#include "memory/worker.h"

extern char **environ;

int luaopen_lunette_memory(lua_State *L);

#define RUN_TYPE        "lunette.memory.run"
#define RESULT_TYPE     "lunette.memory.result"
#define JOB_NAME_MAX    64
#define RESULT_TEXT_MAX ((size_t)128 << 20)
#define KILL_SLACK_MS   500
#define READ_CHUNKS     16

typedef struct run {
    loop *l;
    loop_child *child; /* NULL: ended */
    bool held;         /* by Lua */
    char job[JOB_NAME_MAX];
    int64_t timeout_ms, deadline_ns;
    int code, signo;
    int out_fd; /* the memfd of the result */
    int pipe_fd;
    loop_fd *watch;
    char line[MEM_JOB_LINE_MAX];
    size_t n;
    double fraction;
    char text[256];
    bool news; /* progress that nobody has seen */
    err e;     /* as the worker told it */
    future *progress_f, *wait_f;
} run;

/* ---- lines of the worker ---- */

static void finish(future **f)
{
    future *was = *f;
    *f = NULL;
    if (!was) return;
    future_resolve(was, NULL, NULL);
    future_unref(was);
}

static void copy_text(char *to, size_t cap, slice s)
{
    size_t n = utf8_cut(s, cap - 1);
    memcpy(to, s.p, n);
    to[n] = '\0';
}

static void take_error(run *r, slice json)
{
    jsonr in;
    jsonr_init(&in, json);
    char key[16] = "";
    for (json_tok t = jsonr_next(&in); t != JSON_END && t != JSON_ERROR; t = jsonr_next(&in)) {
        if (t == JSON_KEY) copy_text(key, sizeof key, in.str);
        if (t == JSON_STR && strcmp(key, "kind") == 0) {
            char kind[64];
            copy_text(kind, sizeof kind, in.str);
            r->e.kind = err_kind_from_name(kind);
        }
        if (t == JSON_STR && strcmp(key, "message") == 0) copy_text(r->e.message, sizeof r->e.message, in.str);
        if (t == JSON_STR && strcmp(key, "detail") == 0) copy_text(r->e.detail, sizeof r->e.detail, in.str);
        if (t == JSON_STR && strcmp(key, "hint") == 0) copy_text(r->e.hint, sizeof r->e.hint, in.str);
        if (t == JSON_INT && strcmp(key, "hresult") == 0) r->e.hresult = (uint32_t)in.i;
        if (t == JSON_INT && strcmp(key, "sys") == 0) r->e.sys = (int)in.i;
        if (t == JSON_INT && strcmp(key, "offset") == 0) {
            r->e.offset = in.i;
            r->e.has_offset = true;
        }
    }
    jsonr_fini(&in);
    if (r->e.kind == ERR_NONE) (void)err_set(&r->e, ERR_INTERNAL, "the worker told an error that cannot be read");
}

static void take_line(run *r)
{
    r->line[r->n < sizeof r->line ? r->n : sizeof r->line - 1] = '\0';
    if (r->n > 2 && r->line[0] == 'p' && r->line[1] == ' ') {
        char *end;
        double fraction = strtod(r->line + 2, &end);
        slice text = slice_str(*end == ' ' ? end + 1 : end);
        if (utf8_valid(text)) copy_text(r->text, sizeof r->text, text);
        r->fraction = fraction >= 0 && fraction <= 1 ? fraction : r->fraction;
        r->news = true;
        finish(&r->progress_f);
    }
    if (r->n > 2 && r->line[0] == 'e' && r->line[1] == ' ' && r->e.kind == ERR_NONE)
        take_error(r, slice_of(r->line + 2, r->n - 2));
    r->n = 0;
}

static void feed(run *r, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n')
            take_line(r);
        else if (r->n + 1 < sizeof r->line)
            r->line[r->n++] = p[i];
    }
}

static void pipe_close(run *r)
{
    if (r->pipe_fd < 0) return;
    loop_fd_del(r->watch);
    r->watch = NULL;
    close(r->pipe_fd);
    r->pipe_fd = -1;
}

static void on_readable(void *arg, uint32_t events)
{
    (void)events;
    run *r = arg;
    char chunk[8192];
    for (int i = 0; i < READ_CHUNKS; i++) {
        ssize_t n = read(r->pipe_fd, chunk, sizeof chunk);
        if (n > 0) {
            feed(r, chunk, (size_t)n);
            continue;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        pipe_close(r);
        return;
    }
}

/* ---- life ---- */

static void run_free(run *r)
{
    if (r->held || r->child) return;
    pipe_close(r);
    if (r->out_fd >= 0) close(r->out_fd);
    free(r);
}

static void on_ended(void *arg, int code, int signo)
{
    run *r = arg;
    r->child = NULL;
    r->code = code;
    r->signo = signo;
    if (r->pipe_fd >= 0) on_readable(r, 0);
    pipe_close(r);
    finish(&r->progress_f);
    finish(&r->wait_f);
    run_free(r);
}

static int l_run_close(lua_State *L)
{
    run **box = luaL_checkudata(L, 1, RUN_TYPE);
    run *r = *box;
    *box = NULL;
    if (!r) return 0;
    r->held = false;
    finish(&r->progress_f);
    finish(&r->wait_f);
    if (r->child) loop_child_kill(r->child, SIGKILL);
    run_free(r);
    return 0;
}

/* ---- starting ---- */

static int make_input(slice args, err *e)
{
    int fd = memfd_create("lunette-job", MFD_CLOEXEC);
    if (fd < 0) return err_sys(e, ERR_IO, errno, "memfd_create");
    for (size_t done = 0; done < args.n;) {
        ssize_t n = write(fd, args.p + done, args.n - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            int rc = err_sys(e, ERR_IO, errno, "cannot write a job's arguments");
            close(fd);
            return rc;
        }
        done += (size_t)n;
    }
    (void)lseek(fd, 0, SEEK_SET);
    return fd;
}

/* What a worker has of our environment: where runtimes and packages lie (dac_load.c), and nothing else. The texts are
 * the environment's own. */
static void worker_env(const char *env[6])
{
    static const char *const passed[] = {"HOME=", "DOTNET_ROOT=", "NUGET_PACKAGES="};
    size_t n = 0;
    env[n++] = "PATH=/usr/bin:/bin";
    env[n++] = "LANG=C.UTF-8";
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)
        for (char **at = environ; at && *at; at++)
            if (strncmp(*at, passed[i], strlen(passed[i])) == 0) {
                env[n++] = *at;
                break;
            }
    env[n] = NULL;
}

static int start(run *r, slice args, err *e)
{
    const char *env[6];
    worker_env(env);
    const char *const argv[] = {"/proc/self/exe", "worker", r->job, NULL};
    int fds[2] = {-1, -1}, rc = 0, in = make_input(args, e);
    if (in < 0) return in;
    r->out_fd = memfd_create("lunette-result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (r->out_fd < 0) rc = err_sys(e, ERR_IO, errno, "memfd_create");
    if (rc >= 0 && pipe2(fds, O_CLOEXEC) != 0) rc = err_sys(e, ERR_IO, errno, "cannot make a pipe");
    if (rc >= 0) {
        r->pipe_fd = fds[0];
        if (fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) rc = err_sys(e, ERR_IO, errno, "cannot set up a pipe");
    }
    if (rc >= 0) rc = loop_fd_add(r->l, fds[0], EPOLLIN, on_readable, r, &r->watch, e);
    r->deadline_ns = deadline_in_ms(r->timeout_ms);
    loop_child_cfg cfg = {.argv = argv,
                          .envp = env,
                          .stdin_fd = in,
                          .stdout_fd = r->out_fd,
                          .stderr_fd = fds[1],
                          .deadline_ns = deadline_in_ms(r->timeout_ms + KILL_SLACK_MS),
                          .dies_with_us = true};
    if (rc >= 0) rc = loop_child_start(r->l, &cfg, on_ended, r, &r->child, e);
    close(in);
    if (fds[1] >= 0) close(fds[1]);
    return rc;
}

/* memory.start{job=, args=json text, timeout_ms=?} -> run, or nil, err */
static int l_start(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_getfield(L, 1, "job"); // opts job
    const char *job = luaL_checkstring(L, 2);
    size_t n;
    lua_getfield(L, 1, "args"); // opts job args
    const char *args = luaL_optlstring(L, 3, "{}", &n);
    lua_getfield(L, 1, "timeout_ms"); // opts job args timeout
    lua_Integer timeout_ms = luaL_optinteger(L, 4, MEM_JOB_TIMEOUT_MS);
    luaL_argcheck(L, strlen(job) < JOB_NAME_MAX, 1, "the job's name is too long");
    luaL_argcheck(L, n <= MEM_JOB_ARGS_MAX, 1, "the job's arguments are too long");
    run **box = lua_newuserdatauv(L, sizeof *box, 0); // … run
    *box = NULL;
    luaL_setmetatable(L, RUN_TYPE);
    run *r = *box = mem_calloc(1, sizeof *r);
    if (!r) return luaL_error(L, "not enough memory");
    r->l = host_loop(L);
    r->held = true;
    r->out_fd = r->pipe_fd = -1;
    r->timeout_ms = timeout_ms;
    snprintf(r->job, sizeof r->job, "%s", job);
    err e = {0};
    if (start(r, slice_of(args, n), &e) < 0) return host_push_err(L, &e);
    return 1;
}

/* ---- waiting ---- */

static run *check_run(lua_State *L) { return *(run **)luaL_checkudata(L, 1, RUN_TYPE); }

static void forget_progress(void *owner)
{
    run *r = owner;
    future_unref(r->progress_f);
    r->progress_f = NULL;
}

static void forget_wait(void *owner)
{
    run *r = owner;
    future_unref(r->wait_f);
    r->wait_f = NULL;
}

static int wait_for(lua_State *L, run *r, future **place, void (*forget)(void *), host_push_fn push)
{
    lua_Integer ms = luaL_optinteger(L, 2, -1);
    luaL_argcheck(L, ms <= INT32_MAX, 2, "too long");
    if (*place) return luaL_error(L, "another task waits for this already");
    *place = future_new(r->l, forget, r);
    if (!*place) return luaL_error(L, "not enough memory");
    return host_await(L, future_ref(*place), (int)ms, push, NULL);
}

static int push_progress(lua_State *L, future *f, void *arg)
{
    (void)f, (void)arg;
    run *r = check_run(L);
    if (!r || !r->news) return 0; /* it has ended */
    r->news = false;
    lua_createtable(L, 0, 2); // progress
    lua_pushnumber(L, r->fraction);
    lua_setfield(L, -2, "fraction");
    lua_pushstring(L, r->text);
    lua_setfield(L, -2, "text");
    return 1;
}

/* run:progress(timeout_ms?) -> {fraction=, text=}; nothing once it has ended; nil, err(Timeout) */
static int l_progress(lua_State *L)
{
    run *r = check_run(L);
    if (!r || !r->child || r->news) return push_progress(L, NULL, NULL);
    return wait_for(L, r, &r->progress_f, forget_progress, push_progress);
}

/* Why a worker that told no error of its own gave no result. */
static void explain(const run *r, err *e)
{
    const char *at = r->text[0] ? r->text : "starting";
    if (r->signo == SIGKILL && mono_ns() >= r->deadline_ns)
        (void)err_set(e, ERR_TIMEOUT, "the worker (%s) was ended after %lld ms, while it was %s", r->job,
                      (long long)r->timeout_ms, at);
    else if (r->signo == SIGALRM || r->signo == SIGXCPU)
        (void)err_set(e, ERR_TIMEOUT, "the worker (%s) used up its time while it was %s", r->job, at);
    else if (r->signo == SIGXFSZ)
        (void)err_set(e, ERR_LIMIT, "the result of the worker (%s) is too large", r->job);
    else if (r->signo == SIGKILL)
        (void)err_set(e, ERR_INTERNAL, "the worker (%s) was killed while it was %s: by somebody, or for lack of memory",
                      r->job, at);
    else if (r->signo)
        (void)err_set(e, ERR_INTERNAL, "the worker (%s) crashed (%s) while it was %s", r->job, strsignal(r->signo), at);
    else
        (void)err_set(e, ERR_INTERNAL, "the worker (%s) ended with code %d and said nothing", r->job, r->code);
    err_hint(e, "nothing is left behind: the kernel resumes a process that a dead worker held");
}

static int push_result(lua_State *L, future *f, void *arg)
{
    (void)f, (void)arg;
    run *r = check_run(L);
    err e = {0};
    if (!r) {
        (void)err_set(&e, ERR_CANCELLED, "the job was let go");
        return host_push_err(L, &e);
    }
    if (r->e.kind != ERR_NONE) return host_push_err(L, &r->e);
    if (r->code != 0) {
        explain(r, &e);
        return host_push_err(L, &e);
    }
    if (r->out_fd < 0) return luaL_error(L, "the result was taken already");
    int *box = lua_newuserdatauv(L, sizeof *box, 0); // result
    *box = -1;
    luaL_setmetatable(L, RESULT_TYPE);
    if (fcntl(r->out_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
        (void)err_sys(&e, ERR_IO, errno, "cannot seal a result");
        return host_push_err(L, &e);
    }
    *box = r->out_fd;
    r->out_fd = -1;
    return 1;
}

/* run:wait(timeout_ms?) -> result, or nil, err */
static int l_wait(lua_State *L)
{
    run *r = check_run(L);
    if (!r || !r->child) return push_result(L, NULL, NULL);
    return wait_for(L, r, &r->wait_f, forget_wait, push_result);
}

static int l_run_index(lua_State *L)
{
    const run *r = check_run(L);
    if (strcmp(luaL_checkstring(L, 2), "pid") == 0) {
        if (!r || !r->child) return 0;
        lua_pushinteger(L, loop_child_pid(r->child));
        return 1;
    }
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    return 1;
}

/* ---- results ---- */

int memory_result_fd(lua_State *L, int idx)
{
    const int *box = luaL_checkudata(L, idx, RESULT_TYPE);
    if (*box < 0) luaL_error(L, "the result is closed");
    return *box;
}

static int l_result_close(lua_State *L)
{
    int *box = luaL_checkudata(L, 1, RESULT_TYPE);
    if (*box >= 0) close(*box);
    *box = -1;
    return 0;
}

static size_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? (size_t)st.st_size : 0;
}

/* result:size() -> bytes */
static int l_result_size(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)size_of(memory_result_fd(L, 1)));
    return 1;
}

/* result:text(max_bytes?) -> text, or nil, err: all of it */
static int l_result_text(lua_State *L)
{
    int fd = memory_result_fd(L, 1);
    lua_Integer max = luaL_optinteger(L, 2, (lua_Integer)RESULT_TEXT_MAX);
    size_t n = size_of(fd), done = 0;
    err e = {0};
    if (max < 0 || n > (size_t)max) {
        (void)err_set(&e, ERR_LIMIT, "a result of %zu bytes is larger than %lld", n, (long long)max);
        return host_push_err(L, &e);
    }
    luaL_Buffer b;
    char *p = luaL_buffinitsize(L, &b, n);
    while (done < n) {
        ssize_t got = pread(fd, p + done, n - done, (off_t)done);
        if (got <= 0) break;
        done += (size_t)got;
    }
    luaL_pushresultsize(&b, done);
    return 1;
}

static const luaL_Reg RUN_METHODS[] = {
    {"progress", l_progress}, {"wait", l_wait}, {"close", l_run_close}, {NULL, NULL}};
static const luaL_Reg RUN_META[] = {{"__gc", l_run_close}, {"__close", l_run_close}, {NULL, NULL}};
static const luaL_Reg RESULT_METHODS[] = {
    {"size", l_result_size}, {"text", l_result_text}, {"close", l_result_close}, {NULL, NULL}};
static const luaL_Reg RESULT_META[] = {{"__gc", l_result_close}, {"__close", l_result_close}, {NULL, NULL}};
static int l_confines(lua_State *L)
{
    lua_pushboolean(L, confine_able());
    return 1;
}

static const luaL_Reg FUNCTIONS[] = {{"start", l_start}, {"confines", l_confines}, {NULL, NULL}};

int luaopen_lunette_memory(lua_State *L)
{
    luaL_newmetatable(L, RUN_TYPE); // meta
    luaL_setfuncs(L, RUN_META, 0);
    luaL_newlib(L, RUN_METHODS);         // meta methods
    lua_pushcclosure(L, l_run_index, 1); // meta index
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    host_type(L, RESULT_TYPE, RESULT_META, RESULT_METHODS);
    luaL_newlib(L, FUNCTIONS);
    return 1;
}
