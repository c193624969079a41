/* SPDX-License-Identifier: MIT */
/* tracefs.c: how the fields of a tracepoint lie in its record. Format: Documentation/trace/events.rst, "Event formats".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernel/kn_internal.h"
#include "kernel/perf.h"

/* The number behind "key:" in a text; false: there is none. */
static bool number_after(slice text, const char *key, uint64_t *out)
{
    size_t n = strlen(key);
    for (size_t i = 0; i + n <= text.n; i++) {
        if (memcmp(text.p + i, key, n) != 0 || (i > 0 && text.p[i - 1] != ';' && text.p[i - 1] != '\t')) continue;
        size_t from = i + n, to = from;
        while (to < text.n && text.p[to] >= '0' && text.p[to] <= '9')
            to++;
        return kn__u64(slice_of(text.p + from, to - from), out);
    }
    return false;
}

/* "type name" or "type name[16]" up to the semicolon. */
static bool read_declaration(slice text, tp_field *f)
{
    size_t n = 0, name, end;
    while (n < text.n && text.p[n] != ';')
        n++;
    for (end = n; end > 0 && text.p[end - 1] == ' ';)
        end--;
    size_t stop = end;
    for (size_t i = 0; i < end; i++)
        if (text.p[i] == '[') {
            bool data_loc = i >= 4 && kn__has(slice_of(text.p, i), "__data_loc"); /* "__data_loc char[] name" */
            if (data_loc) continue;
            stop = i;
            f->is_array = true;
            break;
        }
    for (name = stop; name > 0 && text.p[name - 1] != ' ' && text.p[name - 1] != '*';)
        name--;
    f->is_dynamic = kn__has(slice_of(text.p, stop), "__data_loc");
    return stop > name && kn__copy(slice_of(text.p + name, stop - name), f->name, sizeof f->name) &&
           kn__copy(kn__trim(slice_of(text.p, name)), f->type, sizeof f->type);
}

static int read_field(slice line, tp_format *out, err *e)
{
    uint64_t offset, size, is_signed = 0;
    if (out->n == TP_FIELDS_MAX) return err_set(e, ERR_LIMIT, "an event has more than %u fields", TP_FIELDS_MAX);
    tp_field *f = &out->fields[out->n];
    *f = (tp_field){0};
    if (!number_after(line, "offset:", &offset) || !number_after(line, "size:", &size) || offset > UINT16_MAX ||
        size > UINT16_MAX || !read_declaration(slice_of(line.p + 6, line.n - 6), f))
        return err_set(e, ERR_MALFORMED, "a field of an event cannot be read");
    (void)number_after(line, "signed:", &is_signed);
    f->offset = (uint16_t)offset;
    f->size = (uint16_t)size;
    f->is_signed = is_signed != 0;
    out->n++;
    return 0;
}

int tp_parse(slice text, tp_format *out, err *e)
{
    *out = (tp_format){0};
    bool have_id = false;
    for (slice line; kn__line(&text, &line);) {
        slice s = kn__trim(line);
        uint64_t id;
        if (slice_starts(s, SLICE_LIT("name: "))) {
            if (!kn__copy(slice_of(s.p + 6, s.n - 6), out->name, sizeof out->name)) out->name[0] = 0;
        } else if (slice_starts(s, SLICE_LIT("ID: "))) {
            have_id = kn__u64(slice_of(s.p + 4, s.n - 4), &id) && id <= UINT32_MAX;
            if (have_id) out->id = (uint32_t)id;
        } else if (slice_starts(s, SLICE_LIT("field:"))) {
            int rc = read_field(s, out, e);
            if (rc < 0) return rc;
        }
    }
    return have_id ? 0 : err_set(e, ERR_MALFORMED, "the format of an event has no id");
}

static int cannot_read(const char *system, const char *name, int rc, const char *root, err *e)
{
    err why = {0};
    bool mounted = kn_exists(root, "/sys/kernel/tracing/events") || kn_exists(root, "/sys/kernel/debug/tracing/events");
    if (mounted && rc == -ERR_NOT_FOUND) {
        rc = err_set(&why, ERR_NOT_SUPPORTED, "this kernel has no event %s:%s", system, name);
    } else if (rc == -ERR_PERMISSION_DENIED) {
        rc = err_set(&why, ERR_PERMISSION_DENIED, "tracefs may not be read: %s:%s", system, name);
        err_hint(&why,
                 "sudo mount -o remount,mode=755 /sys/kernel/tracing, or give lunette CAP_DAC_READ_SEARCH (Docker: "
                 "--cap-add DAC_READ_SEARCH)");
    } else {
        rc = err_set(&why, ERR_NOT_SUPPORTED, "tracefs is not mounted, so %s:%s is not to be had", system, name);
        err_hint(&why, "sudo mount -t tracefs nodev /sys/kernel/tracing; Docker: -v "
                       "/sys/kernel/tracing:/sys/kernel/tracing:ro; Kubernetes: a hostPath volume of that folder");
    }
    err_detail(&why, "tracefs");
    if (e) *e = why;
    return rc;
}

int tp_load(const char *root, const char *system, const char *name, tp_format *out, err *e)
{
    static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    char path[256];
    buf b;
    int rc = -ERR_NOT_FOUND;
    buf_init(&b, 0);
    for (size_t i = 0; i < 2 && rc < 0; i++) {
        err ignored = {0};
        snprintf(path, sizeof path, "%s/events/%s/%s/format", places[i], system, name);
        buf_reset(&b);
        int now = kn_read(root, path, KN_SMALL_MAX, &b, &ignored);
        if (now >= 0 || rc == -ERR_NOT_FOUND) rc = now;
    }
    rc = rc < 0 ? cannot_read(system, name, rc, root, e) : tp_parse(buf_view(&b), out, e);
    buf_fini(&b);
    return rc;
}

int tp_field_of(const tp_format *f, const char *name)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (strcmp(f->fields[i].name, name) == 0) return (int)i;
    return -1;
}

/* The bytes of a field; empty: outside. */
static slice bytes_of(const tp_format *f, int field, slice raw)
{
    if (field < 0 || (uint32_t)field >= f->n) return (slice){0};
    const tp_field *x = &f->fields[field];
    if ((size_t)x->offset + x->size > raw.n) return (slice){0};
    return slice_of(raw.p + x->offset, x->size);
}

int64_t tp_int(const tp_format *f, int field, slice raw)
{
    slice s = bytes_of(f, field, raw);
    uint64_t v = 0;
    if (s.n == 0 || s.n > sizeof v) return 0;
    memcpy(&v, s.p, s.n);
    unsigned unused = 64 - 8 * (unsigned)s.n;
    return f->fields[field].is_signed ? (int64_t)(v << unused) >> unused : (int64_t)v;
}

slice tp_text(const tp_format *f, int field, slice raw)
{
    slice s = bytes_of(f, field, raw);
    if (s.n && f->fields[field].is_dynamic) {
        uint64_t at = (uint64_t)tp_int(f, field, raw) & 0xFFFF, n = (uint64_t)tp_int(f, field, raw) >> 16 & 0xFFFF;
        s = at + n <= raw.n ? slice_of(raw.p + at, n) : (slice){0};
    }
    const void *end = s.n ? memchr(s.p, 0, s.n) : NULL;
    if (end) s.n = (size_t)((const uint8_t *)end - s.p);
    return s;
}
