// io/plan_json.h: the JSON forms of a topology and of a plan with what it costs.
// What a rank reads is said in boxes: per dim a list of [start, stop), like the intervals of a
// layout.
#pragma once

#include <cstdint>

#include "io/json.h"
#include "placement/api.h"
#include "placement/plan.h"
#include "placement/plan_cost.h"
#include "placement/topology.h"

namespace tessera TSR_API {

/// A preset's name, "node8"; or {"name","step_us","links":[{"name","ranks","latency_us",
/// "gb_per_s"},…]}, innermost first. "step_us" (0) and names may be left out, and "ranks" in the
/// last link, which joins all ranks.
StatusOr<Topology> read_topology(const JsonView& view);
/// The same form, which read_topology() reads back as an equal value.
Json to_json(const Topology& topology);
/// What an option names: a preset, or else a JSON file of the form above ("./host" for a file of
/// that name). Errors: InvalidArgument naming presets and file, or the place in the file.
StatusOr<Topology> topology_from(const std::string& preset_or_file);

/// Units: bytes.
Json to_json(const Volume& volume);

/// {"steps":[…],"bytes_received","lower_bound","ratio","peak_local_bytes","messages",
/// "messages_max","estimated_us"}; times are null where `topology` is, and the ratio where no bytes
/// need to move and some do.
Json to_json(const Plan& plan, const PlanCost& cost, const Topology* topology);

/// Every rank's share:
/// [{"rank","bytes_received","bytes_sent","messages","peak_local_bytes","reads":
/// [{"step","from","contributor","bytes","global","source","target"},…]},…], own copies included.
/// `global` says where a box lies in the tensor, `source` and `target` where in the sender's array
/// that the step reads and in the reader's that it writes; `contributor` stands in steps that fold.
/// Errors: InvalidArgument where the boxes have more than `max_intervals` in all.
StatusOr<Json> ranks_to_json(const Plan& plan, std::int64_t max_intervals);

}  // namespace tessera
