/* SPDX-License-Identifier: MIT */
/* watch_lua.c: the Lua face `lunette.watch`: tells that something changed in some folders, by inotify(7). What changed
 * is not told: whoever asks looks again. So ten thousand events cost as little as one, and none can be missed. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/faces.h"
#include "host/host_internal.h"

#define WATCH_TYPE      "lunette.watch"
#define WATCH_MAX       4096 /* folders of one watch */
#define WATCH_OPEN_MAX  64   /* files that are being written, as far as they are told apart */
#define WATCH_READS_MAX 16   /* buffers of events read in one turn of the loop */
#define WATCH_MASK                                                                                                     \
    (IN_CREATE | IN_DELETE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF |   \
     IN_MOVE_SELF | IN_ONLYDIR)

typedef struct folder {
    int wd;
    char *name; /* only what happens to this name counts; NULL: everything */
} folder;

typedef struct watch {
    loop *l;
    int fd; /* -1: closed */
    loop_fd *ready;
    folder *folders;
    size_t n_folders;
    future *waiting;                  /* ours, too */
    uint64_t writing[WATCH_OPEN_MAX]; /* hashes of files that were changed and not closed yet */
    size_t n_writing;
    uint64_t events; /* that counted since they were last asked for */
    bool overflow;   /* the kernel's queue was full: anything may have happened */
} watch;

static watch *check_watch(lua_State *L)
{
    watch *w = (watch *)luaL_checkudata(L, 1, WATCH_TYPE);
    if (w->fd < 0) luaL_error(L, "the watch is closed");
    return w;
}

static int push_errno(lua_State *L, int sys, const char *what, const char *path)
{
    err_kind kind = sys == ENOENT || sys == ENOTDIR  ? ERR_NOT_FOUND
                    : sys == EACCES                  ? ERR_PERMISSION_DENIED
                    : sys == ENOSPC || sys == EMFILE ? ERR_LIMIT
                                                     : ERR_IO;
    err e = {0};
    err_sys(&e, kind, sys, "cannot %s %s", what, path);
    return host_push_err(L, &e);
}

static bool counts(const watch *w, const struct inotify_event *ev)
{
    if (ev->mask & IN_Q_OVERFLOW) return true;
    for (size_t i = 0; i < w->n_folders; i++) {
        const folder *f = &w->folders[i];
        if (f->wd != ev->wd) continue;
        if (!f->name || (ev->len > 0 && strcmp(f->name, ev->name) == 0)) return true;
    }
    return false;
}

/* Which files are half written: changed, and not closed since. */
static void note_writing(watch *w, const struct inotify_event *ev)
{
    if (ev->len == 0) return;
    slice name = {(const uint8_t *)ev->name, strlen(ev->name)};
    uint64_t key = hash_bytes(name, (uint64_t)(uint32_t)ev->wd);
    size_t i = 0;
    while (i < w->n_writing && w->writing[i] != key)
        i++;
    if (ev->mask & IN_MODIFY) {
        if (i == w->n_writing && i < WATCH_OPEN_MAX) w->writing[w->n_writing++] = key;
    } else if (ev->mask & (IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)) {
        if (i < w->n_writing) w->writing[i] = w->writing[--w->n_writing];
    }
}

static void take_events(watch *w, const char *buffer, size_t n)
{
    for (size_t at = 0; at + sizeof(struct inotify_event) <= n;) {
        const struct inotify_event *ev = (const struct inotify_event *)(const void *)(buffer + at);
        at += sizeof *ev + ev->len;
        if (!counts(w, ev)) continue;
        w->events++;
        if (ev->mask & IN_Q_OVERFLOW) {
            w->overflow = true;
            w->n_writing = 0;
        } else {
            note_writing(w, ev);
        }
    }
}

static void on_ready(void *arg, uint32_t events)
{
    (void)events;
    watch *w = (watch *)arg;
    _Alignas(struct inotify_event) char buffer[16384];
    for (int i = 0; i < WATCH_READS_MAX; i++) {
        ssize_t n = read(w->fd, buffer, sizeof buffer);
        if (n <= 0) break;
        take_events(w, buffer, (size_t)n);
    }
    if (w->events == 0 || !w->waiting) return;
    future *f = w->waiting;
    w->waiting = NULL;
    future_resolve(f, NULL, NULL);
    future_unref(f);
}

/* watch.new() -> watch, or nil, err */
static int l_new(lua_State *L)
{
    watch *w = (watch *)lua_newuserdatauv(L, sizeof *w, 0); // w
    *w = (watch){.fd = -1, .l = host_loop(L)};
    luaL_setmetatable(L, WATCH_TYPE);
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd < 0) return push_errno(L, errno, "begin", "to watch folders");
    err e = {0};
    if (loop_fd_add(w->l, w->fd, EPOLLIN, on_ready, w, &w->ready, &e) < 0) {
        close(w->fd);
        w->fd = -1;
        return host_push_err(L, &e);
    }
    return 1;
}

