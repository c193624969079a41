lunette_fuzz(names SOURCES fuzz_names.c LINK lunette_uprobe lunette_naming CORPUS tests/fuzz/corpus/names)
