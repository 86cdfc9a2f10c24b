#include "strategies/rules/propagate.h"

#include <algorithm>
#include <limits>

#include "strategies/rules/in_place.h"
#include "strategies/rules/search.h"

namespace tessera {
namespace {

using SpecPointers = std::span<const Spec* const>;

bool is_plain(const Spec* spec) { return spec == nullptr || spec->mesh().ndim() == 0; }

std::vector<TensorMeta> metas_of(SpecPointers inputs) {
  std::vector<TensorMeta> metas;
  metas.reserve(inputs.size());
  for (const Spec* spec : inputs) {
    TensorMeta& meta = metas.emplace_back();
    meta.absent = spec == nullptr;
    if (spec == nullptr) continue;
    meta.shape = spec->global_shape();
    meta.dtype = spec->dtype();
  }
  return metas;
}

/// The operand whose mesh the others have to share: the first with dims, else the first scalar on a
/// mesh; −1 if all are plain.
int leading_operand(SpecPointers inputs) {
  int leader = -1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_plain(inputs[i])) continue;
    if (inputs[i]->ndim() > 0) return static_cast<int>(i);
    if (leader < 0) leader = static_cast<int>(i);
  }
  return leader;
}

bool is_foreign_scalar(const Spec& spec) { return spec.ndim() == 0 && spec.is_replicated(); }

Status meshes_differ(const Op& op, SpecPointers inputs, int leader, std::size_t other) {
  const Mesh& wanted = inputs[static_cast<std::size_t>(leader)]->mesh();
  const Mesh& seen = inputs[other]->mesh();
  const std::string name = operand_name(op, static_cast<int>(other));
  const bool same_ranks =
      wanted.num_ranks() == seen.num_ranks() && wanted.first_rank() == seen.first_rank();
  return failed_precondition(op.def.name + ": " + name + " lives on mesh " + seen.to_string() +
                             ", " + operand_name(op, leader) + " on mesh " + wanted.to_string() +
                             "; the operands of an op live on equal meshes; " +
                             (same_ranks
                                  ? "reinterpret " + name + " on " + wanted.to_string() +
                                        ", which has the same ranks, or redistribute it there"
                                  : "redistribute " + name + " to " + wanted.to_string()) +
                             ". [" + inputs[static_cast<std::size_t>(leader)]->to_string() + "; " +
                             inputs[other]->to_string() + "]");
}

Status check_meshes(const Op& op, SpecPointers inputs, int leader) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_plain(inputs[i]) || is_foreign_scalar(*inputs[i])) continue;
    if (!equal_axes(inputs[i]->mesh(), inputs[static_cast<std::size_t>(leader)]->mesh())) {
      return meshes_differ(op, inputs, leader, i);
    }
  }
  return absl::OkStatus();
}

/// All operands are plain: the op runs as it is.
StatusOr<Resolution> plain_resolution(const Op& op, SpecPointers inputs,
                                      const std::vector<TensorMeta>& metas,
                                      const std::vector<TensorMeta>& outputs, const Attrs& attrs) {
  Resolution resolution;
  const bool reads_indices = std::any_of(op.rule.marks.begin(), op.rule.marks.end(),
                                         [](const RuleMark& mark) { return mark.indexed; });
  if (reads_indices) {
    TSR_ASSIGN_OR_RETURN(const Binding binding, bind_rule(op, metas, outputs, attrs));
    resolution.indexed = indexed_factors(binding, metas);
  }
  for (const Spec* spec : inputs) resolution.inputs.push_back(spec != nullptr ? *spec : Spec());
  for (const TensorMeta& meta : outputs) {
    resolution.outputs.push_back(Spec::plain(meta.shape, meta.dtype));
  }
  resolution.moved_bytes.assign(inputs.size(), 0);
  resolution.why = "plain tensors";
  return resolution;
}

std::string bytes_text(double bytes) {
  return std::to_string(static_cast<std::int64_t>(bytes)) + " bytes";
}

std::string lost_because(const Call& call, const Choice& winner, const Choice& loser) {
  std::string text = why_of(call, loser.rows);
  if (loser.bytes != winner.bytes) {
    return text + " would move " + bytes_text(loser.bytes) + ", not " + bytes_text(winner.bytes);
  }
  if (loser.moved != winner.moved) {
    return text + " moves as little, but changes " + std::to_string(loser.moved) +
           (loser.moved == 1 ? " operand" : " operands") + ", not " + std::to_string(winner.moved);
  }
  return text + " moves as little, but stands later in the rule";
}

/// Plain operands among distributed ones stand for replicas.
std::vector<Spec> lift_plain(SpecPointers inputs, const Mesh& mesh) {
  std::vector<Spec> lifted(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || inputs[i]->mesh().ndim() > 0) continue;
    Layout layout;
    layout.dims.resize(inputs[i]->global_shape().size());
    layout.partial.resize(static_cast<std::size_t>(mesh.ndim()));
    StatusOr<Spec> spec =
        Spec::make(mesh, inputs[i]->global_shape(), inputs[i]->dtype(), std::move(layout));
    if (spec.ok()) lifted[i] = *std::move(spec);
  }
  return lifted;
}

