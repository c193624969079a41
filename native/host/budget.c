/* SPDX-License-Identifier: MIT */
/* budget.c: pre-emption. While a task runs, a timer ticks once a slice is used up; its signal handler, on the loop's
 * own thread, arms a count hook in the coroutine that is running, and the hook (an ordinary Lua hook, at an instruction
 * boundary) suspends the task or throws. So code that gives way by itself pays nothing: a count hook that is always on
 * makes the Lua machine about half as fast (the machine then calls out at every instruction). Where no timer can be
 * had, and under ThreadSanitizer, which holds signals back, count hooks tick. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "host/host_internal.h"

#if defined(__SANITIZE_THREAD__)
#define HOST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOST_TSAN 1
#endif
#endif
#ifndef HOST_TSAN
#define HOST_TSAN 0
#endif
#define GC_CYCLES 2 /* collections that end before a call that is over its memory does */
#define DEPTH_MAX                                                                                                      \
    16000 /* calls inside each other that a script of a box may have: about, memory.c looks now and then */
#define HOOK_COUNT 1000 /* instructions between two looks at the clock, where count hooks do the ticking */
/* CPU that a condemned task's close handlers may use before the error is thrown again. */
#define CONDEMNED_NS     50000000
#define CONDEMNED_BOX_NS 10000000 /* … a condemned call of a box */
#define POLLS            256      /* looks at the budget, of which one reads the clock, where no timer ticks */
#define TICK_MIN_NS      50000
#define TICK_SHARE       8        /* at most one part in eight of the time goes into ticking … */
#define TICK_LATE_NS     16000000 /* … unless the next tick would be later than this, and than what one costs */
#define TICK_SIGNAL      (SIGRTMIN + 7)
#define DEAF_GRACE_NS    2000000000LL /* from a signal to end, pending unseen, until the process ends all the same */

static const char FRAMEWORK[] = "@lua/lunette/";

/* One host at a time owns the tick signal: a signal handler has no argument of its own. */
static _Atomic(host *) tick_host;

static void arm(host *h, int64_t ns)
{
    struct itimerspec its = {.it_value = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}};
    h->armed = timer_settime(h->timer, 0, &its, NULL) == 0;
}

/* Arms the hook in L, and tells after which time the next tick is due. Setting a hook walks all of the coroutine's
 * calls, which takes milliseconds beneath a recursion of a hundred thousand levels: a tick must stay a small part of
 * the time between ticks. */
static int64_t set_hook(const host *h, lua_State *L)
{
    int64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID), slice_ns = h->cfg.slice_us * 1000;
    lua_sethook(L, budget__hook, LUA_MASKCOUNT, 1);
    int64_t cost = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before, late = cost > TICK_LATE_NS ? cost : TICK_LATE_NS;
    int64_t next = TICK_SHARE * cost < late ? TICK_SHARE * cost : late;
    return next > slice_ns ? next : slice_ns;
}

/* A C function of Lua's that does not come back (a backtracking pattern) keeps the loop from seeing that it was told to
 * end: the signal stays pending. After a grace the process ends without cleaning up; what it held open on a target ends
 * with its descriptors. Async-signal-safe. */
static void end_if_deaf(host *h)
{
    sigset_t pending;
    bool asked =
        sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
    if (!asked)
        h->asked_to_end_ns = 0;
    else if (!h->asked_to_end_ns)
        h->asked_to_end_ns = mono_ns();
    else if (mono_ns() - h->asked_to_end_ns > DEAF_GRACE_NS)
        _exit(128 + SIGTERM);
}

/* Async-signal-safe: clock_gettime, timer_settime, and lua_sethook, which Lua documents as callable from a signal
 * handler. */
