/* SPDX-License-Identifier: MIT */
/* trace_print.c: events as text for people and as JSON. */
#include "nettrace/trace_print.h"

#include <stdio.h>
#include <time.h>

#include "base/guid.h"
#include "base/utf.h"
#include "clr/clr.h"

#define TEXT_MAX      200 /* bytes of one string in a line for people */
#define BYTES_MAX     32
#define ELEMENTS_MAX  8
#define FILETIME_1970 INT64_C(116444736000000000)
#define FILETIME_LAST INT64_C(2650467743999999999) /* the end of the year 9999 */

void trace_count(buf *out, uint64_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0) buf_u8(out, ',');
        buf_u8(out, (uint8_t)digits[i]);
    }
}

void trace_bytes(buf *out, uint64_t n)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (n < 1024) {
        buf_printf(out, "%llu B", (unsigned long long)n);
        return;
    }
    double v = (double)n / 1024;
    size_t i = 0;
    for (; v >= 1024 && i < 3; i++)
        v /= 1024;
    buf_printf(out, "%.1f %s", v, units[i]);
}

void trace_duration(buf *out, int64_t ns)
{
    double ms = (double)ns / 1e6;
    if (ms < 1000)
        buf_printf(out, "%.3f ms", ms);
    else if (ms < 120000)
        buf_printf(out, "%.2f s", ms / 1000);
    else
        buf_printf(out, "%.1f min", ms / 60000);
}

