lunette_fuzz(perf SOURCES fuzz_perf.c LINK lunette_perf CORPUS tests/fuzz/corpus/perf)
