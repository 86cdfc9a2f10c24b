#include "tools/placement_audit/memory_advice.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"

namespace tessera::audit {
namespace {

const ProgramValue* find_value(const std::vector<AnyStep>& steps, const std::string& name) {
  const auto among = [&](const std::vector<ProgramValue>& values) {
    const auto found = std::ranges::find(values, name, &ProgramValue::name);
    return found == values.end() ? nullptr : &*found;
  };
  for (const AnyStep& step : steps) {
    const ProgramValue* found = nullptr;
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      found = among(call->out);
    } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      found = among(region->out);
    } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      found = move->out.name == name ? &move->out : nullptr;
    } else if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
      found = find_value(repeat->steps, name);
    }
    if (found != nullptr) return found;
  }
  return nullptr;
}

/// The axes along which every rank holds the same of the holder's first value, and their ranks.
std::pair<std::string, std::int64_t> whole_along(const Program& program,
                                                 const MemoryHolder& holder) {
  // The holder's name may have a star for a number: the first value that it fits.
  const std::size_t star = holder.name.find('*');
  const auto fits = [&](const ProgramValue& value) {
    if (star == std::string::npos || value.name == holder.name) return value.name == holder.name;
    return value.name.starts_with(holder.name.substr(0, star)) &&
           value.name.ends_with(holder.name.substr(star + 1));
  };
  const auto declared = std::ranges::find_if(program.values, fits);
  const ProgramValue* value =
      declared != program.values.end() ? &*declared : find_value(program.steps, holder.name);
  if (value == nullptr || !value->mesh || !value->layout) return {"", 1};
  const Mesh& mesh = program.meshes[static_cast<std::size_t>(*value->mesh)].mesh;
  std::string axes;
  std::int64_t ranks = 1;
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    const bool is_partial = value->layout->partial[static_cast<std::size_t>(axis)].has_value();
    if (mesh.size(axis) == 1 || is_partial || value->layout->dim_of_axis(axis) >= 0) continue;
    axes += (axes.empty() ? "" : ",") + mesh.axis_label(axis);
    ranks *= mesh.size(axis);
  }
  return {axes, ranks};
}

std::string_view plural_of(MemoryKind kind) {
  constexpr std::array<std::string_view, kMemoryKinds> kPlurals = {
      "parameters", "gradients",           "optimizer states", "buffers",
      "inputs",     "gathered parameters", "activations"};
  return kPlurals[static_cast<std::size_t>(kind)];
}

/// What would take most off, by the kind that is most of it.
std::string remedy(const Program& program, const StageMemory& stage) {
  const auto most = std::ranges::max_element(stage.at_peak);
  const auto kind = static_cast<MemoryKind>(most - stage.at_peak.begin());
  const double all = static_cast<double>(std::max<std::int64_t>(1, stage.peak_bytes));
  const std::string share = absl::StrFormat(
      "%d %% %s", static_cast<int>(100.0 * static_cast<double>(*most) / all), plural_of(kind));
  switch (kind) {
    case MemoryKind::kActivation:
      return share + ": recompute layers, or take smaller batches";
    case MemoryKind::kGathered:
      return share + ": gather a layer at a time, free it after";
    default:
      break;
  }
  const auto holder = std::ranges::find(stage.holders, kind, &MemoryHolder::kind);
  if (holder == stage.holders.end()) return share;
  const auto [axes, ranks] = whole_along(program, *holder);
  if (axes.empty()) return share + ", cut over all axes: take more ranks";
  return share + absl::StrFormat(": cut over %s, %d ranks hold the same", axes, ranks);
}

}  // namespace

std::string ranks_text(const StageMemory& stage) {
  const std::string ranks =
      stage.ranks == 1 ? absl::StrFormat("rank %d", stage.first_rank)
                       : absl::StrFormat("%d ranks from %d", stage.ranks, stage.first_rank);
  return stage.stage ? absl::StrFormat("stage %d: %s", *stage.stage, ranks) : ranks;
}

Json holder_json(const MemoryHolder& holder) {
  return Json::object({{"name", holder.name},
                       {"module", holder.module},
                       {"kind", std::string(name_of(holder.kind))},
                       {"count", holder.count},
                       {"bytes", holder.bytes}});
}

std::string first_advice(const Program& program, const std::vector<StageMemory>& stages,
                         std::optional<std::int64_t> cap_bytes) {
  const StageMemory& most =
      *std::ranges::max_element(stages, std::ranges::less(), &StageMemory::peak_bytes);
  const std::string peak = byte_text(most.peak_bytes);
  if (!cap_bytes) {
    return absl::StrFormat("first: a rank holds up to %s; --cap BYTES makes a check of it", peak);
  }
  const std::string cap = byte_text(*cap_bytes);
  if (most.peak_bytes <= *cap_bytes) {
    return absl::StrFormat("ok: a rank holds up to %s of %s", peak, cap);
  }
  const std::string stage = most.stage ? absl::StrFormat(" in stage %d", *most.stage) : "";
  return absl::StrFormat("first: %s > %s%s; %s", peak, cap, stage, remedy(program, most));
}

}  // namespace tessera::audit
