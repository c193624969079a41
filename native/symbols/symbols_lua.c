/* SPDX-License-Identifier: MIT */
/* symbols_lua.c: the Lua face `lunette.symbols` (docs/native-api.md). Files are read and servers asked on a worker
 * thread while the task waits; outside a task at once. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/guid.h"
#include "base/utf.h"
#include "host/job.h"
#include "symbols/demangle.h"
#include "symbols/find.h"
#include "symbols/native_lua.h"
#include "symbols/path.h"

#define PATH_TYPE "lunette.symbols.path"
#define BUF_TYPE  "lunette.symbols.buf"
enum { REQUESTS_MAX = 4096, HOSTS_MAX = 1024 };

int luaopen_lunette_symbols(lua_State *L);

/* One store for the process: it outlives every worker that reads from it. */
static sym_store *store;
static pthread_once_t store_once = PTHREAD_ONCE_INIT;
static void make_store(void) { store = sym_store_new(0); }

static void set_guid(lua_State *L, const char *key, const uint8_t guid[16])
{
    char text[GUID_TEXT_LEN + 1];
    guid_text(guid, text);
    lua_pushstring(L, text);
    lua_setfield(L, -2, key);
}

static void set_text(lua_State *L, const char *key, slice s)
{
    lua_pushlstring(L, s.n ? (const char *)s.p : "", s.n);
    lua_setfield(L, -2, key);
}

/* ---- paths ---- */

/* The hosts of gate.hosts, in memory that Lua frees; the texts stay in the table at idx. */
static const char **take_hosts(lua_State *L, int idx, size_t *n)
{
    *n = 0;
    if (lua_getfield(L, idx, "hosts") != LUA_TTABLE) return NULL; // … hosts
    lua_Unsigned count = lua_rawlen(L, -1);
    luaL_argcheck(L, count <= HOSTS_MAX, idx, "hosts: too many");
    const char **list = host_box(L, (count ? count : 1) * sizeof *list); // … hosts box
    for (lua_Unsigned i = 1; i <= count; i++) {
        luaL_argcheck(L, lua_rawgeti(L, -2, (lua_Integer)i) == LUA_TSTRING, idx, "hosts: a list of texts");
        list[i - 1] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    *n = count;
    return list;
}

static bool flag(lua_State *L, int idx, const char *name)
{
    lua_getfield(L, idx, name);
    bool on = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return on;
}

/* symbols.path(text, {hosts, any_host, trusted, cache}) -> path, or nil, err */
static int l_path(lua_State *L)
{
    size_t n;
    err e = {0};
    const char *text = luaL_checklstring(L, 1, &n);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    sym_gate gate = {.any_host = flag(L, 2, "any_host"), .trusted = flag(L, 2, "trusted")};
    sym_path **box = lua_newuserdatauv(L, sizeof *box, 0); // text gate path
    *box = NULL;
    luaL_setmetatable(L, PATH_TYPE);
    gate.hosts = take_hosts(L, 2, &gate.n_hosts); // text gate path …
    lua_getfield(L, 2, "cache");
    gate.cache = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    if (sym_path_new(slice_of(text, n), &gate, box, &e) < 0) return host_push_err(L, &e);
    lua_pushvalue(L, 3);
    return 1;
}

static int l_path_gc(lua_State *L)
{
    sym_path **box = luaL_checkudata(L, 1, PATH_TYPE);
    sym_path_unref(*box);
    *box = NULL;
    return 0;
}

static sym_path *check_path(lua_State *L)
{
    sym_path **box = luaL_checkudata(L, 1, PATH_TYPE);
    luaL_argcheck(L, *box, 1, "the path is closed");
    return *box;
}

/* path:servers() -> how many servers it names */
static int l_servers(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)sym_path_servers(check_path(L)));
    return 1;
}

/* path:by_hosts() -> whether a server is allowed by the list of hosts alone */
static int l_by_hosts(lua_State *L)
{
    lua_pushboolean(L, sym_path_by_hosts(check_path(L)));
    return 1;
}

/* ---- jobs ---- */

typedef struct request {
    const char *path, *pdb_path;
    bool has_mvid, has_pdb;
    uint8_t mvid[16];
    sym_pdb_id pdb;
    uint32_t token, il_offset;
    /* What came of it; texts are the job's. */
    bool opened, found;
    sym_line line;
    uint32_t start_line; /* the method's first one, in the same file; 0: not there */
    sym_module_info info;
    slice why;
} request;

typedef struct job {
    host_job job;
    arena a;
    request *list;
    size_t n;
    bool modules_only;
    sym_path *paths[2];
    int64_t deadline_ns;
} job;

static void job_fini(void *p)
{
    job *j = p;
    sym_path_unref(j->paths[0]);
    sym_path_unref(j->paths[1]);
    arena_free(&j->a);
}

static slice copy_of(job *j, slice s)
{
    char *p = arena_str(&j->a, s);
    return p ? slice_of(p, s.n) : (slice){0};
}

