/* SPDX-License-Identifier: MIT */
/* artifacts_lua.c: the Lua face `lunette.artifacts` (docs/native-api.md): files below the artifact root, and the folder
 * into which a target writes one. Everything that touches a disk runs on a worker thread while its task waits. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "artifacts/artifacts.h"
#include "host/job.h"

#define STAGE_TYPE "lunette.artifacts.stage"
#define NAMES_MAX  8 /* folders to try, files to remove */

int luaopen_lunette_artifacts(lua_State *L);

/* A stage that jobs may be using: counted on the loop's thread only. */
typedef struct shared {
    int refs;
    char *root, *folder;
    char *files[NAMES_MAX + 1]; /* to remove at the end, NULL-terminated */
    art_stage s;
} shared;

typedef enum job_op { JOB_LIST, JOB_READ, JOB_READ_OF, JOB_REMOVE, JOB_FREE, JOB_STAGE, JOB_TAKE, JOB_WRITE } job_op;
typedef struct job {
    host_job job;
    job_op op;
    pid_t pid;
    uid_t uid;
    char *root, *name, *to;
    char *folders[NAMES_MAX + 1];
    int64_t offset, limit;
    size_t max;
    buf data; /* to write */
    /* results */
    art_list list;
    art_piece piece;
    art_info info;
    bool copied;
    int64_t bytes;
    shared *stage;
} job;

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void shared_unref(shared *s)
{
    if (!s || --s->refs > 0) return;
    art_stage_close(&s->s, (const char *const *)s->files);
    for (size_t i = 0; s->files[i]; i++)
        free(s->files[i]);
    free(s->root);
    free(s->folder);
    free(s);
}

static void job_fini(void *arg)
{
    job *j = arg;
    free(j->root);
    free(j->name);
    free(j->to);
    for (size_t i = 0; j->folders[i]; i++)
        free(j->folders[i]);
    art_list_fini(&j->list);
    art_piece_fini(&j->piece);
    buf_fini(&j->data);
    shared_unref(j->stage);
}

/* ---- on a worker thread ------------------------------------------------------------------------------------------ */
static int read_piece(job *j, int fd)
{
    if (fd < 0) return fd;
    int rc = art_read(fd, j->offset, j->max, j->limit, &j->piece, &j->job.e);
    close(fd);
    return rc;
}

static int open_stage(job *j, int root)
{
    int rc = art_stage_direct(j->pid, j->uid, j->root, root, j->name, &j->stage->s, &j->job.e);
    if (rc != 0) return rc;
    return art_stage_open(j->pid, j->uid, (const char *const *)j->folders, &j->stage->s, &j->job.e);
}

static int take(job *j, int root)
{
    int dest = art_folder(root, j->stage->folder, &j->job.e);
    if (dest < 0) return dest;
    int rc = art_stage_take(&j->stage->s, j->name, dest, j->to, &j->info, &j->copied, &j->job.e);
    close(dest);
    return rc;
}

static int below_root(job *j)
{
    int root = art_root(j->op == JOB_TAKE ? j->stage->root : j->root, &j->job.e);
    if (root < 0) return root;
    int rc = 0;
    switch (j->op) {
    case JOB_LIST: rc = art_list_files(root, &j->list, &j->job.e); break;
    case JOB_READ: rc = read_piece(j, art_open(root, j->name, &j->job.e)); break;
    case JOB_REMOVE: rc = art_remove(root, j->name, &j->info, &j->job.e); break;
    case JOB_FREE: j->bytes = art_free_bytes(root); break;
    case JOB_STAGE: rc = open_stage(j, root); break;
    case JOB_TAKE: rc = take(j, root); break;
    case JOB_WRITE: rc = art_write(root, j->name, j->data.p, j->data.n, &j->job.e); break;
    case JOB_READ_OF: break;
    }
    close(root);
    return rc;
}

static int job_work(void *arg)
{
    job *j = arg;
    return j->op == JOB_READ_OF ? read_piece(j, art_open_of(j->pid, j->name, &j->job.e)) : below_root(j);
}

static void push_info(lua_State *L, const art_info *i)
{
    lua_createtable(L, 0, 4); // info
    host_set_int(L, "size", i->size);
    host_set_int(L, "mtime_ns", i->mtime_ns);
}

static void push_list(lua_State *L, const art_list *l)
{
    lua_createtable(L, (int)l->n, 1); // list
    for (size_t i = 0; i < l->n; i++) {
        push_info(L, &l->items[i].info);        // list info
        lua_pushstring(L, l->items[i].name);    // list info name
        lua_setfield(L, -2, "name");            // list info
        lua_rawseti(L, -2, (lua_Integer)i + 1); // list
    }
    if (l->dropped) host_set_count(L, "dropped", l->dropped);
}

static void push_piece(lua_State *L, const art_piece *p)
{
    lua_createtable(L, 0, 3); // piece
    host_set_int(L, "size", p->size);
    lua_pushstring(L, p->sha256);                                               // piece sha256
    lua_setfield(L, -2, "sha256");                                              // piece
    lua_pushlstring(L, p->bytes.n ? (const char *)p->bytes.p : "", p->bytes.n); // piece bytes
    lua_setfield(L, -2, "bytes");                                               // piece
}