static void on_tick(int signo)
{
    (void)signo;
    int saved = errno;
    host *h = atomic_load(&tick_host);
    co_frame *fr = h ? h->cur : NULL;
    if (h) h->armed = 0;
    if (fr) {
        int64_t left = atomic_load(&h->slice_end_ns) - mono_ns();
        if (left <= 0) {
            end_if_deaf(h);
            if (atomic_load(&h->tick_cpu_ns) == 0) atomic_store(&h->tick_cpu_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID));
            h->tick = h->poll = 1;
            left = set_hook(h, fr->L);
        }
        arm(h, left < TICK_MIN_NS ? TICK_MIN_NS : left);
    }
    errno = saved;
}

bool budget__init(host *h)
{
    host *none = NULL;
    h->has_timer = false;
    if (HOST_TSAN || h->cfg.count_hooks || !atomic_compare_exchange_strong(&tick_host, &none, h)) return false;
    struct sigaction sa = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigfillset(&sa.sa_mask);
    struct sigevent sev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TICK_SIGNAL};
    sev._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    h->has_timer = sigaction(TICK_SIGNAL, &sa, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &sev, &h->timer) == 0;
    if (!h->has_timer) atomic_store(&tick_host, NULL);
    return h->has_timer;
}

void budget__fini(host *h)
{
    if (!h->has_timer) return;
    timer_delete(h->timer);
    atomic_store(&tick_host, NULL);
    h->has_timer = false;
}

void budget__start(host *h, lua_State *co)
{
    int64_t now = mono_ns();
    h->resumed_ns = now;
    h->stuck_cpu_ns = 0;
    h->tick = 0;
    h->mem_over = false;
    h->poll = !h->has_timer;
    atomic_store(&h->tick_cpu_ns, 0);
    atomic_store(&h->slice_end_ns, now + h->cfg.slice_us * 1000);
    if (!h->has_timer)
        lua_sethook(co, budget__hook, LUA_MASKCOUNT, HOOK_COUNT);
    else if (!h->armed)
        arm(h, h->cfg.slice_us * 1000);
}

/* What this resume has cost so far. The monotonic clock is read because the thread's CPU clock is twenty times as dear
 * (a system call); a stretch that was longer than two slices without being stuck in Lua lost the processor meanwhile,
 * and is not charged for that. */
static int64_t cost_ns(const host *h)
{
    int64_t ns = mono_ns() - h->resumed_ns;
    int64_t cap = 2 * h->cfg.slice_us * 1000;
    if (h->stuck_cpu_ns) return clock_ns(CLOCK_THREAD_CPUTIME_ID) - h->stuck_cpu_ns + h->cfg.slice_us * 1000;
    if (ns < cap) return ns;
    int64_t held = budget__held_ns(h);
    return held > cap ? held : cap;
}

int64_t budget__cpu_ns(const task *t) { return t->use.cpu_ns + cost_ns(t->h); }

int64_t budget__held_ns(const host *h)
{
    int64_t tick = atomic_load(&h->tick_cpu_ns);
    return tick ? clock_ns(CLOCK_THREAD_CPUTIME_ID) - tick + h->cfg.slice_us * 1000 : 0;
}

/* The calls of boxes that t is in kept the loop for what this resume took. */
static void note_held(task *t)
{
    int64_t held = t->box ? budget__held_ns(t->h) : 0;
    for (box_frame *b = t->box; b; b = b->up)
        if (b->held_ns < held) b->held_ns = held;
}

void budget__settle(task *t)
{
    host *h = t->h;
    note_held(t);
    t->use.cpu_ns += cost_ns(h);
    h->resumed_ns = mono_ns();
    h->stuck_cpu_ns = 0;
    atomic_store(&h->tick_cpu_ns, 0);
}

void budget__stop(host *h, task *t)
{
    note_held(t);
    t->use.cpu_ns += cost_ns(h);
    int64_t held_ms = (mono_ns() - h->resumed_ns) / 1000000;
    if (held_ms <= h->cfg.hard_ms) return;
    if (!h->has_timer) {
        log_msg(LOG_WARNING, "lua", "one step of a script held the loop for %lld ms", (long long)held_ms);
        return;
    }
    /* what was long because the machine gave the processor to others is not the step's doing */
    int64_t cpu_ms = budget__held_ns(h) / 1000000;
    log_msg(cpu_ms > h->cfg.hard_ms ? LOG_WARNING : LOG_DEBUG, "lua",
            "one step of a script held the loop for %lld ms, of which it worked %lld ms", (long long)held_ms,
            (long long)cpu_ms);
}

