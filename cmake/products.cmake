# What is made of the modules: libtilesim (static and shared), the command line, examples, bench.

include(GNUInstallDirs)

set(all_objects "")
foreach(module ${TS_MODULES})
  list(APPEND all_objects $<TARGET_OBJECTS:ts_${module}_objects>)
endforeach()

add_library(tilesim_static STATIC ${all_objects})
add_library(tilesim_shared SHARED ${all_objects})
foreach(library tilesim_static tilesim_shared)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME tilesim)
  target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
endforeach()
target_link_libraries(tilesim_static PUBLIC ${TS_LIBRARIES})
target_link_libraries(tilesim_shared PRIVATE ts_flags ${TS_LIBRARIES})
set_target_properties(tilesim_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)

# The command line sees include/ and its own folder (as "cli/..."), nothing internal.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cli_include)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/cli ${CMAKE_BINARY_DIR}/cli_include/cli SYMBOLIC)
file(GLOB cli_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/*.c)
if(cli_sources)
  add_executable(tilesim_cli ${cli_sources})
  set_target_properties(tilesim_cli PROPERTIES OUTPUT_NAME tilesim)
  target_include_directories(tilesim_cli PRIVATE ${CMAKE_BINARY_DIR}/cli_include)
  target_compile_definitions(tilesim_cli PRIVATE TS_VERSION_TEXT="${PROJECT_VERSION}")
  target_link_libraries(tilesim_cli PRIVATE tilesim_static ts_flags)
  install(TARGETS tilesim_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

file(GLOB example_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*.c)
foreach(source ${example_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  target_link_libraries(example_${name} PRIVATE tilesim_static ts_flags)
endforeach()

# Programs that measure; `cmake --build build --target bench` builds them.
add_custom_target(bench)
file(GLOB bench_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*.c)
ts_set_simd_flags(${bench_sources})
foreach(source ${bench_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "^bench_" "" name ${name})
  add_executable(bench_${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(bench_${name} PRIVATE ${TS_MODULE_TARGETS} ts_internal m)
  add_dependencies(bench bench_${name})
endforeach()

install(TARGETS tilesim_static tilesim_shared
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(EXISTS ${CMAKE_SOURCE_DIR}/include/tilesim)
  install(DIRECTORY include/tilesim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/machines)
  install(DIRECTORY machines DESTINATION ${CMAKE_INSTALL_DATADIR}/tilesim)
endif()
