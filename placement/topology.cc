#include "placement/topology.h"

#include <array>
#include <charconv>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

// Figures of usual hardware, rounded: memory shared by the processes of one machine; NVLink between
// 8 GPUs; one 400 Gbit/s port a GPU between nodes.
const Topology& host() {
  static const Topology topology{
      "host", 2.0, {{.name = "memory", .ranks = 0, .latency_us = 0.7, .gb_per_s = 10}}};
  return topology;
}
const Topology& node8() {
  static const Topology topology{
      "node8", 5.0, {{.name = "nvlink", .ranks = 0, .latency_us = 2.0, .gb_per_s = 400}}};
  return topology;
}
const Topology& cluster() {
  static const Topology topology{
      "cluster",
      5.0,
      {{.name = "nvlink", .ranks = 8, .latency_us = 2.0, .gb_per_s = 400},
       {.name = "network", .ranks = 0, .latency_us = 8.0, .gb_per_s = 50}}};
  return topology;
}

/// The fewest digits that are read as the same number.
std::string shortest(double number) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  return std::string(digits.data(), end);
}

}  // namespace

std::size_t Topology::class_between(std::int64_t a, std::int64_t b) const noexcept {
  std::size_t at = 0;
  while (at + 1 < links.size() && a / links[at].ranks != b / links[at].ranks) ++at;
  return at;
}

Status validate(const Topology& topology) {
  if (topology.links.empty()) {
    return invalid_argument("topology: no link class; state one at least, the last with ranks 0");
  }
  if (!(topology.step_us >= 0)) {
    return invalid_argument(
        absl::StrFormat("topology: step_us is %g, which must be 0 or more", topology.step_us));
  }
  std::int64_t inner = 1;
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    const LinkClass& link = topology.links[i];
    const auto refuse = [&](const std::string& why) {
      return invalid_argument(
          absl::StrFormat("topology: link class %d (%s): %s", static_cast<int>(i), link.name, why));
    };
    if (!(link.latency_us >= 0)) {
      return refuse(absl::StrFormat("latency_us is %g, which must be 0 or more", link.latency_us));
    }
    if (!(link.gb_per_s > 0)) {
      return refuse(absl::StrFormat("gb_per_s is %g, which must be above 0", link.gb_per_s));
    }
    const bool last = i + 1 == topology.links.size();
    if (last != (link.ranks == 0)) {
      return refuse(
          absl::StrFormat("ranks is %d; the last class joins all ranks and has 0, those "
                          "before it say the size of a block",
                          link.ranks));
    }
    if (!last && (link.ranks <= inner || link.ranks % inner != 0)) {
      return refuse(
          absl::StrFormat("blocks of %d ranks do not hold blocks of %d", link.ranks, inner));
    }
    inner = link.ranks;
  }
  return absl::OkStatus();
}

std::string to_string(const Topology& topology) {
  std::string text = topology.name.empty() ? "topology" : topology.name;
  text += ": step " + shortest(topology.step_us) + " us";
  for (const LinkClass& link : topology.links) {
    text += "; " + (link.name.empty() ? "link" : link.name);
    if (link.ranks > 0) text += absl::StrFormat(" of %d ranks", link.ranks);
    text += " " + shortest(link.latency_us) + " us, " + shortest(link.gb_per_s) + " GB/s";
  }
  return text;
}

std::vector<std::string_view> topology_presets() { return {"host", "node8", "cluster"}; }

StatusOr<Topology> topology_preset(std::string_view name) {
  if (name == "host") return host();
  if (name == "node8") return node8();
  if (name == "cluster") return cluster();
  return invalid_argument(absl::StrFormat(
      "topology \"%s\" is unknown; there are host, node8 and cluster", std::string(name)));
}

}  // namespace tessera
