// placement/status.h: errors as values below the tensor API, one exception type at it.
// Everything that only decides returns absl::Status(Or); the tensor API throws Error, which carries
// one.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "placement/api.h"

namespace tessera TSR_API {

using absl::Status;
using absl::StatusOr;

// Debian's Abseil has a string_view of its own; these take std::string_view.
inline absl::string_view to_absl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view message_of(const Status& status) {
  return {status.message().data(), status.message().size()};
}

/// A value that the caller gave is malformed or does not fit (exit code 3 in the programs).
inline Status invalid_argument(std::string_view text) {
  return absl::InvalidArgumentError(to_absl(text));
}
/// The values are fine but the call breaks a contract (placement, version, signature).
inline Status failed_precondition(std::string_view text) {
  return absl::FailedPreconditionError(to_absl(text));
}
inline Status out_of_range(std::string_view text) { return absl::OutOfRangeError(to_absl(text)); }
inline Status not_found(std::string_view text) { return absl::NotFoundError(to_absl(text)); }
inline Status unimplemented(std::string_view text) {
  return absl::UnimplementedError(to_absl(text));
}
inline Status unavailable(std::string_view text) { return absl::UnavailableError(to_absl(text)); }
inline Status io_error(std::string_view text) { return absl::DataLossError(to_absl(text)); }
inline Status internal_error(std::string_view text) { return absl::InternalError(to_absl(text)); }

/// What the tensor-level API throws; carries the Status that a decision returned.
class Error : public std::exception {
 public:
  explicit Error(Status status) : status_(std::move(status)), text_(message_of(status_)) {}
  const Status& status() const noexcept { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Status status_;
  std::string text_;
};

inline void throw_if_error(const Status& status) {
  if (!status.ok()) throw Error(status);
}
template <class T>
T value_or_throw(StatusOr<T> value) {
  if (!value.ok()) throw Error(value.status());
  return *std::move(value);
}

/// Aborts with both values' text: for broken invariants of our own only.
[[noreturn]] inline void fail_check(const char* expression, const char* file, int line,
                                    const std::string& detail) {
  std::fprintf(stderr, "%s:%d: broken invariant %s %s\n", file, line, expression, detail.c_str());
  std::abort();
}

}  // namespace tessera

#define TSR_CHECK(condition, detail)                                                   \
  do {                                                                                 \
    if (!(condition)) ::tessera::fail_check(#condition, __FILE__, __LINE__, (detail)); \
  } while (false)

#define TSR_RETURN_IF_ERROR(expression)                                                \
  do {                                                                                 \
    if (::absl::Status tsr_status = (expression); !tsr_status.ok()) return tsr_status; \
  } while (false)

#define TSR_CONCAT_(a, b) a##b
#define TSR_CONCAT(a, b) TSR_CONCAT_(a, b)
#define TSR_ASSIGN_OR_RETURN(lhs, expression)                                             \
  auto TSR_CONCAT(tsr_or_, __LINE__) = (expression);                                      \
  if (!TSR_CONCAT(tsr_or_, __LINE__).ok()) return TSR_CONCAT(tsr_or_, __LINE__).status(); \
  lhs = *std::move(TSR_CONCAT(tsr_or_, __LINE__))
