/* SPDX-License-Identifier: MIT */
/* native_lua.c: symbols.native: functions of native code by address in their file, a file opened once a call. */
#include "symbols/native_lua.h"

#include <stdio.h>
#include <stdlib.h>

#include "host/host.h"
#include "symbols/demangle.h"
#include "symbols/elf.h"

#define JOB_TYPE "lunette.symbols.native"
enum { REQUESTS_MAX = 65536 };

typedef struct request {
    const char *path, *build_id; /* hex; NULL: any */
    uint64_t address;
    uint32_t order; /* of the request */
    /* found */
    slice name; /* demangled; empty: none */
    uint64_t offset;
    const char *file;
    uint32_t line;
} request;
typedef struct job {
    arena a;
    request *list; /* by path while it works */
    size_t n;
    bool lines;
    future *f;
} job;

static void job_free(void *p)
{
    job *j = p;
    if (!j) return;
    arena_free(&j->a);
    free(j);
}

/* ---- on a worker thread ------------------------------------------------------------------------------------------ */
static int by_path(const void *a, const void *b)
{
    const request *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order ? order : x->order < y->order ? -1 : 1;
}

static int by_order(const void *a, const void *b)
{
    const request *x = a, *y = b;
    return x->order < y->order ? -1 : 1;
}

static bool has_id(const sym_elf *f, const char *hex)
{
    slice id = sym_elf_build_id(f);
    char text[2 * SYM_ELF_BUILD_ID_MAX + 1] = "";
    for (size_t i = 0; i < id.n && i < SYM_ELF_BUILD_ID_MAX; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", id.p[i]);
    return !hex || strcmp(hex, text) == 0;
}

static void find(job *j, sym_elf *f, request *r)
{
    sym_native at;
    sym_native_line line;
    if (!has_id(f, r->build_id) || !sym_elf_find(f, r->address, &at)) return;
    buf name;
    buf_init(&name, SYM_DEMANGLED_MAX);
    sym_demangle(at.name, &name);
    r->name = slice_of(arena_dup(&j->a, name.p, name.n), name.n);
    if (!r->name.p) r->name.n = 0;
    buf_fini(&name);
    r->offset = at.offset;
    if (!j->lines || !sym_elf_line(f, r->address, &line)) return;
    r->file = arena_str(&j->a, slice_str(line.file));
    r->line = line.line;
}

static void job_work(void *p)
{
    job *j = p;
    qsort(j->list, j->n, sizeof *j->list, by_path);
    for (size_t i = 0, end; i < j->n; i = end) {
        sym_elf *f = NULL;
        err quiet = {0}; /* a file that is gone has no names */
        bool open = sym_elf_open(j->list[i].path, NULL, &f, &quiet) == 0;
        for (end = i; end < j->n && strcmp(j->list[end].path, j->list[i].path) == 0; end++)
            if (open) find(j, f, &j->list[end]);
        sym_elf_close(f);
    }
    qsort(j->list, j->n, sizeof *j->list, by_order);
}

/* ---- on the loop's thread ---------------------------------------------------------------------------------------- */
static int push_job(lua_State *L, const job *j)
{
    lua_createtable(L, (int)j->n, 0); // list
    for (size_t i = 0; i < j->n; i++) {
        const request *r = &j->list[i];
        lua_createtable(L, 0, 4); // list row
        if (r->name.n) {
            lua_pushlstring(L, (const char *)r->name.p, r->name.n); // list row name
            lua_setfield(L, -2, "name");                            // list row
            lua_pushinteger(L, (lua_Integer)r->offset);
            lua_setfield(L, -2, "offset");
        }
        if (r->file) {
            lua_pushstring(L, r->file); // list row file
            lua_setfield(L, -2, "file");
            lua_pushinteger(L, r->line);
            lua_setfield(L, -2, "line");
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1); // list
    }
    return 1;
}

static int l_job_gc(lua_State *L)
{
    job **box = luaL_checkudata(L, 1, JOB_TYPE);
    job_free(*box);
    *box = NULL;
    return 0;
}

static job **push_box(lua_State *L)
{
    job **box = lua_newuserdatauv(L, sizeof *box, 0); // box
    *box = NULL;
    luaL_setmetatable(L, JOB_TYPE);
    return box;
}

static int push_future(lua_State *L, future *f, void *arg)
{
    (void)arg;
    job **box = push_box(L); // box
    *box = future_take(f);
    int n = push_job(L, *box);
    job_free(*box);
    *box = NULL;
    return n;
}

static void job_done(void *p)
{
    job *j = p;
    future *f = j->f;
    future_resolve(f, j, job_free);
    future_unref(f);
}

static const char *text_field(lua_State *L, job *j, const char *name)
{
    const char *copy = NULL;
    if (lua_getfield(L, -1, name) == LUA_TSTRING) { // … request text
        size_t n;
        const char *s = lua_tolstring(L, -1, &n);
        if (strlen(s) != n) luaL_error(L, "%s: no text with a NUL", name);
        copy = arena_str(&j->a, slice_of(s, n));
        if (!copy) luaL_error(L, "not enough memory");
    }
    lua_pop(L, 1);
    return copy;
}

static void take_request(lua_State *L, job *j, size_t i)
{
    request *r = &j->list[i];
    luaL_checktype(L, -1, LUA_TTABLE); // … request
    *r = (request){.path = text_field(L, j, "path"), .build_id = text_field(L, j, "build_id"), .order = (uint32_t)i};
    if (!r->path) luaL_error(L, "path: text");
    lua_getfield(L, -1, "address"); // … request address
    r->address = (uint64_t)luaL_checkinteger(L, -1);
    lua_pop(L, 1);
}

/* symbols.native(requests, lines?) -> list of {name?, offset?, file?, line?} */
int native_lua__native(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    lua_Unsigned n = lua_rawlen(L, 1);
    luaL_argcheck(L, n <= REQUESTS_MAX, 1, "at most 65536 at once");
    job **box = push_box(L); // requests lines box
    job *j = *box = mem_calloc(1, sizeof *j);
    if (!j) return luaL_error(L, "not enough memory");
    j->lines = lua_toboolean(L, 2);
    j->list = arena_alloc(&j->a, n * sizeof *j->list + 1);
    if (!j->list) return luaL_error(L, "not enough memory");
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1); // requests lines box request
        take_request(L, j, i);
        j->n = i + 1;
        lua_pop(L, 1);
    }
    future *f = future_new(host_loop(L), NULL, NULL);
    if (!f) return luaL_error(L, "not enough memory");
    j->f = future_ref(f);
    *box = NULL; /* the worker's now */
    if (!loop_work(host_loop(L), job_work, job_done, j)) {
        *box = j;
        future_unref(j->f);
        future_unref(f);
        return luaL_error(L, "not enough memory");
    }
    return host_await(L, f, -1, push_future, NULL);
}

void native_lua__register(lua_State *L)
{
    luaL_newmetatable(L, JOB_TYPE); // mt
    lua_pushcfunction(L, l_job_gc); // mt gc
    lua_setfield(L, -2, "__gc");    // mt
    lua_pop(L, 1);
}