void budget__recheck(host *h, lua_State *L)
{
    if (h->tick || h->mem_over || h->gc_held || h->deeper) lua_sethook(L, budget__hook, LUA_MASKCOUNT, 1);
}

/* Puts the place of the innermost Lua function before what follows; level 0 inside a hook is the function that runs,
 * and elsewhere it is a C function of ours. */
static void push_where(lua_State *L)
{
    luaL_where(L, 0); // where
    if (*lua_tostring(L, -1)) return;
    lua_pop(L, 1);    //
    luaL_where(L, 1); // where
}

/* What condemns is the outermost call of a box that is condemned, if the task itself is not. */
static const box_frame *condemned_box(const task *t)
{
    const box_frame *found = NULL;
    for (const box_frame *b = t->box; b; b = b->up)
        if (b->condemned != ERR_NONE) found = b;
    return found;
}

int budget__rethrow(lua_State *L, task *t)
{
    err e = {0};
    const box_frame *b = t->condemned ? NULL : condemned_box(t);
    if (b && b->doomed) { /* whoever called the box makes the err; here nothing is to be allocated any more */
        lua_pushnil(L);
        return lua_error(L);
    }
    if (t->condemned == ERR_CANCELLED) {
        err_set(&e, ERR_CANCELLED, "the task was cancelled: %s", t->reason);
    } else if (b && b->condemned == ERR_NO_MEMORY) {
        err_set(&e, ERR_NO_MEMORY, "the script's memory is used up");
    } else {
        int64_t used = budget__cpu_ns(t) - (b ? b->begin_ns : 0);
        push_where(L); // where
        err_set(&e, ERR_BUDGET, "%sthe script used up its CPU budget (%lld ms so far)", lua_tostring(L, -1),
                (long long)(used / 1000000));
        err_hint(&e, "look for a loop that does not end, or do less in one call");
        lua_pop(L, 1); //
    }
    host_push_err_value(L, &e); // err
    return lua_error(L);
}

/* A task that lives long and mostly waits (a stream of notifications, say) earns a share of the time that passes. */
static bool is_spent(const task *t, int64_t now)
{
    if (t->budget_ns == INT64_MAX) return false;
    return budget__cpu_ns(t) > t->budget_ns + (now - t->budget_from_ns) / HOST_BUDGET_SHARE;
}

bool budget__doomed(const task *t)
{
    if (t->doomed) return true;
    for (const box_frame *b = t->box; b; b = b->up)
        if (b->doomed) return true;
    return false;
}

int budget__condemn(lua_State *L, task *t, err_kind kind)
{
    t->doomed = t->condemned != ERR_NONE;
    t->condemned = kind;
    /* From now on only close handlers run; what they do is bounded too: once together, then each ends at once. */
    t->budget_ns = budget__cpu_ns(t) + CONDEMNED_NS;
    t->budget_from_ns = mono_ns();
    t->cancel_at_ns = DEADLINE_NEVER;
    return budget__rethrow(L, t);
}

/* Where the innermost Lua function of L stands that is not the framework's, for the error that the call of the box ends
 * with. */
void budget__note_place(lua_State *L, box_frame *b)
{
    lua_Debug ar;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline <= 0 || strncmp(ar.source, FRAMEWORK, sizeof FRAMEWORK - 1) == 0) continue;
        b->line = ar.currentline;
        snprintf(b->file, sizeof b->file, "%s", ar.short_src);
        return;
    }
}

