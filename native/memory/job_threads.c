/* SPDX-License-Identifier: MIT */
/* job_threads.c: the job `threads`: every thread with its stack, locks and the pool, of a process or a core, as JSON.
 * What it means is decided in Lua. The library is loaded while the target runs; it stands from the first thread to the
 * last lock; how long is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/job_threads.h"
#include "memory/jobs.h"

#define THREADS_GUARD 20000
#define PREFETCHED    1024u /* threads whose stacks are fetched at once */
#define STACK_PAGES   2u
#define NAME_MAX_LEN  2048

/* ---- tables ---- */

uint32_t snap_index(snap *s, snap_table *t, uint64_t address, uint32_t max, snap_make_fn make)
{
    uint64_t at;
    if (map64_get(&t->index, address, &at)) return (uint32_t)at;
    if (t->n >= max) return UINT32_MAX;
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        void *p = mem_realloc(t->items, cap * t->size);
        if (!p) return UINT32_MAX;
        t->items = p;
        t->cap = cap;
    }
    void *item = snap_item(t, (uint32_t)t->n);
    memset(item, 0, t->size);
    if (!make(s, address, item)) return UINT32_MAX;
    /* making one may have made others, of this table too: the item is put at the end anew */
    if (!map64_put(&t->index, address, t->n)) return UINT32_MAX;
    return (uint32_t)t->n++;
}

static char *keep(snap *s, buf *b)
{
    size_t n = b->n > NAME_MAX_LEN ? NAME_MAX_LEN : b->n;
    return b->n > 0 ? arena_str(&s->a, slice_of(b->p, n)) : NULL;
}

static bool keep_module(snap *s, uint64_t address, void *item)
{
    (void)s;
    *(dac_addr *)item = address;
    return true;
}

static bool starts(const char *s, const char *with) { return s && strncmp(s, with, strlen(with)) == 0; }

static bool make_method(snap *s, uint64_t address, void *item)
{
    snap_method *m = item;
    dac_method info;
    buf b;
    buf_init(&b, 0);
    m->address = address;
    m->module_index = UINT32_MAX;
    if (dac_method_name(s->d, address, &b)) m->name = keep(s, &b);
    if (dac_get_method(s->d, address, 0, &info)) {
        m->token = info.token;
        m->module = info.module;
        m->is_dynamic = info.is_dynamic != 0;
        m->module_index = snap_index(s, &s->modules, info.module, UINT32_MAX - 1, keep_module);
    }
    m->in_wait = starts(m->name, "System.Threading.") || starts(m->name, "System.Runtime.CompilerServices.");
    buf_fini(&b);
    return true;
}

uint32_t snap_method_of(snap *s, dac_addr method)
{
    return method ? snap_index(s, &s->methods, method, SNAP_METHODS_MAX, make_method) : UINT32_MAX;
}

static bool make_type(snap *s, uint64_t mt, void *item)
{
    buf b;
    buf_init(&b, 0);
    if (dac_method_table_name(s->d, mt, &b)) *(char **)item = keep(s, &b);
    buf_fini(&b);
    return true;
}

uint32_t snap_type_of(snap *s, dac_addr object)
{
    dac_addr mt = dac_word(s->d, object) & ~(dac_addr)7;
    dac_method_table info;
    uint64_t known;
    if (mt && map64_get(&s->types.index, mt, &known)) return (uint32_t)known;
    if (!mt || !dac_get_method_table(s->d, mt, &info)) return UINT32_MAX;
    return snap_index(s, &s->types, mt, SNAP_TYPES_MAX, make_type);
}

/* ---- writing ---- */

static void key_hex(jsonw *w, const char *key, uint64_t v)
{
    jsonw_key_lit(w, key);
    jsonw_hex(w, v);
}

static void key_int(jsonw *w, const char *key, int64_t v)
{
    jsonw_key_lit(w, key);
    jsonw_int(w, v);
}

static void key_str(jsonw *w, const char *key, const char *v)
{
    jsonw_key_lit(w, key);
    if (v)
        jsonw_cstr(w, v);
    else
        jsonw_null(w);
}

static void key_bool(jsonw *w, const char *key, bool v)
{
    jsonw_key_lit(w, key);
    jsonw_bool(w, v);
}

