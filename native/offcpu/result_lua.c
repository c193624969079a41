/* SPDX-License-Identifier: MIT */
/* result_lua.c: rows of a result as Lua tables. */

#include "host/host.h"
#include "kernel/proc_push_lua.h"
#include "offcpu/offcpu_lua.h"

#define RESULT_TYPE "lunette.offcpu.result"
#define US(ns)      ((ns) / 1000)

oc_result **offcpu_lua__new(lua_State *L)
{
    oc_result **box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = NULL;
    luaL_setmetatable(L, RESULT_TYPE);
    return box;
}

static oc_result *check(lua_State *L)
{
    oc_result *r = *(oc_result **)luaL_checkudata(L, 1, RESULT_TYPE);
    if (!r) luaL_argerror(L, 1, "the result is closed");
    return r;
}

static int l_close(lua_State *L)
{
    oc_result **box = luaL_checkudata(L, 1, RESULT_TYPE);
    oc_result_free(*box);
    *box = NULL;
    return 0;
}

static void set_slice(lua_State *L, const char *key, slice s)
{
    lua_pushlstring(L, s.n ? (const char *)s.p : "", s.n);
    lua_setfield(L, -2, key);
}

static void set_letter(lua_State *L, const char *key, oc_state s)
{
    const char text[2] = {oc_state_letter(s), 0};
    pl__set_text(L, key, text);
}

static void set_sync(lua_State *L, const oc_syncs *s)
{
    lua_createtable(L, 0, 6); // row sync
    host_set_count(L, "spans", s->spans);
    host_set_count(L, "censored", s->censored);
    host_set_count(L, "locks", s->locks);
    host_set_int(L, "micros", US(s->ns));
    host_set_int(L, "censored_micros", US(s->censored_ns));
    host_set_int(L, "locks_micros", US(s->locks_ns));
    lua_setfield(L, -2, "sync"); // row
}

static void push_frame(lua_State *L, const oc_frame *f)
{
    static const char *const kinds[] = {"unknown", "kernel", "native", "managed", "jit"};
    lua_createtable(L, 0, 7); // frame
    set_slice(L, "module", f->module);
    set_slice(L, "method", f->method);
    pl__set_text(L, "kind", kinds[f->kind]);
    if (f->kind != NAMING_MANAGED) return;
    if (f->token) host_set_int(L, "token", f->token);
    set_slice(L, "module_path", f->module_path);
    set_slice(L, "type", f->type);
    set_slice(L, "name", f->name);
}

static void set_frames(lua_State *L, const oc_result *r, const oc_stack_row *row)
{
    lua_createtable(L, (int)row->n_frames, 0); // row frames
    for (uint32_t i = 0; i < row->n_frames; i++) {
        push_frame(L, &r->frames[row->frames[i]]); // row frames frame
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "frames");
}

static void set_calls(lua_State *L, const oc_stack_row *row)
{
    lua_createtable(L, (int)row->n_calls, 0); // row calls
    for (uint32_t i = 0; i < row->n_calls; i++) {
        lua_createtable(L, 0, 3); // row calls call
        set_slice(L, "name", row->calls[i].name);
        host_set_count(L, "count", row->calls[i].n);
        host_set_int(L, "micros", US(row->calls[i].ns));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "calls");
    host_set_int(L, "calls_dropped", row->calls_dropped);
}

static void set_wakers(lua_State *L, const oc_stack_row *row)
{
    static const char *const kinds[] = {"thread", "process", "interrupt"};
    lua_createtable(L, (int)row->n_wakers, 0); // row wakers
    for (uint32_t i = 0; i < row->n_wakers; i++) {
        const oc_woken *w = &row->wakers[i];
        lua_createtable(L, 0, 5); // row wakers waker
        pl__set_text(L, "kind", kinds[w->who.kind]);
        if (w->who.tid) host_set_int(L, "tid", w->who.tid);
        pl__set_text(L, "name", w->who.comm);
        host_set_count(L, "count", w->n);
        host_set_int(L, "micros", US(w->ns));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "wakers");
    host_set_int(L, "wakers_dropped", row->wakers_dropped);
}

static void push_stack(lua_State *L, const oc_result *r, const oc_stack_row *row, bool frames)
{
    lua_createtable(L, 0, 16); // row
    push_frame(L, &r->frames[row->leaf]);
    lua_setfield(L, -2, "leaf");
    host_set_int(L, "micros", US(row->sum.ns));
    host_set_count(L, "count", row->sum.n);
    host_set_count(L, "censored", row->sum.censored);
    host_set_int(L, "censored_micros", US(row->sum.censored_ns));
    host_set_int(L, "delay_micros", US(row->sum.delay_ns));
    host_set_int(L, "longest_micros", US(row->sum.longest_ns));
    host_set_int(L, "threads", row->threads);
    host_set_int(L, "depth", row->n_frames);
    set_letter(L, "state", row->dominant);
    set_sync(L, &row->sync);
    if (!frames) return;
    set_frames(L, r, row);
    set_calls(L, row);
    set_wakers(L, row);
}

