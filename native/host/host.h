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

typedef struct host_cfg {
    const char *lua_dir; /* the folder that holds lunette/, tools/, …; prepended to package.path as DIR/?.lua; */
    int64_t slice_us;    /* a coroutine that ran this long is suspended and queued behind the others; default 2000 */
    int64_t budget_ms;   /* CPU that one task may use in Lua in all before BudgetExceeded; default 5000; 0: none */
    size_t memory_max;   /* bytes of the whole state; default 256 MiB */
} host_cfg;

int host_new(loop *l, const host_cfg *cfg, host **out, err *e);
void host_free(host *h); /* cancels all tasks, runs their cleanup, closes the state */
lua_State *host_state(host *h);
host *host_of(lua_State *L);
loop *host_loop(lua_State *L);

/* Makes `require(name)` give the module that open_fn builds. Every native face registers itself so: HOST_FACES in main.
 */
void host_preload(host *h, const char *name, lua_CFunction open_fn);

/* Starts a task: the function and its nargs arguments are on top of h's main state and are popped. done (may be NULL)
 * runs on the loop's thread when the task ended; then L's top holds nres results (ok) or the error value (not ok).
 * Returns NULL without memory. */
typedef void (*task_done_fn)(void *arg, task *t, lua_State *L, bool ok, int nres);
task *host_spawn(host *h, int nargs, task_done_fn done, void *arg);
void task_cancel(
    task *t, const char *reason); /* its await returns nil, err(Cancelled); the next budget check throws; idempotent */
bool task_cancelled(const task *t);
task *task_current(lua_State *L); /* NULL outside a task */

/* For a native face: wait for f. push(L, f, arg) pushes the results of a resolved future (and may take the payload) and
 * returns their number; a failed or cancelled one gives nil, err. Takes over the caller's reference to f. Use it as
 * `return host_await(L, f, push, arg);`. Throws when the context may not wait (outside a task, or inside a view:
 * "…cannot wait here"). timeout_ms < 0: none; on timeout f is cancelled and the result is nil, err(Timeout). */
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
 * throws. */
void *host_box(lua_State *L, size_t n);

#endif
