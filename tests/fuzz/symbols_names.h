/* SPDX-License-Identifier: MIT */
/* symbols_names.h: what both fuzz targets of metadata ask of names: valid UTF-8 and bounded, whatever rows are asked
 * for. */
#ifndef LUNETTE_FUZZ_SYMBOLS_NAMES_H
#define LUNETTE_FUZZ_SYMBOLS_NAMES_H

#include <stdlib.h>

#include "base/utf.h"
#include "symbols/metadata.h"
#include "symbols/names.h"

#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) abort();                                                                                          \
    } while (0)

enum { ROWS = 64, TEXT_MAX = 256 << 10 };

static inline void read_names(const sym_md *md, arena *a)
{
    err e = {0};
    sym_names n;
    buf b;
    if (sym_names_init(&n, md, a, &e) < 0) return;
    buf_init(&b, 0);
    uint32_t rows = md_rows(md, MD_METHOD_DEF);
    for (uint32_t i = 0; i <= rows + 1 && i < ROWS; i++) {
        buf_reset(&b);
        sym_method_name(&n, i, &b);
        sym_method_signature(&n, i, &b);
        sym_type_name(&n, i, &b);
        REQUIRE(utf8_valid(buf_view(&b)) && b.n < TEXT_MAX);
    }
    buf_fini(&b);
}

#endif
