/* SPDX-License-Identifier: MIT */
/* kit.c: see kit.h. */
#include "kit.h"

#include "probe/tlv.h"

static const tw_field FIELDS[] = {{"id", 9, 0}, {"item", 18, 0}, {"cost", 9, 0}, {"ratio", 14, 0}};

static void start(tw *w)
{
    static const char *const names[] = {"Begin", "End"};
    tw_start(w, false, false);
    buf fields = {0};
    buf_init(&fields, 0);
    tw_fields(w, &fields, FIELDS, 4);
    tw_begin(w, TW_METADATA);
    for (uint32_t i = 0; i < 2; i++)
        tw_put_kind(w, i + 1, "Shop", i + 1, names[i], 1, buf_view(&fields), (slice){0});
    buf_reset(&fields);
    tw_fields(w, &fields, NULL, 0);
    tw_put_kind(w, 3, "Shop", 3, "Bare", 2, buf_view(&fields), (slice){0});
    tw_end(w);
    buf_fini(&fields);
}

void shop_start(shop *s)
{
    *s = (shop){0};
    start(&s->w);
    start(&s->waiting);
}

void shop_fini(shop *s)
{
    tw_fini(&s->w);
    tw_fini(&s->waiting);
}

void shop_stacks(shop *s, uint32_t n, const uint64_t *leaves)
{
    for (tw *w = &s->w; w; w = w == &s->w ? &s->waiting : NULL) {
        tw_begin(w, TW_STACKS);
        tw_put_stacks(w, 1, n, leaves);
        tw_end(w);
    }
}

static void put(shop *s, int kind, int64_t ns, uint64_t thread, uint32_t stack, slice payload)
{
    uint32_t i = 0;
    while (s->thread[i] && s->thread[i] != thread)
        i++;
    s->thread[i] = thread;
    s->seq[i]++;
    for (tw *w = &s->w; w; w = w == &s->w ? &s->waiting : NULL) {
        tw_begin(w, TW_EVENTS);
        tw_put_event(w, &(tw_event){.kind = (uint32_t)kind,
                                    .seq = s->seq[i],
                                    .stack = stack,
                                    .thread = thread,
                                    .capture = thread,
                                    .ts = 1000 + ns / 10,
                                    .sorted = w == &s->w,
                                    .payload = payload});
        tw_end(w);
    }
}

void shop_event(shop *s, int kind, int64_t ns, uint64_t thread, int id, const char *item, int cost, double ratio)
{
    buf b = {0};
    buf_init(&b, 0);
    if (kind != BARE) {
        buf_u32(&b, (uint32_t)id);
        tw_utf16z(&b, item);
        buf_u32(&b, (uint32_t)cost);
        buf_put(&b, &ratio, sizeof ratio);
    }
    put(s, kind, ns, thread, 0, buf_view(&b));
    buf_fini(&b);
}

void shop_payload(shop *s, int kind, int64_t ns, uint64_t thread, slice payload)
{
    put(s, kind, ns, thread, 0, payload);
}

void shop_stack(shop *s, int kind, int64_t ns, uint64_t thread, int id, uint32_t stack)
{
    buf b = {0};
    double ratio = 0;
    buf_init(&b, 0);
    buf_u32(&b, (uint32_t)id);
    tw_utf16z(&b, "x");
    buf_u32(&b, 1);
    buf_put(&b, &ratio, sizeof ratio);
    put(s, kind, ns, thread, stack, buf_view(&b));
    buf_fini(&b);
}

/* ---- results as text --------------------------------------------------------------------------------------------- */
static bool print(cursor *c, buf *out);

static void print_list(cursor *c, buf *out, bool table)
{
    bool first = true;
    buf_str(out, table ? "{" : "[");
    for (;;) {
        size_t before = out->n;
        if (!first) buf_str(out, ", ");
        if (table && cursor_left(c) && *c->p == TLV_TEXT) {
            cursor_u8(c);
            slice key = cursor_bytes(c, cursor_u32(c));
            buf_slice(out, key);
            buf_str(out, "=");
            assert_true(print(c, out));
        } else if (!print(c, out)) {
            out->n = before;
            break;
        }
        first = false;
    }
    buf_str(out, table ? "}" : "]");
}

