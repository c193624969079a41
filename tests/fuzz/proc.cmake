lunette_fuzz(proc SOURCES fuzz_proc.c LINK lunette_kernel CORPUS tests/fuzz/corpus/proc)
