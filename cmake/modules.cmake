# The module libraries: one per folder of src/, each linking only its row of tools/layers.txt.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(LZMA REQUIRED IMPORTED_TARGET liblzma)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(MD REQUIRED IMPORTED_TARGET libmd)

# What every C file is compiled with. Contraction is off because a host FMA that the source does
# not ask for would change bits.
add_library(ts_flags INTERFACE)
target_compile_definitions(ts_flags INTERFACE _XOPEN_SOURCE=700 _FILE_OFFSET_BITS=64)
target_compile_options(ts_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                                          -ffp-contract=off)
if(TS_WERROR)
  target_compile_options(ts_flags INTERFACE -Werror)
endif()
if(TS_SANITIZE)
  target_compile_options(ts_flags INTERFACE -fsanitize=${TS_SANITIZE} -fno-sanitize-recover=all
                                            -fno-omit-frame-pointer -g)
  target_link_options(ts_flags INTERFACE -fsanitize=${TS_SANITIZE})
endif()
if(TS_FUZZ)
  target_compile_options(ts_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# The same plus the internal headers.
add_library(ts_internal INTERFACE)
target_include_directories(ts_internal INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(ts_internal INTERFACE ts_flags)

set(stub_source ${CMAKE_BINARY_DIR}/stub.c)
file(CONFIGURE OUTPUT ${stub_source} CONTENT "typedef int ts__stub;\n")

# Instruction sets beyond the baseline are for single files, chosen at run time.
function(ts_set_simd_flags)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    return()
  endif()
  foreach(source ${ARGN})
    if(source MATCHES "_avx2\\.c$")
      set(flags -mavx2 -mfma -mf16c)
    elseif(source MATCHES "_avx512\\.c$")
      set(flags -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c)
    else()
      continue()
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}")
  endforeach()
endfunction()

# ts_module(name folder MODULES ... LIBRARIES ...) makes the static library ts_<name> from
# src/<folder>/*.c.
function(ts_module name folder)
  cmake_parse_arguments(PARSE_ARGV 2 module "" "" "MODULES;LIBRARIES")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.c)
  if(NOT sources)
    set(sources ${stub_source})
  endif()
  ts_set_simd_flags(${sources})
  add_library(ts_${name}_objects OBJECT ${sources})
  target_link_libraries(ts_${name}_objects PRIVATE ts_internal ${module_LIBRARIES})
  add_library(ts_${name} STATIC $<TARGET_OBJECTS:ts_${name}_objects>)
  target_link_libraries(ts_${name} PUBLIC ${module_LIBRARIES})
  foreach(dependency ${module_MODULES})
    target_link_libraries(ts_${name} PUBLIC ts_${dependency})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TS_MODULES ${name})
  set_property(GLOBAL APPEND PROPERTY TS_LIBRARIES ${module_LIBRARIES})
endfunction()

ts_module(base base LIBRARIES PkgConfig::LZMA Threads::Threads)
ts_module(num num MODULES base LIBRARIES m)
# Lane loops: vectorise them; traps and errno are not observed.
target_compile_options(ts_num_objects PRIVATE $<$<CONFIG:Release>:-O3> -fno-trapping-math
                                              -fno-math-errno)
ts_module(ir ir MODULES base num)
ts_module(mem mem MODULES base num ir)
ts_module(trace trace MODULES base ir LIBRARIES PkgConfig::LZMA)
include(${CMAKE_SOURCE_DIR}/cmake/machines.cmake)
ts_module(machine machine MODULES base)
target_sources(ts_machine_objects PRIVATE ${TS_MACHINE_TEXTS})
ts_module(interp interp MODULES base num ir mem trace machine LIBRARIES m Threads::Threads)
ts_module(front_tvm front/tvm MODULES base ir num)
ts_module(model model MODULES base num ir trace machine)
ts_module(model_nv model_nv MODULES base num ir trace machine model LIBRARIES m)
ts_module(api api MODULES base num ir mem trace machine interp front_tvm model model_nv
          LIBRARIES PkgConfig::CJSON PkgConfig::MD m Threads::Threads)

get_property(TS_MODULES GLOBAL PROPERTY TS_MODULES)
get_property(TS_LIBRARIES GLOBAL PROPERTY TS_LIBRARIES)
list(REMOVE_DUPLICATES TS_LIBRARIES)
list(TRANSFORM TS_MODULES PREPEND ts_ OUTPUT_VARIABLE TS_MODULE_TARGETS)
# A static library comes before what it needs.
list(REVERSE TS_MODULE_TARGETS)
