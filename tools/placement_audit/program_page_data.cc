// The page's data: names once each, and what refers to them by number, so that 20,000 steps are
// a few megabytes.
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "program/memory.h"
#include "program/module_cost.h"
#include "tools/placement_audit/memory_advice.h"
#include "tools/placement_audit/program_page.h"

namespace tessera::audit {
namespace {

/// Texts by number, in the order in which they first appear.
class Texts {
 public:
  std::int64_t number(const std::string& text) {
    const auto [entry, is_new] = numbers_.try_emplace(text, std::ssize(list_));
    if (is_new) list_.emplace_back(text);
    return entry->second;
  }
  Json take() { return Json(std::move(list_)); }

 private:
  absl::flat_hash_map<std::string, std::int64_t> numbers_;
  Json::Array list_;
};

Json levels_json(const Levels& levels) {
  Json::Array list;
  for (const Level& level : levels) {
    const bool is_axis = level.kind == Level::Kind::kAxis;
    const char* const kind = is_axis ? "axis" : level.kind == Level::Kind::kRun ? "run" : "block";
    Json::Array entry{Json(kind), Json(is_axis ? level.axis : level.count), Json(level.grain)};
    if (level.sizes) {
      Json::Array parts;
      for (const RaggedPart& part : level.sizes.parts()) {
        parts.push_back(Json(Json::Array{Json(part.coord), Json(part.start), Json(part.stop)}));
      }
      entry.push_back(Json(std::move(parts)));
    }
    list.push_back(Json(std::move(entry)));
  }
  return Json(std::move(list));
}

class PageData {
 public:
  PageData(const Program& program, const OpTable& ops, const ProgramPage& page)
      : program_(program), ops_(ops), page_(page) {
    for (const StepPhase phase : kPhases) phases_.emplace_back(std::string(name_of(phase)));
    for (const ValueRole role : kRoles) roles_.emplace_back(std::string(name_of(role)));
    paths_.number("");
    sites_.number("");
  }

  StatusOr<Json> run() {
    TSR_ASSIGN_OR_RETURN(const ModuleCost cost, module_cost(program_));
    for (const ProgramValue& value : program_.values) {
      TSR_RETURN_IF_ERROR(add_value(value, value.module, -1).status());
    }
    TSR_RETURN_IF_ERROR(add_steps(program_.steps, 0));
    Json::Array modules, warnings(program_.warnings.begin(), program_.warnings.end());
    add_modules(cost, "", 0, modules);
    Json data = Json::object({{"name", program_.name},
                              {"title", page_.title},
                              {"about", about()},
                              {"first", page_.first},
                              {"ranks", program_.ranks},
                              {"cap", page_.cap_bytes ? Json(*page_.cap_bytes) : Json()},
                              {"warnings", Json(std::move(warnings))},
                              {"meshes", meshes()},
                              {"modules", Json(std::move(modules))},
                              {"roles", Json(std::move(roles_))},
                              {"phases", Json(std::move(phases_))},
                              {"specs", Json(std::move(specs_))},
                              {"values", Json(std::move(values_))},
                              {"steps", Json(std::move(steps_))},
                              {"texts", texts_.take()},
                              {"paths", paths_.take()},
                              {"sites", sites_.take()},
                              {"findings", page_.findings ? *page_.findings : Json()}});
    add_memory(data);
    return data;
  }

 private:
  static constexpr StepPhase kPhases[] = {StepPhase::kForward, StepPhase::kRecompute,
                                          StepPhase::kBackward, StepPhase::kOptimizer};
  static constexpr ValueRole kRoles[] = {ValueRole::kTemporary, ValueRole::kInput,
                                         ValueRole::kParameter, ValueRole::kState,
                                         ValueRole::kBuffer};
  struct Known {
    const ProgramValue* value = nullptr;
    std::int64_t number = 0, spec = 0;
  };

  std::string about() const {
    std::string text = absl::StrFormat("%s, %d ranks", program_.source.kind, program_.ranks);
    if (!program_.routing.empty()) text += ", routing " + program_.routing;
    if (!program_.source.by.empty()) text += ", by " + program_.source.by;
    if (!program_.source.command.empty()) text += ": " + program_.source.command;
    return text;
  }

  Json meshes() const {
    Json::Array list;
    for (const ProgramMesh& each : program_.meshes) {
      Json::Array shape, axes;
      for (int axis = 0; axis < each.mesh.ndim(); ++axis) {
        shape.emplace_back(each.mesh.size(axis));
        axes.emplace_back(each.mesh.axis_label(axis));
      }
      list.push_back(Json::object({{"name", each.name},
                                   {"shape", Json(std::move(shape))},
                                   {"axes", Json(std::move(axes))},
                                   {"first", each.mesh.first_rank()}}));
    }
    return Json(std::move(list));
  }

