// tests/support/paths.h: where the tests find their files and the programs that were built with
// them. One source knows, so that clones in other folders share what the others compile to.
#pragma once

#include <string>
#include <string_view>

namespace tessera::testing {

/// The folder tests/data, and what stands in it: test_data("/parity").
std::string test_data(std::string_view below = "");
/// The folder of built programs, and one of them: built("/tessera-train").
std::string built(std::string_view below = "");

}  // namespace tessera::testing
