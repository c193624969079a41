/* SPDX-License-Identifier: MIT */
/* task.c: a task is a coroutine with an owner's duties: it is queued, resumed, pre-empted, ended, and cleaned up after,
 * once each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/utf.h"
#include "host/host_internal.h"

#define ROUND_NS 4000000 /* how long one round may resume tasks before descriptors and timers get their turn */

static void push_queue(task_queue *q, task *t)
{
    t->queued = true;
    t->qnext = NULL;
    if (q->tail)
        q->tail->qnext = t;
    else
        q->head = t;
    q->tail = t;
}

static task *pop_queue(task_queue *q)
{
    task *t = q->head;
    if (!t) return NULL;
    q->head = t->qnext;
    if (!q->head) q->tail = NULL;
    t->qnext = NULL;
    t->queued = false;
    return t;
}

void task__ready(task *t)
{
    if (t->queued || t->phase == PHASE_DONE) return;
    push_queue(t->phase == PHASE_NEW ? &t->h->fresh : &t->h->ready, t);
}

void task__unref(task *t)
{
    if (--t->refs == 0) free(t);
}

/* ---- inside the coroutine ---- */

void task__on_cleanup(lua_State *L, task *t, int fn_idx)
{
    fn_idx = lua_absindex(L, fn_idx);
    if (t->n_cleanup >= TASK_CLEANUPS_MAX) luaL_error(L, "a task has at most %d cleanup handlers", TASK_CLEANUPS_MAX);
    if (t->cleanup_ref == LUA_NOREF) {
        lua_newtable(L);                                 // list
        t->cleanup_ref = luaL_ref(L, LUA_REGISTRYINDEX); //
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, t->cleanup_ref); // list
    lua_pushvalue(L, fn_idx);                          // list fn
    lua_rawseti(L, -2, t->n_cleanup + 1);              // list
    t->n_cleanup++;
    lua_pop(L, 1); //
}

/* Pushes the cleanup handler that was registered last and forgets it; false when there is none. */
static bool push_next_cleanup(lua_State *L, task *t)
{
    if (t->n_cleanup == 0) return false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, t->cleanup_ref); // list
    lua_rawgeti(L, -1, t->n_cleanup);                  // list fn
    lua_pushnil(L);                                    // list fn nil
    lua_rawseti(L, -3, t->n_cleanup);                  // list fn
    t->n_cleanup--;
    lua_remove(L, -2); // fn
    return true;
}

/* Stack: handler results…; with ctx 1 a cleanup handler has just returned, and left an error value if status says so.
 */
static int cleanup_k(lua_State *L, int status, lua_KContext ctx)
{
    task *t = host_of(L)->running;
    for (;;) {
        /* The message handler has logged it; the others still run. */
        if (ctx == 1 && status != LUA_OK && status != LUA_YIELD) lua_pop(L, 1);
        ctx = 1;
        t->condemned = ERR_NONE;
        t->doomed = false;
        if (!push_next_cleanup(L, t)) return lua_gettop(L) - 1;
        status = lua_pcallk(L, 0, 0, 1, 1, cleanup_k);
    }
}

static int body_k(lua_State *L, int status, lua_KContext ctx)
{
    (void)ctx;
    host *h = host_of(L);
    task *t = h->running;
    t->ok = status == LUA_OK || status == LUA_YIELD;
    t->phase = PHASE_CLEANUP;
    t->condemned = ERR_NONE;
    t->doomed = false;
    t->cleanup_end_ns = mono_ns() + h->cfg.cleanup_ms * 1000000;
    task_set_budget(t, h->cfg.cleanup_ms);
    if (status == LUA_ERRMEM) {
        err e = {0};
        err_set(&e, ERR_NO_MEMORY, "the scripts' memory is used up (cap: %zu MiB)", h->cfg.memory_max >> 20);
        lua_settop(L, 1);           // handler
        host_push_err_value(L, &e); // handler err
        log_err(LOG_ERROR, "lua", "task ended", &e);
    }
    return cleanup_k(L, LUA_OK, 0);
}

/* The body of every task. Stack: function arguments… */
static int task_main(lua_State *L)
{
    lua_pushcfunction(L, err__handler); // fn args… handler
    lua_insert(L, 1);                   // handler fn args…
    int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, 0, body_k);
    return body_k(L, status, 0);
}

