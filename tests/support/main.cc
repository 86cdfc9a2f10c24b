#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "tests/support/program.h"

namespace tessera::testing {

int run_tests(int argc, char** argv) { return Catch::Session().run(argc, argv); }

}  // namespace tessera::testing
