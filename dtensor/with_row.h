// dtensor/with_row.h: one row of an op for a scope, in place of the one that moves least: for an
// author who knows better, and for whoever compares ways to run a step. What moved, and every
// error, says who asked.
#pragma once

#include <string_view>

#include "dtensor/dtensor.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// While it lives, calls of `op` in `runtime` run by `row`: on `axis` of their mesh, or, where none
/// is named, on every axis on which an operand is not R. Calls on meshes without the axis run as
/// before, and so do those outside of the scope, such as a backward pass that begins after it.
/// Scopes nest: the inner one counts where both name an axis. All ranks of a mesh enter the same
/// scopes.
class RowScope {
 public:
  /// `row` as propagation has it, "k:sum", or in full, "S(1), S(0) -> P(sum)". Errors (Error):
  /// NotFound for an op that the Runtime lacks; InvalidArgument for a row in full that does not
  /// read. A call that has no such row throws FailedPrecondition with the rows it has.
  RowScope(Runtime& runtime, std::string_view op, std::string_view row, std::string_view axis = {},
           const Site& site = Site::current());
  ~RowScope();
  RowScope(const RowScope&) = delete;
  RowScope& operator=(const RowScope&) = delete;

 private:
  Runtime& runtime_;
};

/// `auto scope = with_row(runtime, "matmul", "k:sum", "tp");`
[[nodiscard]] inline RowScope with_row(Runtime& runtime, std::string_view op, std::string_view row,
                                       std::string_view axis = {},
                                       const Site& site = Site::current()) {
  return RowScope(runtime, op, row, axis, site);
}

}  // namespace tessera
