# The style and the scripts of the audit's page, as a source that holds them. As a script (-P): writes OUTPUT from the
# files of FOLDER; included: tessera_embed_page(TARGET).
set(TESSERA_EMBED_PAGE ${CMAKE_CURRENT_LIST_FILE})
set(TESSERA_PAGE_SCRIPTS lists memory modules steps values main)

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  set(text "// Made by cmake/embed_page.cmake from the files of tools/placement_audit/page.\n")
  string(APPEND text "#include \"tools/placement_audit/page_files.h\"\n\nnamespace tessera::audit {\n\n")
  file(READ ${FOLDER}/page.css style)
  string(APPEND text "std::string page_style() {\n  return R\"page(${style})page\";\n}\n\nstd::string page_script() {\n  std::string text;\n")
  foreach(name IN LISTS TESSERA_PAGE_SCRIPTS)
    file(READ ${FOLDER}/${name}.js script)
    string(APPEND text "  text += R\"page(${script})page\";\n")
  endforeach()
  string(APPEND text "  return text;\n}\n\n}  // namespace tessera::audit\n")
  file(WRITE ${OUTPUT} "${text}")
  return()
endif()

function(tessera_embed_page target)
  set(folder ${PROJECT_SOURCE_DIR}/tools/placement_audit/page)
  list(TRANSFORM TESSERA_PAGE_SCRIPTS REPLACE "(.+)" "${folder}/\\1.js" OUTPUT_VARIABLE scripts)
  set(generated ${PROJECT_BINARY_DIR}/generated/page_files.cc)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${generated} -P ${TESSERA_EMBED_PAGE}
    DEPENDS ${folder}/page.css ${scripts} ${TESSERA_EMBED_PAGE}
    VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
