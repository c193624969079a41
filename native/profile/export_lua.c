/* SPDX-License-Identifier: MIT */
/* export_lua.c: artifact:export{…} of `lunette.profile`. */
#include <lauxlib.h>
#include <stdlib.h>

#include "host/host.h"
#include "loop/loop.h"
#include "profile/export.h"
#include "profile/profile_lua.h"

#define EXPORT_TEXT_MAX ((lua_Integer)64 << 20) /* it becomes one text in Lua */
#define TITLE_MAX       500

static const char *const FORMATS[] = {"speedscope", "folded", "pprof", "flame", NULL};

typedef struct job {
    profile *p; /* a reference */
    profile_export_cfg cfg;
    char title[TITLE_MAX + 1];
    buf out;
    err e;
    future *future;
} job;

static void job_free(void *arg)
{
    job *j = arg;
    profile_unref(j->p);
    buf_fini(&j->out);
    free(j);
}

static void job_work(void *arg)
{
    job *j = arg;
    (void)profile_export(j->p, &j->cfg, &j->out, &j->e);
}

static void job_done(void *arg)
{
    job *j = arg;
    future *fu = j->future;
    if (j->e.kind == ERR_NONE) {
        future_resolve(fu, j, job_free);
    } else {
        future_fail(fu, &j->e);
        job_free(j);
    }
    future_unref(fu);
}

static int push_text(lua_State *L, future *fu, void *arg)
{
    (void)arg;
    guard *g = profile_lua__guard(L); // guard
    job *j = future_take(fu);
    size_t n = j->out.n;
    const char *text = g->p[0] = j->out.p;
    j->out = (buf){0};
    job_free(j);
    lua_pushlstring(L, text ? text : "", n); // guard text
    profile_lua__release(g);
    return 1;
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
    job *j = mem_calloc(1, sizeof *j);
    if (!j) {
        luaL_error(L, "not enough memory");
        return NULL;
    }
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
    job *j = read_options(L, p);
    err e = {0};
    j->future = future_new(host_loop(L), NULL, NULL);
    future *fu = j->future ? future_ref(j->future) : NULL;
    if (fu && loop_work(host_loop(L), job_work, job_done, j)) return host_await(L, fu, -1, push_text, NULL);
    future_unref(j->future);
    future_unref(fu);
    job_free(j);
    (void)err_set(&e, ERR_NO_MEMORY, "no memory or thread to write an export");
    return host_push_err(L, &e);
}
