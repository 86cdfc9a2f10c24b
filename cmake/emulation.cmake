# Kernels, streams, events and graphs of CUDA on the processor: emulation/ (docs/cuda.md). What links this gets its
# <cuda_runtime.h>, and its .cu sources are compiled as C++.

# tessera_emulation(TARGET [SANITIZERS]): beside what TESSERA_SANITIZE asks for.
function(tessera_emulation target)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/emulation/*.cc)
  # The thread sanitizer is told of these by name: switches of stacks, and values that pass between lanes.
  set(told ${PROJECT_SOURCE_DIR}/emulation/block.cc ${PROJECT_SOURCE_DIR}/emulation/fiber.cc)
  list(REMOVE_ITEM sources ${told})
  tessera_unite(sources ${target} ${sources})
  add_library(${target}_blocks OBJECT ${told})
  add_library(${target} STATIC ${sources} $<TARGET_OBJECTS:${target}_blocks>)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/emulation)
  target_include_directories(${target}_blocks PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC Threads::Threads)
  foreach(part ${target} ${target}_blocks)
    set_target_properties(${part} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    tessera_compile_options(${part})
    if(ARGN)
      target_compile_options(${part} PUBLIC -fsanitize=${ARGN} -fno-omit-frame-pointer ${TESSERA_COLD_OPTION})
      target_link_options(${part} PUBLIC -fsanitize=${ARGN})
    endif()
  endforeach()
  if("${TESSERA_SANITIZE};${ARGN}" MATCHES "thread")
    target_compile_options(${target}_blocks PRIVATE -fno-sanitize=thread -DTSR_UNDER_THREAD_SANITIZER)
  endif()
endfunction()

# tessera_emulated_sources(FILE.cu…): of the calling folder's targets.
function(tessera_emulated_sources)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX SKIP_PRECOMPILE_HEADERS ON)
endfunction()

tessera_emulation(tessera_emulation)

# tessera_device_groups(OUT FOLDER [ALONE…]): the engine's device code, but for the sources named, in eight sources that
# include the others: most of what a compiler does for one of them, nvcc four times over, is to read headers. So names of
# a source's own must differ. FOLDER, where they lie below the build: nvcc's are others than the emulation's.
function(tessera_device_groups out folder)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
  list(REMOVE_ITEM sources ${ARGN})
  set(at 0)
  foreach(source IN LISTS sources)
    math(EXPR group "${at} % 8")
    math(EXPR at "${at} + 1")
    string(APPEND included_${group} "#include \"${source}\"\n")
  endforeach()
  set(groups "")
  foreach(group RANGE 7)
    set(source ${PROJECT_BINARY_DIR}/${folder}/device_code_${group}.cu)
    file(CONFIGURE OUTPUT ${source} CONTENT "${included_${group}}" @ONLY)
    list(APPEND groups ${source})
  endforeach()
  set(${out} ${groups} PARENT_SCOPE)
endfunction()

# The engine's device code on it.
tessera_device_groups(groups emulated)
set_source_files_properties(${groups} PROPERTIES LANGUAGE CXX)
add_library(tessera_emulated_device STATIC ${groups})
target_precompile_headers(tessera_emulated_device REUSE_FROM tessera_precompiled)
target_link_libraries(tessera_emulated_device PUBLIC tessera_host_kernels PRIVATE tessera_emulation)
set_target_properties(tessera_emulated_device PROPERTIES POSITION_INDEPENDENT_CODE ON)
tessera_compile_options(tessera_emulated_device)
target_compile_options(tessera_emulated_device PRIVATE ${TESSERA_COLD_OPTION})

# The NCCL backend, over NCCL emulated.
file(GLOB nccl_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/nccl/*.cu)
set_source_files_properties(${nccl_sources} PROPERTIES LANGUAGE CXX)
tessera_unite(nccl_sources tessera_emulated_nccl ${nccl_sources})
add_library(tessera_emulated_nccl STATIC ${nccl_sources})
target_precompile_headers(tessera_emulated_nccl REUSE_FROM tessera_precompiled)
target_link_libraries(tessera_emulated_nccl PUBLIC tessera_runtime
                      PRIVATE tessera_emulated_device tessera_emulation)
set_target_properties(tessera_emulated_nccl PROPERTIES POSITION_INDEPENDENT_CODE ON)
tessera_compile_options(tessera_emulated_nccl)
