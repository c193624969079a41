/* SPDX-License-Identifier: MIT */
/* fuzz_symbols_pe.c: any bytes as a module: no crash, bounded work, names and signatures valid UTF-8 and bounded, the
 * two ways to the MVID agree, and the PDB inside is walked. */
#include "symbols/find.h"
#include "symbols/mvid.h"
#include "symbols_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    read_names(&md, a);
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
