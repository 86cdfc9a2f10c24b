# Sources that GCC compiles together: cmake/united_sources.txt has a line for each group. A source of this project spends
# more than half of its compiler's time in the headers it includes. Other compilers, whose tools look at commands of single files,
# compile each by itself, and so see that each includes what it uses; so is every file that stands in no group.
# TESSERA_UNITE unites for them too: scripts/tidy --all.
set(TESSERA_UNITED_SOURCES ${CMAKE_CURRENT_LIST_DIR}/united_sources.txt)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${TESSERA_UNITED_SOURCES})

# tessera_unite(OUT TARGET SOURCE…): the sources, with each group of them in place of its members. What is generated
# names its members below the project's root, so that clones in other folders share what was compiled.
function(tessera_unite out target)
  set(sources ${ARGN})
  if(NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR TESSERA_UNITE))
    set(${out} ${sources} PARENT_SCOPE)
    return()
  endif()
  file(STRINGS ${TESSERA_UNITED_SOURCES} lines REGEX "^[^#]")
  set(number 0)
  foreach(line IN LISTS lines)
    string(REPLACE " " ";" names "${line}")
    list(POP_FRONT names folder)
    set(members "")
    set(content "")
    foreach(name IN LISTS names)
      if("${PROJECT_SOURCE_DIR}/${folder}/${name}" IN_LIST sources)
        list(APPEND members ${PROJECT_SOURCE_DIR}/${folder}/${name})
        string(APPEND content "#include \"${folder}/${name}\"\n")
      endif()
    endforeach()
    list(LENGTH members count)
    if(count GREATER 1)
      math(EXPR number "${number} + 1")
      set(united ${PROJECT_BINARY_DIR}/united/${folder}/${target}_${number}.cc)
      file(CONFIGURE OUTPUT ${united} CONTENT "${content}" @ONLY)
      list(REMOVE_ITEM sources ${members})
      list(APPEND sources ${united})
    endif()
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
