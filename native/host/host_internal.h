/* SPDX-License-Identifier: MIT */
/* host_internal.h: what the parts of the host share. No other folder includes it. */
#ifndef LUNETTE_HOST_HOST_INTERNAL_H
#define LUNETTE_HOST_HOST_INTERNAL_H

#include <stdatomic.h>
#include <time.h>

#include "base/mem.h"
#include "host/host.h"

#define HOST_TASKS_MAX    4096 /* tasks alive at once; spawning one more fails */
#define TASK_CLEANUPS_MAX 256  /* cleanup handlers of one task */
#define BOX_ROOM                                                                                                       \
    ((size_t)256 << 10)    /* bytes that a call of a box which is condemned may have beyond its cap, to end with */
#define BOX_CHILDREN    8  /* tasks that one call of a box may spawn */
#define TASK_DATA_DEPTH 16 /* generations of task.data that inherit by reference; the next copies */

/* A coroutine that is being resumed right now, and the one that resumed it: lives on the C stack of the resuming
 * function. */
typedef struct co_frame {
    lua_State *L;
    struct co_frame *up;
    bool closing; /* not resumed: its close handlers run */
} co_frame;

typedef enum yield_why { YIELD_SCRIPT, YIELD_WAIT, YIELD_SLICE } yield_why;
typedef enum task_phase { PHASE_NEW, PHASE_BODY, PHASE_CLEANUP, PHASE_DONE } task_phase;
typedef enum wait_end { WAIT_PENDING, WAIT_DONE, WAIT_TIMEOUT } wait_end;

typedef struct task_waiter task_waiter;

/* What a call of a box holds of the state's memory, and the box with all of its calls (up). Every block that is
 * allocated while the call runs knows its account, so that whoever frees it gives it back to the right one. */
#define MEM_HARD      2                 /* times its cap: what a call may have until it was looked at */
#define MEM_TEXT_MAX  ((size_t)4 << 20) /* bytes of one string, or other object, that a call of a box makes */
#define MEM_TABLE_MAX ((size_t)4 << 20) /* … of one part of a table, or of a coroutine's stack */
#define MEM_VALUE     ((size_t)16)      /* … of one value on it */
typedef struct mem_account {
    struct mem_account *up; /* NULL: a box's own */
    size_t used, max;
    size_t refs; /* blocks, accounts below, and whoever made it */
} mem_account;

/* A call of a box under way: what it may use, beside what its task may. Frames are stacked, the innermost first. */
typedef struct box_frame {
    struct box_frame *up;
    lua_State *L; /* the coroutine in which it was called: a script's yield does not pass it */
    mem_account *account;
    int64_t begin_ns, end_ns; /* of the task's cpu_ns: where it began, where its budget is used up */
    int64_t hard_ns;          /* CPU that it may use where it cannot be suspended */
    int64_t held_ns;          /* the longest that it kept the loop, in CPU */
    int cycles;               /* collections that ended while it was over its memory */
    size_t big;               /* bytes of a block that is more than a call may have in one piece; 0: none */
    err_kind condemned;       /* the error that no pcall inside of it may keep */
    bool no_wait;             /* nothing in it may wait: others do, for its end */
    bool doomed;              /* … and its close handlers used up their grace: each instruction fails */
    int n_children;
    struct task *child[BOX_CHILDREN]; /* tasks that it spawned: cancelled when it ends */
    int line;                         /* where it was condemned, or threw; 0: not known */
    char file[96];
} box_frame;

struct task {
    host *h;
    lua_State *co;
    int co_ref;      /* registry: the coroutine */
    int ud_ref;      /* registry: the Lua handle while the task lives, or LUA_NOREF */
    int data_ref;    /* registry: task.data, or LUA_NOREF */
    int data_depth;  /* length of the inheritance chain of task.data */
    int cleanup_ref; /* registry: list of cleanup functions, or LUA_NOREF */
    int n_cleanup;
    int nres; /* after the end: results (or the one error value) on co's stack */
    int refs;
    task_phase phase;
    bool queued;
    bool ok;
    bool cancelled;       /* asked to stop */
    err_kind condemned;   /* the error that no pcall may keep: ERR_BUDGET or ERR_CANCELLED; else ERR_NONE */
    bool doomed;          /* condemned again, in a close handler: from now on each instruction fails */
    box_frame *box;       /* the innermost call of a box that it is in, or NULL */
    int64_t cancel_at_ns; /* from here on a cancelled task gets an error thrown in */
    int64_t budget_ns;    /* cpu_ns at which the budget is used up; INT64_MAX: never */
    int64_t budget_from_ns;
    int64_t cleanup_end_ns;
    task_usage use;
    char reason[96]; /* of the cancellation */
    /* the one wait under way */
    future *wait;
    loop_timer *wait_timer;
    wait_end wait_end;
    host_push_fn push;
    void *push_arg;
    /* whoever awaits this task */
    task_waiter *waiters;
    task_done_fn done;
    void *done_arg;
    task *prev, *next; /* list of all tasks */
    task *qnext;       /* run queue */
};

