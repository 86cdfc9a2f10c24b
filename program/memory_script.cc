#include "program/memory_script.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "placement/checked_int.h"
#include "program/module_cost.h"

namespace tessera {
namespace {

bool lies_alike(const ProgramValue& a, const ProgramValue& b) {
  return a.global_shape == b.global_shape && a.dtype == b.dtype && a.mesh == b.mesh &&
         a.layout == b.layout;
}

bool stays_there(const ProgramValue& value) {
  return value.role == ValueRole::kParameter || value.role == ValueRole::kState ||
         value.role == ValueRole::kBuffer;
}

class ScriptWriter {
 public:
  ScriptWriter(const Program& program, const OpTable& ops) : program_(program), ops_(ops) {}

  StatusOr<Script> run() {
    for (const ProgramValue& value : program_.values) {
      TSR_ASSIGN_OR_RETURN(const int index, add_value(value));
      at(index).is_declared = true;
    }
    TSR_ASSIGN_OR_RETURN(script_.length, add_steps(program_.steps, script_.steps, -1));
    return std::move(script_);
  }

 private:
  ScriptValue& at(int index) { return script_.values[static_cast<std::size_t>(index)]; }
  ScriptRepeat& repeat_at(int index) { return script_.repeats[static_cast<std::size_t>(index)]; }

  StatusOr<int> add_value(const ProgramValue& value) {
    const int index = static_cast<int>(script_.values.size());
    ScriptValue& added = script_.values.emplace_back();
    added.value = &value;
    TSR_ASSIGN_OR_RETURN(added.bytes, held_bytes(program_, value));
    added.stays = stays_there(value);
    numbers_.emplace(value.name, index);
    return index;
  }

  /// The steps of a round, repeats written out.
  StatusOr<std::int64_t> add_steps(const std::vector<AnyStep>& steps,
                                   std::vector<ScriptStep>& added, int outer) {
    CheckedInt length = 0;
    added.reserve(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      ScriptStep& step = added.emplace_back();
      step.written = static_cast<int>(script_.written.size());
      script_.written.push_back({&steps[i], outer, static_cast<std::int64_t>(i)});
      if (const auto* repeat = std::get_if<RepeatStep>(&steps[i].what)) {
        TSR_RETURN_IF_ERROR(add_repeat(*repeat, step));
        length += CheckedInt(repeat_at(step.repeat).length) * repeat->count;
        continue;
      }
      length += 1;
      TSR_RETURN_IF_ERROR(std::visit(
          [&](const auto& what) -> Status {
            if constexpr (std::is_same_v<std::decay_t<decltype(what)>, RepeatStep>) {
              return absl::OkStatus();
            } else {
              return add(what, steps[i].origin, step);
            }
          },
          steps[i].what));
    }
    return length.clamped();
  }

  Status add(const CallStep& call, const StepOrigin& origin, ScriptStep& step) {
    use_all(call.args, step);
    const StatusOr<const Op*> op = ops_.find(call.op);
    for (std::size_t i = 0; i < call.out.size(); ++i) {
      int shares = -1;
      bool in_order = true;
      if (op.ok()) {
        if (const int input = (*op)->alias_of(i); input >= 0) {
          shares = use_of_argument(call, static_cast<std::size_t>(input), step);
        } else if ((*op)->def.is_view && call.moves.empty()) {
          shares = use_of_argument(call, 0, step);
          in_order = view_keeps_order((*op)->def.view_order, shares, step);
          if ((*op)->def.view_order == OpDef::ViewOrder::kRowMajorOrCopy && !in_order) {
            shares = -1;  // a copy, whose elements are in order
            in_order = true;
          }
        }
      }
      TSR_RETURN_IF_ERROR(add_result(call.out[i], shares, in_order, origin, step));
    }
    return absl::OkStatus();
  }

  Status add(const MoveStep& move, const StepOrigin& origin, ScriptStep& step) {
    const int source = use(move.value, step);
    const bool stays = source >= 0 && lies_alike(*at(source).value, move.out) &&
                       (!move.out.mesh || move.out.layout);
    return add_result(move.out, stays ? 0 : -1, true, origin, step);
  }

  Status add(const RegionStep& region, const StepOrigin& origin, ScriptStep& step) {
    use_all(region.args, step);
    const bool is_one = region.moves.empty() && step.uses.size() == 1 && region.out.size() == 1;
    const bool renames = is_one && (region.name == "to_local" || region.name == "from_local");
    for (const ProgramValue& out : region.out) {
      int shares = is_one && region.name == "alias" ? 0 : -1;
      if (renames) {
        TSR_ASSIGN_OR_RETURN(const std::int64_t bytes, held_bytes(program_, out));
        if (bytes == at(root_of(step.uses[0])).bytes) shares = 0;
      }
      TSR_RETURN_IF_ERROR(add_result(out, shares, true, origin, step));
    }
    return absl::OkStatus();
  }

