lunette_fuzz(sql SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_sql.c LINK lunette_probe CORPUS tests/fuzz/corpus/sql)
