/* SPDX-License-Identifier: MIT */
/* writer.c: .nettrace streams in memory, written from the format's description and not with the reader's code. */
#include "nettrace/writer.h"

static const struct {
    const char *v4;
    uint8_t v6;
} blocks[] = {[TW_EVENTS] = {"EventBlock", 2}, [TW_METADATA] = {"MetadataBlock", 3}, [TW_STACKS] = {"StackBlock", 5},
              [TW_POINT] = {"SPBlock", 4},     [TW_THREADS] = {"Unknown", 6},        [TW_REMOVED] = {"Unknown", 7},
              [TW_LABELS] = {"Unknown", 8}};

void tw_varint(buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_u8(b, (uint8_t)(v | 0x80));
    buf_u8(b, (uint8_t)v);
}

void tw_utf16z(buf *b, const char *ascii)
{
    do
        buf_u16(b, (uint8_t)*ascii);
    while (*ascii++);
}

void tw_text6(buf *b, const char *text)
{
    tw_varint(b, strlen(text));
    buf_str(b, text);
}

static void begin_object(buf *b, const char *name, uint32_t version)
{
    buf_put(b, "\5\5\1", 3);
    buf_u32(b, version);
    buf_u32(b, version);
    buf_u32(b, (uint32_t)strlen(name));
    buf_str(b, name);
    buf_u8(b, 6);
}

static void put_clock(buf *b)
{
    static const uint16_t time[8] = {2026, 1, 6, 31, 10, 20, 30, 123}; /* 2026-01-31 10:20:30.123, a Saturday */
    for (int i = 0; i < 8; i++)
        buf_u16(b, time[i]);
    buf_u64(b, 1000);
    buf_u64(b, 100000000);
}

void tw_start(tw *w, bool v6, bool compressed)
{
    *w = (tw){.v6 = v6, .compressed = compressed};
    buf_init(&w->out, 0);
    buf_init(&w->body, 0);
    buf *b = &w->out;
    buf_str(b, "Nettrace");
    if (!v6) {
        buf_u32(b, 20);
        buf_str(b, "!FastSerialization.1");
        begin_object(b, "Trace", 4);
        put_clock(b);
        buf_u32(b, 8);
        buf_u32(b, 77);
        buf_u32(b, 4);
        buf_u32(b, 1000000);
        buf_u8(b, 6);
        return;
    }
    buf_u32(b, 0);
    buf_u32(b, 6);
    buf_u32(b, 25); /* a minor version of the future */
    put_clock(&w->body);
    buf_u32(&w->body, 8);
    buf_u32(&w->body, 3);
    tw_text6(&w->body, "ProcessId");
    tw_text6(&w->body, "77");
    tw_text6(&w->body, "HardwareThreadCount");
    tw_text6(&w->body, "4");
    tw_text6(&w->body, "SomethingNew");
    tw_text6(&w->body, "x");
    buf_u32(b, (uint32_t)w->body.n | 1u << 24);
    buf_slice(b, buf_view(&w->body));
}

void tw_fini(tw *w)
{
    buf_fini(&w->out);
    buf_fini(&w->body);
}

slice tw_bytes(const tw *w) { return buf_view(&w->out); }

void tw_begin(tw *w, tw_block b)
{
    buf_reset(&w->body);
    w->block = b;
    w->last = (tw_event){0};
    if (b == TW_EVENTS || (b == TW_METADATA && !w->v6)) {
        buf_u16(&w->body, 24); /* four bytes more than today, to be stepped over */
        buf_u16(&w->body, w->compressed);
        buf_u64(&w->body, 0);
        buf_u64(&w->body, INT64_MAX);
        buf_u32(&w->body, 0xAAAAAAAA);
    } else if (b == TW_METADATA) {
        buf_u16(&w->body, 2);
        buf_u16(&w->body, 0xAAAA);
    }
}

void tw_end(tw *w)
{
    buf *b = &w->out;
    if (w->v6) {
        buf_u32(b, (uint32_t)w->body.n | (uint32_t)blocks[w->block].v6 << 24);
        buf_slice(b, buf_view(&w->body));
        return;
    }
    begin_object(b, blocks[w->block].v4, 2);
    buf_u32(b, (uint32_t)w->body.n);
    while (b->n % 4)
        buf_u8(b, 0);
    buf_slice(b, buf_view(&w->body));
    buf_u8(b, 6);
}

void tw_finish(tw *w)
{
    if (w->v6)
        buf_u32(&w->out, 0);
    else
        buf_u8(&w->out, 1);
}

static const char *or_zero(const char *guid) { return guid ? guid : "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"; }

