/* SPDX-License-Identifier: MIT */
/* memory.c: the state's allocator. It counts for the state, for the task that runs, and, inside a call of a box, for
 * that call: such a block carries its account before it, and is told from the others by its address, which is 8 past a
 * multiple of 16 (malloc's are multiples of 16, and Lua asks for no more than 8). So a block goes off the right account
 * whoever frees it, and whenever; and what no box asked for costs nothing. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "host/host_internal.h"

#define OWNER_ROOM  sizeof(mem_account *)
#define BOXES_SHARE 2 /* all boxes together may hold half of the state's memory */
#define CALL_BYTES  64
#define CALLS_LOOK  4096
#define BIG_BLOCK   ((size_t)32 << 10) /* bytes for which the collector does not work at once */

/* An allocation that fails makes Lua collect the whole heap at one go, which keeps everyone waiting. So in a call of a
 * box none fails as long as it can be helped: a call that passes its cap gets what it asks for, up to MEM_HARD times
 * the cap, and its next instruction is where it is looked at: garbage is collected in slices, and only if it holds too
 * much all the same does it end (budget.c). A part of a table, a stack or a buffer may even pass that by its own size,
 * which is at most double of what was there. An object that is too large (a string, which comes in any size), or for
 * which there is no room at all, is refused by throwing Lua's own error for a lack of memory from here: that is where
 * Lua itself would throw it after its collection, since nothing has been changed yet. */

static_assert(OWNER_ROOM == 8, "the address of a block tells whether it has an owner");

static bool has_owner(const void *p) { return ((uintptr_t)p & 8) != 0; }

static void *base_of(void *p) { return (char *)p - OWNER_ROOM; }

static mem_account *owner_of(const void *p)
{
    mem_account *a;
    memcpy(&a, (const char *)p - OWNER_ROOM, sizeof a);
    return a;
}

static void *make_owned(void *base, mem_account *a)
{
    memcpy(base, &a, sizeof a);
    return (char *)base + OWNER_ROOM;
}

mem_account *memory__account(mem_account *up, size_t max)
{
    mem_account *a = (mem_account *)mem_calloc(1, sizeof *a);
    if (!a) return NULL;
    a->up = up;
    a->max = max;
    a->refs = 1;
    if (up) up->refs++;
    return a;
}

void memory__release(mem_account *a)
{
    while (a && --a->refs == 0) {
        mem_account *up = a->up;
        free(a);
        a = up;
    }
}

static void charge(host *h, mem_account *a, size_t more, size_t less)
{
    h->boxes_used += more - less;
    for (; a; a = a->up)
        a->used += more - less;
}

static size_t boxes_max(const host *h) { return h->cfg.memory_max / BOXES_SHARE; }

bool memory__over(const mem_account *a)
{
    bool over = false;
    for (; a; a = a->up)
        over = over || a->used > a->max;
    return over;
}

/* May the running call have so many bytes more on account a? Past its cap it may, for now; slack: bytes past MEM_HARD
 * times its cap, and past what a box may keep. */
static bool has_room(host *h, const mem_account *a, size_t more, size_t slack)
{
    if (more > boxes_max(h) || h->boxes_used > boxes_max(h) + slack - more) return false;
    bool over = h->boxes_used + more > boxes_max(h);
    for (; a; a = a->up) {
        size_t hard = (a->up ? a->max * MEM_HARD : a->max) + slack;
        if (more > hard || a->used > hard - more) return false;
        over = over || a->used + more > a->max;
    }
    if (over && !h->mem_over) {
        h->mem_over = true;
        budget__look_at_memory(h);
    }
    return true;
}

/* Refuses an object that a call of a box asks for. */
static void refuse(host *h, size_t n)
{
    lua_State *L = h->cur->L;
    budget__note_place(L, h->running->box);
    if (n > MEM_TEXT_MAX) h->running->box->big = n;
    lua_rawgeti(L, LUA_REGISTRYINDEX, h->no_memory_ref);
    lua_error(L);
}

/* May this new block be one more level of calls? Lua keeps a record of CALL_BYTES for each (5.4, 64 bits; a few other
 * blocks have that size too); so each CALLS_LOOK of them the depth is looked at. Deep calls make all that walks them
 * slow: setting a hook, the collector, growing the stack. */
static bool is_call(host *h, size_t osize, size_t nsize)
{
    return osize == 0 && nsize == CALL_BYTES && ++h->calls_made % CALLS_LOOK == 0;
}

/* Before a call of a box gets a block that has nsize bytes: false when it may not. is_object: it is a new object of
 * Lua's, for which an error may be thrown. */