/* Is the frame's method one of the program's, whose line somebody may want to know? */
static bool wants_line(const snap_method *m)
{
    return m->name && !m->is_dynamic && !starts(m->name, "System.") && !starts(m->name, "Microsoft.");
}

/* The same places come again in many threads. */
static bool il_of(snap *s, uint64_t ip, uint32_t *il)
{
    uint64_t known;
    if (map64_get(&s->il, ip, &known)) {
        *il = (uint32_t)known;
        return known <= UINT32_MAX;
    }
    bool has = dac_il_offset(s->d, ip, il);
    map64_put(&s->il, ip, has ? *il : UINT64_MAX);
    return has;
}

/* ["managed", ip, sp, method, il] or ["runtime", ip, sp, method, name] */
static void write_frame(snap *s, const stack_frame *f, bool is_leaf)
{
    jsonw *w = s->w;
    uint32_t m = snap_method_of(s, f->method), il;
    jsonw_array(w);
    jsonw_cstr(w, f->kind == STACK_MANAGED ? "managed" : "runtime");
    jsonw_hex(w, f->ip);
    jsonw_hex(w, f->sp);
    jsonw_int(w, m == UINT32_MAX ? -1 : (int64_t)m);
    if (f->kind == STACK_RUNTIME) {
        buf b;
        buf_init(&b, 0);
        if (dac_frame_name(s->d, dac_word(s->d, f->frame), &b))
            jsonw_str(w, buf_view(&b));
        else
            jsonw_null(w);
        buf_fini(&b);
    } else if (m != UINT32_MAX && wants_line(snap_item(&s->methods, m)) && il_of(s, is_leaf ? f->ip : f->ip - 1, &il))
        jsonw_int(w, il);
    jsonw_end_array(w);
}

static const char *end_name(stack_end end)
{
    switch (end) {
    case STACK_COMPLETE: return "complete";
    case STACK_CUT: return "cut";
    case STACK_BROKEN: return "broken";
    case STACK_NONE: break;
    }
    return "none";
}

/* Managed frames and, when asked for, native ones between them, in the order of their stack pointers. */
static void write_frames(snap *s, uint32_t os_id, const mem_thread *th)
{
    jsonw *w = s->w;
    stack_end end = STACK_NONE;
    uint32_t n = s->d ? stack_walk(s->d, os_id, s->frames, STACK_FRAMES_MAX, &end) : 0, kept = 0, at = 0, managed = 0;
    uw_end native_end = UW_END_ROOT;
    uint32_t k =
        s->space && th && th->stopped ? snap_native(s, th->tid, s->native_frames, SNAP_NATIVE_MAX, &native_end) : 0;
    bool cut = false;
    /* Very many threads: what is kept of all stacks together has a limit. */
    uint32_t max =
        s->frames_written < SNAP_FRAMES_ALL || s->max_frames < SNAP_FRAMES_THEN ? s->max_frames : SNAP_FRAMES_THEN;
    if (max < s->max_frames) s->stacks_cut++;
    jsonw_key_lit(w, "frames");
    jsonw_array(w);
    for (uint32_t i = 0; i <= n; i++) {
        const stack_frame *f = i < n ? &s->frames[i] : NULL;
        for (; at < k && (!f || s->native_frames[at].sp < f->sp); at++) {
            if (kept == max) cut = true;
            if (kept < max) {
                snap_write_native(s, &s->native_frames[at]);
                kept++;
            }
        }
        if (!f || (f->kind == STACK_RUNTIME && !f->method && !s->runtime)) continue;
        if (kept == max) cut = true;
        if (kept >= max) continue;
        write_frame(s, f, managed == 0 && f->kind == STACK_MANAGED && i == 0);
        managed += f->kind == STACK_MANAGED;
        kept++;
    }
    jsonw_end_array(w);
    s->frames_written += kept;
    key_str(w, "end", cut ? "cut" : end_name(end));
    if (s->space && s->native) key_str(w, "nativeEnd", uw_end_name(native_end));
    if (s->d && n > 0) snap_refs(s, os_id, s->frames, n);
}

static void write_exception(snap *s, const dac_thread *t)
{
    dac_addr object = t->last_thrown_handle ? dac_word(s->d, t->last_thrown_handle) : 0;
    uint32_t type = object ? snap_type_of(s, object) : UINT32_MAX;
    if (type == UINT32_MAX) return;
    jsonw_key_lit(s->w, "exception");
    jsonw_object(s->w);
    key_hex(s->w, "object", object);
    key_int(s->w, "type", type);
    jsonw_end_object(s->w);
}

