#include "moe/train/report.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <tuple>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "kernels/memory_use.h"
#include "runtime/gather_texts.h"

namespace tessera {
namespace {

struct Sum {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

/// "layers.3.moe" → "layers.*.moe"
std::string without_layer_number(const std::string& module) {
  std::string out;
  for (std::size_t i = 0; i < module.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(module[i])) == 0 || i == 0 ||
        module[i - 1] != '.') {
      out += module[i];
      continue;
    }
    out += '*';
    while (i + 1 < module.size() && std::isdigit(static_cast<unsigned char>(module[i + 1])) != 0)
      ++i;
  }
  return out.empty() ? "(outside the model)" : out;
}

std::string_view origin_name(Origin origin) {
  return origin == Origin::kExplicit ? "explicit" : "implicit";
}

std::string human_bytes(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= std::int64_t{1} << 30) return absl::StrFormat("%.2f GiB", value / (1 << 30));
  if (bytes >= std::int64_t{1} << 20) return absl::StrFormat("%.2f MiB", value / (1 << 20));
  return absl::StrFormat("%.1f KiB", value / 1024.0);
}

/// A cell for each of up to 16 equally spaced indices of `dim`, # where this rank holds it.
std::string dim_bar(const Spec& spec, int dim, const Coord& coord) {
  constexpr std::int64_t kMaxCells = 16;
  const std::int64_t size = spec.global_shape()[static_cast<std::size_t>(dim)];
  const std::int64_t cells = std::min(size, kMaxCells);
  std::string bar;
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    const Levels& levels = spec.layout().dims[static_cast<std::size_t>(dim)];
    const std::int64_t at = global_to_local(spec.mesh(), size, levels, coord, cell * size / cells);
    bar += at >= 0 ? '#' : '.';
  }
  return bar;
}

void append_parameter(std::string& out, const Parameter& parameter) {
  const Spec& spec = parameter.stored().spec();
  const StatusOr<Placements> placements = spec.placements();
  out += absl::StrFormat("  %s %s on %s: %s\n", parameter.name(), to_string(spec.global_shape()),
                         spec.mesh().to_string(),
                         placements.ok() ? to_string(*placements) : spec.to_string());
  if (spec.is_replicated()) {
    out += "    every rank holds all of it\n";
    return;
  }
  for (std::int64_t rank = 0; rank < spec.mesh().num_ranks(); ++rank) {
    const std::optional<Coord> coord = spec.mesh().coord_of(rank);
    if (!coord) continue;
    out += absl::StrFormat("    rank %d", rank);
    for (int dim = 0; dim < spec.ndim(); ++dim) {
      if (spec.layout().dims[static_cast<std::size_t>(dim)].empty()) continue;
      out += absl::StrFormat("  dim %d [%s]", dim, dim_bar(spec, dim, *coord));
    }
    out += absl::StrFormat("  %s\n", to_string(spec.local_shape(*coord)));
  }
}

}  // namespace

std::vector<std::vector<EventLog::Total>> gather_totals(World& world) {
  std::string own;
  for (const EventLog::Total& total : world.events().totals()) {
    own += absl::StrFormat("%d\t%d\t%d\t%d\t%s\t%s\t%s\n", static_cast<int>(total.kind),
                           static_cast<int>(total.origin), total.count, total.bytes_received,
                           total.name, total.axes, total.module);
  }
  std::vector<std::vector<EventLog::Total>> all;
  for (const std::string& text : gather_texts(world, own)) {
    std::vector<EventLog::Total>& totals = all.emplace_back();
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const std::vector<std::string> cells = absl::StrSplit(line, '\t');
      totals.push_back({.kind = static_cast<Event::Kind>(std::stoi(cells.at(0))),
                        .name = cells.at(4),
                        .axes = cells.at(5),
                        .module = cells.at(6),
                        .origin = static_cast<Origin>(std::stoi(cells.at(1))),
                        .count = std::stoll(cells.at(2)),
                        .bytes_received = std::stoll(cells.at(3))});
    }
  }
  return all;
}

