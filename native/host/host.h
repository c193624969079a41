/* SPDX-License-Identifier: MIT */
/* host.h: the embedded Lua: one state, one coroutine a task, await on native futures, cancellation, and a pre-emptive
 * budget. The whole host lives on the loop's thread. Functions named l_… may throw Lua errors (longjmp): own nothing
 * across them that is not boxed. */
#ifndef LUNETTE_HOST_HOST_H
#define LUNETTE_HOST_HOST_H

#include <lauxlib.h>
#include <lua.h>

#include "base/err.h"
#include "loop/loop.h"

typedef struct host host;
typedef struct task task;

#define HOST_SLICE_US_DEFAULT   2000
#define HOST_BUDGET_MS_DEFAULT  5000
#define HOST_BUDGET_SHARE       20 /* a task's budget grows by 1/20 of the time that passes */
#define HOST_HARD_MS_DEFAULT    500
#define HOST_GRACE_MS_DEFAULT   200
#define HOST_CLEANUP_MS_DEFAULT 3000
#define HOST_MEMORY_MAX_DEFAULT ((size_t)256 << 20)

/* A member that is 0 takes its default, but for budget_ms, where 0 means the default and a negative number means none.
 */
typedef struct host_cfg {
    const char *lua_dir; /* the folder that holds lunette/, tools/, …; becomes package.path. NULL: nothing but what is
                            preloaded */
    int64_t slice_us;    /* a coroutine that ran this long is suspended and queued behind the others; 2000 */
    int64_t budget_ms;   /* CPU that one task may use in Lua in all before BudgetExceeded; 5000 */
    int64_t hard_ms;    /* CPU that code which cannot be suspended (a sort's comparator, a gsub callback, a module's top
                           level) may use; 500 */
    int64_t grace_ms;   /* how long a cancelled task may go on before an error is thrown into it; 200 */
    int64_t cleanup_ms; /* how long an ending task's cleanup handlers may wait in all; 3000 */
    size_t memory_max;  /* bytes of the whole state; 256 MiB */
    bool count_hooks;   /* tick by count hooks even where a timer can be had (half the speed): for tests */
} host_cfg;

int host_new(loop *l, const host_cfg *cfg, host **out, err *e);
/* Cancels all tasks, runs the loop until their cleanup is done (at most cleanup_ms plus grace_ms), closes the state.
 * NULL is fine. */
void host_free(host *h);
lua_State *host_state(host *h);
host *host_of(lua_State *L);
loop *host_loop(lua_State *L);

/* Makes `require(name)` give the module that open_fn builds. Every native face registers itself so: HOST_FACES in main.
 * False when memory is out. */
bool host_preload(host *h, const char *name, lua_CFunction open_fn);

/* Asks the process to end with this exit code: stops the loop. The first call wins. */
void host_exit(host *h, int code);
bool host_exiting(const host *h);
int host_exit_code(const host *h);

/* Starts a task: the function and its nargs arguments are on top of h's main state and are popped, also on failure.
 * done (may be NULL) runs on the loop's thread when the task has ended and cleaned up; then L's top holds nres results
 * (ok) or the error value (not ok, nres 1); it must not throw. Returns NULL without memory. The pointer is good until
 * done has returned. */
typedef void (*task_done_fn)(void *arg, task *t, lua_State *L, bool ok, int nres);
task *host_spawn(host *h, int nargs, task_done_fn done, void *arg);
/* Its await returns nil, err(Cancelled); after the grace an error is thrown into it. Idempotent; nothing happens to a
 * task that cleans up. */
void task_cancel(task *t, const char *reason);
bool task_cancelled(const task *t);
task *task_current(lua_State *L); /* NULL outside a task */
/* CPU in Lua that the task may use from now on, in milliseconds; negative: as much as it likes. */
void task_set_budget(task *t, int64_t budget_ms);

/* What a task has cost so far, and the whole host. */
typedef struct task_usage {
    int64_t
        cpu_ns; /* time spent in Lua, by the monotonic clock, capped where the kernel had taken the processor away */
    uint64_t allocated_bytes; /* all that it ever allocated in the Lua state */
    uint32_t preempted;       /* how often a slice ran out */
} task_usage;
task_usage task_usage_of(const task *t);
size_t host_memory(const host *h); /* bytes of the Lua state now */
size_t host_tasks(const host *h);  /* tasks that have not ended */

/* For a native face that works for long in one call: throws when the running script has used up what it may, or is
 * cancelled. Cheap; own nothing across it that is not boxed. */
void host_look(lua_State *L);

/* For a native face: wait for f. push(L, f, arg) pushes the results of a resolved future (and may take the payload) and
 * returns their number; a failed or cancelled one gives nil, err. Takes over the caller's reference to f. Use it as
 * `return host_await(L, f, timeout, push, arg);`. The C function's own arguments are still at their indices when push
 * runs. Throws when the context may not wait (outside a task, or under a C function such as table.sort: "… cannot wait
 * here"). timeout_ms < 0: none; on timeout f is cancelled and the result is nil, err(Timeout). push NULL: true. */
typedef int (*host_push_fn)(lua_State *L, future *f, void *arg);
int host_await(lua_State *L, future *f, int timeout_ms, host_push_fn push, void *arg);

/* Pushes nil, err and returns 2: the one way in which a native face reports an expected failure. The err value is a
 * table {kind=, message=, detail=?, hint=?, offset=?, sys=?, hresult=?} with a metatable: tostring() reads well,
 * err:at("where") adds a place. Kinds are the contract's names. */
int host_push_err(lua_State *L, const err *e);
void host_push_err_value(lua_State *L, const err *e); /* just the table */
/* Reads an err table (or any error value) at index into *e. */
void host_to_err(lua_State *L, int idx, err *e);

/* Allocates a full userdata whose memory is freed when Lua lets go of it: for what must not leak when a later call
 * throws. Pushes it. */
void *host_box(lua_State *L, size_t n);

/* Sets a member of the table on the stack's top. */
void host_set_int(lua_State *L, const char *key, int64_t v);
void host_set_count(lua_State *L, const char *key, uint64_t v);
void host_set_bool(lua_State *L, const char *key, bool v);
/* Makes the type of a userdata, once a state: its metamethods, and the methods behind __index; NULL: none. */
void host_type(lua_State *L, const char *name, const luaL_Reg *meta, const luaL_Reg *methods);

#endif
