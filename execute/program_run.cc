#include "execute/program_run.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_format.h"
#include "dtensor/observer.h"
#include "execute/prepared_steps.h"

namespace tessera {

struct ProgramRun::State {
  Runtime& runtime;
  Program program;
  PreparedProgram prepared;
};

namespace {

/// The marks that an observer has of a step.
StepMarks marks_of(const StepOrigin& origin) {
  StepMarks marks{.stage = origin.stage, .micro_batch = origin.micro_batch};
  if (origin.phase == StepPhase::kBackward) marks.pass = PassMark::kBackward;
  if (origin.phase == StepPhase::kOptimizer) marks.pass = PassMark::kUpdate;
  return marks;
}

/// Restores the module of events.
class ModuleOfStep {
 public:
  explicit ModuleOfStep(EventLog& events) : events_(events), before_(events.module()) {}
  ~ModuleOfStep() { events_.set_module(before_); }
  ModuleOfStep(const ModuleOfStep&) = delete;
  ModuleOfStep& operator=(const ModuleOfStep&) = delete;
  void enter(std::string module) { events_.set_module(std::move(module)); }

 private:
  EventLog& events_;
  std::string before_;
};

std::string place_of(const DTensor& x) { return x.defined() ? x.spec().to_string() : "undefined"; }

/// One run.
class Running {
 public:
  Running(Runtime& runtime, const Program& program, const PreparedProgram& prepared,
          const AfterStep& after_step)
      : runtime_(runtime),
        program_(program),
        prepared_(prepared),
        after_step_(after_step),
        module_(runtime.events()) {}

  ProgramTensors run(ProgramTensors given) {
    begin(std::move(given));
    const NoGrad no_grad(runtime_);
    throw_if_error(walk(program_.steps, scope_, [this](const AnyStep& step) {
      take(step);
      return absl::OkStatus();
    }));
    ProgramTensors left;
    for (const auto& [name, own] : prepared_.left) left[name] = std::move(values_[own]);
    return left;
  }

 private:
  void begin(ProgramTensors given) {
    for (const ProgramValue& value : program_.values)
      throw_if_error(scope_.declare(value).status());
    for (const WantedValue& wanted : prepared_.wanted) {
      const auto found = given.find(wanted.name);
      if (found == given.end()) {
        refuse(wanted.name, "it is missing; it has to be " + wanted.spec.to_string());
      }
      if (!found->second.defined() || !(found->second.spec() == wanted.spec)) {
        refuse(wanted.name,
               "it is " + place_of(found->second) + ", and has to be " + wanted.spec.to_string());
      }
      values_[wanted.name] = std::move(found->second);
      given.erase(found);
    }
    if (!given.empty())
      refuse(given.begin()->first, "the program has no such value before its steps");
    end_values();  // before the first step
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& text) const {
    throw Error(invalid_argument("program " + in_quotes(program_.name) + ": value " +
                                 in_quotes(name) + ": " + text));
  }

  void take(const AnyStep& step) {
    ++now_;
    const PreparedStep& prepared = prepared_.steps.find(&step)->second;
    try {
      run_step(step, prepared);
    } catch (const Error& error) {
      if (error.status().code() == absl::StatusCode::kUnavailable) throw;  // another rank's
      throw Error(Status(error.status().code(),
                         to_absl("program " + in_quotes(program_.name) + ": " + prepared.place +
                                 ": " + std::string(message_of(error.status())))));
    }
    end_values();
  }

  void run_step(const AnyStep& step, const PreparedStep& prepared) {
    if (std::holds_alternative<FreeStep>(step.what)) return;
    module_.enter(scope_.module(step.origin.module));
    const MarkScope marks(runtime_, marks_of(step.origin));
    if (prepared.call) {
      run_call(step, prepared);
    } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      DTensor moved = prepared.move->run(value(move->value),
                                         move->implicit ? Origin::kImplicit : Origin::kExplicit,
                                         move->needed_by);
      keep(move->out, std::move(moved));
    } else if (prepared.region != nullptr) {
      run_region(std::get<RegionStep>(step.what), prepared);
    }
    if (after_step_) after_step_(step);
  }

