# Read by project() of the tree's CMakeLists.txt when pip builds the package: says which Debian
# packages are missing before anything else does, and installs what belongs into the wheel.

find_program(PKG_CONFIG_EXECUTABLE NAMES pkg-config pkgconf)
set(missing "")
if(NOT PKG_CONFIG_EXECUTABLE)
  list(APPEND missing pkg-config)
endif()
foreach(pair liblzma=liblzma-dev libcjson=libcjson-dev libmd=libmd-dev)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 module)
  list(GET pair 1 package)
  if(PKG_CONFIG_EXECUTABLE)
    execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --exists ${module} RESULT_VARIABLE absent
                    OUTPUT_QUIET ERROR_QUIET)
  else()
    set(absent TRUE)
  endif()
  if(absent)
    list(APPEND missing ${package})
  endif()
endforeach()
if(missing)
  list(JOIN missing " " missing)
  message(FATAL_ERROR "tilesim needs libraries that are not installed. On Debian or Ubuntu:\n"
                      "    sudo apt-get install ${missing}\n")
endif()

function(tilesim_install_python)
  install(FILES $<TARGET_FILE:tilesim_shared> DESTINATION . RENAME libtilesim.so COMPONENT python)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/machines DESTINATION . COMPONENT python)
endfunction()
cmake_language(DEFER CALL tilesim_install_python)