void trace_time(buf *out, int64_t unix_ns)
{
    int64_t ms = unix_ns / 1000000 - (unix_ns % 1000000 < 0);
    time_t s = (time_t)(ms / 1000 - (ms % 1000 < 0));
    struct tm tm;
    char text[40];
    gmtime_r(&s, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_printf(out, "%s.%03dZ", text, (int)(ms - (int64_t)s * 1000));
}

/* FILETIME has the full seven digits. False: outside of years 1 to 9999. */
static bool filetime_text(buf *out, int64_t ft)
{
    if (ft < 0 || ft > FILETIME_LAST) return false;
    int64_t since = ft - FILETIME_1970;
    time_t s = (time_t)(since / 10000000 - (since % 10000000 < 0));
    struct tm tm;
    char text[40];
    gmtime_r(&s, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    return buf_printf(out, "%s.%07dZ", text, (int)(since - (int64_t)s * 10000000));
}

/* A string value as UTF-8 in scratch. */
static slice text_of(const nt_value *v, buf *scratch)
{
    buf_reset(scratch);
    if (v->type == NT_STR16)
        utf16le_to_utf8(v->raw, scratch);
    else
        utf8_sanitize(v->raw, scratch);
    return buf_view(scratch);
}

static void hex_bytes(buf *out, slice raw, size_t max)
{
    for (size_t i = 0; i < raw.n && i < max; i++)
        buf_printf(out, "%02x", raw.p[i]);
}

static slice char_text(const nt_value *v, buf *scratch)
{
    uint8_t unit[2] = {(uint8_t)v->u, (uint8_t)(v->u >> 8)};
    buf_reset(scratch);
    utf16le_to_utf8(slice_of(unit, 2), scratch);
    return buf_view(scratch);
}

/* ---- JSON ---- */

static void members_json(jsonw *w, nt_iter *it, buf *scratch);
static void value_json(jsonw *w, const nt_iter *it, const nt_value *v, buf *scratch);

static void array_json(jsonw *w, const nt_iter *it, const nt_value *v, buf *scratch)
{
    nt_iter in;
    nt_value e;
    nt_iter_into(&in, it, v);
    jsonw_array(w);
    while (nt_iter_next(&in, &e))
        value_json(w, &in, &e, scratch);
    jsonw_end_array(w);
}

static void value_json(jsonw *w, const nt_iter *it, const nt_value *v, buf *scratch)
{
    nt_iter in;
    char guid[37];
    if (v->bad) {
        jsonw_null(w);
        return;
    }
    switch (v->type) {
    case NT_BOOL: jsonw_bool(w, v->u != 0); break;
    case NT_INT: jsonw_int(w, v->i); break;
    case NT_UINT:
        if (v->field->hex)
            jsonw_hex(w, v->u);
        else
            jsonw_uint(w, v->u);
        break;
    case NT_FLOAT: jsonw_num(w, v->f); break;
    case NT_CHAR: jsonw_str(w, char_text(v, scratch)); break;
    case NT_STR16:
    case NT_STR8: jsonw_str(w, text_of(v, scratch)); break;
    case NT_FILETIME:
        buf_reset(scratch);
        if (filetime_text(scratch, v->i))
            jsonw_str(w, buf_view(scratch));
        else
            jsonw_null(w);
        break;
    case NT_GUID:
        guid_text(v->raw.p, guid);
        jsonw_cstr(w, guid);
        break;
    case NT_DECIMAL:
    case NT_BYTES:
        buf_reset(scratch);
        hex_bytes(scratch, v->raw, SIZE_MAX);
        jsonw_str(w, buf_view(scratch));
        break;
    case NT_ARRAY: array_json(w, it, v, scratch); break;
    case NT_STRUCT:
        jsonw_object(w);
        nt_iter_into(&in, it, v);
        members_json(w, &in, scratch);
        jsonw_end_object(w);
        break;
    case NT_NONE: jsonw_null(w); break;
    }
}

/* A struct without a name is only a frame: its members stand in for it. */
static void members_json(jsonw *w, nt_iter *it, buf *scratch)
{
    nt_value v;
    while (nt_iter_next(it, &v)) {
        if (v.type == NT_STRUCT && v.field->name.n == 0) {
            nt_iter in;
            nt_iter_into(&in, it, &v);
            members_json(w, &in, scratch);
            continue;
        }
        jsonw_key(w, v.field->name);
        value_json(w, it, &v, scratch);
    }
}

static void guid_member(jsonw *w, const char *key, const uint8_t *guid)
{
    char text[37];
    if (!guid) return;
    guid_text(guid, text);
    jsonw_key_lit(w, key);
    jsonw_cstr(w, text);
}

static void payload_json(jsonw *w, const nt_event *ev, buf *scratch)
{
    const nt_schema *s = ev->kind->schema;
    nt_iter it;
    bool short_payload = false;
    jsonw_key_lit(w, "fields");
    jsonw_object(w);
    if (s) {
        nt_iter_payload(&it, s, ev->payload);
        members_json(w, &it, scratch);
        short_payload = it.truncated;
    }
    jsonw_end_object(w);
    if (short_payload) {
        jsonw_key_lit(w, "payloadEndsEarly");
        jsonw_bool(w, true);
    }
    if (s || ev->payload.n == 0) return;
    buf_reset(scratch);
    hex_bytes(scratch, ev->payload, SIZE_MAX);
    jsonw_key_lit(w, "payload"); /* its layout is not known */
    jsonw_str(w, buf_view(scratch));
}

void trace_event_json(jsonw *w, const nt_trace *t, const nt_event *ev, slice stack, buf *scratch)
{
    const nt_kind *k = ev->kind;
    jsonw_object(w);
    jsonw_key_lit(w, "provider");
    jsonw_str(w, k->provider);
    jsonw_key_lit(w, "event");
    jsonw_str(w, k->display);
    jsonw_key_lit(w, "id");
    jsonw_uint(w, k->id);
    jsonw_key_lit(w, "version");
    jsonw_uint(w, k->version);
    jsonw_key_lit(w, "timeNs");
    jsonw_int(w, nt_ns(t, ev->ts));
    jsonw_key_lit(w, "thread");
    jsonw_uint(w, ev->thread);
    guid_member(w, "activityId", ev->activity);
    guid_member(w, "relatedActivityId", ev->related);
    if (stack.n) {
        jsonw_key_lit(w, "frames");
        jsonw_uint(w, stack.n / t->pointer_size);
    }
    payload_json(w, ev, scratch);
    jsonw_end_object(w);
}

/* ---- text ---- */

static void members_text(buf *out, nt_iter *it, buf *scratch, bool *first);

/* Quoted, on one line, cut where it is long. */
static void quoted(buf *out, slice s)
{
    size_t n = utf8_cut(s, TEXT_MAX);
    buf_u8(out, '"');
    for (size_t i = 0; i < n; i++) {
        uint8_t c = s.p[i];
        if (c == '"')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_str(out, "\\n");
        else if (c < 0x20 || c == 0x7F)
            buf_printf(out, "\\x%02x", c);
        else
            buf_u8(out, c);
    }
    buf_str(out, n < s.n ? "…\"" : "\"");
}

static void value_text(buf *out, const nt_iter *it, const nt_value *v, buf *scratch);

static void array_text(buf *out, const nt_iter *it, const nt_value *v, buf *scratch)
{
    nt_iter in;
    nt_value e;
    nt_iter_into(&in, it, v);
    buf_u8(out, '[');
    for (uint32_t i = 0; i < ELEMENTS_MAX && nt_iter_next(&in, &e); i++) {
        if (i) buf_str(out, ", ");
        value_text(out, &in, &e, scratch);
    }
    if (v->count > ELEMENTS_MAX) {
        buf_str(out, ", … ");
        trace_count(out, v->count);
        buf_str(out, " in all");
    }
    buf_u8(out, ']');
}

static void number_text(buf *out, const nt_value *v)
{
    if (v->field->enums && clr_enum_text(v->field->enums, v->u, out)) return;
    if (v->type == NT_INT)
        buf_printf(out, "%lld", (long long)v->i);
    else if (v->field->hex)
        buf_printf(out, "0x%llx", (unsigned long long)v->u);
    else
        buf_printf(out, "%llu", (unsigned long long)v->u);
}

static void value_text(buf *out, const nt_iter *it, const nt_value *v, buf *scratch)
{
    char guid[37];
    bool first = true;
    if (v->bad) {
        buf_str(out, "(outside of the payload)");
        return;
    }
    switch (v->type) {
    case NT_BOOL: buf_str(out, v->u ? "true" : "false"); break;
    case NT_INT:
    case NT_UINT: number_text(out, v); break;
    case NT_FLOAT: buf_printf(out, "%.9g", v->f); break;
    case NT_CHAR: quoted(out, char_text(v, scratch)); break;
    case NT_STR16:
    case NT_STR8: quoted(out, text_of(v, scratch)); break;
    case NT_FILETIME:
        if (!filetime_text(out, v->i)) buf_printf(out, "(filetime %lld)", (long long)v->i);
        break;
    case NT_GUID:
        guid_text(v->raw.p, guid);
        buf_str(out, guid);
        break;
    case NT_DECIMAL:
    case NT_BYTES:
        hex_bytes(out, v->raw, BYTES_MAX);
        if (v->raw.n > BYTES_MAX) buf_printf(out, "… %zu bytes", v->raw.n);
        break;
    case NT_ARRAY: array_text(out, it, v, scratch); break;
    case NT_STRUCT: {
        nt_iter in;
        nt_iter_into(&in, it, v);
        buf_u8(out, '{');
        members_text(out, &in, scratch, &first);
        buf_u8(out, '}');
        break;
    }
    case NT_NONE: break;
    }
}

static void members_text(buf *out, nt_iter *it, buf *scratch, bool *first)
{
    nt_value v;
    while (nt_iter_next(it, &v)) {
        if (v.type == NT_STRUCT && v.field->name.n == 0) {
            nt_iter in;
            nt_iter_into(&in, it, &v);
            members_text(out, &in, scratch, first);
            continue;
        }
        if (!*first) buf_u8(out, ' ');
        *first = false;
        buf_slice(out, v.field->name);
        buf_u8(out, '=');
        value_text(out, it, &v, scratch);
    }
}

void trace_event_text(buf *out, const nt_trace *t, const nt_event *ev, buf *scratch)
{
    const nt_kind *k = ev->kind;
    bool first = true;
    nt_iter it;
    buf_printf(out, "%12.4f ms  %8llu  ", (double)nt_ns(t, ev->ts) / 1e6, (unsigned long long)ev->thread);
    buf_slice(out, k->provider);
    buf_u8(out, ' ');
    buf_slice(out, k->display);
    buf_str(out, "  ");
    if (k->schema) {
        nt_iter_payload(&it, k->schema, ev->payload);
        members_text(out, &it, scratch, &first);
        if (it.truncated) buf_str(out, " (the payload ends early)");
    } else if (ev->payload.n) {
        buf_printf(out, "(%zu bytes of an unknown layout: ", ev->payload.n);
        hex_bytes(out, ev->payload, BYTES_MAX);
        buf_str(out, ev->payload.n > BYTES_MAX ? "…)" : ")");
    }
}
