lunette_fuzz(gcdump SOURCES fuzz_gcdump.c LINK lunette_gcdump lunette_clr CORPUS tests/fuzz/corpus/gcdump)
