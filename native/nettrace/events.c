/* SPDX-License-Identifier: MIT */
/* events.c: the content of event blocks (and of V4 metadata blocks, which have the same form): headers, compressed or
 * not. */
#include "nettrace/nt_internal.h"

#define BLOCK_HEADER   20
#define BLOB_HEADER_V4 80
#define BLOB_HEADER_V6 52
#define ACTIVITY_AT    44 /* in a V4 header; the related one follows */
#define NOT_SORTED     UINT32_C(0x80000000)

enum { /* flag bits of a compressed header */
       HAS_METADATA = 0x01,
       HAS_SEQUENCE = 0x02,
       HAS_THREAD = 0x04,
       HAS_STACK = 0x08,
       HAS_ACTIVITY = 0x10, /* V6: a label list */
       HAS_RELATED = 0x20,
       IS_SORTED = 0x40,
       HAS_SIZE = 0x80
};

/* State of compressed headers, all zero at the start of a block; and the walk through the block. */
typedef struct walk {
    nt_reader *r;
    const uint8_t *start, *p, *end;
    int64_t at; /* stream offset of start */
    bool v6, metadata, cut;
    uint32_t metadata_id, seq, processor, stack, payload_size, labels;
    uint64_t capture, thread, ts;
    const uint8_t *activity, *related;
    nt_kind *kind; /* of metadata_id, once looked up */
    uint32_t kind_id;
    bool kind_known, sorted;
    bool same_context, context_kept; /* context is up to date; it is the last row of block->contexts */
    nt_context context;
    nt__block *block; /* holds the bytes while events wait; NULL: nothing may wait */
    nt__thread *capture_slot, *thread_slot;
} walk;

static int64_t offset_of(const walk *w) { return w->at + (w->p - w->start); }

/* Outcome of a number or a header: 1 whole, 0 the bytes end inside it, -1 a number of too many bytes. */
static int varint(walk *w, uint64_t *out, unsigned bits)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < bits; shift += 7) {
        if (w->p == w->end) return 0;
        uint8_t b = *w->p++;
        v |= (uint64_t)(b & 0x7F) << shift;
        if (!(b & 0x80)) {
            *out = v;
            return 1;
        }
    }
    return -1;
}

static int varu64(walk *w, uint64_t *out) { return varint(w, out, 70); }

static int varu32(walk *w, uint32_t *out)
{
    uint64_t v = 0;
    int ok = varint(w, &v, 35);
    *out = (uint32_t)v;
    return ok;
}

static const uint8_t *guid_or_null(const uint8_t *p)
{
    static const uint8_t zero[16];
    return memcmp(p, zero, 16) == 0 ? NULL : p;
}

static inline int guid(walk *w, const uint8_t **out)
{
    if (w->end - w->p < 16) return 0;
    *out = guid_or_null(w->p);
    w->p += 16;
    return 1;
}

static int sequence_group(walk *w)
{
    uint32_t delta = 0;
    int ok = varu32(w, &delta);
    if (ok > 0) ok = varu64(w, &w->capture);
    if (ok > 0) ok = varu32(w, &w->processor);
    w->seq += delta + 1;
    w->capture_slot = NULL;
    w->same_context = false;
    return ok;
}

static int compressed_header(walk *w)
{
    if (w->p == w->end) return 0;
    uint8_t flags = *w->p++;
    int ok = 1;
    if (flags & HAS_METADATA) ok = varu32(w, &w->metadata_id);
    if (ok <= 0) return ok;
    if (flags & HAS_SEQUENCE)
        ok = sequence_group(w);
    else if (w->v6 || w->metadata_id != 0)
        w->seq++;
    if (ok > 0 && flags & HAS_THREAD) {
        ok = varu64(w, &w->thread);
        w->thread_slot = NULL;
        w->same_context = false;
    }
    if (ok > 0 && flags & HAS_STACK) ok = varu32(w, &w->stack);
    uint64_t delta = 0;
    if (ok > 0) ok = varu64(w, &delta);
    w->ts += delta;
    if (flags & (HAS_ACTIVITY | HAS_RELATED)) w->same_context = false;
    if (ok > 0 && flags & HAS_ACTIVITY) ok = w->v6 ? varu32(w, &w->labels) : guid(w, &w->activity);
    if (ok > 0 && flags & HAS_RELATED && !w->v6) ok = guid(w, &w->related);
    w->sorted = flags & IS_SORTED;
    if (ok > 0 && flags & HAS_SIZE) ok = varu32(w, &w->payload_size);
    return ok;
}

