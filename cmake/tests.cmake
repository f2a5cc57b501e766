# Tests. Labels: quick (unit tests and checks of the tree, seconds), slow (sweeps, minutes) and full
# (everything else).
# All tests run in the source folder, so that they can name traces/ and machines/ directly.

pkg_check_modules(CHECK IMPORTED_TARGET check)
find_package(Python3 COMPONENTS Interpreter)
if(NOT CHECK_FOUND OR NOT Python3_FOUND)
  message(STATUS "No tests: they need Check (Debian package check) and Python 3")
  return()
endif()

# test_<module>_x.c links that module and what it stands on, where the row below says so, and so
# shows that the module works alone; any other test links everything.
function(ts_test_modules result name)
  set(${result} ${TS_MODULE_TARGETS} PARENT_SCOPE)
  foreach(module base num ir mem trace machine front_tvm)
    if(name MATCHES "^test_${module}(_|$)")
      set(${result} ts_${module} PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

file(GLOB unit_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/test_*.c)
ts_set_simd_flags(${unit_sources})
foreach(source ${unit_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  ts_test_modules(modules ${name})
  target_link_libraries(${name} PRIVATE ${modules} ts_internal PkgConfig::CHECK PkgConfig::CJSON
                                        PkgConfig::MD)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS quick TIMEOUT 300 ENVIRONMENT
                                          "CK_DEFAULT_TIMEOUT=240")
endforeach()

# tests/fuzz/fuzz_x.c defines LLVMFuzzerTestOneInput. Without TS_FUZZ it becomes a program that
# replays files; ctest replays tests/fuzz/corpus/x.
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" corpus ${name})
  if(TS_FUZZ)
    add_executable(${name} ${source})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${name} ${source} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.c)
    add_test(NAME ${name} COMMAND ${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${corpus}
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS quick TIMEOUT 300)
  endif()
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${TS_MODULE_TARGETS} ts_internal)
endforeach()

# tests/<group>/CMakeLists.txt may add more.
file(GLOB groups CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*/CMakeLists.txt)
foreach(group ${groups})
  get_filename_component(folder ${group} DIRECTORY)
  add_subdirectory(${folder})
endforeach()

# Checks of the tree itself.
function(ts_tree_check name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS quick TIMEOUT 300 SKIP_RETURN_CODE 77)
endfunction()

ts_tree_check(tree_layers ${Python3_EXECUTABLE} tools/check_layers.py)
ts_tree_check(tree_layers_selftest ${Python3_EXECUTABLE} tests/layers/test_check_layers.py)
ts_tree_check(tree_format tools/check_format.sh)
ts_tree_check(tree_docs ${Python3_EXECUTABLE} tools/gen_docs.py --check)
ts_tree_check(tree_headers tools/check_headers.sh ${CMAKE_C_COMPILER})
if(NOT TS_SANITIZE)
  file(GLOB public_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/tilesim/*.h)
  if(public_headers)
    ts_tree_check(tree_exports tools/check_exports.sh ${CMAKE_C_COMPILER}
                  $<TARGET_FILE:tilesim_shared>)
  endif()

  # Each module links with nothing but its row: as a library without undefined symbols.
  add_custom_target(links)
  foreach(module ${TS_MODULES})
    add_library(ts_${module}_links MODULE EXCLUDE_FROM_ALL $<TARGET_OBJECTS:ts_${module}_objects>)
    get_target_property(row ts_${module} LINK_LIBRARIES)
    target_link_libraries(ts_${module}_links PRIVATE ${row})
    target_link_options(ts_${module}_links PRIVATE LINKER:-z,defs)
    add_dependencies(links ts_${module}_links)
  endforeach()
  add_test(NAME tree_links COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target links)
  set_tests_properties(tree_links PROPERTIES LABELS full TIMEOUT 600 RUN_SERIAL ON)
endif()
