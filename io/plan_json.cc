#include "io/plan_json.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "io/file.h"
#include "io/placement_json.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxLinks = 64;

StatusOr<LinkClass> read_link(const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"latency_us", "gb_per_s"}, {"name", "ranks"}));
  LinkClass link;
  TSR_ASSIGN_OR_RETURN(const JsonView latency, view.at("latency_us"));
  TSR_ASSIGN_OR_RETURN(link.latency_us, latency.number());
  TSR_ASSIGN_OR_RETURN(const JsonView bandwidth, view.at("gb_per_s"));
  TSR_ASSIGN_OR_RETURN(link.gb_per_s, bandwidth.number());
  if (const std::optional<JsonView> name = view.find("name")) {
    TSR_ASSIGN_OR_RETURN(link.name, name->text());
  }
  if (const std::optional<JsonView> ranks = view.find("ranks")) {
    TSR_ASSIGN_OR_RETURN(link.ranks, ranks->integer_in(0, INT64_MAX));
  }
  return link;
}

Json axes_of(const PlanStep& step) {
  Json::Array axes;
  for (const int axis : step.axes) {
    const std::string& name = step.src.mesh().axis(axis).name;
    axes.push_back(name.empty() ? Json(axis) : Json(name));
  }
  return Json(std::move(axes));
}

Json time_of(double estimated_us, const Topology* topology) {
  return topology == nullptr ? Json() : Json(estimated_us);
}

// Null where there is nothing to be in proportion to.
Json ratio_of(const PlanCost& cost) {
  const bool unbounded = cost.lower_bound.total == 0 && cost.bytes_received.total > 0;
  return unbounded ? Json() : Json(cost.ratio());
}

Json to_json(const PlanStep& step, const StepCost& cost, const Topology* topology) {
  Json json = Json::object({{"collective", name_of(step.kind)},
                            {"axes", axes_of(step)},
                            {"bytes_received", to_json(cost.bytes_received)},
                            {"messages", cost.messages.total},
                            {"messages_max", cost.messages.max},
                            {"estimated_us", time_of(cost.estimated_us, topology)},
                            {"in_place", step.in_place}});
  add_placements(json, step.dst);
  return json;
}

using Intervals = std::vector<Interval>;

void push_merged(Intervals& intervals, const Interval& next) {
  if (!intervals.empty() && intervals.back().stop == next.start) {
    intervals.back().stop = next.stop;
  } else {
    intervals.push_back(next);
  }
}

// The global indices of a reader's runs, where `held` is what it holds of the dim. Both ascend.
Intervals global_of(const Intervals& held, const std::vector<Run>& runs) {
  Intervals global;
  std::size_t at = 0;
  std::int64_t local = 0;  // of held[at]
  for (const Run& run : runs) {
    const auto length = [&] { return held[at].stop - held[at].start; };
    const std::int64_t stop = run.dst + run.size;
    for (std::int64_t from = run.dst; from < stop;) {
      while (local + length() <= from) local += length(), ++at;
      const std::int64_t to = std::min(stop, local + length());
      push_merged(global, {held[at].start + from - local, held[at].start + to - local});
      from = to;
    }
  }
  return global;
}

Json to_json(const Intervals& intervals) {
  Json::Array items;
  for (const Interval& interval : intervals) {
    items.push_back(Json::array({interval.start, interval.stop}));
  }
  return Json(std::move(items));
}

/// What one rank reads in one step.
class StepReads {
 public:
  StepReads(const PlanStep& step, std::int64_t rank) : step_(step), rank_(rank) {
    const Spec& written = step.array_written();
    const std::optional<Coord> coord = written.mesh().coord_of(rank);
    for (int dim = 0; coord && dim < written.ndim(); ++dim) {
      const auto d = static_cast<std::size_t>(dim);
      held_.push_back(local_intervals(written.mesh(), written.global_shape()[d],
                                      written.layout().dims[d], *coord));
    }
  }

  /// Appends to `reads` and takes what it lists from `intervals_left`, at most one box past none.
  void append_to(Json::Array& reads, std::int64_t number, std::int64_t& intervals_left) const {
    const bool folds = fold_of(step_).has_value();
    for (const Transfer& box : transfers_into(step_, rank_)) {
      Json json = Json::object({{"step", number}, {"from", box.peer}});
      if (folds) json.set("contributor", box.contributor);
      json.set("bytes", box.num_elements() * size_of(step_.dst.dtype()));
      Json::Array global, source, target;
      for (std::size_t dim = 0; dim < box.dims.size(); ++dim) {
        const Intervals in_tensor = global_of(held_[dim], box.dims[dim]);
        Intervals in_source, in_target;
        for (const Run& run : box.dims[dim]) {
          push_merged(in_source, {run.src, run.src + run.size});
          push_merged(in_target, {run.dst, run.dst + run.size});
        }
        intervals_left -=
            static_cast<std::int64_t>(in_tensor.size() + in_source.size() + in_target.size());
        global.push_back(to_json(in_tensor));
        source.push_back(to_json(in_source));
        target.push_back(to_json(in_target));
      }
      json.set("global", Json(std::move(global)));
      json.set("source", Json(std::move(source)));
      json.set("target", Json(std::move(target)));
      reads.push_back(std::move(json));
      if (--intervals_left < 0) return;
    }
  }

