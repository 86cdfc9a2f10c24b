// placement-audit measure: what messages between ranks take, as a topology or a table.
#include <mutex>
#include <optional>

#include "absl/strings/str_format.h"
#include "devices/devices.h"
#include "io/plan_json.h"
#include "runtime/measure_links.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {
namespace {

Status run_on_threads(const AuditRanks& ranks, const std::function<void(World&)>& body) {
  if (!ranks.backend.empty() && ranks.backend != "threads") {
    return invalid_argument("--backend " + ranks.backend +
                            ": this program has ranks that are threads, and no others");
  }
  TSR_ASSIGN_OR_RETURN(const DeviceId::Kind device, parse_device_kind("--device", ranks.device));
  WorldOptions options{.threads_per_rank = 1};
  TSR_ASSIGN_OR_RETURN(options.allocator, memory_of_devices(device));
  return run_ranks(static_cast<int>(ranks.num_ranks), options, body);
}

std::string size_of(std::int64_t bytes) {
  if (bytes < 1024) return absl::StrFormat("%d B", bytes);
  if (bytes < (1 << 20)) return absl::StrFormat("%d KiB", bytes >> 10);
  return absl::StrFormat("%d MiB", bytes >> 20);
}

std::string to_text(const MeasuredLinks& measured) {
  const Topology& topology = measured.topology;
  std::string text = absl::StrFormat("%d ranks, a collective's step %.2f us\n\n",
                                     measured.hosts.size(), topology.step_us);
  text += absl::StrFormat("%-12s %8s %12s %12s\n", "links", "block", "latency us", "GB/s");
  for (const LinkClass& link : topology.links) {
    const std::string block = link.ranks == 0 ? "all" : std::to_string(link.ranks);
    text += absl::StrFormat("%-12s %8s %12.2f %12.2f\n", link.name, block, link.latency_us,
                            link.gb_per_s);
  }
  text += absl::StrFormat("\n%-12s", "ranks");
  for (const MessageTime& each : measured.pairs[0].messages) {
    text += absl::StrFormat(" %12s", size_of(each.bytes));
  }
  text += "   us of a message\n";
  for (const PairTimes& pair : measured.pairs) {
    text += absl::StrFormat("%-12s", absl::StrFormat("%d-%d", pair.a, pair.b));
    for (const MessageTime& each : pair.messages) text += absl::StrFormat(" %12.2f", each.us);
    text += '\n';
  }
  for (const CollectiveTime& each : measured.collectives) {
    text += absl::StrFormat("\nall_gather of 8 B among %d ranks: %.2f us", each.ranks, each.us);
  }
  return text + '\n';
}

}  // namespace

StatusOr<Answer> measure(const Request& request) {
  // Set by rank 0, where it is of this process.
  std::optional<MeasuredLinks> measured;
  const auto body = [&](World& world) {
    MeasuredLinks links = measure_links(world, request.seconds);
    if (world.rank() == 0) measured = std::move(links);
  };
  TSR_RETURN_IF_ERROR(request.run_ranks ? request.run_ranks(request.ranks, body)
                                        : run_on_threads(request.ranks, body));
  if (!measured) return Answer{.text = {}, .is_for_others = true};
  if (request.format == Format::kText) return Answer{.text = to_text(*measured)};
  return Answer{.text = json_line(tessera::to_json(measured->topology))};
}

}  // namespace tessera::audit
