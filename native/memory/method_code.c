/* SPDX-License-Identifier: MIT */
/* method_code.c: from a module's version id and a token to the bytes of native code. A module is known by its metadata,
 * which is read from the target, so that one that was loaded from bytes is found, too. */
#include "memory/method_code.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbols/metadata.h"

#define JITTED       1 /* kind of a body */
#define READY_TO_RUN 5 /* tier */
#define DOMAINS_MAX  64u

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool method_guid(slice text, uint8_t guid[16])
{
    static const uint8_t place[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    size_t at = 0;
    if (text.n != 36) return false;
    for (size_t i = 0; i < 16; i++) {
        if (at == 8 || at == 13 || at == 18 || at == 23) {
            if (text.p[at++] != '-') return false;
        }
        int high = hex(text.p[at]), low = hex(text.p[at + 1]);
        if (high < 0 || low < 0) return false;
        guid[place[i]] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    return true;
}

const char *method_tier_name(uint32_t tier)
{
    switch (tier) {
    case 1: return "MinOptJitted";
    case 2: return "Optimized";
    case 3: return "QuickJitted";
    case 4: return "OptimizedTier1";
    case READY_TO_RUN: return "ReadyToRun";
    case 6: return "OptimizedTier1OSR";
    case 7: return "QuickJittedInstrumented";
    case 8: return "OptimizedTier1Instrumented";
    default: return NULL;
    }
}

/* ---- the module -------------------------------------------------------------------------------------------------- */
typedef struct search {
    dac *d;
    const uint8_t *mvid;
    dac_module found;
    unsigned seen, unreadable;
} search;

static bool is_it(search *s, const dac_module *m)
{
    if (m->metadata == 0 || m->metadata_size == 0 || m->metadata_size > METHOD_METADATA_MAX) return false;
    uint8_t *p = mem_alloc((size_t)m->metadata_size);
    bool same = false;
    if (p && mem_get(dac_target(s->d), m->metadata, p, (size_t)m->metadata_size)) {
        sym_md *md = mem_calloc(1, sizeof *md);
        err quiet = {0};
        if (md && sym_md_read(md, slice_of(p, (size_t)m->metadata_size), 0, &quiet) == 0) {
            const uint8_t *guid = md_guid(md, md_get(md, MD_MODULE, 1, MODULE_MVID));
            same = guid && memcmp(guid, s->mvid, 16) == 0;
        }
        free(md);
    } else {
        s->unreadable++;
    }
    free(p);
    return same;
}

static bool in_assembly(search *s, dac_addr assembly)
{
    dac_addr *modules = NULL;
    uint32_t n = 0;
    bool found = false;
    if (!dac_assembly_modules(s->d, assembly, &modules, &n)) return false;
    for (uint32_t i = 0; i < n && !found; i++) {
        if (!dac_get_module(s->d, modules[i], &s->found)) continue;
        if (s->found.self == 0) s->found.self = modules[i];
        s->seen++;
        found = is_it(s, &s->found);
    }
    free(modules);
    return found;
}

static bool in_domain(search *s, dac_addr domain)
{
    dac_addr *assemblies = NULL;
    uint32_t n = 0;
    bool found = false;
    if (domain == 0 || !dac_assemblies(s->d, domain, &assemblies, &n)) return false;
    for (uint32_t i = 0; i < n && !found; i++)
        found = in_assembly(s, assemblies[i]);
    free(assemblies);
    return found;
}

static int find_module(search *s, err *e)
{
    dac_addr domains[DOMAINS_MAX];
    dac_app_domain_store store = {0};
    uint32_t n = 0;
    bool found = false;
    if (!dac_get_app_domains(s->d, domains, DOMAINS_MAX, &n, &store))
        return err_set(e, ERR_IO, "the runtime's app domains cannot be read");
    for (uint32_t i = 0; i < n && !found; i++)
        found = in_domain(s, domains[i]);
    if (found || in_domain(s, store.system)) return 0;
    int rc = err_set(e, ERR_NOT_FOUND, "none of the %u modules of the process has this version id", s->seen);
    if (s->unreadable)
        err_hint(e, "the metadata of %u of them is not in the dump: take a WithHeap or Full one", s->unreadable);
    else
        err_hint(e, "take moduleVersionId from a method of a capture of the same process: a new build has another one");
    err_detail(e, "moduleVersionId");
    return rc;
}

/* ---- the code ---------------------------------------------------------------------------------------------------- */
static void read_names(dac *d, const dac_module *module, dac_addr method, dac_addr mt, method_code *out)
{
    dac_module_layout layout;
    (void)dac_method_name(d, method, &out->name); /* what has no name stays empty */
    (void)dac_method_table_name(d, mt, &out->type_name);
    if (!dac_pe_file_name(d, module->pe_assembly, &out->module_path)) buf_reset(&out->module_path);
    if (out->module_path.n == 0 && dac_get_module_layout(d, module->self, &layout) && layout.in_memory)
        buf_reset(&out->module_path);
}

/* The body at an address, if a JIT made it. */
static bool jitted(dac *d, dac_addr code, dac_code *out, bool *precompiled)
{
    if (code == 0 || !dac_get_code(d, code, out) || out->start == 0) return false;
    if (out->kind != JITTED) *precompiled = true;
    return out->kind == JITTED;
}

/* The newest body that a JIT made: the one that is called now, else the last of its versions. */
static int choose(dac *d, const dac_method *m, method_code *out, dac_code *code, err *e)
{
    dac_tier tiers[METHOD_CODE_VERSIONS];
    uint32_t n = 0;
    bool precompiled = false, found = false;
    if (!dac_tiers(d, m->self, tiers, METHOD_CODE_VERSIONS, &n)) n = 0;
    out->versions = n ? n : 1;
    if (m->has_native) found = jitted(d, m->native_code, code, &precompiled);
    for (uint32_t i = n; i-- > 0 && !found;)
        found = jitted(d, tiers[i].code, code, &precompiled);
    for (uint32_t i = 0; i < n; i++) {
        if (tiers[i].tier == READY_TO_RUN) precompiled = true;
        if (found && tiers[i].code == code->start) out->tier = tiers[i].tier;
    }
    if (found) return 0;
    if (precompiled) {
        int rc =
            err_set(e, ERR_NOT_SUPPORTED,
                    "the method runs as precompiled (ReadyToRun) code, which no JIT has made: it is in the file %.*s",
                    (int)out->module_path.n, (const char *)out->module_path.p);
        err_hint(e, "disassemble that file, or start the process with DOTNET_ReadyToRun=0");
        return rc;
    }
    int rc = err_set(e, ERR_NOT_FOUND,
                     "the method has no native code: it was not called yet, or it was inlined into its callers");
    err_hint(e, "of a generic method give codeAddress: each instantiation has code of its own");
    return rc;
}

/* The body at ip, which must be of this method: of any instantiation of it. */
static int at_address(dac *d, const dac_module *module, uint32_t token, dac_addr ip, dac_method *m, dac_code *code,
                      method_code *out, err *e)
{
    dac_addr method = 0;
    bool precompiled = false;
    if (!dac_method_by_ip(d, ip, &method) || !dac_get_method(d, method, ip, m) || m->module != module->self ||
        m->token != token) {
        int rc = err_set(e, ERR_INVALID_ARGUMENT, "codeAddress 0x%" PRIx64 " is not in code of this method", ip);
        err_detail(e, "codeAddress");
        return rc;
    }
    read_names(d, module, method, m->mt, out);
    out->versions = m->jitted_versions ? m->jitted_versions : 1;
    if (jitted(d, ip, code, &precompiled)) return 0;
    return choose(d, m, out, code, e); /* says what it is */
}

static int by_token(dac *d, const dac_module *module, uint32_t token, dac_method *m, dac_code *code, method_code *out,
                    err *e)
{
    dac_addr method = 0;
    if (!dac_method_by_token(d, module->self, token, &method) || method == 0 || !dac_get_method(d, method, 0, m)) {
        int rc = err_set(e, ERR_NOT_FOUND, "the module has no method 0x%08x, or its type is not loaded", token);
        err_detail(e, "metadataToken");
        return rc;
    }
    m->self = method;
    read_names(d, module, method, m->mt, out);
    return choose(d, m, out, code, e);
}

static int read_region(dac *d, method_code *out, dac_addr start, uint32_t size, bool cold, err *e)
{
    if (start == 0 || size == 0) return 0;
    if (size > METHOD_CODE_MAX)
        return err_set(e, ERR_LIMIT, "the method's code has %u bytes, more than %u", size, METHOD_CODE_MAX);
    method_region *r = &out->regions[out->n_regions];
    r->start = start;
    r->size = size;
    r->cold = cold;
    buf_init(&r->bytes, size);
    uint8_t *p = buf_reserve(&r->bytes, size);
    if (!p) return err_set(e, ERR_NO_MEMORY, "no memory for %u bytes of code", size);
    out->n_regions++;
    if (!mem_get(dac_target(d), start, p, size)) {
        int rc = err_set(e, ERR_IO, "the code at 0x%" PRIx64 " cannot be read", start);
        err_hint(e, "a small dump lacks it: take a WithHeap or Full one");
        return rc;
    }
    r->bytes.n = size;
    return 0;
}

int method_code_read(dac *d, const uint8_t mvid[16], uint32_t token, dac_addr ip, method_code *out, err *e)
{
    *out = (method_code){0};
    buf_init(&out->name, 0);
    buf_init(&out->type_name, 0);
    buf_init(&out->module_path, 0);
    search s = {.d = d, .mvid = mvid};
    dac_method m = {0};
    dac_code code = {0};
    int rc = find_module(&s, e);
    if (rc == 0)
        rc = ip ? at_address(d, &s.found, token, ip, &m, &code, out, e)
                : by_token(d, &s.found, token, &m, &code, out, e);
    if (rc == 0) rc = read_region(d, out, code.start, code.hot_size ? code.hot_size : code.size, false, e);
    if (rc == 0) rc = read_region(d, out, code.cold_start, code.cold_size, true, e);
    return rc;
}

void method_code_fini(method_code *m)
{
    for (unsigned i = 0; i < m->n_regions; i++)
        buf_fini(&m->regions[i].bytes);
    buf_fini(&m->name);
    buf_fini(&m->type_name);
    buf_fini(&m->module_path);
    m->n_regions = 0;
}
