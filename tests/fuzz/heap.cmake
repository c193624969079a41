lunette_fuzz(heap SOURCES fuzz_heap.c LINK lunette_heap CORPUS tests/fuzz/corpus/heap)
