/* SPDX-License-Identifier: MIT */
/* future.c: one value that will be there. Loop thread only, so plain counts and flags do. */
#include <stdlib.h>

#include "base/mem.h"
#include "loop/loop_internal.h"

typedef enum future_state { PENDING, RESOLVED, FAILED, CANCELLED } future_state;

struct future {
    unsigned refs;
    future_state state;
    void (*cancel)(void *owner);
    void *owner;
    void *payload;
    void (*free_fn)(void *);
    err *failure; /* ours, when FAILED and memory was there */
    future_fn fn;
    void *arg;
};

static const err cancelled_err = {.kind = ERR_CANCELLED, .message = "cancelled"};
static const err no_memory_err = {.kind = ERR_NO_MEMORY, .message = "failed, and no memory to say why"};

future *future_new(loop *l, void (*cancel)(void *owner), void *owner)
{
    (void)l; /* a future needs no loop today; its makers have one, and one day it may count them */
    future *f = mem_calloc(1, sizeof *f);
    if (!f) return NULL;
    *f = (future){.refs = 1, .cancel = cancel, .owner = owner};
    return f;
}

future *future_ref(future *f)
{
    f->refs++;
    return f;
}

static void drop_payload(future *f)
{
    void *payload = f->payload;
    f->payload = NULL;
    if (payload && f->free_fn) f->free_fn(payload);
}

void future_unref(future *f)
{
    if (!f || --f->refs > 0) return;
    drop_payload(f);
    free(f->failure);
    free(f);
}

/* Ends f and tells the waiter, who may let go of his reference meanwhile. */
static void end(future *f, future_state state)
{
    future_fn fn = f->fn;
    void *arg = f->arg;
    f->state = state;
    f->cancel = NULL;
    f->fn = NULL;
    if (!fn) return;
    future_ref(f);
    fn(arg, f);
    future_unref(f);
}

void future_resolve(future *f, void *payload, void (*free_fn)(void *))
{
    if (f->state != PENDING) {
        if (payload && free_fn) free_fn(payload);
        return;
    }
    f->payload = payload;
    f->free_fn = free_fn;
    end(f, RESOLVED);
}

void future_fail(future *f, const err *e)
{
    if (f->state != PENDING) return;
    f->failure = mem_alloc(sizeof *f->failure);
    if (f->failure) *f->failure = *e;
    end(f, FAILED);
}

bool future_done(const future *f) { return f->state != PENDING; }

bool future_cancelled(const future *f) { return f->state == CANCELLED; }

const err *future_err(const future *f)
{
    switch (f->state) {
    case PENDING:
    case RESOLVED: return NULL;
    case FAILED: return f->failure ? f->failure : &no_memory_err;
    case CANCELLED: return &cancelled_err;
    }
    return NULL;
}

void *future_take(future *f)
{
    void *payload = f->payload;
    f->payload = NULL;
    return payload;
}

void future_on_done(future *f, future_fn fn, void *arg)
{
    f->fn = fn;
    f->arg = arg;
    if (fn && f->state != PENDING) end(f, f->state);
}

void future_cancel(future *f)
{
    if (f->state != PENDING) return;
    void (*cancel)(void *owner) = f->cancel;
    future_ref(f); /* the hook may let go of the owner's reference */
    f->state = CANCELLED;
    f->cancel = NULL;
    if (cancel) cancel(f->owner);
    end(f, CANCELLED);
    future_unref(f); // NOLINT(clang-analyzer-unix.Malloc): the reference taken above is still ours
}
