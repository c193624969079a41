/* SPDX-License-Identifier: MIT */
/* value.h: the values of the engine, and bytes copied and compared where a call would cost more; no other folder
 * includes it. */
#ifndef LUNETTE_PROBE_VALUE_H
#define LUNETTE_PROBE_VALUE_H

#include <assert.h>

#include "base/bytes.h"

static inline uint64_t probe__load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t probe__load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* memcpy of few bytes: payloads and names are mostly shorter than a call is worth. */
static inline void probe__copy(uint8_t *to, const uint8_t *from, uint32_t n)
{
    if (n > 64) {
        memcpy(to, from, n);
    } else if (n >= 8) {
        uint64_t tail = probe__load64(from + n - 8);
        for (uint32_t i = 0; i + 8 <= n; i += 8)
            memcpy(to + i, from + i, 8);
        memcpy(to + n - 8, &tail, 8);
    } else if (n >= 4) {
        uint32_t head = probe__load32(from), tail = probe__load32(from + n - 4);
        memcpy(to, &head, 4);
        memcpy(to + n - 4, &tail, 4);
    } else {
        for (uint32_t i = 0; i < n; i++)
            to[i] = from[i];
    }
}

/* Same bytes? Of as many as a name has. */
static inline bool probe__same(const uint8_t *a, const uint8_t *b, uint32_t n)
{
    if (n < 8)
        return n < 4 ? memcmp(a, b, n) == 0
                     : probe__load32(a) == probe__load32(b) && probe__load32(a + n - 4) == probe__load32(b + n - 4);
    for (uint32_t i = 0; i + 8 <= n; i += 8)
        if (probe__load64(a + i) != probe__load64(b + i)) return false;
    return probe__load64(a + n - 8) == probe__load64(b + n - 8);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */
typedef enum pv_type { PV_NULL, PV_BOOL, PV_INT, PV_FLOAT, PV_TEXT16, PV_TEXT8, PV_GUID, PV_STACK } pv_type;

/* What tells values apart is one word, `head`, so that a value is two registers and is made and copied as such. */
typedef struct pv {
    union {
        struct {
            uint8_t type; /* pv_type */
            bool cut;     /* of a kept text: it was longer */
            bool symbol;  /* p is the text of a psymbol: good until the engine's end */
            uint32_t n;   /* bytes of texts and GUIDs */
        };
        uint64_t head;
    };
    union {
        int64_t i; /* PV_BOOL, PV_INT, PV_STACK: number of the stack */
        double f;
        const uint8_t *p; /* borrowed; of kept values: in the same allocation */
    };
} pv;
#define PV_SYMBOL ((uint64_t)1 << 16) /* in head */
static_assert(offsetof(pv, symbol) == 2 && offsetof(pv, n) == 4 && sizeof(pv) == 16, "head is type, cut, symbol, n");

static inline pv pv_null(void) { return (pv){.head = PV_NULL}; }
static inline pv pv_int(int64_t i) { return (pv){.head = PV_INT, .i = i}; }
static inline pv pv_float(double f) { return (pv){.head = PV_FLOAT, .f = f}; }
static inline pv pv_bool(bool b) { return (pv){.head = PV_BOOL, .i = b}; }
static inline bool pv_is_text(pv v) { return v.type == PV_TEXT16 || v.type == PV_TEXT8; }
static inline bool pv_has_bytes(pv v) { return v.type >= PV_TEXT16 && v.type <= PV_GUID; }
static inline bool pv_true(pv v) { return v.type == PV_BOOL && v.i != 0; }
/* False: no number. */
static inline bool pv_number(pv v, double *out)
{
    *out = v.type == PV_INT ? (double)v.i : v.f;
    return v.type == PV_INT || v.type == PV_FLOAT;
}
/* n bytes of a text or a GUID; borrowed. */
static inline pv pv_bytes(pv_type type, slice s)
{
    pv v = {.head = (uint64_t)type | (uint64_t)(uint32_t)s.n << 32};
    v.p = s.n ? s.p : (const uint8_t *)"";
    return v;
}

#endif