static bool admit(host *h, const mem_account *mine, size_t osize, size_t nsize, size_t more, bool is_object)
{
    bool can_throw = is_object && h->cur;
    if (can_throw && nsize > MEM_TEXT_MAX) refuse(h, nsize);
    if (!has_room(h, mine, more, is_object ? 0 : 2 * MEM_TABLE_MAX)) {
        if (can_throw) refuse(h, nsize);
        return false;
    }
    if (is_object || !h->cur) return true;
    /* Lua asks for a stack as for a new block (5.4). That of a chain of __call grows inside one instruction, by one
     * element for each link, and all that is on it moves up each time: seconds, in which no hook is called. */
    if (osize == 0 && nsize >= BIG_BLOCK && !budget__may_grow(h)) return false;
    bool is_big = nsize > MEM_TABLE_MAX, is_deep = is_call(h, osize, nsize);
    if (is_big) h->running->box->big = nsize;
    if (is_deep) h->deeper = true;
    if (is_big || is_deep) budget__look_at_memory(h);
    return true;
}

/* Lua's collector works when an object is made, by what was allocated since the last time. A large block, and what a
 * recursion takes for its calls and its stack without making an object, would be a step of a tenth of a second. The
 * latter waits for the next tick: setting a hook walks all calls. */
static void note_growth(host *h, size_t more, bool is_object)
{
    if (is_object && more < BIG_BLOCK) {
        h->gc_unseen = 0;
        return;
    }
    h->gc_unseen += more;
    if (h->gc_unseen < BIG_BLOCK) return;
    collect__owe(h, h->gc_unseen);
    h->gc_unseen = 0;
    if (more >= BIG_BLOCK && h->gc_held) budget__look_at_memory(h);
}

static void free_owned(host *h, void *p, size_t n)
{
    mem_account *a = owner_of(p);
    charge(h, a, 0, n);
    free(base_of(p));
    memory__release(a);
}

static void *new_owned(mem_account *a, size_t n)
{
    void *base = n <= SIZE_MAX - OWNER_ROOM ? mem_realloc(NULL, n + OWNER_ROOM) : NULL;
    return base ? make_owned(base, a) : NULL;
}

/* A block that grows while a call of a box runs becomes that call's, whoever's it was. */
static void *take_over(host *h, mem_account *mine, void *p, size_t osize, size_t nsize)
{
    void *q = new_owned(mine, nsize);
    if (!q) return NULL;
    mine->refs++;
    charge(h, mine, nsize, 0);
    if (!p) return q;
    memcpy(q, p, osize);
    if (has_owner(p))
        free_owned(h, p, osize);
    else
        free(p);
    return q;
}

/* A block stays whose it is. */
static void *resize(host *h, void *p, size_t osize, size_t nsize)
{
    if (!has_owner(p)) {
        void *q = mem_realloc(p, nsize);
        return q || nsize > osize ? q : p;
    }
    mem_account *a = owner_of(p);
    void *base = mem_realloc(base_of(p), nsize + OWNER_ROOM);
    if (!base && nsize > osize) return NULL;
    charge(h, a, nsize, osize);
    return base ? (char *)base + OWNER_ROOM : p;
}

/* A block that is new, or grows, or shrinks. */
static void *provide(host *h, void *p, size_t osize, size_t nsize, bool is_object)
{
    bool grows = nsize > osize;
    mem_account *mine = grows && h->running && h->running->box ? h->running->box->account : NULL;
    if (mine) {
        bool own = p && has_owner(p) && owner_of(p) == mine;
        if (!admit(h, mine, osize, nsize, own ? nsize - osize : nsize, is_object)) return NULL;
        return own ? resize(h, p, osize, nsize) : take_over(h, mine, p, osize, nsize);
    }
    return p ? resize(h, p, osize, nsize) : mem_realloc(NULL, nsize);
}

void *memory__alloc(void *ud, void *p, size_t osize, size_t nsize)
{
    host *h = (host *)ud;
    bool is_object = !p && osize != 0;
    if (!p) osize = 0;
    if (nsize == 0) {
        if (!p) return NULL;
        h->mem_used -= osize;
        if (has_owner(p))
            free_owned(h, p, osize);
        else
            free(p);
        return NULL;
    }
    bool grows = nsize > osize;
    if (grows && h->mem_used + (nsize - osize) > h->cfg.memory_max) return NULL;
    void *q = provide(h, p, osize, nsize, is_object);
    if (!q) {
        /* Lua collects all garbage and asks once more; if that fails too, this is the only place that is known. */
        if (grows && h->cur && h->running && h->running->box) budget__note_place(h->cur->L, h->running->box);
        return NULL;
    }
    h->mem_used += nsize - osize;
    if (h->running && grows) {
        h->running->use.allocated_bytes += nsize - osize;
        note_growth(h, nsize - osize, is_object);
    }
    return q;
}
