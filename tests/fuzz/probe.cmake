lunette_fuzz(probe SOURCES fuzz_probe.c LINK lunette_probe CORPUS tests/fuzz/corpus/probe)