/* The seven low bits of each byte, put together. */
static inline uint64_t pack7(uint64_t x)
{
    x = (x & 0x007F007F007F007F) | (x & 0x7F007F007F007F00) >> 1;
    x = (x & 0x00003FFF00003FFF) | (x & 0x3FFF00003FFF0000) >> 2;
    return (x & 0x000000000FFFFFFF) | (x & 0x0FFFFFFF00000000) >> 4;
}

/* A varint of at most 8 bytes, of which 8 are there. Moves *p behind it; returns non-zero when it is longer. */
static inline uint64_t near_varint(const uint8_t **p, uint64_t *out)
{
    uint64_t x;
    memcpy(&x, *p, sizeof x);
    if (!(x & 0x80)) {
        *out = x & 0x7F;
        *p += 1;
        return 0;
    }
    if (!(x & 0x8000)) {
        *out = (x & 0x7F) | (x >> 1 & 0x3F80);
        *p += 2;
        return 0;
    }
    uint64_t stops = ~x & 0x8080808080808080;
    if (!stops) return 1;
    *out = pack7(x & (stops ^ (stops - 1)));
    *p += ((unsigned)__builtin_ctzll(stops) >> 3) + 1;
    return 0;
}

/* An uncompressed header; *next is where the following blob starts. -1: sizes that contradict each other. */
static int plain_header(walk *w, const uint8_t **next)
{
    size_t header = w->v6 ? BLOB_HEADER_V6 : BLOB_HEADER_V4;
    if ((size_t)(w->end - w->p) < header) return 0;
    cursor c = cursor_of(slice_of(w->p, header), 0);
    uint64_t size = cursor_u32(&c);
    uint32_t id = cursor_u32(&c);
    w->metadata_id = id & ~NOT_SORTED;
    w->sorted = !(id & NOT_SORTED);
    w->seq = cursor_u32(&c);
    w->thread = cursor_u64(&c);
    w->capture = cursor_u64(&c);
    w->processor = cursor_u32(&c);
    w->stack = cursor_u32(&c);
    w->ts = cursor_u64(&c);
    if (w->v6) {
        w->labels = cursor_u32(&c);
    } else {
        w->activity = guid_or_null(w->p + ACTIVITY_AT);
        w->related = guid_or_null(w->p + ACTIVITY_AT + 16);
        cursor_skip(&c, 32);
    }
    w->payload_size = cursor_u32(&c);
    w->capture_slot = w->thread_slot = NULL;
    w->same_context = false;
    if (size + 4 < header + (uint64_t)w->payload_size) return -1;
    if (size + 4 > (uint64_t)(w->end - w->p)) return 0;
    *next = w->p + size + 4;
    w->p += header;
    return 1;
}

static nt__thread *slot_of(walk *w, nt__thread **cached, nt__thread **last, uint64_t key, int *rc)
{
    if (*cached) return *cached;
    if (*last && (*last)->key == key && !(*last)->removed)
        *cached = *last;
    else
        *cached = *last = nt__thread_get(w->r, key, offset_of(w), rc);
    return *cached;
}

/* What is not in every header, as the events will tell it. */
static int make_context(walk *w)
{
    nt_reader *r = w->r;
    int rc = 0;
    w->context = (nt_context){w->thread, w->activity, w->related, r->trace.pid, w->processor, w->labels};
    w->same_context = true;
    w->context_kept = false;
    if (!w->v6) return 0;
    nt__thread *about = slot_of(w, &w->thread_slot, &r->last_thread, w->thread, &rc);
    if (!about) return rc;
    w->context.thread = about->tid;
    w->context.pid = about->pid;
    if (w->labels) nt__label_ids(r, w->labels, &w->context.activity, &w->context.related);
    return 0;
}

