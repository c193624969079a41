/* SPDX-License-Identifier: MIT */
/* native_lua.c: symbols.native: functions of native code by address in their file, a file opened once a call. */
#include "symbols/native_lua.h"

#include <stdio.h>
#include <stdlib.h>

#include "host/job.h"
#include "symbols/demangle.h"
#include "symbols/elf.h"

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
    host_job job;
    arena a;
    request *list; /* by path while it works */
    size_t n;
    bool lines;
} job;

static void job_fini(void *p) { arena_free(&((job *)p)->a); }

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

static int job_work(void *p)
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
    return 0;
}

/* ---- on the loop's thread ---------------------------------------------------------------------------------------- */
static int push_job(lua_State *L, void *p)
{
    const job *j = p;
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

static const host_job_class FINDING = {.work = job_work, .push = push_job, .fini = job_fini};

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
    job *j = host_job_new(L, sizeof *j, &FINDING); // requests lines box
    j->lines = lua_toboolean(L, 2);
    j->list = arena_alloc(&j->a, n * sizeof *j->list + 1);
    if (!j->list) return luaL_error(L, "not enough memory");
    for (lua_Unsigned i = 0; i < n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1); // requests lines box request
        take_request(L, j, i);
        j->n = i + 1;
        lua_pop(L, 1);
    }
    return host_job_run(L, j);
}
