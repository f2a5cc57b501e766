# Compiles machines/*.mach in: writes a C file with their bytes.
file(GLOB machine_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/machines/*.mach)
list(SORT machine_files)
set(machine_arrays "")
set(machine_rows "")
foreach(path IN LISTS machine_files)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  get_filename_component(name ${path} NAME_WE)
  string(MAKE_C_IDENTIFIER ${name} identifier)
  file(READ ${path} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND machine_arrays "static const unsigned char ${identifier}[] = {${bytes}};\n")
  string(APPEND machine_rows "  {\"${name}\", ${identifier}, sizeof ${identifier}},\n")
endforeach()
set(TS_MACHINE_TEXTS ${CMAKE_BINARY_DIR}/machine_texts.c)
file(CONFIGURE OUTPUT ${TS_MACHINE_TEXTS} CONTENT
"#include \"machine/machine_priv.h\"

${machine_arrays}
const struct ts__machine_text ts__machine_texts[] = {
${machine_rows}};
const size_t ts__machine_text_count = sizeof ts__machine_texts / sizeof *ts__machine_texts;
" @ONLY)
