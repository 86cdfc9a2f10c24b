# Sources that GCC compiles together: cmake/united_sources.txt has a line for each group. A source of this project spends
# more than half of its compiler's time in the headers it includes. Other compilers, whose tools look at commands of single files,
# compile each by itself, and so see that each includes what it uses; so is every file that stands in no group.
# TESSERA_UNITE unites for them too: scripts/tidy --all. Test cases are grouped without a list: tessera_part_tests.
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
    # GCC tells types of an unnamed namespace as members only outside of a source itself.
    set(content "#pragma GCC diagnostic ignored \"-Wsubobject-linkage\"\n")
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

# tessera_part_tests(OUT TARGET SOURCE…): the sources, with those that hold test cases in groups of about twelve, in the order
# of their names, and what neither holds cases nor stands in the list behind the last of them: see part_tests.cmake. Nobody
# calls what stands beside cases: that would not link.
set(TESSERA_PART_TESTS ${CMAKE_CURRENT_LIST_DIR}/part_tests.cmake)
function(tessera_part_tests out target)
  list(TRANSFORM ARGN REPLACE "^([^/].*)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1" OUTPUT_VARIABLE sources)
  tessera_unite(sources ${target} ${sources})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(${out} ${sources} PARENT_SCOPE)
    return()
  endif()
  set(parted "")
  set(whole "")
  foreach(source IN LISTS sources)
    file(STRINGS ${source} case REGEX "^TEST_CASE" LIMIT_COUNT 1)
    if(case)
      list(APPEND parted ${source})
    elseif(NOT source MATCHES "^${PROJECT_BINARY_DIR}/")
      list(APPEND whole ${source})
    endif()
  endforeach()
  list(LENGTH parted count)
  math(EXPR groups "(${count} + 11) / 12")
  list(LENGTH whole alone)
  math(EXPR together "${count} + ${alone}")
  if(together LESS 2)
    set(groups 0)
  endif()
  set(group 0)
  while(group LESS groups)
    math(EXPR begin "${group} * ${count} / ${groups}")
    math(EXPR group "${group} + 1")
    math(EXPR length "${group} * ${count} / ${groups} - ${begin}")
    list(SUBLIST parted ${begin} ${length} members)
    set(behind "")
    if(group EQUAL groups)
      set(behind ${whole})
    endif()
    list(REMOVE_ITEM sources ${members} ${behind})
    set(united ${PROJECT_BINARY_DIR}/united/tests/${target}_parted_${group}.cc)
    add_custom_command(
      OUTPUT ${united}
      COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} "-DPARTED=${members}" "-DWHOLE=${behind}" -DOUTPUT=${united}
              -P ${TESSERA_PART_TESTS}
      DEPENDS ${members} ${behind} ${TESSERA_PART_TESTS}
      COMMENT "Uniting tests"
      VERBATIM)
    list(APPEND sources ${united})
  endwhile()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