/* The stage as Lua has it: a box with the shared one, and a table of what does not change beside it. */
static void push_stage(lua_State *L, job *j)
{
    shared **box = lua_newuserdatauv(L, sizeof(shared *), 1); // stage
    *box = NULL;
    luaL_setmetatable(L, STAGE_TYPE);
    lua_createtable(L, 0, 3);            // stage facts
    lua_pushstring(L, j->stage->s.path); // stage facts path
    lua_setfield(L, -2, "path");         // stage facts
    host_set_bool(L, "direct", j->stage->s.direct);
    if (j->stage->s.free_bytes >= 0) host_set_int(L, "free_bytes", j->stage->s.free_bytes);
    lua_setiuservalue(L, -2, 1); // stage
    *box = j->stage;
    j->stage = NULL;
}

static int push_job(lua_State *L, void *p)
{
    job *j = p;
    switch (j->op) {
    case JOB_LIST: push_list(L, &j->list); break;
    case JOB_READ:
    case JOB_READ_OF: push_piece(L, &j->piece); break;
    case JOB_REMOVE: push_info(L, &j->info); break;
    case JOB_FREE:
        if (j->bytes < 0)
            lua_pushnil(L);
        else
            lua_pushinteger(L, j->bytes);
        break;
    case JOB_STAGE: push_stage(L, j); break;
    case JOB_WRITE: lua_pushboolean(L, 1); break;
    case JOB_TAKE:
        push_info(L, &j->info);
        host_set_bool(L, "copied", j->copied);
        break;
    } // result
    return 1;
}

static job *l_new_job(lua_State *L, job_op op)
{
    static const host_job_class touching = {.work = job_work, .push = push_job, .fini = job_fini};
    job *j = host_job_new(L, sizeof *j, &touching); // … box
    j->op = op;
    return j;
}

/* A text without a NUL inside, on the heap: it belongs to a boxed job. Throws. */
static char *l_dup(lua_State *L, int idx)
{
    size_t n;
    const char *s = luaL_checklstring(L, idx, &n);
    luaL_argcheck(L, strlen(s) == n, idx, "must not hold a NUL");
    char *copy = slice_dup(slice_of(s, n));
    if (!copy) luaL_error(L, "not enough memory");
    return copy;
}

static pid_t check_pid(lua_State *L, int idx)
{
    lua_Integer pid = luaL_checkinteger(L, idx);
    luaL_argcheck(L, pid >= 1 && pid <= INT32_MAX, idx, "a process id is between 1 and 2147483647");
    return (pid_t)pid;
}

/* artifacts.list(root) */
static int l_list(lua_State *L)
{
    job *j = l_new_job(L, JOB_LIST);
    j->root = l_dup(L, 1);
    return host_job_run(L, j);
}

/* artifacts.free(root) -> bytes, or nil when not known */
static int l_free(lua_State *L)
{
    job *j = l_new_job(L, JOB_FREE);
    j->root = l_dup(L, 1);
    return host_job_run(L, j);
}

/* artifacts.remove(root, name) */
static int l_remove(lua_State *L)
{
    job *j = l_new_job(L, JOB_REMOVE);
    j->root = l_dup(L, 1);
    j->name = l_dup(L, 2);
    return host_job_run(L, j);
}

/* artifacts.write(root, name, data) -> true */
static int l_write(lua_State *L)
{
    size_t n;
    const char *data = luaL_checklstring(L, 3, &n);
    job *j = l_new_job(L, JOB_WRITE);
    j->root = l_dup(L, 1);
    j->name = l_dup(L, 2);
    buf_init(&j->data, n + 1);
    if (!buf_put(&j->data, data, n)) return luaL_error(L, "not enough memory");
    return host_job_run(L, j);
}

static void check_piece(lua_State *L, int idx, job *j)
{
    j->offset = luaL_checkinteger(L, idx);
    lua_Integer max = luaL_checkinteger(L, idx + 1);
    luaL_argcheck(L, j->offset >= 0, idx, "an offset is 0 or more");
    luaL_argcheck(L, max >= 1 && (size_t)max <= ART_CHUNK_MAX, idx + 1, "a piece has 1 to 16777216 bytes");
    j->max = (size_t)max;
    j->limit = ART_FILE_MAX;
}

/* artifacts.read(root, name, offset, max) */
static int l_read(lua_State *L)
{
    job *j = l_new_job(L, JOB_READ);
    j->root = l_dup(L, 1);
    j->name = l_dup(L, 2);
    check_piece(L, 3, j);
    return host_job_run(L, j);
}

/* artifacts.read_of(pid, path, offset, max) */
static int l_read_of(lua_State *L)
{
    job *j = l_new_job(L, JOB_READ_OF);
    j->pid = check_pid(L, 1);
    j->name = l_dup(L, 2);
    check_piece(L, 3, j);
    return host_job_run(L, j);
}

