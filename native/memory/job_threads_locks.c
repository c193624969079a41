/* SPDX-License-Identifier: MIT */
/* job_threads_locks.c: locks and who stands before them: sync blocks (owner and number of waiters are the runtime's own
 * record), thin locks and System.Threading.Lock objects met on stacks, and the references in a thread's waiting frames,
 * which tell what it waits for. Layouts: dotnet/runtime src/coreclr/vm/syncblk.h. */
#include <stdlib.h>
#include <string.h>

#include "memory/job_threads.h"

#define HEADER_HASH_OR_INDEX 0x08000000u
#define HEADER_IS_HASH       0x04000000u
#define HEADER_SPIN          0x10000000u
#define INDEX_MASK           0x03ffffffu
#define LOCK_WAITERS_SHIFT   7
#define WAIT_FRAMES_MAX      24u
#define STATE_LOCKED         1u
#define REFS_BUDGET_NS       250000000 /* of a stop, after which only threads that wait for others are asked */

static bool make_lock(snap *s, uint64_t object, void *item)
{
    (void)s;
    ((snap_lock *)item)->object = object;
    return true;
}

static snap_lock *lock_of(snap *s, dac_addr object)
{
    uint32_t i = snap_index(s, &s->locks, object, SNAP_LOCKS_MAX, make_lock);
    return i == UINT32_MAX ? NULL : snap_item(&s->locks, i);
}

void snap_sync_blocks(snap *s)
{
    uint32_t count = 1;
    for (uint32_t i = 1; i <= count; i++) {
        dac_sync_block b = {0};
        if (!dac_get_sync_block(s->d, i, &b)) return;
        count = b.count;
        if (i == SNAP_BLOCKS_MAX) {
            s->blocks_cut = true;
            return;
        }
        if (b.is_free || !b.object || b.held == 0) continue;
        snap_lock *l = lock_of(s, b.object);
        if (!l) {
            s->blocks_cut = true;
            return;
        }
        l->owner = b.held & 1 ? b.owner : 0;
        l->recursion = b.held & 1 ? b.recursion : 0;
        l->waiters = b.held >> 1;
        l->kind = "Monitor";
        l->source = "SyncBlock";
    }
}

/* A thin lock in an object's header. The layout of 8 and later is tried first where the version leaves it open. */
static bool thin_lock(snap *s, uint32_t header, dac_addr *owner, uint32_t *recursion)
{
    if (header & (HEADER_HASH_OR_INDEX | HEADER_SPIN)) return false;
    uint32_t wide = header & 0xffff, narrow = header & 0x3ff;
    if (s->thin_16 && wide && dac_thread_by_thin_lock(s->d, wide, owner)) {
        *recursion = (header >> 16) & 0x3f;
        return true;
    }
    if (s->thin_16 || !narrow || !dac_thread_by_thin_lock(s->d, narrow, owner)) return false;
    *recursion = (header >> 10) & 0x3f;
    return true;
}

/* Notes a lock that the reference is. */
static void consider(snap *s, dac_addr object, dac_addr mt)
{
    uint32_t header = 0, recursion = 0;
    dac_addr owner = 0;
    if (!dac_read(s->d, object - 4, &header, sizeof header)) return;
    if (thin_lock(s, header, &owner, &recursion)) {
        snap_lock *l = lock_of(s, object);
        if (l && !l->kind)
            *l = (snap_lock){
                .object = object, .owner = owner, .recursion = recursion + 1, .kind = "Monitor", .source = "ThinLock"};
        return;
    }
    if (!s->lock_type || mt != s->lock_type) return;
    uint32_t state = 0, id = 0, deep = 0;
    if (!dac_read(s->d, object + s->lock_state_at, &state, 4) || !dac_read(s->d, object + s->lock_owner_at, &id, 4))
        return;
    if (s->lock_recursion_at) (void)dac_read(s->d, object + s->lock_recursion_at, &deep, 4);
    if (!(state & STATE_LOCKED) && state >> LOCK_WAITERS_SHIFT == 0) return;
    snap_lock *l = lock_of(s, object);
    if (l && !l->kind)
        *l = (snap_lock){.object = object,
                         .owner_id = state & STATE_LOCKED ? id : 0,
                         .recursion = state & STATE_LOCKED ? deep + 1 : 0,
                         .waiters = state >> LOCK_WAITERS_SHIFT,
                         .kind = "Lock",
                         .source = "LockObject"};
}

typedef struct seen {
    dac_addr object;
    uint32_t frame;
} seen;

/* [number of the frame, object, type] */
static void write_ref(snap *s, uint32_t frame, dac_addr object)
{
    uint32_t type = snap_type_of(s, object);
    jsonw_array(s->w);
    jsonw_int(s->w, frame);
    jsonw_hex(s->w, object);
    jsonw_int(s->w, type == UINT32_MAX ? -1 : (int64_t)type);
    jsonw_end_array(s->w);
}

