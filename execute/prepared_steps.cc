// How a program is made ready. First what can be said of it as a whole: the number of ranks, values
// without placements, regions that nobody runs. Then its steps are gone through once, in the order
// in which they will run, names alone: the first time that a step is met its call is resolved for
// the specs of the values that it reads; each time it is noted which step used a value last, and
// which value has taken the place of a parameter or a state.
#include "execute/prepared_steps.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "program/call_arguments.h"
#include "program/unfold.h"

namespace tessera {
namespace {

/// Of several names of one kind, an error says so many.
constexpr std::size_t kMostNamed = 10;

class Named {
 public:
  void add(const std::string& name) {
    if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
  }
  bool empty() const { return names_.empty(); }
  std::string text() const {
    std::string text;
    for (std::size_t i = 0; i < names_.size() && i < kMostNamed; ++i) {
      text += (i == 0 ? "" : ", ") + in_quotes(names_[i]);
    }
    if (names_.size() > kMostNamed) {
      text += absl::StrFormat(" and %d more", names_.size() - kMostNamed);
    }
    return text;
  }

 private:
  std::vector<std::string> names_;
};

template <class Visit>
void for_each_step(const std::vector<AnyStep>& steps, const std::string& place,
                   const Visit& visit) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string own = place + "/steps/" + std::to_string(i);
    if (const auto* repeat = std::get_if<RepeatStep>(&steps[i].what)) {
      for_each_step(repeat->steps, own, visit);
    } else {
      visit(steps[i], own);
    }
  }
}

/// An argument that is a number, and its place among those of its step.
using WrittenNumber = std::pair<std::size_t, const Json*>;

void add_reads(const Json::Array& args, PreparedStep& step, std::vector<WrittenNumber>& numbers) {
  for (const Json& arg : args) {
    if (const Json::Array* list = arg.if_array()) {
      add_reads(*list, step, numbers);
      continue;
    }
    if (is_number(arg)) numbers.emplace_back(step.reads.size(), &arg);
    step.reads.push_back(arg.if_string());
  }
}

/// What a step reads and makes, as written. Returns the numbers that it reads.
std::vector<WrittenNumber> describe(const AnyStep& step, PreparedStep& prepared) {
  std::vector<WrittenNumber> numbers;
  std::visit(
      [&](const auto& what) {
        using T = std::decay_t<decltype(what)>;
        if constexpr (std::is_same_v<T, CallStep> || std::is_same_v<T, RegionStep>) {
          add_reads(what.args, prepared, numbers);
          for (const ProgramValue& value : what.out) prepared.makes.push_back(&value);
        } else if constexpr (std::is_same_v<T, MoveStep>) {
          prepared.reads.push_back(&what.value);
          prepared.makes.push_back(&what.out);
        } else if constexpr (std::is_same_v<T, FreeStep>) {
          for (const std::string& name : what.values) prepared.reads.push_back(&name);
        } else if constexpr (std::is_same_v<T, HostReadStep>) {
          prepared.reads.push_back(&what.value);
        }
      },
      step.what);
  return numbers;
}

double value_of(const Json& number) {
  const std::int64_t* integer = number.if_integer();
  return integer != nullptr ? static_cast<double>(*integer) : *number.if_number();
}

/// But for totals, which are of all slices alike.
bool same_moves(const std::vector<ProgramMove>& a, const std::vector<ProgramMove>& b) {
  return std::ranges::equal(a, b, [](const ProgramMove& x, const ProgramMove& y) {
    return x.collective == y.collective && x.axes == y.axes && x.bytes.max == y.bytes.max;
  });
}

/// Whether it brings what a call gave to where it was declared (with_moves()).
bool brings_result(const AnyStep& step) {
  const auto* move = std::get_if<MoveStep>(&step.what);
  return move != nullptr && move->implicit && move->needed_by.starts_with("result of ");
}

class Preparer {
 public:
  Preparer(Runtime& runtime, const Program& program, const RegionTable& regions)
      : runtime_(runtime), program_(program), regions_(regions) {}

