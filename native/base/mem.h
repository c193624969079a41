/* SPDX-License-Identifier: MIT */
/* mem.h: growable buffers, arenas, string tables and hash maps. Each has a cap with a name; what passes it fails and
 * says so. None is thread-safe. Allocation failure is reported, never fatal. */
#ifndef LUNETTE_BASE_MEM_H
#define LUNETTE_BASE_MEM_H

#include "base/bytes.h"
#include "base/err.h"

/* ---- buf: a growable byte buffer in the caller's storage --------------------------------------------------------- */
typedef struct buf {
    uint8_t *p;
    size_t n, cap;
    size_t max;  /* 0: BUF_MAX_DEFAULT */
    bool failed; /* an append did not fit or memory was out; content is what fitted before it */
} buf;
#define BUF_MAX_DEFAULT ((size_t)256 << 20)

void buf_init(buf *b, size_t max_bytes);
void buf_fini(buf *b); /* frees; *b is empty and usable again */
static inline void buf_reset(buf *b)
{
    b->n = 0;
    b->failed = false;
}
/* Room for n more bytes; NULL (and failed) when over the cap or out of memory. Does not change n. */
uint8_t *buf_reserve(buf *b, size_t n);
bool buf_put(buf *b, const void *p, size_t n);
static inline bool buf_slice(buf *b, slice s) { return buf_put(b, s.p, s.n); }
static inline bool buf_str(buf *b, const char *s) { return buf_put(b, s, strlen(s)); }
bool buf_u8(buf *b, uint8_t v);
bool buf_u16(buf *b, uint16_t v); /* little-endian */
bool buf_u32(buf *b, uint32_t v);
bool buf_u64(buf *b, uint64_t v);
bool buf_printf(buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Drops the first n bytes. */
void buf_consume(buf *b, size_t n);
static inline slice buf_view(const buf *b) { return slice_of(b->p, b->n); }

/* ---- arena: many small allocations that go at once --------------------------------------------------------------- */
typedef struct arena {
    struct arena_chunk *head;
    size_t used; /* bytes handed out */
    size_t max;  /* 0: no cap */
    bool failed;
} arena;
void *arena_alloc(arena *a, size_t n); /* zeroed, 16-byte aligned; NULL past the cap */
void *arena_dup(arena *a, const void *p, size_t n);
char *arena_str(arena *a, slice s); /* NUL-terminated copy */
void arena_reset(arena *a);         /* keeps one chunk */
void arena_free(arena *a);

/* ---- strtab: interned strings, ids from 0 in order of first use -------------------------------------------------- */
typedef struct strtab strtab;
#define STRTAB_FULL UINT32_MAX
/* Caps on the number of strings and on their bytes; 0: none. NULL: no memory. */
strtab *strtab_new(uint32_t max_strings, size_t max_bytes);
void strtab_free(strtab *t);
uint32_t strtab_intern(strtab *t, slice s);     /* STRTAB_FULL past a cap or without memory */
uint32_t strtab_find(const strtab *t, slice s); /* STRTAB_FULL: not there */
slice strtab_get(const strtab *t,
                 uint32_t id); /* borrowed until strtab_free; NUL-terminated beyond n; empty for an unknown id */
uint32_t strtab_count(const strtab *t);

/* ---- map64: u64 -> u64, open addressing -------------------------------------------------------------------------- */
typedef struct map64 {
    struct map64_slot *slots;
    size_t n, cap, max; /* max entries, 0: no cap */
} map64;
bool map64_put(map64 *m, uint64_t key, uint64_t value);        /* false past the cap or without memory */
bool map64_get(const map64 *m, uint64_t key, uint64_t *value); /* false: not there, *value left alone */
bool map64_del(map64 *m, uint64_t key);
/* Walks all entries: start with *it = 0; false at the end. Order differs from run to run (sort what leaves); do not
 * change the map meanwhile. */
bool map64_next(const map64 *m, size_t *it, uint64_t *key, uint64_t *value);
void map64_clear(map64 *m);
void map64_fini(map64 *m);
uint64_t hash_bytes(slice s, uint64_t seed);
uint64_t hash_u64(uint64_t v);

/* ---- allocation faults, for tests: the n-th allocation through these functions from now fails (-1: none) --------- */
void *mem_alloc(size_t n); /* malloc that the fault counter sees; use these three in product code */
void *mem_calloc(size_t n, size_t sz);
void *mem_realloc(void *p, size_t n);
void mem_fail_at(long n);
bool mem_failed(void); /* did the armed fault fire since mem_fail_at */

#endif
