/* SPDX-License-Identifier: MIT */
/* job_frames.c: the jobs `resolve` (what lies at addresses) and `frame-vars` (references in the frames of one thread).
 * Both stop a live target for as long as they read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf.h"
#include "memory/jobs.h"
#include "memory/stacks.h"

#define ADDRESSES_MAX    256
#define FRAMES_MAX       512
#define VARS_MAX         4096
#define STRING_UNITS_MAX 256
#define THREADS_GUARD    20000
#define STRING_COUNT_AT  8
#define STRING_DATA_AT   12

typedef struct looking {
    mem_job *j;
    mem_target *t;
    dac *d; /* NULL: no managed code */
    jsonw *w;
} looking;

static void key_str(jsonw *w, const char *key, slice v)
{
    jsonw_key_lit(w, key);
    jsonw_str(w, v);
}

static void key_hex(jsonw *w, const char *key, uint64_t v)
{
    jsonw_key_lit(w, key);
    jsonw_hex(w, v);
}

static void key_int(jsonw *w, const char *key, int64_t v)
{
    jsonw_key_lit(w, key);
    jsonw_int(w, v);
}

static void key_bool(jsonw *w, const char *key, bool v)
{
    jsonw_key_lit(w, key);
    jsonw_bool(w, v);
}

static int open_target(looking *l, mem_job *j, err *e)
{
    dac_runtime rt;
    l->j = j;
    int rc = job_target(j, &l->t, e);
    if (rc >= 0) rc = job_stop(j, e);
    if (rc < 0) return rc;
    dac_find_runtime(l->t, &rt);
    if (rt.kind == DAC_CORECLR || rt.kind == DAC_SINGLE_FILE)
        rc = dac_open(l->t, job_text(j, "dacPath", NULL), &l->d, e);
    if (rc < 0) return rc;
    l->w = job_json(j);
    jsonw_object(l->w);
    return 0;
}

static int close_target(looking *l, err *e)
{
    job_resume(l->j);
    key_int(l->w, "stopNs", mem_stop_ns(l->t));
    jsonw_end_object(l->w);
    bool gone = mem_gone(l->t);
    dac_close(l->d);
    return gone ? err_set(e, ERR_PROCESS_EXITED, "process %d ended while it was looked at", (int)mem_pid(l->t)) : 0;
}

/* ---- methods and modules ---- */

/* Name, token, path and version id of a method's module. */
static void write_method(looking *l, dac_addr method)
{
    dac_method info;
    dac_module module;
    clr_names names;
    buf b;
    buf_init(&b, 0);
    if (dac_method_name(l->d, method, &b)) key_str(l->w, "name", buf_view(&b));
    if (dac_get_method(l->d, method, 0, &info)) {
        key_int(l->w, "token", info.token);
        key_bool(l->w, "dynamic", info.is_dynamic != 0);
        buf_reset(&b);
        if (dac_get_module(l->d, info.module, &module) && dac_pe_file_name(l->d, module.pe_assembly, &b))
            key_str(l->w, "modulePath", buf_view(&b));
        clr_names_init(&names, l->d);
        const sym_md *md = clr_metadata(&names, info.module);
        const uint8_t *g = md ? md_guid(md, md_get(md, MD_MODULE, 1, MODULE_MVID)) : NULL;
        if (g) {
            char text[40];
            int n = snprintf(text, sizeof text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                             g[3], g[2], g[1], g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13],
                             g[14], g[15]);
            key_str(l->w, "mvid", slice_of(text, (size_t)n));
        }
        clr_names_fini(&names);
    }
    buf_fini(&b);
}

static void write_module(looking *l, const mem_module *m, uint64_t address)
{
    char id[2 * MEM_BUILD_ID_MAX + 1] = "";
    for (size_t k = 0; k < m->build_id_size; k++)
        snprintf(id + 2 * k, 3, "%02x", m->build_id[k]);
    key_str(l->w, "module", slice_str(m->path));
    key_hex(l->w, "rva", address - m->bias);
    key_str(l->w, "buildId", slice_str(id));
}