/* ---- from the loop ---- */

static void unlink_task(task *t)
{
    host *h = t->h;
    if (t->prev)
        t->prev->next = t->next;
    else
        h->tasks = t->next;
    if (t->next) t->next->prev = t->prev;
    t->prev = t->next = NULL;
    h->n_tasks--;
}

/* The results, or the one error value, are on top of t->co. */
static void finish(task *t, bool ok, int nres)
{
    host *h = t->h;
    t->phase = PHASE_DONE;
    t->ok = ok;
    t->nres = nres;
    await__drop(t);
    box__drop_all(t);
    unlink_task(t);
    task__wake_waiters(t);
    if (t->done) t->done(t->done_arg, t, t->co, ok, nres);
    luaL_unref(h->L, LUA_REGISTRYINDEX, t->cleanup_ref);
    luaL_unref(h->L, LUA_REGISTRYINDEX, t->data_ref);
    luaL_unref(h->L, LUA_REGISTRYINDEX, t->ud_ref);
    luaL_unref(h->L, LUA_REGISTRYINDEX, t->co_ref);
    t->cleanup_ref = t->data_ref = t->ud_ref = t->co_ref = LUA_NOREF;
    task__unref(t);
}

/* Runs what cleanup handlers are left on the main state, where none can wait: the coroutine is beyond resuming. */
static void cleanup_without_waiting(task *t)
{
    lua_State *M = t->h->L;
    t->phase = PHASE_CLEANUP;
    if (!lua_checkstack(M, 8)) return;
    while (push_next_cleanup(M, t)) { // fn
        if (lua_pcall(M, 0, 0, 0) == LUA_OK) continue;
        log_msg(LOG_ERROR, "lua", "cleanup failed: %s",
                lua_isstring(M, -1) ? lua_tostring(M, -1) : luaL_typename(M, -1));
        lua_pop(M, 1); //
    }
}

/* Argument: an err as a light userdata. */
static int l_make_err(lua_State *L)
{
    host_push_err_value(L, (const err *)lua_touserdata(L, 1));
    return 1;
}

/* Ends a task that never ran, or will run no more: its error value is e. */
static void end_with(task *t, const err *e)
{
    lua_State *M = t->h->L;
    lua_resetthread(t->co);
    cleanup_without_waiting(t);
    lua_settop(t->co, 0);
    lua_pushcfunction(M, l_make_err);    // fn
    lua_pushlightuserdata(M, (void *)e); // fn e
    (void)lua_pcall(M, 1, 1, 0);         // err       or the message that memory is out
    lua_xmove(M, t->co, 1);              //
    finish(t, false, 1);
}

static void resume(task *t)
{
    host *h = t->h;
    int nargs = t->phase == PHASE_NEW ? lua_gettop(t->co) - 1 : 0, nres = 0;
    if (t->phase == PHASE_NEW) t->phase = PHASE_BODY;
    co_frame fr = {.L = t->co, .up = NULL};
    h->running = t;
    h->cur = &fr;
    h->yield = YIELD_SCRIPT;
    budget__start(h, t->co);
    int status = lua_resume(t->co, h->L, nargs, &nres);
    h->cur = NULL;
    budget__stop(h, t);
    h->running = NULL;
    if (status == LUA_YIELD) {
        if (h->yield == YIELD_SLICE) push_queue(&h->preempted, t);
        return;
    }
    bool ok = status == LUA_OK && t->ok;
    if (status != LUA_OK) {
        /* Only what happens outside the body's protection comes here: memory that is out, a C stack that is full. */
        log_msg(LOG_ERROR, "lua", "task broke: %s",
                lua_isstring(t->co, -1) ? lua_tostring(t->co, -1) : luaL_typename(t->co, -1));
        lua_resetthread(t->co);
        cleanup_without_waiting(t);
        nres = 1;
    }
    finish(t, ok, nres);
}

static void start_or_resume(task *t)
{
    if (t->phase == PHASE_NEW && t->cancelled) {
        err e = {0};
        err_set(&e, ERR_CANCELLED, "the task was cancelled: %s", t->reason);
        end_with(t, &e);
    } else {
        resume(t);
    }
}

