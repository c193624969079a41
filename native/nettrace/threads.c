/* SPDX-License-Identifier: MIT */
/* threads.c: the table of threads, what their sequence numbers say about lost events, and sequence points. */
#include "nettrace/nt_internal.h"

#define SLAB_THREADS 64

static nt__thread *slot_get(nt_reader *r)
{
    if (!r->free_threads) {
        nt__slab *s = mem_alloc(sizeof *s + SLAB_THREADS * sizeof(nt__thread));
        if (!s) return NULL;
        nt__account(r, (ptrdiff_t)(SLAB_THREADS * sizeof(nt__thread)));
        s->next = r->slabs;
        r->slabs = s;
        nt__thread *t = (nt__thread *)(void *)s->records;
        for (size_t i = 0; i < SLAB_THREADS; i++) {
            t[i].older = r->free_threads;
            r->free_threads = &t[i];
        }
    }
    nt__thread *t = r->free_threads;
    r->free_threads = t->older;
    *t = (nt__thread){.pid = -1};
    return t;
}

static void slot_put(nt_reader *r, nt__thread *t)
{
    t->older = r->free_threads;
    r->free_threads = t;
}

static void unlink_thread(nt_reader *r, nt__thread *t)
{
    if (t->newer)
        t->newer->older = t->older;
    else
        r->newest = t->older;
    if (t->older)
        t->older->newer = t->newer;
    else
        r->oldest = t->newer;
    t->older = t->newer = NULL;
}

static void link_newest(nt_reader *r, nt__thread *t)
{
    t->newer = NULL;
    t->older = r->newest;
    if (r->newest)
        r->newest->newer = t;
    else
        r->oldest = t;
    r->newest = t;
}

/* Takes a thread out of the table. Its queue must be empty. */
static void drop(nt_reader *r, nt__thread *t)
{
    if (r->last_capture == t) r->last_capture = NULL;
    if (r->last_thread == t) r->last_thread = NULL;
    map64_del(&r->threads, t->key);
    unlink_thread(r, t);
    slot_put(r, t);
    r->n_threads--;
}

static nt__thread *add(nt_reader *r, uint64_t key, int *rc)
{
    nt__thread *t = slot_get(r);
    if (!t || !map64_put(&r->threads, key, (uintptr_t)t)) {
        if (t) slot_put(r, t);
        *rc = nt__no_memory(r);
        return NULL;
    }
    t->key = t->tid = key;
    link_newest(r, t);
    r->n_threads++;
    return t;
}

/* V4: the table is full: the thread that was silent longest makes room. */
static int evict(nt_reader *r)
{
    nt__thread *t = r->oldest;
    if (t->head) {
        r->stats.forced_merges++;
        int rc = nt__merge(r, INT64_MAX);
        if (rc < 0) return rc;
    }
    drop(r, t);
    r->stats.threads_evicted++;
    return 0;
}

nt__thread *nt__thread_get(nt_reader *r, uint64_t key, int64_t at, int *rc)
{
    uint64_t found;
    if (map64_get(&r->threads, key, &found)) {
        nt__thread *t = (nt__thread *)(uintptr_t)found;
        if (r->newest != t) {
            unlink_thread(r, t);
            link_newest(r, t);
        }
        return t;
    }
    if (r->trace.version >= 6) {
        *rc = nt__fail(r, ERR_MALFORMED, at, "thread index %llu was never announced", (unsigned long long)key);
        return NULL;
    }
    if (r->n_threads >= r->lim.threads && (*rc = r->n_threads ? evict(r) : 0) < 0) return NULL;
    return add(r, key, rc);
}

static int count_lost(nt_reader *r, const nt__thread *t, uint32_t n)
{
    r->stats.lost += n;
    if (r->sink.lost && r->sink.lost(r->arg, t->tid, n) != 0) return nt__cancelled(r);
    return 0;
}

int nt__sequence(nt_reader *r, nt__thread *t, uint32_t seq, bool exact)
{
    /* V4 thread ids are reused by the OS, and a first number says nothing about what came before it. V6 indices start
     * at 0. */
    bool fresh = !t->seen || (t->last_seq == 0 && r->trace.version < 6);
    int32_t gap = (int32_t)(seq - t->last_seq - (exact ? 1 : 0));
    if (!exact && gap <= 0 && t->seen) return 0;
    t->seen = true;
    t->last_seq = seq;
    if (fresh || gap == 0) return 0;
    if (exact && seq == 1 && r->trace.version < 6) return 0;
    if (gap < 0) {
        r->stats.sequence_breaks++;
        return 0;
    }
    return count_lost(r, t, (uint32_t)gap);
}

static int point_v4(nt_reader *r, cursor *c)
{
    uint32_t n = cursor_u32(c);
    if (!cursor_ok(c) || cursor_left(c) != (uint64_t)n * 12)
        return nt__fail(r, ERR_MALFORMED, cursor_offset(c), "%u threads do not fit the block", n);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t id = cursor_u64(c);
        uint32_t seq = cursor_u32(c);
        int rc = 0;
        nt__thread *t = nt__thread_get(r, id, cursor_offset(c), &rc);
        if (!t || (rc = nt__sequence(r, t, seq, false)) < 0) return rc;
    }
    return 0;
}