/* Puts the event among those that wait. */
static inline int wait_turn(walk *w, nt__thread *capture, const uint8_t *payload)
{
    nt__block *b = w->block;
    int rc = 0;
    bool crowded = b->n == b->cap_events || b->n_contexts == b->cap_contexts || b->n >= nt__waiting_max(w->r);
    if (crowded && (rc = nt__queue_room(w->r, b)) < 0) return rc;
    if (!w->context_kept || b->n_contexts == 0) {
        b->contexts[b->n_contexts++] = w->context;
        w->context_kept = true;
    }
    b->events[b->n] = (nt_waiting){.ts = (int64_t)w->ts,
                                   .payload = (uint32_t)(payload - b->bytes),
                                   .payload_size = w->payload_size,
                                   .kind = w->kind->index,
                                   .stack = w->stack,
                                   .seq = w->seq,
                                   .context = b->n_contexts - 1};
    return nt__queue(w->r, capture, b);
}

static int give(walk *w, nt__thread *capture, const uint8_t *payload)
{
    const nt_context *c = &w->context;
    nt_event ev = {.kind = w->kind,
                   .payload = slice_of(payload, w->payload_size),
                   .ts = (int64_t)w->ts,
                   .thread = c->thread,
                   .capture_thread = capture->tid,
                   .activity = c->activity,
                   .related = c->related,
                   .processor = c->processor,
                   .stack = w->stack,
                   .labels = c->labels,
                   .seq = w->seq,
                   .pid = c->pid};
    int rc = w->block ? nt__merge(w->r, ev.ts) : 0;
    return rc < 0 ? rc : nt__deliver(w->r, &ev);
}

static nt_kind *kind_of(walk *w)
{
    if (!w->kind_known || w->kind_id != w->metadata_id) {
        w->kind = nt__kind_of(w->r, w->metadata_id);
        w->kind_id = w->metadata_id;
        w->kind_known = true;
    }
    return w->kind;
}

static int take_event(walk *w, const uint8_t *payload)
{
    nt_reader *r = w->r;
    int rc = 0;
    nt__thread *capture = slot_of(w, &w->capture_slot, &r->last_capture, w->capture, &rc);
    if (!capture) return rc;
    if (capture->seen && w->seq == capture->last_seq + 1)
        capture->last_seq = w->seq;
    else if ((rc = nt__sequence(r, capture, w->seq, true)) < 0)
        return rc;
    nt_kind *k = kind_of(w);
    if (!k) {
        r->stats.unknown_kind++;
        return 0;
    }
    if (!w->same_context && (rc = make_context(w)) < 0) return rc;
    k->count++;
    r->stats.events++;
    if (k->muted || !r->sink.event) { /* the time that it tells is good for those that wait */
        if ((int64_t)w->ts > k->muted_ts) k->muted_ts = (int64_t)w->ts;
        return w->block && w->sorted && r->n_heap ? nt__merge(r, (int64_t)w->ts) : 0;
    }
    return w->block && !w->sorted ? wait_turn(w, capture, payload) : give(w, capture, payload);
}

static int end_of_walk(walk *w, int64_t at, int why)
{
    if (w->cut && why == 0) return 0; /* a stream that was cut: what is whole counts */
    const char *what = w->metadata ? "metadata record" : "event";
    if (why < 0)
        return nt__fail(w->r, ERR_MALFORMED, at, "the header of the %s at %lld contradicts itself", what,
                        (long long)at);
    return nt__fail(w->r, ERR_MALFORMED, at, "the %s at %lld passes the end of the block", what, (long long)at);
}

/* The header that nearly all events have, from the same thread and activity as the one before, with bytes to spare
 * behind it. Moves *at to the payload and updates *s; false: nothing is changed. */
typedef struct steady {
    uint64_t id, stack, size, ts;
} steady;

static inline bool steady_header(const uint8_t **at, const uint8_t *end, steady *s)
{
    enum { SELDOM = HAS_SEQUENCE | HAS_THREAD | HAS_ACTIVITY | HAS_RELATED | IS_SORTED, ROOM = 1 + 4 * 8 };
    const uint8_t *p = *at;
    if (end - p < ROOM || *p & SELDOM) return false;
    uint8_t flags = *p++;
    steady n = *s;
    uint64_t delta = 0, wrong = 0;
    if (flags & HAS_METADATA) wrong |= near_varint(&p, &n.id);
    if (flags & HAS_STACK) wrong |= near_varint(&p, &n.stack);
    wrong |= near_varint(&p, &delta);
    if (flags & HAS_SIZE) wrong |= near_varint(&p, &n.size);
    if (wrong | (n.id | n.stack | n.size) >> 32 || n.size > (size_t)(end - p)) return false;
    n.ts += delta;
    *at = p;
    *s = n;
    return true;
}

