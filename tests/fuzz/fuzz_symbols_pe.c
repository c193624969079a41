/* SPDX-License-Identifier: MIT */
/* fuzz_symbols_pe.c: any bytes as a module: no crash, bounded work, names and signatures valid UTF-8 and bounded, the
 * two ways to the MVID agree, and the PDB inside is walked. */
#include <stdlib.h>

#include "base/utf.h"
#include "symbols/find.h"
#include "symbols/mvid.h"
#include "symbols/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) abort();                                                                                          \
    } while (0)

enum { METHODS = 64, TEXT_MAX = 256 << 10 };

static void show_names(const sym_md *md, arena *a)
{
    err e = {0};
    sym_names n;
    buf b;
    if (sym_names_init(&n, md, a, &e) < 0) return;
    buf_init(&b, 0);
    uint32_t rows = md_rows(md, MD_METHOD_DEF);
    for (uint32_t i = 0; i <= rows + 1 && i < METHODS; i++) {
        buf_reset(&b);
        sym_method_name(&n, i, &b);
        sym_method_signature(&n, i, &b);
        sym_type_name(&n, i, &b);
        REQUIRE(utf8_valid(buf_view(&b)) && b.n < TEXT_MAX);
    }
    buf_fini(&b);
}

static void look(const sym_pe *pe, arena *a)
{
    uint8_t mvid[16];
    err e = {0}, ignored = {0};
    sym_md md;
    slice bytes;
    bool quick = sym_pe_mvid(pe, mvid, &ignored) == 0;
    if (!pe->metadata_rva) return;
    if (sym_pe_at(pe, pe->metadata_rva, pe->metadata_size, a, &bytes, "metadata", &e) < 0) return;
    if (sym_md_read(&md, bytes, 0, &e) < 0) return;
    const uint8_t *guid = md_guid(&md, md_get(&md, MD_MODULE, 1, MODULE_MVID));
    if (quick && guid) REQUIRE(memcmp(guid, mvid, 16) == 0);
    show_names(&md, a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arena a = {0};
    err e = {0};
    sym_input in;
    sym_pe pe;
    sym_input_memory(&in, slice_of(data, size));
    if (sym_pe_read(&pe, &in, &a, &e) == 0) {
        sym_found f;
        sym_sought s = {0};
        look(&pe, &a);
        sym_sought_of_pe(&s, &pe, NULL);
        if (pe.has_embedded && sym_find(&s, &f, &e) == 0) {
            sym_pick k = {.il_offset = 3};
            if (f.format) (void)sym_pdb_pick(&f.pdb, 0x06000001, &k, &e);
            REQUIRE(f.format != SYM_FORMAT_NONE || f.why[0]);
            sym_found_fini(&f);
        }
    } else {
        REQUIRE(e.kind == ERR_MALFORMED || e.kind == ERR_TRUNCATED);
    }
    arena_free(&a);
    return 0;
}
