// testing/program.h: a program of test cases on ranks, between the cases' framework and who starts
// them. tessera::testing has it for Catch2; for another framework define the first two functions.
#pragma once

#include <string>

#include "placement/api.h"

namespace tessera TSR_API {
namespace testing {

/// Runs the cases that the command line asks for. Returns the number of failed ones, at most 255.
int run_tests(int argc, char** argv);

/// Ends the case that runs without a failure, by an exception: this launch has not as many ranks as
/// it needs. Main thread only.
[[noreturn]] void end_case();

/// The current case does not run on this machine. The program says so at its end, in a line
/// "skipped: CASE: why", which may be counted. Main thread only.
void skip(const std::string& why);

}  // namespace testing
}  // namespace tessera
