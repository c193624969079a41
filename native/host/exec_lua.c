/* SPDX-License-Identifier: MIT */
/* exec_lua.c: loop.exec: a child process, its input and its output, as one wait. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/faces.h"
#include "host/host_internal.h"

#define EXEC_ARGS_MAX   256
#define EXEC_OUTPUT_MAX ((size_t)1 << 20) /* default for max_output: bytes kept of stdout and of stderr each */

/* One end of a pipe of ours, with its place in the loop. */
typedef struct job job;
typedef struct stream {
    job *j;
    int fd;
    loop_fd *watch;
    buf data;       /* out and err: what came; in: what is to be written */
    size_t at;      /* in: bytes written so far */
    size_t dropped; /* bytes over the cap */
} stream;

struct job {
    loop *l;
    future *f; /* our reference until the job has ended */
    loop_child *child;
    stream in, out, err;
    int64_t deadline_ns;
    int code, signal;
};

static void stream_close(stream *s)
{
    loop_fd_del(s->watch);
    s->watch = NULL;
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
}

static void job_free(void *p)
{
    job *j = (job *)p;
    stream *all[] = {&j->in, &j->out, &j->err};
    for (size_t i = 0; i < 3; i++) {
        stream_close(all[i]);
        buf_fini(&all[i]->data);
    }
    free(j);
}

static void keep(stream *s, const uint8_t *p, size_t n)
{
    size_t room = s->data.max - s->data.n;
    size_t take = n < room ? n : room;
    if (!buf_put(&s->data, p, take)) take = 0;
    s->dropped += n - take;
}

/* Reads what is there; closes at the end. */
static void on_readable(void *arg, uint32_t events)
{
    (void)events;
    stream *s = (stream *)arg;
    uint8_t chunk[16384];
    for (;;) {
        ssize_t n = read(s->fd, chunk, sizeof chunk);
        if (n > 0) {
            keep(s, chunk, (size_t)n);
            continue;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        stream_close(s);
        return;
    }
}

static void on_writable(void *arg, uint32_t events)
{
    (void)events;
    stream *s = (stream *)arg;
    while (s->at < s->data.n) {
        ssize_t n = write(s->fd, s->data.p + s->at, s->data.n - s->at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) break; /* the child does not want it */
        s->at += (size_t)n;
    }
    stream_close(s);
}

static void on_exit_status(void *arg, int exit_code, int term_signal)
{
    job *j = (job *)arg;
    future *f = j->f;
    j->child = NULL;
    j->code = exit_code;
    j->signal = term_signal;
    /* What it wrote is in the pipes by now; a grandchild that holds them open is not waited for. */
    if (j->out.fd >= 0) on_readable(&j->out, 0);
    if (j->err.fd >= 0) on_readable(&j->err, 0);
    stream_close(&j->in);
    stream_close(&j->out);
    stream_close(&j->err);
    future_resolve(f, j, job_free);
    future_unref(f);
}

/* Nobody waits any more: the child must not go on. on_exit_status then frees the job, as the future has ended already.
 */
static void on_cancel(void *owner)
{
    job *j = (job *)owner;
    if (j->child) loop_child_kill(j->child, SIGKILL);
}

/* ---- start ---- */

static int open_pipe(stream *s, bool child_reads, int *child_fd, err *e)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return err_sys(e, ERR_IO, errno, "cannot make a pipe");
    s->fd = child_reads ? fds[1] : fds[0];
    *child_fd = child_reads ? fds[0] : fds[1];
    if (fcntl(s->fd, F_SETFL, O_NONBLOCK) != 0) return err_sys(e, ERR_IO, errno, "cannot set up a pipe");
    loop_fd_fn fn = child_reads ? on_writable : on_readable;
    return loop_fd_add(s->j->l, s->fd, child_reads ? EPOLLOUT : EPOLLIN, fn, s, &s->watch, e);
}

static int job_start(job *j, const char *const *argv, err *e)
{
    int child[3] = {-1, -1, -1};
    int rc = j->in.data.n ? open_pipe(&j->in, true, &child[0], e) : 0;
    if (rc >= 0) rc = open_pipe(&j->out, false, &child[1], e);
    if (rc >= 0) rc = open_pipe(&j->err, false, &child[2], e);
    if (rc >= 0) {
        loop_child_cfg cfg = {.argv = argv,
                              .stdin_fd = child[0],
                              .stdout_fd = child[1],
                              .stderr_fd = child[2],
                              .deadline_ns = j->deadline_ns};
        rc = loop_child_start(j->l, &cfg, on_exit_status, j, &j->child, e);
    }
    for (size_t i = 0; i < 3; i++)
        if (child[i] >= 0) close(child[i]);
    return rc;
}

/* A program without a slash is looked for in PATH. Pushes the path; NULL when it is nowhere. */
const char *loop_lua__push_program(lua_State *L, const char *name)
{
    if (strchr(name, '/')) return lua_pushstring(L, name);
    const char *dirs = getenv("PATH");
    for (const char *p = dirs ? dirs : "/usr/bin:/bin"; *p;) {
        size_t n = strcspn(p, ":");
        lua_pushlstring(L, p, n);                                                  // … dir
        const char *path = lua_pushfstring(L, "%s/%s", lua_tostring(L, -1), name); // … dir path
        lua_remove(L, -2);                                                         // … path
        if (n && access(path, X_OK) == 0) return path;
        lua_pop(L, 1); // …
        p += n + (p[n] == ':');
    }
    return NULL;
}