  StatusOr<PreparedProgram> run() {
    TSR_RETURN_IF_ERROR(check_whole());
    TSR_RETURN_IF_ERROR(find_meshes());
    for (const ProgramValue& value : program_.values) TSR_RETURN_IF_ERROR(declare(value));
    for_each_step(program_.steps, "", [this](const AnyStep& step, const std::string& place) {
      done_.steps[&step].place = place;
    });
    TSR_RETURN_IF_ERROR(
        walk(program_.steps, scope_, [this](const AnyStep& step) { return take(step); }));
    finish();
    return std::move(done_);
  }

 private:
  struct Known {
    const Spec* spec = nullptr;
    ValueRole role = ValueRole::kTemporary;
    std::string began_as = {};   ///< the value before the first step whose place it has
    std::int64_t last_use = -1;  ///< the step's number
    std::int64_t freed_after = -1;
    bool is_replaced = false;
    bool only_moves = false;  ///< nobody wrote it: it stands for another value on its way
  };

  Status error(std::string_view text) const {
    return failed_precondition("program " + in_quotes(program_.name) + ": " + std::string(text));
  }

  Status check_whole() const {
    const std::int64_t ranks = runtime_.world().size();
    if (program_.ranks != ranks) {
      return invalid_argument(absl::StrFormat("program %s: it is of %d ranks, the world has %d",
                                              in_quotes(program_.name), program_.ranks, ranks));
    }
    Named unplaced, unknown;
    const auto check = [&](const ProgramValue& value) {
      if (value.mesh && !value.layout) unplaced.add(value.name);
    };
    std::string first;
    for (const ProgramValue& value : program_.values) check(value);
    for_each_step(program_.steps, "", [&](const AnyStep& step, const std::string& place) {
      if (const auto* call = std::get_if<CallStep>(&step.what)) {
        std::ranges::for_each(call->out, check);
      } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
        check(move->out);
      } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
        std::ranges::for_each(region->out, check);
        if (regions_.contains(region->name)) return;
        if (unknown.empty()) first = place;
        unknown.add(region->name);
      }
    });
    if (!unplaced.empty()) {
      return error("values without placements: " + unplaced.text() +
                   "; where they lie has to be decided before it runs");
    }
    if (unknown.empty()) return absl::OkStatus();
    return error("regions that nothing here runs: " + unknown.text() + ", the first at " + first +
                 "; give a function for each, or write them as ops");
  }

  /// Of slices alike this rank has its own.
  Status find_meshes() {
    for (const ProgramMesh& each : program_.meshes) {
      Mesh& own = meshes_.emplace_back(each.mesh);
      if (!each.of) continue;
      const Mesh& whole = program_.meshes[static_cast<std::size_t>(*each.of)].mesh;
      if (!whole.coord_of(runtime_.rank())) continue;
      std::vector<int> axes;
      for (int axis = 0; axis < own.ndim(); ++axis) {
        TSR_ASSIGN_OR_RETURN(axes.emplace_back(), whole.find_axis(own.axis_label(axis)));
      }
      TSR_ASSIGN_OR_RETURN(own, whole.sub_mesh(axes, runtime_.rank()));
    }
    return absl::OkStatus();
  }

  StatusOr<Spec> spec_of(const ProgramValue& value) const {
    if (!value.mesh) return Spec::plain(value.global_shape, value.dtype);
    return Spec::make(meshes_[static_cast<std::size_t>(*value.mesh)], value.global_shape,
                      value.dtype, *value.layout);
  }

  Status declare(const ProgramValue& value) {
    TSR_ASSIGN_OR_RETURN(const Spec spec, spec_of(value));
    TSR_ASSIGN_OR_RETURN(const std::vector<std::string> names, scope_.declare(value));
    for (const std::string& name : names) {
      done_.wanted.push_back({.name = name, .spec = spec, .role = value.role});
      known_[name] = {.spec = runtime_.intern(spec), .role = value.role, .began_as = name};
    }
    return absl::OkStatus();
  }

  Status take(const AnyStep& step) {
    if (++now_ > kMaxUnfoldedSteps) {
      return out_of_range(absl::StrFormat("program %s: more than %d steps, every round counted",
                                          in_quotes(program_.name), kMaxUnfoldedSteps));
    }
    PreparedStep& prepared = done_.steps.find(&step)->second;
    const Status taken = take(step, prepared);
    if (taken.ok()) return taken;
    return Status(taken.code(), to_absl("program " + in_quotes(program_.name) + ": " +
                                        prepared.place + ": " + std::string(message_of(taken))));
  }

  Status take(const AnyStep& step, PreparedStep& prepared) {
    const bool is_first = prepared.reads.empty() && prepared.makes.empty();
    std::vector<WrittenNumber> numbers;
    if (is_first) numbers = describe(step, prepared);
    std::vector<std::string> names;  // own ones
    for (const std::string* read : prepared.reads) {
      names.emplace_back();
      if (read == nullptr) continue;
      TSR_ASSIGN_OR_RETURN(names.back(), scope_.use(*read));
      const auto found = known_.find(names.back());
      if (found == known_.end()) {
        return invalid_argument(in_quotes(*read) + ": no such value here");
      }
      if (std::holds_alternative<FreeStep>(step.what)) {
        found->second.freed_after = now_;
      } else {
        found->second.last_use = now_;
        found->second.only_moves |= brings_result(step);
      }
    }
    if (is_first) {
      TSR_RETURN_IF_ERROR(make_numbers(numbers, names, prepared));
      TSR_RETURN_IF_ERROR(resolve(step, names, prepared));
    }
    return make_results(step, names, prepared);
  }

  /// Plain 0-d tensors, alike on all ranks.
  Status make_numbers(const std::vector<WrittenNumber>& numbers,
                      const std::vector<std::string>& names, PreparedStep& prepared) {
    NumberDType beside;
    for (const std::string& name : names) {
      if (!name.empty()) beside.see_tensor(known_.find(name)->second.spec->dtype());
    }
    for (const auto& [place, number] : numbers) beside.see_number(*number);
    const std::optional<DType> dtype = beside.dtype();
    for (const auto& [place, number] : numbers) {
      if (!dtype) {
        return invalid_argument("an argument is the number " + number->to_string() +
                                ", and none beside it is a floating tensor; give it a 0-d one");
      }
      const double elements[] = {value_of(*number)};
      const Array value = Array::from_values({}, *dtype, elements);
      prepared.numbers[place] = plain(runtime_, to_device(runtime_.kernels(), value));
    }
    return absl::OkStatus();
  }

  Status resolve(const AnyStep& step, const std::vector<std::string>& names,
                 PreparedStep& prepared) {
    for (const ProgramValue* value : prepared.makes) {
      TSR_ASSIGN_OR_RETURN(prepared.specs.emplace_back(), spec_of(*value));
    }
    if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      prepared.region = regions_.find(region->name)->second;
    }
    if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      TSR_ASSIGN_OR_RETURN(prepared.move,
                           move_of(*move, *known_.find(names[0])->second.spec, prepared.specs[0]));
    }
    const auto* call = std::get_if<CallStep>(&step.what);
    if (call == nullptr) return absl::OkStatus();
    TSR_ASSIGN_OR_RETURN(const Op* op, runtime_.ops().find(call->op));
    TSR_ASSIGN_OR_RETURN(const Attrs attrs, attrs_of_call(*op, call->attrs));
    std::vector<const Spec*> operands, results;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto number = prepared.numbers.find(i);
      operands.push_back(number != prepared.numbers.end() ? &number->second.spec()
                         : names[i].empty()               ? nullptr
                                                          : known_.find(names[i])->second.spec);
    }
    for (std::size_t i = operands.size(); i < op->def.args.size(); ++i) {
      if (op->def.args[i].kind != ArgDef::Kind::kOptional) break;
      operands.push_back(nullptr);
      prepared.reads.push_back(nullptr);
    }
    for (const Spec& spec : prepared.specs) results.push_back(&spec);
    TSR_ASSIGN_OR_RETURN(prepared.call,
                         StatedStep::make(runtime_, *op, operands, results, attrs, call->row));
    return absl::OkStatus();
  }

  /// By the plan whose moves the program says: the Runtime's own, or that with fewest bytes.
  StatusOr<StatedMove> move_of(const MoveStep& move, const Spec& from, const Spec& to) {
    if (move.moves) {
      TSR_ASSIGN_OR_RETURN(StatedMove own,
                           StatedMove::make(runtime_, from, to, PlannedBy::kRuntime));
      if (same_moves(moves_of(own.plan()), *move.moves)) return own;
    }
    return StatedMove::make(runtime_, from, to, PlannedBy::kBytes);
  }

  Status make_results(const AnyStep& step, const std::vector<std::string>& names,
                      const PreparedStep& prepared) {
    for (std::size_t o = 0; o < prepared.makes.size(); ++o) {
      const ProgramValue& value = *prepared.makes[o];
      TSR_ASSIGN_OR_RETURN(const std::string own, scope_.make(value.name));
      Known made{.spec = runtime_.intern(prepared.specs[o]), .role = value.role};
      if (const auto* move = std::get_if<MoveStep>(&step.what)) made.only_moves = move->implicit;
      if (Known* before =
              value.role == ValueRole::kTemporary ? nullptr : replaced_by(step, names, o, made)) {
        made.began_as = before->began_as;
        before->is_replaced = true;
      }
      known_[own] = std::move(made);
    }
    return absl::OkStatus();
  }

  /// The argument whose place the result takes: the one that it is written into, else the first
  /// with its role and spec that no other has replaced; null: none.
  Known* replaced_by(const AnyStep& step, const std::vector<std::string>& names, std::size_t result,
                     const Known& made) {
    const auto takes = [&](const std::string& name) -> Known* {
      const auto found = known_.find(name);
      if (found == known_.end()) return nullptr;
      Known& known = found->second;
      const bool fits = known.role == made.role && known.spec == made.spec &&
                        !known.began_as.empty() && !known.is_replaced;
      return fits ? &known : nullptr;
    };
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      const StatusOr<const Op*> op = runtime_.ops().find(call->op);
      const int alias = op.ok() ? (*op)->alias_of(result) : -1;
      if (alias >= 0) return takes(names[static_cast<std::size_t>(alias)]);
    }
    for (const std::string& name : names) {
      if (Known* known = takes(name)) return known;
    }
    return nullptr;
  }

  /// Where each value ends, and what is left. Where a program frees values, one that it does not
  /// free is there at its end, but for what with_moves() has added.
  void finish() {
    bool frees = false;
    for (const auto& [name, known] : known_) frees |= known.freed_after >= 0;
    for (const auto& [name, known] : known_) {
      const bool stays = known.freed_after < 0 && known.role != ValueRole::kInput &&
                         !known.began_as.empty() && !known.is_replaced;
      const bool is_used_up = known.last_use >= 0 && (!frees || known.only_moves);
      const bool is_result = known.freed_after < 0 && !is_used_up && known.began_as.empty();
      if (stays) done_.left.emplace_back(known.began_as, name);
      if (is_result) done_.left.emplace_back(name, name);
      if (stays || is_result) continue;
      // What was never used ends before the first step.
      done_.ends.push_back({std::max(known.freed_after, known.last_use), name});
    }
    std::ranges::sort(done_.ends, [](const ValueEnd& a, const ValueEnd& b) {
      return std::tie(a.after, a.name) < std::tie(b.after, b.name);
    });
    std::ranges::sort(done_.left);
  }

  Runtime& runtime_;
  const Program& program_;
  const RegionTable& regions_;
  PreparedProgram done_;
  std::vector<Mesh> meshes_;  ///< of this rank
  RoundScope scope_;
  absl::flat_hash_map<std::string, Known> known_;  ///< by their own names
  std::int64_t now_ = -1;                          ///< the present step's number
};

}  // namespace

StatusOr<PreparedProgram> prepare(Runtime& runtime, const Program& program,
                                  const RegionTable& regions) {
  return Preparer(runtime, program, regions).run();
}

}  // namespace tessera
