lunette_fuzz(activity_path SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_activity_path.c LINK lunette_clr CORPUS tests/fuzz/corpus/activity_path)