 private:
  const PlanStep& step_;
  std::int64_t rank_;
  std::vector<Intervals> held_;  ///< of the array written, per dim
};

}  // namespace

StatusOr<Topology> read_topology(const JsonView& view) {
  if (view.kind() == Json::Kind::kString) {
    TSR_ASSIGN_OR_RETURN(const std::string name, view.text());
    StatusOr<Topology> preset = topology_preset(name);
    if (!preset.ok()) return view.annotate(preset.status());
    return preset;
  }
  if (view.kind() != Json::Kind::kObject) {
    return view.error(absl::StrFormat(
        "expected a preset such as \"node8\", or {\"links\":[…]}, not %s", describe(view.kind())));
  }
  TSR_RETURN_IF_ERROR(view.check_keys({"links"}, {"name", "step_us"}));
  TSR_ASSIGN_OR_RETURN(const JsonView links, view.at("links"));
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items,
                       links.items({.most = kMaxLinks, .what = "link classes"}));
  Topology topology;
  if (const std::optional<JsonView> name = view.find("name")) {
    TSR_ASSIGN_OR_RETURN(topology.name, name->text());
  }
  if (const std::optional<JsonView> step = view.find("step_us")) {
    TSR_ASSIGN_OR_RETURN(topology.step_us, step->number());
  }
  for (const JsonView& item : items) {
    TSR_ASSIGN_OR_RETURN(LinkClass link, read_link(item));
    topology.links.push_back(std::move(link));
  }
  TSR_RETURN_IF_ERROR(view.annotate(validate(topology)));
  return topology;
}

Json to_json(const Topology& topology) {
  Json::Array links;
  for (const LinkClass& link : topology.links) {
    Json json = Json::object({});
    if (!link.name.empty()) json.set("name", link.name);
    if (link.ranks > 0) json.set("ranks", link.ranks);
    json.set("latency_us", link.latency_us);
    json.set("gb_per_s", link.gb_per_s);
    links.push_back(std::move(json));
  }
  Json json = Json::object({});
  if (!topology.name.empty()) json.set("name", topology.name);
  json.set("step_us", topology.step_us);
  json.set("links", Json(std::move(links)));
  return json;
}

StatusOr<Topology> topology_from(const std::string& preset_or_file) {
  StatusOr<Topology> preset = topology_preset(preset_or_file);
  if (preset.ok()) return preset;
  std::error_code failed;
  if (!std::filesystem::exists(preset_or_file, failed)) {
    return invalid_argument(std::string(message_of(preset.status())) +
                            ", and no file of that name");
  }
  TSR_ASSIGN_OR_RETURN(const std::string text, read_file(preset_or_file, kMaxJsonBytes));
  TSR_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(text, preset_or_file));
  return read_topology(document.root());
}

Json to_json(const Volume& volume) {
  return Json::object({{"max", volume.max}, {"total", volume.total}});
}

Json to_json(const Plan& plan, const PlanCost& cost, const Topology* topology) {
  Json::Array steps;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    steps.push_back(to_json(plan.steps[i], cost.steps[i], topology));
  }
  return Json::object({{"steps", Json(std::move(steps))},
                       {"bytes_received", to_json(cost.bytes_received)},
                       {"lower_bound", to_json(cost.lower_bound)},
                       {"ratio", ratio_of(cost)},
                       {"peak_local_bytes", cost.peak_local_bytes},
                       {"messages", cost.messages.total},
                       {"messages_max", cost.messages.max},
                       {"estimated_us", time_of(cost.estimated_us, topology)}});
}

StatusOr<Json> ranks_to_json(const Plan& plan, std::int64_t max_intervals) {
  Json::Array ranks;
  std::int64_t left = max_intervals;
  for (const std::int64_t rank : ranks_of(plan)) {
    Json::Array reads;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      StepReads(plan.steps[i], rank).append_to(reads, static_cast<std::int64_t>(i), left);
      if (left < 0) {
        return invalid_argument(absl::StrFormat(
            "the ranks' reads would list more than %d intervals; leave out --per-rank",
            max_intervals));
      }
    }
    const RankCost cost = cost_on(plan, rank);
    ranks.push_back(Json::object({{"rank", rank},
                                  {"bytes_received", cost.bytes_received},
                                  {"bytes_sent", cost.bytes_sent},
                                  {"messages", cost.messages},
                                  {"peak_local_bytes", cost.peak_local_bytes},
                                  {"reads", Json(std::move(reads))}}));
  }
  return Json(std::move(ranks));
}

}  // namespace tessera
