/* SPDX-License-Identifier: MIT */
/* fuzz_memory_core.c: any bytes as a core file: opened or refused; what is opened is read, mapped and asked for
 * symbols. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/dac.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LOOKS_MAX 64

static void look(mem_target *t)
{
    size_t n;
    uint8_t bytes[256];
    uint64_t address;
    dac_runtime rt;
    const mem_mapping *m = mem_mappings(t, &n);
    for (size_t i = 0; i < n && i < LOOKS_MAX; i++) {
        if (m[i].end <= m[i].start || (i > 0 && m[i].start < m[i - 1].start)) abort();
        if (m[i].held > m[i].end - m[i].start) abort();
        mem_read(t, m[i].start, bytes, sizeof bytes);
        mem_read(t, m[i].end - 8, bytes, sizeof bytes);
        if (mem_at(t, m[i].start, 16) && !mem_get(t, m[i].start, bytes, 16)) abort();
    }
    const mem_module *mod = mem_modules(t, &n);
    for (size_t i = 0; i < n && i < LOOKS_MAX; i++)
        (void)mem_symbol(t, &mod[i], "DotNetRuntimeInfo", &address);
    dac_find_runtime(t, &rt);
    const mem_thread *th = mem_threads(t, &n);
    for (size_t i = 0; i < n && i < LOOKS_MAX; i++) {
        mem_registers r;
        err e = {0};
        if (mem_registers_of(t, th[i].tid, &r, &e) < 0) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    err e = {0};
    mem_target *t = NULL;
    int fd = memfd_create("core", MFD_CLOEXEC);
    if (fd < 0) return 0;
    if (size > 0 && write(fd, data, size) != (ssize_t)size) {
        close(fd);
        return 0;
    }
    int rc = mem_open_core_fd(fd, "core", "/nonexistent", &t, &e);
    if (rc >= 0)
        look(t);
    else if (e.kind == ERR_NONE)
        abort();
    mem_close(t);
    return 0;
}
