# tessera_add_mpi_test(NAME name RANKS n [TARGET target | COMMAND program] [ARGS arg…] [TIMEOUT seconds]
#                      [LABELS label…] [MPIEXEC path] [WORKING_DIRECTORY dir])
#
# A ctest test that runs a program on n ranks of MPI. The file needs nothing but the script tessera_mpirun beside it;
# OpenMPI and MPICH both work.
#   TARGET     an executable of this project; the one called `name` where neither TARGET nor COMMAND is given
#   TIMEOUT    of the run, 60 seconds unless given. The script ends the ranks itself, so that none is left behind
#   LABELS     beside mpi and mpi-n, which every such test has: ctest -L mpi
#   MPIEXEC    mpirun or mpiexec; else MPIEXEC_EXECUTABLE (of find_package(MPI)), else the first one in PATH
# The test takes n of ctest's slots (PROCESSORS) and fails with the exit code of the rank that failed first. Its
# output shows that rank's log first and the ends of the others'; whole logs lie in
# ${CMAKE_CURRENT_BINARY_DIR}/mpi_logs/name/rank_N.log. What mpirun needs to run as root and with more ranks than
# cores is set where the test runs, see tessera_mpirun.
function(tessera_add_mpi_test)
  cmake_parse_arguments(PARSE_ARGV 0 MPI_TEST "" "NAME;RANKS;TARGET;COMMAND;TIMEOUT;MPIEXEC;WORKING_DIRECTORY"
                        "ARGS;LABELS")
  if(MPI_TEST_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tessera_add_mpi_test: unknown arguments: ${MPI_TEST_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT MPI_TEST_NAME)
    message(FATAL_ERROR "tessera_add_mpi_test: NAME is missing")
  endif()
  if(NOT MPI_TEST_RANKS MATCHES "^[1-9][0-9]*$")
    message(FATAL_ERROR "tessera_add_mpi_test ${MPI_TEST_NAME}: RANKS is \"${MPI_TEST_RANKS}\", it is a number from 1 up")
  endif()
  if(NOT MPI_TEST_TIMEOUT)
    set(MPI_TEST_TIMEOUT 60)
  endif()
  if(NOT MPI_TEST_TIMEOUT MATCHES "^[1-9][0-9]*$")
    message(FATAL_ERROR "tessera_add_mpi_test ${MPI_TEST_NAME}: TIMEOUT is \"${MPI_TEST_TIMEOUT}\", it is whole seconds")
  endif()
  if(MPI_TEST_COMMAND)
    set(program ${MPI_TEST_COMMAND})
  else()
    if(NOT MPI_TEST_TARGET)
      set(MPI_TEST_TARGET ${MPI_TEST_NAME})
    endif()
    set(program $<TARGET_FILE:${MPI_TEST_TARGET}>)
  endif()
  if(NOT MPI_TEST_MPIEXEC)
    set(MPI_TEST_MPIEXEC ${MPIEXEC_EXECUTABLE})
  endif()
  if(NOT MPI_TEST_MPIEXEC)
    find_program(TESSERA_MPIEXEC NAMES mpiexec mpirun)
    set(MPI_TEST_MPIEXEC ${TESSERA_MPIEXEC})
  endif()
  if(NOT MPI_TEST_MPIEXEC)
    message(FATAL_ERROR "tessera_add_mpi_test ${MPI_TEST_NAME}: no mpiexec or mpirun in PATH; install an MPI, or pass MPIEXEC")
  endif()
  if(NOT MPI_TEST_WORKING_DIRECTORY)
    set(MPI_TEST_WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  add_test(NAME ${MPI_TEST_NAME}
           COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/tessera_mpirun --mpiexec ${MPI_TEST_MPIEXEC}
                   --logs ${CMAKE_CURRENT_BINARY_DIR}/mpi_logs/${MPI_TEST_NAME} --timeout ${MPI_TEST_TIMEOUT}
                   -n ${MPI_TEST_RANKS} -- ${program} ${MPI_TEST_ARGS}
           WORKING_DIRECTORY ${MPI_TEST_WORKING_DIRECTORY})
  # ctest's own limit comes later: it would kill the script before it has ended the ranks.
  math(EXPR limit "${MPI_TEST_TIMEOUT} + 20")
  set_tests_properties(${MPI_TEST_NAME} PROPERTIES TIMEOUT ${limit} PROCESSORS ${MPI_TEST_RANKS}
                       LABELS "mpi;mpi-${MPI_TEST_RANKS};${MPI_TEST_LABELS}")
endfunction()