static folder *find_folder(watch *w, int wd, const char *name)
{
    for (size_t i = 0; i < w->n_folders; i++) {
        folder *f = &w->folders[i];
        if (f->wd == wd && (f->name == NULL) == (name == NULL) && (!name || strcmp(f->name, name) == 0)) return f;
    }
    return NULL;
}

/* w:add(folder, name?) -> id, or nil, err. The same folder gives the same id. */
static int l_add(lua_State *L)
{
    watch *w = check_watch(L);
    const char *path = luaL_checkstring(L, 2);
    const char *name = luaL_optstring(L, 3, NULL);
    int wd = inotify_add_watch(w->fd, path, WATCH_MASK);
    if (wd < 0) return push_errno(L, errno, "watch", path);
    if (!find_folder(w, wd, name)) {
        folder *all =
            w->n_folders < WATCH_MAX ? (folder *)mem_realloc(w->folders, (w->n_folders + 1) * sizeof *all) : NULL;
        char *copy = all && name ? strdup(name) : NULL;
        if (all) w->folders = all;
        if (!all || (name && !copy)) return push_errno(L, ENOSPC, "watch", path);
        w->folders[w->n_folders++] = (folder){.wd = wd, .name = copy};
    }
    lua_pushinteger(L, wd);
    return 1;
}

static bool is_kept(lua_State *L, int wd)
{
    lua_rawgeti(L, 2, wd); // w ids kept
    bool kept = lua_toboolean(L, -1);
    lua_pop(L, 1); // w ids
    return kept;
}

/* w:keep(ids): lets go of all folders whose id is not a key of the table. */
static int l_keep(lua_State *L)
{
    watch *w = check_watch(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    size_t n = 0;
    for (size_t i = 0; i < w->n_folders; i++) {
        folder f = w->folders[i];
        if (is_kept(L, f.wd)) {
            w->folders[n++] = f;
        } else {
            (void)inotify_rm_watch(w->fd, f.wd); /* fails when the folder is gone, or was let go of already */
            free(f.name);
        }
    }
    w->n_folders = n;
    return 0;
}

static int push_changes(lua_State *L, future *f, void *arg)
{
    (void)f;
    (void)arg;
    watch *w = (watch *)lua_touserdata(L, 1);
    lua_createtable(L, 0, 3);                      // … changes
    lua_pushinteger(L, (lua_Integer)w->events);    // … changes n
    lua_setfield(L, -2, "events");                 // … changes
    lua_pushinteger(L, (lua_Integer)w->n_writing); // … changes n
    lua_setfield(L, -2, "writing");                // … changes
    lua_pushboolean(L, w->overflow);               // … changes overflow
    lua_setfield(L, -2, "overflow");               // … changes
    w->events = 0;
    w->overflow = false;
    return 1;
}

static void stop_waiting(void *owner)
{
    watch *w = (watch *)owner;
    future *f = w->waiting;
    w->waiting = NULL;
    future_unref(f);
}

/* w:next(timeout_ms?) -> { events, writing, overflow }, or nil, err (Timeout, Cancelled) */
static int l_next(lua_State *L)
{
    watch *w = check_watch(L);
    int timeout = (int)luaL_optinteger(L, 2, -1);
    lua_settop(L, 1);
    if (w->events > 0) return push_changes(L, NULL, NULL);
    if (w->waiting) return luaL_error(L, "somebody waits for this watch already");
    w->waiting = future_new(w->l, stop_waiting, w);
    if (!w->waiting) return luaL_error(L, "not enough memory");
    return host_await(L, future_ref(w->waiting), timeout, push_changes, NULL);
}

/* w:close(): idempotent; who waits gets NotFound. */
static int l_close(lua_State *L)
{
    watch *w = (watch *)luaL_checkudata(L, 1, WATCH_TYPE);
    if (w->fd < 0) return 0;
    loop_fd_del(w->ready);
    close(w->fd);
    w->fd = -1;
    for (size_t i = 0; i < w->n_folders; i++)
        free(w->folders[i].name);
    free(w->folders);
    w->folders = NULL;
    w->n_folders = 0;
    future *f = w->waiting;
    w->waiting = NULL;
    if (f) {
        err e = {0};
        err_set(&e, ERR_NOT_FOUND, "the watch was closed");
        future_fail(f, &e);
        future_unref(f);
    }
    return 0;
}

static const luaL_Reg WATCH_METHODS[] = {
    {"add", l_add}, {"keep", l_keep}, {"next", l_next}, {"close", l_close}, {NULL, NULL}};

int luaopen_lunette_watch(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
    host_type(L, WATCH_TYPE, meta, WATCH_METHODS);
    lua_newtable(L);             // watch
    lua_pushcfunction(L, l_new); // watch fn
    lua_setfield(L, -2, "new");  // watch
    return 1;
}
