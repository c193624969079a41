/* SPDX-License-Identifier: MIT */
/* replay_file.c: a recorded stream taken apart into objects with the times at which the runtime had written them.
 * Format: NetTraceFormat_v5. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clr/clr.h"
#include "ipc/replay_internal.h"
#include "nettrace/nettrace.h"

#define TAG_BEGIN     5 /* BeginPrivateObject */
#define TAG_NULL      1
#define TAG_END       6
#define NAME_MAX_LEN  64
#define BLOCK_MAX     (16u << 20)
#define OPENING_BYTES 32 /* "Nettrace", the length 20, "!FastSerialization.1" */

static int read_whole(const char *path, recording *r, err *e)
{
    struct stat st;
    int rc = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        rc = err_sys(e, ERR_NOT_FOUND, errno, "cannot read the recording");
    else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > REPLAY_FILE_MAX)
        rc = err_set(e, ERR_LIMIT, "the recording is no plain file of at most %zu MB", REPLAY_FILE_MAX >> 20);
    else if (!(r->bytes = mem_alloc((size_t)st.st_size + 1)))
        rc = err_set(e, ERR_NO_MEMORY, "no memory for the recording");
    while (rc == 0 && r->n < (size_t)st.st_size) {
        ssize_t n = read(fd, r->bytes + r->n, (size_t)st.st_size - r->n);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) rc = err_sys(e, ERR_IO, errno, "cannot read the recording");
        if (n <= 0) break;
        r->n += (size_t)n;
    }
    if (fd >= 0) (void)close(fd);
    return rc;
}

/* ---- what the process of the recording said about itself ----------------------------------------------------------
 */
static void take_text(const nt_event *ev, const char *field, char *out, size_t cap)
{
    nt_value v;
    int i = ev->kind->schema ? nt_field_index(ev->kind->schema, slice_str(field)) : -1;
    if (i < 0 || !nt_get(ev->kind->schema, ev->payload, (uint32_t)i, &v) || v.type != NT_STR16) return;
    out[nt_utf8(v.raw, out, cap - 1)] = 0;
}

static int64_t take_number(const nt_event *ev, const char *field)
{
    nt_value v;
    int i = ev->kind->schema ? nt_field_index(ev->kind->schema, slice_str(field)) : -1;
    return i >= 0 && nt_get(ev->kind->schema, ev->payload, (uint32_t)i, &v) ? v.i : -1;
}

static int on_kind(void *arg, nt_kind *k)
{
    (void)arg;
    bool info = slice_eq_str(k->provider, "Microsoft-DotNETCore-EventPipe") && slice_eq_str(k->display, "ProcessInfo");
    bool start = slice_eq_str(k->display, "Runtime/Start");
    k->muted = !info && !start;
    return 0;
}

static int on_event(void *arg, const nt_event *ev)
{
    recording *r = arg;
    take_text(ev, "CommandLine", r->command_line, sizeof r->command_line);
    int64_t major = take_number(ev, "VMMajorVersion");
    if (major > 0)
        (void)snprintf(r->version, sizeof r->version, "%lld.%lld.%lld", (long long)major,
                       (long long)take_number(ev, "VMMinorVersion"), (long long)take_number(ev, "VMBuildNumber"));
    return 0;
}

/* Reads it as any reader would: a recording that nobody could read is not played. */
static int describe(recording *r, err *e)
{
    if (slice_starts(slice_of(r->bytes, r->n), SLICE_LIT("PK\3\4")))
        return err_set(e, ERR_NOT_SUPPORTED, "the recording is packed: unzip it first");
    nt_options o = nt_options_default();
    o.no_stacks = true;
    o.resolve = clr_resolve;
    nt_reader *reader = nt_new(&o, &(nt_sink){.kind = on_kind, .event = on_event}, r, e);
    if (!reader) return -ERR_NO_MEMORY;
    int rc = nt_feed(reader, r->bytes, r->n, e);
    if (rc == 0 && nt_finish(reader, NULL) == -ERR_TRUNCATED && nt_stats_of(reader)->events == 0)
        rc = err_set(e, ERR_TRUNCATED, "the recording ends before its first event");
    if (rc == 0 && nt_trace_info(reader)->version != 4)
        rc = err_set(e, ERR_NOT_SUPPORTED,
                     "only recordings as runtimes write them (nettrace version 4 or 5) can be replayed");
    nt_free(reader);
    return rc;
}