static void write_task(snap *s, const mem_thread *th)
{
    key_int(s->w, "tid", th->tid);
    if (th->name[0]) key_str(s->w, "name", th->name);
    if (th->state) {
        jsonw_key_lit(s->w, "state");
        jsonw_str(s->w, slice_of(&th->state, 1));
    }
    if (th->cpu_ns) key_int(s->w, "cpuNs", (int64_t)th->cpu_ns);
    if (th->signal) key_int(s->w, "signal", th->signal);
    key_bool(s->w, "stopped", th->stopped);
}

static void write_thread(snap *s, dac_addr address, const dac_thread *t, const dac_thread_store *ts)
{
    jsonw *w = s->w;
    const mem_thread *th = t->os_id ? mem_thread_of(s->t, (pid_t)t->os_id) : NULL;
    jsonw_object(w);
    key_int(w, "id", t->managed_id);
    key_int(w, "osId", t->os_id);
    key_hex(w, "address", address);
    key_int(w, "flags", (uint32_t)t->state);
    key_bool(w, "cooperative", t->cooperative != 0);
    key_bool(w, "finalizer", address == ts->finalizer);
    key_bool(w, "gc", address == ts->gc);
    key_int(w, "lockCount", t->lock_count == UINT32_MAX ? 0 : t->lock_count);
    if (th) {
        jsonw_key_lit(w, "task");
        jsonw_object(w);
        write_task(s, th);
        jsonw_end_object(w);
    }
    write_exception(s, t);
    write_frames(s, t->os_id, th);
    jsonw_end_object(w);
}

static uint32_t count_of(const snap *s)
{
    size_t n;
    mem_threads(s->t, &n);
    return n ? (uint32_t)n : 1;
}

/* Returns the set of OS ids that have a managed thread, for the rest. */
static void write_managed(snap *s, map64 *seen)
{
    dac_thread_store ts = {0};
    uint32_t done = 0, all = count_of(s);
    jsonw_key_lit(s->w, "threads");
    jsonw_array(s->w);
    if (s->d && dac_get_thread_store(s->d, &ts)) {
        dac_addr at = ts.first;
        for (int i = 0; at && i < THREADS_GUARD; i++) {
            dac_thread t;
            if (!dac_get_thread(s->d, at, &t)) break;
            write_thread(s, at, &t, &ts);
            if (t.os_id) map64_put(seen, t.os_id, 1);
            at = t.next;
            job_progress(s->j, 0.05 + 0.75 * (++done < all ? (double)done / all : 1), "walking stacks");
        }
    }
    jsonw_end_array(s->w);
}

static void write_tasks(snap *s, const map64 *seen)
{
    size_t n;
    uint64_t is;
    const mem_thread *th = mem_threads(s->t, &n);
    jsonw_key_lit(s->w, "nativeThreads");
    jsonw_array(s->w);
    for (size_t i = 0; i < n; i++) {
        if (map64_get(seen, (uint64_t)th[i].ns_tid, &is)) continue;
        jsonw_object(s->w);
        key_int(s->w, "osId", th[i].ns_tid);
        write_task(s, &th[i]);
        if (s->space) write_frames(s, 0, &th[i]);
        jsonw_end_object(s->w);
    }
    jsonw_end_array(s->w);
}

static void write_methods(snap *s)
{
    jsonw *w = s->w;
    jsonw_key_lit(w, "methods");
    jsonw_array(w);
    for (uint32_t i = 0; i < s->methods.n; i++) {
        const snap_method *m = snap_item(&s->methods, i);
        jsonw_array(w);
        jsonw_hex(w, m->address);
        jsonw_cstr(w, m->name ? m->name : "");
        jsonw_int(w, m->token);
        jsonw_int(w, m->module_index == UINT32_MAX ? -1 : (int64_t)m->module_index);
        jsonw_bool(w, m->is_dynamic);
        jsonw_end_array(w);
    }
    jsonw_end_array(w);
    jsonw_key_lit(w, "types");
    jsonw_array(w);
    for (uint32_t i = 0; i < s->types.n; i++) {
        char *const *name = snap_item(&s->types, i);
        jsonw_cstr(w, *name ? *name : "?");
    }
    jsonw_end_array(w);
}

