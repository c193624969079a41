/* SPDX-License-Identifier: MIT */
/* reader.c: the reader's life: taking bytes in pieces of any size, and ending, whole or not. */
#include "nettrace/nt_internal.h"

#include <stdarg.h>
#include <stdio.h>

#define FIRST_FILL                                                                                                     \
    ((size_t)128 << 10) /* a block that comes in pieces grows as its bytes come, whatever size it claims */

nt_limits nt_limits_default(void)
{
    return (nt_limits){.block_bytes = 16u << 20,
                       .name_bytes = 32u << 10,
                       .kinds = 65536,
                       .kind_bytes = 8u << 20,
                       .fields_per_kind = 1024,
                       .field_depth = 16,
                       .stack_bytes = 64u << 10,
                       .stacks = 1000000,
                       .stacks_bytes = 12u << 20,
                       .label_lists = 100000,
                       .label_bytes = 4u << 20,
                       .threads = 5000,
                       .indexed_threads = 100000,
                       .queue_bytes = 24u << 20};
}

nt_options nt_options_default(void) { return (nt_options){.limits = nt_limits_default()}; }

const char *nt__sort_name(nt__sort s)
{
    static const char *const names[] = {
        "block of an unknown sort", "EventBlock",     "MetadataBlock", "StackBlock", "SPBlock", "Trace", "ThreadBlock",
        "RemoveThreadBlock",        "LabelListBlock", "EndOfStream"};
    return names[s];
}

void nt__account(nt_reader *r, ptrdiff_t bytes)
{
    r->stats.memory = (size_t)((ptrdiff_t)r->stats.memory + bytes);
    if (r->stats.memory > r->stats.memory_peak) r->stats.memory_peak = r->stats.memory;
}

int nt__fail(nt_reader *r, err_kind kind, int64_t offset, const char *fmt, ...)
{
    if (r->status < 0) return r->status;
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    bool in_block = r->state == NT_S_BLOCK || r->state == NT_S_V6_BLOCK || r->state == NT_S_SIZE;
    if (in_block)
        r->status = err_at(&r->failure, kind, offset, "%s at %lld: %s", nt__sort_name(r->sort),
                           (long long)r->block_offset, text);
    else
        r->status = err_at(&r->failure, kind, offset, "%s", text);
    return r->status;
}

int nt__no_memory(nt_reader *r) { return nt__fail(r, ERR_NO_MEMORY, r->offset, "no memory to go on reading"); }
int nt__cancelled(nt_reader *r)
{
    return nt__fail(r, ERR_CANCELLED, r->offset, "the receiver of the events stopped the reading");
}

nt_reader *nt_new(const nt_options *o, const nt_sink *sink, void *arg, err *e)
{
    nt_reader *r = mem_calloc(1, sizeof *r);
    if (!r) {
        err_set(e, ERR_NO_MEMORY, "no memory for a trace reader");
        return NULL;
    }
    r->opt = o ? *o : nt_options_default();
    r->lim = r->opt.limits;
    if (sink) r->sink = *sink;
    r->arg = arg;
    r->last_ts = INT64_MIN;
    r->state = NT_S_MAGIC;
    r->want = 8;
    r->kinds_arena.max = r->lim.kind_bytes;
    r->threads.max = r->by_big_id.max = r->by_content.max = 0;
    buf_init(&r->scratch, (size_t)r->lim.name_bytes * 3 + 16);
    nt__account(r, sizeof *r);
    return r;
}

void nt_free(nt_reader *r)
{
    if (!r) return;
    nt__sort_fini(r);
    nt__threads_fini(r);
    nt__kinds_fini(r);
    nt__table_clear(r, &r->stacks);
    nt__table_clear(r, &r->labels);
    buf_fini(&r->scratch);
    free(r);
}

static bool in_content(const nt_reader *r) { return r->state == NT_S_BLOCK || r->state == NT_S_V6_BLOCK; }

static int finish_content(nt_reader *r, const uint8_t *p, nt__block **owned)
{
    size_t n = r->want;
    int rc = nt__block_content(r, r->sort, p, n, r->block_offset, owned, false);
    if (rc < 0) return rc;
    r->stats.blocks++;
    r->state = r->state == NT_S_BLOCK ? NT_S_END_OBJECT : NT_S_V6_WORD;
    r->want = r->state == NT_S_END_OBJECT ? 1 : 4;
    return 0;
}

static int grow_filling(nt_reader *r, size_t need)
{
    nt__block *b = r->filling;
    if (b->cap >= need) return 0;
    size_t cap = b->cap * 2 < need ? need : b->cap * 2;
    if (cap > r->want) cap = r->want;
    uint8_t *p = mem_realloc(b->bytes, cap);
    if (!p) return nt__no_memory(r);
    nt__account(r, (ptrdiff_t)(cap - b->cap));
    b->bytes = p;
    b->cap = cap;
    return 0;
}

static int begin_filling(nt_reader *r)
{
    if (r->filling) return 0;
    r->filling = nt__block_get(r, r->want < FIRST_FILL ? r->want : FIRST_FILL);
    r->n_filling = 0;
    return r->filling ? 0 : nt__no_memory(r);
}

/* n more bytes stand in the filling block. */
static int filled(nt_reader *r, size_t n)
{
    r->n_filling += n;
    if (r->n_filling < r->want) return 0;
    nt__block *owned = r->filling;
    r->filling = NULL;
    int rc = finish_content(r, owned->bytes, &owned);
    if (owned) nt__block_put(r, owned);
    if (rc < 0) return rc;
    r->offset += (int64_t)r->n_filling;
    return 0;
}

