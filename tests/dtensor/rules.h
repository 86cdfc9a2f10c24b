// tests/dtensor/rules.h: calls of ops by name on operands of every placement, on 1, 2, 3, 4 and 2x2
// ranks, against values written down in the test.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/dtensor/outcome.h"

namespace tessera::testing {

inline const std::vector<Shape> kRuleMeshes = {{1}, {2}, {3}, {4}, {2, 2}};

/// A tensor whose ranks hold different summands, averages or extremes of `values`: under max the
/// others hold less, but of larger magnitude; under min more.
inline DTensor hostile_partial(Rank& rank, const Array& values, ReduceOp op) {
  const std::int64_t ranks = rank.mesh.num_ranks(), mine = rank.index();
  std::vector<double> held = values.to_vector();
  for (std::size_t i = 0; i < held.size(); ++i) {
    const bool keeper = static_cast<std::int64_t>(i) % ranks == mine;
    const auto others = static_cast<double>(ranks - 1);
    switch (op) {
      case ReduceOp::kSum:
        held[i] = keeper ? held[i] - 3.0 * others : 3.0;
        break;
      case ReduceOp::kAvg:
        held[i] += keeper ? 2.0 * others : -2.0;
        break;
      case ReduceOp::kMax:
        held[i] -= keeper ? 0.0 : 20.0;
        break;
      case ReduceOp::kMin:
        held[i] += keeper ? 0.0 : 20.0;
        break;
      case ReduceOp::kProd:
        held[i] = keeper ? held[i] * std::pow(2.0, -others) : 2.0;
        break;
    }
  }
  const Placements at(static_cast<std::size_t>(rank.mesh.ndim()), Partial{op});
  return from_local(here(rank.runtime, Array::from_values(values.shape(), values.dtype(), held)),
                    rank.mesh, at, values.shape());
}
/// `values` at one placement, the same on each axis.
inline DTensor placed(Rank& rank, const Array& values, const Placement& at) {
  if (const Partial* partial = std::get_if<Partial>(&at)) {
    return hostile_partial(rank, values, partial->op);
  }
  return rank.distribute(values, Placements(static_cast<std::size_t>(rank.mesh.ndim()), at));
}

/// Equal up to a relative 1e-12; NaN equals NaN.
inline bool close(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) {
      if (std::isnan(a[i]) != std::isnan(b[i])) return false;
    } else if (a[i] != b[i] && !(std::abs(a[i] - b[i]) <= 1e-12 * (1.0 + std::abs(b[i])))) {
      return false;
    }
  }
  return true;
}

/// One call and what each result holds.
struct RuleCall {
  std::string op;
  std::vector<Array> operands;
  Attrs attrs;
  std::vector<std::vector<double>> expected;
};

/// The call with its first operand at each of `places` in turn and the others at `others`; a text
/// for each rank, mesh and placement that went wrong.
inline std::vector<std::string> wrong_results(const RuleCall& rule_call,
                                              const std::vector<Placement>& places,
                                              const Placement& others = Replicate{}) {
  std::vector<std::string> wrong;
  for (const Shape& sizes : kRuleMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      std::vector<std::string> mine;
      for (const Placement& at : places) {
        std::vector<DTensor> operands;
        for (const Array& each : rule_call.operands) {
          operands.push_back(placed(rank, each, operands.empty() ? at : others));
        }
        const std::vector<DTensor> results =
            call(rank.runtime, rule_call.op, operands, rule_call.attrs);
        for (std::size_t i = 0; i < rule_call.expected.size(); ++i) {
          const Array whole = full_tensor(results.at(i));
          if (close(whole.to_vector(), rule_call.expected[i])) continue;
          std::string text = rule_call.op + " of " + to_string(at) + " on " + to_string(sizes) +
                             ", result " + std::to_string(i) + ":";
          for (const double value : whole.to_vector()) text += " " + std::to_string(value);
          mine.push_back(std::move(text));
        }
      }
      return mine;
    });
    for (const auto& each : ranks) wrong.insert(wrong.end(), each.begin(), each.end());
  }
  return wrong;
}

}  // namespace tessera::testing
