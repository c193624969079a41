/* SPDX-License-Identifier: MIT */
/* jit_map.c: perf-PID.map. A range may be told again, for code that took the place of older: the last line counts. */
#include <stdio.h>
#include <stdlib.h>

#include "kernel/kernel.h"
#include "naming/naming.h"
#include "naming/naming_internal.h"

#define FUNCTIONS_MAX (1u << 20)

typedef struct function {
    uint64_t start, size;
    uint32_t name, length, order;
} function;

struct naming__jit {
    buf text; /* the file; names lie in it */
    buf functions;
    size_t n;
};

static bool hex(slice *s, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    for (; i < s->n && i < 17; i++) {
        uint8_t c = s->p[i] | 0x20;
        unsigned digit = c >= '0' && c <= '9' ? c - (unsigned)'0' : c >= 'a' && c <= 'f' ? c - (unsigned)'a' + 10 : 16;
        if (digit == 16) break;
        v = v << 4 | digit;
    }
    if (i == 0 || i == 17 || i == s->n || s->p[i] != ' ') return false;
    *s = slice_of(s->p + i + 1, s->n - i - 1);
    *out = v;
    return true;
}

static int by_start(const void *a, const void *b)
{
    const function *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* False: no memory. */
static bool take_lines(naming__jit *j)
{
    for (size_t at = 0; at < j->text.n;) {
        const uint8_t *from = j->text.p + at, *end = memchr(from, '\n', j->text.n - at);
        slice line = slice_of(from, end ? (size_t)(end - from) : j->text.n - at);
        at += line.n + 1;
        function f = {.order = (uint32_t)j->n};
        if (line.n > 2 && line.p[0] == '0' && (line.p[1] | 0x20) == 'x') line = slice_of(line.p + 2, line.n - 2);
        if (!hex(&line, &f.start) || !hex(&line, &f.size) || f.size == 0 || line.n == 0) continue;
        f.name = (uint32_t)(line.p - j->text.p);
        f.length = (uint32_t)line.n;
        if (j->n == FUNCTIONS_MAX) return true;
        if (!buf_put(&j->functions, &f, sizeof f)) return false;
        j->n++;
    }
    if (j->n) qsort(j->functions.p, j->n, sizeof(function), by_start);
    return true;
}

static naming__jit *make(void)
{
    naming__jit *j = mem_calloc(1, sizeof *j);
    if (!j) return NULL;
    buf_init(&j->text, NAMING_JIT_MAX);
    buf_init(&j->functions, 0);
    return j;
}

naming__jit *naming__jit_parse(slice text)
{
    naming__jit *j = make();
    if (j && buf_slice(&j->text, text) && take_lines(j)) return j;
    naming__jit_free(j);
    return NULL;
}

naming__jit *naming__jit_open(int pid)
{
    kn_status s;
    char rel[96];
    if (kn_status_of("", pid, &s, NULL) < 0) return NULL;
    naming__jit *j = make();
    if (!j) return NULL;
    snprintf(rel, sizeof rel, "/proc/%d/root/tmp/perf-%d.map", pid, s.nspid);
    if (kn_read("", rel, NAMING_JIT_MAX, &j->text, NULL) >= 0 && take_lines(j)) return j;
    naming__jit_free(j);
    return NULL;
}

void naming__jit_free(naming__jit *j)
{
    if (!j) return;
    buf_fini(&j->text);
    buf_fini(&j->functions);
    free(j);
}

size_t naming__jit_count(const naming__jit *j) { return j->n; }

bool naming__jit_find(const naming__jit *j, uint64_t ip, slice *name)
{
    const function *all = (const function *)(const void *)j->functions.p;
    size_t low = 0, high = j->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (all[mid].start <= ip)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0 || ip - all[low - 1].start >= all[low - 1].size) return false;
    *name = slice_of(j->text.p + all[low - 1].name, all[low - 1].length);
    return true;
}
