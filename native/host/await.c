/* SPDX-License-Identifier: MIT */
/* await.c: a task waits for a future. Waiting is yielding: the wait is noted in the task, the coroutine (and every
 * coroutine around it) yields, and the loop's thread resumes it once, when the future ended, the time is over, or the
 * task was cancelled. */
#include "host/host_internal.h"

bool host__may_yield(lua_State *L)
{
    host *h = host_of(L);
    co_frame *fr = h->cur;
    /* A coroutine that somebody else resumed (lua_resetthread runs its close handlers) is none of ours to suspend. */
    if (!fr || fr->L != L || !h->running || !lua_isyieldable(L)) return false;
    for (; fr; fr = fr->up)
        if (fr->closing || !lua_isyieldable(fr->L)) return false;
    return true;
}

static void wake(task *t, wait_end how)
{
    loop_timer_del(t->wait_timer);
    t->wait_timer = NULL;
    t->wait_end = how;
    task__ready(t);
}

static void on_future(void *arg, future *f)
{
    (void)f;
    wake((task *)arg, WAIT_DONE);
}

static void on_timeout(void *arg)
{
    task *t = (task *)arg;
    t->wait_timer = NULL; /* it has fired, so it is gone */
    future_on_done(t->wait, NULL, NULL);
    future_cancel(t->wait);
    wake(t, WAIT_TIMEOUT);
}

void await__cancel(task *t)
{
    if (!t->wait || t->wait_end != WAIT_PENDING) return;
    future_on_done(t->wait, NULL, NULL);
    future_cancel(t->wait);
    wake(t, WAIT_DONE);
}

void await__drop(task *t)
{
    loop_timer_del(t->wait_timer);
    t->wait_timer = NULL;
    future *f = t->wait;
    t->wait = NULL;
    if (!f) return;
    future_on_done(f, NULL, NULL);
    if (!future_done(f)) future_cancel(f);
    future_unref(f);
}

static int push_cancelled(lua_State *L, const task *t)
{
    err e = {0};
    err_set(&e, ERR_CANCELLED, "the task was cancelled: %s", t->cancelled ? t->reason : "its script ends");
    return host_push_err(L, &e);
}

/* Pushes what the wait gave. The future stays the task's until push has returned: push may throw. */
static int push_outcome(lua_State *L, task *t)
{
    future *f = t->wait;
    int n = 0;
    if (t->wait_end == WAIT_TIMEOUT) {
        err e = {0};
        err_set(&e, ERR_TIMEOUT, "nothing came within the time allowed");
        n = host_push_err(L, &e);
    } else if (future_cancelled(f)) {
        n = push_cancelled(L, t);
    } else if (future_err(f)) {
        n = host_push_err(L, future_err(f));
    } else if (t->push) {
        n = t->push(L, f, t->push_arg);
    } else {
        lua_pushboolean(L, 1); // true
        n = 1;
    }
    await__drop(t);
    return n;
}

static int await_k(lua_State *L, int status, lua_KContext ctx)
{
    (void)status;
    (void)ctx;
    return push_outcome(L, host_of(L)->running);
}

static bool is_in_no_wait(const task *t)
{
    for (const box_frame *b = t->box; b; b = b->up)
        if (b->no_wait) return true;
    return false;
}

/* Why this wait must not begin: throws, or pushes an answer and returns its length, or returns 0 when all is well. */
static int refuse(lua_State *L, task *t)
{
    if (!host__may_yield(L)) {
        await__drop(t);
        return luaL_error(L, "this code cannot wait here: it runs under a C function (sort, gsub, require, a finalizer "
                             "or a close handler)");
    }
    if (is_in_no_wait(t)) {
        await__drop(t);
        return luaL_error(
            L, "this code cannot wait here: a file must not wait while it is loaded, nor what looks at what others "
               "collected (rules, signals, hints)");
    }
    int64_t now = mono_ns();
    if (t->phase == PHASE_CLEANUP) {
        if (now <= t->cleanup_end_ns) return 0;
        err e = {0};
        err_set(&e, ERR_TIMEOUT, "the time for cleaning up is over");
        return host_push_err(L, &e);
    }
    if (budget__condemned(t)) return push_cancelled(L, t);
    if (!t->cancelled) return 0;
    if (now > t->cancel_at_ns) {
        await__drop(t);
        return budget__condemn(L, t, ERR_CANCELLED);
    }
    return push_cancelled(L, t);
}

int host_await(lua_State *L, future *f, int timeout_ms, host_push_fn push, void *arg)
{
    host *h = host_of(L);
    task *t = h->running;
    if (!t) {
        future_cancel(f);
        future_unref(f);
        return luaL_error(L, "waiting is possible in a task only: start one with loop.spawn");
    }
    /* The task owns f from here on, so that no throw below can lose it. */
    await__drop(t);
    t->wait = f;
    int refused = refuse(L, t);
    if (refused) {
        await__drop(t);
        return refused;
    }
    t->push = push;
    t->push_arg = arg;
    t->wait_end = WAIT_DONE;
    if (future_done(f)) return push_outcome(L, t);
    t->wait_end = WAIT_PENDING;
    if (t->phase == PHASE_CLEANUP) {
        int left = deadline_poll_ms(t->cleanup_end_ns);
        if (timeout_ms < 0 || timeout_ms > left) timeout_ms = left;
    }
    if (timeout_ms >= 0) {
        t->wait_timer = loop_timer_at(h->l, deadline_in_ms(timeout_ms), on_timeout, t);
        if (!t->wait_timer) return luaL_error(L, "not enough memory");
    }
    future_on_done(f, on_future, t);
    h->yield = YIELD_WAIT;
    return lua_yieldk(L, 0, 0, await_k);
}
