lunette_fuzz(unwind SOURCES fuzz_unwind.c LINK lunette_unwind CORPUS tests/fuzz/corpus/unwind)
