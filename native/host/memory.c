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

/* An allocation that fails makes Lua collect the whole heap at one go, which keeps everyone waiting. So a call that
 * passes its cap gets what it asks for, up to MEM_HARD times the cap, and its next instruction is where it is looked
 * at: garbage is collected in slices, and only if it holds too much all the same does it end (budget.c). What a box
 * keeps from call to call, and all boxes together, have no such room: short calls would go on past it. */

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

/* May the running call have so many bytes more on account a? Past its cap it may, for now. */
static bool has_room(host *h, const mem_account *a, size_t more)
{
    if (more > boxes_max(h) || h->boxes_used > boxes_max(h) - more) return false;
    bool over = false;
    for (; a; a = a->up) {
        size_t hard = a->up ? a->max * MEM_HARD : a->max;
        if (more > hard || a->used > hard - more) return false;
        over = over || a->used + more > a->max;
    }
    if (over && !h->mem_over) budget__over_memory(h);
    return true;
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
    void *q = has_room(h, mine, nsize) ? new_owned(mine, nsize) : NULL;
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

void *memory__alloc(void *ud, void *p, size_t osize, size_t nsize)
{
    host *h = (host *)ud;
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
    mem_account *mine = grows && h->running && h->running->box ? h->running->box->account : NULL;
    void *q;
    if (mine && !(p && has_owner(p) && owner_of(p) == mine))
        q = take_over(h, mine, p, osize, nsize);
    else if (!p)
        q = mem_realloc(NULL, nsize);
    else
        q = !mine || has_room(h, mine, nsize - osize) ? resize(h, p, osize, nsize) : NULL;
    if (!q) {
        /* Lua collects all garbage and asks once more; if that fails too, this is the only place that is known. */
        if (mine && h->cur) budget__note_place(h->cur->L, h->running->box);
        return NULL;
    }
    h->mem_used += nsize - osize;
    if (h->running && grows) h->running->use.allocated_bytes += nsize - osize;
    return q;
}
