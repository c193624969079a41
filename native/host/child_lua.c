/* SPDX-License-Identifier: MIT */
/* child_lua.c: loop.child: a child process that lives on beside its task: its output line by line, its end, signals.
 * Userdata, born closed; closing kills. The C record lives until both Lua and the process are done with it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/faces.h"
#include "host/host_internal.h"

#define CHILD_TYPE      "lunette.child"
#define CHILD_ARGS_MAX  4096
#define CHILD_ENV_MAX   1024
#define LINE_MAX_BYTES  4096 /* of a line; what is longer is cut, and says so */
#define QUEUE_MAX_LINES 1024 /* not yet asked for; further lines are dropped and counted */
#define READ_CHUNKS     16   /* chunks of 16 KiB read of a stream before others get their turn */

extern char **environ;

typedef struct line {
    struct line *next;
    bool is_err, cut;
    size_t n;
    char text[];
} line;

typedef struct child_rec child_rec;
typedef struct stream {
    child_rec *c;
    int fd;
    loop_fd *watch;
    char partial[LINE_MAX_BYTES];
    size_t n;
    bool cut;
} stream;

struct child_rec {
    loop *l;
    loop_child *child; /* NULL once it has ended */
    pid_t pid;
    bool held; /* by Lua */
    int code, signo;
    stream out, err;
    line *head, **tail;
    size_t n_lines, dropped;
    future *line_f, *wait_f; /* whoever waits */
};

/* ---- lines ------------------------------------------------------------------------------------------------------- */
static void finish(future **f)
{
    future *was = *f;
    *f = NULL;
    if (!was) return;
    future_resolve(was, NULL, NULL);
    future_unref(was);
}

static void line_end(stream *s)
{
    child_rec *c = s->c;
    line *l = c->n_lines < QUEUE_MAX_LINES ? mem_alloc(sizeof *l + s->n) : NULL;
    if (l) {
        *l = (line){.is_err = s == &c->err, .cut = s->cut, .n = s->n};
        memcpy(l->text, s->partial, s->n);
        *c->tail = l;
        c->tail = &l->next;
        c->n_lines++;
        finish(&c->line_f);
    } else
        c->dropped++;
    s->n = 0;
    s->cut = false;
}

static void feed(stream *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n') {
            if (s->n > 0 && s->partial[s->n - 1] == '\r') s->n--;
            line_end(s);
        } else if (s->n < sizeof s->partial)
            s->partial[s->n++] = p[i];
        else
            s->cut = true;
    }
}

static void stream_close(stream *s)
{
    if (s->fd < 0) return;
    loop_fd_del(s->watch);
    s->watch = NULL;
    close(s->fd);
    s->fd = -1;
    if (s->n > 0) line_end(s); /* the last one without its end */
}

static bool streams_open(const child_rec *c) { return c->out.fd >= 0 || c->err.fd >= 0; }