/* ---- the plan -----------------------------------------------------------------------------------------------------
 */
static bool kind_of(slice name, replay_kind *out)
{
    static const char *const names[] = {"MetadataBlock", "EventBlock", "StackBlock", "SPBlock"};
    for (int i = 0; i < 4; i++)
        if (slice_eq_str(name, names[i])) {
            *out = (replay_kind)i;
            return true;
        }
    return false;
}

/* When the runtime had the block complete: its newest event. False for a block without times. */
static bool last_time(replay_kind kind, slice content, int64_t *ticks)
{
    cursor c = cursor_of(content, 0);
    if (kind == REPLAY_STACKS) return false;
    if (kind != REPLAY_SEQUENCE_POINT) cursor_skip(&c, 12); /* header size, flags, oldest time */
    *ticks = cursor_i64(&c);
    return cursor_ok(&c);
}

/* Begin tags, versions, name. False at the end tag, and where the stream was cut. */
static bool read_head(cursor *c, slice *head, slice *name)
{
    static const uint8_t tags[] = {TAG_BEGIN, TAG_BEGIN, TAG_NULL};
    const uint8_t *from = c->p;
    if (!slice_eq(cursor_bytes(c, sizeof tags), slice_of(tags, sizeof tags))) return false;
    cursor_skip(c, 8);
    uint32_t n = cursor_u32(c);
    if (n > NAME_MAX_LEN) return false;
    *name = cursor_bytes(c, n);
    if (cursor_u8(c) != TAG_END || !cursor_ok(c)) return false;
    *head = slice_of(from, (size_t)(c->p - from));
    return true;
}

static bool read_block(cursor *c, slice *content)
{
    uint32_t n = cursor_u32(c);
    while (cursor_ok(c) && (c->p - c->start) % 4 != 0)
        cursor_skip(c, 1);
    if (n > BLOCK_MAX) return false;
    *content = cursor_bytes(c, n);
    return cursor_u8(c) == TAG_END && cursor_ok(c);
}

static int64_t to_ns(int64_t ticks, int64_t frequency) { return (int64_t)((__int128)ticks * 1000000000 / frequency); }

static int add_object(recording *r, size_t *cap, replay_object o, err *e)
{
    if (r->n_objects == REPLAY_OBJECTS_MAX)
        return err_set(e, ERR_LIMIT, "the recording has more than %u blocks", REPLAY_OBJECTS_MAX);
    if (r->n_objects == *cap) {
        size_t more = *cap ? *cap * 2 : 64;
        replay_object *items = mem_realloc(r->objects, more * sizeof *items);
        if (!items) return err_set(e, ERR_NO_MEMORY, "no memory for the recording");
        r->objects = items;
        *cap = more;
    }
    r->objects[r->n_objects++] = o;
    return 0;
}

static int plan(recording *r, err *e)
{
    cursor c = cursor_of(slice_of(r->bytes, r->n), 0);
    slice head, name;
    cursor_skip(&c, OPENING_BYTES);
    if (!read_head(&c, &head, &name) || !slice_eq_str(name, "Trace"))
        return err_set(e, ERR_MALFORMED, "the recording has no Trace object");
    r->opening = slice_of(r->bytes, (size_t)(c.p - r->bytes));
    r->trace = cursor_bytes(&c, REPLAY_TRACE_SIZE);
    cursor t = cursor_of(r->trace, 0);
    cursor_skip(&t, 16);
    int64_t start = cursor_i64(&t);
    r->frequency = cursor_i64(&t);
    if (cursor_u8(&c) != TAG_END || !cursor_ok(&c) || r->frequency <= 0)
        return err_set(e, ERR_MALFORMED, "the recording's Trace object is malformed");
    size_t cap = 0;
    for (replay_object o; read_head(&c, &o.head, &name) && kind_of(name, &o.kind) && read_block(&c, &o.content);) {
        int64_t ticks;
        if (last_time(o.kind, o.content, &ticks)) {
            int64_t at = to_ns(ticks - start, r->frequency);
            if (at > r->length_ns) r->length_ns = at;
        }
        o.due_ns = r->length_ns;
        int rc = add_object(r, &cap, o, e);
        if (rc < 0) return rc;
    }
    return 0;
}

