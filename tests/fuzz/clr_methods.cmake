lunette_fuzz(clr_methods SOURCES fuzz_clr_methods.c LINK lunette_clr CORPUS tests/fuzz/corpus/clr_methods)