/* Takes bytes of a block's content; returns how many, or negative. */
static int64_t feed_content(nt_reader *r, const uint8_t *p, size_t n)
{
    int rc;
    if (!r->filling && n >= r->want) {
        nt__block *none = NULL;
        size_t used = r->want;
        if ((rc = finish_content(r, p, &none)) < 0) return rc;
        r->offset += (int64_t)used;
        return (int64_t)used;
    }
    if ((rc = begin_filling(r)) < 0) return rc;
    size_t take = r->want - r->n_filling < n ? r->want - r->n_filling : n;
    if ((rc = grow_filling(r, r->n_filling + take)) < 0) return rc;
    memcpy(r->filling->bytes + r->n_filling, p, take);
    rc = filled(r, take);
    return rc < 0 ? rc : (int64_t)take;
}

/* Takes bytes of a frame's small piece; returns how many, or negative. */
static int64_t feed_small(nt_reader *r, const uint8_t *p, size_t n)
{
    if (r->n_small == 0 && n >= r->want) {
        size_t used = r->want;
        int rc = nt__frame_step(r, p);
        if (rc < 0) return rc;
        r->offset += (int64_t)used;
        return (int64_t)used;
    }
    size_t take = r->want - r->n_small < n ? r->want - r->n_small : n;
    memcpy(r->small + r->n_small, p, take);
    r->n_small += take;
    if (r->n_small < r->want) return (int64_t)take;
    size_t whole = r->n_small;
    r->n_small = 0;
    int rc = nt__frame_step(r, r->small);
    if (rc < 0) return rc;
    r->offset += (int64_t)whole;
    return (int64_t)take;
}

static int64_t feed_skip(nt_reader *r, size_t n)
{
    size_t take = r->skip < n ? (size_t)r->skip : n;
    r->skip -= take;
    r->offset += (int64_t)take;
    if (r->skip == 0) {
        r->state = r->after_skip;
        r->want = r->state == NT_S_END_OBJECT ? 1 : 4;
    }
    return (int64_t)take;
}

static int report(nt_reader *r, err *e)
{
    if (e && e->kind == ERR_NONE) *e = r->failure;
    return r->status;
}

/* What waits to be sorted came before the fault or the cut: it is delivered all the same. */
static void flush(nt_reader *r)
{
    if (r->status == -ERR_CANCELLED) return;
    int status = r->status;
    r->status = 0;
    if (nt__merge(r, INT64_MAX) == 0) r->status = status;
}

int nt_feed(nt_reader *r, const void *bytes, size_t n, err *e)
{
    const uint8_t *p = bytes;
    if (r->status < 0) return report(r, e);
    r->stats.bytes += n;
    while (n && r->state != NT_S_DONE) {
        int64_t used = r->state == NT_S_SKIP ? feed_skip(r, n)
                       : in_content(r)       ? feed_content(r, p, n)
                                             : feed_small(r, p, n);
        if (used < 0) {
            flush(r);
            return report(r, e);
        }
        p += used;
        n -= (size_t)used;
    }
    return 0;
}

uint8_t *nt__room(nt_reader *r, size_t *n)
{
    *n = 0;
    if (r->status < 0 || !in_content(r) || begin_filling(r) < 0) return NULL;
    size_t left = r->want - r->n_filling;
    size_t part = left < FIRST_FILL ? left : FIRST_FILL;
    if (grow_filling(r, r->n_filling + part) < 0) return NULL;
    *n = part;
    return r->filling->bytes + r->n_filling;
}

int nt__commit(nt_reader *r, size_t n, err *e)
{
    if (r->status < 0) return report(r, e);
    r->stats.bytes += n;
    if (n == 0 || filled(r, n) >= 0) return 0;
    flush(r);
    return report(r, e);
}

int nt_flush(nt_reader *r, err *e)
{
    if (r->status < 0) return report(r, e);
    bool between = r->state != NT_S_SKIP && r->n_small == 0 && !r->filling;
    return between && nt__merge(r, INT64_MAX) < 0 ? report(r, e) : 0;
}

int nt_finish(nt_reader *r, err *e)
{
    if (r->status < 0) return report(r, e);
    if (r->state == NT_S_DONE) {
        int rc = nt__merge(r, INT64_MAX);
        return rc < 0 ? report(r, e) : 0;
    }
    if (in_content(r) && r->filling && r->sort == NT_B_EVENT) {
        nt__block *owned = r->filling;
        r->filling = NULL;
        nt__block_content(r, r->sort, owned->bytes, r->n_filling, r->block_offset, &owned, true);
        if (owned) nt__block_put(r, owned);
    }
    flush(r);
    int64_t end = (int64_t)r->stats.bytes;
    if (in_content(r))
        nt__fail(r, ERR_TRUNCATED, end, "the stream stops after %lld of the block's %zu bytes",
                 (long long)(end - r->block_offset), r->want);
    else
        nt__fail(r, ERR_TRUNCATED, end, "the stream stops before its end mark, at byte %lld", (long long)end);
    return report(r, e);
}

bool nt_ended(const nt_reader *r) { return r->state == NT_S_DONE; }
const nt_trace *nt_trace_info(const nt_reader *r) { return r->has_trace ? &r->trace : NULL; }
const nt_stats *nt_stats_of(const nt_reader *r) { return &r->stats; }

int64_t nt_ns(const nt_trace *t, int64_t ts)
{
    __int128 ticks = (__int128)ts - t->sync_ticks;
    if (t->frequency == 1000000000) return (int64_t)ticks;
    __int128 ns = ticks * 1000000000 / t->frequency;
    return ns > INT64_MAX ? INT64_MAX : ns < INT64_MIN ? INT64_MIN : (int64_t)ns;
}