static void on_readable(void *arg, uint32_t events)
{
    (void)events;
    stream *s = arg;
    char chunk[16384];
    for (int i = 0; i < READ_CHUNKS; i++) {
        ssize_t n = read(s->fd, chunk, sizeof chunk);
        if (n > 0) {
            feed(s, chunk, (size_t)n);
            continue;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        stream_close(s);
        if (!streams_open(s->c)) finish(&s->c->line_f);
        return;
    }
}

/* ---- life -------------------------------------------------------------------------------------------------------- */
static void rec_free(child_rec *c)
{
    if (c->held || c->child) return;
    stream_close(&c->out);
    stream_close(&c->err);
    while (c->head) {
        line *next = c->head->next;
        free(c->head);
        c->head = next;
    }
    free(c);
}

static void on_ended(void *arg, int code, int signo)
{
    child_rec *c = arg;
    c->child = NULL;
    c->code = code;
    c->signo = signo;
    /* What it wrote is in the pipes by now; a grandchild that holds them open is not waited for. */
    if (c->out.fd >= 0) on_readable(&c->out, 0);
    if (c->err.fd >= 0) on_readable(&c->err, 0);
    stream_close(&c->out);
    stream_close(&c->err);
    finish(&c->line_f);
    finish(&c->wait_f);
    rec_free(c);
}

static int l_close(lua_State *L)
{
    child_rec **box = luaL_checkudata(L, 1, CHILD_TYPE);
    child_rec *c = *box;
    *box = NULL;
    if (!c) return 0;
    c->held = false;
    finish(&c->line_f);
    finish(&c->wait_f);
    loop_child_kill(c->child, SIGKILL);
    rec_free(c);
    return 0;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */
/* The list of texts on the stack's top as a NULL-terminated vector; the texts must stay on the list. */
static const char **push_vector(lua_State *L, lua_Integer max, const char *what)
{
    int list = lua_gettop(L);
    luaL_argcheck(L, lua_istable(L, list), 1, what);
    lua_Integer n = luaL_len(L, list);
    if (n < 0 || n > max) luaL_error(L, "loop.child: %s: at most %I", what, (LUAI_UACINT)max);
    const char **v = host_box(L, ((size_t)n + 1) * sizeof *v); // … list box
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, list, i); // … list box text
        if (lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "loop.child: %s", what);
        v[i - 1] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    v[n] = NULL;
    return v;
}

static bool changes(lua_State *L, int env, const char *variable)
{
    const char *eq = strchr(variable, '=');
    lua_pushlstring(L, variable, eq ? (size_t)(eq - variable) : strlen(variable)); // name
    bool is = lua_rawget(L, env) != LUA_TNIL;
    lua_pop(L, 1);
    return is;
}

/* Our environment with the changes of the table at env: NAME = text, or false to leave it out. */
static const char **push_environment(lua_State *L, int env)
{
    lua_newtable(L); // … list
    lua_Integer n = 0;
    for (char **v = environ; *v; v++) {
        if (changes(L, env, *v)) continue;
        lua_pushstring(L, *v);
        lua_rawseti(L, -2, ++n);
    }
    lua_pushnil(L);
    while (lua_next(L, env)) { // … list name value
        if (lua_type(L, -2) != LUA_TSTRING || (!lua_isstring(L, -1) && lua_toboolean(L, -1)))
            luaL_error(L, "loop.child: env must map names to texts, or to false");
        if (lua_isstring(L, -1)) {
            lua_pushfstring(L, "%s=%s", lua_tostring(L, -2), lua_tostring(L, -1)); // … list name value text
            lua_rawseti(L, -4, ++n);                                               // … list name value
        }
        lua_pop(L, 1); // … list name
    }
    return push_vector(L, n, "env has too many variables"); // … list box
}

/* What a stream is: "null", "inherit" or "lines". */
typedef enum source { FROM_NULL, INHERIT, LINES } source;
static source stream_option(lua_State *L, const char *key)
{
    static const char *const names[] = {"null", "inherit", "lines", NULL};
    lua_getfield(L, 1, key);
    source s = (source)luaL_checkoption(L, -1, "null", names);
    lua_pop(L, 1);
    return s;
}

static int open_lines(stream *s, int *child_fd, err *e)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return err_sys(e, ERR_IO, errno, "cannot make a pipe");
    s->fd = fds[0];
    *child_fd = fds[1];
    if (fcntl(s->fd, F_SETFL, O_NONBLOCK) != 0) return err_sys(e, ERR_IO, errno, "cannot set up a pipe");
    return loop_fd_add(s->c->l, s->fd, EPOLLIN, on_readable, s, &s->watch, e);
}

/* A standard descriptor to hand on; -1 when it is closed, which the child gets as /dev/null. */
static int standard(int fd) { return fcntl(fd, F_GETFD) < 0 ? -1 : fd; }

