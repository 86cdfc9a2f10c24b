# Sodium::sodium: message authentication and random numbers.
include(${CMAKE_CURRENT_LIST_DIR}/plain_library.cmake)
tessera_plain_library(Sodium Sodium::sodium sodium.h sodium)
