/* SPDX-License-Identifier: MIT */
/* methods.c: events into the rows of the method map: which kinds it reads, what it keeps of them, its cap. */
#include "clr/methods.h"

#include <stdlib.h>

#include "base/utf.h"
#include "clr/methods_internal.h"

/* A code is one of these and the row's kind in the low bits. */
enum {
    OF_METHOD = 8,
    OF_NAMED_METHOD = 16,
    OF_ENTRY_POINT = 24,
    OF_MODULE = 32,
    OF_ASSEMBLY = 40,
    OF_ASSEMBLY_V0 = 48
};
#define CODE_KIND(code) ((clr__row_kind)((code)&7))
#define CODE_OF(code)   ((code) & ~7)

/* An id of a provider, as a code. V0 of AssemblyLoad and its kin lacks BindingID. */
typedef struct known_id {
    uint16_t id, code;
} known_id;

static const known_id runtime_ids[] = {
    {137, OF_METHOD | CLR__ALIVE},       {138, OF_METHOD | CLR__ALIVE},        {139, OF_NAMED_METHOD | CLR__ALIVE},
    {140, OF_NAMED_METHOD | CLR__ALIVE}, {141, OF_METHOD | CLR__LOAD},         {142, OF_METHOD | CLR__UNLOAD},
    {143, OF_NAMED_METHOD | CLR__LOAD},  {144, OF_NAMED_METHOD | CLR__UNLOAD}, {149, OF_MODULE | CLR__ALIVE},
    {150, OF_MODULE | CLR__ALIVE},       {152, OF_MODULE | CLR__LOAD},         {153, OF_MODULE | CLR__UNLOAD},
    {154, OF_ASSEMBLY | CLR__LOAD},      {159, OF_ENTRY_POINT | CLR__NAME},
};
static const known_id rundown_ids[] = {
    {141, OF_METHOD | CLR__ALIVE},       {142, OF_METHOD | CLR__ALIVE},   {143, OF_NAMED_METHOD | CLR__ALIVE},
    {144, OF_NAMED_METHOD | CLR__ALIVE}, {153, OF_MODULE | CLR__ALIVE},   {154, OF_MODULE | CLR__ALIVE},
    {155, OF_ASSEMBLY | CLR__ALIVE},     {156, OF_ASSEMBLY | CLR__ALIVE},
};

/* Bytes that a string costs besides its own: entry, index cells, alignment. */
#define TEXT_OVERHEAD ((size_t)40)
/* The same of a map's entry, with the free slots around it. */
#define MAP_OVERHEAD ((size_t)48)
#define ROW_COST     (sizeof(clr__row) + sizeof(clr__life))
#define ROWS_FIRST   ((size_t)256)

clr_methods *clr_methods_new(size_t max_bytes)
{
    clr_methods *m = mem_calloc(1, sizeof *m);
    if (!m) return NULL;
    m->max = max_bytes ? max_bytes : CLR_METHODS_MAX_BYTES;
    m->index = mem_calloc(1, sizeof *m->index);
    m->text = strtab_new(0, 0);
    buf_init(&m->scratch, 4 * CLR_METHOD_NAME_MAX);
    if (!m->index || !m->text) {
        clr_methods_free(m);
        return NULL;
    }
    return m;
}

void clr_methods_free(clr_methods *m)
{
    if (!m) return;
    if (m->index) free(m->index->lives);
    free(m->index);
    strtab_free(m->text);
    free(m->rows);
    free(m->modules);
    free(m->want);
    map64_fini(&m->module_at);
    map64_fini(&m->assembly_names);
    map64_fini(&m->needed);
    buf_fini(&m->scratch);
    free(m);
}

size_t clr_methods_memory(const clr_methods *m)
{
    return sizeof *m + m->cap * ROW_COST + m->text_bytes + m->modules_cap * sizeof *m->modules +
           m->n_want * sizeof *m->want + (m->module_at.n + m->assembly_names.n + m->needed.n) * MAP_OVERHEAD +
           m->scratch.cap;
}
uint64_t clr_methods_dropped(const clr_methods *m) { return m->dropped; }
size_t clr_methods_count(const clr_methods *m) { return m->n; }

static bool has_room(const clr_methods *m, size_t more)
{
    size_t held = clr_methods_memory(m);
    return held <= m->max && more <= m->max - held;
}

