/* SPDX-License-Identifier: MIT */
/* fuzz_proc.c: the parsers of native/kernel. The first byte chooses the parser, the rest is its text. */
#include "kernel/kernel.h"

static void tables(slice text)
{
    map64 own = {0};
    uint64_t inode;
    for (uint64_t i = 1; i < 16; i++)
        map64_put(&own, i, 1);
    kn_tcp_count c = {.own = &own, .ports.max = 64, .peers.max = 64};
    kn_parse_tcp(text, true, &c);
    kn_parse_tcp(text, false, &c);
    kn_tcp_fini(&c);
    map64_fini(&own);
    (void)kn_classify_fd(text, &inode);
}

static void groups(slice text)
{
    kn_cgroup_ids ids;
    kn_mount m;
    kn_num a, b;
    kn_psi psi;
    kn_parse_cgroup_ids(text, &ids);
    (void)kn_find_mount(text, NULL, &m);
    (void)kn_find_mount(text, "memory", &m);
    (void)kn_parse_cpu_max(text, &a, &b);
    (void)kn_keyed(text, "nr_periods");
    (void)kn_parse_limit(text);
    kn_parse_psi(text, &psi);
}

static void process(slice text)
{
    kn_stat stat;
    kn_status status;
    kn_rollup rollup;
    kn_limits limits;
    kn_io io;
    slice item;
    uint64_t ns;
    kn_exit x;
    int wait_status;
    err e = {0};
    kn_maps maps;
    kn_thread_wait wait;
    buf files;
    buf_init(&files, 1 << 20);
    (void)kn_parse_maps(text, &maps, &files, NULL);
    buf_fini(&files);
    (void)kn_parse_syscall(text, &wait);
    (void)kn_parse_schedstat(text, &ns);
    (void)kn_parse_stat(text, &stat, &e);
    if (kn_parse_zombie(text, &wait_status)) kn_exit_of_status(wait_status, &x);
    (void)kn_parse_status(text, &status, NULL);
    (void)kn_parse_rollup(text, &rollup, NULL);
    (void)kn_parse_limits(text, &limits, NULL);
    (void)kn_parse_io(text, &io, NULL);
    while (kn_next_z(&text, &item))
        (void)item;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    slice text = slice_of(data + 1, size - 1);
    switch (data[0] % 3) {
    case 0: process(text); break;
    case 1: groups(text); break;
    default: tables(text); break;
    }
    return 0;
}
