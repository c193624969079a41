/* SPDX-License-Identifier: MIT */
/* heap_delegates.c: whom delegates call. Every subscription is a delegate of its own: those that hold a list of others
 * are left out, so that nothing counts twice. Fields by name: System.Delegate of .NET 5 to 10. */
#include "memory/heap_details_own.h"

#define METHOD_TEXT 2048u
#define TYPE_TEXT   401u /* generic names grow without end */

static bool find_fields(heap_details *d, uint64_t mt)
{
    heap_field target, code, aux, list, count;
    if (d->has_delegate) return true; /* the same for all: they extend one class */
    if (!heap_field_named(d->h, mt, "_target", &target) || !heap_field_named(d->h, mt, "_methodPtr", &code) ||
        !heap_field_named(d->h, mt, "_methodPtrAux", &aux) || !heap_field_named(d->h, mt, "_invocationList", &list) ||
        !heap_field_named(d->h, mt, "_invocationCount", &count))
        return false;
    d->target_at = target.offset;
    d->code_at = code.offset;
    d->aux_at = aux.offset;
    d->list_at = list.offset;
    d->count_at = count.offset;
    d->has_delegate = true;
    return true;
}

static uint64_t word_at(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* Of a delegate's bytes; false: it is a list of others, or no delegate. */
static bool read_call(heap_details *d, uint64_t mt, const uint8_t *body, uint64_t size, heap_call *out)
{
    if (!find_fields(d, mt) || d->target_at + 8 > size || d->code_at + 8 > size || d->aux_at + 8 > size) return false;
    uint64_t target = word_at(body + d->target_at), aux = word_at(body + d->aux_at), at = 0;
    *out = (heap_call){.code = aux ? aux : word_at(body + d->code_at), .is_static = aux != 0};
    const uint8_t *object = target && !aux ? heap_at(d->h, target, 8) : NULL;
    if (object) at = word_at(object) & ~UINT64_C(7);
    out->target_mt = at;
    return true;
}

/* Does it hold a list? Then it calls nothing by itself. */
static bool is_list(const heap_details *d, const uint8_t *body, uint64_t size)
{
    return d->list_at + 8 <= size && d->count_at + 8 <= size && word_at(body + d->list_at) &&
           (int64_t)word_at(body + d->count_at) > 0;
}

bool heap__call_of(heap_details *d, uint64_t delegate, heap_call *out)
{
    uint32_t type = heap_type_of_object(d->h, delegate);
    if (type == GRAPH_NONE) return false;
    const heap_type *t = heap_type_at(d->h->types, type);
    const uint8_t *body = heap_at(d->h, delegate, t->base_size);
    return t->kind == HEAP_DELEGATE && body && read_call(d, t->mt, body, t->base_size, out);
}

void heap__see_delegate(heap_details *d, uint64_t mt, const uint8_t *body, uint64_t size)
{
    heap_call call;
    uint64_t at;
    if (!read_call(d, mt, body, size, &call) || is_list(d, body, size)) return;
    uint64_t key = hash_u64(call.target_mt ^ hash_u64(call.code + call.is_static));
    if (map64_get(&d->call_at, key, &at)) {
        d->calls[at].count++;
        return;
    }
    if (!HEAP_ROOM(d->calls, d->n_calls, d->cap_calls, HEAP_DELEGATES_MAX) || !map64_put(&d->call_at, key, d->n_calls))
        return;
    call.count = 1;
    d->calls[d->n_calls++] = call;
}

/* ---- methods ----------------------------------------------------------------------------------------------------- */

uint64_t heap__method_of(heap *h, uint64_t code)
{
    dac_addr method = 0;
    dac_code c;
    if (!code) return 0;
    if (dac_method_by_ip(h->d, code, &method) && method) return method;
    if (dac_get_code(h->d, code, &c) && c.method) return c.method;
    return 0;
}

/* The name alone: of the metadata, or what stands before the bracket of the runtime's text. */
static void method_name(heap *h, const dac_method *m, slice text, jsonw *w)
{
    const heap_module *module = heap_module_of(h, m->module);
    if (module && module->has_metadata && m->token & 0xFFFFFF) {
        slice name = md_string(&module->md, md_get(&module->md, MD_METHOD_DEF, m->token & 0xFFFFFF, METHOD_NAME));
        if (name.n) {
            jsonw_str(w, name);
            return;
        }
    }
    const uint8_t *open = text.n ? memchr(text.p, '(', text.n) : NULL;
    size_t end = open ? (size_t)(open - text.p) : text.n, from = end;
    while (from && text.p[from - 1] != '.')
        from--;
    jsonw_str(w, slice_of(text.p + from, end - from));
}

void heap__write_slice_or_null(slice s, jsonw *w)
{
    if (s.n)
        jsonw_str(w, s);
    else
        jsonw_null(w);
}

static void mvid_text(const uint8_t *b, char out[40])
{
    snprintf(out, 40, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[3], b[2], b[1], b[0],
             b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static void write_module(const heap_module *m, uint32_t token, jsonw *w)
{
    char mvid[40];
    jsonw_key_lit(w, "moduleName");
    heap__write_slice_or_null(m ? m->name : (slice){0}, w);
    jsonw_key_lit(w, "modulePath");
    heap__write_slice_or_null(m ? m->path : (slice){0}, w);
    if (m && m->has_mvid) mvid_text(m->mvid, mvid);
    jsonw_key_lit(w, "moduleVersionId");
    heap__write_slice_or_null(m && m->has_mvid ? slice_str(mvid) : (slice){0}, w);
    jsonw_key_lit(w, "metadataToken");
    if (token & 0xFFFFFF)
        jsonw_uint(w, token);
    else
        jsonw_null(w);
}

void heap__write_identity_of_method(heap *h, uint64_t method, jsonw *w)
{
    dac_method m;
    if (!method || !dac_get_method(h->d, method, 0, &m)) {
        jsonw_null(w);
        return;
    }
    buf text;
    buf_init(&text, (size_t)METHOD_TEXT * 4);
    dac_method_name(h->d, method, &text);
    jsonw_object(w);
    jsonw_key_lit(w, "methodName");
    method_name(h, &m, buf_view(&text), w);
    jsonw_key_lit(w, "genericArity");
    jsonw_int(w, 0);
    jsonw_key_lit(w, "typeFullName");
    heap__write_type_name(h, m.mt, w);
    write_module(heap_module_of(h, m.module), m.token, w);
    jsonw_end_object(w);
    buf_fini(&text);
}

void heap__write_method(heap *h, uint64_t method, uint64_t code, jsonw *w)
{
    dac_method m = {0};
    buf text;
    buf_init(&text, (size_t)METHOD_TEXT * 4);
    bool known = method && dac_get_method(h->d, method, 0, &m);
    if (known)
        dac_method_name(h->d, method, &text);
    else if (!dac_code_name(h->d, code, &text))
        buf_printf(&text, "0x%llx", (unsigned long long)code);
    while (text.n && !text.p[text.n - 1])
        text.n--;
    jsonw_key_lit(w, "declaringTypeFullName");
    if (known)
        heap__write_type_name(h, m.mt, w);
    else
        jsonw_cstr(w, "?");
    jsonw_key_lit(w, "methodName");
    if (known)
        method_name(h, &m, buf_view(&text), w);
    else
        jsonw_str(w, buf_view(&text));
    jsonw_key_lit(w, "methodSignature");
    heap__write_slice_or_null(known ? buf_view(&text) : (slice){0}, w);
    const heap_module *module = known ? heap_module_of(h, m.module) : NULL;
    jsonw_key_lit(w, "moduleName");
    heap__write_slice_or_null(module ? module->name : (slice){0}, w);
    jsonw_key_lit(w, "method");
    heap__write_identity_of_method(h, known ? method : 0, w);
    buf_fini(&text);
}

void heap__write_type_name(heap *h, uint64_t mt, jsonw *w)
{
    char name[TYPE_TEXT];
    heap__write_slice_or_null(slice_str(heap_type_text(h, mt, name, sizeof name)), w);
}

const heap_module *heap__module_of_type(heap *h, uint64_t mt)
{
    dac_method_table t;
    return mt && dac_get_method_table(h->d, mt, &t) ? heap_module_of(h, t.module) : NULL;
}

void heap__write_type_identity(heap *h, uint64_t mt, jsonw *w)
{
    dac_method_table t;
    if (!mt || !dac_get_method_table(h->d, mt, &t)) {
        jsonw_null(w);
        return;
    }
    jsonw_object(w);
    jsonw_key_lit(w, "typeFullName");
    heap__write_type_name(h, mt, w);
    write_module(heap_module_of(h, t.module), t.token, w);
    jsonw_end_object(w);
}

/* ---- the section ------------------------------------------------------------------------------------------------- */

static int by_method(const void *a, const void *b)
{
    const heap_call *x = a, *y = b;
    if (x->target_mt != y->target_mt) return x->target_mt < y->target_mt ? -1 : 1;
    if (x->is_static != y->is_static) return x->is_static ? 1 : -1;
    uint64_t m = x->method ? x->method : x->code, k = y->method ? y->method : y->code;
    return m < k ? -1 : m > k;
}

static int by_count(const void *a, const void *b)
{
    const heap_call *x = a, *y = b;
    return x->count < y->count ? 1 : x->count > y->count ? -1 : by_method(a, b);
}

/* Code of one method may have several addresses: a stub, versions of it. */
static size_t together(heap_call *v, size_t n)
{
    size_t k = 0;
    if (n) qsort(v, n, sizeof *v, by_method);
    for (size_t i = 0; i < n; i++) {
        if (k && by_method(&v[k - 1], &v[i]) == 0)
            v[k - 1].count += v[i].count;
        else
            v[k++] = v[i];
    }
    if (k) qsort(v, k, sizeof *v, by_count);
    return k;
}

void heap__write_delegates(heap_details *d, jsonw *w)
{
    for (size_t i = 0; i < d->n_calls; i++)
        d->calls[i].method = heap__method_of(d->h, d->calls[i].code);
    d->n_calls = together(d->calls, d->n_calls);
    d->total = (heap_total){.rows = d->n_calls};
    jsonw_array(w);
    for (size_t i = 0; i < d->n_calls && i < HEAP_ROWS_MAX; i++) {
        const heap_call *c = &d->calls[i];
        jsonw_object(w);
        jsonw_key_lit(w, "targetTypeFullName");
        heap__write_type_name(d->h, c->target_mt, w);
        heap__write_method(d->h, c->method, c->code, w);
        jsonw_key_lit(w, "subscriberCount");
        jsonw_uint(w, c->count);
        jsonw_key_lit(w, "isStaticTarget");
        jsonw_bool(w, c->is_static);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}
