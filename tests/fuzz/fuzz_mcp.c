/* SPDX-License-Identifier: MIT */
/* fuzz_mcp.c: HTTP requests and stdio lines, through the JSON reader into the protocol layer in Lua. What must hold is
 * in mcp_target.lua; an error there, or a task that is left over, is a find. Lines of Lua count as coverage. */
#include <stdio.h>
#include <stdlib.h>

#include "host/faces.h"
#include "host/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int luaopen_lunette_http(lua_State *L);
int luaopen_lunette_stdio(lua_State *L);

#define INPUT_MAX ((size_t)64 << 10)
#define ROUND_MS  5
#define ROUNDS    2000 /* rounds of the loop that an input may take */
#define COUNTERS  (1u << 15)

#if defined(__clang__)
__attribute__((section("__libfuzzer_extra_counters")))
#endif
static uint8_t counters[COUNTERS];

static struct {
    loop *l;
    host *h;
    int target; /* registry reference of the function of mcp_target.lua */
} fuzz;

typedef struct outcome {
    bool ended;
} outcome;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "fuzz_mcp: %s: %s\n", what, why);
    abort();
}

/* A line is known by the length of its file's name, the line of its function and its own: cheap, and the same in every
 * run. */
static void on_line(lua_State *L, lua_Debug *ar)
{
    lua_getinfo(L, "Sl", ar);
    uint32_t h = (uint32_t)ar->currentline * 2654435761u ^ (uint32_t)ar->linedefined * 2246822519u;
    counters[(h ^ (uint32_t)ar->srclen * 3266489917u) >> 17]++;
}

/* cover(): from here on the lines that this coroutine runs are counted. */
static int l_cover(lua_State *L)
{
    lua_sethook(L, on_line, LUA_MASKLINE, 0);
    return 0;
}

static int l_load(lua_State *L)
{
    lua_register(L, "cover", l_cover);
    if (luaL_dofile(L, LUNETTE_SOURCE_DIR "/tests/fuzz/mcp_target.lua") != LUA_OK) return lua_error(L);
    fuzz.target = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

static void preload_all(host *h)
{
    static const luaL_Reg faces[] = {
        {"lunette.json", luaopen_lunette_json},     {"lunette.loop", luaopen_lunette_loop},
        {"lunette.crypto", luaopen_lunette_crypto}, {"lunette.fs", luaopen_lunette_fs},
        {"lunette.log", luaopen_lunette_log},       {"lunette.sys", luaopen_lunette_sys},
        {"lunette.http", luaopen_lunette_http},     {"lunette.stdio", luaopen_lunette_stdio},
    };
    for (size_t i = 0; i < sizeof faces / sizeof *faces; i++)
        if (!host_preload(h, faces[i].name, faces[i].func)) die("preload", faces[i].name);
}

static void begin(void)
{
    static const char *const no_args[] = {NULL};
    static const sys_info info = {.home = LUNETTE_SOURCE_DIR, .args = no_args};
    host_cfg cfg = {.lua_dir = LUNETTE_SOURCE_DIR "/lua", .budget_ms = -1};
    err e = {0};
    sys_lua_setup(&info);
    if (loop_new(&fuzz.l, &e) < 0 || host_new(fuzz.l, &cfg, &fuzz.h, &e) < 0) die("start", e.message);
    preload_all(fuzz.h);
    lua_State *L = host_state(fuzz.h);
    lua_pushcfunction(L, l_load);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) die("mcp_target.lua", lua_tostring(L, -1));
}

static void on_done(void *arg, task *t, lua_State *L, bool ok, int nres)
{
    outcome *o = arg;
    (void)t;
    (void)nres;
    if (!ok) die("the target", luaL_tolstring(L, -1, NULL));
    o->ended = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!fuzz.h) begin();
    if (size > INPUT_MAX) return 0;
    lua_State *L = host_state(fuzz.h);
    outcome o = {false};
    lua_rawgeti(L, LUA_REGISTRYINDEX, fuzz.target);
    lua_pushlstring(L, (const char *)data, size);
    if (!host_spawn(fuzz.h, 1, on_done, &o)) die("spawn", "no memory");
    err e = {0};
    for (int i = 0; i < ROUNDS && !(o.ended && host_tasks(fuzz.h) == 0); i++)
        if (loop_run_once(fuzz.l, ROUND_MS, &e) < 0) die("loop", e.message);
    if (!o.ended) die("the input", "was not handled in time");
    if (host_tasks(fuzz.h) != 0) die("the input", "left tasks behind");
    return 0;
}
