lunette_fuzz(memory_core SOURCES fuzz_memory_core.c LINK lunette_memory CORPUS tests/fuzz/corpus/memory_core)
