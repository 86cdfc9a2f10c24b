#include "tests/support/paths.h"

namespace tessera::testing {

std::string test_data(std::string_view below) { return TSR_TEST_DATA + std::string(below); }
std::string built(std::string_view below) { return TSR_BINARY_DIR + std::string(below); }

}  // namespace tessera::testing
