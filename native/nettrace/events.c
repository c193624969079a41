/* SPDX-License-Identifier: MIT */
/* events.c: the content of event blocks (and of V4 metadata blocks, which have the same form): headers, compressed or
 * not. */
#include "nettrace/nt_internal.h"

#define BLOCK_HEADER   20
#define BLOB_HEADER_V4 80
#define BLOB_HEADER_V6 52
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
    nt__block *block; /* holds the bytes while events wait; NULL: nothing may wait */
    nt__thread *capture_slot, *thread_slot;
} walk;

static int64_t offset_of(const walk *w) { return w->at + (w->p - w->start); }

/* Outcome of a header: 1 whole, 0 the bytes end inside it, -1 a number of too many bytes. */
static inline int varu64(walk *w, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
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

static inline int varu32(walk *w, uint32_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (w->p == w->end) return 0;
        uint8_t b = *w->p++;
        v |= (uint64_t)(b & 0x7F) << shift;
        if (!(b & 0x80)) {
            *out = (uint32_t)v;
            return 1;
        }
    }
    return -1;
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
    }
    if (ok > 0 && flags & HAS_STACK) ok = varu32(w, &w->stack);
    uint64_t delta = 0;
    if (ok > 0) ok = varu64(w, &delta);
    w->ts += delta;
    if (ok > 0 && flags & HAS_ACTIVITY) ok = w->v6 ? varu32(w, &w->labels) : guid(w, &w->activity);
    if (ok > 0 && flags & HAS_RELATED && !w->v6) ok = guid(w, &w->related);
    w->sorted = flags & IS_SORTED;
    if (ok > 0 && flags & HAS_SIZE) ok = varu32(w, &w->payload_size);
    return ok;
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
        w->activity = guid_or_null(cursor_bytes(&c, 16).p);
        w->related = guid_or_null(cursor_bytes(&c, 16).p);
    }
    w->payload_size = cursor_u32(&c);
    w->capture_slot = w->thread_slot = NULL;
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

static int place_event(walk *w, nt__thread *capture, const nt_event *ev)
{
    nt_reader *r = w->r;
    if (r->opt.stream_order) return nt__deliver(r, ev);
    if (!w->sorted) return nt__queue(r, capture, w->block, ev);
    int rc = nt__merge(r, ev->ts);
    return rc < 0 ? rc : nt__deliver(r, ev);
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
    if (!w->kind_known || w->kind_id != w->metadata_id) {
        w->kind = nt__kind_of(r, w->metadata_id);
        w->kind_id = w->metadata_id;
        w->kind_known = true;
    }
    if (!w->kind) {
        r->stats.unknown_kind++;
        return 0;
    }
    w->kind->count++;
    r->stats.events++;
    uint64_t thread = w->thread;
    int64_t pid = r->trace.pid;
    if (w->v6) {
        nt__thread *about = slot_of(w, &w->thread_slot, &r->last_thread, w->thread, &rc);
        if (!about) return rc;
        thread = about->tid;
        pid = about->pid;
    }
    if (w->kind->muted || !r->sink.event) return 0;
    nt_event ev = {.kind = w->kind,
                   .payload = slice_of(payload, w->payload_size),
                   .ts = (int64_t)w->ts,
                   .thread = thread,
                   .capture_thread = capture->tid,
                   .activity = w->activity,
                   .related = w->related,
                   .processor = w->processor,
                   .stack = w->stack,
                   .labels = w->labels,
                   .seq = w->seq,
                   .pid = pid};
    if (w->labels) nt__label_ids(r, w->labels, &ev.activity, &ev.related);
    return place_event(w, capture, &ev);
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

static int walk_blobs(walk *w, bool compressed)
{
    while (w->p < w->end) {
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
        *owned = NULL;
    } else {
        w->block = nt__block_get(r, n);
        if (!w->block) return nt__no_memory(r);
        memcpy(w->block->bytes, p, n);
    }
    w->block->live = 1; /* ours, until the walk is over */
    return 0;
}

int nt__event_block(nt_reader *r, const uint8_t *p, size_t n, int64_t at, nt__block **owned, bool partial,
                    bool metadata)
{
    walk w = {.r = r, .at = at, .v6 = r->trace.version >= 6, .metadata = metadata, .cut = partial};
    if (n < BLOCK_HEADER)
        return partial ? 0 : nt__fail(r, ERR_MALFORMED, at, "%zu bytes cannot hold the block's header", n);
    int rc = keep_bytes(r, &w, p, n, owned);
    if (rc < 0) return rc;
    w.start = w.block ? w.block->bytes : p;
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
    if (w.block) nt__block_release(r, w.block);
    return rc;
}
