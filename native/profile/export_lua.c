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
    buf out;
} job;

static void job_fini(void *p)
{
    job *j = p;
    profile_unref(j->p);
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
    return j;
}

int profile_lua__export(lua_State *L)
{
    profile *p = profile_lua__check(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    return host_job_run(L, read_options(L, p));
}
