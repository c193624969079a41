/* SPDX-License-Identifier: MIT */
/* fuzz_demangle.c: any bytes as the name of a symbol: no crash, an end, and valid UTF-8 of bounded length. */
#include <stdlib.h>

#include "base/utf.h"
#include "symbols/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    buf b;
    char *name = slice_dup(slice_of(data, size));
    if (!name) return 0;
    buf_init(&b, 0);
    sym_demangle(name, &b);
    if (b.n > 3 * SYM_DEMANGLED_MAX || !utf8_valid(buf_view(&b))) abort();
    buf_fini(&b);
    free(name);
    return 0;
}
