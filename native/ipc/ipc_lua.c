/* SPDX-License-Identifier: MIT */
/* ipc_lua.c: the Lua face `lunette.ipc` (docs/native-api.md). Each call runs on a worker thread while its task waits; a
 * task that is cancelled fires the call's cancel, so that no call outlives its task by more than a moment. */
#include <stdlib.h>
#include <string.h>

#include "base/guid.h"
#include "base/utf.h"
#include "host/job.h"
#include "ipc/ipc.h"
#include "ipc/port_lua.h"

#define TMPDIRS_MAX 64
#define DUMP_MS     3600000 /* a full dump of a large process takes long */

int luaopen_lunette_ipc(lua_State *L);

typedef enum job_op { JOB_DISCOVER, JOB_RESOLVE, JOB_INFO, JOB_PING, JOB_ENVIRONMENT, JOB_RESUME, JOB_DUMP } job_op;
typedef struct job {
    host_job job;
    job_op op;
    pid_t pid;
    int64_t timeout_ms;
    char *tmpdirs[TMPDIRS_MAX + 1]; /* NULL-terminated */
    char *path;                     /* of a dump */
    ipc_dump_cfg dump;
    ipc_cancel cancel;
    /* results */
    ipc_endpoints list;
    ipc_endpoint ep;
    ipc_info info;
    buf text;
    int version;
} job;

static void job_fini(void *arg)
{
    job *j = arg;
    for (size_t i = 0; j->tmpdirs[i]; i++)
        free(j->tmpdirs[i]);
    free(j->path);
    ipc_cancel_fini(&j->cancel);
    ipc_endpoints_fini(&j->list);
    ipc_endpoint_fini(&j->ep);
    ipc_info_fini(&j->info);
    buf_fini(&j->text);
}

/* ---- on a worker thread ------------------------------------------------------------------------------------------ */
static int ask(job *j, const ipc_discover_cfg *cfg)
{
    int64_t deadline = deadline_in_ms(j->timeout_ms);
    int rc = ipc_resolve(j->pid, cfg, &j->ep, &j->job.e);
    if (rc < 0) return rc;
    if (j->op == JOB_RESUME) return ipc_resume(&j->ep, deadline, &j->cancel, &j->job.e);
    if (j->op == JOB_DUMP) return ipc_dump(&j->ep, &j->dump, deadline, &j->cancel, &j->version, &j->job.e);
    if (j->op == JOB_ENVIRONMENT) return ipc_environment(&j->ep, deadline, &j->cancel, &j->text, &j->job.e);
    return ipc_process_info(&j->ep, deadline, &j->cancel, &j->info, &j->job.e);
}

static int resolve(job *j, const ipc_discover_cfg *cfg)
{
    int rc = ipc_resolve(j->pid, cfg, &j->ep, &j->job.e);
    return j->ep.cause != IPC_OK ? 0 : rc; /* seen and not reachable is an answer here */
}

static int job_work(void *arg)
{
    job *j = arg;
    const ipc_discover_cfg cfg = {.tmpdirs = (const char *const *)j->tmpdirs, .probe_ms = j->timeout_ms};
    switch (j->op) {
    case JOB_DISCOVER: return ipc_discover(&cfg, &j->cancel, &j->list, &j->job.e);
    case JOB_RESOLVE: return resolve(j, &cfg);
    case JOB_INFO:
    case JOB_PING:
    case JOB_RESUME:
    case JOB_DUMP:
    case JOB_ENVIRONMENT: return ask(j, &cfg);
    }
    return 0;
}

/* ---- on the loop's thread ---------------------------------------------------------------------------------------- */
static void job_stop(void *p) { ipc_cancel_fire(&((job *)p)->cancel); }

/* Any bytes of a target as valid UTF-8. */
static void push_text(lua_State *L, const char *s)
{
    size_t n = strlen(s);
    if (utf8_valid(slice_of(s, n))) {
        lua_pushlstring(L, s, n);
        return;
    }
    buf b = {.p = host_box(L, 3 * n + 1), .cap = 3 * n, .max = 3 * n}; // box
    utf8_sanitize(slice_of(s, n), &b);
    lua_pushlstring(L, (const char *)b.p, b.n); // box text
    lua_remove(L, -2);                          // text
}

