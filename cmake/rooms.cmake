# Helpers that keep each room's CMakeLists.txt to a list of its sources.

add_library(plait_flags INTERFACE)
target_include_directories(plait_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/capi/include)
target_compile_options(plait_flags INTERFACE -Wall -Wextra -Wno-psabi
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique> $<$<BOOL:${PLAIT_WERROR}>:-Werror>)
if(PLAIT_SANITIZE)
  target_compile_options(plait_flags INTERFACE -fsanitize=${PLAIT_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(plait_flags INTERFACE -fsanitize=${PLAIT_SANITIZE})
endif()

# plait_room(NAME SOURCES … [LINK …]): an object library of one room; all rooms together make libplait.
function(plait_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} OBJECT ${ROOM_SOURCES})
  target_link_libraries(${name} PUBLIC plait_flags Threads::Threads ${ROOM_LINK})
  # What libFuzzer steers by; vector code parses nothing.
  if(PLAIT_FUZZ AND NOT name STREQUAL kernels_cpu)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  set_property(GLOBAL APPEND PROPERTY PLAIT_ROOMS ${name})
endfunction()

# plait_test(NAME LABEL label SOURCES … ROOMS … [LINK …]): one Catch2 program that links the named rooms. One
# without a label is not run by tests/check; tests/soak names it.
function(plait_test name)
  cmake_parse_arguments(TEST "" "LABEL;TIMEOUT" "SOURCES;ROOMS;LINK" ${ARGN})
  add_executable(${name} ${TEST_SOURCES} $<TARGET_OBJECTS:test_main>)
  target_link_libraries(${name} PRIVATE plait_flags ${TEST_ROOMS} ${TEST_LINK})
  target_compile_options(${name} PRIVATE -O1)  # their own code: quick to build matters more
  target_precompile_headers(${name} REUSE_FROM test_header)
  if(NOT TEST_LABEL)
    return()
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  set_property(GLOBAL APPEND PROPERTY PLAIT_TEST_LINES "${TEST_LABEL}\t${name}\t${TEST_TIMEOUT}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABEL}" TIMEOUT ${TEST_TIMEOUT})
endfunction()

# plait_fuzz(NAME SOURCES … ROOMS …): one libFuzzer program fuzz_NAME.
function(plait_fuzz name)
  cmake_parse_arguments(FUZZ "" "" "SOURCES;ROOMS;LINK" ${ARGN})
  add_executable(fuzz_${name} ${FUZZ_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE plait_flags ${FUZZ_ROOMS} ${FUZZ_LINK})
  target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzz_targets fuzz_${name})
endfunction()