static bool print(cursor *c, buf *out)
{
    slice s;
    switch (cursor_u8(c)) {
    case TLV_NIL: return buf_str(out, "nil");
    case TLV_FALSE: return buf_str(out, "false");
    case TLV_TRUE: return buf_str(out, "true");
    case TLV_INT: return buf_printf(out, "%lld", (long long)cursor_i64(c));
    case TLV_FLOAT: return buf_printf(out, "%.10g", cursor_f64(c));
    case TLV_TEXT: s = cursor_bytes(c, cursor_u32(c)); return buf_printf(out, "\"%.*s\"", (int)s.n, (const char *)s.p);
    case TLV_LIST: print_list(c, out, false); return true;
    case TLV_TABLE: print_list(c, out, true); return true;
    default: return false;
    }
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */
typedef struct run {
    probe *p;
    nt_reader *r;
    probe_use use[3];
    int n_use, n_events;
} run;

static int on_kind(void *arg, nt_kind *k)
{
    run *r = arg;
    assert_true(r->n_use < 3);
    probe_use *use = &r->use[r->n_use++];
    use->only = probe_bind(r->p, k);
    k->user = use;
    k->muted = !use->only;
    return 0;
}

static int on_event(void *arg, const nt_event *ev)
{
    run *r = arg;
    probe_event(r->p, ((const probe_use *)ev->kind->user)->only, r->r, ev);
    r->n_events++;
    return 0;
}

static int on_run(void *arg, nt_run *some)
{
    static atomic_bool quiet;
    run *r = arg;
    int64_t latest = 0;
    assert_false(probe_events(r->p, r->r, some, &quiet, &latest));
    assert_int_equal(latest, some->event.ts);
    return 0;
}

static char *run_stream(const tw *w, const nt_sink *sink, const probe_program *program, const clr_methods *methods)
{
    err e = {0};
    run r = {.p = probe_new(program, &e)};
    if (!r.p) fail_msg("%s", e.message);
    nt_options o = nt_options_default();
    r.r = nt_new(&o, sink, &r, &e);
    assert_non_null(r.r);
    tw w_copy = *w; /* the end mark goes into a copy, so that a stream may be run again */
    buf whole = {0};
    buf_init(&whole, 0);
    buf_slice(&whole, tw_bytes(&w_copy));
    assert_true(nt_feed(r.r, whole.p, whole.n, &e) >= 0);
    (void)nt_finish(r.r, &e);
    if (sink->run) assert_int_equal(r.n_events, 0);
    buf out = {0}, text = {0};
    buf_init(&out, 0);
    buf_init(&text, 0);
    size_t before = probe_memory(r.p);
    assert_true(probe_result(r.p, methods, &out));
    assert_int_equal(probe_memory(r.p), before);
    buf again = {0}; /* looking changes nothing */
    buf_init(&again, 0);
    assert_true(probe_result(r.p, methods, &again));
    assert_int_equal(again.n, out.n);
    assert_memory_equal(again.p, out.p, out.n);
    buf_fini(&again);
    cursor c = cursor_of(buf_view(&out), 0);
    assert_true(print(&c, &text));
    assert_int_equal(cursor_left(&c), 0);
    buf_u8(&text, 0);
    char *copy = strdup((const char *)text.p);
    buf_fini(&whole);
    buf_fini(&out);
    buf_fini(&text);
    nt_free(r.r);
    probe_free(r.p);
    return copy;
}

char *shop_run(shop *s, const probe_program *program, const clr_methods *methods)
{
    char *each = run_stream(&s->w, &(nt_sink){.kind = on_kind, .event = on_event}, program, methods);
    char *runs =
        run_stream(&s->waiting, &(nt_sink){.kind = on_kind, .event = on_event, .run = on_run}, program, methods);
    assert_string_equal(runs, each);
    free(runs);
    return each;
}

char *shop_error(const probe_program *program)
{
    err e = {0};
    probe *p = probe_new(program, &e);
    assert_null(p);
    assert_int_equal(e.kind, ERR_INVALID_ARGUMENT);
    return strdup(e.message);
}

probe_program shop_program(const probe_spec *keep, size_t n_keep)
{
    static const probe_named events[] = {{"begin", "Shop/Begin"}, {"end", "shop/#2"},     {"bare", "SHOP/Bare"},
                                         {"all", "Shop/*"},       {"both", "Shop/Begin"}, {"both", "Shop/End"}};
    return (probe_program){.events = events, .n_events = 6, .keep = keep, .n_keep = n_keep};
}

void check_run(shop *s, const probe_spec *keep, size_t n_keep, const char *want, const char *file, int line)
{
    probe_program p = shop_program(keep, n_keep);
    char *got = shop_run(s, &p, NULL);
    char *end = strstr(got, ", stacks=");
    assert_non_null(end);
    *end = 0;
    check_slice(slice_str(got + 1), slice_str(want), file, line);
    free(got);
}
