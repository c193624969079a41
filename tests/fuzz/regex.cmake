lunette_fuzz(regex SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_regex.c LINK lunette_text CORPUS tests/fuzz/corpus/regex)