static uint32_t range(lua_State *L, uint32_t n, uint32_t *first)
{
    lua_Integer from = luaL_optinteger(L, 2, 1), count = luaL_optinteger(L, 3, n);
    luaL_argcheck(L, from >= 1, 2, "rows count from 1");
    luaL_argcheck(L, count >= 0, 3, "not negative");
    if (from > n) return 0;
    *first = (uint32_t)from - 1;
    return count > n - *first ? n - *first : (uint32_t)count;
}

/* result:stacks(first, count, bare) */
static int l_stacks(lua_State *L)
{
    const oc_result *r = check(L);
    uint32_t first = 0, n = range(L, r->n_stacks, &first);
    bool bare = lua_toboolean(L, 4);
    lua_createtable(L, (int)n, 0); // rows
    for (uint32_t i = 0; i < n; i++) {
        push_stack(L, r, &r->stacks[first + i], !bare); // rows row
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* result:threads(first, count) */
static int l_threads(lua_State *L)
{
    const oc_result *r = check(L);
    uint32_t first = 0, n = range(L, r->n_threads, &first);
    lua_createtable(L, (int)n, 0); // rows
    for (uint32_t i = 0; i < n; i++) {
        const oc_thread_row *t = &r->threads[first + i];
        lua_createtable(L, 0, 12); // rows row
        host_set_int(L, "tid", t->thread.tid);
        pl__set_text(L, "name", t->thread.comm);
        host_set_int(L, "micros", US(t->thread.off_ns));
        host_set_count(L, "spans", t->thread.spans);
        host_set_count(L, "switches", t->thread.switches);
        host_set_count(L, "preempted", t->thread.preempted);
        host_set_int(L, "preempted_micros", US(t->thread.preempted_ns));
        host_set_bool(L, "ended", t->thread.ended);
        if (t->thread.spans) set_letter(L, "state", t->dominant);
        set_sync(L, &t->sync);
        if (t->top >= 0) {
            push_frame(L, &r->frames[r->stacks[t->top].leaf]);
            lua_setfield(L, -2, "leaf");
            host_set_int(L, "stack_rank", t->top + 1);
        }
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static void set_totals(lua_State *L, const oc_totals *t)
{
    host_set_count(L, "switches", t->switches);
    host_set_count(L, "preempted", t->preempted);
    host_set_int(L, "preempted_micros", US(t->preempted_ns));
    host_set_count(L, "spans", t->spans);
    host_set_int(L, "micros", US(t->off_ns));
    host_set_count(L, "censored", t->censored);
    host_set_int(L, "censored_micros", US(t->censored_ns));
    host_set_int(L, "delay_micros", US(t->delay_ns));
    host_set_count(L, "before", t->before);
    host_set_count(L, "unwoken", t->unwoken);
    host_set_count(L, "unpaired", t->unpaired);
    host_set_count(L, "threads_dropped", t->threads_dropped);
    host_set_count(L, "places_dropped", t->places_dropped);
    host_set_count(L, "wakes_dropped", t->wakes_dropped);
}

/* result:info() */
static int l_info(lua_State *L)
{
    const oc_result *r = check(L);
    lua_createtable(L, 0, 40); // info
    set_totals(L, &r->totals);
    set_sync(L, &r->sync);
    host_set_int(L, "stacks", r->n_stacks);
    host_set_int(L, "threads", r->n_threads);
    host_set_count(L, "calls_dropped", r->calls_dropped);
    host_set_count(L, "managed_named", r->managed_named);
    host_set_count(L, "unnamed", r->unnamed);
    host_set_int(L, "files_bad", r->naming.files_bad);
    host_set_count(L, "jit_functions", r->naming.jit_functions);
    host_set_count(L, "walked", r->stacks_stats.walked);
    host_set_count(L, "remembered", r->stacks_stats.remembered);
    host_set_count(L, "stacks_dropped", r->stacks_stats.dropped);
    host_set_count(L, "stacks_cut", r->stacks_stats.cut);
    host_set_count(L, "stacks_lost", r->stacks_stats.lost);
    host_set_count(L, "lost", r->lost);
    host_set_count(L, "samples", r->samples);
    host_set_count(L, "records", r->records);
    host_set_count(L, "late", r->late);
    host_set_count(L, "damaged", r->damaged);
    host_set_int(L, "threads_missing", r->threads_missing);
    host_set_int(L, "descriptors", r->fds);
    host_set_int(L, "standing", r->standing);
    host_set_bool(L, "target_ended", r->target_ended);
    host_set_bool(L, "wakers_of_others", r->filtered_wakers);
    host_set_bool(L, "kernel_names", r->kernel_names);
    host_set_bool(L, "syscalls_traced", r->syscalls_traced);
    lua_pushnumber(L, (double)r->build_ns / 1e6);
    lua_setfield(L, -2, "build_ms");
    lua_pushnumber(L, (double)(r->end_ns - r->begin_ns) / 1e6);
    lua_setfield(L, -2, "elapsed_ms");
    return 1;
}

void offcpu_lua__types(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"info", l_info}, {"stacks", l_stacks}, {"threads", l_threads}, {"close", l_close}, {NULL, NULL}};
    host_type(L, RESULT_TYPE, meta, methods);
}
