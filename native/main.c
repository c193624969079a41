/* SPDX-License-Identifier: MIT */
/* main.c: the lunette binary: finds its scripts, opens the loop and the Lua host with every native face, and runs one
 * subcommand. */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "host/bundle.h"
#include "host/faces.h"
#include "host/host.h"
#ifdef LUNETTE_HAVE_TRACE
#include "nettrace/trace_cmd.h"
#endif
#ifdef LUNETTE_HAVE_REPLAY
#include "ipc/replay.h"
#endif
#ifdef LUNETTE_HAVE_SYMBOLS_CMD
#include "symbols/symbols_cmd.h"
#endif
#ifdef LUNETTE_HAVE_WORKER
#include "memory/worker.h"
#endif

enum { EXIT_USAGE = 2 };

/* ---- what is linked in ---- */

#ifdef LUNETTE_HAVE_REGEX
int luaopen_lunette_regex(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_CLR
int luaopen_lunette_clr(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_SYMBOLS
int luaopen_lunette_symbols(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_IPC
int luaopen_lunette_ipc(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_PROFILE
int luaopen_lunette_profile(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_GRAPH
int luaopen_lunette_graph(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_ONCPU
int luaopen_lunette_oncpu(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_EVENTS
int luaopen_lunette_events(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_PROC
int luaopen_lunette_proc(lua_State *L);
int luaopen_lunette_counting(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_MEMORY
int luaopen_lunette_memory(lua_State *L);
int luaopen_lunette_heap(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_ARTIFACTS
int luaopen_lunette_artifacts(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_OFFCPU
int luaopen_lunette_offcpu(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_HITS
int luaopen_lunette_hits(lua_State *L);
#endif
#ifdef LUNETTE_HAVE_TRANSPORT
int luaopen_lunette_http(lua_State *L);
int luaopen_lunette_stdio(lua_State *L);
#endif

/* Every native module that a script can require. */
#ifdef LUNETTE_HAVE_BUNDLE
extern const uint8_t lunette_bundle[], lunette_bundle_end[]; /* scripts.c, made by the build */
#endif

static const luaL_Reg HOST_FACES[] = {{"lunette.json", luaopen_lunette_json},
                                      {"lunette.loop", luaopen_lunette_loop},
                                      {"lunette.crypto", luaopen_lunette_crypto},
                                      {"lunette.fs", luaopen_lunette_fs},
                                      {"lunette.log", luaopen_lunette_log},
                                      {"lunette.sys", luaopen_lunette_sys},
                                      {"lunette.watch", luaopen_lunette_watch},
#ifdef LUNETTE_HAVE_REGEX
                                      {"lunette.regex", luaopen_lunette_regex},
#endif
#ifdef LUNETTE_HAVE_PROFILE
                                      {"lunette.profile", luaopen_lunette_profile},
#endif
#ifdef LUNETTE_HAVE_GRAPH
                                      {"lunette.graph", luaopen_lunette_graph},
#endif
#ifdef LUNETTE_HAVE_ONCPU
                                      {"lunette.oncpu", luaopen_lunette_oncpu},
#endif
#ifdef LUNETTE_HAVE_CLR
                                      {"lunette.clr", luaopen_lunette_clr},
#endif
#ifdef LUNETTE_HAVE_SYMBOLS
                                      {"lunette.symbols", luaopen_lunette_symbols},
#endif
#ifdef LUNETTE_HAVE_IPC
                                      {"lunette.ipc", luaopen_lunette_ipc},
#endif
#ifdef LUNETTE_HAVE_EVENTS
                                      {"lunette.events", luaopen_lunette_events},
#endif
#ifdef LUNETTE_HAVE_PROC
                                      {"lunette.proc", luaopen_lunette_proc},
                                      {"lunette.counting", luaopen_lunette_counting},
#endif
#ifdef LUNETTE_HAVE_MEMORY
                                      {"lunette.memory", luaopen_lunette_memory},
#endif
#ifdef LUNETTE_HAVE_HEAP
                                      {"lunette.heap", luaopen_lunette_heap},
#endif
#ifdef LUNETTE_HAVE_ARTIFACTS
                                      {"lunette.artifacts", luaopen_lunette_artifacts},
#endif
#ifdef LUNETTE_HAVE_OFFCPU
                                      {"lunette.offcpu", luaopen_lunette_offcpu},
#endif
#ifdef LUNETTE_HAVE_HITS
                                      {"lunette.hits", luaopen_lunette_hits},
#endif
#ifdef LUNETTE_HAVE_TRANSPORT
                                      {"lunette.http", luaopen_lunette_http},
                                      {"lunette.stdio", luaopen_lunette_stdio},
#endif
                                      {NULL, NULL}};

/* Subcommands that need no scripts. run gets the arguments from the subcommand's name on. */
typedef struct native_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} native_command;

static const native_command NATIVE_COMMANDS[] = {
#ifdef LUNETTE_HAVE_TRACE
    {"trace", "show what is in a recorded .nettrace file", trace_main},
#endif
#ifdef LUNETTE_HAVE_REPLAY
    {"replay", "play a recorded session as if it were a live process", replay_main},
#endif
#ifdef LUNETTE_HAVE_SYMBOLS_CMD
    {"symbols", "list the methods of a .NET module or a PDB, with their files and lines", symbols_main},
#endif
#ifdef LUNETTE_HAVE_WORKER
    {"worker", "one bounded job on a process or a dump, for the server", worker_main},
#endif
    {NULL, NULL, NULL}};

/* ---- where the scripts are ---- */

static bool is_home(const char *dir)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/lua/cli/main.lua", dir);
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0;
}

/* The folder that holds lua/, playbooks/ and schemas/: LUNETTE_HOME; else ../share/lunette beside the binary; else, in
 * a development build, the source tree. False, with *home the place looked at last, when it is none of these. */
static bool find_home(char home[PATH_MAX])
{
    const char *env = getenv("LUNETTE_HOME");
    if (env && *env) {
        snprintf(home, PATH_MAX, "%s", env);
        return is_home(home);
    }
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n > 0) {
        exe[n] = '\0';
        char installed[PATH_MAX + 32];
        snprintf(installed, sizeof installed, "%s/../share/lunette", dirname(exe));
        if (realpath(installed, home) && is_home(home)) return true;
    }
#ifdef LUNETTE_DEV_HOME
    snprintf(home, PATH_MAX, "%s", LUNETTE_DEV_HOME);
    return is_home(home);
#else
    return false;
#endif
}

/* ---- one command as a task ---- */

typedef struct command_run {
    host *h;
    const char *name; /* of the subcommand, or "lua" */
    const char *file; /* of `lunette lua` */
    char **args;      /* after the name, NULL-terminated */
} command_run;

static int exit_code_of(lua_State *L, int nres)
{
    if (nres == 0 || lua_isnil(L, -nres)) return EXIT_SUCCESS;
    if (lua_isboolean(L, -nres)) return lua_toboolean(L, -nres) ? EXIT_SUCCESS : EXIT_FAILURE;
    int is_int = 0;
    lua_Integer code = lua_tointegerx(L, -nres, &is_int);
    return is_int && code >= 0 && code <= 255 ? (int)code : EXIT_FAILURE;
}

static void command_done(void *arg, task *t, lua_State *L, bool ok, int nres)
{
    const command_run *run = (const command_run *)arg;
    (void)t;
    if (!ok && !host_exiting(run->h)) {
        err e = {0};
        host_to_err(L, -1, &e);
        fprintf(stderr, "lunette %s: %s: %s\n", run->name, err_kind_name(e.kind), e.message);
        if (e.hint[0]) fprintf(stderr, "  %s\n", e.hint);
    }
    host_exit(run->h, ok ? exit_code_of(L, nres) : EXIT_FAILURE);
}

static void push_list(lua_State *L, char **items)
{
    lua_newtable(L); // list
    for (lua_Integer i = 0; items[i]; i++) {
        lua_pushstring(L, items[i]); // list item
        lua_rawseti(L, -2, i + 1);   // list
    }
}

static void push_native_commands(lua_State *L)
{
    lua_newtable(L); // map
    for (const native_command *c = NATIVE_COMMANDS; c->name; c++) {
        lua_pushstring(L, c->summary); // map summary
        lua_setfield(L, -2, c->name);  // map
    }
}

/* Protected. Argument: the run. Leaves the function to run and its arguments. */
static int l_load_command(lua_State *L)
{
    static const char BOOT[] = "return require('cli.main').run(...)";
    const command_run *run = (const command_run *)lua_touserdata(L, 1);
    lua_settop(L, 0);
    if (run->file) {
        push_list(L, run->args);                                              // arg
        lua_pushstring(L, run->file);                                         // arg file
        lua_rawseti(L, -2, 0);                                                // arg
        lua_setglobal(L, "arg");                                              //
        if (luaL_loadfilex(L, run->file, "t") != LUA_OK) return lua_error(L); // fn
        for (char **p = run->args; *p; p++) {
            luaL_checkstack(L, 2, "too many arguments");
            lua_pushstring(L, *p); // fn args…
        }
    } else {
        if (luaL_loadbufferx(L, BOOT, sizeof BOOT - 1, "=lunette", "t") != LUA_OK) return lua_error(L); // fn
        lua_pushstring(L, run->name);                                                                   // fn name
        push_list(L, run->args);                                                                        // fn name args
        push_native_commands(L); // fn name args natives
    }
    return lua_gettop(L);
}

static int start_command(command_run *run)
{
    lua_State *L = host_state(run->h);
    int before = lua_gettop(L);
    lua_pushcfunction(L, l_load_command); // fn
    lua_pushlightuserdata(L, run);        // fn run
    if (lua_pcall(L, 1, LUA_MULTRET, 0) != LUA_OK) {
        fprintf(stderr, "lunette %s: %s\n", run->name, lua_tostring(L, -1));
        return EXIT_FAILURE;
    }
    task *t = host_spawn(run->h, lua_gettop(L) - before - 1, command_done, run);
    if (!t) {
        fprintf(stderr, "lunette %s: out of memory\n", run->name);
        return EXIT_FAILURE;
    }
    task_set_budget(t, -1); /* the command is its user's own */
    return EXIT_SUCCESS;
}

/* ---- signals ---- */

/* The first one ends the process in good order: tasks are cancelled and clean up. The second one ends it at once. For a
 * server SIGTERM is the way to end; for any other command it means that what was asked for was not done. */
static void on_end_signal(void *arg, int signo)
{
    const command_run *run = arg;
    static bool again;
    if (again) _exit(128 + signo);
    again = true;
    host_exit(run->h, signo == SIGTERM && strcmp(run->name, "serve") == 0 ? EXIT_SUCCESS : 128 + signo);
}

/* A terminal that goes away ends us in good order too, unless it was to be outlived (nohup). */
static bool end_signals(loop *l, command_run *run, err *e)
{
    struct sigaction hup;
    bool outlive = sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler == SIG_IGN;
    return loop_signal(l, SIGINT, on_end_signal, run, e) >= 0 && loop_signal(l, SIGTERM, on_end_signal, run, e) >= 0 &&
           (outlive || loop_signal(l, SIGHUP, on_end_signal, run, e) >= 0);
}

static int run_host(loop *l, const char *home, command_run *run)
{
    err e = {0};
    char lua_dir[PATH_MAX + 8];
    snprintf(lua_dir, sizeof lua_dir, "%s/lua", home);
#ifdef LUNETTE_HAVE_BUNDLE
    bundle_use(lunette_bundle, (size_t)(lunette_bundle_end - lunette_bundle));
#endif
    host_cfg cfg = {.lua_dir = home[0] ? lua_dir : NULL};
    if (host_new(l, &cfg, &run->h, &e) < 0) {
        fprintf(stderr, "lunette: %s\n", e.message);
        return EXIT_FAILURE;
    }
    sys_lua_setup(&(sys_info){.home = home, .args = (const char *const *)run->args});
    bool ready = true;
    for (const luaL_Reg *f = HOST_FACES; f->name; f++)
        ready = ready && host_preload(run->h, f->name, f->func);
    int rc = ready && end_signals(l, run, &e) ? start_command(run) : EXIT_FAILURE;
    if (rc == EXIT_SUCCESS) {
        if (loop_run(l, &e) < 0) host_exit(run->h, EXIT_FAILURE);
        rc = host_exit_code(run->h);
    }
    if (e.kind) fprintf(stderr, "lunette: %s\n", e.message);
    host_free(run->h);
    run->h = NULL;
    return rc;
}

/* ---- the command line ---- */

static int lua_usage(FILE *to)
{
    fputs("usage: lunette lua FILE [ARGUMENT...]\n"
          "Runs a Lua script inside the host, as a task: it may wait, and require lunette's native and Lua modules.\n"
          "The script gets the arguments as \"...\" and in the global arg; the number it returns is the exit code.\n",
          to);
    return to == stdout ? EXIT_SUCCESS : EXIT_USAGE;
}

static int run_command(const char *name, const char *file, char **args)
{
    char home[PATH_MAX] = "";
    bool found = find_home(home);
    if (!found && !file) {
        fprintf(stderr,
                "lunette: no scripts in %s: set LUNETTE_HOME to the folder that holds lua/, playbooks/ and schemas/\n",
                home[0] ? home : "../share/lunette");
        return EXIT_FAILURE;
    }
    if (!found) home[0] = '\0';
    loop *l = NULL;
    err e = {0};
    if (loop_new(&l, &e) < 0) {
        fprintf(stderr, "lunette: %s\n", e.message);
        return EXIT_FAILURE;
    }
    command_run run = {.name = name, .file = file, .args = args};
    int rc = run_host(l, home, &run);
    loop_free(l);
    return rc;
}

/* A descriptor of ours must not take the number of a standard one that was closed before us. What is written to such
 * a one fails, as it did. */
static bool claim_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    return fd >= 0 && close(fd) == 0;
}

static int run_main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "--help";
    char **args = argc > 2 ? argv + 2 : argv + argc;
    if (strcmp(name, "--version") == 0) {
        puts("lunette " LUNETTE_VERSION);
        return EXIT_SUCCESS;
    }
    for (const native_command *c = NATIVE_COMMANDS; c->name; c++)
        if (strcmp(c->name, name) == 0) return c->run(argc - 1, argv + 1);
    if (strcmp(name, "lua") == 0) {
        if (!args[0]) return lua_usage(stderr);
        if (strcmp(args[0], "--help") == 0) return lua_usage(stdout);
        return run_command(name, args[0], args + 1);
    }
    return run_command(name, NULL, args);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    /* Reading the scripts at start takes and gives back the top of the heap hundreds of times: keep some of it. */
    mallopt(M_TOP_PAD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 2 << 20);
    mallopt(M_MXFAST,
            0); /* the chunks that these bins keep apart are put together at one go: 40 ms after much garbage */
    mallopt(M_ARENA_MAX, 2); /* threads share arenas: resident memory matters more here than their contention */
    if (!claim_standard_descriptors()) {
        fputs("lunette: cannot open /dev/null\n", stderr);
        return EXIT_FAILURE;
    }
    return run_main(argc, argv);
}