static int code_of(const known_id *ids, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i].id == id) return ids[i].code;
    return 0;
}

int clr_methods_kind(const nt_kind *k)
{
    int code = 0;
    if (slice_eq_str(k->provider, "Microsoft-Windows-DotNETRuntime"))
        code = code_of(runtime_ids, sizeof runtime_ids / sizeof *runtime_ids, k->id);
    else if (slice_eq_str(k->provider, "Microsoft-Windows-DotNETRuntimeRundown"))
        code = code_of(rundown_ids, sizeof rundown_ids / sizeof *rundown_ids, k->id);
    if (CODE_OF(code) == OF_ASSEMBLY && k->version == 0) code += OF_ASSEMBLY_V0 - OF_ASSEMBLY;
    return code;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* CLR__NO_TEXT: no room. */
static uint32_t intern(clr_methods *m, slice s)
{
    if (!has_room(m, s.n + TEXT_OVERHEAD)) return strtab_find(m->text, s);
    uint32_t before = strtab_count(m->text), id = strtab_intern(m->text, s);
    if (strtab_count(m->text) != before) m->text_bytes += s.n + TEXT_OVERHEAD;
    return id;
}

/* Into *out, borrowed until the next call; cut at the cap. False: no memory. */
static bool to_utf8(clr_methods *m, slice utf16, slice *out)
{
    buf_reset(&m->scratch);
    if (utf16.n > 2 * CLR_METHOD_NAME_MAX) utf16.n = 2 * CLR_METHOD_NAME_MAX;
    if (!utf16le_to_utf8(utf16, &m->scratch)) return false;
    *out = buf_view(&m->scratch);
    out->n = utf8_cut(*out, CLR_METHOD_NAME_MAX);
    return true;
}

static uint32_t intern16(clr_methods *m, slice utf16)
{
    slice s;
    return to_utf8(m, utf16, &s) ? intern(m, s) : CLR__NO_TEXT;
}

/* The three names where the cursor stands. False: damaged (*c failed), or no room. */
static bool read_text3(clr_methods *m, cursor *c, clr__text3 *out)
{
    slice namespace_ = cursor_utf16z(c, SIZE_MAX), name = cursor_utf16z(c, SIZE_MAX);
    slice signature = cursor_utf16z(c, SIZE_MAX);
    if (!cursor_ok(c)) return false;
    out->namespace_ = intern16(m, namespace_);
    out->name = intern16(m, name);
    out->signature = intern16(m, signature);
    return out->namespace_ != CLR__NO_TEXT && out->name != CLR__NO_TEXT && out->signature != CLR__NO_TEXT;
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

/* The file's name without folder and extension. */
static slice file_stem(slice path)
{
    static const char *const ends[] = {".dll", ".exe", ".DLL", ".EXE"};
    size_t at = path.n;
    while (at > 0 && path.p[at - 1] != '/' && path.p[at - 1] != '\\')
        at--;
    slice s = {path.p ? path.p + at : NULL, path.n - at};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (s.n > 4 && slice_ends(s, slice_str(ends[i]))) s.n -= 4;
    return s;
}

static bool grow_modules(clr_methods *m)
{
    uint32_t cap = m->modules_cap ? m->modules_cap * 2 : 64;
    if (!has_room(m, (cap - m->modules_cap) * sizeof *m->modules)) return false;
    clr__module *modules = mem_realloc(m->modules, cap * sizeof *modules);
    if (!modules) return false;
    m->modules = modules;
    m->modules_cap = cap;
    return true;
}

/* Another module of this id, from now on the one that has it. UINT32_MAX: no room. */
static uint32_t add_module(clr_methods *m, uint64_t id)
{
    if (!has_room(m, MAP_OVERHEAD) || (m->n_modules == m->modules_cap && !grow_modules(m))) return UINT32_MAX;
    if (!map64_put(&m->module_at, id, m->n_modules)) return UINT32_MAX;
    m->modules[m->n_modules] =
        (clr__module){.id = id, .name = CLR__NO_TEXT, .path = CLR__NO_TEXT, .pdb_path = CLR__NO_TEXT};
    return m->n_modules++;
}

static uint32_t module_of(clr_methods *m, uint64_t id)
{
    uint64_t at;
    return map64_get(&m->module_at, id, &at) ? (uint32_t)at : add_module(m, id);
}

/* Which managed PDB belongs to it, where the event tells (version 2): behind the native path. What does not fit is left
 * out. */
static void take_pdb(clr_methods *m, clr__module *mod, cursor *c)
{
    static const uint8_t none[16] = {0};
    (void)cursor_utf16z(c, SIZE_MAX);
    cursor_skip(c, 2); /* ClrInstanceID */
    slice guid = cursor_bytes(c, 16);
    uint32_t age = cursor_u32(c);
    slice path = cursor_utf16z(c, SIZE_MAX);
    if (!cursor_ok(c) || guid.n != sizeof none || memcmp(guid.p, none, sizeof none) == 0) return;
    mod->has_pdb = true;
    mod->pdb_age = age;
    memcpy(mod->pdb_guid, guid.p, sizeof mod->pdb_guid);
    if (path.n) mod->pdb_path = intern16(m, path);
}

/* -ERR_MALFORMED: too short. -ERR_LIMIT: no room. */
static int take_module(clr_methods *m, clr__row_kind kind, cursor *c)
{
    uint64_t id = cursor_u64(c), assembly = cursor_u64(c);
    cursor_skip(c, 8); /* ModuleFlags, Reserved1 */
    slice utf16 = cursor_utf16z(c, SIZE_MAX), path;
    if (!cursor_ok(c)) return -ERR_MALFORMED;
    if (!to_utf8(m, utf16, &path)) return -ERR_LIMIT;
    slice stem = file_stem(path);
    uint32_t name = stem.n ? intern(m, stem) : CLR__NO_TEXT, at = module_of(m, id);
    if (at == UINT32_MAX || (stem.n && name == CLR__NO_TEXT)) return -ERR_LIMIT;
    /* another name at the same address, its unload unseen: what was loaded from the old one keeps it */
    if (m->modules[at].name != CLR__NO_TEXT && m->modules[at].name != name) at = add_module(m, id);
    if (at == UINT32_MAX) return -ERR_LIMIT;
    m->modules[at].assembly = assembly;
    m->modules[at].name = name;
    if (path.n) m->modules[at].path = intern(m, path);
    take_pdb(m, &m->modules[at], c);
    if (kind == CLR__UNLOAD) map64_del(&m->module_at, id);
    return 0;
}

/* "Name, Version=..." -> Name. */
static int take_assembly(clr_methods *m, bool first_version, cursor *c)
{
    uint64_t id = cursor_u64(c);
    cursor_skip(c, first_version ? 8 + 4 : 16 + 4); /* AppDomainID, BindingID, AssemblyFlags */
    slice full = cursor_utf16z(c, SIZE_MAX);
    if (!cursor_ok(c)) return -ERR_MALFORMED;
    slice name;
    if (!to_utf8(m, full, &name)) return -ERR_LIMIT;
    const uint8_t *comma = name.n ? memchr(name.p, ',', name.n) : NULL;
    if (comma) name.n = (size_t)(comma - name.p);
    uint32_t text = intern(m, name);
    if (text == CLR__NO_TEXT || !has_room(m, MAP_OVERHEAD)) return -ERR_LIMIT;
    return map64_put(&m->assembly_names, id, text) ? 0 : -ERR_LIMIT;
}

/* ---- methods ----------------------------------------------------------------------------------------------------- */

static bool grow_rows(clr_methods *m)
{
    size_t more = m->cap ? m->cap / 2 : ROWS_FIRST;
    while (more && !has_room(m, more * ROW_COST))
        more /= 2;
    if (!more || m->cap + more > CLR__SEQ_MAX) return false;
    clr__row *rows = mem_realloc(m->rows, (m->cap + more) * sizeof *rows);
    if (!rows) return false;
    m->rows = rows;
    m->cap += more;
    return true;
}

static int add_row(clr_methods *m, clr__row row)
{
    if (m->seq == CLR__SEQ_MAX || (m->n == m->cap && !grow_rows(m))) return -ERR_LIMIT;
    row.seq = m->seq++ & (CLR__SEQ_MAX - 1);
    m->rows[m->n++] = row;
    m->index->fresh = false;
    return 0;
}

static bool is_wanted(const clr_methods *m, uint64_t start, uint32_t size)
{
    if (!m->wanting) return true;
    size_t lo = 0, hi = m->n_want;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (m->want[mid] < start)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < m->n_want && m->want[lo] - start < size;
}

static uint64_t hash_text3(clr__text3 t)
{
    return hash_u64((uint64_t)t.namespace_ << 32 | t.name) * 31 + t.signature + 1;
}

/* A row that only names its method, if a wanted one waits for that name. */
static int take_name(clr_methods *m, clr__row row)
{
    uint64_t have, hash = hash_text3(row.text);
    if (m->wanting) {
        if (!map64_get(&m->needed, row.method_id, &have) || have == hash) return 0;
        map64_put(&m->needed, row.method_id, hash);
    }
    row.kind = CLR__NAME;
    row.start = 0;
    row.size = 0;
    return add_row(m, row);
}

/* A wanted body without a name: whoever names its method later is kept. */
static int note_needed(clr_methods *m, uint64_t method_id)
{
    uint64_t have;
    if (map64_get(&m->needed, method_id, &have)) return 0;
    return has_room(m, MAP_OVERHEAD) && map64_put(&m->needed, method_id, 0) ? 0 : -ERR_LIMIT;
}

/* What follows the fixed part or the names: ClrInstanceID and, from version 2 on, ReJITID. */
static uint64_t rejit_of(cursor c)
{
    cursor_skip(&c, 2);
    return cursor_u64(&c);
}

static int take_method(clr_methods *m, clr__row_kind kind, bool named, int64_t ts, cursor *c)
{
    clr__row row = {.method_id = cursor_u64(c), .ts = ts, .kind = kind & 7};
    uint64_t module_id = cursor_u64(c), have;
    row.start = cursor_u64(c);
    row.size = cursor_u32(c);
    row.token = cursor_u32(c);
    row.flags = cursor_u32(c);
    row.text = (clr__text3){CLR__NO_TEXT, CLR__NO_TEXT, CLR__NO_TEXT};
    if (!cursor_ok(c) || row.size > CLR_METHOD_SIZE_MAX || row.start > UINT64_MAX - row.size) return -ERR_MALFORMED;
    bool body = row.size > 0 && row.start > 0, wanted = body && is_wanted(m, row.start, row.size);
    if (!wanted && !(named && (!m->wanting || map64_get(&m->needed, row.method_id, &have)))) return 0;
    if (named && !read_text3(m, c, &row.text)) return cursor_ok(c) ? -ERR_LIMIT : -ERR_MALFORMED;
    if (!wanted) return take_name(m, row);
    row.rejit_id = rejit_of(*c);
    row.module = module_of(m, module_id);
    if (row.module == UINT32_MAX) return -ERR_LIMIT;
    if (m->wanting && !named && note_needed(m, row.method_id) < 0) return -ERR_LIMIT;
    return add_row(m, row);
}

/* Where the entry point stands behind three names; 0: it was not told, or there is none. */
static uint64_t entry_of(cursor c)
{
    for (int i = 0; i < 3; i++)
        (void)cursor_utf16z(&c, SIZE_MAX);
    uint64_t entry = cursor_u64(&c);
    return cursor_ok(&c) && entry <= UINT64_MAX - CLR_ENTRY_REACH ? entry : 0;
}

/* R2RGetEntryPoint: name and beginning of a precompiled method, without the size of its body. */
static int take_entry_point(clr_methods *m, int64_t ts, cursor *c)
{
    clr__row row = {.method_id = cursor_u64(c), .ts = ts};
    uint64_t have;
    if (!cursor_ok(c)) return -ERR_MALFORMED;
    row.start = entry_of(*c);
    bool wanted = row.start && is_wanted(m, row.start, CLR_ENTRY_REACH);
    if (!wanted && m->wanting && !map64_get(&m->needed, row.method_id, &have)) return 0;
    if (!read_text3(m, c, &row.text)) return cursor_ok(c) ? -ERR_LIMIT : -ERR_MALFORMED;
    if (!wanted) return take_name(m, row);
    row.kind = CLR__ENTRY;
    m->entries = true;
    return add_row(m, row);
}

int clr_methods_event(clr_methods *m, int code, const nt_event *ev)
{
    cursor c = cursor_of(ev->payload, 0);
    int rc = 0;
    switch (CODE_OF(code)) {
    case OF_METHOD:
    case OF_NAMED_METHOD: rc = take_method(m, CODE_KIND(code), CODE_OF(code) == OF_NAMED_METHOD, ev->ts, &c); break;
    case OF_ENTRY_POINT: rc = take_entry_point(m, ev->ts, &c); break;
    case OF_MODULE: rc = take_module(m, CODE_KIND(code), &c); break;
    case OF_ASSEMBLY:
    case OF_ASSEMBLY_V0: rc = take_assembly(m, CODE_OF(code) == OF_ASSEMBLY_V0, &c); break;
    default: return 0;
    }
    if (rc >= 0) return 0;
    m->dropped++;
    if (rc != -ERR_LIMIT || m->told) return 0;
    m->told = true;
    return rc;
}

/* ---- what is wanted ---------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static size_t sort_unique(uint64_t *v, size_t n)
{
    size_t kept = 0;
    if (n) qsort(v, n, sizeof *v, by_value);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || v[i] != v[kept - 1]) v[kept++] = v[i];
    return kept;
}

/* The ids of wanted bodies that have no name yet; which names are kept for them is found out anew. */
static bool collect_needed(clr_methods *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const clr__row *r = &m->rows[i];
        if (r->kind == CLR__NAME || clr__named(r) || !is_wanted(m, r->start, r->size)) continue;
        if (note_needed(m, r->method_id) < 0 || !map64_put(&m->needed, r->method_id, 0)) return false;
    }
    return true;
}

/* What dropped rows held is room for others. */
static void give_back(clr_methods *m)
{
    size_t cap = m->n + m->n / 2 + ROWS_FIRST;
    if (cap >= m->cap) return;
    clr__row *rows = mem_realloc(m->rows, cap * sizeof *rows);
    if (!rows) return;
    m->rows = rows;
    m->cap = cap;
    free(m->index->lives);
    m->index->lives = NULL;
    m->index->cap = 0;
}

/* Rows that no wanted address hits go; those that name a wanted method stay for that. */
static void drop_unwanted(clr_methods *m)
{
    size_t kept = 0;
    m->entries = false;
    for (size_t i = 0; i < m->n; i++) {
        clr__row r = m->rows[i];
        uint64_t have;
        if (r.kind == CLR__NAME || !is_wanted(m, r.start, clr__reach(&r))) {
            if (!clr__named(&r) || !map64_get(&m->needed, r.method_id, &have) || have == hash_text3(r.text)) continue;
            map64_put(&m->needed, r.method_id, hash_text3(r.text));
            r.kind = CLR__NAME;
            r.start = 0;
            r.size = 0;
        }
        m->entries = m->entries || r.kind == CLR__ENTRY;
        m->rows[kept++] = r;
    }
    m->n = kept;
    m->index->fresh = false;
    give_back(m);
}

bool clr_methods_want(clr_methods *m, const uint64_t *ips, size_t n)
{
    if (!ips) {
        free(m->want);
        m->want = NULL;
        m->n_want = 0;
        m->wanting = false;
        map64_clear(&m->needed);
        return true;
    }
    /* rows are about to make room, so a map that is full of them can still be told what is wanted */
    size_t others = clr_methods_memory(m) - m->cap * ROW_COST, max = m->max;
    if (others > max || n > (max - others) / sizeof *ips) return false;
    uint64_t *all = mem_alloc((m->n_want + n + 1) * sizeof *all);
    if (!all) return false;
    if (m->n_want) memcpy(all, m->want, m->n_want * sizeof *all);
    if (n) memcpy(all + m->n_want, ips, n * sizeof *all);
    uint64_t *old = m->want;
    size_t n_old = m->n_want;
    bool was = m->wanting;
    m->want = all;
    m->n_want = sort_unique(all, n_old + n);
    m->wanting = true;
    m->max += max / 4; /* for a moment */
    bool collected = collect_needed(m);
    m->max = max;
    if (!collected) { /* what it noted so far does no harm */
        free(all);
        m->want = old;
        m->n_want = n_old;
        m->wanting = was;
        return false;
    }
    free(old);
    drop_unwanted(m);
    return true;
}
