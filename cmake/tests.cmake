# Tests. Labels: quick (unit tests and checks of the tree, seconds) and full (everything else).
# All tests run in the source folder, so that they can name traces/ and machines/ directly.

pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)

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
