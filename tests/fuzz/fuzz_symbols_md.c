/* SPDX-License-Identifier: MIT */
/* fuzz_symbols_md.c: any bytes as the metadata of a module, as they lie in a file or in the memory of a process: no
 * crash, bounded work, names and signatures valid UTF-8 and bounded, whatever rows are asked for. */
#include "symbols_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every column of every table, within its rows and beyond. */
static void read_tables(const sym_md *md)
{
    for (int table = 0; table < MD_TABLES; table++) {
        uint32_t rows = md_rows(md, table);
        for (uint32_t i = 0; i <= rows + 1 && i < ROWS; i++)
            for (int column = 0; column < MD_COLUMNS_MAX; column++) {
                uint32_t value = md_get(md, table, i, column);
                (void)md_string(md, value);
                (void)md_blob(md, value);
                (void)md_guid(md, value);
            }
        (void)md_get(md, table, UINT32_MAX, 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arena a = {0};
    err e = {0};
    sym_md md;
    if (sym_md_read(&md, slice_of(data, size), 0, &e) == 0) {
        read_tables(&md);
        read_names(&md, &a);
    } else {
        REQUIRE(e.kind == ERR_MALFORMED || e.kind == ERR_TRUNCATED);
    }
    arena_free(&a);
    return 0;
}
