# The allocator that programs of this project are linked with, and no library is (docs/adr/0046): who links
# tessera::tessera chooses it.
set(TESSERA_ALLOCATOR "" CACHE STRING "Allocator of the programs: mimalloc or system; empty: mimalloc where it is and no sanitizer brings one")
set_property(CACHE TESSERA_ALLOCATOR PROPERTY STRINGS "" mimalloc system)
if(NOT TESSERA_ALLOCATOR MATCHES "^(|mimalloc|system)$")
  message(FATAL_ERROR "TESSERA_ALLOCATOR is \"${TESSERA_ALLOCATOR}\"; allowed: mimalloc, system, or empty")
endif()
find_library(TESSERA_MIMALLOC mimalloc)
mark_as_advanced(TESSERA_MIMALLOC)
if(TESSERA_ALLOCATOR STREQUAL "mimalloc" AND NOT TESSERA_MIMALLOC)
  message(FATAL_ERROR "TESSERA_ALLOCATOR is mimalloc, which is not there; install libmimalloc-dev, or choose system")
endif()
# tessera_program(TARGET)
function(tessera_program target)
  if(TESSERA_ALLOCATOR STREQUAL "mimalloc" OR (TESSERA_MIMALLOC AND NOT TESSERA_ALLOCATOR AND NOT TESSERA_SANITIZE))
    # By need of no symbol: it has those of the C library.
    target_link_options(${target} PRIVATE LINKER:--push-state,--no-as-needed,${TESSERA_MIMALLOC},--pop-state)
  endif()
  tessera_compile_options(${target})
endfunction()

# The linker of programs and libraries. mold, where it is, links a program of 70 MB in a sixth of the time that ld takes.
find_program(TESSERA_MOLD mold)
mark_as_advanced(TESSERA_MOLD)
if(PROJECT_IS_TOP_LEVEL AND TESSERA_MOLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>)
endif()