  void run_call(const AnyStep& step, const PreparedStep& prepared) {
    absl::InlinedVector<const DTensor*, 6> operands;
    for (std::size_t i = 0; i < prepared.reads.size(); ++i) {
      operands.push_back(&argument(prepared, i));
    }
    Results results = prepared.call->run({operands.data(), operands.size()});
    const auto& call = std::get<CallStep>(step.what);
    for (std::size_t o = 0; o < call.out.size(); ++o) keep(call.out[o], std::move(results[o]));
  }

  void run_region(const RegionStep& region, const PreparedStep& prepared) {
    std::vector<DTensor> args;
    for (std::size_t i = 0; i < prepared.reads.size(); ++i) {
      args.push_back(argument(prepared, i));
    }
    std::vector<DTensor> results = prepared.region(
        {.runtime = runtime_, .step = region, .args = args, .results = prepared.specs});
    if (results.size() != region.out.size()) {
      throw Error(failed_precondition(
          absl::StrFormat("region %s gave %d results, and the program has %d of it", region.name,
                          results.size(), region.out.size())));
    }
    for (std::size_t o = 0; o < results.size(); ++o) {
      if (!results[o].defined() || !(results[o].spec() == prepared.specs[o])) {
        throw Error(failed_precondition(absl::StrFormat(
            "region %s: result %s is %s, and has to be %s", region.name,
            in_quotes(region.out[o].name), place_of(results[o]), prepared.specs[o].to_string())));
      }
      keep(region.out[o], std::move(results[o]));
    }
  }

  const DTensor& argument(const PreparedStep& prepared, std::size_t place) {
    static const DTensor kAbsent;
    if (prepared.reads[place] != nullptr) return value(*prepared.reads[place]);
    const auto number = prepared.numbers.find(place);
    return number == prepared.numbers.end() ? kAbsent : number->second;
  }
  const DTensor& value(const std::string& name) {
    return values_.find(value_or_throw(scope_.use(name)))->second;
  }
  void keep(const ProgramValue& value, DTensor made) {
    std::string own = value_or_throw(scope_.make(value.name));
    if (made.name().empty()) made.set_name(own);
    values_[std::move(own)] = std::move(made);
  }
  void end_values() {
    for (; next_end_ < prepared_.ends.size() && prepared_.ends[next_end_].after <= now_;
         ++next_end_) {
      values_.erase(prepared_.ends[next_end_].name);
    }
  }

  Runtime& runtime_;
  const Program& program_;
  const PreparedProgram& prepared_;
  const AfterStep& after_step_;
  ModuleOfStep module_;
  RoundScope scope_;
  absl::flat_hash_map<std::string, DTensor> values_;  ///< by their own names
  std::int64_t now_ = -1;                             ///< the present step's number
  std::size_t next_end_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<ProgramRun>> ProgramRun::make(Runtime& runtime, Program program,
                                                       const RegionTable& regions) {
  auto state = std::make_unique<State>(State{runtime, std::move(program), {}});
  TSR_ASSIGN_OR_RETURN(state->prepared, prepare(runtime, state->program, regions));
  return std::unique_ptr<ProgramRun>(new ProgramRun(std::move(state)));
}

ProgramRun::ProgramRun(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProgramRun::~ProgramRun() = default;

const Program& ProgramRun::program() const noexcept { return state_->program; }
const std::vector<WantedValue>& ProgramRun::wanted() const noexcept {
  return state_->prepared.wanted;
}

ProgramTensors ProgramRun::run(ProgramTensors given, const AfterStep& after_step) {
  return Running(state_->runtime, state_->program, state_->prepared, after_step)
      .run(std::move(given));
}

}  // namespace tessera
