# The fuzz targets of the preset fuzz (Clang, libFuzzer): tests/fuzz/NAME_fuzz.cc gives bin/fuzz_NAME. Compiles only
# what they read: the hot kernels need libraries that Clang may lack.
include(${PROJECT_SOURCE_DIR}/tests/fuzz/targets.cmake)

set(strategies attrs binding call cost explain in_place infer op propagate rows rule search)
set(audit call run_history run_inputs run_program run_steps run_values)
set(checkpoint chunk_hash manifest region)
set(runtime control_frame fold recorder_file recorder_verdict signature signature_wire)
list(TRANSFORM strategies PREPEND strategies/)
list(TRANSFORM audit PREPEND tools/placement_audit/)
list(TRANSFORM runtime PREPEND runtime/)
list(TRANSFORM checkpoint PREPEND checkpoint/)
set(sources ${strategies} ${audit} ${checkpoint} ${runtime} kernels/allocator kernels/array)
list(TRANSFORM sources APPEND .cc)
add_library(tessera_fuzzed STATIC ${sources})
target_link_libraries(tessera_fuzzed PUBLIC tessera_io)
tessera_compile_options(tessera_fuzzed)

foreach(name IN LISTS TESSERA_FUZZ_TARGETS)
  add_executable(fuzz_${name} tests/fuzz/${name}_fuzz.cc)
  target_link_libraries(fuzz_${name} PRIVATE tessera_fuzzed)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  tessera_compile_options(fuzz_${name})
endforeach()
