/* SPDX-License-Identifier: MIT */
/* frame.c: the frames of the stream: FastSerialization objects (V4, V5) and typed blocks (V6). */
#include "nettrace/nt_internal.h"

enum { TAG_NULL = 1, TAG_BEGIN = 5, TAG_END = 6 };
#define V6_MAJOR         6
#define V4_VERSION       4
#define V4_BLOCK_VERSION 2
#define NAME_MAX_BYTES   64
#define TRACE_V4_BYTES   48

static int64_t days_from_civil(int64_t y, int64_t m, int64_t d) /* days since 1970-01-01, proleptic Gregorian */
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400, doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

/* The head that V4 and V6 share: eight i16 of wall clock, ticks at that moment, frequency. */
static void read_clock(cursor *c, nt_trace *t)
{
    int64_t year = cursor_i16(c), month = cursor_i16(c);
    cursor_skip(c, 2); /* day of the week */
    int64_t day = cursor_i16(c), hour = cursor_i16(c), minute = cursor_i16(c), second = cursor_i16(c),
            ms = cursor_i16(c);
    int64_t seconds = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    t->sync_unix_ns = 0;
    bool valid = year >= 1900 && year <= 2200 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
    if (valid) t->sync_unix_ns = (seconds * 1000 + ms) * 1000000;
    t->sync_ticks = cursor_i64(c);
    t->frequency = cursor_i64(c);
}

static int accept_trace(nt_reader *r, const cursor *c, int64_t at)
{
    nt_trace *t = &r->trace;
    if (!cursor_ok(c)) return nt__fail(r, ERR_MALFORMED, cursor_offset(c), "the Trace object ends too early");
    if (t->frequency <= 0)
        return nt__fail(r, ERR_MALFORMED, at, "the Trace object tells a clock of %lld ticks a second",
                        (long long)t->frequency);
    if (t->pointer_size != 4 && t->pointer_size != 8)
        return nt__fail(r, ERR_MALFORMED, at, "the Trace object tells pointers of %u bytes", t->pointer_size);
    r->has_trace = true;
    if (r->sink.trace && r->sink.trace(r->arg, t) != 0) return nt__cancelled(r);
    return 0;
}

static int trace_v4(nt_reader *r, const uint8_t *p)
{
    cursor c = cursor_of(slice_of(p, TRACE_V4_BYTES), r->offset);
    nt_trace *t = &r->trace;
    t->version = V4_VERSION;
    read_clock(&c, t);
    t->pointer_size = cursor_u32(&c);
    t->pid = cursor_i32(&c);
    t->processors = cursor_i32(&c);
    t->sampling_ns = cursor_i32(&c);
    return accept_trace(r, &c, r->offset);
}

static slice text_v6(cursor *c) { return cursor_bytes(c, cursor_varu32(c)); }

static void trace_key(nt_trace *t, slice key, slice value)
{
    int64_t v = 0;
    if (value.n == 0 || value.n > 18) return;
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9') return;
        v = v * 10 + (value.p[i] - '0');
    }
    if (slice_eq_str(key, "ProcessId"))
        t->pid = v;
    else if (slice_eq_str(key, "HardwareThreadCount"))
        t->processors = v > INT32_MAX ? -1 : (int32_t)v;
    else if (slice_eq_str(key, "ExpectedCPUSamplingRate"))
        t->sampling_ns = v;
}

static int trace_v6(nt_reader *r, const uint8_t *p, size_t n, int64_t at)
{
    if (r->has_trace) return nt__fail(r, ERR_MALFORMED, at, "a second Trace block");
    cursor c = cursor_of(slice_of(p, n), at);
    nt_trace *t = &r->trace;
    *t = (nt_trace){.version = V6_MAJOR, .pid = -1, .processors = -1, .sampling_ns = -1};
    read_clock(&c, t);
    t->pointer_size = cursor_u32(&c);
    uint32_t pairs = cursor_u32(&c);
    for (uint32_t i = 0; i < pairs && cursor_ok(&c); i++) {
        slice key = text_v6(&c), value = text_v6(&c);
        if (cursor_ok(&c)) trace_key(t, key, value);
    }
    return accept_trace(r, &c, at);
}

static int go(nt_reader *r, nt__state s, size_t want)
{
    r->state = s;
    r->want = want;
    return 0;
}

static int step_magic(nt_reader *r, const uint8_t *p)
{
    static const uint8_t netperf[8] = {20, 0, 0, 0, '!', 'F', 'a', 's'};
    if (memcmp(p, "Nettrace", 8) == 0) return go(r, NT_S_VERSION, 4);
    if (memcmp(p, netperf, 8) == 0)
        return nt__fail(r, ERR_NOT_SUPPORTED, 0,
                        "this is a .netperf file of .NET Core 2; .nettrace (3.0 and later) is what can be read");
    return nt__fail(r, ERR_MALFORMED, 0, "this is not a .nettrace stream: it does not begin with \"Nettrace\"");
}