/* Pushes a block that holds the argument vector; the strings are borrowed from the table's. NULL: argv[0] is nowhere.
 */
static const char **push_argv(lua_State *L)
{
    lua_getfield(L, 1, "argv"); // opts … argv
    luaL_argcheck(L, lua_istable(L, -1), 1, "argv must be a list");
    int list = lua_gettop(L);
    lua_Integer n = luaL_len(L, list);
    luaL_argcheck(L, n >= 1 && n <= EXEC_ARGS_MAX, 1, "argv must have from 1 to 256 elements");
    const char **argv = (const char **)host_box(L, ((size_t)n + 1) * sizeof *argv); // … argv box
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, list, i); // … argv box arg
        luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, 1, "argv must be a list of strings");
        argv[i - 1] = lua_tostring(L, -1); //            alive as long as the list
        lua_pop(L, 1);                     // … argv box
    }
    argv[n] = NULL;
    const char *program = loop_lua__push_program(L, argv[0]); // … argv box program
    if (!program) return NULL;
    argv[0] = program;
    return argv;
}

static int push_result(lua_State *L, future *f, void *arg)
{
    (void)arg;
    job **box = (job **)lua_touserdata(L, 2); // opts box …
    job *j = *box = (job *)future_take(f);
    lua_createtable(L, 0, 5); // opts box … result
    lua_pushinteger(L, j->code);
    if (j->code < 0) {
        lua_pop(L, 1);
        lua_pushinteger(L, j->signal);
    }
    lua_setfield(L, -2, j->code < 0 ? "signal" : "code");
    lua_pushlstring(L, (const char *)j->out.data.p, j->out.data.n);
    lua_setfield(L, -2, "stdout");
    lua_pushlstring(L, (const char *)j->err.data.p, j->err.data.n);
    lua_setfield(L, -2, "stderr");
    if (j->out.dropped + j->err.dropped) {
        lua_pushinteger(L, (lua_Integer)j->out.dropped + (lua_Integer)j->err.dropped);
        lua_setfield(L, -2, "dropped_bytes");
    }
    if (j->code < 0 && mono_ns() >= j->deadline_ns) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, "timed_out");
    }
    *box = NULL;
    job_free(j);
    return 1;
}

static int l_box_gc(lua_State *L)
{
    job **box = (job **)lua_touserdata(L, 1);
    if (*box) job_free(*box);
    *box = NULL;
    return 0;
}

/* A job that owns nothing yet, or NULL without memory. Pushes the box that owns it. */
static job *push_job(lua_State *L)
{
    job **box = (job **)lua_newuserdatauv(L, sizeof *box, 0); // … box
    *box = NULL;
    if (luaL_newmetatable(L, "lunette.exec")) { // … box mt
        lua_pushcfunction(L, l_box_gc);         // … box mt fn
        lua_setfield(L, -2, "__gc");            // … box mt
    }
    lua_setmetatable(L, -2); // … box
    job *j = *box = (job *)mem_calloc(1, sizeof *j);
    if (!j) return NULL;
    j->in.fd = j->out.fd = j->err.fd = -1;
    j->in.j = j->out.j = j->err.j = j;
    j->l = host_loop(L);
    return j;
}

/* loop.exec{argv=, stdin=?, timeout_ms=?, max_output=?} -> {code=|signal=, stdout=, stderr=, dropped_bytes=?,
 * timed_out=?}, or nil, err */
int loop_lua__exec(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);     // opts
    job *j = push_job(L); // opts box
    if (!j) return luaL_error(L, "not enough memory");
    job **box = (job **)lua_touserdata(L, 2);
    lua_getfield(L, 1, "max_output"); // opts box max
    size_t max = (size_t)luaL_optinteger(L, -1, (lua_Integer)EXEC_OUTPUT_MAX);
    luaL_argcheck(L, max >= 1 && max <= BUF_MAX_DEFAULT, 1, "max_output must be from 1 to 268435456");
    lua_getfield(L, 1, "timeout_ms"); // opts box max timeout
    j->deadline_ns = deadline_in_ms(luaL_optinteger(L, -1, -1));
    lua_getfield(L, 1, "stdin"); // opts box max timeout stdin
    size_t n_in = 0;
    const char *input = luaL_optlstring(L, -1, "", &n_in);
    buf_init(&j->in.data, 0);
    buf_init(&j->out.data, max);
    buf_init(&j->err.data, max);
    if (!buf_put(&j->in.data, input, n_in)) return luaL_error(L, "not enough memory");
    err e = {0};
    const char **argv = push_argv(L); // …
    if (!argv) {
        err_set(&e, ERR_NOT_FOUND, "no such program in PATH");
        return host_push_err(L, &e);
    }
    j->f = future_new(j->l, on_cancel, j);
    if (!j->f) return luaL_error(L, "not enough memory");
    if (job_start(j, argv, &e) < 0) {
        future_unref(j->f);
        return host_push_err(L, &e);
    }
    *box = NULL; // from here on the loop's callbacks own the job
    return host_await(L, future_ref(j->f), -1, push_result, NULL);
}
