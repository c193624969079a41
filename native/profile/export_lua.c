/* SPDX-License-Identifier: MIT */
/* export_lua.c: artifact:export{…} of `lunette.profile`. */
#include <lauxlib.h>
#include <stdlib.h>

#include "host/job.h"
#include "profile/export.h"
#include "profile/profile_lua.h"

#define EXPORT_TEXT_MAX ((lua_Integer)64 << 20) /* it becomes one text in Lua */
#define TITLE_MAX       500

static const char *const FORMATS[] = {"speedscope", "folded", "pprof", "flame", NULL};

typedef struct job {
    host_job job;
    profile *p; /* a reference */
    profile_export_cfg cfg;
    char title[TITLE_MAX + 1];
    arena a; /* of the sources */
    buf out;
} job;

static void job_fini(void *p)
{
    job *j = p;
    profile_unref(j->p);
    arena_free(&j->a);
    buf_fini(&j->out);
}

static int job_work(void *p)
{
    job *j = p;
    (void)profile_export(j->p, &j->cfg, &j->out, &j->job.e);
    return j->job.e.kind == ERR_NONE ? 0 : -1;
}

static int push_text(lua_State *L, void *p)
{
    const job *j = p;
    lua_pushlstring(L, j->out.n ? (const char *)j->out.p : "", j->out.n); // text
    return 1;
}

static const host_job_class EXPORTING = {.work = job_work, .push = push_text, .fini = job_fini};

/* A line of the source on top; 0: none. */
static uint32_t line_field(lua_State *L, const char *key)
{
    lua_getfield(L, -1, key); // … source value
    lua_Integer v = luaL_optinteger(L, -1, 0);
    lua_pop(L, 1);
    return v > 0 && v <= INT32_MAX ? (uint32_t)v : 0;
}

/* The source on top, copied into the job. */
static void read_source(lua_State *L, job *j, profile_export_source *out)
{
    size_t n;
    lua_getfield(L, -1, "file"); // … source file
    const char *file = luaL_checklstring(L, -1, &n);
    const void *copy = arena_dup(&j->a, file, n);
    lua_pop(L, 1);
    if (!copy) luaL_error(L, "not enough memory");
    *out = (profile_export_source){
        .file = {copy, n}, .line = line_field(L, "line"), .start_line = line_field(L, "start_line")};
}

/* options.sources: {[frame] = {file=, line=, start_line=?}}. Frames that the profile does not have are left out. */
static void read_sources(lua_State *L, job *j)
{
    uint32_t n = profile_frames(j->p);
    if (lua_getfield(L, 2, "sources") == LUA_TTABLE) { // … sources
        profile_export_source *list = arena_alloc(&j->a, n * sizeof *list);
        if (!list) luaL_error(L, "not enough memory");
        for (uint32_t i = 0; list && i < n; i++) {
            if (lua_rawgeti(L, -1, i) == LUA_TTABLE) read_source(L, j, &list[i]); // … sources source?
            lua_pop(L, 1);
        }
        j->cfg.sources = list;
        j->cfg.n_sources = n;
    }
    lua_pop(L, 1);
}

static job *read_options(lua_State *L, profile *p)
{
    lua_getfield(L, 2, "format");
    int format = luaL_checkoption(L, -1, NULL, FORMATS);
    lua_getfield(L, 2, "title");
    size_t n;
    const char *title = luaL_optlstring(L, -1, "", &n);
    lua_Integer nodes = profile_lua__integer(L, "max_nodes", 0, 0, 1 << 22);
    lua_Integer max = profile_lua__integer(L, "max_bytes", EXPORT_TEXT_MAX, 1, EXPORT_TEXT_MAX);
    lua_Integer time_ns = profile_lua__integer(L, "time_unix_ns", 0, 0, LUA_MAXINTEGER);
    lua_Integer length_ns = profile_lua__integer(L, "length_ns", 0, 0, LUA_MAXINTEGER);
    bool by_weight = profile_lua__flag(L, "by_bytes");
    job *j = host_job_new(L, sizeof *j, &EXPORTING);
    n = n < TITLE_MAX ? n : TITLE_MAX;
    memcpy(j->title, title, n);
    j->cfg = (profile_export_cfg){.format = (profile_format)format,
                                  .by_weight = by_weight,
                                  .title = {(const uint8_t *)j->title, n},
                                  .max_nodes = (uint32_t)nodes,
                                  .time_ns = time_ns,
                                  .length_ns = length_ns};
    buf_init(&j->out, (size_t)max);
    j->p = profile_ref(p);
    read_sources(L, j);
    return j;
}

int profile_lua__export(lua_State *L)
{
    profile *p = profile_lua__check(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    return host_job_run(L, read_options(L, p));
}
