# The MPI backend, tessera_mpi: from runtime/mpi/ where an MPI is found, else from the stub with the same functions.
# Beside the system's default MPI, Debian's MPICH gives a second variant, tessera_mpi_mpich. Variants share all but
# this one library: it alone includes mpi.h.
option(TESSERA_WITH_MPI "Build the MPI backend where an MPI is found" ON)

# tessera_mpi_backend(TARGET MPI_TARGET): the backend against one MPI.
function(tessera_mpi_backend target mpi)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/mpi/*.cc)
  add_library(${target} STATIC ${sources})
  target_link_libraries(${target} PUBLIC tessera_runtime PRIVATE ${mpi} OpenMP::OpenMP_CXX)
  target_compile_definitions(${target} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  tessera_compile_options(${target})
  if(NOT TESSERA_SANITIZE)
    target_compile_options(${target} PRIVATE -O3)
  endif()
endfunction()

set(TESSERA_HAS_MPI OFF)
if(TESSERA_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # only the C functions are used
  find_package(MPI COMPONENTS CXX)
  set(TESSERA_HAS_MPI ${MPI_CXX_FOUND})
endif()
if(TESSERA_HAS_MPI)
  tessera_mpi_backend(tessera_mpi MPI::MPI_CXX)
else()
  add_library(tessera_mpi STATIC ${PROJECT_SOURCE_DIR}/runtime/mpi_absent/world.cc)
  target_link_libraries(tessera_mpi PUBLIC tessera_runtime)
  set_target_properties(tessera_mpi PROPERTIES POSITION_INDEPENDENT_CODE ON)
  tessera_compile_options(tessera_mpi)
endif()

find_path(TESSERA_MPICH_INCLUDE mpi.h PATHS /usr/include PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE}/mpich NO_DEFAULT_PATH)
find_library(TESSERA_MPICH_LIBRARY mpich)
find_program(TESSERA_MPICH_EXEC mpirun.mpich)
set(TESSERA_HAS_MPICH OFF)
if(TESSERA_HAS_MPI AND TESSERA_MPICH_INCLUDE AND TESSERA_MPICH_LIBRARY AND TESSERA_MPICH_EXEC)
  set(TESSERA_HAS_MPICH ON)
  add_library(tessera_mpich_library INTERFACE)
  target_include_directories(tessera_mpich_library SYSTEM INTERFACE ${TESSERA_MPICH_INCLUDE})
  target_link_libraries(tessera_mpich_library INTERFACE ${TESSERA_MPICH_LIBRARY})
  tessera_mpi_backend(tessera_mpi_mpich tessera_mpich_library)
endif()