/* artifacts.name(root, path, absolute?) -> name below the root. Does not wait. */
static int l_name(lua_State *L)
{
    size_t n;
    const char *root = luaL_checkstring(L, 1), *path = luaL_checklstring(L, 2, &n);
    char name[PATH_MAX];
    err e = {0};
    int rc = strlen(path) == n ? art_name(root, path, lua_toboolean(L, 3), name, &e)
                               : err_set(&e, ERR_INVALID_ARTIFACT_PATH, "the path holds a NUL");
    if (rc < 0) return host_push_err(L, &e);
    lua_pushstring(L, name);
    return 1;
}

/* artifacts.stage{pid=, uid=, root=, folder="", folders={…}} */
static int l_stage(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    job *j = l_new_job(L, JOB_STAGE); // opts box
    j->stage = mem_calloc(1, sizeof *j->stage);
    if (!j->stage) return luaL_error(L, "not enough memory");
    j->stage->refs = 1;
    j->stage->s.parent = j->stage->s.dir = -1;
    lua_getfield(L, 1, "pid"); // opts box pid
    j->pid = check_pid(L, -1);
    lua_getfield(L, 1, "uid"); // opts box pid uid
    j->uid = (uid_t)luaL_checkinteger(L, -1);
    lua_getfield(L, 1, "root"); // … root
    j->root = l_dup(L, -1);
    j->stage->root = l_dup(L, -1);
    lua_getfield(L, 1, "folder"); // … folder
    j->name = l_dup(L, -1);
    j->stage->folder = l_dup(L, -1);
    lua_getfield(L, 1, "folders"); // … folders
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_Integer n = luaL_len(L, -1);
    for (lua_Integer i = 1; i <= n && i <= NAMES_MAX; i++) {
        lua_geti(L, -1, i); // … folders folder
        j->folders[i - 1] = l_dup(L, -1);
        lua_pop(L, 1); // … folders
    }
    lua_settop(L, 2); // opts box
    return host_job_run(L, j);
}

static shared *check_stage(lua_State *L)
{
    shared **box = luaL_checkudata(L, 1, STAGE_TYPE);
    luaL_argcheck(L, *box != NULL, 1, "the stage is closed");
    return *box;
}

/* stage:size(file) -> bytes, or nil. Does not wait: a look at an open folder. */
static int l_stage_size(lua_State *L)
{
    int64_t n = art_stage_size(&check_stage(L)->s, luaL_checkstring(L, 2));
    if (n < 0) return 0;
    lua_pushinteger(L, n);
    return 1;
}

/* stage:own(file): it is removed when the stage is closed, unless it was taken */
static int l_stage_own(lua_State *L)
{
    shared *s = check_stage(L);
    size_t i = 0;
    while (i < NAMES_MAX && s->files[i])
        i++;
    luaL_argcheck(L, i < NAMES_MAX, 2, "too many files");
    s->files[i] = l_dup(L, 2);
    return 0;
}

/* stage:take(file, to) -> {size, mtime_ns, copied} */
static int l_stage_take(lua_State *L)
{
    shared *s = check_stage(L);
    job *j = l_new_job(L, JOB_TAKE);
    j->name = l_dup(L, 2);
    j->to = l_dup(L, 3);
    luaL_argcheck(L, !strchr(j->to, '/'), 3, "a name, no path");
    s->refs++;
    j->stage = s;
    return host_job_run(L, j);
}

static int l_stage_close(lua_State *L)
{
    shared **box = luaL_checkudata(L, 1, STAGE_TYPE);
    shared *s = *box;
    *box = NULL;
    shared_unref(s);
    return 0;
}

static int l_stage_index(lua_State *L)
{
    luaL_checkudata(L, 1, STAGE_TYPE);
    lua_pushvalue(L, 2);                // stage key key
    lua_rawget(L, lua_upvalueindex(1)); // stage key method
    if (!lua_isnil(L, -1)) return 1;
    lua_getiuservalue(L, 1, 1); // stage key nil facts
    lua_pushvalue(L, 2);        // stage key nil facts key
    lua_rawget(L, -2);          // stage key nil facts value
    return 1;
}

static void register_stage(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"size", l_stage_size}, {"own", l_stage_own}, {"take", l_stage_take}, {"close", l_stage_close}, {NULL, NULL}};
    luaL_newmetatable(L, STAGE_TYPE);      // mt
    luaL_newlib(L, methods);               // mt methods
    lua_pushcclosure(L, l_stage_index, 1); // mt index
    lua_setfield(L, -2, "__index");        // mt
    lua_pushcfunction(L, l_stage_close);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, l_stage_close);
    lua_setfield(L, -2, "__close");
    lua_pushliteral(L, "stage");
    lua_setfield(L, -2, "__name");
    lua_pop(L, 1);
}

int luaopen_lunette_artifacts(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"list", l_list}, {"free", l_free},   {"remove", l_remove}, {"read", l_read}, {"read_of", l_read_of},
        {"name", l_name}, {"stage", l_stage}, {"write", l_write},   {NULL, NULL},
    };
    register_stage(L);
    luaL_newlib(L, functions);
    return 1;
}