  StatusOr<std::int64_t> spec_number(const ProgramValue& value) {
    const bool is_placed = value.mesh && value.layout;
    std::string text = std::string(name_of(value.dtype)) + to_string(value.global_shape);
    if (is_placed) {
      TSR_ASSIGN_OR_RETURN(const Spec spec, spec_of(program_, value));
      text = spec.to_string();
    } else {
      text += value.mesh ? ", not placed yet" : ", plain";
    }
    for (std::size_t i = 0; i < value.varies.size(); ++i) {
      text += (i == 0 ? ", varies over " : ", ") + value.varies[i];
    }
    const auto [entry, is_new] =
        spec_numbers_.try_emplace(std::pair{value.mesh.value_or(-1), text}, std::ssize(specs_));
    if (!is_new) return entry->second;
    Json::Array shape(value.global_shape.begin(), value.global_shape.end()), dims, partial;
    for (std::size_t dim = 0; dim < value.global_shape.size(); ++dim) {
      dims.push_back(levels_json(is_placed ? value.layout->dims[dim] : Levels{}));
    }
    for (std::size_t axis = 0; is_placed && axis < value.layout->partial.size(); ++axis) {
      const std::optional<ReduceOp> op = value.layout->partial[axis];
      partial.push_back(op ? Json(std::string(name_of(*op))) : Json());
    }
    specs_.push_back(Json::object({{"text", std::move(text)},
                                   {"mesh", value.mesh.value_or(-1)},
                                   {"placed", is_placed},
                                   {"shape", Json(std::move(shape))},
                                   {"dims", Json(std::move(dims))},
                                   {"partial", Json(std::move(partial))}}));
    return entry->second;
  }

  StatusOr<std::int64_t> add_value(const ProgramValue& value, const std::string& module,
                                   std::int64_t step) {
    TSR_ASSIGN_OR_RETURN(const std::int64_t spec, spec_number(value));
    TSR_ASSIGN_OR_RETURN(const std::int64_t bytes, held_bytes(program_, value));
    const std::int64_t number = std::ssize(values_);
    values_.push_back(
        Json(Json::Array{Json(value.name), Json(spec), Json(static_cast<std::int64_t>(value.role)),
                         Json(paths_.number(value.module.empty() ? module : value.module)),
                         Json(bytes), Json(value.count), Json(step)}));
    known_[value.name] = {&value, number, spec};
    return number;
  }