/* As steady_header for the usual numbers: less than 2^21 ticks since the last event, and a kind, a stack and a payload
 * size below 128. All of it stands in 8 bytes, which are read at once. */
static inline bool short_header(const uint8_t **at, const uint8_t *end, steady *s)
{
    enum { UNUSUAL = HAS_SEQUENCE | HAS_THREAD | HAS_ACTIVITY | HAS_RELATED | IS_SORTED, ROOM = 8 };
    const uint8_t *p = *at;
    if (end - p < ROOM) return false;
    uint64_t x;
    memcpy(&x, p, sizeof x);
    uint64_t flags = x & 0xFF, id = s->id, stack = s->stack, size = s->size, delta;
    if (flags & UNUSUAL) return false;
    x >>= 8;
    p++;
    if (flags & HAS_METADATA) {
        if (x & 0x80) return false;
        id = x & 0x7F;
        x >>= 8;
        p++;
    }
    if (flags & HAS_STACK) {
        if (x & 0x80) return false;
        stack = x & 0x7F;
        x >>= 8;
        p++;
    }
    delta = x & 0x7F;
    if (x & 0x80) {
        delta |= x >> 1 & 0x3F80;
        if (x & 0x8000) {
            if (x & 0x800000) return false;
            delta |= x >> 2 & 0x1FC000;
            x >>= 8;
            p++;
        }
        x >>= 8;
        p++;
    }
    x >>= 8;
    p++;
    if (flags & HAS_SIZE) {
        if (x & 0x80) return false;
        size = x & 0x7F;
        p++;
    }
    if (size > (size_t)(end - p)) return false;
    s->id = id;
    s->stack = stack;
    s->size = size;
    s->ts += delta;
    *at = p;
    return true;
}

/* As short_header for what most headers are where several kinds of event come from one thread: kind, stack and payload
 * size are all told, and the time is less than 2^14 ticks from the last event. Eight bytes are there. */
static inline bool usual_header(const uint8_t **at, const uint8_t *end, steady *s)
{
    enum { USUAL = HAS_METADATA | HAS_STACK | HAS_SIZE };
    const uint8_t *p = *at;
    uint64_t x, longer, size;
    memcpy(&x, p, sizeof x);
    if ((x & 0x8080FF) != USUAL) return false;
    longer = x >> 31 & 1; /* the time has a second byte */
    size = x >> (32 + 8 * longer) & 0xFF;
    p += 5 + longer + size;
    if (size & 0x80 || (x & longer << 39) || p > end) return false;
    s->id = x >> 8 & 0x7F;
    s->stack = x >> 16 & 0x7F;
    s->size = size;
    s->ts += (x >> 24 & 0x7F) | (x >> 25 & 0x3F80 & -longer);
    *at = p - size;
    return true;
}

/* A thread's events come one after another. Once the first of them waits and is booked, those that differ in nothing
 * but kind, time, stack and payload need no more than a look at their header. Takes as many as go; the general way goes
 * on from there. */