static void set_text(lua_State *L, const char *key, const char *s)
{
    if (!s || !*s) return;
    push_text(L, s);
    lua_setfield(L, -2, key);
}

static void push_info(lua_State *L, const ipc_info *i)
{
    char guid[37];
    guid_text(i->cookie, guid);
    lua_createtable(L, 0, 9); // info
    host_set_int(L, "processId", (int64_t)i->process_id);
    set_text(L, "runtimeCookie", guid);
    lua_pushstring(L, "");
    lua_setfield(L, -2, "commandLine");
    set_text(L, "commandLine", i->command_line);
    set_text(L, "os", i->os);
    set_text(L, "arch", i->arch);
    set_text(L, "entrypoint", i->entrypoint);
    set_text(L, "runtimeVersion", i->runtime_version);
    set_text(L, "rid", i->rid);
    host_set_int(L, "version", i->command_version);
}

static const char *runtime_name(ipc_runtime r)
{
    switch (r) {
    case IPC_RUNTIME_CORECLR: return "CoreClr";
    case IPC_RUNTIME_NATIVE_AOT: return "NativeAot";
    case IPC_RUNTIME_MONO: return "Mono";
    case IPC_RUNTIME_UNKNOWN: break;
    }
    return NULL;
}

static void push_endpoint(lua_State *L, const ipc_endpoint *ep)
{
    lua_createtable(L, 0, 14); // ep
    host_set_int(L, "pid", ep->pid);
    host_set_int(L, "nspid", ep->nspid);
    host_set_count(L, "start_time", ep->start_time);
    host_set_int(L, "uid", ep->uid);
    host_set_bool(L, "same_namespace", ep->same_namespace);
    host_set_bool(L, "stopped", ep->stopped);
    set_text(L, "runtime", runtime_name(ep->runtime));
    if (ep->n_sockets > 0) {
        set_text(L, "path", ep->sockets[0].path);
        host_set_bool(L, "router", ep->sockets[0].router);
    }
    set_text(L, "state", ep->cause == IPC_OK ? "ok" : "unreachable");
    if (ep->cause != IPC_OK) {
        set_text(L, "cause", ipc_cause_name(ep->cause));
        set_text(L, "message", ep->why.message);
        set_text(L, "detail", ep->why.detail);
        set_text(L, "hint", ep->why.hint);
    } else if (ep->info.command_version > 0) {
        push_info(L, &ep->info); // ep info
        lua_setfield(L, -2, "info");
    }
}

static void push_environment(lua_State *L, const buf *text)
{
    lua_newtable(L); // list
    lua_Integer n = 0;
    for (size_t at = 0; at < text->n; at += strlen((const char *)text->p + at) + 1) {
        push_text(L, (const char *)text->p + at);
        lua_rawseti(L, -2, ++n);
    }
}

