# cmake -DROOT=… -DPARTED=… -DWHOLE=… -DOUTPUT=… -P: one source that includes others. Those of PARTED, test cases, stand in a
# namespace each, so that none meets the names of another, whatever both call their helpers; WHOLE comes behind them. What
# they include comes first, and so stays outside: every header says "#pragma once".
# A namespace tessera within another is one of its own, which sees what ::tessera has; so are those below it that a source
# opens. There a name of ::tessera is no nearer than a global one: what the emulation's headers make global, such as Stream,
# is to be told from it, as tessera::Stream.
cmake_minimum_required(VERSION 3.25)
set(headers "")
set(namespaces "")
set(body "")
set(at 0)
foreach(source IN LISTS PARTED WHOLE)
  file(STRINGS ${source} included REGEX "^#include ")
  list(APPEND headers ${included})
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE name)
  if(source IN_LIST WHOLE)
    string(APPEND body "#include \"${name}\"\n")
    continue()
  endif()
  math(EXPR at "${at} + 1")
  string(APPEND body "namespace source_${at} {\nnamespace tessera { using namespace ::tessera; }\n")
  file(STRINGS ${source} opened REGEX "^namespace [a-z_:]+ {")
  foreach(line IN LISTS opened)
    string(REGEX REPLACE "^namespace ([a-z_:]+) {.*" "\\1" namespace "${line}")
    string(APPEND namespaces "namespace ${namespace} {}\n")
    string(APPEND body "namespace ${namespace} { using namespace ::${namespace}; }\n")
  endforeach()
  string(APPEND body "#include \"${name}\"\n}\n")
endforeach()
list(REMOVE_DUPLICATES headers)
list(JOIN headers "\n" headers)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "@headers@\n@namespaces@@body@" @ONLY)
