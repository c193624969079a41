/* SPDX-License-Identifier: MIT */
/* proc_push_lua.c: see proc_push_lua.h. */
#include "kernel/proc_push_lua.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/utf.h"
#include "host/host.h"

/* Text of the kernel as valid UTF-8; s is at most KN_PATH_MAX bytes. The buffer is on the stack, since pushing may
 * throw. */
void pl__push_text(lua_State *L, const char *s)
{
    uint8_t mem[3 * KN_PATH_MAX];
    buf b = {.p = mem, .cap = sizeof mem, .max = sizeof mem};
    utf8_sanitize(slice_str(s), &b);
    lua_pushlstring(L, (const char *)b.p, b.n);
}

void pl__set_text(lua_State *L, const char *key, const char *s)
{
    if (!s[0]) return;
    pl__push_text(L, s);
    lua_setfield(L, -2, key);
}

void pl__set_num(lua_State *L, const char *key, kn_num v)
{
    if (v.known) host_set_int(L, key, v.v);
}

static void set_frac(lua_State *L, const char *key, kn_frac v)
{
    if (!v.known) return;
    lua_pushnumber(L, v.v);
    lua_setfield(L, -2, key);
}

/* A mask as "0x…", since it can pass 2^53. */
void pl__set_mask(lua_State *L, const char *key, uint64_t v)
{
    char text[19];
    snprintf(text, sizeof text, "0x%" PRIx64, v);
    lua_pushstring(L, text);
    lua_setfield(L, -2, key);
}

/* A limit: a number, or "unlimited". */
void pl__set_limit(lua_State *L, const char *key, kn_limit v)
{
    if (!v.known) return;
    if (v.unlimited || v.v > INT64_MAX)
        lua_pushliteral(L, "unlimited");
    else
        lua_pushinteger(L, (lua_Integer)v.v);
    lua_setfield(L, -2, key);
}

static void set_notes(lua_State *L, const kn_notes *notes)
{
    lua_createtable(L, (int)notes->n + 1, 0); // t notes
    for (uint32_t i = 0; i < notes->n; i++) {
        pl__push_text(L, notes->text[i]);
        lua_rawseti(L, -2, i + 1);
    }
    if (notes->dropped) {
        lua_pushfstring(L, "%d more notes were left out", (int)notes->dropped);
        lua_rawseti(L, -2, notes->n + 1);
    }
    lua_setfield(L, -2, "notes"); // t
}

void pl__push_rollup(lua_State *L, const kn_rollup *r)
{
    lua_createtable(L, 0, 5); // t
    pl__set_num(L, "rss_bytes", r->rss);
    pl__set_num(L, "pss_bytes", r->pss);
    pl__set_num(L, "anonymous_bytes", r->anonymous);
    pl__set_num(L, "swap_bytes", r->swap);
    pl__set_num(L, "private_dirty_bytes", r->private_dirty);
}

void pl__push_fds(lua_State *L, const kn_fds *f)
{
    static const char *const names[KN_FD_CLASSES] = {"sockets", "regular", "pipes", "eventfds", "other"};
    lua_createtable(L, 0, 9); // t
    host_set_int(L, "count", f->count);
    for (int i = 0; i < KN_FD_CLASSES; i++)
        host_set_int(L, names[i], f->by_class[i]);
    host_set_int(L, "unclassified", f->unclassified);
    set_notes(L, &f->notes);
    if (!f->has_tcp) return;
    lua_createtable(L, 0, 5); // t tcp
    host_set_int(L, "established", f->tcp.established);
    host_set_int(L, "time_wait", f->tcp.time_wait);
    host_set_int(L, "close_wait", f->tcp.close_wait);
    host_set_int(L, "listen", f->tcp.listen);
    host_set_int(L, "other", f->tcp.other);
    lua_setfield(L, -2, "tcp"); // t
}

void pl__push_threads(lua_State *L, const kn_threads *t)
{
    lua_createtable(L, (int)t->n, 1); // list
    for (size_t i = 0; i < t->n; i++) {
        lua_createtable(L, 0, 5); // list row
        host_set_int(L, "tid", t->rows[i].tid);
        pl__set_text(L, "name", t->rows[i].name);
        host_set_count(L, "start_time", t->rows[i].start_time);
        host_set_count(L, "cpu_ns", t->rows[i].cpu_ns);
        host_set_bool(L, "precise", t->rows[i].precise);
        lua_rawseti(L, -2, (lua_Integer)i + 1); // list
    }
    host_set_int(L, "dropped", t->dropped);
}