  Status add_steps(const std::vector<AnyStep>& steps, int depth) {
    for (const AnyStep& step : steps) {
      if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(
            add_step(step, depth,
                     absl::StrFormat("repeat %d%s", repeat->count,
                                     repeat->as.empty() ? "" : " (" + repeat->as + ")"),
                     {}, {}));
        TSR_RETURN_IF_ERROR(add_steps(repeat->steps, depth + 1));
        continue;
      }
      if (const auto* call = std::get_if<CallStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(add_step(step, depth, call->op, names_in(call->args), call->out));
      } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(
            add_step(step, depth, region->name, names_in(region->args), region->out));
      } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(
            add_step(step, depth, "redistribute", {move->value}, std::span(&move->out, 1)));
      } else if (const auto* free = std::get_if<FreeStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(add_step(step, depth, "free", free->values, {}));
      } else if (const auto* read = std::get_if<HostReadStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(add_step(step, depth, "host read", {read->value}, {}));
      }
    }
    return absl::OkStatus();
  }

  static std::vector<std::string> names_in(const Json::Array& arguments) {
    std::vector<std::string> names;
    for (const Json& argument : arguments) {
      if (const std::string* name = argument.if_string()) names.push_back(*name);
      if (const Json::Array* items = argument.if_array()) {
        for (std::string& name : names_in(*items)) names.push_back(std::move(name));
      }
    }
    return names;
  }

  Status add_step(const AnyStep& step, int depth, const std::string& what,
                  const std::vector<std::string>& reads, std::span<const ProgramValue> makes) {
    const std::int64_t index = std::ssize(steps_);
    Json::Array read, made;
    for (const std::string& name : reads) {
      if (const auto found = known_.find(name); found != known_.end()) {
        read.emplace_back(found->second.number);
      }
    }
    for (const ProgramValue& value : makes) {
      TSR_ASSIGN_OR_RETURN(const std::int64_t number, add_value(value, step.origin.module, index));
      made.emplace_back(number);
    }
    const auto* move = std::get_if<MoveStep>(&step.what);
    TSR_ASSIGN_OR_RETURN(const std::int64_t bytes, bytes_moved(step, reads));
    const StepOrigin& origin = step.origin;
    steps_.push_back(
        Json(Json::Array{Json(texts_.number(what)), Json(paths_.number(origin.module)),
                         Json(sites_.number(origin.site)),
                         Json(origin.phase ? static_cast<std::int64_t>(*origin.phase) : -1),
                         Json(origin.stage.value_or(-1)), Json(depth), Json(bytes),
                         Json(move != nullptr && move->implicit ? 1 : 0), Json(std::move(read)),
                         Json(std::move(made))}));
    return absl::OkStatus();
  }

  /// Received by the rank with most, in one round.
  StatusOr<std::int64_t> bytes_moved(const AnyStep& step, const std::vector<std::string>& reads) {
    const std::vector<ProgramMove>* moves = nullptr;
    if (const auto* call = std::get_if<CallStep>(&step.what)) moves = &call->moves;
    if (const auto* region = std::get_if<RegionStep>(&step.what)) moves = &region->moves;
    if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      if (!move->moves) return planned_bytes(reads[0], move->out);
      moves = &*move->moves;
    }
    return moves == nullptr ? 0 : sum_of(*moves);
  }
  static std::int64_t sum_of(const std::vector<ProgramMove>& moves) {
    std::int64_t sum = 0;  // module_cost() has found that all of them together fit
    for (const ProgramMove& move : moves) sum += move.bytes.max;
    return sum;
  }
  StatusOr<std::int64_t> planned_bytes(const std::string& from, const ProgramValue& out) {
    const auto source = known_.find(from);
    const auto target = known_.find(out.name);
    const auto is_placed = [](const ProgramValue& value) { return !value.mesh || value.layout; };
    if (source == known_.end() || !is_placed(*source->second.value) || !is_placed(out)) return 0;
    const auto [entry, is_new] =
        planned_.try_emplace(std::pair{source->second.spec, target->second.spec}, 0);
    if (is_new) {
      TSR_ASSIGN_OR_RETURN(const std::vector<ProgramMove> moves,
                           moves_of(program_, *source->second.value, out));
      entry->second = sum_of(moves);
    }
    return entry->second;
  }

  void add_modules(const ModuleCost& cost, const std::string& path, int depth,
                   Json::Array& modules) const {
    Json::Array moves;
    for (const MoveTotal& move : cost.moves) {
      moves.push_back(
          Json(Json::Array{Json(move.collective), Json(move.axes), Json(move.implicit ? 1 : 0),
                           Json(move.calls), Json(move.bytes.max), Json(move.bytes.total)}));
    }
    modules.push_back(Json(Json::Array{
        Json(cost.name), Json(depth), Json(cost.copies), Json(cost.steps), Json(cost.calls),
        Json(cost.bytes.max), Json(cost.bytes.total), Json(cost.implicit_bytes.max),
        Json(cost.held_bytes), Json(cost.host_reads), Json(path), Json(std::move(moves))}));
    for (const ModuleCost& each : cost.inside) {
      add_modules(each, path.empty() ? each.name : path + "." + each.name, depth + 1, modules);
    }
  }

  void add_memory(Json& data) const;

  const Program& program_;
  const OpTable& ops_;
  const ProgramPage& page_;
  Texts texts_, paths_, sites_;
  Json::Array roles_, phases_, specs_, values_, steps_;
  std::map<std::pair<int, std::string>, std::int64_t> spec_numbers_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> planned_;  ///< bytes, by specs
  absl::flat_hash_map<std::string, Known> known_;
};

void PageData::add_memory(Json& data) const {
  Json::Array kinds;
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    kinds.emplace_back(std::string(name_of(static_cast<MemoryKind>(kind))));
  }
  data.set("kinds", Json(std::move(kinds)));
  const StatusOr<std::vector<StageMemory>> stages = memory_of(program_, ops_);
  if (!stages.ok()) {
    data.set("memory", Json());
    data.set("memory_error", std::string(message_of(stages.status())));
    return;
  }
  Json::Array list;
  for (const StageMemory& stage : *stages) {
    Json::Array timeline, holders, at_peak(stage.at_peak.begin(), stage.at_peak.end());
    for (const MemoryPoint& point : stage.timeline) {
      Json::Array numbers = {Json(point.step), Json(point.bytes)};
      numbers.insert(numbers.end(), point.by_kind.begin(), point.by_kind.end());
      timeline.push_back(Json(std::move(numbers)));
    }
    for (const MemoryHolder& each : stage.holders) holders.push_back(holder_json(each));
    const auto phase = stage.peak_origin.phase;
    list.push_back(Json::object(
        {{"stage", stage.stage ? Json(*stage.stage) : Json()},
         {"first_rank", stage.first_rank},
         {"ranks", stage.ranks},
         {"peak_bytes", stage.peak_bytes},
         {"at_peak", Json(std::move(at_peak))},
         {"peak", Json::object({{"step", stage.peak_step},
                                {"path", stage.peak_path},
                                {"module", stage.peak_origin.module},
                                {"site", stage.peak_origin.site},
                                {"phase", phase ? Json(std::string(name_of(*phase))) : Json()}})},
         {"holders", Json(std::move(holders))},
         {"timeline", Json(std::move(timeline))}}));
  }
  data.set("memory", Json(std::move(list)));
}

}  // namespace

StatusOr<Json> program_page_data(const Program& program, const OpTable& ops,
                                 const ProgramPage& page) {
  return PageData(program, ops, page).run();
}

}  // namespace tessera::audit
