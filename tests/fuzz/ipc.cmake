lunette_fuzz(ipc SOURCES fuzz_ipc.c LINK lunette_replay CORPUS tests/fuzz/corpus/ipc)