static void set_psi(lua_State *L, const char *key, const kn_psi *p)
{
    lua_createtable(L, 0, 4); // t psi
    set_frac(L, "some_avg10", p->some10);
    set_frac(L, "some_avg60", p->some60);
    set_frac(L, "full_avg10", p->full10);
    set_frac(L, "full_avg60", p->full60);
    lua_setfield(L, -2, key); // t
}

static void set_cgroup_cpu(lua_State *L, const kn_cgroup *g)
{
    lua_createtable(L, 0, 7); // t cpu
    pl__set_num(L, "usage_usec", g->usage_usec);
    pl__set_num(L, "nr_periods", g->nr_periods);
    pl__set_num(L, "nr_throttled", g->nr_throttled);
    pl__set_num(L, "throttled_usec", g->throttled_usec);
    if (g->quota_usec.known && g->period_usec.known) {
        pl__set_num(L, "quota_usec", g->quota_usec);
        pl__set_num(L, "period_usec", g->period_usec);
    }
    lua_setfield(L, -2, "cpu"); // t
}

static void set_cgroup_memory(lua_State *L, const kn_cgroup *g)
{
    lua_createtable(L, 0, 6); // t memory
    pl__set_num(L, "current_bytes", g->mem_current);
    pl__set_num(L, "max_bytes", g->mem_max);
    pl__set_num(L, "high_bytes", g->mem_high);
    pl__set_num(L, "oom_kills", g->oom_kills);
    pl__set_num(L, "max_hits", g->max_hits);
    set_frac(L, "usage_fraction", g->mem_fraction);
    lua_setfield(L, -2, "memory"); // t
}

void pl__push_cgroup(lua_State *L, const kn_cgroup *g)
{
    static const char *const versions[] = {"None", "V1", "V2"};
    lua_createtable(L, 0, 12); // t
    lua_pushstring(L, versions[g->version]);
    lua_setfield(L, -2, "version");
    host_set_bool(L, "hybrid", g->hybrid);
    host_set_bool(L, "in_container", g->in_container);
    pl__set_text(L, "path", g->path);
    pl__set_num(L, "oom_score", g->oom_score);
    set_notes(L, &g->notes);
    if (g->has_cpu || g->quota_usec.known) set_cgroup_cpu(L, g);
    if (g->has_memory) set_cgroup_memory(L, g);
    if (g->has_pids) {
        lua_createtable(L, 0, 2); // t pids
        pl__set_num(L, "current", g->pids_current);
        pl__set_num(L, "max", g->pids_max);
        lua_setfield(L, -2, "pids"); // t
    }
    host_set_bool(L, "psi", g->has_psi);
    if (!g->has_psi) return;
    host_set_bool(L, "psi_is_host", g->psi_is_host);
    set_psi(L, "cpu_pressure", &g->cpu_psi);
    set_psi(L, "memory_pressure", &g->mem_psi);
    set_psi(L, "io_pressure", &g->io_psi);
}

void pl__push_waits(lua_State *L, const kn_thread_waits *w)
{
    lua_createtable(L, (int)w->n, 1); // list
    for (size_t i = 0; i < w->n; i++) {
        const kn_thread_wait *t = &w->rows[i];
        lua_createtable(L, 0, 6); // list row
        host_set_int(L, "tid", t->tid);
        pl__set_text(L, "name", t->name);
        lua_pushlstring(L, &t->state, 1); // list row state
        lua_setfield(L, -2, "state");     // list row
        if (t->wchan[0]) pl__set_text(L, "wchan", t->wchan);
        if (t->has_syscall) {
            host_set_int(L, "syscall", t->syscall);
            lua_createtable(L, KN_SYSCALL_ARGS, 0); // list row args
            for (int k = 0; k < KN_SYSCALL_ARGS; k++) {
                lua_pushinteger(L, (lua_Integer)t->args[k]); // list row args arg
                lua_rawseti(L, -2, k + 1);                   // list row args
            }
            lua_setfield(L, -2, "args"); // list row
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1); // list
    }
    if (w->dropped) host_set_count(L, "dropped", w->dropped);
}