static void write_mvid(jsonw *w, const uint8_t *g)
{
    char text[40];
    snprintf(text, sizeof text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", g[3], g[2],
             g[1], g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
    key_str(w, "mvid", text);
}

static void write_managed_modules(snap *s)
{
    jsonw *w = s->w;
    jsonw_key_lit(w, "modules");
    jsonw_array(w);
    for (uint32_t i = 0; i < s->modules.n; i++) {
        dac_addr module = *(dac_addr *)snap_item(&s->modules, i);
        dac_module info;
        buf b;
        buf_init(&b, 0);
        jsonw_object(w);
        bool named = dac_get_module(s->d, module, &info) && dac_pe_file_name(s->d, info.pe_assembly, &b);
        if (named) {
            jsonw_key_lit(w, "path");
            jsonw_str(w, buf_view(&b));
        }
        const sym_md *md = clr_metadata(&s->names, module);
        const uint8_t *mvid = md ? md_guid(md, md_get(md, MD_MODULE, 1, MODULE_MVID)) : NULL;
        if (mvid) write_mvid(w, mvid);
        jsonw_end_object(w);
        buf_fini(&b);
    }
    jsonw_end_array(w);
}

static void write_runtime(snap *s, const dac_runtime *rt)
{
    static const char *const kinds[] = {"none", "coreclr", "single-file", "nativeaot"};
    jsonw_key_lit(s->w, "runtime");
    jsonw_object(s->w);
    key_str(s->w, "kind", kinds[rt->kind]);
    key_str(s->w, "version", rt->version[0] ? rt->version : NULL);
    jsonw_end_object(s->w);
}

/* ---- the job ---- */

static void find_lock_type(snap *s)
{
    s->lock_type = clr_type(&s->names, "System.Threading", "Lock");
    if (!s->lock_type) return;
    s->lock_owner_at = clr_field(&s->names, s->lock_type, "_owningThreadId");
    s->lock_state_at = clr_field(&s->names, s->lock_type, "_state");
    s->lock_recursion_at = clr_field(&s->names, s->lock_type, "_recursionCount");
    if (!s->lock_owner_at || !s->lock_state_at) s->lock_type = 0;
}

/* All that can be done while the target still runs. */
static int prepare(snap *s, dac_runtime *rt, err *e)
{
    s->methods.size = sizeof(snap_method);
    s->modules.size = sizeof(dac_addr);
    s->types.size = sizeof(char *);
    s->locks.size = sizeof(snap_lock);
    s->max_frames = (uint32_t)job_int(s->j, "maxFrames", 64);
    if (s->max_frames < 1 || s->max_frames > SNAP_FRAMES_MAX) s->max_frames = 64;
    s->runtime = job_bool(s->j, "runtimeFrames", false);
    s->native = job_bool(s->j, "nativeFrames", false);
    s->frames = mem_calloc(STACK_FRAMES_MAX, sizeof *s->frames);
    s->native_frames = mem_calloc(SNAP_NATIVE_MAX, sizeof *s->native_frames);
    if (!s->frames || !s->native_frames) return err_set(e, ERR_NO_MEMORY, "no memory for stacks");
    dac_find_runtime(s->t, rt);
    if (rt->kind == DAC_NONE || rt->kind == DAC_NATIVE_AOT) {
        if (rt->kind == DAC_NONE && !job_bool(s->j, "anyProcess", false))
            return err_set(e, ERR_NOT_A_DOTNET_PROCESS, "no .NET runtime is loaded in the target");
        s->native = true;
        return 0;
    }
    job_progress(s->j, 0.015, "loading the runtime's library");
    int rc = dac_open(s->t, job_text(s->j, "dacPath", NULL), &s->d, e);
    if (rc < 0) return rc;
    clr_names_init(&s->names, s->d);
    s->thin_16 = rt->major == 0 || rt->major >= 8;
    find_lock_type(s);
    return 0;
}

/* The target stands: what was read while it ran is forgotten, and the stacks are fetched in few calls. */
static void begin(snap *s)
{
    dac_addr tops[PREFETCHED * STACK_PAGES];
    size_t n, k = 0;
    if (!s->d) return;
    if (mem_is_live(s->t)) dac_flush(s->d);
    dac_get_globals(s->d, &s->globals);
    if (!s->lock_type) find_lock_type(s);
    const mem_thread *th = mem_threads(s->t, &n);
    for (size_t i = 0; mem_is_live(s->t) && i < n && i < PREFETCHED; i++) {
        mem_registers r;
        err quiet = {0};
        if (!th[i].stopped || mem_registers_of(s->t, th[i].tid, &r, &quiet) < 0) continue;
        for (size_t page = 0; page < STACK_PAGES; page++)
            tops[k++] = r.general.rsp + page * (uint64_t)4096;
    }
    dac_prefetch(s->d, tops, k);
}

static void finish(snap *s)
{
    if (s->space) uw_space_free(s->space);
    clr_names_fini(&s->names);
    dac_close(s->d);
    snap_table *tables[] = {&s->methods, &s->modules, &s->types, &s->locks};
    for (size_t i = 0; i < 4; i++) {
        free(tables[i]->items);
        map64_fini(&tables[i]->index);
    }
    map64_fini(&s->il);
    map64_fini(&s->code);
    arena_free(&s->a);
    free(s->frames);
    free(s->native_frames);
    free(s);
}

static void write_notes(snap *s)
{
    jsonw *w = s->w;
    jsonw_key_lit(w, "notes");
    jsonw_array(w);
    for (size_t i = 0; mem_note(s->t, i); i++)
        jsonw_cstr(w, mem_note(s->t, i));
    if (s->blocks_cut) jsonw_cstr(w, "not all sync blocks were looked at: locks may be missing");
    if (s->stacks_cut > 0) {
        buf b;
        buf_init(&b, 0);
        buf_printf(&b, "of %u stacks only %u frames are kept: there are very many threads", s->stacks_cut,
                   SNAP_FRAMES_THEN);
        jsonw_str(w, buf_view(&b));
        buf_fini(&b);
    }
    if (s->refs_skipped > 0) {
        buf b;
        buf_init(&b, 0);
        buf_printf(&b,
                   "the stacks of %u threads were not searched for locks, to let the process go on: locks that nobody "
                   "waits for may be missing",
                   s->refs_skipped);
        jsonw_str(w, buf_view(&b));
        buf_fini(&b);
    }
    if (s->refs_failed > 0) {
        buf b;
        buf_init(&b, 0);
        buf_printf(&b, "of %u threads the references on the stack could not be read: what they wait for may be missing",
                   s->refs_failed);
        jsonw_str(w, buf_view(&b));
        buf_fini(&b);
    }
    jsonw_end_array(w);
}

static void write_all(snap *s, const dac_runtime *rt)
{
    map64 seen = {0};
    jsonw_object(s->w);
    key_int(s->w, "pid", mem_pid(s->t));
    key_bool(s->w, "live", mem_is_live(s->t));
    write_runtime(s, rt);
    if (s->d) snap_sync_blocks(s);
    write_managed(s, &seen);
    write_tasks(s, &seen);
    if (s->d) {
        job_progress(s->j, 0.85, "reading the pool");
        snap_pool(s);
        snap_write_locks(s);
    }
    (void)mem_modules(s->t, &(size_t){0}); /* what is written of them is read while they are there */
    job_resume(s->j);
    if (s->d) {
        write_methods(s);
        write_managed_modules(s);
    }
    snap_write_modules(s);
    key_int(s->w, "stopNs", mem_stop_ns(s->t));
    write_notes(s);
    jsonw_end_object(s->w);
    map64_fini(&seen);
}

int job_threads(mem_job *j, err *e)
{
    dac_runtime rt = {0};
    snap *s = mem_calloc(1, sizeof *s);
    if (!s) return err_set(e, ERR_NO_MEMORY, "no memory");
    s->j = j;
    int rc = job_target(j, &s->t, e);
    if (rc >= 0) rc = prepare(s, &rt, e);
    if (rc >= 0) rc = job_stop(j, e);
    if (rc >= 0) begin(s);
    if (rc >= 0 && s->native) rc = snap_native_open(s, e);
    if (rc >= 0) {
        s->w = job_json(j);
        write_all(s, &rt);
        if (mem_gone(s->t))
            rc = err_set(e, ERR_PROCESS_EXITED, "process %d ended while it was looked at", (int)mem_pid(s->t));
    }
    finish(s);
    return rc;
}
