lunette_fuzz(symbols_pe SOURCES fuzz_symbols_pe.c LINK lunette_symbols CORPUS tests/fuzz/corpus/symbols_pe)
lunette_fuzz(symbols_pdb SOURCES fuzz_symbols_pdb.c LINK lunette_symbols CORPUS tests/fuzz/corpus/symbols_pdb)
lunette_fuzz(clr_il_map SOURCES fuzz_clr_il_map.c LINK lunette_clr CORPUS tests/fuzz/corpus/clr_il_map)
lunette_fuzz(demangle SOURCES fuzz_demangle.c LINK lunette_symbols CORPUS tests/fuzz/corpus/demangle)