bool task__run_round(void *arg)
{
    host *h = (host *)arg;
    int64_t start = mono_ns();
    if (h->ready.head || h->fresh.head || h->preempted.head) h->last_run_ns = start;
    while (h->ready.head && mono_ns() - start < ROUND_NS)
        start_or_resume(pop_queue(&h->ready));
    /* Each of these may take a slice, so that those who only waited come before them; one new task has its turn in any
     * case. */
    if (h->fresh.head) start_or_resume(pop_queue(&h->fresh));
    while (h->fresh.head && mono_ns() - start < ROUND_NS)
        start_or_resume(pop_queue(&h->fresh));
    /* Those that used up their slice share what the others leave, but get every second round. */
    h->had_slice = !h->had_slice || mono_ns() - start < ROUND_NS / 2;
    if (h->preempted.head && h->had_slice) start_or_resume(pop_queue(&h->preempted));
    return h->ready.head || h->fresh.head || h->preempted.head;
}

void task__kill_all(host *h)
{
    err e = {0};
    err_set(&e, ERR_CANCELLED, "the host ended");
    while (h->tasks) {
        task *t = h->tasks;
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): end_with() takes the freed ones off the list
        await__drop(t);
        end_with(t, &e);
    }
    h->ready = h->fresh = h->preempted = (task_queue){0};
}

/* ---- public ---- */

/* Argument: the task as a light userdata. */
static int l_new_thread(lua_State *L)
{
    task *t = (task *)lua_touserdata(L, 1);
    t->co = lua_newthread(L);                   // task co
    host__mark(t->co, true);                    //         it is the scheduler's to resume and to close, no script's
    t->co_ref = luaL_ref(L, LUA_REGISTRYINDEX); // task
    return 0;
}

static task *task_new(host *h)
{
    lua_State *M = h->L;
    task *t = h->n_tasks < HOST_TASKS_MAX && lua_checkstack(M, 8) ? (task *)mem_calloc(1, sizeof *t) : NULL;
    if (!t) return NULL;
    t->h = h;
    t->refs = 1;
    t->ud_ref = t->data_ref = t->cleanup_ref = LUA_NOREF;
    task_set_budget(t, h->cfg.budget_ms);
    lua_pushcfunction(M, l_new_thread); // fn
    lua_pushlightuserdata(M, t);        // fn task
    if (lua_pcall(M, 1, 0, 0) == LUA_OK) return t;
    lua_pop(M, 1); //
    free(t);
    return NULL;
}

task *host_spawn(host *h, int nargs, task_done_fn done, void *arg)
{
    task *t = task_new(h);
    if (!t || !lua_checkstack(t->co, nargs + 8)) {
        lua_pop(h->L, nargs + 1);
        if (t) luaL_unref(h->L, LUA_REGISTRYINDEX, t->co_ref);
        free(t);
        return NULL;
    }
    lua_pushcfunction(t->co, task_main);
    lua_xmove(h->L, t->co, nargs + 1);
    t->done = done;
    t->done_arg = arg;
    t->next = h->tasks;
    if (t->next) t->next->prev = t;
    h->tasks = t;
    h->n_tasks++;
    task__ready(t);
    return t;
}

void task_cancel(task *t, const char *reason)
{
    if (t->cancelled || t->phase == PHASE_CLEANUP || t->phase == PHASE_DONE) return;
    t->cancelled = true;
    t->cancel_at_ns = mono_ns() + t->h->cfg.grace_ms * 1000000;
    snprintf(t->reason, sizeof t->reason, "%s", reason ? reason : "no reason given");
    t->reason[utf8_cut(slice_str(t->reason), sizeof t->reason)] = '\0';
    await__cancel(t);
}

bool task_cancelled(const task *t) { return t->cancelled; }

task *task_current(lua_State *L) { return host_of(L)->running; }

void task_set_budget(task *t, int64_t budget_ms)
{
    t->budget_from_ns = mono_ns();
    t->budget_ns = budget_ms < 0 ? INT64_MAX : t->use.cpu_ns + budget_ms * 1000000;
}

task_usage task_usage_of(const task *t) { return t->use; }