struct Priced {
  std::int64_t bytes = 0;
  int moved = 0;
};

Priced price(const Strategy& strategy, SpecPointers inputs) {
  Priced priced;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || *inputs[i] == strategy.inputs[i]) continue;
    ++priced.moved;
    const std::int64_t bytes = estimate_moved_bytes(*inputs[i], strategy.inputs[i]);
    const bool overflows = bytes > std::numeric_limits<std::int64_t>::max() - priced.bytes;
    priced.bytes = overflows ? std::numeric_limits<std::int64_t>::max() : priced.bytes + bytes;
  }
  return priced;
}

/// The cheapest of what the op's own function offers.
StatusOr<Resolution> propagate_strategies(const Op& op, SpecPointers inputs,
                                          const std::vector<TensorMeta>& outputs,
                                          const Attrs& attrs, std::span<const ForcedRow> forced) {
  const Mesh& mesh = inputs[static_cast<std::size_t>(leading_operand(inputs))]->mesh();
  const std::vector<Spec> lifted = lift_plain(inputs, mesh);
  std::vector<const Spec*> given(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] != nullptr && given[i]->mesh().ndim() == 0) given[i] = &lifted[i];
  }
  TSR_ASSIGN_OR_RETURN(std::vector<Strategy> offers, op.def.strategies(given, outputs, attrs));
  TSR_RETURN_IF_ERROR(force_offers(op, mesh, given, forced, offers));
  TSR_RETURN_IF_ERROR(keep_written(op, given, attrs, offers));
  int best = -1, second = -1;
  std::vector<Priced> prices;
  for (std::size_t s = 0; s < offers.size(); ++s) {
    prices.push_back(price(offers[s], given));
    const auto less = [&](int other) {
      const Priced& a = prices[s];
      const Priced& b = prices[static_cast<std::size_t>(other)];
      return other < 0 || a.bytes < b.bytes || (a.bytes == b.bytes && a.moved < b.moved);
    };
    if (best < 0 || less(best)) {
      second = best;
      best = static_cast<int>(s);
    } else if (second < 0 || less(second)) {
      second = static_cast<int>(s);
    }
  }
  if (best < 0) return failed_precondition(op.def.name + ": no strategy fits these placements");
  Strategy& chosen = offers[static_cast<std::size_t>(best)];
  Resolution resolution;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool stays = inputs[i] == nullptr || *given[i] == chosen.inputs[i];
    resolution.moved_bytes.push_back(stays ? 0 : estimate_moved_bytes(*given[i], chosen.inputs[i]));
    if (inputs[i] == nullptr) {
      resolution.inputs.emplace_back();
    } else {
      resolution.inputs.push_back(stays ? *inputs[i] : chosen.inputs[i]);
    }
  }
  resolution.outputs = std::move(chosen.outputs);
  resolution.why = std::move(chosen.why) + forced_text(mesh, forced);
  resolution.lowering = chosen.lowering;
  resolution.lowering_axes = std::move(chosen.lowering_axes);
  if (second >= 0) {
    const auto lost = static_cast<std::size_t>(second);
    resolution.runner_up = offers[lost].why + " would move " +
                           bytes_text(static_cast<double>(prices[lost].bytes)) + ", not " +
                           bytes_text(static_cast<double>(prices[std::size_t(best)].bytes));
  }
  return resolution;
}

}  // namespace

StatusOr<Resolution> propagate(const Op& op, std::span<const Spec* const> inputs,
                               const Attrs& attrs, std::span<const ForcedRow> forced) {
  std::vector<TensorMeta> metas = metas_of(inputs);
  const int leader = leading_operand(inputs);
  if (leader < 0 || op.def.strategies != nullptr) {
    TSR_ASSIGN_OR_RETURN(const std::vector<TensorMeta> outputs, infer(op, metas, attrs));
    if (leader < 0) return plain_resolution(op, inputs, metas, outputs, attrs);
    TSR_RETURN_IF_ERROR(check_meshes(op, inputs, leader));
    return propagate_strategies(op, inputs, outputs, attrs, forced);
  }
  TSR_RETURN_IF_ERROR(check_meshes(op, inputs, leader));
  const Mesh& mesh = inputs[static_cast<std::size_t>(leader)]->mesh();
  TSR_ASSIGN_OR_RETURN(Call call, make_call(op, std::move(metas), attrs, mesh));
  for (const Spec* spec : inputs) call.operands.push_back(operand_of(call, spec));
  for (const int aliased : op.in_place) {
    if (aliased >= 0) call.operands[static_cast<std::size_t>(aliased)].fixed = true;
  }
  TSR_RETURN_IF_ERROR(force_rows(call, forced));
  const SearchResult found = search(call);
  if (found.found == 0) {
    return call.is_forced() ? forced_refused(call, attrs, forced) : in_place_refused(call, attrs);
  }
  TSR_ASSIGN_OR_RETURN(Resolution resolution, resolve(call, found.best[0]));
  resolution.why += forced_text(mesh, forced);
  if (found.found == 2) {
    resolution.runner_up = lost_because(call, found.best[0], found.best[1]);
  }
  return resolution;
}

}  // namespace tessera