static __attribute__((noinline)) void take_steady(walk *w)
{
    nt_reader *r = w->r;
    nt__block *b = w->block;
    nt__thread *t = w->capture_slot;
    if (!b || !t || !w->same_context || !w->context_kept || !t->tail || t->tail->block != b || t->tail->end != b->n)
        return;
    if (!t->seen || t->last_seq != w->seq || w->kind_id != w->metadata_id || !w->kind || w->kind->muted) return;
    steady s = {w->metadata_id, w->stack, w->payload_size, w->ts};
    const uint8_t *p = w->p, *const end = w->end, *const bytes = b->bytes, *const whole = end - 8;
    nt_kind *k = w->kind;
    uint32_t seq = w->seq, context = b->n_contexts - 1;
    uint32_t most = nt__waiting_max(r) < b->cap_events ? nt__waiting_max(r) : b->cap_events;
    nt_waiting *to = b->events + b->n, *const full = b->events + most;
    nt_kind *const *const by_id = r->by_id;
    const uint64_t ids = r->n_by_id ? r->n_by_id - 1 : 0;
    while (to < full) {
        const uint8_t *next = p;
        steady n = s;
        if (!(p <= whole && usual_header(&next, end, &n)) && !short_header(&next, end, &n) &&
            !steady_header(&next, end, &n))
            break;
        if (n.id != s.id) {
            if (n.id - 1 >= ids) break; /* 0 is of metadata */
            nt_kind *other = by_id[n.id];
            if (!other || other->muted) break;
            k = other;
        }
        *to++ = (nt_waiting){.ts = (int64_t)n.ts,
                             .payload = (uint32_t)(next - bytes),
                             .payload_size = (uint32_t)n.size,
                             .kind = k->index,
                             .stack = (uint32_t)n.stack,
                             .seq = ++seq,
                             .context = context};
        k->count++;
        s = n;
        p = next + n.size;
    }
    r->stats.events += (uint32_t)(seq - w->seq);
    w->p = p;
    w->metadata_id = w->kind_id = (uint32_t)s.id;
    w->kind = k;
    w->stack = (uint32_t)s.stack;
    w->payload_size = (uint32_t)s.size;
    w->ts = s.ts;
    w->seq = t->last_seq = seq;
    b->n = t->tail->end = (uint32_t)(to - b->events);
}

static int walk_blobs(walk *w, bool compressed)
{
    while (w->p < w->end) {
        if (compressed && w->kind_known) take_steady(w);
        if (w->p == w->end) break;
        int64_t at = offset_of(w);
        const uint8_t *next = NULL;
        int ok = compressed ? compressed_header(w) : plain_header(w, &next);
        if (ok <= 0) return end_of_walk(w, at, ok);
        if (w->payload_size > (size_t)(w->end - w->p)) return end_of_walk(w, at, 0);
        const uint8_t *payload = w->p;
        int64_t payload_at = offset_of(w);
        w->p = next ? next : payload + w->payload_size;
        int rc = w->metadata ? nt__metadata_v4(w->r, slice_of(payload, w->payload_size), payload_at)
                             : take_event(w, payload);
        if (rc < 0) return rc;
    }
    return 0;
}

/* Bytes that waiting events point into must outlive the block. */
static int keep_bytes(nt_reader *r, walk *w, const uint8_t *p, size_t n, nt__block **owned)
{
    bool may_wait = !w->metadata && !r->opt.stream_order && r->sink.event;
    if (!may_wait) return 0;
    if (*owned) {
        w->block = *owned;
        *owned = NULL; /* p is its bytes */
    } else {
        w->block = nt__block_get(r, n);
        if (!w->block || !w->block->bytes) return nt__no_memory(r);
        memcpy(w->block->bytes, p, n);
        w->start = w->block->bytes;
    }
    w->block->live = 1; /* ours, until the walk is over */
    nt__queue_charge(r, w->block, n);
    int rc = nt__queue_relieve(r);
    return rc < 0 ? rc : nt__queue_room(r, w->block);
}

int nt__event_block(nt_reader *r, const uint8_t *p, size_t n, int64_t at, nt__block **owned, bool partial,
                    bool metadata)
{
    walk w = {.r = r, .start = p, .at = at, .v6 = r->trace.version >= 6, .metadata = metadata, .cut = partial};
    if (n < BLOCK_HEADER)
        return partial ? 0 : nt__fail(r, ERR_MALFORMED, at, "%zu bytes cannot hold the block's header", n);
    int rc = keep_bytes(r, &w, p, n, owned);
    if (rc < 0) {
        if (w.block) nt__block_release(r, w.block);
        return rc;
    }
    w.end = w.start + n;
    cursor c = cursor_of(slice_of(w.start, n), at);
    uint16_t header = cursor_u16(&c), flags = cursor_u16(&c);
    if (header < BLOCK_HEADER || header > n) {
        if (!partial || header < BLOCK_HEADER)
            rc = nt__fail(r, ERR_MALFORMED, at, "a block header of %u bytes", header);
    } else {
        w.p = w.start + header;
        rc = walk_blobs(&w, flags & 1);
    }
    if (w.block) {
        nt__queue_charge(r, w.block, w.block->n * sizeof(nt_waiting) + w.block->n_contexts * sizeof(nt_context));
        nt__block_release(r, w.block);
    }
    return rc;
}