static int start(child_rec *c, loop_child_cfg *cfg, source in, source out, source error, err *e)
{
    int pipes[2] = {-1, -1}, rc = 0;
    if (out == LINES) rc = open_lines(&c->out, &pipes[0], e);
    if (rc >= 0 && error == LINES) rc = open_lines(&c->err, &pipes[1], e);
    int null = rc >= 0 && error == FROM_NULL ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    cfg->stdin_fd = in == INHERIT ? standard(STDIN_FILENO) : -1;
    cfg->stdout_fd = out == INHERIT ? standard(STDOUT_FILENO) : pipes[0];
    cfg->stderr_fd = error == LINES ? pipes[1] : null;
    if (rc >= 0) rc = loop_child_start(c->l, cfg, on_ended, c, &c->child, e);
    if (rc >= 0) c->pid = loop_child_pid(c->child);
    for (int i = 0; i < 2; i++)
        if (pipes[i] >= 0) close(pipes[i]);
    if (null >= 0) close(null);
    return rc;
}

static bool flag(lua_State *L, const char *key)
{
    lua_getfield(L, 1, key);
    bool is = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return is;
}

/* loop.child{argv=, env=?, cwd=?, stdin=?, stdout=?, stderr=?, group=?, dies_with_us=?} -> child, or nil, err */
int loop_lua__child(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    child_rec **box = lua_newuserdatauv(L, sizeof *box, 0); // opts child
    *box = NULL;
    luaL_setmetatable(L, CHILD_TYPE);
    child_rec *c = *box = mem_calloc(1, sizeof *c);
    if (!c) return luaL_error(L, "not enough memory");
    c->l = host_loop(L);
    c->held = true;
    c->tail = &c->head;
    c->out.fd = c->err.fd = -1;
    c->out.c = c->err.c = c;
    loop_child_cfg cfg = {
        .deadline_ns = DEADLINE_NEVER, .own_group = flag(L, "group"), .dies_with_us = flag(L, "dies_with_us")};
    source in = stream_option(L, "stdin"), out = stream_option(L, "stdout"), error = stream_option(L, "stderr");
    luaL_argcheck(L, in != LINES, 1, "stdin is \"null\" or \"inherit\"");
    lua_getfield(L, 1, "cwd"); // … cwd
    cfg.cwd = luaL_optstring(L, -1, NULL);
    if (lua_getfield(L, 1, "env") == LUA_TTABLE) cfg.envp = push_environment(L, lua_gettop(L));
    lua_getfield(L, 1, "argv");
    const char **argv = push_vector(L, CHILD_ARGS_MAX, "argv must be a list of texts");
    luaL_argcheck(L, argv[0], 1, "argv is empty");
    err e = {0};
    const char *program = loop_lua__push_program(L, argv[0]);
    if (!program) {
        (void)err_set(&e, ERR_NOT_FOUND, "there is no program %s in PATH", argv[0]);
        return host_push_err(L, &e);
    }
    argv[0] = program;
    cfg.argv = argv;
    if (start(c, &cfg, in, out, error, &e) < 0) return host_push_err(L, &e);
    lua_pushvalue(L, 2);
    return 1;
}

/* ---- methods ----------------------------------------------------------------------------------------------------- */
static child_rec *check(lua_State *L) { return *(child_rec **)luaL_checkudata(L, 1, CHILD_TYPE); }

static int push_gone(lua_State *L, const char *why)
{
    err e = {0};
    (void)err_set(&e, ERR_NOT_FOUND, "%s", why);
    return host_push_err(L, &e);
}

