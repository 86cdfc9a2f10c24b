// tests/support/skip.h: cases that cannot run on this machine are counted, not passed over.
#pragma once

#include <string>

namespace tessera::testing {

/// The current case does not run here. The program says so at its end, in a line "skipped: CASE:
/// why", and ./test counts it. Main thread only.
void skip(const std::string& why);

}  // namespace tessera::testing
