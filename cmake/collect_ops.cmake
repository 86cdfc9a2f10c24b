# Generates the list of calls that fill the op table, and which file each stands in. Included, it offers tessera_collect_ops(TARGET FOLDER); run as
# a script (-P) with FOLDER and OUTPUT it writes the source: one call for each `void add_…_ops(OpTable& table)`.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  file(GLOB_RECURSE op_sources ${FOLDER}/*.cc)
  list(SORT op_sources COMPARE FILE_BASENAME)  # whatever folder a family stands in
  set(declarations "")
  set(calls "")
  set(families "")
  foreach(source IN LISTS op_sources)
    file(STRINGS ${source} heads REGEX "^void add_[a-z0-9_]+_ops\\(OpTable& table\\)")
    foreach(head IN LISTS heads)
      string(REGEX REPLACE "^void (add_[a-z0-9_]+_ops).*" "\\1" function "${head}")
      string(APPEND declarations "void ${function}(OpTable& table);\n")
      string(APPEND calls "  ${function}(table);\n")
      get_filename_component(family ${source} NAME_WE)
      get_filename_component(op_folder ${source} DIRECTORY)
      get_filename_component(op_folder ${op_folder} NAME)
      string(APPEND families "    {\"${family}\", \"${op_folder}\", ${function}},\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "// Generated from strategies/ops/ by cmake/collect_ops.cmake.
#include \"strategies/rules/families.h\"

namespace tessera {

@declarations@
namespace {
void add_all(OpTable& table) {
@calls@}
}  // namespace

void add_builtin_ops(OpTable& table) {
  static const OpTable* const builtin = [] {
    auto* made = new OpTable;
    add_all(*made);
    return made;  // as long as the process: tables of static objects point to it
  }();
  table.build_on(*builtin);
}

std::span<const OpFamily> builtin_families() {
  static constexpr OpFamily kFamilies[] = {
@families@  };
  return kFamilies;
}

}  // namespace tessera
")
  return()
endif()

set(TESSERA_COLLECT_OPS ${CMAKE_CURRENT_LIST_FILE})
function(tessera_collect_ops target folder)
  file(GLOB_RECURSE op_sources CONFIGURE_DEPENDS ${folder}/*.cc)
  set(generated ${PROJECT_BINARY_DIR}/generated/builtin_ops.cc)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${generated} -P ${TESSERA_COLLECT_OPS}
    DEPENDS ${op_sources} ${TESSERA_COLLECT_OPS}
    COMMENT "Collecting ops"
    VERBATIM)
  target_sources(${target} PRIVATE ${generated})
  file(RELATIVE_PATH below ${PROJECT_SOURCE_DIR} ${folder})
  file(GLOB united ${PROJECT_BINARY_DIR}/united/${below}/*.cc)
  set_source_files_properties(${op_sources} ${united} PROPERTIES COMPILE_OPTIONS "${TESSERA_COLD_OPTION}")
endfunction()
