/* SPDX-License-Identifier: MIT */
/* dac_target.c: the interfaces that the DAC asks of its host: ICLRDataTarget, ICLRMetadataLocator, ICLRRuntimeLocator.
 * Objects live as long as the host, so references are not counted. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/utf.h"
#include "memory/dac_internal.h"

#define PAGE             4096u
#define READ_THROUGH     65536u /* larger reads pass the cache by */
#define PATH_UNITS       2048u
#define PREFETCH_AT_ONCE 256u

static const dac_guid IID_UNKNOWN = DAC_GUID(0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0x46);
static const dac_guid IID_DATA_TARGET =
    DAC_GUID(0x3e11ccee, 0xd08b, 0x43e5, 0xaf, 0x01, 0x32, 0x71, 0x7a, 0x64, 0xda, 0x03);
static const dac_guid IID_METADATA_LOCATOR =
    DAC_GUID(0xaa8fa804, 0xbc05, 0x4642, 0xb2, 0xc5, 0xc3, 0x53, 0xed, 0x22, 0xfc, 0x63);
static const dac_guid IID_RUNTIME_LOCATOR =
    DAC_GUID(0xb760bf44, 0x9377, 0x4597, 0x8b, 0xe7, 0x58, 0x08, 0x3b, 0xdc, 0x51, 0x46);

/* ---- memory ---- */

void dac__cache_clear(dac *d)
{
    for (uint32_t i = 0; d->cache && i < DAC_CACHE_PAGES; i++)
        d->cache[i].address = 0;
}

/* The page of an address; NULL when nothing of it can be had. */
static const dac__page *page_of(dac *d, uint64_t address)
{
    uint64_t base = address & ~(uint64_t)(PAGE - 1);
    dac__page *p = &d->cache[(base / PAGE) % DAC_CACHE_PAGES];
    if (p->address != (base | 1)) {
        p->n = (uint32_t)mem_read(d->t, base, p->p, PAGE);
        p->address = base | 1;
    }
    return p->n > 0 ? p : NULL;
}

static bool with_cache(dac *d)
{
    if (d->cache) return true;
    d->cache = mem_calloc(DAC_CACHE_PAGES, sizeof *d->cache);
    d->cache_bytes = mem_alloc((size_t)DAC_CACHE_PAGES * PAGE);
    if (!d->cache || !d->cache_bytes) {
        free(d->cache);
        free(d->cache_bytes);
        d->cache = NULL;
        d->cache_bytes = NULL;
        return false;
    }
    for (uint32_t i = 0; i < DAC_CACHE_PAGES; i++)
        d->cache[i].p = d->cache_bytes + (size_t)i * PAGE;
    return true;
}

void dac_prefetch(dac *d, const dac_addr *addresses, size_t n)
{
    mem_piece pieces[PREFETCH_AT_ONCE];
    dac__page *pages[PREFETCH_AT_ONCE];
    if (!mem_is_live(d->t) || !with_cache(d)) return;
    for (size_t i = 0; i < n;) {
        size_t k = 0;
        for (; i < n && k < PREFETCH_AT_ONCE; i++) {
            uint64_t base = addresses[i] & ~(uint64_t)(PAGE - 1);
            dac__page *p = &d->cache[(base / PAGE) % DAC_CACHE_PAGES];
            if (p->address == (base | 1)) continue;
            p->address = 0; /* until its bytes are there */
            pages[k] = p;
            pieces[k++] = (mem_piece){.address = base, .to = p->p, .n = PAGE};
        }
        mem_read_pieces(d->t, pieces, k);
        for (size_t j = 0; j < k; j++) { /* of two with one place the last one stays */
            pages[j]->n = (uint32_t)pieces[j].got;
            pages[j]->address = pieces[j].address | 1;
        }
    }
}

size_t dac__read(dac *d, uint64_t address, void *to, size_t n)
{
    if (address + n < address) return 0;
    if (!mem_is_live(d->t) || n > READ_THROUGH || !with_cache(d)) return mem_read(d->t, address, to, n);
    size_t done = 0;
    while (done < n) {
        uint64_t at = address + done;
        const dac__page *p = page_of(d, at);
        size_t skip = (size_t)(at & (PAGE - 1));
        if (!p || skip >= p->n) break;
        size_t some = p->n - skip < n - done ? p->n - skip : n - done;
        memcpy((uint8_t *)to + done, p->p + skip, some);
        done += some;
        if (p->n < PAGE) break;
    }
    return done;
}

bool dac_read(dac *d, dac_addr address, void *to, size_t n) { return dac__read(d, address, to, n) == n; }

/* ---- registers ---- */

static void put16(uint8_t *c, size_t at, uint64_t v) { memcpy(c + at, &(uint16_t){(uint16_t)v}, 2); }
static void put32(uint8_t *c, size_t at, uint64_t v) { memcpy(c + at, &(uint32_t){(uint32_t)v}, 4); }
static void put64(uint8_t *c, size_t at, uint64_t v) { memcpy(c + at, &v, 8); }