std::string describe_moves(std::span<const std::vector<EventLog::Total>> by_rank) {
  std::map<std::tuple<std::string, std::string, Origin>, Sum> by_collective;
  std::map<std::tuple<std::string, std::string, std::string, Origin>, Sum> by_module;
  Sum all;
  for (const std::vector<EventLog::Total>& totals : by_rank) {
    for (const EventLog::Total& total : totals) {
      if (total.kind != Event::Kind::kCollective) continue;
      const std::string axes = total.axes.empty() ? "-" : total.axes;
      for (Sum* sum :
           {&all, &by_collective[{total.name, axes, total.origin}],
            &by_module[{without_layer_number(total.module), total.name, axes, total.origin}]}) {
        sum->count += total.count;
        sum->bytes += total.bytes_received;
      }
    }
  }
  std::string out = absl::StrFormat("What moved (%s, bytes received): %s in %d calls\n",
                                    by_rank.size() == 1 ? "one rank" : "all ranks",
                                    human_bytes(all.bytes), all.count);
  out += absl::StrFormat("  %-16s %-10s %-9s %9s %12s\n", "collective", "axes", "asked", "calls",
                         "bytes");
  for (const auto& [key, sum] : by_collective) {
    out += absl::StrFormat("  %-16s %-10s %-9s %9d %12s\n", std::get<0>(key), std::get<1>(key),
                           origin_name(std::get<2>(key)), sum.count, human_bytes(sum.bytes));
  }
  out += "By module\n";
  for (const auto& [key, sum] : by_module) {
    out += absl::StrFormat("  %-30s %-16s %-10s %-9s %9d %12s\n", std::get<0>(key),
                           std::get<1>(key), std::get<2>(key), origin_name(std::get<3>(key)),
                           sum.count, human_bytes(sum.bytes));
  }
  return out;
}

std::string describe_memory(World& world) {
  constexpr std::array kTags = {MemoryTag::kParameters, MemoryTag::kGradients,
                                MemoryTag::kOptimizerState, MemoryTag::kGathered,
                                MemoryTag::kActivations};
  constexpr std::size_t kMaxRows = 16;
  const TaggedMemory memory = tagged_memory_of(*world.allocator());
  const auto row = [&](std::string_view what, std::int64_t total, auto bytes_of) {
    std::string text = absl::StrFormat("  %-14s %12s", what, human_bytes(total));
    for (const MemoryTag tag : kTags) text += absl::StrFormat(" %16s", human_bytes(bytes_of(tag)));
    return text + "\n";
  };
  const std::string own =
      row("at the peak", memory.total_peak(),
          [&](MemoryTag tag) { return memory.at_peak_of(tag); }) +
      row("most of each", memory.total_peak(), [&](MemoryTag tag) { return memory.peak_of(tag); });
  std::string out = "Memory of each rank\n" + absl::StrFormat("  %-14s %12s", "", "together");
  for (const MemoryTag tag : kTags) out += absl::StrFormat(" %16s", std::string(name_of(tag)));
  out += "\n";
  const std::vector<std::string> ranks = gather_texts(world, own);
  for (std::size_t rank = 0; rank < std::min(ranks.size(), kMaxRows); ++rank) {
    out += absl::StrFormat(" rank %d\n%s", rank, ranks[rank]);
  }
  if (ranks.size() > kMaxRows) out += absl::StrFormat(" and %d more\n", ranks.size() - kMaxRows);
  return out;
}

std::string describe_parameters(Model& model, std::int64_t layer) {
  const std::string prefix =
      "layers." + std::to_string(layer < 0 ? model.layers().back() : layer) + ".";
  std::string out = "How the parameters of " + prefix.substr(0, prefix.size() - 1) +
                    " are stored (# = held by that rank)\n";
  for (const Parameter& parameter : model.parameters().all()) {
    if (parameter.name().starts_with(prefix)) append_parameter(out, parameter);
  }
  return out;
}

}  // namespace tessera
