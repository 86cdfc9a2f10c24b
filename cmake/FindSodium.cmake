# Sodium::sodium: message authentication and random numbers. Debian's package brings no CMake package.
find_path(SODIUM_INCLUDE_DIR sodium.h)
find_library(SODIUM_LIBRARY sodium)
mark_as_advanced(SODIUM_INCLUDE_DIR SODIUM_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Sodium REQUIRED_VARS SODIUM_LIBRARY SODIUM_INCLUDE_DIR)
if(SODIUM_FOUND AND NOT TARGET Sodium::sodium)
  add_library(Sodium::sodium UNKNOWN IMPORTED)
  set_target_properties(Sodium::sodium PROPERTIES IMPORTED_LOCATION ${SODIUM_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${SODIUM_INCLUDE_DIR})
  if(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
    set_target_properties(Sodium::sodium PROPERTIES IMPORTED_GLOBAL TRUE)
  endif()
endif()
