/* SPDX-License-Identifier: MIT */
/* export_pprof.c: profile.proto of google/pprof, gzipped (field numbers: its profile.proto). */
#include <zlib.h>

#include "base/utf.h"
#include "profile/export.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };
enum {
    P_SAMPLE_TYPE = 1,
    P_SAMPLE,
    P_MAPPING,
    P_LOCATION,
    P_FUNCTION,
    P_STRING,
    P_TIME = 9,
    P_DURATION,
    P_DEFAULT = 14
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES };
enum { MAPPING_ID = 1, MAPPING_FILE = 5, MAPPING_HAS_FUNCTIONS = 7 };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
/* A function has no system name: pprof would take a name that is equal to it for one of C++ and cut what stands in <>.
 */
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_FILE = 4, FUNCTION_START };

/* Texts by number, in the order in which they were first asked for; 0 is "". */
enum { S_EMPTY, S_SAMPLES, S_COUNT, S_WEIGHT, S_UNIT, S_FIXED };

/* What weights are: bytes of allocations; of CPU samples the time of threads, that of running ones where the sampler
 * told who ran. */
static const char *fixed_text(const profile_info *info, unsigned text)
{
    switch (text) {
    case S_SAMPLES: return "samples";
    case S_COUNT: return "count";
    case S_WEIGHT: return info->kind == PROFILE_ALLOCATION ? "alloc_space" : info->states ? "cpu" : "wall";
    case S_UNIT: return info->kind == PROFILE_ALLOCATION ? "bytes" : "nanoseconds";
    default: return "";
    }
}

static bool varint(buf *b, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
    } while (v);
    return buf_put(b, bytes, n);
}

static bool number(buf *b, unsigned field, uint64_t v) { return varint(b, (field << 3) | WIRE_VARINT) && varint(b, v); }

static bool bytes(buf *b, unsigned field, slice s)
{
    return varint(b, (field << 3) | WIRE_BYTES) && varint(b, s.n) && buf_put(b, s.p, s.n);
}

static bool message(buf *b, unsigned field, const buf *m) { return !m->failed && bytes(b, field, buf_view(m)); }

static bool sample_type(buf *b, buf *m, unsigned type, unsigned unit)
{
    buf_reset(m);
    return number(m, TYPE_TYPE, type) && number(m, TYPE_UNIT, unit) && message(b, P_SAMPLE_TYPE, m);
}

/* A sample for each node that has any of its own: its frames from the leaf up, none for samples without a stack. */
static bool samples(const profile *p, buf *b)
{
    bool weighted = profile_info_of(p)->weighted, ok = true;
    buf m = {0}, list = {0};
    for (uint32_t i = 0, n = profile_nodes(p); ok && i < n; i++) {
        profile_counts c = profile_node_counts(p, i);
        if (c.exclusive <= 0) continue;
        buf_reset(&m);
        buf_reset(&list);
        for (uint32_t k = i; ok && k != 0;) {
            profile_node node = profile_node_at(p, k);
            ok = varint(&list, node.frame); /* a location a frame, of the same number; 0, the root, is none */
            k = node.parent;
        }
        ok = ok && message(&m, SAMPLE_LOCATIONS, &list);
        buf_reset(&list);
        ok = ok && varint(&list, (uint64_t)c.exclusive) && (!weighted || varint(&list, (uint64_t)c.exclusive_weight)) &&
             message(&m, SAMPLE_VALUES, &list) && message(b, P_SAMPLE, &m);
    }
    buf_fini(&m);
    buf_fini(&list);
    return ok;
}

/* What is known of a frame's source; NULL: nothing. */
static const profile_export_source *source_of(const profile_export_cfg *cfg, uint32_t frame)
{
    return frame < cfg->n_sources && cfg->sources[frame].file.n > 0 ? &cfg->sources[frame] : NULL;
}

/* The function of a frame, as number of its texts: name, file. */
static bool function(buf *m, uint32_t frame, uint64_t name, const profile_export_source *at, uint64_t file)
{
    return number(m, FUNCTION_ID, frame) && number(m, FUNCTION_NAME, name) && (!at || number(m, FUNCTION_FILE, file)) &&
           (!at || at->start_line == 0 || number(m, FUNCTION_START, at->start_line));
}

/* Modules, locations and functions; the texts' numbers: the fixed ones, a module each, a frame each, the file of each
 * frame whose source is known. */
