/* SPDX-License-Identifier: MIT */
/* collect.c: the collector's pace. Lua's collector works in steps whose size goes by what was allocated since the last
 * one; so a block of some megabytes makes a step that is a whole collection, and one that is idle collects everything
 * at one go: a tenth of a second beside a heap of 70 MB. Here large blocks stop the collector. Where it pauses between
 * two collections it then goes on pausing; else their share of the work is done in steps of a millisecond, by the hook
 * of whoever made them (budget.c) and between tasks. */
#include <malloc.h>

#include "host/host_internal.h"

#define GC_PAUSE    140 /* a new cycle starts at 1.4 times what the last one left: small and steady */
#define GC_STEP_MUL 25  /* work for what is allocated: 1.6 objects a byte, a cycle for 3 % of the heap */
#define GC_STEP_LOG 12  /* … each 4 KiB of it: a step takes about a millisecond, five where much dies */
#define STEP_WORTH  ((size_t)16 << 10) /* bytes of a large block that one step pays for */

#define IDLE_GC_MS     1500                /* after this long without runnable tasks, what they left is collected */
#define IDLE_GC_GROWTH ((size_t)128 << 10) /* … if it is worth it: bytes allocated since the last time */
#define IDLE_CYCLES    2                   /* one that may be under way, and a whole one */

#define SENTINEL "lunette.sentinel"

/* Runs at the end of each collection. It is made finalizable again, without allocating. */
static int l_sentinel_gc(lua_State *L)
{
    host *h = host_of(L);
    h->gc_next = h->mem_used / 100 * GC_PAUSE;
    luaL_setmetatable(L, SENTINEL);
    return 0;
}

void collect__install(lua_State *L)
{
    lua_gc(L, LUA_GCINC, GC_PAUSE, GC_STEP_MUL, GC_STEP_LOG);
    luaL_newmetatable(L, SENTINEL);      // mt
    lua_pushcfunction(L, l_sentinel_gc); // mt fn
    lua_setfield(L, -2, "__gc");         // mt
    lua_newuserdatauv(L, 1, 0);          // mt sentinel
    lua_insert(L, -2);                   // sentinel mt
    lua_setmetatable(L, -2);             // sentinel
    lua_pop(L, 1);                       //
}

void collect__owe(host *h, size_t n)
{
    if (!h->cur) return;
    lua_State *L = h->cur->L;
    if (!h->gc_held) {
        if (lua_gc(L, LUA_GCISRUNNING) != 1) return;
        lua_gc(L, LUA_GCSTOP);
        h->gc_held = true;
    }
    if (h->mem_used >= h->gc_next) h->gc_owed += n;
}

void collect__settle(host *h, lua_State *L)
{
    if (!h->gc_held || h->gc_owed != 0 || h->mem_used >= h->gc_next) return;
    lua_gc(L, LUA_GCRESTART);
    lua_gc(L, LUA_GCSTEP, -(int)((h->gc_next - h->mem_used) >> 10)); /* KiB until the next step; does none now */
    h->gc_held = false;
}

bool collect__step(host *h, lua_State *L)
{
    h->gc_next = 0;
    if (!h->gc_held) return lua_gc(L, LUA_GCSTEP, 0) == 1;
    /* The collector goes on before the step and not after it: a restart would cut the pause short that follows a
     * collection's end. */
    lua_gc(L, LUA_GCRESTART);
    bool ended = lua_gc(L, LUA_GCSTEP, 0) == 1;
    h->gc_owed = ended || h->gc_owed <= STEP_WORTH ? 0 : h->gc_owed - STEP_WORTH;
    h->gc_held = h->gc_owed != 0;
    if (h->gc_held) lua_gc(L, LUA_GCSTOP);
    return ended;
}

bool collect__round(host *h)
{
    collect__settle(h, h->L);
    if (!h->gc_held && h->gc_idle == 0) return false;
    bool ended = collect__step(h, h->L);
    if (h->gc_idle != 0 && ended && --h->gc_idle == 0) {
        malloc_trim(0);
        h->mem_after_gc = h->mem_used;
    }
    return h->gc_held || h->gc_idle != 0;
}

/* ---- idle collection ---- */

static void collect_when_idle(void *arg)
{
    host *h = (host *)arg;
    int64_t due = h->last_run_ns + (int64_t)IDLE_GC_MS * 1000000;
    h->gc_timer = NULL;
    if (mono_ns() < due)
        h->gc_timer = loop_timer_at(h->l, due, collect_when_idle, h);
    else
        h->gc_idle = IDLE_CYCLES;
}

void collect__when_idle(host *h)
{
    if (!h->gc_timer && h->gc_idle == 0 && h->mem_used > h->mem_after_gc + IDLE_GC_GROWTH)
        h->gc_timer = loop_timer_at(h->l, deadline_in_ms(IDLE_GC_MS), collect_when_idle, h);
}

void collect__fini(host *h)
{
    loop_timer_del(h->gc_timer);
    h->gc_timer = NULL;
}
