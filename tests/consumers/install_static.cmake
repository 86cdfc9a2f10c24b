# cmake -P: builds the static library of SOURCE at BUILD, with CONFIGURE (a | separates), and installs it to INSTALLED.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
string(REPLACE "|" ";" CONFIGURE "${CONFIGURE}")
file(REMOVE_RECURSE ${INSTALLED})
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD} ${CONFIGURE} -DBUILD_SHARED_LIBS=OFF -DTESSERA_BUILD_TOOLS=OFF
    -DTESSERA_BUILD_TESTS=OFF -DTESSERA_BUILD_BENCHMARKS=OFF -DTESSERA_WITH_MPI=OFF)
run(${CMAKE_COMMAND} --build ${BUILD} --target tessera)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${INSTALLED} --component development)
file(GLOB libraries RELATIVE ${INSTALLED}/lib ${INSTALLED}/lib/*tessera.*)
if(NOT libraries STREQUAL "libtessera.a")
  message(FATAL_ERROR "${INSTALLED}/lib holds ${libraries}")
endif()
