/* SPDX-License-Identifier: MIT */
/* fuzz_perf.c: records of the kernel's rings, and formats of tracepoints. The first byte chooses. */
#include <linux/perf_event.h>
#include <stdlib.h>

#include "kernel/perf_internal.h"

static perf_layout layout;

static const perf_layout *layout_of(void *arg, uint64_t id)
{
    (void)arg;
    layout = (perf_layout){
        .sample_type = PERF__COMMON | (id & 1 ? PERF_SAMPLE_CALLCHAIN : 0) | (id & 2 ? PERF_SAMPLE_RAW : 0) |
                       (id & 4 ? PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER : 0) | (id & 8 ? PERF_SAMPLE_ADDR : 0),
        .user_regs = perf__user_regs};
    return id & 16 ? NULL : &layout;
}

static volatile uint64_t sum; /* so that what was read is used */

static void records(slice s)
{
    uint64_t *copy = malloc(s.n + 8); /* a ring's records are aligned */
    if (!copy) return;
    while (s.n >= sizeof(struct perf_event_header)) {
        struct perf_event_header h;
        memcpy(&h, s.p, sizeof h);
        size_t n = h.size < sizeof h || h.size > s.n ? s.n : h.size;
        memcpy(copy, s.p, n);
        perf_record r;
        sum += (uint64_t)perf__time_of(slice_of(copy, n));
        if (perf_decode(slice_of(copy, n), layout_of, NULL, &r)) {
            for (uint32_t i = 0; i < r.n_chain; i++)
                sum += r.chain[i];
            for (size_t i = 0; i < r.stack.n; i++)
                sum += r.stack.p[i];
            for (size_t i = 0; i < r.raw.n; i++)
                sum += r.raw.p[i];
            for (size_t i = 0; i < r.map.path.n; i++)
                sum += r.map.path.p[i];
        }
        s = slice_of(s.p + n, s.n - n);
    }
    free(copy);
}

static void format(slice s)
{
    tp_format f;
    err e = {0};
    if (tp_parse(s, &f, &e) < 0) return;
    for (int i = 0; i < (int)f.n; i++) {
        sum += (uint64_t)tp_int(&f, i, s);
        sum += tp_text(&f, i, s).n;
        (void)tp_field_of(&f, f.fields[i].name);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 20) return 0;
    slice s = slice_of(data + 1, size - 1);
    if (data[0] % 2)
        format(s);
    else
        records(s);
    return 0;
}
