lunette_fuzz(json SOURCES fuzz_json.c LINK lunette_base CORPUS tests/fuzz/corpus/json)
