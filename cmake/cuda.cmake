# Device code for real devices, where a CUDA toolkit is found. Its runtime is asked for at run time only: what is
# built here starts on machines without a driver.
option(TESSERA_WITH_CUDA "Compile device code with nvcc where a toolkit is found" ON)
option(TESSERA_CUDA "Programs run on cards (--device cuda); needs a toolkit, and its cuBLASLt where they run" OFF)
option(TESSERA_OPTIMIZE_DEVICE_CODE "Device code is fast rather than soon compiled" ON)
set(TESSERA_CUDA_ARCHITECTURES "80-real;90a-real" CACHE STRING "What nvcc compiles for")

set(TESSERA_HAS_CUDA OFF)
# Sanitizers judge the emulation's build; nvcc's objects are the same under each of them.
if(TESSERA_WITH_CUDA AND NOT TESSERA_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  find_program(TESSERA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(TESSERA_NVCC AND NOT DEFINED CMAKE_CUDA_COMPILER)
    # A toolkit that does not take this host compiler is none.
    set(ENV{CUDACXX} ${TESSERA_NVCC})
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER)
    find_package(CUDAToolkit REQUIRED)
    set(CMAKE_CUDA_ARCHITECTURES ${TESSERA_CUDA_ARCHITECTURES})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    enable_language(CUDA)
    # Of the host's code beside the kernels, which are optimised in any case.
    set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")
    set(TESSERA_HAS_CUDA ON)
  else()
    message(STATUS "No CUDA toolkit: device code is compiled for the emulation alone")
  endif()
endif()

# tessera_device_code_soon(TARGET): compiled in three quarters of the time, for what no card runs.
function(tessera_device_code_soon target)
  target_compile_options(${target} PRIVATE "SHELL:$<$<COMPILE_LANGUAGE:CUDA>:-Xcicc -O0>"
                         "SHELL:$<$<COMPILE_LANGUAGE:CUDA>:-Xptxas -O0>" $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-O0>)
endfunction()

# tessera_device_options(TARGET): sources of nvcc's, without warnings.
function(tessera_device_options target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  # CMake 3.25 does not know C++20 for this compiler.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr --Werror all-warnings
                         -Xcompiler=-Wall,-Wextra>)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# What stands before libraries for cards, and compiles long where they are there: devices/cuda.
set(TESSERA_LIBRARY_SOURCES kernels/cuda/grouped_library.cu kernels/cuda/attention_library.cu)

if(TESSERA_CUDA AND NOT TESSERA_HAS_CUDA)
  message(FATAL_ERROR "TESSERA_CUDA: no CUDA toolkit was found that takes this compiler, or sanitizers were asked for")
endif()