typedef struct task_queue {
    task *head, *tail;
} task_queue;

struct host {
    loop *l;
    lua_State *L;
    host_cfg cfg;
    size_t mem_used;
    size_t boxes_used;   /* … by all boxes */
    buf script;          /* the text of the script that is being loaded (search.c) */
    bool mem_over;       /* the running call of a box has more than it may: the hook collects, or ends it */
    unsigned calls_made; /* blocks of the size of a call's record */
    bool deeper;         /* … or a stack may have become large: the hook looks how deep it is */
    int no_memory_ref;   /* registry: Lua's own message for a lack of memory */
    /* collection (collect.c) */
    bool gc_held;     /* the automatic collector is off, until what is owed is paid */
    size_t gc_owed;   /* bytes of large blocks whose share of a collection has not been done yet */
    size_t gc_unseen; /* bytes that were allocated since an object was made: no step of Lua's has paid for them */
    size_t gc_next;   /* bytes in use at which the next collection begins; 0: one is under way */
    /* tasks */
    task *tasks;
    size_t n_tasks;
    task_queue ready;     /* woken */
    task_queue fresh;     /* new */
    task_queue preempted; /* used up a slice */
    bool had_slice;       /* the preempted got their turn in the last round */
    task *running;
    /* pre-emption: what the tick handler reads is atomic or volatile */
    co_frame *volatile cur;
    _Atomic int64_t slice_end_ns;
    volatile sig_atomic_t tick; /* the slice ran out, and the hook has not seen it yet */
    volatile sig_atomic_t poll; /* long-running C functions are to look at the budget */
    volatile sig_atomic_t armed;
    unsigned polls;              /* since poll was set, where no timer sets it */
    _Atomic int64_t tick_cpu_ns; /* thread CPU clock at the first tick past the slice in this resume; 0: none yet */
    int64_t asked_to_end_ns;     /* when a tick first saw a signal to end that the loop has not; 0: none */
    bool has_timer;              /* false: count hooks do the ticking */
    timer_t timer;
    yield_why yield;
    int64_t resumed_ns;
    int64_t
        stuck_cpu_ns; /* thread CPU clock at the first tick in code that cannot be suspended; 0: none in this resume */
    /* end */
    bool exiting;
    int exit_code;
    /* idle collection */
    loop_timer *gc_timer;
    int gc_idle; /* collections to go to the end of, a step a round */
    size_t mem_after_gc;
    int64_t last_run_ns; /* when a task was resumed last */
};

/* task.c */
void task__ready(task *t);       /* puts it in the queue of the woken */
bool task__run_round(void *arg); /* the loop's idle call */
void task__unref(task *t);
/* Ends every task that is still there without running it any further: close handlers and cleanups run, but cannot wait.
 */
void task__kill_all(host *h);
/* Registers the function at fn_idx to run when t ends. Throws past TASK_CLEANUPS_MAX. */
void task__on_cleanup(lua_State *L, task *t, int fn_idx);

/* handle_lua.c */
void task__push_handle(lua_State *L, task *t);                /* the Lua handle of t, made on demand */
void task__inherit_data(lua_State *L, task *t, task *parent); /* a new task's data from its parent's */
void task__wake_waiters(task *t);
void task__register(lua_State *L); /* the handle's metatable */
task *task__check(lua_State *L, int arg);

/* await.c */
#define HOST_MARK ((uintptr_t)1)
/* A coroutine that a waiting or preempted task is inside of carries a mark in its extra space (the low bit of the
 * host's address), so that no other task resumes or closes it meanwhile. */
static inline void host__mark(lua_State *co, bool on)
{
    uintptr_t *x = (uintptr_t *)lua_getextraspace(co);
    *x = on ? *x | HOST_MARK : *x & ~HOST_MARK;
}
static inline bool host__marked(lua_State *co) { return *(uintptr_t *)lua_getextraspace(co) & HOST_MARK; }
bool host__may_yield(lua_State *L);
void await__cancel(task *t); /* ends the wait under way, if any, and makes t ready */
void await__drop(task *t);   /* lets go of the finished wait's future */