static int push_line(lua_State *L, future *f, void *arg)
{
    (void)f;
    (void)arg;
    child_rec *c = check(L);
    if (!c) return push_gone(L, "the child was let go");
    line *l = c->head;
    if (!l) return push_gone(L, "the output has ended");
    lua_createtable(L, 0, 3);                           // line
    lua_pushlstring(L, l->text, l->n);                  // line text
    lua_setfield(L, -2, "text");                        // line
    lua_pushstring(L, l->is_err ? "stderr" : "stdout"); // line stream
    lua_setfield(L, -2, "stream");                      // line
    if (l->cut) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, "cut");
    }
    c->head = l->next;
    if (!c->head) c->tail = &c->head;
    c->n_lines--;
    free(l);
    return 1;
}

static int push_end(lua_State *L, future *f, void *arg)
{
    (void)f;
    (void)arg;
    const child_rec *c = check(L);
    if (!c) return push_gone(L, "the child was let go");
    lua_createtable(L, 0, 1); // end
    lua_pushinteger(L, c->code >= 0 ? c->code : c->signo);
    lua_setfield(L, -2, c->code >= 0 ? "code" : "signal");
    return 1;
}

static void forget_line(void *owner)
{
    child_rec *c = owner;
    future_unref(c->line_f);
    c->line_f = NULL;
}

static void forget_wait(void *owner)
{
    child_rec *c = owner;
    future_unref(c->wait_f);
    c->wait_f = NULL;
}

/* Waits by *place, which one task at a time may. */
static int wait_for(lua_State *L, child_rec *c, future **place, void (*forget)(void *), host_push_fn push)
{
    lua_Integer ms = luaL_optinteger(L, 2, -1);
    luaL_argcheck(L, ms <= INT32_MAX, 2, "too long");
    if (*place) return luaL_error(L, "another task waits for this already");
    *place = future_new(c->l, forget, c);
    if (!*place) return luaL_error(L, "not enough memory");
    return host_await(L, future_ref(*place), (int)ms, push, NULL);
}

/* child:line(timeout_ms?) */
static int l_line(lua_State *L)
{
    child_rec *c = check(L);
    if (!c || c->head || !streams_open(c)) return push_line(L, NULL, NULL);
    return wait_for(L, c, &c->line_f, forget_line, push_line);
}

/* child:wait(timeout_ms?) */
static int l_wait(lua_State *L)
{
    child_rec *c = check(L);
    if (!c || !c->child) return push_end(L, NULL, NULL);
    return wait_for(L, c, &c->wait_f, forget_wait, push_end);
}

/* child:kill(name): to its group when it leads one. */
static int l_kill(lua_State *L)
{
    static const char *const names[] = {"TERM", "KILL", "INT", "HUP", "QUIT", NULL};
    static const int numbers[] = {SIGTERM, SIGKILL, SIGINT, SIGHUP, SIGQUIT};
    child_rec *c = check(L);
    int which = luaL_checkoption(L, 2, "TERM", names);
    if (c) loop_child_kill(c->child, numbers[which]);
    return 0;
}

/* child:dropped(): lines that nobody took in time. */
static int l_dropped(lua_State *L)
{
    const child_rec *c = check(L);
    lua_pushinteger(L, c ? (lua_Integer)c->dropped : 0);
    return 1;
}

/* child.pid, else a method. */
static int l_index(lua_State *L)
{
    const child_rec *c = check(L);
    const char *key = luaL_checkstring(L, 2);
    if (strcmp(key, "pid") == 0) {
        if (!c) return 0;
        lua_pushinteger(L, c->pid);
        return 1;
    }
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    return 1;
}

void loop_lua__children(lua_State *L)
{
    static const luaL_Reg methods[] = {{"line", l_line},       {"wait", l_wait},   {"kill", l_kill},
                                       {"dropped", l_dropped}, {"close", l_close}, {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
    luaL_newmetatable(L, CHILD_TYPE); // … meta
    luaL_setfuncs(L, meta, 0);
    luaL_newlib(L, methods);         // … meta methods
    lua_pushcclosure(L, l_index, 1); // … meta index
    lua_setfield(L, -2, "__index");  // … meta
    lua_pop(L, 1);                   // …
}