static void push_list(lua_State *L, const ipc_endpoints *l)
{
    lua_createtable(L, (int)l->n, 1); // list
    for (size_t i = 0; i < l->n; i++) {
        push_endpoint(L, &l->items[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    if (l->dropped) host_set_int(L, "dropped", l->dropped);
}

static int push_job(lua_State *L, void *p)
{
    const job *j = p;
    switch (j->op) {
    case JOB_DISCOVER: push_list(L, &j->list); break;
    case JOB_RESOLVE: push_endpoint(L, &j->ep); break;
    case JOB_INFO: push_info(L, &j->info); break;
    case JOB_RESUME:
    case JOB_PING: lua_pushboolean(L, 1); break;
    case JOB_ENVIRONMENT: push_environment(L, &j->text); break;
    case JOB_DUMP: lua_pushinteger(L, j->version); break;
    } // result
    return 1;
}

static job *l_new_job(lua_State *L, job_op op)
{
    static const host_job_class calling = {.work = job_work, .push = push_job, .fini = job_fini, .stop = job_stop};
    job *j = host_job_new(L, sizeof *j, &calling); // … box
    j->op = op;
    j->cancel.fd = -1;
    j->timeout_ms = IPC_CALL_MS;
    return j;
}

static int l_start(lua_State *L, job *j)
{
    err e = {0};
    if (ipc_cancel_init(&j->cancel, &e) < 0) return host_push_err(L, &e);
    return host_job_run(L, j);
}

static int64_t check_timeout(lua_State *L, int idx, int64_t otherwise)
{
    lua_Integer ms = luaL_optinteger(L, idx, (lua_Integer)otherwise);
    luaL_argcheck(L, ms > 0 && ms <= 3600000, idx, "a time-out is 1 to 3600000 ms");
    return ms;
}

static void read_tmpdirs(lua_State *L, int idx, job *j)
{
    if (lua_getfield(L, idx, "tmpdirs") == LUA_TTABLE) { // … dirs
        lua_Integer n = luaL_len(L, -1);
        luaL_argcheck(L, n <= TMPDIRS_MAX, idx, "more than 64 tmpdirs");
        for (lua_Integer i = 1; i <= n; i++) {
            lua_geti(L, -1, i); // … dirs dir
            j->tmpdirs[i - 1] = slice_dup(slice_str(luaL_checkstring(L, -1)));
            if (!j->tmpdirs[i - 1]) luaL_error(L, "not enough memory");
            lua_pop(L, 1); // … dirs
        }
    }
    lua_pop(L, 1);
}

/* ipc.discover{tmpdirs=?, timeout_ms=?} */
static int l_discover(lua_State *L)
{
    lua_settop(L, 1);
    if (lua_isnil(L, 1)) {
        lua_newtable(L);
        lua_replace(L, 1);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    job *j = l_new_job(L, JOB_DISCOVER); // opts box
    read_tmpdirs(L, 1, j);
    lua_getfield(L, 1, "timeout_ms"); // opts box ms
    j->timeout_ms = check_timeout(L, 3, IPC_PROBE_MS);
    return l_start(L, j);
}

static int l_ask(lua_State *L, job_op op)
{
    lua_Integer pid = luaL_checkinteger(L, 1);
    luaL_argcheck(L, pid >= 1 && pid <= INT32_MAX, 1, "a process id is between 1 and 2147483647");
    int64_t ms = check_timeout(L, 2, IPC_CALL_MS);
    job *j = l_new_job(L, op);
    j->pid = (pid_t)pid;
    j->timeout_ms = ms;
    return l_start(L, j);
}

static int l_resolve(lua_State *L) { return l_ask(L, JOB_RESOLVE); }
static int l_process_info(lua_State *L) { return l_ask(L, JOB_INFO); }
static int l_environment(lua_State *L) { return l_ask(L, JOB_ENVIRONMENT); }
static int l_resume(lua_State *L) { return l_ask(L, JOB_RESUME); }
static int l_ping(lua_State *L) { return l_ask(L, JOB_PING); }

/* ipc.dump(pid, {path=, type=1..4, crash_report=?, timeout_ms=?}) -> the form of the command that was answered */
static int l_dump(lua_State *L)
{
    lua_Integer pid = luaL_checkinteger(L, 1);
    luaL_argcheck(L, pid >= 1 && pid <= INT32_MAX, 1, "a process id is between 1 and 2147483647");
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    job *j = l_new_job(L, JOB_DUMP); // pid opts box
    j->pid = (pid_t)pid;
    lua_getfield(L, 2, "path"); // pid opts box path
    j->path = slice_dup(slice_str(luaL_checkstring(L, -1)));
    if (!j->path) return luaL_error(L, "not enough memory");
    lua_getfield(L, 2, "type"); // … type
    lua_Integer type = luaL_checkinteger(L, -1);
    luaL_argcheck(L, type >= 1 && type <= 4, 2, "a type of dump is 1 to 4");
    lua_getfield(L, 2, "crash_report"); // … report
    j->dump = (ipc_dump_cfg){.path = j->path, .type = (uint32_t)type, .crash_report = lua_toboolean(L, -1)};
    lua_getfield(L, 2, "timeout_ms"); // … ms
    j->timeout_ms = check_timeout(L, lua_gettop(L), DUMP_MS);
    lua_settop(L, 3); // pid opts box
    return l_start(L, j);
}

int luaopen_lunette_ipc(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"discover", l_discover},
        {"resolve", l_resolve},
        {"process_info", l_process_info},
        {"environment", l_environment},
        {"ping", l_ping},
        {"resume", l_resume},
        {"dump", l_dump},
        {NULL, NULL},
    };
    luaL_newlib(L, functions); // ipc
    port_lua__register(L);
    return 1;
}
