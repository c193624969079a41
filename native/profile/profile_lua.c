/* SPDX-License-Identifier: MIT */
/* profile_lua.c: the Lua face `lunette.profile` (docs/design/profile.md): builders, and what takes a while and runs on
 * a worker thread. */
#include "profile/profile_lua.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clr/il_map.h"
#include "host/job.h"
#include "probe/tap_lua.h"

#define GUARD_TYPE   "lunette.profile.guard"
#define BUILDER_TYPE "lunette.profile.builder"

#define SAMPLER          "Microsoft-DotNETCore-SampleProfiler"
#define RUNTIME_PROVIDER "Microsoft-Windows-DotNETRuntime"
#define GC_KEYWORD       UINT64_C(0x1)
#define DRAWN_KEYWORD    UINT64_C(0x80000000000) /* AllocationSampling */

int luaopen_lunette_profile(lua_State *L);

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

void profile_lua__release(guard *g)
{
    for (int i = 0; i < GUARD_SLOTS; i++) {
        free(g->p[i]);
        g->p[i] = NULL;
    }
}

static int l_guard_gc(lua_State *L)
{
    profile_lua__release(luaL_checkudata(L, 1, GUARD_TYPE));
    return 0;
}

guard *profile_lua__guard(lua_State *L)
{
    guard *g = lua_newuserdatauv(L, sizeof *g, 0);
    *g = (guard){0};
    luaL_setmetatable(L, GUARD_TYPE);
    return g;
}

void profile_lua__push(lua_State *L, profile *p)
{
    profile **box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = NULL;
    luaL_setmetatable(L, PROFILE_TYPE);
    *box = p;
}

profile *profile_lua__check(lua_State *L, int idx)
{
    profile *p = *(profile **)luaL_checkudata(L, idx, PROFILE_TYPE);
    if (!p) luaL_argerror(L, idx, "the profile is closed");
    return p;
}

static int l_close(lua_State *L)
{
    profile **box = luaL_checkudata(L, 1, PROFILE_TYPE);
    profile_unref(*box);
    *box = NULL;
    return 0;
}

static int l_tostring(lua_State *L)
{
    const profile *p = *(profile **)luaL_checkudata(L, 1, PROFILE_TYPE);
    if (p)
        lua_pushfstring(L, "profile of %I samples", (LUAI_UACINT)profile_info_of(p)->samples);
    else
        lua_pushliteral(L, "profile (closed)");
    return 1;
}

/* ---- what takes a while ------------------------------------------------------------------------------------------ */

typedef struct job {
    host_job job;
    profile_builder *b; /* a reference */
    profile *before, *after;
    profile_unnamed unnamed;
    profile *made;
} job;

static void job_fini(void *p)
{
    job *j = p;
    profile_builder_unref(j->b);
    profile_unref(j->before);
    profile_unref(j->after);
    profile_unref(j->made);
}

static int push_made(lua_State *L, void *p)
{
    job *j = p;
    profile_lua__push(L, j->made);
    j->made = NULL;
    return 1;
}

static int overlay_work(void *p)
{
    job *j = p;
    j->made = profile_overlay(j->before, j->after, &j->job.e);
    return j->made ? 0 : -1;
}

static const host_job_class OVERLAYING = {.work = overlay_work, .push = push_made, .fini = job_fini};

/* artifact:overlay(before) */
static int l_overlay(lua_State *L)
{
    profile *after = profile_lua__check(L, 1), *before = profile_lua__check(L, 2);
    job *j = host_job_new(L, sizeof *j, &OVERLAYING);
    j->before = profile_ref(before);
    j->after = profile_ref(after);
    return host_job_run(L, j);
}

static int causality_work(void *p)
{
    job *j = p;
    j->made = profile_causality(j->after, &j->job.e);
    return j->made ? 0 : -1;
}

static const host_job_class CAUSALITY = {.work = causality_work, .push = push_made, .fini = job_fini};

/* artifact:causality() */
static int l_causality(lua_State *L)
{
    profile *p = profile_lua__check(L, 1);
    job *j = host_job_new(L, sizeof *j, &CAUSALITY);
    j->after = profile_ref(p);
    return host_job_run(L, j);
}

/* ---- builders ---------------------------------------------------------------------------------------------------- */

typedef struct builder_box {
    tap_box tap; /* first: events.open sees only this */
    profile_builder *b;
    bool used, built;
    bool names; /* only takes names for it, of other sessions */
} builder_box;

static nt_tap *take(tap_box *box)
{
    builder_box *x = (builder_box *)box;
    if (!x->b || x->used) return NULL;
    x->used = true;
    return profile_builder_tap(x->b);
}

static nt_tap *take_names(tap_box *box)
{
    builder_box *x = (builder_box *)box;
    return x->b ? profile_builder_names(x->b) : NULL;
}

static int l_builder_close(lua_State *L)
{
    builder_box *x = luaL_checkudata(L, 1, BUILDER_TYPE);
    profile_builder_unref(x->b);
    x->b = NULL;
    return 0;
}

