# How the folders of this project declare themselves.
#
#   lunette_module(NAME SOURCES a.c b.c LINK dep...)   static library lunette_NAME: the plain C core of native/NAME
#   lunette_face(NAME SOURCES x_lua.c LINK dep...)     static library lunette_NAME_lua: its Lua face (only the host binary links it)
#   lunette_test(NAME SOURCES test_x.c LINK dep... [THREADS] [TIMEOUT s])   a cmocka program, registered with ctest as native.NAME;
#                                                      THREADS: it runs threads, so the thread sanitizer run takes it too
#   lunette_fuzz(NAME SOURCES fuzz_x.c LINK dep... CORPUS dir)   a libFuzzer program (preset fuzz); elsewhere a replayer of its corpus

# What a sanitizer run builds: all native tests, those that run threads, the fuzz targets.
add_custom_target(native_tests)
add_custom_target(thread_tests)
add_custom_target(fuzz_targets)

function(lunette_module name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK" ${ARGN})
  add_library(lunette_${name} STATIC ${A_SOURCES})
  target_include_directories(lunette_${name} PUBLIC ${PROJECT_SOURCE_DIR}/native)
  target_link_libraries(lunette_${name} PUBLIC lunette_options ${A_LINK})
endfunction()

function(lunette_face name)
  cmake_parse_arguments(A "" "" "SOURCES;LINK" ${ARGN})
  add_library(lunette_${name}_lua STATIC ${A_SOURCES})
  target_include_directories(lunette_${name}_lua PUBLIC ${PROJECT_SOURCE_DIR}/native ${LUA_INCLUDE_DIRS})
  target_link_libraries(lunette_${name}_lua PUBLIC lunette_options ${A_LINK})
endfunction()

function(lunette_test name)
  cmake_parse_arguments(A "THREADS" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT BUILD_TESTING OR LUNETTE_FUZZ)
    return()
  endif()
  add_executable(test_${name} ${A_SOURCES})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/native ${PROJECT_SOURCE_DIR}/tests/native)
  target_link_libraries(test_${name} PRIVATE lunette_options ${A_LINK} cmocka)
  target_compile_definitions(test_${name} PRIVATE LUNETTE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME native.${name} COMMAND test_${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  set(labels native)
  add_dependencies(native_tests test_${name})
  if(A_THREADS)
    list(APPEND labels threads)
    add_dependencies(thread_tests test_${name})
  endif()
  set_tests_properties(native.${name} PROPERTIES LABELS "${labels}" TIMEOUT ${A_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()

function(lunette_fuzz name)
  cmake_parse_arguments(A "" "CORPUS" "SOURCES;LINK" ${ARGN})
  add_executable(fuzz_${name} ${A_SOURCES})
  target_include_directories(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR}/native)
  target_link_libraries(fuzz_${name} PRIVATE lunette_options ${A_LINK})
  target_compile_definitions(fuzz_${name} PRIVATE LUNETTE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT LUNETTE_FUZZ)
    target_sources(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.c)
    add_test(NAME native.fuzz_${name} COMMAND fuzz_${name} ${PROJECT_SOURCE_DIR}/${A_CORPUS})
    set_tests_properties(native.fuzz_${name} PROPERTIES LABELS native TIMEOUT 120)
    add_dependencies(native_tests fuzz_${name})
    return()
  endif()
  add_dependencies(fuzz_targets fuzz_${name})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  # The fuzzer writes what it learns to the first folder and a find to the build folder; the second holds the seeds.
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/corpus-${name})
  add_test(NAME fuzz.${name}
           COMMAND fuzz_${name} -max_total_time=${LUNETTE_FUZZ_SECONDS} -rss_limit_mb=1024 -timeout=10 -print_final_stats=1
                   -verbosity=0 ${CMAKE_BINARY_DIR}/corpus-${name} ${PROJECT_SOURCE_DIR}/${A_CORPUS}
           WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  math(EXPR timeout "${LUNETTE_FUZZ_SECONDS} + 120")
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT ${timeout})
endfunction()