static void put_plain(tw *w, const tw_event *e)
{
    buf *b = &w->body;
    uint32_t header = w->v6 ? 48 : 76;
    size_t padding = -e->payload.n & 3;
    buf_u32(b, header + (uint32_t)(e->payload.n + padding));
    buf_u32(b, e->kind | (e->sorted ? 0 : 0x80000000u));
    buf_u32(b, e->seq);
    buf_u64(b, e->thread);
    buf_u64(b, e->capture);
    buf_u32(b, e->processor);
    buf_u32(b, e->stack);
    buf_u64(b, (uint64_t)e->ts);
    if (w->v6) {
        buf_u32(b, e->labels);
    } else {
        buf_put(b, or_zero(e->activity), 16);
        buf_put(b, or_zero(e->related), 16);
    }
    buf_u32(b, (uint32_t)e->payload.n);
    buf_slice(b, e->payload);
    buf_put(b, "\0\0\0", padding);
}

static void put_compressed(tw *w, const tw_event *e)
{
    buf *b = &w->body;
    const tw_event *l = &w->last;
    bool counts = w->v6 || e->kind != 0;
    bool same_seq = e->seq == l->seq + (counts ? 1 : 0) && e->capture == l->capture && e->processor == l->processor;
    bool activity = w->v6 ? e->labels != l->labels : memcmp(or_zero(e->activity), or_zero(l->activity), 16) != 0;
    bool related = !w->v6 && memcmp(or_zero(e->related), or_zero(l->related), 16) != 0;
    buf_u8(b, (uint8_t)((e->kind != l->kind) | !same_seq << 1 | (e->thread != l->thread) << 2 |
                        (e->stack != l->stack) << 3 | activity << 4 | related << 5 | e->sorted << 6 |
                        (e->payload.n != l->payload.n) << 7));
    if (e->kind != l->kind) tw_varint(b, e->kind);
    if (!same_seq) {
        tw_varint(b, (uint32_t)(e->seq - l->seq - 1));
        tw_varint(b, e->capture);
        tw_varint(b, e->processor);
    }
    if (e->thread != l->thread) tw_varint(b, e->thread);
    if (e->stack != l->stack) tw_varint(b, e->stack);
    tw_varint(b, (uint64_t)(e->ts - l->ts));
    if (activity && w->v6) tw_varint(b, e->labels);
    if (activity && !w->v6) buf_put(b, or_zero(e->activity), 16);
    if (related) buf_put(b, or_zero(e->related), 16);
    if (e->payload.n != l->payload.n) tw_varint(b, e->payload.n);
    buf_slice(b, e->payload);
    w->last = *e;
}

void tw_put_event(tw *w, const tw_event *e)
{
    if (w->compressed)
        put_compressed(w, e);
    else
        put_plain(w, e);
}

void tw_put_kind(tw *w, uint32_t id, const char *provider, uint32_t event_id, const char *name, uint32_t version,
                 slice fields, slice tags)
{
    buf b;
    buf_init(&b, 0);
    if (w->v6) {
        tw_varint(&b, id);
        tw_text6(&b, provider);
        tw_varint(&b, event_id);
        tw_text6(&b, name);
        if (fields.n)
            buf_slice(&b, fields);
        else
            buf_u16(&b, 0);
        buf_u16(&b, (uint16_t)(tags.n + 2));
        buf_u8(&b, 9);
        buf_u8(&b, (uint8_t)version);
        buf_slice(&b, tags);
        buf_u16(&w->body, (uint16_t)b.n);
        buf_slice(&w->body, buf_view(&b));
    } else {
        buf_u32(&b, id);
        tw_utf16z(&b, provider);
        buf_u32(&b, event_id);
        tw_utf16z(&b, name);
        buf_u64(&b, 0xF00000000001);
        buf_u32(&b, version);
        buf_u32(&b, 4);
        buf_slice(&b, fields);
        buf_slice(&b, tags);
        /* the runtime writes a sequence group before the first one of a block: 0xFFFFFFFF, which wraps to 0 */
        tw_put_event(
            w, &(tw_event){.seq = 0, .processor = UINT32_MAX, .ts = 1000, .sorted = true, .payload = buf_view(&b)});
    }
    buf_fini(&b);
}

void tw_put_stacks(tw *w, uint32_t first, uint32_t n, const uint64_t *leaves)
{
    buf_u32(&w->body, first);
    buf_u32(&w->body, n);
    for (uint32_t i = 0; i < n; i++) {
        buf_u32(&w->body, 8);
        buf_u64(&w->body, leaves[i]);
    }
}