profile_builder *profile_lua__builder(lua_State *L, int idx)
{
    builder_box *x = luaL_checkudata(L, idx, BUILDER_TYPE);
    if (!x->b) luaL_argerror(L, idx, "the builder is closed");
    return x->b;
}

static builder_box *check_builder(lua_State *L)
{
    builder_box *x = luaL_checkudata(L, 1, BUILDER_TYPE);
    if (!x->b || x->names) luaL_argerror(L, 1, x->b ? "this takes names only" : "the builder is closed");
    return x;
}

/* builder:progress() */
static int l_progress(lua_State *L)
{
    builder_box *x = check_builder(L);
    profile_progress g;
    profile_progress_of(x->b, &g);
    lua_createtable(L, 0, 5);
    lua_pushinteger(L, (lua_Integer)g.samples);
    lua_setfield(L, -2, "samples");
    lua_pushinteger(L, g.stacks);
    lua_setfield(L, -2, "stacks");
    lua_pushinteger(L, g.threads);
    lua_setfield(L, -2, "threads");
    lua_pushinteger(L, (lua_Integer)g.memory);
    lua_setfield(L, -2, "memory");
    lua_pushboolean(L, g.ended);
    lua_setfield(L, -2, "ended");
    return 1;
}

/* builder:finish(): what was added is all, no stream will come. */
static int l_finish(lua_State *L)
{
    builder_box *x = check_builder(L);
    if (!x->used) profile_builder_end(x->b);
    x->used = true;
    return 0;
}

/* builder:names() */
static int l_names(lua_State *L)
{
    builder_box *x = check_builder(L);
    builder_box *names = lua_newuserdatauv(L, sizeof *names, 0); // names
    *names = (builder_box){.tap = {take_names}, .names = true};
    luaL_setmetatable(L, BUILDER_TYPE);
    names->b = profile_builder_ref(x->b);
    return 1;
}

static int unnamed_work(void *p)
{
    job *j = p;
    profile_unnamed_of(j->b, &j->unnamed);
    return 0;
}

static int push_unnamed(lua_State *L, void *p)
{
    const profile_unnamed *u = &((const job *)p)->unnamed;
    lua_pushinteger(L, u->unknown);
    lua_pushinteger(L, u->begun);
    lua_pushinteger(L, (lua_Integer)u->dropped);
    return 3;
}

static const host_job_class ASKING = {.work = unnamed_work, .push = push_unnamed, .fini = job_fini};

/* builder:unnamed() */
static int l_unnamed(lua_State *L)
{
    builder_box *x = check_builder(L);
    job *j = host_job_new(L, sizeof *j, &ASKING);
    j->b = profile_builder_ref(x->b);
    return host_job_run(L, j);
}

static int build_work(void *p)
{
    job *j = p;
    j->made = profile_build(j->b, &j->job.e);
    return j->made ? 0 : -1;
}

static const host_job_class BUILDING = {.work = build_work, .push = push_made, .fini = job_fini};

/* builder:build() */
static int l_build(lua_State *L)
{
    builder_box *x = check_builder(L);
    profile_progress g;
    profile_progress_of(x->b, &g);
    if (!x->used || !g.ended || x->built) {
        err e = {0};
        (void)err_set(&e, ERR_CONFLICT,
                      x->built  ? "this profile has been built already"
                      : x->used ? "the stream has not ended"
                                : "no stream went through this builder");
        err_hint(&e, "open a source with tap=builder, stop it, then build once");
        return host_push_err(L, &e);
    }
    job *j = host_job_new(L, sizeof *j, &BUILDING);
    if (lua_toboolean(L, 2)) profile_names_told(x->b);
    x->built = true;
    j->b = profile_builder_ref(x->b);
    return host_job_run(L, j);
}

/* Reads opts.waits into a list that lies in a box on the stack; the texts are borrowed of the table. */
static size_t read_waits(lua_State *L, profile_wait **out)
{
    *out = NULL;
    if (lua_getfield(L, 1, "waits") == LUA_TNIL) return 0; // waits
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_Integer n = luaL_len(L, -1);
    if (n < 0 || n > PROFILE_WAITS_MAX) luaL_error(L, "profile.new: at most %d waits", PROFILE_WAITS_MAX);
    profile_wait *w = *out = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *w, 0); // waits list
    for (lua_Integer i = 0; i < n; i++) {
        lua_geti(L, -2, i + 1); // waits list entry
        if (!lua_istable(L, -1) || lua_getfield(L, -1, "name") != LUA_TSTRING ||
            lua_getfield(L, -2, "reason") != LUA_TSTRING) // waits list entry name reason
            luaL_error(L, "profile.new: a wait has a 'name' and a 'reason'");
        w[i] = (profile_wait){.name = lua_tostring(L, -2), .reason = lua_tostring(L, -1)};
        lua_pop(L, 3); // waits list
    }
    return (size_t)n;
}

static profile_kind read_kind(lua_State *L)
{
    static const char *const kinds[] = {"cpu", "allocation", NULL};
    lua_getfield(L, 1, "kind");
    int kind = luaL_checkoption(L, -1, "cpu", kinds);
    lua_pop(L, 1);
    return kind == 1 ? PROFILE_ALLOCATION : PROFILE_CPU;
}