int recording_load(const char *path, recording *out, err *e)
{
    recording r = {0};
    int rc = read_whole(path, &r, e);
    if (rc == 0) rc = describe(&r, e);
    if (rc == 0) rc = plan(&r, e);
    if (rc < 0) {
        err_detail(e, "%s", path);
        recording_free(&r);
        return rc;
    }
    *out = r;
    return 0;
}

void recording_free(recording *r)
{
    free(r->objects);
    free(r->bytes);
    *r = (recording){0};
}

/* ---- another time -------------------------------------------------------------------------------------------------
 */
static void put_varu64(buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_u8(b, (uint8_t)(v | 0x80));
    buf_u8(b, (uint8_t)v);
}

static void add_at(uint8_t *p, int64_t by)
{
    int64_t v;
    memcpy(&v, p, sizeof v);
    v = (int64_t)((uint64_t)v + (uint64_t)by);
    memcpy(p, &v, sizeof v);
}

/* Compressed headers hold differences, and the first one of a block the difference to 0: only it changes (and perhaps
 * its length). */
static void shift_compressed(slice blobs, int64_t ticks, buf *out)
{
    cursor c = cursor_of(blobs, 0);
    uint8_t flags = cursor_u8(&c);
    if (flags & 0x01) (void)cursor_varu32(&c);
    if (flags & 0x02) {
        (void)cursor_varu32(&c);
        (void)cursor_varu64(&c);
        (void)cursor_varu32(&c);
    }
    if (flags & 0x04) (void)cursor_varu64(&c);
    if (flags & 0x08) (void)cursor_varu32(&c);
    size_t before = (size_t)(c.p - blobs.p);
    uint64_t ts = cursor_varu64(&c);
    if (!cursor_ok(&c)) { /* no event in it */
        buf_slice(out, blobs);
        return;
    }
    buf_put(out, blobs.p, before);
    put_varu64(out, ts + (uint64_t)ticks);
    buf_put(out, c.p, cursor_left(&c));
}

static void shift_plain(uint8_t *p, size_t n, int64_t ticks)
{
    for (size_t at = 0; n - at >= 80;) {
        uint32_t size;
        memcpy(&size, p + at, sizeof size);
        add_at(p + at + 36, ticks);
        if (size > n - at - 4) return;
        at += 4 + (size_t)size;
    }
}

bool recording_shift(const replay_object *o, int64_t ticks, buf *out)
{
    slice s = o->content;
    size_t at = out->n;
    uint16_t header = 0, flags = 0;
    if (o->kind != REPLAY_EVENTS || s.n < 20) {
        buf_slice(out, s);
        if (!out->failed && o->kind == REPLAY_SEQUENCE_POINT && s.n >= 8) add_at(out->p + at, ticks);
        return !out->failed;
    }
    memcpy(&header, s.p, sizeof header);
    memcpy(&flags, s.p + 2, sizeof flags);
    if (header < 20 || header > s.n) header = 20;
    buf_put(out, s.p, header);
    slice blobs = slice_of(s.p + header, s.n - header);
    if (flags & 1)
        shift_compressed(blobs, ticks, out);
    else
        buf_slice(out, blobs);
    if (out->failed) return false;
    add_at(out->p + at + 4, ticks);
    add_at(out->p + at + 12, ticks);
    if (!(flags & 1)) shift_plain(out->p + at + header, blobs.n, ticks);
    return true;
}