  Status add(const FreeStep& free, const StepOrigin&, ScriptStep& step) {
    script_.frees = step.frees = true;
    for (const std::string& name : free.values) use(name, step);
    return absl::OkStatus();
  }

  Status add(const HostReadStep& read, const StepOrigin&, ScriptStep& step) {
    use(read.value, step);
    return absl::OkStatus();
  }

  Status add_repeat(const RepeatStep& repeat, ScriptStep& step) {
    step.repeat = static_cast<int>(script_.repeats.size());
    ScriptRepeat& added = script_.repeats.emplace_back();
    added.count = repeat.count;
    TSR_ASSIGN_OR_RETURN(added.length, add_steps(repeat.steps, added.steps, step.written));
    for (const auto& [begin, end] : repeat.carry) {
      const auto from = numbers_.find(begin);
      const auto to = numbers_.find(end);
      if (from == numbers_.end() || to == numbers_.end()) continue;
      added.carry.emplace_back(from->second, to->second);
    }
    count_carried_rounds(step.repeat);
    return absl::OkStatus();
  }

  int root_of(int value) { return at(value).shares < 0 ? value : at(value).shares; }

  int use(const std::string& name, ScriptStep& step) {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) return -1;
    step.uses.push_back(found->second);
    return found->second;
  }
  void use_all(const Json::Array& arguments, ScriptStep& step) {
    for (const Json& argument : arguments) {
      if (const std::string* name = argument.if_string()) {
        use(*name, step);
      } else if (const Json::Array* items = argument.if_array()) {
        use_all(*items, step);
      }
    }
  }

  /// Index in the step's uses of what the call's argument names; -1 where it names none.
  int use_of_argument(const CallStep& call, std::size_t argument, const ScriptStep& step) const {
    if (argument >= call.args.size()) return -1;
    const std::string* name = call.args[argument].if_string();
    if (name == nullptr) return -1;
    const auto found = numbers_.find(*name);
    for (std::size_t i = 0; i < step.uses.size(); ++i) {
      if (found != numbers_.end() && step.uses[i] == found->second) return static_cast<int>(i);
    }
    return -1;
  }

  bool view_keeps_order(OpDef::ViewOrder order, int shares, const ScriptStep& step) {
    using Order = OpDef::ViewOrder;
    const bool was = shares < 0 || at(step.uses[static_cast<std::size_t>(shares)]).in_order;
    return was && (order == Order::kRowMajor || order == Order::kRowMajorOrCopy);
  }

  Status add_result(const ProgramValue& value, int shares, bool in_order, const StepOrigin& origin,
                    ScriptStep& step) {
    if (shares < 0 && value.role != ValueRole::kTemporary) shares = place_taken(value, step);
    TSR_ASSIGN_OR_RETURN(const int index, add_value(value));
    ScriptValue& added = at(index);
    added.maker = &origin;
    added.in_order = in_order;
    if (shares >= 0) {
      const int shared = step.uses[static_cast<std::size_t>(shares)];
      added.shares = root_of(shared);
      added.bytes = 0;
    }
    step.results.push_back({index, shares});
    return absl::OkStatus();
  }

  /// The argument whose place a result with a role takes.
  int place_taken(const ProgramValue& value, const ScriptStep& step) {
    for (std::size_t i = 0; i < step.uses.size(); ++i) {
      const ProgramValue& argument = *at(step.uses[i]).value;
      const bool is_taken = std::ranges::any_of(step.results, [&](const ScriptResult& result) {
        return result.shares == static_cast<int>(i);
      });
      if (argument.role == value.role && lies_alike(argument, value) && !is_taken) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  /// A value that a round makes lives a round longer for each name that it is carried into.
  void count_carried_rounds(int repeat) {
    absl::flat_hash_map<int, int> source;  // of each name at a round's begin, in the round before
    for (const auto& [begin, end] : repeat_at(repeat).carry) {
      source[begin] = root_of(end);
    }
    constexpr std::int64_t kOpen = -1;  // names on the path; a ring of them only changes names
    absl::flat_hash_map<int, std::int64_t> rounds;
    for (const auto& [begin, end] : repeat_at(repeat).carry) {
      std::vector<int> path;
      int now = begin;
      while (source.contains(now) && rounds.try_emplace(now, kOpen).second) {
        path.push_back(now);
        now = source[now];
      }
      std::int64_t lived = rounds.contains(now) ? std::max<std::int64_t>(rounds[now], 0) : 0;
      for (; !path.empty(); path.pop_back()) rounds[path.back()] = ++lived;
      script_.carried_rounds = std::max(script_.carried_rounds, lived);
    }
  }

  const Program& program_;
  const OpTable& ops_;
  Script script_;
  absl::flat_hash_map<std::string, int> numbers_;
};

}  // namespace

StatusOr<Script> script_of(const Program& program, const OpTable& ops) {
  return ScriptWriter(program, ops).run();
}

}  // namespace tessera
