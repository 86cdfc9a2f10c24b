// kernels/index_check.h: index operands are checked as a whole before a kernel reads or writes by
// them.
#pragma once

#include <string_view>

#include "kernels/index.h"

namespace tessera::kernels {

/// What a kernel does with an index operand.
struct IndexUse {
  std::string_view kernel;
  std::int64_t size = 0;  ///< of the dim addressed
  Absent absent = Absent::kError;
};

/// Throws OutOfRange naming the first (row-major) position whose index lies outside [0, size), −1
/// apart where absent is kSkip; InvalidArgument unless the dtype is I64 or I32.
void check_index(const Array& index, const IndexUse& use);

}  // namespace tessera::kernels