void tw_put_point(tw *w, int64_t ts, uint32_t flags, uint32_t n, const uint64_t *threads, const uint32_t *seqs)
{
    buf_u64(&w->body, (uint64_t)ts);
    if (w->v6) buf_u32(&w->body, flags);
    buf_u32(&w->body, n);
    for (uint32_t i = 0; i < n; i++) {
        if (w->v6) {
            tw_varint(&w->body, threads[i]);
            tw_varint(&w->body, seqs[i]);
        } else {
            buf_u64(&w->body, threads[i]);
            buf_u32(&w->body, seqs[i]);
        }
    }
}

void tw_put_thread(tw *w, uint64_t index, uint64_t tid, uint64_t pid, const char *name)
{
    buf b;
    buf_init(&b, 0);
    tw_varint(&b, index);
    buf_u8(&b, 1);
    tw_text6(&b, name);
    buf_u8(&b, 4);
    tw_text6(&b, "key");
    tw_text6(&b, "value");
    buf_u8(&b, 2);
    tw_varint(&b, pid);
    buf_u8(&b, 3);
    tw_varint(&b, tid);
    buf_put(&b, "\x63more", 5); /* an unknown sort: the rest of the row is not for us */
    buf_u16(&w->body, (uint16_t)b.n);
    buf_slice(&w->body, buf_view(&b));
    buf_fini(&b);
}

void tw_fields(const tw *w, buf *out, const tw_field *f, uint32_t n)
{
    if (!w->v6) {
        buf_u32(out, n);
        for (uint32_t i = 0; i < n; i++) {
            buf_u32(out, f[i].type);
            tw_utf16z(out, f[i].name);
        }
        return;
    }
    buf_u16(out, (uint16_t)n);
    for (uint32_t i = 0; i < n; i++) {
        buf b;
        buf_init(&b, 0);
        tw_text6(&b, f[i].name);
        buf_u8(&b, (uint8_t)f[i].type);
        if (f[i].elem) buf_u8(&b, (uint8_t)f[i].elem);
        buf_put(&b, "\xAA\xAA", 2); /* what a later version may add */
        buf_u16(out, (uint16_t)b.n);
        buf_slice(out, buf_view(&b));
        buf_fini(&b);
    }
}

static void sample_kinds(tw *w)
{
    buf fields;
    buf_init(&fields, 0);
    tw_fields(w, &fields, (tw_field[]){{"Number", 10, 0}, {"Text", 18, 0}}, 2);
    tw_begin(w, TW_METADATA);
    tw_put_kind(w, 1, "Shop", 7, "OrderStart", 3, buf_view(&fields), (slice){0});
    tw_put_kind(w, 2, "Shop", 8, "Checked", 0, (slice){0}, (slice){0});
    tw_end(w);
    buf_fini(&fields);
}

static void sample_labels(tw *w)
{
    if (!w->v6) return;
    tw_begin(w, TW_LABELS);
    buf_u32(&w->body, 1);
    buf_u32(&w->body, 1);
    buf_put(&w->body,
            "\x81"
            "ABCDEFGHIJKLMNOP",
            17);
    tw_end(w);
}

/* Thread 11 writes times 2000, 2010, …; thread 12 2005, 2015, …, and so on: they have to be merged. */
static void sample_events(tw *w, int64_t from, uint32_t seq, uint32_t stack)
{
    uint8_t payload[14] = {0, 0, 0, 0, 'a', 0, 'b', 0, 'c', 0, 0, 0};
    tw_begin(w, TW_EVENTS);
    for (uint64_t thread = 11; thread <= 12; thread++)
        for (uint32_t i = 0; i < 3; i++) {
            payload[0] = (uint8_t)(10 * thread + i);
            tw_put_event(w, &(tw_event){.kind = i == 1 ? 2 : 1,
                                        .seq = seq + i,
                                        .stack = stack + i,
                                        .processor = (uint32_t)(thread - 11),
                                        .thread = i == 2 ? 13 : thread,
                                        .capture = thread,
                                        .ts = from + 10 * i + 5 * (int64_t)(thread - 11),
                                        .sorted = i == 0,
                                        .activity = i == 2 && !w->v6 ? "ABCDEFGHIJKLMNOP" : NULL,
                                        .labels = i == 2 && w->v6,
                                        .payload = slice_of(payload, i == 1 ? 0 : 12)});
        }
    tw_end(w);
}