static int step_object(nt_reader *r, const uint8_t *p)
{
    cursor c = cursor_of(slice_of(p, 14), r->offset);
    uint8_t begin = cursor_u8(&c), null = cursor_u8(&c); /* the first of the three tags was read */
    if (begin != TAG_BEGIN || null != TAG_NULL)
        return nt__fail(r, ERR_MALFORMED, r->offset, "an object does not begin with the tags 5 5 1");
    uint32_t version = cursor_u32(&c), least = cursor_u32(&c), len = cursor_u32(&c);
    if (len == 0 || len > NAME_MAX_BYTES)
        return nt__fail(r, ERR_MALFORMED, r->offset + 10, "an object's name of %u bytes", len);
    r->name_len = (uint8_t)len;
    if (version > V4_VERSION || least > V4_VERSION)
        return nt__fail(r, ERR_NOT_SUPPORTED, r->offset + 2,
                        "an object of version %u, readable from %u on: newer than V5", version, least);
    r->skip = (uint64_t)version << 32 | least; /* until the name is known */
    return go(r, NT_S_NAME, len + 1);
}

static nt__sort sort_by_name(slice name)
{
    for (nt__sort s = NT_B_EVENT; s <= NT_B_TRACE; s++)
        if (slice_eq_str(name, nt__sort_name(s))) return s;
    return NT_B_UNKNOWN;
}

static int step_name(nt_reader *r, const uint8_t *p)
{
    uint32_t version = (uint32_t)(r->skip >> 32), least = (uint32_t)r->skip;
    r->sort = sort_by_name(slice_of(p, r->name_len));
    uint32_t known = r->sort == NT_B_TRACE ? V4_VERSION : V4_BLOCK_VERSION;
    if (p[r->name_len] != TAG_END)
        return nt__fail(r, ERR_MALFORMED, r->offset + r->name_len, "an object's type does not end with tag 6");
    if (version > known || least > known)
        return nt__fail(r, ERR_NOT_SUPPORTED, r->offset, "a %s of version %u: newer than V5", nt__sort_name(r->sort),
                        version);
    if (r->sort == NT_B_TRACE && r->has_trace) return nt__fail(r, ERR_MALFORMED, r->offset, "a second Trace object");
    if (r->sort == NT_B_TRACE) return go(r, NT_S_TRACE, TRACE_V4_BYTES);
    if (!r->has_trace) return nt__fail(r, ERR_MALFORMED, r->offset, "a block before the Trace object");
    return go(r, NT_S_SIZE, 4);
}

static int step_size(nt_reader *r, const uint8_t *p)
{
    cursor c = cursor_of(slice_of(p, 4), r->offset);
    uint32_t size = cursor_u32(&c);
    r->block_offset = r->offset + 4;
    if (size > r->lim.block_bytes)
        return nt__fail(r, ERR_LIMIT, r->offset, "the block claims %u bytes, over the limit of %u", size,
                        r->lim.block_bytes);
    size_t padding = (size_t)(-(r->offset + 4) & 3);
    r->skip = size;
    r->block_offset += (int64_t)padding;
    if (padding) return go(r, NT_S_PADDING, padding);
    return go(r, NT_S_BLOCK, size);
}

/* Content of size 0 must not wait for a byte; unknown sorts are stepped over. */
static int begin_content(nt_reader *r, nt__state content, nt__state after, size_t size)
{
    if (r->sort == NT_B_UNKNOWN) {
        r->stats.skipped_blocks++;
        r->skip = size;
        r->after_skip = after;
        if (size) return go(r, NT_S_SKIP, 1);
        return go(r, after, after == NT_S_END_OBJECT ? 1 : 4);
    }
    go(r, content, size);
    if (size) return 0;
    nt__block *none = NULL;
    int rc = nt__block_content(r, r->sort, (const uint8_t *)"", 0, r->block_offset, &none, false);
    if (rc < 0) return rc;
    r->stats.blocks++;
    return go(r, after, after == NT_S_END_OBJECT ? 1 : 4);
}

static int step_tag(nt_reader *r, uint8_t tag)
{
    if (tag == TAG_NULL) return go(r, NT_S_DONE, 0);
    if (tag == TAG_BEGIN) return go(r, NT_S_OBJECT, 14);
    return nt__fail(r, ERR_MALFORMED, r->offset, "tag %u where an object or the end is due", tag);
}

static nt__sort sort_v6(unsigned kind)
{
    static const nt__sort sorts[] = {NT_B_END,   NT_B_TRACE,  NT_B_EVENT,         NT_B_METADATA, NT_B_SP,
                                     NT_B_STACK, NT_B_THREAD, NT_B_REMOVE_THREAD, NT_B_LABELS};
    return kind < sizeof sorts / sizeof *sorts ? sorts[kind] : NT_B_UNKNOWN;
}

