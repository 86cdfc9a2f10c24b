// io/exit_code.h: what a program's exit code says, the same in every program of this project.
#pragma once

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

enum class ExitCode : int {
  kFine = 0,
  kCheckFailed = 1,   ///< a check that was asked for did not hold
  kUsage = 2,         ///< the command line
  kInvalidInput = 3,  ///< a file, or a value in it
  kInputOutput = 4,   ///< files that cannot be read or written, too little memory, a lost rank
  kDefect = 5         ///< ours
};

/// The exit code for an error that ends a program.
constexpr ExitCode exit_code_for(absl::StatusCode code) noexcept {
  switch (code) {
    case absl::StatusCode::kOk:
      return ExitCode::kFine;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
      return ExitCode::kInvalidInput;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kInputOutput;
    default:
      return ExitCode::kDefect;
  }
}
inline ExitCode exit_code_for(const Status& status) noexcept {
  return exit_code_for(status.code());
}

}  // namespace tessera
