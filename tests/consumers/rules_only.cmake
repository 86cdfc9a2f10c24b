# cmake -P: builds SOURCE at BUILD with TESSERA_RULES_ONLY where neither oneDNN, OpenMP, MPI, RE2 nor libsodium is found, with
# CONFIGURE (a | separates); runs its placement-audit beside WHOLE, that of the whole build; installs it to INSTALLED.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
string(REPLACE "|" ";" CONFIGURE "${CONFIGURE}")
foreach(package dnnl OpenMP MPI RE2 Sodium CUDAToolkit)
  list(APPEND CONFIGURE -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
file(REMOVE_RECURSE ${INSTALLED})
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD} ${CONFIGURE} -DTESSERA_RULES_ONLY=ON -DCMAKE_INSTALL_PREFIX=${INSTALLED})
run(${CMAKE_COMMAND} --build ${BUILD})
run(${CMAKE_COMMAND} --install ${BUILD})

# same(INPUT ARGUMENT…): both programs give the same answer to a document.
function(same input)
  file(WRITE ${BUILD}/input.json "${input}")
  foreach(program ${BUILD}/bin/placement-audit ${WHOLE})
    execute_process(COMMAND ${program} ${ARGN} INPUT_FILE ${BUILD}/input.json OUTPUT_VARIABLE output
                    COMMAND_ERROR_IS_FATAL ANY)
    if(NOT output OR (DEFINED first AND NOT output STREQUAL first))
      message(FATAL_ERROR "${program} ${ARGN} answers\n${output}and the other\n${first}")
    endif()
    set(first "${output}")
  endforeach()
endfunction()
set(mesh [["mesh": {"shape": [2, 4], "axes": ["dp", "tp"]}]])
set(tensor [["tensor": {"shape": [8, 8], "dtype": "F32"}]])
same("{${mesh}, ${tensor}, \"placements\": [\"S(0)\", \"R\"]}" layout)
same("{${mesh}, ${tensor}, \"src\": [\"S(0)\", \"R\"], \"dst\": [\"S(1)\", \"S(0)\"]}" plan)
same("{${mesh}, \"op\": \"matmul\", \"args\": [{${tensor}, \"placements\": [\"S(0)\", \"R\"]},
     {${tensor}, \"placements\": [\"R\", \"S(0)\"]}]}" propagate)
same("" ops)
same("" ops --format text matmul topk)

foreach(arguments "verify;relu" "ops;--samples;relu" "run" "recorder;.")
  execute_process(COMMAND ${BUILD}/bin/placement-audit ${arguments} INPUT_FILE ${BUILD}/input.json
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT result EQUAL 2 OR output OR NOT errors MATCHES "^placement-audit: this command is not in this build, [^\n]*\n$")
    message(FATAL_ERROR "placement-audit ${arguments}: exit ${result}, ${output}${errors}")
  endif()
endforeach()
execute_process(COMMAND ${INSTALLED}/bin/placement-audit ops relu OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