static int step_v6_word(nt_reader *r, const uint8_t *p)
{
    uint32_t size = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    r->sort = sort_v6(p[3]);
    r->block_offset = r->offset + 4;
    if (size > r->lim.block_bytes)
        return nt__fail(r, ERR_LIMIT, r->offset, "a block claims %u bytes, over the limit of %u", size,
                        r->lim.block_bytes);
    if (!r->has_trace && r->sort != NT_B_TRACE)
        return nt__fail(r, ERR_MALFORMED, r->offset, "the first block is not Trace");
    if (r->sort == NT_B_END) return go(r, NT_S_DONE, 0);
    return begin_content(r, NT_S_V6_BLOCK, NT_S_V6_WORD, size);
}

static int step_v6_head(nt_reader *r, const uint8_t *p)
{
    cursor c = cursor_of(slice_of(p, 8), r->offset);
    uint32_t major = cursor_u32(&c);
    if (major != V6_MAJOR)
        return nt__fail(r, ERR_NOT_SUPPORTED, r->offset, "a .nettrace stream of version %u: up to 6 can be read",
                        major);
    return go(r, NT_S_V6_WORD, 4);
}

static int step_version(nt_reader *r, const uint8_t *p)
{
    cursor c = cursor_of(slice_of(p, 4), r->offset);
    uint32_t v = cursor_u32(&c);
    if (v == 0) return go(r, NT_S_V6_HEAD, 8);
    if (v == 20) return go(r, NT_S_FORMAT, 20);
    return nt__fail(r, ERR_MALFORMED, r->offset, "neither a V4/V5 nor a V6 head after \"Nettrace\"");
}

static int step_format(nt_reader *r, const uint8_t *p)
{
    if (memcmp(p, "!FastSerialization.1", 20) != 0)
        return nt__fail(r, ERR_MALFORMED, r->offset, "not \"!FastSerialization.1\"");
    return go(r, NT_S_TAG, 1);
}

int nt__frame_step(nt_reader *r, const uint8_t *p)
{
    switch (r->state) {
    case NT_S_MAGIC: return step_magic(r, p);
    case NT_S_VERSION: return step_version(r, p);
    case NT_S_FORMAT: return step_format(r, p);
    case NT_S_TAG: return step_tag(r, *p);
    case NT_S_OBJECT: return step_object(r, p);
    case NT_S_NAME: return step_name(r, p);
    case NT_S_TRACE: {
        int rc = trace_v4(r, p);
        return rc < 0 ? rc : go(r, NT_S_END_OBJECT, 1);
    }
    case NT_S_SIZE: {
        int rc = step_size(r, p);
        return rc < 0 || r->state == NT_S_PADDING ? rc : begin_content(r, NT_S_BLOCK, NT_S_END_OBJECT, (size_t)r->skip);
    }
    case NT_S_PADDING: return begin_content(r, NT_S_BLOCK, NT_S_END_OBJECT, (size_t)r->skip);
    case NT_S_END_OBJECT:
        if (*p != TAG_END) return nt__fail(r, ERR_MALFORMED, r->offset, "tag %u where the object must end", *p);
        return go(r, NT_S_TAG, 1);
    case NT_S_V6_HEAD: return step_v6_head(r, p);
    case NT_S_V6_WORD: return step_v6_word(r, p);
    case NT_S_BLOCK:
    case NT_S_V6_BLOCK:
    case NT_S_SKIP:
    case NT_S_DONE: break;
    }
    return nt__fail(r, ERR_INTERNAL, r->offset, "a frame state that takes no frame");
}

int nt__block_content(nt_reader *r, nt__sort sort, const uint8_t *p, size_t n, int64_t at, nt__block **owned,
                      bool partial)
{
    bool v6 = r->trace.version >= V6_MAJOR;
    switch (sort) {
    case NT_B_EVENT: return nt__event_block(r, p, n, at, owned, partial, false);
    case NT_B_METADATA: return v6 ? nt__metadata_v6(r, p, n, at) : nt__event_block(r, p, n, at, owned, partial, true);
    case NT_B_STACK: return nt__stack_block(r, p, n, at);
    case NT_B_SP: return nt__sequence_point(r, p, n, at);
    case NT_B_TRACE: return trace_v6(r, p, n, at);
    case NT_B_THREAD: return nt__threads_v6(r, p, n, at);
    case NT_B_REMOVE_THREAD: return nt__threads_remove_v6(r, p, n, at);
    case NT_B_LABELS: return nt__label_block(r, p, n, at);
    case NT_B_UNKNOWN:
    case NT_B_END: break;
    }
    return 0;
}
