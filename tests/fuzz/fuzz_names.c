/* SPDX-License-Identifier: MIT */
/* fuzz_names.c: texts that name code and probes: /proc/kallsyms, perf-PID.map, uprobe_events, /proc/PID/task/TID/sched.
 * The first byte chooses, the rest is the text. */
#include <stdlib.h>

#include "kernel/counting.h"
#include "kernel/uprobe.h"
#include "naming/naming_internal.h"
#include "symbols/kallsyms.h"

static void kernel_names(slice text)
{
    sym_kallsyms *k;
    slice name, module, again;
    if (sym_kallsyms_parse(text, &k, NULL) < 0) return;
    for (uint64_t at = 0xffffffff80000000; at < 0xffffffff80000100; at += 7) {
        if (!sym_kallsyms_find(k, at, &name, &module)) continue;
        uint64_t first = sym_kallsyms_address(k, name);
        if (first > at || (first && !sym_kallsyms_find(k, first, &again, &module))) abort();
    }
    if (sym_kallsyms_find(k, UINT64_MAX, &name, &module) && name.n == 0) abort();
    sym_kallsyms_close(k);
}

static void jit_names(slice text)
{
    slice name;
    naming__jit *j = naming__jit_parse(text);
    if (!j) return;
    for (uint64_t at = 0; at < 0x4000; at += 61)
        if (naming__jit_find(j, at, &name) && name.n == 0) abort();
    naming__jit_free(j);
}

static bool dead(void *arg, const up_maker *m)
{
    (void)arg, (void)m;
    return false;
}

static void probes(slice text)
{
    char remove[256];
    if (up_is_stale(text, dead, NULL, remove, sizeof remove) && remove[0] != '-') abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t n;
    if (size < 1) return 0;
    slice text = slice_of(data + 1, size - 1);
    switch (data[0] & 3) {
    case 0: kernel_names(text); break;
    case 1: jit_names(text); break;
    case 2: probes(text); break;
    default: (void)kn_parse_sched(text, "se.nr_migrations", &n); break;
    }
    return 0;
}
