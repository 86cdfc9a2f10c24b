// strategies/verify.h: proves an op, in process. Soundness: every row × every sample × every mesh
// gives the one-rank result, and gradients agree with finite differences in F64. Completeness:
// every row that a search over placements finds right is there or declined with a reason.
#pragma once

#include <string>
#include <vector>

#include "placement/api.h"
#include "strategies/local_op.h"

namespace tessera TSR_API {

struct VerifyFailure {
  std::string op, mesh, row, sample, detail;
};
struct VerifyReport {
  std::int64_t rows_proven = 0;
  std::int64_t rows_failed = 0;
  std::int64_t rows_found = 0;     ///< by the search, distinct
  std::int64_t rows_declined = 0;  ///< found, and declined with a reason
  std::vector<std::string> declined;
  std::vector<VerifyFailure> failures;
};
struct VerifyOptions {
  std::vector<Shape> meshes = {{2}, {3}, {4}, {2, 2}};
  std::uint64_t seed = 1;
  enum class Gradients : std::uint8_t { kCheck, kSkip };
  Gradients gradients = Gradients::kCheck;
  enum class Completeness : std::uint8_t { kSearch, kSkip };
  Completeness completeness = Completeness::kSearch;
};
/// Operands are cut by the row's placements (Partial ones into adversarial random summands), the
/// local op runs on every rank in process, and the outputs, put together again, are compared with
/// the one-rank result.
VerifyReport verify(const OpTable& table, const Op& op, const VerifyOptions& options = {});

}  // namespace tessera
