# Ranks over NCCL: emulated always, NCCL itself in programs for cards where its header is found (devices/cuda). Its library is
# opened at run time.
add_library(tessera_nccl STATIC ${PROJECT_SOURCE_DIR}/devices/nccl/ranks.cc)
target_precompile_headers(tessera_nccl REUSE_FROM tessera_precompiled)
target_link_libraries(tessera_nccl PUBLIC tessera_runtime tessera_devices PRIVATE tessera_emulated_nccl)
set_target_properties(tessera_nccl PROPERTIES POSITION_INDEPENDENT_CODE ON)
tessera_compile_options(tessera_nccl)
if(TARGET tessera_cuda_nccl)
  target_link_libraries(tessera_nccl PRIVATE tessera_cuda_nccl)
  target_compile_definitions(tessera_nccl PRIVATE TSR_HAS_NCCL)
endif()