static int point_v6(nt_reader *r, cursor *c)
{
    uint32_t flags = cursor_u32(c), n = cursor_u32(c);
    for (uint32_t i = 0; i < n && cursor_ok(c); i++) {
        uint64_t index = cursor_varu64(c);
        uint32_t seq = cursor_varu32(c);
        int rc = 0;
        if (!cursor_ok(c)) break;
        nt__thread *t = nt__thread_get(r, index, cursor_offset(c), &rc);
        if (!t || (rc = nt__sequence(r, t, seq, false)) < 0) return rc;
    }
    if (!cursor_ok(c)) return nt__fail(r, ERR_MALFORMED, cursor_offset(c), "%u threads do not fit the block", n);
    if (flags & 1) nt__threads_forget(r);
    if (flags & 2) nt__kinds_forget_ids(r);
    return 0;
}

int nt__sequence_point(nt_reader *r, const uint8_t *p, size_t n, int64_t at)
{
    cursor c = cursor_of(slice_of(p, n), at);
    int64_t ts = cursor_i64(&c);
    if (!cursor_ok(&c)) return nt__fail(r, ERR_MALFORMED, at, "no room for a time");
    int rc = nt__merge(r, INT64_MAX);
    if (rc < 0) return rc;
    rc = r->trace.version >= 6 ? point_v6(r, &c) : point_v4(r, &c);
    if (rc < 0) return rc;
    nt__table_clear(r, &r->stacks);
    nt__table_clear(r, &r->labels);
    r->stats.sequence_points++;
    if (r->sink.sequence_point && r->sink.sequence_point(r->arg, ts) != 0) return nt__cancelled(r);
    return 0;
}

/* ---- V6: threads are announced and removed ---- */

static void thread_infos(cursor *c, nt_thread *info)
{
    while (cursor_left(c)) {
        switch (cursor_u8(c)) {
        case 1: info->name = cursor_bytes(c, cursor_varu32(c)); break;
        case 2: info->pid = (int64_t)cursor_varu64(c); break;
        case 3: info->tid = cursor_varu64(c); break;
        case 4:
            cursor_skip(c, cursor_varu32(c));
            cursor_skip(c, cursor_varu32(c));
            break;
        default: return; /* an unknown sort has an unknown length: the rest of the row cannot be read */
        }
    }
}

static int add_thread_v6(nt_reader *r, slice row, int64_t at)
{
    cursor c = cursor_of(row, at);
    nt_thread info = {.index = cursor_varu64(&c), .pid = -1};
    info.tid = info.index;
    thread_infos(&c, &info);
    if (!cursor_ok(&c)) return nt__fail(r, ERR_MALFORMED, cursor_offset(&c), "a thread's row ends inside a value");
    uint64_t there;
    if (map64_get(&r->threads, info.index, &there))
        return nt__fail(r, ERR_MALFORMED, at, "thread index %llu is announced twice", (unsigned long long)info.index);
    if (r->n_threads >= r->lim.indexed_threads)
        return nt__fail(r, ERR_LIMIT, at, "more than %u threads at a time", r->lim.indexed_threads);
    int rc = 0;
    nt__thread *t = add(r, info.index, &rc);
    if (!t) return rc;
    t->tid = info.tid;
    t->pid = info.pid;
    t->seen = true; /* numbers start at 0 with the announcement */
    if (r->sink.thread && r->sink.thread(r->arg, &info) != 0) return nt__cancelled(r);
    return 0;
}

int nt__threads_v6(nt_reader *r, const uint8_t *p, size_t n, int64_t at)
{
    cursor c = cursor_of(slice_of(p, n), at);
    while (cursor_left(&c)) {
        int64_t row_at = cursor_offset(&c);
        slice row = cursor_bytes(&c, cursor_u16(&c));
        if (!cursor_ok(&c)) return nt__fail(r, ERR_MALFORMED, row_at, "a thread's row passes the end of the block");
        int rc = add_thread_v6(r, row, row_at + 2);
        if (rc < 0) return rc;
    }
    return 0;
}

int nt__threads_remove_v6(nt_reader *r, const uint8_t *p, size_t n, int64_t at)
{
    cursor c = cursor_of(slice_of(p, n), at);
    while (cursor_left(&c)) {
        int64_t row_at = cursor_offset(&c);
        uint64_t index = cursor_varu64(&c);
        uint32_t seq = cursor_varu32(&c);
        int rc = 0;
        if (!cursor_ok(&c))
            return nt__fail(r, ERR_MALFORMED, row_at, "a removed thread's entry passes the end of the block");
        nt__thread *t = nt__thread_get(r, index, row_at, &rc);
        if (!t || (rc = nt__sequence(r, t, seq, false)) < 0) return rc;
        if (t->head) { /* it stays out of the table until its events are out */
            map64_del(&r->threads, t->key);
            t->removed = true;
            if (r->last_capture == t) r->last_capture = NULL;
            if (r->last_thread == t) r->last_thread = NULL;
        } else {
            drop(r, t);
        }
    }
    return 0;
}

void nt__thread_drained(nt_reader *r, nt__thread *t)
{
    unlink_thread(r, t);
    slot_put(r, t);
    r->n_threads--;
}

/* All queues are empty here: a sequence point merges first. */
void nt__threads_forget(nt_reader *r)
{
    while (r->oldest)
        drop(r, r->oldest);
}

void nt__threads_fini(nt_reader *r)
{
    map64_fini(&r->threads);
    while (r->slabs) {
        nt__slab *s = r->slabs;
        r->slabs = s->next;
        free(s);
    }
    r->newest = r->oldest = r->free_threads = NULL;
}
