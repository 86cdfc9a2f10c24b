#include "program/solver/prices.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "program/product_flops.h"
#include "program/solver/cost_network.h"
#include "strategies/rules/propagate.h"

namespace tessera {
namespace {

/// Of the ranks on the first coord of every axis, which has most of all that is cut in chunks.
double local_bytes(const Spec& spec) {
  const Coord first(static_cast<std::size_t>(spec.mesh().ndim()), 0);
  return static_cast<double>(num_elements(spec.local_shape(first))) *
         static_cast<double>(size_of(spec.dtype()));
}

/// On how many axes, by their sizes, ranks share the work: those that cut an operand or a result.
double pieces_of(const CallCandidate& candidate) {
  double pieces = 1;
  const Mesh* mesh = nullptr;
  for (const auto* specs : {&candidate.outputs, &candidate.inputs}) {
    for (const Spec& spec : *specs) {
      if (spec.mesh().ndim() > 0 && mesh == nullptr) mesh = &spec.mesh();
    }
  }
  if (mesh == nullptr) return pieces;
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    const auto cut = [&](const Spec& spec) {
      return axis < spec.mesh().ndim() && spec.layout().dim_of_axis(axis) >= 0;
    };
    if (std::any_of(candidate.inputs.begin(), candidate.inputs.end(), cut) ||
        std::any_of(candidate.outputs.begin(), candidate.outputs.end(), cut)) {
      pieces *= static_cast<double>(mesh->size(axis));
    }
  }
  return pieces;
}

/// Parents of `wanted.size()` copies, tried in turn; keeps the cheapest that hang on the value.
class CopyTree {
 public:
  CopyTree(std::size_t count, std::vector<double> costs)
      : count_(count), costs_(std::move(costs)), parents_(count, -1) {
    best_.cost = kForbidden;
    choose(0, 0.0);
  }
  Prices::Copies take() { return std::move(best_); }

 private:
  /// Of copy `to` moved from `from`; -1: the value itself.
  double cost(int from, std::size_t to) const {
    return costs_[static_cast<std::size_t>(from + 1) * count_ + to];
  }
  void choose(std::size_t copy, double so_far) {
    if (so_far >= best_.cost) return;
    if (copy == count_) {
      if (hangs_on_value()) best_ = {so_far, parents_};
      return;
    }
    for (int from = -1; from < static_cast<int>(count_); ++from) {
      if (from == static_cast<int>(copy)) continue;
      parents_[copy] = from;
      choose(copy + 1, so_far + cost(from, copy));
    }
  }
  bool hangs_on_value() const {
    for (int copy : parents_) {
      for (std::size_t steps = 0; copy >= 0; ++steps) {
        if (steps > count_) return false;
        copy = parents_[static_cast<std::size_t>(copy)];
      }
    }
    return true;
  }

  std::size_t count_;
  std::vector<double> costs_;
  std::vector<int> parents_;
  Prices::Copies best_;
};

}  // namespace

int SpecNumbers::of(const Spec& spec) {
  const auto [at, is_new] = numbers_.try_emplace(spec, static_cast<int>(specs_.size()));
  if (is_new) specs_.push_back(spec);
  return at->second;
}

double Prices::of_move(int from, int to) {
  if (from == to) return 0.0;
  const auto [at, is_new] = moves_.try_emplace({from, to}, 0.0);
  if (is_new) at->second = price(specs_.spec(from), specs_.spec(to));
  return at->second;
}

Prices::Prices(const PropagateOptions& options)
    : options_(options),
      table_(options.topology == nullptr ? std::nullopt : std::optional(*options.topology)) {}

double Prices::price(const Spec& from, const Spec& to) {
  const bool same_mesh = from.mesh() == to.mesh();
  if (options_.topology == nullptr && same_mesh) {
    const std::int64_t bytes = estimate_moved_bytes(from, to);
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 2;
    return bytes >= kNever ? kForbidden : static_cast<double>(bytes);
  }
  const StatusOr<MovePrice> found = table_.price(from, to);
  if (!found.ok()) return kForbidden;
  return options_.topology == nullptr ? static_cast<double>(found->bytes_received.total)
                                      : found->us;
}

double Prices::of_work(const Op& op, const Attrs& attrs, const CallCandidate& candidate) const {
  const ComputeRate& rate = options_.rate;
  if (op.def.is_view || (rate.tflops <= 0 && rate.gb_per_s <= 0)) return 0.0;
  double us = 0.0;
  if (rate.tflops > 0 && !candidate.outputs.empty()) {
    std::vector<Shape> shapes;
    for (const Spec& spec : candidate.inputs) shapes.push_back(spec.global_shape());
    const double flops =
        product_flops(op.def.name, shapes, candidate.outputs[0].global_shape(), attrs);
    us = flops / pieces_of(candidate) / (rate.tflops * 1e6);
  }
  if (rate.gb_per_s > 0) {
    double bytes = 0.0;
    for (const auto* specs : {&candidate.inputs, &candidate.outputs}) {
      for (const Spec& spec : *specs) bytes += local_bytes(spec);
    }
    us = std::max(us, bytes / (rate.gb_per_s * 1e3));
  }
  return us;
}

Prices::Copies Prices::copies(int made, const std::vector<int>& wanted) {
  const std::size_t count = wanted.size();
  std::vector<double> costs((count + 1) * count);
  for (std::size_t to = 0; to < count; ++to) {
    costs[to] = of_move(made, wanted[to]);
    for (std::size_t from = 0; from < count; ++from) {
      costs[(from + 1) * count + to] = of_move(wanted[from], wanted[to]);
    }
  }
  return CopyTree(count, std::move(costs)).take();
}

}  // namespace tessera