/* Frames that have a method: managed ones, and those of the runtime's helpers that stand for one (Monitor.ReliableEnter
 * of 8 and 9). References name them by their number among these. */
static bool counts(const stack_frame *f) { return f->kind == STACK_MANAGED || f->method != 0; }

/* How many frames, from the innermost on, belong to waiting: those of the library, and the one that called. */
static uint32_t waiting_frames(snap *s, const stack_frame *frames, uint32_t n)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n && k < WAIT_FRAMES_MAX; i++) {
        if (!counts(&frames[i])) continue;
        uint32_t m = snap_method_of(s, frames[i].method);
        k++;
        if (m == UINT32_MAX || !((snap_method *)snap_item(&s->methods, m))->in_wait) return k == 1 ? 0 : k;
    }
    return k;
}

static int frame_of(const stack_frame *frames, uint32_t n, uint32_t waiting, const dac_stack_ref *r)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n && k < waiting; i++) {
        const stack_frame *f = &frames[i];
        if (!counts(f)) continue;
        if (f->kind == STACK_MANAGED ? f->ip == r->source && f->sp == r->sp
                                     : r->source_type == 1 && r->source == f->frame)
            return (int)k;
        k++;
    }
    return -1;
}

/* Does the stack stand in a wait that has something to do with other threads? Then its references count most. */
static bool waits_for_others(snap *s, const stack_frame *frames, uint32_t n)
{
    static const char *const words[] = {"Monitor.",    "Lock.",          "Tasks.Task",
                                        "TaskAwaiter", "SemaphoreSlim.", "ResetEvent"};
    uint32_t k = 0;
    for (uint32_t i = 0; i < n && k < WAIT_FRAMES_MAX; i++) {
        if (!counts(&frames[i])) continue;
        uint32_t m = snap_method_of(s, frames[i].method);
        const snap_method *method = m == UINT32_MAX ? NULL : snap_item(&s->methods, m);
        if (!method || !method->in_wait) return false;
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
            if (strstr(method->name, words[w])) return true;
        k++;
    }
    return false;
}

void snap_refs(snap *s, uint32_t os_id, const stack_frame *frames, uint32_t n)
{
    dac_stack_ref *refs = NULL;
    size_t count = 0;
    seen kept[SNAP_REFS_MAX];
    uint32_t n_kept = 0, waiting = waiting_frames(s, frames, n);
    bool any = false;
    for (uint32_t i = 0; i < n && !any; i++)
        any = frames[i].kind == STACK_MANAGED;
    if (!any) return;
    if (mem_stop_ns(s->t) > REFS_BUDGET_NS && !waits_for_others(s, frames, n)) {
        s->refs_skipped++;
        return;
    }
    if (!dac_stack_refs(s->d, os_id, &refs, &count)) s->refs_failed++;
    jsonw_key_lit(s->w, "refs");
    jsonw_array(s->w);
    for (size_t i = 0; i < count; i++) {
        const dac_stack_ref *r = &refs[i];
        if (!r->object || r->flags & 1 || r->object & 7) continue;
        dac_addr mt = dac_word(s->d, r->object) & ~(dac_addr)7;
        if (!mt || mt == s->globals.string || mt == s->globals.free) continue;
        consider(s, r->object, mt);
        int at = waiting ? frame_of(frames, n, waiting, r) : -1;
        if (at < 0 || n_kept == SNAP_REFS_MAX) continue;
        bool known = false;
        for (uint32_t k = 0; k < n_kept && !known; k++)
            known = kept[k].object == r->object && kept[k].frame == (uint32_t)at;
        if (known) continue;
        kept[n_kept++] = (seen){r->object, (uint32_t)at};
        write_ref(s, (uint32_t)at, r->object);
    }
    jsonw_end_array(s->w);
    free(refs);
}

void snap_write_locks(snap *s)
{
    jsonw *w = s->w;
    jsonw_key_lit(w, "locks");
    jsonw_array(w);
    for (uint32_t i = 0; i < s->locks.n; i++) {
        const snap_lock *l = snap_item(&s->locks, i);
        if (!l->kind) continue;
        uint32_t type = snap_type_of(s, l->object);
        jsonw_object(w);
        jsonw_key_lit(w, "object");
        jsonw_hex(w, l->object);
        jsonw_key_lit(w, "type");
        jsonw_int(w, type == UINT32_MAX ? -1 : (int64_t)type);
        jsonw_key_lit(w, "owner");
        jsonw_hex(w, l->owner);
        if (l->owner_id) {
            jsonw_key_lit(w, "ownerId");
            jsonw_int(w, l->owner_id);
        }
        jsonw_key_lit(w, "recursion");
        jsonw_int(w, l->recursion);
        jsonw_key_lit(w, "waiters");
        jsonw_int(w, l->waiters);
        jsonw_key_lit(w, "kind");
        jsonw_cstr(w, l->kind);
        jsonw_key_lit(w, "source");
        jsonw_cstr(w, l->source);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}
