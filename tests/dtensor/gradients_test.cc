// Gradients of cut operands, as a property: every op that has one, every sample of it and what is
// made of that (dims of no element, of one), operands and cotangents in many placements. The
// cotangents of the operands are those of one rank.
#include <set>

#include "strategies/verify/verify_data.h"
#include "strategies/verify/verify_derived.h"
#include "tests/dtensor/outcome.h"

namespace tessera::testing {
namespace {

struct Call {
  const Op* op = nullptr;
  Sample sample;
  std::string text() const { return op->def.name + " of " + describe(sample); }
};

/// Samples whose floating operands are all F64, in which gradients are compared.
bool is_differentiable(const Sample& sample) {
  const bool other = std::any_of(sample.dtypes.begin(), sample.dtypes.end(), [](DType dtype) {
    return is_floating(dtype) && dtype != DType::kF64;
  });
  return sample.differentiable && !other;
}

/// Without elements every rank's share is empty; with one, some are.
bool is_small(const Sample& sample) {
  return std::any_of(sample.shapes.begin(), sample.shapes.end(), [](const Shape& shape) {
    return std::count_if(shape.begin(), shape.end(), [](auto size) { return size < 2; }) > 0;
  });
}

std::vector<Call> calls_of(const OpTable& table) {
  std::vector<Call> calls;
  for (const Op* op : table.ops()) {
    if (op->def.gradient == nullptr || op->mutates()) continue;
    for (const Sample& sample : op->def.samples) {
      if (!is_differentiable(sample)) continue;
      calls.push_back({op, sample});
      for (const Sample& other : derived_samples(*op, sample)) {
        if (other.differentiable && is_small(other)) calls.push_back({op, other});
      }
    }
  }
  return calls;
}

bool is_average(const Placement& placement) {
  const Partial* partial = std::get_if<Partial>(&placement);
  return partial != nullptr && partial->op == ReduceOp::kAvg;
}

/// A placement that fits a tensor of so many dims: cuts beyond them are R. An average is of the
/// first operand alone: others beside it would have to be reduced.
Placements fitting(const Placements& wanted, const WholeTensor& whole, bool first) {
  Placements result;
  for (const Placement& each : wanted) {
    const Shard* shard = std::get_if<Shard>(&each);
    const int ndim = static_cast<int>(whole.shape.size());
    const bool cut = shard != nullptr && shard->dim < ndim;
    const bool partial = std::holds_alternative<Partial>(each) && is_floating(whole.dtype) &&
                         (first || !is_average(each));
    result.push_back(cut || partial ? each : Placement(Replicate{}));
  }
  return result;
}

double averaged_ranks(const Spec& spec) {
  double ranks = 1.0;
  for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
    const bool averaged = spec.layout().partial[static_cast<std::size_t>(axis)] == ReduceOp::kAvg;
    if (averaged) ranks *= static_cast<double>(spec.mesh().size(axis));
  }
  return ranks;
}

using Values = std::vector<std::vector<double>>;

/// The cotangents of the floating operands of one call; `place` makes the tensors.
template <class Place>
Values gradients(Rank& rank, const Call& call_of, const std::vector<WholeTensor>& operands,
                 const Place& place) {
  std::vector<DTensor> tensors(call_of.op->def.args.size());
  tensors.resize(std::max(tensors.size(), operands.size()));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    tensors[i] = place(operands[i]);
    if (is_floating(operands[i].dtype)) tensors[i].set_requires_grad(true);
  }
  const std::vector<DTensor> results =
      call(rank.runtime, call_of.op->def.name, tensors, call_of.sample.attrs);
  for (const DTensor& result : results) {
    if (!result.requires_grad()) continue;
    WholeTensor cotangent{result.global_shape(), result.dtype(), {}};
    for (std::int64_t e = 0; e < num_elements(cotangent.shape); ++e) {
      cotangent.values.push_back(0.25 * static_cast<double>(e % 7) - 0.625);
    }
    backward(result, place(cotangent));
    break;  // the history is one call's, and goes with the first
  }
  Values grads;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!is_floating(operands[i].dtype)) continue;
    const DTensor grad = tensors[i].grad();
    grads.push_back(grad.defined() ? full_tensor(grad).to_vector()
                                   : std::vector<double>(operands[i].values.size(), 0.0));
    // Of an average over n ranks each rank's number counts for a share of 1 / n.
    for (double& value : grads.back()) value *= averaged_ranks(tensors[i].spec());
  }
  return grads;
}

bool same(const Values& a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    for (std::size_t e = 0; e < a[i].size(); ++e) {
      if (!nearly_equal(a[i][e], b[i][e], DType::kF64)) return false;
    }
  }
  return a.size() == b.size();
}

struct Tally {
  std::vector<std::string> problems;
  std::int64_t compared = 0;
  std::set<std::string> ops;
};

Tally try_all(Rank& rank, const std::vector<Placements>& placements) {
  Tally tally;
  for (const Call& each : calls_of(rank.runtime.ops())) {
    VerifyRandom random(11);
    const std::vector<WholeTensor> operands = sample_values(each.sample, random);
    Values one;
    const std::string refused = error_of([&] {
      one = gradients(rank, each, operands, [&](const WholeTensor& whole) {
        return here(rank.runtime, array_of(whole));
      });
    });
    if (!refused.empty()) continue;  // values that one rank refuses too
    for (const Placements& wanted : placements) {
      Values cut;
      std::string problem = error_of([&] {
        cut = gradients(rank, each, operands, [&](const WholeTensor& whole) {
          const bool first = &whole == operands.data();
          return rank.distribute(array_of(whole), fitting(wanted, whole, first));
        });
      });
      if (problem.empty() && !same(cut, one)) problem = "differs from one rank's";
      ++tally.compared;
      tally.ops.insert(each.op->def.name);
      if (problem.empty()) continue;
      tally.problems.push_back(each.text() + " (" + to_string(wanted) + "): " + problem);
    }
  }
  return tally;
}

}  // namespace

TEST_CASE("gradients of every op over cut operands are those of one rank",
          "[dtensor][gradients][host]") {
  const Replicate R{};
  const Partial P{};
  const std::vector<Placements> one_axis = {{R}, {Shard{0}}, {Shard{1}}, {Shard{2}}, {P}};
  const std::vector<Placements> two_axes = {
      {Shard{0}, Shard{1}}, {Shard{0}, Shard{0}}, {P, Shard{0}}};
  const std::vector<std::pair<Shape, std::vector<Placements>>> cases = {
      {{2}, one_axis},
      {{3}, {{Shard{0}}, {Shard{1}}, {Partial{ReduceOp::kAvg}}}},  // thirds of a sum round
      {{2, 2}, two_axes}};
  for (const auto& [sizes, placements] : cases) {
    if (!runs_here(num_elements(sizes))) continue;
    CAPTURE(to_string(sizes));
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&placements = placements](Rank& rank) {
      const Tally tally = try_all(rank, placements);
      return std::tuple{tally.problems, tally.compared, tally.ops.size()};
    });
    for (const auto& [problems, compared, ops] : ranks) {
      std::string text;
      for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 12); ++i) {
        text += "\n  " + problems[i];
      }
      CAPTURE(compared, ops);
      INFO(problems.size() << " problems" << text);
      CHECK(problems.empty());
      CHECK(ops >= 250);
    }
  }
}

}  // namespace tessera::testing