void tw_sample(tw *w, bool v6, bool compressed)
{
    static const uint64_t threads[] = {11, 12, 13};
    tw_start(w, v6, compressed);
    if (v6) {
        tw_begin(w, TW_THREADS);
        for (int i = 0; i < 3; i++)
            tw_put_thread(w, threads[i], threads[i], 77, i ? "" : "main");
        tw_end(w);
    }
    sample_kinds(w);
    sample_labels(w);
    tw_begin(w, TW_STACKS);
    tw_put_stacks(w, 1, 3, (uint64_t[]){0x1111, 0x2222, 0x3333});
    tw_end(w);
    sample_events(w, 2000, 1, 1);
    tw_begin(w, TW_POINT);
    tw_put_point(w, 2100, 0, 2, threads, (uint32_t[]){3, 3});
    tw_end(w);
    sample_labels(w);
    tw_begin(w, TW_STACKS);
    tw_put_stacks(w, 1, 3, (uint64_t[]){0x4444, 0x5555, 0x6666});
    tw_end(w);
    sample_events(w, 2200, 4, 1);
    tw_begin(w, TW_EVENTS);
    tw_put_event(w, &(tw_event){.kind = 2, .seq = 1, .thread = 13, .capture = 13, .ts = 2195, .sorted = false});
    tw_put_event(w, &(tw_event){.kind = 2, .seq = 7, .thread = 11, .capture = 11, .ts = 2300, .sorted = true});
    tw_end(w);
    tw_begin(w, TW_POINT);
    tw_put_point(w, 2400, 0, 3, threads, (uint32_t[]){7, 6, 1});
    tw_end(w);
    tw_finish(w);
}

/* ---- the listener ---- */

void heard_init(heard *h)
{
    *h = (heard){0};
    buf_init(&h->text, 0);
}

void heard_fini(heard *h) { buf_fini(&h->text); }

static int on_trace(void *arg, const nt_trace *t)
{
    ((heard *)arg)->trace = *t;
    return 0;
}

static void put_value(buf *b, const nt_value *v)
{
    char text[256];
    buf_printf(b, " %.*s=", (int)v->field->path.n, (const char *)v->field->path.p);
    if (v->type == NT_STR16)
        buf_put(b, text, nt_utf8(v->raw, text, sizeof text));
    else if (v->type == NT_INT || v->type == NT_UINT || v->type == NT_BOOL)
        buf_printf(b, "%lld", (long long)v->i);
    else
        buf_printf(b, "%zu bytes", v->raw.n);
}

static int on_event(void *arg, const nt_event *ev)
{
    heard *h = arg;
    buf *b = &h->text;
    nt_value values[64];
    if (h->stop_at && h->events + 1 == h->stop_at) return 1;
    h->events++;
    buf_printf(b, "%s/%s v%u %lld t%llu c%llu s%u p%d", (const char *)ev->kind->provider.p,
               (const char *)ev->kind->display.p, ev->kind->version, (long long)nt_ns(&h->trace, ev->ts),
               (unsigned long long)ev->thread, (unsigned long long)ev->capture_thread, ev->seq, (int)ev->processor);
    slice stack = nt_stack(h->r, ev);
    uint64_t leaf = 0;
    if (stack.n == 8) memcpy(&leaf, stack.p, 8);
    buf_printf(b, " @%llx", (unsigned long long)leaf);
    if (ev->activity) buf_printf(b, " %.16s", (const char *)ev->activity);
    uint32_t n = ev->kind->schema ? nt_decode(ev->kind->schema, ev->payload, values) : 0;
    for (uint32_t i = 0; i < n; i++)
        put_value(b, &values[i]);
    buf_u8(b, '\n');
    return 0;
}

static int on_lost(void *arg, uint64_t thread, uint64_t n)
{
    heard *h = arg;
    h->lost += n;
    buf_printf(&h->text, "lost %llu on %llu\n", (unsigned long long)n, (unsigned long long)thread);
    return 0;
}

static int on_point(void *arg, int64_t ts)
{
    (void)ts;
    ((heard *)arg)->points++;
    return 0;
}

const nt_sink heard_sink = {.trace = on_trace, .event = on_event, .lost = on_lost, .sequence_point = on_point};

int hear(heard *h, const nt_options *o, slice bytes, size_t chunk, nt_stats *stats, err *e)
{
    int rc = 0;
    h->r = nt_new(o, &heard_sink, h, e);
    if (!h->r) return -(int)e->kind;
    for (size_t at = 0; at < bytes.n && rc >= 0;) {
        size_t n = chunk && chunk < bytes.n - at ? chunk : bytes.n - at;
        /* a copy of its own, so that a look past the piece is seen */
        uint8_t *piece = malloc(n);
        memcpy(piece, bytes.p + at, n);
        rc = nt_feed(h->r, piece, n, e);
        free(piece);
        at += n;
    }
    if (rc >= 0) rc = nt_finish(h->r, e);
    if (stats) *stats = *nt_stats_of(h->r);
    nt_free(h->r);
    h->r = NULL;
    if (buf_u8(&h->text, 0)) h->text.n--; /* so that it is a C string, too */
    return rc;
}
