# cmake -P: configures, builds and runs a consumer, with its own tests. SOURCE, BUILD, CONFIGURE (arguments), PROGRAM,
# EXPECTED (what it prints), TARGETS (what to build). A | separates.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
string(REPLACE "|" ";" CONFIGURE "${CONFIGURE}")
string(REPLACE "|" ";" TARGETS "${TARGETS}")
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD} --fresh ${CONFIGURE})
run(${CMAKE_COMMAND} --build ${BUILD} --target ${TARGETS})
find_program(program ${PROGRAM} PATHS ${BUILD} ${BUILD}/programs NO_DEFAULT_PATH REQUIRED)
execute_process(COMMAND ${program} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
file(READ ${EXPECTED} expected)
if(NOT result EQUAL 0 OR NOT output STREQUAL expected)
  message(FATAL_ERROR "${program}: exit ${result}, printed\n${output}${errors}expected\n${expected}")
endif()
run(${CMAKE_CTEST_COMMAND} --test-dir ${BUILD} --output-on-failure)
