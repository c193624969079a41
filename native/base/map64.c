/* SPDX-License-Identifier: MIT */
/* map64.c: u64 -> u64 by linear probing, and the hash functions. Key 0 marks an empty slot; the entry of key 0 itself
 * lives in one more slot behind the table. Deletion shifts back, so there are no tombstones. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/hash_internal.h"

#define FIRST_CAP ((size_t)16)
#define MAX_CAP   ((size_t)1 << 40)

/* Odd, with about half the bits set: digits of the square roots of 2, 3, 5 and 7. */
#define K0 0x6a09e667f3bcc909u
#define K1 0xbb67ae8584caa73bu
#define K2 0x3c6ef372fe94f82bu
#define K3 0xa54ff53a5f1d36f1u

struct map64_slot {
    uint64_t key, value;
};

uint64_t hash__seed(void)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    return K3;
#else
    static _Atomic uint64_t seed;
    uint64_t s = atomic_load_explicit(&seed, memory_order_relaxed);
    if (s) return s;
    if (getrandom(&s, sizeof s, GRND_NONBLOCK) != (ssize_t)sizeof s) s = (uint64_t)(uintptr_t)&seed * K1;
    s |= 1; /* never 0, which means "not drawn yet" */
    uint64_t none = 0;
    return atomic_compare_exchange_strong(&seed, &none, s) ? s : none;
#endif
}

uint64_t hash_u64(uint64_t v) { return hash__fold(v ^ K0, K1) ^ v; }

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t load_tail(const uint8_t *p, size_t n) /* n < 8 */
{
    uint64_t v = 0;
    if (n) memcpy(&v, p, n);
    return v;
}

uint64_t hash_bytes(slice s, uint64_t seed)
{
    uint64_t h = hash__fold(seed ^ K0, (uint64_t)s.n ^ K1);
    const uint8_t *p = s.p;
    size_t n = s.n;
    for (; n >= 16; p += 16, n -= 16)
        h = hash__fold(load64(p) ^ K2, load64(p + 8) ^ h);
    uint64_t a = 0, b;
    if (n >= 8) {
        a = load64(p);
        b = load_tail(p + 8, n - 8);
    } else {
        b = load_tail(p, n);
    }
    h = hash__fold(a ^ K3, b ^ h);
    return hash__fold(h ^ K2, K1);
}

static inline size_t home(const map64 *m, uint64_t key)
{
    return (size_t)hash__fold(key ^ hash__seed(), K1) & (m->cap - 1);
}

/* The slot of key, or the empty one in which its search ends. There is always an empty one. */
static inline struct map64_slot *probe(const map64 *m, uint64_t key)
{
    size_t i = home(m, key);
    while (m->slots[i].key != key && m->slots[i].key != 0)
        i = (i + 1) & (m->cap - 1);
    return &m->slots[i];
}

static bool rehash(map64 *m, size_t cap)
{
    if (cap > MAX_CAP) return false;
    struct map64_slot *slots = mem_calloc(cap + 1, sizeof *slots);
    if (!slots) return false;
    map64 wide = {slots, m->n, cap, m->max};
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slots[i].key) *probe(&wide, m->slots[i].key) = m->slots[i];
    }
    if (m->slots) slots[cap] = m->slots[m->cap];
    free(m->slots);
    *m = wide;
    return true;
}

/* Room for one more at a load of at most three quarters, within the cap. */
static bool room(map64 *m)
{
    if (m->max && m->n >= m->max) return false;
    if (m->cap && (m->n + 1) * 4 <= m->cap * 3) return true;
    return rehash(m, m->cap ? m->cap * 2 : FIRST_CAP);
}

bool map64_put(map64 *m, uint64_t key, uint64_t value)
{
    if (map64_get(m, key, NULL)) {
        if (key == 0)
            m->slots[m->cap].value = value;
        else
            probe(m, key)->value = value;
        return true;
    }
    if (!room(m)) return false;
    if (key == 0)
        m->slots[m->cap] = (struct map64_slot){1, value};
    else
        *probe(m, key) = (struct map64_slot){key, value};
    m->n++;
    return true;
}

bool map64_get(const map64 *m, uint64_t key, uint64_t *value)
{
    if (m->n == 0) return false;
    const struct map64_slot *s = key ? probe(m, key) : &m->slots[m->cap];
    if (s->key == 0) return false;
    if (value) *value = s->value;
    return true;
}

bool map64_del(map64 *m, uint64_t key)
{
    if (!map64_get(m, key, NULL)) return false;
    m->n--;
    if (key == 0) {
        m->slots[m->cap] = (struct map64_slot){0};
        return true;
    }
    size_t mask = m->cap - 1, hole = (size_t)(probe(m, key) - m->slots);
    for (size_t i = (hole + 1) & mask; m->slots[i].key; i = (i + 1) & mask) {
        /* An entry may fill the hole when its home is not between the hole and where it stands. */
        if (((i - home(m, m->slots[i].key)) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct map64_slot){0};
    return true;
}

bool map64_next(const map64 *m, size_t *it, uint64_t *key, uint64_t *value)
{
    if (!m->slots) return false;
    for (; *it <= m->cap; ++*it) {
        const struct map64_slot *s = &m->slots[*it];
        if (!s->key) continue;
        *key = *it == m->cap ? 0 : s->key;
        *value = s->value;
        ++*it;
        return true;
    }
    return false;
}

void map64_clear(map64 *m)
{
    if (m->slots) memset(m->slots, 0, (m->cap + 1) * sizeof *m->slots);
    m->n = 0;
}

void map64_fini(map64 *m)
{
    free(m->slots);
    m->slots = NULL;
    m->n = m->cap = 0;
}
