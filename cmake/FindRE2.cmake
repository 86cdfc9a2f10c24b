# re2::re2: regular expressions that take time in proportion to the text, whatever the pattern.
include(${CMAKE_CURRENT_LIST_DIR}/plain_library.cmake)
tessera_plain_library(RE2 re2::re2 re2/re2.h re2)
