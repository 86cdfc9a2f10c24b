include(unite)

# tessera_layer(NAME [FOLDERS folder…] [FLAT] DEPENDS … [PRIVATE …] [HOT | COLD]): one static library from every source of
# the folders, NAME unless given, but main.cc. FLAT: the folders below them are layers of their own.
# HOT compiles the sources for speed, see tessera_hot_options; COLD for less of the compiler's time.
function(tessera_layer name)
  cmake_parse_arguments(LAYER "FLAT;HOT;COLD" "" "FOLDERS;DEPENDS;PRIVATE" ${ARGN})
  if(NOT LAYER_FOLDERS)
    set(LAYER_FOLDERS ${name})
  endif()
  list(TRANSFORM LAYER_FOLDERS REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/\\1/*.cc" OUTPUT_VARIABLE patterns)
  if(LAYER_FLAT)
    file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  endif()
  # The first two have targets of their own: cmake/mpi.cmake, cmake/nccl.cmake.
  list(FILTER sources EXCLUDE REGEX "/runtime/mpi[a-z_]*/|/devices/nccl/|/main\\.cc$")
  if(NOT sources)
    add_library(tessera_${name} INTERFACE)
    target_include_directories(tessera_${name} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(tessera_${name} INTERFACE ${LAYER_DEPENDS} Threads::Threads)
    return()
  endif()
  tessera_unite(sources tessera_${name} ${sources})
  add_library(tessera_${name} STATIC ${sources})
  target_include_directories(tessera_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_features(tessera_${name} PUBLIC cxx_std_20)
  target_link_libraries(tessera_${name} PUBLIC ${LAYER_DEPENDS} Threads::Threads)
  target_link_libraries(tessera_${name} PRIVATE ${LAYER_PRIVATE})
  set_target_properties(tessera_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  tessera_compile_options(tessera_${name})
  if(LAYER_COLD)
    target_compile_options(tessera_${name} PRIVATE ${TESSERA_COLD_OPTION})
  endif()
  if(LAYER_HOT)
    if(NOT TARGET tessera_precompiled_hot)
      tessera_precompiled(tessera_precompiled_hot OpenMP::OpenMP_CXX)
      tessera_hot_options(tessera_precompiled_hot)
    endif()
    tessera_hot_options(tessera_${name})
    target_precompile_headers(tessera_${name} REUSE_FROM tessera_precompiled_hot)
  else()
    target_precompile_headers(tessera_${name} REUSE_FROM tessera_precompiled)
  endif()
  string(REGEX MATCH "^[a-z_]+" folder "${LAYER_FOLDERS}")
  tessera_count_lines(tessera_${name} ${folder})
endfunction()

# The machine's own instruction set (TESSERA_MARCH) and full vectorisation. Products and sums contract to fused
# multiply-adds; no option allows sums to be reordered, so that results repeat. Vectors wider than the ABI's
# never cross an object file, hence no note about it. Sanitized builds settle for -O2: at less, the kernels take nearly
# all of the suites' time.
function(tessera_hot_options target)
  target_compile_options(${target} PRIVATE -ffp-contract=fast -Wno-psabi)
  if(TESSERA_MARCH)
    target_compile_options(${target} PRIVATE -march=${TESSERA_MARCH})
  endif()
  if(TESSERA_SANITIZE)
    target_compile_options(${target} PRIVATE -O2)
  else()
    target_compile_options(${target} PRIVATE -O3)
  endif()
endfunction()

# What runs seldom, or where the libraries do the work, takes almost half as long to compile so as at -O2.
set(TESSERA_COLD_OPTION $<$<CONFIG:Release,RelWithDebInfo>:-Og>)
# Tests' sources are the most that is compiled. -Og takes a quarter less than -O1, and assertions without a try block of
# their own a tenth: an exception that one lets out fails its test with the exception's text. Lines take a tenth more to
# compile and link: functions' names do, but to sanitizers.
set(TESSERA_TEST_OPTIONS $<$<CONFIG:Release,RelWithDebInfo>:-Og> -DCATCH_CONFIG_FAST_COMPILE)
if(NOT TESSERA_SANITIZE)
  list(APPEND TESSERA_TEST_OPTIONS $<$<CONFIG:Release,RelWithDebInfo>:-g0>)
endif()

# tessera_cold_sources(FOLDER): sources of one folder of a layer that is not cold as a whole, united ones included.
function(tessera_cold_sources folder)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  file(GLOB united ${PROJECT_BINARY_DIR}/united/${folder}/*.cc)
  set_source_files_properties(${sources} ${united} PROPERTIES COMPILE_OPTIONS "${TESSERA_COLD_OPTION}")
endfunction()

# tessera_count_lines(TARGET FOLDER): under TESSERA_COVERAGE, where scripts/coverage judges the folder.
function(tessera_count_lines target folder)
  if(TESSERA_COVERAGE AND folder MATCHES "^(placement|strategies|runtime|checkpoint)$")
    target_compile_options(${target} PRIVATE -fprofile-instr-generate -fcoverage-mapping)
    target_link_options(${target} PUBLIC -fprofile-instr-generate)
  endif()
endfunction()

# tessera_sum_precompiled(TARGET): of its precompiled header, 120 MB, ccache then reads a sum, where it is told so
# (CCACHE_PCH_EXTSUM, scripts/build): a fifth of a second for each source.
function(tessera_sum_precompiled target)
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$")
    set_target_properties(${target} PROPERTIES
      CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/sum_precompiled;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()

# tessera_precompiled(TARGET [LIBRARY…]): the precompiled header of the layers that share one set of options.
function(tessera_precompiled target)
  add_library(${target} STATIC ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
  target_link_libraries(${target} PRIVATE absl::statusor absl::flat_hash_map absl::inlined_vector absl::str_format
                        Threads::Threads ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_precompile_headers(${target} PRIVATE <cmake/precompiled.h>)
  tessera_sum_precompiled(${target})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  tessera_compile_options(${target})
endfunction()

# Standard, place, warnings and sanitizers, for our own targets only. A shared library shows what public headers mark
# TSR_API; as Clang compiles it, all: there a namespace's mark does not reach what is defined outside of its header.
function(tessera_compile_options target)
  set_target_properties(${target} PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
                        VISIBILITY_INLINES_HIDDEN ON RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  endif()
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wno-sign-conversion
                         -Wno-missing-field-initializers)
  if(TESSERA_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12's flow warnings are false on InlinedVector and string concatenation (its bugs 105329, 105562), more
    # so in instrumented code and behind a precompiled header; the sanitizers judge these instead.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-uninitialized -Wno-restrict
                           -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # lets ccache keep what a header precompiled for
    # The thread sanitizer does not see fences: what they order is what went past the caches, or a file that outlives the process.
    if(TESSERA_SANITIZE MATCHES "thread")
      target_compile_options(${target} PRIVATE -Wno-tsan)
    endif()
    # It collects its garbage later, for a tenth more memory: a twelfth of its time.
    target_compile_options(${target} PRIVATE --param=ggc-min-expand=300 --param=ggc-min-heapsize=600000)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # It tells of loops that it was asked to vectorise and could not, which GCC does: a matter of speed alone.
    target_compile_options(${target} PRIVATE -Wno-pass-failed)
    target_compile_options(${target} PRIVATE -Wextra-semi -Wimplicit-fallthrough -Wloop-analysis -Wnon-virtual-dtor
                           -Wunreachable-code -Wunused-member-function
                           "SHELL:-Xclang -fno-pch-timestamp")  # lets ccache keep what a header precompiled for
  endif()
  if(TESSERA_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${TESSERA_SANITIZE})
  endif()
endfunction()