static void resolve_one(looking *l, uint64_t address)
{
    dac_addr method = 0;
    dac_code code = {0};
    uint8_t byte;
    jsonw_object(l->w);
    key_hex(l->w, "address", address);
    if (l->d && !dac_method_by_ip(l->d, address, &method))
        method = dac_get_code(l->d, address, &code) ? code.method : 0;
    const mem_module *m = mem_module_of(l->t, address);
    if (method) {
        key_str(l->w, "kind", SLICE_LIT("managed"));
        write_method(l, method);
        if (code.start || dac_get_code(l->d, address, &code)) key_hex(l->w, "offset", address - code.start);
    } else if (m) {
        key_str(l->w, "kind", SLICE_LIT("module"));
        write_module(l, m, address);
    } else if (mem_read(l->t, address, &byte, 1) == 1 || mem_mapping_of(l->t, address)) {
        const mem_mapping *map = mem_mapping_of(l->t, address);
        key_str(l->w, "kind", SLICE_LIT("mapped-non-module"));
        if (map && map->path[0]) key_str(l->w, "module", slice_str(map->path));
        if (map) key_hex(l->w, "rva", address - map->start);
    } else
        key_str(l->w, "kind", SLICE_LIT("unmapped-or-not-captured"));
    jsonw_end_object(l->w);
}

int job_resolve(mem_job *j, err *e)
{
    looking l = {0};
    jsonr r;
    int rc = open_target(&l, j, e);
    if (rc < 0) {
        dac_close(l.d);
        return rc;
    }
    jsonw_key_lit(l.w, "addresses");
    jsonw_array(l.w);
    jsonr_init(&r, job_raw(j, "addresses"));
    int n = 0;
    for (json_tok t = jsonr_next(&r); t != JSON_END && t != JSON_ERROR && n < ADDRESSES_MAX; t = jsonr_next(&r)) {
        char text[32];
        if (t != JSON_STR || r.str.n == 0 || r.str.n >= sizeof text) continue;
        memcpy(text, r.str.p, r.str.n);
        text[r.str.n] = '\0';
        resolve_one(&l, strtoull(text, NULL, 0));
        n++;
    }
    jsonr_fini(&r);
    jsonw_end_array(l.w);
    return close_target(&l, e);
}

/* ---- references in frames ---- */

static void write_string(looking *l, const char *key, dac_addr object)
{
    uint32_t n = 0;
    uint16_t units[STRING_UNITS_MAX];
    buf b;
    if (!dac_read(l->d, object + STRING_COUNT_AT, &n, sizeof n)) return;
    uint32_t shown = n < STRING_UNITS_MAX ? n : STRING_UNITS_MAX;
    if (shown > 0 && !dac_read(l->d, object + STRING_DATA_AT, units, shown * sizeof units[0])) return;
    buf_init(&b, 0);
    if (utf16le_to_utf8(slice_of(units, shown * sizeof units[0]), &b)) key_str(l->w, key, buf_view(&b));
    buf_fini(&b);
    if (n > shown) key_bool(l->w, "cut", true);
}

/* "rbp-0x18", "rsi", or the address of the slot. */
static void write_location(looking *l, const dac_stack_ref *r)
{
    char text[96] = "";
    buf b;
    buf_init(&b, 0);
    if (r->has_register && dac_register_name(l->d, r->reg, &b))
        snprintf(text, sizeof text, "%.*s", (int)(b.n < 32 ? b.n : 32), (const char *)b.p);
    buf_fini(&b);
    size_t n = strlen(text);
    if (r->address && n == 0)
        snprintf(text, sizeof text, "0x%llx", (unsigned long long)r->address);
    else if (r->address)
        snprintf(text + n, sizeof text - n, "%c0x%x", r->offset < 0 ? '-' : '+',
                 r->offset < 0 ? (unsigned)-r->offset : (unsigned)r->offset);
    key_str(l->w, "location", slice_str(text));
}