/* profile.new{...} */
static int l_new(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    profile_cfg cfg = {.kind = read_kind(L)};
    lua_getfield(L, 1, "sampled");
    cfg.sampled = lua_toboolean(L, -1);
    lua_getfield(L, 1, "causality");
    cfg.causality = lua_toboolean(L, -1);
    lua_getfield(L, 1, "max_bytes");
    lua_Integer max = luaL_optinteger(L, -1, 0);
    luaL_argcheck(L, max >= 0, 1, "max_bytes is not negative");
    cfg.max_bytes = (size_t)max;
    lua_settop(L, 1);
    builder_box *x = lua_newuserdatauv(L, sizeof *x, 0); // opts box
    *x = (builder_box){.tap = {take}};
    luaL_setmetatable(L, BUILDER_TYPE);
    profile_wait *waits;
    cfg.n_waits = read_waits(L, &waits);
    cfg.waits = waits;
    err e = {0};
    x->b = profile_builder_new(&cfg, &e);
    if (!x->b) return host_push_err(L, &e);
    lua_settop(L, 2);
    return 1;
}

static void push_provider(lua_State *L, const char *name, uint64_t keywords, lua_Integer level)
{
    char text[24];
    (void)snprintf(text, sizeof text, "0x%llx", (unsigned long long)keywords);
    lua_createtable(L, 0, 3);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, text);
    lua_setfield(L, -2, "keywords");
    lua_pushinteger(L, level);
    lua_setfield(L, -2, "level");
}

static bool flag(lua_State *L, const char *name)
{
    lua_getfield(L, 1, name);
    bool on = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return on;
}

/* profile.providers{kind=, sampled=, loads=, il=} */
static int l_providers(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    profile_kind kind = read_kind(L);
    bool sampled = flag(L, "sampled"), loads = flag(L, "loads");
    uint64_t more = loads ? CLR_ENTRY_POINT_KEYWORD | (flag(L, "il") ? CLR_IL_MAP_KEYWORD : 0) : 0;
    lua_createtable(L, 2, 0);
    if (kind == PROFILE_CPU) {
        push_provider(L, SAMPLER, 0, 4);
        lua_rawseti(L, -2, 1);
        push_provider(L, RUNTIME_PROVIDER, CLR_NAMES_SESSION_KEYWORDS | more, loads ? 5 : 4);
        lua_rawseti(L, -2, 2);
    } else { /* AllocationTick is verbose, AllocationSampled is not */
        push_provider(L, RUNTIME_PROVIDER, CLR_NAMES_SESSION_KEYWORDS | more | (sampled ? DRAWN_KEYWORD : GC_KEYWORD),
                      sampled && !loads ? 4 : 5);
        lua_rawseti(L, -2, 1);
    }
    return 1;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

int luaopen_lunette_profile(lua_State *L)
{
    static const luaL_Reg guard_meta[] = {{"__gc", l_guard_gc}, {NULL, NULL}};
    static const luaL_Reg builder_meta[] = {
        {"__gc", l_builder_close}, {"__close", l_builder_close}, {TAP_FIELD, l_builder_close}, {NULL, NULL}};
    static const luaL_Reg builder_methods[] = {{"progress", l_progress},
                                               {"names", l_names},
                                               {"unnamed", l_unnamed},
                                               {"finish", l_finish},
                                               {"build", l_build},
                                               {"close", l_builder_close},
                                               {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {"__tostring", l_tostring}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"info", profile_lua__info},
                                       {"frame", profile_lua__frame},
                                       {"frames", profile_lua__frames},
                                       {"modules", profile_lua__modules},
                                       {"threads", profile_lua__threads},
                                       {"types", profile_lua__types},
                                       {"top_methods", profile_lua__top},
                                       {"by_module", profile_lua__by_module},
                                       {"by_namespace", profile_lua__by_namespace},
                                       {"hot_path", profile_lua__hot_path},
                                       {"match", profile_lua__match},
                                       {"caller_callee", profile_lua__edges},
                                       {"call_tree", profile_lua__tree},
                                       {"diff", profile_lua__diff},
                                       {"nodes", profile_lua__nodes},
                                       {"overlay", l_overlay},
                                       {"causality", l_causality},
                                       {"export", profile_lua__export},
                                       {"close", l_close},
                                       {NULL, NULL}};
    static const luaL_Reg functions[] = {{"new", l_new}, {"providers", l_providers}, {NULL, NULL}};
    host_type(L, GUARD_TYPE, guard_meta, NULL);
    host_type(L, BUILDER_TYPE, builder_meta, builder_methods);
    host_type(L, PROFILE_TYPE, meta, methods);
    luaL_newlib(L, functions);
    _Static_assert(CLR_NAMES_RUNDOWN_KEYWORDS == 0x138, "RUNDOWN below");
    lua_pushliteral(L, "0x138");
    lua_setfield(L, -2, "RUNDOWN");
    lua_pushliteral(L, "0x20138"); /* with the maps from instructions to IL */
    lua_setfield(L, -2, "RUNDOWN_IL");
    return 1;
}