static void mark_condemned(lua_State *L, box_frame *b, err_kind kind)
{
    b->doomed = b->condemned != ERR_NONE;
    b->end_ns = budget__cpu_ns(host_of(L)->running) + CONDEMNED_BOX_NS;
    if (b->doomed) return;
    b->condemned = kind;
    /* Room to end with: each failure to allocate costs a full collection. */
    b->account->max += BOX_ROOM;
    b->account->up->max += BOX_ROOM;
    budget__note_place(L, b);
}

int budget__condemn_box(lua_State *L, box_frame *b, err_kind kind)
{
    mark_condemned(L, b, kind);
    return budget__rethrow(L, host_of(L)->running);
}

bool budget__may_grow(host *h)
{
    box_frame *b = h->running ? h->running->box : NULL;
    if (!b || !h->cur || mono_ns() < atomic_load(&h->slice_end_ns)) return true;
    int64_t held = h->has_timer ? budget__held_ns(h) : mono_ns() - h->resumed_ns;
    if (held <= b->hard_ns / 2) return true;
    if (!budget__condemned(h->running)) mark_condemned(h->cur->L, b, ERR_BUDGET);
    return false;
}

/* Throws if the task, or a call of a box that it is in, has used up its budget or must end. The outermost goes first:
 * its end is the end of those inside. */
static void check(lua_State *L, task *t, int64_t now)
{
    if (is_spent(t, now)) budget__condemn(L, t, t->condemned ? t->condemned : ERR_BUDGET);
    if (t->cancelled && now > t->cancel_at_ns && t->phase == PHASE_BODY) budget__condemn(L, t, ERR_CANCELLED);
    if (!t->box) return;
    int64_t cpu = budget__cpu_ns(t);
    box_frame *over = NULL;
    for (box_frame *b = t->box; b; b = b->up)
        if (cpu > b->end_ns) over = b;
    if (over) budget__condemn_box(L, over, ERR_BUDGET);
}

/* Code that cannot be suspended ran past its slice: let it, up to the hard limit. A task without a budget has none: a
 * command's own task requires the whole program, and a slow machine must not make that an error. */
static void stuck(lua_State *L, host *h, task *t)
{
    int64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (h->stuck_cpu_ns == 0) h->stuck_cpu_ns = cpu;
    if (t->box && cpu - h->stuck_cpu_ns > t->box->hard_ns) budget__condemn_box(L, t->box, ERR_BUDGET);
    if (t->budget_ns != INT64_MAX && cpu - h->stuck_cpu_ns > h->cfg.hard_ms * 1000000)
        budget__condemn(L, t, ERR_BUDGET);
}

/* Inside C code that cannot be suspended. */
void budget__look(lua_State *L)
{
    host *h = host_of(L);
    task *t = h->running;
    if (h->has_timer)
        h->poll = 0;
    else if (++h->polls % POLLS != 0)
        return;
    if (!t || !h->cur) return;
    if (budget__doomed(t)) budget__rethrow(L, t);
    /* Nothing can be collected in slices here. So far it may go, since what it holds may be garbage of before. */
    box_frame *b = t->box;
    if (b && !budget__condemned(t) && (b->big || b->account->used > b->account->max + b->account->max / 4))
        budget__condemn_box(L, b, ERR_NO_MEMORY);
    int64_t now = mono_ns();
    if (now < atomic_load(&h->slice_end_ns)) return;
    check(L, t, now);
    stuck(L, h, t);
}

void host_look(lua_State *L) { budget__poll(host_of(L), L); }

bool budget__spent(lua_State *L)
{
    host *h = host_of(L);
    if (h->has_timer)
        h->poll = 0;
    else if (++h->polls % POLLS != 0)
        return false;
    if (mono_ns() < atomic_load(&h->slice_end_ns)) return false;
    int64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (h->stuck_cpu_ns == 0) h->stuck_cpu_ns = cpu;
    if (cpu - h->stuck_cpu_ns <= h->running->box->hard_ns) return false;
    h->poll = 1; /* whoever asks next is late too */
    return true;
}

