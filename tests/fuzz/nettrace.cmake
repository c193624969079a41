lunette_fuzz(nettrace SOURCES fuzz_nettrace.c LINK lunette_clr CORPUS tests/fuzz/corpus/nettrace)
