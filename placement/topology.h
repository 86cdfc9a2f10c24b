// placement/topology.h: what a message costs between two ranks: latency and bandwidth per class of
// link. Ranks are counted in blocks: those of one block of 8 share a node, say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// Links between ranks of one block of `ranks` consecutive ranks that no smaller block joins.
struct LinkClass {
  std::string name;        ///< "nvlink"
  std::int64_t ranks = 0;  ///< ranks of a block; 0 in the last class: all
  double latency_us = 0;   ///< of a message (α)
  double gb_per_s = 1;     ///< received by one rank (1/β), in 10^9 bytes
  bool operator==(const LinkClass&) const = default;
};

/// Classes from the innermost block to the outermost, which holds every rank.
struct Topology {
  std::string name;
  double step_us = 0;  ///< of a collective before its first message: meeting, launching
  std::vector<LinkClass> links;
  bool operator==(const Topology&) const = default;

  /// Index into links of the class that joins two different ranks.
  std::size_t class_between(std::int64_t a, std::int64_t b) const noexcept;
};

/// Errors: InvalidArgument naming the class: none given, blocks that do not nest, the last not
/// open, a latency < 0, a bandwidth <= 0.
Status validate(const Topology& topology);

/// "host: step 2 us; memory 0.7 us, 10 GB/s"; blocks as "nvlink of 8 ranks"; numbers exactly.
std::string to_string(const Topology& topology);

/// "host": processes or threads of one machine. "node8": one node of 8 GPUs. "cluster": such nodes
/// on a network. Errors: InvalidArgument naming the presets.
StatusOr<Topology> topology_preset(std::string_view name);
std::vector<std::string_view> topology_presets();

}  // namespace tessera
