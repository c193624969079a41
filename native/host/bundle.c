/* SPDX-License-Identifier: MIT */
/* bundle.c: see bundle.h. */
#include "host/bundle.h"

#include <lauxlib.h>

#include "base/mem.h"

static struct {
    const uint8_t *p;
    const bundle_entry *entry;
    uint32_t count;
} bundle;

void bundle_use(const void *start, size_t n)
{
    const bundle_head *h = start;
    if (n < sizeof *h || memcmp(h->magic, BUNDLE_MAGIC, sizeof h->magic) != 0) return;
    if (h->ident >= n || strcmp((const char *)start + h->ident, lua_ident) != 0) return; /* its code may differ */
    bundle.p = start;
    bundle.entry = (const bundle_entry *)(const void *)(bundle.p + sizeof *h);
    bundle.count = h->count;
}

static const bundle_entry *find(const char *name)
{
    uint32_t lo = 0, hi = bundle.count;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        int d = strcmp((const char *)bundle.p + bundle.entry[mid].name, name);
        if (d == 0) return &bundle.entry[mid];
        if (d < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

int bundle_load(lua_State *L, slice text, const char *chunkname)
{
    const bundle_entry *e = *chunkname == '@' ? find(chunkname + 1) : NULL;
    if (e && e->size == text.n && e->hash == hash_bytes(text, 0))
        return luaL_loadbufferx(L, (const char *)bundle.p + e->code, e->code_size, chunkname, "b");
    return luaL_loadbufferx(L, (const char *)text.p, text.n, chunkname, "t");
}
