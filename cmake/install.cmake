# What `cmake --install` puts where, by component: runtime (the shared library), development (headers, CMake package,
# pkg-config), mpi (the MPI backend with its part of both), programs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(TESSERA_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)

install(TARGETS tessera_rules_library EXPORT tesseraRulesTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT rules
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT rules
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera COMPONENT rules)
install(EXPORT tesseraRulesTargets NAMESPACE tessera:: DESTINATION ${TESSERA_CMAKE_DIR} COMPONENT rules)
if(TARGET tessera)
  install(TARGETS tessera EXPORT tesseraTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
          FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera COMPONENT development)
  install(EXPORT tesseraTargets NAMESPACE tessera:: DESTINATION ${TESSERA_CMAKE_DIR} COMPONENT development)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)

configure_package_config_file(cmake/tesseraConfig.cmake.in ${PROJECT_BINARY_DIR}/tesseraConfig.cmake
                              INSTALL_DESTINATION ${TESSERA_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
              cmake/tessera_mpi_test.cmake cmake/plain_library.cmake cmake/FindRE2.cmake
              cmake/FindSodium.cmake
        DESTINATION ${TESSERA_CMAKE_DIR} COMPONENT development)
install(PROGRAMS cmake/tessera_mpirun DESTINATION ${TESSERA_CMAKE_DIR} COMPONENT development)

# tessera_pkg_config(NAME COMPONENT): NAME.pc from cmake/NAME.pc.in. It finds its prefix from where it lies.
function(tessera_pkg_config name component)
  file(RELATIVE_PATH to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT ${component})
endfunction()
tessera_pkg_config(tessera-rules rules)
if(TARGET tessera)
  tessera_pkg_config(tessera development)
endif()

if(TARGET tessera_mpi_library)
  set_target_properties(tessera_mpi_library PROPERTIES INSTALL_RPATH "$ORIGIN")  # libtessera lies beside it
  install(TARGETS tessera_mpi_library EXPORT tesseraMpiTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi)
  install(EXPORT tesseraMpiTargets NAMESPACE tessera:: DESTINATION ${TESSERA_CMAKE_DIR} COMPONENT mpi)
  tessera_pkg_config(tessera-mpi mpi)
endif()

foreach(program placement-audit tessera-train tessera-train-emulated)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
  endif()
endforeach()

if(PROJECT_IS_TOP_LEVEL)
  include(package)
endif()