bool dac__context(dac *d, uint32_t os_id, uint8_t *to, uint32_t size)
{
    mem_registers r;
    const mem_thread *th = mem_thread_of(d->t, (pid_t)os_id);
    err quiet = {0};
    if (!th || size < DAC_CONTEXT_SIZE || mem_registers_of(d->t, th->tid, &r, &quiet) < 0) return false;
    const struct user_regs_struct *g = &r.general;
    memset(to, 0, size);
    put32(to, DAC_CONTEXT_FLAGS, 0x100007u | (r.has_floating ? 8u : 0u));
    put16(to, 0x38, g->cs), put16(to, 0x3a, g->ds), put16(to, 0x3c, g->es), put16(to, 0x3e, g->fs),
        put16(to, 0x40, g->gs), put16(to, 0x42, g->ss);
    put32(to, 0x44, g->eflags);
    const uint64_t in_order[] = {g->rax, g->rcx, g->rdx, g->rbx, g->rsp, g->rbp, g->rsi, g->rdi, g->r8,
                                 g->r9,  g->r10, g->r11, g->r12, g->r13, g->r14, g->r15, g->rip};
    for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++)
        put64(to, 0x78 + 8 * i, in_order[i]);
    if (!r.has_floating) return true;
    put32(to, 0x34, r.floating.mxcsr);
    memcpy(to + 0x100, &r.floating, sizeof r.floating); /* both are an FXSAVE image */
    return true;
}

/* ---- ICLRDataTarget ---- */

static int32_t l_query(dac__face *self, const dac_guid *iid, void **out)
{
    dac *d = self->owner;
    *out = NULL;
    if (memcmp(iid, &IID_UNKNOWN, sizeof *iid) == 0 || memcmp(iid, &IID_DATA_TARGET, sizeof *iid) == 0)
        *out = &d->data_target;
    if (memcmp(iid, &IID_METADATA_LOCATOR, sizeof *iid) == 0) *out = &d->metadata_locator;
    if (memcmp(iid, &IID_RUNTIME_LOCATOR, sizeof *iid) == 0) *out = &d->runtime_locator;
    return *out ? DAC_S_OK : DAC_E_NOINTERFACE;
}

static uint32_t l_ref(dac__face *self)
{
    (void)self;
    return 1;
}

static int32_t l_machine(dac__face *self, uint32_t *out)
{
    (void)self;
    *out = 0x8664;
    return DAC_S_OK;
}

static int32_t l_pointer_size(dac__face *self, uint32_t *out)
{
    (void)self;
    *out = 8;
    return DAC_S_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static size_t units(const uint16_t *s)
{
    size_t n = 0;
    while (n < PATH_UNITS && s[n])
        n++;
    return n;
}

static int32_t l_image_base(dac__face *self, const uint16_t *path, uint64_t *out)
{
    dac *d = self->owner;
    buf b;
    buf_init(&b, 0);
    int32_t hr = DAC_E_FAIL;
    if (utf16le_to_utf8(slice_of(path, 2 * units(path)), &b) && buf_u8(&b, 0)) {
        const char *wanted = base_name((const char *)b.p);
        size_t n;
        const mem_module *m = mem_modules(d->t, &n);
        for (size_t i = 0; i < n && hr != DAC_S_OK; i++)
            if (strcasecmp(base_name(m[i].path), wanted) == 0) {
                *out = m[i].base;
                hr = DAC_S_OK;
            }
        if (hr != DAC_S_OK && strcasecmp(wanted, "libcoreclr.so") == 0) {
            *out = d->rt.base;
            hr = DAC_S_OK;
        }
    }
    buf_fini(&b);
    return hr;
}

static int32_t l_read(dac__face *self, uint64_t address, uint8_t *to, uint32_t n, uint32_t *got)
{
    dac *d = self->owner;
    size_t some = dac__read(d, address, to, n);
    d->reads++;
    if (some == 0 && n > 0) d->reads_failed++;
    if (got) *got = (uint32_t)some;
    return some > 0 || n == 0 ? DAC_S_OK : DAC_E_FAIL;
}

/* It writes only to order its own memory; nothing of ours reaches the target. */
static int32_t l_write(dac__face *self, uint64_t address, const uint8_t *from, uint32_t n, uint32_t *put)
{
    (void)self, (void)address, (void)from;
    if (put) *put = n;
    return DAC_S_OK;
}

static int32_t l_none(dac__face *self)
{
    (void)self;
    return DAC_E_NOTIMPL;
}

static int32_t l_context(dac__face *self, uint32_t tid, uint32_t flags, uint32_t size, uint8_t *to)
{
    (void)flags;
    return dac__context(self->owner, tid, to, size) ? DAC_S_OK : DAC_E_INVALIDARG;
}

static int32_t l_metadata(dac__face *self, const uint16_t *path, uint32_t stamp, uint32_t image_size,
                          const dac_guid *mvid, uint32_t rva, uint32_t flags, uint32_t size, uint8_t *to, uint32_t *got)
{
    (void)mvid, (void)flags;
    return dac__find_metadata(self->owner, path, stamp, image_size, rva, size, to, got);
}

static int32_t l_runtime_base(dac__face *self, uint64_t *out)
{
    *out = self->owner->rt.base;
    return DAC_S_OK;
}

typedef void (*any_fn)(void);
#define F(fn) ((void *)(uintptr_t)(any_fn)(fn))
void dac__host_init(dac *d)
{
    static void *data_target[14], *metadata_locator[4], *runtime_locator[4];
    void *base[] = {F(l_query), F(l_ref), F(l_ref)};
    memcpy(data_target, base, sizeof base);
    memcpy(metadata_locator, base, sizeof base);
    memcpy(runtime_locator, base, sizeof base);
    void *methods[] = {F(l_machine), F(l_pointer_size), F(l_image_base), F(l_read), F(l_write), F(l_none),
                       F(l_none),    F(l_none),         F(l_context),    F(l_none), F(l_none)};
    memcpy(data_target + 3, methods, sizeof methods);
    metadata_locator[3] = F(l_metadata);
    runtime_locator[3] = F(l_runtime_base);
    d->data_target = (dac__face){data_target, d};
    d->metadata_locator = (dac__face){metadata_locator, d};
    d->runtime_locator = (dac__face){runtime_locator, d};
}
