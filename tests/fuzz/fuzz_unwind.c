/* SPDX-License-Identifier: MIT */
/* fuzz_unwind.c: ELF files with call frame information, expressions, code and walks. The first byte chooses: a file,
 * the same in memory, an expression, instructions around an address. */
#include <sys/mman.h>
#include <unistd.h>

#include "unwind/uw_internal.h"

typedef struct bytes {
    uint64_t at;
    slice s;
} bytes;

static bool read_bytes(void *arg, uint64_t address, void *out, size_t n)
{
    const bytes *b = arg;
    if (address < b->at || address - b->at > b->s.n || n > b->s.n - (address - b->at)) return false;
    memcpy(out, b->s.p + (address - b->at), n);
    return true;
}

static void look(uw__image *i)
{
    if (!i) return;
    uint64_t address;
    for (uint32_t k = 0; k < i->n_fdes && k < 64; k++)
        for (uint64_t d = 0; d < 20; d += 3)
            (void)uw__image_row(i, i->fdes[k].pc + d);
    for (uint64_t offset = 0; offset < 0x4000; offset += 0x80)
        if (uw__image_address(i, offset, &address)) (void)uw__image_row(i, address);
    (void)uw__image_bytes(i);
}

static void in_file(slice s)
{
    err e = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, s.p, s.n) == (ssize_t)s.n) {
        uw__source src = {.fd = fd};
        uw__image *i = uw__image_read(&src, &e);
        look(i);
        uw__image_free(i);
    }
    close(fd);
}

/* Walks through the file as if it were loaded, over a stack that it holds too. */
static void in_memory(slice s)
{
    bytes b = {0x400000, s};
    uw_memory m = {read_bytes, &b};
    err e = {0};
    uw__source src = {.fd = -1, .memory = &m, .base = b.at};
    uw__image *i = uw__image_read(&src, &e);
    look(i);
    uw__image_free(i);
    uw_space *space = uw_space_new(&m);
    uw_frame frames[32];
    uw_end end;
    if (!space) return;
    uw_map map = {b.at, b.at + 0x10000, 0, true, SLICE_LIT("/nowhere/fuzz.so"), NULL};
    (void)uw_space_map(space, &map);
    for (uint64_t at = 0; at < s.n && at < 0x2000; at += 61) {
        uw_regs r = {.known = UW_ALL};
        for (int k = 0; k < UW_REGS; k++)
            r.r[k] = b.at + at;
        r.r[UW_RIP] = b.at + (at * 7) % (s.n + 1);
        (void)uw_walk(space, &r, NULL, frames, 32, &end);
    }
    uw_space_free(space);
}

static void expression(slice s)
{
    bytes b = {0x1000, s};
    uw_memory m = {read_bytes, &b};
    uw_regs r = {.known = UW_ALL};
    uint64_t initial = 0x1010, out;
    for (int k = 0; k < UW_REGS; k++)
        r.r[k] = 0x1000 + (uint64_t)k;
    (void)uw__expr(s, &r, &m, &initial, &out);
    (void)uw__expr(s, &r, NULL, NULL, &out);
}

static void code(slice s)
{
    bytes b = {0x1000, s};
    uw_memory m = {read_bytes, &b};
    uw__leaf x;
    for (uint64_t ip = 0x1000; ip <= 0x1000 + s.n && ip < 0x1100; ip++) {
        (void)uw__code_leaf(&m, ip, 0, &x);
        (void)uw__code_leaf(&m, ip, 0x1000, &x);
        (void)uw__code_epilogue(&m, ip, &x);
        (void)uw__code_after_call(&m, ip);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 20) return 0;
    slice s = slice_of(data + 1, size - 1);
    switch (data[0] % 4) {
    case 0: in_file(s); break;
    case 1: in_memory(s); break;
    case 2: expression(s); break;
    default: code(s);
    }
    return 0;
}
