// tests/support/program.h: the test cases of a program, for the main() that it is linked with.
#pragma once

namespace tessera::testing {

/// Runs the cases that the command line asks for. Returns the number of failed ones, at most 255.
int run_tests(int argc, char** argv);

}  // namespace tessera::testing