static bool same_module(const request *a, const request *b)
{
    bool paths = a->path && b->path ? strcmp(a->path, b->path) == 0 : a->path == b->path;
    return paths && a->has_mvid == b->has_mvid && a->has_pdb == b->has_pdb && memcmp(a->mvid, b->mvid, 16) == 0 &&
           memcmp(a->pdb.guid, b->pdb.guid, 16) == 0;
}

/* The answers of one module, for all requests that name it. */
static void answer_module(job *j, size_t first)
{
    request *r = &j->list[first];
    sym_wanted w = {.path = r->path,
                    .mvid = r->has_mvid ? r->mvid : NULL,
                    .pdb = r->has_pdb ? &r->pdb : NULL,
                    .pdb_path = r->pdb_path,
                    .search = j->paths[0],
                    .search_2 = j->paths[1],
                    .deadline_ns = j->deadline_ns};
    sym_module *m = NULL;
    err e = {0};
    if (store && sym_module_open(store, &w, &m, &e) < 0) m = NULL;
    slice why = copy_of(j, slice_str(m ? sym_module_why(m) : e.message));
    for (size_t i = first; i < j->n; i++) {
        request *q = &j->list[i];
        if (q->opened || !same_module(r, q)) continue;
        q->opened = true;
        q->why = why;
        if (!m) continue;
        q->info = *sym_module_info_of(m);
        if (q->info.pdb_file) q->info.pdb_file = (const char *)copy_of(j, slice_str(q->info.pdb_file)).p;
        if (j->modules_only) continue;
        q->found = sym_module_line(m, q->token, q->il_offset, &q->line);
        if (q->found) {
            sym_line begin;
            if (sym_module_line(m, q->token, SYM_IL_UNKNOWN, &begin) && slice_eq(begin.file, q->line.file))
                q->start_line = begin.line;
            q->line.file = copy_of(j, q->line.file);
            q->line.url = copy_of(j, q->line.url);
        } else if (q->why.n == 0) {
            q->why = SLICE_LIT("the method has no lines in the PDB: the compiler made it");
        }
    }
    sym_module_release(m);
}

static int job_work(void *p)
{
    job *j = p;
    for (size_t i = 0; i < j->n; i++)
        if (!j->list[i].opened) answer_module(j, i);
    return 0;
}

static void push_line(lua_State *L, const request *r)
{
    const sym_line *l = &r->line;
    lua_createtable(L, 0, 9); // row
    set_text(L, "file", l->file);
    if (l->url.n) set_text(L, "url", l->url);
    host_set_int(L, "line", l->line);
    if (r->start_line) host_set_int(L, "start_line", r->start_line);
    if (l->column) host_set_int(L, "column", l->column);
    host_set_int(L, "end_line", l->end_line);
    if (l->end_column) host_set_int(L, "end_column", l->end_column);
    host_set_int(L, "il_offset", l->il_offset);
    lua_pushboolean(L, l->exact);
    lua_setfield(L, -2, "exact");
}

static void push_module(lua_State *L, const request *r)
{
    static const char *const formats[] = {NULL, "portable", "embedded", "windows"};
    lua_createtable(L, 0, 6); // row
    if (r->info.has_mvid) set_guid(L, "mvid", r->info.mvid);
    if (r->info.has_pdb_id) {
        set_guid(L, "pdb_guid", r->info.pdb.guid);
        host_set_int(L, "pdb_age", r->info.pdb.age);
    }
    if (r->info.pdb_file) set_text(L, "pdb_file", slice_str(r->info.pdb_file));
    if (formats[r->info.format]) set_text(L, "pdb_format", slice_str(formats[r->info.format]));
    if (r->why.n) set_text(L, "why", r->why);
}

static int push_job(lua_State *L, void *p)
{
    const job *j = p;
    lua_createtable(L, (int)j->n, 0); // list
    for (size_t i = 0; i < j->n; i++) {
        const request *r = &j->list[i];
        if (j->modules_only) {
            push_module(L, r); // list row
        } else if (r->found) {
            push_line(L, r); // list row
        } else {
            lua_createtable(L, 0, 1); // list row
            set_text(L, "why", r->why);
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1); // list
    }
    return 1;
}

static const host_job_class LOOKING_UP = {.work = job_work, .push = push_job, .fini = job_fini};

/* ---- arguments ---- */

static const char *text_field(lua_State *L, job *j, const char *name)
{
    size_t n;
    const char *copy = NULL;
    if (lua_getfield(L, -1, name) == LUA_TSTRING) { // … request text
        const char *s = lua_tolstring(L, -1, &n);
        if (strlen(s) != n) luaL_error(L, "%s: no text with a NUL", name);
        copy = arena_str(&j->a, slice_of(s, n));
        if (!copy) luaL_error(L, "not enough memory");
    }
    lua_pop(L, 1);
    return copy;
}

