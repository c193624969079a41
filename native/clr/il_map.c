/* SPDX-License-Identifier: MIT */
/* il_map.c: maps are kept packed (about three bytes an entry): few of the many that come are ever asked for. */
#include "clr/il_map.h"

#include <stdlib.h>

enum { OF_MAP = 1, RUNTIME_MAP = 190, RUNDOWN_START_MAP = 149, RUNDOWN_END_MAP = 150, ENTRIES_MAX = 65535 };
/* What stands for an IL offset where there is none: -1 no mapping, -2 prologue, -3 epilogue. Kept as 2, 1, 0. */
#define SPECIALS 3u

/* The head of a packed map; the entries follow: step of the native offset, IL offset + SPECIALS. */
typedef struct head {
    uint64_t method_id, rejit_id;
    uint64_t older; /* of the same hash: its place + 1; 0: none */
    uint32_t bytes; /* of the entries */
} head;

typedef struct entry {
    uint32_t native, il;
} entry;

struct clr_il_maps {
    size_t max;
    map64 places; /* hash of the two ids -> place of the head + 1 */
    buf packed;
    size_t n;
    uint64_t dropped;
    bool told;
    entry *scratch; /* ENTRIES_MAX */
    buf encoded;
};

clr_il_maps *clr_il_maps_new(size_t max_bytes)
{
    clr_il_maps *m = mem_calloc(1, sizeof *m);
    if (!m) return NULL;
    m->max = max_bytes ? max_bytes : CLR_IL_MAPS_MAX_BYTES;
    buf_init(&m->packed, m->max);
    buf_init(&m->encoded, 0);
    m->scratch = mem_calloc(ENTRIES_MAX, sizeof *m->scratch);
    if (m->scratch) return m;
    clr_il_maps_free(m);
    return NULL;
}

void clr_il_maps_free(clr_il_maps *m)
{
    if (!m) return;
    map64_fini(&m->places);
    buf_fini(&m->packed);
    buf_fini(&m->encoded);
    free(m->scratch);
    free(m);
}

int clr_il_maps_kind(const nt_kind *k)
{
    if (slice_eq_str(k->provider, "Microsoft-Windows-DotNETRuntime")) return k->id == RUNTIME_MAP ? OF_MAP : 0;
    if (slice_eq_str(k->provider, "Microsoft-Windows-DotNETRuntimeRundown"))
        return k->id == RUNDOWN_START_MAP || k->id == RUNDOWN_END_MAP ? OF_MAP : 0;
    return 0;
}

size_t clr_il_maps_count(const clr_il_maps *m) { return m->n; }
uint64_t clr_il_maps_dropped(const clr_il_maps *m) { return m->dropped; }
size_t clr_il_maps_memory(const clr_il_maps *m)
{
    return m->packed.cap + m->places.cap * 2 * sizeof(uint64_t) + ENTRIES_MAX * sizeof(entry);
}

/* ---- packing ---- */

static void put_varint(buf *b, uint32_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_u8(b, (uint8_t)(v | 0x80));
    buf_u8(b, (uint8_t)v);
}

static int by_native(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->native != y->native) return x->native < y->native ? -1 : 1;
    return x->il + SPECIALS < y->il + SPECIALS ? -1 : x->il != y->il;
}

static bool pack(clr_il_maps *m, uint32_t n)
{
    bool sorted = true;
    for (uint32_t i = 1; i < n && sorted; i++)
        sorted = m->scratch[i - 1].native <= m->scratch[i].native;
    if (!sorted) qsort(m->scratch, n, sizeof *m->scratch, by_native);
    buf_reset(&m->encoded);
    uint32_t native = 0;
    for (uint32_t i = 0; i < n; i++) {
        put_varint(&m->encoded, m->scratch[i].native - native);
        put_varint(&m->encoded, m->scratch[i].il + SPECIALS);
        native = m->scratch[i].native;
    }
    return !m->encoded.failed;
}

static uint64_t key_of(uint64_t method_id, uint64_t rejit_id) { return hash_u64(method_id ^ hash_u64(rejit_id + 1)); }

/* The head at a place + 1, and its entries. */
static head head_at(const clr_il_maps *m, uint64_t place, slice *entries)
{
    head h;
    memcpy(&h, m->packed.p + (place - 1), sizeof h);
    *entries = slice_of(m->packed.p + (place - 1) + sizeof h, h.bytes);
    return h;
}

/* The latest map of a body. False: none. */
static bool look_up(const clr_il_maps *m, uint64_t method_id, uint64_t rejit_id, slice *entries)
{
    uint64_t place = 0;
    if (!map64_get(&m->places, key_of(method_id, rejit_id), &place)) return false;
    while (place) {
        head h = head_at(m, place, entries);
        if (h.method_id == method_id && h.rejit_id == rejit_id) return true;
        place = h.older;
    }
    return false;
}

static bool keep(clr_il_maps *m, uint64_t method_id, uint64_t rejit_id)
{
    slice have;
    bool known = look_up(m, method_id, rejit_id, &have);
    if (known && slice_eq(have, buf_view(&m->encoded))) return true; /* the rundown repeats what the session brought */
    head h = {.method_id = method_id, .rejit_id = rejit_id, .bytes = (uint32_t)m->encoded.n};
    uint64_t key = key_of(method_id, rejit_id), place = m->packed.n + 1;
    map64_get(&m->places, key, &h.older);
    if (clr_il_maps_memory(m) > m->max || m->max - m->packed.n < sizeof h + m->encoded.n) return false;
    if (!buf_put(&m->packed, &h, sizeof h) || !buf_slice(&m->packed, buf_view(&m->encoded)) ||
        !map64_put(&m->places, key, place)) {
        m->packed.n = place - 1; /* what is there stays whole */
        m->packed.failed = false;
        return false;
    }
    m->n += !known;
    return true;
}

int clr_il_maps_event(clr_il_maps *m, int code, const nt_event *ev)
{
    cursor c = cursor_of(ev->payload, 0);
    if (code != OF_MAP) return 0;
    uint64_t method_id = cursor_u64(&c), rejit_id = cursor_u64(&c);
    cursor_skip(&c, 1); /* extent */
    uint32_t n = cursor_u16(&c);
    slice il = cursor_bytes(&c, (size_t)n * 4), native = cursor_bytes(&c, (size_t)n * 4);
    if (!cursor_ok(&c)) {
        m->dropped++;
        return 0;
    }
    cursor i = cursor_of(il, 0), o = cursor_of(native, 0);
    for (uint32_t k = 0; k < n; k++)
        m->scratch[k] = (entry){.native = cursor_u32(&o), .il = cursor_u32(&i)};
    if (pack(m, n) && keep(m, method_id, rejit_id)) return 0;
    m->dropped++;
    bool first = !m->told;
    m->told = true;
    return first ? -ERR_LIMIT : 0;
}

/* ---- looking up ---- */

uint32_t clr_il_maps_find(const clr_il_maps *m, uint64_t method_id, uint64_t rejit_id, uint32_t native_offset)
{
    slice entries;
    uint32_t native = 0, before = CLR_IL_NONE;
    if (!look_up(m, method_id, rejit_id, &entries)) return CLR_IL_NONE;
    cursor c = cursor_of(entries, 0);
    while (cursor_left(&c)) {
        native += cursor_varu32(&c);
        uint32_t il = cursor_varu32(&c);
        if (!cursor_ok(&c)) break;
        bool real = il >= SPECIALS;
        if (native > native_offset && before != CLR_IL_NONE) break;
        if (real) before = il - SPECIALS;
    }
    return before;
}
