// strategies/verify.h: proves an op: every row × every sample × every mesh against the one-rank
// result, in process. Soundness only for now: rows give the right values, gradients agree with
// finite differences in F64.
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
  std::vector<std::string> declined;
  std::vector<VerifyFailure> failures;
};
struct VerifyOptions {
  std::vector<Shape> meshes = {{2}, {3}, {4}, {2, 2}};
  std::uint64_t seed = 1;
  enum class Gradients : std::uint8_t { kCheck, kSkip };
  Gradients gradients = Gradients::kCheck;
};
/// Operands are cut by the row's placements (Partial ones into adversarial random summands), the
/// local op runs on every rank in process, and the outputs, put together again, are compared with
/// the one-rank result.
VerifyReport verify(const OpTable& table, const Op& op, const VerifyOptions& options = {});

}  // namespace tessera
