# Seconds after which a test hangs: the longest takes 90 on an idle machine, and twenty times that beside other work.
set(TESSERA_TEST_LIMIT 2700)
if(TESSERA_SANITIZE)
  set(TESSERA_TEST_LIMIT 9000)  # instrumented code is slower
endif()

# tessera_test(LAYER DEPENDS … [RANKS] [COMPUTES] [THREADS_ONLY patterns]): one Catch2 program from
# tests/LAYER/*.cc, registered with ctest. RANKS: its cases launch ranks (testing/launch.h). The sources are
# compiled once and linked with ranks as threads (test_LAYER) and as processes of each MPI that was found
# (test_mpi_LAYER, test_mpich_LAYER), the latter without the files that are about threads themselves. COMPUTES: it keeps
# two of ctest's slots busy, of which ./test gives three a core and one more; the others mostly wait.
function(tessera_test name)
  cmake_parse_arguments(TEST "RANKS;COMPUTES" "" "DEPENDS;THREADS_ONLY" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  if(NOT sources)
    return()
  endif()
  set(threads_only "")
  set(found "")
  if(TEST_THREADS_ONLY)
    list(TRANSFORM TEST_THREADS_ONLY PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${name}/)
    file(GLOB found CONFIGURE_DEPENDS ${TEST_THREADS_ONLY})
  endif()
  if(found)
    list(REMOVE_ITEM sources ${found})
    if(TESSERA_SANITIZE MATCHES "thread")
      list(FILTER found EXCLUDE REGEX "_process_test\\.cc$")  # GCC's starts no threads after a fork
    endif()
    set(threads_only tests_${name}_threads)
    tessera_test_objects(${threads_only} SOURCES ${found} DEPENDS ${TEST_DEPENDS})
  endif()
  tessera_test_objects(tests_${name} SOURCES ${sources} DEPENDS ${TEST_DEPENDS})

  set(launcher "")
  if(TEST_RANKS)
    set(launcher tests_launch_threads)
  endif()
  tessera_test_program(test_${name} tests_${name} ${threads_only} ${launcher} tests_main_plain)
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${TESSERA_TEST_LIMIT})
  if(TEST_COMPUTES)
    set_tests_properties(${name} PROPERTIES PROCESSORS 2 COST 800000)  # early, so that there is always one to go on with
  endif()
  if(TEST_RANKS AND TESSERA_HAS_MPI)
    tessera_test_program(test_mpi_${name} tests_${name} tests_launch_mpi)
  endif()
  if(TEST_RANKS AND TESSERA_HAS_MPICH)
    tessera_test_program(test_mpich_${name} tests_${name} tests_launch_mpich)
  endif()
endfunction()


# tessera_test_objects(TARGET SOURCES … DEPENDS …): test sources, compiled with Catch2's precompiled header.
function(tessera_test_objects target)
  cmake_parse_arguments(OBJECTS "" "" "SOURCES;DEPENDS" ${ARGN})
  tessera_part_tests(sources ${target} ${OBJECTS_SOURCES})
  add_library(${target} OBJECT ${sources})
  target_link_libraries(${target} PUBLIC tessera_test_main ${OBJECTS_DEPENDS})
  target_precompile_headers(${target} REUSE_FROM tessera_test_main)
  tessera_compile_options(${target})
  target_compile_options(${target} PRIVATE ${TESSERA_TEST_OPTIONS})
endfunction()

# tessera_test_program(NAME OBJECTS…)
function(tessera_test_program name)
  set(objects "")
  set(libraries "")
  foreach(part IN LISTS ARGN)
    list(APPEND objects $<TARGET_OBJECTS:${part}>)
    list(APPEND libraries $<TARGET_PROPERTY:${part},INTERFACE_LINK_LIBRARIES>)
  endforeach()
  add_executable(${name} ${objects})
  target_link_libraries(${name} PRIVATE ${libraries})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  tessera_program(${name})
endfunction()

# tessera_conformance(PROGRAM LAYER RANKS… [CASES filter]): the cases of test_PROGRAM_LAYER that need so many ranks,
# once per number of processes.
function(tessera_conformance program layer)
  cmake_parse_arguments(RUN "" "CASES" "RANKS" ${ARGN})
  if(NOT TARGET test_${program}_${layer})
    return()
  endif()
  set(mpiexec ${MPIEXEC_EXECUTABLE})
  if(program STREQUAL "mpich")
    set(mpiexec ${TESSERA_MPICH_EXEC})
  endif()
  foreach(ranks IN LISTS RUN_RANKS)
    tessera_add_mpi_test(NAME ${program}.${layer}.${ranks} TARGET test_${program}_${layer} RANKS ${ranks}
                         TIMEOUT ${TESSERA_TEST_LIMIT} MPIEXEC ${mpiexec} ARGS ${RUN_CASES})
    list(JOIN RUN_RANKS "," launches)
    set_tests_properties(${program}.${layer}.${ranks} PROPERTIES ENVIRONMENT "TESSERA_LAUNCHES=${launches}")
    tessera_half_slots(${program}.${layer}.${ranks} ${ranks})
  endforeach()
endfunction()

# tessera_half_slots(TEST RANKS): a launch takes half as many of ctest's slots as it has ranks, which wait for each other
# for about half of the time.
function(tessera_half_slots test ranks)
  math(EXPR slots "(${ranks} + 1) / 2")
  set_tests_properties(${test} PROPERTIES PROCESSORS ${slots})
endfunction()