static bool places(const profile *p, const profile_export_cfg *cfg, buf *b)
{
    uint32_t n_modules = profile_modules(p);
    bool ok = true;
    buf m = {0}, line = {0};
    for (uint32_t i = 0; ok && i < n_modules; i++) {
        buf_reset(&m);
        ok = number(&m, MAPPING_ID, i + 1) && number(&m, MAPPING_FILE, S_FIXED + i) &&
             number(&m, MAPPING_HAS_FUNCTIONS, 1) && message(b, P_MAPPING, &m);
    }
    for (uint32_t i = 1, n = profile_frames(p); ok && i < n; i++) {
        const profile_frame *f = profile_frame_at(p, i);
        buf_reset(&m);
        buf_reset(&line);
        const profile_export_source *at = source_of(cfg, i);
        ok = number(&line, LINE_FUNCTION, i) && (!at || number(&line, LINE_LINE, at->line)) &&
             number(&m, LOCATION_ID, i) &&
             (f->module_index == UINT32_MAX || number(&m, LOCATION_MAPPING, f->module_index + 1)) &&
             (f->n_addresses == 0 || number(&m, LOCATION_ADDRESS, f->addresses[0].ip)) &&
             message(&m, LOCATION_LINE, &line) && message(b, P_LOCATION, &m);
    }
    uint64_t name = S_FIXED + n_modules, file = name + profile_frames(p) - 1;
    for (uint32_t i = 1, n = profile_frames(p); ok && i < n; i++) {
        const profile_export_source *at = source_of(cfg, i);
        buf_reset(&m);
        ok = function(&m, i, name++, at, file) && message(b, P_FUNCTION, &m);
        if (at) file++;
    }
    buf_fini(&m);
    buf_fini(&line);
    return ok;
}

static bool clean(buf *b, buf *text, slice s)
{
    buf_reset(text);
    return utf8_sanitize(s, text) && bytes(b, P_STRING, buf_view(text));
}

static bool texts(const profile *p, const profile_export_cfg *cfg, buf *b)
{
    bool ok = true;
    buf name = {0}, text = {0};
    for (uint32_t i = 0; ok && i < S_FIXED; i++)
        ok = bytes(b, P_STRING, slice_str(fixed_text(profile_info_of(p), i)));
    for (uint32_t i = 0, n = profile_modules(p); ok && i < n; i++) {
        const profile_module *m = profile_module_at(p, i);
        ok = clean(b, &text, m->path.n ? m->path : m->name);
    }
    for (uint32_t i = 1, n = profile_frames(p); ok && i < n; i++) {
        buf_reset(&name);
        ok = profile_export_name(p, i, &name) && clean(b, &text, buf_view(&name));
    }
    for (uint32_t i = 1, n = profile_frames(p); ok && i < n; i++) {
        const profile_export_source *at = source_of(cfg, i);
        ok = !at || clean(b, &text, at->file);
    }
    buf_fini(&name);
    buf_fini(&text);
    return ok;
}

static bool gzip(const buf *in, buf *out)
{
    z_stream z = {0};
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return false;
    z.next_in = in->p;
    size_t left = in->n;
    int rc = Z_OK;
    while (rc == Z_OK) {
        const size_t step = (size_t)1 << 20;
        uint8_t *room = buf_reserve(out, step);
        if (!room) break;
        if (z.avail_in == 0) {
            z.avail_in = (uInt)(left < step ? left : step);
            left -= z.avail_in;
        }
        z.next_out = room;
        z.avail_out = (uInt)step;
        rc = deflate(&z, left == 0 ? Z_FINISH : Z_NO_FLUSH);
        if (rc == Z_BUF_ERROR) rc = Z_OK;
        out->n += step - z.avail_out;
    }
    deflateEnd(&z);
    return rc == Z_STREAM_END;
}

bool profile_export_pprof(const profile *p, const profile_export_cfg *cfg, buf *out)
{
    const profile_info *info = profile_info_of(p);
    buf b = {.max = PROFILE_EXPORT_MAX}, m = {0};
    bool ok = sample_type(&b, &m, S_SAMPLES, S_COUNT);
    if (ok && info->weighted) ok = sample_type(&b, &m, S_WEIGHT, S_UNIT);
    ok = ok && samples(p, &b) && places(p, cfg, &b) && texts(p, cfg, &b);
    if (ok && cfg->time_ns > 0) ok = number(&b, P_TIME, (uint64_t)cfg->time_ns);
    if (ok && cfg->length_ns > 0) ok = number(&b, P_DURATION, (uint64_t)cfg->length_ns);
    if (ok && info->weighted) ok = number(&b, P_DEFAULT, cfg->by_weight ? S_WEIGHT : S_SAMPLES);
    ok = ok && gzip(&b, out);
    buf_fini(&b);
    buf_fini(&m);
    return ok && !out->failed;
}
