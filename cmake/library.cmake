# The libraries that others link, made of the layers' objects: tessera_rules_library (tessera::rules) plans, and needs
# Abseil alone; tessera (tessera::tessera) holds all of the core and needs neither MPI nor, unless TESSERA_CUDA asks for
# it, CUDA; tessera_mpi_library (tessera::mpi) is the MPI backend. Shared, unless BUILD_SHARED_LIBS is OFF. The programs and tests of this tree link the layers themselves and so see what the libraries hide.
if(DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS)
  set(TESSERA_LIBRARY_TYPE STATIC)
else()
  set(TESSERA_LIBRARY_TYPE SHARED)
endif()

# tessera_library(TARGET NAME EXPORT_NAME LAYERS…): libNAME from the objects of these layers' targets.
function(tessera_library target name export_name)
  set(objects "")
  foreach(layer IN LISTS ARGN)
    get_target_property(type ${layer} TYPE)
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:${layer}>)
    endif()
  endforeach()
  add_library(${target} ${TESSERA_LIBRARY_TYPE} ${objects})
  add_library(tessera::${export_name} ALIAS ${target})
  # Before 1.0 a minor version may change what programs were compiled against: its number is part of the soname.
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${name} EXPORT_NAME ${export_name}
                        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                        ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)  # a layer's archive may have the same name
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(TESSERA_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${TESSERA_SANITIZE})
  else()
    target_link_options(${target} PRIVATE LINKER:-z,defs)  # what a header forgot to export shows here
  endif()
  if(TESSERA_COVERAGE)
    target_link_options(${target} PRIVATE -fprofile-instr-generate)
  endif()
  # What a program may link together says the same.
  set_target_properties(${target} PROPERTIES INTERFACE_TESSERA_HOLDS all COMPATIBLE_INTERFACE_STRING TESSERA_HOLDS)
  # Calls inside the library need no detour for a symbol that somebody might replace.
  target_link_options(${target} PRIVATE LINKER:-Bsymbolic-functions)
endfunction()

# tessera_public_headers(OUT FOLDERS…): the headers of docs/headers.md below these folders, and those that they include.
function(tessera_public_headers out)
  set(page ${PROJECT_SOURCE_DIR}/docs/headers.md)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
  file(STRINGS ${page} rows REGEX "^\\| `")
  string(REGEX MATCHALL "`[a-z_/]+\\.h`" names "${rows}")
  set(headers "")
  foreach(name IN LISTS names)
    string(REPLACE "`" "" header ${name})
    foreach(folder IN LISTS ARGN)
      if(header MATCHES "^${folder}/")
        list(APPEND headers ${header})
        break()
      endif()
    endforeach()
  endforeach()
  set(unread ${headers})
  while(unread)
    list(POP_FRONT unread header)
    if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${header})
      message(FATAL_ERROR "docs/headers.md names ${header}, which is not there")
    endif()
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include \"")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "^#include \"(.*)\".*" "\\1" include "${include}")
      if(EXISTS ${PROJECT_SOURCE_DIR}/${include} AND NOT include IN_LIST headers)
        list(APPEND headers ${include})
        list(APPEND unread ${include})
      endif()
    endforeach()
  endwhile()
  list(SORT headers)
  list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/)
  set(${out} ${headers} PARENT_SCOPE)
endfunction()

tessera_library(tessera_rules_library tessera_rules rules tessera_placement tessera_kernels tessera_rules)
# tessera::tessera holds the rules too: a program that linked both would have two tables of ops.
set_target_properties(tessera_rules_library PROPERTIES INTERFACE_TESSERA_HOLDS rules)
tessera_public_headers(headers placement kernels strategies/rules)
target_sources(tessera_rules_library PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
# What public headers include is public.
set(TESSERA_HEADER_LIBRARIES Threads::Threads absl::status absl::statusor absl::flat_hash_map absl::flat_hash_set
    absl::node_hash_set absl::inlined_vector)
target_link_libraries(tessera_rules_library PUBLIC ${TESSERA_HEADER_LIBRARIES} PRIVATE absl::strings absl::str_format)

# For projects that add this one as a folder and only plan: the pure values, nothing else to compile.
add_library(tessera::placement ALIAS tessera_placement)

# tessera_whole_library(): tessera::tessera and tessera::mpi, once all layers are there.
macro(tessera_whole_library)
  set(device_layers tessera_emulation tessera_emulation_blocks tessera_emulated_device tessera_devices)
  if(TESSERA_CUDA)
    list(APPEND device_layers tessera_cuda_device ${TESSERA_CARD_LIBRARIES})
  endif()
  tessera_library(tessera tessera tessera tessera_placement tessera_io tessera_kernels tessera_host_kernels
                  tessera_rules tessera_verify tessera_program tessera_analysis tessera_runtime tessera_dtensor tessera_capture tessera_execute tessera_checkpoint tessera_parallel
                  tessera_moe_layer tessera_moe ${device_layers} tessera_audit_plans tessera_audit)
  if(TESSERA_LIBRARY_TYPE STREQUAL "STATIC")
    target_link_options(tessera INTERFACE LINKER:--undefined=tessera_has_host_kernels)
  endif()
  if(TESSERA_CUDA)
    target_link_libraries(tessera PRIVATE CUDA::cudart_static CUDA::cublasLt)
  endif()
  tessera_public_headers(headers placement io kernels devices strategies program runtime dtensor capture execute checkpoint parallel moe tools
                         testing)
  target_sources(tessera PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
  target_link_libraries(tessera PUBLIC ${TESSERA_HEADER_LIBRARIES}
                        PRIVATE absl::strings absl::str_format DNNL::dnnl OpenMP::OpenMP_CXX re2::re2 Sodium::sodium)

  if(TESSERA_HAS_MPI)
    tessera_library(tessera_mpi_library tessera_mpi mpi tessera_mpi)
    target_link_libraries(tessera_mpi_library PUBLIC tessera
                          PRIVATE absl::str_format MPI::MPI_CXX OpenMP::OpenMP_CXX)
  endif()
endmacro()
