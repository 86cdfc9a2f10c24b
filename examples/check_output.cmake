# cmake -P: runs PROGRAM with ARGUMENTS (a | separates) and compares what it prints with the file EXPECTED.
string(REPLACE "|" ";" ARGUMENTS "${ARGUMENTS}")
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
file(READ ${EXPECTED} expected)
if(NOT result EQUAL 0 OR NOT output STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM}: exit ${result}, printed\n${output}${errors}expected\n${expected}")
endif()
