/* SPDX-License-Identifier: MIT */
/* heap_fields.c: modules with their metadata, and the names and fields of types. */
#include "base/utf.h"
#include "memory/heap_name.h"
#include "memory/heap_own.h"

#define MD_FIELD       0x04
#define FIELD_FLAGS    0
#define FIELD_NAME     1
#define FIELD_HAS_RVA  0x0100u
#define NAME_MAX_BYTES 4096u

bool heap_is_reference(uint32_t element)
{
    switch (element) {
    case HEAP_EL_STRING:
    case HEAP_EL_CLASS:
    case 0x13: /* VAR */
    case 0x14: /* ARRAY */
    case 0x1c: /* OBJECT */
    case 0x1d: /* SZARRAY */ return true;
    default: return false;
    }
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static void module_free(heap_module *m)
{
    if (!m) return;
    free(m->bytes);
    free(m->text);
    free(m);
}

void heap__modules_free(heap *h)
{
    for (size_t i = 0; i < h->n_modules; i++)
        module_free(h->modules[i]);
    free(h->modules);
    map64_fini(&h->module_at);
}

static void read_metadata(heap *h, heap_module *m, const dac_module *at)
{
    size_t n = (size_t)at->metadata_size;
    err e = {0};
    if (!at->metadata || !n || n > HEAP_METADATA_MAX) return;
    const uint8_t *bytes = mem_at(h->t, at->metadata, n); /* of a core: where they are */
    if (!bytes) {
        m->bytes = mem_alloc(n);
        if (m->bytes && mem_read(h->t, at->metadata, m->bytes, n) == n) bytes = m->bytes;
    }
    m->has_metadata = bytes && sym_md_read(&m->md, slice_of(bytes, n), 0, &e) == 0;
    if (!m->has_metadata) {
        free(m->bytes);
        m->bytes = NULL;
        return;
    }
    const uint8_t *guid = md_guid(&m->md, md_get(&m->md, MD_MODULE, 1, MODULE_MVID));
    m->has_mvid = guid != NULL;
    if (guid) memcpy(m->mvid, guid, sizeof m->mvid);
}

static void read_path(heap *h, heap_module *m, const dac_module *at)
{
    buf b;
    buf_init(&b, NAME_MAX_BYTES);
    if (dac_pe_file_name(h->d, at->pe_assembly ? at->pe_assembly : at->self, &b) && b.n) {
        while (b.n && !b.p[b.n - 1])
            b.n--;
        m->text = slice_dup(buf_view(&b));
    }
    buf_fini(&b);
    if (!m->text) return;
    m->path = slice_str(m->text);
    const char *file = strrchr(m->text, '/');
    m->name = slice_str(file ? file + 1 : m->text);
}

const heap_module *heap_module_of(heap *h, uint64_t address)
{
    uint64_t known;
    if (!address) return NULL;
    if (map64_get(&h->module_at, address, &known)) return known ? h->modules[known - 1] : NULL;
    dac_module at;
    heap_module *m = NULL;
    if (dac_get_module(h->d, address, &at) && HEAP_ROOM(h->modules, h->n_modules, h->cap_modules, HEAP_MODULES_MAX))
        m = mem_calloc(1, sizeof *m);
    if (m) {
        m->address = address;
        read_path(h, m, &at);
        read_metadata(h, m, &at);
        h->modules[h->n_modules++] = m;
    }
    map64_put(&h->module_at, address, m ? h->n_modules : 0);
    return m;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* A type of a module that was made at run time: the runtime does not name it, its metadata do (IMetaDataImport). */
static bool dynamic_name(heap *h, uint64_t mt, buf *out)
{
    dac_method_table t;
    return dac_get_method_table(h->d, mt, &t) && t.token & 0xFFFFFF &&
           dac_type_name_in_metadata(h->d, t.module, t.token, out);
}

bool heap_type_name(heap *h, uint64_t mt, buf *out)
{
    buf raw;
    buf_init(&raw, (size_t)NAME_MAX_BYTES * 4);
    if (mt == h->globals.free) return buf_str(out, "Free");
    bool ok = dac_method_table_name(h->d, mt, &raw);
    while (raw.n && !raw.p[raw.n - 1])
        raw.n--;
    if (ok && slice_eq_str(buf_view(&raw), "<Unloaded Type>") && dynamic_name(h, mt, out))
        raw.n = 0;
    else
        ok = ok && raw.n && heap_name_of(buf_view(&raw), out);
    buf_fini(&raw);
    return ok;
}

const char *heap_type_text(heap *h, uint64_t mt, char *to, size_t size)
{
    buf b;
    buf_init(&b, (size_t)NAME_MAX_BYTES * 4);
    size_t n = mt && heap_type_name(h, mt, &b) ? b.n : 0;
    if (n >= size) {
        n = size - 1;
        while (n && (b.p[n] & 0xC0) == 0x80)
            n--;
    }
    if (n) memcpy(to, b.p, n);
    to[n] = 0;
    buf_fini(&b);
    return to;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static heap_kind kind_by_name(const char *name)
{
    static const struct {
        const char *name;
        heap_kind kind;
    } known[] = {{"System.String", HEAP_STRING},
                 {"System.MulticastDelegate", HEAP_DELEGATE},
                 {"System.Threading.TimerQueueTimer", HEAP_TIMER_QUEUE_TIMER},
                 {"System.Threading.Timer", HEAP_TIMER},
                 {"System.Threading.Tasks.Task", HEAP_TASK},
                 {"System.Threading.Tasks.TaskCompletionSource", HEAP_COMPLETION_SOURCE},
                 {"System.Runtime.Loader.AssemblyLoadContext", HEAP_LOAD_CONTEXT}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) return known[i].kind;
    if (strncmp(name, "System.Threading.Tasks.TaskCompletionSource<", 44) == 0) return HEAP_COMPLETION_SOURCE;
    if (strncmp(name, "System.Runtime.CompilerServices.AsyncTaskMethodBuilder", 54) == 0 &&
        strstr(name, "StateMachineBox<"))
        return HEAP_ASYNC_BOX;
    return HEAP_PLAIN;
}

heap_kind heap_kind_of(heap *h, uint64_t mt)
{
    uint64_t path[HEAP_PARENTS_MAX], known = HEAP_PLAIN;
    size_t n = 0;
    while (mt && n < HEAP_PARENTS_MAX && !map64_get(&h->kinds, mt, &known)) {
        char name[256];
        dac_method_table t;
        path[n++] = mt;
        known = kind_by_name(heap_type_text(h, mt, name, sizeof name));
        if (known != HEAP_PLAIN || !dac_get_method_table(h->d, mt, &t)) break;
        mt = t.parent;
    }
    for (size_t i = 0; i < n; i++)
        map64_put(&h->kinds, path[i], known);
    return (heap_kind)known;
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

bool heap_each_field(heap *h, uint64_t mt, heap_field_fn fn, void *arg)
{
    dac_method_table t, parent;
    dac_fields f, above = {0};
    if (!dac_get_method_table(h->d, mt, &t) || !dac_get_fields(h->d, mt, &f)) return false;
    if (t.parent && dac_get_method_table(h->d, t.parent, &parent)) dac_get_fields(h->d, t.parent, &above);
    const heap_module *m = heap_module_of(h, t.module);
    uint32_t n = (uint32_t)(f.instance > above.instance ? f.instance - above.instance : 0) + f.statics;
    uint64_t at = f.first;
    dac_module made;
    bool dynamic = !(m && m->has_metadata) && dac_get_module(h->d, t.module, &made) && made.is_reflection;
    bool ok = true;
    buf name;
    buf_init(&name, (size_t)NAME_MAX_BYTES * 4);
    for (uint32_t i = 0; at && i < n && i < HEAP_FIELDS_MAX; i++) {
        dac_field x;
        ok = dac_get_field(h->d, at, &x);
        if (!ok) break;
        uint32_t row = x.token & 0xFFFFFF;
        heap_field out = {.element = x.type,
                          .token = x.token,
                          .offset = x.offset + (x.is_static ? 0 : 8),
                          .is_static = x.is_static != 0,
                          .is_thread_static = x.is_thread_static != 0,
                          .mt = x.mt};
        if (m && m->has_metadata) {
            out.name = md_string(&m->md, md_get(&m->md, MD_FIELD, row, FIELD_NAME));
            out.has_rva = (md_get(&m->md, MD_FIELD, row, FIELD_FLAGS) & FIELD_HAS_RVA) != 0;
        } else if (dynamic) {
            buf_reset(&name);
            if (dac_field_name_in_metadata(h->d, t.module, x.token, &name)) out.name = buf_view(&name);
        }
        if (!fn(arg, &out)) break;
        at = x.next;
    }
    buf_fini(&name);
    return ok;
}

typedef struct wanted {
    const char *name;
    heap_field *out;
    bool found;
} wanted;

static bool is_wanted(void *arg, const heap_field *f)
{
    wanted *w = arg;
    if (f->is_static || !slice_eq_str(f->name, w->name)) return true;
    *w->out = *f;
    w->out->name = (slice){0};
    w->found = true;
    return false;
}

bool heap_field_named(heap *h, uint64_t mt, const char *name, heap_field *out)
{
    wanted w = {.name = name, .out = out};
    for (unsigned i = 0; mt && i < HEAP_PARENTS_MAX && !w.found; i++) {
        dac_method_table t;
        heap_each_field(h, mt, is_wanted, &w);
        mt = !w.found && dac_get_method_table(h->d, mt, &t) ? t.parent : 0;
    }
    return w.found;
}