/* collect.c */
void collect__install(lua_State *L);
void collect__settle(host *h, lua_State *L); /* lets a collector that was stopped pause on, if it is to pause */
bool collect__step(host *h, lua_State *L);   /* a bounded piece of a collection; true: it came to its end */
/* A block of n bytes was made while a task runs: its share of a collection is to be done in steps. From the allocator.
 */
void collect__owe(host *h, size_t n);
bool collect__round(host *h);     /* the loop's part: at most one step; true: there is more to do */
void collect__when_idle(host *h); /* … what is left is collected once nothing has run for a while */
void collect__fini(host *h);

/* budget.c */
bool budget__init(host *h);
void budget__fini(host *h);
void budget__start(host *h, lua_State *co);  /* a resume of a task begins */
void budget__stop(host *h, task *t);         /* … and ended */
void budget__recheck(host *h, lua_State *L); /* a tick that an inner coroutine did not live to see is handled in L */
/* Marks t as condemned for this and throws; never returns. */
int budget__condemn(lua_State *L, task *t, err_kind kind);
int budget__condemn_box(lua_State *L, box_frame *b, err_kind kind); /* … a call of a box */
/* May a stack of the running coroutine grow? false: the call of a box has run for too long without a look at it, and is
 * condemned; nothing is thrown. */
bool budget__may_grow(host *h);
int budget__rethrow(lua_State *L, task *t);
void budget__hook(lua_State *L, lua_Debug *ar);
int64_t budget__cpu_ns(const task *t);  /* what the running task has used so far */
int64_t budget__held_ns(const host *h); /* CPU for which this resume has kept the loop; 0: less than a slice */
/* Charges t with what this resume has cost so far: what comes is judged by itself. */
void budget__settle(task *t);
/* Does an error pass all pcalls, up to the task's end or to the call of a box that it is about? */
static inline bool budget__condemned(const task *t)
{
    if (t->condemned != ERR_NONE) return true;
    for (const box_frame *b = t->box; b; b = b->up)
        if (b->condemned != ERR_NONE) return true;
    return false;
}
bool budget__doomed(const task *t);
/* Has the hook look at the memory of what runs at the next instruction. Callable from the allocator. */
void budget__look_at_memory(host *h);
void budget__note_place(lua_State *L, box_frame *b); /* where the innermost Lua function of L stands */
/* For a C function that works for long: throws when the running script has used up its budget, or is cancelled. Free
 * while its slice lasts. */
void budget__look(lua_State *L);
static inline void budget__poll(const host *h, lua_State *L)
{
    if (h->poll) budget__look(L);
}
/* … for one that cannot throw: has the call of a box under way used up what it may where it cannot be suspended? */
bool budget__spent(lua_State *L);
static inline bool budget__late(lua_State *L)
{
    const host *h = host_of(L);
    return h->poll && h->running && h->running->box && budget__spent(L);
}
/* Throws when a string of n bytes is more than the call of a box under way may still have. */
void budget__check_room(lua_State *L, size_t n);

/* memory.c */
void *memory__alloc(void *ud, void *p, size_t osize, size_t nsize); /* lua_Alloc; ud: the host */
mem_account *memory__account(mem_account *up, size_t max);          /* NULL without memory */
void memory__release(mem_account *a);                               /* its blocks keep it while they live */
bool memory__over(const mem_account *a); /* has it, or what it is part of, more than it may? */

/* box_lua.c: sandbox.native, which lunette.sandbox builds on */
void box__install(lua_State *L);
int box__guards(lua_State *L);     /* native.guards */
int box__json_marks(lua_State *L); /* native.json_marks */
void box__drop_all(task *t);       /* the frames of a task that ended without leaving them */

/* safe.c */
int safe__handle(lua_State *L);   /* stands between an error and the message handler of xpcall */
void safe__install(lua_State *L); /* pcall, xpcall, coroutine.*, os.exit, debug.sethook, debug.traceback */

/* err_lua.c */
void err__register(lua_State *L);
/* The message handler of a task: makes any error value an err table and logs a traceback of what is a bug. */
int err__handler(lua_State *L);
int err__traceback(lua_State *L); /* what scripts get as debug.traceback */

/* search.c */
void search__install(lua_State *L, const char *lua_dir);

#endif
