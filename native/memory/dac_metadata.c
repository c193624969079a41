/* SPDX-License-Identifier: MIT */
/* dac_metadata.c: metadata of an assembly that the target's memory lacks (a heap dump), from its file, when that is the
 * very one: the stamp and the image's size are the same. */
#include <string.h>

#include "base/utf.h"
#include "memory/dac_internal.h"
#include "symbols/pe.h"

#define PATH_UNITS 2048u

static uint32_t u32_at(slice s, size_t at)
{
    uint32_t v = 0;
    if (at <= s.n && s.n - at >= 4) memcpy(&v, s.p + at, 4);
    return v;
}

/* The stamp of the COFF header and SizeOfImage. */
static bool is_that(const sym_input *in, arena *a, uint32_t stamp, uint32_t image_size)
{
    slice head;
    err quiet = {0};
    size_t n = in->size < 4096 ? (size_t)in->size : 4096;
    if (sym_input_get(in, 0, n, a, &head, "a header", &quiet) < 0) return false;
    uint32_t pe = u32_at(head, 0x3c);
    if (pe > head.n) return false;
    return u32_at(head, pe + 8) == stamp && (!image_size || u32_at(head, (size_t)pe + 24 + 56) == image_size);
}

static int32_t of_file(const char *path, uint32_t stamp, uint32_t image_size, uint32_t rva, uint32_t size, uint8_t *to,
                       uint32_t *got)
{
    sym_input in = {.fd = -1};
    sym_pe *pe = NULL;
    arena a = {0};
    slice bytes;
    err quiet = {0};
    int32_t hr = DAC_E_FAIL;
    if (sym_input_open(&in, path, &quiet) < 0) return DAC_E_FAIL;
    pe = arena_alloc(&a, sizeof *pe);
    if (!pe || !is_that(&in, &a, stamp, image_size) || sym_pe_read(pe, &in, &a, &quiet) < 0 || pe->metadata_size == 0)
        goto out;
    uint32_t n = size < pe->metadata_size ? size : pe->metadata_size;
    if (got) *got = pe->metadata_size;
    hr = DAC_S_OK;
    if (n == 0) goto out;
    if (sym_pe_at(pe, rva ? rva : pe->metadata_rva, n, &a, &bytes, "metadata", &quiet) < 0)
        hr = DAC_E_FAIL;
    else
        memcpy(to, bytes.p, n);
out:
    arena_free(&a);
    sym_input_close(&in);
    return hr;
}

int32_t dac__find_metadata(dac *d, const uint16_t *path, uint32_t stamp, uint32_t image_size, uint32_t rva,
                           uint32_t size, uint8_t *to, uint32_t *got)
{
    size_t n = 0;
    char file[4096];
    buf b;
    while (path && n < PATH_UNITS && path[n])
        n++;
    buf_init(&b, 0);
    int32_t hr = DAC_E_FAIL;
    if (n > 0 && utf16le_to_utf8(slice_of(path, 2 * n), &b) && buf_u8(&b, 0) &&
        mem_file_path(d->t, (const char *)b.p, file, sizeof file))
        hr = of_file(file, stamp, image_size, rva, to ? size : 0, to, got);
    buf_fini(&b);
    return hr;
}
