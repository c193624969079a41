lunette_fuzz(symbols_pe SOURCES fuzz_symbols_pe.c LINK lunette_symbols CORPUS tests/fuzz/corpus/symbols_pe)
lunette_fuzz(symbols_pdb SOURCES fuzz_symbols_pdb.c LINK lunette_symbols CORPUS tests/fuzz/corpus/symbols_pdb)