static void write_var(looking *l, const dac_stack_ref *r, const dac_globals *g, bool strings)
{
    buf b;
    buf_init(&b, 0);
    bool interior = (r->flags & 1) != 0;
    jsonw_object(l->w);
    if (!interior && dac_object_class(l->d, r->object, &b)) key_str(l->w, "type", buf_view(&b));
    key_hex(l->w, "address", r->object);
    write_location(l, r);
    key_bool(l->w, "pinned", (r->flags & 2) != 0);
    key_bool(l->w, "interior", interior);
    if (strings && !interior && (dac_word(l->d, r->object) & ~(dac_addr)7) == g->string)
        write_string(l, "preview", r->object);
    jsonw_end_object(l->w);
    buf_fini(&b);
}

static void write_frame(looking *l, const stack_frame *f, const dac_stack_ref *refs, size_t n, const dac_globals *g,
                        bool strings)
{
    uint32_t vars = 0;
    jsonw_object(l->w);
    key_hex(l->w, "ip", f->ip);
    key_hex(l->w, "sp", f->sp);
    key_bool(l->w, "managed", f->kind == STACK_MANAGED);
    if (f->method) write_method(l, f->method);
    jsonw_key_lit(l->w, "variables");
    jsonw_array(l->w);
    for (size_t i = 0; i < n && vars < VARS_MAX; i++) {
        bool here = f->kind == STACK_MANAGED ? refs[i].source == f->ip && refs[i].sp == f->sp
                                             : refs[i].source_type == 1 && refs[i].source == f->frame;
        if (!here || !refs[i].object) continue;
        write_var(l, &refs[i], g, strings);
        vars++;
    }
    jsonw_end_array(l->w);
    jsonw_end_object(l->w);
}

static bool find_thread(looking *l, uint32_t managed_id, dac_thread *out)
{
    dac_thread_store ts = {0};
    if (!dac_get_thread_store(l->d, &ts)) return false;
    dac_addr at = ts.first;
    for (int i = 0; at && i < THREADS_GUARD; i++) {
        if (!dac_get_thread(l->d, at, out)) return false;
        if (out->managed_id == managed_id && out->os_id) return true;
        at = out->next;
    }
    return false;
}

static void write_exception(looking *l, const dac_thread *t, bool strings)
{
    dac_exception x;
    buf b;
    dac_addr object = t->last_thrown_handle ? dac_word(l->d, t->last_thrown_handle) : 0;
    buf_init(&b, 0);
    if (object && dac_object_class(l->d, object, &b)) {
        key_str(l->w, "exceptionType", buf_view(&b));
        if (strings && dac_get_exception(l->d, object, &x) && x.message) write_string(l, "exceptionMessage", x.message);
    }
    buf_fini(&b);
}

static int thread_vars(looking *l, err *e)
{
    uint32_t id = (uint32_t)job_int(l->j, "threadId", 0);
    bool strings = job_bool(l->j, "strings", false);
    dac_thread t;
    dac_globals g = {0};
    dac_stack_ref *refs = NULL;
    size_t n_refs = 0;
    stack_end end;
    if (!find_thread(l, id, &t)) return err_set(e, ERR_NOT_FOUND, "there is no thread %u any more", id);
    stack_frame *frames = mem_calloc(FRAMES_MAX, sizeof *frames);
    if (!frames) return err_set(e, ERR_NO_MEMORY, "no memory for frames");
    dac_get_globals(l->d, &g);
    uint32_t n = stack_walk(l->d, t.os_id, frames, FRAMES_MAX, &end);
    key_bool(l->w, "refsRead", dac_stack_refs(l->d, t.os_id, &refs, &n_refs));
    write_exception(l, &t, strings);
    jsonw_key_lit(l->w, "frames");
    jsonw_array(l->w);
    for (uint32_t i = 0; i < n; i++)
        if (frames[i].kind == STACK_MANAGED || frames[i].method) write_frame(l, &frames[i], refs, n_refs, &g, strings);
    jsonw_end_array(l->w);
    free(refs);
    free(frames);
    return 0;
}

int job_frame_vars(mem_job *j, err *e)
{
    looking l = {0};
    int rc = open_target(&l, j, e);
    if (rc >= 0 && !l.d) rc = err_set(e, ERR_NOT_SUPPORTED, "the target has no managed frames that can be read");
    if (rc >= 0) rc = thread_vars(&l, e);
    if (rc < 0) {
        dac_close(l.d);
        return rc;
    }
    return close_target(&l, e);
}