void budget__check_room(lua_State *L, size_t n)
{
    task *t = host_of(L)->running;
    box_frame *b = t ? t->box : NULL;
    if (!b) return;
    size_t max = b->account->max, used = b->account->used;
    if (n > MEM_TEXT_MAX) b->big = n;
    if (n > MEM_TEXT_MAX || n > max || used > MEM_HARD * max - n) budget__condemn_box(L, b, ERR_NO_MEMORY);
}

void budget__look_at_memory(host *h)
{
    if (!h->cur || !h->running) return;
    h->poll = 1;
    lua_sethook(h->cur->L, budget__hook, LUA_MASKCOUNT, 1);
}

static bool is_over(const task *t) { return t->box && !budget__condemned(t) && memory__over(t->box->account); }

/* Has the hook to collect before the script goes on? */
static bool is_to_collect(const host *h, const task *t) { return h->gc_held || is_over(t); }

/* Collects for a script that owes it for a large block, or whose call has more memory than it may: much of that may be
 * garbage, which is not looked for until the heap has grown as a whole. It is done in steps, and the script stands
 * still until they are done, while the others have their turn. A call that has too much all the same after a whole
 * collection (one that was under way already, and one more) ends. */
static void relieve(lua_State *L, host *h, task *t)
{
    box_frame *b = t->box;
    int64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), now = mono_ns();
    while (is_to_collect(h, t)) {
        bool over = is_over(t), ended = collect__step(h, L);
        if (over && ended) b->cycles++;
        if ((over && b->cycles >= GC_CYCLES) || mono_ns() >= atomic_load(&h->slice_end_ns)) break;
    }
    t->use.cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    h->resumed_ns += mono_ns() - now;
    if (!b) return;
    if (!is_over(t)) {
        b->cycles = 0;
        h->mem_over = false;
    } else if (b->cycles >= GC_CYCLES) {
        budget__condemn_box(L, b, ERR_NO_MEMORY);
    }
}

/* What a call of a box may not have at all. */
static void check_shape(lua_State *L, host *h, const task *t)
{
    lua_Debug ar;
    bool deeper = h->deeper;
    h->deeper = false;
    if (!t->box || budget__condemned(t)) return;
    if (t->box->big) budget__condemn_box(L, t->box, ERR_NO_MEMORY);
    if (deeper && lua_getstack(L, DEPTH_MAX, &ar)) luaL_error(L, "stack overflow");
}

/* Sets the hook of L to each instruction, to each HOOK_COUNT of them, or (0) to none. Setting it walks all calls. */
static void hook_each(lua_State *L, int count)
{
    if (lua_gethookcount(L) == count && (lua_gethook(L) != NULL) == (count != 0)) return;
    lua_sethook(L, count ? budget__hook : NULL, count ? LUA_MASKCOUNT : 0, count);
}

void budget__hook(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    host *h = host_of(L);
    task *t = h->running;
    if (t && h->cur && budget__doomed(t)) budget__rethrow(L, t); /* and the hook stays: so does the next instruction */
    if (!t || !h->cur) {
        h->tick = 0;
        hook_each(L, h->has_timer ? 0 : HOOK_COUNT);
        return;
    }
    check_shape(L, h, t);
    h->tick = 0;
    collect__settle(h, L);
    if (is_to_collect(h, t)) relieve(L, h, t);
    bool may_yield = host__may_yield(L), is_late = mono_ns() >= atomic_load(&h->slice_end_ns);
    /* Where it cannot stand still, a script goes on between the steps. */
    if (is_to_collect(h, t))
        hook_each(L, may_yield ? 1 : HOOK_COUNT);
    else
        hook_each(L, h->has_timer ? 0 : HOOK_COUNT);
    if (!is_late) return;
    check(L, t, mono_ns());
    if (!may_yield) {
        stuck(L, h, t);
        return;
    }
    t->use.preempted++;
    h->yield = YIELD_SLICE;
    lua_yield(L, 0);
}