static bool guid_field(lua_State *L, const char *name, uint8_t guid[16])
{
    size_t n;
    bool there = lua_getfield(L, -1, name) == LUA_TSTRING; // … request text
    if (there) {
        const char *s = lua_tolstring(L, -1, &n);
        if (!guid_parse(slice_of(s, n), guid)) luaL_error(L, "%s: '%s' is no GUID", name, s);
    }
    lua_pop(L, 1);
    return there;
}

static lua_Integer integer_field(lua_State *L, const char *name, lua_Integer otherwise)
{
    int is = 0;
    lua_Integer v = otherwise;
    if (lua_getfield(L, -1, name) != LUA_TNIL) { // … request value
        v = lua_tointegerx(L, -1, &is);
        if (!is || v < 0 || v > UINT32_MAX) luaL_error(L, "%s: a number from 0 to 4294967295", name);
    }
    lua_pop(L, 1);
    return v;
}

static void take_request(lua_State *L, job *j, request *r)
{
    luaL_checktype(L, -1, LUA_TTABLE); // … request
    r->path = text_field(L, j, "path");
    r->has_mvid = guid_field(L, "mvid", r->mvid);
    r->has_pdb = guid_field(L, "pdb_guid", r->pdb.guid);
    r->pdb.age = (uint32_t)integer_field(L, "pdb_age", 0);
    r->pdb_path = text_field(L, j, "pdb_path");
    r->token = (uint32_t)integer_field(L, "token", 0);
    r->il_offset = (uint32_t)integer_field(L, "il_offset", SYM_IL_UNKNOWN);
}

static void take_path(lua_State *L, job *j, int which, const char *name)
{
    if (lua_getfield(L, 2, name) != LUA_TNIL) { // … path
        sym_path **box = luaL_checkudata(L, -1, PATH_TYPE);
        if (*box) j->paths[which] = sym_path_ref(*box);
    }
    lua_pop(L, 1);
}

/* Argument 1: the requests; 2: {search?, search_2?, timeout_ms?}. */
static int start(lua_State *L, bool modules_only)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    if (lua_isnoneornil(L, 2)) {
        lua_settop(L, 1);
        lua_newtable(L);
    }
    lua_settop(L, 2);
    lua_Unsigned n = lua_rawlen(L, 1);
    luaL_argcheck(L, n <= REQUESTS_MAX, 1, "at most 4096 at once");
    pthread_once(&store_once, make_store);
    job *j = host_job_new(L, sizeof *j, &LOOKING_UP); // requests options box
    j->modules_only = modules_only;
    j->list = arena_alloc(&j->a, n * sizeof *j->list + 1);
    if (!j->list) return luaL_error(L, "not enough memory");
    j->n = n;
    take_path(L, j, 0, "search");
    take_path(L, j, 1, "search_2");
    if (lua_getfield(L, 2, "timeout_ms") == LUA_TNUMBER) j->deadline_ns = deadline_in_ms((int64_t)lua_tonumber(L, -1));
    lua_pop(L, 1);
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1); // requests options box request
        take_request(L, j, &j->list[i]);
        lua_pop(L, 1);
    }
    return host_job_run_anywhere(L, j);
}

/* symbols.lines(requests, options?) -> list of lines, or {why} */
static int l_lines(lua_State *L) { return start(L, false); }
/* symbols.modules(requests, options?) -> list of what is known of each module */
static int l_modules(lua_State *L) { return start(L, true); }

static int l_buf_gc(lua_State *L)
{
    buf_fini((buf *)lua_touserdata(L, 1));
    return 0;
}

/* symbols.demangle(name) -> text, whether it was mangled */
static int l_demangle(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    buf *b = lua_newuserdatauv(L, sizeof *b, 0); // name box
    buf_init(b, 0);
    luaL_setmetatable(L, BUF_TYPE);
    bool mangled = sym_demangle(name, b);
    lua_pushlstring(L, b->n ? (const char *)b->p : "", b->n); // name box text
    buf_fini(b);
    lua_pushboolean(L, mangled); // name box text mangled
    return 2;
}

static const luaL_Reg FUNCTIONS[] = {{"path", l_path},
                                     {"lines", l_lines},
                                     {"modules", l_modules},
                                     {"demangle", l_demangle},
                                     {"native", native_lua__native},
                                     {NULL, NULL}};
static const luaL_Reg PATH_META[] = {{"__gc", l_path_gc}, {NULL, NULL}};
static const luaL_Reg BUF_META[] = {{"__gc", l_buf_gc}, {NULL, NULL}};
static const luaL_Reg PATH_METHODS[] = {{"servers", l_servers}, {"by_hosts", l_by_hosts}, {NULL, NULL}};

int luaopen_lunette_symbols(lua_State *L)
{
    host_type(L, PATH_TYPE, PATH_META, PATH_METHODS);
    host_type(L, BUF_TYPE, BUF_META, NULL);
    luaL_newlib(L, FUNCTIONS); // symbols
    return 1;
}
